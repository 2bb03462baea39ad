"""Groups of blocks that share a gauge, and how the budget is split between them (docs/proofs/bodies, 2 to 4)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dpstats.cached import cached_property
from dpstats.errors import ArgumentError
from dpstats.privacy.k_norm import uniform
from dpstats.privacy.k_norm.blocks import ConvexBody, Image
from dpstats.privacy.k_norm.uniform import conditional, node_weights, quadrature, uniform_in_block, uniform_in_hull
from dpstats.privacy.randomness import RandomSource

Float = NDArray[np.float64]


@dataclass(frozen=True)
class Group:
    """The product of the blocks' symmetric hulls, or with the intercept conv(X u -X).

    X is the set of rows: 1 for the intercept, a simplex for each simplex block, and the symmetric bodies of the
    others. Points are arrays of shape (..., d), one block after the other.
    """

    blocks: tuple[ConvexBody, ...]

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

    def in_hull(self, block: ConvexBody) -> bool:
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
        volume = uniform.log_volume(self.simplices) if self.homogenised else 0.0
        return volume + sum(block.log_volume for block in self.blocks if not self.in_hull(block))

    def second_moments(self) -> Float:
        """E U U' for U uniform in the body, shape (d, d)."""
        moments = np.zeros((self.size, self.size))
        hull_columns: list[int] = []
        for block, where in zip(self.blocks, self.slices, strict=True):
            if not self.in_hull(block):
                moments[where, where] = block.variance * np.eye(block.size)
            elif block.kind == "intercept":
                hull_columns.insert(0, where.start)
            else:
                hull_columns.extend(range(where.start, where.stop))
        if self.homogenised:
            moments[np.ix_(hull_columns, hull_columns)] = uniform.second_moments(self.simplices)
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


IMPROVEMENT = 1e-12
"""A merge must lower the sum of the cube roots by this share at least, or rounding could decide."""


class Grouping(NamedTuple):
    """Groups of blocks by their index, each with its share of the budget.

    `shares` add up to 1; `energies` are (d + 1)(d + 2) E||C'U||^2 of each group. E||b||^2 is
    s^2 times the sum of energy / share^2.
    """

    groups: tuple[tuple[int, ...], ...]
    shares: tuple[float, ...]
    energies: tuple[float, ...]

    @property
    def expected_square(self) -> float:
        """E||b||^2 at scale 1: the cube of the sum of the energies' cube roots."""
        return float(np.cbrt(self.energies).sum() ** 3)


class _Sums(NamedTuple):
    """What a group's energy needs, summed over its blocks; rows are groups.

    `size` d and `plain` E||C'U||^2 in the product of symmetric hulls, shapes (n,); `log_volume` and `inside`, the
    same second moment given a within the homogenised hull, shapes (n, N).
    """

    size: Float
    plain: Float
    log_volume: Float
    inside: Float

    def merged(self, one: int, other: int) -> _Sums:
        """Groups `one` < `other` replaced by their union, in the place of `one`."""
        parts = []
        for part in self:
            joined = part.copy()
            joined[one] += joined[other]
            parts.append(np.delete(joined, other, axis=0))
        return _Sums(*parts)


def group_blocks(images: Sequence[Image]) -> Grouping:
    """Merge groups, from one block each, while a merge lowers E||b||^2, the best merge first; the intercept's comes
    first.

    The result is never worse than one block a group, nor than one group of all.
    """
    # In an order of their own, so that the order of the terms decides nothing.
    order = sorted(range(len(images)), key=lambda index: _rank(images[index]))
    sums = _block_sums([images[index] for index in order])
    homogenised = images[order[0]].block.kind == "intercept"
    weights = quadrature(_simplex_dimension(images)).weights
    members = [[index] for index in order]
    while len(members) > 1:
        gain = _gains(sums, weights, homogenised)
        one, other = (int(index) for index in np.unravel_index(int(np.argmax(gain)), gain.shape))
        if gain[one, other] <= IMPROVEMENT * _costs(sums).sum():
            break
        sums = sums.merged(one, other)
        if homogenised and one == 0:
            sums.plain[0] = _hull_square(sums.log_volume[:1], sums.inside[:1], weights)[0]
        members[one] += members.pop(other)
    greedy = make_grouping(images, tuple(tuple(sorted(group)) for group in members))
    # Merging one pair at a time may stop short of the one group of all blocks.
    single = make_grouping(images, [range(len(images))])
    return min(greedy, single, key=lambda grouping: grouping.expected_square)


