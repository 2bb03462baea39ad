"""From what was released to standard errors, in the user's units (docs/proofs/inference)."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dpstats.families import Gaussian, NegativeBinomial
from dpstats.families.hazard import PiecewiseExponential
from dpstats.inference import (
    Estimates,
    Identified,
    Inference,
    JointValues,
    KnownInformation,
    LinearLaw,
    MappedLinear,
    MeanFunction,
    ReleasedLaw,
    RobustSpread,
    SpanNoise,
    Spread,
    average_along_path,
)
from dpstats.inference.basis import Dummies, self_adjoint
from dpstats.inference.inverse import identify
from dpstats.mechanisms.design import Bounds, SubDesign, constant_column, declared_ranges
from dpstats.mechanisms.information import Information, ReleasedSums, known_information
from dpstats.mechanisms.least_squares import whole_model
from dpstats.mechanisms.spec import obstacle
from dpstats.mechanisms.statistics import Moments
from dpstats.mechanisms.statistics import inference_of as moments_inference
from dpstats.plan import Plan
from dpstats.plan.error_notes import lost_errors
from dpstats.privacy.information import relative_exposure, row_weights
from dpstats.privacy.residuals import LEAST_CAP
from dpstats.wording import argument, phrase

Vector = NDArray[np.float64]

CURVED = ("logit", "log")  # links with which the information depends on the linear predictor


class Estimate(NamedTuple):
    """A number and the standard deviation of its noise."""

    value: float
    sd: float


@dataclass(frozen=True, eq=False)
class ReleasedErrors:
    """Errors of the k columns that were fitted last."""

    table: Inference  # of the coefficients in the user's units
    basis: Vector  # T, shape (k, k): model units are center + T times table.estimates
    center: Vector  # where the quadratic term of the fit had its minimum, shape (k,)

    @property
    def nulls(self) -> Vector:
        """The coefficients of ``table.estimates`` at which those in model units are zero, shape (k,)."""
        return np.asarray(-np.linalg.solve(self.basis, self.center), dtype=np.float64)


def inference_of(
    plan: Plan,
    scaled_params: Vector,
    released: Information,
    known: KnownInformation | None = None,
    noise: LinearLaw | None = None,
) -> ReleasedErrors:
    """Debiased coefficients of the columns fitted last, with their errors; `scaled_params` (p,) as released.

    `known` is what is known of the released matrix, and `noise` the law of the coefficients' noise, if at hand.
    """
    stage, columns = plan.stages[-1].plan, np.array(released.columns)
    assert stage.information is not None
    part = SubDesign(plan.design, columns)
    if known is None:
        known = known_information(released.matrix, stage.information.noise, part)
    basis, (transform, shift) = known.basis, part.back_transform()
    rows, center = transform @ basis, stage.shrunk_towards
    coef = np.linalg.solve(basis, scaled_params[columns] - center)
    curvature = self_adjoint(basis.T @ np.diag(stage.curvature) @ basis)
    identified, cap = known.identified, stage.information.purchase.weight_cap
    error = np.zeros(len(coef))
    if plan.family.link in CURVED:
        start, score = np.linalg.solve(basis, scaled_params[columns]), curvature @ coef
        reach = None if cap is None else column_reach(part) @ np.abs(basis)
        together, factors = values_together(part, basis), part.dummies
        averaged = average_along_path(
            identified, start, score, response_of(plan, cap), constant_column(part), factors, reach, together
        )
        error = path_shift(identified, averaged, score)
        # Simulated rows have no offset; the ratio of two exponentials does not depend on it.
        if plan.design.offset_bound == 0 or plan.family.name == "poisson":
            identified, error = averaged, PATH_ERROR * error
    estimates = Estimates(
        coef=coef,
        information=known.matrix,
        curvature=curvature,
        linear=MappedLinear(noise or ReleasedLaw(stage.noise, stage.noise_shape), basis),
        matrix=known.law,
        spread=_rescaled(released.spread, basis, rows, known.identified, identified, clustered_ceiling(plan)),
        typical_size=stage.radius / float(np.sqrt(stage.size)),
        found=identified,
        path_error=error,
        ranges=declared_ranges(part),
    )
    debiased = basis @ estimates.debiased + center
    withheld = stand_ins(plan, debiased, released)
    return ReleasedErrors(Inference(estimates, rows, transform @ center + shift, withheld), basis, center)


def path_shift(before: Identified, after: Identified, score: Vector) -> Vector:
    """How far averaging the information on the way moved the debiased coefficients, shape (p,); 0 if not identified."""
    shift = np.zeros(len(score))
    shift[after.active] = (after.inverse - before.inverse) @ score[after.active]
    return shift


def values_together(design: Bounds, basis: Vector) -> list[JointValues]:
    """Values of columns that move together, of those which are as they are in the coordinates of `basis`."""
    same = np.eye(len(basis))
    return [one for one in design.joint_values if np.array_equal(basis[:, one.columns], same[:, one.columns])]


PATH_ERROR = 0.4
"""The deviation of what averaging the information on the way to the debiased coefficients moves them by, over that."""

STAND_IN = 0.4
"""A column whose effect makes up less of the score that a lasso asks for was chosen for what it shares with others; the
share was set on some designs and confirmed on others (docs/benchmarks_inference)."""


def stand_ins(plan: Plan, debiased: Vector, released: Information) -> NDArray[np.bool_] | None:
    """Which refitted columns the lasso chose for more than their effect, by what was released; (k,), None for none.

    A score of a column is its information times its effect, and what it shares with effects of other columns.
    """
    chooser = plan.stages[-2].plan if plan.stages[-1].role == "refit" else None
    if chooser is None or chooser.penalty is None or not (chooser.penalty.sparse and chooser.penalty.convex):
        return None
    weights = np.zeros(len(plan.names))
    weights[plan.kept] = chooser.penalty_weights  # a screen leaves the lasso some columns
    slopes = chooser.penalty.slope(np.finfo(float).tiny, weights[list(released.columns)])
    proxies = np.abs(debiased) * np.diag(released.matrix) < STAND_IN * slopes
    return proxies if proxies.any() else None


def sums_inference(
    plan: Plan, released: ReleasedSums, nobs: int | None, known: KnownInformation | None = None
) -> ReleasedErrors:
    """Least squares of released sums without the ridge, with its errors (docs/proofs/statistics, 5).

    `known` is what is known of the released information, if at hand.
    """
    statistics, size = plan.objective.statistics, plan.objective.size
    assert statistics is not None
    moments = Moments.of(statistics, released.sums)
    table, basis = moments_inference(
        statistics, moments, statistics.design, whole_model(size), nobs, statistics.radius, known
    )
    return ReleasedErrors(table, basis, np.zeros(size))


def beyond_cap(plan: Plan, released: Information | ReleasedSums | None, rows: tuple[float, float]) -> Estimate | None:
    """The share of the fit's rows with a residual beyond the cap, of about so many with a standard deviation, or None.

    Residuals about a first fit were counted. Else rows within weigh 1 in the information and the others nothing: the
    intercept's entry counts them.
    """
    if plan.residuals is not None and plan.residuals.beyond is not None:
        return Estimate(*plan.residuals.beyond)
    stage, (count, count_sd) = plan.stages[-1].plan, rows
    known = constant_column(plan.design)
    if not isinstance(released, Information) or stage.information is None or known is None or count <= 0:
        return None
    if not isinstance(plan.family, Gaussian) or plan.design.score_ratio != 1.0 or known[0] not in released.columns:
        return None
    at = released.columns.index(known[0])
    unit = count * known[1] ** 2
    share = 1 - float(released.matrix[at, at]) / unit
    noise = math.sqrt(float(stage.information.noise.variances()[at, at])) / unit
    return Estimate(share, math.hypot(noise, (1 - share) * count_sd / count))


def sums_noise(plan: Plan, scaled_params: Vector, released: ReleasedSums) -> Vector:
    """Standard deviation of the noise in each coefficient, to first order, in the user's units, shape (p,).

    Of S^-1 b with S and the law of b as they are at the released values (docs/proofs/statistics, 4).
    """
    statistics = plan.objective.statistics
    assert statistics is not None
    equations = Moments.of(statistics, released.sums).equations(*whole_model(plan.objective.size))
    steady = equations.stabilised(equations.ridge(statistics.radius))
    transform, _ = plan.design.back_transform()
    rows = np.linalg.solve(steady, transform.T).T
    covariance = rows @ equations.coefficient_noise(scaled_params) @ rows.T
    return np.asarray(np.sqrt(np.maximum(np.diag(covariance), 0.0)))


def column_reach(design: Bounds) -> Vector:
    """The largest size of each column of a row, shape (p,)."""
    reach = np.zeros(len(design.names))
    for term in design.terms:
        reach[term.columns] = term.l2
    return reach


def response_of(plan: Plan, weight_cap: float | None = None) -> MeanFunction:
    """How the mean response of a plan's family moves with the linear predictor, beside capped weights.

    Of rows without an offset; with one the ratio of weights is the same, as a row's cap goes with its exposure.
    """
    family, exposure = plan.family, relative_exposure(0.0, plan.design.offset_high)
    weights = partial(row_weights, family, weight_cap=weight_cap, exposure=exposure)

    def means(eta: Vector) -> Vector:
        return np.asarray(family.mean(eta), dtype=np.float64)

    def clipped_means(eta: Vector) -> Vector:
        return np.asarray(family.clip_response(means(eta)), dtype=np.float64)

    if isinstance(family, NegativeBinomial):
        return MeanFunction(clipped_means, weights, lambda eta, endog: np.asarray(family.slope(eta, endog)))
    if isinstance(family, PiecewiseExponential):
        # The matrix is of events: simulated rows are at the end of the path, where l'' is the mean.
        return MeanFunction(means, lambda eta, endog: endog)
    return MeanFunction(means, weights)


DOUBT, MOST_BEYOND = 2.0, 0.5
"""The share of residuals beyond the cap is the noisy one and so many standard deviations at most, and never larger."""


def clustered_ceiling(plan: Plan) -> float:
    """What the variance of a combination of coefficients is at most, in inverse informations (docs/proofs/persons, 4).

    Rows of one person add no more than if they were copies of one row. Infinite where the rows are the records, and
    where the variance of a response follows neither from its mean nor from residuals that were bought.
    """
    record, family, residuals = plan.request.options.record, plan.family, plan.residuals
    if record.column is None:
        return np.inf
    if family.name == "binomial" and family.link == "logit":
        return float(record.rows)
    if not isinstance(family, Gaussian) or residuals is None or residuals.sd is None or residuals.beyond is None:
        return np.inf
    share, deviation = residuals.beyond
    within = 1 - min(max(share + DOUBT * deviation, 0.0), MOST_BEYOND)  # rows beyond the cap add no information
    # A histogram with noise tells too little of a long tail, for which the cap is wide.
    sd = max(residuals.sd / plan.design.response_scaling()[1], (family.residual_cap or 0.0) / LEAST_CAP)
    return float(record.rows * sd**2 / within)


def _rescaled(
    spread: Spread, basis: Vector, rows: Vector, before: Identified, after: Identified, ceiling: float
) -> Spread:
    """The spread of the coefficients `rows`, or of the directions in model units that it has.

    Released variances go with the inverse information, as phi G does.
    """
    if not isinstance(spread, RobustSpread):
        return spread
    if spread.directions is not None:
        rows = spread.directions @ basis
    inner = rows[:, after.active]
    old, new = (np.sum(inner @ one.inverse * inner, axis=1) for one in (before, after))
    factor = np.divide(new, old, out=np.ones_like(old), where=old > 0)
    return RobustSpread(spread.variances * factor, spread.deviations * factor, rows, ceiling)


RARE = 0.5  # a rare level has a released weight below this share of its factor's mean weight


CERTAIN_SDS = 2.0
"""A level is rare for certain, or may be rare, if its released weight is with so much more or less noise."""


def rare_levels(
    design: Bounds, inferred: ReleasedErrors, *, certain: bool
) -> Iterator[tuple[str, Dummies, NDArray[np.bool_]]]:
    """Factors fitted last, with which levels are rare by their released weights, the reference first.

    Unless `certain`, those too that may be.
    """
    doubt = CERTAIN_SDS if certain else -CERTAIN_SDS
    estimates, back = inferred.table.estimates, np.asarray(np.linalg.inv(inferred.basis), dtype=np.float64)
    information, variances = back.T @ estimates.information @ back, estimates.matrix.bilinear(back.T, back.T)
    for factor in (one for one in design.dummies if one.columns):  # one declared level has none
        columns, weights = list(factor.columns), factor.weights(information)
        noise = variances[columns] / np.array(factor.codes) ** 4
        whole = variances[factor.base] / factor.constant**4
        doubted = weights + doubt * np.sqrt(np.concatenate(([whole + noise.sum()], noise)))
        for one in design.terms:
            if one.columns.start <= columns[0] < one.columns.stop:
                yield one.name, factor, doubted < RARE * np.mean(weights)


def rare_factors(design: Bounds, inferred: ReleasedErrors, *, certain: bool) -> set[str]:
    """Factors fitted last of which released weights show a rare level; or, unless `certain`, may hide one."""
    return {name for name, _, rare in rare_levels(design, inferred, certain=certain) if rare.any()}


def rare_references(design: Bounds, inferred: ReleasedErrors) -> list[str]:
    """Terms fitted last of which a common reference would show more than the rare one that they have.

    In the basis that measures each factor from its commonest level (docs/proofs/inference, 4) the column of the old
    reference has no bounded interval, whether or not it is identified, and another level's has one.
    """
    turned = np.diag(inferred.basis) < 0
    if not np.any(turned):
        return []
    bounded, terms = np.isfinite(inferred.table.estimates.contrasts(np.eye(len(turned))).se), []
    for name, factor, rare in rare_levels(design, inferred, certain=True):
        columns = list(factor.columns)
        if rare[0] and np.any(turned[columns] & ~bounded[columns]) and np.any(bounded[columns]):
            terms.append(name)
    return terms


COSTLY = 2.0
"""A reference level is named if from the commonest level the other levels' errors are smaller by so many times."""


