"""Least squares over a constraint set from noisy sums: post-processing of what was released (docs/proofs/geometry)."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Protocol, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import linalg
from scipy.sparse.linalg import LinearOperator, eigsh

from dpstats.errors import ArgumentError
from dpstats.penalties.base import number
from dpstats.streaming.constraints import Constraint, L2Ball

Vector = NDArray[np.float64]
Matrix = NDArray[np.float64]


class Region(Protocol):
    """What a descent asks of a set; a `Constraint` has it."""

    @property
    def reach(self) -> float: ...

    def project(self, point: ArrayLike) -> Vector: ...

    def support(self, direction: ArrayLike) -> float: ...


MOST_STEPS = 20_000


def minimise(
    cross: ArrayLike,
    gram: ArrayLike,
    constraint: Constraint | None = None,
    ridge: float | None = 0.0,
    start: ArrayLike | None = None,
    *,
    free: ArrayLike | None = None,
    tolerance: float = 1e-9,
    most_steps: int = MOST_STEPS,
) -> Vector:
    """argmin over the set of theta'S theta - 2 theta'q, S the positive part of Q with a ridge where it is noise, (p,).

    `cross` is q, the noisy sum of x y, and `gram` Q, that of x x'; `ridge` is m of `smooth_matrix`, None if Q is
    positive already. `free` coefficients lie outside the constraint and are minimised over exactly. Relative
    `tolerance`: the sum of squares is at most tolerance (|q| r + r^2 |S|) above the least, r the set's reach.

    ArgumentError if shapes do not fit, a number is not finite or an argument is outside its range.
    """
    vector, matrix = check_sums(cross, gram)
    if ridge is not None:
        matrix = smooth_matrix(matrix, number("ridge", ridge, 0.0, math.inf))
    if constraint is None:
        try:
            return np.asarray(linalg.cho_solve(linalg.cho_factor(matrix), vector))
        except linalg.LinAlgError:
            return np.asarray(linalg.pinvh(matrix) @ vector)
    outside = np.zeros(len(vector), dtype=bool) if free is None else np.asarray(free)
    if outside.shape != vector.shape or outside.dtype != np.bool_ or outside.all():
        meaning = "which coefficients are not constrained"
        raise ArgumentError(f"free must be {len(vector)} booleans, not all True: {meaning}")
    inner, moments, lift = without_free(matrix, vector, outside)
    constraint.check_size(len(moments))
    begin = np.zeros(len(vector)) if start is None else check_vector("start", start, len(vector))
    theta = np.empty(len(vector))
    theta[~outside] = descend(moments, inner, constraint, constraint.project(begin[~outside]), tolerance, most_steps)
    theta[outside] = lift(theta[~outside])
    return theta


def smooth_matrix(gram: ArrayLike, ridge: float = 0.0) -> Matrix:
    """S = sum of (l/2 + sqrt(l^2/4 + m^2)) v v' over the eigenpairs of Q, l cut at 0, shape (p, p).

    S = Q + m^2 S^-1 where Q is positive: a ridge of m where there is nothing but noise, of m^2 / l where there is much
    more (docs/proofs/statistics, 4). m = 0 gives the nearest positive semidefinite matrix.
    """
    matrix = np.asarray(gram, dtype=np.float64)
    values, vectors = linalg.eigh((matrix + matrix.T) / 2)
    cut = np.maximum(values, 0.0)
    smooth = (vectors * (cut / 2 + np.sqrt(cut**2 / 4 + ridge**2))) @ vectors.T
    return np.asarray((smooth + smooth.T) / 2)


def explained_by_noise(cross: ArrayLike, cross_sd: float, constraint: Constraint | None = None) -> bool:
    """Whether q is what noise alone explains, so that the null model (the set's point nearest to 0) is all there is.

    From the null model v0 the sum of squares falls at most by 2 sup <v - v0, q>. Noise alone makes that supremum the
    set's Gaussian width times `cross_sd` on average, and about once in 40 times at most it is two deviations above
    that, as it moves by at most |v - v0| with the noise (docs/proofs/geometry, 5). Without a constraint the set is the
    unit ball.
    """
    vector = np.asarray(cross, dtype=np.float64)
    region = L2Ball() if constraint is None else constraint
    null = region.project(np.zeros(len(vector)))
    gain = region.support(vector) - float(null @ vector)
    away = region.reach + float(np.linalg.norm(null))
    return gain <= cross_sd * (region.gaussian_width(len(vector)) + 2 * away)


def fit_noisy(
    cross: ArrayLike,
    gram: ArrayLike,
    constraint: Constraint | None = None,
    *,
    cross_sd: float,
    gram_sd: float,
    radius: float = 1.0,
    start: ArrayLike | None = None,
) -> Vector:
    """The coefficients of a tick: the null model where the sums are noise alone, else `minimise`."""
    vector, matrix = check_sums(cross, gram)
    if explained_by_noise(vector, cross_sd, constraint):
        null = np.zeros(len(vector))
        return null if constraint is None else constraint.project(null)
    ridge = noise_ridge(len(vector), cross_sd, gram_sd, radius) if constraint is None else 0.0
    return minimise(vector, matrix, constraint, ridge, start)


def noise_ridge(size: int, cross_sd: float, gram_sd: float, radius: float) -> float:
    """m = sqrt(E |b|^2) / radius, b the noise of q - Q theta for coefficients of norm `radius`.

    Coefficients of a stream that is all noise are then no longer than `radius`; `cross_sd` is of q's entries, `gram_sd`
    of Q's off the diagonal.
    """
    reach = number("radius", radius, 0.0, math.inf, open_low=True)
    return math.sqrt(size * ((cross_sd / reach) ** 2 + gram_sd**2))


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
    """How far the sum of squares at `point` is above the least on the set, at most; of a positive matrix.

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
    """The problem left when the free coefficients take their best values, and what those are."""
    if not free.any():
        return matrix, vector, lambda others: np.zeros(0)
    factor = linalg.pinvh(matrix[np.ix_(free, free)])
    across = factor @ matrix[np.ix_(free, ~free)]
    constant = factor @ vector[free]
    inner = matrix[np.ix_(~free, ~free)] - matrix[np.ix_(~free, free)] @ across
    moments = vector[~free] - matrix[np.ix_(~free, free)] @ constant
    return (inner + inner.T) / 2, moments, lambda others: constant - across @ others


def check_sums(cross: ArrayLike, gram: ArrayLike) -> tuple[Vector, Matrix]:
    """q and Q as arrays; ArgumentError if shapes do not fit or a number is not finite."""
    matrix = np.asarray(gram, dtype=np.float64)
    if matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1] or not np.isfinite(matrix).all():
        raise ArgumentError("gram must be a square matrix of finite numbers")
    return check_vector("cross", cross, len(matrix)), matrix


