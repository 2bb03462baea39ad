"""From released sums to coefficients and their errors: post-processing (docs/proofs/streams, 10)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from dpstats.cached import cached_property
from dpstats.families import Family
from dpstats.formula.design import DesignSpec
from dpstats.inference import Inference, ModelSpread, NormalLaw
from dpstats.inference.basis import reference_levels, self_adjoint
from dpstats.mechanisms.design import declared_ranges
from dpstats.mechanisms.statistics import Equations, Moments, StatisticsPlan, equations_inference, inference_of
from dpstats.penalties import Penalty
from dpstats.privacy.guarantee import Guarantee
from dpstats.privacy.information.statistics import StatisticsNoise
from dpstats.streaming.constrained import explained_by_noise, gradient_error, minimise, printed_descent
from dpstats.streaming.constraints import Constraint
from dpstats.streaming.vectors import RowVector

Float = NDArray[np.float64]

# Half of the typical |l'''| / l'', see `remainder`; chosen by a benchmark (docs/benchmarks_streams)
REMAINDER_FACTOR = 0.25
MOST_REMAINDER = 0.5  # Errors are withheld where linearisation moves coefficients by more, in standard errors
REMAINDER_MARGIN = 2.0  # Standard errors allow for this multiple of the predicted remainder
# Cap on the (1 + L / alpha)^2 steps of the printed solver, which may be millions at every tick
PRINTED_STEPS = 10_000


@dataclass(frozen=True, eq=False)
class TickFitting:
    """How coefficients follow from sums, fixed without rows."""

    design: DesignSpec
    vector: RowVector
    radius: float  # Public guess at the norm of the coefficients in the metric, which the ridge goes by
    penalty: Penalty | None  # Convex
    constraint: Constraint | None  # Of the coefficients in model units, the intercept aside; in place of the ridge
    solver: str  # For constraints: to a certified gap, or as source 001 prints it
    rows_guess: float  # Public guess at the rows of a tick, for the printed solver's length of steps alone
    guarantee: Guarantee

    @property
    def family(self) -> Family:
        """The loss, every cap filled in."""
        return self.vector.family

    @property
    def penalty_weights(self) -> Float:
        """1 for each column, 0 for the intercept, shape (p,)."""
        return np.array([0.0 if name == "Intercept" else 1.0 for name in self.design.names])

    @cached_property
    def _unit(self) -> StatisticsPlan:
        """The law of the noise at standard deviation 1 of a number."""
        row = self.vector
        square = row.square if row.square > 0 else row.cross
        noise = StatisticsNoise("normal", 1 / row.inner, row.columns, row.cross / row.inner, square / row.inner)
        return StatisticsPlan(self.design, noise, row.metric, self.radius, 0.0, self.guarantee)

    def law(self, deviation: float) -> StatisticsPlan:
        """The law of the noise at the standard deviation `deviation` of a number."""
        return _law(self._unit, deviation)

    def moments(self, released: Float, deviation: float) -> Moments:
        """Sums in model units with the law of their noise, after what the design knows of them; `released` of shape
        (size,) has noise of standard deviation `deviation` in each number."""
        plan = self.law(deviation)
        matrix = self_adjoint(plan.axes @ self.vector.matrix(released) @ plan.axes.T)
        return Moments.of(plan, matrix)

    def released(self, matrix: Float) -> Float:
        """The sums, shape (size,), whose `moments` are a matrix in model units, shape (p + 1, p + 1)."""
        inverse = np.linalg.inv(self._unit.axes)
        return self.vector.entries(inverse @ matrix @ inverse.T)

    def equations(self, moments: Moments) -> Equations:
        """The normal equations of the model."""
        size = len(self.design.names)
        return moments.equations(np.eye(size + 1)[:, :size], np.eye(size + 1)[size])

    def params(self, released: Float, deviation: float, start: Float | None = None, ticks: float = 1.0) -> Float:
        """Coefficients in model units, shrunk as the noise asks for, or in the constraint set, shape (p,).

        A constrained solver begins at `start`; `ticks` are those that the sums are of.
        """
        return self.solve(self.equations(self.moments(released, deviation)), deviation, start, ticks)

    def solve(self, equations: Equations, deviation: float, start: Float | None, ticks: float) -> Float:
        """See `params`."""
        if self.constraint is None:
            return equations.solve(self.radius, self.penalty, self.penalty_weights)
        free = self.penalty_weights == 0
        outer, cross_sd = equations.metric, deviation / self.vector.cross
        if explained_by_noise(equations.moments[~free] / np.sqrt(np.diag(outer)[~free]), cross_sd, self.constraint):
            null = np.zeros(len(free))
            null[~free] = self.constraint.project(null[~free])
            inner = equations.information[np.ix_(free, free)]
            if free.any() and inner[0, 0] > 0:
                across = equations.information[np.ix_(free, ~free)] @ null[~free]
                null[free] = (equations.moments[free] - across) / inner[0, 0]
            return null
        sums = equations.moments, equations.information, self.constraint
        if self.solver != "paper":
            return minimise(*sums, start, free=free)
        # The constants of the printed descent are from public guesses.
        reach, gram_sd = self.constraint.reach, cross_sd * self.vector.cross / (np.sqrt(2) * self.vector.inner)
        error = gradient_error(len(free), cross_sd, gram_sd, reach)
        lipschitz = 2 * ticks * self.rows_guess * (1 + reach)
        return printed_descent(*sums, error=error, lipschitz=lipschitz, start=start, most_steps=PRINTED_STEPS)

    def inference(self, released: Float, deviation: float, off: float = 0.0) -> tuple[Inference, Float]:
        """Coefficients without ridge and penalty, with errors in the user's units; and a basis, as of `inference_of`.

        `off` is a `remainder`: errors grow by the square root of 1 + (`REMAINDER_MARGIN` off)^2.
        """
        moments, size = self.moments(released, deviation), len(self.design.names)
        columns, response = np.eye(size + 1)[:, :size], np.eye(size + 1)[size]
        if self.vector.method == "linear":
            plan = self.law(deviation)
            return inference_of(plan, moments, self.design, (columns, response), None, self.radius)
        basis = reference_levels(self.equations(moments).information, self.design.dummies)
        equations, spread = moments.equations(columns @ basis, response), self.spread(moments)
        transform, shift = self.design.back_transform()
        units, ranges = (transform @ basis, shift), declared_ranges(self.design)
        inference = equations_inference(equations, self.radius, units, lambda *_: spread, ranges=ranges)
        noise = equations.coefficient_noise(inference.estimates.coef)
        positive = equations.steady(self.radius)
        widened = NormalLaw(noise + (REMAINDER_MARGIN * off) ** 2 * (noise + spread.value * positive))
        return replace(inference, estimates=replace(inference.estimates, linear=widened)), basis

    def spread(self, moments: Moments) -> ModelSpread:
        """The dispersion of a renewed model's scores: of counts that of sum l'^2 / sum l'', as released."""
        if self.vector.square == 0:
            return ModelSpread(self.design.score_ratio or 1.0)
        at, constant = self._unit.intercept
        ends = np.eye(len(moments.matrix))[[at, -1]] / [[constant], [1.0]]
        weight, squares = (float(end @ moments.matrix @ end) for end in ends)
        weight_noise, noise = (float(moments.law.bilinear(end[None], end[None])[0]) for end in ends)
        weight = max(weight, float(np.sqrt(weight_noise)))
        phi = squares / weight
        return ModelSpread(phi, float(np.sqrt(noise + moments.square_excess + phi**2 * weight_noise)) / weight)

    def remainder(self, released: Float, deviation: float, params: Float, linearised: Float, weights: Float) -> float:
        """About how far linearisation moves coefficients, in standard errors, for ticks linearised at `linearised`,
        shape (k, p), which stand for `weights` ticks each, shape (k,).

        Standard errors are those without noise, but of counts with it: it is most of them, as the noise is for the
        greatest count and the greatest mean.
        """
        if len(linearised) == 0:
            return 0.0
        moments = self.moments(released, deviation)
        return self.remainder_of(moments, self.equations(moments), params, linearised, weights)

    def remainder_of(
        self, moments: Moments, equations: Equations, params: Float, linearised: Float, weights: Float
    ) -> float:
        """As `remainder`, from sums that are at hand."""
        squares = squared_distances(linearised - params, equations.information) / float(weights.sum())
        # A row of several trials says more than its share of the information does, one of dispersed counts less.
        inverse = invert_information(equations, self.radius) / self.spread(moments).value
        if self.vector.family.response == "count":
            whole = np.linalg.inv(inverse) + equations.coefficient_noise(params)
            inverse = np.asarray(np.linalg.inv(whole), dtype=np.float64)
        return remainder(float(squares @ weights), inverse)


def invert_information(equations: Equations, radius: float) -> Float:
    """The inverse of the stabilised information, shape (p, p)."""
    return np.asarray(np.linalg.inv(equations.steady(radius)), dtype=np.float64)


def squared_distances(apart: Float, information: Float) -> Float:
    """d'H d for each row d of `apart`, shape (k,), 0 where the noise in H makes it negative."""
    return np.asarray(np.maximum(np.sum(apart @ information * apart, axis=1), 0.0))