def costly_references(design: Bounds, inferred: ReleasedErrors) -> dict[str, int]:
    """Terms fitted last whose reference is rare, with the commonest level's place, from which errors are far smaller.

    The median errors of the levels other than these two are compared, so that one more rare level settles nothing.
    """
    rows, estimates, costly = inferred.table.map, inferred.table.estimates, {}
    for name, factor, rare in rare_levels(design, inferred, certain=True):
        if not rare[0] or len(factor.columns) < 2:
            continue
        back = np.asarray(np.linalg.inv(inferred.basis), dtype=np.float64)
        common = int(np.argmax(factor.weights(back.T @ estimates.information @ back)[1:]))
        chosen = factor.columns[common]
        others = rows[[column for column in factor.columns if column != chosen]]
        now, then = (np.median(estimates.contrasts(one).se) for one in (others, others - rows[chosen]))
        if np.isfinite(then) and COSTLY * then <= now:
            costly[name] = common + 1
    return costly


class HidingTerms(NamedTuple):
    """Terms that are hardly identified, and which other coefficients are uncertain because of them."""

    numbers: list[str]
    factors: list[str]
    hidden: list[int]  # the places of those that without them have an interval, or a far narrower one
    blank: bool  # whether all of these have none
    basis: bool  # whether one of them is a spline or another basis of a number


