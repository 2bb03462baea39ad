"""Where random numbers come from: the operating system, or a seed in tests."""

from __future__ import annotations

import os
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from dpstats.arguments import shown
from dpstats.errors import ArgumentError


class RandomSource(Protocol):
    """Anything with numpy's ``random(size)``: uniforms on (0, 1). A numpy Generator is one."""

    def random(self, size: int) -> NDArray[np.float64]:
        """Independent uniforms, shape (size,)."""


class SystemRandom:
    """Uniforms on the open interval (0, 1) from the operating system's CSPRNG."""

    def random(self, size: int) -> NDArray[np.float64]:
        """Independent uniforms, shape (size,), each a midpoint of a cell of width 2**-52."""
        words = np.frombuffer(os.urandom(8 * size), dtype=np.uint64) >> np.uint64(12)
        return (words.astype(np.float64) + 0.5) * 2.0**-52

    def folded(self, size: int) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
        """Independent uniforms as `folded` returns them, from 156 bits each: tails have no steps wider than a rounding.

        In a float64 near 1, or in 52 bits near 0, the tail of a distribution would be a few points far apart, which
        betray what they were added to.
        """
        words = np.frombuffer(os.urandom(24 * size), dtype=np.uint64).reshape(3, size)
        coarse, fine, finest = (words >> np.uint64(12)).astype(np.float64)
        steps = coarse + (fine + (finest + 0.5) * 2.0**-52) * 2.0**-52
        return steps * 2.0**-53, (words[0] & np.uint64(1)).astype(np.bool_)


def folded(random: RandomSource, size: int) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    """Independent uniforms on (0, 1), each as its distance to the nearer end, in (0, 1/2], and whether that is 1."""
    if isinstance(random, SystemRandom):
        return random.folded(size)
    # A seeded generator may return 0, whose quantile is infinite.
    uniform = np.maximum(random.random(size), 2.0**-54)
    return np.minimum(uniform, 1 - uniform), uniform > 0.5


def secret_key(random: RandomSource) -> bytes:
    """A key of 64 bytes, 52 random bits in every 8 of them."""
    return random.random(8).tobytes()


def random_source(seed: int | None) -> RandomSource:
    """The CSPRNG for ``seed=None``; else a reproducible generator, whose releases are never certified.

    Raises
    ------
    ArgumentError
        If `seed` is neither None nor a non-negative integer.
    """
    if seed is None:
        return SystemRandom()
    if isinstance(seed, bool) or not isinstance(seed, (int, np.integer)) or seed < 0:
        raise ArgumentError(f"seed must be None or a non-negative integer, got {shown(seed)}")
    return np.random.default_rng(int(seed))
