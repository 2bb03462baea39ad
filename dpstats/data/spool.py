"""Rows that are kept between passes: in memory, or in a file where they do not fit."""

from __future__ import annotations

import contextlib
import operator
import os
import tempfile
import threading
import time
import weakref
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dpstats.arguments import is_number, safe_repr
from dpstats.data.passes import Block, Change, Element, MemoryRows, Other, Result, Rows, chained, detached
from dpstats.errors import ArgumentError

RESERVE = 2**28
"""Bytes that are left free on the disk."""

Arrays = Sequence[NDArray[Any] | None]


class DiskFull(Exception):
    """There is no room for more."""


class Piece(NamedTuple):
    """Where an array lies in the file."""

    place: int
    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    order: Literal["C", "F"]


class Spool:
    """Arrays in an anonymous file, deleted at birth and open to nobody else; DiskFull if no folder takes it."""

    def __init__(self) -> None:
        try:
            # Unbuffered: arrays are written and read whole.
            self._file = tempfile.TemporaryFile(buffering=0)  # noqa: SIM115
        except OSError:
            raise DiskFull from None
        weakref.finalize(self, self._file.close)
        self._index: list[tuple[Piece | None, ...]] = []
        self._lock = threading.Lock()
        self._size = 0

    def write(self, arrays: Arrays) -> None:
        """Append the arrays of one element; DiskFull if they would leave less than `RESERVE` bytes on the disk."""
        size = sum(array.nbytes for array in arrays if array is not None)
        if free_bytes(self._file.fileno()) < size + RESERVE:
            raise DiskFull
        try:
            self._index.append(tuple(map(self._append, arrays)))
        except OSError:
            raise DiskFull from None

    def read(self, number: int) -> list[NDArray[Any] | None]:
        """The arrays of one element, new in memory."""
        return [None if piece is None else self._load(piece) for piece in self._index[number]]

    def __len__(self) -> int:
        return len(self._index)

    def _append(self, array: NDArray[Any] | None) -> Piece | None:
        if array is None:
            return None
        piece = Piece(self._size, array.shape, array.dtype, "F" if array.flags.fnc else "C")
        rest = array.ravel(piece.order).view(np.uint8).data
        while len(rest):
            rest = rest[self._file.write(rest) :]
        self._size += array.nbytes
        return piece

    def _load(self, piece: Piece) -> NDArray[Any]:
        array = np.empty(piece.shape, dtype=piece.dtype, order=piece.order)
        rest = array.reshape(-1, order=piece.order).view(np.uint8).data
        with self._lock:
            self._file.seek(piece.place)
            while len(rest) and (count := self._file.readinto(rest)):
                rest = rest[count:]
        if len(rest):
            raise OSError("the file of kept rows has become shorter")
        return array


def free_bytes(descriptor: int) -> float:
    """What is free on the disk of an open file, in bytes; infinite where the system does not tell."""
    if not hasattr(os, "fstatvfs"):
        return float("inf")
    disk = os.fstatvfs(descriptor)
    return float(disk.f_bavail) * disk.f_frsize


SHARE = 0.5
"""Of the machine's memory, for rows that are kept between passes."""

ASSUMED = 2**32
"""Bytes of a machine that does not tell."""

_LIMITS = ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes")


class Memory:
    """Bytes that kept rows may take up together: `limit`, or `SHARE` of what the machine or container has."""

    def __init__(self, limit: float | None = None) -> None:
        if limit is not None and not (is_number(limit) and limit > 0):
            raise ArgumentError(f"memory must be a positive number of bytes, such as 2e9, got {safe_repr(limit)}")
        self.limit = SHARE * machine_bytes() if limit is None else float(limit)
        self.taken = 0

    def take(self, size: int) -> bool:
        """Take so many bytes if they are left."""
        if self.taken + size > self.limit:
            return False
        self.taken += size
        return True

    def give(self, size: int) -> None:
        """Give bytes back."""
        self.taken -= size


def machine_bytes() -> float:
    """The memory of the machine, or of the container if that is less, in bytes."""
    try:
        least = float(os.sysconf("SC_PAGE_SIZE")) * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):  # Windows has no sysconf
        return float(ASSUMED)
    for path in _LIMITS:
        with contextlib.suppress(OSError, ValueError):  # there is none, or it says "max"
            least = min(least, float(Path(path).read_text()))
    return least


