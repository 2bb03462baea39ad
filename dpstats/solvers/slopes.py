"""l' of a linear predictor that is kept to twice the digits of a float, kinks included.

A first-order correction of l' at the leading float would be wrong by up to sup l'' times the rest where a kink lies
between (docs/proofs/release); these evaluate the formulas of docs/proofs/families on the whole pair.
"""

from __future__ import annotations

from functools import singledispatch

import numpy as np

from dpstats.families import Binomial, BinomialCounts, Gaussian, HuberSVM, NegativeBinomial, Poisson, SmoothSVM
from dpstats.families.base import Family
from dpstats.solvers import pairs
from dpstats.solvers.pairs import Array, Pair


@singledispatch
def pair_slope(family: Family, eta: Pair, endog: Array) -> Pair:
    """l' at eta, to twice the digits of its type; shape (rows,).

    A family from elsewhere is evaluated at the nearest float: it has no certificate.
    """
    return pairs.single(family.slope(eta.high + eta.low, endog), eta.high.dtype.type)


@pair_slope.register
def _gaussian(family: Gaussian, eta: Pair, endog: Array) -> Pair:
    return _clip(pairs.plus(eta, -endog), -family.lipschitz, family.lipschitz)


@pair_slope.register
def _binomial(family: Binomial, eta: Pair, endog: Array) -> Pair:
    # l' = +-1/(1 + exp(-t)) with t = +-eta.
    sign = 1 - 2 * endog
    slope = _chance(Pair(sign * eta.high, sign * eta.low))
    return Pair(sign * slope.high, sign * slope.low)


@pair_slope.register
def _binomial_counts(family: BinomialCounts, eta: Pair, endog: Array) -> Pair:
    return pairs.plus(_chance(eta), -endog)


@pair_slope.register
def _negative_binomial(family: NegativeBinomial, eta: Pair, endog: Array) -> Pair:
    # (c + y) p - y, and c + y as a pair, so that the sum is not rounded.
    dtype = eta.high.dtype.type
    chance = _chance(pairs.plus(eta, dtype(family.shift)))
    total = pairs.plus(pairs.single(endog, dtype), dtype(family.failures))
    return pairs.plus(pairs.multiply(total, chance), -endog)


def _chance(eta: Pair) -> Pair:
    """1 / (1 + exp(-eta)), through exp(-|eta|) so that neither tail cancels."""
    dtype = eta.high.dtype.type
    falls = eta.high < 0
    small = pairs.exponential(pairs.choose(falls, eta, pairs.negative(eta)))
    one = pairs.single(np.ones_like(eta.high), dtype)
    return pairs.divide(pairs.choose(falls, small, one), pairs.plus(small, dtype(1)))


@pair_slope.register
def _poisson(family: Poisson, eta: Pair, endog: Array) -> Pair:
    dtype = eta.high.dtype.type
    start, width = family.knots()
    mean = _clip(pairs.exponential(_clip(eta, -np.inf, start)), 0.0, family.curvature_bound)
    if family.curvature_bound < family.lipschitz:
        mean = pairs.add(mean, _rise(family, pairs.plus(eta, -dtype(start)), width))
    return pairs.plus(_clip(mean, 0.0, family.lipschitz), -endog)


def _rise(family: Poisson, over: Pair, width: float) -> Pair:
    """The mean's rise above the cap where eta is `over` the first knot: a line, then an exponential approach."""
    dtype = over.high.dtype.type
    cap = pairs.single(np.full_like(over.high, family.curvature_bound), dtype)
    line = pairs.multiply(cap, _clip(over, 0.0, width))
    whole = pairs.multiply(cap, pairs.single(np.full_like(over.high, width), dtype))
    most = pairs.single(np.full_like(over.high, family.lipschitz), dtype)
    rest = pairs.add(pairs.plus(most, -cap.high), pairs.negative(whole))
    # Below exp(-745) of it nothing is left, and no product may overflow.
    unit = pairs.divide(rest, cap)
    beyond = _clip(pairs.plus(over, -dtype(width)), 0.0, float(745 * unit.high[0])) if len(over.high) else over
    left = pairs.exponential(pairs.negative(pairs.divide(beyond, unit)))
    approach = pairs.multiply(rest, pairs.plus(pairs.negative(left), dtype(1)))
    return pairs.add(line, approach)


@pair_slope.register
def _huber_svm(family: HuberSVM, eta: Pair, endog: Array) -> Pair:
    shortfall, sign, half = _shortfall(family, eta, endog)
    slope = _clip(pairs.divide(pairs.plus(shortfall, half.high), pairs.plus(half, half.high)), 0.0, 1.0)
    return Pair(-sign * slope.high, -sign * slope.low)


@pair_slope.register
def _smooth_svm(family: SmoothSVM, eta: Pair, endog: Array) -> Pair:
    dtype = eta.high.dtype.type
    shortfall, sign, half = _shortfall(family, eta, endog)
    v = _clip(pairs.divide(shortfall, half), -1.0, 1.0)
    bracket = pairs.plus(pairs.negative(pairs.multiply(v, v)), dtype(3))
    slope = pairs.plus(pairs.multiply(v, bracket), dtype(2))
    quarter = -sign / 4
    return Pair(quarter * slope.high, quarter * slope.low)


def _shortfall(family: HuberSVM | SmoothSVM, eta: Pair, endog: Array) -> tuple[Pair, Array, Pair]:
    """1 - z with z = +-eta, the sign, and the corner's half-width h as a pair."""
    dtype = eta.high.dtype.type
    sign = 2 * endog - 1
    shortfall = pairs.plus(Pair(-sign * eta.high, -sign * eta.low), dtype(1))
    return shortfall, sign, pairs.single(np.full_like(eta.high, family.h), dtype)


def _clip(value: Pair, least: float, most: float) -> Pair:
    """The pair held between two floats; the low part decides where the high part is at one of them."""
    dtype = value.high.dtype.type
    for bound, side in ((least, -1), (most, 1)):
        beyond = side * (value.high - dtype(bound)) + side * value.low > 0
        value = pairs.choose(beyond, pairs.single(np.full_like(value.high, bound), dtype), value)
    return value
