"""What enters: containers of rows as tables, plain arrays and frames of numbers as a response and a matrix.

All is judged by its type, its names, its declared types and shapes alone.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from dpstats.arguments import check_choice, name_of_type
from dpstats.data.columns import Column
from dpstats.data.containers import column_of, is_of
from dpstats.data.table import Stream, Table, in_memory
from dpstats.errors import ArgumentError, DataError

ACCEPTED = (
    "a pandas or polars DataFrame, a polars LazyFrame, an Arrow table, reader or dataset, a DuckDB relation, a Dask "
    "DataFrame, a dict of columns, the path of Parquet or CSV files, or a list of such paths"
)


def as_table(data: object, engine: str | None = None) -> Table:
    """`data` as a table, judged by its type, its names and its declared types and lengths alone.

    Raises DataError for other types, for a mapping whose columns differ in length, for files that are absent or differ
    in their columns; ArgumentError for an `engine` with no cluster or no files.
    """
    if engine is not None:
        return _by_engine(data, engine)
    if isinstance(data, Table):
        return data
    table = in_memory(data) or _streamed(data)
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
    raise ArgumentError("engine='dask' needs Dask: pip install 'dask[dataframe]' distributed")


def _streamed(data: Any) -> Table | None:
    """Rows of files, of a query or of a cluster; what reads them is imported where it is needed."""
    several = isinstance(data, (list, tuple)) and len(data) > 0
    if isinstance(data, (str, os.PathLike)) or (several and all(isinstance(one, (str, os.PathLike)) for one in data)):
        from dpstats.data.files import from_files

        return from_files(data)
    if is_of("narwhals", ("DataFrame", "LazyFrame"), data):
        return as_table(data.to_native())
    if is_of("dask.dataframe", ("DataFrame",), data):
        from dpstats.data.dask import from_dask

        return from_dask(data)
    from dpstats.data import batches

    for package, kind, read in (
        ("pyarrow", "RecordBatchReader", batches.from_reader),
        ("pyarrow.dataset", "Dataset", batches.from_dataset),
        ("polars", "LazyFrame", batches.from_lazyframe),
        ("duckdb", "DuckDBPyRelation", batches.from_duckdb),
    ):
        if is_of(package, (kind,), data):
            return read(data)
    return None


@dataclass(frozen=True)
class Matrix:
    """Rows of numbers, judged by declared type and shape; a block of them is read when it is asked for."""

    rows: int
    size: int
    names: tuple[str, ...] | None  # the columns' own, if they have any
    block: Callable[[slice], NDArray[Any]]  # float64 rows of a slice, (rows, size); a view where the data are float64


def as_endog(values: object, name: str = "endog") -> Column:
    """The response (or what `name` says) as a column of numbers; a list's cells that are no numbers are missing.

    Raises DataError if `values` is of no type we know, does not hold real numbers, or has not one dimension.
    """
    if getattr(values, "ndim", 1) != 1:
        raise DataError(f"{name} must have 1 dimension(s), got {getattr(values, 'ndim', 1)}")
    column = column_of(values)
    if column is None:
        raise DataError(f"{name} must be a one-dimensional array or list of numbers, got {type(values).__name__}")
    if not isinstance(values, list | tuple):
        _check_numbers(name, column)
    return column


def as_exog(values: object) -> Matrix:
    """The explaining columns as a matrix: a two-dimensional array, or a frame of numeric columns; else DataError.

    A list of lists has no declared shape: a row of another length would be an error about that row.
    """
    if isinstance(values, np.ndarray):
        return _from_array(values)
    table = values if isinstance(values, Table) else None if isinstance(values, Mapping) else in_memory(values)
    if table is None or isinstance(table, Stream):
        raise DataError(
            f"exog must be a two-dimensional array or a frame of numeric columns, got {type(values).__name__}; "
            "pass numpy.asarray(exog, dtype=float)"
        )
    if isinstance(values, pd.DataFrame) and _one_numpy_type(list(values.dtypes)):
        return replace(_from_array(values.to_numpy()), names=tuple(map(str, table.labels)))
    columns = [table.at(position) for position in range(len(table.labels))]
    for column in columns:
        _check_numbers("exog", column)

    def block(rows: slice) -> NDArray[Any]:
        return np.stack([column.select(rows).numbers() for column in columns], axis=1)

    return Matrix(table.rows, len(columns), tuple(map(str, table.labels)), block)


def _one_numpy_type(dtypes: list[Any]) -> bool:
    # Never a set of all dtypes: one of categories has the hash of its categories, which are data.
    return all(isinstance(dtype, np.dtype) for dtype in dtypes) and len(set(dtypes)) == 1


def _from_array(values: NDArray[Any]) -> Matrix:
    if values.dtype.kind not in "buif":
        raise DataError(f"exog must hold real numbers, got dtype {name_of_type(values.dtype)}; convert it to float64")
    if values.ndim != 2:
        raise DataError(f"exog must have 2 dimension(s), got {values.ndim}")
    plain, masked = np.asarray(values), isinstance(values, np.ma.MaskedArray)

    def block(rows: slice) -> NDArray[Any]:
        # A long double too large for float64 becomes infinite. What lies below a mask is missing.
        cells = plain[rows].astype(np.float64, copy=False)
        return np.where(np.ma.getmaskarray(values[rows]), np.nan, cells) if masked else cells

    return Matrix(len(plain), plain.shape[1], None, block)


def _check_numbers(name: str, column: Column) -> None:
    if column.kind not in ("numeric", "boolean"):
        raise DataError(f"{name} must hold real numbers, got dtype {column.type_name}; convert it to float64")
