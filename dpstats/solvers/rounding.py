"""What a machine's arithmetic can certify: rungs of precision, their rounding bounds, sums without rounding
(docs/proofs/release)."""

from __future__ import annotations

import math
from collections.abc import Iterable
from functools import singledispatch
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dpstats.data import Block
from dpstats.families import (
    Binomial,
    BinomialCounts,
    Gaussian,
    HuberSVM,
    NegativeBinomial,
    Poisson,
    Quantile,
    SmoothSVM,
)
from dpstats.families.base import Family, closed_cap
from dpstats.families.hazard import PiecewiseExponential
from dpstats.solvers import pairs
from dpstats.solvers.linear_algebra import CERTIFIED_CELLS, chunk_rows, chunks
from dpstats.solvers.pairs import Array, Pair


@singledispatch
def pair_slope(family: Family, eta: Pair, endog: Array) -> Pair:
    """l' at eta, to twice the digits of its type; shape (rows,).

    A family from elsewhere is evaluated at the nearest float: it has no certificate.
    """
    return pairs.single(family.slope(eta.high + eta.low, endog), eta.high.dtype.type)


@pair_slope.register
def _gaussian(family: Gaussian, eta: Pair, endog: Array) -> Pair:
    return _clip(pairs.plus(eta, -endog), -family.lipschitz, family.lipschitz)


@pair_slope.register
def _binomial(family: Binomial, eta: Pair, endog: Array) -> Pair:
    # l' = +-1/(1 + exp(-t)) with t = +-eta.
    sign = 1 - 2 * endog
    slope = _chance(Pair(sign * eta.high, sign * eta.low))
    return Pair(sign * slope.high, sign * slope.low)


@pair_slope.register
def _binomial_counts(family: BinomialCounts, eta: Pair, endog: Array) -> Pair:
    return pairs.plus(_chance(eta), -endog)


@pair_slope.register
def _negative_binomial(family: NegativeBinomial, eta: Pair, endog: Array) -> Pair:
    # (c + y) p - y, and c + y as a pair, so that the sum is not rounded.
    dtype = eta.high.dtype.type
    chance = _chance(pairs.plus(eta, dtype(family.shift)))
    total = pairs.plus(pairs.single(endog, dtype), dtype(family.failures))
    return pairs.plus(pairs.multiply(total, chance), -endog)


def _chance(eta: Pair) -> Pair:
    """1 / (1 + exp(-eta)), through exp(-|eta|) so that neither tail cancels."""
    dtype = eta.high.dtype.type
    falls = eta.high < 0
    small = pairs.exponential(pairs.choose(falls, eta, pairs.negative(eta)))
    one = pairs.single(np.ones_like(eta.high), dtype)
    return pairs.divide(pairs.choose(falls, small, one), pairs.plus(small, dtype(1)))


@pair_slope.register
def _quantile(family: Quantile, eta: Pair, endog: Array) -> Pair:
    dtype = eta.high.dtype.type
    width = pairs.single(np.full_like(eta.high, closed_cap("h", family.h)), dtype)
    return pairs.plus(_chance(pairs.divide(pairs.plus(eta, -endog), width)), -dtype(family.q))


@pair_slope.register
def _poisson(family: Poisson, eta: Pair, endog: Array) -> Pair:
    dtype = eta.high.dtype.type
    start, width = family.knots()
    mean = _clip(pairs.exponential(_clip(eta, -np.inf, start)), 0.0, family.curvature_bound)
    if family.curvature_bound < family.lipschitz:
        mean = pairs.add(mean, _rise(family, pairs.plus(eta, -dtype(start)), width))
    return pairs.plus(_clip(mean, 0.0, family.lipschitz), -endog)


