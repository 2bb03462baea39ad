"""Noise for a symmetric matrix, and the metric of a design that it is the same in (docs/proofs/information)."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import lru_cache
from typing import Any, Literal, NamedTuple, get_args

import numpy as np
from numpy.typing import NDArray
from scipy import special

from dpstats.arguments import safe_repr
from dpstats.errors import ArgumentError
from dpstats.privacy.calibration import check_positive
from dpstats.privacy.gaussian import analytic_mu
from dpstats.privacy.guarantee import Adjacency, check_adjacency, check_budget
from dpstats.privacy.k_norm import Image
from dpstats.privacy.k_norm.blocks import check_images, stack_images
from dpstats.privacy.randomness import RandomSource, folded_uniforms

Float = NDArray[np.float64]

WEIGHTS: Mapping[str, float] = {"intercept": 1.0, "simplex": 1.0, "box": 2.0, "cross": 2.0, "ball": 2.0}
"""Of a block's coordinates: v^(-2/3), with v the public guess at a coordinate's variance over the greatest possible.

Dummies are where they can be; a number is taken to be uniform in its range, v = 1/3.
"""

LARGEST_CONDITION = 1e6
"""Columns that move together more closely than this have no design of their own."""

STEPS, CLOSE = 500, 1e-2
"""Of the search for an optimal design, and how near it need come: the metric is made to hold all points after it."""

NOTHING = 1e-12
"""Entries of a correlation's factor below this are rounding."""


class DesignMetric(NamedTuple):
    """D = L diag(diagonal) L', as `MatrixNoise` takes it: L unit lower triangular, the rows of `mixing`."""

    diagonal: tuple[float, ...]
    mixing: tuple[tuple[float, ...], ...]


class JointColumns(NamedTuple):
    """Columns that move together, as a number and its square, and the optimal design on what they can be."""

    columns: tuple[int, ...]
    mean: tuple[float, ...]
    # S, public: d'S^-1 d is at most k in every row, d the distance of its columns from the mean.
    covariance: tuple[tuple[float, ...], ...]

    def among(self, place: Mapping[int, int]) -> JointColumns | None:
        """What is left for the columns that have a new place; None if there are none."""
        places = [at for at, column in enumerate(self.columns) if column in place]
        if not places:
            return None
        # Less distance from the mean, so a bound of k still: of fewer columns, it takes a larger covariance.
        part = np.array(self.covariance)[np.ix_(places, places)] * (len(self.columns) / len(places))
        mean = tuple(self.mean[at] for at in places)
        return JointColumns(tuple(place[self.columns[at]] for at in places), mean, tuple(map(tuple, part.tolist())))


def design_metric(
    images: Sequence[Image], weights: Mapping[str, float] = WEIGHTS, joined: Sequence[JointColumns] = ()
) -> DesignMetric:
    """The metric of a design: sup x'D^-1 x <= 1 over the rows whose parts lie in the blocks' bodies.

    The metric of the information's t-ratio in a block's directions is in proportion to `weights`, by kind of block, or
    to v^(-2/3) where an image's spread v is known.
    `joined` columns, beside an intercept, stand for the bodies of theirs. ArgumentError if the images make up no
    design.
    """
    return _metric(tuple(images), tuple(sorted(weights.items())), tuple(joined))


@lru_cache(maxsize=16)
def _metric(
    images: tuple[Image, ...], ordered: tuple[tuple[str, float], ...], joined: tuple[JointColumns, ...]
) -> DesignMetric:
    """See `design_metric`: every plan of a design has the same."""
    size, weights = check_images(images), dict(ordered)
    if not all(np.isfinite(weight) and weight > 0 for weight in weights.values()):
        raise ArgumentError("weights must be finite and positive")
    parts = _parts(images, size, joined, weights)
    total = sum(count * weight for weight, count, _ in parts)
    metric = sum((moment * (total / weight) for weight, _, moment in parts), np.zeros((size, size)))
    unit = np.sqrt(np.diag(metric))
    root = np.linalg.cholesky(metric / np.outer(unit, unit))
    diagonal = (unit * np.diag(root)) ** 2
    # What rounding left where nothing is would cost a pass over the rows each.
    below = np.tril(np.where(np.abs(root) > NOTHING, root, 0.0), -1)
    mixing = below * np.outer(unit, 1 / (unit * np.diag(root))) + np.eye(size)
    return DesignMetric(tuple(diagonal.tolist()), tuple(tuple(row) for row in mixing.tolist()))


