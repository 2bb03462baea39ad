"""Work on rows without a sound: no warning, no floating-point error, no message of anybody else's.

Whether numpy, pandas or LAPACK complain depends on cells. So rows are only worked on inside `quiet`, and from the
charge to the release inside `guarded`, where whatever still fails becomes one constant error (docs/proofs/release).
"""

from __future__ import annotations

import functools
import os
import threading
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import ParamSpec, TypeVar

import numpy as np

from dpstats.errors import NoRoomError, ReleaseError, RowsChangedError

Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")

FAILED = (
    "the release failed after rows were read; nothing was released, and what was charged stays charged. "
    "This is a defect of dpstats: report it with formula, Domain and options, never with rows"
)

SAID = (RowsChangedError, NoRoomError)
"""Failures that are said for what they are, in one constant each: the system decides them."""


@contextmanager
def quiet() -> Iterator[None]:
    """Ignore warnings and floating-point errors within the block; the caller's settings return after it.

    numpy's error state belongs to the thread, Python's warning filters to the process: a thread that enters
    `warnings.catch_warnings` within the block and leaves it after the block restores what it found there.
    """
    with np.errstate(all="ignore"):
        _silence.enter()
        try:
            yield
        finally:
            _silence.leave()


def guarded(work: Callable[[], Result], *notes: str) -> Result:
    """The result of `work`, quietly; whatever it raises is replaced by a constant error, one of `SAID` by a new one.

    Parameters
    ----------
    work : callable
        Reads rows that are paid for.
    *notes : str
        Public lines to add to the error.

    Raises
    ------
    ReleaseError
        If `work` raises anything at all, without its context and its frames, which hold rows and noise.
    KeyboardInterrupt
        If the user stopped it, likewise bare.
    """
    failure: BaseException
    try:
        with quiet():
            return work()
    except BaseException as error:
        failure = _constant(error)
    for note in notes:
        failure.add_note(note)
    # Raised outside of the handlers, so that no context is attached.
    raise failure


def bare(work: Callable[[], Result]) -> Result:
    """The result of `work`; an error leaves it as it is but for its context and its frames, which hold data."""
    failure: BaseException
    try:
        return work()
    except BaseException as error:
        failure = error.with_traceback(None)
    failure.__cause__ = failure.__context__ = None
    raise failure


def sealed(function: Callable[Arguments, Result]) -> Callable[Arguments, Result]:
    """`function` as users call it: a failed release leaves none of its frames, which hold data, in the traceback."""

    @functools.wraps(function)
    def call(*args: Arguments.args, **kwargs: Arguments.kwargs) -> Result:
        failure: BaseException
        try:
            # Planning underflows too, where its grids end.
            with np.errstate(all="ignore"):
                return function(*args, **kwargs)
        except (ReleaseError, KeyboardInterrupt) as error:
            failure = _constant(error)
            notes = getattr(error, "__notes__", [])
        del args, kwargs
        for note in notes:
            failure.add_note(note)
        raise failure

    return call


def _constant(error: BaseException) -> BaseException:
    """What stands for an error that may have been raised about rows, without its message, context and frames."""
    if isinstance(error, KeyboardInterrupt):
        return KeyboardInterrupt()
    return next((kind() for kind in SAID if type(error) is kind), None) or ReleaseError(FAILED)


@contextmanager
def unheard() -> Iterator[None]:
    """Drop what native code writes to the process' standard error within the block: a panic may quote cells.

    Whatever else the process writes there in the meantime is dropped too, so the block should only carry out a query.
    """
    with _unheard:
        try:
            kept = os.dup(2)
        except OSError:  # there is no standard error
            yield
            return
        sink = os.open(os.devnull, os.O_WRONLY)
        os.dup2(sink, 2)
        try:
            yield
        finally:
            os.dup2(kept, 2)
            os.close(kept)
            os.close(sink)


_unheard = threading.RLock()


class _Silence:
    """Ignores every warning while at least one thread is inside: the filters are the whole process'."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._inside = 0
        self._caller = warnings.catch_warnings()

    def enter(self) -> None:
        with self._lock:
            if self._inside == 0:
                self._caller = warnings.catch_warnings()
                self._caller.__enter__()
                warnings.simplefilter("ignore")
            self._inside += 1

    def leave(self) -> None:
        with self._lock:
            self._inside -= 1
            if self._inside == 0:
                self._caller.__exit__(None, None, None)


_silence = _Silence()