ABSENT = 1e-9  # of a typical size: nothing is left of what a dropped coefficient may add


WIDENED = 3.0
"""A coefficient counts as hidden too if its error would be less than one over so many times what it is."""

DOUBTED = 12
"""So many of the identified terms with the least information are tried as those that hide others."""


def hiding_terms(design: Bounds, inferred: ReleasedErrors) -> HidingTerms:
    """The terms of dropped coefficients, whose possible effects widen the other intervals (docs/proofs/inference, 4).

    The others are counted that have an interval without these effects, or a far narrower one, as in a model without the
    terms. If there are none a term that is hardly identified may hide them. A factor without a rare level is no cause.
    """
    table, estimates = inferred.table, inferred.table.estimates
    errors, identified = estimates.contrasts(table.map).se, estimates.identified
    dropped = np.flatnonzero(~identified.active)
    parts = {one.name: dropped[(dropped >= one.columns.start) & (dropped < one.columns.stop)] for one in design.terms}
    coded = {place for factor in design.dummies for place in factor.columns}
    factors = {one.name for one in design.terms if one.columns.start in coded}
    common = factors - rare_factors(design, inferred, certain=True)
    parts = {name: places for name, places in parts.items() if len(places) and name not in common}

    def hidden_by(names: Iterable[str], without: Identified = identified) -> NDArray[np.bool_]:
        sizes = np.broadcast_to(np.asarray(estimates.typical_size, dtype=np.float64), (estimates.size,)).copy()
        sizes[[place for name in names for place in parts[name]]] *= ABSENT
        absent = replace(estimates, typical_size=sizes, found=without).contrasts(table.map).se
        return np.isfinite(absent) & (errors > WIDENED * absent)

    hidden, named = hidden_by(parts), list(parts)
    # Those that are enough by themselves, if any are.
    if hidden.any() and (alone := [name for name in parts if hidden_by([name]).any()]):
        hidden, named = hidden_by(alone), alone
    # The intercept stays, and is dropped for the sake of a column. Robust variances are of what is identified alone.
    if estimates.is_model and (not hidden.any() or named == ["Intercept"]):
        hidden = np.zeros_like(hidden)
        places = {one.name: np.arange(one.columns.start, one.columns.stop) for one in design.terms}
        doubted = [one for one in places if one not in {"Intercept", *common} and identified.active[places[one]].all()]
        for name in sorted(doubted, key=lambda name: float(identified.ratios[places[name]].min()))[:DOUBTED]:
            parts[name] = places[name]
            others = hidden_by([name], identify_without(estimates, places[name]))
            if np.sum(others) > np.sum(hidden):
                hidden, named = others, [name]
    factors |= {name for name in named if factors.issuperset(name.split(":"))}  # and their interactions
    numbers = [name for name in named if name not in {*factors, "Intercept"}]
    sizes = {one.name: len(one.maxima) for one in design.terms}
    basis = any(sizes[name] > 1 for name in numbers)
    blank = not np.isfinite(errors[hidden]).any()
    coefficients = np.flatnonzero(hidden).tolist()
    return HidingTerms(numbers, [name for name in named if name in factors], coefficients, blank, basis)


