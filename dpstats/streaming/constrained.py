"""Least squares over a constraint set from noisy sums: post-processing of what was released (docs/proofs/geometry)."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import linalg
from scipy.sparse.linalg import LinearOperator, eigsh

from dpstats.streaming.constraints import Constraint

Vector = NDArray[np.float64]
Matrix = NDArray[np.float64]


@dataclass(frozen=True)
class ScaledConstraint:
    """rho times a set, with the methods that a descent uses."""

    constraint: Constraint
    rho: float

    @property
    def reach(self) -> float:
        return self.rho * self.constraint.reach

    def project(self, point: ArrayLike) -> Vector:
        return self.rho * self.constraint.project(np.asarray(point) / self.rho)

    def support(self, direction: ArrayLike) -> float:
        return self.rho * self.constraint.support(direction)


Region = Constraint | ScaledConstraint


MOST_STEPS = 20_000


def minimise(
    cross: Vector,
    gram: Matrix,
    constraint: Constraint,
    start: Vector | None = None,
    *,
    free: NDArray[np.bool_] | None = None,
    tolerance: float = 1e-9,
    most_steps: int = MOST_STEPS,
) -> Vector:
    """argmin over the set of theta'S theta - 2 theta'q, S the positive part of Q, shape (p,).

    `cross` is q, the noisy sum of x y, and `gram` Q, that of x x'. `free` coefficients lie outside the constraint and
    are minimised over exactly. Relative `tolerance`: the sum of squares is at most tolerance (|q| r + r^2 |S|) above
    the least, r the set's reach.
    """
    outside = np.zeros(len(cross), dtype=bool) if free is None else free
    inner, moments, best = without_free(positive_part(gram), cross, outside)
    theta = np.zeros(len(cross)) if start is None else start.copy()
    begin = constraint.project(theta[~outside])
    theta[~outside] = descend(moments, inner, constraint, begin, tolerance, most_steps)
    theta[outside] = best(theta[~outside])
    return theta


def positive_part(gram: Matrix) -> Matrix:
    """The nearest positive semidefinite matrix, shape (p, p)."""
    values, vectors = linalg.eigh((gram + gram.T) / 2)
    positive = (vectors * np.maximum(values, 0.0)) @ vectors.T
    return np.asarray((positive + positive.T) / 2)


def explained_by_noise(cross: Vector, cross_sd: float, constraint: Constraint) -> bool:
    """Whether q is what noise alone explains, so that the null model (the set's point nearest to 0) is all there is.

    From the null model v0 the sum of squares falls at most by 2 sup <v - v0, q>. Noise alone makes that supremum the
    set's Gaussian width times `cross_sd` on average, and about once in 40 times at most it is two deviations above
    that, as it moves by at most |v - v0| with the noise (docs/proofs/geometry, 5).
    """
    null = constraint.project(np.zeros(len(cross)))
    gain = constraint.support(cross) - float(null @ cross)
    away = constraint.reach + float(np.linalg.norm(null))
    return gain <= cross_sd * (constraint.gaussian_width(len(cross)) + 2 * away)


class Sandwich:
    """A'SA without making it: for A of shape (m, d), S positive of shape (m, m) and d far above m."""

    def __init__(self, outer: Matrix, inner: Matrix) -> None:
        self.outer, self.inner = outer, inner
        self.shape = (outer.shape[1], outer.shape[1])

    def __matmul__(self, vector: Vector) -> Vector:
        return np.asarray(self.outer.T @ (self.inner @ (self.outer @ vector)))


def descend(
    moments: Vector,
    gram: Matrix | Sandwich,
    constraint: Region,
    start: Vector,
    tolerance: float = 1e-9,
    most_steps: int = MOST_STEPS,
    enough: Callable[[Vector, float], bool] | None = None,
) -> Vector:
    """Accelerated projected gradient (Nesterov; Beck and Teboulle 2009), begun again where it turns back.

    O'Donoghue and Candes (2015) for the restarts. For a positive semidefinite `gram`, from `start` in the set to a
    certified gap, as `minimise` says, or to the first (point, gap) that is `enough`.
    """
    largest = _largest_eigenvalue(gram)
    least = tolerance * (float(np.linalg.norm(moments)) * constraint.reach + constraint.reach**2 * largest)
    point, ahead, weight = start, start, 1.0
    best, best_gap = start, duality_gap(start, moments, gram, constraint)
    for step in range(1, most_steps + 1):
        if best_gap <= least or largest == 0 or (enough is not None and enough(best, best_gap)):
            break
        next_point = constraint.project(ahead - (gram @ ahead - moments) / largest)
        if (ahead - next_point) @ (next_point - point) > 0:
            weight, ahead = 1.0, point
            next_point = constraint.project(ahead - (gram @ ahead - moments) / largest)
        following = (1 + math.sqrt(1 + 4 * weight**2)) / 2
        ahead = next_point + (weight - 1) / following * (next_point - point)
        point, weight = next_point, following
        if step % 10 == 0 or step == most_steps:
            gap = duality_gap(point, moments, gram, constraint)
            if gap < best_gap:
                best, best_gap = point, gap
    return best


def duality_gap(point: Vector, moments: Vector, gram: Matrix | Sandwich, constraint: Region) -> float:
    """An upper bound on the sum of squares at `point` less the minimum over the set, for a positive matrix.

    sup <gradient, point - v> over v in the set (Frank and Wolfe).
    """
    gradient = 2 * (gram @ point - moments)
    return float(gradient @ point + constraint.support(-gradient))


def _largest_eigenvalue(gram: Matrix | Sandwich) -> float:
    """A number just above the largest eigenvalue of a positive matrix."""
    size = gram.shape[0]
    operator: Any = gram
    if isinstance(gram, np.ndarray):
        if size <= 200:
            return max(float(linalg.eigvalsh(gram)[-1]) * (1 + 1e-9), 0.0)
        if not gram.any():
            return 0.0
    else:
        if size < 3 or not gram.inner.any():
            return float(np.linalg.norm(gram.inner, 2) * np.linalg.norm(gram.outer, 2) ** 2)
        operator = LinearOperator(gram.shape, matvec=lambda v: gram @ np.ravel(v), dtype=np.float64)
    start = np.random.default_rng(0).standard_normal(size)  # the same for all: nothing is random here
    return float(cast(Any, eigsh)(operator, k=1, which="LA", v0=start, tol=1e-3, return_eigenvectors=False)[0]) * 1.01


def without_free(
    matrix: Matrix, vector: Vector, free: NDArray[np.bool_]
) -> tuple[Matrix, Vector, Callable[[Vector], Vector]]:
    """The problem that is left when the free coefficients take their best values, and a function that gives these."""
    if not free.any():
        return matrix, vector, lambda others: np.zeros(0)
    factor = linalg.pinvh(matrix[np.ix_(free, free)])
    across = factor @ matrix[np.ix_(free, ~free)]
    constant = factor @ vector[free]
    inner = matrix[np.ix_(~free, ~free)] - matrix[np.ix_(~free, free)] @ across
    moments = vector[~free] - matrix[np.ix_(~free, free)] @ constant
    return (inner + inner.T) / 2, moments, lambda others: constant - across @ others


FAILURE = 0.05


def printed_descent(
    cross: Vector,
    gram: Matrix,
    constraint: Constraint,
    *,
    error: float,
    lipschitz: float,
    start: Vector | None = None,
    most_steps: int,
) -> Vector:
    """NoisyProjGrad of source 001 (appendix B) as printed: constant steps on the raw Q, and the average of all points.

    r = ceil((1 + L / alpha)^2) steps of length 2 reach / (sqrt(r) (alpha + L)) along the negative noisy gradient
    2 (Q theta - q): the average is at most 4 alpha reach above the least if the gradient is within alpha of the true
    one (Corollary B.2, the diameter being 2 reach). `error` is alpha, see `gradient_error`; `lipschitz` is L, a bound
    on the true gradient on the set: 2 T X (Y + X reach) for T rows of norm at most X; at most `most_steps`.
    """
    slope = error + lipschitz
    steps = max(1, min(most_steps, math.ceil((slope / error) ** 2)))
    length = 2 * constraint.reach / (math.sqrt(steps) * slope)
    point = constraint.project(np.zeros(len(cross)) if start is None else start)
    total = np.zeros(len(cross))
    for _ in range(steps):
        total += point
        point = constraint.project(point - 2 * length * (gram @ point - cross))
    return total / steps


def gradient_error(size: int, cross_sd: float, gram_sd: float, reach: float) -> float:
    """alpha: 2 |q's noise| + 2 reach |Q's noise| is above it with probability at most `FAILURE` (Lemma 4.1).

    For normal noise |e| is above (sqrt(p) + sqrt(2 log(2 / failure))) sd with probability at most failure / 2, and so
    is the spectral norm of a symmetric E, of sd off and sqrt 2 sd on the diagonal, above (2 sqrt(p) + sqrt(4 log(4 /
    failure))) sd: its mean is at most 2 sqrt(p) sd, and it moves by sqrt 2 sd with the normal numbers that make E.
    """
    crossing = (math.sqrt(size) + math.sqrt(2 * math.log(2 / FAILURE))) * cross_sd
    turning = (2 * math.sqrt(size) + math.sqrt(4 * math.log(4 / FAILURE))) * gram_sd
    return 2 * crossing + 2 * reach * turning
