"""One group of blocks: the body whose gauge it has (docs/proofs/bodies, 2 and 3)."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dpstats.cached import cached_property
from dpstats.privacy.bodies import hull
from dpstats.privacy.bodies.blocks import Block
from dpstats.privacy.bodies.sampling import uniform_in_block, uniform_in_hull
from dpstats.privacy.randomness import RandomSource

Float = NDArray[np.float64]


@dataclass(frozen=True)
class Group:
    """The product of the blocks' symmetric hulls, or with the intercept conv(X u -X).

    X is the set of rows: 1 for the intercept, a simplex for each simplex block, and the symmetric bodies of the
    others. Points are arrays of shape (..., d), one block after the other.
    """

    blocks: tuple[Block, ...]

    @cached_property
    def size(self) -> int:
        """The dimension d."""
        return sum(block.size for block in self.blocks)

    @cached_property
    def slices(self) -> tuple[slice, ...]:
        """Where each block's coordinates stand."""
        ends = np.cumsum([block.size for block in self.blocks])
        return tuple(slice(int(end) - block.size, int(end)) for block, end in zip(self.blocks, ends, strict=True))

    @cached_property
    def homogenised(self) -> bool:
        """Whether the intercept is one of the blocks."""
        return any(block.kind == "intercept" for block in self.blocks)

    @cached_property
    def simplices(self) -> tuple[int, ...]:
        """The sizes of the simplex blocks if they share the intercept's hull."""
        return tuple(block.size for block in self.blocks if self.in_hull(block) and block.kind == "simplex")

    def in_hull(self, block: Block) -> bool:
        """Whether a block of this group depends on the intercept."""
        return self.homogenised and block.kind in ("intercept", "simplex")

    def gauge(self, points: NDArray[np.floating]) -> Float:
        """The gauge of the body at `points`, shape (..., d), over the last axis."""
        largest: Float = np.zeros(points.shape[:-1])
        above, below, constant = largest, largest, largest
        for block, where in zip(self.blocks, self.slices, strict=True):
            part = points[..., where]
            if not self.in_hull(block):
                largest = np.maximum(largest, block.gauge(part))
            elif block.kind == "intercept":
                constant = np.asarray(part[..., 0], dtype=np.float64)
            else:
                above = np.maximum(above, np.maximum(part, 0).sum(axis=-1))
                below = np.maximum(below, np.maximum(-part, 0).sum(axis=-1))
        if self.homogenised:
            largest = np.maximum(largest, np.maximum(2 * above - constant, 2 * below + constant))
        return np.asarray(largest, dtype=np.float64)

    @cached_property
    def log_volume(self) -> float:
        """Logarithm of the body's volume."""
        volume = hull.log_volume(self.simplices) if self.homogenised else 0.0
        return volume + sum(block.log_volume for block in self.blocks if not self.in_hull(block))

    def second_moments(self) -> Float:
        """E U U' for U uniform in the body, shape (d, d)."""
        moments = np.zeros((self.size, self.size))
        inside: list[int] = []
        for block, where in zip(self.blocks, self.slices, strict=True):
            if not self.in_hull(block):
                moments[where, where] = block.variance * np.eye(block.size)
            elif block.kind == "intercept":
                inside.insert(0, where.start)
            else:
                inside.extend(range(where.start, where.stop))
        if self.homogenised:
            moments[np.ix_(inside, inside)] = hull.second_moments(self.simplices)
        return moments

    def uniform(self, random: RandomSource) -> Float:
        """A uniform point of the body, shape (d,)."""
        constant, parts = uniform_in_hull(self.simplices, random) if self.homogenised else (0.0, [])
        rest = iter(parts)
        point = np.empty(self.size)
        for block, where in zip(self.blocks, self.slices, strict=True):
            if not self.in_hull(block):
                point[where] = uniform_in_block(block, random)
            else:
                point[where] = constant if block.kind == "intercept" else next(rest)
        return point


def log_normaliser(group: Group, scale: float) -> float:
    """Logarithm of the integral of exp(-gauge / scale): d! times the volume times scale^d."""
    return math.lgamma(group.size + 1) + group.log_volume + group.size * math.log(scale)
