"""Moments, and upper bounds of quantiles, of the noise's length and of its coordinates (docs/proofs/bodies, 6)."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import optimize, special

from dpstats.privacy.k_norm.blocks import ConvexBody, Image
from dpstats.privacy.k_norm.groups import Group, cells, conditional, mixed_moment, node_weights, quadrature

Float = NDArray[np.float64]

KNOTS = np.concatenate(([0.0], np.geomspace(1e-4, 1.0, 400)))
"""Between these a survival function is replaced by its chord."""

ROUNDING = 1e-9
"""Quantiles are raised by this share, which stands above the error of special functions and root finding."""


class Marginal(NamedTuple):
    """The law of |b_i|, or one with heavier tails.

    A mixture: with probability `probabilities[m]` the coordinate is that of R U with |U| at least v with probability
    (1 - v / `knots[m]`)^k, k = `power`, R of shape `dimension` + 1.
    """

    dimension: int
    power: int
    knots: Float
    probabilities: Float

    def tail(self, bound: float) -> float:
        """P(|b_i| > bound) at scale 1, or more."""
        return min(1.0, float(self.probabilities @ _power_tail(bound / self.knots, self.power, self.dimension)))

    def quantile(self, level: float) -> float:
        """The bound at which `tail` falls to `level`, in (0, 1)."""
        return _invert(self.tail, level)


def marginal(group: Group, block: ConvexBody) -> Marginal:
    """The law of a coordinate of a block of the group at scale 1.

    Exact for boxes and cross-polytopes and for whatever is treated as one; for balls and in the hull the chords of the
    survival function of |U| make its tails heavier, by less than a thousandth of the quantile.
    """
    if group.in_hull(block):
        survival = _hull_survival(tuple(sorted(group.simplices)), block)
    elif block.kind == "ball":
        survival = special.betainc((block.size + 1) / 2, 0.5, 1 - KNOTS**2)
    else:
        power = block.size if block.kind in ("simplex", "cross") else 1
        return Marginal(group.size, power, np.ones(1), np.ones(1))
    slopes = np.append(np.diff(survival) / np.diff(KNOTS), 0.0)
    # The density of |U| does not increase, so the survival function is convex; rounding may only raise it.
    bends = np.maximum(np.diff(slopes), 0.0)
    return Marginal(group.size, 1, KNOTS[1:], bends * KNOTS[1:])


def _power_tail(bounds: Float, power: int, dimension: int) -> Float:
    """E (1 - t/R)_+^k for R Gamma(d + 1), k <= d, at each t: e^-t times a polynomial with positive coefficients."""
    if power == 1:
        # The same in closed form: (d - t) Q(d, t) / d + e^-t t^d / d!.
        last = np.exp(special.xlogy(dimension, bounds) - bounds - special.gammaln(dimension + 1))
        return np.maximum((1 - bounds / dimension) * special.gammaincc(dimension, bounds) + last, 0.0)
    orders = np.arange(dimension - power + 1)
    rest = dimension - power
    binomial = special.gammaln(rest + 1) - special.gammaln(orders + 1) - special.gammaln(rest - orders + 1)
    logs = binomial + special.gammaln(dimension - orders + 1) - special.gammaln(dimension + 1)
    powers = special.xlogy(orders, np.asarray(bounds)[:, None]) - np.asarray(bounds)[:, None]
    return np.asarray(np.exp(special.logsumexp(logs + powers, axis=1)), dtype=np.float64)


@lru_cache(maxsize=256)
def _hull_survival(sizes: tuple[int, ...], block: ConvexBody) -> Float:
    """P(|U_i| > v) at the knots, for the intercept or a coordinate of a simplex block of the hull."""
    rule, is_simplex = quadrature(sum(sizes)), block.kind == "simplex"
    # By symmetry twice the upper tail: a > v for a coordinate of a simplex, 2a - 1 > v for the intercept.
    start = (KNOTS if is_simplex else (1 + KNOTS) / 2)[:-1, None]
    points, logs = _log_volumes(sizes, is_simplex)
    if is_simplex:
        exceeding = _log_exceeding(block.size, points.ravel(), np.repeat(KNOTS[:-1], len(rule.points)))
        logs = logs - _log_volumes((block.size,), is_simplex, sum(sizes))[1] + exceeding.reshape(points.shape)
    normaliser = sum((conditional(size, sum(sizes)).log_volume for size in sizes), np.zeros_like(rule.points))
    top = special.logsumexp(logs, axis=1, b=rule.weights) + np.log1p(-start[:, 0])
    return np.append(np.minimum(2 * np.exp(top - special.logsumexp(normaliser, b=rule.weights)), 1.0), 0.0)


@lru_cache(maxsize=64)
def _log_volumes(sizes: tuple[int, ...], is_simplex: bool, dimension: int | None = None) -> tuple[Float, Float]:
    """Nodes a on [v, 1], or on [(1 + v) / 2, 1], and the log volume of simplex blocks given a, times prod k_t!.

    Shapes (knots - 1, N); N from ``quadrature(dimension)``, by default for these sizes.
    """
    rule = quadrature(sum(sizes) if dimension is None else dimension)
    start = (KNOTS if is_simplex else (1 + KNOTS) / 2)[:-1, None]
    points = start + (1 - start) * rule.points
    counts = Counter(sizes)
    logs = sum((count * cells(size, points.ravel())[1] for size, count in counts.items()), np.zeros(points.size))
    return points, logs.reshape(points.shape)


def _log_exceeding(size: int, points: Float, bounds: Float) -> Float:
    """Logarithm of k! times the volume of the part of a S_k - (1 - a) S_k where the first coordinate exceeds v."""
    positive = np.arange(1, size + 1)
    binomial = special.gammaln(size + 1) - special.gammaln(positive + 1) - special.gammaln(size - positive + 1)
    powers = special.xlogy(positive, (points - bounds)[:, None])
    powers = powers + special.xlog1py(size - positive, -points[:, None])
    return np.asarray(special.logsumexp(2 * binomial + np.log(positive / size) + powers, axis=1), dtype=np.float64)


def log_concave_quantile(level: float) -> float:
    """A bound that |X| exceeds with probability at most `level`, for any symmetric log-concave X of variance 1.

    From E|X|^q <= Gamma(q + 1) / 2^(q/2), q >= 2, with equality for the Laplace law, and Markov's inequality.
    """
    powers = np.arange(2.0, 2 + 4 * max(1.0, -math.log(level)), 0.25)
    return float(np.exp((special.gammaln(powers + 1) - math.log(level)) / powers).min()) / math.sqrt(2)


def _invert(tail: Callable[[float], float], level: float) -> float:
    high = 1.0
    while tail(high) > level:
        high *= 2
    low = high / 2
    while tail(low) <= level:
        low /= 2
    root = float(optimize.brentq(lambda bound: math.log(tail(bound) / level), low, high, xtol=1e-13, rtol=1e-12))
    return root * (1 + ROUNDING)


class MixedMoments(NamedTuple):
    """Mixed moments of distinct coordinates by their exponents, each of shape (N,): given a, or constant."""

    square: Float
    product: Float
    fourth: Float
    cube: Float
    squares: Float
    square_products: Float
    products: Float


def length_moments(images: Sequence[Image]) -> tuple[float, float]:
    """E||C'U||^2 and E||C'U||^4 for U uniform in the group's body, when no two maps share a column."""
    dimension = sum(image.block.size for image in images if image.block.kind == "simplex")
    rule = quadrature(dimension)
    homogenised = any(image.block.kind == "intercept" for image in images)
    mean, variance = np.zeros_like(rule.points), np.zeros_like(rule.points)
    log_density = np.zeros_like(rule.points)
    for image in images:
        if homogenised and image.block.kind == "intercept":
            mean += (2 * rule.points - 1) ** 2 * image.trace
            continue
        if homogenised and image.block.kind == "simplex":
            probabilities, log_volume = cells(image.block.size, rule.points)
            log_density += log_volume
            moments = _hull_moments(probabilities, rule.points)
        else:
            moments = _symmetric_moments(image.block, rule.points)
        first, second = quadratic_moments(image.matrix @ image.matrix.T, moments)
        mean += first
        variance += second - first**2
    weights = node_weights(log_density, rule.weights)
    # Given a the blocks are independent.
    return float(weights @ mean), float(weights @ (mean**2 + variance))


