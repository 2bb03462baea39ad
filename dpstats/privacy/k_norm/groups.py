"""Groups of bodies, uniform draws from them, and their moments (docs/proofs/bodies, kernels)."""

from __future__ import annotations

import itertools
import math
import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import special

from dpstats.cached import cached_property
from dpstats.errors import ArgumentError
from dpstats.privacy.k_norm.blocks import ConvexBody, Image
from dpstats.privacy.randomness import RandomSource, SystemRandom, folded_uniforms


def integer_below(bound: int, random: RandomSource) -> int:
    """A uniform integer in [0, bound), exact for the operating system's generator.

    A seeded source gives a reproducible one whose law is within 2**-64 of uniform; its releases are never certified.
    """
    if isinstance(random, SystemRandom):
        return secrets.randbelow(bound)
    words = (bound.bit_length() + 31) // 32 + 2
    value = 0
    for uniform in random.random(words):
        value = value << 32 | int(uniform * 2.0**32)
    return value * bound >> 32 * words


def choose(weights: Sequence[int], random: RandomSource) -> int:
    """An index with probability proportional to its integer weight."""
    remaining = integer_below(sum(weights), random)
    for index, weight in enumerate(weights):
        if remaining < weight:
            return index
        remaining -= weight
    raise AssertionError("an integer below the sum of the weights lies in one of them")


def subset(size: int, count: int, random: RandomSource) -> NDArray[np.bool_]:
    """A uniformly random subset of `count` among `size`, as a mask of shape (size,)."""
    chosen = np.zeros(size, dtype=np.bool_)
    for index in range(size):
        if integer_below(size - index, random) < count:
            chosen[index] = True
            count -= 1
    return chosen


@lru_cache(maxsize=16)
def tail_sums(sizes: tuple[int, ...]) -> tuple[tuple[int, ...], ...]:
    """At [t][J], the sum of prod C(k_u, j_u)^2 over blocks u >= t and all j_u that add up to J."""
    sums: list[tuple[int, ...]] = [(1,)]
    for size in reversed(sizes):
        squares = [math.comb(size, positive) ** 2 for positive in range(size + 1)]
        later = sums[-1]
        total = [0] * (len(later) + size)
        for positive, square in enumerate(squares):
            for rest, weight in enumerate(later):
                total[positive + rest] += square * weight
        sums.append(tuple(total))
    return tuple(reversed(sums))


def draw_cell(sizes: Sequence[int], random: RandomSource) -> tuple[int, ...]:
    """Counts (j_1, ..., j_T) of positive coordinates, in proportion to prod C(k_t, j_t)^2 J! (K - J)!.

    First J = sum j_t, then each j_t given what is left for it and the later blocks.
    """
    sums = tail_sums(tuple(sizes))
    dimension = sum(sizes)
    factorials = [math.factorial(count) for count in range(dimension + 1)]
    weights = [sums[0][total] * factorials[total] * factorials[dimension - total] for total in range(dimension + 1)]
    remaining = choose(weights, random)
    counts = []
    for block, size in enumerate(sizes):
        later = sums[block + 1]
        first, last = max(0, remaining - len(later) + 1), min(size, remaining)
        options = [math.comb(size, count) ** 2 * later[remaining - count] for count in range(first, last + 1)]
        counts.append(first + choose(options, random))
        remaining -= counts[-1]
    return tuple(counts)


Float = NDArray[np.float64]


def gamma_variable(shape: int, random: RandomSource) -> float:
    """One Gamma variable of scale 1, each tail inverted at the distance to its own end."""
    tail, upper = folded_uniforms(random, 1)
    return float((special.gammainccinv if upper[0] else special.gammaincinv)(shape, tail[0]))


def exponentials(size: int, random: RandomSource) -> Float:
    """Unit exponentials, shape (size,), of full relative precision both near 0 and far out."""
    tail, upper = folded_uniforms(random, size)
    return np.where(upper, -np.log(tail), -np.log1p(-tail))


