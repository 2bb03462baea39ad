"""Rows in blocks, packed by the levels of factors, and passes over them: one function of the blocks of each shard."""

from __future__ import annotations

import functools
import hashlib
import itertools
import operator
import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from functools import partial
from threading import Lock
from typing import Any, Generic, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import ThreadpoolController

from dpstats.cached import cached_property
from dpstats.quiet import quiet

Result = TypeVar("Result")

RUNS = 4
"""Into which elements are divided, however many threads there are: the order in which they are added up is the same."""

LEAST_ELEMENTS = 16
"""Fewer are not worth a thread."""

MODERATE_COLUMNS = 1000
"""Systems of so many equations are not worth BLAS's threads, nor are pieces of rows so long."""


def split_runs(elements: Sequence[Any]) -> list[Sequence[Any]]:
    """The elements, in order, in runs of about the same number."""
    if len(elements) < LEAST_ELEMENTS:
        return [elements]
    cuts = [len(elements) * run // RUNS for run in range(RUNS + 1)]
    return [elements[start:end] for start, end in itertools.pairwise(cuts)]


def map_runs(part: Callable[[Any], Result], runs: Sequence[Any]) -> list[Result]:
    """`part` of every run, in their order."""
    count = min(thread_count(), len(runs))
    if count < 2:
        return [part(run) for run in runs]
    with _blas().alone(), ThreadPoolExecutor(count) as pool:
        return list(pool.map(partial(_quietly, part), runs))


def single_blas_thread(columns: int) -> AbstractContextManager[None]:
    """BLAS held to one thread while a model of so many columns is fitted, unless it is wide.

    The passes have threads of their own, and on what is small BLAS's wait for each other: where others use the machine,
    a hundred times longer than one takes.
    """
    return nullcontext() if thread_count() < 2 or columns > MODERATE_COLUMNS else _blas().alone()


def thread_count() -> int:
    """The cores that this process may use, or as many as OMP_NUM_THREADS says, which other libraries heed as well."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    given = os.environ.get("OMP_NUM_THREADS", "")
    return min(cores, int(given)) if given.isdecimal() and int(given) else cores


class _Blas:
    """The threads of the process's BLAS libraries, of which several fits at a time may want one each."""

    def __init__(self) -> None:
        self._found = ThreadpoolController().select(user_api="blas")
        self._lock = Lock()
        self._inside = 0
        self._limits: Any = None

    @contextmanager
    def alone(self) -> Iterator[None]:
        """One thread until the last who asked for it is done; then as many as before."""
        with self._lock:
            if self._inside == 0:
                self._limits = self._found.limit(limits=1)
            self._inside += 1
        try:
            yield
        finally:
            with self._lock:
                self._inside -= 1
                if self._inside == 0:
                    self._limits.restore_original_limits()


_found: dict[str, _Blas] = {}


def _blas() -> _Blas:
    """Found once, when numpy's and scipy's libraries have been loaded: a search takes milliseconds.

    Threads that search at the same time get the same one: of two, one would restore what the other has set.
    """
    if not _found:
        _found.setdefault("blas", _Blas())
    return _found["blas"]


if hasattr(os, "register_at_fork"):
    # A child has none of the threads that hold the lock, or are inside, at that moment: it would wait for ever.
    os.register_at_fork(after_in_child=_found.clear)


def _quietly(part: Callable[[Any], Result], run: Any) -> Result:
    """numpy's error state is that of a thread."""
    with quiet():
        return part(run)


Floats = NDArray[Any]
"""Of float64, or of float32 where the caller's arrays are."""


class Block(NamedTuple):
    """Complete rows in model units: what a mechanism sees of the data."""

    exog: Floats  # (rows, p)
    endog: Floats  # (rows,)
    weights: Floats | None = None  # (rows,) within [0, 1]; None where every row has weight 1
    offset: Floats | None = None  # (rows,), added to x'theta; None where it is 0
    # (rows,), the person that a row is of, from 0 on without gaps in its shard; None where every row is by itself.
    # While rows are read, the person's identity, shape (rows, 2)
    person: NDArray[Any] | None = None
    # unsigned integers (rows, k), in place of columns that exog lacks; None in all that mechanisms see
    levels: NDArray[Any] | None = None

    def part(self, rows: slice) -> Block:
        """Consecutive rows, without a copy."""
        return Block(*(None if cells is None else cells[rows] for cells in self))  # type: ignore[arg-type]

    def take(self, rows: NDArray[np.bool_] | NDArray[np.intp]) -> Block:
        """The rows chosen, one after the other in memory, or one column after the other as before."""
        by_columns = self.exog.flags.fnc
        exog = np.ascontiguousarray(self.exog.T[:, rows]).T if by_columns else np.ascontiguousarray(self.exog[rows])
        return Block(exog, *(None if cells is None else cells[rows] for cells in self[1:]))  # type: ignore[arg-type]

    def columns(self, kept: NDArray[np.intp]) -> Block:
        """Some columns, C-contiguous."""
        return self._replace(exog=np.ascontiguousarray(self.exog[:, kept]))

    def detached(self) -> Block:
        """The rows without what their arrays are parts of, which they would keep in memory."""
        return Block(*(None if cells is None else detached(cells) for cells in self))  # type: ignore[arg-type]

    def doubles(self) -> Block:
        """In double precision."""
        floats = (None if cells is None else np.asarray(cells, dtype=np.float64) for cells in self[:4])
        return Block(*floats)._replace(person=self.person, levels=self.levels)  # type: ignore[arg-type]


def concatenate(blocks: Sequence[Block]) -> Block:
    """Blocks of one kind, one after the other."""
    return Block(*(None if cells[0] is None else np.concatenate(cells) for cells in zip(*blocks, strict=True)))  # type: ignore[arg-type]


def detached(cells: Floats) -> Floats:
    """The cells without a larger array that they are a part of, which they would keep in memory."""
    return cells if getattr(cells.base, "nbytes", 0) <= cells.nbytes else cells.copy("K")


Element = TypeVar("Element")
Other = TypeVar("Other")

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

EVEN_ROWS = 2**16
"""Rows of a block of a part, by the part's own number of rows."""


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

    def total_of_pieces(
        self, part: Callable[[Iterable[Element]], Result], add: Callable[[Result, Result], Result]
    ) -> Result:
        """As `total`, of a part that sums over elements: it may be called for some of a shard's at a time.

        Rows of a person may then be in several calls.
        """
        return self.total(part, add)

    @abstractmethod
    def map_shards(self, change: Callable[[int, Iterable[Element]], Iterable[Other]]) -> Rows[Other]:
        """What `change` makes of the number of each shard and its elements, in every pass."""

    def map_rows(self, change: Callable[[int, Iterable[Element]], Iterable[Element]]) -> Rows[Element]:
        """As `map_shards`, of a change that takes and joins whole rows, or changes what is not their columns."""
        return self.map_shards(change)

    @abstractmethod
    def persist(self) -> Rows[Element]:
        """The same elements, worked out once where they fit, and not again in every pass."""

    @property
    def packed(self) -> Rows[Element]:
        """The same rows for what does not look at their columns, which need not be there."""
        return self

    @property
    def in_memory(self) -> bool:
        """Whether the elements are in memory as they are, and not made in every pass."""
        return False

    distributed = False
    """Whether there are several shards, of which each may have some of a person's rows."""

    def by_person(self) -> Rows[Element]:
        """The same elements, of `dpstats.data.persons.OwnedRows`, in shards that hold their persons whole."""
        return self

    def map(self, change: Callable[[Element], Other]) -> Rows[Other]:
        """What `change` makes of every element, in every pass."""
        return self.map_shards(partial(_map, change))

    def map_numbered(self, change: Callable[[int, Element], Other]) -> Rows[Other]:
        """What `change` makes of every element and a number of its own, in every pass."""
        return self.map_shards(partial(_numbered, change))

    def collect(self) -> list[Element]:
        """All elements, in memory."""
        return self.total(list, operator.add)

    def __reduce__(self) -> Any:
        raise TypeError("rows are private and cannot be pickled")


class MemoryRows(Rows[Element]):
    """Elements in memory, one shard; `change` is applied in every pass (see `Rows.map_shards`)."""

    def __init__(self, elements: Sequence[Any], change: Change | None = None) -> None:
        self._elements = elements
        self._change = change

    def __iter__(self) -> Iterator[Element]:
        return iter(self._elements if self._change is None else self._change(0, self._elements))

    def total(self, part: Callable[[Iterable[Element]], Result], add: Callable[[Result, Result], Result]) -> Result:
        """`part` of all elements."""
        return part(self)

    def total_of_pieces(
        self, part: Callable[[Iterable[Element]], Result], add: Callable[[Result, Result], Result]
    ) -> Result:
        """`part` of runs of the elements, at the same time on several cores."""
        if self._change is not None:
            return part(self)
        return functools.reduce(add, map_runs(part, split_runs(self._elements)))

    def map_shards(self, change: Callable[[int, Iterable[Element]], Iterable[Other]]) -> MemoryRows[Other]:
        """What `change` makes of the elements, in every pass."""
        return MemoryRows(self._elements, chained(self._change, change))

    @property
    def in_memory(self) -> bool:
        """Whether the elements are in memory as they are, and not made in every pass."""
        return self._change is None

    def persist(self) -> MemoryRows[Element]:
        """The elements as they are now."""
        return self if self._change is None else MemoryRows(list(self))


def as_rows(elements: Rows[Element] | Iterable[Element]) -> Rows[Element]:
    """Rows as they are, or a collection in memory."""
    return elements if isinstance(elements, Rows) else MemoryRows(list(elements))


def block_rows(blocks: Rows[Block] | Iterable[Sequence[Any]]) -> Rows[Block]:
    """Rows of `Block`; plain tuples (exog, endog), in memory, become blocks."""
    return blocks if isinstance(blocks, Rows) else MemoryRows([Block(*block) for block in blocks])


def row_count(rows: Rows[Block]) -> int:
    """How many rows there are: private."""
    return rows.packed.total(_count, operator.add)


def thin(rows: Rows[Block], every: int, chunk: int) -> Rows[Block]:
    """Every `every`-th chunk of at most `chunk` rows: a cheap sample to start a solver from."""
    return rows.map_rows(partial(_thinned, every, chunk, rows.in_memory)).persist()


def divide(rows: Rows[Block], key: bytes) -> tuple[Rows[Block], Rows[Block]]:
    """Each row in one of two parts by a coin of its own: a stream of bits that a secret key and its block fix.

    Where rows are of persons the coin is the person's: all its rows go to one part. The same rows fall to the same part
    in every pass, and nothing about a row decides its coin. What one row, or person, costs in one part it does not in
    the other: the releases of both together cost what the dearer one does (docs/proofs/composition).
    """
    one, other = (_chosen(rows, partial(_side, key, heads)) for heads in (True, False))
    return one, other


def partition(rows: Rows[Block], key: bytes, parts: int) -> tuple[Rows[Block], ...]:
    """Each row in one of several parts by a draw of its own, as `divide` does with two; one row changes one part."""
    return tuple(_chosen(rows, partial(_part, key, parts, place)) for place in range(parts))


def _chosen(rows: Rows[Block], choice: Callable[[int, Block], Block]) -> Rows[Block]:
    """The rows of a part: in blocks of which no row of another part moves the ends (docs/proofs/composition, 5)."""
    return rows.map_rows(partial(_numbered, choice)).map_rows(_even).persist()


def _even(_: int, blocks: Iterable[Block]) -> Iterator[Block]:
    """Rows that are records by themselves in blocks of `EVEN_ROWS`; those of persons as they are."""
    blocks = iter(blocks)
    for first in blocks:
        rest = itertools.chain([first], blocks)
        yield from rest if first.person is not None else cut_even(rest, EVEN_ROWS)


def cut_even(blocks: Iterable[Block], most: int) -> Iterator[Block]:
    """The same rows in blocks of `most` rows, the last one of the rest, wherever they were cut before."""
    waiting, count = list[Block](), 0
    for block in blocks:
        waiting.append(block)
        count += len(block.endog)
        if count >= most:
            whole, end = concatenate(waiting), count - count % most
            for start in range(0, end, most):
                yield whole.part(slice(start, start + most))
            waiting, count = [whole.part(slice(end, count))], count - end
    if waiting:
        yield waiting[0] if len(waiting) == 1 else concatenate(waiting)


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


def chained(first: Change | None, then: Change) -> Change:
    """One change after another, if there is a first one."""
    return then if first is None else partial(_in_turn, first, then)


def _in_turn(first: Change, then: Change, shard: int, elements: Iterable[Any]) -> Iterable[Any]:
    return then(shard, first(shard, elements))


def _map(change: Callable[[Any], Any], _: int, elements: Iterable[Any]) -> Iterable[Any]:
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
            kept.append(piece if here else piece.detached())
            rows += len(piece.endog)
            if rows >= JOINED_ROWS:
                yield concatenate(kept)
                kept, rows = [], 0
    if kept:
        yield concatenate(kept)


def _side(key: bytes, heads: bool, number: int, block: Block) -> Block:
    if block.person is None:
        return block.take(coins(key, number, len(block.endog)) == heads)
    # Persons are numbered anew in each shard.
    stream, persons = PERSONS - (number >> SHARD_BITS), int(block.person.max(initial=-1)) + 1
    return block.take((coins(key, stream, persons) == heads)[block.person])


def _part(key: bytes, parts: int, place: int, number: int, block: Block) -> Block:
    return block.take(draws(key, number, len(block.endog), parts) == place)


PIECE_ROWS, PIECE_CELLS, LEAST_PIECE = 4096, 2**17, 256
"""Rows are opened so many at a time, of wide designs so many cells, but at least so many rows."""


class CodedColumns(NamedTuple):
    """Columns that are functions of one level a row."""

    columns: slice  # where they stand among all columns
    values: NDArray[np.float64]  # (columns, levels); a column of a single level is constant: none is kept


@dataclass(frozen=True, eq=False)
class RowPacking:
    """How rows are kept: public."""

    size: int  # p, the number of columns
    coded: tuple[CodedColumns, ...]
    numbers: NDArray[np.intp]  # (k,), the other columns, increasing: those of a packed block's exog

    def unpacked(self, block: Block) -> Block:
        """Rows with all of their columns, one after the other in memory."""
        return block._replace(exog=self.columns_of(block.exog, block.levels), levels=None)

    def columns_of(self, numbers: Floats, levels: NDArray[Any] | None) -> NDArray[np.float64]:
        """All columns of some rows, shape (rows, p), from their `numbers`, shape (rows, k), and their levels."""
        cells, given = np.empty((self.size, len(numbers))), numbers.T
        for columns, places in self._runs:
            cells[columns] = given[places]
        for columns, values in self._constant:
            cells[columns] = values
        if levels is not None:
            for (columns, values), own in zip(self.varying, levels.T, strict=True):
                # Levels are within the table; "clip" spares numpy a buffer that it would raise from.
                values.take(own.astype(np.intp), 1, cells[columns], "clip")
        return cells.T

    def pieces(self, blocks: Iterable[Block]) -> Iterator[Block]:
        """The rows of packed blocks with all of their columns, a piece at a time."""
        most = min(PIECE_ROWS, max(LEAST_PIECE, PIECE_CELLS // max(1, self.size)))
        for block in blocks:
            for start in range(0, max(1, len(block.endog)), most):
                yield self.unpacked(block.part(slice(start, start + most)))

    @cached_property
    def _runs(self) -> list[tuple[slice, slice]]:
        """Numbers that stand together, among all columns and among the numbers."""
        breaks = np.flatnonzero(np.diff(self.numbers) > 1) + 1
        ends = itertools.pairwise([0, *breaks.tolist(), len(self.numbers)])
        return [(slice(int(self.numbers[a]), int(self.numbers[b - 1]) + 1), slice(a, b)) for a, b in ends if a < b]

    @cached_property
    def _constant(self) -> list[CodedColumns]:
        return [coded for coded in self.coded if coded.values.shape[1] == 1]

    @cached_property
    def varying(self) -> list[CodedColumns]:
        """The columns whose level is kept of each row, in the order in which `Block.levels` holds it."""
        return [coded for coded in self.coded if coded.values.shape[1] > 1]


class PackedRows(Rows[Block]):
    """Packed blocks, wherever they are, opened in every pass."""

    def __init__(self, packing: RowPacking, rows: Rows[Block]) -> None:
        self._packing, self._rows = packing, rows

    def total(self, part: Callable[[Iterable[Block]], Result], add: Callable[[Result, Result], Result]) -> Result:
        """`part` of the opened pieces of every shard."""
        return self._rows.total(partial(_of_pieces, self._packing, part), add)

    def total_of_pieces(
        self, part: Callable[[Iterable[Block]], Result], add: Callable[[Result, Result], Result]
    ) -> Result:
        """As `total`; where several threads work, each opens what it works on."""
        return self._rows.total_of_pieces(partial(_of_pieces, self._packing, part), add)

    def map_shards(self, change: Callable[[int, Iterable[Block]], Iterable[Other]]) -> Rows[Other]:
        """What `change` makes of the opened pieces, in every pass."""
        return self._rows.map_shards(chained(partial(_pieces, self._packing), change))

    def map_rows(self, change: Callable[[int, Iterable[Block]], Iterable[Block]]) -> PackedRows:
        """The rows that `change` takes of packed blocks: packed."""
        return PackedRows(self._packing, self._rows.map_rows(change))

    def persist(self) -> PackedRows:
        """The same rows, kept packed."""
        return PackedRows(self._packing, self._rows.persist())

    def collect(self) -> list[Block]:
        """The blocks with all of their columns, as many as there are packed ones."""
        return [self._packing.unpacked(block) for block in self._rows.collect()]

    @property
    def packed(self) -> Rows[Block]:
        """The packed blocks."""
        return self._rows

    @property
    def in_memory(self) -> bool:
        """Whether the packed blocks are in memory."""
        return self._rows.in_memory


def _of_pieces(packing: RowPacking, part: Callable[[Iterable[Block]], Result], blocks: Iterable[Block]) -> Result:
    return part(packing.pieces(blocks))


def _pieces(packing: RowPacking, _: int, blocks: Iterable[Block]) -> Iterator[Block]:
    return packing.pieces(blocks)
