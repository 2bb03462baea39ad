"""Numbers as unevaluated sums of two floats: twice the digits of whatever float type is at hand.

Everything works in the type of its arguments, float64 or an extended one; u is that type's machine epsilon. Sums and
products of single floats are exact (Knuth's TwoSum, Dekker's TwoProduct); operations on pairs are accurate to a few
u**2 (Joldes, Muller and Popescu 2017), `exponential` to some 2**16 u**2.
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.floating]

HALVINGS = 9
"""The exponential is a power series at its argument over 2**9."""

LN2 = Fraction(
    "0.69314718055994530941723212145817656807550013436025525412068000949339362196969471560586332699641868754"
)


class Pair(NamedTuple):
    """high + low, with |low| at most about u |high|; both of one shape and type."""

    high: Array
    low: Array


def single(values: Any, dtype: type[np.floating]) -> Pair:
    """The pair that holds `values` as they are."""
    high = np.asarray(values, dtype=dtype)
    return Pair(high, np.zeros_like(high))


def constant(value: Fraction, dtype: type[np.floating]) -> Pair:
    """The pair nearest to a rational number, of shape ()."""
    parts = []
    for _ in range(4):
        part = value.numerator / value.denominator
        parts.append(np.asarray(part, dtype=dtype))
        value -= Fraction(part)
    total = single(parts[0], dtype)
    for rest in parts[1:]:
        total = plus(total, rest)
    return total


def two_sum(left: Array, right: Array | np.floating) -> Pair:
    """left + right without error."""
    high = np.asarray(left + right)
    part = high - left
    return Pair(high, (left - (high - part)) + (right - part))


def two_product(left: Array, right: Array) -> Pair:
    """left * right without error, barring underflow."""
    high = np.asarray(left * right)
    left_high, left_low = _halves(left)
    right_high, right_low = _halves(right)
    low = left_low * right_low - (((high - left_high * right_high) - left_low * right_high) - left_high * right_low)
    return Pair(high, low)


def _halves(values: Array) -> tuple[Array, Array]:
    """Veltkamp's split of a float into two halves that multiply without rounding."""
    bits = np.finfo(values.dtype).nmant + 1
    scaled = values * values.dtype.type(2 ** ((bits + 1) // 2) + 1)
    high = scaled - (scaled - values)
    return high, values - high


def plus(left: Pair, right: Array | np.floating) -> Pair:
    """A pair plus a float."""
    high, low = two_sum(left.high, right)
    return two_sum(high, low + left.low)


def add(left: Pair, right: Pair) -> Pair:
    """The sum of two pairs, accurate beside its larger term even if they cancel."""
    high, low = two_sum(left.high, right.high)
    rest, tail = two_sum(left.low, right.low)
    high, low = two_sum(high, low + rest)
    return two_sum(high, low + tail)


def negative(value: Pair) -> Pair:
    """Minus a pair."""
    return Pair(-value.high, -value.low)


def multiply(left: Pair, right: Pair) -> Pair:
    """The product of two pairs."""
    high, low = two_product(left.high, right.high)
    return two_sum(high, low + (left.high * right.low + left.low * right.high))


def divide(left: Pair, right: Pair) -> Pair:
    """The quotient of two pairs: a float quotient and two corrections."""
    total = single(left.high / right.high, left.high.dtype.type)
    for _ in range(2):
        rest = add(left, negative(multiply(total, right)))
        total = plus(total, rest.high / right.high)
    return total


def choose(condition: NDArray[np.bool_], one: Pair, other: Pair) -> Pair:
    """`one` where the condition holds, else `other`."""
    return Pair(np.where(condition, one.high, other.high), np.where(condition, one.low, other.low))


def exponential(value: Pair) -> Pair:
    """exp of a pair between -745 and 709; what lies below becomes exp(-745)."""
    dtype = value.high.dtype.type
    bounded = choose(value.high < -745, single(np.full_like(value.high, -745), dtype), value)
    doublings = np.rint(bounded.high / dtype(math.log(2)))
    reduced = add(bounded, negative(multiply(single(doublings, dtype), constant(LN2, dtype))))
    reduced = Pair(reduced.high * dtype(2.0**-HALVINGS), reduced.low * dtype(2.0**-HALVINGS))
    terms = _terms(float(np.finfo(dtype).eps))
    total = single(np.zeros_like(reduced.high), dtype)
    for power in range(terms, 0, -1):
        total = multiply(add(total, constant(Fraction(1, math.factorial(power)), dtype)), reduced)
    for _ in range(HALVINGS):
        # With e the exponential less one, (1 + e)^2 - 1 = 2 e + e^2: nothing cancels.
        total = add(Pair(2 * total.high, 2 * total.low), multiply(total, total))
    total = plus(total, dtype(1))
    shift = doublings.astype(np.int64)
    return Pair(np.ldexp(total.high, shift), np.ldexp(total.low, shift))


def _terms(unit: float) -> int:
    """How many terms of the series leave a rest below unit**2."""
    count, rest = 1, 1.0
    while rest > unit**2 / 16:
        rest *= 0.36 * 2.0**-HALVINGS / count
        count += 1
    return count


def product(exog: Array, theta: Pair) -> Pair:
    """exog @ theta, shape (rows,), with the rounding errors of products and sums kept beside the sum (Dot2)."""
    high = np.zeros(len(exog), dtype=exog.dtype)
    low = np.zeros_like(high)
    for column, coefficient in zip(exog.T, theta.high, strict=True):
        term = two_product(column, np.asarray(coefficient))
        high, error = two_sum(high, term.high)
        low += term.low + error
    return two_sum(high, low + exog @ theta.low)
