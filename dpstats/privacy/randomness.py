"""Where random numbers come from, and discrete noise on integers, drawn exactly by OpenDP."""

from __future__ import annotations

import math
import os
from functools import lru_cache
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray
from opendp.domains import atom_domain, vector_domain
from opendp.measurements import make_gaussian, make_laplace
from opendp.metrics import l1_distance, l2_distance
from opendp.mod import enable_features
from opendp.typing import f64, i64
from scipy import special

from dpstats.arguments import safe_repr
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
        """Independent uniforms as `folded_uniforms` returns them, from 156 bits: no tail has steps above a rounding.

        In a float64 near 1, or in 52 bits near 0, the tail of a distribution would be a few points far apart, which
        betray what they were added to.
        """
        words = np.frombuffer(os.urandom(24 * size), dtype=np.uint64).reshape(3, size)
        coarse, fine, finest = (words >> np.uint64(12)).astype(np.float64)
        steps = coarse + (fine + (finest + 0.5) * 2.0**-52) * 2.0**-52
        return steps * 2.0**-53, (words[0] & np.uint64(1)).astype(np.bool_)


def folded_uniforms(random: RandomSource, size: int) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
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

    ArgumentError for a seed that is neither None nor a non-negative integer.
    """
    if seed is None:
        return SystemRandom()
    if isinstance(seed, bool) or not isinstance(seed, (int, np.integer)) or seed < 0:
        raise ArgumentError(f"seed must be None or a non-negative integer, got {safe_repr(seed)}")
    return np.random.default_rng(int(seed))


LARGEST_SCALE = 2.0**56
"""Draws of this scale stay within 64-bit integers."""


def check_scale(scale: float) -> None:
    """Raise ArgumentError if draws of so large a scale, in whole numbers, may leave the 64-bit integers.

    OpenDP holds them at the ends there, and what is added to a draw that stands at an end can be read off the sum.
    """
    if not scale <= LARGEST_SCALE:
        raise ArgumentError(
            f"eps is too small: noise of scale 2**{math.log2(scale):.0f} on the lattice would exceed 64-bit "
            "integers and hide any data"
        )


def noisy_integers(values: NDArray[np.int64], sensitivity: int, eps: float, random: RandomSource) -> NDArray[np.int64]:
    """Integers plus noise with P(k) prop. to exp(-|k| eps / sensitivity): eps-DP if neighbours differ so much in l1.

    OpenDP draws, except from a seeded source, whose releases are never certified.
    """
    if not isinstance(random, SystemRandom):
        return values + discrete_laplace(sensitivity / eps, len(values), random)
    return np.asarray(_laplace(sensitivity, eps)(np.ascontiguousarray(values, dtype=np.int64)), dtype=np.int64)


@lru_cache(maxsize=16)
def _laplace(sensitivity: int, eps: float) -> Any:
    """OpenDP's measurement, whose privacy map at the sensitivity is at most eps."""
    enable_features("contrib")
    space = vector_domain(atom_domain(T=i64)), l1_distance(T=i64)
    scale = sensitivity / eps
    measurement = make_laplace(*space, scale=scale)
    while measurement.map(sensitivity) > eps:
        scale = math.nextafter(scale, math.inf) * (1 + 1e-15)
        measurement = make_laplace(*space, scale=scale)
    return measurement


def discrete_laplace(scale: float, size: int, random: RandomSource) -> NDArray[np.int64]:
    """Difference of two geometric variables: P(k) proportional to exp(-|k| / scale). For seeded runs only."""
    draws = np.floor(-scale * np.log1p(-random.random(2 * size))).astype(np.int64)
    return draws[:size] - draws[size:]


def gaussian_integers(size: int, scale: float, random: RandomSource) -> NDArray[np.int64]:
    """Independent integers with P(k) proportional to exp(-k^2 / (2 scale^2)) (Canonne, Kamath and Steinke 2020).

    The scale is at least 1, and at most `LARGEST_SCALE` or ArgumentError. OpenDP draws, except from a seeded source,
    which gives rounded normal variables: never certified.
    """
    check_scale(scale)
    if not isinstance(random, SystemRandom):
        tail, upper = folded_uniforms(random, size)
        return np.rint(np.where(upper, -scale, scale) * special.ndtri(tail)).astype(np.int64)
    enable_features("contrib")
    space = vector_domain(atom_domain(T=i64)), l2_distance(T=f64)
    return np.asarray(make_gaussian(*space, scale=scale)(np.zeros(size, dtype=np.int64)), dtype=np.int64)
