"""Choose an event on one half of the runs and count it on the other."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from dpstats.audit.bounds import Bounds, FloatArray, lower_bounds
from dpstats.audit.outcomes import Outcomes
from dpstats.audit.scores import Score


@dataclass(frozen=True)
class Event:
    """A set of outcomes: those whose score is at least (or at most) a threshold."""

    score: Score
    threshold: float
    above: bool

    def count(self, outcomes: Outcomes) -> int:
        """How many of the outcomes lie in the event."""
        scores = self.score.of(outcomes)
        return int(np.count_nonzero(scores >= self.threshold if self.above else scores <= self.threshold))

    def __str__(self) -> str:
        return f"{self.score.name} {'>=' if self.above else '<='} {self.threshold:.4g}"


@dataclass(frozen=True)
class Curve:
    """Lower bounds against thresholds of one score, on the half that chose the event (for the plot)."""

    thresholds: FloatArray
    bounds: Bounds


@dataclass(frozen=True)
class Choice:
    """The most telling event found for one aim ("eps" or "divergence"), and the curve it is the top of."""

    event: Event
    curve: Curve
    bound: float


def choose_events(
    scores: Iterable[Score], likely: Outcomes, unlikely: Outcomes, *, eps: float, delta: float, alpha: float
) -> dict[str, Choice]:
    """For each aim the event, likely on one side and rare on the other, with the greatest lower bound on these runs."""
    best: dict[str, Choice] = {}
    runs = len(likely.labels)
    for score in scores:
        a, b = (np.sort(values[~np.isnan(values)]) for values in (score.of(likely), score.of(unlikely)))
        thresholds = _thresholds(np.concatenate([a, b]))
        if not len(thresholds):
            continue
        for above in (True, False):
            hits, other = (_count(side, thresholds, above) for side in (a, b))
            bounds = lower_bounds(hits, other, runs, eps=eps, delta=delta, alpha=alpha)
            for aim, values in bounds._asdict().items():
                top = int(np.argmax(values))
                if aim not in best or values[top] > best[aim].bound:
                    event = Event(score, float(thresholds[top]), above)
                    best[aim] = Choice(event, Curve(thresholds, bounds), float(values[top]))
    return best


def _count(ordered: FloatArray, thresholds: FloatArray, above: bool) -> FloatArray:
    if above:
        return (len(ordered) - np.searchsorted(ordered, thresholds, "left")).astype(np.float64)
    return np.searchsorted(ordered, thresholds, "right").astype(np.float64)


def _thresholds(pooled: FloatArray) -> FloatArray:
    """Order statistics, evenly spread in the middle and geometrically in both tails."""
    if not len(pooled):
        return pooled
    ordered = np.sort(pooled)
    steps = np.unique(np.geomspace(1, len(ordered), 80).astype(np.intp)) - 1
    ranks = np.concatenate([steps, len(ordered) - 1 - steps, np.linspace(0, len(ordered) - 1, 80).astype(np.intp)])
    return np.unique(ordered[ranks])