def uniform_in_simplex(size: int, random: RandomSource) -> Float:
    """A uniform point of {z >= 0, sum z <= 1}, shape (size,)."""
    parts = exponentials(size + 1, random)
    return parts[:size] / parts.sum()


def uniform_in_block(block: ConvexBody, random: RandomSource) -> Float:
    """A uniform point of the symmetric hull of a block, shape (k,)."""
    if block.kind in ("simplex", "cross"):
        signs = [2 * integer_below(2, random) - 1 for _ in range(block.size)]
        return uniform_in_simplex(block.size, random) * np.array(signs, dtype=np.float64)
    ball = block.kind == "ball"
    # The first k coordinates of a uniform point of the sphere in k + 2 dimensions are uniform in the ball.
    tail, upper = folded_uniforms(random, block.size + 2 if ball else block.size)
    sign = np.where(upper, 1.0, -1.0)
    if ball:
        normal = -sign * special.ndtri(tail)
        return np.asarray(normal[: block.size] / np.linalg.norm(normal), dtype=np.float64)
    return sign * (1 - 2 * tail)


def uniform_in_hull(sizes: Sequence[int], random: RandomSource) -> tuple[float, list[Float]]:
    """A uniform point of the hull of {1} x simplices of the given sizes: the intercept, and parts of shapes (k_t,)."""
    counts = draw_cell(sizes, random)
    positive, dimension = sum(counts), sum(sizes)
    # a ~ Beta(J + 1, K - J + 1) as a share of two gammas, so that neither a nor 1 - a is a difference.
    upper, lower = gamma_variable(positive + 1, random), gamma_variable(dimension - positive + 1, random)
    total = upper + lower
    parts = []
    for size, count in zip(sizes, counts, strict=True):
        chosen = subset(size, count, random)
        part = np.empty(size)
        part[chosen] = upper / total * uniform_in_simplex(count, random)
        part[~chosen] = -lower / total * uniform_in_simplex(size - count, random)
        parts.append(part)
    return (upper - lower) / total, parts


EXTRA_DEGREE = 4
"""Moments up to the fourth raise the degree of the integrands by as much."""


class Quadrature(NamedTuple):
    """Nodes a in (0, 1) and weights, shapes (N,), exact for polynomials of the degree asked for."""

    points: Float
    weights: Float


@lru_cache(maxsize=64)
def quadrature(dimension: int) -> Quadrature:
    """Nodes for moments up to the fourth on a hull whose simplices have `dimension` coordinates in all."""
    # Rounded up so that designs of nearly the same size share their nodes.
    count = 8 * math.ceil((dimension + EXTRA_DEGREE + 2) / 16)
    points, weights = special.roots_legendre(count)
    return Quadrature((points + 1) / 2, weights / 2)


def cells(size: int, points: Float) -> tuple[Float, Float]:
    """P(j of `size` coordinates are positive | a), shape (N, size + 1), and the log of what normalises it, shape (N,).

    The former is proportional to C(k, j)^2 a^j (1 - a)^(k - j), whose sum is k! times the volume of a S_k - (1 - a)
    S_k.
    """
    positive = np.arange(size + 1)
    binomial = special.gammaln(size + 1) - special.gammaln(positive + 1) - special.gammaln(size - positive + 1)
    powers = special.xlogy(positive, points[:, None]) + special.xlog1py(size - positive, -points[:, None])
    logs = 2 * binomial + powers
    top = logs.max(axis=1)
    weights = np.exp(logs - top[:, None])
    total = weights.sum(axis=1)
    return weights / total[:, None], top + np.log(total)


