"""Plain arrays and frames of numbers as a response and a matrix, judged by declared type and shape."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from dpstats.data.columns import Column
from dpstats.data.containers import column_of
from dpstats.data.table import Stream, Table, in_memory
from dpstats.errors import DataError


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
            "give numpy.asarray(exog, dtype=float)"
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
        raise DataError(f"exog must hold real numbers, got dtype {values.dtype}; convert it to float64")
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
