"""The regression table: statsmodels' look, from released and public values only."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from statsmodels.iolib.table import SimpleTable

from dpstats.plan.tables import Summary, format_number, full_width, header_table, plan_notes, plan_tables, wrap_notes

if TYPE_CHECKING:
    from dpstats.results.glm_results import GLMResults

__all__ = ["Summary", "summarize"]


def summarize(results: GLMResults) -> Summary:
    """Assemble the tables of a summary: header, coefficients, selection, budget, noise, risk, and notes."""
    observations = "private" if results.nobs is None else str(results.nobs)
    tables = [header_table(results.plan, observations), coefficient_table(results)]
    if len(results.selection):
        tables.append(selection_table(results))
    summary = Summary()
    summary.tables = [*tables, *plan_tables(results.plan)]
    summary.add_extra_txt(wrap_notes(plan_notes(results.plan)))
    return summary


def coefficient_table(results: GLMResults) -> SimpleTable:
    """Coefficients in the user's units and in model units; of a screened fit those of the columns kept."""
    rows = [
        (name, [format_number(value), format_number(scaled)])
        for (name, value), scaled, kept in zip(
            results.params.items(), results.scaled_params, results.plan.kept, strict=True
        )
        if kept
    ]
    return full_width(["coef", "scaled coef"], rows, columns=[12, 13])


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
