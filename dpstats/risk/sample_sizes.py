"""How many rows make the price of privacy small (docs/risk, sample sizes)."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal

import numpy as np
import pandas as pd
from scipy import optimize

from dpstats.arguments import check_choice, is_whole, safe_repr
from dpstats.errors import ArgumentError
from dpstats.families import Family, get_family
from dpstats.families.base import check_cap
from dpstats.frames import WideFrame
from dpstats.mechanisms.design import array_norms
from dpstats.mechanisms.output import output_noise
from dpstats.privacy.calibration import check_positive, objective_noise
from dpstats.privacy.guarantee import Adjacency, check_adjacency, check_planned
from dpstats.privacy.noise import Noise
from dpstats.risk import literature_bounds
from dpstats.risk.gaps import check_failure, gap_mean, gap_quantile
from dpstats.risk.proved import (
    PROOF,
    NoiseQuantiles,
    OutputFacts,
    SamplingBound,
    cost_of_new_rows,
    objective_quantiles,
    output_quantiles,
    shortfall,
)
from dpstats.risk.rows_needed import ErrorSize, SampleSize, rows_for_errors
from dpstats.wording import argument

NO_JACOBIAN = 1e6  # curvature, over the least feasible one, at which the Jacobian costs next to nothing
LARGEST_LOG_ROWS = 90.0  # the natural logarithm of the largest number of rows that is tried
TRIALS = 24  # curvatures that are tried before the best one is refined


def sample_size(
    family: str | Family | Any,
    columns: int | None = None,
    *,
    eps: float | None = None,
    target: float | None = None,
    se: Mapping[str, float] | None = None,
    residual_sd: float | None = None,
    typical: Mapping[str, Any] | None = None,
    like: Any = None,
    radius: float | None = None,
    delta: float = 0.0,
    pi: float = 0.05,
    row_norm: float | Mapping[str, float] = 1.0,
    adjacency: Adjacency = "add_remove",
    curvature: float | None = None,
    method: Literal["objective", "output"] = "objective",
) -> SampleSize | ErrorSize:
    """The number of rows at which privacy costs at most `target` per row, or standard errors are as small as `se`.

    The cost is the mean loss (1/n) sum_i l(x_i'theta; y_i) at the released coefficients minus its value at any
    coefficients of norm `radius`: at the best ones for the same rows, not for new rows. The bound on the sum of the
    losses does not depend on n, so n is this bound divided by the target.

    Parameters
    ----------
    family : str, Family or Plan
        The loss, with its caps set; or a plan from `dpstats.plan`, which provides all facts: n is the bound of
        ``plan.excess_risk(pi)`` divided by the target. An `eps` replaces that of the plan.
    columns : int
        p, the number of columns, with the intercept.
    eps, delta : float
        The budget of the noise.
    target : float
        Excess of the mean loss, in units of the loss; with probability 1 - `pi`.
    se : dict
        With a plan, instead of a target: standard errors by coefficient, such as ``{"smoker": 0.1}``, in the user's
        units; with several classes by pairs of class and name. The answer is a forecast for rows simulated from the
        Domain; real rows differ.
    residual_sd, typical, like : float, dict, DataFrame, optional
        With `se`, public facts about the rows, as for ``plan.standard_errors``; `like` must be public rows.
        With a unit the number is of persons.
    radius : float
        Norm of the coefficients to compare with, in model units.
    pi : float
        Probability, over the noise, of missing the target.
    row_norm : float or dict
        Bounds on the rows, as for `dpstats.privacy.objective_noise`.
    adjacency : {"add_remove", "replace_one"}
    curvature : float, optional
        The quadratic term; by default the one that needs the fewest rows.
    method : {"objective", "output"}
        Noise in the objective, or in its optimum (always l2 noise).

    Returns
    -------
    SampleSize or ErrorSize
        With ``n`` and ``table``; it prints as a sentence.

    Raises
    ------
    ArgumentError
        If an argument is outside its range, is missing, or `curvature` is too small for any noise.

    References
    ----------
    docs/proofs/risk, theorems 2, 4, 5 and 7; Chaudhuri et al. (2011), theorems 3 and 4; Li & Liu, theorem 10.

    Examples
    --------
    >>> import dpstats as dp
    >>> dp.sample_size("binomial", 5, eps=0.5, target=0.01, radius=2.0).n
    3251
    """
    if hasattr(family, "coefficients"):
        assumptions = {"residual_sd": residual_sd, "typical": typical, "like": like}
        return _of_plan(family, eps, target, se, assumptions, radius, pi)
    if se is not None:
        if hasattr(family, "guarantee"):
            own = "; call its standard_errors(n, ...) for several n" if hasattr(family, "standard_errors") else ""
            raise ArgumentError(
                f"family: sample_size forecasts plans of generalized linear models, got {type(family).__name__}{own}"
            )
        raise ArgumentError("se needs a plan in the place of family: sample_size(dp.plan(...), se={'x': 0.1})")
    for name, value in (("columns", columns), ("eps", eps), ("target", target), ("radius", radius)):
        if value is None:
            raise ArgumentError(
                f"{name} must be given, or a plan in the place of family: sample_size(plan, target=...)"
            )
    eps, delta = check_planned(eps, delta)  # type: ignore[arg-type]
    pi, adjacency = check_failure(pi), check_adjacency(adjacency)
    loss = get_family(family)
    check_cap("target", target)
    check_cap("radius", radius)
    assert target is not None
    assert radius is not None
    if not is_whole(columns) or columns < 1:
        raise ArgumentError(f"columns must be a positive integer, got {safe_repr(columns)}")
    check_choice("method", method, ("objective", "output"))
    row_square = array_norms(row_norm, int(columns))["l2"] ** 2
    kind = _OutputRule if method == "output" else _ObjectiveRule
    rule = kind(loss, int(columns), eps, delta, pi, row_norm, row_square, adjacency, target, radius)
    if curvature is None:
        curvature = _least_cost(rule.rows, *rule.range())
    curvature = check_positive("curvature", curvature)
    n = _whole(rule.rows(curvature), "curvature")
    table = WideFrame(_table(rule, n, curvature))
    return SampleSize(n, curvature, rule.noise(curvature), table, rule.target, rule.radius, rule.pi)


def _table(rule: _Rule, n: int, curvature: float) -> pd.DataFrame:
    """``n``, the numbers for new rows at their own best curvatures, and the sources' results."""
    setting = literature_bounds.PublicSetting(
        columns=rule.columns,
        eps=rule.eps,
        delta=rule.delta,
        pi=rule.pi,
        curvature=curvature,
        lipschitz=rule.family.lipschitz * math.sqrt(rule.row_square),
        smoothness=rule.family.curvature_bound * rule.row_square,
        radius=rule.radius,
    )
    low, high = rule.range()
    sampled = 2 * rule.family.lipschitz**2 * rule.row_square / rule.target
    best = _least_cost(rule.new_rows, max(low, 1.001 * sampled), max(high, 100 * sampled))
    fresh, note = _whole(rule.new_rows(best), "target"), f"in the mean, sampling included; at curvature {best:.4g}"
    sure = _least_cost(rule.surely_new_rows, best / 10, 1000 * best)
    surely = _whole(rule.surely_new_rows(sure), "target")
    how = f"with probability {1 - rule.pi:g}; at curvature {sure:.4g}"
    proved = [
        ("unregularised, same rows", f"{PROOF}, theorem {rule.theorem}", n, "proved", "the price of privacy alone"),
        ("population", f"{PROOF}, theorem 5", fresh, "proved", note),
        ("population", f"{PROOF}, theorem 7", surely, "proved", how),
    ]
    return pd.DataFrame(
        [*proved, *literature_bounds.printed_sizes(setting, rule.target, rule.method)],
        columns=["bound", "source", "n", "holds", "note"],
    )


def _of_plan(
    plan: Any,
    eps: float | None,
    target: float | None,
    se: Mapping[str, float] | None,
    assumptions: Mapping[str, Any],
    radius: float | None,
    pi: float,
) -> SampleSize | ErrorSize:
    """The answer for a plan, by its own noise and curvature."""
    if (target is None) == (se is None):
        raise ArgumentError("target or se must be given, one of them: sample_size(plan, se={'x': 0.1})")
    plan = plan if eps is None else plan.at(eps)
    if se is not None:
        return rows_for_errors(plan, se, **assumptions)
    if not hasattr(plan, "objective"):
        raise ArgumentError("target is not offered for several classes, whose risk is not bounded; pass se={...}")
    fit = plan.objective
    if plan.request.method not in ("napp", "objective") or plan.request.options.unit is not None:
        napp = argument("method", "napp")
        raise ArgumentError(f"plan must have {napp} and protect rows: the bounds are for noise in the objective")
    norms = dict(plan.design.row_norms) if hasattr(plan.design, "row_norms") else {"l2": 1.0}
    radius = plan.radius if radius is None else check_positive("radius", radius)
    best = sample_size(
        fit.family,
        fit.size,
        eps=fit.planned_eps,
        target=target,
        radius=radius,
        delta=fit.delta,
        pi=pi,
        row_norm=norms,
        adjacency=plan.adjacency,
    )
    assert isinstance(best, SampleSize)
    n = _whole(plan.risk_bounds(pi, radius).value("unregularised", "quantile") / best.target, "target")
    of_plan = ("unregularised, same rows", "excess_risk of the plan", n, "proved", "by noise and curvature of the plan")
    table = WideFrame(pd.concat([pd.DataFrame([of_plan], columns=best.table.columns), best.table], ignore_index=True))
    table.loc[1, "note"] = f"by the K-norm mechanism and its best curvature, {best.curvature:.4g}"
    return replace(best, n=n, curvature=float(np.min(plan.curvature)), noise=plan.noise, table=table)


@dataclass(frozen=True)
class _Rule(ABC):
    """How many rows a method needs at a curvature; fields as the arguments of `sample_size`."""

    method: ClassVar[str]
    theorem: ClassVar[int]  # that bounds what privacy costs on the same rows

    family: Family
    columns: int
    eps: float
    delta: float
    pi: float
    row_norm: float | Mapping[str, float]
    row_square: float  # the greatest squared l2 norm of a row, by row_norm
    adjacency: Adjacency
    target: float
    radius: float

    @abstractmethod
    def noise(self, level: float) -> Noise:
        """The noise at a curvature."""

    @abstractmethod
    def range(self) -> tuple[float, float]:
        """Where the best curvature is sought."""

    @abstractmethod
    def rows(self, level: float) -> float:
        """Rows at which the bound of the `theorem` meets the target; inf where none do."""

    @abstractmethod
    def new_rows(self, level: float) -> float:
        """Rows at which the bound of theorem 5 does."""

    @abstractmethod
    def quantiles(self, level: float) -> NoiseQuantiles:
        """Quantiles of the noise at a curvature, for theorem 7."""

    def rise(self, level: float, square: float) -> float:
        """By how much the losses of a row may rise with noise of this square along a direction of the optimum."""
        return 0.0

    def surely_new_rows(self, level: float) -> float:
        """Rows at which the bound of theorem 7 meets the target; inf where none do."""
        quantiles, sampling = self.quantiles(level), self.sampling(level)
        left = self.target - self.rise(level, quantiles.square)

        def excess(log_rows: float) -> float:
            rows = math.exp(log_rows)
            return cost_of_new_rows(sampling, quantiles, rows, self.pi) / rows - left

        if left <= 0 or excess(LARGEST_LOG_ROWS) > 0:
            return math.inf
        if excess(0.0) <= 0:
            return 1.0
        # At the upper end of the last bracket the bound holds.
        return math.exp(float(optimize.brentq(excess, 0.0, LARGEST_LOG_ROWS, xtol=1e-9))) * (1 + 1e-8)

    def sampling(self, level: float) -> SamplingBound:
        """The sampling error at a curvature."""
        return SamplingBound(self.family.lipschitz, self.row_square / level, math.sqrt(level) * self.radius)

    def left(self, level: float) -> float:
        """What a row's sampling error leaves of the target (docs/proofs/risk, theorem 5)."""
        return self.target - 2 * self.family.lipschitz**2 * self.row_square / level


@dataclass(frozen=True)
class _ObjectiveRule(_Rule):
    """Noise in the objective: the bound on the sum of losses does not depend on n."""

    method: ClassVar[str] = "objective"
    theorem: ClassVar[int] = 2

    def noise(self, level: float) -> Noise:
        return objective_noise(
            self.family,
            eps=self.eps,
            delta=self.delta,
            row_norm=self.row_norm,
            curvature=level,
            adjacency=self.adjacency,
            size=self.columns,
        )

    def range(self) -> tuple[float, float]:
        least = self.family.curvature_bound * self.row_square / math.expm1(min(self.eps, 50.0))
        free = math.sqrt(self.noise(NO_JACOBIAN * least).expected_square(self.columns)) / self.radius
        return 1.01 * least, 100 * max(least, free)

    def rows(self, level: float) -> float:
        ones = np.ones(self.columns)
        gap = gap_quantile(self.noise(level), ones, level * ones, self.pi, removed=level * ones, radius=self.radius)
        return gap / self.target

    def quantiles(self, level: float) -> NoiseQuantiles:
        ones = np.ones(self.columns)
        return objective_quantiles(self.noise(level), ones, level * ones, self.radius, self.pi)

    def new_rows(self, level: float) -> float:
        ones, left = np.ones(self.columns), self.left(level)
        gap = gap_mean(self.noise(level), ones, level * ones, removed=level * ones, radius=self.radius)
        return gap / left if left > 0 else math.inf


@dataclass(frozen=True)
class _OutputRule(_Rule):
    """Noise in the optimum: part of the bound grows with n, so the curvature must be large enough for the target."""

    method: ClassVar[str] = "output"
    theorem: ClassVar[int] = 4

    def noise(self, level: float) -> Noise:
        ratio = self.row_square / level
        return output_noise(
            self.family, eps=self.eps, delta=self.delta, curvature_ratio=ratio, adjacency=self.adjacency
        )

    def range(self) -> tuple[float, float]:
        # From where the noise of one direction alone costs the target.
        each = self.noise(1.0).expected_square(self.columns) / self.columns
        least = math.sqrt(self.family.curvature_bound * self.row_square * each / (2 * self.target))
        return least, 1e3 * least / self.pi

    def rows(self, level: float) -> float:
        noise, shrunk = self.noise(level), math.sqrt(level) * self.radius
        longest = noise.norm_quantile(self.columns, 1 - self.pi) ** 2
        choices = [
            (shortfall(noise, self.columns, self.pi), shortfall(noise, self.columns, self.pi, 2)),
            (math.sqrt(longest), longest),
        ]
        return min(self._needed((shrunk + one) ** 2 / 4, square, level, self.target) for one, square in choices)

    def quantiles(self, level: float) -> NoiseQuantiles:
        return output_quantiles(self.noise(level), self.columns, self.pi, math.sqrt(level) * self.radius)

    def rise(self, level: float, square: float) -> float:
        ones = np.ones(self.columns)
        return OutputFacts(self.family, self.noise(level), level * ones, self.row_square / level).rise(square, 1.0)

    def new_rows(self, level: float) -> float:
        each = self.noise(level).expected_square(self.columns) / self.columns
        return self._needed(level * self.radius**2 / 4, each, level, self.left(level))

    def _needed(self, fixed: float, square: float, level: float, target: float) -> float:
        """The least n with fixed + rise(n) <= n target; the rise is in proportion to n."""
        left = target - self.rise(level, square)
        return fixed / left if left > 0 else math.inf


def _whole(rows: float, name: str) -> int:
    """The number rounded up; ArgumentError if no number will do."""
    if not math.isfinite(rows):
        raise ArgumentError(f"{name} is too small for any number of rows")
    return math.ceil(rows)


def _least_cost(cost: Callable[[float], float], low: float, high: float) -> float:
    """The curvature of least cost between the two, to one percent; the cost may be infinite near the ends."""
    levels = np.linspace(math.log(low), math.log(high), TRIALS)
    best = int(np.argmin([cost(math.exp(level)) for level in levels]))
    around = levels[max(best - 1, 0)], levels[min(best + 1, TRIALS - 1)]
    optimum = optimize.minimize_scalar(
        lambda level: cost(math.exp(level)), bounds=around, method="bounded", options={"xatol": 0.01}
    )
    return math.exp(float(optimum.x))
