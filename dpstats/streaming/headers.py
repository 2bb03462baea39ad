"""The header that plans and results of a stream share."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING

from statsmodels.iolib.summary import fmt_2cols
from statsmodels.iolib.table import SimpleTable

from dpstats.plan.tables import WIDTH, shorten
from dpstats.proving import cited

if TYPE_CHECKING:
    from dpstats.streaming.planning import StreamPlan


def header(plan: StreamPlan, ticks: str) -> SimpleTable:
    """Pairs of facts on the stream (left) and on the guarantee (right)."""
    guarantee, mechanism = plan.guarantee, plan.sums.mechanism
    title = f"Private Stream of Regressions: {plan.family.name}"
    if not guarantee.certified:
        title = "\n".join([*textwrap.wrap(f"*** NOT CERTIFIED: {guarantee.reason} ***", WIDTH), title])
    left = [
        ("Dep. Variable:", shorten(plan.design.response_name, 20)),
        ("Mechanism:", plan.method),
        ("Link:", plan.family.link),
        ("Penalty:", "None" if plan.penalty is None else plan.penalty.name)
        if plan.constraint is None
        else ("Constraint:", shorten(plan.constraint.name, 20)),
        ("Df Model:", str(plan.df_model)),
        ("Sums:", type(mechanism).__name__),
        ("Each tick:", shorten(plan.workload, 20)),
    ]
    unit, often = "one row", len(mechanism.participation)
    if guarantee.unit is not None:
        unit = f"{shorten(guarantee.unit, 14)}, " + ("one row" if often == 1 else f"{often} ticks")
    right = [
        ("Adjacency:", guarantee.adjacency),
        ("Unit:", unit),
        ("Epsilon:", f"{guarantee.eps:.6g}"),
        ("Delta:", f"{guarantee.delta:.6g}"),
        ("Certified:", "yes" if guarantee.certified else "NO"),
        ("Proof:", cited(guarantee.basis) if guarantee.certified else "none"),
        ("Ticks:", ticks),
    ]
    wide = WIDTH // 2 - 18
    table = SimpleTable([[fact] for _, fact in left], stubs=[name for name, _ in left], title=title, txt_fmt=fmt_2cols)
    table.extend_right(SimpleTable([[f"{fact:>{wide}}"] for _, fact in right], stubs=[name for name, _ in right]))
    return table
