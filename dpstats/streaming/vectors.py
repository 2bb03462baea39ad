"""Rows as bounded vectors of statistics, summed in exact integers (docs/proofs/streams, 8 and 9)."""

from __future__ import annotations

import itertools
import math
import operator
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, fields
from fractions import Fraction
from functools import partial
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import NDArray
from scipy import optimize

from dpstats.cached import cached_property
from dpstats.data import Block, Rows
from dpstats.errors import ArgumentError
from dpstats.families import Binomial, Family
from dpstats.families import from_dict as family_from_dict
from dpstats.formula.design import DesignSpec
from dpstats.privacy.guarantee import Adjacency
from dpstats.privacy.information import MatrixNoise, design_metric
from dpstats.privacy.information.exact_sums import PLACES, integer_rows, linear_predictor, row_parts
from dpstats.privacy.information.statistics import SQUARE_SHARE, frobenius_sensitivity

Float = NDArray[np.float64]
Integers = NDArray[np.object_]
Method = Literal["linear", "renewable"]

WEIGHT_BITS = 64  # Binary places of the weights as fractions: the loss is far below a lattice step


@dataclass(frozen=True)
class RowVector:
    """The vector that a row adds: r vech(w z z'), a g z and c q, z the row in the coordinates of a metric, |z| <= 1.

    vech holds the upper triangle, entries off the diagonal times sqrt(2), so that its norm is that of the matrix.
    Linear least squares has w = 1, g = y and q = y^2. A renewed fit has w = l'', g = w x'theta - l' and q = l'^2 at
    coefficients that were released before the tick; g is cut to what w leaves of `reach`, and q to what both leave. In
    place of y there is what an offset leaves of it; a row of weight u in [0, 1] adds u times all that.
    """

    method: Method  # {"linear", "renewable"}
    family: Family  # Every cap filled in
    metric: MatrixNoise  # Holds D and L with z = D^-1/2 L^-1 x; its scale means nothing
    inner: float  # r and a; c = 0 leaves q out
    cross: float
    square: float  # c, from which the dispersion follows
    reach: float  # The most that a row's vector is long

    @property
    def columns(self) -> int:
        """p."""
        return self.metric.size

    @property
    def size(self) -> int:
        """Numbers in a vector."""
        return len(self.weights)

    @property
    def weight_bound(self) -> float:
        """The greatest w."""
        return 1.0 if self.method == "linear" else self.family.curvature_bound

    @property
    def slope_bound(self) -> float:
        """The greatest |g|."""
        return 1.0 if self.method == "linear" else self.reach / self.cross

    @property
    def square_bound(self) -> float:
        """The greatest q."""
        return 1.0 if self.method == "linear" or self.square == 0 else self.reach / self.square

    @cached_property
    def weights(self) -> Float:
        """Factors of the entries of the matrix of sums, in the order of vectors, shape (size,)."""
        rows, places = np.triu_indices(self.columns)
        inner = np.where(rows == places, self.inner, math.sqrt(2) * self.inner)
        cross = np.full(self.columns, self.cross)
        return np.concatenate([inner, cross, [self.square] if self.square > 0 else []])

    @cached_property
    def units(self) -> Float:
        """One unit of the exact sums, in the order of vectors, shape (size,)."""
        triangle = self.columns * (self.columns + 1) // 2
        bounds = [self.weight_bound, self.slope_bound, self.square_bound]
        return np.repeat(bounds, [triangle, self.columns, int(self.square > 0)]) * 4.0**-PLACES

    def exact(self, rows: Rows[Block], params: Float) -> Integers:
        """The exact sum over rows in `units`, Python integers of shape (size,). Reads rows: charge first.

        `params`, in model units, were released before these rows; linear sums do not look at them.
        """
        part = partial(exact_linear, self) if self.method == "linear" else partial(exact_renewed, self, params)
        return rows.total(part, operator.add)

    def steps(self, exact: Integers, step: float) -> Integers:
        """An exact sum as a vector of whole lattice steps, Python integers of shape (size,)."""
        sums = zip(self.weights.tolist(), self.units.tolist(), exact.tolist(), strict=True)
        return as_integers(
            math.floor(Fraction(weight) * Fraction(unit) / Fraction(step) * 2**WEIGHT_BITS) * entry >> WEIGHT_BITS
            for weight, unit, entry in sums
        )

    def slack(self, step: float) -> float:
        """The increase of a row's sensitivity by rounding sums to whole steps and by floating point."""
        return math.sqrt(self.size) * step + 1e-9 * self.reach

    def matrix(self, vector: Float) -> Float:
        """The symmetric matrix of sums of w z z', g z and q that `vector` holds, shape (p + 1, p + 1), 0 without q."""
        size, upper = self.columns, np.triu_indices(self.columns)
        entries = vector / self.weights
        moments = np.zeros((size + 1, size + 1))
        moments[upper] = entries[: len(upper[0])]
        moments[:size, size] = entries[len(upper[0]) : len(upper[0]) + size]
        moments[size, size] = entries[-1] if self.square > 0 else 0.0
        return moments + np.triu(moments, 1).T

    def entries(self, matrix: Float) -> Float:
        """The vector that holds a matrix as `matrix` gives it, shape (size,)."""
        size = self.columns
        triangle, column = matrix[:size, :size][np.triu_indices(size)], matrix[: size + int(self.square > 0), size]
        return np.concatenate([triangle, column]) * self.weights

    def to_dict(self) -> dict[str, Any]:
        facts = {field.name: getattr(self, field.name) for field in fields(self)}
        return {**facts, "family": self.family.to_dict(), "metric": self.metric.to_dict()}

    @classmethod
    def from_dict(cls, stored: Mapping[str, Any]) -> Self:
        family, metric = family_from_dict(stored["family"]), MatrixNoise.from_dict(stored["metric"])
        return cls(**{**stored, "family": family, "metric": metric})


