"""Proximal Newton for the perturbed objective plus a convex penalty: certified, with exact zeros."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from dpstats.errors import ArgumentError
from dpstats.penalties import Penalty
from dpstats.solvers import pairs, safeguard
from dpstats.solvers.linear_algebra import minimize_quadratic, solve_positive
from dpstats.solvers.newton import MAX_ITERATIONS, WARM_START_ROWS
from dpstats.solvers.objective import PerturbedObjective, Vector
from dpstats.solvers.pairs import Array, Pair

MAX_REFINEMENTS = 30


def minimize(
    objective: PerturbedObjective,
    penalty: Penalty,
    tolerance: float,
    start: Vector | None = None,
    *,
    weights: Vector | None = None,
) -> Array:
    """`optimum` as one float a coefficient, of the widest type, shape (p,)."""
    return optimum(objective, penalty, tolerance, start, weights=weights).high


@np.errstate(all="ignore")
def optimum(
    objective: PerturbedObjective,
    penalty: Penalty,
    tolerance: float,
    start: Vector | None = None,
    *,
    weights: Vector | None = None,
) -> Pair:
    """Minimise J + P until the distance of 0 to its subdifferential is certified to be at most `tolerance`.

    Fast steps first; where they stall, `safeguard.minimize` goes on, which ends on any data. Nothing about the path is
    reported. The point is as `newton.optimum` has it (docs/proofs/napp), with 0.0 where P sets a coefficient to zero.
    ArgumentError if P is not convex, or `weights`, (p,) and 1 by default, have the wrong shape or sign.
    """
    if not penalty.convex:
        raise ArgumentError(f"{penalty} is not convex and has no certified minimiser: use two stages")
    scale = check_weights(weights, objective.size)
    theta = np.zeros(objective.size) if start is None else np.asarray(start, dtype=np.float64)
    every = objective.count // WARM_START_ROWS
    if every >= 4:
        theta = _proximal_newton(objective.thinned(every), penalty, scale / every, theta, 1e-6 * every, decrement=1e-2)[
            0
        ]
    decrement = 1e-9 * objective.natural_unit
    theta, hessian = _proximal_newton(objective, penalty, scale, theta, tolerance / 4, decrement)
    return _refine(objective, penalty, scale, theta, hessian, tolerance)


def check_weights(weights: Vector | None, size: int) -> Vector:
    """Column weights of shape (size,), ones by default; ArgumentError if they are not finite and >= 0."""
    if weights is None:
        return np.ones(size)
    checked = np.asarray(weights, dtype=np.float64)
    if checked.shape != (size,) or not np.all(np.isfinite(checked)) or np.any(checked < 0):
        raise ArgumentError(f"weights must be {size} finite numbers >= 0, one a column")
    return checked


def _proximal_newton(
    objective: PerturbedObjective,
    penalty: Penalty,
    weights: Vector,
    theta: Vector,
    tolerance: float,
    decrement: float,
) -> tuple[Vector, NDArray[np.float64]]:
    """Steps to the minimiser of the local quadratic plus P, with backtracking, in float64.

    Ends at a residual of `tolerance`. A step that the model expects to gain at most `decrement` is taken and trusted,
    as in `newton.damped_newton`: the caller certifies. Returns the point and the last Hessian computed.
    """
    current = objective.accumulate(theta)
    for _ in range(MAX_ITERATIONS):
        distance = penalty.distance(current.gradient, theta, weights)
        if distance <= tolerance:
            break
        # A model minimised to a fraction of the residual keeps the convergence fast and early models cheap.
        inner = max(1e-3 * distance, 0.1 * tolerance)
        target = minimize_quadratic(current.hessian, current.gradient, penalty, weights, theta, inner)
        height = penalty.value(theta, weights)
        slope = float(current.gradient @ (target - theta)) + penalty.value(target, weights) - height
        if -slope <= decrement:
            return target, current.hessian
        total = current.value + height
        noise = 1e-13 * abs(total)
        length = 1.0
        while length > 1e-12:
            candidate = target if length == 1 else theta + length * (target - theta)
            proposed = objective.accumulate(candidate)
            rise = proposed.value + penalty.value(candidate, weights) - total
            if rise <= 1e-4 * length * slope:
                break
            # Where the objective cannot tell, the subgradient decides.
            if rise <= noise and penalty.distance(proposed.gradient, candidate, weights) < 0.9 * distance:
                break
            if -slope <= noise:
                return theta, current.hessian
            length /= 2
        else:
            break
        theta, current = candidate, proposed
    return theta, current.hessian


def _refine(
    objective: PerturbedObjective,
    penalty: Penalty,
    weights: Vector,
    theta: Vector,
    hessian: NDArray[np.float64],
    tolerance: float,
) -> Pair:
    """Full Newton steps on certified gradients while they pay; then the safeguarded solver, which never stalls."""
    point, ladder = theta.astype(objective.widest), objective.ladder
    rung = objective.first_rung(pairs.single(point, objective.widest), tolerance)
    best, best_distance, stalls = point, np.inf, 0
    for _ in range(MAX_REFINEMENTS):
        certified = objective.certified_gradient(point, ladder[rung])
        # P' is computed in extended precision, to within a few units in the last place.
        pulls = float(np.linalg.norm(penalty.slope(point.astype(np.float64), weights)))
        error = certified.error + 16 * float(np.finfo(objective.widest).eps) * pulls
        distance = penalty.distance(certified.gradient, point, weights) * (1 + 1e-12) + error
        if distance <= tolerance:
            return pairs.single(point, objective.widest)
        if certified.error > tolerance / 2 and rung + 1 < len(ladder):
            rung += 1
            continue
        if distance < 0.5 * best_distance:
            best, best_distance = point, distance
        elif stalls:
            break
        else:
            # A stall: Newton's full steps on certified gradients may cycle over kinks, steps with backtracking do not.
            stalls += 1
            start = best.astype(np.float64)
            settled, hessian = _proximal_newton(objective, penalty, weights, start, tolerance / 4, decrement=0.0)
            point, best_distance = best if np.array_equal(settled, start) else settled.astype(point.dtype), np.inf
            certified = objective.certified_gradient(point, ladder[rung])
        point = _correct(penalty, weights, point, certified.gradient, hessian)
    return safeguard.minimize(objective, tolerance, pairs.single(best, objective.widest), penalty, weights)


def _correct(penalty: Penalty, weights: Vector, point: Array, gradient: Array, hessian: NDArray[np.float64]) -> Array:
    """One Newton correction of the nonzero coefficients and of zeros that pull away; sign changes stop at zero."""
    residual = penalty.residual(gradient, point, weights)
    active = np.flatnonzero((point != 0) | (residual != 0))
    if not active.size:
        return point
    block = hessian[np.ix_(active, active)]
    away = np.where(point[active] == 0, 0.0, penalty.bend(np.abs(point[active]).astype(np.float64), weights[active]))
    block[np.diag_indices_from(block)] += away
    step = solve_positive(block, residual[active].astype(np.float64), float(np.min(np.diag(hessian))) * 1e-16)
    moved = point.copy()
    moved[active] -= step.astype(point.dtype)
    sign = np.where(point != 0, np.sign(point), -np.sign(residual))
    return np.where(moved * sign < 0, np.zeros_like(moved), moved)
