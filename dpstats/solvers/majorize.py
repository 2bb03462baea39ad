"""Iterated weighted ridge fits: the `analytic` realisation of NAPP-ERM (the limit of infinitely many noise rows)."""

from __future__ import annotations

import numpy as np

from dpstats.errors import ArgumentError
from dpstats.penalties import Penalty
from dpstats.solvers import prox
from dpstats.solvers.newton import damped_newton
from dpstats.solvers.objective import PerturbedObjective, Vector

HEAVIEST = 1e25
"""Majoriser weights are held at this, far above any Hessian, so that a coefficient at zero has a finite one."""

ITERATIONS = 200

DECREMENT = 1e-9
"""Squared Newton decrement that ends each fit: the next one moves the target anyway."""


def minimize(
    objective: PerturbedObjective,
    penalty: Penalty,
    tolerance: float,
    start: Vector | None = None,
    *,
    weights: Vector | None = None,
    iterations: int = ITERATIONS,
) -> prox.Extended:
    """Minimise J + P by weighted ridge fits, finished by the certified solver, which makes the zeros exact.

    Majorise-minimise approaches a zero coefficient only geometrically and one at the edge of the kink more slowly
    still, so the last digits and the zeros are left to `prox.minimize`. Parameters, result and errors are as there.
    """
    if not penalty.convex:
        raise ArgumentError(f"{penalty} is not convex and has no certified minimiser: use two stages")
    theta = iterate(objective, penalty, start, weights=weights, iterations=iterations)
    return prox.minimize(objective, penalty, tolerance, theta, weights=weights)


def iterate(
    objective: PerturbedObjective,
    penalty: Penalty,
    start: Vector | None = None,
    *,
    weights: Vector | None = None,
    iterations: int = ITERATIONS,
    change: float = 1e-7,
) -> Vector:
    """NAPP-ERM's iterations: each minimises J + 1/2 sum_j w_j theta_j^2, w_j = P'(|t_j|) / |t_j| at the last t.

    The quadratic lies above P and touches it at t, so J + P never rises (docs/proofs/napp). For a penalty that is not
    convex the limit is a stationary point, which is all that can be said of it.

    Parameters
    ----------
    objective, penalty, start, weights
        As in `prox.minimize`; the first fit, from no start, has no penalty but the curvature of J.
    iterations : int
        At most this many fits.
    change : float
        Stop when no coefficient moves by more than this times the largest one.

    Returns
    -------
    ndarray, shape (p,)
        No coefficient is exactly zero, nor is the point certified.
    """
    scale = prox.check_weights(weights, objective.size)
    theta = (
        damped_newton(objective, np.zeros(objective.size), DECREMENT)[0]
        if start is None
        else np.asarray(start, np.float64)
    )
    for _ in range(iterations):
        previous, theta = theta, damped_newton(majorized(objective, penalty, theta, scale), theta, DECREMENT)[0]
        if np.max(np.abs(theta - previous), initial=0.0) <= change * np.max(np.abs(theta), initial=0.0):
            break
    return theta


def majorized(objective: PerturbedObjective, penalty: Penalty, theta: Vector, weights: Vector) -> PerturbedObjective:
    """J plus the quadratic that touches P at theta, up to a constant: a weighted ridge problem."""
    heavier = np.minimum(penalty.majorizer(theta, weights), HEAVIEST)
    return objective.altered(objective.rows, objective.curvature + heavier, objective.noise)