def identify_without(estimates: Estimates, places: NDArray[np.intp]) -> Identified:
    """What is identified in a model without some columns, whose effects would be zero."""
    kept = np.setdiff1d(np.arange(estimates.size), places)
    part = identify(estimates.information[np.ix_(kept, kept)], estimates.matrix.restrict(kept))
    active, ratios, inflations = np.zeros(estimates.size, dtype=bool), np.zeros(estimates.size), np.ones(estimates.size)
    active[kept], ratios[kept], inflations[kept] = part.active, part.ratios, part.inflations
    return replace(part, active=active, ratios=ratios, inflations=inflations)


def selects(plan: Plan) -> bool:
    """Whether the penalty sets coefficients to zero."""
    return plan.request.penalty is not None and plan.request.penalty.sparse


def releases_errors(plan: Plan) -> bool:
    """Whether standard errors follow from what a plan releases."""
    return plan.objective.statistics is not None or plan.stages[-1].plan.information is not None


def information_law(plan: Plan) -> SpanNoise | None:
    """The law of the noise of the information that a plan releases, by itself or in sums."""
    stage = plan.stages[-1].plan
    if stage.statistics is not None:
        law = stage.statistics.law
        return SpanNoise(law.metric[:-1, :-1], law.variance)
    if stage.information is None:
        return None
    noise = stage.information.noise
    return SpanNoise(noise.metric, noise.entry_variance)


