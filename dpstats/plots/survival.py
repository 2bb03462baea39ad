"""Survival curves with their intervals."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from dpstats.plots import style
from dpstats.plots.style import check_subject

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def survival(result: Any, *, alpha: float = 0.05, caption: bool = True, ax: Axes | None = None) -> Axes:
    """Survival by group at the ends of the intervals, with pointwise intervals of noise and sampling.

    Parameters
    ----------
    result : KaplanMeier
    alpha : float
        The intervals cover with 1 - alpha.
    caption, ax
        As for `coefficients`.

    Examples
    --------
    >>> import numpy as np
    >>> import dpstats as dp
    >>> rows = {"time": np.random.default_rng(0).exponential(30, 2000)}
    >>> rows["event"] = rows["time"] < 60
    >>> km = dp.kaplan_meier("Surv(time, event) ~ 1", rows, 1.0, domain={"time": (0, 60), "event": (0, 1)})
    >>> dp.plots.survival(km).get_ylabel()
    'survival'
    """
    check_subject("result", result, "curves", "survival curves, as dp.kaplan_meier returns")
    table = result.curves(alpha)
    ax = style.new_axes(ax)
    for at, (group, own) in enumerate(table.groupby("group", sort=False)):
        shown = own[own["survival"].notna()]
        colour = style.SERIES[at % len(style.SERIES)]
        times = np.append(0.0, shown["time"])
        low, high = np.append(1.0, shown["low"]), np.append(1.0, shown["high"])
        ax.fill_between(times, low, high, color=colour, alpha=0.18, linewidth=0)
        estimate = np.append(1.0, shown["survival"])
        ax.plot(times, estimate, color=colour, linewidth=1.6, label=style.shorten(group, style.NAME_WIDTH))
    ax.set(ylim=(0, 1.02), xlim=(0, float(table["time"].max())))
    sentences = (
        f"Shaded: pointwise {100 * (1 - alpha):g} % intervals for noise and sampling.",
        "A curve ends where too few are at risk beside the noise.",
        style.promise(result.guarantee, "the curves"),
    )
    legend = "above" if table["group"].nunique() > 1 else None
    return style.finish(ax, "Survival curves", *sentences, labels=("time", "survival"), legend=legend, caption=caption)
