"""Runs of elements worked on at the same time: numpy and BLAS leave the interpreter free while they work.

BLAS itself is held to one thread meanwhile: threads of its own, beside ours, wait for each other most of the time.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import partial
from threading import Lock
from typing import Any, TypeVar

from threadpoolctl import ThreadpoolController

from dpstats.quiet import quiet

Result = TypeVar("Result")

RUNS = 4
"""Into which elements are divided, however many threads there are: the order in which they are added up is the same."""

LEAST_ELEMENTS = 16
"""Fewer are not worth a thread."""

MODERATE_COLUMNS = 1000
"""Systems of so many equations are not worth BLAS's threads, nor are pieces of rows so long."""


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
    with _blas().alone(), ThreadPoolExecutor(count) as pool:
        return list(pool.map(partial(_quietly, part), runs))


def blas_alone(columns: int) -> AbstractContextManager[None]:
    """BLAS held to one thread while a model of so many columns is fitted, unless it is wide.

    The passes have threads of their own, and on what is small BLAS's wait for each other: where others use the machine,
    a hundred times longer than one takes.
    """
    return nullcontext() if thread_count() < 2 or columns > MODERATE_COLUMNS else _blas().alone()


def thread_count() -> int:
    """The cores that this process may use, or as many as OMP_NUM_THREADS says, which other libraries heed as well."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    given = os.environ.get("OMP_NUM_THREADS", "")
    return min(cores, int(given)) if given.isdecimal() and int(given) else cores


class _Blas:
    """The threads of the process's BLAS libraries, of which several fits at a time may want one each."""

    def __init__(self) -> None:
        self._found = ThreadpoolController().select(user_api="blas")
        self._lock = Lock()
        self._inside = 0
        self._limits: Any = None

    @contextmanager
    def alone(self) -> Iterator[None]:
        """One thread until the last who asked for it is done; then as many as before."""
        with self._lock:
            if self._inside == 0:
                self._limits = self._found.limit(limits=1)
            self._inside += 1
        try:
            yield
        finally:
            with self._lock:
                self._inside -= 1
                if self._inside == 0:
                    self._limits.restore_original_limits()


_found: dict[str, _Blas] = {}


def _blas() -> _Blas:
    """Found once, when numpy's and scipy's libraries have been loaded: a search takes milliseconds.

    Threads that search at the same time get the same one: of two, one would restore what the other has set.
    """
    if not _found:
        _found.setdefault("blas", _Blas())
    return _found["blas"]


if hasattr(os, "register_at_fork"):
    # A child has none of the threads that hold the lock, or are inside, at that moment: it would wait for ever.
    os.register_at_fork(after_in_child=_found.clear)


def _quietly(part: Callable[[Any], Result], run: Any) -> Result:
    """numpy's error state is that of a thread."""
    with quiet():
        return part(run)
