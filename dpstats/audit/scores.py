"""From outcomes to scalar scores whose thresholds are the events an audit counts."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from dpstats.audit.bounds import FloatArray
from dpstats.audit.outcomes import Outcomes
from dpstats.audit.projections import Projection, projections

Keys = Callable[[Outcomes], NDArray[np.object_]]

_MOST_BINS = 200
_BIN_RUNS = 25


@dataclass(frozen=True)
class Score:
    """A named map from outcomes to one number each; NaN where it does not apply, which no event contains."""

    name: str
    of: Callable[[Outcomes], FloatArray]


def learn_scores(first: Outcomes, second: Outcomes) -> Iterator[Score]:
    """The scores worth trying, learnt on runs that are used for nothing else.

    Categories (labels, patterns of exact zeros, values that recur exactly) score by their log-ratio; each scalar view
    of the numbers is used as it is and, for events that are no half-lines, by the log-ratio of the bin it falls into.
    """
    for name, keys in (("label", _labels), ("support", _supports), ("exact value", _exact_values)):
        a, b = keys(first), keys(second)
        if pd.unique(np.concatenate([a, b])).size > 1:
            yield _categories(name, keys, a, b)
    numbers = [side.values[np.isfinite(side.values).all(axis=1)] for side in (first, second)]
    if first.values.shape[1] == 0 or min(map(len, numbers)) < 10:
        return
    for name, projection in projections(*numbers):
        yield Score(name, partial(_apply, projection))
        yield _bins(name, projection, *map(projection, numbers))


def _apply(projection: Projection, outcomes: Outcomes) -> FloatArray:
    finite = np.isfinite(outcomes.values).all(axis=1)
    scores = np.full(len(outcomes.labels), np.nan)
    scores[finite] = projection(outcomes.values[finite])
    return scores


def _labels(outcomes: Outcomes) -> NDArray[np.object_]:
    return outcomes.labels


def _supports(outcomes: Outcomes) -> NDArray[np.object_]:
    return _row_keys(outcomes.values == 0)


def _exact_values(outcomes: Outcomes) -> NDArray[np.object_]:
    return _row_keys(outcomes.values)


def _row_keys(rows: NDArray[np.generic]) -> NDArray[np.object_]:
    """Each row's bytes, to compare rows as wholes."""
    rows = np.ascontiguousarray(rows)
    if rows.shape[1] == 0:
        return np.full(len(rows), b"", dtype=object)
    # A void of the row's width would compare equal up to nothing; astype(object) makes it bytes.
    return rows.view(np.dtype((np.void, rows.dtype.itemsize * rows.shape[1]))).ravel().astype(object)


def _categories(name: str, keys: Keys, first: NDArray[np.object_], second: NDArray[np.object_]) -> Score:
    counts = pd.concat([pd.Series(a, dtype=object).value_counts() for a in (first, second)], axis=1).fillna(0)
    # A category met once says nothing about its ratio, and continuous values are all met once.
    counts = counts[counts.sum(axis=1) > 1]
    a, b = counts.to_numpy(dtype=np.float64).T
    ratio = pd.Series(np.log((b + 0.5) / (a + 0.5)), index=counts.index)

    def of(outcomes: Outcomes) -> FloatArray:
        return np.asarray(pd.Series(keys(outcomes)).map(ratio), dtype=np.float64)

    return Score(f"log-ratio of {name}", of)


def _bins(name: str, projection: Projection, first: FloatArray, second: FloatArray) -> Score:
    pooled = np.concatenate([first, second])
    bins = min(_MOST_BINS, max(8, len(pooled) // _BIN_RUNS))
    edges = np.quantile(pooled, np.linspace(0, 1, bins + 1)[1:-1], method="lower")
    edges = np.unique(edges)
    a, b = (np.bincount(np.searchsorted(edges, side, "right"), minlength=len(edges) + 1) for side in (first, second))
    ratio = np.log((b + 0.5) / (a + 0.5))

    def of(outcomes: Outcomes) -> FloatArray:
        scores = _apply(projection, outcomes)
        finite = ~np.isnan(scores)
        scores[finite] = ratio[np.searchsorted(edges, scores[finite], "right")]
        return scores

    return Score(f"binned log-ratio of {name}", of)
