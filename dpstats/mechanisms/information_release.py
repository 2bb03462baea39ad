"""The release of the information and of the score's spread, once planned and paid for (docs/proofs/information)."""

from __future__ import annotations

import math
import operator
from collections.abc import Iterable, Iterator
from functools import partial
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dpstats.data import Block, Floats, Rows
from dpstats.errors import ArgumentError
from dpstats.families import Family
from dpstats.families.base import pad_rows
from dpstats.inference import ModelSpread, RobustSpread
from dpstats.mechanisms.design import Bounds, constant_column
from dpstats.mechanisms.information import Information, InformationPlan, eta_error, known_information, largest_predictor
from dpstats.mechanisms.release import LATTICE_LIMIT, LatticeRelease
from dpstats.privacy.guarantee import Adjacency
from dpstats.privacy.information import (
    MatrixNoise,
    capped_weights,
    linear_predictor,
    noisy_cluster_spread,
    noisy_information,
    noisy_spread,
    noisy_sum,
    relative_exposure,
    row_parts,
    row_weights,
    spread_allowances,
    spread_bound,
)
from dpstats.privacy.information.exact_sums import columns_of, inner_sums
from dpstats.privacy.information.scores import whole_parts
from dpstats.privacy.randomness import RandomSource

Vector = NDArray[np.float64]

INDEPENDENT = 1e-6
"""A direction is no combination of others if so much of its length is left beside them."""

NEVER_BELOW_ONE = ("poisson",)
"""Families whose dispersion is taken to be at least 1."""


def release_information(
    plan: InformationPlan,
    final: LatticeRelease,
    family: Family,
    design: Bounds,
    params: Vector,
    rows: Rows[Block],
    adjacency: Adjacency,
    random: RandomSource,
) -> Information | None:
    """The information at released coefficients (p,) and the spread of the score, from rows that are paid for.

    `final` is the last step of the fit. None where the proof does not speak of such coefficients: decided by public and
    released values alone.
    """
    row_length = float(np.sqrt(design.curvature_ratio(np.ones(len(params)))))
    clamped = np.any(np.abs(params) >= 0.99 * LATTICE_LIMIT * final.step)
    offset = design.offset_bound
    far = np.linalg.norm(params) * row_length + offset > largest_predictor(offset)
    if clamped or far or eta_error(final, row_length, offset) > plan.eta_error * (1 + 1e-9):
        return None
    sums = _sums(plan, family, params, rows, design.offset_high)
    matrix = noisy_information(
        (),
        plan.noise,
        weight_bound=plan.weight_bound,
        cover_eps=plan.purchase.cover_eps,
        random=random,
        total=sums.matrices[0],
    )
    every = tuple(range(len(params)))
    if plan.purchase.spread == "known":
        # Weights leave the score's covariance open: a plan that has them buys it.
        return Information(every, matrix, ModelSpread(design.score_ratio or 1.0))
    if plan.purchase.spread in ("robust", "clustered"):
        spread = _robust(plan, family, design, params, matrix, rows, sums.matrices[-1], adjacency, random)
        return Information(every, matrix, spread)
    return Information(every, matrix, _dispersion(plan, family, design, matrix, sums.numbers, random))


class _Sums(NamedTuple):
    """Exact sums at the released coefficients, of one pass; the noise of each is drawn where it is bought."""

    matrices: NDArray[np.object_]  # of w l'' x x' and, if spread is bought by row, (w l')^2 x x', shape (1 or 2, p, p)
    # For a dispersion of (w l')^2 and, where that is bought, of w l'', in parts of their bounds.
    numbers: tuple[int, ...]

    def plus(self, other: _Sums) -> _Sums:
        """The sums over the rows of both."""
        numbers = tuple(map(operator.add, self.numbers, other.numbers))
        return _Sums(np.asarray(self.matrices + other.matrices, dtype=object), numbers)


def _sums(plan: InformationPlan, family: Family, params: Vector, rows: Rows[Block], offset_high: float = 0.0) -> _Sums:
    """What the plan takes of the rows, all but what is bought by person."""
    return rows.total_of_pieces(partial(_exact_sums, plan, family, params, offset_high=offset_high), _Sums.plus)


