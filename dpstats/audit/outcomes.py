"""Everything a mechanism lets an observer see, over many runs on one data set."""

from __future__ import annotations

import logging
import warnings
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from multiprocessing import get_context
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from dpstats.errors import ArgumentError
from dpstats.privacy.randomness import random_source

FloatArray = NDArray[np.float64]
Mechanism = Callable[..., Any]


@dataclass(frozen=True)
class Outcomes:
    """What the runs on one data set showed."""

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


class _Witness(logging.Handler):
    """Hears the warnings and log records of one run; both leave the process as surely as a return value does."""

    def __init__(self) -> None:
        super().__init__()
        self.heard: list[str] = []
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
        self.heard.append(f"warns {category.__name__}: {message}")

    def emit(self, record: logging.LogRecord) -> None:
        self.heard.append(f"logs {record.levelname}: {record.getMessage()}")


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
    """The numbers of one run and the label for everything else it let out."""
    numbers: list[float] = []
    words: list[str] = []
    witness.heard.clear()
    try:
        _flatten(mechanism(data, rng), numbers, words)
    except Exception as error:
        words.append(f"raises {type(error).__name__}: {error}")
    return numbers, "; ".join(witness.heard + words)


@dataclass(frozen=True)
class _Block:
    """A number of runs with a seed of their own, so that the outcome does not depend on who runs them."""

    mechanism: Mechanism
    data: Any
    runs: int
    seed: np.random.SeedSequence
    vectorized: bool

    def run(self) -> tuple[list[list[float]] | FloatArray, list[str]]:
        rng = np.random.default_rng(self.seed)
        with _Witness() as witness:
            if not self.vectorized:
                seen = [_observe(self.mechanism, self.data, rng, witness) for _ in range(self.runs)]
                return [numbers for numbers, _ in seen], [label for _, label in seen]
            values = np.asarray(self.mechanism(self.data, rng, self.runs), dtype=np.float64)
        if witness.heard:
            # One warning for a block of runs cannot be shared out among them without breaking their independence.
            raise ArgumentError("vectorized=True needs a mechanism that neither warns nor logs; audit it run by run")
        if values.shape[:1] != (self.runs,):
            raise ArgumentError(f"vectorized=True needs an array of {self.runs} rows, got shape {values.shape}")
        return values.reshape(self.runs, -1), [""] * self.runs


def _run(block: _Block) -> tuple[list[list[float]] | FloatArray, list[str]]:
    return block.run()


def _results(blocks: list[_Block], n_jobs: int) -> Iterator[tuple[list[list[float]] | FloatArray, list[str]]]:
    if n_jobs == 1:
        yield from map(_run, blocks)
        return
    # A fresh interpreter per worker: forking a process that may hold threads is not safe.
    with ProcessPoolExecutor(n_jobs, mp_context=get_context("spawn")) as pool:
        yield from pool.map(_run, blocks)


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
    blocks = [
        _Block(mechanism, side, count, child, vectorized)
        for side, children in ((data, seeds[: len(sizes)]), (neighbour, seeds[len(sizes) :]))
        for count, child in zip(sizes, children, strict=True)
    ]
    vectors: list[list[float] | FloatArray] = []
    labels: list[str] = []
    for numbers, words in _results(blocks, n_jobs):
        vectors.extend(numbers)
        labels.extend(words)
        advance(len(words))
    if "raises " in labels[0] and len(set(labels)) == 1:
        kind = labels[0].partition("raises ")[2].partition(":")[0]
        raise ArgumentError(f"mechanism raised {kind} on every run, so nothing was audited; run it alone to see why")
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