def quadratic_moments(gram: Float, moments: MixedMoments) -> tuple[Float, Float]:
    """E z'Gz and E (z'Gz)^2, shapes (N,), for exchangeable coordinates z, by the patterns of equal indices."""
    diagonal, rows = np.diag(gram), gram.sum(axis=1)
    off_diagonal, frobenius = rows - diagonal, (gram * gram).sum(axis=1)
    trace, total = diagonal.sum(), rows.sum()
    fourth = (diagonal**2).sum()
    cube = 4 * (diagonal @ off_diagonal)
    squares = trace**2 - fourth + 2 * (frobenius.sum() - fourth)
    square_products = 2 * (diagonal @ (total - trace - 2 * off_diagonal))
    square_products += 4 * (off_diagonal**2 - frobenius + diagonal**2).sum()
    # At z = (1, ..., 1) all the patterns together make (1'G1)^2.
    products = total**2 - fourth - cube - squares - square_products
    second = fourth * moments.fourth + cube * moments.cube + squares * moments.squares
    second = second + square_products * moments.square_products + products * moments.products
    return trace * moments.square + (total - trace) * moments.product, second


def _hull_moments(probabilities: Float, points: Float) -> MixedMoments:
    """Of a simplex block's part in the hull, given a."""
    patterns = ((2,), (1, 1), (4,), (3, 1), (2, 2), (2, 1, 1), (1, 1, 1, 1))
    return MixedMoments(*(mixed_moment(pattern, probabilities, points) for pattern in patterns))