def mixed_moment(exponents: Sequence[int], probabilities: Float, points: Float) -> Float:
    """E prod_i z_i^n_i given a, over distinct coordinates with the given exponents, shape (N,).

    Given which coordinates are positive, the positive ones are a times a uniform point of a simplex and the negative
    ones -(1 - a) times another, independent. Zero if there are more exponents than coordinates.
    """
    size = probabilities.shape[1] - 1
    if len(exponents) > size:
        return np.zeros_like(points)
    positive = np.arange(size + 1.0)
    ordered = math.prod(range(size - len(exponents) + 1, size + 1))
    scale = math.prod(math.factorial(n) for n in exponents) / ordered
    total = np.zeros_like(points)
    for signs in itertools.product((0, 1), repeat=len(exponents)):
        below = sum(n for n, sign in zip(exponents, signs, strict=True) if sign)
        above = sum(exponents) - below
        chosen = _falling(positive, len(signs) - sum(signs)) * _falling(size - positive, sum(signs))
        simplex = _rising(positive, above) * _rising(size - positive, below)
        mean = probabilities @ (chosen / simplex)
        total += (-1) ** below * scale * points**above * (1 - points) ** below * mean
    return total


def _falling(values: Float, count: int) -> Float:
    """v (v - 1) ... (v - count + 1)."""
    return np.prod([values - i for i in range(count)], axis=0) if count else np.ones_like(values)


def _rising(values: Float, count: int) -> Float:
    """(v + 1) ... (v + count)."""
    return np.prod([values + i for i in range(1, count + 1)], axis=0) if count else np.ones_like(values)


class Conditional(NamedTuple):
    """Moments of a simplex block's part given a, at the nodes; all of shape (N,).

    `log_volume` is as in `cells`; `mean`, `square` and `product` are E z_i, E z_i^2 and E z_i z_l, i != l.
    """

    log_volume: Float
    mean: Float
    square: Float
    product: Float


@lru_cache(maxsize=512)
def conditional(size: int, dimension: int) -> Conditional:
    """Moments of a simplex block of `size` coordinates at the nodes of ``quadrature(dimension)``."""
    points = quadrature(dimension).points
    probabilities, log_volume = cells(size, points)
    return Conditional(
        log_volume,
        mixed_moment((1,), probabilities, points),
        mixed_moment((2,), probabilities, points),
        mixed_moment((1, 1), probabilities, points),
    )


def node_weights(log_density: Float, weights: Float) -> Float:
    """Probabilities of the nodes under a density given up to a factor by its logarithm, over the last axis."""
    raw = weights * np.exp(log_density - log_density.max(axis=-1, keepdims=True))
    return np.asarray(raw / raw.sum(axis=-1, keepdims=True), dtype=np.float64)


def log_volume(sizes: Sequence[int]) -> float:
    """Logarithm of the volume of the hull of {1} x simplices of the given sizes."""
    dimension = sum(sizes)
    rule = quadrature(dimension)
    logs = np.log(rule.weights) + sum(conditional(size, dimension).log_volume for size in sizes)
    # The intercept is 2a - 1: a factor 2.
    return math.log(2) + float(special.logsumexp(logs)) - sum(math.lgamma(size + 1) for size in sizes)


def second_moments(sizes: Sequence[int]) -> Float:
    """E U U' for U uniform in the hull of {1} x simplices, shape (1 + K, 1 + K), intercept first."""
    dimension = sum(sizes)
    rule = quadrature(dimension)
    parts = [conditional(size, dimension) for size in sizes]
    weights = node_weights(sum((part.log_volume for part in parts), np.zeros_like(rule.points)), rule.weights)
    repeats = [1, *sizes]
    means = np.stack([2 * rule.points - 1, *(part.mean for part in parts)])
    moments = np.repeat(np.repeat((means * weights) @ means.T, repeats, axis=0), repeats, axis=1)
    start = 1
    for size, part in zip(sizes, parts, strict=True):
        block = slice(start, start + size)
        moments[block, block] = weights @ part.product
        np.fill_diagonal(moments[block, block], weights @ part.square)
        start += size
    return moments


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
        volume = log_volume(self.simplices) if self.homogenised else 0.0
        return volume + sum(block.log_volume for block in self.blocks if not self.in_hull(block))

    @cached_property
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
            moments[np.ix_(hull_columns, hull_columns)] = second_moments(self.simplices)
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
