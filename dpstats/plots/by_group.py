"""Pictures by group, quantile and person: a coefficient of all groups or quantiles, and survival curves."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from dpstats.arguments import check_choice
from dpstats.errors import ArgumentError
from dpstats.plots import style
from dpstats.plots.style import check_subject

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def groups(
    result: Any,
    term: str | None = None,
    *,
    alpha: float = 0.05,
    unpooled: bool = False,
    caption: bool = True,
    ax: Axes | None = None,
) -> Axes:
    """One coefficient of every group, sorted by size, with intervals: a caterpillar plot of small areas.

    A vertical line is the mean of the groups where they were pooled, which groups of few rows are drawn to. A group
    whose interval is unbounded has an open mark and no line.

    Parameters
    ----------
    result : GroupResults
    term : str, optional
        The coefficient; the first one besides the intercept by default.
    alpha : float
        1 less the coverage of the intervals.
    unpooled : bool
        Also show, in grey, the coefficient of each group's own fit as released.
    caption, ax
        As for `coefficients`.

    Raises
    ------
    ArgumentError
        If `term` is no coefficient.

    Examples
    --------
    >>> import dpstats as dp
    >>> adult = dp.datasets.load_adult()
    >>> result = dp.logit("income ~ age", adult.data, 1.0, domain=adult.domain, by="sex", seed=1)
    >>> dp.plots.groups(result).get_title(loc="left")
    'age by sex'
    """
    if not all(hasattr(result, name) for name in ("by", "names", "tidy")):
        raise ArgumentError(f"result must be what dp.glm returns with by=, got {type(result).__name__}")
    if term is None:
        term = next((name for name in result.names if name != "Intercept"), result.names[0])
    check_choice("term", term, result.names)
    tidy = result.tidy(alpha)
    table = tidy[tidy["term"] == term].sort_values("estimate", ascending=False, kind="stable")
    pooled = "own" in table
    ax = style.new_axes(ax, 2.0 + 0.22 * len(table))
    style.name_rows(ax, [str(level) for level in table[result.by]])
    places, coef = np.arange(len(table)), table["estimate"].to_numpy()
    bounded = np.isfinite(table["std_error"].to_numpy())
    ends = table[["conf_low", "conf_high"]].to_numpy()
    ax.hlines(places[bounded], *ends[bounded].T, color=style.BLUE, linewidth=1.6)
    ax.plot(coef[bounded], places[bounded], "o", color=style.BLUE, markersize=4.5, label="of the group")
    if not bounded.all():
        label = "without an interval"
        ax.plot(coef[~bounded], places[~bounded], "o", mfc="white", mec=style.GREY, markersize=4.5, label=label)
    if pooled and unpooled:
        own = table["unpooled"].to_numpy()
        ax.plot(own, places, "|", color=style.GREY, markersize=7, label="its own fit, unpooled")
    if pooled and bounded.any():
        ax.axvline(float(result.between["mean"][term]), color=style.ORANGE, linewidth=1.2, label="mean of the groups")
    sentences = [
        f"Lines are {100 * (1 - alpha):g} % intervals, of the sample and of the noise.",
        "Groups are shrunk to their mean as far as both ask for." if pooled else "",
        style.promise(result.guarantee, "all groups together"),
    ]
    return style.finish(
        ax, f"{term} by {result.by}", *sentences, labels=("coefficient", ""), legend="above", caption=caption
    )


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


def persons(result: Any, newdata: Any = None, *, caption: bool = True, ax: Axes | None = None) -> Axes:
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
    times = np.linspace(0.0, result.observed_until, 101)
    if newdata is None:
        raise ArgumentError("newdata must have the persons whose survival is drawn: fit.plot('survival', newdata=...)")
    table = result.survival(newdata, times)
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


def quantiles(
    result: Any,
    term: str | None = None,
    *,
    alpha: float = 0.05,
    caption: bool = True,
    ax: Axes | None = None,
) -> Axes:
    """A coefficient by quantile, with the intervals of the fits that have errors; see `QuantileResults.plot`."""
    names = [str(name) for name in result.params.index]
    name = next((one for one in names if one != "Intercept"), names[0]) if term is None else term
    check_choice("term", name, names)
    ends = {key: (float(low), float(high)) for key, (low, high) in result.conf_int(alpha).iterrows()}
    ax = style.new_axes(ax)
    for q, value in zip(result.params.columns, result.params.loc[name].to_numpy(dtype=float), strict=True):
        low, high = ends.get((q, name), (np.nan, np.nan))
        known = bool(np.isfinite([low, high]).all())
        if known:
            ax.plot([q, q], [low, high], color=style.BLUE, linewidth=1.6)
        middle = (low + high) / 2 if known else value
        ax.plot([q], [middle], "o", color=style.BLUE, markerfacecolor=style.BLUE if known else "none")
    sentences = (
        f"Lines: {100 * (1 - alpha):g} % intervals; open marks have none.",
        style.promise(result.guarantee, "all quantiles"),
    )
    return style.finish(ax, name, *sentences, labels=("quantile", "coefficient"), caption=caption)
