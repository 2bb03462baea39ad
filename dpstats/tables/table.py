"""Containers as tables: names and declared types before the charge, cells only on request."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import pandas as pd

from dpstats.errors import DataError
from dpstats.rows import MemoryRows, Rows
from dpstats.tables.columns import Chosen, Column
from dpstats.tables.containers import PolarsColumn, column_of, from_arrow, from_pandas, is_column, is_of

ACCEPTED = "a pandas or polars DataFrame, an Arrow table, or a dict of columns"


class Table:
    """Named columns of one length; each is fetched when it is asked for, and no other is ever looked at.

    Parameters
    ----------
    labels : sequence
        The columns' names; public.
    rows : int
        Private unless the adjacency makes it public.
    fetch : callable
        The column at a position.
    index : Index, optional
        Of a pandas DataFrame, for results that are aligned to it.
    divided : bool
        Whether these are the rows that their cells chose from a larger table: how many is private, whatever the
        adjacency.
    """

    def __init__(
        self,
        labels: Sequence[Any],
        rows: int,
        fetch: Callable[[int], Column],
        index: pd.Index[Any] | None = None,
        *,
        divided: bool = False,
    ) -> None:
        self.labels = tuple(labels)
        self.rows = rows
        self.index = index
        self.divided = divided
        self._fetch = fetch

    def count(self, name: str) -> int:
        """How many columns are called `name`."""
        return sum(1 for label in self.labels if isinstance(label, str) and label == name)

    def column(self, name: str) -> Column:
        """The one column called `name`.

        Raises
        ------
        DataError
            If there is none, or more than one.
        """
        if (count := self.count(name)) != 1:
            what = "has no column" if count == 0 else "has more than one column"
            raise DataError(f"data {what} {name!r}")
        return self._fetch(next(i for i, label in enumerate(self.labels) if isinstance(label, str) and label == name))

    def at(self, position: int) -> Column:
        """The column at a position."""
        return self._fetch(position)

    def select(self, rows: Chosen, count: int) -> Table:
        """The `count` rows at `rows` of every column, without their index, whose labels are cells like others."""
        return Table(self.labels, count, lambda position: self._fetch(position).select(rows), divided=True)

    def batches(self) -> Rows[Table]:
        """The rows as tables of the same columns, to go through in order: this one alone, as it is in memory."""
        return MemoryRows([self])

    def __repr__(self) -> str:
        return f"<Table of {len(self.labels)} columns>"


def as_table(data: object) -> Table:
    """`data` as a table, judged by its type, its names and its declared types and lengths alone.

    Parameters
    ----------
    data : DataFrame, polars DataFrame, Arrow Table or RecordBatch, mapping of columns, or Table
        The columns of a mapping are one-dimensional numpy arrays, lists or tuples (columns of objects), Arrow arrays,
        pandas extension arrays or polars Series.

    Raises
    ------
    DataError
        If it is of another type, or is a mapping whose columns differ in length.
    """
    if isinstance(data, Table):
        return data
    table = _as_table(data)
    if table is None:
        raise DataError(f"data must be {ACCEPTED}, got {type(data).__name__}")
    return table


def _as_table(data: object) -> Table | None:
    if isinstance(data, pd.DataFrame):
        return Table(list(data.columns), len(data), lambda at: from_pandas(data.iloc[:, at]), data.index)
    if isinstance(data, Mapping):
        return _from_mapping(data)
    frame: Any = data
    if is_of("pyarrow", ("Table", "RecordBatch"), data):
        return Table(frame.schema.names, frame.num_rows, lambda at: from_arrow(frame.column(at)))
    if is_of("polars", ("DataFrame",), data):
        return Table(frame.columns, frame.height, lambda at: PolarsColumn(frame.get_columns()[at]))
    return None


def is_table(data: object) -> bool:
    """Whether `as_table` knows the type of `data`."""
    return isinstance(data, Table) or _as_table(data) is not None


def _from_mapping(data: Mapping[Any, Any]) -> Table:
    """A mapping of columns; only columns that are asked for must be of a type we know."""
    columns = dict(data)
    lengths = {len(values) for values in columns.values() if is_column(values)}
    if len(lengths) > 1:
        raise DataError("the columns of data must have one length; data is a mapping of columns of several")
    names = list(columns)

    def fetch(position: int) -> Column:
        values = columns[names[position]]
        if isinstance(values, pd.Series):
            raise DataError(
                f"column {names[position]!r} of the mapping is a Series, which would have to be aligned by its index; "
                "give a DataFrame, or its values: series.array"
            )
        column = column_of(values)
        if column is None:
            raise DataError(
                f"column {names[position]!r} of the mapping is a {type(values).__name__}, which declares neither type "
                "nor length; give a list or an array"
            )
        return column

    return Table(names, next(iter(lengths), 0), fetch)


def slices(rows: int, block_rows: int) -> Iterator[slice]:
    """Slices of at most `block_rows` rows that cover `rows` rows; at least one slice."""
    for start in range(0, max(rows, 1), block_rows):
        yield slice(start, min(start + block_rows, rows))
