"""Damped Newton on the perturbed objective, finished by a certified gradient."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dpstats.solvers import pairs, safeguard
from dpstats.solvers.linear_algebra import solve_positive
from dpstats.solvers.objective import PerturbedObjective, Vector
from dpstats.solvers.pairs import Array, Pair

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

    `theta` and `hessian`, positive definite, are near those at the minimiser, as of a sample; the caller certifies.
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
        # As measured at 20 and at 150 columns, a Hessian costs so many passes more than a gradient.
        if sampled and ahead > AFTER_HESSIAN + (5 / 3 + objective.size / 45):
            _, moved, hessian = objective.accumulate(target)
            sampled = False
        else:
            moved = objective.gradient(target)
            hessian = bfgs_update(hessian, step, moved - gradient)
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


def passes_ahead(norm: float, gain: float, tolerance: float) -> float:
    """How many steps of the same gain bring a gradient's norm to the tolerance."""
    return math.log(tolerance / norm) / math.log(gain) if 0 < gain < 1 and norm > tolerance > 0 else 0.0


def bfgs_update(hessian: Matrix, step: Vector, change: Vector) -> Matrix:
    """The matrix nearest to `hessian`, in a sense, that maps a step to the change of the gradient along it (BFGS)."""
    bend, image = float(step @ change), hessian @ step
    length = float(step @ image)
    if not (bend > 1e-8 * length and length > 0 and np.isfinite(bend)):
        return hessian
    return np.asarray(hessian + np.outer(change, change) / bend - np.outer(image, image) / length, dtype=np.float64)


WARM_START_ROWS = 65536
"""Data several times longer are first solved on a thinned sample of about so many rows."""

SMALL_SAMPLES = (2048, 16384)
"""Any sample, and all rows where they are fewer, is solved from the optimum of a smaller one, of about so many."""

SAMPLE_COLUMNS = 200
"""Designs of several times so many columns need larger samples."""

NEAR_DECREMENT = 0.1
"""A column's part of the squared decrement at which a sample's optimum is near enough: sampling moves it by more."""

ROWS_A_COLUMN = 100
"""The Hessian of a sample of so many rows a column is within a fifth of that of all rows, for most data."""

WELL_BELOW = 1 / 8
"""Gradients are brought to this share of the tolerance before they are certified: once is mostly enough then."""

ERROR_SHARE = 0.75
"""The rounding bound may take so much of it at a point that is expected to be the last."""

MAX_ITERATIONS = 500
MAX_REFINEMENTS = 100


def minimize(objective: PerturbedObjective, tolerance: float, start: Vector | None = None) -> Array:
    """`optimum` as one float a coefficient, of the widest type, shape (p,)."""
    return optimum(objective, tolerance, start).high


@np.errstate(all="ignore")
def optimum(objective: PerturbedObjective, tolerance: float, start: Vector | None = None) -> Pair:
    """Minimise J until the norm of its gradient is certified to be at most `tolerance`.

    Fast steps first; where they stall, `safeguard.minimize` goes on, which ends on any data: separable, collinear,
    constant, wide or empty included. Nothing about the path (iterations, precision needed) is reported. The point is at
    most tolerance / min(m) from the exact minimiser (docs/proofs/release), a Pair of the widest type of float.
    """
    theta = np.zeros(objective.size) if start is None else np.asarray(start, dtype=np.float64)
    theta, sampled = sample_optimum(objective, theta)
    if sampled is None:
        theta, sampled = damped_newton(objective, theta, sample_decrement(objective))
    descent = descend(objective, theta, sampled, WELL_BELOW * tolerance)
    if descent.reliable:
        return _refine(objective, descent.theta, descent.hessian, tolerance)
    return _refine(objective, *damped_newton(objective, descent.theta, 1e-9 * objective.natural_unit), tolerance)


def sample_optimum(objective: PerturbedObjective, theta: Vector) -> tuple[Vector, NDArray[np.float64] | None]:
    """The optimum of a sample of the rows, and the Hessian of all rows as the sample has it if it is large enough.

    The sample's own optimum is found from those of smaller ones. Theta and None where the rows are few.
    """
    hessian, rows = None, 0
    for wanted in (*SMALL_SAMPLES, WARM_START_ROWS):
        every = objective.count // (wanted * max(1, objective.size // SAMPLE_COLUMNS))
        if every >= 4:
            sample = objective.thinned(every)
            theta, hessian = damped_newton(sample, theta, sample_decrement(sample))
            hessian, rows = every * hessian, objective.count // every
    return theta, hessian if rows >= ROWS_A_COLUMN * objective.size else None


def sample_decrement(objective: PerturbedObjective) -> float:
    """The squared decrement from which one Newton step leads as near to the optimum as rows of a sample tell.

    A step leaves about that share of it which it is of the whole objective: so it is for logistic regression, and
    elsewhere the steps that follow see to it.
    """
    return objective.natural_unit * math.sqrt(NEAR_DECREMENT * objective.size * max(1, objective.count))


def damped_newton(objective: PerturbedObjective, theta: Vector, decrement: float) -> tuple[Vector, NDArray[np.float64]]:
    """Newton steps with Armijo backtracking in float64, and the Hessian one step before, shape (p, p).

    At a squared Newton `decrement` the full step is taken and trusted without another look: convergence is quadratic
    there, and the caller certifies the result.
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


def _refine(objective: PerturbedObjective, theta: Vector, hessian: NDArray[np.float64], tolerance: float) -> Pair:
    """Full Newton steps on certified gradients while they pay; then the safeguarded solver, which never stalls."""
    point = pairs.single(theta, objective.widest)
    floor, ladder = float(np.min(objective.curvature)), objective.ladder
    rung = objective.first_rung(point, tolerance, ERROR_SHARE)
    certified = objective.certified_gradient(point, ladder[rung])
    for _ in range(MAX_REFINEMENTS):
        if certified.norm <= tolerance:
            return point
        if certified.error > tolerance / 2:
            if rung + 1 == len(ladder):
                break
            rung += 1
            certified = objective.certified_gradient(point, ladder[rung])
            continue
        step = -solve_positive(hessian, certified.gradient.astype(np.float64), floor)
        target = pairs.plus(point, step.astype(objective.widest))
        moved = objective.certified_gradient(target, ladder[rung])
        if not moved.norm < 0.5 * certified.norm:
            break
        point, certified = target, moved
    return safeguard.minimize(objective, tolerance, point)
