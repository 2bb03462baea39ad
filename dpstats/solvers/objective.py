"""The perturbed objective, summed over row blocks: values, derivatives, and a gradient with a rounding bound."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from dpstats.cached import cached_property
from dpstats.data import Block, Floats, Rows, block_rows, row_count, thin
from dpstats.families.base import Derivatives, Family
from dpstats.solvers import pairs, rounding
from dpstats.solvers.linear_algebra import CHUNK_ROWS, chunks, square_rows, weighted_square
from dpstats.solvers.pairs import Array, Pair
from dpstats.solvers.rounding import (
    CERTIFIED_ROWS,
    SPLIT_BITS,
    WIDEST,
    Precision,
    Scale,
    Sums,
    add_certified,
    certified_sums,
    split_array,
)

Vector = NDArray[np.float64]

SAMPLE_CHUNK = 256
"""Rows of a sample are taken so many at a time: rows that stand together are often alike."""


USUAL_SLOPE = 0.25
"""Of the greatest |l'|, on average over rows: a guess that saves a pass in an arithmetic that will not do."""


class Accumulated(NamedTuple):
    """J, its gradient, shape (p,), and its Hessian, shape (p, p), or what some rows add to them."""

    value: float
    gradient: Vector
    hessian: NDArray[np.float64]

    def plus(self, other: Accumulated) -> Accumulated:
        """The sum with what other rows add."""
        return Accumulated(*map(operator.add, self, other))


def _predictors(theta: Vector, block: Block) -> Floats:
    """eta of each row, shape (rows,)."""
    eta = block.exog @ theta
    return eta if block.offset is None else eta + block.offset


def _accumulated(family: Family, theta: Vector, blocks: Iterable[Block]) -> Accumulated:
    """The loss of some rows, its gradient and Hessian."""
    value, gradient, hessian = 0.0, np.zeros(len(theta)), np.zeros((len(theta), len(theta)))
    for block in chunks(blocks, square_rows(len(theta))):
        derivatives = family.derivatives(_predictors(theta, block), block.endog)
        if block.weights is not None:
            derivatives = Derivatives(*(block.weights * part for part in derivatives))
        value += float(np.sum(derivatives.value))
        gradient += np.dot(derivatives.gradient, block.exog)
        hessian += weighted_square(block.exog, derivatives.curvature)
    return Accumulated(value, gradient, hessian)


def _gradient(family: Family, theta: Vector, blocks: Iterable[Block]) -> Vector:
    """What some rows add to the gradient."""
    gradient = np.zeros(len(theta))
    for block in chunks(blocks, CHUNK_ROWS):
        slope = family.slope(_predictors(theta, block), block.endog)
        gradient += np.dot(slope if block.weights is None else block.weights * slope, block.exog)
    return gradient


class CertifiedGradient(NamedTuple):
    """A gradient of J, shape (p,), and a bound on the Euclidean norm of its rounding error."""

    gradient: Array
    error: float

    @property
    def norm(self) -> float:
        """An upper bound on the norm of the exact gradient."""
        return float(np.linalg.norm(self.gradient.astype(np.float64))) * (1 + 1e-12) + self.error


