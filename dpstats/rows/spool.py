"""Blocks in a file that has no name, read again in every pass."""

from __future__ import annotations

import os
import tempfile
import threading
import weakref
from collections.abc import Sequence
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

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
    """Arrays one after the other in an anonymous file, which is deleted at birth and open to nobody else.

    Raises
    ------
    DiskFull
        If there is no folder that takes it.
    """

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
        """Append some arrays, which make up one element.

        Raises
        ------
        DiskFull
            If they would leave less than `RESERVE` bytes on the disk.
        """
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
