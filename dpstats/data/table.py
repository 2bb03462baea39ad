"""Containers as tables: names and declared types before the charge, cells only on request, in memory or batch by
batch."""

from __future__ import annotations

import copy
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from functools import cache, partial
from typing import Any, NamedTuple, TypeVar

import numpy as np
import pandas as pd
import pyarrow as pa
from numpy.typing import NDArray

from dpstats.arguments import near_miss
from dpstats.cached import cached_property
from dpstats.data.columns import CategoricalColumn, Chosen, Column, ObjectColumn
from dpstats.data.containers import column_of, from_arrow, from_pandas, from_polars, is_column, is_of
from dpstats.data.passes import MemoryRows, Rows
from dpstats.data.spool import Memory, ReadRows
from dpstats.errors import DataError

Holds = Callable[["Table"], NDArray[np.bool_]]
"""Which rows of a table are meant, shape (rows,): a function of each row alone."""


class RowSelection(NamedTuple):
    """Which rows are meant, and the columns that decide."""

    holds: Holds
    names: tuple[str, ...]


class Membership(NamedTuple):
    """One of the disjoint parts into which a public rule divides all rows."""

    rule: str  # the same text for all of its parts
    part: str | float
    name: str  # the part in words, for messages


EXPANSION = 4
"""Columns of numbers that one of a table may become in a model, before its rows are kept with a look at memory."""


AnyTable = TypeVar("AnyTable", bound="Table")


class Table:
    """Named columns of one length; each is fetched when it is asked for, and no other is ever looked at.

    `labels` are public; the number of rows is private unless the adjacency makes it public, and always where the table
    is `filtered`: its rows were chosen by their cells.
    """

    distributed = False
    """Whether the rows are on other machines and stay there."""

    recomputed = False
    """Whether every pass works the rows out again, which may come out in another way."""

    def __init__(
        self,
        labels: Sequence[Any],
        rows: int,
        fetch: Callable[[int], Column],
        index: Callable[[], pd.Index[Any] | None] | None = None,
        *,
        filtered: bool = False,
    ) -> None:
        self.labels = tuple(labels)
        self._rows = rows
        self._index = index
        self.filtered = filtered
        self.memory: Memory | None = None
        self.memberships: tuple[Membership, ...] = ()
        self._fetch = fetch

    @property
    def rows(self) -> int:
        """The number of rows: private unless the adjacency makes it public."""
        return self._rows

    @property
    def index(self) -> pd.Index[Any] | None:
        """The labels of the rows, for results aligned to them; cells like others, which no release reads."""
        return None if self._index is None else self._index()

    @property
    def is_counted(self) -> bool:
        """Whether the number of rows is known before any is read, and follows from no cell."""
        return self._rows >= 0 and not self.filtered

    def count(self, name: str) -> int:
        """How many columns are called `name`."""
        return len(self._places.get(name, ()))

    def column(self, name: str) -> Column:
        """The one column called `name`; DataError if there is none, or more than one."""
        places = self._places.get(name, ())
        if len(places) != 1:
            if places:
                raise DataError(f"data has more than one column {name!r}; rename or drop one")
            near = near_miss(name, [label for label in self.labels if isinstance(label, str)])
            raise DataError(f"data has no column {name!r}" + (f"; did you mean {near!r}?" if near else ""))
        return self._fetch(places[0])

    @cached_property
    def _places(self) -> dict[str, list[int]]:
        """Where the columns of each name stand."""
        places: dict[str, list[int]] = {}
        for place, label in enumerate(self.labels):
            if isinstance(label, str):
                places.setdefault(label, []).append(place)
        return places

    def at(self, position: int) -> Column:
        """The column at a position."""
        return self._fetch(position)

    def select(self, rows: Chosen, count: int) -> Table:
        """The `count` rows at `rows` of every column."""

        def index() -> pd.Index[Any] | None:
            every = self.index
            return None if every is None else every[rows]

        return Table(self.labels, count, lambda position: self._fetch(position).select(rows), index, filtered=True)

    def marking(self) -> Iterator[NDArray[np.uint64]]:
        """Arrays that hardly any other cells have: the cells as identities, a column after the other."""
        return (self.at(position).identities() for position in range(len(self.labels)))

    def detached(self) -> Table:
        """The same cells without what they are parts of: as a table travels between the workers of a cluster."""
        columns = tuple(self.at(position) for position in range(len(self.labels)))
        return Table(self.labels, self.rows, columns.__getitem__, filtered=self.filtered)

    def batches(self, names: Iterable[str]) -> Rows[Table]:
        """The rows as tables with at least the columns called `names`, to go through in order. Charge first.

        This one alone, as it is in memory.
        """
        columns = list(names)
        if self.memory is None or EXPANSION * 8.0 * self.rows * len(columns) <= self.memory.limit:
            return MemoryRows([self])
        return ReadRows(lambda: [self], self.memory)

    def within(self, memory: Memory) -> Table:
        """The same table, of whose rows only so much is kept in memory in model units."""
        table = copy.copy(self)
        table.memory = memory
        return table

    def within_parts(self: AnyTable, memberships: Iterable[Membership]) -> AnyTable:
        """The same table, known to hold rows of these parts only: a public fact about how its rows were chosen."""
        table = copy.copy(self)
        table.memberships = tuple(dict.fromkeys((*self.memberships, *memberships)))
        return table

    def only(self, names: Iterable[str]) -> Table:
        """The table for one release that reads no other columns than `names`, each fetched once; reads nothing yet."""
        table = copy.copy(self)
        table._fetch = cache(self._fetch)
        return table

    def check_ready(self) -> None:
        """Raise DataError unless the rows can be read and kept, by what is public; reads nothing."""

    def forget(self) -> None:
        """Drop what a release kept of the rows outside of this process."""

    def where(self, holds: Holds, names: Iterable[str]) -> Table:
        """The rows where `holds` says so, which looks at the columns `names`. Reads rows: charge first."""
        chosen = holds(self)
        return self.select(chosen, int(np.count_nonzero(chosen))).within_parts(self.memberships)

    def __repr__(self) -> str:
        return f"<Table of {len(self.labels)} columns>"


