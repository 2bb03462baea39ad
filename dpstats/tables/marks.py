"""Files whose rows are read several times: whether they are still what they were when they were opened.

All passes of a release must see the same rows (docs/proofs/files). What the system says of a file is compared, never
its bytes: whether a release fails depends on who wrote to the file, and not on what the rows are.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import IO, NamedTuple

from dpstats.arguments import shown
from dpstats.errors import DataError, RowsChangedError

GRAIN, COARSE = 0.02, 2.0
"""Seconds after which a file that is written to gets another stamp: two ticks of a kernel; where stamps are whole
seconds, the longest that a file system has."""

OLD = 60.0
"""Seconds after which a stamp was surely not given in the present tick, whoever's clock it is of."""


class Mark(NamedTuple):
    """What the system says of a file: any write changes `changed`, even if `modified` is set back after it."""

    device: int
    inode: int
    size: int
    modified: int
    changed: int


class Files:
    """Files, and the marks that they had when they were opened.

    Parameters
    ----------
    names : iterable of str
        Their paths.
    """

    def __init__(self, names: Iterable[str]) -> None:
        self._marks = {name: _mark(name) for name in names}
        self._taken, self._grain = time.monotonic(), max(map(_grain, self._marks.values()), default=0.0)

    @property
    def names(self) -> tuple[str, ...]:
        """The paths, in order."""
        return tuple(self._marks)

    def check_ready(self) -> None:
        """Raise unless the files are still what they were; for before the charge.

        Raises
        ------
        DataError
            If one is not.
        """
        for name, mark in self._marks.items():
            if mark is None or _mark(name) != mark:
                raise DataError(f"data: {shown(name)} was changed after it was opened; give its path anew")

    def check(self, name: str, where: int | None = None) -> None:
        """Raise RowsChangedError unless a file, by its name or as it is open, is what it was."""
        mark = self._marks[name]
        if mark is None or _mark(name if where is None else where) != mark:
            raise RowsChangedError

    def check_all(self) -> None:
        """`check` every file by its name."""
        for name in self._marks:
            self.check(name)

    @contextmanager
    def opened(self, name: str) -> Iterator[tuple[IO[bytes], Callable[[], None]]]:
        """One file, and what raises RowsChangedError once it is not what it was: to be called after each reading.

        It is read through the descriptor that is checked, so that no other file can stand in its place in between.
        """
        try:
            file = open(name, "rb")  # noqa: SIM115
        except OSError:
            raise RowsChangedError from None
        with file:
            descriptor = file.fileno()
            with self._checked(lambda: self.check(name, descriptor)) as check:
                yield file, check

    @contextmanager
    def unchanged(self) -> Iterator[None]:
        """Within the block no file changes, or RowsChangedError is raised."""
        with self._checked(self.check_all):
            yield

    @contextmanager
    def _checked(self, check: Callable[[], None]) -> Iterator[Callable[[], None]]:
        """`check` before the block and after it, and where it fails: a reader stumbles over what has changed."""
        # A file that was written to just before its mark was taken could be again, without another stamp.
        time.sleep(max(0.0, self._taken + self._grain - time.monotonic()))
        check()
        try:
            yield check
        except Exception:
            check()
            raise
        check()


def _mark(where: str | int) -> Mark | None:
    """The mark of a path, or of an open file; None if there is none."""
    try:
        found = os.stat(where)
    except OSError:
        return None
    return Mark(found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns)


def _grain(mark: Mark | None) -> float:
    """Seconds to wait before a file of this mark is read: none if it is old."""
    if mark is None or max(mark.modified, mark.changed) < (time.time() - OLD) * 1e9:
        return 0.0
    return COARSE if mark.modified % 10**9 == mark.changed % 10**9 == 0 else GRAIN
