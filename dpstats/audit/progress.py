"""A progress line on stderr for work that takes longer than a few seconds."""

from __future__ import annotations

import sys
import time


class Progress:
    """Counts work done and says so on one line.

    Parameters
    ----------
    total : int
        Units of work.
    show : bool or None
        None shows the line only on a terminal.
    patience : float
        Seconds of silence before the first line.
    """

    def __init__(self, total: int, show: bool | None = None, patience: float = 3.0) -> None:
        self._total = total
        self._show = sys.stderr.isatty() if show is None else show
        self._start = time.monotonic()
        self._next = self._start + patience
        self._done = 0
        self._shown = False

    def advance(self, units: int) -> None:
        """Add `units` to what is done."""
        self._done += units
        now = time.monotonic()
        if not self._show or now < self._next:
            return
        left = (now - self._start) * (self._total - self._done) / self._done
        sys.stderr.write(f"\raudit: {self._done:,} of {self._total:,} runs, about {left:.0f} s left ")
        sys.stderr.flush()
        self._shown = True
        self._next = now + 0.5

    def close(self) -> None:
        """End the line, if one was begun."""
        if self._shown:
            sys.stderr.write("\n")
