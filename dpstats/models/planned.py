"""What a dry run can do later: be fitted to data, or to rows that are made up."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from dpstats.arguments import shown
from dpstats.domain import Domain, Levels
from dpstats.errors import ArgumentError
from dpstats.families import Family
from dpstats.formula.design import DesignSpec
from dpstats.formula.expression import Column
from dpstats.formula.made_up import made_up_columns
from dpstats.models.glm import GLM
from dpstats.plan import Plan
from dpstats.quiet import quiet
from dpstats.results.glm_results import GLMResults

EXPLAINED = 0.5
"""Of the spread of a continuous response that is made up, the share that the columns explain."""

SPREAD = 0.3
"""Its standard deviation in units of half of its range."""

MEAN_SHARE = 0.1
"""The mean of counts that are made up, as a share of the greatest count."""

ROWS_EACH = 3
"""Rows of a person who is made up."""


@dataclass(frozen=True)
class Planned:
    """The arguments of a dry run: all of `dpstats.glm` but the data.

    Attributes
    ----------
    formula : str
        With weights, offset, exposure and subset as terms.
    family : str or Family
    domain : Domain
    arguments : dict
        Of `GLM.fit`.
    """

    formula: str
    family: str | Family
    domain: Domain
    arguments: Mapping[str, Any]

    def fit(self, data: object, engine: str | None, **more: Any) -> GLMResults:
        """The fit that was planned; `more` as for `GLM.fit`."""
        model = GLM.from_formula(self.formula, data, self.family, self.domain, engine=engine)
        given = {name: value for name, value in more.items() if value is not None}
        return model.fit(**{**self.arguments, **given})

    def simulate(self, plan: Plan, n: int, seed: int) -> GLMResults:
        """The fit of rows that are made up by the Domain; see `Plan.simulate`."""
        return self.fit(made_up_rows(plan, n, seed), None, seed=seed)


def made_up_rows(plan: Plan, n: int, seed: int) -> pd.DataFrame:
    """Rows drawn evenly from the Domain, with a response that the family and coefficients drawn at random give.

    Raises
    ------
    ArgumentError
        If `n` is no positive number of rows, or the response is not a column by itself.
    """
    design = plan.design
    if isinstance(n, bool) or not isinstance(n, (int, np.integer)) or not 1 <= n <= 10**7:
        raise ArgumentError(f"n must be a whole number of rows from 1 to 10,000,000, got {shown(n)}")
    if not isinstance(design, DesignSpec) or not isinstance(design.encoder.node, Column) or design.encoder.failures:
        raise ArgumentError("simulate needs a formula whose response is one column, as in y ~ x, not log(y) ~ x")
    random = np.random.default_rng(seed)
    table = made_up_columns(design.domain, int(n), random)
    with quiet():
        exog, complete, offset = design.predicting(table, offset=True)
        signal = np.where(complete, np.nan_to_num(exog) @ random.standard_normal(exog.shape[1]), 0.0)
        signal = (signal - signal.mean()) / (signal.std() or 1.0)
        table[design.encoder.node.name] = _response(plan, design, signal, np.nan_to_num(offset), random)
    person = plan.request.options.record.column
    if person is not None:
        table[person] = np.arange(n) // ROWS_EACH
    return pd.DataFrame(table)


def _response(
    plan: Plan,
    design: DesignSpec,
    signal: NDArray[np.float64],
    offset: NDArray[np.float64],
    random: np.random.Generator,
) -> Any:
    """A response for a linear predictor of mean 0 and variance 1, in the units of the data."""
    if design.response.kind == "binary":
        second = random.uniform(size=len(signal)) < 1 / (1 + np.exp(-signal))
        declared = design.domain[design.response_name]
        levels = declared.values if isinstance(declared, Levels) else (0, 1)
        return [levels[int(one)] for one in second]
    if design.response.kind == "count":
        mean = MEAN_SHARE * design.response.high * np.exp(0.5 * signal + offset - offset.mean())
        return np.minimum(random.poisson(np.minimum(mean, design.response.high)), design.response.high)
    low, high = design.response.low, design.response.high
    noise = random.standard_normal(len(signal))
    unit = SPREAD * (np.sqrt(EXPLAINED) * signal + np.sqrt(1 - EXPLAINED) * noise)
    return np.clip((low + high) / 2 + (high - low) / 2 * unit, low, high)