def make_grouping(images: Sequence[Image], groups: Sequence[Sequence[int]]) -> Grouping:
    """The grouping with the shares that make E||b||^2 least: in proportion to the cube roots of the energies.

    ArgumentError unless the groups hold every block exactly once.
    """
    check_groups(images, groups)
    energies = tuple(group_energy([images[index] for index in group]) for group in groups)
    roots = np.cbrt(energies)
    shares = tuple(float(share) for share in roots / roots.sum())
    return Grouping(tuple(tuple(int(index) for index in group) for group in groups), shares, energies)


def check_groups(images: Sequence[Image], groups: Sequence[Sequence[int]]) -> None:
    """Raise ArgumentError unless the groups hold every block exactly once and none is empty."""
    if sorted(index for group in groups for index in group) != list(range(len(images))) or not all(groups):
        raise ArgumentError("every block belongs to exactly one group")


def group_energy(images: Sequence[Image]) -> float:
    """(d + 1)(d + 2) E||C'U||^2 for U uniform in the group's body."""
    sums = _block_sums(images)
    dimension = sums.size.sum()
    square = sums.plain.sum()
    if any(image.block.kind == "intercept" for image in images):
        weights = quadrature(_simplex_dimension(images)).weights
        square = _hull_square(sums.log_volume.sum(axis=0)[None], sums.inside.sum(axis=0)[None], weights)[0]
    return float((dimension + 1) * (dimension + 2) * square)


def _rank(image: Image) -> tuple[bool, str, int, float, float]:
    """The intercept first."""
    return image.block.kind != "intercept", image.block.kind, image.block.size, image.trace, image.total


def _simplex_dimension(images: Sequence[Image]) -> int:
    return sum(image.block.size for image in images if image.block.kind == "simplex")


def _block_sums(images: Sequence[Image]) -> _Sums:
    dimension = _simplex_dimension(images)
    points = quadrature(dimension).points
    constants = [image for image in images if image.block.kind == "intercept"]
    plain = np.array([image.block.variance * image.trace for image in images])
    log_volume = np.zeros((len(images), len(points)))
    within_hull = np.repeat(plain[:, None], len(points), axis=1)
    for row, image in enumerate(images):
        if image.block.kind == "intercept":
            within_hull[row] = (2 * points - 1) ** 2 * image.trace
        elif image.block.kind == "simplex":
            part = conditional(image.block.size, dimension)
            log_volume[row] = part.log_volume
            overlap = sum(image.overlap(constant) for constant in constants)
            within_hull[row] = (part.square - part.product) * image.trace + part.product * image.total
            within_hull[row] += 2 * (2 * points - 1) * part.mean * overlap
    return _Sums(np.array([float(image.block.size) for image in images]), plain, log_volume, within_hull)


def _hull_square(log_volume: Float, inside: Float, weights: Float) -> Float:
    """E||C'U||^2 in hulls, one a row, shape (n,)."""
    return np.asarray((node_weights(log_volume, weights) * inside).sum(axis=1), dtype=np.float64)


def _costs(sums: _Sums) -> Float:
    """Cube roots of the groups' energies, shape (n,)."""
    return np.cbrt((sums.size + 1) * (sums.size + 2) * sums.plain)


def _gains(sums: _Sums, weights: Float, homogenised: bool) -> Float:
    """By how much each merge lowers the sum of the cube roots, shape (n, n), -inf on and below the diagonal."""
    cost = _costs(sums)
    dimension = sums.size[:, None] + sums.size
    square = sums.plain[:, None] + sums.plain
    if homogenised:
        square[0, 1:] = _hull_square(
            sums.log_volume[0] + sums.log_volume[1:], sums.inside[0] + sums.inside[1:], weights
        )
    gain = cost[:, None] + cost - np.cbrt((dimension + 1) * (dimension + 2) * square)
    gain[np.tril_indices(len(cost))] = -np.inf
    return np.asarray(gain, dtype=np.float64)
