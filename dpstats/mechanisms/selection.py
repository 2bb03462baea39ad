"""Noise-aware selection, and two-stage shrinkage that an earlier release decides in public."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import optimize, special

from dpstats.arguments import safe_repr
from dpstats.errors import ArgumentError
from dpstats.penalties import Bridge, ElasticNet, Lasso, Penalty, Ridge
from dpstats.privacy.noise import Noise
from dpstats.wording import argument

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
    """The least lambda with P(|b_j| <= lambda for each of `columns` coordinates) >= 1 - level, b of dimension `size`.

    Exact for all four laws; for spherical Laplace noise by quadrature, rounded up (docs/proofs/selection, section 2).
    All coordinates count by default. ArgumentError if `level` or a dimension is out of range.
    """
    if not (isinstance(level, (int, float)) and 0 < level < 1):
        raise ArgumentError(f"level must lie in (0, 1), got {safe_repr(level)}")
    count = size if columns is None else columns
    if not 1 <= count <= size:
        raise ArgumentError(f"columns must lie between 1 and size = {size}, got {safe_repr(columns)}")
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
    """Add the noise's threshold to the lasso weight of every penalised column; a weight of 0 gets no threshold either.

    The threshold is that of `noise_threshold`, divided by the noise's weights of the columns if there are any.
    ArgumentError for a penalty that is no sum of a lasso and a ridge.
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
    raise ArgumentError(
        f"{argument('selection', 'noise_aware')} needs a lasso, elastic net or ridge penalty, got {safe_repr(penalty)}"
    )


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
    within = math.exp(min(0.0, log_ratio + float(_log_gammaincc(left, bound))))
    return max(float(special.gammaincc(size + 1, bound)) - within, np.finfo(float).tiny)


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


SPREAD = 3.0
"""No column gets less than 1/SPREAD or more than SPREAD of the curvature an even allocation would give it."""


class ShrunkTerm(Protocol):
    """A term's columns and a bound on the Euclidean norm of its part of any row."""

    @property
    def columns(self) -> slice: ...

    @property
    def l2(self) -> float: ...


def allocate(
    stage1: Vector,
    terms: Sequence[ShrunkTerm],
    maxima: Vector,
    curvature_ratio: Callable[[Vector], float],
    kappa: float,
    spread: float = SPREAD,
) -> Vector:
    """Curvature m, shape (p,), that shrinks stage1 least among those with sup x' diag(m)^-1 x = kappa.

    Minimises sum_j m_j stage1_j^2: m_j is proportional to c_j / |stage1_j| while the term's l2 bound has room for all
    its columns at their `maxima` c_j, and held at one value, the group lasso's, on the columns where it has not (those
    of a factor). Then floored and capped at 1/spread and spread times the even allocation, and scaled to meet kappa.
    `stage1` has released coefficients in model units, the terms cover all columns, and `curvature_ratio` is the
    design's. ArgumentError if `kappa` is not positive or `spread` is below 1, which is the even allocation.
    """
    if not (math.isfinite(kappa) and kappa > 0):
        raise ArgumentError(f"kappa must be positive and finite, got {safe_repr(kappa)}")
    if not (math.isfinite(spread) and spread >= 1):
        raise ArgumentError(f"spread must be at least 1, got {safe_repr(spread)}")
    relative = np.empty(len(stage1))
    for term in terms:
        relative[term.columns] = _relative_curvature(np.abs(stage1[term.columns]), maxima[term.columns], term.l2)
    even = curvature_ratio(np.ones(len(stage1))) / kappa
    low, high = math.log(even / spread), math.log(even * spread)
    with np.errstate(divide="ignore"):
        log_relative = np.log(relative)  # -inf for a column that is zero in every row: it gets the floor

    def bounded(log_factor: float) -> Vector:
        return np.exp(np.clip(log_factor + log_relative, low, high))

    # The ratio falls with the factor, from spread * kappa at the floor to kappa / spread at the cap.
    finite = log_relative[np.isfinite(log_relative)]
    below, above = low - float(np.max(finite, initial=0.0)), high - float(np.min(finite, initial=0.0))
    for _ in range(100):
        middle = 0.5 * (below + above)
        below, above = (middle, above) if curvature_ratio(bounded(middle)) > kappa else (below, middle)
    chosen = bounded(above)
    return chosen * (curvature_ratio(chosen) / kappa)


def _relative_curvature(size: Vector, maxima: Vector, bound: float) -> Vector:
    """min(c_j / |t_j|, nu) for one term, with nu the level at which columns of size nu |t_j| fill the l2 bound.

    In the dual problem the worst row has |x_j| = min(c_j, nu |t_j|), of norm `bound`; without such a nu, c_j.
    """
    with np.errstate(divide="ignore"):
        ratios = np.where(size > 0, maxima / np.where(size > 0, size, 1.0), np.inf)
    if np.sum(maxima**2) <= bound**2 * (1 + 1e-12):
        return ratios
    order = np.argsort(ratios)
    c2, t2 = maxima[order] ** 2, size[order] ** 2
    # With the first k columns at their maxima, nu^2 = (bound^2 - sum c^2) / sum of the other t^2.
    filled = np.concatenate([[0.0], np.cumsum(c2)[:-1]])
    left = np.cumsum(t2[::-1])[::-1]
    for k in range(len(order)):
        level = math.sqrt(max(bound**2 - filled[k], 0.0) / left[k]) if left[k] > 0 else math.inf
        if level <= ratios[order[k]]:
            return np.minimum(ratios, level)
    return ratios
