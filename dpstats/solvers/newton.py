"""Damped Newton on the perturbed objective, finished by a certified gradient."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy import linalg

from dpstats.solvers.objective import (
    CHUNK_ROWS,
    LADDER,
    CertifiedGradient,
    PerturbedObjective,
    Precision,
    Vector,
)

WARM_START_ROWS = 8 * CHUNK_ROWS
"""Data several times longer are first solved on a thinned sample of about so many rows."""

MAX_ITERATIONS = 500
MAX_REFINEMENTS = 200


def minimize(objective: PerturbedObjective, tolerance: float, start: Vector | None = None) -> NDArray[np.longdouble]:
    """Minimise J until the norm of its gradient is certified to be at most `tolerance`.

    J is strongly convex, so the Newton direction with backtracking converges from anywhere: separable, collinear,
    constant, wide or empty data included. Nothing about the path (iterations, precision needed) is reported.

    Parameters
    ----------
    objective : PerturbedObjective
    tolerance : float
        The public bound gamma on the gradient norm (docs/proofs/release).
    start : ndarray, shape (p,), optional
        Where to begin; zeros by default.

    Returns
    -------
    ndarray of longdouble, shape (p,)
        A point at most tolerance / min(m) from the exact minimiser.
    """
    theta = np.zeros(objective.size) if start is None else np.asarray(start, dtype=np.float64)
    theta = _warm_start(objective, theta)
    theta, hessian = damped_newton(objective, theta, decrement=1e-9 * objective.natural_unit)
    return _refine(objective, theta, hessian, tolerance)


def _warm_start(objective: PerturbedObjective, theta: Vector) -> Vector:
    """Move theta to the optimum of a thinned objective when the data are large; else leave it."""
    every = objective.rows // WARM_START_ROWS
    return theta if every < 4 else damped_newton(objective.thinned(every), theta, decrement=1e-2)[0]


def damped_newton(objective: PerturbedObjective, theta: Vector, decrement: float) -> tuple[Vector, NDArray[np.float64]]:
    """Newton steps with Armijo backtracking in float64.

    Parameters
    ----------
    objective : PerturbedObjective
    theta : ndarray, shape (p,)
        Where to begin.
    decrement : float
        Squared Newton decrement at which the full step is taken and trusted without another look: Newton's
        convergence is quadratic there, and the caller certifies the result.

    Returns
    -------
    theta : ndarray, shape (p,)
    hessian : ndarray, shape (p, p)
        The Hessian one step before theta, close enough for refinement steps.
    """
    current = objective.accumulate(theta)
    for _ in range(MAX_ITERATIONS):
        direction = -solve_positive(current.hessian, current.gradient, float(np.min(objective.curvature)))
        slope = float(current.gradient @ direction)
        if -slope <= decrement:
            return theta + direction, current.hessian
        noise = 1e-13 * (1 + abs(current.value))
        length = 1.0
        while length > 1e-12:
            candidate = theta + length * direction
            proposed = objective.accumulate(candidate)
            if proposed.value <= current.value + 1e-4 * length * slope:
                break
            within_noise = proposed.value <= current.value + noise
            if within_noise and np.linalg.norm(proposed.gradient) < 0.9 * np.linalg.norm(current.gradient):
                break
            length /= 2
        else:
            break
        theta, current = candidate, proposed
    return theta, current.hessian


def _refine(
    objective: PerturbedObjective, theta: Vector, hessian: NDArray[np.float64], tolerance: float
) -> NDArray[np.longdouble]:
    """Newton steps on certified gradients, in higher precision where float64's rounding bound is too coarse."""
    point = theta.astype(np.longdouble)
    floor = float(np.min(objective.curvature))
    rung = 0
    while rung + 1 < len(LADDER) and objective.rounding_bound(point, LADDER[rung], 0.0) > tolerance / 2:
        rung += 1
    certified = objective.certified_gradient(point, LADDER[rung])
    for _ in range(MAX_REFINEMENTS):
        if certified.norm <= tolerance:
            break
        if certified.error > tolerance / 2 and rung + 1 < len(LADDER):
            rung += 1
            certified = objective.certified_gradient(point, LADDER[rung])
            continue
        if certified.error > tolerance:
            # More rows than the plan's tolerance allows for (docs/proofs/release): nothing can be gained.
            break
        step = -solve_positive(hessian, certified.gradient.astype(np.float64), floor)
        moved = objective.certified_gradient(point + step, LADDER[rung])
        if moved.norm < 0.5 * certified.norm:
            point, certified = point + step, moved
            continue
        hessian = objective.accumulate(point.astype(np.float64)).hessian
        point, certified = _descend(objective, point, certified, hessian, LADDER[rung])
    return point


def _descend(
    objective: PerturbedObjective,
    point: NDArray[np.longdouble],
    certified: CertifiedGradient,
    hessian: NDArray[np.float64],
    precision: Precision,
) -> tuple[NDArray[np.longdouble], CertifiedGradient]:
    """One Newton step shortened until the slope along it is at most half of what it was, in either direction.

    Kinks in l' can make full steps cycle. J is convex, so the slope along the step rises with its length, and such a
    length exists; unlike the value of J the slope can be told apart at full precision.
    """
    step = -solve_positive(hessian, certified.gradient.astype(np.float64), float(np.min(objective.curvature)))
    slope = certified.gradient @ step
    short, long, length = 0.0, np.inf, 1.0
    for _ in range(60):
        moved = objective.certified_gradient(point + length * step, precision)
        ratio = float(moved.gradient @ step / slope) if slope != 0 else 0.0
        if abs(ratio) <= 0.5:
            return point + length * step, moved
        short, long = (length, long) if ratio > 0 else (short, length)
        length = 2 * length if np.isinf(long) else (short + long) / 2
    return point, certified


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
        values, vectors = linalg.eigh(hessian, check_finite=False)
        return vectors @ ((vectors.T @ gradient) / np.maximum(values, floor))
