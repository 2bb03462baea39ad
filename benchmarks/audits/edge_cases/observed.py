"""What leaves a call: its error with notes, causes and contexts, its warnings, what it prints, and its value."""

from __future__ import annotations

import atexit
import contextlib
import decimal
import io
import os
import re
import signal
import sys
import tempfile
import threading
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

ADDRESS = re.compile(r"0x[0-9a-fA-F]{6,}")
NUMBER = re.compile(r"Ledger charge \d+")
"""The numbers of charges are public, and go up from one neighbour to the next on the same ledger."""


@dataclass(frozen=True)
class Seen:
    """What anyone may see. `bits` is what the budget paid for; everything else may not depend on a cell."""

    error: str
    warned: str
    printed: str
    books: str
    facts: str
    bits: str

    def differs(self, other: Seen) -> str | None:
        """The first public part in which the two differ."""
        for part in ("error", "warned", "printed", "books", "facts"):
            if getattr(self, part) != getattr(other, part):
                return part
        return None


class Streams:
    """Everything written to the two standard streams, by Python or below it."""

    def __init__(self) -> None:
        self._file = tempfile.TemporaryFile()  # noqa: SIM115
        self.text = ""

    def close(self) -> None:
        """Give the file back."""
        self._file.close()

    @contextlib.contextmanager
    def caught(self) -> Iterator[None]:
        """Catch what is written in this context, into `text`."""
        self._file.seek(0)
        self._file.truncate()
        kept = [os.dup(stream) for stream in (1, 2)]
        written, out, err, hook = io.StringIO(), sys.stdout, sys.stderr, sys.unraisablehook
        try:
            for stream in (1, 2):
                os.dup2(self._file.fileno(), stream)
            sys.stdout = sys.stderr = written
            sys.unraisablehook = lambda lost: print(f"ignored: {lost.exc_type.__qualname__}")
            yield
        finally:
            sys.stdout, sys.stderr, sys.unraisablehook = out, err, hook
            for stream, copy in zip((1, 2), kept, strict=True):
                os.dup2(copy, stream)
                os.close(copy)
            self._file.seek(0)
            self.text = written.getvalue() + self._file.read().decode("utf-8", "replace")


STREAMS = Streams()
atexit.register(STREAMS.close)


@contextlib.contextmanager
def _strict() -> Iterator[None]:
    warnings.simplefilter("error")
    with np.errstate(all="raise"):
        yield


@contextlib.contextmanager
def _decimal() -> Iterator[None]:
    with decimal.localcontext() as context:
        context.prec = 3
        for signal in context.traps:
            context.traps[signal] = True
        yield


@contextlib.contextmanager
def _options() -> Iterator[None]:
    names = ("mode.use_inf_as_na", "future.infer_string")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        kept = {name: pd.get_option(name) for name in names if name in pd.describe_option(_print_desc=False)}
        for name in kept:
            pd.set_option(name, True)
    try:
        yield
    finally:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            for name, value in kept.items():
                pd.set_option(name, value)


ENVIRONMENTS: dict[str, Callable[[], Any]] = {
    "plain": contextlib.nullcontext,
    "warnings and floating point raise": _strict,
    "underflow raises": lambda: np.errstate(under="raise"),
    "floating point warns": lambda: np.errstate(all="warn"),
    "floating point prints": lambda: np.errstate(all="print"),
    "decimals raise": _decimal,
    "pandas options": _options,
}
"""What a caller may have set, by name."""


def told(error: BaseException | None, depth: int = 0) -> str:
    """An error with everything that hangs on it; addresses of objects are left out."""
    if error is None or depth > 5:
        return ""
    try:
        text = f"{type(error).__module__}.{type(error).__qualname__}: {error}"
    except BaseException as failed:  # an error that holds a cell
        text = f"{type(error).__qualname__} that cannot be shown: {type(failed).__qualname__}"
    notes = "".join(f"\n  note: {note!r}" for note in getattr(error, "__notes__", ()))
    links = (("cause", error.__cause__), ("context", error.__context__))
    tail = "".join(f"\n  {name}: {told(link, depth + 1)}" for name, link in links if link is not None)
    return NUMBER.sub("Ledger charge", ADDRESS.sub("0x", text + notes + tail))


class _Stop:
    """Whether the user asked to stop: cells raise KeyboardInterrupt too, and that is a finding."""

    asked = False


def _stop(*_: object) -> None:
    _Stop.asked = True
    raise KeyboardInterrupt


@contextlib.contextmanager
def stoppable() -> Iterator[None]:
    """Tell the user's own interruption from that of a cell."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGINT, _stop)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def _settings() -> str:
    return repr((np.geterr(), warnings.filters, decimal.getcontext()))


def observe(call: Callable[[], tuple[str, str]], environment: str, books: Callable[[], str]) -> Seen:
    """Run `call`, which returns public facts and paid bits, and note all that is seen of it."""
    error, facts, bits = "", "", ""
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        with STREAMS.caught(), ENVIRONMENTS[environment]():
            before = _settings()
            try:
                facts, bits = call()
            except BaseException as raised:
                error = told(raised)
                del raised
            if _settings() != before:
                facts += "; the caller's settings are changed"
    if _Stop.asked:
        raise KeyboardInterrupt
    messages = "\n".join(f"{each.category.__qualname__}: {each.message}" for each in warned)
    return Seen(error, ADDRESS.sub("0x", messages), ADDRESS.sub("0x", STREAMS.text), books(), facts, bits)
