"""The information at the released coefficients, and the spread of the score (docs/proofs/information).

What it costs beside a fit is planned with the fit (`dpstats.mechanisms.objective`), for a record's losses in both are
functions of the same linear predictor. What follows from it is post-processing (`dpstats.inference`).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dpstats.errors import ArgumentError
from dpstats.families import Family
from dpstats.inference import KnownInformation, ModelSpread, RobustSpread, SpanNoise
from dpstats.mechanisms.design import Bounds, constant_column
from dpstats.mechanisms.release import LATTICE_LIMIT, LatticeRelease
from dpstats.privacy.guarantee import Adjacency
from dpstats.privacy.information import (
    MatrixNoise,
    Metric,
    design_metric,
    linear_predictor,
    noisy_cluster_spread,
    noisy_information,
    noisy_spread,
    noisy_sum,
    row_parts,
    row_weights,
    shaped_diagonal,
    spread_allowances,
    spread_bound,
)
from dpstats.privacy.randomness import RandomSource
from dpstats.rows import Block, Rows

Vector = NDArray[np.float64]
SpreadKind = Literal["known", "dispersion", "robust", "clustered"]

COVER = 0.0025
"""Share of a stage's eps that covers the floating point of the matrix noise: about 1 % of what the matrix would cost
alone."""

WEIGHTS_PART = 0.4
"""The part of the spread's budget that buys the sum of weights where there is no intercept."""

FARTHEST = 1e6
"""Coefficients of norm above this over the rows' length are released without their information; offsets count too."""

INDEPENDENT = 1e-6
"""A direction is no combination of others if so much of its length is left beside them."""

TAIL = 60.0
"""No coordinate of the final noise passes so many of its scales, but for a probability of exp(-59)."""

NEVER_BELOW_ONE = ("poisson",)
"""Families whose dispersion is taken to be at least 1."""


@dataclass(frozen=True)
class InformationPurchase:
    """What a stage is to spend on inference.

    Attributes
    ----------
    ratio : float
        1 / s2, the inverse scale of the matrix noise, as a multiple of the row norm over the scale of the fit's noise.
    free : bool
        Whether the fit's noise is to be no larger for it: the curvature makes room.
    spread : {"known", "dispersion", "robust", "clustered"}
        The score's covariance: that of the information; times a dispersion that is bought; or bought direction by
        direction, from the scores of rows or from those of persons.
    cover_eps, spread_eps, weights_eps : float
        For floating point, for the sum of squared scores, and for the sum of weights where no intercept has it.
    surcharge : float, optional
        By what part of it the information may raise normal noise of the fit, where the caller said so.
    most : int
        The most rows of weight 1 that a person has, each of which may cost what is said here.
    """

    ratio: float
    free: bool
    spread: SpreadKind
    cover_eps: float
    spread_eps: float
    weights_eps: float
    surcharge: float | None = None
    most: int = 1

    @property
    def beside(self) -> float:
        """What is spent beside fit and matrix."""
        return self.cover_eps + self.spread_eps + self.weights_eps

    def suited(self, design: Bounds) -> InformationPurchase:
        """The same budget for a design: without a constant column the sum of weights is bought apart."""
        together = self.spread_eps + self.weights_eps
        apart = WEIGHTS_PART * together if self.spread == "dispersion" and constant_column(design) is None else 0.0
        return replace(self, spread_eps=together - apart, weights_eps=apart)


@dataclass(frozen=True)
class InformationPlan:
    """The release of the information, fixed before rows are read.

    Attributes
    ----------
    purchase : InformationPurchase
    noise : MatrixNoise
    weight_bound : float
        h.
    eps : float
        What the matrix adds to the price of the fit.
    eta_error : float
        Bound on the difference of linear predictors at the released and at the exact optimum, as planned for.
    """

    purchase: InformationPurchase
    noise: MatrixNoise
    weight_bound: float
    eps: float
    eta_error: float

    @property
    def cost(self) -> float:
        """eps of everything that inference adds to the fit."""
        return self.eps + self.purchase.beside

    def to_dict(self) -> dict[str, Any]:
        """Plain public values, for JSON."""
        return {**asdict(self), "noise": self.noise.to_dict()}

    @classmethod
    def from_dict(cls, stored: Mapping[str, Any]) -> InformationPlan:
        """The plan whose `to_dict` gave `stored`."""
        purchase, noise = InformationPurchase(**stored["purchase"]), MatrixNoise.from_dict(stored["noise"])
        return cls(**{**stored, "purchase": purchase, "noise": noise})


