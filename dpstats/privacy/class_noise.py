"""Noise for losses of several classes: cut to differences of classes, and its least scale (docs/proofs/multinomial)."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpstats.cached import cached_property
from dpstats.errors import ArgumentError
from dpstats.privacy.guarantee import Adjacency
from dpstats.privacy.k_norm import ROUNDED, Image
from dpstats.privacy.k_norm.blocks import check_images
from dpstats.privacy.k_norm.groups import choose, exponentials, gamma_variable, subset
from dpstats.privacy.randomness import RandomSource

Float = NDArray[np.float64]

CELLS = 2**15
"""Of the curve: every scale is within 1e-3 of the least."""

ROUNDING = 1e-13
"""Relative allowance for rounding, as in `dpstats.privacy.calibration`."""


def determinant_curve(classes: int, kappa: float, *, shared: bool) -> tuple[Float, Float]:
    """Upper corners (g, log determinant) of cells that cover what one record can do, g = 1 - pi_y: shapes (cells,).

    The other classes share g equally: no other probabilities have a greater determinant (lemma 2). `shared` rows, whose
    weights sum to at most 1, have the trace in its place.
    """
    ends = np.linspace(0.0, 1.0, CELLS + 1)
    low, high, others = ends[:-1], ends[1:], classes - 1
    if shared:
        peak = np.clip(others / classes, low, high)
        return high, kappa * (1 + ROUNDING) * (2 * peak - peak**2 * classes / others)
    middle = np.clip(0.5, low, high)
    along = np.log1p(kappa * middle * (1 - middle) * classes / others)
    return high, ((classes - 2) * np.log1p(kappa * high / others) + along) * (1 + ROUNDING)


def class_scale(
    classes: int,
    *,
    eps: float,
    kappa: float,
    adjacency: Adjacency,
    shared: bool = False,
    matrix_scale: float = math.inf,
    eta_error: float = 0.0,
) -> float:
    """The least scale s of noise on coefficients of so many classes that costs eps; infinite if none is enough.

    Rows have gauge at most 1, and kappa = sup x'M^-1 x with the same M for every class (theorem 1). Noise of
    `matrix_scale` in the information is paid for too (theorem 3); predictors at which that is taken are within
    `eta_error` of those at the exact optimum.
    """
    gauge, loss = determinant_curve(classes, kappa, shared=shared)
    _, trace = determinant_curve(classes, 1.0, shared=True)
    most = eta_error + (eta_error + 1 - 1 / classes if adjacency == "replace_one" else 0.0)
    remaining = eps * (1 - ROUNDING) - loss - ROUNDED * (trace + most) / matrix_scale
    if remaining.min() <= 0:
        return math.inf
    return ROUNDED * float(np.max((gauge + (1.0 if adjacency == "replace_one" else 0.0)) / remaining))


def class_loss(classes: int, *, scale: float, kappa: float, adjacency: Adjacency, shared: bool = False) -> float:
    """The eps that noise of a scale costs: the inverse of `class_scale`."""
    gauge, loss = determinant_curve(classes, kappa, shared=shared)
    once = 1.0 if adjacency == "replace_one" else 0.0
    return float(np.max(loss + ROUNDED * (gauge + once) / scale)) * (1 + ROUNDING)


def facet_weights(classes: int) -> list[int]:
    """Volumes of the cones over the facets of the root polytope with j = 1, ..., K - 1 classes above zero."""
    return [math.comb(classes, above) * math.comb(classes - 2, above - 1) for above in range(1, classes)]


def mean_square(classes: int) -> float:
    """E |b|^2 of one column's noise at scale 1: density proportional to exp(-gauge) on vectors of sum zero."""
    weights = facet_weights(classes)
    squares = [2 / (above + 1) + 2 / (classes - above + 1) for above in range(1, classes)]
    mean = sum(weight * square for weight, square in zip(weights, squares, strict=True)) / sum(weights)
    return classes * (classes - 1) * mean


def gauge(parts: Float) -> Float:
    """The gauge of the root polytope, over the last axis: half the l1 norm of a vector of sum zero."""
    return np.asarray(0.5 * np.abs(parts).sum(axis=-1), dtype=np.float64)


def boundary_point(classes: int, random: RandomSource) -> Float:
    """A point of the polytope's boundary, each facet in proportion to its cone and uniform within, shape (K,)."""
    above = 1 + choose(facet_weights(classes), random)
    chosen = subset(classes, above, random)
    parts = exponentials(classes, random)
    point = np.where(chosen, parts / parts[chosen].sum(), -parts / parts[~chosen].sum())
    return np.asarray(point, dtype=np.float64)


