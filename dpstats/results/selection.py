"""Which columns of a design made it into a fit, and what decided it."""

from __future__ import annotations

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from dpstats.frames import Printed
from dpstats.mechanisms.screening import split_terms
from dpstats.plan import Plan, penalty_weights

COLUMNS = ["selected", "weight", "threshold"]


def selection_facts(plan: Plan, scaled_params: NDArray[np.float64]) -> pd.DataFrame:
    """The table `GLMResults.selection` returns; see there."""
    objective = plan.objective
    sparse = objective.penalty is not None and objective.penalty.sparse
    if not sparse and plan.screening is None:
        return Printed(columns=COLUMNS)
    selected = scaled_params != 0
    table = {"selected": selected if sparse else plan.kept}
    if plan.screening is not None:
        table["how"] = np.where(plan.kept & ~selected & sparse, "penalty", _screened(plan))
    if sparse:
        assert objective.penalty is not None
        slope = objective.penalty.majorizer(1.0, 1.0) if objective.penalty.name == "lasso" else 1.0
        weight, threshold = np.full((2, len(plan.names)), np.nan)
        weight[plan.kept] = float(slope) * objective.penalty_weights
        threshold[plan.kept] = objective.threshold
        table |= {"weight": weight, "threshold": threshold}
    return Printed(table, index=pd.Index(plan.names, name="term"))


def _screened(plan: Plan) -> NDArray[np.str_]:
    """ "always" for columns that screening does not choose, "screened" for the others, shape (p,)."""
    always, _ = split_terms(plan.design, penalty_weights(plan.design, plan.request.options))
    how = np.full(len(plan.names), "screened")
    how[always] = "always"
    return how
