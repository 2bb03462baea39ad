"""What an audit found, and how a ledger's budget was spent."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from dpstats.arguments import check_choice, safe_repr
from dpstats.errors import ArgumentError
from dpstats.ledger import Ledger, LedgerLike, as_ledger
from dpstats.plots import style
from dpstats.plots.style import check_subject

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def audit(result: Any, *, what: str = "bounds", caption: bool = True, ax: Axes | None = None) -> Axes:
    """The findings of an audit.

    Parameters
    ----------
    result : AuditResult
        Of `dpstats.audit`.
    what : {"bounds", "scores"}
        Lower confidence bounds on eps by the threshold of the most telling score, with the claim; or the distribution
        of that score on both data sets.
    caption, ax
        As for `coefficients`.

    Examples
    --------
    >>> import dpstats as dp
    >>> audit = dp.audit(lambda data, rng: data + rng.laplace(), 0.0, 1.0, eps=1.0, runs=2000, seed=1)
    >>> dp.plots.audit(audit).get_ylabel()
    'eps, at least'
    """
    check_subject("result", result, "picture", "what dp.audit returns")
    check_choice("what", what, ("bounds", "scores"))
    ax = style.new_axes(ax)
    score = result.event.rsplit(" ", 2)[0]
    if what == "bounds":
        _draw_bounds(ax, result)
        labels = f"threshold of the output's {score}", "eps, at least"
    else:
        edges = result.picture.edges
        for counts, name, color in zip(result.picture.counts, ("data", "neighbour"), style.SERIES, strict=False):
            middle, shares = (edges[1:] + edges[:-1]) / 2, counts / max(counts.sum(), 1)
            ax.step(middle, shares, where="mid", color=color, linewidth=1.6, label=name)
            ax.fill_between(middle, shares, step="mid", color=color, alpha=0.15, linewidth=0)
        ax.set_ylim(bottom=0.0)
        labels = f"the output's {score}", "share of the runs"
    title = f"Audit: eps = {result.eps:.4g} is {'not refuted' if result.passed else 'REFUTED'}"
    return style.finish(ax, title, *_audit_caption(result, what), labels=labels, legend="above", caption=caption)


def _draw_bounds(ax: Axes, result: Any) -> None:
    curve = result.picture.curve
    thresholds = np.asarray(curve.thresholds, dtype=np.float64)
    bounds = np.asarray(curve.bounds.eps, dtype=np.float64)
    shown = np.isfinite(thresholds) & np.isfinite(bounds)
    ax.step(
        thresholds[shown], bounds[shown], where="post", color=style.BLUE, linewidth=1.6, label="while choosing events"
    )
    ax.axhline(
        result.eps_lower, color=style.GREEN, linewidth=1.6, label=f"on fresh runs, at least {result.eps_lower:.4g}"
    )
    ax.axhline(result.eps, linestyle=":", color=style.RED, linewidth=1.4, label=f"claimed, {result.eps:.4g}")
    ax.set_ylim(0.0, 1.08 * max(result.eps, result.eps_lower, float(np.max(bounds[shown], initial=0.0))))


def _audit_caption(result: Any, what: str) -> list[str]:
    """The caption's sentences."""
    claim = f"eps = {result.eps:.4g}" + (f", delta = {result.delta:.4g}" if result.delta else "")
    legend = {
        "bounds": "Bounds by threshold are from the runs that chose the event; the verdict is from fresh ones.",
        "scores": "The claim limits how far the two may differ. The central 99 % of the runs are shown.",
    }[what]
    end = "These runs do not refute it, which proves nothing." if result.passed else "The claim does not hold."
    return [
        f"The claim: outputs for the two data sets differ by no more than {claim} allows. {end}",
        legend,
        f"{result.runs:,} runs on each, confidence {result.confidence:g}; both data sets are assumed to be public.",
    ]


MOST_ANALYSTS = 4  # those who have spent most have a line of their own
SHORT = pd.Timedelta(minutes=10)  # charges within this time are drawn by their number

NAMELESS = "(no name)"