def optimal_design(columns: tuple[int, ...], points: Float) -> JointColumns | None:
    """The D-optimal design on some points, shape (m, k), for a constant and k columns.

    None where the columns depend on each other, so that there is none.
    """
    count, size = points.shape
    if count <= size:
        return None
    middle, spread = points.mean(axis=0), points.std(axis=0)
    if not np.all(spread > 0):
        return None
    cells = np.column_stack((np.ones(count), (points - middle) / spread))
    if np.linalg.cond(cells) > LARGEST_CONDITION:
        return None
    weights = np.full(count, 1 / count)
    for _ in range(STEPS):
        moment = (cells * weights[:, None]).T @ cells
        reach = np.sum(cells @ np.linalg.inv(moment) * cells, axis=1)
        if reach.max() <= (1 + CLOSE) * (size + 1):
            break
        # Titterington's multiplicative step: the determinant rises.
        weights *= reach / (size + 1)
    mean = weights @ points / weights.sum()
    apart = points - mean
    covariance = (apart * (weights / weights.sum())[:, None]).T @ apart
    longest = float(np.sum(apart @ np.linalg.inv(covariance) * apart, axis=1).max())
    scaled = (covariance + covariance.T) * (longest / size / 2)
    return JointColumns(columns, tuple(mean.tolist()), tuple(map(tuple, scaled.tolist())))


def _parts(
    images: Sequence[Image], size: int, joined: Sequence[JointColumns], weights: Mapping[str, float]
) -> list[tuple[float, int, Float]]:
    """Weight, dimension and second moment in the columns of each orthogonal part of the product of optimal designs.

    On a body of dimension k the extreme points of its optimal design have d'S^-1 d = k, S their covariance, and all
    others less. Simplices beside an intercept have their mean at the centre, which is the intercept's part.
    """
    constant = [image for image in images if image.block.kind == "intercept"]
    plain = [image for image in constant if len(image.columns) == 1]
    usable = joined if constant == plain and constant else []
    covered = {column for one in usable for column in one.columns}
    centre = np.zeros(size)
    parts = []
    for one in usable:
        moment = np.zeros((size, size))
        moment[np.ix_(one.columns, one.columns)] = one.covariance
        centre[list(one.columns)] = one.mean
        parts.append((weights["box"], len(one.columns), moment))
    for image in images:
        count, matrix = image.block.size, stack_images([image], size)
        if image.block.kind == "intercept":
            centre += matrix[0]
            continue
        if covered.issuperset(image.columns):
            continue
        if image.block.kind == "simplex" and constant:
            mean = matrix.sum(axis=0) / (count + 1)
            centre += mean
            moment = matrix.T @ matrix / (count + 1) - np.outer(mean, mean)
        else:
            moment = matrix.T @ matrix / (1 if image.block.kind == "box" else count)
        weight = weights[image.block.kind] if image.spread is None else image.spread ** (-2 / 3)
        parts.append((weight, count, moment))
    return [(weights["intercept"], 1, np.outer(centre, centre)), *parts] if constant else parts


MatrixLaw = Literal["wishart", "normal"]
Mixing = tuple[tuple[float, ...], ...]


