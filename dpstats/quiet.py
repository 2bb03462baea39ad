"""Work on rows without a sound: no warning, no floating-point error, no message of anybody else's.

Whether numpy, pandas or LAPACK complain depends on cells. So rows are only worked on inside `quiet`, and from the
charge to the release inside `fail_closed`, where whatever still fails becomes one constant error (docs/proofs/release).
"""

from __future__ import annotations

import functools
import os
import threading
import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import ParamSpec, TypeVar

import numpy as np

from dpstats.errors import NoRoomError, ReleaseError, RowsChangedError

Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")

FAILED = (
    "the release failed after rows were read; nothing was released, and the charge stays. If the data are a query, it "
    "may have met a value that it cannot convert: use TRY_CAST or cast(strict=False). Otherwise this is a defect of "
    "dpstats: report it with formula, Domain and options, never with rows"
)

SAID = (RowsChangedError, NoRoomError)
"""Failures that are said for what they are, in one constant each: the system decides them."""


@contextmanager
def quiet() -> Iterator[None]:
    """Ignore warnings and floating-point errors within the block; the caller's settings return after it.

    numpy's error state belongs to the thread, Python's warning filters to the process: a thread that enters
    `warnings.catch_warnings` within the block and leaves it after the block restores what it found there.
    """
    with np.errstate(all="ignore"), _silence.inside():
        yield


def fail_closed(work: Callable[[], Result], *notes: str) -> Result:
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


def strip_context(work: Callable[[], Result]) -> Result:
    """The result of `work`; an error leaves it as it is but for its context and its frames, which hold data."""
    failure: BaseException
    try:
        return work()
    except BaseException as error:
        failure = error.with_traceback(None)
    failure.__cause__ = failure.__context__ = None
    raise failure


def hide_frames(function: Callable[Arguments, Result]) -> Callable[Arguments, Result]:
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
def silence_native() -> Iterator[None]:
    """Drop what native code writes to the process' standard error within the block: a panic may quote cells.

    Whatever else the process writes there in the meantime is dropped too, so the block should only carry out a query.
    One thread at a time is inside: queries of the same connection would end each other.
    """
    with _deafness.turn, _deafness.inside():
        yield


class _Everywhere(ABC):
    """A setting of the whole process, in force while at least one thread is inside.

    In a child of `os.fork` the forking thread alone lives on: what it is inside of stays, what the others were inside
    of ends. A fork waits for the lock, which is held for a few statements that wait for nothing, so that the child
    finds the setting in force or not, never half-made.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._inside: dict[object, int] = {}
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(
                before=self._lock.acquire, after_in_parent=self._lock.release, after_in_child=self._in_child
            )

    @contextmanager
    def inside(self) -> Iterator[None]:
        """In force within the block."""
        entered = object()
        with self._lock:
            if not self._inside:
                self._start()
            self._inside[entered] = threading.get_ident()
        try:
            yield
        finally:
            with self._lock:
                # A child may finish a generator whose thread is gone, and which no longer counts.
                if self._inside.pop(entered, None) is not None and not self._inside:
                    self._end()

    def _in_child(self) -> None:
        own = {entered: thread for entered, thread in self._inside.items() if thread == threading.get_ident()}
        if self._inside and not own:
            self._end()
        self._inside = own
        self._lock.release()

    @abstractmethod
    def _start(self) -> None: ...

    @abstractmethod
    def _end(self) -> None: ...


class _Silence(_Everywhere):
    """Every warning is ignored."""

    def _start(self) -> None:
        self._caller = warnings.catch_warnings()
        self._caller.__enter__()
        warnings.simplefilter("ignore")

    def _end(self) -> None:
        self._caller.__exit__(None, None, None)


class _Deafness(_Everywhere):
    """Standard error leads nowhere."""

    def __init__(self) -> None:
        super().__init__()
        self.turn = threading.RLock()

    def _in_child(self) -> None:
        super()._in_child()
        self.turn = threading.RLock()  # whoever had the other may be gone

    def _start(self) -> None:
        self._kept: int | None = None
        with suppress(OSError):  # there is no standard error
            self._kept = os.dup(2)
        if self._kept is not None:
            sink = os.open(os.devnull, os.O_WRONLY)
            os.dup2(sink, 2)
            os.close(sink)

    def _end(self) -> None:
        if self._kept is not None:
            os.dup2(self._kept, 2)
            os.close(self._kept)


_silence, _deafness = _Silence(), _Deafness()
