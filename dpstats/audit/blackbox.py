"""Audit a privacy claim from outputs alone."""

from __future__ import annotations

from typing import Any

import numpy as np

from dpstats.arguments import check_flag, is_number, shown
from dpstats.audit.bounds import lower_bounds
from dpstats.audit.outcomes import Mechanism, Outcomes, observe_pair
from dpstats.audit.result import AuditResult, Finding, HockeyStick, picture_of
from dpstats.audit.scores import Score, learn_scores
from dpstats.audit.search import Choice, choose_events
from dpstats.errors import ArgumentError
from dpstats.privacy.guarantee import check_budget
from dpstats.progress import counted

# Two aims (eps, divergence) in two directions, each event with a bound above and a bound below.
_BOUNDS = 8
_NOTHING = Score("nothing to tell the runs apart", lambda outcomes: np.zeros(len(outcomes.labels)))


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
        The two data sets, handed to `mechanism` as they are.
    eps, delta : float
        The claim.
    runs : int
        Runs on each data set, at least 100. With n runs no more than about log(n) - 3 can be shown.
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
    A pass is no proof: it says that these runs on this pair do not refute the claim. See docs/audits. The approach
    follows Jagielski, Ullman & Oprea (2020) and the event search of Bichsel et al. (2021).

    Examples
    --------
    >>> import dpstats as dp
    >>> def noisy_count(data, rng):
    ...     return len(data) + rng.laplace(scale=1.0)
    >>> found = dp.audit(noisy_count, ["Ann", "Bob"], ["Ann"], eps=1.0, runs=2000, seed=1)
    >>> found.passed
    True
    """
    eps, delta = check_budget(eps, delta)
    _check(runs, confidence, n_jobs)
    vectorized = check_flag("vectorized", vectorized)
    with counted("audit", 2 * runs, progress) as advance:
        first, second = observe_pair(
            mechanism,
            data,
            neighbour,
            runs=runs,
            seed=seed,
            vectorized=vectorized,
            n_jobs=n_jobs,
            advance=advance,
        )
    return judge(first, second, eps=eps, delta=delta, confidence=confidence)


def _check(runs: int, confidence: float, n_jobs: int) -> None:
    if isinstance(runs, bool) or not isinstance(runs, int) or runs < 100:
        raise ArgumentError(f"runs must be an integer of at least 100, got {shown(runs)}")
    if not is_number(confidence) or not 0.5 <= confidence < 1:
        raise ArgumentError(f"confidence must lie in [0.5, 1), got {shown(confidence)}")
    if isinstance(n_jobs, bool) or not isinstance(n_jobs, int) or n_jobs < 1:
        raise ArgumentError(f"n_jobs must be a positive integer, got {shown(n_jobs)}")


def judge(first: Outcomes, second: Outcomes, *, eps: float, delta: float, confidence: float) -> AuditResult:
    """Choose events on the first half of each sample of outcomes and count them on the second halves."""
    alpha = (1 - confidence) / _BOUNDS
    (learn_a, choose_a, count_a), (learn_b, choose_b, count_b) = first.parts(), second.parts()
    scores = list(learn_scores(learn_a, learn_b)) or [_NOTHING]
    sides = {"data": (choose_a, count_a), "neighbour": (choose_b, count_b)}
    found: list[tuple[Finding, Choice]] = []
    for likely, unlikely in (("data", "neighbour"), ("neighbour", "data")):
        choices = choose_events(scores, sides[likely][0], sides[unlikely][0], eps=eps, delta=delta, alpha=alpha)
        found += [
            (_count(choice, likely, unlikely, sides[likely][1], sides[unlikely][1], eps, delta, alpha), choice)
            for choice in choices.values()
        ]
    found.sort(key=lambda pair: -pair[0].eps)
    findings = tuple(dict.fromkeys(finding for finding, _ in found))
    stick = max(findings, key=lambda finding: finding.divergence)
    estimate = max((f.hits - float(np.exp(min(eps, 700.0))) * f.other) / f.runs for f in findings)
    telling = found[0][1]
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


def _count(
    choice: Choice, likely: str, unlikely: str, a: Outcomes, b: Outcomes, eps: float, delta: float, alpha: float
) -> Finding:
    hits, other, runs = choice.event.count(a), choice.event.count(b), len(a.labels)
    bounds = lower_bounds(np.array(hits), np.array(other), runs, eps=eps, delta=delta, alpha=alpha)
    return Finding(str(choice.event), likely, unlikely, hits, other, runs, float(bounds.eps), float(bounds.divergence))
