"""X'X, X'y and y'y of one data set, released together: weights, noise and exact sums (docs/proofs/statistics)."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import optimize

from dpstats.arguments import safe_repr
from dpstats.errors import ArgumentError
from dpstats.privacy.calibration import check_positive
from dpstats.privacy.gaussian import analytic_mu
from dpstats.privacy.guarantee import Adjacency, check_adjacency, check_budget
from dpstats.privacy.information.exact_sums import (
    BLOCK_ROWS,
    COVER_PLACES,
    LATTICE_LIMIT,
    PLACES,
    cover_sensitivity,
    integer_columns,
)
from dpstats.privacy.information.matrix import MatrixLaw, MatrixNoise
from dpstats.privacy.randomness import RandomSource, noisy_integers

Float = NDArray[np.float64]
Exact = NDArray[np.object_]

SQUARE_SHARE = 0.02
"""What y'y takes of the squared sensitivity, where it takes any."""

FARTHEST = 2.0**1000
"""Draws are clipped to this many units."""

WIDEST = 8.0
"""Natural logarithm of the farthest weight of X'y from 1 that is looked for."""


@dataclass(frozen=True)
class StatisticsNoise:
    """A law for the symmetric noise of sum w w', w = (z, y) with |z| <= 1 and |y| <= 1, shape (p + 1, p + 1)."""

    law: MatrixLaw  # Of U, see `MatrixNoise`; the noise of an entry is U's, divided by the entry's weight
    scale: float  # Of U
    size: int  # p, the columns of z
    # response, square: a and c: weights of X'y and of y'y where X'X, each pair of entries off its diagonal as one
    # number times sqrt(2), has weight 1. For the Wishart law c = a^2 / 2, as for the matrix of (z, a y / sqrt(2)).
    response: float
    square: float

    def __post_init__(self) -> None:
        check_positive("response", self.response)
        check_positive("square", self.square)
        if self.law == "wishart" and not math.isclose(self.square, self.response**2 / 2, rel_tol=1e-9):
            raise ArgumentError("square must be half of the square of response for the Wishart law")
        if self.size < 1:
            raise ArgumentError(f"size must be a positive number of columns, got {safe_repr(self.size)}")
        _ = self.unit

    @property
    def unit(self) -> MatrixNoise:
        """The law of U."""
        return MatrixNoise(self.law, self.scale, (1.0,) * (self.size + 1))

    @property
    def factors(self) -> Float:
        """By what an entry of U is multiplied, shape (p + 1, p + 1); the response is last."""
        factors = np.ones((self.size + 1, self.size + 1))
        factors[-1, :] = factors[:, -1] = math.sqrt(2) / self.response
        factors[-1, -1] = 1 / self.square
        return factors

    @property
    def entry_variance(self) -> float:
        """Variance of an entry of X'X off the diagonal; that of one on the diagonal is twice this."""
        return self.unit.entry_variance

    @property
    def response_variance(self) -> float:
        """Variance of an entry of X'y."""
        return self.entry_variance * 2 / self.response**2

    @property
    def square_variance(self) -> float:
        """Variance of y'y."""
        return self.entry_variance * 2 / self.square**2

    def gradient_variance(self, radius: float) -> float:
        """E |e - E theta|^2 for |theta| = `radius`, E the noise of X'X and e that of X'y."""
        return self.size * self.response_variance + (self.size + 1) * self.entry_variance * radius**2

    def sample(self, random: RandomSource) -> Float:
        """Draw the noise, exactly symmetric."""
        return self.unit.unit_sample(random) * self.factors

    def to_dict(self) -> dict[str, Any]:
        """Plain public values, for JSON."""
        return asdict(self)

    @classmethod
    def from_dict(cls, stored: Mapping[str, Any]) -> StatisticsNoise:
        """The law whose `to_dict` gave `stored`."""
        return cls(**stored)


def frobenius_sensitivity(response: float, square: float, adjacency: Adjacency = "add_remove") -> float:
    """The l2 sensitivity of (X'X, a X'y, c y'y) for rows |z| <= 1, |y| <= 1; X'X in the Frobenius norm.

    sqrt(1 + a^2 + c^2) to add or remove a row. To replace one the root of the maximum over k in [0, 1] of
    2 a^2 (1 + k) + 2 (1 - k^2), and of c^2 more if c^2 > a^2 / 2: up to there y'y costs nothing.
    """
    linear, extra = check_positive("response", response) ** 2, check_positive("square", square) ** 2
    if check_adjacency(adjacency) == "add_remove":
        return math.sqrt(1 + linear + extra)
    together = min(1.0, linear / 2)
    return math.sqrt(2 * linear * (1 + together) + 2 * (1 - together**2) + (extra if extra > linear / 2 else 0.0))