@pair_slope.register
def _piecewise_exponential(family: PiecewiseExponential, eta: Pair, endog: Array) -> Pair:
    # The slope of a piece of time, and what an event counts, with its sign: factors of 0 and 1 are exact.
    dtype = eta.high.dtype.type
    past = _clip(pairs.plus(eta, -dtype(family.ramp_start)), 0.0, 1.0)
    rise = pairs.plus(pairs.multiply(pairs.plus(pairs.negative(past), dtype(2)), pairs.exponential(past)), dtype(-1))
    low = pairs.exponential(_clip(eta, -np.inf, family.ramp_start))
    mean, counts = _clip(pairs.multiply(low, rise), 0.0, family.most), pairs.plus(past, dtype(-1))
    piece = 1 - endog
    return Pair(piece * mean.high + endog * counts.high, piece * mean.low + endog * counts.low)


def _rise(family: Poisson, over: Pair, width: float) -> Pair:
    """The mean's rise above the cap where eta is `over` the first knot: a line, then an exponential approach."""
    dtype = over.high.dtype.type
    cap = pairs.single(np.full_like(over.high, family.curvature_bound), dtype)
    line = pairs.multiply(cap, _clip(over, 0.0, width))
    whole = pairs.multiply(cap, pairs.single(np.full_like(over.high, width), dtype))
    most = pairs.single(np.full_like(over.high, family.lipschitz), dtype)
    rest = pairs.add(pairs.plus(most, -cap.high), pairs.negative(whole))
    # Below exp(-745) of it nothing is left, and no product may overflow.
    unit = pairs.divide(rest, cap)
    beyond = _clip(pairs.plus(over, -dtype(width)), 0.0, float(745 * unit.high[0])) if len(over.high) else over
    left = pairs.exponential(pairs.negative(pairs.divide(beyond, unit)))
    approach = pairs.multiply(rest, pairs.plus(pairs.negative(left), dtype(1)))
    return pairs.add(line, approach)


@pair_slope.register
def _huber_svm(family: HuberSVM, eta: Pair, endog: Array) -> Pair:
    shortfall, sign, half = _shortfall(family, eta, endog)
    slope = _clip(pairs.divide(pairs.plus(shortfall, half.high), pairs.plus(half, half.high)), 0.0, 1.0)
    return Pair(-sign * slope.high, -sign * slope.low)


@pair_slope.register
def _smooth_svm(family: SmoothSVM, eta: Pair, endog: Array) -> Pair:
    dtype = eta.high.dtype.type
    shortfall, sign, half = _shortfall(family, eta, endog)
    v = _clip(pairs.divide(shortfall, half), -1.0, 1.0)
    bracket = pairs.plus(pairs.negative(pairs.multiply(v, v)), dtype(3))
    slope = pairs.plus(pairs.multiply(v, bracket), dtype(2))
    quarter = -sign / 4
    return Pair(quarter * slope.high, quarter * slope.low)


def _shortfall(family: HuberSVM | SmoothSVM, eta: Pair, endog: Array) -> tuple[Pair, Array, Pair]:
    """1 - z with z = +-eta, the sign, and the corner's half-width h as a pair."""
    dtype = eta.high.dtype.type
    sign = 2 * endog - 1
    shortfall = pairs.plus(Pair(-sign * eta.high, -sign * eta.low), dtype(1))
    return shortfall, sign, pairs.single(np.full_like(eta.high, family.h), dtype)


def _clip(value: Pair, least: float, most: float) -> Pair:
    """The pair held between two floats; the low part decides where the high part is at one of them."""
    dtype = value.high.dtype.type
    for bound, side in ((least, -1), (most, 1)):
        beyond = side * (value.high - dtype(bound)) + side * value.low > 0
        value = pairs.choose(beyond, pairs.single(np.full_like(value.high, bound), dtype), value)
    return value


CERTIFIED_ROWS = 4096
"""Rows summed at once where rounding errors are bounded: split sums of at most 2**12 rows are exact."""

SPLIT_BITS = 20
POINT_BITS = 28
"""Bits kept in the leading parts of rows, slopes and theta, so that their products sum without rounding."""

SAFE_SHARE = 1 / 32
"""A rounding error of this share of the tolerance lets the safeguarded solver see every descent that it needs."""