PROBE_BYTES = 2**25
"""Bytes that are written and read back to see what a file costs."""

PASSES = 10
"""How often rows that are kept are gone through: about as many Newton steps and certificates a fit takes."""


class ReadRows(Rows[Element]):
    """Elements that `read` returns in every pass, the same in the same order: one shard.

    `cheap` says that reading is the least that a pass can cost: the elements are kept in a file as they are.
    """

    def __init__(
        self,
        read: Callable[[], Iterable[Any]],
        memory: Memory,
        change: Change | None = None,
        *,
        cheap: bool = False,
    ) -> None:
        self._read, self._memory, self._change, self._cheap = read, memory, change, cheap

    def __iter__(self) -> Iterator[Element]:
        return iter(self._read() if self._change is None else self._change(0, self._read()))

    def total(self, part: Callable[[Iterable[Element]], Result], add: Callable[[Result, Result], Result]) -> Result:
        """`part` of all elements."""
        return part(iter(self))

    def map_shards(self, change: Callable[[int, Iterable[Element]], Iterable[Other]]) -> ReadRows[Other]:
        """What `change` makes of the elements, in every pass."""
        return ReadRows(self._read, self._memory, chained(self._change, change), cheap=self._cheap)

    def persist(self) -> Rows[Element]:
        """The elements in memory, in a file, or read again if that costs less."""
        return self if self._cheap and self._change is None else hold(self, self._memory)


def hold(rows: ReadRows[Element], memory: Memory) -> Rows[Element]:
    """The same elements in memory as far as it goes, else all of them in a file; `rows` themselves if they are no
    arrays, if reading a file back takes longer than making them, or if no disk has room for it.
    """
    kept, taken, started = list[Any](), 0, time.perf_counter()
    elements = iter(rows)
    for element in elements:
        arrays = _arrays(element)
        if arrays is None:
            memory.give(taken)
            return rows
        size = _size(arrays)
        kept.append(element.detached() if isinstance(element, Block) else detached(np.asarray(element)))
        if not memory.take(size):
            break
        taken += size
    else:
        memory_rows = MemoryRows[Element](kept)
        weakref.finalize(memory_rows, memory.give, taken)
        return memory_rows
    making = (time.perf_counter() - started) / (taken + size)
    memory.give(taken)
    return _kept_in_file(kept, elements, rows, memory, making)


def _kept_in_file(
    kept: list[Any], rest: Iterator[Any], rows: ReadRows[Element], memory: Memory, making: float
) -> Rows[Element]:
    """All elements in a file, those that are in memory first; `rows` if that does not pay.

    `making` is the seconds that a byte takes in each pass over `rows`.
    """
    make: Callable[[Any], Any] = Block._make if isinstance(kept[0], Block) else operator.itemgetter(0)
    try:
        spool = Spool()
        if _file_costs(spool, kept) > PASSES * making:
            return rows
        for at in range(len(spool), len(kept)):
            spool.write(_arrays(kept[at]) or ())
            kept[at] = None  # it must not stay in memory any longer
        kept.clear()
        for element in rest:
            spool.write(_arrays(element) or ())
    except DiskFull:
        return rows
    return ReadRows(partial(_from_file, spool, make), memory, cheap=True)


def _from_file(spool: Spool, make: Callable[[Any], Any]) -> Iterator[Any]:
    return (make(spool.read(number)) for number in range(len(spool)))


def _file_costs(spool: Spool, kept: list[Any]) -> float:
    """Seconds a byte for writing once and reading `PASSES` times, tried on the first elements, which stay there."""
    written, started = 0, time.perf_counter()
    for element in kept:
        arrays = _arrays(element) or ()
        spool.write(arrays)
        written += _size(arrays)
        if written >= PROBE_BYTES:
            break
    writing, started = time.perf_counter() - started, time.perf_counter()
    for number in range(len(spool)):
        spool.read(number)
    return (writing + PASSES * (time.perf_counter() - started)) / max(written, 1)


def _arrays(element: object) -> Arrays | None:
    """The arrays that an element is made of; None if it is not made of arrays."""
    if isinstance(element, Block):
        return element
    return (element,) if isinstance(element, np.ndarray) else None


def _size(arrays: Arrays) -> int:
    return sum(array.nbytes for array in arrays if array is not None)
