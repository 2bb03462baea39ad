"""Survival curves with their intervals."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import pandas as pd

from dpstats.errors import ArgumentError
from dpstats.plots import style
from dpstats.plots.style import FittedSubject, check_subject
from dpstats.privacy.guarantee import Guarantee

if TYPE_CHECKING:
    from matplotlib.axes import Axes


class SurvivalSubject(Protocol):
    """Released survival curves; `dpstats.KaplanMeier`."""

    @property
    def guarantee(self) -> Guarantee: ...
    def curves(self, alpha: float = 0.05) -> pd.DataFrame: ...


def survival(result: SurvivalSubject, *, alpha: float = 0.05, caption: bool = True, ax: Axes | None = None) -> Axes:
    """Survival by group at the ends of the intervals, with pointwise intervals of noise and sampling.

    Parameters
    ----------
    result : KaplanMeier
    alpha : float
        The intervals cover with 1 - alpha.
    caption : bool
        Write below the picture what it shows and what is protected.
    ax : Axes, optional
        To draw on; by default those of a new figure.

    Returns
    -------
    Axes

    Raises
    ------
    ArgumentError
        If matplotlib is not installed, or `result` has no curves.

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


def persons(result: FittedSubject, newdata: Any = None, *, caption: bool = True, ax: Axes | None = None) -> Axes:
    """Survival of given persons by the released hazards: ``fit.plot("survival", newdata=...)``.

    Parameters
    ----------
    result : HazardResults
    newdata : DataFrame or another table
        The columns of the formula's right side, a row a curve; no more than there are colours.
    caption, ax
        As for `survival`.

    Returns
    -------
    Axes

    Raises
    ------
    ArgumentError
        If matplotlib is not installed, `result` has no hazards, or there are no rows, or too many.
    """
    check_subject("result", result, "observed_until", "hazards, as dp.hazard returns")
    fit: Any = result
    times = np.linspace(0.0, fit.observed_until, 101)
    if newdata is None:
        raise ArgumentError("newdata must have the persons whose survival is drawn: fit.plot('survival', newdata=...)")
    table = fit.survival(newdata, times)
    if not 1 <= len(table) <= len(style.SERIES):
        raise ArgumentError(f"newdata must have 1 to {len(style.SERIES)} rows, a curve each")
    ax = style.new_axes(ax)
    for (label, curve), colour in zip(table.iterrows(), style.SERIES, strict=False):
        ax.plot(times, curve.to_numpy(), color=colour, linewidth=1.6, label=style.shorten(label, style.NAME_WIDTH))
    ax.set(ylim=(0, 1.02), xlim=(0, float(times[-1])))
    sentences = "By the coefficients as released, without their errors.", style.promise(result.guarantee, "the fit")
    legend = "above" if len(table) > 1 else None
    return style.finish(
        ax, "Survival by the model", *sentences, labels=("time", "survival"), legend=legend, caption=caption
    )
