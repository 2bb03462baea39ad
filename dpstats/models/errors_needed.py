"""How many rows would give nearly every coefficient an interval, by the closed form that settles adaptive plans."""

from __future__ import annotations

import contextlib
from dataclasses import replace

import numpy as np

from dpstats.errors import DPStatsError
from dpstats.formula.design import DesignSpec
from dpstats.models.adaptive import DRAWS, Choices, Expectation, Populations, comparable
from dpstats.models.forecast import mean_information, releases_errors, row_means, sample_rows, weight_cap
from dpstats.models.population import USUAL, KnownColumns
from dpstats.plan import Plan, replan_request, with_settled_law
from dpstats.results.model import NeededRows

ENOUGH = 0.9
"""Of the coefficients, expected to have an interval if columns are spread as usual."""

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
        assert isinstance(dearest.design, DesignSpec)
        cap, family = weight_cap(dearest), dearest.family
        known = KnownColumns.from_arguments(dearest.design, None, None)
        usual = sample_rows(dearest.design, family, known, USUAL, None, DRAWS)
        information, means = mean_information(family, usual, cap), row_means(family, usual, cap)
        expected = Expectation(dearest, Populations(information, means, dearest.design.response_scaling()))

        def suffices(n: float) -> bool:
            return expected.of(n * (1 - choices.share(n))).share >= ENOUGH

        high = next((n for n in (rows * 2.0**k for k in range(MOST_DOUBLINGS)) if suffices(n)), None)
        low = rows if high is None else max(high / 2, rows)
        while high is not None and high > CLOSE * low:
            middle = float(np.sqrt(low * high))
            low, high = (low, middle) if suffices(middle) else (middle, high)
        return NeededRows(rows, high)
    return None
