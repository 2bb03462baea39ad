"""The fit of a model and marginal effects, with their errors, from released fit statistics
(docs/proofs/fit_statistics)."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import optimize

from dpstats.cached import cached_property
from dpstats.families import Binomial, Family, Gaussian, NegativeBinomial, Poisson
from dpstats.inference import Contrasts, Dummies, Estimates, ModelSpread, similar_rows
from dpstats.inference.estimates import LEVEL, NORMAL
from dpstats.mechanisms.design import Step, averaged_variables, constant_column
from dpstats.mechanisms.fit_statistics import FitSums, MadeUpRows, RowFunctions
from dpstats.plan import Plan
from dpstats.privacy.information import row_weights
from dpstats.results.explained_share import (
    LEAST_WIDTH,
    UNKNOWN_SHARE,
    Figure,
    noise_excess,
    row_figure,
    score_dispersion,
    share_figure,
    squared_errors,
)
from dpstats.results.standard_errors import ReleasedErrors, column_reach, values_together

Vector = NDArray[np.float64]
HalfWidth = Callable[[float], float]

SEED = 20_261_124  # public, of simulated responses and of the draws of noise
DRAWS = 20_000  # of the noise in a figure
TAIL = 100  # the largest draws, which an exponential tail with their mean excess replaces

LIGHTEST = 0.05
"""Simulated rows have at least this share of the median weight, so that a few do not stand for most rows."""

LEAST_MEAN = 1e-3  # the least distance of a mean response from the ends of its range
LARGEST_EFFECT = 300.0  # of a level on the linear predictor, so that its exponential is finite
LAPLACE = math.log(1 / LEVEL) / math.sqrt(2)  # the 95 % point of Laplace noise, in standard deviations
LEAST_GROUP_SDS = 4.0  # comparisons over a group need a count of more standard deviations of its noise
LEAST_MEAN_SDS = 1.0  # predictions of a group need so many: their interval holds for any count (section 5)
DISTANCE_SDS = 3.0  # a mean response nearer to the guess, in standard deviations of its noise, counts as equal
BEYOND_SDS = 0.5  # rows beyond the cap count if their number exceeds so many standard deviations of its noise
BEYOND_EXCESS = 1.5  # the most by which squares of rows beyond the cap exceed the cap's, on average, over it
STEP = 1e-4  # of numerical derivatives, in the linear predictor
LEAST_QUANTILE, LEAST_LEVEL = 1e-9, math.exp(-700.0)  # of the p-values that are sought
FARTHEST = 1e6  # an end of an interval is sought within so many half-widths
CANCELLED = 1e-12  # a weight of a coefficient below this share of the largest one is rounding


def made_up_rows(plan: Plan, params: Vector, errors: ReleasedErrors) -> MadeUpRows | None:
    """Rows with about the moments of the released information, and responses as the model has them.

    None where the intercept is not identified, as for `similar_rows`, or predictors are so large that weights vanish.
    """
    estimates = errors.table.estimates
    base = errors.basis
    cap = weight_cap(plan)
    reach = None if cap is None else column_reach(plan.design) @ np.abs(base)
    design, together = plan.design, values_together(plan.design, base)
    made = similar_rows(estimates.identified, constant_column(design), design.dummies, reach, together)
    if made is None:
        return None
    inner = np.zeros((len(made.rows), len(base)))
    inner[:, estimates.identified.active] = made.rows
    exog: Vector = np.asarray(np.linalg.solve(base.T, inner.T).T, dtype=np.float64)
    family, eta = plan.family, exog @ params
    means = _means(family, eta)
    weights = np.asarray(row_weights(family, eta, means, cap), dtype=np.float64)
    if isinstance(family, Gaussian):
        weights = np.ones_like(weights)
    weights = np.maximum(weights, LIGHTEST * np.median(weights))
    masses = made.mass / weights
    count = float(masses.sum())
    if isinstance(family, Binomial):
        exog, endog = np.vstack((exog, exog)), np.repeat([1.0, 0.0], len(eta))
        masses = np.concatenate((masses * means, masses * (1 - means)))
    else:
        endog = _responses(family, means, score_dispersion(estimates))
    shares: Vector = masses / count
    if not (math.isfinite(count) and np.all(np.isfinite(shares)) and np.all(np.isfinite(endog))):
        return None
    return MadeUpRows(exog, endog, shares, max(count, 1.0))


def derivative(function: Callable[[Vector], Any], eta: Vector) -> Vector:
    """The derivative of a function of the linear predictor, elementwise."""
    return np.asarray((function(eta + STEP) - function(eta - STEP)) / (2 * STEP))


def _means(family: Family, eta: Vector) -> Vector:
    """The mean response, clipped as responses are."""
    means = np.asarray(family.mean(eta), dtype=np.float64)
    return np.asarray(family.clip_response(means) if family.link == "log" else means)


def _responses(family: Family, means: Vector, dispersion: float) -> Vector:
    """Responses of these means as the model has them, shape (m,)."""
    random = np.random.default_rng(SEED)
    if isinstance(family, Gaussian):
        # Logistic, whose tails are those of real residuals rather than a normal law's: they decide where to clip.
        return means + math.sqrt(3 * dispersion) / math.pi * random.logistic(size=len(means))
    if isinstance(family, NegativeBinomial):
        drawn = random.negative_binomial(family.failures, family.failures / (family.failures + means))
    elif dispersion > 1:
        drawn = random.negative_binomial(means / (dispersion - 1) + 1e-12, 1 / dispersion)
    else:
        drawn = random.poisson(means)
    return np.asarray(family.clip_response(drawn.astype(np.float64)))


def row_functions(plan: Plan, params: Vector, made_up: MadeUpRows) -> RowFunctions:
    """The functions of a row to average, at the debiased coefficients."""
    family = plan.family
    null = float(_means(family, made_up.exog @ params) @ made_up.shares)
    if isinstance(family, Binomial):
        null = min(max(null, LEAST_MEAN), 1 - LEAST_MEAN)
    elif family.link == "log":
        null = max(null, LEAST_MEAN)
    known = isinstance(family, Poisson) and weight_cap(plan) is None
    bought = plan.fitstats
    factors, steps, by = averaged_variables(
        plan.design, None if bought is None else bought.variables, None if bought is None else bought.by
    )
    return RowFunctions(family, params, null, factors, known, steps, by, not isinstance(family, Gaussian))


def weight_cap(plan: Plan) -> float | None:
    """The cap on the rows' weights in the information, if it has one of its own."""
    information = plan.stages[-1].plan.information
    return None if information is None else information.purchase.weight_cap