class PerturbedObjective:
    """J(theta) = sum_i w_i l(x_i'theta + o_i; y_i) + 1/2 theta' diag(m) theta + b'theta (docs/proofs/objective).

    `rows` are blocks or (exog, endog), complete, weights within [0, 1], gone through once an evaluation; `row_norm`
    and `offset_bound` bound rows and offsets, for rounding bounds only.
    """

    # What some rows add up to, for the passes over them. Functions of a module: they may be sent elsewhere.
    sums_of: ClassVar[Callable[..., Accumulated]] = staticmethod(_accumulated)
    gradient_of: ClassVar[Callable[..., Vector]] = staticmethod(_gradient)
    certified_of: ClassVar[Callable[..., Sums]] = staticmethod(certified_sums)

    def __init__(
        self,
        family: Family,
        rows: Rows[Block] | Iterable[tuple[Any, ...]],
        curvature: Vector,
        noise: Vector,
        row_norm: float = 1.0,
        widest: type[np.floating] = WIDEST,
        offset_bound: float = 0.0,
    ) -> None:
        self.family = family
        self.offset_bound = offset_bound
        self.rows = block_rows(rows)
        self.curvature = np.asarray(curvature, dtype=np.float64)
        self.noise = np.asarray(noise, dtype=np.float64)
        self.size = len(self.curvature)  # p
        self.row_norm = row_norm
        self.widest = widest
        self.ladder = rounding.ladder(widest)

    @property
    def natural_unit(self) -> float:
        """A size of J that matters: at most 1, and L^2 / sup l'' for losses that are small or sharply bent."""
        return min(1.0, self.family.lipschitz**2 / self.family.curvature_bound)

    @property
    def pull(self) -> float:
        """A bound on the norm of the gradient at zero: no point of lower J is farther from zero than 2 pull / min m."""
        reach = self.count * self.family.lipschitz * self.row_norm
        return 1.001 * (reach + float(np.linalg.norm(self.noise)))

    @property
    def steepness(self) -> float:
        """A Lipschitz constant of the gradient."""
        return 1.001 * self.count * self.family.curvature_bound * self.row_norm**2 + float(np.max(self.curvature))

    @cached_property
    def count(self) -> int:
        """The number of rows: private, like everything here."""
        return row_count(self.rows)

    def accumulate(self, theta: Vector) -> Accumulated:
        """J, gradient and Hessian at theta, in one pass over the rows."""
        public = Accumulated(*self._smooth(theta), np.diag(self.curvature))
        return public.plus(self.rows.total_of_pieces(partial(self.sums_of, self.family, theta), Accumulated.plus))

    def gradient(self, theta: Vector) -> Vector:
        """The gradient of J at theta alone, in the cheapest pass over the rows that there is."""
        own = self.rows.total_of_pieces(partial(self.gradient_of, self.family, theta), operator.add)
        return np.asarray(self._smooth(theta)[1] + own, dtype=np.float64)

    def thinned(self, every: int) -> Self:
        """Every `every`-th few rows, with the public terms shrunk alike: a cheap place to start from."""
        return self.altered(thin(self.rows, every, SAMPLE_CHUNK), self.curvature / every, self.noise / every)

    def altered(self, rows: Rows[Block], curvature: Vector, noise: Vector) -> Self:
        """The same loss and arithmetic with other rows and public terms."""
        return type(self)(self.family, rows, curvature, noise, self.row_norm, self.widest, self.offset_bound)

    def certified_gradient(self, theta: Array | Pair, precision: Precision) -> CertifiedGradient:
        """The gradient at theta with a bound on its rounding error, in arithmetic of the given precision.

        The error of eta, of l' and of the sums are bounded as in docs/proofs/release, from the row norm, the
        family's constants and the number of rows.
        """
        point = theta if isinstance(theta, Pair) else pairs.single(theta, self.widest)
        bounds = self.family.lipschitz, self.row_norm
        sums = partial(self.certified_of, self.family, precision, self.widest, bounds, point)
        total, absolute = self.rows.total_of_pieces(sums, add_certified)
        curvature = pairs.single(self.curvature, self.widest)
        gradient = pairs.plus(pairs.multiply(curvature, point), self.noise.astype(self.widest))
        for part in range(len(total.high)):
            gradient = pairs.add(gradient, Pair(total.high[part], total.low[part]))
        return CertifiedGradient(gradient.high, self.rounding_bound(point.high, precision, absolute * 1.001))

    def hessian(self, theta: Pair, precision: Precision, width: float) -> NDArray[np.float64]:
        """The Hessian, shape (p, p), with l'' averaged over eta - width to eta + width; width 0 means no average.

        An average shows kinks before a step runs into them. Whatever it is, it lies between 0 and sup l''.
        """
        part = partial(_averaged_hessian, self.family, precision, self.row_norm, theta, width)
        hessian = self.rows.total_of_pieces(part, operator.add)
        hessian[np.diag_indices_from(hessian)] += self.curvature
        return hessian

    def reach(self, step: Vector) -> float:
        """The largest change of any row's eta along a step of theta, shape (p,)."""
        return self.rows.total_of_pieces(partial(_reach, step), max)

    def rounding_bound(self, theta: Array, precision: Precision, absolute: float) -> float:
        """Bound on the rounding error of a gradient, given the sum `absolute` of |l'| over the rows.

        With ``absolute=0`` it is what cannot be avoided at this precision, known before the pass over the rows.
        """
        point = theta.astype(np.float64)
        public = float(np.linalg.norm(self.curvature * point) + np.linalg.norm(self.noise))
        length = float(np.linalg.norm(point))
        scale = Scale(self.size, self.count, self.row_norm, length, public, absolute, self.offset_bound)
        return rounding.gradient_error(self.family, precision, self.widest, scale)

    def first_rung(self, point: Pair, tolerance: float, share: float = 0.5) -> int:
        """The cheapest arithmetic whose bound takes no more than a share of the tolerance, slopes of usual size."""
        rung, absolute = 0, USUAL_SLOPE * self.count * self.family.lipschitz
        while rung + 1 < len(self.ladder) and (
            self.rounding_bound(point.high, self.ladder[rung], absolute) > share * tolerance
        ):
            rung += 1
        return rung

    def _smooth(self, theta: Vector) -> tuple[float, Vector]:
        """The part of J without data: quadratic and noise, and its gradient."""
        value = float(theta @ (0.5 * self.curvature * theta + self.noise))
        return value, self.curvature * theta + self.noise


def _averaged_hessian(
    family: Family, precision: Precision, row_norm: float, theta: Pair, width: float, blocks: Iterable[Block]
) -> NDArray[np.float64]:
    """What some rows add to the Hessian, with l'' averaged over eta - width to eta + width."""
    hessian, point = np.zeros((len(theta.high), len(theta.high))), precision.point(theta)
    for block in chunks(blocks, CERTIFIED_ROWS):
        rows = split_array(np.asarray(block.exog, dtype=np.float64), row_norm, SPLIT_BITS)
        eta, response = precision.eta(rows, point, block.offset).high, block.endog.astype(precision.dtype, copy=False)
        if width > 0:
            half = np.maximum(precision.dtype(width), 16 * np.finfo(precision.dtype).eps * np.abs(eta))
            rise = family.slope(eta + half, response) - family.slope(eta - half, response)
            bend = np.clip(rise / (2 * half), 0, family.curvature_bound)
        else:
            bend = family.derivatives(eta, response).curvature
        if block.weights is not None:
            bend = bend * block.weights
        hessian += weighted_square(rows.whole, bend.astype(np.float64, copy=False))
    return hessian


def _reach(step: Vector, blocks: Iterable[Block]) -> float:
    """The largest change of eta along a step among some rows."""
    return max(
        (float(np.max(np.abs(exog @ step), initial=0.0)) for exog, *_ in chunks(blocks, CHUNK_ROWS)), default=0.0
    )
