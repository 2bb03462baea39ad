"""Outcomes of runs, and the events that tell two data sets apart: learnt on some runs, counted on others."""

from __future__ import annotations

import logging
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ProcessPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from multiprocessing import get_context
from operator import itemgetter
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.special import betaincinv, expit

from dpstats.errors import ArgumentError
from dpstats.privacy.randomness import random_source

FloatArray = NDArray[np.float64]
Mechanism = Callable[..., Any]
Projection = Callable[[FloatArray], FloatArray]

_MOST_COORDINATES, _MOST_IN_REGRESSION = 16, 8
_TRAINING_ROWS = 20_000
_MOST_BINS, _BIN_RUNS = 200, 25


@dataclass(frozen=True)
class Outcomes:
    """The outcomes of the runs on one data set."""

    # (runs, size): the numbers released; a row is NaN throughout where a run released none, another count of
    # them, or one that is not finite.
    values: FloatArray
    # (runs,): all the rest: exceptions, warnings, log records, words, odd shapes, non-finite entries. Empty for
    # most runs.
    labels: NDArray[np.object_]

    def parts(self) -> tuple[Outcomes, Outcomes, Outcomes]:
        """A quarter of the runs to learn scores from, a quarter to choose thresholds on, and a half to count on.

        Thresholds chosen on what the scores were fitted to would favour the scores that fitted it too well.
        """
        quarter = len(self.labels) // 4
        return self[:quarter], self[quarter : 2 * quarter], self[2 * quarter :]

    def __getitem__(self, rows: slice) -> Outcomes:
        return Outcomes(self.values[rows], self.labels[rows])


Keys = Callable[[Outcomes], NDArray[np.object_]]


class _Witness(logging.Handler):
    """Records the warnings and log records of one run, which leave the process as surely as a return value does."""

    def __init__(self) -> None:
        super().__init__()
        self.messages: list[str] = []
        self._catcher = warnings.catch_warnings()

    def __enter__(self) -> _Witness:
        self._catcher.__enter__()
        warnings.simplefilter("always")
        warnings.showwarning = self._showwarning
        logging.getLogger().addHandler(self)
        return self

    def __exit__(self, *_: object) -> None:
        logging.getLogger().removeHandler(self)
        self._catcher.__exit__(None, None, None)

    def _showwarning(self, message: Warning | str, category: type[Warning], *_: Any, **__: Any) -> None:
        self.messages.append(f"warns {category.__name__}: {message}")

    def emit(self, record: logging.LogRecord) -> None:
        self.messages.append(f"logs {record.levelname}: {record.getMessage()}")


def _flatten(released: Any, numbers: list[float], words: list[str]) -> None:
    """Sort one released object into numbers and words; containers are walked in order."""
    if isinstance(released, Mapping):
        for key, item in released.items():
            words.append(f"key {key}")
            _flatten(item, numbers, words)
    elif isinstance(released, (str, bytes)) or released is None:
        words.append(f"says {released!r}")
    elif isinstance(released, (list, tuple, set, frozenset)):
        for item in sorted(released, key=repr) if isinstance(released, (set, frozenset)) else released:
            _flatten(item, numbers, words)
    else:
        try:
            numbers.extend(np.asarray(released, dtype=np.float64).ravel().tolist())
        except (TypeError, ValueError):
            words.append(f"returns a {type(released).__name__}: {released}")


def _observe(mechanism: Mechanism, data: Any, rng: np.random.Generator, witness: _Witness) -> tuple[list[float], str]:
    """The numbers of one run and the label for everything else that it shows."""
    numbers: list[float] = []
    words: list[str] = []
    witness.messages.clear()
    try:
        _flatten(mechanism(data, rng), numbers, words)
    except Exception as error:
        words.append(f"raises {type(error).__name__}: {error}")
    return numbers, "; ".join(witness.messages + words)


Block = tuple[Any, int, np.random.SeedSequence]
"""Data, and a number of runs with a seed of their own: the outcome does not depend on the process that runs them."""


