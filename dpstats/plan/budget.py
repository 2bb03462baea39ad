"""What a plan's budget is spent on."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pandas as pd

from dpstats.frames import Printed
from dpstats.mechanisms.information import InformationPlan
from dpstats.mechanisms.screening import ScreeningPlan
from dpstats.request import Request

if TYPE_CHECKING:
    from dpstats.plan.plan import Plan

COLUMNS = ["purchase", "eps", "delta", "planned", "need", "retrieved", "buys"]


def budget_frame(plan: Plan) -> pd.DataFrame:
    """The table `Plan.budget` returns; see there."""
    rows: list[tuple[Any, ...]] = []
    if plan.bought:
        cost = range_eps(plan.request, plan.bought)
        rows.append(("ranges", cost, 0.0, cost, cost, 0.0, ", ".join(plan.bought)))
    if plan.response is not None:
        cost = plan.response.eps
        found = "greatest count, mean" if plan.family.response == "count" else "centre, spread"
        rows.append(("response", cost, 0.0, cost, cost, 0.0, found))
    if plan.screening is not None:
        rows += screening_rows(plan.screening)
    for role, stage in plan.stages:
        retrieved = max(0.0, stage.planned_eps - stage.joint_need)
        need, final = stage.planned_eps - retrieved, stage.final.eps
        rows.append((role, stage.eps, stage.delta, stage.planned_eps, need, retrieved, stage.bought_law))
        if final > 0:
            rows.append((f"{role}: rounding", final, 0.0, final, final, 0.0, "discrete noise"))
        if stage.information is not None:
            rows += information_rows(stage.information)
    sums = [sum(row[column] for row in rows) for column in (4, 5)]
    if plan.request.options.split is not None:
        sums = [float("nan")] * 2  # parts of the rows pay side by side
    # A person may have several rows of weight 1, each of which costs what is planned for one.
    times = plan.request.options.record.rows
    rows = [(row[0], *(times * cell for cell in row[1:6]), row[6]) for row in rows]
    sums = [times * total for total in sums]
    planned = plan.request.eps
    if plan.guarantee.eps > planned * (1 + 1e-9):  # the fit is one of several, of which the rows chose
        rest, delta = plan.guarantee.eps - sum(row[1] for row in rows), plan.guarantee.delta - sum(r[2] for r in rows)
        rows.append(("choice, others", rest, delta, rest, rest, 0.0, "candidates and choice"))
        sums[0], planned = sums[0] + rest, plan.guarantee.eps
    rows.append(("total", plan.guarantee.eps, plan.guarantee.delta, planned, sums[0], sums[1], ""))
    return Printed(pd.DataFrame(rows, columns=COLUMNS).set_index("purchase"))


def screening_rows(screening: ScreeningPlan) -> list[tuple[Any, ...]]:
    """The purchases of screening, as rows of the budget table."""
    choices = screening.eps - screening.null_eps
    terms = f"{screening.choices} of {screening.candidates} terms"
    rows: list[tuple[Any, ...]] = [("screening", choices, 0.0, choices, choices, 0.0, terms)]
    if screening.null is not None:
        cost = screening.null_eps
        rows.insert(0, ("null model", cost, 0.0, cost, cost, 0.0, "what to score against"))
    return rows


def information_rows(plan: InformationPlan) -> list[tuple[Any, ...]]:
    """The purchases of inference, as rows of the budget table."""
    found = {
        "known": "",
        "dispersion": "dispersion",
        "robust": "robust variances",
        "clustered": "variances by persons",
    }[plan.purchase.spread]
    costs = {
        ("information", "standard errors"): plan.eps,
        ("info: rounding", "discrete noise"): plan.purchase.cover_eps,
        ("spread", found): plan.purchase.spread_eps + plan.purchase.weights_eps,
    }
    return [(name, cost, 0.0, cost, cost, 0.0, buys) for (name, buys), cost in costs.items() if buys]


def range_eps(request: Request, bought: tuple[str, ...]) -> float:
    """What the ranges of the columns left out of the Domain cost together."""
    return request.options.range_share * request.row_eps if bought else 0.0
