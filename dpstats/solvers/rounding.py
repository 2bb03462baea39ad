"""What a machine's arithmetic can certify: its rungs of precision and their rounding bounds (docs/proofs/release)."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dpstats.families.base import Family
from dpstats.rows import Block
from dpstats.solvers import pairs
from dpstats.solvers.pairs import Array, Pair
from dpstats.solvers.slopes import pair_slope

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


class Split(NamedTuple):
    """An array as an exact sum: a leading part on a coarse grid and a small rest."""

    whole: Array
    leading: NDArray[np.float64]
    rest: Array


def split(values: Array, bound: float, bits: int, room: tuple[Array, Array] | None = None) -> Split:
    """Round to `bits` binary places of the power of two above `bound` (Ozaki et al. 2012).

    Sums of products of leading parts need no more bits than a float64 has and are exact in any order. `room` holds the
    two parts of values in float64, of any shape that is large enough.
    """
    grid = 2.0 ** (math.ceil(math.log2(bound)) - bits)
    if values.dtype != np.float64:
        leading = np.rint(values * (1 / grid)).astype(np.float64, copy=False)
        leading *= grid
        return Split(values, leading, values - leading)
    leading, rest = (None, None) if room is None else (part[: len(values)] for part in room)
    # Beside a number whose last place is the grid a float64 keeps no finer places.
    beside = 1.5 * 2.0**52 * grid
    leading = np.add(values, beside, out=leading)
    leading -= beside
    return Split(values, leading, np.subtract(values, leading, out=rest))


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
        high = split(theta.high, float(np.linalg.norm(theta.high.astype(np.float64))) or 1.0, POINT_BITS)
        tail = (high.rest + theta.low).astype(np.float64)
        return Point(theta, high.leading, high.whole.astype(np.float64), tail)

    def eta(self, rows: Split, point: Point, offset: Array | None = None) -> Pair:
        """x'theta + offset of each row, shape (rows,); the low part is zero unless `paired`."""
        if self.paired:
            exact = pairs.product(rows.whole.astype(self.dtype), point.pair)
            return exact if offset is None else pairs.plus(exact, offset.astype(self.dtype))
        rest = rows.leading @ point.tail
        rest += rows.rest @ point.whole
        total = (rows.leading @ point.leading).astype(self.dtype, copy=False)
        total += rest
        return pairs.single(total if offset is None else total + offset.astype(self.dtype), self.dtype)

    def slope(self, family: Family, rows: Split, point: Point, block: Block) -> Pair:
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

    Parameters
    ----------
    family : Family
    rows : float
    row_norm : float
        Bound on the Euclidean norm of every row.
    curvature : ndarray, shape (p,)
    linear : float
        Bound on the Euclidean norm of the objective's linear term.
    penalised : bool
        Whether there is a penalty whose derivative is rounded.
    offset_bound : float
        Bound on the size of every row's offset.
    widest : type
        The widest float there is.
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
