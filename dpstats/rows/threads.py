"""Runs of elements worked on at the same time: numpy and BLAS leave the interpreter free while they work."""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, TypeVar

from dpstats.quiet import quiet

Result = TypeVar("Result")

RUNS = 4
"""Into which elements are divided, however many threads there are: the order in which they are added up is the same."""

LEAST_ELEMENTS = 16
"""Fewer are not worth a thread."""


def runs_of(elements: Sequence[Any]) -> list[Sequence[Any]]:
    """The elements, in order, in runs of about the same number."""
    if len(elements) < LEAST_ELEMENTS:
        return [elements]
    cuts = [len(elements) * run // RUNS for run in range(RUNS + 1)]
    return [elements[start:end] for start, end in itertools.pairwise(cuts)]


def of_each(part: Callable[[Any], Result], runs: Sequence[Any]) -> list[Result]:
    """`part` of every run, in their order."""
    count = min(thread_count(), len(runs))
    if count < 2:
        return [part(run) for run in runs]
    with ThreadPoolExecutor(count) as pool:
        return list(pool.map(partial(_quietly, part), runs))


def thread_count() -> int:
    """The cores that this process may use, or as many as OMP_NUM_THREADS says, which other libraries heed as well."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    given = os.environ.get("OMP_NUM_THREADS", "")
    return min(cores, int(given)) if given.isdigit() and int(given) else cores


def _quietly(part: Callable[[Any], Result], run: Any) -> Result:
    """numpy's error state is that of a thread."""
    with quiet():
        return part(run)
