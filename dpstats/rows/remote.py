"""What a worker of a cluster does with one shard: keep its elements, sum over them, add sums.

A task that raises is written to the worker's log with its arguments and its error, and both may quote cells. So nothing
here raises: whatever fails becomes `Lost`, which says nothing. Objects that stay on a worker show nothing of their
contents either, and values travel as bytes, so that neither packing nor unpacking them can fail outside of a task.
"""

from __future__ import annotations

import functools
import pickle
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import cloudpickle
import numpy as np
from numpy.typing import NDArray

from dpstats.quiet import quiet
from dpstats.rows.heap import kept_heap

WORDS = 8192
"""Of 8 bytes: marked at once, within the cache."""

_ODD = np.uint64(0x9E3779B97F4A7C15)


class Lost:
    """Stands for what could not be worked out; why is not told."""


class Sealed:
    """A value as bytes."""

    def __init__(self, value: Any) -> None:
        self._packed = cloudpickle.dumps(value)

    def opened(self) -> Any:
        """The value."""
        return pickle.loads(self._packed)

    def __sizeof__(self) -> int:
        return len(self._packed)

    def __repr__(self) -> str:
        return "<Sealed>"


class Kept:
    """The elements of one shard, kept on a worker, and their mark; see `mark_of`."""

    def __init__(self, elements: Sequence[Any], mark: int) -> None:
        self.elements, self.mark = elements, mark

    def __sizeof__(self) -> int:
        return sum(cells.nbytes for element in self.elements for cells in arrays_of(element))

    def __repr__(self) -> str:
        return "<Kept>"


class Work(NamedTuple):
    """From where a shard's elements come, and what is made of them.

    Attributes
    ----------
    shard : int
        Its number.
    source : callable, optional
        From the results of the tasks that it waits for to its elements; those of the one `Kept` by default.
    change : callable, optional
        From the number of the shard and its elements to others.
    """

    shard: int
    source: Callable[..., Iterable[Any]] | None
    change: Callable[[int, Iterable[Any]], Iterable[Any]] | None

    def elements(self, inputs: Sequence[Any]) -> Iterable[Any]:
        """The elements."""
        found = inputs[0].elements if self.source is None else self.source(*inputs)
        return found if self.change is None else self.change(self.shard, found)

    def mark(self, inputs: Sequence[Any]) -> tuple[tuple[int, int], ...]:
        """The shard's number and the mark of the elements that were kept of it, if any were."""
        return ((self.shard, inputs[0].mark),) if self.source is None else ()


class Together(NamedTuple):
    """Shards that one task keeps together, one after the other.

    Attributes
    ----------
    works : tuple of Work
        None of them made of what was kept.
    counts : tuple of int
        How many of the results that the task waits for are of each.
    """

    works: tuple[Work, ...]
    counts: tuple[int, ...]

    def elements(self, inputs: Sequence[Any]) -> Iterator[Any]:
        """The elements of all."""
        start = 0
        for work, count in zip(self.works, self.counts, strict=True):
            yield from work.elements(inputs[start : start + count])
            start += count

    def mark(self, inputs: Sequence[Any]) -> tuple[tuple[int, int], ...]:
        """Nothing: no element was kept."""
        return ()


def silent(task: Callable[..., Any]) -> Callable[..., Any]:
    """A task that neither raises nor warns."""

    @functools.wraps(task)
    def run(packed: Sealed, inputs: Sequence[Any]) -> Any:
        try:
            with quiet(), kept_heap():
                if any(isinstance(found, Lost) for found in inputs):
                    return Lost()
                return task(packed, inputs)
        except BaseException:  # SystemExit and KeyboardInterrupt of foreign code would be logged as well
            return Lost()

    return run


@silent
def kept(packed: Sealed, inputs: Sequence[Any]) -> Kept:
    """The elements of a shard, worked out."""
    work: Work | Together = packed.opened()
    elements = list(work.elements(inputs))
    known = work.mark(inputs)
    # What is made of elements that are marked already has their mark: pure functions make it.
    return Kept(elements, known[0][1] if known else mark_of(elements))


@silent
def summed(packed: Sealed, inputs: Sequence[Any]) -> Sealed:
    """What a part of a total makes of one shard, and the shard's mark."""
    work, part = packed.opened()
    return Sealed((part(work.elements(inputs)), work.mark(inputs)))


@silent
def added(packed: Sealed, inputs: Sequence[Sealed]) -> Sealed:
    """Sums and their marks, combined in order."""
    add = packed.opened()
    total, marks = inputs[0].opened()
    for other in inputs[1:]:
        value, more = other.opened()
        total, marks = add(total, value), marks + more
    return Sealed((total, marks))


def mark_of(elements: Iterable[Any]) -> int:
    """A number that other elements, or the same in another order, hardly ever share: of 64 bits, private.

    It guards against rows that differ when a lost shard is worked out again, not against an adversary.
    """
    mark = 0
    for element in elements:
        for cells in arrays_of(element):
            for length in cells.shape:
                mark = _mixed(mark, length)
            words = _words(cells)
            for start in range(0, len(words), WORDS):
                part = words[start : start + WORDS]
                mark = _mixed(mark, int((part * _weights()[: len(part)]).sum()))
    return mark


def arrays_of(element: Any) -> list[NDArray[Any]]:
    """The arrays of an element: itself, those of a block or of a table, and whose they are; none of objects."""
    if isinstance(element, tuple):
        return [cells for part in element for cells in arrays_of(part)]
    if isinstance(element, np.ndarray):
        return [] if element.dtype.hasobject else [element]
    return list(element.marking()) if hasattr(element, "marking") else []


def _words(cells: NDArray[Any]) -> NDArray[np.uint64]:
    """The bytes of an array as whole numbers, zeros at the end."""
    whole = np.ascontiguousarray(cells).reshape(-1).view(np.uint8)
    if len(whole) % 8:
        whole = np.concatenate([whole, np.zeros(-len(whole) % 8, dtype=np.uint8)])
    return whole.view(np.uint64)


def _mixed(mark: int, value: int) -> int:
    return ((mark ^ (mark >> 29)) * int(_ODD) + value) % 2**64


@functools.cache
def _weights() -> NDArray[np.uint64]:
    """Odd numbers, one for each place."""
    return (np.arange(1, WORDS + 1, dtype=np.uint64) * _ODD) | np.uint64(1)