def as_integers(values: Iterable[int]) -> Integers:
    """Python integers of any size as an array, shape (n,)."""
    return np.array([*values, None], dtype=object)[:-1]


def exact_linear(vector: RowVector, blocks: Iterable[Block]) -> Integers:
    """The exact sums over some rows, in units of 2^-40, in the order of vectors."""
    size = vector.columns
    total = np.full((size + 1, size + 1), 0, dtype=object)
    for exog, endog, weights, offset in _parts(blocks):
        rows = _inner(vector, exog, weights, 1.0)
        outcome = np.clip(endog - offset, -1.0, 1.0) * np.sqrt(weights)
        integers = np.column_stack([rows, np.trunc(outcome * 2.0**PLACES)])
        total = total + (integers.T @ integers).astype(np.int64)
    return as_integers([*total[np.triu_indices(size)], *total[: size + int(vector.square > 0), size]])


def exact_renewed(vector: RowVector, params: Float, blocks: Iterable[Block]) -> Integers:
    """The exact sums over some rows of w z z', g z and q at `params`, in `RowVector.units`, in the order of vectors.

    A row's g and q are cut to what its w leaves of the reach, whatever family and coefficients are: the bound on its
    vector does not rest on the loss curve.
    """
    size, squares = vector.columns, 0
    inner, cross = np.full((size, size), 0, dtype=object), np.full(size, 0, dtype=object)
    for exog, endog, weights, offset in _parts(blocks):
        weight, slope, square = linearise(vector, linear_predictor(exog, params), endog, offset)
        rows = _inner(vector, exog, weights * weight, vector.weight_bound)
        inner = inner + (rows.T @ rows).astype(np.int64)
        plain = _inner(vector, exog, np.ones(len(exog)), 1.0)
        integers = np.trunc(weights * slope / vector.slope_bound * 2.0**PLACES)
        cross = cross + (plain.T @ integers).astype(np.int64)
        squares += int(np.trunc(weights * square / vector.square_bound * 4.0**PLACES).astype(np.int64).sum())
    return as_integers([*inner[np.triu_indices(size)], *cross, *([squares] if vector.square > 0 else [])])