class Effect(NamedTuple):
    """A number and the half-width of its interval as a function of alpha."""

    value: float
    half_width: HalfWidth

    @property
    def se(self) -> float:
        """The half-width of the 95 % interval over 1.96."""
        return self.half_width(LEVEL) / NORMAL

    @property
    def pvalue(self) -> float:
        """The least alpha whose interval excludes zero, so that test and intervals agree at every level."""
        if math.isnan(self.value):
            return math.nan
        # What is no combination of coefficients has no interval at any level.
        return self.half_width.level_of(abs(self.value)) if isinstance(self.half_width, ContrastWidth) else 1.0


@dataclass(frozen=True, eq=False)
class ContrastWidth:
    """The half-width of the interval of a combination of coefficients plus sums, by alpha."""

    contrast: Contrasts  # of one row
    sums: HalfWidth | None = None

    def __call__(self, alpha: float) -> float:
        return self._with_sums(float(self.contrast.half_width(alpha)[0]), alpha)

    def _with_sums(self, alone: float, alpha: float) -> float:
        return alone if self.sums is None else math.hypot(alone, self.sums(alpha))

    def level_of(self, size: float) -> float:
        """The alpha of the interval of half-width `size`; 0 below e^-700.

        It is sought by quantiles of the contrast's law, of which every one tells its alpha: by alpha each step would
        have to search for its quantile.
        """

        def miss(quantile: float) -> float:
            alone = quantile * math.sqrt(float(self.contrast.inflated(np.array([quantile**2]))[0]))
            half = self._with_sums(alone, max(self._level(quantile), LEAST_LEVEL))
            return 0.5 if math.isinf(half) else half / max(half + size, LEAST_WIDTH) - 0.5

        if miss(LEAST_QUANTILE) >= 0:
            return 1.0
        high = 2.0
        while miss(high) < 0:
            if self._level(high) < LEAST_LEVEL:
                return 0.0
            high *= 2
        alpha = self._level(float(optimize.brentq(miss, LEAST_QUANTILE, high, xtol=1e-13)))
        return alpha if alpha >= LEAST_LEVEL else 0.0

    def _level(self, quantile: float) -> float:
        """The alpha whose quantile this is."""
        return min(float(self.contrast.laws.tail(np.array([quantile]))[0]), 1.0)