NEARBY = 1e-6
"""Errors of a linear predictor below this change no l'' of a family with a `relative_slope` by more than this share."""

DOUBLE = float(np.finfo(np.float64).eps)


def widest_float() -> type[np.floating]:
    """The widest type whose sums are rounded to nearest: x87's or IEEE's extended floats where there are any.

    Windows and macOS on ARM have none, and pairs of float64 must do; a longdouble that is a pair itself will not.
    """
    return np.longdouble if np.finfo(np.longdouble).nmant in (63, 112) else np.float64


WIDEST = widest_float()


class SplitArray(NamedTuple):
    """An array as an exact sum: a leading part on a coarse grid and a small rest."""

    whole: Array
    leading: NDArray[np.float64]
    rest: Array


def split_array(values: Array, bound: float, bits: int, room: tuple[Array, Array] | None = None) -> SplitArray:
    """Round to `bits` binary places of the power of two above `bound` (Ozaki et al. 2012).

    Sums of products of leading parts need no more bits than a float64 has and are exact in any order. `room` holds the
    two parts of values in float64, of any shape that is large enough.
    """
    grid = 2.0 ** (math.ceil(math.log2(bound)) - bits)
    if values.dtype != np.float64:
        leading = np.rint(values * (1 / grid)).astype(np.float64, copy=False)
        leading *= grid
        return SplitArray(values, leading, values - leading)
    leading, rest = (None, None) if room is None else (part[: len(values)] for part in room)
    # Beside a number whose last place is the grid a float64 keeps no finer places.
    beside = 1.5 * 2.0**52 * grid
    leading = np.add(values, beside, out=leading)
    leading -= beside
    return SplitArray(values, leading, np.subtract(values, leading, out=rest))


class Point(NamedTuple):
    """Where linear predictors are wanted, in the parts that an arithmetic multiplies rows with."""

    pair: Pair
    leading: NDArray[np.float64]
    whole: NDArray[np.float64]
    tail: NDArray[np.float64]


class Precision(NamedTuple):
    """An arithmetic for certified gradients: the type of l', and whether eta and l' are kept to twice its digits."""

    dtype: type[np.floating]
    paired: bool = False
    fine: bool = False
    """Whether rows and l' are cut into three for the sums, and not in two, as always for pairs."""

    @property
    def sums(self) -> int:
        """Of how many parts the sums of w l' x are."""
        return 4 if self.paired or self.fine else 2

    def point(self, theta: Pair) -> Point:
        """Theta, shape (p,), as `eta` takes it."""
        if self.paired:
            pair, nothing = Pair(*(part.astype(self.dtype) for part in theta)), np.empty(0)
            return Point(pair, nothing, nothing, nothing)
        high = split_array(theta.high, float(np.linalg.norm(theta.high.astype(np.float64))) or 1.0, POINT_BITS)
        tail = (high.rest + theta.low).astype(np.float64)
        return Point(theta, high.leading, high.whole.astype(np.float64), tail)

    def eta(self, rows: SplitArray, point: Point, offset: Array | None = None) -> Pair:
        """x'theta + offset of each row, shape (rows,); the low part is zero unless `paired`."""
        if self.paired:
            exact = pairs.product(rows.whole.astype(self.dtype), point.pair)
            return exact if offset is None else pairs.plus(exact, offset.astype(self.dtype))
        rest = rows.leading @ point.tail
        rest += rows.rest @ point.whole
        total = (rows.leading @ point.leading).astype(self.dtype, copy=False)
        total += rest
        return pairs.single(total if offset is None else total + offset.astype(self.dtype), self.dtype)

    def slope(self, family: Family, rows: SplitArray, point: Point, block: Block) -> Pair:
        """w l' of each row of a block, shape (rows,); `rows` are the block's columns, split."""
        eta = self.eta(rows, point, block.offset)
        endog = block.endog.astype(self.dtype, copy=False)
        if not self.paired:
            slope = family.slope(eta.high, endog)
            return pairs.single(slope if block.weights is None else block.weights * slope, self.dtype)
        with np.errstate(over="ignore"):
            exact = pair_slope(family, eta, endog)
        return exact if block.weights is None else pairs.multiply(pairs.single(block.weights, self.dtype), exact)

    def slope_error(self, family: Family, size: int, magnitude: float, offset: float = 0.0) -> float:
        """Bound on the error of one w l', where |x| |theta| <= magnitude, and the offset is at most `offset`."""
        unit = float(np.finfo(self.dtype).eps)
        if self.paired:
            eta, own = 2 * unit**2 * ((size + 2) ** 2 * magnitude + offset), 2.0**10 * unit**2
        else:
            eta, own = unit * (magnitude + offset) + _rest_error(size, magnitude), 8 * unit
        return min(family.curvature_bound * eta + own * family.lipschitz, 2.01 * family.lipschitz)

    def slope_errors(self, family: Family, scale: Scale) -> float:
        """Bound on the sum over the rows of the errors of w l'."""
        magnitude, offset = scale.row_norm * scale.point, scale.offset
        most = scale.rows * self.slope_error(family, scale.size, magnitude, offset)
        unit = float(np.finfo(self.dtype).eps)
        if self.paired or family.relative_slope is None or not unit * (magnitude + offset) < NEARBY:
            return most
        bends = min(scale.absolute, family.curvature_bound * scale.rows)
        eta = bends * (_rest_error(scale.size, magnitude) + unit * offset) + scale.rows * family.relative_slope * unit
        return min(most, 1.001 * (eta + 3 * unit * scale.absolute))


