"""What a worker of a cluster does with one shard: keep its elements, sum over them, bring persons together."""

from __future__ import annotations

import ctypes
import functools
import os
import pickle
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

import cloudpickle
import numpy as np
from numpy.typing import NDArray

from dpstats.data.persons import NOBODY, Ids, OwnedRows
from dpstats.quiet import quiet

TRIM, MAP = -1, -3
"""glibc's M_TRIM_THRESHOLD and M_MMAP_THRESHOLD."""

KEPT = 2**26
"""Bytes at the end of the heap that are not given back during a task."""

LARGEST = 2**25
"""Bytes of an array that still goes into the heap; glibc takes no more."""

TRIMMED, MAPPED = 2**17, 2**17
"""glibc's own thresholds, where the environment sets none."""


@contextmanager
def keep_heap() -> Iterator[None]:
    """Keep freed memory until the end of the block, on systems that let us; elsewhere nothing happens."""
    option = _mallopt()
    if option is None:
        yield
        return
    option(TRIM, KEPT)
    option(MAP, LARGEST)
    try:
        yield
    finally:
        option(MAP, _threshold("MALLOC_MMAP_THRESHOLD_", MAPPED))
        option(TRIM, _threshold("MALLOC_TRIM_THRESHOLD_", TRIMMED))


def _threshold(name: str, otherwise: int) -> int:
    given = os.environ.get(name, "")
    return min(int(given), 2**31 - 1) if given.isdigit() else otherwise


@functools.cache
def _mallopt() -> Callable[[int, int], int] | None:
    """glibc's function; None in other libraries."""
    if sys.platform != "linux":
        return None
    library = ctypes.CDLL(None)
    return library.mallopt if hasattr(library, "gnu_get_libc_version") and hasattr(library, "mallopt") else None


WORDS = 8192
"""Of 8 bytes: marked at once, within the cache."""

_ODD = np.uint64(0x9E3779B97F4A7C15)


class FailedShard:
    """Stands for what could not be worked out; why is not told."""


class Pickled:
    """A value as bytes."""

    def __init__(self, value: Any) -> None:
        self._packed = cloudpickle.dumps(value)

    def value(self) -> Any:
        """The value."""
        return pickle.loads(self._packed)

    def __sizeof__(self) -> int:
        return len(self._packed)

    def __repr__(self) -> str:
        return "<Sealed>"


class KeptShard:
    """The elements of one shard, kept on a worker, and their mark; see `fingerprint`."""

    def __init__(self, elements: Sequence[Any], mark: int) -> None:
        self.elements, self.mark = elements, mark

    def __sizeof__(self) -> int:
        return sum(cells.nbytes for element in self.elements for cells in arrays_of(element))

    def __repr__(self) -> str:
        return "<Kept>"


class ShardWork(NamedTuple):
    """From where a shard's elements come, and what is made of them."""

    shard: int
    # from results of the tasks that it waits for; None for those of a `KeptShard`
    source: Callable[..., Iterable[Any]] | None
    change: Callable[[int, Iterable[Any]], Iterable[Any]] | None  # of the shard's number and elements

    def elements(self, inputs: Sequence[Any]) -> Iterable[Any]:
        """The elements."""
        elements = inputs[0].elements if self.source is None else self.source(*inputs)
        return elements if self.change is None else self.change(self.shard, elements)

    def mark(self, inputs: Sequence[Any]) -> tuple[tuple[int, int], ...]:
        """The shard's number and the mark of the elements that were kept of it, if any were."""
        return ((self.shard, inputs[0].mark),) if self.source is None else ()


class ShardGroup(NamedTuple):
    """Shards that one task keeps together, one after the other."""

    works: tuple[ShardWork, ...]  # one alone if it is made of what was kept
    counts: tuple[int, ...]  # how many of the results that the task waits for are of each

    def elements(self, inputs: Sequence[Any]) -> Iterator[Any]:
        """The elements of all."""
        start = 0
        for work, count in zip(self.works, self.counts, strict=True):
            yield from work.elements(inputs[start : start + count])
            start += count