def linearise(vector: RowVector, linear: Float, endog: Float, offset: Float) -> tuple[Float, Float, Float]:
    """w = l'', g = w x'theta - l' and q = l'^2 at x'theta + offset, shapes (rows,), cut to the reach.

    (r w)^2 + (a g)^2 + (c q)^2 is at most reach^2; q is 0 where there is no c.
    """
    curve = vector.family.derivatives(linear + offset, endog)
    weight = np.clip(np.nan_to_num(curve.curvature), 0.0, vector.weight_bound)
    gradient = np.nan_to_num(curve.gradient)
    slope = np.nan_to_num(weight * linear - gradient)
    left = np.maximum(vector.reach**2 - (vector.inner * weight) ** 2, 0.0)
    room = np.sqrt(left) / vector.cross
    slope = np.asarray(np.clip(slope, -room, room))
    if vector.square == 0:
        return np.asarray(weight), slope, np.zeros_like(slope)
    rest = np.sqrt(np.maximum(left - (vector.cross * slope) ** 2, 0.0)) / vector.square
    return np.asarray(weight), slope, np.minimum(np.abs(gradient), np.sqrt(rest)) ** 2


def _parts(blocks: Iterable[Block]) -> Iterator[tuple[Float, Float, Float, Float]]:
    """Exog, endog, weights within [0, 1] and offsets, of a few rows at a time, so that products are exact."""
    for block in blocks:
        exog, endog, weights, offset, *_ = block.doubles()
        shares = np.ones(len(exog)) if weights is None else np.clip(weights, 0.0, 1.0)
        added = np.zeros(len(exog)) if offset is None else offset
        for part in row_parts(*exog.shape):
            yield exog[part], endog[part], shares[part], added[part]


def _inner(vector: RowVector, exog: Float, weights: Float, bound: float) -> Float:
    """sqrt(w / bound) z 2^20 as integers, shape (rows, p)."""
    return integer_rows(vector.metric.coordinates(exog), weights, np.array(vector.metric.diagonal), bound)


# Up to this weight the Hessian of a logistic regression costs nothing beside its gradient (docs/proofs/streams, 9)
FREE_WEIGHT = math.sqrt(12) * (1 - 1e-12)
MOST_LOG_WEIGHT = 8.0  # Weights from exp(-this) to exp(this) are tried
MOST_PREDICTOR = 40.0  # A loss curve is followed up to this linear predictor; the vector of a row beyond is cut


def linear_vector(
    design: DesignSpec, family: Family, radius: float, adjacency: Adjacency, *, square: bool
) -> tuple[RowVector, float]:
    """The vector of a linear model's rows, and the most that a neighbour moves their sum by.

    `radius` is a public guess at the norm of the coefficients in the metric; with `square` there is the sum of y^2,
    from which errors follow.
    """
    metric = rows_metric(design)
    size = metric.size

    def squared(weight: float) -> float:
        if not square:
            return 0.0
        free = weight / math.sqrt(2)
        return free if adjacency == "replace_one" else min(free, math.sqrt(SQUARE_SHARE * (1 + weight**2)))

    def sensitivity(weight: float) -> float:
        return frobenius_sensitivity(weight, squared(weight) if square else 1e-9 * weight, adjacency)

    def noise(log_weight: float) -> float:
        weight = math.exp(log_weight)
        return sensitivity(weight) ** 2 * (size / weight**2 + (size + 1) * radius**2 / 2)

    weight = math.exp(_least(noise))
    reach = math.sqrt(1 + weight**2 + squared(weight) ** 2)
    return RowVector("linear", family, metric, 1.0, weight, squared(weight), reach), sensitivity(weight)


