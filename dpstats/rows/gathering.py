"""Rows of persons on a cluster, brought together: every shard of those made here holds its persons whole.

Each shard is split by its persons' identities, and each new shard is put together of one part of every old one. What
travels between workers are parts as bytes; nothing comes to the client (docs/proofs/clusters).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpstats.rows.persons import NOBODY, Ids, Owned
from dpstats.rows.remote import Sealed, Work, silent

BUCKETS = 64
"""The most shards that are made: there is a task for each of them and each old one."""

_ODD = np.uint64(0x9E3779B97F4A7C15)


class Split:
    """The rows of one shard by the new shards that they go to."""

    def __init__(self, parts: Sequence[Sealed]) -> None:
        self.parts = tuple(parts)

    def __sizeof__(self) -> int:
        return sum(part.__sizeof__() for part in self.parts)

    def __repr__(self) -> str:
        return "<Split>"


@silent
def split(packed: Sealed, inputs: Sequence[Any]) -> Split:
    """The elements of a shard by bucket; rows of nobody are left out."""
    work: Work
    work, count = packed.opened()
    parts: list[list[Owned[Any]]] = [[] for _ in range(count)]
    for element in work.elements(inputs):
        for bucket, rows in parts_of(element, count):
            parts[bucket].append(rows)
    return Split([Sealed(part) for part in parts])


@silent
def picked(packed: Sealed, inputs: Sequence[Split]) -> Sealed:
    """One bucket's part of a shard."""
    return inputs[0].parts[packed.opened()]


def gathered(*parts: Sealed) -> Iterator[Owned[Any]]:
    """The elements of a new shard, in the order of the old ones."""
    for part in parts:
        yield from part.opened()


def parts_of(element: Owned[Any], count: int) -> Iterator[tuple[int, Owned[Any]]]:
    """The rows of each bucket that has any, and its number."""
    buckets = bucket_of(element.ids, count)
    for bucket in np.unique(buckets[buckets >= 0]):
        chosen = buckets == bucket
        yield int(bucket), Owned(selected(element.cells, chosen), element.ids[chosen])


def bucket_of(ids: Ids, count: int) -> NDArray[np.intp]:
    """The bucket of each row, a function of its person alone, -1 for nobody; shape (rows,)."""
    mixed = (ids[:, 0] ^ (ids[:, 1] * _ODD)) * _ODD
    buckets = ((mixed >> np.uint64(32)) % np.uint64(count)).astype(np.intp)
    return np.where((ids != NOBODY).any(axis=1), buckets, -1)


def selected(cells: Any, chosen: NDArray[np.bool_]) -> Any:
    """Some rows of an array, of a block or of a table."""
    if isinstance(cells, np.ndarray):
        return cells[chosen]
    return cells.take(chosen) if hasattr(cells, "take") else cells.select(chosen, int(np.count_nonzero(chosen))).apart()