def contrast_width(estimates: Estimates, row: Vector, sums: HalfWidth | None = None) -> ContrastWidth:
    """The half-width of the interval of a combination of coefficients, weights (k,), plus sums, by alpha."""
    # Weights of averages over rows that cancel leave rounding, on coefficients that are not identified too.
    row = np.where(np.abs(row) > CANCELLED * np.max(np.abs(row), initial=0.0), row, 0.0)
    return ContrastWidth(estimates.contrasts(row[None, :]), sums)


class Derivatives(NamedTuple):
    """The derivatives of a figure by its parts."""

    sums: dict[int, float]  # by the average of a quantity, through its own noise
    by_count: float  # by the number of rows
    normal: float  # the standard deviation of what else it moves with
    group: int | None = None  # over whose rows averages are

    def times(self, factor: float) -> Derivatives:
        """The derivatives of a multiple."""
        sums = {place: factor * one for place, one in self.sums.items()}
        return Derivatives(sums, factor * self.by_count, abs(factor) * self.normal)


class Average(NamedTuple):
    """An average over rows: its value, its parts, and its gradient by the coefficients, shape (p,)."""

    value: float
    parts: dict[int, float]
    gradient: Vector
    moved: tuple[int, ...] = ()  # the coefficients theta' of the level that every row is given, or of the step


