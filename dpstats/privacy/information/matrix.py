"""Noise for a symmetric matrix: the difference of two Wisharts, or normal entries (docs/proofs/information)."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray
from scipy import special

from dpstats.errors import ArgumentError
from dpstats.privacy.calibration import check_positive
from dpstats.privacy.calibration_gaussian import EPS_MAX, ROUNDING, check_delta, insertion
from dpstats.privacy.guarantee import Adjacency, check_adjacency, check_budget
from dpstats.privacy.randomness import RandomSource, folded

MatrixLaw = Literal["wishart", "normal"]
Float = NDArray[np.float64]


@dataclass(frozen=True)
class MatrixNoise:
    """A law for symmetric noise E = D^1/2 U D^1/2 of shape (p, p).

    Attributes
    ----------
    law : {"wishart", "normal"}
        U = W1 - W2, both Wishart with p + 1 degrees of freedom and matrix (scale / 2) I, whose log density moves by at
        most tr A / scale when a positive semidefinite A is added; or independent normal entries of standard deviation
        `scale` on the diagonal and scale / sqrt(2) off it.
    scale : float
        Positive and finite, in units of the weights.
    diagonal : tuple of float
        D, the metric: public, with sup x' D^-1 x <= 1 over the rows.

    Raises
    ------
    ArgumentError
        If a field is outside the values above.
    """

    law: MatrixLaw
    scale: float
    diagonal: tuple[float, ...]

    def __post_init__(self) -> None:
        if self.law not in get_args(MatrixLaw):
            raise ArgumentError(f"law must be one of {list(get_args(MatrixLaw))}, got {self.law!r}")
        if not (math.isfinite(self.scale) and self.scale > 0):
            raise ArgumentError(f"scale must be finite and positive, got {self.scale!r}")
        if not self.diagonal or not all(math.isfinite(entry) and entry > 0 for entry in self.diagonal):
            raise ArgumentError("diagonal must hold a finite positive number for each column")

    @property
    def size(self) -> int:
        """The number of columns p."""
        return len(self.diagonal)

    def scaled(self, scale: float) -> MatrixNoise:
        """The same law at another scale."""
        return replace(self, scale=scale)

    def to_dict(self) -> dict[str, Any]:
        """Plain public values, for JSON."""
        return asdict(self) | {"diagonal": list(self.diagonal)}

    @classmethod
    def from_dict(cls, stored: Mapping[str, Any]) -> MatrixNoise:
        """The law whose `to_dict` gave `stored`."""
        return cls(**{**stored, "diagonal": tuple(stored["diagonal"])})

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
        return self.unit_sample(random) * np.outer(root, root)

    @property
    def entry_variance(self) -> float:
        """Variance of an entry of U off the diagonal; that of one on the diagonal is twice this."""
        return _entry_variance(self.law, self.scale, self.size)

    def variances(self) -> Float:
        """Variances of the entries of E, shape (p, p). Entries of the upper triangle are uncorrelated, with mean 0."""
        diagonal = np.array(self.diagonal)
        return self.entry_variance * (1 + np.eye(self.size)) * np.outer(diagonal, diagonal)

    def sandwich(self, middle: Float) -> Float:
        """E[E A E] for a symmetric A, shape (p, p): v (tr(A D) D + D A D), v the variance of an entry of U."""
        diagonal = np.array(self.diagonal)
        trace = float(np.diag(middle) @ diagonal)
        return self.entry_variance * (trace * np.diag(diagonal) + middle * np.outer(diagonal, diagonal))

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

    Parameters
    ----------
    law : {"wishart", "normal"}
    eps, delta : float
        The Wishart law is pure and ignores delta; the normal law needs a positive one.
    weight_bound : float
        h.
    adjacency : {"add_remove", "replace_one"}

    Returns
    -------
    float
        h / eps, or 2 h / eps to replace one; h / mu, or sqrt(2) h / mu, with mu of the analytic Gaussian mechanism.

    Raises
    ------
    ArgumentError
        If an argument is outside its range.
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
) -> MatrixNoise:
    """The law of the smaller variance for the budget; parameters as for `MatrixNoise` and `matrix_scale`."""
    laws: list[MatrixLaw] = ["wishart", "normal"] if delta > 0 else ["wishart"]
    found = [
        MatrixNoise(
            law,
            matrix_scale(law, eps=eps, delta=delta, weight_bound=weight_bound, adjacency=adjacency),
            tuple(float(entry) for entry in diagonal),
        )
        for law in laws
    ]
    return min(found, key=lambda noise: noise.entry_variance)


def shaped_diagonal(bounds: Sequence[float], sizes: Sequence[int]) -> tuple[float, ...]:
    """The D of least trace, constant on each term, with sup x' D^-1 x <= 1 if term t has ||x_t||_2 <= bounds[t].

    Parameters
    ----------
    bounds : sequence of float
        r_t, one for each term, positive.
    sizes : sequence of int
        k_t, the columns of each term.

    Returns
    -------
    tuple of float
        D_t = (r_t / sqrt(k_t)) sum_u r_u sqrt(k_u), k_t times each: sum_t r_t^2 / D_t = 1.
    """
    total = sum(check_positive("bounds", bound) * math.sqrt(size) for bound, size in zip(bounds, sizes, strict=True))
    return tuple(
        bound / math.sqrt(size) * total for bound, size in zip(bounds, sizes, strict=True) for _ in range(size)
    )


def analytic_mu(eps: float, delta: float) -> float:
    """The greatest mu = sensitivity / sigma, up to 1e-12, of the analytic Gaussian mechanism (Balle and Wang 2018)."""
    check_delta(delta)
    at = np.array([min(eps, EPS_MAX)])
    low, high = 0.0, 1.0

    def holds(mu: float) -> bool:
        return float(insertion(at, mu, signed=True)[0]) * (1 + ROUNDING) <= delta

    while holds(high):
        low, high = high, 2 * high
    while low == 0:
        half = high / 2
        low, high = (half, high) if holds(half) else (0.0, half)
    while high > low * (1 + 1e-12):
        middle = (low + high) / 2
        low, high = (middle, high) if holds(middle) else (low, middle)
    return low


def _entry_variance(law: MatrixLaw, scale: float, size: int) -> float:
    return scale**2 * (size + 1) / 2 if law == "wishart" else scale**2 / 2


def _normal(shape: tuple[int, ...], random: RandomSource) -> Float:
    tail, upper = folded(random, math.prod(shape))
    return np.where(upper, -1.0, 1.0).reshape(shape) * special.ndtri(tail).reshape(shape)
