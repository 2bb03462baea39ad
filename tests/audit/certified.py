"""The certified mechanisms as the auditor sees them: functions of a data set and a generator."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np

from dpstats.audit import Pair, worst_cases
from dpstats.families import Binomial, Family, Gaussian, HuberSVM, Poisson, SmoothSVM
from dpstats.models.glm import GLM, release_fit
from dpstats.penalties import Bridge, ElasticNet
from dpstats.plan import Plan
from dpstats.privacy.randomness import random_source


@dataclass(frozen=True)
class Case:
    """One way to call the package, and the neighbours that press it hardest.

    Attributes
    ----------
    worst : str
        The pair at which a pilot over all pairs found the greatest bound (``benchmarks/audits/mechanisms.py``).
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
    def plan(self) -> Plan:
        """Public, so that one serves all runs and both data sets."""
        return self.plan_for((np.empty(0), np.empty((0, self.size))))

    def plan_for(self, data: Any) -> Plan:
        return self.model(data).plan(self.eps, delta=self.delta, adjacency=self.adjacency, **self.options)

    @property
    def claim(self) -> dict[str, float]:
        """What the plan says it costs, which may be less than was asked for."""
        return {"eps": self.plan.guarantee.eps, "delta": self.plan.guarantee.delta}

    def mechanism(self, *, secure: bool = False, plan: Plan | None = None) -> Release:
        """The case as a function of data and generator."""
        return Release(self, plan or self.plan, secure)

    @property
    def l2_bound(self) -> float:
        return self.row_norm if isinstance(self.row_norm, (int, float)) else self.row_norm["l2"]

    @property
    def pairs(self) -> list[Pair]:
        return list(worst_cases(self.family, self.l2_bound, self.size, self.adjacency))

    @property
    def worst_pair(self) -> Pair:
        return next(pair for pair in self.pairs if pair.name == self.worst)


@dataclass(frozen=True)
class Release:
    """What ``GLM(...).fit(...)`` does once it has planned; with `secure` by the operating system's randomness.

    All that the result releases counts: the coefficients, and a second stage's curvature, which tells the first.
    """

    case: Case
    plan: Plan
    secure: bool

    def __call__(self, data: Any, rng: np.random.Generator) -> Any:
        seed = None if self.secure else int(rng.integers(2**62))
        source = self.case.model(data)._source
        plan = replace(self.plan, request=replace(self.plan.request, seed=seed))
        fit = release_fit(source, plan, random_source(plan.request.seed), source.data)
        return [fit.params, *([fit.plan.curvature] if len(self.plan.stages) > 1 else [])]


def weakened(plan: Plan, factor: float) -> Plan:
    """The plan with the scale of every noise in its objectives divided by `factor`."""
    return replace(
        plan,
        stages=tuple(
            stage._replace(
                plan=replace(stage.plan, noise=replace(stage.plan.noise, scale=stage.plan.noise.scale / factor))
            )
            for stage in plan.stages
        ),
    )


AXIS = "empty, axis row, response 1"
OUTPUT = {"method": "output", "curvature": 1.0}
AWARE = {"selection": "noise_aware", "refit_share": 0.3}
LEAST = {"curvature": 0.4}
SQUARED = Gaussian(residual_cap=2.0)
CASES = [
    Case("logistic", Binomial(), AXIS),
    Case("logistic, least curvature", Binomial(), AXIS, options=LEAST),
    Case("logistic, 3 columns", Binomial(), AXIS, size=3, options=LEAST),
    Case("logistic, rows up to 3", Binomial(), AXIS, row_norm=3.0, options={"curvature": 4.0}),
    Case("logistic, l1 noise", Binomial(), AXIS, row_norm={"l2": 1.0, "l1": 1.0}, size=2, options=LEAST),
    Case("logistic, Gaussian noise", Binomial(), AXIS, delta=0.05, options=LEAST),
    Case("logistic, row replaced", Binomial(), AXIS + " to 0", adjacency="replace_one", options={"curvature": 1.0}),
    Case("Huber SVM", HuberSVM(), AXIS, options={"curvature": 3.0}),
    Case("smooth SVM", SmoothSVM(), AXIS, options={"curvature": 3.0}),
    Case("least squares", SQUARED, AXIS, options={"curvature": 4.6}),
    Case("least squares, Gaussian noise", SQUARED, AXIS, delta=0.05, options={"curvature": 4.6}),
    Case("Poisson", Poisson(mean_cap=10.0, y_max=10), "empty, axis row, response 10", options={"curvature": 46.0}),
    Case("ridge", SQUARED, AXIS, options={"penalty": "ridge", "alpha": 5.0}),
    Case("lasso", SQUARED, AXIS, size=2, options={"penalty": "lasso", "alpha": 1.0, "curvature": 4.6}),
    Case("elastic net", Binomial(), AXIS, options={"penalty": ElasticNet(1.0, 0.5)}),
    Case("bridge, q = 1.5", SQUARED, AXIS, options={"penalty": Bridge(1.0, 1.5), "curvature": 4.6}),
    Case("budget returned", Binomial(), AXIS, options={"retrieval": "return", "curvature": 1.0}),
    Case("lasso, noise-aware", Binomial(), AXIS, size=2, options={"penalty": "lasso", "alpha": 1.0} | AWARE),
    Case("lasso, two stages", Binomial(), AXIS, size=2, options={"penalty": "lasso", "alpha": 1.0, "stages": 2}),
    Case("output", Binomial(), AXIS, options=OUTPUT),
    Case("output, 3 columns", SQUARED, AXIS, size=3, options=OUTPUT),
    Case("output, Gaussian noise", HuberSVM(), AXIS, delta=0.05, options=OUTPUT | {"noise": "gaussian"}),
    Case("output, row replaced", Binomial(), AXIS + " to 0", adjacency="replace_one", options=OUTPUT),
    Case("output, bridge", SQUARED, AXIS, size=2, options=OUTPUT | {"penalty": Bridge(1.0, 1.5)}),
    Case("bridge, q = 0.5, two stages", SQUARED, AXIS, size=2, options={"penalty": Bridge(1.0, 0.5), "stages": 2}),
]
