"""What a stream has released, tick by tick: public, kept so that any interval can be looked at again.

In a file beside the state as records of one length, or the latest ones in memory. A record is a checksum of 8 bytes and
the numbers. Records of older versions begin with the number of their tick instead, and are read without a check.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
from collections import deque
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dpstats.errors import ArgumentError, StreamError
from dpstats.streaming.checkpoint import on_disk, write_at

Float = NDArray[np.float64]

EARLY = 64
"""So many of the first releases are always in memory."""


class Release(NamedTuple):
    """One tick."""

    total: Float  # shape (size,). The noisy sum of all ticks
    released: Float  # shape (size,). What the workload makes of the ticks, those up to `start` left out
    params: Float  # shape (p,). Coefficients in model units
    start: Float  # shape (1,). A whole number of ticks

    def numbers(self) -> Float:
        """All of it, shape (2 size + p + 1,)."""
        return np.concatenate(self)

    @classmethod
    def of(cls, numbers: Float, size: int) -> Release:
        """What `numbers` gave, or zeros of that length, for sums of this size."""
        return cls(*np.split(numbers, [size, 2 * size, len(numbers) - 1]))


class Releases:
    """The releases of a stream by tick."""

    def __init__(self, size: int, columns: int, path: Path | None, recall: int) -> None:
        self._size, self._columns, self._path = size, columns, path
        self._latest: deque[Release] = deque(maxlen=recall + 1)
        self.tick = 0
        self.last = Release.of(np.zeros(self._length - 1), size)
        self.early: list[Release] = []
        """The first releases, from that before the first tick on, as long as none is missing."""

    @property
    def _length(self) -> int:
        return 2 + 2 * self._size + self._columns

    def restore(self, tick: int, latest: Release) -> None:
        """Go on after `tick`, whose release a killed process may not have written."""
        self.tick, self.last = tick, latest
        if self._path is None or tick == 0:
            return
        try:
            kept = self._read(tick).numbers().tobytes() == latest.numbers().tobytes()
        except StreamError:
            kept = False
        if not kept:
            self._write(tick, latest)
        with contextlib.suppress(StreamError):
            for early in range(min(tick, EARLY) + 1):
                self.early.append(self.at(early))

    def append(self, release: Release) -> None:
        """Keep the next tick's. Where it cannot be written, nothing has changed and it may be tried again."""
        if self._path is not None:
            self._write(self.tick + 1, release)
        if not self.early and self.tick == 0:
            self.early.append(self.at(0))
        self.tick, self.last = self.tick + 1, release
        if len(self.early) == self.tick <= EARLY:
            self.early.append(release)
        if self._path is None:
            self._latest.append(release)

    def at(self, tick: int) -> Release:
        """The release of `tick`; before the first one all sums are 0."""
        if not 0 <= tick <= self.tick:
            raise ArgumentError(f"ticks must lie between 0 and {self.tick}, the ticks so far")
        if tick == self.tick:
            return self.last
        if tick == 0:
            return Release.of(np.zeros(self._length - 1), self._size)
        if self._path is not None:
            return self._read(tick)
        place = tick - self.tick + len(self._latest) - 1
        if place < 0:
            raise ArgumentError(
                f"tick {tick} is not remembered: start the stream with a larger recall=, or with state="
            )
        return self._latest[place]

    @property
    def first(self) -> int:
        """The first tick that is remembered."""
        return 1 if self._path is not None else self.tick - len(self._latest) + 1

    def _write(self, tick: int, release: Release) -> None:
        assert self._path is not None
        numbers = release.numbers().astype("<f8").tobytes()
        record = checksum(tick, numbers) + numbers
        with on_disk(self._path):
            descriptor = os.open(self._path, os.O_WRONLY | os.O_CREAT, 0o600)
            try:
                write_at(descriptor, record, (tick - 1) * len(record))
            finally:
                os.close(descriptor)

    def _read(self, tick: int) -> Release:
        assert self._path is not None
        length = 8 * self._length
        content = b""
        with on_disk(self._path):
            if self._path.exists():
                with open(self._path, "rb") as file:
                    file.seek((tick - 1) * length)
                    content = file.read(length)
        # Where an earlier record is missing the file has a hole, which reads as zeros.
        marks = (checksum(tick, content[8:]), np.array([tick], dtype="<f8").tobytes())
        if len(content) != length or content[:8] not in marks:
            raise StreamError(
                f"the releases up to tick {tick} are gone from {self._path.name!r}, or damaged; restore that file"
            )
        return Release.of(np.frombuffer(content[8:], dtype="<f8"), self._size)


def checksum(tick: int, numbers: bytes) -> bytes:
    """Of a record and its place: a release that was cut off, or stands elsewhere, is not taken for one."""
    return hashlib.sha256(b"%d:" % tick + numbers).digest()[:8]
