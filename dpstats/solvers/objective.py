"""The perturbed objective, summed over row blocks: values, derivatives, and a gradient with a rounding bound."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dpstats.families.base import Array, Family

Vector = NDArray[np.float64]
Block = tuple[NDArray[np.floating], NDArray[np.floating]]

CHUNK_ROWS = 8192
"""Rows handled at once: the working arrays of a chunk stay in cache, whatever the size of a block."""

CERTIFIED_ROWS = 4096
"""Rows summed at once where rounding errors are bounded: split sums of at most 2**12 rows are exact."""

SPLIT_BITS = 20
POINT_BITS = 28
"""Bits kept in the leading parts of rows, slopes and theta, so that their products sum without rounding."""


class Accumulated(NamedTuple):
    """J, its gradient, shape (p,), and its Hessian, shape (p, p)."""

    value: float
    gradient: Vector
    hessian: NDArray[np.float64]


class CertifiedGradient(NamedTuple):
    """A gradient of J, shape (p,), and a bound on the Euclidean norm of its rounding error."""

    gradient: NDArray[np.longdouble]
    error: float

    @property
    def norm(self) -> float:
        """An upper bound on the norm of the exact gradient."""
        return float(np.linalg.norm(self.gradient.astype(np.float64))) * (1 + 1e-12) + self.error


class PerturbedObjective:
    """J(theta) = sum_i l(x_i'theta; y_i) + 1/2 theta' diag(m) theta + b'theta (docs/proofs/objective).

    Parameters
    ----------
    family : Family
        The loss l.
    blocks : iterable of (exog, endog)
        Row blocks, shapes (rows, p) and (rows,), without missing values; iterated once per evaluation, so it must
        be a collection rather than a generator.
    curvature : ndarray, shape (p,)
        The diagonal m of the quadratic term, all positive.
    noise : ndarray, shape (p,)
        The linear term b.
    row_norm : float
        Bound on the Euclidean norm of every row; used in rounding bounds only.
    """

    def __init__(
        self, family: Family, blocks: Iterable[Block], curvature: Vector, noise: Vector, row_norm: float = 1.0
    ) -> None:
        self.family = family
        self.blocks = blocks
        self.curvature = np.asarray(curvature, dtype=np.float64)
        self.noise = np.asarray(noise, dtype=np.float64)
        self.row_norm = row_norm

    @property
    def size(self) -> int:
        """The number of columns p."""
        return len(self.curvature)

    @property
    def natural_unit(self) -> float:
        """A size of J that matters: at most 1, and L^2 / sup l'' for losses that are small or sharply bent."""
        return min(1.0, self.family.lipschitz**2 / self.family.curvature_bound)

    @property
    def rows(self) -> int:
        """The number of rows: private, like everything here."""
        return sum(len(endog) for _, endog in self.blocks)

    def chunks(self, rows: int = CHUNK_ROWS) -> Iterator[Block]:
        """The row blocks cut into pieces of at most `rows` rows."""
        for exog, endog in self.blocks:
            for start in range(0, len(endog), rows):
                yield exog[start : start + rows], endog[start : start + rows]

    def accumulate(self, theta: Vector) -> Accumulated:
        """J, gradient and Hessian at theta, in one pass over the rows."""
        value, gradient, hessian = self._smooth(theta)
        hessian[np.diag_indices_from(hessian)] += self.curvature
        for exog, endog in self.chunks():
            derivatives = self.family.derivatives(exog @ theta, endog)
            value += float(np.sum(derivatives.value))
            gradient += derivatives.gradient @ exog
            weighted = exog * np.sqrt(derivatives.curvature)[:, None]
            hessian += weighted.T @ weighted
        return Accumulated(value, gradient, hessian)

    def value_gradient(self, theta: Vector) -> tuple[float, Vector]:
        """J and its gradient at theta, in one pass over the rows."""
        value, gradient, _ = self._smooth(theta)
        for exog, endog in self.chunks():
            derivatives = self.family.derivatives(exog @ theta, endog)
            value += float(np.sum(derivatives.value))
            gradient += derivatives.gradient @ exog
        return value, gradient

    def thinned(self, every: int) -> PerturbedObjective:
        """Every `every`-th chunk of rows, with the public terms shrunk alike: a cheap place to start from."""
        rows = [chunk for index, chunk in enumerate(self.chunks()) if index % every == 0]
        return PerturbedObjective(self.family, rows, self.curvature / every, self.noise / every, self.row_norm)

    def certified_gradient(self, theta: NDArray[np.longdouble], precision: Precision) -> CertifiedGradient:
        """The gradient at theta with a bound on its rounding error, in arithmetic of the given precision.

        The error of eta, of l' and of the sums are bounded as in docs/proofs/release, from the row norm, the
        family's constants and the number of rows.
        """
        total = np.zeros(self.size, dtype=np.longdouble)
        absolute = 0.0
        for exog, endog in self.chunks(CERTIFIED_ROWS):
            rows = split(np.asarray(exog, dtype=np.float64), self.row_norm, SPLIT_BITS)
            slope = precision.slope(self.family, rows, theta, endog)
            weights = split(slope, self.family.lipschitz, SPLIT_BITS)
            total += weights.leading @ rows.leading
            total += weights.leading @ rows.rest + weights.rest.astype(np.float64) @ rows.whole
            absolute += float(np.sum(np.abs(weights.leading)))
        gradient = self.curvature * theta + self.noise + total
        return CertifiedGradient(gradient, self.rounding_bound(theta, precision, absolute))

    def rounding_bound(self, theta: NDArray[np.longdouble], precision: Precision, absolute: float) -> float:
        """Bound on the rounding error of a gradient, given the sum `absolute` of |l'| over the rows.

        With ``absolute=0`` it is what cannot be avoided at this precision, known before the pass over the rows.
        """
        unit = float(np.finfo(precision.dtype).eps)
        double, extended = float(np.finfo(np.float64).eps), float(np.finfo(np.longdouble).eps)
        point = theta.astype(np.float64)
        eta_error = precision.eta_error(self.size, self.row_norm * float(np.linalg.norm(point)))
        slope_error = self.family.curvature_bound * eta_error + 8 * unit * self.family.lipschitz
        rest = (CERTIFIED_ROWS + 2) * double * 2.0**-SPLIT_BITS
        sums = rest * (2 * math.sqrt(self.size) * absolute + 2 * self.rows * self.family.lipschitz)
        sums += 8 * extended * (self.rows / CERTIFIED_ROWS + 1) * absolute
        public = 8 * unit * float(np.linalg.norm(self.curvature * point) + np.linalg.norm(self.noise))
        return self.row_norm * (self.rows * slope_error + sums) + public

    def _smooth(self, theta: Vector) -> tuple[float, Vector, NDArray[np.float64]]:
        """The part of J without data: quadratic and noise; the Hessian starts from zero."""
        value = float(theta @ (0.5 * self.curvature * theta + self.noise))
        return value, self.curvature * theta + self.noise, np.zeros((self.size, self.size))


class Split(NamedTuple):
    """An array as an exact sum: a leading part on a coarse grid and a small rest."""

    whole: Array
    leading: NDArray[np.float64]
    rest: Array


def split(values: Array, bound: float, bits: int) -> Split:
    """Round to `bits` binary places of the power of two above `bound` (Ozaki et al. 2012).

    Sums of products of leading parts need no more bits than a float64 has and are exact in any order.
    """
    grid = 2.0 ** (math.ceil(math.log2(bound)) - bits)
    leading = np.rint(values * (1 / grid)).astype(np.float64, copy=False)
    leading *= grid
    return Split(values, leading, values - leading)


class Precision(NamedTuple):
    """An arithmetic for certified gradients: the dtype of l', and whether eta is kept to twice its digits."""

    dtype: type[np.floating]
    compensated: bool = False

    def slope(self, family: Family, rows: Split, theta: Array, endog: Array) -> Array:
        """l' of each row, shape (rows,)."""
        endog = endog.astype(self.dtype, copy=False)
        if self.compensated:
            high, low = compensated_product(rows.whole.astype(self.dtype), theta)
            derivatives = family.derivatives(high, endog)
            return derivatives.gradient + derivatives.curvature * low
        point = split(theta, float(np.linalg.norm(theta.astype(np.float64))) or 1.0, POINT_BITS)
        rest = rows.leading @ point.rest.astype(np.float64) + rows.rest @ point.whole.astype(np.float64)
        return family.slope((rows.leading @ point.leading).astype(self.dtype) + rest, endog)

    def eta_error(self, size: int, magnitude: float) -> float:
        """Bound on the error of one eta, where |x| |theta| <= magnitude (Ogita, Rump & Oishi 2005 if compensated)."""
        unit = float(np.finfo(self.dtype).eps)
        if self.compensated:
            relative = (size + 2) * unit
            return (2 * relative**2 + 2 * unit * relative) * magnitude
        rest = (size + 2) * float(np.finfo(np.float64).eps) * math.sqrt(size) * 2.0 ** (1 - SPLIT_BITS)
        return (unit + rest) * magnitude


LADDER = (Precision(np.float64), Precision(np.longdouble), Precision(np.longdouble, compensated=True))
"""Arithmetics tried in turn until the rounding bound is small enough."""


def compensated_product(exog: Array, theta: Array) -> tuple[Array, Array]:
    """exog @ theta as an unevaluated sum of two parts, by error-free transformations (TwoSum, Dekker's TwoProduct)."""
    high = np.zeros(len(exog), dtype=exog.dtype)
    low = np.zeros_like(high)
    for column, coefficient in zip(exog.T, theta, strict=True):
        product, product_error = _two_product(column, coefficient)
        total = high + product
        part = total - high
        low += product_error + ((high - (total - part)) + (product - part))
        high = total
    return high, low


def _two_product(left: Array, right: np.floating) -> tuple[Array, Array]:
    """The product and its exact rounding error."""
    product = left * right
    left_high, left_low = _split(left)
    right_high, right_low = _split(np.asarray(right))
    error = left_low * right_low - (
        ((product - left_high * right_high) - left_low * right_high) - left_high * right_low
    )
    return product, error


def _split(values: Array) -> tuple[Array, Array]:
    """Veltkamp's split of a float into two halves that multiply without rounding."""
    bits = np.finfo(values.dtype).nmant + 1
    scaled = values * values.dtype.type(2 ** ((bits + 1) // 2) + 1)
    high = scaled - (scaled - values)
    return high, values - high
