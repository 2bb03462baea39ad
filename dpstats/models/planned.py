"""What a dry run can do later: be fitted to data, or to rows that are made up."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import pandas as pd

from dpstats.domain import Domain
from dpstats.families import Family
from dpstats.models.foreseen import Forecast, forecast
from dpstats.models.glm import GLM
from dpstats.models.made_up import made_up_rows
from dpstats.plan import Plan, replanned
from dpstats.results.glm_results import GLMResults


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

    def simulate(self, plan: Plan, n: int, seed: int, typical: object, like: object) -> GLMResults:
        """The fit of rows that are made up by the Domain; see `Plan.simulate`."""
        return self.fit(made_up_rows(plan, n, seed, typical, like), None, seed=seed)

    def made_up(self, plan: Plan, n: int, seed: int, typical: object, like: object) -> pd.DataFrame:
        """Rows that are made up by the Domain; see `Plan.made_up`."""
        return made_up_rows(plan, n, seed, typical, like)

    def at(self, eps: float) -> Planned:
        """The same at another budget."""
        return replace(self, arguments={**self.arguments, "eps": eps})

    def replanned(self, plan: Plan, eps: float) -> Plan:
        """Its plan at another budget."""
        return replanned(plan, eps)

    def forecast(self, plan: Plan, residual_sd: float | None, typical: object, like: object) -> Forecast:
        """What errors fits are likely to show, by their numbers of rows; see `Plan.standard_errors`."""
        return forecast(plan, residual_sd, typical, like)
