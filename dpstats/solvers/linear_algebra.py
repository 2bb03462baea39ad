"""Positive definite systems and penalised quadratics of p unknowns, solved whatever rounding has made of them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import linalg

from dpstats.data import Block
from dpstats.penalties import Penalty

CHUNK_ROWS = 4096
"""At most so many rows are handled at once,"""

CHUNK_CELLS = 2**17
"""and of wide designs so many cells;"""

CERTIFIED_CELLS = 2**17
"""fewer where errors are bounded: rows are there three times over, with a leading part and a rest."""

LEAST_CHUNK = 256


def chunk_rows(width: int, rows: int, cells: int = CHUNK_CELLS) -> int:
    """How many rows of so many columns make a chunk of at most `rows` rows and, of wide designs, `cells` cells."""
    return min(rows, max(LEAST_CHUNK, cells // max(1, width)))


def chunks(blocks: Iterable[Block], rows: int, cells: int = CHUNK_CELLS) -> Iterator[Block]:
    """The blocks cut into such pieces."""
    for block in blocks:
        most = chunk_rows(block.exog.shape[1], rows, cells)
        if len(block.endog) <= most:
            yield block
            continue
        for start in range(0, len(block.endog), most):
            yield block.part(slice(start, start + most))


Vector = NDArray[np.float64]

SMALL_COLUMNS = 32
SMALL_PRODUCT = 10**6
"""BLAS multiplies matrices of few columns, in so many products, as they lie in memory; larger ones it packs first."""


def square_rows(width: int) -> int:
    """How many rows of so many columns `weighted_square` is best given at a time."""
    return CHUNK_ROWS if width > SMALL_COLUMNS else min(CHUNK_ROWS, SMALL_PRODUCT // width**2)


def weighted_square(exog: NDArray[Any], weights: NDArray[np.floating]) -> NDArray[np.float64]:
    """X' diag(w) X of rows X, shape (rows, p), and weights w >= 0, shape (rows,): shape (p, p).

    Symmetric up to rounding.
    """
    # np.dot leaves the interpreter free whatever its result's size is, and the operator @ only where it is large.
    if exog.shape[1] <= SMALL_COLUMNS:
        return np.asarray(np.dot(exog.T, np.einsum("ij,i->ij", exog, weights)), dtype=np.float64)
    rooted = np.einsum("ij,i->ij", exog, np.sqrt(weights))
    return np.asarray(np.dot(rooted.T, rooted), dtype=np.float64)


def solve_positive(hessian: NDArray[np.float64], gradient: Vector, floor: float) -> Vector:
    """Solve hessian @ x = gradient for a positive definite matrix whose eigenvalues are at least `floor`.

    Falls back from a diagonally scaled Cholesky factor to an eigendecomposition when rounding has made the matrix
    indefinite, as for collinear columns under a tiny curvature.
    """
    scale = 1 / np.sqrt(np.diag(hessian))
    scaled = hessian * scale[:, None] * scale
    try:
        factor = linalg.cho_factor(scaled, check_finite=False)
        return scale * linalg.cho_solve(factor, scale * gradient, check_finite=False)
    except linalg.LinAlgError:
        if not np.all(np.isfinite(hessian)):
            return gradient / floor  # a direction all the same: the solvers only take what certainly pays
        values, vectors = linalg.eigh(hessian, check_finite=False)
        return vectors @ ((vectors.T @ gradient) / np.maximum(values, floor))


Matrix = NDArray[np.float64]

MAX_CYCLES = 1000
MAX_SUPPORT_STEPS = 2000
SUFFICIENT = 1e-4


def minimize_quadratic(
    hessian: Matrix, gradient: Vector, penalty: Penalty, weights: Vector, start: Vector, tolerance: float
) -> Vector:
    """argmin over u of gradient'(u - start) + (u - start)' hessian (u - start)/2 + P(u), exact zeros included.

    Two steps alternate, neither of which ever raises the objective. A proximal gradient step in the metric of the
    Hessian's absolute row sums (which dominates it) frees every zero that should move. Newton steps then minimise over
    the nonzero coefficients, which is smooth while no sign changes; coefficients that would change sign stop at zero.
    There are finitely many sign patterns and none recurs, so for a piecewise quadratic P this ends at the minimiser:
    when 0 is within `tolerance` of the subdifferential, or the distance is lost in rounding.
    """
    u, slope = start.copy(), gradient.copy()
    metric = np.sum(np.abs(hessian), axis=1)
    best, best_distance, stalled = u, np.inf, 0
    for _ in range(MAX_CYCLES):
        u, slope = _minimize_on_support(hessian, slope, penalty, weights, u, tolerance)
        distance = penalty.distance(slope, u, weights)
        stalled = 0 if distance < 0.9 * best_distance else stalled + 1
        if distance < best_distance:
            best, best_distance = u, distance
        # The objective falls at every cycle; a residual that no longer does is rounding.
        if distance <= tolerance or stalled > 50:
            break
        moved = penalty.prox(u - slope / metric, metric, weights)
        u, slope = moved, slope + hessian @ (moved - u)
    return best


def _minimize_on_support(
    hessian: Matrix, slope: Vector, penalty: Penalty, weights: Vector, u: Vector, tolerance: float
) -> tuple[Vector, Vector]:
    """Minimise over the nonzero coefficients of u; returns the new point and the smooth part's gradient there."""
    for _ in range(MAX_SUPPORT_STEPS):
        support = np.flatnonzero(u)
        pull = slope[support] + penalty.slope(u[support], weights[support])
        if np.linalg.norm(pull) <= 0.1 * tolerance or not support.size:
            break
        block = hessian[np.ix_(support, support)]
        block[np.diag_indices_from(block)] += penalty.bend(u[support], weights[support])
        direction = np.zeros_like(u)
        direction[support] = -solve_positive(block, pull, float(np.min(np.diag(hessian))) * 1e-16)
        model = float(pull @ direction[support])
        moved = _step(hessian, slope, penalty, weights, u, direction, model)
        if moved is None:
            break
        change = moved - u
        u, slope = moved, slope + hessian @ change
        # A full step on an unchanged support has solved a piecewise quadratic but for rounding.
        if np.linalg.norm(change) <= 1e-15 * np.linalg.norm(u):
            break
    return u, slope