@dataclass(frozen=True)
class MatrixNoise:
    """A law for symmetric noise E = L D^1/2 U D^1/2 L' of shape (p, p), for rows x = L z."""

    # U = W1 - W2, both Wishart with p + 1 degrees of freedom and matrix (scale / 2) I, whose log density moves by at
    # most tr A / scale when a positive semidefinite A is added; or independent normal entries of standard deviation
    # `scale` on the diagonal and scale / sqrt(2) off it.
    law: MatrixLaw
    scale: float  # Positive and finite, in units of the weights
    diagonal: tuple[float, ...]  # D: public, with sup z' D^-1 z <= 1 over the rows
    # L, the rows of a public unit lower triangular matrix; without it L = I and z = x. See `design_metric`.
    mixing: tuple[tuple[float, ...], ...] = ()

    def __post_init__(self) -> None:
        if self.law not in get_args(MatrixLaw):
            raise ArgumentError(f"law must be one of {list(get_args(MatrixLaw))}, got {safe_repr(self.law)}")
        if not (math.isfinite(self.scale) and self.scale > 0):
            raise ArgumentError(f"scale must be finite and positive, got {safe_repr(self.scale)}")
        if not self.diagonal or not all(math.isfinite(entry) and entry > 0 for entry in self.diagonal):
            raise ArgumentError("diagonal must hold a finite positive number for each column")
        if self.mixing:
            check_mixing(self.mixing, self.size)

    @property
    def size(self) -> int:
        """The number of columns p."""
        return len(self.diagonal)

    def scaled(self, scale: float) -> MatrixNoise:
        """The same law at another scale."""
        return replace(self, scale=scale)

    def to_dict(self) -> dict[str, Any]:
        """Plain public values, for JSON."""
        return asdict(self) | {"diagonal": list(self.diagonal), "mixing": [list(row) for row in self.mixing]}

    @classmethod
    def from_dict(cls, stored: Mapping[str, Any]) -> MatrixNoise:
        """The law whose `to_dict` gave `stored`."""
        mixing = tuple(tuple(row) for row in stored.get("mixing", ()))
        return cls(**{**stored, "diagonal": tuple(stored["diagonal"]), "mixing": mixing})

    @property
    def metric(self) -> Float:
        """L D L', shape (p, p): x'(L D L')^-1 x is at most 1 in every row."""
        return self.carried(np.diag(self.diagonal))

    def carried(self, matrix: Float) -> Float:
        """L A L' for a symmetric A in the coordinates z, shape (..., p, p), exactly symmetric."""
        if not self.mixing:
            return matrix
        mixing = np.array(self.mixing)
        product = mixing @ matrix @ mixing.T
        return (product + np.swapaxes(product, -1, -2)) / 2

    def coordinates(self, exog: Float) -> Float:
        """Rows z = L^-1 x, shape (rows, p), each to the last bit a function of its own row x alone."""
        return forward_substitute(exog, self.mixing)

    def unit_sample(self, random: RandomSource) -> Float:
        """Draw U, shape (p, p), exactly symmetric, from the source's folded uniforms."""
        size = self.size
        if self.law == "wishart":
            first, second = _normal((2, size, size + 1), random)
            entries = self.scale / 2 * (first @ first.T - second @ second.T)
        else:
            entries = self.scale * _normal((size, size), random)
            entries[np.triu_indices(size, 1)] /= math.sqrt(2)
        upper = np.triu(entries)
        return upper + np.triu(entries, 1).T

    def sample(self, random: RandomSource) -> Float:
        """Draw E, shape (p, p)."""
        root = np.sqrt(np.array(self.diagonal))
        return self.carried(self.unit_sample(random) * np.outer(root, root))

    @property
    def entry_variance(self) -> float:
        """Variance of an entry of U off the diagonal; that of one on the diagonal is twice this."""
        return self.scale**2 * (self.size + 1) / 2 if self.law == "wishart" else self.scale**2 / 2

    def variances(self) -> Float:
        """Variances of the entries of E, shape (p, p); with mean 0, and uncorrelated above the diagonal if L = I."""
        metric = self.metric
        diagonal = np.diag(metric)
        return self.entry_variance * (np.outer(diagonal, diagonal) + metric**2)

    def sandwich(self, middle: Float) -> Float:
        """E[E A E] for a symmetric A, shape (p, p): v (tr(A D) D + D A D), v an entry's variance, D the metric."""
        metric = self.metric
        return self.entry_variance * (float(np.sum(middle * metric)) * metric + metric @ middle @ metric)

    def expected_square(self) -> float:
        """E ||E||_F^2; at D = I it is scale^2 p (p + 1)^2 / 2 or scale^2 p (p + 1) / 2."""
        return float(self.variances().sum())


