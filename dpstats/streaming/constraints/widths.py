"""Gaussian widths by quadrature: expected maxima and norms of normal vectors."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np
from scipy import special, stats

from dpstats.streaming.constraints.base import Vector

_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(200)


def _integral(values: Vector, low: float, high: float) -> float:
    """Integral over [low, high] of a function given at `_grid`, by four panels of Gauss and Legendre."""
    return float((high - low) / 8 * (values.reshape(4, -1) @ _WEIGHTS).sum())


def _grid(low: float, high: float) -> Vector:
    edges = np.linspace(low, high, 5)
    return np.concatenate([(b - a) / 2 * _NODES + (a + b) / 2 for a, b in pairwise(edges)])


def normal_length(size: int) -> float:
    """E ||g|| of a standard normal vector of `size` numbers."""
    return float(np.sqrt(2) * np.exp(special.gammaln((size + 1) / 2) - special.gammaln(size / 2)))


def greatest_length(sizes: Sequence[int]) -> float:
    """E max ||g_j|| of independent standard normal vectors of `sizes` numbers: the integral of 1 - prod F_j."""
    kinds, counts = np.unique(np.asarray(sizes), return_counts=True)
    high = float(np.sqrt(kinds.max()) + np.sqrt(2 * np.log(counts.sum() + 1)) + 9)
    points = _grid(0.0, high)
    logs = sum(count * stats.chi(kind).logcdf(points) for kind, count in zip(kinds, counts, strict=True))
    return _integral(-np.expm1(logs), 0.0, high)


def greatest_normal(size: int) -> float:
    """E max g_j of `size` independent standard normal numbers."""
    if size == 1:
        return 0.0
    points = _grid(0.0, 40.0)
    above = -np.expm1(size * special.log_ndtr(points))
    below = np.exp(size * special.log_ndtr(-points))
    return _integral(above - below, 0.0, 40.0)


def normal_norm(size: int, power: float) -> float:
    """E ||g||_q, q = `power` >= 2, of a standard normal vector of `size` numbers.

    With S the sum of |g_j|^q and s = 1/q, E S^s = s / Gamma(1 - s) times the integral over u > 0 of
    (1 - (E exp(-u |g|^q))^size) u^(-s - 1): one-dimensional throughout.
    """
    if size == 1:
        return normal_length(1)
    share = 1 / power
    points = _grid(0.0, 9.0)
    density = 2 * stats.norm.pdf(points) * np.tile(_WEIGHTS, 4) * (9.0 / 8)
    # With u = exp(-q x) the integrand is exp(x) up to about the logarithm of the norm and exp(-(q - 1) x) beyond.
    scales = np.linspace(-14.0, 10.0 + 40 / (power - 1), 901)
    logs = power * (np.log(points)[None, :] - scales[:, None])
    missing = -np.expm1(-np.exp(np.minimum(logs, 700.0))) @ density
    tail = -np.expm1(size * np.log1p(-np.minimum(missing, 1 - 1e-16)))
    values = tail * np.exp(scales)
    return float(np.sum((values[1:] + values[:-1]) / 2) * (scales[1] - scales[0]) / special.gamma(1 - share))
