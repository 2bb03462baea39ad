"""The laws of the linear noise b and of a released matrix's noise, and of estimates standardised by their errors
(docs/proofs/inference, 2 and 6)."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Protocol, Self

import numpy as np
from numpy.typing import NDArray
from scipy import special

from dpstats.arguments import safe_repr
from dpstats.cached import cached_property
from dpstats.errors import ArgumentError
from dpstats.privacy.k_norm import ConvexBody, Group, KNormNoise
from dpstats.privacy.noise import Noise

Float = NDArray[np.float64]
Indices = NDArray[np.intp]

GRID = 4096
"""Points at which the law of the intercept's share in a hull is kept."""


class LinearLaw(Protocol):
    """The symmetric law of b, shape (p,); immutable, and hashable: laws are keys of a cache of their draws."""

    def __hash__(self) -> int: ...
    @property
    def normal(self) -> bool: ...  # whether b is normal, so that no draws are needed
    @property
    def covariance(self) -> Float: ...  # E b b', shape (p, p)
    def draws(self, count: int, random: np.random.Generator) -> Float: ...  # independent draws, shape (count, p)
    @property
    def seeded(self) -> Float: ...  # DRAWS of them by a generator whose seed is a constant


class MatrixLaw(Protocol):
    """The law of a symmetric p x p noise matrix E of mean zero, known through its second moments."""

    @property
    def size(self) -> int: ...  # p
    def square(self, matrix: Float) -> Float:
        """S(A) = E[E A E], shape (p, p), for any A of that shape."""

    def images(self, vector: Float) -> Float:
        """S(e_j m') for each unit vector e_j, shape (p, p, p), at the price of one S(A)."""

    def bilinear(self, left: Float, right: Float) -> Float:
        """Var(g'E m) = g' S(m m') g for the rows g, m of two arrays, shape (k, p); returns shape (k,)."""

    def restrict(self, kept: Indices) -> Self:
        """The law of E's rows and columns `kept`."""


@dataclass(frozen=True, eq=False)
class NormalLaw:
    """b ~ N(0, covariance), shape (p, p)."""

    covariance: Float

    @property
    def normal(self) -> bool:
        """True."""
        return True

    def draws(self, count: int, random: np.random.Generator) -> Float:
        """Independent draws, shape (count, p)."""
        values, vectors = np.linalg.eigh(self.covariance)
        return random.standard_normal((count, len(values))) * np.sqrt(np.maximum(values, 0)) @ vectors.T

    @property
    def seeded(self) -> Float:
        """The same draws each time, shape (DRAWS, p)."""
        return self.draws(DRAWS, np.random.default_rng(SEED))


@dataclass(frozen=True, eq=False)
class ReleasedLaw:
    """The law of b = (a draw of the plan's noise) / shape."""

    noise: Noise | KNormNoise
    shape: Float  # the plan's weights a, positive, shape (p,)

    def __post_init__(self) -> None:
        shape = np.asarray(self.shape, dtype=np.float64)
        if shape.ndim != 1 or not np.all(np.isfinite(shape)) or not np.all(shape > 0):
            raise ArgumentError("shape must be a vector of finite positive numbers")
        if isinstance(self.noise, KNormNoise) and self.noise.size != len(shape):
            raise ArgumentError("shape must have one entry for each column of the noise")

    @property
    def normal(self) -> bool:
        """Whether the noise is Gaussian."""
        return self.noise.kind == "gaussian"

    @property
    def covariance(self) -> Float:
        """E b b', shape (p, p)."""
        size = len(self.shape)
        if isinstance(self.noise, KNormNoise):
            return self.noise.covariance() / np.outer(self.shape, self.shape)
        return np.diag(self.noise.expected_square(size) / size / np.asarray(self.shape) ** 2)

    def draws(self, count: int, random: np.random.Generator) -> Float:
        """Independent draws, shape (count, p), in floating point: for public simulations, not for a release."""
        size = len(self.shape)
        if isinstance(self.noise, KNormNoise):
            return _k_norm_draws(self.noise, count, size, random) / self.shape
        return _norm_draws(self.noise, count, size, random) / self.shape

    @cached_property
    def seeded(self) -> Float:
        """The same draws each time, shape (DRAWS, p)."""
        return self.draws(DRAWS, np.random.default_rng(SEED))


