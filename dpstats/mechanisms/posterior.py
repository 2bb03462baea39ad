"""Posterior sampling: one draw from exp(-c J), as cold as the budget pays for (docs/proofs/posterior)."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy import optimize

from dpstats.arguments import safe_repr
from dpstats.data import Block, Rows, block_rows
from dpstats.errors import ArgumentError
from dpstats.families import Family
from dpstats.mechanisms.calibration import NoiseBudget, typical_sizes
from dpstats.mechanisms.design import Bounds
from dpstats.mechanisms.output import (
    MEAN_CURVATURE,
    ROUNDED,
    check_output_options,
    deviations,
    gradient_size,
    output_sensitivity,
)
from dpstats.mechanisms.posterior_sampler import (
    LONGEST_PIECE,
    MOST_SUM,
    UNIT,
    LossTable,
    bounded_responses,
    by_chain,
    by_rejection,
    lattice_points,
    lattice_scores,
    loss_sums,
)
from dpstats.mechanisms.release import MOST_COVERED, ROWS_AT_MOST, LastStep
from dpstats.mechanisms.spec import FitSpec
from dpstats.mechanisms.stage import LatticeCosts, NoiseFacts, RiskTables, StagePlan, Table
from dpstats.penalties import Bridge, Lasso, Penalty, split_curvature
from dpstats.privacy.gaussian import analytic_mu
from dpstats.privacy.guarantee import DELTA_MIN, Adjacency, check_budget
from dpstats.privacy.noise import Noise
from dpstats.privacy.randomness import RandomSource
from dpstats.privacy.selection import exponential_index
from dpstats.solvers import pairs
from dpstats.solvers.objective import PerturbedObjective
from dpstats.wording import argument


def gaussian_temperature(
    family: Family, *, eps: float, delta: float, curvature_ratio: float, adjacency: Adjacency = "add_remove"
) -> float:
    """c with theta ~ exp(-c (sum of losses + theta'M theta / 2)) (eps, delta)-DP, by its Gaussian-DP parameter.

    (mu / (L sqrt(kappa)))^2, with 2 L to replace a row (Gopi, Lee and Liu 2022; docs/proofs/posterior, Theorem 2);
    kappa is the `curvature_ratio`. ArgumentError unless delta is positive.
    """
    eps, delta = check_budget(eps, delta)
    if delta == 0:
        raise ArgumentError(
            f"delta must be positive for a posterior without bounds on its region, got {safe_repr(delta)}"
        )
    sensitivity = output_sensitivity(family, curvature_ratio=curvature_ratio, adjacency=adjacency)
    return (analytic_mu(eps, delta) / sensitivity) ** 2 / ROUNDED


Vector = NDArray[np.float64]
Matrix = NDArray[np.float64]

EXACT_COLUMNS = 3
"""With more columns than this draws come from a Markov chain, and nothing is certified."""

ACROSS = {1: 4001, 2: 71, 3: 19}
"""Points of the lattice along each axis, by the number of columns: about 4,000 in all."""

NOT_EXACT = (
    f"posterior samples of more than {EXACT_COLUMNS} columns come from a Markov chain, and no bound on its "
    "distance from the posterior is proved"
)

FARTHEST = 10.0
"""No proposal is farther than this, in root mean squares, unless a uniform is below 2**-60."""

LEAST_ACCEPTED = 1e-6
"""Of the proposals, as far as public facts tell: with fewer a draw would take hours or never end."""

LEAST_REACH, MOST_REACH = 2.0**-10, 2.0**20
"""Between which linear predictors on a region must reach, so that its losses are whole numbers of some size."""

COUNTED = 1 + 1e-9
"""Covers the rounding of linear predictors before they are rounded to the grid, and of the costs themselves."""

SAMPLED = 2.0**-43
"""How far a computed normal draw is from an ideal one, in root mean squares (docs/proofs/posterior, 3)."""


@dataclass(frozen=True, eq=False)
class PosteriorPlan(StagePlan):
    """A draw from exp(-c J), J = losses + theta'M theta / 2 + P(theta).

    With delta > 0 `noise` and `noise_shape` are the law of the proposals, which is no less spread than the posterior
    (docs/proofs/posterior, 4).
    """

    released: ClassVar[str | None] = "posterior"
    noise_averages_out: ClassVar[bool] = False

    temperature: float = field(kw_only=True)  # c, the factor on the objective
    semi_axes: Vector | None = field(
        kw_only=True
    )  # of the ellipsoid that holds it where delta is 0; None: all of space
    reach: float = field(kw_only=True)  # the greatest |x'theta| on that ellipsoid
    scale: float = field(kw_only=True)  # of the exponential mechanism on the lattice's integer scores
    cover_eps: float = field(kw_only=True)  # the part of eps that pays for rounding in the rejection

    def coefficients(self, rows: Rows[Block] | Iterable[tuple[Any, ...]], random: RandomSource) -> Vector:
        """A draw, shape (p,): by rejection, of the points of a lattice, or uncertified by a Markov chain."""
        rows = bounded_responses(self.family, block_rows(rows))
        if self.semi_axes is None:
            optimum = self.optimum(rows, self.linear).high.astype(np.float64)
            draw = _rejection_draw if self.exact else _chain_draw
            return self.final.release(pairs.single(draw(self, rows, optimum, random), np.float64), random)
        if not self.exact:
            return _chain_draw(self, rows, np.zeros(self.size), random)
        points = self.lattice
        table = LossTable.of(self.family, self.reach)
        # A public bound: what lies beyond is as good as never drawn.
        public = np.rint(np.clip(_public(self, points) / UNIT, -MOST_SUM / 2, MOST_SUM / 2)).astype(np.int64)
        scores = lattice_scores(table, rows, points) + public
        return np.asarray(points[exponential_index(scores, self.scale, random)])

    def check_last_step(self) -> None:
        """As for noise in the optimum; on an ellipsoid points of a lattice are drawn, and there is no last step."""
        if self.semi_axes is None:
            super().check_last_step()

    @property
    def law(self) -> Noise:
        """The law of the proposals, the same in all directions of `noise_shape`."""
        assert isinstance(self.noise, Noise)
        return self.noise

    @property
    def gradient_size(self) -> float:
        """As for noise in the optimum."""
        return gradient_size(self.law, self.curvature)

    @property
    def noise_variances(self) -> Vector:
        """At most the variances of the draw, shape (p,): 1 / (c m_j), or a_j^2 on an ellipsoid."""
        return np.asarray(1 / (self.temperature * self.noise_shape**2))

    @property
    def exact(self) -> bool:
        """Whether the draw is exact, and certified."""
        return self.size <= EXACT_COLUMNS

    @property
    def covered_rows(self) -> float:
        """Up to how many rows the draw is proved: as many as whole scores hold, or as `acceptance_error` counts."""
        if self.semi_axes is None:
            return max(self.rows_at_most, ROWS_AT_MOST)
        return min(MOST_COVERED, 10.0 ** math.floor(math.log10(LossTable.of(self.family, self.reach).rows)))

    @property
    def lattice(self) -> Matrix:
        """The points that a draw on the ellipsoid is one of, shape (points, p)."""
        assert self.semi_axes is not None
        return lattice_points(self.semi_axes, ACROSS[self.size])

    @property
    def spacing(self) -> float:
        """Of the lattice along each axis, over the semi-axis."""
        return 2 / (ACROSS[self.size] - 1)

    @property
    def lattice_costs(self) -> LatticeCosts | None:
        """What the lattice and its whole numbers add to J (docs/proofs/risk, theorem 8); None without a proof."""
        if self.semi_axes is None or not self.exact or not isinstance(self.penalty, Lasso | Bridge | None):
            return None
        far = float(np.max(self.curvature * self.semi_axes**2)) / 2
        gap = self.spacing**2 * float(np.sum(self.curvature * self.semi_axes**2)) / 8
        if self.penalty is not None:
            far += float(self.penalty.value(self.semi_axes, self.penalty_weights))
            gap += float(self.penalty.value(self.spacing * self.semi_axes, self.penalty_weights))
        if far > MOST_SUM / 2 * UNIT:
            return None
        bend = self.family.curvature_bound * (self.spacing * self.reach) ** 2 / 8
        counted = self.family.lipschitz * LossTable.of(self.family, self.reach).step + 2 * UNIT
        inside = 1 - self.spacing * math.sqrt(self.size)
        return LatticeCosts((bend + counted) * COUNTED, (gap + UNIT) * COUNTED, inside)

    @property
    def law_name(self) -> str:
        return "posterior (region)" if self.semi_axes is not None else "posterior (normal)"

    @property
    def bought_law(self) -> str:
        return "a posterior draw"

    @property
    def noise_facts(self) -> NoiseFacts:
        """How cold the posterior is, and what holds it together."""
        region = "all of space" if self.semi_axes is None else "an ellipsoid"
        cells = (self.temperature, self.curvature, region, "exact" if self.exact else "Markov chain")
        headers = ("factor on J", "curvature", "on", "drawn")
        return NoiseFacts("Posterior: density exp(-factor J)", headers, (("posterior", cells),))

    @property
    def errors_note(self) -> str:
        """Why there are none, and what bounds the noise."""
        return (
            "The coefficients are one draw from a posterior flattened by the privacy budget. 'noise at most' "
            "bounds its standard deviation for any rows; with many rows it is far smaller. Standard errors are "
            f"not part of this release; {argument('method', 'napp')} releases them."
        )

    def risk(self, tables: RiskTables[Table]) -> Table:
        """That of a draw; nothing is proved of one from a Markov chain."""
        if not self.exact:
            return tables.unproved()
        if self.semi_axes is None:
            return tables.of_posterior(self.temperature)
        costs = self.lattice_costs
        return tables.unproved() if costs is None else tables.of_lattice(self.temperature, len(self.lattice), costs)

    @property
    def risk_takes_rows(self) -> bool:
        """On an ellipsoid, where the lattice costs something for each."""
        return self.semi_axes is not None and self.exact

    def limit_note(self, rows: float) -> str | None:
        """Of how many points a draw on an ellipsoid is one, and whether they or the budget limit it."""
        if self.semi_axes is None or not self.exact:
            return None
        points, costs = len(self.lattice), self.lattice_costs
        apart = f"{self.spacing:.2g} of the region's half-width apart"
        text = f"The draw is one of {points:,} points of a public lattice, {apart}"
        if costs is None or costs.each * rows * self.temperature < math.log(points):
            return f"{text}; more eps does not make it finer."
        return (
            f"{text}. At {rows:,.0f} rows (rows_guess) the lattice limits the accuracy, not the budget: more eps "
            "changes nothing. A smaller radius makes the lattice finer, and a delta removes it; "
            f"{argument('method', 'napp')} is more accurate than both."
        )

    def predicted_error(self, hessian: Matrix, coefficients: Vector) -> tuple[Matrix, Matrix]:
        """(H + M)^-1 / c, and what M pulls."""
        inverse = np.asarray(np.linalg.inv(hessian + np.diag(self.curvature)), dtype=np.float64)
        bias = inverse @ (self.curvature * coefficients)
        return inverse / self.temperature, np.outer(bias, bias)

    def noise_bounds(self, transform: Matrix) -> Vector:
        """By the variances that the draw has at most."""
        return deviations(transform, self.noise_variances)

    def to_dict(self) -> dict[str, Any]:
        return super().to_dict() | {
            "temperature": self.temperature,
            "semi_axes": None if self.semi_axes is None else self.semi_axes.tolist(),
            "reach": None if math.isnan(self.reach) else self.reach,
            "scale": None if math.isnan(self.scale) else self.scale,
            "cover_eps": self.cover_eps,
        }

    @classmethod
    def specific_fields(cls, stored: Mapping[str, Any]) -> dict[str, Any]:
        axes = stored["semi_axes"]
        return {
            "temperature": stored["temperature"],
            "semi_axes": None if axes is None else np.asarray(axes, dtype=np.float64),
            "reach": math.nan if stored["reach"] is None else stored["reach"],
            "scale": math.nan if stored["scale"] is None else stored["scale"],
            "cover_eps": stored["cover_eps"],
        }


def plan_posterior(spec: FitSpec, eps: float, delta: float) -> PosteriorPlan:
    """Choose temperature, curvature and region for one draw, from public facts only.

    With delta > 0 the posterior is over all of space, by its Gaussian-DP parameter; without, on an ellipsoid, by the
    oscillation of one row's loss there. ArgumentError for an option that the method does not have, and if responses are
    counts, rows have offsets or numbers of trials, the penalty is not convex, or rounding could cost more than half of
    eps.
    """
    check_output_options(spec.options, "posterior")
    this, other = argument("method", "posterior"), argument("method", "napp")
    if spec.family.response == "count":
        raise ArgumentError(f"family: {this} is not offered for counts; use {other}")
    if spec.design.offset_bound or spec.design.score_ratio not in (None, 1.0):
        raise ArgumentError(f"offset and numbers of trials cannot be combined with {this}; use {other}")
    if spec.penalty is not None and not spec.penalty.convex:
        raise ArgumentError(f"penalty {spec.penalty.name!r} is not convex: {this} has no guarantee for it")
    budget = spec.budget(eps, delta)
    sizes = typical_sizes(spec.family, spec.design, budget.radius)
    plan = _plan_on_all_of_space if budget.delta > 0 and budget.kind != "laplace" else _plan_on_ellipsoid
    return plan(spec, budget, sizes)


def _plan_on_ellipsoid(spec: FitSpec, budget: NoiseBudget, sizes: Vector) -> PosteriorPlan:
    """A posterior on an ellipsoid that holds coefficients of typical size; the budget pays for the losses alone."""
    axes = sizes * math.sqrt(len(sizes))
    reach = math.sqrt(spec.design.curvature_ratio(axes**-2.0))
    eps = budget.eps + budget.final_eps  # scores are integers: there is no rounding to pay for
    rows = 2 if budget.adjacency == "replace_one" else 1
    scale = rows * _table(spec.family, reach, budget.rows_at_most).span / eps * ROUNDED
    temperature = 1 / (scale * UNIT)
    ridge, remainder = (0.0, None) if spec.penalty is None else split_curvature(spec.penalty)
    # A prior of that size within the ellipsoid, which costs nothing.
    added = budget.curvature if budget.curvature is not None else 1 / (temperature * axes**2)
    return _posterior_plan(
        spec,
        replace(budget, eps=eps, final_eps=0.0, delta=0.0),
        penalty=remainder,
        curvature=np.asarray(ridge * spec.weights + added, dtype=np.float64),
        radius=float(np.linalg.norm(sizes)),
        shape=1 / (axes * math.sqrt(temperature)),
        temperature=temperature,
        semi_axes=axes,
        reach=reach,
        scale=scale,
    )


def _table(family: Family, reach: float, rows_at_most: float) -> LossTable:
    """The losses on a region; ArgumentError unless whole numbers tell them apart and hold the sum of enough rows."""
    table = LossTable.of(family, reach) if LEAST_REACH <= reach <= MOST_REACH else None
    if table is None or table.span == 0 or table.rows < max(rows_at_most, ROWS_AT_MOST):
        raise ArgumentError(
            f"radius makes a region on which linear predictors reach {reach:.2g}, too far for the integer "
            f"arithmetic of {argument('method', 'posterior')}; give a radius of a few units, or use "
            f"{argument('method', 'napp')}"
        )
    return table


def _plan_on_all_of_space(spec: FitSpec, budget: NoiseBudget, sizes: Vector) -> PosteriorPlan:
    """A posterior over all of space, held by its curvature."""
    family, design = spec.family, spec.design
    ridge, remainder = (0.0, None) if spec.penalty is None else split_curvature(spec.penalty)
    rows = spec.options.rows_guess * MEAN_CURVATURE * family.curvature_bound
    if budget.curvature is None:
        curvature = np.maximum(ridge * spec.weights, posterior_curvature(design, family, budget, sizes, rows))
    else:
        curvature = ridge * spec.weights + budget.curvature
    kappa = design.curvature_ratio(curvature)

    def assembled(eps: float, delta: float, cover: float) -> PosteriorPlan:
        return _posterior_plan(
            spec,
            budget,
            penalty=remainder,
            curvature=curvature,
            radius=float(np.linalg.norm(sizes)),
            shape=np.sqrt(curvature),
            temperature=gaussian_temperature(
                family, eps=eps, delta=delta, curvature_ratio=kappa, adjacency=budget.adjacency
            ),
            cover_eps=cover,
        )

    hottest = assembled(budget.eps, budget.delta, 0.0)
    if not hottest.exact:
        return hottest
    error = acceptance_error(hottest)
    if not 4 * error <= budget.eps / 2:
        raise ArgumentError(
            f"rows_at_most is too large for {argument('method', 'posterior')} with a delta: rounding would cost "
            "half of eps"
        )
    if budget.delta * math.exp(-2 * error) < DELTA_MIN:
        raise ArgumentError(
            f"eps is too large for {argument('method', 'posterior')} with a delta: rounding would cost nearly all "
            f"of delta; lower eps, or use {argument('method', 'napp')}"
        )
    _check_accepted(hottest, None if budget.curvature is None else _bend(design, rows))
    return assembled(budget.eps - 4 * error, budget.delta * math.exp(-2 * error), 4 * error)


def _check_accepted(plan: PosteriorPlan, bend: Vector | None) -> None:
    """Raise ArgumentError if hardly any proposal could be accepted: the draw would not end, after the charge.

    `bend`, shape (p,), guesses the sum of l'' over the rows along each column; None for a curvature chosen by it.
    """
    if bend is not None and np.prod(np.sqrt(plan.curvature / (plan.curvature + bend))) < LEAST_ACCEPTED:
        raise ArgumentError(
            f"curvature is too small for {argument('method', 'posterior')}: rejection sampling from the normal law "
            "of the curvature would take millions of draws; give more, or leave it out"
        )
    if plan.penalty is None:
        return
    # Without rows the optimum is 0, where a penalty is steepest: with them it takes no more proposals.
    sizes = np.geomspace(1e-14, FARTHEST, 2000)
    step = math.log(sizes[1] / sizes[0])
    density = np.exp(-(sizes**2) / 2) * math.sqrt(2 / math.pi) * sizes * step
    share = 1.0
    for column, deviation in enumerate(1 / np.sqrt(plan.temperature * plan.curvature)):
        points = np.zeros((len(sizes), plan.size))
        points[:, column] = sizes * deviation
        costs = np.array([plan.penalty.value(point, plan.penalty_weights) for point in points])
        share *= float(np.sum(density * np.exp(-plan.temperature * costs)))
    if share < LEAST_ACCEPTED:
        raise ArgumentError(
            f"alpha, or a penalty weight, is too large for {argument('method', 'posterior')}: rejection sampling "
            "from the law without the penalty would take millions of draws; lower it, or use "
            f"{argument('method', 'napp')}"
        )


def _posterior_plan(
    spec: FitSpec,
    budget: NoiseBudget,
    *,
    penalty: Penalty | None,
    curvature: Vector,
    radius: float,
    shape: Vector,
    temperature: float,
    semi_axes: Vector | None = None,
    reach: float = math.nan,
    scale: float = math.nan,
    cover_eps: float = 0.0,
) -> PosteriorPlan:
    """The plan with what all plans have."""
    size = len(curvature)
    length = math.sqrt(spec.design.curvature_ratio(np.ones(size)))
    law = Noise("gaussian" if semi_axes is None else "laplace", "l2", 1 / math.sqrt(temperature))
    step = LastStep(spec.family, gradient_size(law, curvature), length, curvature, budget.rows_at_most, penalty)
    tolerance, final = step.plan(budget.final_eps, averages_out=False)
    return PosteriorPlan(
        family=spec.family,
        eps=budget.eps,
        delta=budget.delta,
        adjacency=budget.adjacency,
        curvature=curvature,
        kappa=spec.design.curvature_ratio(curvature),
        row_norm=length,
        row_length=length,
        rows_at_most=budget.rows_at_most,
        noise=law,
        noise_shape=shape,
        classical_scale=1 / math.sqrt(temperature),
        planned_eps=budget.eps,
        joint_need=budget.eps,
        penalty=penalty,
        penalty_weights=spec.weights,
        threshold=np.zeros(size),
        linear=np.zeros(size),
        radius=radius,
        tolerance=tolerance,
        final=final,
        temperature=temperature,
        semi_axes=semi_axes,
        reach=reach,
        scale=scale,
        cover_eps=cover_eps,
    )


def _bend(design: Bounds, rows: float) -> Vector:
    """The sum of l'' x_j^2 over rows that fill the design's bounds, for a guess at the sum of l'', shape (p,)."""
    square = np.ones(len(design.names))
    for term in design.terms:
        # A factor of one level has no columns beside an intercept.
        square[term.columns] = max(term.l2, 1e-3) ** 2 / max(term.columns.stop - term.columns.start, 1)
    return rows * square


def posterior_curvature(design: Bounds, family: Family, budget: NoiseBudget, sizes: Vector, rows: float) -> Vector:
    """The diagonal M that makes spread and shrinkage cheapest for a guess at the sum of l'' over rows, shape (p,).

    Along m_j in proportion to 1 / r_j; the cost is tr(H (H + M)^-1) / (2 c) + r'M (H + M)^-1 H (H + M)^-1 M r / 2 with
    H diagonal (docs/proofs/posterior, 5).
    """
    direction, bend = np.mean(sizes) / sizes, _bend(design, rows)
    unit = gaussian_temperature(
        family,
        eps=budget.eps,
        delta=budget.delta,
        curvature_ratio=design.curvature_ratio(direction),
        adjacency=budget.adjacency,
    )

    def cost(log_level: float) -> float:
        level = math.exp(log_level)
        m = level * direction
        spread = float(np.sum(bend / (bend + m))) / (2 * unit * level)
        return spread + float(np.sum(bend * (m * sizes / (bend + m)) ** 2)) / 2

    best = optimize.minimize_scalar(cost, bounds=(math.log(1e-4), math.log(1e8)), method="bounded")
    return np.asarray(math.exp(float(best.x)) * direction)


def acceptance_error(plan: PosteriorPlan) -> float:
    """How far the logarithm of a computed acceptance probability may be from the exact one (docs/proofs/posterior, 3).

    For any data of at most `rows_at_most` rows, or of 10^7 if that is more.
    """
    rows, size, length = plan.covered_rows, plan.size, plan.row_length
    lipschitz, unit = plan.family.lipschitz, float(np.finfo(np.float64).eps)
    widest = float(np.finfo(np.longdouble).eps)
    spread = math.sqrt(plan.law.expected_square(size) / float(np.min(plan.curvature)))
    reach = FARTHEST * spread
    responses = np.array([0.0, 1.0] if plan.family.signed else [-1.0, 0.0, 1.0])
    start = float(np.max(plan.family.derivatives(np.zeros(len(responses)), responses).value))
    farthest = math.sqrt(2 * rows * start / float(np.min(plan.curvature))) + reach
    highest = start + lipschitz * length * farthest
    one = unit * (lipschitz * length * farthest * (size + 2) + 16 * highest)
    added = widest * 2 * LONGEST_PIECE * highest
    slope = rows * lipschitz * length
    if plan.penalty is not None:
        slope += float(np.linalg.norm(plan.penalty_weights)) * float(plan.penalty.slope(farthest))
        one += unit * 16 * float(np.sum(plan.penalty_weights)) * float(plan.penalty.value(farthest)) / rows
    moved = 2 * slope * SAMPLED * spread
    public = unit * (size + 8) * float(np.max(plan.curvature)) * farthest**2
    steep = rows * plan.family.curvature_bound * length**2 + float(np.max(plan.curvature))
    tilt = plan.tolerance + steep * unit * farthest
    return plan.temperature * (2 * rows * (one + added) + moved + public + tilt * reach)


def _public(plan: PosteriorPlan, points: Matrix) -> Vector:
    """The part of the objective without data at each point, shape (points,)."""
    value = np.sum(points * (0.5 * plan.curvature * points + plan.linear), axis=1)
    if plan.penalty is not None:
        value = value + np.array([plan.penalty.value(point, plan.penalty_weights) for point in points])
    return np.asarray(value, dtype=np.float64)


def _rejection_draw(plan: PosteriorPlan, rows: Rows[Block], optimum: Vector, random: RandomSource) -> Vector:
    """A draw by rejection from the normal law that the curvature alone would give about the optimum."""
    lowest = _potential(plan, rows, optimum[None])[0]

    def height(points: Matrix) -> Vector:
        moved = points - optimum
        quadratic = 0.5 * np.sum(plan.curvature * moved**2, axis=1)
        return np.asarray(plan.temperature * (_potential(plan, rows, points) - lowest - quadratic), dtype=np.float64)

    return by_rejection(height, lambda: optimum + plan.sample(random), random)


def _chain_draw(plan: PosteriorPlan, rows: Rows[Block], start: Vector, random: RandomSource) -> Vector:
    """The end of a Markov chain, for more columns than can be drawn exactly: never certified."""
    objective = PerturbedObjective(plan.family, rows, plan.curvature, plan.linear, plan.row_length)
    hessian = objective.accumulate(start).hessian

    def potential(theta: Vector) -> float:
        if plan.semi_axes is not None and np.sum((theta / plan.semi_axes) ** 2) > 1:
            return math.inf
        return plan.temperature * float(_potential(plan, rows, theta[None])[0])

    covariance = np.asarray(np.linalg.inv(plan.temperature * hessian), dtype=np.float64)
    return by_chain(potential, start, covariance, random)


def _potential(plan: PosteriorPlan, rows: Rows[Block], points: Matrix) -> NDArray[np.floating]:
    """J at each point, shape (points,)."""
    return loss_sums(plan.family, rows, points) + _public(plan, points)
