"""How many rows would give nearly every coefficient an interval, by the closed form that settles adaptive plans."""

from __future__ import annotations

import contextlib
from dataclasses import replace

import numpy as np

from dpstats.errors import DPStatsError
from dpstats.formula.design import DesignSpec
from dpstats.models.adaptive import DRAWS, Choices, Expectation, Populations, comparable, populations_of
from dpstats.models.forecast import mean_information, releases_errors, row_means, sample_rows, weight_cap
from dpstats.models.population import USUAL, KnownColumns
from dpstats.plan import Plan, replan_request, with_settled_law
from dpstats.results.model import NeededRows

ENOUGH = 0.9
"""Of the coefficients, expected to have an interval if columns are spread as usual."""

CAUTIOUS = 0.99
"""And if they say little: columns may go together more than is supposed."""

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
        if not (comparable(plan) and releases_errors(dearest)):
            return None
        rows = max(rows, 1.0)

        def enough(means: Populations, part: float) -> float | None:
            """So many rows, or more, of which this part of the coefficients is expected to have an interval."""
            expected = Expectation(dearest, means)

            def suffices(n: float) -> bool:
                return expected.of(n * (1 - choices.share(n))).share >= part

            high = next((n for n in (rows * 2.0**k for k in range(MOST_DOUBLINGS)) if suffices(n)), None)
            low = rows if high is None else max(high / 2, rows)
            while high is not None and high > CLOSE * low:
                middle = float(np.sqrt(low * high))
                low, high = (low, middle) if suffices(middle) else (middle, high)
            return high

        insists = options.inference is not True
        # Of counts that are poor nothing is foreseen: `populations_of` takes usual ones for them.
        poor = None if plan.family.response == "count" else enough(populations_of([dearest])[0], CAUTIOUS)
        return NeededRows(rows, insists, enough(usual_rows(dearest), ENOUGH), poor)
    return None