def _norm_draws(noise: Noise, count: int, size: int, random: np.random.Generator) -> Float:
    """As `Noise.sample`, many at once."""
    if noise.kind == "gaussian":
        return noise.scale * random.standard_normal((count, size))
    if noise.norm == "l1":
        return random.laplace(scale=noise.scale, size=(count, size))
    if noise.norm == "linf":
        return noise.scale * random.gamma(size + 1, size=(count, 1)) * random.uniform(-1, 1, (count, size))
    direction = random.standard_normal((count, size))
    direction /= np.linalg.norm(direction, axis=1, keepdims=True)
    return noise.scale * random.gamma(size, size=(count, 1)) * direction


def _k_norm_draws(noise: KNormNoise, count: int, size: int, random: np.random.Generator) -> Float:
    """As `KNormNoise.sample`, many at once."""
    total = np.zeros((count, size))
    for body, matrix, share in zip(noise.bodies, noise.maps, noise.shares, strict=True):
        radius = noise.scale / share * random.gamma(body.size + 1, size=(count, 1))
        total += radius * (_points(body, count, random) @ matrix)
    return total


def _points(body: Group, count: int, random: np.random.Generator) -> Float:
    """Uniform points of a group's body, shape (count, d)."""
    points = np.empty((count, body.size))
    share = _shares(body.simplices, count, random) if body.homogenised else np.zeros((count, 1))
    for block, where in zip(body.blocks, body.slices, strict=True):
        if not body.in_hull(block):
            points[:, where] = _block_points(block, count, random)
        elif block.kind == "intercept":
            points[:, where] = 2 * share - 1
        else:
            points[:, where] = _hull_points(block.size, share, random)
    return points


def _block_points(block: ConvexBody, count: int, random: np.random.Generator) -> Float:
    """Uniform points of the symmetric hull of one block, shape (count, k)."""
    if block.kind == "ball":
        normal = random.standard_normal((count, block.size + 2))
        return normal[:, : block.size] / np.linalg.norm(normal, axis=1, keepdims=True)
    if block.kind in ("simplex", "cross"):
        parts = random.standard_exponential((count, block.size + 1))
        signs = random.choice([-1.0, 1.0], (count, block.size))
        return parts[:, : block.size] / parts.sum(axis=1, keepdims=True) * signs
    return random.uniform(-1, 1, (count, block.size))


def _shares(sizes: tuple[int, ...], count: int, random: np.random.Generator) -> Float:
    """Draws of a, shape (count, 1): its density is the product of v_k(a) (docs/proofs/bodies, 3), kept on a grid."""
    grid = (np.arange(GRID) + 0.5) / GRID
    logs: Float = np.zeros(GRID)
    for size in sizes:
        logs = logs + np.log(_cells(size, grid).sum(axis=1))
    cumulated = np.concatenate(([0.0], np.cumsum(np.exp(logs - logs.max()))))
    return np.interp(random.random(count), cumulated / cumulated[-1], np.arange(GRID + 1) / GRID)[:, None]


def _cells(size: int, share: Float) -> Float:
    """Binomial(k, j)^2 a^j (1 - a)^(k - j) up to a factor free of a, shape (len(share), k + 1)."""
    ratios = (size - np.arange(size)) / np.arange(1, size + 1)
    logs = 2 * np.concatenate(([0.0], np.cumsum(np.log(ratios))))
    counts = np.arange(size + 1)
    share = np.clip(share, 1e-12, 1 - 1e-12)[:, None]
    logs = logs - logs.max() + counts * np.log(share) + (size - counts) * np.log1p(-share)
    return np.exp(logs)


def _hull_points(size: int, share: Float, random: np.random.Generator) -> Float:
    """Uniform points of a S_k - (1 - a) S_k for the rows a of `share`, shape (count, k)."""
    cells = _cells(size, share[:, 0])
    below = np.cumsum(cells, axis=1) / cells.sum(axis=1, keepdims=True)
    positive = (random.random(share.shape) > below).sum(axis=1, keepdims=True)
    order, ranks = np.argsort(random.random((len(share), size)), axis=1), np.empty((len(share), size), dtype=np.intp)
    np.put_along_axis(ranks, order, np.arange(size)[None], axis=1)
    chosen = ranks < positive
    parts, spare = random.standard_exponential((len(share), size)), random.standard_exponential((len(share), 2))
    above = np.sum(parts * chosen, axis=1, keepdims=True) + spare[:, :1]
    under = np.sum(parts * ~chosen, axis=1, keepdims=True) + spare[:, 1:]
    return np.asarray(np.where(chosen, share * parts / above, (share - 1) * parts / under), dtype=np.float64)


