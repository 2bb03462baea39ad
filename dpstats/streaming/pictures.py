"""Pictures of streams: what a plan predicts by tick, and a coefficient over the ticks with its intervals."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from dpstats.plots import style

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from dpstats.streaming.plan import StreamPlan
    from dpstats.streaming.results import StreamResults

MOST_TICKS = 60
"""Ticks of which intervals are drawn, evenly spread."""


def plan_picture(plan: StreamPlan, ax: Axes | None) -> Axes:
    """Predicted excess per row by tick, and that of the null model."""
    ax = style.new_axes(ax)
    table = plan.ticks()
    ticks = table.index.to_numpy()
    ax.plot(ticks, table.per_row, color=style.BLUE, marker="o", markersize=4, linewidth=1.6, label="noise of privacy")
    ax.plot(ticks, table.null / table.rows, color=style.GREY, linewidth=1.2, linestyle="--", label="null model")
    ax.set_xscale("log")
    ax.set_yscale("log")
    style.name_axes(ax, "tick", "predicted excess per row")
    lines = style.show_legend_above(ax)
    guess = f"Predicted for {plan.rows_guess:,.0f} rows a tick and coefficients of norm {plan.radius:g} in model units."
    style.finish(
        ax, f"{plan.family.name}: {plan.workload}", guess, _promise(plan, "all ticks together"), lines_above=lines
    )
    return ax


def coefficient_picture(results: Sequence[StreamResults], term: str, title: str, ax: Axes | None) -> Axes:
    """A coefficient over the ticks at which the results end, with 95 % intervals where there are any."""
    ax = style.new_axes(ax)
    plan = results[0].plan
    ticks = np.array([result.last for result in results])
    values = np.array([result.params[term] for result in results])
    if results[0].has_errors:
        kept = (
            results
            if len(results) <= MOST_TICKS
            else [results[at] for at in np.linspace(0, len(results) - 1, MOST_TICKS).astype(int)]
        )
        ends = np.array([result.conf_int().loc[term].to_numpy(dtype=float) for result in kept])
        middle, at = np.array([result.debiased[term] for result in kept]), np.array([result.last for result in kept])
        shown = np.isfinite(ends).all(axis=1)
        if shown.any():
            ax.fill_between(
                at[shown],
                ends[shown, 0],
                ends[shown, 1],
                color=style.SKY,
                alpha=0.3,
                linewidth=0,
                label="95 % interval",
            )
            ax.plot(at[shown], middle[shown], color=style.BLUE, linewidth=1.6, label="without shrinkage")
    ax.plot(ticks, values, color=style.ORANGE, linewidth=1.2, linestyle="--", label="params, for prediction")
    style.name_axes(ax, "tick", f"coefficient of {term}")
    lines = style.show_legend_above(ax)
    style.finish(
        ax, title, "Intervals hold sampling error and noise.", _promise(plan, "the whole stream"), lines_above=lines
    )
    return ax


def _promise(plan: StreamPlan, what: str) -> str:
    count = len(plan.sums.mechanism.participation)
    said = style.promise(plan.guarantee, what)
    unit = plan.guarantee.unit
    if unit is None or count == 1:
        return said
    return said.replace(f"any one {unit}", f"any one {unit} with a row in {count} ticks")