def _step(
    hessian: Matrix, slope: Vector, penalty: Penalty, weights: Vector, u: Vector, direction: Vector, model: float
) -> Vector | None:
    """The Newton step stopped at zeros if that lowers the objective enough, else a line search; None if spent."""
    full = u + direction
    clipped = np.where(full * u < 0, 0.0, full)
    change = clipped - u
    height = penalty.value(u, weights)
    rise = float(slope @ change + 0.5 * change @ (hessian @ change)) + penalty.value(clipped, weights) - height
    if rise <= SUFFICIENT * model:
        return clipped
    if -model <= 1e-14 * (abs(height) + abs(float(slope @ u))):
        # Too small a decrease to be seen in the objective: the gradient decides.
        before = np.linalg.norm((slope + penalty.slope(u, weights))[u != 0])
        after = np.linalg.norm((slope + hessian @ change + penalty.slope(clipped, weights))[clipped != 0])
        return clipped if after < 0.5 * before else None
    return _line_minimum(hessian, slope, penalty, weights, u, direction)


def _line_minimum(
    hessian: Matrix, slope: Vector, penalty: Penalty, weights: Vector, u: Vector, direction: Vector
) -> Vector:
    """Minimise the objective on the segment from u to u + direction by bisection of its derivative."""
    linear, quadratic = float(slope @ direction), float(direction @ (hessian @ direction))

    def derivative(length: float) -> float:
        return linear + length * quadratic + float(penalty.slope(u + length * direction, weights) @ direction)

    low, high = 0.0, 1.0
    if derivative(high) <= 0:
        return u + direction
    for _ in range(60):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if derivative(middle) <= 0 else (low, middle)
    landed = u + low * direction
    crossing = np.divide(-u, direction, out=np.full_like(u, np.inf), where=direction != 0)
    # The derivative may jump over zero where a coefficient vanishes: there it stays.
    landed[(crossing >= low) & (crossing <= high * (1 + 1e-15))] = 0.0
    return landed