@dataclass(frozen=True, eq=False)
class ClassNoise:
    """The law of b = C'b_d, shape (p, K), of density proportional to exp(-sum_g w_g ||(b_d)_g||_g / scale).

    A group's norm is the greatest of its blocks', and a block's the sum of its coordinates' gauges (theorem 2). Boxes
    and balls are a block a coordinate; what has one nonzero coordinate, such as dummies, is one block.
    """

    classes: int
    scale: float
    maps: tuple[Float, ...]  # C of each block, (k_t, p)
    groups: tuple[tuple[int, ...], ...]
    shares: tuple[float, ...]  # w_g, positive, of sum 1

    def scaled(self, scale: float) -> ClassNoise:
        """The same law at another scale."""
        return replace(self, scale=scale)

    def dimension(self, block: int) -> int:
        """Of a block's noise."""
        return len(self.maps[block]) * (self.classes - 1)

    def sample(self, random: RandomSource) -> Float:
        """Draw b, shape (p, K): in each group a Gamma(d + 1) radius times a uniform point of its body."""
        noise = np.zeros((self.maps[0].shape[1], self.classes))
        for group, share in zip(self.groups, self.shares, strict=True):
            size = sum(self.dimension(block) for block in group)
            radius = self.scale / share * gamma_variable(size + 1, random)
            for block in group:
                noise += radius * (self.maps[block].T @ self._uniform(block, random))
        return noise

    def draws(self, count: int, random: np.random.Generator) -> Float:
        """Independent draws, shape (count, p, K), in floating point: for public simulations, not for a release."""
        total = np.zeros((count, self.maps[0].shape[1], self.classes))
        for group, share in zip(self.groups, self.shares, strict=True):
            size = sum(self.dimension(block) for block in group)
            radius = self.scale / share * random.gamma(size + 1, size=(count, 1, 1))
            for block in group:
                shape = count, len(self.maps[block])
                weights = np.array(facet_weights(self.classes), dtype=np.float64)
                above = 1 + random.choice(self.classes - 1, size=shape, p=weights / weights.sum())
                chosen = random.random((*shape, self.classes)).argsort(axis=-1).argsort(axis=-1) < above[..., None]
                parts = random.exponential(size=(*shape, self.classes))
                sides = (np.where(side, parts, 0.0) for side in (chosen, ~chosen))
                up, down = (side / side.sum(axis=-1, keepdims=True) for side in sides)
                radii = random.gamma(self.classes - 1, size=shape)
                radii /= radii.sum(axis=1, keepdims=True) + random.exponential(size=(count, 1))
                total += radius * np.einsum("jp,njk->npk", self.maps[block], radii[..., None] * (up - down))
        return total

    def _uniform(self, block: int, random: RandomSource) -> Float:
        """A uniform point of a block's body, shape (k_t, K)."""
        size = len(self.maps[block])
        radii = np.array([gamma_variable(self.classes - 1, random) for _ in range(size)])
        points = np.stack([boundary_point(self.classes, random) for _ in range(size)])
        total = float(radii.sum() + exponentials(1, random)[0])
        return (radii / total)[:, None] * points

    @cached_property
    def covariance(self) -> Float:
        """V, shape (p, p), with E b_j b_l' = V_jl (I - 11'/K): classes are alike."""
        total = np.zeros((self.maps[0].shape[1],) * 2)
        each = mean_square(self.classes) / (self.classes - 1)
        for group, share in zip(self.groups, self.shares, strict=True):
            size = sum(self.dimension(block) for block in group)
            for block in group:
                own = (size + 1) * (size + 2) / ((self.dimension(block) + 1) * (self.dimension(block) + 2))
                total += own * each * (self.scale / share) ** 2 * (self.maps[block].T @ self.maps[block])
        return total

    @property
    def variances(self) -> Float:
        """E |b_j|^2 of each column's noise over the classes, shape (p,)."""
        return np.diag(self.covariance) * (self.classes - 1)

    def norm(self, parts: Sequence[Float]) -> float:
        """The norm of block coordinates, shapes (k_t, K): of d (x) v, it is at most 1 for rows d and roots v."""
        sums = [float(gauge(part).sum()) for part in parts]
        return float(
            sum(
                share * max(sums[block] for block in group)
                for group, share in zip(self.groups, self.shares, strict=True)
            )
        )

    def to_dict(self) -> dict[str, Any]:
        """Plain public values, for JSON."""
        groups, maps = [list(group) for group in self.groups], [one.tolist() for one in self.maps]
        plain = {"classes": self.classes, "scale": self.scale, "shares": list(self.shares)}
        return {**plain, "maps": maps, "groups": groups}

    @classmethod
    def from_dict(cls, stored: Mapping[str, Any]) -> ClassNoise:
        """The law whose `to_dict` gave `stored`."""
        maps = tuple(np.asarray(one, dtype=np.float64) for one in stored["maps"])
        groups = tuple(tuple(group) for group in stored["groups"])
        return cls(stored["classes"], stored["scale"], maps, groups, tuple(stored["shares"]))


def class_noise(images: Sequence[Image], columns: int, classes: int) -> ClassNoise:
    """The law at scale 1 with blocks merged into groups while that lowers E |b|^2, as `k_norm.group_blocks` does.

    ArgumentError unless the blocks reach every column: a column without noise would show the rows.
    """
    if check_images(images) != columns:
        raise ArgumentError("the blocks must reach every column of the design")
    maps: list[Float] = []
    for image in images:
        placed = np.zeros((image.block.size, columns))
        placed[:, list(image.columns)] = image.matrix
        maps.extend([placed] if image.block.kind in ("simplex", "cross") else [row[None] for row in placed])
    sizes = np.array([len(one) * (classes - 1) for one in maps], dtype=np.float64)
    squares = np.array([float((one * one).sum()) for one in maps]) / ((sizes + 1) * (sizes + 2))

    def cost(group: Sequence[int]) -> float:
        size = sizes[list(group)].sum()
        return float(np.cbrt((size + 1) * (size + 2) * squares[list(group)].sum()))

    # Those that merge best are alike: neighbours in this order, so that only these are compared.
    groups = [[int(block)] for block in np.lexsort((squares, sizes))]
    while len(groups) > 1:
        gains = [cost(one) + cost(other) - cost(one + other) for one, other in pairwise(groups)]
        best = int(np.argmax(gains))
        if gains[best] <= 1e-12 * sum(map(cost, groups)):
            break
        groups[best : best + 2] = [groups[best] + groups[best + 1]]
    single = [sorted(block for group in groups for block in group)]
    groups = min(groups, single, key=lambda one: sum(map(cost, one)))
    costs = [cost(group) for group in groups]
    shares = tuple(one / math.fsum(costs) for one in costs)
    return ClassNoise(classes, 1.0, tuple(maps), tuple(tuple(sorted(group)) for group in groups), shares)