def _exact_sums(
    plan: InformationPlan, family: Family, params: Vector, blocks: Iterable[Block], *, offset_high: float = 0.0
) -> _Sums:
    """What some rows add."""
    noise, spread = plan.noise, plan.purchase.spread
    bounds = (plan.weight_bound, family.lipschitz**2)
    numbers = [0] * (0 if spread != "dispersion" else 2 if plan.purchase.weights_eps else 1)

    def weighed() -> Iterator[tuple[Vector, tuple[Vector, ...]]]:
        for block in pieces_by_columns(0, blocks):
            cap = plan.purchase.weight_cap
            bends, slopes = _bends_and_slopes(
                family, params, block, cap, slopes=spread in ("dispersion", "robust"), offset_high=offset_high
            )
            squares = bends if slopes is None else slopes**2
            for place, own in zip(range(len(numbers)), (squares, bends), strict=False):
                numbers[place] += whole_parts(bounds[1 - place], own)
            yield block.exog.T, (bends, squares) if spread == "robust" else (bends,)

    matrices = inner_sums(np.array(noise.diagonal), noise.mixing, bounds[: 2 if spread == "robust" else 1], weighed())
    return _Sums(matrices, tuple(numbers))


def pieces_by_columns(shard: int, blocks: Iterable[Block]) -> Iterator[Block]:
    """Copies in double precision, in pieces that stay in the cache, one column after the other in memory."""
    for block in blocks:
        for part in row_parts(*block.exog.shape):
            piece = block.part(part)
            yield piece._replace(exog=columns_of(piece.exog).T).doubles()


def linear_predictors(params: Vector, block: Block) -> Vector:
    """x'theta + offset at the released coefficients."""
    eta = linear_predictor(block.exog, params)
    return eta if block.offset is None else eta + block.offset


def _bends_and_slopes(
    family: Family,
    params: Vector,
    block: Block,
    weight_cap: float | None = None,
    *,
    slopes: bool,
    offset_high: float = 0.0,
) -> tuple[Vector, Vector | None]:
    """w l'', capped, and, if they are wanted, w l' at the released coefficients: functions of a row to the last bit."""
    eta = linear_predictors(params, block)
    predictors, endog = pad_rows(eta), pad_rows(block.endog)
    exposure: Vector | float = 1.0
    if weight_cap is not None and block.offset is not None:
        exposure = relative_exposure(pad_rows(block.offset), offset_high)
    if not slopes:
        return _weighted(block.weights, row_weights(family, predictors, endog, weight_cap, exposure)[: len(eta)]), None
    slope, bend = family.slope_and_weight(predictors, endog)
    bend = capped_weights(family, predictors, np.asarray(bend, dtype=np.float64), weight_cap, exposure)
    return _weighted(block.weights, bend[: len(eta)]), _weighted(block.weights, slope[: len(eta)])


def _weighted(weights: Vector | None, values: Floats) -> Vector:
    """What belongs to rows, times their weights."""
    return np.asarray(values if weights is None else weights * values, dtype=np.float64)


def _person_slopes(family: Family, params: Vector, block: Block) -> tuple[Vector, Vector, Vector, NDArray[np.intp]]:
    """Rows, l', weights and persons."""
    assert block.person is not None
    _, slopes = _bends_and_slopes(family, params, block._replace(weights=None), slopes=True)
    assert slopes is not None
    weights = np.ones(len(slopes)) if block.weights is None else np.asarray(block.weights, dtype=np.float64)
    return block.exog, slopes, weights, block.person


def _dispersion(
    plan: InformationPlan,
    family: Family,
    design: Bounds,
    matrix: Vector,
    numbers: tuple[int, ...],
    random: RandomSource,
) -> ModelSpread:
    """phi = Q / W: the sum of squared scores over that of the weights, of which `numbers` are exact."""
    bound, purchase = family.lipschitz**2, plan.purchase
    total = noisy_sum((), bound, eps=purchase.spread_eps, random=random, total=numbers[0])
    _, mass_sd = dispersion_noise(plan, family, design)
    if purchase.weights_eps:
        mass = noisy_sum((), plan.weight_bound, eps=purchase.weights_eps, random=random, total=numbers[1])
    else:
        known = constant_column(design)
        assert known is not None
        mass = float(matrix[known[0], known[0]]) / known[1] ** 2
    return dispersion(plan, family, design, total, max(mass, mass_sd))


def dispersion_noise(plan: InformationPlan, family: Family, design: Bounds) -> tuple[float, float]:
    """Standard deviations of the noise in the sum of squared scores and in that of the weights."""
    purchase = plan.purchase
    total_sd = math.sqrt(2) * family.lipschitz**2 / purchase.spread_eps
    if purchase.weights_eps:
        return total_sd, math.sqrt(2) * plan.weight_bound / purchase.weights_eps
    known = constant_column(design)
    assert known is not None
    return total_sd, math.sqrt(float(plan.noise.variances()[known[0], known[0]])) / known[1] ** 2


