"""Rows of other libraries that are not in memory: Arrow readers and datasets, polars' and DuckDB's queries."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any
from weakref import WeakSet

import pyarrow as pa

from dpstats.errors import DataError
from dpstats.tables.batches import Kept, Query, check_room, declared, repeated
from dpstats.tables.containers import PolarsColumn
from dpstats.tables.marks import Files
from dpstats.tables.scans import check_fragments, local_files, scan, scan_files
from dpstats.tables.streams import BATCH_ROWS, DeclaredColumn, Stream

_PASSED: WeakSet[Any] = WeakSet()
"""Readers of which a release has taken rows."""

_DUCKDB_WHOLE = frozenset(
    f"{sign}{size}" for sign in ("", "u") for size in ("tinyint", "smallint", "integer", "bigint", "hugeint")
)
_DUCKDB_REAL = frozenset(["float", "double", "decimal"])
_DUCKDB_TEXT = frozenset(["varchar", "enum", "null"])


def from_reader(reader: Any) -> Stream:
    """A RecordBatchReader, which passes once: its usable columns are kept for as long as the stream.

    Raises
    ------
    DataError
        If it has passed: a second model would be fitted to no rows.
    """
    if reader in _PASSED:
        raise DataError(
            "data: this reader has been read already, and its rows pass once; pass a new one, or a table or a file"
        )
    known = [(name, column) for name, column in zip(reader.schema.names, declared(reader.schema), strict=True)]
    usable = [at for at, (_, column) in enumerate(known) if column.kind is not None]

    def produce(_: Sequence[str]) -> Iterator[pa.RecordBatch]:
        names = [known[at][0] for at in usable]
        _PASSED.add(reader)
        for batch in reader:
            yield pa.RecordBatch.from_arrays([batch.column(at) for at in usable], names=names)

    labels, columns = zip(*known, strict=True) if known else ((), ())
    return Stream(labels, columns, Kept([], produce).read, ready=check_room)


def from_dataset(dataset: Any) -> Stream:
    """A dataset of pyarrow whose files declare their types.

    Files of this machine are read in every pass; what is elsewhere is carried out like a query, once for each release.

    Raises
    ------
    DataError
        If its types are inferred from cells (CSV, JSON), or differ between its files.
    """
    check_fragments(dataset)
    names, columns, found = dataset.schema.names, declared(dataset.schema), local_files(dataset)
    if found is None:
        return Query(names, columns, partial(scan, dataset))
    files = Files(found)
    return repeated(names, columns, partial(scan_files, dataset, files), files.check_ready)


def from_polars(frame: Any) -> Stream:
    """A LazyFrame of polars, carried out once for each release.

    Raises
    ------
    DataError
        If polars cannot tell its columns and types.
    """
    import polars

    try:
        schema = dict(frame.collect_schema())
    except Exception:
        schema = None
    if schema is None:
        # Outside of the handler: what polars says may quote cells.
        raise DataError("data: polars cannot tell the columns and types of the LazyFrame; check the query")

    def produce(names: Sequence[str]) -> Iterator[pa.RecordBatch]:
        for batch in frame.select(list(names)).collect_batches(chunk_size=BATCH_ROWS):
            yield from batch.to_arrow(compat_level=polars.CompatLevel.oldest()).to_batches()

    columns = [_polars_column(dtype) for dtype in schema.values()]
    return Query(list(schema), columns, produce)


def from_duckdb(relation: Any) -> Stream:
    """A relation of DuckDB, carried out once for each release."""
    import duckdb

    labels = [str(name) for name in relation.columns]
    columns = [_duckdb_column(declared_type) for declared_type in relation.types]

    def produce(names: Sequence[str]) -> Iterator[pa.RecordBatch]:
        yield from relation.select(*map(duckdb.ColumnExpression, names)).to_arrow_reader(BATCH_ROWS)

    return Query(labels, columns, produce)


def _polars_column(dtype: Any) -> DeclaredColumn:
    import polars

    empty = PolarsColumn(polars.Series([], dtype=dtype))
    return DeclaredColumn(empty.type_name, empty.kind, integral=empty.integral)


def _duckdb_column(declared_type: Any) -> DeclaredColumn:
    kind, name = declared_type.id, str(declared_type)
    if kind == "boolean":
        return DeclaredColumn(name, "boolean", integral=True)
    if kind in _DUCKDB_WHOLE or kind in _DUCKDB_REAL:
        return DeclaredColumn(name, "numeric", integral=kind in _DUCKDB_WHOLE)
    return DeclaredColumn(name, "text" if kind in _DUCKDB_TEXT else None)
