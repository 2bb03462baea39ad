"""A draw from a planned posterior, once it is paid for (docs/proofs/posterior)."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from dpstats.mechanisms.drawing import (
    MOST_SUM,
    UNIT,
    LossTable,
    bounded_responses,
    by_chain,
    by_rejection,
    lattice_points,
    lattice_scores,
    loss_sums,
)
from dpstats.mechanisms.posterior import ACROSS, PosteriorPlan
from dpstats.privacy.posterior import exponential_index
from dpstats.privacy.randomness import RandomSource
from dpstats.rows import Block, Rows
from dpstats.solvers import newton, pairs, prox
from dpstats.solvers.objective import PerturbedObjective

Vector = NDArray[np.float64]
Matrix = NDArray[np.float64]


def release_posterior(plan: PosteriorPlan, rows: Rows[Block], random: RandomSource) -> Vector:
    """Read the rows once charged and draw coefficients in model units, shape (p,).

    Parameters
    ----------
    plan : PosteriorPlan
    rows : Rows of Block
        Within the bounds the plan was made for.
    random : RandomSource
    """
    rows = bounded_responses(plan.family, rows)
    if plan.semi_axes is None:
        optimum = _optimum(plan, rows).astype(np.float64)
        draw = _rejected(plan, rows, optimum, random) if plan.exact else _walked(plan, rows, optimum, random)
        return plan.final.release(pairs.single(draw, np.float64), random)
    if not plan.exact:
        return _walked(plan, rows, np.zeros(plan.size), random)
    points = lattice_points(plan.semi_axes, ACROSS[plan.size])
    table = LossTable.of(plan.family, plan.reach)
    # A public bound: what lies beyond is as good as never drawn.
    public = np.rint(np.clip(_public(plan, points) / UNIT, -MOST_SUM / 2, MOST_SUM / 2)).astype(np.int64)
    scores = lattice_scores(table, rows, points) + public
    return np.asarray(points[exponential_index(scores, plan.scale, random)])


def _public(plan: PosteriorPlan, points: Matrix) -> Vector:
    """The part of the objective without data at each point, shape (points,)."""
    value = np.sum(points * (0.5 * plan.curvature * points + plan.linear), axis=1)
    if plan.penalty is not None:
        value = value + np.array([plan.penalty.value(point, plan.penalty_weights) for point in points])
    return np.asarray(value, dtype=np.float64)


def _optimum(plan: PosteriorPlan, rows: Rows[Block]) -> NDArray[np.floating]:
    """The minimiser of the objective, certified to the plan's tolerance."""
    objective = PerturbedObjective(plan.family, rows, plan.curvature, plan.linear, plan.row_length)
    if plan.penalty is None:
        return newton.minimize(objective, plan.tolerance)
    return prox.minimize(objective, plan.penalty, plan.tolerance, weights=plan.penalty_weights)


def _rejected(plan: PosteriorPlan, rows: Rows[Block], optimum: Vector, random: RandomSource) -> Vector:
    """A draw by rejection from the normal law that the curvature alone would give about the optimum."""
    lowest = _potential(plan, rows, optimum[None])[0]

    def height(points: Matrix) -> Vector:
        moved = points - optimum
        quadratic = 0.5 * np.sum(plan.curvature * moved**2, axis=1)
        return np.asarray(plan.temperature * (_potential(plan, rows, points) - lowest - quadratic), dtype=np.float64)

    return by_rejection(height, lambda: optimum + plan.sample(random), random)


def _walked(plan: PosteriorPlan, rows: Rows[Block], start: Vector, random: RandomSource) -> Vector:
    """The end of a Markov chain, for more columns than can be drawn exactly: never certified."""
    objective = PerturbedObjective(plan.family, rows, plan.curvature, plan.linear, plan.row_length)
    hessian = objective.accumulate(start).hessian

    def potential(theta: Vector) -> float:
        if plan.semi_axes is not None and np.sum((theta / plan.semi_axes) ** 2) > 1:
            return math.inf
        return plan.temperature * float(_potential(plan, rows, theta[None])[0])

    covariance = np.asarray(np.linalg.inv(plan.temperature * hessian), dtype=np.float64)
    return by_chain(potential, start, covariance, random)


def _potential(plan: PosteriorPlan, rows: Rows[Block], points: Matrix) -> NDArray[np.floating]:
    """J at each point, shape (points,)."""
    return loss_sums(plan.family, rows, points) + _public(plan, points)
