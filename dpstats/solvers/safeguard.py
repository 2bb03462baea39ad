"""The solver of last resort: regularised proximal Newton steps whose descent is certified, so that it always ends.

docs/proofs/release proves that it reaches its tolerance wherever the rounding error is a small share of that. Fast
solvers hand over to it where they stall: at kinks close together, or where the optimum is too far out for plain floats.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dpstats.penalties import Lasso, Penalty
from dpstats.solvers import pairs
from dpstats.solvers.linear_algebra import minimize_quadratic, solve_positive
from dpstats.solvers.objective import PerturbedObjective, Vector
from dpstats.solvers.pairs import Array, Pair

SURE = 8.0
"""A slope so many times its rounding error is trusted."""

DAMPINGS = (0.0, 1e-16, 1e-14, 1e-12, 1e-9, 1e-6, 1e-3, 1.0)
"""Regularisation of a step's model, as shares of the gradient's Lipschitz constant; the last one cannot fail."""

STIFFEST = 1e280
"""A coefficient next to a kink of the penalty bends no more than this."""


HALVINGS = 300
POLISHES = 3


class Iterate(NamedTuple):
    """A point, J's certified gradient there and its error, and a bound on the distance of 0 to the subdifferential."""

    point: Pair
    gradient: Array
    error: float
    distance: float


class ProposedStep(NamedTuple):
    """A proposed step d, and the model's gradient at its end plus the subgradient of P there that is nearest to 0."""

    change: Array
    target: Pair
    pull: Array
    """That subgradient v of P at the target."""


def minimize(
    objective: PerturbedObjective,
    tolerance: float,
    start: Pair,
    penalty: Penalty | None = None,
    weights: Vector | None = None,
) -> Pair:
    """Minimise J + P, P convex, until the distance of 0 to its subdifferential is certified to be at most `tolerance`.

    From `start`, unless zero is better. Where rounding forbids it, on more rows than it was planned for, the best point
    found is returned: a Pair, for one float could not tell the optimum of many rows from its neighbours.
    """
    scale = np.ones(objective.size) if weights is None else weights
    search = _Search(objective, penalty, scale, tolerance)
    place = search.certify(start)
    if not place.distance <= objective.pull:
        place = search.certify(pairs.single(np.zeros(objective.size), objective.widest))
    best = place
    while not search.done(place):
        moved = search.advance(place, best.distance)
        if moved is None:
            break
        place = moved
        best = place if place.distance < best.distance else best
    return best.point


