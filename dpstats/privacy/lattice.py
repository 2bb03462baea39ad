"""Integers with discrete Laplace noise, and discrete Gaussian integers, drawn exactly by OpenDP."""

from __future__ import annotations

import math

import numpy as np
import opendp.prelude as opendp
from numpy.typing import NDArray
from scipy import special

from dpstats.errors import ArgumentError
from dpstats.privacy.randomness import RandomSource, SystemRandom, folded

LARGEST_SCALE = 2.0**56
"""Draws of this scale stay within 64-bit integers."""


def check_scale(scale: float) -> None:
    """Raise ArgumentError if draws of so large a scale, in whole numbers, may leave the 64-bit integers.

    OpenDP holds them at the ends there, and what is added to a draw that stands at an end can be read off the sum.
    """
    if not scale <= LARGEST_SCALE:
        raise ArgumentError(
            f"eps is too small: noise of scale 2**{math.log2(scale):.0f} on the lattice would leave the 64-bit "
            "integers, and any data would drown in it"
        )


def noisy_integers(values: NDArray[np.int64], sensitivity: int, eps: float, random: RandomSource) -> NDArray[np.int64]:
    """Integers plus noise with P(k) prop. to exp(-|k| eps / sensitivity): eps-DP if neighbours differ so much in l1.

    Parameters
    ----------
    values : ndarray of int64, shape (k,)
    sensitivity : int
        Greatest l1 distance of the values of neighbouring data.
    eps : float
    random : RandomSource
        OpenDP draws the noise, except from a seeded source, whose releases are never certified.

    Returns
    -------
    ndarray of int64, shape (k,)
    """
    if not isinstance(random, SystemRandom):
        return values + discrete_laplace(sensitivity / eps, len(values), random)
    opendp.enable_features("contrib")
    space = opendp.vector_domain(opendp.atom_domain(T=opendp.i64)), opendp.l1_distance(T=opendp.i64)
    scale = sensitivity / eps
    measurement = opendp.m.make_laplace(*space, scale=scale)
    while measurement.map(sensitivity) > eps:
        scale = math.nextafter(scale, math.inf) * (1 + 1e-15)
        measurement = opendp.m.make_laplace(*space, scale=scale)
    return np.asarray(measurement(np.ascontiguousarray(values, dtype=np.int64)), dtype=np.int64)


def discrete_laplace(scale: float, size: int, random: RandomSource) -> NDArray[np.int64]:
    """Difference of two geometric variables: P(k) proportional to exp(-|k| / scale). For seeded runs only."""
    draws = np.floor(-scale * np.log1p(-random.random(2 * size))).astype(np.int64)
    return draws[:size] - draws[size:]


def gaussian_integers(size: int, scale: float, random: RandomSource) -> NDArray[np.int64]:
    """Independent integers with P(k) proportional to exp(-k^2 / (2 scale^2)) (Canonne, Kamath and Steinke 2020).

    Parameters
    ----------
    size : int
    scale : float
        At least 1 and at most `LARGEST_SCALE`, so that no draw leaves the 64-bit integers.
    random : RandomSource
        OpenDP draws, except from a seeded source, which gives rounded normal variables: never certified.

    Returns
    -------
    ndarray of int64, shape (size,)

    Raises
    ------
    ArgumentError
        If the scale is larger.
    """
    check_scale(scale)
    if not isinstance(random, SystemRandom):
        tail, upper = folded(random, size)
        return np.rint(np.where(upper, -scale, scale) * special.ndtri(tail)).astype(np.int64)
    opendp.enable_features("contrib")
    space = opendp.vector_domain(opendp.atom_domain(T=opendp.i64)), opendp.l2_distance(T=opendp.f64)
    return np.asarray(opendp.m.make_gaussian(*space, scale=scale)([0] * size), dtype=np.int64)
