"""A pass over rows: one function of the blocks of each shard, and a way to combine what it returns.

Rows may be in memory, in a file or on other machines. Mechanisms know none of it: they hand over a function of some
blocks, and get one combined value. What the function returns is private like the rows are.
"""

from __future__ import annotations

import functools
import hashlib
import operator
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import Any, Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from dpstats.rows.block import Block, joined
from dpstats.rows.threads import of_each, runs_of

Element = TypeVar("Element")
Other = TypeVar("Other")
Result = TypeVar("Result")

Change = Callable[[int, Iterable[Any]], Iterable[Any]]
"""From the number of a shard and its elements to other elements, lazily."""

PERSONS = 2**64 - 1
"""In place of a block's number: the stream of the persons' coins; one less for each further shard."""

SHARD_BITS = 32
"""A shard has fewer than 2**32 elements, so that element and shard have one number."""


JOINED_ROWS = 8192
"""The pieces of a sample are put together to blocks of about so many rows,"""

LARGE_CELLS = 2**15
"""unless they have so many cells."""


class Rows(ABC, Generic[Element]):
    """Elements, such as tables or blocks, that can be gone through again and again, always in the same order.

    Functions that are handed over may be sent elsewhere: they must be picklable (a function of a module, or a `partial`
    of one) and have no effect but their result.
    """

    @abstractmethod
    def total(self, part: Callable[[Iterable[Element]], Result], add: Callable[[Result, Result], Result]) -> Result:
        """`part` of every shard's elements, combined by `add` in the order of the shards.

        `part` is called at least once, with nothing where there is nothing.
        """

    def added(self, part: Callable[[Iterable[Element]], Result], add: Callable[[Result, Result], Result]) -> Result:
        """As `total`, of a part that sums over elements: it may be called for some of a shard's at a time.

        Rows of a person may then be in several calls.
        """
        return self.total(part, add)

    @abstractmethod
    def through(self, change: Callable[[int, Iterable[Element]], Iterable[Other]]) -> Rows[Other]:
        """What `change` makes of the number of each shard and its elements, in every pass."""

    def chosen(self, change: Callable[[int, Iterable[Element]], Iterable[Element]]) -> Rows[Element]:
        """As `through`, of a change that takes and joins whole rows, or changes what they have beside their columns."""
        return self.through(change)

    @abstractmethod
    def held(self) -> Rows[Element]:
        """The same elements, worked out once where they fit, and not again in every pass."""

    @property
    def beside(self) -> Rows[Element]:
        """The same rows for what does not look at their columns, which need not be there."""
        return self

    @property
    def stays(self) -> bool:
        """Whether the elements are in memory as they are, and not made in every pass."""
        return False

    scattered = False
    """Whether there are several shards, of which each may have some of a person's rows."""

    def by_person(self) -> Rows[Element]:
        """The same elements, of `dpstats.rows.persons.Owned`, in shards that hold their persons whole."""
        return self

    def each(self, change: Callable[[Element], Other]) -> Rows[Other]:
        """What `change` makes of every element, in every pass."""
        return self.through(partial(_each, change))

    def numbered(self, change: Callable[[int, Element], Other]) -> Rows[Other]:
        """What `change` makes of every element and a number of its own, in every pass."""
        return self.through(partial(_numbered, change))

    def collected(self) -> list[Element]:
        """All elements, in memory."""
        return self.total(list, operator.add)


class MemoryRows(Rows[Element]):
    """Elements in memory: one shard.

    Parameters
    ----------
    elements : sequence
    change : callable, optional
        Applied in every pass; see `Rows.through`.
    """

    def __init__(self, elements: Sequence[Any], change: Change | None = None) -> None:
        self._elements = elements
        self._change = change

    def __iter__(self) -> Iterator[Element]:
        return iter(self._elements if self._change is None else self._change(0, self._elements))

    def total(self, part: Callable[[Iterable[Element]], Result], add: Callable[[Result, Result], Result]) -> Result:
        """`part` of all elements."""
        return part(self)

    def added(self, part: Callable[[Iterable[Element]], Result], add: Callable[[Result, Result], Result]) -> Result:
        """`part` of runs of the elements, at the same time on several cores."""
        if not self.stays:
            return part(self)
        return functools.reduce(add, of_each(part, runs_of(self._elements)))

    def through(self, change: Callable[[int, Iterable[Element]], Iterable[Other]]) -> MemoryRows[Other]:
        """What `change` makes of the elements, in every pass."""
        return MemoryRows(self._elements, change if self._change is None else partial(chained, self._change, change))

    @property
    def stays(self) -> bool:
        """Whether the elements are in memory as they are, and not made in every pass."""
        return self._change is None

    def held(self) -> MemoryRows[Element]:
        """The elements as they are now."""
        return self if self._change is None else MemoryRows(list(self))

    def __reduce__(self) -> Any:
        raise TypeError("rows are private and cannot be pickled")