def _symmetric_moments(block: ConvexBody, points: Float) -> MixedMoments:
    """Of a uniform point of the block's symmetric hull; moments with an odd exponent vanish."""
    size = block.size
    if block.kind in ("simplex", "cross"):
        # E prod |z_i|^n_i = prod n_i! k! / (k + n)!, n = 4 in all.
        unit = 1 / math.prod(range(size + 1, size + 5))
        fourth, squares = 24 * unit, 4 * unit
    elif block.kind == "ball":
        squares = 1 / ((size + 2) * (size + 4))
        fourth = 3 * squares
    else:
        fourth, squares = 1 / 5, 1 / 9
    zero, one = np.zeros_like(points), np.ones_like(points)
    return MixedMoments(block.variance * one, zero, fourth * one, zero, squares * one, zero, zero)


class GroupNorm(NamedTuple):
    """One group's b_g = R C'U: the group's maps, its dimension d and the scale of R, Gamma(d + 1)."""

    images: tuple[Image, ...]
    dimension: int
    scale: float


def length_quantile(parts: Sequence[GroupNorm], square: float, probability: float) -> float:
    """A bound that ||b||_2 exceeds with probability at most 1 - `probability`; `square` is E ||b||^2."""
    dimension = sum(part.dimension for part in parts)
    reach = max(longest(part.images) * part.scale for part in parts)
    by_gauge = reach * float(special.gammaincinv(dimension, probability))
    by_moments = math.sqrt(square) * log_concave_quantile(1 - probability)
    # Cantelli's inequality, from mean and variance of ||b||^2.
    variance = max(fourth_moment(parts) - square**2, 0.0)
    cantelli = math.sqrt(square + math.sqrt(variance * probability / (1 - probability)))
    return min(by_gauge, by_moments, cantelli) * (1 + ROUNDING)


def fourth_moment(parts: Sequence[GroupNorm]) -> float:
    """E ||b||^4, or a bound on it if the intercept's map shares columns with another's."""
    shared, squares, fourths = 0.0, [], []
    apart = intercept_overlaps([image for part in parts for image in part.images])
    for part in parts:
        images, growth = part.images, math.prod(range(part.dimension + 1, part.dimension + 5)) * part.scale**4
        if apart and any(image.block.kind == "intercept" for image in images):
            shared = growth * length_moments(_restricted(images, constant=True))[1]
            images = _restricted(images, constant=False)
        square, fourth = length_moments(images)
        squares.append((part.dimension + 1) * (part.dimension + 2) * part.scale**2 * square)
        fourths.append(growth * fourth)
    total = math.fsum(squares) ** 2 + math.fsum(fourths) - math.fsum(square**2 for square in squares)
    # Minkowski's inequality in L4 adds the intercept's part to the rest.
    return float((total**0.25 + shared**0.25) ** 4)


def intercept_overlaps(images: Sequence[Image]) -> bool:
    """Whether the intercept's map shares columns with another's."""
    constants = {column for image in images if image.block.kind == "intercept" for column in image.columns}
    others = {column for image in images if image.block.kind != "intercept" for column in image.columns}
    return bool(constants & others)


def longest(images: Sequence[Image]) -> float:
    """A bound on ||C'u||_2 over a group's body, which lies in the product of the blocks' symmetric hulls."""
    constant = math.hypot(*(_longest_image(image) for image in images if image.block.kind == "intercept"))
    others = math.hypot(*(_longest_image(image) for image in images if image.block.kind != "intercept"))
    # Parts in different columns are orthogonal, others at worst parallel.
    return constant + others if intercept_overlaps(images) else math.hypot(constant, others)


def _longest_image(image: Image) -> float:
    """The largest ||C'u||_2 over a block's symmetric hull, or for a box a bound on it."""
    lengths = np.sqrt((image.matrix * image.matrix).sum(axis=1))
    if image.block.kind in ("simplex", "cross"):
        return float(lengths.max())
    spectral = float(np.linalg.norm(image.matrix, ord=2))
    if image.block.kind == "ball":
        return spectral
    # No vertex of a cube is longer than sqrt(k), and the triangle inequality.
    return min(spectral * math.sqrt(image.block.size), float(lengths.sum()))


def _restricted(images: Sequence[Image], *, constant: bool) -> tuple[Image, ...]:
    """The same body with all maps zero but the intercept's, or with that one zero."""
    pairs = ((image, (image.block.kind == "intercept") == constant) for image in images)
    return tuple(replace(image, matrix=image.matrix * keep) for image, keep in pairs)