def trace_sensitivity(response: float, adjacency: Adjacency = "add_remove") -> float:
    """The greatest change in nuclear norm of the matrix of rows (z, a y / sqrt(2)): 1 + a^2 / 2, twice to replace."""
    rows = 2 if check_adjacency(adjacency) == "replace_one" else 1
    return rows * (1 + check_positive("response", response) ** 2 / 2)


def statistics_noise(
    size: int,
    *,
    eps: float,
    delta: float = 0.0,
    radius: float = 1.0,
    adjacency: Adjacency = "add_remove",
    law: MatrixLaw | None = None,
) -> StatisticsNoise:
    """The weights and the law of least noise in the normal equations of coefficients of norm `radius`, a public guess.

    Normal noise needs a positive delta; the Wishart law is pure and is taken where it is less, unless `law` insists.
    """
    eps, delta = check_budget(eps, delta)
    radius, notion = check_positive("radius", radius), check_adjacency(adjacency)

    def wishart(log_weight: float) -> StatisticsNoise:
        weight = math.exp(log_weight)
        return StatisticsNoise("wishart", trace_sensitivity(weight, notion) / eps, size, weight, weight**2 / 2)

    def normal(log_weight: float) -> StatisticsNoise:
        weight = math.exp(log_weight)
        free = notion == "replace_one"
        square = weight / math.sqrt(2)
        if not free:
            square = min(square, math.sqrt(SQUARE_SHARE * (1 + weight**2)))
        return StatisticsNoise("normal", frobenius_sensitivity(weight, square, notion) / mu, size, weight, square)

    if law == "normal" and delta == 0:
        raise ArgumentError("delta must be positive for normal noise, got 0")
    laws = {"wishart": wishart}
    if delta > 0:
        mu = analytic_mu(eps, delta)
        laws["normal"] = normal
    candidates = []
    for build in [laws[law]] if law else laws.values():
        least = optimize.minimize_scalar(
            lambda at, build=build: math.log(build(at).gradient_variance(radius)),
            bounds=(-WIDEST, WIDEST),
            method="bounded",
        )
        candidates.append(build(float(least.x)))
    return min(candidates, key=lambda noise: noise.gradient_variance(radius))


def integer_statistics(blocks: Iterable[tuple[Float, Float]], noise: MatrixNoise) -> Exact:
    """The exact sum of v v' over rows, Python integers of shape (p + 1, p + 1), in units of 2^-40.

    v = (z, y) 2^20 truncated towards 0, z = D^-1/2 L^-1 x shortened to 1: |v_z| and |v_y| are at most 2^20, and a row's
    v does not depend on the other rows.
    """
    size, diagonal = noise.size + 1, np.array(noise.diagonal)
    total = np.zeros((size, size), dtype=object)
    for exog, endog in blocks:
        for start in range(0, len(exog), BLOCK_ROWS):
            inner, outcome = noise.coordinates(exog[start : start + BLOCK_ROWS]), endog[start : start + BLOCK_ROWS]
            columns = np.empty((size, len(outcome)))
            integer_columns(inner.T, np.ones(len(outcome)), diagonal, 1.0, columns[:-1])
            np.trunc(np.clip(outcome, -1.0, 1.0) * 2.0**PLACES, out=columns[-1])
            total += np.dot(columns, columns.T).astype(np.int64)
    return total


def noisy_statistics(total: Exact, noise: StatisticsNoise, *, cover_eps: float, random: RandomSource) -> Float:
    """The sum of `integer_statistics` with its noise on a public lattice, symmetric, in the coordinates (z, y).

    `cover_eps` is a further, pure part of the budget for floating point.
    """
    upper, unit = np.triu_indices(noise.size + 1), 2 ** (2 * PLACES - COVER_PLACES)
    # Far beyond the lattice's own limit, so that no draw overflows.
    draws = np.clip(np.rint(noise.sample(random)[upper] * 2.0 ** (2 * PLACES)), -FARTHEST, FARTHEST)
    exact = [entry + int(draw) for entry, draw in zip(total[upper], draws, strict=True)]
    lattice = [max(-LATTICE_LIMIT, min(LATTICE_LIMIT, (2 * entry + unit) // (2 * unit))) for entry in exact]
    # The error of a draw grows with the factor of its entry, whose product is rounded too.
    widest = noise.unit.scaled(1.1 * noise.scale * float(noise.factors.max()))
    sensitivity = cover_sensitivity(widest, 1.0)
    noisy = noisy_integers(
        np.array(lattice, dtype=np.int64), sensitivity, check_positive("cover_eps", cover_eps), random
    )
    released = np.zeros((noise.size + 1, noise.size + 1))
    released[upper] = released[upper[::-1]] = noisy * 2.0**-COVER_PLACES
    return released