@lru_cache(maxsize=128)
def _law(unit: StatisticsPlan, deviation: float) -> StatisticsPlan:
    """See `TickFitting.law`: a tick asks a few times for the same, and every draw of a forecast does."""
    return replace(unit, noise=replace(unit.noise, scale=unit.noise.scale * deviation))


def remainder(squares: float, inverse: Float) -> float:
    """The length of H^-1/2 r, r what linearisation leaves out: |r| is about REMAINDER_FACTOR sum d'H d / sqrt(p).

    `squares` is sum d'H d over ticks, d how far off each was linearised; `inverse` that of all ticks' information.
    """
    size = len(inverse)
    return REMAINDER_FACTOR * squares / float(np.sqrt(size)) * float(np.sqrt(np.trace(inverse) / size))


def predicted_excess(
    columns: int, weight: float, deviation: float, row: RowVector, radius: float, rows: float
) -> float:
    """The likely increase of the sum of losses due to noise, with the best ridge and rows spread as in the metric.

    sum over p directions of h s^2 v / (s^2 + h^2 v) / 2 with the information h = rows weight / p, the noise's variance
    s^2 in the equations and the coefficients' v = radius^2 / p; `weight` is a row's typical w.
    """
    information, prior = rows * weight / columns, radius**2 / columns
    noise = deviation**2 * (1 / row.cross**2 + (columns + 1) / columns * radius**2 / (2 * row.inner**2))
    return columns * information * prior * noise / (noise + information**2 * prior) / 2