def missing_information(plan: Plan) -> str:
    """Why a result has no errors, and what to do."""
    if plan.request.method == "statistics" and selects(plan):
        return (
            "not released: errors are not valid after a selection by the same statistics; statistics.fit(formula) "
            "without the penalty has them at no charge"
        )
    napp, paid = argument("method", "napp"), argument("inference", True)
    if plan.focus is not None:
        return (
            f"not released: this call asked for one treatment's interval, fit.focus(); leave {argument('focus')} out "
            "for standard errors of the whole table"
        )
    if plan.request.method == "output":
        return (
            f"not released: {argument('method', 'output')} releases coefficients alone, and noise_at_most is the exact "
            f"standard deviation of the noise in them; {napp} releases standard errors"
        )
    if plan.request.method == "posterior":
        return (
            f"not released: {argument('method', 'posterior')} releases one draw alone; {napp} releases standard errors"
        )
    if plan.request.options.inference is None and plan.guarantee.basis == "docs/proofs/tuning":
        return (
            "not released: dp.tune releases coefficients alone, since errors do not account for the choice of the "
            "settings; dp.tune(..., inference=True) releases them all the same, and a fit of the chosen settings "
            "to other rows (dp.holdout) has valid ones"
        )
    counts = plan.counts
    if plan.request.options.inference is None and counts is not None and counts.settles_errors:
        return (
            f"not released: too few {counts.of} were counted for errors to be worth their price; {paid} insists on "
            f"them, and {phrase('summary()', shell='the summary')} says what would be enough"
        )
    if plan.request.options.inference is None:
        none = argument("inference", None)
        return f"not released: this call asked for coefficients alone; leave {none} out, or pass {paid}"
    reason = obstacle(plan.family, plan.request.penalty, plan.request.options)
    if reason is not None:
        return f"not released: inference {reason}"
    if (lost := lost_errors(plan)) is not None:
        return f"not released: {lost}"
    return (
        "not released: the coefficients took the whole budget, and this model has no free standard errors; pass "
        f"{paid} to share the budget ({phrase('dp.plan', shell='python -m dpstats plan')} shows the price)"
    )
