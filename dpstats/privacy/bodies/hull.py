"""The hull conv(X u -X) of rows X = {1} x simplices x symmetric bodies: its uniform law (docs/proofs/bodies, 3).

Given a in [0, 1] a point has intercept 2a - 1 and, independently, a part uniform in a S_k - (1 - a) S_k for each
simplex S_k: the vectors whose positive entries add up to at most a and whose negative ones to at most 1 - a. Densities
and moments in a are polynomials; Gauss-Legendre quadrature integrates them without error but rounding.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import special

Float = NDArray[np.float64]

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
    """How many of `size` coordinates are positive, given a.

    Returns
    -------
    probabilities : ndarray, shape (N, size + 1)
        P(j positive | a), proportional to C(k, j)^2 a^j (1 - a)^(k - j).
    log_volume : ndarray, shape (N,)
        Logarithm of the sum of these, k! times the volume of a S_k - (1 - a) S_k.
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
