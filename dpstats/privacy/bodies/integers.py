"""Exact discrete choices: Python integers from the operating system's generator (docs/proofs/bodies, 5)."""

from __future__ import annotations

import math
import secrets
from collections.abc import Sequence
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from dpstats.privacy.randomness import RandomSource, SystemRandom


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
    left = integer_below(sum(weights), random)
    for index, weight in enumerate(weights):
        if left < weight:
            return index
        left -= weight
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
    left = choose(weights, random)
    counts = []
    for block, size in enumerate(sizes):
        later = sums[block + 1]
        first, last = max(0, left - len(later) + 1), min(size, left)
        options = [math.comb(size, count) ** 2 * later[left - count] for count in range(first, last + 1)]
        counts.append(first + choose(options, random))
        left -= counts[-1]
    return tuple(counts)
