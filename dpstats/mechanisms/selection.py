"""Noise-aware selection: a lasso weight that the privacy noise alone exceeds only with a stated probability.

The law of the noise is public, so the weight is fixed before rows are read and the release is an ordinary certified
one; docs/proofs/selection proves what the level means.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import optimize, special

from dpstats.arguments import shown
from dpstats.errors import ArgumentError
from dpstats.penalties import Bridge, ElasticNet, Lasso, Penalty, Ridge
from dpstats.privacy.noise import Noise

Vector = NDArray[np.float64]

MIXTURE_POINTS = 4001
"""Trapezoids for the one-dimensional integral of the spherical law; 2000 give the same to 13 digits."""

MIXTURE_TAIL = 1e-18


class SelectionTerms(NamedTuple):
    """A penalty split into what selects and what shrinks: sum_j lasso_j |t_j| + 1/2 sum_j ridge_j t_j^2.

    Minimise with ``Lasso(1.0)`` under the column weights `lasso`, and add `ridge` to the curvature, where it counts
    towards what privacy needs.
    """

    lasso: Vector
    ridge: Vector


def noise_threshold(noise: Noise, size: int, level: float, columns: int | None = None) -> float:
    """The least lambda with P(|b_j| <= lambda for each of `columns` coordinates) >= 1 - level.

    Exact for all four laws; for spherical Laplace noise by quadrature, rounded up (docs/proofs/selection, section 2).

    Parameters
    ----------
    noise : Noise
    size : int
        p, the dimension of b.
    level : float
        In (0, 1).
    columns : int, optional
        How many of the coordinates are penalised, all by default.

    Raises
    ------
    ArgumentError
        If `level` or a dimension is out of range.
    """
    if not (isinstance(level, (int, float)) and 0 < level < 1):
        raise ArgumentError(f"level must lie in (0, 1), got {shown(level)}")
    count = size if columns is None else columns
    if not 1 <= count <= size:
        raise ArgumentError(f"columns must lie between 1 and size = {size}, got {shown(columns)}")
    if noise.kind == "gaussian":
        unit = -float(special.ndtri(_one_of(level, count) / 2))
    elif noise.norm == "l1":
        unit = -math.log(_one_of(level, count))
    elif noise.norm == "linf":
        unit = _invert(lambda bound: _cube_excess(bound, size, count), level)
    else:
        unit = _invert(lambda bound: _sphere_excess(bound, size, count), level)
    return noise.scale * unit * (1 + 1e-9)


def noise_aware(penalty: Penalty | None, weights: Vector, threshold: ArrayLike) -> SelectionTerms:
    """Add the noise's threshold to the lasso weight of every penalised column.

    Parameters
    ----------
    penalty : Penalty or None
        Ridge, lasso, elastic net, a bridge that is one of these, or None.
    weights : ndarray, shape (p,)
        Column weights; a column of weight 0 gets no threshold either.
    threshold : float or ndarray, shape (p,)
        From `noise_threshold`, divided by the noise shape's column weights if there is one.

    Raises
    ------
    ArgumentError
        For a penalty that is no sum of a lasso and a ridge.
    """
    linear, quadratic = _lasso_and_ridge(penalty)
    aware = np.where(weights > 0, np.asarray(threshold, dtype=np.float64), 0.0)
    return SelectionTerms(linear * weights + aware, quadratic * weights)


def _lasso_and_ridge(penalty: Penalty | None) -> tuple[float, float]:
    if penalty is None:
        return 0.0, 0.0
    if isinstance(penalty, (Ridge, Lasso, ElasticNet)) or (isinstance(penalty, Bridge) and penalty.q in (1, 2)):
        # P' at 0 is the lasso's part and the modulus the ridge's.
        return float(penalty.slope(1.0)) - penalty.modulus, penalty.modulus
    raise ArgumentError(f"selection='noise_aware' needs a lasso, elastic net or ridge penalty, got {shown(penalty)}")


def _one_of(level: float, count: int) -> float:
    """The tail probability of each of `count` independent variables when one of them exceeds with P = level."""
    return -math.expm1(math.log1p(-level) / count)


def _invert(excess: Callable[[float], float], level: float) -> float:
    """The bound at which a decreasing probability of excess falls to `level`."""
    high = 1.0
    while excess(high) > level:
        high *= 2
    low = high
    while excess(low) <= level:
        low /= 2
    return float(optimize.brentq(lambda bound: math.log(excess(bound) / level), low, high, xtol=1e-13, rtol=1e-13))


def _cube_excess(bound: float, size: int, count: int) -> float:
    """P(max of `count` coordinates > bound), b = R U, R ~ Gamma(size + 1), U uniform in the cube [-1, 1]^size.

    E max(0, 1 - (bound/R)^count) with E[R^-count; R > bound] an incomplete gamma function.
    """
    left = size + 1 - count
    log_ratio = count * math.log(bound) + special.gammaln(left) - special.gammaln(size + 1)
    inside = math.exp(min(0.0, log_ratio + float(_log_gammaincc(left, bound))))
    return max(float(special.gammaincc(size + 1, bound)) - inside, np.finfo(float).tiny)


def _log_gammaincc(shape: int, bound: float) -> float:
    """log of the regularised upper incomplete gamma function for an integer shape: log sum_k<shape e^-x x^k / k!."""
    k = np.arange(shape)
    return float(special.logsumexp(k * math.log(bound) - special.gammaln(k + 1)) - bound)


def _sphere_excess(bound: float, size: int, count: int) -> float:
    """P(max of `count` coordinates > bound) for the density exp(-|b|_2): a scale mixture of normals.

    b = sqrt(V) z with z standard normal and V ~ Gamma((size + 1)/2, scale 2), so that the coordinates are independent
    given V. The integral over log V is by trapezoids, which converge geometrically here.
    """
    shape = (size + 1) / 2
    low, high = float(special.gammaincinv(shape, MIXTURE_TAIL)), float(special.gammainccinv(shape, MIXTURE_TAIL))
    log_v = np.linspace(math.log(low), math.log(high), MIXTURE_POINTS)
    density = np.exp(shape * log_v - np.exp(log_v) - special.gammaln(shape))
    tail = 2 * special.ndtr(-bound / np.sqrt(2 * np.exp(log_v)))
    excess = -np.expm1(count * np.log1p(-np.minimum(tail, 1 - 1e-16)))
    return float(np.sum(density * excess) * (log_v[1] - log_v[0])) + 2 * MIXTURE_TAIL