def _rest_error(size: int, magnitude: float) -> float:
    """Of the products that are not exact in x'theta."""
    return (size + 2) * DOUBLE * math.sqrt(size) * 2.0 ** (1 - SPLIT_BITS) * magnitude


def ladder(widest: type[np.floating]) -> tuple[Precision, ...]:
    """Arithmetics tried in turn until the rounding bound is small enough, cheapest first."""
    singles = (Precision(np.float64),) if widest is np.float64 else (Precision(np.float64), Precision(widest))
    return (*singles, Precision(widest, fine=True), Precision(widest, paired=True))


class Scale(NamedTuple):
    """The sizes that rounding errors grow with."""

    size: int
    """p."""
    rows: float
    row_norm: float
    point: float
    """A bound on ||theta||."""
    public: float
    """A bound on ||M theta|| + ||b||."""
    absolute: float
    """A bound on the sum of |l'| over the rows; 0 asks for what no data can avoid."""
    offset: float = 0.0
    """A bound on the rows' offsets."""


def gradient_error(family: Family, precision: Precision, widest: type[np.floating], scale: Scale) -> float:
    """Bound on the rounding error of a certified gradient (docs/proofs/release)."""
    size, rows, row_norm, _, public, absolute, _ = scale
    wide = float(np.finfo(widest).eps)
    steep = rows * family.lipschitz
    places = SPLIT_BITS if precision.sums == 2 else 2 * SPLIT_BITS
    sums = (CERTIFIED_ROWS + 4) * DOUBLE * 2.0**-places * (2 * math.sqrt(size) * (absolute + steep))
    totals = 16 * wide**2 * (public + (rows + 2) * row_norm * absolute)
    # Row norms and l' may exceed their bounds by roundings of their own.
    slopes = precision.slope_errors(family, scale)
    return 1.001 * (row_norm * (slopes + sums) + totals)


