"""Noise for a symmetric matrix: the difference of two Wisharts, or normal entries (docs/proofs/information)."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray
from scipy import special

from dpstats.arguments import safe_repr
from dpstats.errors import ArgumentError
from dpstats.privacy.calibration import check_positive
from dpstats.privacy.gaussian import analytic_mu
from dpstats.privacy.guarantee import Adjacency, check_adjacency, check_budget
from dpstats.privacy.randomness import RandomSource, folded_uniforms

MatrixLaw = Literal["wishart", "normal"]
Float = NDArray[np.float64]
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
        moved = mixing @ matrix @ mixing.T
        return (moved + np.swapaxes(moved, -1, -2)) / 2

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
        return _entry_variance(self.law, self.scale, self.size)

    def variances(self) -> Float:
        """Variances of the entries of E, shape (p, p); with mean 0, and uncorrelated above the diagonal if L = I."""
        metric = self.metric
        own = np.diag(metric)
        return self.entry_variance * (np.outer(own, own) + metric**2)

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
    found = [
        MatrixNoise(
            law,
            matrix_scale(law, eps=eps, delta=delta, weight_bound=weight_bound, adjacency=adjacency),
            tuple(float(entry) for entry in diagonal),
            mixing,
        )
        for law in laws
    ]
    return min(found, key=lambda noise: noise.entry_variance)


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


def _entry_variance(law: MatrixLaw, scale: float, size: int) -> float:
    return scale**2 * (size + 1) / 2 if law == "wishart" else scale**2 / 2


def _normal(shape: tuple[int, ...], random: RandomSource) -> Float:
    tail, upper = folded_uniforms(random, math.prod(shape))
    return np.where(upper, -1.0, 1.0).reshape(shape) * special.ndtri(tail).reshape(shape)
