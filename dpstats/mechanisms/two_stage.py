"""Two-stage NAPP: a first private estimate decides, in public, where the second one is shrunk.

Stage 1 releases theta1. Whatever is computed from it is public, so the curvature of stage 2 may follow it: the
adaptive weights that NAPP-ERM takes from the private iterate on the same noise, made sound by a fresh draw. All
functions here are pure and read no rows; docs/proofs/two_stage derives the allocation and proves the total guarantee.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from dpstats.arguments import shown
from dpstats.errors import ArgumentError

Vector = NDArray[np.float64]

SPREAD = 3.0
"""No column gets less than 1/SPREAD or more than SPREAD of the curvature an even allocation would give it."""


class Term(Protocol):
    """A term's columns and a bound on the Euclidean norm of its part of any row."""

    @property
    def columns(self) -> slice: ...

    @property
    def l2(self) -> float: ...


def allocate(
    stage1: Vector,
    terms: Sequence[Term],
    maxima: Vector,
    curvature_ratio: Callable[[Vector], float],
    kappa: float,
    spread: float = SPREAD,
) -> Vector:
    """Curvature m, shape (p,), that shrinks stage1 least among those with sup x' diag(m)^-1 x = kappa.

    Minimises sum_j m_j stage1_j^2: m_j is proportional to c_j / |stage1_j| while the term's l2 bound has room for all
    its columns at their maxima c_j, and held at one value, the group lasso's, on the columns where it has not (those of
    a factor). Then floored and capped at 1/spread and spread times the even allocation, and scaled to meet kappa.

    Parameters
    ----------
    stage1 : ndarray, shape (p,)
        The released coefficients of stage 1, model units.
    terms : sequence of Term
        Covering all columns.
    maxima : ndarray, shape (p,)
        Bounds on each |x_j|.
    curvature_ratio : callable
        m -> sup over rows of sum_j x_j^2 / m_j (the design's).
    kappa : float
        The ratio stage 2 is to have.
    spread : float
        At least 1; 1 is the even allocation.

    Raises
    ------
    ArgumentError
        If `kappa` is not positive or `spread` is below 1.
    """
    if not (math.isfinite(kappa) and kappa > 0):
        raise ArgumentError(f"kappa must be positive and finite, got {shown(kappa)}")
    if not (math.isfinite(spread) and spread >= 1):
        raise ArgumentError(f"spread must be at least 1, got {shown(spread)}")
    wanted = np.empty(len(stage1))
    for term in terms:
        wanted[term.columns] = _relative_curvature(np.abs(stage1[term.columns]), maxima[term.columns], term.l2)
    even = curvature_ratio(np.ones(len(stage1))) / kappa
    low, high = math.log(even / spread), math.log(even * spread)
    with np.errstate(divide="ignore"):
        log_wanted = np.log(wanted)  # -inf for a column that is zero in every row: it gets the floor

    def bounded(log_factor: float) -> Vector:
        return np.exp(np.clip(log_factor + log_wanted, low, high))

    # The ratio falls with the factor, from spread * kappa at the floor to kappa / spread at the cap.
    finite = log_wanted[np.isfinite(log_wanted)]
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
        alone = np.where(size > 0, maxima / np.where(size > 0, size, 1.0), np.inf)
    if np.sum(maxima**2) <= bound**2 * (1 + 1e-12):
        return alone
    order = np.argsort(alone)
    c2, t2 = maxima[order] ** 2, size[order] ** 2
    # With the first k columns at their maxima, nu^2 = (bound^2 - sum c^2) / sum of the other t^2.
    filled = np.concatenate([[0.0], np.cumsum(c2)[:-1]])
    left = np.cumsum(t2[::-1])[::-1]
    for k in range(len(order)):
        level = math.sqrt(max(bound**2 - filled[k], 0.0) / left[k]) if left[k] > 0 else math.inf
        if level <= alone[order[k]]:
            return np.minimum(alone, level)
    return alone