@dataclass(frozen=True, eq=False)
class Information:
    """What was released for inference.

    Attributes
    ----------
    columns : tuple of int
        Positions in the design of the k columns that the last stage fitted.
    matrix : ndarray, shape (k, k)
        The information with its noise, in model units.
    spread : ModelSpread or RobustSpread
    """

    columns: tuple[int, ...]
    matrix: Vector
    spread: ModelSpread | RobustSpread

    def among(self, columns: Sequence[int]) -> Information:
        """The same, for a stage that was given the columns `columns` of a larger design."""
        return replace(self, columns=tuple(int(columns[column]) for column in self.columns))

    def to_dict(self) -> dict[str, Any]:
        """Plain released values, for JSON."""
        spread = self.spread
        if isinstance(spread, ModelSpread):
            facts: dict[str, Any] = {"phi": spread.phi, "deviation": spread.deviation}
        else:
            missing = np.isnan(spread.variances)
            facts = {
                "variances": [None if gone else value for gone, value in zip(missing, spread.variances, strict=True)],
                "deviations": np.asarray(spread.deviations).tolist(),
            }
            if spread.directions is not None:
                facts["directions"] = spread.directions.tolist()
        return {"columns": list(self.columns), "matrix": self.matrix.tolist(), "spread": facts}

    @classmethod
    def from_dict(cls, stored: Mapping[str, Any]) -> Information:
        """What `to_dict` gave `stored` of."""
        facts = stored["spread"]
        spread: ModelSpread | RobustSpread
        if "phi" in facts:
            spread = ModelSpread(**facts)
        else:
            variances = np.array([np.nan if value is None else value for value in facts["variances"]])
            directions = np.array(facts["directions"]) if "directions" in facts else None
            spread = RobustSpread(variances, np.array(facts["deviations"]), directions)
        return cls(tuple(stored["columns"]), np.array(stored["matrix"], dtype=np.float64), spread)


def eta_error(final: LatticeRelease, row_length: float, offset_bound: float = 0.0) -> float:
    """Bound on the difference of a row's linear predictors at the released and at the exact optimum.

    The root of l1 norm times largest entry bounds the length of the final noise; the l1 norm is that of a gamma
    variable, within its quantile of exp(-59), and of a step a coordinate (docs/proofs/information, 3).
    """
    size = final.size
    total = size + math.sqrt(2 * (TAIL - 1) * size) + TAIL - 1
    noise = final.scale * math.sqrt(total * TAIL) + 1.5 * math.sqrt(size) * final.step
    rounding = (size + 8) * 2.0**-52 * farthest(offset_bound)
    return row_length * (final.distance + noise) + rounding


def farthest(offset_bound: float) -> float:
    """The largest linear predictor, offset included, at which the information is released."""
    return max(FARTHEST, 2 * offset_bound)


def follow(
    plan: InformationPlan, final: LatticeRelease, row_length: float, offset_bound: float = 0.0
) -> InformationPlan:
    """The plan for another last step of the fit: as much matrix noise as its larger error asks for.

    (h + r D') / s2' <= (h + r D) / s2 for every h >= 0 if s2' / s2 is D' / D or 1, whichever is more.
    """
    error = eta_error(final, row_length, offset_bound)
    if error <= plan.eta_error:
        return plan
    return replace(plan, noise=plan.noise.scaled(plan.noise.scale * error / plan.eta_error), eta_error=error)


def matrix_metric(design: Bounds) -> Metric:
    """The public metric of the matrix noise: x'D^-1 x is at most 1 in every row."""
    if design.images:
        return design_metric(design.images, joined=design.joined)
    least = 1e-6 * max(term.l2 for term in design.terms)
    bounds = [max(term.l2, least) for term in design.terms]
    shape = np.array(shaped_diagonal(bounds, [term.columns.stop - term.columns.start for term in design.terms]))
    return Metric(tuple((shape * max(1.0, design.curvature_ratio(shape))).tolist()), ())


