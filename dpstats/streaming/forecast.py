"""Standard errors to be expected of a stream, from public facts alone: no row is read and nothing spent."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from dpstats.formula.design import DesignSpec
from dpstats.formula.submodels import SEED
from dpstats.frames import ForecastFrame
from dpstats.models.forecast import HALF, LEAST_NOISES, noises
from dpstats.models.forecast_assumptions import residual_in_model_units, response_assumption
from dpstats.models.population import KnownColumns
from dpstats.models.supposed_rows import DRAWS, RowMeans, row_means, sample_rows, supposed
from dpstats.quiet import quiet
from dpstats.streaming.burn_in import EARLY, STARTS, choose_burn_in
from dpstats.streaming.fit import MOST_REMAINDER, TickFitting
from dpstats.wording import phrase

if TYPE_CHECKING:
    from dpstats.streaming.plan import StreamPlan

Float = NDArray[np.float64]

NO_NOISE = 1e-9
"""Part of the noise that hides nothing of what rows tell."""


EARLY_COUNTS = (
    "For counts, identified is not forecast (NaN). A stream of counts has no standard errors if its ticks were "
    "linearised too far from its coefficients, and two or three times those forecast if nearly so. Both are rarer with "
    "family=dp.families.Poisson(mean_cap=...) near the largest usual mean."
)


def forecast_errors(
    plan: StreamPlan,
    rows: float,
    tick: int,
    window: int | None,
    residual_sd: float | None,
    typical: object,
    like: object,
) -> pd.DataFrame:
    """Errors of the regression of a tick, or of the last `window` ticks, each of so many rows.

    Rows are supposed as for `Plan.standard_errors`. They are linearised at their own coefficients, but public rows with
    a 0/1 response as a stream does it.
    """
    fitting, deviation, ticks = plan.fitting, plan.deviation(tick), plan.weighed(tick)
    if window is not None:
        ticks, deviation = window, plan.interval_deviation(tick - window, tick)
    design = fitting.design
    known = KnownColumns.from_arguments(design, typical, like)
    # Effects that are supposed are strong: with them first ticks would look worse than they are.
    follows = window is None and plan.may_start_late and plan.family.response == "binary" and known.has_response(design)
    residual = residual_in_model_units(fitting, known, residual_sd)
    priors, means, random = supposed(design, known, response=residual is None), [], np.random.default_rng(SEED)
    with quiet():
        for prior in (one for one in priors.values() if one.strength == 1.0):
            sample = sample_rows(design, fitting.family, known, prior, residual, DRAWS)
            if fitting.vector.method == "linear":  # whose sums are of what the offset leaves of the response
                eta, endog = sample.eta - sample.offset, sample.endog - sample.offset
                sample = sample._replace(offset=np.zeros(len(eta)), eta=eta, endog=endog)
            means.append(row_means(fitting.family, sample, None))
        if follows:
            forecasts = [_errors_of_stream(plan, one, rows, tick, random) for one in means]
        else:
            forecasts = [_errors(fitting, one, rows * ticks, deviation, random) for one in means]
        sampling = [
            fitting.inference(_sums(fitting, one, rows * ticks), NO_NOISE * deviation)[0].se
            for one in (means if "known" in priors else means[:1])
        ]
    if "known" in priors:  # errors are those of the worse kind of columns
        forecasts = [(np.maximum.reduce([errors for errors, _ in forecasts]), forecasts[0][1])]
    usual, upper = forecasts[0], forecasts[-1]
    counts = fitting.family.response == "count"
    # Draws of the noise know nothing of how far ticks are linearised from the coefficients.
    chances = [np.full(len(chance), np.nan) if counts else chance for _, chance in (usual, upper)]
    columns = {
        "std_error": usual[0],
        "lower": np.minimum.reduce([errors for errors, _ in forecasts]),
        "upper": np.maximum(usual[0], upper[0]),
        "sampling": np.maximum.reduce(sampling),
        "identified": chances[0],
        "identified_upper": chances[1],
    }
    table = ForecastFrame(columns, index=pd.Index(list(design.names), name="term"))
    notes = [response_assumption(fitting, [one.response for one in means], means[0].deviation)]
    if counts:
        notes.append(EARLY_COUNTS)
    if fitting.family.response == "continuous" and not known.has_response(design):
        notes.append(_level_note(design, known.has(design.parsed.response_columns)))
    table.attrs["note"] = " ".join(filter(None, notes))
    return table


def _sums(fitting: TickFitting, means: RowMeans, rows: float) -> Float:
    """The sums of rows that are as their mean, shape (size,)."""
    matrix = means.moments
    if fitting.vector.method != "linear":
        cross = means.information @ means.coef
        matrix = np.block([[means.information, cross[:, None]], [cross[None], np.array([[means.square]])]])
    return fitting.released(rows * matrix)


def _errors(fitting: TickFitting, means: RowMeans, rows: float, deviation: float, random: Any) -> tuple[Float, Float]:
    """Errors in the middle of draws of noise, inf where most leave none, and the share that leave one, each (p,)."""
    sums = _sums(fitting, means, rows)
    drawn = [
        fitting.inference(sums + deviation * random.standard_normal(len(sums)), deviation)[0].se
        for _ in range(noises(len(fitting.design.names)))
    ]
    return _middle(drawn)


def _middle(drawn: list[Float]) -> tuple[Float, Float]:
    """Errors in the middle of draws, inf where most leave none, and the share that leave one, each (p,)."""
    errors = np.where(np.isfinite(drawn), drawn, np.inf)
    chance = np.isfinite(errors).mean(axis=0)
    return np.where(chance < HALF, np.inf, np.quantile(errors, 0.5, axis=0, method="lower")), chance


def _errors_of_stream(plan: StreamPlan, means: RowMeans, rows: float, tick: int, random: Any) -> tuple[Float, Float]:
    """As `_errors`, of streams of so many rows a tick whose first ticks are linearised at poor coefficients.

    Coefficients are released at some of the first ticks only, and stay until the next of them.
    """
    fitting, size, solved_at = plan.fitting, len(plan.names), {*STARTS, tick}
    places = [*range(1, min(tick, EARLY) + 1), *([tick] if tick > EARLY else [])]
    mean, root = _sums(fitting, means, rows), _root(plan.sums.covariance([(0, place) for place in places]))
    # Sampling moves the coefficients at which ticks are linearised as noise does.
    scores = np.array([fitting.released(np.outer(*ends) + np.outer(*ends[::-1])) for ends in _score_places(size)])
    score_root, lengths = _root(rows * means.information), np.diff([0, *places])
    drawn = []
    for _ in range(LEAST_NOISES):
        sampled = np.sqrt(lengths)[:, None] * random.standard_normal((len(places), size)) @ score_root.T
        totals = np.outer(places, mean) + np.cumsum(sampled, axis=0) @ scores
        totals += root @ random.standard_normal((len(places), len(mean)))
        every, params = [np.zeros_like(mean), *totals], [np.zeros(size)]
        for number, place in enumerate(places, 1):
            latest = params[-1]
            if place in solved_at:
                start, sums, latest = choose_burn_in(
                    plan, every[: min(number, EARLY + 1)], params, place, every[number]
                )
            if place < tick:
                params.append(latest)
        points = np.array(params[start:])
        weights = np.ones(len(points))
        weights[-1] += tick - start - len(points)
        deviation = plan.interval_deviation(start, tick)
        off = fitting.remainder(sums, deviation, latest, points, weights)
        table = fitting.inference(sums, deviation, off)[0]
        drawn.append(table.se if off <= MOST_REMAINDER else np.full(size, np.inf))
    return _middle(drawn)


def _score_places(size: int) -> list[tuple[Float, Float]]:
    """Unit vectors of a coefficient and of the response in the matrix of sums, for each coefficient."""
    units = np.eye(size + 1)
    return [(units[place], units[size]) for place in range(size)]


def _root(covariance: Float) -> Float:
    """R with R R' = C, of a matrix that may be singular."""
    values, vectors = np.linalg.eigh(covariance)
    return np.asarray(vectors * np.sqrt(np.maximum(values, 0.0)), dtype=np.float64)


def _level_note(design: DesignSpec, described: bool) -> str:
    """What a forecast for a numeric response without public rows does not know, and what to type."""
    name, column = design.response_name, design.parsed.response_columns[0]
    exact = phrase("Public rows with the response (like=) make it nearly exact.", shell="")
    if described:
        return f"The effects on {name} are not known: the intercept's standard error may be 1.3 times this. {exact}"
    advice = phrase(f"typical={{{column!r}: (mean, sd)}} tells it.", shell=f"--typical '{column}=[mean, sd]' tells it.")
    return (
        f"The level of {name} is not known: where its mean is far from the middle of its range, standard errors may be "
        f"1.5 times these, and the intercept's twice. {advice} {exact}"
    )
