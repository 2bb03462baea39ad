"""The certified mechanisms as the auditor sees them: functions of a data set and a generator."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np

from dpstats.audit import Pair, worst_cases
from dpstats.families import Binomial, Family, Gaussian, HuberSVM, Poisson, SmoothSVM
from dpstats.models.glm import GLM
from dpstats.plan import Plan
from dpstats.request import Request, make_request


@dataclass(frozen=True)
class Case:
    """One way to call the package, and the neighbours that press it hardest.

    Attributes
    ----------
    worst : str
        The pair at which a pilot over all pairs found the greatest bound (``benchmarks/audit.py``).
    """

    name: str
    family: Family
    worst: str
    eps: float = 1.0
    delta: float = 0.0
    adjacency: str = "add_remove"
    row_norm: float | dict[str, float] = 1.0
    size: int = 1
    options: dict[str, Any] = field(default_factory=dict)

    def model(self, data: Any) -> GLM:
        endog, exog = data
        return GLM(endog, exog, family=self.family, row_norm=self.row_norm)

    @cached_property
    def request(self) -> Request:
        named = {"method": "napp", "penalty": None, "alpha": None, "allow_uncertified": False, "seed": None}
        rest = {key: value for key, value in self.options.items() if key not in named}
        given = named | {key: value for key, value in self.options.items() if key in named}
        return make_request(
            eps=self.eps, delta=self.delta, family=self.family, adjacency=self.adjacency, options=rest, **given
        )

    @cached_property
    def plan(self) -> Plan:
        """Public, so that one serves all runs and both data sets."""
        return self.plan_for((np.empty(0), np.empty((0, self.size))))

    def plan_for(self, data: Any) -> Plan:
        return self.model(data)._source.plan(self.request)

    def mechanism(self, *, secure: bool = False, plan: Plan | None = None) -> Callable[[Any, np.random.Generator], Any]:
        """What ``GLM(...).fit(...)`` does once it has planned; with `secure` by the operating system's randomness."""
        plan, request = plan or self.plan, self.request

        def release(data: Any, rng: np.random.Generator) -> Any:
            seed = None if secure else int(rng.integers(2**62))
            return self.model(data)._release(plan, replace(request, seed=seed)).params

        return release

    @property
    def pairs(self) -> list[Pair]:
        bound = self.row_norm if isinstance(self.row_norm, (int, float)) else self.row_norm["l2"]
        return list(worst_cases(self.family, bound, self.size, self.adjacency))

    @property
    def worst_pair(self) -> Pair:
        return next(pair for pair in self.pairs if pair.name == self.worst)


TIGHT = {"curvature": 0.4}
CASES = [
    Case("logistic", Binomial(), "empty, axis row, response 1"),
    Case("logistic, least curvature", Binomial(), "empty, axis row, response 1", options=TIGHT),
    Case("logistic, 3 columns", Binomial(), "empty, axis row, response 1", size=3, options=TIGHT),
    Case("logistic, rows up to 3", Binomial(), "empty, axis row, response 1", row_norm=3.0, options={"curvature": 4.0}),
    Case(
        "logistic, l1 noise",
        Binomial(),
        "empty, axis row, response 1",
        row_norm={"l2": 1.0, "l1": 1.0},
        size=2,
        options=TIGHT,
    ),
    Case("logistic, Gaussian noise", Binomial(), "empty, axis row, response 1", delta=0.05, options=TIGHT),
    Case(
        "logistic, one row replaced",
        Binomial(),
        "empty, axis row, response 1 to 0",
        adjacency="replace_one",
        options={"curvature": 1.0},
    ),
    Case("Huber SVM", HuberSVM(), "empty, axis row, response 1", options={"curvature": 3.0}),
    Case("smooth SVM", SmoothSVM(), "empty, axis row, response 1", options={"curvature": 3.0}),
    Case("least squares", Gaussian(residual_cap=2.0), "empty, axis row, response 1", options={"curvature": 4.6}),
    Case(
        "least squares, Gaussian noise",
        Gaussian(residual_cap=2.0),
        "empty, axis row, response 1",
        delta=0.05,
        options={"curvature": 4.6},
    ),
    Case("Poisson", Poisson(mean_cap=10.0, y_max=10), "empty, axis row, response 10", options={"curvature": 46.0}),
]