def known_information(matrix: Vector, noise: MatrixNoise, design: Bounds) -> KnownInformation:
    """A released matrix with what the design knows of every such matrix."""
    law = SpanNoise(noise.metric, noise.entry_variance)
    return KnownInformation.of(matrix, law, design.forms(), design.dummies)


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
    """The information at released coefficients and the spread of the score. Reads rows that are paid for.

    Parameters
    ----------
    plan : InformationPlan
    final : LatticeRelease
        The last step of the fit.
    family : Family
    design : Bounds
    params : ndarray, shape (p,)
        Released, in model units.
    rows : Rows of Block
    adjacency : {"add_remove", "replace_one"}
    random : RandomSource

    Returns
    -------
    Information or None
        None where the proof does not speak of such coefficients: decided by public and released values alone.
    """
    row_length = float(np.sqrt(design.curvature_ratio(np.ones(len(params)))))
    clamped = np.any(np.abs(params) >= 0.99 * LATTICE_LIMIT * final.step)
    offset = design.offset_bound
    far = np.linalg.norm(params) * row_length + offset > farthest(offset)
    if clamped or far or eta_error(final, row_length, offset) > plan.eta_error * (1 + 1e-9):
        return None
    rows = rows.through(_by_columns)
    matrix = noisy_information(
        rows.each(partial(_weighted, family, params)),
        plan.noise,
        weight_bound=plan.weight_bound,
        cover_eps=plan.purchase.cover_eps,
        random=random,
    )
    every = tuple(range(len(params)))
    if plan.purchase.spread == "known":
        # Weights leave the score's covariance open: a plan that has them buys it.
        return Information(every, matrix, ModelSpread(design.score_ratio or 1.0))
    if plan.purchase.spread in ("robust", "clustered"):
        spread = _robust(plan, family, design, params, matrix, rows, adjacency, random)
        return Information(every, matrix, spread)
    return Information(every, matrix, _dispersion(plan, family, design, params, matrix, rows, random))


def _by_columns(shard: int, blocks: Iterable[Block]) -> Iterator[Block]:
    """The blocks in double precision and in pieces that stay in the cache, one column after the other in memory."""
    for block in blocks:
        for part in row_parts(*block.exog.shape):
            piece = block.part(part).doubles()
            yield piece._replace(exog=np.asfortranarray(piece.exog))


def _predictors(params: Vector, block: Block) -> Vector:
    """x'theta + offset at the released coefficients."""
    eta = linear_predictor(block.exog, params)
    return eta if block.offset is None else eta + block.offset


def _weighted(family: Family, params: Vector, block: Block) -> tuple[Vector, Vector]:
    """Rows and w l'' at the released coefficients."""
    bends = row_weights(family, _predictors(params, block), block.endog)
    return block.exog, bends if block.weights is None else block.weights * bends


def _slopes(family: Family, params: Vector, block: Block) -> tuple[Vector, Vector]:
    """Rows and w l' at the released coefficients."""
    slopes = np.asarray(family.slope(_predictors(params, block), block.endog), dtype=np.float64)
    return block.exog, slopes if block.weights is None else block.weights * slopes


def _person_slopes(family: Family, params: Vector, block: Block) -> tuple[Vector, Vector, Vector, NDArray[np.intp]]:
    """Rows, l', weights and persons."""
    assert block.person is not None
    exog, slopes = _slopes(family, params, block._replace(weights=None))
    weights = np.ones(len(slopes)) if block.weights is None else np.asarray(block.weights, dtype=np.float64)
    return exog, slopes, weights, block.person


def _weights(family: Family, params: Vector, block: Block) -> Vector:
    """w l'' of each row."""
    return _weighted(family, params, block)[1]


def _squares(family: Family, params: Vector, block: Block) -> Vector:
    """(w l')^2 of each row."""
    return _slopes(family, params, block)[1] ** 2


def _dispersion(
    plan: InformationPlan,
    family: Family,
    design: Bounds,
    params: Vector,
    matrix: Vector,
    rows: Rows[Block],
    random: RandomSource,
) -> ModelSpread:
    """phi = Q / W: the sum of squared scores over that of the weights."""
    bound, purchase = family.lipschitz**2, plan.purchase
    squares = rows.each(partial(_squares, family, params))
    total = noisy_sum(squares, bound, eps=purchase.spread_eps, random=random)
    total_sd = math.sqrt(2) * bound / purchase.spread_eps
    if purchase.weights_eps:
        weights = rows.each(partial(_weights, family, params))
        mass = noisy_sum(weights, plan.weight_bound, eps=purchase.weights_eps, random=random)
        mass_sd = math.sqrt(2) * plan.weight_bound / purchase.weights_eps
    else:
        known = constant_column(design)
        assert known is not None
        at, length = known[0], known[1] ** 2
        mass, mass_sd = float(matrix[at, at]) / length, math.sqrt(float(plan.noise.variances()[at, at])) / length
    mass = max(mass, mass_sd)
    least = 1.0 if family.name in NEVER_BELOW_ONE else 0.0
    phi = max(total / mass, least)
    deviation = math.hypot(total_sd / mass, phi * mass_sd / mass)
    return ModelSpread(phi, deviation)