def renewed_vector(
    design: DesignSpec, family: Family, radius: float, adjacency: Adjacency, *, square: bool
) -> tuple[RowVector, float]:
    """The vector of rows linearised at released coefficients, and the most that a neighbour moves their sum by.

    Parameters as for `linear_vector`; with `square` there is the sum of squared scores. To replace a row moves the sum
    by twice the reach.

    ArgumentError if the family's loss is not made of a score and a weight that its curve bounds.
    """
    metric, offset = rows_metric(design), design.offset_bound
    size = metric.size

    def noise(log_weight: float) -> float:
        inner = math.exp(log_weight)
        return reach_of(family, inner, offset) ** 2 * (size + (size + 1) * radius**2 / (2 * inner**2))

    free = isinstance(family, Binomial) and offset == 0
    inner = FREE_WEIGHT if free else math.exp(_least(noise))
    reach = reach_of(family, inner, offset)
    if not math.isfinite(reach):
        raise ArgumentError(f"family {family.name!r} has no bounded scores for mechanism='renewable': give it caps")
    rows = 2 if adjacency == "replace_one" else 1
    weight = _free_square(family, inner, offset, reach) if square else 0.0
    reach = reach_of(family, inner, offset, weight)
    return RowVector("renewable", family, metric, inner, 1.0, weight, reach), rows * reach


def _free_square(family: Family, inner: float, offset: float, reach: float) -> float:
    """The greatest weight of squared scores for which they take `SQUARE_SHARE` of the squared reach at most.

    They take nothing where the loss curve reaches farther elsewhere.
    """
    least = math.inf
    for outcome, added in itertools.product(_outcomes(family), sorted({-offset, offset})):
        eta = np.linspace(-MOST_PREDICTOR, MOST_PREDICTOR, 20_001)
        curve = family.derivatives(eta, np.full_like(eta, outcome))
        taken = (curve.curvature * (eta - added) - curve.gradient) ** 2 + (inner * curve.curvature) ** 2
        room = np.maximum((1 + SQUARE_SHARE) * reach**2 - taken, 0.0)
        least = min(least, float(np.min(room / np.maximum(curve.gradient**4, 1e-300))))
    return math.sqrt(least)


def reach_of(family: Family, inner: float, offset: float = 0.0, square: float = 0.0) -> float:
    """sup of ((w (eta - o) - l')^2 + (inner w)^2 + (square l'^2)^2)^1/2 along the loss curve; rows beyond it are cut.

    Up to a grid, over offsets o up to `offset` on either side, at the ends of which it is greatest. For a logistic
    regression without one and without squares 1 up to `FREE_WEIGHT`.
    """
    if isinstance(family, Binomial) and inner <= FREE_WEIGHT and offset == 0 and square == 0:
        return 1.0
    most = 0.0
    for outcome, added in itertools.product(_outcomes(family), sorted({-offset, offset})):
        low, high = -MOST_PREDICTOR, MOST_PREDICTOR
        for _ in range(3):  # closer and closer to where it is greatest, which may be at a kink
            eta = np.linspace(low, high, 2001)
            curve = family.derivatives(eta, np.full_like(eta, outcome))
            squares = (curve.curvature * (eta - added) - curve.gradient) ** 2 + (inner * curve.curvature) ** 2
            squares += (square * curve.gradient**2) ** 2
            place, step = int(np.argmax(squares)), (high - low) / 2000
            low, high = eta[place] - step, eta[place] + step
            most = max(most, float(squares[place]))
    return math.sqrt(most)


def rows_metric(design: DesignSpec) -> MatrixNoise:
    """The coordinates in which rows are measured: |z| <= 1, and the noise is the same in every direction."""
    return MatrixNoise("normal", 1.0, *design_metric(design.images))


def _outcomes(family: Family) -> tuple[float, ...]:
    """The ends of the response's range: a slope is linear, or one of two, in between."""
    if family.response == "count":
        return 0.0, float(getattr(family, "y_max", 1.0))
    return (0.0, 1.0) if family.response == "binary" else (-1.0, 1.0)


def _least(noise: Callable[[float], float]) -> float:
    optimum = optimize.minimize_scalar(
        lambda at: math.log(noise(at)), bounds=(-MOST_LOG_WEIGHT, MOST_LOG_WEIGHT), method="bounded"
    )
    return float(optimum.x)
