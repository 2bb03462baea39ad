"""The share of the variance or the deviance that a model explains, by the errors of its slopes and by released sums
(docs/proofs/fit_statistics, 4 and 6)."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dpstats.inference import Estimates, ModelSpread
from dpstats.inference.estimates import NORMAL
from dpstats.mechanisms.information import ReleasedSums
from dpstats.mechanisms.least_squares import whole_model
from dpstats.mechanisms.statistics import Moments, noisy_count
from dpstats.plan import Plan
from dpstats.results.standard_errors import ReleasedErrors

Vector = NDArray[np.float64]

LEAST_WIDTH = 1e-300  # a divisor is at least this


class Figure(NamedTuple):
    """A number with its standard error, the half-width of its 95 % interval over 1.96, and the interval."""

    value: float
    se: float
    low: float
    high: float


UNKNOWN_SHARE = Figure(math.nan, math.inf, 0.0, 1.0)


def debiased_params(errors: ReleasedErrors) -> Vector:
    """Debiased coefficients in model units, shape (p,), as released where they are not identified."""
    return errors.center + errors.basis @ errors.table.estimates.debiased


def score_dispersion(estimates: Estimates) -> float:
    """phi, or the factor that takes its place in robust errors."""
    spread = estimates.spread
    if isinstance(spread, ModelSpread):
        return spread.value
    known = np.isfinite(spread.variances) & (np.asarray(spread.variances) > 0)
    rows = np.eye(estimates.size) if spread.directions is None else spread.directions
    inner = rows[:, estimates.identified.active]
    plain = np.sum(inner @ estimates.identified.inverse * inner, axis=1)
    known &= plain > 0
    return float(np.median(spread.variances[known] / plain[known])) if known.any() else 1.0


class SquaredErrors(NamedTuple):
    """The mean and the variance of a quadratic form of the errors of coefficients."""

    mean: float
    variance: float

    def times(self, factor: float) -> SquaredErrors:
        """Those of a multiple."""
        return SquaredErrors(factor * self.mean, factor**2 * self.variance)

    def part(self, share: float) -> float:
        """The part of what estimated slopes explain that is not their errors', of a share without these."""
        return share / max(share + self.mean, LEAST_WIDTH)

    @property
    def slope(self) -> float:
        """The variance of the linear part of the error per unit of the share: 4 b'QVQb over b'Qb, b as errors lie."""
        return 2 * self.variance / max(self.mean, LEAST_WIDTH)


def noise_excess(estimates: Estimates, intercept: int | None = None) -> SquaredErrors:
    """What noise in the coefficients adds to the deviance; without what it adds by the column of an intercept."""
    identified, active = estimates.identified, estimates.identified.active
    shift, inverse = estimates.correction[active], identified.inverse
    if intercept is not None and active[intercept]:
        place = int(np.sum(active[:intercept]))
        inverse = inverse.copy()
        inverse[place, place] -= 1 / estimates.information[intercept, intercept]
    debiasing = float(np.sum(inverse * identified.law.square(np.outer(shift, shift))))
    moved = inverse @ estimates.linear.covariance[np.ix_(active, active)]
    mean = float(np.trace(moved)) + debiasing
    if estimates.draws is None:
        return SquaredErrors(mean, 2 * float(np.sum(moved * moved.T)))
    drawn = estimates.draws[:, active]
    return SquaredErrors(mean, float(np.var(np.sum(drawn @ inverse * drawn, axis=1))))


def squared_errors(
    noise: SquaredErrors, estimates: Estimates, dispersion: float, *, centred: bool = False
) -> SquaredErrors:
    """What noise and sample move the explained sum by to second order (docs/proofs/fit_statistics, 4).

    By the squares of both: `noise` is `noise_excess`. For the `centred` w'Hw of least squares their product counts too.
    """
    slopes = max(int(estimates.identified.active.sum()) - 1, 0)
    product = 4 * dispersion * noise.mean * centred
    return SquaredErrors(noise.mean + dispersion * slopes, noise.variance + 2 * dispersion**2 * slopes + product)


def share_figure(value: float, half: float, squares: SquaredErrors, lower: float = 0.0, higher: float = 0.0) -> Figure:
    """An explained share with its interval within [0, 1], from the half-width with the variance at its estimate.

    At an end the part of the variance that grows with the share is that of the middle between end and estimate: the
    interval of the root of a share, which has the same variance everywhere (docs/proofs/fit_statistics, 4).
    """
    turn = NORMAL**2 * squares.slope * (1 - value) / 4
    half = math.hypot(half, turn)
    low, high = max(value + turn - half - lower, 0.0), min(value + turn + half + higher, 1.0)
    return Figure(value, (half + (lower + higher) / 2) / NORMAL, low, high)


def counted_rows(plan: Plan, released: ReleasedSums, nobs: int | None) -> Figure:
    """The number of rows by the released sums."""
    statistics = plan.objective.statistics
    assert statistics is not None
    counted = noisy_count(statistics, Moments.of(statistics, released.sums), nobs)
    return row_figure(counted.count, counted.deviation, NORMAL)


def row_figure(count: float, deviation: float, quantile: float) -> Figure:
    """A number of rows with its interval; `quantile` is the 95 % point of its noise, in standard deviations."""
    half = quantile * deviation
    return Figure(count, deviation, max(count - half, 0.0), max(count + half, 0.0))


def explained_by_sums(plan: Plan, released: ReleasedSums, errors: ReleasedErrors, nobs: int | None) -> Figure:
    """R2 of released sums, which costs nothing more (docs/proofs/fit_statistics, 6)."""
    statistics, estimates = plan.objective.statistics, errors.table.estimates
    assert statistics is not None
    moments = Moments.of(statistics, released.sums)
    counted = noisy_count(statistics, moments, nobs)
    if counted.count <= 2 * counted.deviation:
        return UNKNOWN_SHARE
    columns, response = whole_model(plan.objective.size)
    at, _ = statistics.intercept
    constant = columns[:, at]
    level = float(constant @ moments.matrix @ response) / float(constant @ moments.matrix @ constant)
    centred = response - level * constant
    total = float(centred @ moments.matrix @ centred)
    noise = float(moments.law.bilinear(centred[None], centred[None])[0]) + statistics.square_excess
    if total <= 2 * math.sqrt(max(noise, 0.0)):
        return UNKNOWN_SHARE
    # The sum about the mean has a degree of freedom less than rows.
    left = min(max(score_dispersion(estimates) * max(counted.count - 1, 0.0) / total, 0.0), 1.0)
    noisy = noise_excess(estimates, at)
    squares = squared_errors(noisy, estimates, score_dispersion(estimates), centred=True).times(1 / total)
    residual = response - columns @ debiased_params(errors)
    # u'Eu - k w'Ew is (u - k^1/2 w)'E(u + k^1/2 w).
    apart, together = residual - math.sqrt(left) * centred, residual + math.sqrt(left) * centred
    noise = float(moments.law.bilinear(apart[None], together[None])[0]) + (1 - left) ** 2 * statistics.square_excess
    sampled = 4 * (1 - left) * left**2 / counted.count
    value, higher = 1 - left, estimates.omitted_gain / total
    se = math.sqrt(squares.part(value) * max(noise, 0.0) / total**2 + sampled + squares.variance)
    return share_figure(value, NORMAL * se, squares, higher=higher)