def check_vector(name: str, given: ArrayLike, size: int) -> Vector:
    """`given` as `size` finite numbers, else ArgumentError."""
    vector = np.asarray(given, dtype=np.float64)
    if vector.shape != (size,) or not np.isfinite(vector).all():
        raise ArgumentError(f"{name} must be a vector of {size} finite numbers, one for each coefficient")
    return vector


MOST_PRINTED_STEPS = 1_000_000


def printed_descent(
    cross: ArrayLike,
    gram: ArrayLike,
    constraint: Constraint,
    *,
    error: float,
    lipschitz: float,
    start: ArrayLike | None = None,
    most_steps: int = MOST_PRINTED_STEPS,
) -> Vector:
    """NoisyProjGrad of source 001 (appendix B) as printed: constant steps on the raw Q, and the average of all points.

    r = ceil((1 + L / alpha)^2) steps of length 2 reach / (sqrt(r) (alpha + L)) along the negative noisy gradient
    2 (Q theta - q): the average is at most 4 alpha reach above the least if the gradient is within alpha of the true
    one (Corollary B.2, the diameter being 2 reach). `error` is alpha, see `gradient_error`; `lipschitz` is L, a bound
    on the true gradient on the set: 2 T X (Y + X reach) for T rows of norm at most X; at most `most_steps`.
    """
    vector, matrix = check_sums(cross, gram)
    alpha = number("error", error, 0.0, math.inf, open_low=True)
    slope = alpha + number("lipschitz", lipschitz, 0.0, math.inf)
    steps = max(1, min(most_steps, math.ceil((slope / alpha) ** 2)))
    length = 2 * constraint.reach / (math.sqrt(steps) * slope)
    point = constraint.project(np.zeros(len(vector)) if start is None else check_vector("start", start, len(vector)))
    total = np.zeros(len(vector))
    for _ in range(steps):
        total += point
        point = constraint.project(point - 2 * length * (matrix @ point - vector))
    return total / steps


def gradient_error(size: int, cross_sd: float, gram_sd: float, reach: float, failure: float = 0.05) -> float:
    """alpha: 2 |q's noise| + 2 reach |Q's noise| is above it with probability at most `failure` (Lemma 4.1).

    For normal noise |e| is above (sqrt(p) + sqrt(2 log(2 / failure))) sd with probability at most failure / 2, and so
    is the spectral norm of a symmetric E, of sd off and sqrt 2 sd on the diagonal, above (2 sqrt(p) + sqrt(4 log(4 /
    failure))) sd: its mean is at most 2 sqrt(p) sd, and it moves by sqrt 2 sd with the normal numbers that make E.
    """
    allowed = number("failure", failure, 0.0, 1.0, open_low=True)
    crossing = (math.sqrt(size) + math.sqrt(2 * math.log(2 / allowed))) * cross_sd
    turning = (2 * math.sqrt(size) + math.sqrt(4 * math.log(4 / allowed))) * gram_sd
    return 2 * crossing + 2 * reach * turning
