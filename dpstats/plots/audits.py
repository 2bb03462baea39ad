"""What an audit found: the bound on eps by threshold, or the distributions that give it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from dpstats.arguments import check_choice
from dpstats.plots import style
from dpstats.plots.subjects import check_subject

if TYPE_CHECKING:
    from matplotlib.axes import Axes


class Audited(Protocol):
    """The result of an audit; `dpstats.audit.AuditResult`."""

    @property
    def eps(self) -> float:
        """The claim."""

    @property
    def delta(self) -> float:
        """The claim."""

    @property
    def eps_lower(self) -> float:
        """A lower confidence bound on eps at the claimed delta."""

    @property
    def passed(self) -> bool:
        """False if a bound refutes the claim."""

    @property
    def event(self) -> str:
        """The event that gives the bound."""

    @property
    def runs(self) -> int:
        """Runs on each data set."""

    @property
    def confidence(self) -> float:
        """The probability that all bounds hold."""

    @property
    def picture(self) -> Any:
        """Bounds by threshold, and histograms of the telling score on both data sets."""


def audit(result: Audited, *, what: str = "bounds", ax: Axes | None = None) -> Axes:
    """What an audit found.

    Parameters
    ----------
    result : AuditResult
        Of `dpstats.audit`.
    what : {"bounds", "scores"}
        Lower confidence bounds on eps by the threshold of the most telling score, with the claim; or the distribution
        of that score on both data sets.
    ax : Axes, optional
        To draw on; by default those of a new figure.

    Returns
    -------
    Axes

    Raises
    ------
    ArgumentError
        If matplotlib is not installed or `what` is unknown.

    Examples
    --------
    >>> import dpstats as dp
    >>> found = dp.audit(lambda data, rng: data + rng.laplace(), 0.0, 1.0, eps=1.0, runs=2000, seed=1)
    >>> dp.plots.audit(found).get_ylabel()
    'eps, at least'
    """
    check_subject("result", result, "picture", "what dp.audit returns")
    check_choice("what", what, ("bounds", "scores"))
    ax = style.new_axes(ax)
    score = result.event.rsplit(" ", 2)[0]
    if what == "bounds":
        _draw_bounds(ax, result)
        style.name_axes(ax, f"threshold of the output's {score}", "eps, at least")
    else:
        _draw_scores(ax, result)
        style.name_axes(ax, f"the output's {score}", "share of the runs")
    lines = style.show_legend_above(ax)
    verdict = "not refuted" if result.passed else "REFUTED"
    style.finish(ax, f"Audit: eps = {result.eps:.4g} is {verdict}", *_said(result, what), lines_above=lines)
    return ax


def _draw_bounds(ax: Axes, result: Audited) -> None:
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


def _draw_scores(ax: Axes, result: Audited) -> None:
    picture = result.picture
    middle = (picture.edges[1:] + picture.edges[:-1]) / 2
    for counts, name, color in zip(picture.counts, ("data", "neighbour"), style.SERIES, strict=False):
        shares = counts / max(counts.sum(), 1)
        ax.step(middle, shares, where="mid", color=color, linewidth=1.6, label=name)
        ax.fill_between(middle, shares, step="mid", color=color, alpha=0.15, linewidth=0)
    ax.set_ylim(bottom=0.0)


def _said(result: Audited, what: str) -> list[str]:
    """The caption's sentences."""
    claim = f"eps = {result.eps:.4g}" + (f", delta = {result.delta:.4g}" if result.delta else "")
    shown = {
        "bounds": "Bounds by threshold are from the runs that chose the event; the verdict is from fresh ones.",
        "scores": "What the claim allows is how far the two may differ; the central 99 % of the runs are shown.",
    }[what]
    end = "These runs do not refute it, which proves nothing." if result.passed else "The claim does not hold."
    return [
        f"Claimed: that the two data sets tell no more apart than {claim} allows. {end}",
        shown,
        f"{result.runs:,} runs on each, confidence {result.confidence:g}; both data sets are taken to be public.",
    ]
