"""Rows of persons: how many a person has, shares of a weight of 1, and a draw of a few of them (docs/proofs/persons).

Two passes: one tallies the rows of every person, the other weighs or chooses each row by its own person's entry. What a
row gets is a function of its person's rows and of the draw alone, never of other persons'. Memory is in proportion to
the number of persons. On a cluster every shard is first made to hold its persons whole (`Rows.by_person`): then a tally
of each shard by itself serves, and no identity comes to the client.
"""

from __future__ import annotations

import hashlib
import operator
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Any, Generic, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from dpstats.data.passes import SHARD_BITS, Block, MemoryRows, Rows

Ids = NDArray[np.uint64]
"""Identities of 128 bits, shape (rows, 2), as `dpstats.data.columns` makes them."""

NOBODY = np.uint64(2**64 - 1)
"""The first half of the identity of a row whose person is not known: the row is left out."""

LAST = np.uint64(2**64 - 1)
"""A rank after that of every row; a row has one of 63 bits."""

SORTED_PERSONS = 2**15
"""Persons whose ranks are sorted together."""

Cells = TypeVar("Cells")
Positions = NDArray[np.intp]
Choose = Callable[[Cells, Positions, NDArray[np.bool_]], Cells]


class OwnedRows(NamedTuple, Generic[Cells]):
    """Rows in a container, or their values of a column, and whose they are."""

    cells: Cells
    ids: Ids  # (rows, 2)


class PersonTally(NamedTuple):
    """The persons of some rows: private."""

    ids: Ids  # (persons, 2), sorted by the second half, then by the first
    rows: NDArray[np.int64]  # (persons,), how many each has
    # (persons, k + 1), the least ranks of each person's rows, increasing, `LAST` where there are fewer; k may be drawn.
    # Of no columns where nothing is drawn.
    ranks: NDArray[np.uint64]

    def find(self, ids: Ids) -> Positions:
        """The position of each row's person, -1 for a row of nobody that was tallied; shape (rows,)."""
        first, second = self.ids[:, 0], self.ids[:, 1]
        at = np.searchsorted(second, ids[:, 1])
        positions = np.full(len(ids), -1, dtype=np.intp)
        pending = np.flatnonzero((ids[:, 0] != NOBODY) & (at < len(second)))
        # Persons may share their second half: step on to the one whose first half is the same too.
        while pending.size:
            places = at[pending]
            near = second[places] == ids[pending, 1]
            here = near & (first[places] == ids[pending, 0])
            positions[pending[here]] = places[here]
            pending = pending[near & ~here]
            at[pending] += 1
            pending = pending[at[pending] < len(second)]
        return positions

    def shares(self) -> NDArray[np.float64]:
        """The weight of each person's rows, shape (persons,): so many times it is at most 1, exactly."""
        weights = 1.0 / self.rows
        return np.where(self.rows > 1, np.nextafter(weights, 0.0), weights)

    def drawn(self, positions: Positions, ranks: NDArray[np.uint64]) -> NDArray[np.bool_]:
        """Whether each row is drawn, shape (rows,): at most k of each person, whatever ranks coincide."""
        if not len(self.ids):
            return np.zeros(len(positions), dtype=bool)
        return (positions >= 0) & (ranks < self.ranks[positions, -1])


def tally_of(ids: Ids, ranks: NDArray[np.uint64] | None = None, most: int = 0) -> PersonTally:
    """The tally of rows but those of `NOBODY`; `most` of a person may be drawn, by `ranks` below `LAST`."""
    known = ids[:, 0] != NOBODY
    ranked = np.zeros(len(ids), dtype=np.uint64) if ranks is None else ranks
    return _grouped(ids[known], np.ones(int(known.sum()), dtype=np.int64), ranked[known, None], most)


def merge_tallies(tallies: Iterable[PersonTally]) -> PersonTally:
    """The tally of all the rows of several, which were made for the same k."""
    parts = list(tallies)
    if len(parts) == 1:
        return parts[0]
    ids, rows, ranks = (np.concatenate(field) for field in zip(*parts, strict=True))
    return _grouped(ids, rows, ranks, ranks.shape[1] - 1 if ranks.shape[1] else 0)


def tally(rows: Rows[OwnedRows[Any]], most: int = 0, key: bytes = b"") -> PersonTally:
    """The tally of all rows, in one pass; arguments as for `draw_rows`."""
    return rows.map_numbered(partial(_tallied, most, key)).total(partial(_accumulated, most), _both)


def person_count(rows: Rows[OwnedRows[Any]]) -> int:
    """How many persons the rows are of, but `NOBODY`, in one pass; no draw decides. Private."""
    return rows.by_person().total(_persons, operator.add)


def shared_weights(rows: Rows[OwnedRows[Block]]) -> Rows[Block]:
    """Rows that share the weight 1 of their person in equal parts, times any weight of their own; two passes.

    Rows of nobody are left out. Each block says which person a row is of.
    """
    if rows.distributed:
        return rows.by_person().map_shards(_shared_within)
    tallied = tally(rows)
    return rows.map(partial(_shared, tallied, tallied.shares()))


def draw_rows(rows: Rows[OwnedRows[Cells]], most: int, key: bytes, choose: Choose[Cells]) -> Rows[Cells]:
    """At most so many rows of each person, by a draw that a secret `key` (16 bytes, for this call) fixes; two passes.

    Every set of a person's rows of that size is equally likely, whatever other rows there are: each row has a rank, a
    uniform number of 63 bits from a stream that the key and the number of its block fix, and those of least rank are
    kept. (Where ranks coincide, which takes about 2**31 rows of one person, one fewer is.) `choose` takes cells, their
    persons' positions in the tally and which rows are drawn.
    """
    if rows.distributed:
        return rows.by_person().map_shards(partial(_drawn_within, most, key, choose))
    return rows.map_numbered(partial(_drawn, most, key, choose, tally(rows, most, key)))


