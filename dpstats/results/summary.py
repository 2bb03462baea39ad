"""The regression table: statsmodels' look, from released and public values only."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from statsmodels.iolib.table import SimpleTable

from dpstats.inference.contrasts import LEVEL
from dpstats.mechanisms.information import Information
from dpstats.mechanisms.least_squares import ReleasedSums
from dpstats.plan.tables import (
    Summary,
    format_number,
    full_width,
    header_table,
    is_output,
    plan_notes,
    plan_tables,
    wrap_notes,
)
from dpstats.results.contrasts import COEFFICIENT_WIDTHS, coefficient_cells, coefficient_headers
from dpstats.results.inferring import rare_references

if TYPE_CHECKING:
    from dpstats.results.glm_results import GLMResults

__all__ = ["Summary", "summarize"]

MOST_NAMES = 8
"""A note lists so many coefficients, and counts them where there are more."""

LEAST_IDENTIFIED = 0.25
"""Errors are shown where at least this share of the coefficients has one: a table of infinite errors says less than a
bound."""


def summarize(results: GLMResults) -> Summary:
    """Assemble the tables of a summary: header, coefficients, selection, budget, noise, risk, and notes."""
    observations = "private" if results.nobs is None else str(results.nobs)
    tables = [header_table(results.plan, observations), coefficient_table(results)]
    if len(results.selection):
        tables.append(selection_table(results))
    summary = Summary()
    summary.tables = [*tables, *plan_tables(results.plan)]
    summary.add_extra_txt(wrap_notes([*plan_notes(results.plan), *inference_notes(results)]))
    return summary


def coefficient_table(results: GLMResults) -> SimpleTable:
    """Coefficients in the user's units, with what is known of their errors; of a screened fit those kept."""
    return inference_table(results) if shows_errors(results) else bounded_table(results)


def shows_errors(results: GLMResults) -> bool:
    """Whether the budget identifies enough of the coefficients for a table of their errors."""
    if results.released is None or not results.has_errors:
        return False
    return int(np.sum(results.identified)) >= max(1, LEAST_IDENTIFIED * len(results.released.columns))


def inference_table(results: GLMResults) -> SimpleTable:
    """The regression table: debiased coefficients with errors, tests and intervals."""
    frame = results.uncertainty()
    fitted = frame[frame["std_error"].notna()]
    rows = [(name, coefficient_cells(row.to_numpy(dtype=np.float64))) for name, row in fitted.iterrows()]
    return full_width(coefficient_headers(LEVEL), rows, columns=COEFFICIENT_WIDTHS)


def bounded_table(results: GLMResults) -> SimpleTable:
    """Coefficients in the user's and in model units, with a bound on the noise in them."""
    facts = zip(results.params.items(), results.scaled_params, results.noise_at_most, results.plan.kept, strict=True)
    rows = [
        (name, [*map(format_number, (value, scaled, bound)), "may be noise" if abs(value) < 2 * bound else ""])
        for (name, value), scaled, bound, kept in facts
        if kept
    ]
    bound = "noise sd" if is_output(results.plan) or isinstance(results.released, ReleasedSums) else "noise at most"
    return full_width(["coef", "scaled coef", bound, ""], rows, columns=[12, 13, 14, 13])


def inference_notes(results: GLMResults) -> list[str]:
    """What a reader of standard errors must know."""
    if results.released is None or not results.has_errors:
        return []
    asked = (
        "More eps, inference=True"
        if results.plan.request.options.inference == "auto" and isinstance(results.released, Information)
        else "More eps"
    )
    if not shows_errors(results):
        known = int(np.sum(results.identified))
        few = f"{known} of {len(results.released.columns)} coefficients" if known else "no coefficient"
        errors = "their standard errors are in uncertainty()" if known else "there are no standard errors to show"
        return [
            f"The information that was released identifies {few} at this budget: {errors}. 'noise at most' bounds the "
            "standard deviation that noise alone gives a coefficient, whatever the rows are; 'scaled coef' is in model "
            f"units. {asked} or fewer columns would help."
        ]
    said = [
        "coef is free of the shrinkage, and what std err and the tests refer to; params holds the coefficients as "
        "released, which predict better."
    ]
    unknown = [str(name) for name, error in results.bse.items() if np.isinf(error)]
    if unknown:
        which = ", ".join(unknown) if len(unknown) <= MOST_NAMES else f"{len(unknown)} coefficients (see identified)"
        said.append(f"Not identified at this budget, coef as released: {which}. {asked} or fewer columns would help.")
        said += [
            f"{name} is measured from a level that is too rare for this budget. Name a common one as its reference, as "
            "in C(g, Treatment('common')), to see the others."
            for name in rare_references(results.plan, results.released)
        ]
    chosen = results.plan.screening is not None or any(role == "refit" for role, _ in results.plan.stages)
    if chosen and results.plan.request.options.split is None:
        said.append("Not adjusted for selection: the same rows chose the columns. split='rows' keeps them apart.")
    return said


def selection_table(results: GLMResults) -> SimpleTable:
    """Which columns a sparse penalty kept, or screening: of those that it put out the number alone."""
    facts = results.selection[results.plan.kept]
    rows = [(name, [_cell(row[column]) for column in facts.columns]) for name, row in facts.iterrows()]
    out = len(results.selection) - len(facts)
    title = f"Selection ({out} columns screened out)" if out else "Selection"
    return full_width(list(facts.columns), rows, columns=[10, *[12] * (len(facts.columns) - 1)], title=title)


def _cell(value: object) -> str:
    if isinstance(value, (bool, np.bool_)):
        return "yes" if value else "no"
    return value if isinstance(value, str) else format_number(float(str(value)))