def dispersion(plan: InformationPlan, family: Family, design: Bounds, total: float, mass: float) -> ModelSpread:
    """phi = total / mass from the sums of squared scores and of weights, with what the noise leaves open of it."""
    total_sd, mass_sd = dispersion_noise(plan, family, design)
    least = 1.0 if family.name in NEVER_BELOW_ONE else 0.0
    phi = max(total / mass, least)
    return ModelSpread(phi, math.hypot(total_sd / mass, phi * mass_sd / mass))


class _Directions(NamedTuple):
    """What variances are bought for: rows `wanted` of `every`, shape (k, p), and the public inverse information."""

    every: Vector
    wanted: NDArray[np.bool_]
    inverse: Vector


def _identified_directions(matrix: Vector, noise: MatrixNoise, design: Bounds) -> _Directions:
    """The coefficients in the user's units; where a factor's reference is too rare, its other levels' differences too.

    A function of what was released. Where the matrix cannot be inverted nothing is wanted: what is paid for and
    released by now must not be lost to that.
    """
    contrasts = design.back_transform()[0]
    try:
        known = known_information(matrix, noise, design)
        inverse, inside = known.inverse, known.inside(contrasts)
        turned = np.asarray(np.linalg.inv(known.basis), dtype=np.float64)[known.identified.active]
        every = np.vstack((contrasts, _independent_rows(turned, contrasts[inside])))
        own = np.sum(every @ inverse * every, axis=1)
        return _Directions(every, np.append(inside, np.ones(len(every) - len(inside), dtype=bool)) & (own > 0), inverse)
    except (np.linalg.LinAlgError, ArgumentError):
        return _Directions(contrasts, np.zeros(len(contrasts), dtype=bool), np.zeros_like(matrix))


def _independent_rows(rows: Vector, known: Vector) -> Vector:
    """Those of the rows that are no combination of known ones and of those before them, shape (k, p)."""
    added = np.zeros((0, rows.shape[1]))
    for row in rows:
        basis = np.vstack((known, added))
        rest = row - np.linalg.lstsq(basis.T, row)[0] @ basis if len(basis) else row
        if np.linalg.norm(rest) > INDEPENDENT * np.linalg.norm(row):
            added = np.vstack((added, row))
    return added


def _robust(
    plan: InformationPlan,
    family: Family,
    design: Bounds,
    params: Vector,
    matrix: Vector,
    rows: Rows[Block],
    squares: NDArray[np.object_],
    adjacency: Adjacency,
    random: RandomSource,
) -> RobustSpread:
    """Variances of what is identified, in the user's units, by its own scores (HC0); NaN for other coefficients.

    `squares` is the sum of (w l')^2 x x' where spread is bought by row.
    """
    noise = plan.noise
    every, inside, inverse = _identified_directions(matrix, noise, design)
    variances, deviations = np.full(len(every), np.nan), np.zeros(len(every))
    if inside.any():
        wanted = every[inside]
        most, bought = plan.purchase.most, variance_noise(plan, family, inverse, wanted, adjacency)
        persons = rows.map_shards(pieces_by_columns).map(partial(_person_slopes, family, params))
        buy = (
            partial(noisy_spread, (), total=squares)
            if plan.purchase.spread == "robust"
            else partial(noisy_cluster_spread, persons, most=most)
        )
        variances[inside] = buy(
            inverse=inverse,
            diagonal=np.array(noise.diagonal),
            contrasts=wanted,
            lipschitz=family.lipschitz,
            # What a row may cost, times the rows of a person.
            eps=most * plan.purchase.spread_eps,
            adjacency=adjacency,
            random=random,
            mixing=noise.mixing,
            allowances=bought.allowances,
        )
        deviations[inside] = bought.deviations
    return RobustSpread(variances, deviations, every if len(every) > len(matrix) else None)


class VarianceNoise(NamedTuple):
    """How the noise in released variances is shared among them, and its standard deviations, shapes (k,)."""

    allowances: Vector
    deviations: Vector


def variance_noise(
    plan: InformationPlan, family: Family, inverse: Vector, wanted: Vector, adjacency: Adjacency
) -> VarianceNoise:
    """The noise of the variances of directions `wanted`, shape (k, p), by the public inverse information."""
    noise, most = plan.noise, plan.purchase.most
    public = (inverse, np.array(noise.diagonal), wanted, noise.mixing)
    allowances = spread_allowances(*public)
    bound = spread_bound(*public, allowances)
    records = 2 if adjacency == "replace_one" else 1
    unit = records * (most * family.lipschitz) ** 2 * bound / (most * plan.purchase.spread_eps)
    own = np.sum(wanted @ inverse * wanted, axis=1)
    return VarianceNoise(allowances, math.sqrt(2) * unit * allowances * own)