DRAWS = 10_000
"""Simulated draws of the noise."""

SEED = 20_260_710
"""Public seed of the simulation: intervals are a function of what was released."""

TAIL = 100
"""So many of the largest draws are replaced by an exponential tail of their mean excess."""

WIDTH = 1 / 16
"""Of the cells in which draws are counted; within a cell |z| stands at its middle."""

CELLS = 256
"""Cells of one law: no draw of a variable of variance one is beyond 16."""

NORMAL_LEFT = 1 / 8
"""At least this standard deviation stays normal, so that a cell is narrow beside it."""

STEEP = 1e3
"""An exponential tail this much steeper than the normal part is a point."""

CHUNK = 8
"""Directions at once, so that their draws stay in the cache."""

_TRIES = 100
_CLOSE = 1e-12


@dataclass(frozen=True, eq=False)
class StandardLaws:
    """The laws of Z_i = sqrt(1 - w_i^2) N + w_i z_i, each of variance one, i = 1 to k."""

    weights: Float  # w_i in [0, 1)
    chances: Float  # of the first m cells of |z_i|, each of WIDTH; shape (k, m)
    upper: Float  # the rest: beyond `start`, with an exponential excess of mean `excess`
    start: Float
    excess: Float

    def tail(self, bounds: Float) -> Float:
        """P(|Z_i| >= bounds_i), shape (k,): the mean over z_i of two normal tails, so without a floor."""
        bounds, spread = np.asarray(bounds, dtype=np.float64), np.sqrt(1 - self.weights**2)
        moved = self.weights[:, None] * (WIDTH * (np.arange(self.chances.shape[1]) + 0.5))
        both = special.ndtr((moved - bounds[:, None]) / spread[:, None])
        both += special.ndtr((-moved - bounds[:, None]) / spread[:, None])
        inner = np.sum(both * self.chances, axis=1)
        return np.asarray(inner + self.upper * self._beyond(bounds, spread), dtype=np.float64)

    def _beyond(self, bounds: Float, spread: Float) -> Float:
        """The same for |z_i| = start + excess T, T exponential: normal plus or minus exponential, in closed form."""
        shift = self.weights * self.start
        rate = spread / np.maximum(self.weights * self.excess, np.finfo(np.float64).tiny)
        near, far = (bounds - shift) / spread, (bounds + shift) / spread
        with np.errstate(over="ignore", invalid="ignore"):
            above = special.ndtr(-near) + np.exp(rate * (rate / 2 - near) + special.log_ndtr(near - rate))
            below = special.ndtr(-far) - np.exp(rate * (rate / 2 + far) + special.log_ndtr(-far - rate))
        # Where hardly any noise is left the exponential is its mean: the closed form would cancel.
        plain = special.ndtr(1 / rate - near) + special.ndtr(-1 / rate - far)
        return np.where(rate < STEEP, np.minimum(above + np.maximum(below, 0.0), 2.0), plain)

    def quantile(self, alpha: float) -> Float:
        """The bounds that |Z_i| exceeds with probability `alpha`, shape (k,)."""
        if not 0 < alpha < 1:
            raise ArgumentError(f"alpha must lie strictly between 0 and 1, got {safe_repr(alpha)}")
        if alpha not in self._known:
            self._known[alpha] = self._solve(np.log(alpha))
        return self._known[alpha]

    @cached_property
    def _known(self) -> dict[float, Float]:
        return {}

    def _solve(self, level: float) -> Float:
        """The roots of log tail = level: false position with the Illinois rule."""

        def miss(bounds: Float) -> Float:
            return np.asarray(np.log(np.maximum(self.tail(bounds), np.finfo(np.float64).tiny)) - level)

        low, high = np.zeros(len(self.weights)), np.full(len(self.weights), 2.0)
        above, below = np.full(len(low), -level), miss(high)
        while np.any(below > 0):
            low, above = np.where(below > 0, high, low), np.where(below > 0, below, above)
            high = np.where(below > 0, 2 * high, high)
            below = miss(high)
        last = np.zeros(len(low), dtype=bool)
        for step in range(_TRIES):
            middle = low + (high - low) * above / np.maximum(above - below, np.finfo(np.float64).tiny)
            value = miss(middle)
            over = value > 0
            # An end that stays twice counts half, so that both move.
            again = (over == last) if step else np.zeros(len(low), dtype=bool)
            above = np.where(over, value, np.where(again, above / 2, above))
            below = np.where(over, np.where(again, below / 2, below), value)
            low, high, last = np.where(over, middle, low), np.where(over, high, middle), over
            if np.all((high - low <= _CLOSE * high) | (np.abs(value) <= _CLOSE)):
                break
        return np.asarray(np.where(np.abs(value) <= _CLOSE, middle, high), dtype=np.float64)


