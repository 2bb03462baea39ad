"""NAPP-ERM's iterations with infinitely many noise rows, for any penalty: what augmented fits are compared with."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from dpstats.penalties import Penalty
from dpstats.replication.napp import DECREMENT, HEAVIEST
from dpstats.solvers import prox
from dpstats.solvers.newton import damped_newton
from dpstats.solvers.objective import PerturbedObjective

Vector = NDArray[np.float64]

ITERATIONS = 200


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
    convex the limit is a stationary point, which is all that can be said of it. The first fit, from no start, has no
    penalty; no coefficient is exactly zero at the end, nor is the point certified. It ends after `iterations` fits, or
    when no coefficient moves by more than `change` times the largest.
    """
    scale = prox.check_weights(weights, objective.size)
    theta = (
        damped_newton(objective, np.zeros(objective.size), DECREMENT)[0]
        if start is None
        else np.asarray(start, np.float64)
    )
    for _ in range(iterations):
        previous, theta = theta, damped_newton(majorize(objective, penalty, theta, scale), theta, DECREMENT)[0]
        if np.max(np.abs(theta - previous), initial=0.0) <= change * np.max(np.abs(theta), initial=0.0):
            break
    return theta


def majorize(objective: PerturbedObjective, penalty: Penalty, theta: Vector, weights: Vector) -> PerturbedObjective:
    """J plus the quadratic that touches P at theta, up to a constant: a weighted ridge problem."""
    heavier = np.minimum(penalty.majorizer(theta, weights), HEAVIEST)
    return objective.altered(objective.rows, objective.curvature + heavier, objective.noise)
