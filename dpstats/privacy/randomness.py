"""Where random numbers come from: the operating system, or a seed in tests."""

from __future__ import annotations

import os
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

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
        raise ArgumentError(f"seed must be None or a non-negative integer, got {seed!r}")
    return np.random.default_rng(int(seed))
