"""How many rows would give nearly every coefficient an interval, and whether so many give any, by the closed form that
settles adaptive plans."""

from __future__ import annotations

import contextlib
from dataclasses import replace

import numpy as np

from dpstats.errors import DPStatsError
from dpstats.formula.design import DesignSpec
from dpstats.models.adaptive import carried_out
from dpstats.models.expectations import DRAWS, LEAST_SHARE, Expectation, Populations, comparable
from dpstats.models.forecast_by_rows import Choices
from dpstats.models.population import RICH, USUAL, ColumnPrior, KnownColumns
from dpstats.models.supposed_rows import mean_information, row_means, sample_rows, weight_cap
from dpstats.plan import Plan, replan_request, with_settled_law
from dpstats.results.error_advice import LARGEST_COUNT_ERROR, favourable_columns, knotted_columns, rows_or_eps
from dpstats.results.model import NeededRows
from dpstats.results.standard_errors import releases_errors
from dpstats.wording import argument

ENOUGH = 0.9
"""Of the coefficients, expected to have an interval if columns are spread as usual."""

INFORMATIVE = replace(RICH, count=0.3)
"""Rows that say so much; counts near the greatest one say more than common ones."""

MOST_JUDGED = 100.0
"""With so many rows times eps for each column nothing is forecast: up to 100 columns some would have an error."""

CLOSE = 1.1
"""A number of rows is sought to this factor."""

MOST_DOUBLINGS = 20
"""So many times the rows are doubled before the search ends."""


def needed_rows(plan: Plan, rows: float) -> NeededRows | None:
    """For a plan that has not been carried out, and about so many rows; None where nothing can be forecast.

    Levels are supposed common, and numbers to fill a usual part of their ranges.
    """
    with contextlib.suppress(DPStatsError, ArithmeticError, np.linalg.LinAlgError), np.errstate(all="ignore"):
        options = plan.request.options
        if options.inference is None:
            plan = replan_request(plan, replace(with_settled_law(plan), options=replace(options, inference=True)))
        choices, rows = Choices(plan), max(rows, 1.0)
        dearest = choices.candidates[-1]
        if not (comparable(plan) and releases_errors(dearest)):
            return None
        expected = _expectation(dearest, USUAL)

        def suffices(n: float) -> bool:
            return expected.of(n * (1 - choices.share(n, dearest))).share >= ENOUGH

        high = next((n for n in (rows * 2.0**k for k in range(MOST_DOUBLINGS)) if suffices(n)), None)
        low = rows if high is None else max(high / 2, rows)
        while high is not None and high > CLOSE * low:
            middle = float(np.sqrt(low * high))
            low, high = (low, middle) if suffices(middle) else (middle, high)
        return NeededRows(rows, high)
    return None


def too_few_rows(plan: Plan, rows: float) -> str | None:
    """Why to make no fit that insists on errors, where hardly any slope will have one though all columns say much.

    None where nothing can be forecast. If `rows` were counted there may be a standard deviation more: seven of eight
    counts hide no more.
    """
    inference, counts = plan.request.options.inference, plan.counts
    deviation = 0.0 if counts is None or counts.rows is None else counts.rows_sd
    most = max(rows, 1.0) + deviation
    enough_rows = most * plan.request.row_eps >= MOST_JUDGED * len(plan.names)
    if inference in (None, "auto") or enough_rows or not _hopeless(plan, most):
        return None
    needed, enough = needed_rows(plan, rows), ""
    if needed is not None and needed.usual is not None and not knotted_columns(plan):
        rough = deviation > LARGEST_COUNT_ERROR * rows
        enough = f" Nearly all of them usually need about {rows_or_eps(needed, plan, rough=rough)}."
    of = plan.request.options.record.of
    counted = f"{max(rows, 0):,.0f} {of}{f' by a count with noise of s.d. {deviation:,.0f}' if deviation else ''}"
    return (
        f"the {of} are too few for {argument('inference', inference)}: with {counted}, hardly any coefficient is "
        f"expected to have a standard error, even if {favourable_columns(plan)}.{enough} Fewer "
        f"columns help too. {argument('inference', None)} releases coefficients alone, and "
        f"{argument('on_mismatch', 'go')} fits in any case"
    )


def _hopeless(plan: Plan, rows: float) -> bool:
    with contextlib.suppress(DPStatsError, ArithmeticError, np.linalg.LinAlgError), np.errstate(all="ignore"):
        # What the rows make of the plan takes longer, and is looked at where it may matter alone.
        dearest = Choices(plan).candidates[-1]
        return comparable(plan) and _too_few(dearest, rows) and _too_few(carried_out(plan, rows), rows)
    return False


def _too_few(plan: Plan, rows: float) -> bool:
    return releases_errors(plan) and _expectation(plan, INFORMATIVE).slopes(rows) < LEAST_SHARE


def _expectation(plan: Plan, prior: ColumnPrior) -> Expectation:
    """What is expected of a plan's rows if their columns are spread so."""
    assert isinstance(plan.design, DesignSpec)
    cap = weight_cap(plan)
    known = KnownColumns.from_arguments(plan.design, None, None)
    rows = sample_rows(plan.design, plan.family, known, prior, None, DRAWS)
    information, means = mean_information(plan.family, rows, cap), row_means(plan.family, rows, cap)
    return Expectation(plan, Populations(information, lambda: information, means, plan.design.response_scaling()))