def as_rows(elements: Rows[Element] | Iterable[Element]) -> Rows[Element]:
    """Rows as they are, or a collection in memory."""
    return elements if isinstance(elements, Rows) else MemoryRows(list(elements))


def block_rows(blocks: Rows[Block] | Iterable[Sequence[Any]]) -> Rows[Block]:
    """Rows of `Block`; plain tuples (exog, endog), in memory, become blocks."""
    return blocks if isinstance(blocks, Rows) else MemoryRows([Block(*block) for block in blocks])


def row_count(rows: Rows[Block]) -> int:
    """How many rows there are: private."""
    return rows.beside.total(_count, operator.add)


def thinned(rows: Rows[Block], every: int, chunk: int) -> Rows[Block]:
    """Every `every`-th chunk of at most `chunk` rows: a cheap sample to start a solver from."""
    return rows.chosen(partial(_thinned, every, chunk, rows.stays)).held()


def divided(rows: Rows[Block], key: bytes) -> tuple[Rows[Block], Rows[Block]]:
    """Each row in one of two parts by a coin of its own: a stream of bits that a secret key and its block fix.

    Where rows are of persons the coin is the person's: all its rows go to one part. The same rows fall to the same part
    in every pass, and nothing about a row decides its coin. What one row, or person, costs in one part it does not in
    the other: the releases of both together cost what the dearer one does (docs/proofs/composition).
    """
    one, other = (rows.chosen(partial(_numbered, partial(_side, key, heads))).held() for heads in (True, False))
    return one, other


def parted(rows: Rows[Block], key: bytes, parts: int) -> tuple[Rows[Block], ...]:
    """Each row in one of several parts by a draw of its own, as `divided` does with two; one row changes one part."""
    changes = [partial(_part, key, parts, place) for place in range(parts)]
    return tuple(rows.chosen(partial(_numbered, change)).held() for change in changes)


def coins(key: bytes, number: int, rows: int) -> NDArray[np.bool_]:
    """Independent fair coins, shape (rows,), for the rows of one block: SHAKE256 of the key and the block's number."""
    stream = hashlib.shake_256(key + number.to_bytes(8, "little")).digest((rows + 7) // 8)
    return np.unpackbits(np.frombuffer(stream, dtype=np.uint8), count=rows).astype(bool)


def draws(key: bytes, number: int, rows: int, parts: int) -> NDArray[np.uint64]:
    """Independent draws from 0 to parts - 1, shape (rows,), for the rows of one block; see `coins`.

    They are uniform but for 2**-60, which no guarantee rests on: only that no row decides its draw.
    """
    stream = hashlib.shake_256(key + number.to_bytes(8, "little")).digest(8 * rows)
    return np.frombuffer(stream, dtype="<u8") % np.uint64(parts)


def chained(first: Change, then: Change, shard: int, elements: Iterable[Any]) -> Iterable[Any]:
    """One change after another."""
    return then(shard, first(shard, elements))


def _each(change: Callable[[Any], Any], _: int, elements: Iterable[Any]) -> Iterable[Any]:
    return map(change, elements)


def _numbered(change: Callable[[int, Any], Any], shard: int, elements: Iterable[Any]) -> Iterable[Any]:
    return (change((shard << SHARD_BITS) + place, element) for place, element in enumerate(elements))


def _count(blocks: Iterable[Block]) -> int:
    return sum(len(block.endog) for block in blocks)


def _thinned(every: int, chunk: int, here: bool, _: int, blocks: Iterable[Block]) -> Iterator[Block]:
    """Blocks that stay in memory need not be copied: what is large enough is a part of one."""
    count, kept, rows = 0, list[Block](), 0
    for block in blocks:
        large = here and chunk * block.exog.shape[1] >= LARGE_CELLS
        for start in range(0, len(block.endog), chunk):
            count += 1
            if (count - 1) % every:
                continue
            piece = block.part(slice(start, start + chunk))
            if large:
                yield piece
                continue
            kept.append(piece if here else piece.apart())
            rows += len(piece.endog)
            if rows >= JOINED_ROWS:
                yield joined(kept)
                kept, rows = [], 0
    if kept:
        yield joined(kept)


def _side(key: bytes, heads: bool, number: int, block: Block) -> Block:
    if block.person is None:
        return block.take(coins(key, number, len(block.endog)) == heads)
    # Persons are numbered anew in each shard.
    stream, persons = PERSONS - (number >> SHARD_BITS), int(block.person.max(initial=-1)) + 1
    return block.take((coins(key, stream, persons) == heads)[block.person])


def _part(key: bytes, parts: int, place: int, number: int, block: Block) -> Block:
    return block.take(draws(key, number, len(block.endog), parts) == place)
