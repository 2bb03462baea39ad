"""The door: whatever holds rows, as a table, by its type, its names and its declared types alone."""

from __future__ import annotations

import os
from typing import Any

from dpstats.arguments import check_choice
from dpstats.data.containers import is_of
from dpstats.data.table import Stream, Table, in_memory
from dpstats.errors import ArgumentError, DataError

ACCEPTED = (
    "a pandas or polars DataFrame, a polars LazyFrame, an Arrow table, reader or dataset, a DuckDB relation, a Dask "
    "DataFrame, a dict of columns, or the path of Parquet or CSV files"
)


def as_table(data: object, engine: str | None = None) -> Table:
    """`data` as a table, judged by its type, its names and its declared types and lengths alone.

    Raises DataError for other types, for a mapping whose columns differ in length, for files that are absent or differ
    in their columns; ArgumentError for a path without pyarrow, or an `engine` with no cluster or no files.
    """
    if engine is not None:
        return _by_engine(data, engine)
    if isinstance(data, Table):
        return data
    table = in_memory(data)
    if table is None:
        table = _streamed(data)
    if table is None:
        raise DataError(f"data must be {ACCEPTED}, got {type(data).__name__}")
    return table


def _by_engine(data: object, engine: str) -> Table:
    check_choice("engine", engine, ("dask", None))
    if is_of("dask.dataframe", ("DataFrame",), data):
        return as_table(data)
    if not isinstance(data, (str, os.PathLike)):
        raise ArgumentError("engine='dask' reads files: data must be the path of Parquet or CSV files, or a Dask frame")
    try:
        from dpstats.data.dask import files_on_cluster
    except ImportError:
        pass
    else:
        return files_on_cluster(data)
    raise ArgumentError("engine='dask' needs Dask: pip install dpstats[dask]")


def _streamed(data: object) -> Table | None:
    if isinstance(data, (str, os.PathLike)):
        return _from_files(data)
    lazy: Any = data
    if is_of("narwhals", ("DataFrame", "LazyFrame"), data):
        return as_table(lazy.to_native())
    if is_of("pyarrow", ("RecordBatchReader",), data):
        from dpstats.data.batches import from_reader

        return from_reader(data)
    if is_of("pyarrow.dataset", ("Dataset",), data):
        from dpstats.data.batches import from_dataset

        return from_dataset(data)
    if is_of("polars", ("LazyFrame",), data):
        from dpstats.data.batches import from_lazyframe

        return from_lazyframe(data)
    if is_of("duckdb", ("DuckDBPyRelation",), data):
        from dpstats.data.batches import from_duckdb

        return from_duckdb(data)
    if is_of("dask.dataframe", ("DataFrame",), data):
        from dpstats.data.dask import from_dask

        return from_dask(data)
    return None


def _from_files(path: str | os.PathLike[str]) -> Stream:
    try:
        from dpstats.data.files import from_files
    except ImportError:
        pass
    else:
        return from_files(path)
    raise ArgumentError("data: files are read with pyarrow: pip install dpstats[files]")
