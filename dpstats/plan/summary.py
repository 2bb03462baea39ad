"""The summary of a dry run."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dpstats.mechanisms.least_squares import LeastSquaresPlan
from dpstats.plan.notes import plan_notes, rounding_note
from dpstats.plan.tables import Summary, column_table, header_table, plan_tables, wrap_notes

if TYPE_CHECKING:
    from dpstats.plan.plan import Plan


def summarize_plan(plan: Plan) -> Summary:
    """The summary of a dry run: what would be released, at what price, with what noise."""
    summary = Summary()
    summary.tables = [header_table(plan, "none read"), column_table(plan), *plan_tables(plan)]
    rounded = plan.objective.noise_averages_out and not isinstance(plan.objective, LeastSquaresPlan)
    rounding = [rounding_note(plan.objective)] if rounded else []
    summary.add_extra_txt(wrap_notes([*plan_notes(plan), *rounding]))
    return summary
