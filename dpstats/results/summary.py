"""The regression table: statsmodels' look, from released and public values only."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from statsmodels.iolib.summary import Summary, fmt_2cols, fmt_params
from statsmodels.iolib.table import SimpleTable

if TYPE_CHECKING:
    from dpstats.results.glm_results import GLMResults

__all__ = ["Summary", "summarize"]

WIDTH = 78


def summarize(results: GLMResults) -> Summary:
    """Assemble the tables of a summary: header, coefficients, budget, noise, and notes in plain words."""
    summary = Summary()
    summary.tables = [header_table(results), coefficient_table(results), budget_table(results), noise_table(results)]
    summary.add_extra_txt(wrap_notes(notes(results)))
    return summary


def header_table(results: GLMResults) -> SimpleTable:
    """Pairs of facts on the model (left) and on the guarantee (right)."""
    plan = results.plan
    guarantee, request = plan.guarantee, plan.request
    title = f"Private Generalized Linear Model: {plan.family.name}"
    if not guarantee.certified:
        title = "\n".join([*textwrap.wrap(f"*** NOT CERTIFIED: {guarantee.reason} ***", WIDTH), title])
    left = [
        ("Dep. Variable:", plan.design.response_name),
        ("Model:", "GLM"),
        ("Family:", plan.family.name),
        ("Link:", plan.family.link),
        ("Method:", request.method),
        ("Penalty:", "None" if request.penalty is None else request.penalty.name),
        ("Df Model:", str(len(plan.names) - int(plan.design.has_intercept))),
    ]
    right = [
        ("Adjacency:", guarantee.adjacency),
        ("Epsilon:", f"{guarantee.eps:.6g}"),
        ("Delta:", f"{guarantee.delta:.6g}"),
        ("Certified:", "yes" if guarantee.certified else "NO"),
        ("Proof:", guarantee.basis),
        ("Noise:", f"{plan.noise.kind} ({plan.noise.norm})"),
        ("No. Observations:", "private" if results.nobs is None else str(results.nobs)),
    ]
    table = SimpleTable(
        [[value] for _, value in left], stubs=[name for name, _ in left], title=title, txt_fmt=fmt_2cols
    )
    table.extend_right(SimpleTable([[value] for _, value in right], stubs=[name for name, _ in right]))
    return table


def coefficient_table(results: GLMResults) -> SimpleTable:
    """Coefficients in the user's units and in model units."""
    rows = [
        (name, [format_number(value), format_number(scaled)])
        for (name, value), scaled in zip(results.params.items(), results.scaled_params, strict=True)
    ]
    return full_width(["coef", "scaled coef"], rows, columns=[12, 13])


def budget_table(results: GLMResults) -> SimpleTable:
    """Every purchase and the total."""
    rows = [
        (name, [format_number(row["eps"]), format_number(row["delta"]), shorten(row["buys"], 44)])
        for name, row in results.budget.iterrows()
    ]
    return full_width(["eps", "delta", "buys"], rows, columns=[10, 10, 45], title="Budget")


def noise_table(results: GLMResults) -> SimpleTable:
    """The noise scale, and what the classical split of the same budget would have cost."""
    objective = results.plan.objective
    ratio = objective.classical_scale / objective.noise.scale
    rows = [
        ("joint bound (used)", [format_number(objective.noise.scale), "1"]),
        ("classical split", [format_number(objective.classical_scale), format_number(ratio)]),
    ]
    return full_width(["scale", "ratio"], rows, columns=[12, 12], title="Noise in the objective")


def full_width(
    headers: Sequence[str], rows: Sequence[tuple[Any, list[str]]], columns: Sequence[int], title: str | None = None
) -> SimpleTable:
    """A table as wide as the header: named rows, with the given widths for the columns beside the names."""
    room = WIDTH - sum(columns) - len(columns)
    formats = {**fmt_params, "colwidths": [room, *columns]}
    stubs = [shorten(name, room) for name, _ in rows]
    return SimpleTable([cells for _, cells in rows], headers=list(headers), stubs=stubs, title=title, txt_fmt=formats)


def notes(results: GLMResults) -> list[str]:
    """What the reader must know, in plain words."""
    plan = results.plan
    guarantee = plan.guarantee
    neighbours = (
        "adding or removing one row"
        if guarantee.adjacency == "add_remove"
        else "changing the contents of one row (the number of rows is public)"
    )
    privacy = f"({guarantee.eps:.4g}, {guarantee.delta:.4g})" if guarantee.delta else f"{guarantee.eps:.4g}"
    said = [
        f"Everything above is {privacy}-differentially private for {neighbours}."
        if guarantee.certified
        else f"No guarantee is claimed for this output: {guarantee.reason}.",
        "Coefficients are shrunk towards zero by a public quadratic term of curvature "
        f"{min(plan.curvature):.4g} on columns scaled to a row norm of one; 'scaled coef' is on that scale.",
    ]
    if plan.bought:
        said.append(f"Ranges of {', '.join(plan.bought)} were bought with the budget; declare them to save it.")
    return said


def wrap_notes(said: Sequence[str]) -> list[str]:
    """Numbered notes, wrapped to the width of the tables."""
    lines = ["Notes:"]
    for number, note in enumerate(said, start=1):
        lines += textwrap.wrap(f"[{number}] {note}", WIDTH, subsequent_indent="    ")
    return lines


def shorten(name: Any, width: int) -> str:
    """The name, cut to at most `width` characters."""
    text = str(name)
    return text if len(text) <= width else text[: width - 3] + "..."


def format_number(value: float) -> str:
    """Four significant digits, plain notation where it is short."""
    return f"{value:.4g}"
