"""Columns from one-dimensional containers: numpy and masked arrays, lists, pandas, Arrow, polars."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
from numpy.typing import NDArray

from dpstats.arguments import name_of_type
from dpstats.data.arrow import ArrowColumn, from_arrow, is_integral, kind_of, unusable
from dpstats.data.columns import CategoricalColumn, Column, NumericColumn, ObjectColumn
from dpstats.errors import DataError

_NUMERIC_EXTENSIONS = (
    *(pd.Int8Dtype, pd.Int16Dtype, pd.Int32Dtype, pd.Int64Dtype),
    *(pd.UInt8Dtype, pd.UInt16Dtype, pd.UInt32Dtype, pd.UInt64Dtype),
    *(pd.Float32Dtype, pd.Float64Dtype, pd.BooleanDtype),
)

_POLARS_TYPES = frozenset(
    ["Boolean", "String", "Utf8", "Categorical", "Enum", "Null", "Decimal", "Float32", "Float64"]
    + [f"{sign}Int{bits}" for sign in ("", "U") for bits in (8, 16, 32, 64)]
)


def from_numpy(values: NDArray[Any]) -> Column:
    """A one-dimensional array as a column, else DataError; masked cells are missing whatever lies below the mask."""
    if values.ndim != 1:
        raise DataError(f"a column must have one dimension, got {values.ndim}")
    if isinstance(values, np.ma.MaskedArray):
        return _from_masked(values)
    plain = np.asarray(values)
    if plain.dtype.kind in "biuf":
        return NumericColumn(plain)
    if plain.dtype.kind in "OUT":
        return ObjectColumn(plain.astype(object, copy=False), str(plain.dtype))
    return unusable(str(plain.dtype), len(plain))


def _from_masked(values: np.ma.MaskedArray[Any, Any]) -> Column:
    # By one path whether or not a cell is masked, so that types do not depend on it.
    plain, mask = from_numpy(np.ma.getdata(values)), np.ma.getmaskarray(values)
    if isinstance(plain, NumericColumn):
        return NumericColumn(np.where(mask, np.nan, plain.numbers()))
    if isinstance(plain, ObjectColumn):
        cells = plain.cells.copy()
        cells[mask] = None
        return ObjectColumn(cells, plain.type_name)
    return plain


def from_list(cells: Sequence[Any]) -> ObjectColumn:
    """A list or tuple, which declares its length and no type: a column of objects."""
    # From an iterator, since numpy would unpack cells that are lists themselves.
    return ObjectColumn(np.fromiter(cells, dtype=object, count=len(cells)))


def from_pandas(values: Any) -> Column:
    """A pandas Series, Index or extension array as a column, by its dtype alone."""
    dtype = values.dtype
    if isinstance(dtype, np.dtype):
        # numpy.asarray would ask a Series for attributes, and pandas would look for them among the index's cells.
        return from_numpy(values.to_numpy())
    array: Any = values if isinstance(values, pd.api.extensions.ExtensionArray) else values.array
    if isinstance(dtype, pd.CategoricalDtype):
        return CategoricalColumn(np.asarray(array.codes), from_pandas(array.categories))
    sparse = isinstance(dtype, pd.SparseDtype) and np.dtype(dtype.subtype).kind in "biuf"
    if sparse or isinstance(dtype, _NUMERIC_EXTENSIONS):
        return NumericColumn(array)
    if isinstance(dtype, pd.ArrowDtype) or (isinstance(dtype, pd.StringDtype) and dtype.storage != "python"):
        return from_arrow(array.__arrow_array__())
    if isinstance(dtype, pd.StringDtype):
        return ObjectColumn(np.asarray(array, dtype=object), str(dtype))
    return unusable(name_of_type(dtype), len(array))


def from_polars(series: Any) -> Column:
    """A polars Series as a column, by its dtype alone; it becomes Arrow's a piece at a time."""
    dtype = series.dtype
    declared = series.clear().to_arrow().type if dtype.base_type().__name__ in _POLARS_TYPES else None
    kind = None if declared is None else kind_of(declared)
    if kind is None:
        return unusable(str(dtype), len(series))
    return ArrowColumn(series, str(dtype), kind, integral=is_integral(declared))


def column_of(values: object) -> Column | None:
    """A container of cells as a column, None if its type is not one we know; DataError for an array of other shape."""
    if isinstance(values, np.ndarray):
        return from_numpy(values)
    if isinstance(values, list | tuple):
        return from_list(values)
    if isinstance(values, pd.Series | pd.Index | pd.api.extensions.ExtensionArray):
        return from_pandas(values)
    if isinstance(values, pa.Array | pa.ChunkedArray):
        return from_arrow(values)
    return from_polars(values) if is_of("polars", ("Series",), values) else None


def rows_can_be_taken(declared: Any) -> bool:
    """Whether this pyarrow can take rows of an array of the Arrow type, tried on a missing cell."""
    try:
        pa.nulls(1, declared).take(pa.array([0]))
    except (pa.ArrowException, NotImplementedError):
        return False
    return True


def is_column(values: object) -> bool:
    """Whether `column_of` knows the type of `values`, which then has a length."""
    if isinstance(values, np.ndarray):
        return values.ndim > 0
    known = (list, tuple, pd.Series, pd.Index, pd.api.extensions.ExtensionArray, pa.Array, pa.ChunkedArray)
    return isinstance(values, known) or is_of("polars", ("Series",), values)


def is_of(package: str, names: tuple[str, ...], value: object) -> bool:
    """Whether `value` is of one of the package's classes; a package that nobody has imported has no values."""
    module = sys.modules.get(package)
    return module is not None and isinstance(value, tuple(getattr(module, name) for name in names))