class _Search:
    """One run: the arithmetic and the width that kinks are seen from change as it goes."""

    def __init__(
        self, objective: PerturbedObjective, penalty: Penalty | None, weights: Vector, tolerance: float
    ) -> None:
        self.objective, self.weights, self.tolerance = objective, weights, tolerance
        self.penalty = Lasso(0.0) if penalty is None else penalty
        self.plain = penalty is None
        self.rung = 0
        self.width = 0.0
        self.floor = float(np.min(objective.curvature))
        self.farthest = 2.0 * objective.pull / self.floor

    def certify(self, point: Pair) -> Iterate:
        """The certified gradient and distance at a point, by the first arithmetic that leaves room for a descent."""
        last = len(self.objective.ladder) - 1
        self.rung = max(self.rung, self.objective.first_rung(point, self.tolerance))
        while True:
            gradient, error = self.objective.certified_gradient(point, self.objective.ladder[self.rung])
            if error <= self.tolerance / 2 or self.rung == last:
                break
            self.rung += 1
        error += self._penalty_error(point)
        nearest = self.penalty.residual(gradient, point.high, self.weights)
        distance = float(np.linalg.norm(nearest.astype(np.float64))) * (1 + 1e-12) + error
        return Iterate(point, gradient, error, distance)

    def _penalty_error(self, point: Pair) -> float:
        """P' is computed to a few units in the last place, and a lasso's is a public constant."""
        if isinstance(self.penalty, Lasso):
            return 0.0
        slope = self.penalty.slope(point.high.astype(np.float64), self.weights)
        return 16 * float(np.finfo(self.objective.widest).eps) * float(np.linalg.norm(slope))

    def done(self, place: Iterate) -> bool:
        """Whether a place is certified."""
        return place.distance <= self.tolerance

    def advance(self, place: Iterate, best: float) -> Iterate | None:
        """The next place: half as far as the best in its certificate, or certainly lower. None if rounding forbids."""
        while True:
            hessian = self.objective.hessian(place.point, self.objective.ladder[self.rung], self.width)
            last = self.rung + 1 == len(self.objective.ladder)
            for share in DAMPINGS if last else DAMPINGS[:1]:
                damped = hessian + share * self.objective.steepness * np.eye(self.objective.size)
                step = self._model(place, damped)
                full = self.certify(step.target) if self._inside(step.target) else None
                if full is not None and (full.distance <= 0.5 * best or self.done(full)):
                    self.width /= 8
                    return full
                lower = self._descend(place, step, full)
                if lower is not None:
                    return lower
            if last:
                return None
            self.rung += 1
            place = self.certify(place.point)

    def _inside(self, point: Pair) -> bool:
        """Whether a point is near enough to be lower than zero is (false for what is no number)."""
        return bool(np.linalg.norm(point.high.astype(np.float64)) <= self.farthest)

    def _model(self, place: Iterate, hessian: NDArray[np.float64]) -> ProposedStep:
        """The minimiser of the local quadratic plus P, refined beyond float64's digits."""
        start, slope = place.point.high.astype(np.float64), place.gradient.astype(np.float64)
        wide = hessian.astype(self.objective.widest)
        if self.plain:
            change = -solve_positive(hessian, slope, self.floor).astype(self.objective.widest)
            target = pairs.plus(place.point, change)
            return ProposedStep(change, target, np.zeros_like(change))
        inner = 1e-3 * place.distance
        minimiser = minimize_quadratic(hessian, slope, self.penalty, self.weights, start, inner)
        change = (minimiser - place.point.high) - place.point.low
        alive = minimiser != 0
        best, least = ProposedStep(change, place.point, np.zeros_like(change)), np.inf
        for _ in range(POLISHES + 1):
            target, after = _landed(place.point, change, alive), place.gradient + wide @ change
            rest = self.penalty.residual(after, target.high, self.weights)
            size = float(np.linalg.norm(rest.astype(np.float64)))
            if not size < least:
                break  # float64 cannot solve for this Hessian any better
            best, least = ProposedStep(change, target, rest - after), size
            change = change + self._polish(hessian, rest, target, alive)
        return best

    def _polish(self, hessian: NDArray[np.float64], rest: Array, target: Pair, alive: NDArray[np.bool_]) -> Array:
        """A Newton correction of the model's nonzero coefficients, none of which may change its sign."""
        correction = np.zeros_like(target.high)
        support = np.flatnonzero(alive)
        if support.size:
            block = hessian[np.ix_(support, support)]
            at = target.high[support].astype(np.float64)
            bend = self.penalty.bend(at, self.weights[support])
            block[np.diag_indices_from(block)] += np.nan_to_num(bend, nan=0.0, posinf=STIFFEST)
            correction[support] = -solve_positive(block, rest[support].astype(np.float64), self.floor)
        keeps = np.sign(target.high + correction) == np.sign(target.high)
        return np.where(keeps, correction, np.zeros_like(correction))

    def _descend(self, place: Iterate, step: ProposedStep, full: Iterate | None) -> Iterate | None:
        """The step shortened until the objective certainly fell all along it; None if rounding hides the slope.

        J(theta + t d) + P(theta) + t v'd lies above J + P on [0, 1], touches it at 0 and has no kinks.
        """
        size = float(np.linalg.norm(step.change.astype(np.float64)))
        slope = float((place.gradient + step.pull) @ step.change)
        if not -slope > SURE * place.error * size:
            return None
        # The window of good lengths may be narrower than any float of that size: the near end is kept as a point.
        moved, base, short, gap = full, place.point, 0.0, 1.0
        for halving in range(HALVINGS):
            ratio = -np.inf
            if moved is not None:
                if moved.error * size * SURE > -slope:
                    return None
                ratio = float((moved.gradient + step.pull) @ step.change) / slope
                if ratio >= 0.125 and (ratio <= 0.75 or halving == 0):
                    self._adapt(step, short + gap)
                    return moved
                if ratio > 0.75:
                    base, short = moved.point, short + gap
            gap /= 2
            part = pairs.plus(base, step.change * step.change.dtype.type(gap))
            moved = self.certify(part) if self._inside(part) else None
        return None

    def _adapt(self, step: ProposedStep, length: float) -> None:
        """Look for kinks as far away as the last step was cut to; nearer and nearer while none is cut."""
        reach = length * self.objective.reach(step.change.astype(np.float64))
        self.width = min(self.width, reach) / 8 if length >= 0.5 else 4 * reach


def _landed(point: Pair, change: Array, alive: NDArray[np.bool_]) -> Pair:
    """point + change, exactly zero where the model says so."""
    moved = pairs.plus(point, change)
    return Pair(np.where(alive, moved.high, 0), np.where(alive, moved.low, 0))
