"""Audit a privacy claim from outputs alone; the result as a table and a picture."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from statsmodels.iolib.table import SimpleTable

from dpstats import plots
from dpstats.arguments import check_flag, is_number, safe_repr
from dpstats.audit.events import (
    ChosenEvent,
    Curve,
    FloatArray,
    Mechanism,
    Outcomes,
    Score,
    choose_events,
    learn_scores,
    lower_bounds,
    observe_pair,
)
from dpstats.errors import ArgumentError
from dpstats.privacy.guarantee import check_budget
from dpstats.progress import progress_counter
from dpstats.results.stored import Printed
from dpstats.summaries import Summary, shorten

if TYPE_CHECKING:
    from matplotlib.axes import Axes


@dataclass(frozen=True)
class CountedEvent:
    """One event counted on fresh runs."""

    event: str  # The event in words
    # likely, unlikely: Under which data set it was expected more often.
    likely: str
    unlikely: str
    # hits, other: How often it occurred under `likely` and under `unlikely`, out of `runs` each.
    hits: int
    other: int
    runs: int  # Runs counted per data set
    # eps, divergence: Lower confidence bounds: of eps at the claimed delta, and of the hockey-stick divergence at the
    # claimed eps.
    eps: float
    divergence: float


@dataclass(frozen=True)
class HockeyStick:
    """The divergence sup over events S of P(S) - exp(eps) Q(S) at the claimed eps: what delta must be at least."""

    estimate: float  # The plug-in value for the chosen event
    lower: float  # Its lower confidence bound; the claim is refuted if it exceeds the claimed delta


@dataclass(frozen=True)
class AuditCurve:
    """What the plot shows: the bound by threshold, and the score's histograms on the two data sets."""

    curve: Curve
    edges: FloatArray
    counts: tuple[FloatArray, FloatArray]


@dataclass(frozen=True)
class AuditResult(Printed):
    """A lower bound on the privacy loss of a mechanism, from its outputs alone.

    Attributes
    ----------
    eps, delta : float
        The claim.
    eps_lower : float
        Lower confidence bound on eps at the claimed delta.
    hockey_stick : HockeyStick
        The divergence at the claimed eps.
    passed : bool
        False if a bound refutes the claim. True means that these runs do not refute it, never that it is proved.
    event : str
        The event that gives `eps_lower`.
    runs : int
        Runs per data set; half chose the events, half counted them.
    confidence : float
        The probability, at least, that all bounds hold together.
    findings : tuple of CountedEvent
        The events counted, most telling first.
    picture : AuditCurve
        The data of `plot`.
    """

    eps: float
    delta: float
    eps_lower: float
    hockey_stick: HockeyStick
    passed: bool
    event: str
    runs: int
    confidence: float
    findings: tuple[CountedEvent, ...] = field(repr=False)
    picture: AuditCurve = field(repr=False)

    def summary(self) -> Summary:
        """The result as tables of at most 80 columns."""
        verdict = "not refuted" if self.passed else "REFUTED"
        rows = [
            ["Claimed epsilon:", f"{self.eps:.4g}", "Runs per data set:", f"{self.runs:,}"],
            ["Claimed delta:", f"{self.delta:.4g}", "Confidence:", f"{self.confidence:g}"],
            ["Epsilon at least:", f"{self.eps_lower:.4g}", "Hockey-stick at least:", f"{self.hockey_stick.lower:.3g}"],
            ["The claim is", verdict, "Hockey-stick estimate:", f"{self.hockey_stick.estimate:.3g}"],
        ]
        events = [[shorten(f.event, 44), f.likely, str(f.hits), str(f.other), f"{f.eps:.4g}"] for f in self.findings]
        head = ["event", "likely under", "hits", "other", "eps >="]
        tables = [
            SimpleTable(rows, title="Audit of a privacy claim", txt_fmt={"data_aligns": "lrlr", "colsep": "  "}),
            SimpleTable(events, headers=head, txt_fmt={"data_aligns": "llrrr", "header_align": "l", "colsep": "  "}),
        ]
        summary = Summary(tables)
        summary.add_extra_txt([f"hits, other: of {self.findings[0].runs:,} fresh runs on each data set."])
        return summary

    def plot(self, what: str = "bounds", *, caption: bool = True, ax: Axes | None = None) -> Axes:
        """Draw lower bounds on eps by threshold, or the "scores" on both data sets; see `dpstats.plots.audit`."""
        return plots.audit(self, what=what, caption=caption, ax=ax)


def picture_of(curve: Curve, first: FloatArray, second: FloatArray) -> AuditCurve:
    """Histograms of one score over the central 99 % of both samples; NaN is left out."""
    first, second = first[~np.isnan(first)], second[~np.isnan(second)]
    low, high = np.quantile(np.concatenate([first, second]), [0.005, 0.995]) if len(first) + len(second) else (0, 1)
    edges = np.linspace(low, high if high > low else low + 1, 61)
    counts = [np.histogram(side, edges)[0].astype(np.float64) for side in (first, second)]
    return AuditCurve(curve, edges, (counts[0], counts[1]))


# Two aims (eps, divergence) in two directions, each event with a bound above and a bound below.
_BOUNDS = 8
_NOTHING = Score("no difference between the runs", lambda outcomes: np.zeros(len(outcomes.labels)))