def matrix_scale(
    law: MatrixLaw,
    *,
    eps: float,
    delta: float = 0.0,
    weight_bound: float,
    adjacency: Adjacency = "add_remove",
) -> float:
    """The scale at which the sum of w x x', 0 <= w <= `weight_bound`, is (eps, delta)-private on its own.

    h / eps, or 2 h / eps to replace one, of the Wishart law, which is pure and ignores delta; h / mu, or sqrt(2) h /
    mu, of the normal law, with mu of the analytic Gaussian mechanism, or ArgumentError without a delta.
    """
    eps, delta = check_budget(eps, delta)
    bound = check_positive("weight_bound", weight_bound)
    rows = 2 if check_adjacency(adjacency) == "replace_one" else 1
    if law == "wishart":
        return rows * bound / eps
    if delta == 0:
        raise ArgumentError("normal noise needs a positive delta")
    return math.sqrt(rows) * bound / analytic_mu(eps, delta)


def matrix_noise(
    diagonal: Sequence[float],
    *,
    eps: float,
    delta: float = 0.0,
    weight_bound: float,
    adjacency: Adjacency = "add_remove",
    mixing: tuple[tuple[float, ...], ...] = (),
) -> MatrixNoise:
    """The law of the smaller variance for the budget; parameters as for `MatrixNoise` and `matrix_scale`."""
    laws: list[MatrixLaw] = ["wishart", "normal"] if delta > 0 else ["wishart"]
    candidates = [
        MatrixNoise(
            law,
            matrix_scale(law, eps=eps, delta=delta, weight_bound=weight_bound, adjacency=adjacency),
            tuple(float(entry) for entry in diagonal),
            mixing,
        )
        for law in laws
    ]
    return min(candidates, key=lambda noise: noise.entry_variance)


def shaped_diagonal(bounds: Sequence[float], sizes: Sequence[int]) -> tuple[float, ...]:
    """The D of least trace, constant on each term, with sup x' D^-1 x <= 1 if term t has ||x_t||_2 <= bounds[t].

    D_t = (r_t / sqrt(k_t)) sum_u r_u sqrt(k_u), for each of the k_t columns: sum_t r_t^2 / D_t = 1.
    """
    total = sum(check_positive("bounds", bound) * math.sqrt(size) for bound, size in zip(bounds, sizes, strict=True))
    return tuple(
        bound / math.sqrt(size) * total for bound, size in zip(bounds, sizes, strict=True) for _ in range(size)
    )


def check_mixing(mixing: tuple[tuple[float, ...], ...], size: int) -> None:
    """Raise ArgumentError unless `mixing` holds the rows of a finite unit lower triangular matrix of that size."""
    if len(mixing) != size or any(len(row) != size for row in mixing):
        raise ArgumentError("mixing must have a row and a column for each entry of diagonal")
    matrix = np.array(mixing, dtype=np.float64)
    if not np.isfinite(matrix).all() or np.triu(matrix, 1).any() or not np.all(np.diag(matrix) == 1):
        raise ArgumentError("mixing must be finite and lower triangular with 1 on the diagonal")


def forward_substitute(exog: Float, mixing: tuple[tuple[float, ...], ...]) -> Float:
    """Rows z with L z = x, shape (rows, p), by elementwise steps: a row's z does not depend on the other rows."""
    return substitute_columns(np.array(exog.T, dtype=np.float64, order="C"), mixing).T if mixing else exog


def substitute_columns(columns: Float, mixing: tuple[tuple[float, ...], ...]) -> Float:
    """`forward_substitute` of columns, shape (p, rows), in their place."""
    spare = np.empty(columns.shape[1])
    for place, row in enumerate(mixing):
        for other, entry in enumerate(row[:place]):
            if entry != 0:
                columns[place] -= np.multiply(columns[other], entry, out=spare)
    return columns


def _normal(shape: tuple[int, ...], random: RandomSource) -> Float:
    tail, upper = folded_uniforms(random, math.prod(shape))
    return np.where(upper, -1.0, 1.0).reshape(shape) * special.ndtri(tail).reshape(shape)