class _Directions(NamedTuple):
    """What variances are bought for: rows `wanted` of `every`, shape (k, p), and the public inverse information."""

    every: Vector
    wanted: NDArray[np.bool_]
    inverse: Vector


def _identified(matrix: Vector, noise: MatrixNoise, design: Bounds) -> _Directions:
    """The coefficients in the user's units; where a factor's reference is too rare, its other levels' differences too.

    A function of what was released. Where the matrix cannot be inverted nothing is wanted: what is paid for and
    released by now must not be lost to that.
    """
    contrasts = design.back_transform()[0]
    try:
        known = known_information(matrix, noise, design)
        inverse, inside = known.inverse, known.inside(contrasts)
        turned = np.asarray(np.linalg.inv(known.basis), dtype=np.float64)[known.identified.active]
        every = np.vstack((contrasts, _apart(turned, contrasts[inside])))
        own = np.sum(every @ inverse * every, axis=1)
        return _Directions(every, np.append(inside, np.ones(len(every) - len(inside), dtype=bool)) & (own > 0), inverse)
    except (np.linalg.LinAlgError, ArgumentError):
        return _Directions(contrasts, np.zeros(len(contrasts), dtype=bool), np.zeros_like(matrix))


def _apart(rows: Vector, known: Vector) -> Vector:
    """Those of the rows that are no combination of known ones and of those before them, shape (k, p)."""
    found = np.zeros((0, rows.shape[1]))
    for row in rows:
        basis = np.vstack((known, found))
        rest = row - np.linalg.lstsq(basis.T, row)[0] @ basis if len(basis) else row
        if np.linalg.norm(rest) > INDEPENDENT * np.linalg.norm(row):
            found = np.vstack((found, row))
    return found


def _robust(
    plan: InformationPlan,
    family: Family,
    design: Bounds,
    params: Vector,
    matrix: Vector,
    rows: Rows[Block],
    adjacency: Adjacency,
    random: RandomSource,
) -> RobustSpread:
    """Variances of what is identified, in the user's units, by its own scores (HC0); NaN for other coefficients."""
    noise = plan.noise
    every, inside, inverse = _identified(matrix, noise, design)
    variances, deviations = np.full(len(every), np.nan), np.zeros(len(every))
    if inside.any():
        wanted = every[inside]
        diagonal = np.array(noise.diagonal)
        choices = [np.ones(len(wanted)), spread_allowances(inverse, diagonal, wanted, noise.mixing)]
        bounds = [spread_bound(inverse, diagonal, wanted, noise.mixing, choice) for choice in choices]
        # The smaller noise for most, by public values.
        best = min(range(len(choices)), key=lambda at: float(np.median(choices[at])) * bounds[at])
        most, records = plan.purchase.most, 2 if adjacency == "replace_one" else 1
        # What a row may cost, times the rows of a person.
        eps = most * plan.purchase.spread_eps
        buy = (
            partial(noisy_spread, rows.each(partial(_slopes, family, params)))
            if plan.purchase.spread == "robust"
            else partial(noisy_cluster_spread, rows.each(partial(_person_slopes, family, params)), most=most)
        )
        variances[inside] = buy(
            inverse=inverse,
            diagonal=diagonal,
            contrasts=wanted,
            lipschitz=family.lipschitz,
            eps=eps,
            adjacency=adjacency,
            random=random,
            mixing=noise.mixing,
            allowances=choices[best],
        )
        unit = records * (most * family.lipschitz) ** 2 * bounds[best] / eps
        own = np.sum(wanted @ inverse * wanted, axis=1)
        deviations[inside] = math.sqrt(2) * unit * choices[best] * own
    return RobustSpread(variances, deviations, every if len(every) > len(matrix) else None)
