"""Tables that are read batch by batch: names and declared types first, rows on request and never all at once."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import NoReturn

from dpstats.rows import Memory, ReadRows, Rows
from dpstats.tables.columns import Array, Chosen, CodeOf, Codes, Column, Kind, Tokens
from dpstats.tables.table import Holds, Table

BATCH_ROWS = 65536
"""Rows of a batch that is asked for."""

Read = Callable[[Sequence[str]], Iterator[Table]]
"""From names of columns to batches of rows, tables in memory that have those columns."""


class DeclaredColumn(Column):
    """What is declared of a column whose cells are still to be read."""

    def __init__(self, type_name: str, kind: Kind | None, *, integral: bool = False) -> None:
        self._type_name, self._kind, self._integral = type_name, kind, integral

    @property
    def type_name(self) -> str:
        return self._type_name

    @property
    def kind(self) -> Kind | None:
        return self._kind

    @property
    def integral(self) -> bool:
        return self._integral

    def numbers(self) -> Array:
        self._fail()

    def codes(self, code_of: CodeOf) -> Codes:
        self._fail()

    def tokens(self) -> Tokens:
        self._fail()

    def select(self, rows: Chosen) -> Column:
        self._fail()

    def __len__(self) -> int:
        self._fail()

    def _fail(self) -> NoReturn:
        raise AssertionError("the rows of a stream are read through its batches")


class Stream(Table):
    """A table whose rows pass by in batches, as often as they are asked for.

    Parameters
    ----------
    labels : sequence of str
        The columns' names; public.
    declared : sequence of Column
        What is known of each without a row.
    read : callable
        Reads some columns from the first row to the last; the same rows each time.
    divided : bool
        As for `Table`.
    ready : callable, optional
        As `check_ready` says.
    """

    def __init__(
        self,
        labels: Sequence[str],
        declared: Sequence[Column],
        read: Read,
        *,
        divided: bool = False,
        ready: Callable[[], None] | None = None,
    ) -> None:
        # How many rows there are nobody knows before they are read.
        super().__init__(labels, -1, tuple(declared).__getitem__, divided=divided)
        self._declared, self._read, self._ready = tuple(declared), read, ready

    def check_ready(self) -> None:
        """Raise DataError unless the rows can be read and kept, by what is public; reads nothing."""
        if self._ready is not None:
            self._ready()

    @property
    def rows(self) -> int:
        """The number of rows, in a pass over them. Private unless the adjacency makes it public: charge first."""
        return sum(batch.rows for batch in self._read([]))

    def read(self, names: Iterable[str]) -> Iterator[Table]:
        """One pass over the rows, with the columns called `names`. Charge first."""
        return self._read(list(dict.fromkeys(names)))

    def batches(self, names: Iterable[str]) -> Rows[Table]:
        """The rows, a batch at a time, with the columns called `names`. Charge first."""
        return ReadRows(partial(self._read, list(dict.fromkeys(names))), self.memory or Memory())

    def only(self, names: Iterable[str]) -> Stream:
        """The stream for one release that reads no other columns than `names`; reads nothing yet."""
        wanted = set(names)
        kept = [at for at, label in enumerate(self.labels) if label in wanted]
        labels, declared = [self.labels[at] for at in kept], [self._declared[at] for at in kept]
        return self._like(Stream(labels, declared, self._read, divided=self.divided))

    def where(self, holds: Holds, names: Iterable[str]) -> Stream:
        """The rows where `holds` says so, which looks at the columns `names`; reads nothing yet."""
        deciding = list(names)

        def read(asked: Sequence[str]) -> Iterator[Table]:
            for batch in self._read(list(dict.fromkeys([*asked, *deciding]))):
                yield batch.where(holds, deciding)

        return self._like(Stream(self.labels, self._declared, read, divided=True))

    def _like(self, other: Stream) -> Stream:
        other.memory, other.reworked, other._ready = self.memory, self.reworked, self._ready
        return other

    def __repr__(self) -> str:
        return f"<Stream of {len(self.labels)} columns>"