def table_from_mapping(data: Mapping[Any, Any]) -> Table:
    """A mapping of columns; only columns that are asked for must be of a type we know."""
    columns = dict(data)
    lengths = {len(values) for values in columns.values() if is_column(values)}
    if len(lengths) > 1:
        raise DataError("data must have columns of one length; this mapping has columns of several lengths")
    names = list(columns)

    def fetch(position: int) -> Column:
        values = columns[names[position]]
        if isinstance(values, pd.Series):
            raise DataError(
                f"column {names[position]!r} of the mapping is a Series, which would need alignment by its index; "
                "pass a DataFrame, or series.array"
            )
        column = column_of(values)
        if column is None:
            raise DataError(
                f"column {names[position]!r} of the mapping is a {type(values).__name__}, which has no declared "
                "type or length; pass a list or an array"
            )
        return column

    return Table(names, next(iter(lengths), 0), fetch)


def in_memory(data: object) -> Table | None:
    """`data` as a table if its type is a container in memory; DataError for columns that differ in length."""
    if isinstance(data, pd.DataFrame):
        return Table(list(data.columns), len(data), partial(_column_of_frame, data), lambda: data.index)
    if isinstance(data, Mapping):
        return table_from_mapping(data)
    frame: Any = data
    if isinstance(data, pa.Table | pa.RecordBatch):
        return Table(frame.schema.names, frame.num_rows, lambda at: from_arrow(frame.column(at)))
    if is_of("polars", ("DataFrame",), data):
        return Table(frame.columns, frame.height, lambda at: from_polars(frame.get_columns()[at]))
    return None


def _column_of_frame(data: pd.DataFrame, at: int) -> Column:
    """By its name where that is safe, which takes a third of the time: a fit of many columns asks for each twice."""
    label = data.columns[at]
    named = type(data) is pd.DataFrame and type(label) is str and data.columns.is_unique
    return from_pandas(data[label] if named else data.iloc[:, at])


