"""How many rows would give nearly every coefficient an interval, by the closed form that settles adaptive plans."""

from __future__ import annotations

import contextlib
from dataclasses import replace

import numpy as np

from dpstats.errors import DPStatsError
from dpstats.formula.design import DesignSpec
from dpstats.models.adaptive import DRAWS, Choices, Populations, expected_outlook, foreseeable, populations_of
from dpstats.models.forecast import mean_information, releases_errors, row_means, sample_rows, weight_cap
from dpstats.models.population import USUAL, KnownColumns
from dpstats.plan import Plan, replan_request, with_settled_law
from dpstats.results.model import NeededRows

ENOUGH = 0.9
"""Of the coefficients, expected to have an interval."""

CLOSE = 1.1
"""A number of rows is sought to this factor."""

MOST_DOUBLINGS = 20
"""So many times the rows are doubled before the search ends."""


def usual_rows(plan: Plan) -> Populations:
    """What a row adds in the mean where levels are common and numbers fill a usual part of their ranges."""
    assert isinstance(plan.design, DesignSpec)
    known, cap = KnownColumns.from_arguments(plan.design, None, None), weight_cap(plan)
    usual = sample_rows(plan, known, USUAL, None, DRAWS)
    information = mean_information(plan.family, usual, cap)
    return Populations(information, row_means(plan.family, usual, cap), plan.design.response_scaling())


def needed_rows(plan: Plan, rows: float) -> NeededRows | None:
    """For a plan that has not been carried out, and about so many rows; None where nothing can be foreseen."""
    with contextlib.suppress(DPStatsError, ArithmeticError, np.linalg.LinAlgError), np.errstate(all="ignore"):
        options = plan.request.options
        if options.inference is None:
            plan = replan_request(plan, replace(with_settled_law(plan), options=replace(options, inference=True)))
        choices = Choices(plan)
        dearest = choices.candidates[-1]
        if not (foreseeable(plan) and releases_errors(dearest)):
            return None
        rows, usual = max(rows, 1.0), usual_rows(dearest)

        def share(n: float, means: Populations = usual) -> float:
            return expected_outlook(dearest, means, n * (1 - choices.share(n))).share

        sure, now = share(rows, populations_of([dearest])[0]), share(rows)
        high = next((n for n in (rows * 2.0**k for k in range(MOST_DOUBLINGS)) if share(n) >= ENOUGH), None)
        if high is None:
            return NeededRows(rows, sure, now, None)
        low = max(high / 2, rows)
        while high > CLOSE * low:
            middle = float(np.sqrt(low * high))
            low, high = (low, middle) if share(middle) >= ENOUGH else (middle, high)
        return NeededRows(rows, sure, now, high)
    return None
