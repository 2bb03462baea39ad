"""The coefficients of a released model and what was released of their errors: what its tables and notes read."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from dpstats.cached import cached_property
from dpstats.errors import NotReleasedError
from dpstats.families import Family
from dpstats.frames import WideFrame
from dpstats.mechanisms.design import PublicDesign
from dpstats.mechanisms.information import Information, ReleasedSums
from dpstats.mechanisms.screening import split_terms
from dpstats.plan import Plan, penalty_weights
from dpstats.privacy.guarantee import Guarantee
from dpstats.quiet import quiet
from dpstats.results.inference_mixin import InferenceMixin
from dpstats.results.standard_errors import (
    ReleasedErrors,
    inference_of,
    missing_information,
    noise_bounds,
    selects,
    sums_inference,
    sums_noise,
)

Vector = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class ReleasedModel(InferenceMixin):
    """A model that a plan released."""

    plan: Plan
    scaled_params: Vector
    nobs: int | None = None
    released: Information | ReleasedSums | None = None

    @property
    def params(self) -> pd.Series[float]:
        """Coefficients in the user's units, indexed by column name."""
        matrix, shift = self.plan.design.back_transform()
        return pd.Series(matrix @ self.scaled_params + shift, index=list(self.plan.names), name="params")

    @property
    def guarantee(self) -> Guarantee:
        """The guarantee of everything this object shows."""
        return self.plan.guarantee

    @property
    def budget(self) -> pd.DataFrame:
        """What the budget was spent on, one purchase a row."""
        return self.plan.budget

    @property
    def selection(self) -> pd.DataFrame:
        """What screening and a sparse penalty kept, one column of the design a row; empty without either.

        Columns: selected; with screening how, "screened" in or out, "penalty" where a sparse one put a column out, or
        "always" for what is kept unasked; with a sparse penalty weight, the lasso weight of the column in model units
        (the slope at zero of another sparse penalty), and threshold, what the noise brought into it: a bound noise
        alone rarely passes ("noise_aware"), or its root mean square, below which no weight is kept ("auto").
        """
        return _selection_facts(self.plan, self.scaled_params)

    @property
    def has_errors(self) -> bool:
        """Whether standard errors were released; a sparse penalty on released sums leaves none that are valid."""
        if isinstance(self.released, ReleasedSums):
            return self.plan.request.options.inference is not None and not selects(self.plan)
        return self.released is not None

    @cached_property
    def _inferred(self) -> ReleasedErrors:
        if self.released is None or not self.has_errors:
            raise NotReleasedError(missing_information(self.plan))
        with quiet():
            if isinstance(self.released, ReleasedSums):
                return sums_inference(self.plan, self.released, self.nobs)
            return inference_of(self.plan, self.scaled_params, self.released)

    @property
    def information(self) -> pd.DataFrame:
        """The information matrix of the fitted columns as released, with its noise, in model units, shape (k, k).

        Raises
        ------
        NotReleasedError
            If the call did not release it, like all below.
        """
        if self.released is None:
            raise NotReleasedError(missing_information(self.plan))
        names = self._fitted_names
        return WideFrame(self.released.matrix, index=names, columns=names)

    @property
    def noise_at_most(self) -> pd.Series[float]:
        """A proved bound on the standard deviation that the noise gives each coefficient, in the user's units.

        Of the part that is linear in the noise, from public values alone (docs/proofs/inference, 10); of two stages,
        of the last. It needs no inference. It holds however few the rows are, so with many of them the noise is far
        less: only a coefficient beyond it says something. Of output perturbation it is the exact standard deviation of
        the noise, however many rows there are; of released statistics what it is at the released sums.
        """
        columns = np.flatnonzero(self.plan.kept) if self.released is None else np.array(self.released.columns)
        last = self.plan.stages[-1].plan
        if self.released is None and last.size != len(columns):
            columns = np.flatnonzero(self.scaled_params)
        bounds = np.full(len(self.plan.names), np.nan)
        if isinstance(self.released, ReleasedSums):
            bounds[columns] = sums_noise(self.plan, self.scaled_params, self.released)
        elif len(columns) == last.size:
            bounds[columns] = noise_bounds(self.plan, columns)
        return pd.Series(bounds, index=list(self.plan.names), name="noise_at_most")

    @property
    def _design(self) -> PublicDesign:
        return self.plan.design

    @property
    def _family(self) -> Family:
        return self.plan.family

    @property
    def _fitted_columns(self) -> NDArray[np.intp]:
        assert self.released is not None
        return np.array(self.released.columns)


COLUMNS = ["selected", "weight", "threshold"]


def _selection_facts(plan: Plan, scaled_params: NDArray[np.float64]) -> pd.DataFrame:
    """The table of `ReleasedModel.selection`."""
    objective = plan.objective
    sparse = objective.penalty is not None and objective.penalty.sparse
    if not sparse and plan.screening is None:
        return WideFrame(columns=COLUMNS)
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
    return WideFrame(table, index=pd.Index(plan.names, name="term"))


def _screened(plan: Plan) -> NDArray[np.str_]:
    """ "always" for columns that screening does not choose, "screened" for the others, shape (p,)."""
    always, _ = split_terms(plan.design, penalty_weights(plan.design, plan.request.options))
    how = np.full(len(plan.names), "screened")
    how[always] = "always"
    return how
