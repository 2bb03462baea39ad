"""Upper bounds of the tails of coordinates of b = R U, R Gamma(d + 1), U uniform in a body (docs/proofs/bodies, 6)."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import optimize, special

from dpstats.privacy.bodies.blocks import Block
from dpstats.privacy.bodies.group import Group
from dpstats.privacy.bodies.hull import cells, conditional, quadrature

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


def marginal(group: Group, block: Block) -> Marginal:
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
def _hull_survival(sizes: tuple[int, ...], block: Block) -> Float:
    """P(|U_i| > v) at the knots, for the intercept or a coordinate of a simplex block of the hull."""
    rule, is_simplex = quadrature(sum(sizes)), block.kind == "simplex"
    # By symmetry twice the upper tail: a > v for a coordinate of a simplex, 2a - 1 > v for the intercept.
    start = (KNOTS if is_simplex else (1 + KNOTS) / 2)[:-1, None]
    points, logs = _log_volumes(sizes, is_simplex)
    if is_simplex:
        exceeding = _log_exceeding(block.size, points.ravel(), np.repeat(KNOTS[:-1], len(rule.points)))
        logs = logs - _log_volumes((block.size,), is_simplex, sum(sizes))[1] + exceeding.reshape(points.shape)
    whole = sum((conditional(size, sum(sizes)).log_volume for size in sizes), np.zeros_like(rule.points))
    top = special.logsumexp(logs, axis=1, b=rule.weights) + np.log1p(-start[:, 0])
    return np.append(np.minimum(2 * np.exp(top - special.logsumexp(whole, b=rule.weights)), 1.0), 0.0)


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
