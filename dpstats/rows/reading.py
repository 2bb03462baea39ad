"""Rows that are read anew in every pass, until they are kept: in memory, or in a file where they do not fit."""

from __future__ import annotations

import operator
import time
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Any

import numpy as np

from dpstats.rows.block import Block
from dpstats.rows.memory import Memory
from dpstats.rows.passes import Change, Element, MemoryRows, Other, Result, Rows, chained
from dpstats.rows.spool import Arrays, DiskFull, Spool

PROBE_BYTES = 2**25
"""Bytes that are written and read back to see what a file costs."""

PASSES = 10
"""How often rows that are kept are gone through: about as many Newton steps and certificates a fit takes."""


class ReadRows(Rows[Element]):
    """Elements that are read anew in every pass: one shard.

    Parameters
    ----------
    read : callable
        Returns the elements, the same and in the same order each time.
    memory : Memory
        What may be kept of them.
    change : callable, optional
        Applied in every pass; see `Rows.through`.
    cheap : bool
        Whether reading is the least that a pass can cost: the elements are kept in a file as they are.
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

    def through(self, change: Callable[[int, Iterable[Element]], Iterable[Other]]) -> ReadRows[Other]:
        """What `change` makes of the elements, in every pass."""
        both = change if self._change is None else partial(chained, self._change, change)
        return ReadRows(self._read, self._memory, both, cheap=self._cheap)

    def held(self) -> Rows[Element]:
        """The elements in memory, in a file, or read again if that costs less."""
        return self if self._cheap and self._change is None else hold(self, self._memory)

    def __reduce__(self) -> Any:
        raise TypeError("rows are private and cannot be pickled")


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
        kept.append(element.apart() if isinstance(element, Block) else element)
        if not memory.take(size):
            break
        taken += size
    else:
        found = MemoryRows[Element](kept)
        memory.lend(found, taken)
        return found
    making = (time.perf_counter() - started) / (taken + size)
    memory.give(taken)
    return _spooled(kept, elements, rows, memory, making)


def _spooled(
    kept: list[Any], rest: Iterator[Any], rows: ReadRows[Element], memory: Memory, making: float
) -> Rows[Element]:
    """All elements in a file, those that are in memory first; `rows` if that does not pay.

    Parameters
    ----------
    making : float
        Seconds that a byte takes in each pass over `rows`.
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