def silence(task: Callable[..., Any]) -> Callable[..., Any]:
    """A task that neither raises nor warns."""

    @functools.wraps(task)
    def run(packed: Pickled, inputs: Sequence[Any]) -> Any:
        try:
            with quiet(), keep_heap():
                if any(isinstance(part, FailedShard) for part in inputs):
                    return FailedShard()
                return task(packed, inputs)
        except BaseException:  # SystemExit and KeyboardInterrupt of foreign code would be logged as well
            return FailedShard()

    return run


@silence
def keep_shard(packed: Pickled, inputs: Sequence[Any]) -> KeptShard:
    """The elements of some shards, worked out."""
    group: ShardGroup = packed.value()
    elements = list(group.elements(inputs))
    known = group.works[0].mark(inputs)
    # What is made of elements that are marked already has their mark: pure functions make it.
    return KeptShard(elements, known[0][1] if known else fingerprint(elements))


@silence
def sum_shard(packed: Pickled, inputs: Sequence[Any]) -> Pickled:
    """What a part of a total makes of one shard, and the shard's mark."""
    work, part = packed.value()
    return Pickled((part(work.elements(inputs)), work.mark(inputs)))


@silence
def add_sums(packed: Pickled, inputs: Sequence[Pickled]) -> Pickled:
    """Sums and their marks, combined in order."""
    add = packed.value()
    total, marks = inputs[0].value()
    for other in inputs[1:]:
        value, more = other.value()
        total, marks = add(total, value), marks + more
    return Pickled((total, marks))


def fingerprint(elements: Iterable[Any]) -> int:
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


BUCKETS = 64
"""The most shards that are made: there is a task for each of them and each old one."""


class BucketedShard:
    """The rows of one shard by the new shards that they go to."""

    def __init__(self, parts: Sequence[Pickled]) -> None:
        self.parts = tuple(parts)

    def __sizeof__(self) -> int:
        return sum(part.__sizeof__() for part in self.parts)

    def __repr__(self) -> str:
        return "<Split>"


@silence
def split_shard(packed: Pickled, inputs: Sequence[Any]) -> BucketedShard:
    """The elements of a shard by bucket; rows of nobody are left out."""
    work: ShardWork
    work, count = packed.value()
    parts: list[list[OwnedRows[Any]]] = [[] for _ in range(count)]
    for element in work.elements(inputs):
        for bucket, rows in parts_of(element, count):
            parts[bucket].append(rows)
    return BucketedShard([Pickled(part) for part in parts])


@silence
def pick_bucket(packed: Pickled, inputs: Sequence[BucketedShard]) -> Pickled:
    """One bucket's part of a shard."""
    return inputs[0].parts[packed.value()]


def gather_shard(*parts: Pickled) -> Iterator[OwnedRows[Any]]:
    """The elements of a new shard, in the order of the old ones."""
    for part in parts:
        yield from part.value()


def parts_of(element: OwnedRows[Any], count: int) -> Iterator[tuple[int, OwnedRows[Any]]]:
    """The rows of each bucket that has any, and its number."""
    buckets = bucket_of(element.ids, count)
    for bucket in np.unique(buckets[buckets >= 0]):
        chosen = buckets == bucket
        yield int(bucket), OwnedRows(take_rows(element.cells, chosen), element.ids[chosen])


def bucket_of(ids: Ids, count: int) -> NDArray[np.intp]:
    """The bucket of each row, a function of its person alone, -1 for nobody; shape (rows,)."""
    mixed = (ids[:, 0] ^ (ids[:, 1] * _ODD)) * _ODD
    buckets = ((mixed >> np.uint64(32)) % np.uint64(count)).astype(np.intp)
    return np.where(ids[:, 0] != NOBODY, buckets, -1)


def take_rows(cells: Any, chosen: NDArray[np.bool_]) -> Any:
    """Some rows of an array, of a block or of a table."""
    if isinstance(cells, np.ndarray):
        return cells[chosen]
    if hasattr(cells, "take"):
        return cells.take(chosen)
    return cells.select(chosen, int(np.count_nonzero(chosen))).detached()