def slices(rows: int, block_rows: int) -> Iterator[slice]:
    """Slices of at most `block_rows` rows that cover `rows` rows; at least one slice."""
    for start in range(0, max(rows, 1), block_rows):
        yield slice(start, min(start + block_rows, rows))


BATCH_ROWS = 65536
"""Rows of a batch that is asked for."""

Read = Callable[[Sequence[str]], Iterator[Table]]
"""From names of columns to batches of rows, tables in memory that have those columns."""


class Stream(Table):
    """A table whose rows pass by in batches, as often as they are asked for.

    `declared` is what is known of each column without a row; `read` gives some columns, the same rows each time.
    """

    def __init__(
        self, labels: Sequence[str], declared: Sequence[Column], read: Read, ready: Callable[[], None] | None = None
    ) -> None:
        # How many rows there are nobody knows before they are read.
        super().__init__(labels, -1, tuple(declared).__getitem__)
        self._read, self._ready = read, ready
        self._selections: tuple[RowSelection, ...] = ()

    def check_ready(self) -> None:
        """Raise DataError unless the rows can be read and kept, by what is public; reads nothing."""
        if self._ready is not None:
            self._ready()

    @property
    def rows(self) -> int:
        """The number of rows, in a pass over them. Private unless the adjacency makes it public: charge first."""
        return sum(batch.rows for batch in self.read([]))

    def read(self, names: Iterable[str]) -> Iterator[Table]:
        """One pass over the rows, with at least the columns called `names`. Charge first."""
        for batch in self._read(with_deciding(names, self._selections)):
            yield selected(self._selections, batch)

    def batches(self, names: Iterable[str]) -> Rows[Table]:
        """The rows, a batch at a time, with the columns called `names`. Charge first."""
        return ReadRows(partial(self.read, list(names)), self.memory or Memory())

    def only(self, names: Iterable[str]) -> Stream:
        """The stream for one release that reads no other columns than `names`; reads nothing yet."""
        return self._of_columns(set(names), self._read)

    def _of_columns(self, names: Container[str], read: Read) -> Stream:
        """The same rows with some of their columns, read in this way."""
        kept = [at for at, label in enumerate(self.labels) if label in names]
        stream = Stream([self.labels[at] for at in kept], [self.at(at) for at in kept], read, self._ready)
        stream.memory, stream.recomputed = self.memory, self.recomputed
        stream.filtered, stream._selections = self.filtered, self._selections
        return stream

    def where(self, holds: Holds, names: Iterable[str]) -> Stream:
        """The rows where `holds` says so, which looks at the columns `names`; reads nothing yet."""
        stream = copy.copy(self)
        stream.filtered, stream._selections = True, (*self._selections, RowSelection(holds, tuple(names)))
        return stream

    def __repr__(self) -> str:
        return f"<Stream of {len(self.labels)} columns>"


def with_deciding(names: Iterable[str], selections: Iterable[RowSelection]) -> list[str]:
    """The names, once each, with those of the columns that decide about rows."""
    return list(dict.fromkeys([*names, *(name for selection in selections for name in selection.names)]))


def selected(selections: Iterable[RowSelection], table: Table) -> Table:
    """The rows of a table in memory that all selections mean."""
    for selection in selections:
        table = table.where(*selection)
    return table


def with_level(table: Table, factor: str, levels: Sequence[Any], at: int) -> Table:
    """The rows, all at one level of a further column, which takes the place of one of its name."""
    column = CategoricalColumn(np.full(table.rows, at, dtype=np.intp), ObjectColumn(np.array(levels, dtype=object)))
    places = [place for place, label in enumerate(table.labels) if label != factor]
    labels = [*(table.labels[place] for place in places), factor]

    def fetch(place: int) -> Column:
        return table.at(places[place]) if place < len(places) else column

    return Table(labels, table.rows, fetch, lambda: table.index, filtered=table.filtered)