def standard_laws(directions: Float, weights: Float, law: LinearLaw, draws: Float | None) -> StandardLaws:
    """The laws of Z_i with z_i = g_i'b / sd(g_i'b), for rows g_i and standard deviations w_i of the noise's part.

    `draws` is what `simulated_draws` gives for the law of b; None where it is normal.
    """
    count = len(directions)
    if draws is None:
        return StandardLaws(np.zeros(count), np.ones((count, 1)), *np.zeros((3, count)))
    deviations = np.sqrt(np.sum(directions @ law.covariance * directions, axis=1))
    units = directions / np.where(deviations > 0, deviations, 1)[:, None]
    counts = np.zeros((count, CELLS), dtype=np.int64)
    in_cells = draws.T / WIDTH  # a power of two: no rounding
    for start in range(0, count, CHUNK):
        counts[start : start + CHUNK] = _counts(in_cells, units[start : start + CHUNK])
    return StandardLaws(np.minimum(weights, np.sqrt(1 - NORMAL_LEFT**2)), *_with_tail(counts))


@lru_cache(maxsize=2)
def simulated_draws(law: LinearLaw) -> Float | None:
    """Draws of b by a generator whose seed is a constant, shape (DRAWS, p), read-only; None for normal noise."""
    if law.normal:
        return None
    draws = law.seeded
    draws.setflags(write=False)
    return draws


def _counts(draws: Float, units: Float) -> NDArray[np.int64]:
    """How many draws of |z_i| are in each cell, shape (k, CELLS), of draws in cells, shape (p, DRAWS)."""
    cells = (units @ draws).astype(np.int32)  # towards zero; in 32 bits all passes are faster
    np.minimum(np.abs(cells, out=cells), CELLS - 1, out=cells)
    return np.array([np.bincount(row, minlength=CELLS) for row in cells], dtype=np.int64).reshape(-1, CELLS)


def _with_tail(counts: NDArray[np.int64]) -> tuple[Float, Float, Float, Float]:
    """Chances of the cells below the `TAIL` largest draws; and how many those are, where they begin, their excess.

    g'b is symmetric and log-concave, so its mean excess falls: an exponential tail is on the safe side.
    """
    above = np.cumsum(counts[:, ::-1], axis=1)[:, ::-1]
    first = np.sum(above > TAIL, axis=1)
    inside = np.arange(CELLS) < first[:, None]
    start, tail = WIDTH * first, np.where(inside, 0, counts)
    total = np.maximum(tail.sum(axis=1), 1)
    excess = tail @ (WIDTH * (np.arange(CELLS) + 0.5)) / total - start
    chances = np.where(inside, counts, 0)[:, : max(int(first.max(initial=1)), 1)] / DRAWS
    return chances, tail.sum(axis=1) / DRAWS, start, np.maximum(excess, WIDTH / 2)


def check_symmetric(name: str, matrix: Float, size: int) -> Float:
    """Return a finite symmetric `matrix`, shape (size, size), free of rounding's asymmetry, or raise ArgumentError."""
    matrix = np.asarray(matrix, dtype=np.float64)
    if matrix.shape != (size, size) or not np.all(np.isfinite(matrix)):
        raise ArgumentError(f"{name} must be a finite matrix of {size} rows and columns")
    # Where nothing is identified the matrix has no entry.
    if np.max(np.abs(matrix - matrix.T), initial=0.0) > 1e-8 * np.max(np.abs(matrix), initial=0.0):
        raise ArgumentError(f"{name} must be symmetric")
    return (matrix + matrix.T) / 2
