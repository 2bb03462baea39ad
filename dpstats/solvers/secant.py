"""Steps on gradients, under a Hessian that a sample of the rows gave (Nocedal and Wright 2006, section 6.1).

A pass that adds up a gradient costs a small part of one that adds up a Hessian, the wider the design the less. A
sample's Hessian is close enough for every step to gain a digit or more, and what the steps show of the Hessian of all
rows makes the next ones better. Where many steps are ahead all the same, and columns are few, one Hessian of all
rows, added up near the optimum, is worth more than the steps that it saves.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dpstats.solvers.linear import solve_positive
from dpstats.solvers.objective import PerturbedObjective, Vector

Matrix = NDArray[np.float64]

LEAST_GAIN = 0.25
"""A step that leaves more than this share of the squared decrement has met another function than the sample's."""

ROUNDING = 1e-12
"""Gradients this share of the greatest possible one are mostly rounding: steps need not gain on them."""

SURE_GAIN = 0.1
"""Steps that leave less than this share of the gradient will do so once more: their last one is not looked at."""

AFTER_HESSIAN = 3.0
"""Passes that are still to come where all rows' own Hessian has been added up near the optimum."""

MAX_STEPS = 30


class Descent(NamedTuple):
    """Where the steps ended, the Hessian as it is known there, and whether every step gained."""

    theta: Vector
    hessian: Matrix
    reliable: bool


def descend(objective: PerturbedObjective, theta: Vector, hessian: Matrix, tolerance: float) -> Descent:
    """Full quasi-Newton steps, on gradients and one Hessian at most, until none is needed or one does not gain.

    Parameters
    ----------
    objective : PerturbedObjective
    theta : ndarray, shape (p,)
        Near the minimiser, such as that of a sample.
    hessian : ndarray, shape (p, p)
        Near the Hessian there, positive definite.
    tolerance : float
        The norm of the gradient to be reached; the caller certifies.
    """
    floor = float(np.min(objective.curvature))
    gradient = objective.gradient(theta)
    step = -solve_positive(hessian, gradient, floor)
    decrement = -float(gradient @ step)
    sampled, ahead = True, 0.0
    for _ in range(MAX_STEPS):
        if float(np.linalg.norm(gradient)) <= tolerance:
            return Descent(theta, hessian, True)
        target = theta + step
        if sampled and ahead > AFTER_HESSIAN + hessian_passes(objective.size):
            _, moved, hessian = objective.accumulate(target)
            sampled = False
        else:
            moved = objective.gradient(target)
            hessian = updated(hessian, step, moved - gradient)
        following = -solve_positive(hessian, moved, floor)
        left = -float(moved @ following)
        if not 0 <= left <= LEAST_GAIN * decrement:
            small = float(np.linalg.norm(gradient)) <= ROUNDING * objective.pull
            return Descent(theta, hessian, small)
        gain = float(np.linalg.norm(moved) / np.linalg.norm(gradient))
        theta, gradient, step, decrement = target, moved, following, left
        ahead = passes_ahead(float(np.linalg.norm(gradient)), gain, tolerance)
        if gain < SURE_GAIN and gain * float(np.linalg.norm(gradient)) <= tolerance:
            return Descent(theta + step, hessian, True)
    return Descent(theta, hessian, False)


def hessian_passes(size: int) -> float:
    """What a Hessian of p columns costs beyond its gradient, in passes for a gradient, as measured at 20 and at 150."""
    return 5 / 3 + size / 45


def passes_ahead(norm: float, gain: float, tolerance: float) -> float:
    """How many steps of the same gain bring a gradient's norm to the tolerance."""
    return math.log(tolerance / norm) / math.log(gain) if 0 < gain < 1 and norm > tolerance > 0 else 0.0


def updated(hessian: Matrix, step: Vector, change: Vector) -> Matrix:
    """The matrix nearest to `hessian`, in a sense, that maps a step to the change of the gradient along it (BFGS)."""
    bend, image = float(step @ change), hessian @ step
    length = float(step @ image)
    if not (bend > 1e-8 * length and length > 0 and np.isfinite(bend)):
        return hessian
    return np.asarray(hessian + np.outer(change, change) / bend - np.outer(image, image) / length, dtype=np.float64)
