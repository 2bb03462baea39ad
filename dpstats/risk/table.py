"""The table of excess-risk bounds of a plan (docs/risk)."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from dpstats.arguments import is_whole, safe_repr
from dpstats.errors import ArgumentError
from dpstats.families.base import Family, check_cap
from dpstats.frames import WideFrame
from dpstats.privacy.k_norm import KNormNoise
from dpstats.privacy.noise import Noise
from dpstats.risk.gaps import check_failure, gap_mean, gap_quantile, quadratic_quantile
from dpstats.risk.literature_bounds import Bound, Gap, PublicSetting, Statement, printed_bounds
from dpstats.risk.proved import (
    NEW_ROWS_PROOF,
    PROOF,
    OutputFacts,
    SamplingBound,
    cost_of_new_rows,
    objective_quantiles,
    output_bounds,
    output_new_rows,
)


class ReleasePlan(Protocol):
    """The public facts of a release by a perturbed objective."""

    @property
    def family(self) -> Family: ...  # The loss, its caps set
    @property
    def curvature(self) -> NDArray[np.float64]: ...  # m, shape (p,), the diagonal of the objective's quadratic term
    @property
    def noise(self) -> Noise | KNormNoise: ...  # The law of the linear term times `noise_shape`
    @property
    def noise_shape(self) -> NDArray[np.float64]: ...  # a, shape (p,): the linear term is the noise divided by it
    @property
    def linear(self) -> NDArray[np.float64]: ...  # shape (p,): -linear / curvature is what coefficients shrink to
    @property
    def kappa(self) -> float: ...  # sup x' M^-1 x over all rows
    @property
    def eps(self) -> float: ...  # The privacy parameter
    @property
    def delta(self) -> float: ...  # The privacy parameter, 0 for pure privacy
    @property
    def radius(self) -> float: ...  # The guess at the norm of the coefficients in model units


@dataclass(frozen=True, eq=False)
class RiskBounds:
    """Bounds on what a release costs: the proved ones, of two on one quantity the sharper first, and printed ones."""

    proved: list[Bound]
    printed: list[Bound]
    pi: float  # the probability that a bound at a level may fail
    n: int | None  # rows

    def value(self, gap: Gap, statement: Statement) -> float:
        """The sharper of the proved bounds on a quantity, in units of the sum objective; NaN where there is none."""
        return next((one.value for one in self.proved if (one.gap, one.statement) == (gap, statement)), math.nan)

    def named(self, bound: Bound) -> str:
        """What it bounds, and how."""
        level = {"quantile": f"with probability {1 - self.pi:g}", "mean": "in the mean", "order": "order of growth"}
        return f"{bound.gap}, {level[bound.statement]}"

    def frame(self) -> pd.DataFrame:
        """One bound a row, the proved ones first, with the columns

        - ``bound``: what is bounded. "regularised": J(theta_b) - min J, J the objective without its noise.
          "unregularised": the same without the quadratic term, against every theta of norm `radius`; each at
          the level 1 - pi or in the mean. "regularised, on the region": against the coefficients of a region alone, of
          a posterior draw there. "population": the expected loss of a new row, times n.
        - ``source``: proof page, or paper and equation.
        - ``value``: in units of the sum objective (the sum of losses).
        - ``per_row``: value / n.
        - ``holds``: "proved"; "implied" (not below a proved bound on the same quantity); "not implied";
          "order only" (a constant is missing); "other mechanism".
        - ``note``: what to know about it.
        """
        bounds = [(one, "proved") for one in self.proved] + [(one, self._holds(one)) for one in self.printed]
        rows = [
            (self.named(one), one.source, one.value, one.value / (self.n or math.nan), holds, one.note)
            for one, holds in bounds
        ]
        return WideFrame(rows, columns=["bound", "source", "value", "per_row", "holds", "note"])

    def _holds(self, printed: Bound) -> str:
        """Whether the proved bounds imply a printed one."""
        if not printed.same_mechanism:
            return "other mechanism"
        if printed.statement == "order":
            return "order only"
        return "implied" if printed.value >= self.value(printed.gap, printed.statement) else "not implied"


def objective_risk(
    plan: ReleasePlan, pi: float = 0.05, radius: float | None = None, n: int | None = None
) -> RiskBounds:
    """The bounds of a perturbed objective; a function of public values alone.

    Parameters
    ----------
    plan : ReleasePlan
        A plan, or anything with its public facts.
    pi : float
        Probability, over the noise, that a bound may fail.
    radius : float, optional
        Norm of the coefficients to compare with, in model units, by default the plan's guess; counted from what they
        are shrunk to, where that is not zero: the intercept of counts whose mean was bought.
    n : int, optional
        Number of rows, public or assumed. Without it the bounds that need n are NaN.

    Raises
    ------
    ArgumentError
        If `pi` is not strictly between 0 and 1, `radius` is not positive or `n` is not a positive integer.
    """
    pi, radius, n = _checked(plan, pi, radius, n)
    proved = proved_bounds(plan, pi, radius)
    if n is not None:
        proved += [population_bound(plan, radius, n), objective_new_rows(plan, pi, radius, n)]
    return RiskBounds(proved, printed_bounds(_setting(plan, pi, radius, n)), pi, n)


def output_risk(
    plan: ReleasePlan, facts: OutputFacts, pi: float = 0.05, radius: float | None = None, n: int | None = None
) -> RiskBounds:
    """The bounds of output perturbation, all of which need a number of rows (docs/proofs/risk, theorems 3 to 5, 7)."""
    pi, radius, n = _checked(plan, pi, radius, n)
    printed = [
        replace(bound, same_mechanism=not bound.same_mechanism and "output" in bound.note)
        for bound in printed_bounds(_setting(plan, pi, radius, n))
    ]
    return RiskBounds([*output_bounds(facts, pi, radius, n), output_new_rows(facts, pi, radius, n)], printed, pi, n)


def posterior_risk(
    plan: ReleasePlan,
    bounds: Callable[[float, float, int | None], list[Bound]],
    pi: float,
    radius: float | None,
    n: int | None,
) -> RiskBounds:
    """The bounds of a posterior sample, `bounds` giving the proved ones at pi, a radius and n."""
    pi, radius, n = _checked(plan, pi, radius, n)
    printed = [replace(bound, same_mechanism=False) for bound in printed_bounds(_setting(plan, pi, radius, n))]
    return RiskBounds(bounds(pi, radius, n), printed, pi, n)


def _checked(plan: ReleasePlan, pi: float, radius: float | None, n: int | None) -> tuple[float, float, int | None]:
    """The checked arguments of a table, with the radius filled in."""
    pi = check_failure(pi)
    radius = plan.radius if radius is None else radius
    check_cap("radius", radius)
    if n is not None and (not is_whole(n) or not 1 <= n < 2**53):
        raise ArgumentError(f"n must be a positive integer, got {safe_repr(n)}")
    return pi, radius, None if n is None else int(n)


def proved_bounds(plan: ReleasePlan, pi: float, radius: float) -> list[Bound]:
    """The bounds of docs/proofs/risk; of two on the same quantity the sharper comes first."""
    noise, shape, curvature = plan.noise, plan.noise_shape, plan.curvature
    weights = 1 / (shape**2 * curvature)
    sharp = gap_quantile(noise, shape, curvature, pi)
    whole = gap_quantile(noise, shape, curvature, pi, removed=curvature, radius=radius)
    theorem_1, theorem_2 = f"{PROOF}, theorem 1", f"{PROOF}, theorem 2"
    bounds = [Bound("regularised", "quantile", theorem_1, sharp, "attained when there are no rows and no penalty")]
    if np.ptp(weights) > 0:
        crude = quadratic_quantile(noise, np.full_like(weights, np.max(weights)), 1 - pi) / 2
        bounds.append(Bound("regularised", "quantile", theorem_1, crude, "by the norm of the noise alone"))
    mean, whole_mean = (
        gap_mean(noise, shape, curvature, removed=removed, radius=radius) for removed in (None, curvature)
    )
    against = "against any coefficients of norm radius"
    if np.any(plan.linear):
        against = "against any coefficients within radius of what they are shrunk to"
    return [
        *bounds,
        Bound("regularised", "mean", theorem_1, mean, "attained when there are no rows and no penalty"),
        Bound("unregularised", "quantile", theorem_2, whole, against),
        Bound("unregularised", "mean", theorem_2, whole_mean, against),
    ]


def population_bound(plan: ReleasePlan, radius: float, n: int) -> Bound:
    """The expected loss of n new rows in the mean: theorem 2 and what the sample costs (theorem 5)."""
    sampling = 2 * n * plan.family.lipschitz**2 * plan.kappa
    mean = gap_mean(plan.noise, plan.noise_shape, plan.curvature, removed=plan.curvature, radius=radius)
    note = f"against any coefficients of norm radius; sampling {sampling:.4g}"
    return Bound("population", "mean", f"{PROOF}, theorem 5", mean + sampling, note)


def objective_new_rows(plan: ReleasePlan, pi: float, radius: float, n: int) -> Bound:
    """The expected loss of n new rows, with probability 1 - pi over noise and rows (theorem 7)."""
    if np.any(plan.linear) and getattr(plan, "penalty", None) is not None:
        # The proof assumes a penalty whose minimum is where the coefficients are shrunk to.
        return Bound("population", "quantile", NEW_ROWS_PROOF, math.nan, "not proved for a penalty with a pilot stage")
    start = math.sqrt(float(np.max(plan.curvature))) * radius
    quantiles = objective_quantiles(plan.noise, plan.noise_shape, plan.curvature, radius, pi)
    value = cost_of_new_rows(SamplingBound(plan.family.lipschitz, plan.kappa, start), quantiles, n, pi)
    note = "over noise and rows, against coefficients of norm radius"
    return Bound("population", "quantile", NEW_ROWS_PROOF, value, note)


def _setting(plan: ReleasePlan, pi: float, radius: float, n: int | None) -> PublicSetting:
    """The plan in the notation of the sources, which have one curvature: its least entry."""
    row_square = plan.kappa * float(np.max(plan.curvature))
    return PublicSetting(
        columns=len(plan.curvature),
        eps=plan.eps,
        delta=plan.delta,
        pi=pi,
        curvature=float(np.min(plan.curvature)),
        lipschitz=plan.family.lipschitz * math.sqrt(row_square),
        smoothness=plan.family.curvature_bound * row_square,
        radius=radius,
        rows=n,
    )