def audit(
    mechanism: Mechanism,
    data: Any,
    neighbour: Any,
    *,
    eps: float,
    delta: float = 0.0,
    runs: int = 100_000,
    confidence: float = 0.999,
    seed: int | None = None,
    vectorized: bool = False,
    n_jobs: int = 1,
    progress: bool | None = None,
) -> AuditResult:
    """A lower confidence bound on the eps of any mechanism, from its outputs on two neighbouring data sets.

    Half of the runs learn scores and choose the most telling events, in both directions; the other half counts them,
    so that the Clopper-Pearson bounds are exact. An event may be a half-line of a coordinate, a norm, the difference
    of means or a learnt log-likelihood ratio; a union of intervals of any of these; a pattern of exact zeros; an exact
    value; a non-finite entry; another number of entries; a word; an exception; a warning; a log record.

    Parameters
    ----------
    mechanism : callable
        ``mechanism(data, rng)`` returns a number, an array, text, or a tuple, list or mapping of these; `rng` is a
        numpy Generator. What it raises, warns or logs counts as its output.
    data, neighbour : object
        The two data sets, passed to `mechanism` unchanged.
    eps, delta : float
        The claim.
    runs : int
        Runs on each data set, at least 100. With n runs the bound can reach at most about log(n) - 3.
    confidence : float
        All bounds of the result hold together with at least this probability, so 1 - `confidence` bounds the chance
        that a sound mechanism fails.
    seed : int or None
        For a reproducible audit; the result does not depend on `n_jobs`.
    vectorized : bool
        The mechanism is ``mechanism(data, rng, runs)`` and returns an array of shape (runs,) or (runs, size), its
        rows independent runs.
    n_jobs : int
        Worker processes; with more than one, `mechanism` and the data must be picklable.
    progress : bool or None
        A progress line on stderr, after three seconds; None shows it on a terminal only.

    Returns
    -------
    AuditResult

    Raises
    ------
    ArgumentError
        If an argument is outside its range, the contract of `vectorized` is broken, or every run raises the same.

    Notes
    -----
    A pass is not a proof: these runs on this pair do not refute the claim. See docs/audits. The approach follows
    Jagielski, Ullman & Oprea (2020) and the event search of Bichsel et al. (2021).

    Examples
    --------
    >>> import dpstats as dp
    >>> def noisy_count(data, rng):
    ...     return len(data) + rng.laplace(scale=1.0)
    >>> audit = dp.audit(noisy_count, ["Ann", "Bob"], ["Ann"], eps=1.0, runs=2000, seed=1)
    >>> audit.passed
    True
    """
    eps, delta = check_budget(eps, delta)
    if isinstance(runs, bool) or not isinstance(runs, int) or runs < 100:
        raise ArgumentError(f"runs must be an integer of at least 100, got {safe_repr(runs)}")
    if not is_number(confidence) or not 0.5 <= confidence < 1:
        raise ArgumentError(f"confidence must lie in [0.5, 1), got {safe_repr(confidence)}")
    if isinstance(n_jobs, bool) or not isinstance(n_jobs, int) or n_jobs < 1:
        raise ArgumentError(f"n_jobs must be a positive integer, got {safe_repr(n_jobs)}")
    vectorized = check_flag("vectorized", vectorized)
    with progress_counter("audit", 2 * runs, progress) as advance:
        first, second = observe_pair(
            mechanism, data, neighbour, runs=runs, seed=seed, vectorized=vectorized, n_jobs=n_jobs, advance=advance
        )
    return judge(first, second, eps=eps, delta=delta, confidence=confidence)


def judge(first: Outcomes, second: Outcomes, *, eps: float, delta: float, confidence: float) -> AuditResult:
    """Choose events on the first half of each sample of outcomes and count them on the second halves."""
    alpha = (1 - confidence) / _BOUNDS
    (learn_a, choose_a, count_a), (learn_b, choose_b, count_b) = first.parts(), second.parts()
    scores = list(learn_scores(learn_a, learn_b)) or [_NOTHING]
    choosing, counting = {"data": choose_a, "neighbour": choose_b}, {"data": count_a, "neighbour": count_b}
    runs = len(count_a.labels)
    counted: list[tuple[CountedEvent, ChosenEvent]] = []
    for likely, unlikely in (("data", "neighbour"), ("neighbour", "data")):
        choices = choose_events(scores, choosing[likely], choosing[unlikely], eps=eps, delta=delta, alpha=alpha)
        for choice in choices.values():
            hits, other = (choice.event.count(counting[side]) for side in (likely, unlikely))
            bounds = lower_bounds(np.array(hits), np.array(other), runs, eps=eps, delta=delta, alpha=alpha)
            lower = float(bounds.eps), float(bounds.divergence)
            counted.append((CountedEvent(str(choice.event), likely, unlikely, hits, other, runs, *lower), choice))
    counted.sort(key=lambda pair: -pair[0].eps)
    findings = tuple(dict.fromkeys(finding for finding, _ in counted))
    stick = max(findings, key=lambda finding: finding.divergence)
    estimate = max((f.hits - float(np.exp(min(eps, 700.0))) * f.other) / f.runs for f in findings)
    telling = counted[0][1]
    # An event whose divergence exceeds delta shows an eps above the claim, so the greatest eps decides alone.
    score = telling.event.score
    return AuditResult(
        eps=eps,
        delta=delta,
        eps_lower=findings[0].eps,
        hockey_stick=HockeyStick(max(estimate, 0.0), stick.divergence),
        passed=findings[0].eps <= eps,
        event=findings[0].event,
        runs=len(first.labels),
        confidence=confidence,
        findings=findings,
        picture=picture_of(telling.curve, score.of(count_a), score.of(count_b)),
    )
