"""The regression table: statsmodels' look, from released and public values only."""

from __future__ import annotations

from typing import TYPE_CHECKING

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
    """Coefficients in the user's units and in model units."""
    rows = [
        (name, [format_number(value), format_number(scaled)])
        for (name, value), scaled in zip(results.params.items(), results.scaled_params, strict=True)
    ]
    return full_width(["coef", "scaled coef"], rows, columns=[12, 13])


def selection_table(results: GLMResults) -> SimpleTable:
    """Which columns a sparse penalty kept."""
    rows = [
        (name, ["yes" if row["selected"] else "no", format_number(row["weight"]), format_number(row["threshold"])])
        for name, row in results.selection.iterrows()
    ]
    return full_width(["selected", "weight", "threshold"], rows, columns=[10, 12, 12], title="Selection")