def _run_block(
    mechanism: Mechanism, vectorized: bool, block: Block
) -> tuple[list[list[float]] | FloatArray, list[str]]:
    """Numbers and labels of the runs of a block."""
    data, runs, seed = block
    rng = np.random.default_rng(seed)
    with _Witness() as witness:
        if not vectorized:
            outcomes = [_observe(mechanism, data, rng, witness) for _ in range(runs)]
            return [numbers for numbers, _ in outcomes], [label for _, label in outcomes]
        values = np.asarray(mechanism(data, rng, runs), dtype=np.float64)
    if witness.messages:
        # One warning for a block of runs cannot be shared out among them without breaking their independence.
        raise ArgumentError("vectorized=True needs a mechanism without warnings and log entries; use vectorized=False")
    if values.shape[:1] != (runs,):
        raise ArgumentError(f"vectorized=True needs an array of {runs} rows, got shape {values.shape}")
    return values.reshape(runs, -1), [""] * runs


def observe_pair(
    mechanism: Mechanism,
    data: Any,
    neighbour: Any,
    *,
    runs: int,
    seed: int | None,
    vectorized: bool,
    n_jobs: int,
    advance: Callable[[int], None],
) -> tuple[Outcomes, Outcomes]:
    """Run `mechanism` `runs` times on each data set with independent randomness; `advance` is told of runs done.

    ArgumentError if every run raises the same exception (nothing was audited), or the contract of ``vectorized`` is
    broken.
    """
    size = min(runs, 20_000 if vectorized else max(1, min(1000, runs // 20)))
    sizes = [min(size, runs - start) for start in range(0, runs, size)]
    random_source(seed)  # refuses what is no seed
    seeds = np.random.SeedSequence(seed).spawn(2 * len(sizes))
    sides = [data] * len(sizes) + [neighbour] * len(sizes)
    blocks = list(zip(sides, sizes * 2, seeds, strict=True))
    vectors: list[list[float] | FloatArray] = []
    labels: list[str] = []
    with ExitStack() as stack:
        each: Callable[..., Iterable[Any]] = map
        if n_jobs > 1:
            # A fresh interpreter per worker: forking a process that may hold threads is not safe.
            each = stack.enter_context(ProcessPoolExecutor(n_jobs, mp_context=get_context("spawn"))).map
        for numbers, words in each(partial(_run_block, mechanism, vectorized), blocks):
            vectors.extend(numbers)
            labels.extend(words)
            advance(len(words))
    if "raises " in labels[0] and len(set(labels)) == 1:
        kind = labels[0].partition("raises ")[2].partition(":")[0]
        raise ArgumentError(f"mechanism raised {kind} in every run, so nothing was audited; call it once to see why")
    return _encode(vectors, labels, runs)


def _encode(vectors: list[list[float] | FloatArray], labels: list[str], runs: int) -> tuple[Outcomes, Outcomes]:
    """Stack the numbers of both sides as one array; whatever does not fit into it becomes part of the label."""
    text = np.array(labels, dtype=object)
    widths = np.fromiter(map(len, vectors), dtype=np.intp, count=len(vectors))
    # The usual length comes from the runs that scores are learnt on: events must not depend on those that are counted.
    learnt = np.concatenate([widths[: runs // 4], widths[runs : runs + runs // 4]])
    width = int(np.bincount(learnt[learnt > 0]).argmax()) if learnt.any() else 0
    fits = widths == width
    values = np.full((len(vectors), width), np.nan)
    if width:
        values[fits] = [vector for vector, fit in zip(vectors, fits, strict=True) if fit]
    for i in np.flatnonzero(~fits):
        text[i] += f"; {widths[i]} numbers"
    for i in np.flatnonzero(fits & ~np.isfinite(values).all(axis=1)):
        text[i] += "; " + ", ".join(f"[{j}] is {values[i, j]}" for j in np.flatnonzero(~np.isfinite(values[i])))
        values[i] = np.nan
    text = pd.Series(text, dtype=object).str.lstrip("; ").to_numpy(dtype=object)
    return Outcomes(values[:runs], text[:runs]), Outcomes(values[runs:], text[runs:])


def clopper_pearson(count: FloatArray, runs: int, alpha: float) -> tuple[FloatArray, FloatArray]:
    """Exact one-sided bounds of a binomial proportion, each wrong with probability at most `alpha`."""
    count = np.asarray(count, dtype=np.float64)
    lower = np.where(count > 0, betaincinv(np.maximum(count, 1), runs - count + 1, alpha), 0.0)
    upper = np.where(count < runs, betaincinv(count + 1, np.maximum(runs - count, 1), 1 - alpha), 1.0)
    return lower, upper


class EpsBounds(NamedTuple):
    """Lower confidence bounds for events: `eps` at the claimed delta, `divergence` at the claimed eps."""

    eps: FloatArray
    divergence: FloatArray


def lower_bounds(
    hits: FloatArray, other: FloatArray, runs: int, *, eps: float, delta: float, alpha: float
) -> EpsBounds:
    """Bounds that events with `hits` under one data set and `other` under its neighbour give, out of `runs` each.

    Each event S shows eps >= log((P(S) - delta) / Q(S)) and a divergence of at least P(S) - exp(eps) Q(S); both
    proportions are replaced by their bounds, so an event's pair of bounds fails with probability 2 `alpha` at most.
    """
    low, _ = clopper_pearson(hits, runs, alpha)
    _, high = clopper_pearson(other, runs, alpha)
    with np.errstate(divide="ignore"):
        eps_shown = np.log(np.maximum(low - delta, 0)) - np.log(high)
    return EpsBounds(np.maximum(eps_shown, 0.0), np.maximum(low - np.exp(min(eps, 700.0)) * high, 0.0))


def projections(first: FloatArray, second: FloatArray) -> Iterator[tuple[str, Projection]]:
    """Name and give each scalar view worth thresholding, as a map from (rows, size) to (rows,).

    `first` and `second`, shape (runs, size), are what was released on the two data sets, finite.
    """
    size = first.shape[1]
    chosen = _telling_coordinates(first, second)
    for j in chosen[:_MOST_COORDINATES]:
        yield f"[{j}]", itemgetter((slice(None), j))
    if size > 1:
        yield from _norms(np.median(first, axis=0), np.median(second, axis=0))
        direction = _discriminant(first, second)
        yield "difference of means", lambda values: values @ direction
    yield "logistic regression", _regression(first, second, chosen[:_MOST_IN_REGRESSION])


def _telling_coordinates(first: FloatArray, second: FloatArray) -> list[int]:
    """Coordinates by how far apart their empirical distribution functions are (on a subsample)."""
    a, b = np.sort(first[:_TRAINING_ROWS], axis=0), np.sort(second[:_TRAINING_ROWS], axis=0)
    grid = np.linspace(0, 1, 101)[1:-1]
    gaps = []
    for j in range(first.shape[1]):
        points = np.quantile(np.concatenate([a[:, j], b[:, j]]), grid)
        gap = np.searchsorted(a[:, j], points) / len(a) - np.searchsorted(b[:, j], points) / len(b)
        gaps.append(float(np.abs(gap).max()))
    return [int(j) for j in np.argsort(gaps)[::-1]]


def _norms(here: FloatArray, there: FloatArray) -> Iterator[tuple[str, Projection]]:
    yield "l1 norm", lambda values: np.abs(values).sum(axis=1)
    yield "l2 norm", lambda values: np.linalg.norm(values, axis=1)
    yield "largest entry", lambda values: np.abs(values).max(axis=1)
    yield "distance to the data set's median", lambda values: np.linalg.norm(values - here, axis=1)
    yield "distance to the neighbour's median", lambda values: np.linalg.norm(values - there, axis=1)


def _discriminant(first: FloatArray, second: FloatArray) -> FloatArray:
    """Fisher's direction; a combination that is free of noise on both sides dominates it, as it should."""
    spread = (np.atleast_2d(np.cov(first.T)) + np.atleast_2d(np.cov(second.T))) / 2
    spread += (1e-12 * np.trace(spread) + 1e-300) * np.eye(len(spread))
    direction: FloatArray = np.linalg.lstsq(spread, second.mean(axis=0) - first.mean(axis=0), rcond=None)[0]
    return direction


def _features(first: FloatArray, second: FloatArray, chosen: list[int]) -> Projection:
    """Level, size, square, support and nearness to zero and to either median; products when there are few."""
    pooled = np.vstack([first, second])
    middle = np.median(pooled, axis=0)
    scale = np.median(np.abs(pooled - middle), axis=0)
    scale = np.where(scale > 0, scale, np.where(pooled.std(axis=0) > 0, pooled.std(axis=0), 1.0))
    centres = [np.zeros(pooled.shape[1]), np.median(first, axis=0), np.median(second, axis=0)]
    floor = 1e-12 * scale

    def features(values: FloatArray) -> FloatArray:
        z = ((values - middle) / scale)[:, chosen]
        near = [np.log((np.abs(values - centre) + floor) / scale)[:, chosen] for centre in centres]
        far = [np.log((np.linalg.norm(values - centre, axis=1) + floor.min()) / scale.max()) for centre in centres]
        parts = [np.arcsinh(z), np.minimum(np.abs(z), 20), np.minimum(z**2, 50), *near, values[:, chosen] == 0]
        if len(chosen) <= 4:
            parts += [np.clip(z[:, [i]] * z[:, [j]], -50, 50) for i in range(len(chosen)) for j in range(i)]
        return np.column_stack([*parts, *far])

    return features


def _regression(first: FloatArray, second: FloatArray, chosen: list[int]) -> Projection:
    """The log odds of a ridge logistic regression on `_features`: an approximate log-likelihood ratio."""
    first, second = first[:_TRAINING_ROWS], second[:_TRAINING_ROWS]
    features = _features(first, second, chosen)
    design = features(np.vstack([first, second]))
    mean, spread = design.mean(axis=0), design.std(axis=0)
    spread = np.where(spread > 1e-9, spread, 1.0)
    design = np.column_stack([np.ones(len(design)), (design - mean) / spread])
    target = np.repeat([0.0, 1.0], [len(first), len(second)])
    ridge = 1e-3 * len(target) ** 0.5 * np.eye(design.shape[1])
    weights = np.zeros(design.shape[1])
    for _ in range(12):
        fitted = expit(design @ weights)
        hessian = (design.T * np.maximum(fitted * (1 - fitted), 1e-4)) @ design + ridge
        weights += np.linalg.solve(hessian, design.T @ (target - fitted) - ridge @ weights)
    return lambda values: ((features(values) - mean) / spread) @ weights[1:] + weights[0]


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
    views: dict[str, Keys] = {
        "label": lambda outcomes: outcomes.labels,
        "support": lambda outcomes: _row_keys(outcomes.values == 0),
        "exact value": lambda outcomes: _row_keys(outcomes.values),
    }
    for name, keys in views.items():
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


class Curve(NamedTuple):
    """Lower bounds against thresholds of one score, on the quarter of the runs that chose the event (for the plot)."""

    thresholds: FloatArray
    bounds: EpsBounds


class ChosenEvent(NamedTuple):
    """The event with the greatest lower bound of one kind ("eps" or "divergence"), and the curve it is the top of."""

    event: Event
    curve: Curve
    bound: float


def choose_events(
    scores: Iterable[Score], likely: Outcomes, unlikely: Outcomes, *, eps: float, delta: float, alpha: float
) -> dict[str, ChosenEvent]:
    """For each aim the event, likely on one side and rare on the other, with the greatest lower bound on these runs."""
    best: dict[str, ChosenEvent] = {}
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
                    best[aim] = ChosenEvent(event, Curve(thresholds, bounds), float(values[top]))
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