def spending(ledger: LedgerLike, *, caption: bool = True, ax: Axes | None = None) -> Axes:
    """The spent budget of a ledger over time, in total and by analyst.

    Parameters
    ----------
    ledger : Ledger or path
        Of the whole data set, not of a part.
    caption, ax
        As for `coefficients`.

    Returns
    -------
    Axes
        Time in UTC across, or the entries' numbers where all lie within ten minutes; eps
        upward, or rho under zCDP. Steps are charges, and refunded ones are left out.

    Raises
    ------
    ArgumentError
        If `ledger` is no ledger.
    LedgerError
        If the file cannot be read.

    Examples
    --------
    >>> import tempfile
    >>> import dpstats as dp
    >>> ledger = dp.Ledger(f"{tempfile.mkdtemp()}/survey.ledger", dataset="survey", eps=1.0)
    >>> charge = ledger.charge(dp.Guarantee(0.25), label="a count")
    >>> dp.plots.spending(ledger).get_ylabel()
    'eps spent'
    """
    books = as_ledger(ledger)
    if not isinstance(books, Ledger):
        raise ArgumentError(f"ledger must be a whole ledger or the path of its file, got {safe_repr(books)}")
    ax = style.new_axes(ax)
    table = books.history()
    counted = "eps" if books.accountant == "basic" else "rho"
    spent = float(table[counted].max()) if len(table) else 0.0
    total = books.total.eps if counted == "eps" else spent + (books.remaining_rho or 0.0)
    across = _draw_steps(ax, books, table, counted)
    ax.axhline(total, linestyle=":", color=style.INK, linewidth=1.4, label=f"total, {total:.4g}")
    ax.set_ylim(0.0, 1.06 * total)
    sentences = _spending_caption(books, table, counted, spent)
    labels = across, f"{counted} spent"
    return style.finish(
        ax, f"Privacy budget of {books.dataset}", *sentences, labels=labels, legend="above", caption=caption
    )


def _draw_steps(ax: Axes, ledger: Ledger, table: pd.DataFrame, counted: str) -> str:
    """Draw a step at each charge, in total and of those who have spent most; return the horizontal axis' label."""
    timed = len(table) > 0 and table["time"].max() - table["time"].min() >= SHORT
    # Within a few minutes, the order says more than fractions of seconds.
    across = pd.Series(table["time"].dt.tz_localize(None) if timed else table.index, index=table.index)
    _step(ax, across, table[counted], across.max(), color=style.INK, linewidth=3.6, zorder=1.5, label="all")
    quotas = ledger.spending()["quota_eps"] if counted == "eps" else pd.Series(dtype=float)
    most = table.groupby("analyst")["by_analyst"].max().sort_values(ascending=False, kind="stable")
    if list(most.index) not in ([], [""]):
        for number, analyst in enumerate(most.index[:MOST_ANALYSTS]):
            charges, label = table["analyst"] == analyst, style.shorten(analyst or NAMELESS, 24)
            quota = float(quotas.get(analyst, np.nan))
            label = f"{label}, quota {quota:.4g} (dashed)" if np.isfinite(quota) else label
            look: dict[str, Any] = {"color": style.SERIES[number], "linewidth": 1.4, "label": label}
            _step(ax, across[charges], table["by_analyst"][charges], across.max(), **look)
            if np.isfinite(quota):
                ax.axhline(quota, color=style.SERIES[number], linestyle="--", linewidth=1.0, gid="quota")
    _tick(ax, table, timed)
    return "time (UTC)" if timed else "entry"


def _tick(ax: Axes, table: pd.DataFrame, timed: bool) -> None:
    """Dates, or whole numbers of entries."""
    from matplotlib import dates, ticker

    drawer: Any = dates if timed else ticker
    if timed:
        locator = drawer.AutoDateLocator(minticks=2, maxticks=5)
        ax.xaxis.set_major_formatter(drawer.ConciseDateFormatter(locator))
    else:
        locator = drawer.MaxNLocator(nbins=8, integer=True, min_n_ticks=1)
        low, high = (table.index.min(), table.index.max()) if len(table) else (0, 1)
        ax.set_xlim(low - 0.5, high + 0.5)
    ax.xaxis.set_major_locator(locator)


def _step(ax: Axes, places: pd.Series[Any], amounts: pd.Series[float], end: Any, **look: Any) -> None:
    """Draw a line from zero that rises at each place and continues to the end; dots mark the charges."""
    across = [*places, end] if len(places) else []
    upward = [*amounts, amounts.iloc[-1]] if len(places) else []
    dots = list(range(len(places))) if len(places) <= 40 else []
    ax.plot(across, upward, drawstyle="steps-post", marker="o", markersize=4, markevery=dots, **look)
    if len(places):
        ax.vlines(across[0], 0.0, upward[0], color=look["color"], linewidth=look["linewidth"])


def _spending_caption(ledger: Ledger, table: pd.DataFrame, counted: str, spent: float) -> list[str]:
    """The caption's sentences."""
    protected = style.neighbours(ledger)
    people, apart = table["analyst"].nunique(), table.groupby("analyst")["by_analyst"].max().sum()
    if table.empty:
        return [f"Protected: {protected}. Nothing has been charged yet."]
    parallel = "Only the worst part of a partition counts, so the lines do not add up."
    return [
        f"Each step is a charge. Protected: {protected}.",
        f"The guarantee for all charges together is {counted} = {spent:.4g}.",
        parallel if apart > spent * (1 + 1e-9) else "",
        f"The {MOST_ANALYSTS} who spent most, of {people}." if people > MOST_ANALYSTS else "",
        "Dashed: quotas." if counted == "eps" and ledger.spending()["quota_eps"].notna().any() else "",
        "Drawn from the ledger, without the data: the picture costs nothing.",
    ]