def draw_block(block: Block, persons: Positions, chosen: NDArray[np.bool_]) -> Block:
    """The rows drawn, with their persons."""
    return _known(block._replace(person=persons), chosen)


def draw_values(values: NDArray[Any], persons: Positions, chosen: NDArray[np.bool_]) -> NDArray[Any]:
    """The values drawn."""
    return values[chosen]


def ranks_of(key: bytes, number: int, rows: int) -> NDArray[np.uint64]:
    """Independent uniform numbers of 63 bits, shape (rows,), for the rows of one block."""
    stream = hashlib.shake_256(key + number.to_bytes(8, "little")).digest(8 * rows)
    return np.frombuffer(stream, dtype="<u8").astype(np.uint64) >> np.uint64(1)


def _grouped(ids: Ids, rows: NDArray[np.int64], ranks: NDArray[np.uint64], most: int) -> PersonTally:
    """One entry a person of several: rows add up, and of the ranks the k + 1 least are kept."""
    order = np.lexsort((ids[:, 0], ids[:, 1]))
    ids, rows, ranks = ids[order], rows[order], ranks[order]
    starts = np.flatnonzero(np.concatenate([np.ones(min(1, len(ids)), bool), (ids[1:] != ids[:-1]).any(axis=1)]))
    totals = np.add.reduceat(rows, starts) if len(starts) else np.zeros(0, dtype=np.int64)
    least = np.full((len(starts), most + 1 if most else 0), LAST)
    ends = np.append(starts[1:], len(ids))
    # A few persons at a time: what sorting takes is many times what there is to sort.
    for first in range(0, len(starts) if most else 0, SORTED_PERSONS):
        some = slice(first, first + SORTED_PERSONS)
        begin, end = starts[some][0], ends[some][-1]
        _least(ranks[begin:end], starts[some] - begin, ends[some] - begin, least[some])
    return PersonTally(ids[starts], totals, least)


def _least(
    ranks: NDArray[np.uint64], starts: NDArray[np.intp], ends: NDArray[np.intp], least: NDArray[np.uint64]
) -> None:
    """Fill in the `least` ranks of some persons, shape (persons, k + 1), whose entries stand from start to end."""
    person = np.repeat(np.arange(len(starts)), ends - starts)
    flat, whose = ranks.ravel(), np.repeat(person, ranks.shape[1])
    by_rank = np.lexsort((flat, whose))
    flat, whose = flat[by_rank], whose[by_rank]
    # Ranks of one person stand together, increasing: their places count from where the person's begin.
    begins = np.searchsorted(whose, np.arange(len(starts)))
    place = np.arange(len(flat)) - begins[whose]
    kept = place < least.shape[1]
    least[whose[kept], place[kept]] = flat[kept]


def _tallied(most: int, key: bytes, number: int, part: OwnedRows[Any]) -> PersonTally:
    return tally_of(part.ids, ranks_of(key, number, len(part.ids)) if most else None, most)


def _accumulated(most: int, parts: Iterable[PersonTally]) -> PersonTally:
    """One tally of many, merged whenever as many entries are waiting as are merged already."""
    done, waiting, count = tally_of(np.zeros((0, 2), dtype=np.uint64), most=most), [], 0
    for part in parts:
        waiting.append(part)
        count += len(part.ids)
        if count >= len(done.ids):
            done, waiting, count = merge_tallies([done, *waiting]), [], 0
    return merge_tallies([done, *waiting])


def _persons(parts: Iterable[OwnedRows[Any]]) -> int:
    """How many persons a shard that holds its persons whole has."""
    return len(_accumulated(0, (tally_of(part.ids) for part in parts)).ids)


def _both(one: PersonTally, other: PersonTally) -> PersonTally:
    return merge_tallies([one, other])


def _shared(tallied: PersonTally, every: NDArray[np.float64], part: OwnedRows[Block]) -> Block:
    positions = tallied.find(part.ids)
    shares = every[positions] if len(every) else np.zeros(len(positions))
    block = part.cells
    weights = shares if block.weights is None else shares * block.weights
    return _known(block._replace(weights=weights, person=positions), positions >= 0)


def _shared_within(_: int, parts: Iterable[OwnedRows[Block]]) -> Iterator[Block]:
    """What `shared_weights` makes of a shard that holds its persons whole."""
    kept = list(parts)
    tallied = tally(MemoryRows(kept))
    return map(partial(_shared, tallied, tallied.shares()), kept)


def _drawn_within(
    most: int, key: bytes, choose: Choose[Cells], shard: int, parts: Iterable[OwnedRows[Cells]]
) -> Iterator[Cells]:
    """What `draw_rows` makes of a shard that holds its persons whole: ranks are of the shard's own blocks."""
    kept = [((shard << SHARD_BITS) + place, part) for place, part in enumerate(parts)]
    tallied = _accumulated(most, (_tallied(most, key, number, part) for number, part in kept))
    return (_drawn(most, key, choose, tallied, number, part) for number, part in kept)


def _drawn(
    most: int, key: bytes, choose: Choose[Cells], tallied: PersonTally, number: int, part: OwnedRows[Cells]
) -> Cells:
    positions = tallied.find(part.ids)
    return choose(part.cells, positions, tallied.drawn(positions, ranks_of(key, number, len(part.ids))))


def _known(block: Block, chosen: NDArray[np.bool_]) -> Block:
    """The rows chosen; without a copy if it is all of them."""
    return block if chosen.all() else block.take(chosen)
