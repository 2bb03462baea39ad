"""Lines on a terminal that say that work goes on, where it takes longer than a few seconds.

Of a release they tell what was asked for and the time, and nothing that depends on rows: neither how many there are,
nor how often they were gone through, nor how near the solver is.
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from weakref import WeakSet

from tqdm import tqdm

PATIENCE = 3.0
"""Seconds of silence before the first line."""

INTERVAL = 0.5
"""Seconds between two looks at the clock."""


@contextmanager
def progress_counter(
    what: str, total: int, show: bool | None = None, patience: float = PATIENCE
) -> Iterator[Callable[[int], None]]:
    """A function to be told how many units of public work were done since the last call.

    Parameters
    ----------
    what : str
    total : int
    show : bool or None
        None shows the line only on a terminal.
    patience : float
        Seconds of silence before the first line.
    """
    with _line(what, show, patience, total=total, unit="run") as line:
        yield line.update


@contextmanager
def show_elapsed(what: str, show: bool | None = None, patience: float = PATIENCE) -> Iterator[None]:
    """Show how long the block has taken; arguments as for `progress_counter`."""
    ended = threading.Event()
    with _line(what, show, patience, bar_format="{desc} {elapsed}", miniters=0, mininterval=0) as line:
        if line.disable:
            yield
            return
        clock = threading.Thread(target=_tick, args=(line, ended, patience), daemon=True)
        clock.start()
        try:
            yield
        finally:
            ended.set()
            clock.join()


def _tick(line: tqdm, ended: threading.Event, patience: float) -> None:
    """Draw the line now and then, once `patience` is over."""
    pause = patience
    while not ended.wait(pause):
        line.update(0)
        pause = INTERVAL


class _Line(tqdm):
    """Where a line stands, and who writes, is tqdm's to say, so that lines of others on the terminal stay whole."""


def _apart() -> None:
    """In a forked child: lines are made off terminals too, under a lock that a thread of the parent may have held."""
    _Line.set_lock(threading.RLock())
    _Line._instances = WeakSet()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_apart)


def _line(what: str, show: bool | None, patience: float, **options: object) -> tqdm:
    """A line that leaves nothing behind."""
    disable = None if show is None else not show
    return _Line(desc=f"dpstats: {what}", file=sys.stderr, disable=disable, delay=patience, leave=False, **options)
