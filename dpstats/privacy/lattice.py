"""Integers with discrete Laplace noise, drawn exactly by OpenDP."""

from __future__ import annotations

import math

import numpy as np
import opendp.prelude as opendp
from numpy.typing import NDArray

from dpstats.privacy.randomness import RandomSource, SystemRandom


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
    return np.asarray(measurement([int(value) for value in values]), dtype=np.int64)


def discrete_laplace(scale: float, size: int, random: RandomSource) -> NDArray[np.int64]:
    """Difference of two geometric variables: P(k) proportional to exp(-|k| / scale). For seeded runs only."""
    draws = np.floor(-scale * np.log1p(-random.random(2 * size))).astype(np.int64)
    return draws[:size] - draws[size:]
