"""The law of the linear noise b as inference needs it: a covariance and draws (docs/proofs/inference, 6)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from dpstats.errors import ArgumentError
from dpstats.privacy.bodies import Block, BodyNoise, Group
from dpstats.privacy.noise import Noise

Float = NDArray[np.float64]

GRID = 4096
"""Points at which the law of the intercept's share in a hull is kept."""


class LinearLaw(Protocol):
    """The symmetric law of b, shape (p,); immutable, and hashable."""

    def __hash__(self) -> int:
        """Laws are keys of a cache of their draws."""

    @property
    def normal(self) -> bool:
        """Whether b is normal, so that no draws are needed."""

    @property
    def covariance(self) -> Float:
        """E b b', shape (p, p)."""

    def draws(self, count: int, random: np.random.Generator) -> Float:
        """Independent draws, shape (count, p)."""


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


@dataclass(frozen=True, eq=False)
class ReleasedLaw:
    """The law of b = (a draw of the plan's noise) / shape.

    Attributes
    ----------
    noise : Noise or BodyNoise
    shape : ndarray, shape (p,)
        The plan's weights a, positive.
    """

    noise: Noise | BodyNoise
    shape: Float

    def __post_init__(self) -> None:
        shape = np.asarray(self.shape, dtype=np.float64)
        if shape.ndim != 1 or not np.all(np.isfinite(shape)) or not np.all(shape > 0):
            raise ArgumentError("shape must be a vector of finite positive numbers")
        if isinstance(self.noise, BodyNoise) and self.noise.size != len(shape):
            raise ArgumentError("shape must have one entry for each column of the noise")

    @property
    def normal(self) -> bool:
        """Whether the noise is Gaussian."""
        return self.noise.kind == "gaussian"

    @property
    def covariance(self) -> Float:
        """E b b', shape (p, p)."""
        size = len(self.shape)
        if isinstance(self.noise, BodyNoise):
            return self.noise.covariance() / np.outer(self.shape, self.shape)
        return np.diag(self.noise.expected_square(size) / size / np.asarray(self.shape) ** 2)

    def draws(self, count: int, random: np.random.Generator) -> Float:
        """Independent draws, shape (count, p), in floating point: for public simulations, not for a release."""
        size = len(self.shape)
        if isinstance(self.noise, BodyNoise):
            return _body_draws(self.noise, count, size, random) / self.shape
        return _norm_draws(self.noise, count, size, random) / self.shape


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


def _body_draws(noise: BodyNoise, count: int, size: int, random: np.random.Generator) -> Float:
    """As `BodyNoise.sample`, many at once."""
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


def _block_points(block: Block, count: int, random: np.random.Generator) -> Float:
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
    ranks = np.argsort(np.argsort(random.random((len(share), size)), axis=1), axis=1)
    chosen = ranks < positive
    parts, spare = random.standard_exponential((len(share), size)), random.standard_exponential((len(share), 2))
    above = np.sum(parts * chosen, axis=1, keepdims=True) + spare[:, :1]
    under = np.sum(parts * ~chosen, axis=1, keepdims=True) + spare[:, 1:]
    return np.asarray(np.where(chosen, share * parts / above, (share - 1) * parts / under), dtype=np.float64)