def least_tolerance(
    family: Family,
    *,
    rows: float,
    row_norm: float,
    curvature: NDArray[np.float64],
    linear: float,
    penalised: bool = False,
    offset_bound: float = 0.0,
    widest: type[np.floating] = WIDEST,
) -> float:
    """A gradient tolerance that every data set of at most `rows` rows can be certified to on this machine.

    `linear` bounds the Euclidean norm of the linear term; `penalised`: there is a penalty, whose slope is rounded too.
    """
    pull = rows * family.lipschitz * row_norm + linear
    # No point of lower objective than zero is farther from zero than this (docs/proofs/release).
    point = 2.001 * pull / float(np.min(curvature))
    steepest = float(np.max(curvature))
    reach = rows * family.lipschitz
    scale = Scale(len(curvature), rows, row_norm, point, steepest * point + linear, reach, offset_bound)
    wide = float(np.finfo(widest).eps)
    error = gradient_error(family, ladder(widest)[-1], widest, scale)
    error += 4 * wide**2 * (rows * family.curvature_bound * row_norm**2 + steepest) * point
    error += 32 * wide * pull if penalised else 0.0
    return error / SAFE_SHARE


Sums = tuple[Pair, float]
"""The parts of the sum of w l' x, shape (parts, p), and the sum of w |l'|."""


def certified_sums(
    family: Family,
    precision: Precision,
    widest: type[np.floating],
    bounds: tuple[float, float],
    theta: Pair,
    blocks: Iterable[Block],
) -> Sums:
    """What some rows add; `bounds` are those on l' and on the rows, theta has shape (p,)."""
    point, width = precision.point(theta), len(theta.high)
    total, absolute = pairs.single(np.zeros((precision.sums, width)), widest), 0.0
    inside, rows, room = np.zeros(total.high.shape), 0, None
    for block in chunks(blocks, CERTIFIED_ROWS, CERTIFIED_CELLS):
        if rows + len(block.endog) > CERTIFIED_ROWS:
            total, inside, rows = pairs.plus(total, inside), np.zeros_like(inside), 0
        exog = np.asarray(block.exog, dtype=np.float64)
        room = room or _room(exog)
        cells = split_array(exog, bounds[1], SPLIT_BITS, room)
        slope = precision.slope(family, cells, point, block)
        add_products(inside, slope, cells, precision, bounds)
        absolute, rows = absolute + float(np.sum(np.abs(slope.high))), rows + len(block.endog)
    return pairs.plus(total, inside), absolute


def add_certified(one: Sums, other: Sums) -> Sums:
    """What more rows add."""
    return pairs.add(one[0], other[0]), one[1] + other[1]


def add_products(
    inside: NDArray[np.float64], slope: Pair, rows: SplitArray, precision: Precision, bounds: tuple[float, float]
) -> None:
    """Add the sums of l' x over some rows, shape (parts, p): all parts but the last without rounding.

    So they are over all chunks together, as long as these have at most `CERTIFIED_ROWS` rows.
    """
    weights = split_array(slope.high, bounds[0], SPLIT_BITS)
    inside[0] += np.dot(weights.leading, rows.leading)
    if precision.sums == 2:
        inside[1] += np.dot(weights.leading, rows.rest)
        inside[1] += np.dot(weights.rest.astype(np.float64, copy=False), rows.whole)
        return
    finer = split_array(weights.rest, bounds[0] * 2.0**-SPLIT_BITS, SPLIT_BITS)
    cells = split_array(rows.rest, bounds[1] * 2.0**-SPLIT_BITS, SPLIT_BITS)
    inside[1] += np.dot(weights.leading, cells.leading)
    inside[2] += np.dot(finer.leading, rows.leading)
    inside[3] += np.dot(weights.leading, cells.rest) + np.dot(finer.leading, rows.rest)
    inside[3] += np.dot((finer.rest + slope.low).astype(np.float64), rows.whole)


def _room(exog: Array) -> tuple[Array, Array]:
    """For the parts of the rows of a chunk, used again and again: it stays in the cache, laid out as the rows are."""
    shape = chunk_rows(exog.shape[1], CERTIFIED_ROWS, CERTIFIED_CELLS), exog.shape[1]
    order: Literal["C", "F"] = "F" if exog.strides[0] < exog.strides[1] else "C"
    return np.empty(shape, order=order), np.empty(shape, order=order)
