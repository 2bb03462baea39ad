"""Exact arithmetic on budgets: a float stands for the decimal it prints as, and sums are never rounded downwards.

Source: docs/proofs/composition, section 1.
"""

from __future__ import annotations

import math
from fractions import Fraction


def exact(value: float) -> Fraction:
    """The decimal that `value` prints as (its shortest representation), exactly: 0.1 is one tenth."""
    return Fraction(repr(float(value)))


def float_up(value: Fraction) -> float:
    """The least float whose printed decimal is at least `value`; infinite beyond the greatest."""
    try:
        nearest = float(value)
    except OverflowError:
        return math.inf
    while exact(nearest) < value:
        nearest = math.nextafter(nearest, math.inf)
    return nearest


def float_down(value: Fraction) -> float:
    """The greatest float whose printed decimal is at most `value`."""
    nearest = float(value)
    while exact(nearest) > value:
        nearest = math.nextafter(nearest, -math.inf)
    return nearest