@dataclass(frozen=True, eq=False)
class FitStatistics:
    """Figures from released sums at debiased coefficients."""

    plan: Plan
    errors: ReleasedErrors
    functions: RowFunctions
    made_up: MadeUpRows
    sums: FitSums

    @property
    def estimates(self) -> Estimates:
        """The coefficients at which the averages are taken."""
        return self.errors.table.estimates

    @property
    def known(self) -> bool:
        """Whether the number of rows stands out from its noise."""
        return self.sums.count > 2 * self.sums.count_sd

    def knows(self, group: int | None, least: float = LEAST_GROUP_SDS) -> bool:
        """Whether averages over a group are known: it stands out from the noise, and some simulated rows are in it."""
        count, deviation = self.sums.number(group)
        return count > least * deviation and bool(self._shares(group).any())

    def _shares(self, group: int | None) -> Vector:
        """The made-up rows' shares of all rows, or of one group, shape (m,)."""
        if group is None:
            return self.made_up.shares
        inside = self.made_up.shares * (self.functions.group(self.made_up.exog.T) == group)
        return np.asarray(inside / max(float(inside.sum()), 1e-300))

    @cached_property
    def _clipped(self) -> Vector:
        """The part of each quantity of the simulated rows that clipping removes, shape (k, m)."""
        values = self._made_up_values
        inside = [np.clip(value, one.low, one.high) for one, value in zip(self.sums.lattices, values, strict=True)]
        return np.asarray(values - np.array(inside))

    def mean(self, place: int, group: int | None = None) -> float:
        """The average of a quantity over the rows, or over those of one group."""
        return self.sums.mean(place, group) + float(self._clipped[place] @ self._shares(group))

    def rows(self) -> Figure:
        """The number of rows used."""
        return row_figure(self.sums.count, self.sums.count_sd, LAPLACE)

    def explained(self) -> Figure:
        """R2 of least squares, else the share of the deviance that is explained, of the population (section 4)."""
        if isinstance(self.plan.family, Gaussian):
            return self._explained_variance()
        binary = isinstance(self.plan.family, Binomial)
        rest, gain = self.sums.place("null" if binary else "deviance"), self.sums.place("gain")
        assert rest is not None
        assert gain is not None
        if not self.known:
            return UNKNOWN_SHARE
        rows, apart = self.sums.rows(), self._null_distance()
        gained = self.mean(gain) - apart
        total = self.mean(rest) + (-apart if binary else gained)
        if not total > 2 * self.sums.noise(rest):
            return UNKNOWN_SHARE
        dispersion = 1.0 if binary else score_dispersion(self.estimates)
        excess = noise_excess(self.estimates)
        squares = squared_errors(excess, self.estimates, dispersion)
        # Noise lowers the gain by its square, and the sample raises it by its own.
        value = min(max((gained + (2 * excess.mean - squares.mean) / rows) / total, 0.0), 1.0)
        squares = squares.times(1 / (rows * total))
        shares, (beside, each) = self.made_up.shares, self._made_up_values[[rest, gain]]
        # The share rises with the gain, and falls with the null deviance or with what is left of it.
        by_gain, by_rest = (1.0 if binary else 1 - value), -value
        sampled = by_gain * each + by_rest * beside
        scale = max(float((beside if binary else beside + each) @ shares), 1e-300)
        spread = _variance(sampled, shares) / scale**2
        normal = math.sqrt(squares.part(value) * spread / rows + squares.variance)
        count = (by_gain * self.sums.count_effect(gain) + by_rest * self.sums.count_effect(rest)) / total
        half = self.width_of(Derivatives({gain: by_gain / total, rest: by_rest / total}, count, normal))(LEVEL)
        # Coefficients that are not identified are averaged as released: they may explain more than that.
        higher = self.estimates.omitted_gain / (rows * total)
        return share_figure(value, half, squares, higher=higher)

    def _explained_variance(self) -> Figure:
        """R2 of least squares: what is explained by the information, and the residual variance (section 4)."""
        left, estimates, known = self._residual_variance(), self.estimates, constant_column(self.plan.design)
        if left is None or known is None or not self.known:
            return UNKNOWN_SHARE
        (variance, share, deviation), rows, place = left, self.sums.rows(), self.sums.place("deviance")
        assert place is not None
        # w'Hw is the explained sum, at coefficients w whose intercept centres it.
        column, params = known[0], np.array(estimates.debiased)
        params[column] -= float(estimates.information[column] @ params) / estimates.information[column, column]
        squares = squared_errors(noise_excess(estimates, column), estimates, score_dispersion(estimates), centred=True)
        gained = float(params @ estimates.information @ params) - squares.mean
        # Noise in the information also changes the debiased coefficients; noise in the objective changes only them.
        moved = params - 2 * estimates.correction
        noise = float(estimates.matrix.bilinear(params[None], moved[None])[0])
        noise += 4 * float(params @ estimates.linear.covariance @ params)
        total = gained / rows + variance
        error = math.hypot(deviation, share * self.sums.noise(place), math.sqrt(max(noise, 0.0)) / rows)
        if not (variance > 0 and gained > -2 * math.sqrt(noise + squares.variance) and total > 2 * error):
            return UNKNOWN_SHARE
        squares = squares.times(1 / (rows * total))
        rest = min(variance / total, 1.0)
        shares, eta = self.made_up.shares, self.made_up.exog @ self.functions.params
        apart, gain = self.functions.deviances(eta, self.made_up.endog)
        spread = _variance(rest * apart - (apart - gain), shares) / max(float(apart @ shares), 1e-300) ** 2
        linear = squares.part(1 - rest) * (spread / rows + (rest / (rows * total)) ** 2 * noise)
        normal = math.sqrt(linear + squares.variance + ((1 - rest) * deviation / total) ** 2)
        by_deviance = -(1 - rest) / total
        count = share * by_deviance * self.sums.count_effect(place) - rest * gained / rows**2 / total
        half = self.width_of(Derivatives({place: share * by_deviance}, count, normal))(LEVEL)
        # Rows beyond the cap have larger squares than were summed, and the information does not include them.
        value, beyond, cap = 1 - rest, min(self._share_beyond_cap(), 0.5), self.functions.squared_cap
        assert cap is not None
        lower = (1 - rest) * BEYOND_EXCESS * cap * beyond / total
        higher = rest * max(gained, 0.0) / rows * beyond / (1 - beyond) / total
        higher += estimates.omitted_gain / (rows * total)
        return share_figure(value, half, squares, lower, higher)

    def _share_beyond_cap(self) -> float:
        """The share of rows beyond the loss's cap, which the information leaves out; 0 if noise hides them."""
        weight, noise = self._intercept_weight()
        beyond = self.sums.count - weight
        signal = beyond > BEYOND_SDS * math.hypot(noise, self.sums.count_sd)
        return beyond / self.sums.rows() if signal else 0.0

    def _intercept_weight(self) -> tuple[float, float]:
        """The sum of the rows' weights by the intercept's entry of the information, and the deviation of its noise."""
        known, estimates = constant_column(self.plan.design), self.estimates
        assert known is not None
        column, constant = known
        unit = np.zeros((1, estimates.size))
        unit[0, column] = 1.0
        noise = math.sqrt(float(estimates.matrix.bilinear(unit, unit)[0])) / constant**2
        return estimates.information[column, column] / constant**2, noise

    def _residual_variance(self) -> tuple[float, float, float] | None:
        """The residual variance, the share of its sum in it, and the standard deviation of the noise in the rest.

        The sum and phi, weighted by their noise, each if it has all squares up to the loss's cap; None if neither has.
        """
        estimates, place, cap = self.estimates, self.sums.place("deviance"), self.functions.squared_cap
        assert place is not None
        assert cap is not None
        spread, high, rows = estimates.spread, self.sums.lattices[place].high, self.sums.rows()
        has_all, has_phi = high >= cap * (1 - 1e-9), isinstance(spread, ModelSpread) and high <= cap * (1 + 1e-9)
        if not (has_all or has_phi):
            return None
        # Noise in the coefficients adds to squares; those in phi are at the coefficients before debiasing.
        excess, shift = noise_excess(estimates).mean, estimates.correction
        fitted = score_dispersion(estimates) * int(estimates.identified.active.sum())
        summed = self.mean(place) + (fitted - excess) / rows
        if not has_phi:
            return summed, 1.0, 0.0
        assert isinstance(spread, ModelSpread)
        bias = float(shift @ estimates.information @ shift)
        phi = spread.phi + (fitted - excess - bias) / rows
        noise = self.sums.noise(place) ** 2
        share = spread.deviation**2 / max(spread.deviation**2 + noise, 1e-300) if has_all else 0.0
        return share * summed + (1 - share) * phi, share, (1 - share) * spread.deviation

    def _null_distance(self) -> float:
        """The excess of the null deviance because the guessed mean response was wrong (section 4)."""
        functions, sums = self.functions, self.sums
        null = functions.null
        if isinstance(functions.family, Binomial):
            whole = sums.place("null")
            assert whole is not None
            of_zero, of_one = -2 * math.log1p(-null), -2 * math.log(null)
            if abs(of_one - of_zero) < LEAST_MEAN:
                return 0.0
            mean = (self.mean(whole) - of_zero) / (of_one - of_zero)
            noise = sums.noise(whole) / abs(of_one - of_zero)
            mean, bend = min(max(mean, LEAST_MEAN / 2), 1 - LEAST_MEAN / 2), 1 / (null * (1 - null))
        else:
            average = self.average_slope()
            assert average is not None
            mean = max(average[0], LEAST_MEAN / 2)
            noise = self.width_of(average[1]._replace(normal=0.0))(LEVEL) / NORMAL
            bend = 1 / null
            if isinstance(functions.family, NegativeBinomial):
                bend -= 1 / (null + functions.family.failures)
        if abs(mean - null) < DISTANCE_SDS * noise:
            return 0.0
        # Noise in the mean looks like a distance; its mean is subtracted.
        return max(functions.null_distance(mean) - bend * noise**2, 0.0)

    @cached_property
    def _made_up_values(self) -> Vector:
        """Every quantity of the made-up rows, shape (k, m)."""
        columns = self.made_up.exog.T
        return self.functions.values(columns, self.made_up.exog @ self.functions.params, self.made_up.endog)

    def width_of(self, moves: Derivatives) -> HalfWidth:
        """The half-width of an interval by alpha, for Laplace noise and a normal part."""
        drawn = standard_draws(max(moves.sums, default=-1) + 1)
        total = moves.normal * drawn[0] + moves.by_count * self.sums.number(moves.group)[1] * drawn[1]
        for place, derivative in moves.sums.items():
            total += derivative * self.sums.noise(place, moves.group) * drawn[2 + place]
        sizes = np.sort(np.abs(total))
        start = float(sizes[-TAIL])
        excess = float(np.mean(sizes[-TAIL:])) - start

        def half(alpha: float) -> float:
            beyond = alpha * DRAWS / TAIL
            if beyond < 1:
                return start - excess * math.log(beyond)
            # What `np.quantile` has, which would sort again.
            share, place = math.modf((1 - alpha) * (DRAWS - 1))
            low, high = float(sizes[int(place)]), float(sizes[min(int(place) + 1, DRAWS - 1)])
            return low + (high - low) * share if share < 0.5 else high - (high - low) * (1 - share)

        return half

    def average_slope(self) -> tuple[float, Derivatives, Vector] | None:
        """The average slope of the mean, its derivatives by sums, and its gradient by the coefficients, shape (p,).

        None where the link is the identity, and it is 1.
        """
        if self.plan.family.link == "identity":
            return None
        exog, shares = self.made_up.exog, self.made_up.shares
        eta = exog @ self.functions.params
        gradient = (shares * derivative(self.functions.slope, eta)) @ exog
        place = self.sums.place("slope")
        if place is not None and not self.functions.slope_is_known:
            return self.mean(place), self.moves({place: 1.0}), gradient
        rows, (total, deviation) = self.sums.rows(), self._released_slopes()
        normal = math.hypot(deviation / rows, math.sqrt(_variance(self.functions.slope(eta), shares) / rows))
        return total / rows, Derivatives({}, -total / rows**2, normal), gradient

    def _released_slopes(self) -> tuple[float, float]:
        """The sum of slopes at the debiased coefficients as the information has it, and its standard deviation.

        Where l'' is the slope, the sum of l'' x x' on the way times the way is M theta (section 4).
        """
        known, (total, deviation) = constant_column(self.plan.design), self._intercept_weight()
        assert known is not None
        moved = (self.estimates.curvature @ self.estimates.coef)[known[0]] / known[1]
        return float(total + moved), deviation

    def moves(self, weights: dict[int, float], group: int | None = None) -> Derivatives:
        """The derivatives of a combination of averages by noise, number of rows and sample of rows."""
        values, shares = self._made_up_values, self._shares(group)
        total = np.sum([weight * values[place] for place, weight in weights.items()], axis=0)
        count = sum(weight * self.sums.count_effect(place, group) for place, weight in weights.items())
        return Derivatives(weights, count, math.sqrt(_variance(total, shares) / self.sums.rows(group)), group)

    def _gradient(self, exog: Vector, group: int | None) -> Vector:
        """The gradient of the average mean response of a group's rows, (m, p), by the coefficients, shape (p,)."""
        if self.functions.family.link == "identity":
            return np.asarray(self._shares(group) @ exog)
        return np.asarray((self._shares(group) * self.functions.slope(exog @ self.functions.params)) @ exog)

    def fitted_mean(self, group: int | None = None) -> Average | None:
        """The average mean response in model units, over a group or over all rows; None if it was not bought."""
        # With a log link the slope is the mean.
        place = self.sums.place("slope" if self.functions.family.link == "log" else "mean")
        if place is None:
            return None
        return Average(self.mean(place, group), {place: 1.0}, self._gradient(self.made_up.exog, group))

    def level_mean(self, factor: Dummies, column: int | None, group: int | None = None) -> Average:
        """The average mean response were all rows, or those of a group, of one level.

        Without a column of the factor's reference level.
        """
        reference = self.sums.place("reference", factor.columns[0])
        assert reference is not None
        exog = np.array(self.made_up.exog)
        exog[:, list(factor.columns)] = 0.0
        moved = self._moved_by(factor, column)
        before = Average(self.mean(reference, group), {reference: 1.0}, self._gradient(exog, group), moved)
        if column is None:
            return before
        code = factor.codes[factor.columns.index(column)]
        place = self.sums.place("level", column)
        if place is None:  # under a logarithm a level multiplies the mean
            return self._multiplied(before, column, code)
        exog[:, column] = code
        return self._moved(before, place, exog, group)

    def _moved(self, before: Average, place: int, exog: Vector, group: int | None) -> Average:
        """The average mean response of changed rows (m, p): the former one plus the change, a quantity of its own."""
        value = before.value + self.mean(place, group)
        return Average(value, {**before.parts, place: 1.0}, self._gradient(exog, group), before.moved)

    def _multiplied(self, before: Average, column: int, amount: float) -> Average:
        """The average mean response, with a log link, after every row's column gains an amount."""
        times = math.exp(min(float(self.functions.params[column]) * amount, LARGEST_EFFECT))
        gradient = np.array(before.gradient)
        gradient[column] += before.value * amount
        return Average(times * before.value, dict.fromkeys(before.parts, times), times * gradient, before.moved)

    def step_means(self, step: Step, group: int | None = None) -> tuple[Average, Average] | None:
        """The average mean response as it is, and with a number higher by a step; None if it was not bought."""
        before = self.fitted_mean(group)
        if before is None:
            return None
        start = before._replace(moved=(step.column,))
        if self.functions.family.link == "log":
            return before, self._multiplied(start, *step)
        place = self.sums.place("step", step.column)
        if place is None or step not in self.functions.steps:
            return None
        exog = np.array(self.made_up.exog)
        exog[:, step.column] += step.amount
        return before, self._moved(start, place, exog, group)

    def _moved_by(self, factor: Dummies, column: int | None) -> tuple[int, ...]:
        """The coefficient theta' of a level, the reference without a column; none of the level that has none.

        A factor is measured from its commonest level, whose column then stands for the reference.
        """
        turned = [one for one in factor.columns if self.errors.basis[one, one] < 0]
        return tuple(turned) if column is None else () if column in turned else (column,)

    @cached_property
    def _bounded(self) -> NDArray[np.bool_]:
        """Which coefficients theta' have a bounded interval, shape (p,)."""
        return np.isfinite(self.estimates.contrasts(np.eye(self.estimates.size)).se)

    def ends(
        self, average: Average, group: int | None, alpha: float, bounds: tuple[float, float]
    ) -> tuple[float, float]:
        """The interval of an average within bounds: the values from which noise explains its distance (Fieller).

        Noise in the number of rows moves it in proportion to the value, not to the estimate. The one at the estimate
        is too short where that number was too high.
        """

        def excess(distance: float) -> float:
            half = self.half_widths([(average, 1.0)], group, distance)(alpha)
            return -1.0 if math.isinf(half) else abs(distance) - half

        start = self.half_widths([(average, 1.0)], group)(alpha)
        interval = []
        for side, bound in zip((-1.0, 1.0), bounds, strict=True):
            farthest = start if math.isinf(bound) else max(side * (bound - average.value), 0.0)
            while math.isinf(bound) and excess(side * farthest) <= 0 and farthest < FARTHEST * start:
                farthest *= 2
            end = bound
            if farthest > 0 and excess(side * farthest) > 0:
                distance = optimize.brentq(lambda one, side=side: excess(side * one), 0.0, farthest, xtol=1e-6 * start)
                end = average.value + side * float(distance)
            interval.append(min(max(end, bounds[0]), bounds[1]))
        return interval[0], interval[1]

    def half_widths(
        self, parts: Sequence[tuple[Average, float]], group: int | None = None, distance: float = 0.0
    ) -> HalfWidth:
        """The half-width of the interval of a combination of averages, by alpha, at a distance from its estimate.

        Infinite where every row has a level, or takes a step, whose coefficient is not identified. Those that a few
        rows have hardly move an average: the made-up rows have none of them.
        """
        moved = {place for average, _ in parts for place in average.moved}
        if group is not None and (by := self.functions.by) is not None:
            moved.update(self._moved_by(by, by.columns[group - 1] if group else None))
        if not self._bounded[list(moved)].all():
            return lambda alpha: math.inf
        row = np.sum([factor * average.gradient for average, factor in parts], axis=0)
        weights: dict[int, float] = {}
        for average, factor in parts:
            for place, weight in average.parts.items():
                weights[place] = weights.get(place, 0.0) + factor * weight
        inner = np.where(self.estimates.identified.active, row @ self.errors.basis, 0.0)
        moves = self.moves(weights, group)
        moves = moves._replace(by_count=moves.by_count - distance / self.sums.rows(group))
        return contrast_width(self.estimates, inner, self.width_of(moves))


def _variance(values: Vector, shares: Vector) -> float:
    """The variance of values (m,) under these shares."""
    return max(float(values**2 @ shares) - float(values @ shares) ** 2, 0.0)


@lru_cache(maxsize=4)
def standard_draws(quantities: int) -> Vector:
    """Draws of unit variance, the same each time: a normal one, Laplace's for the number of rows and each quantity."""
    random = np.random.default_rng(SEED)
    normal = random.standard_normal((1, DRAWS))
    return np.vstack((normal, random.laplace(scale=math.sqrt(0.5), size=(1 + quantities, DRAWS))))
