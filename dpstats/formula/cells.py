"""From the cells of a frame to encoded columns, one row at a time: coerce, clip, match levels, mark as missing.

Nothing here raises, warns or branches on a cell in a way that another row could notice. What may raise looks at
column names and dtypes alone, which are public.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from dpstats.domain import Domain, Levels, Range, Scalar, as_number, canonical
from dpstats.errors import DataError, DomainError

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Codes:
    """An encoded categorical column: positions among its levels (-1 is missing), and the contrast asked for."""

    values: NDArray[np.intp]
    levels: tuple[Scalar, ...]
    contrast: Any = None


Encoded = Array | Codes


def as_frame(data: object) -> pd.DataFrame:
    """`data` as a DataFrame: a frame itself, a mapping of equally long columns, or anything with ``to_pandas()``.

    The dtypes of the result follow from the types that `data` declares, never from cells: a list, which declares none,
    becomes a column of objects, and a column of Arrow keeps its type whether or not a cell is missing.

    Raises
    ------
    DataError
        If it is none of these, or has no columns.
    """
    if isinstance(data, Mapping):
        columns = {
            name: _objects(column) if isinstance(column, list | tuple) else column for name, column in data.items()
        }
        try:
            data = pd.DataFrame(columns)
        except (TypeError, ValueError):
            raise DataError("data is a mapping that is not a table; give columns of one length each") from None
    elif not isinstance(data, pd.DataFrame):
        data = data.to_arrow() if hasattr(data, "to_arrow") else data
        if type(data).__module__.partition(".")[0] == "pyarrow" and hasattr(data, "to_pandas"):
            data = data.to_pandas(types_mapper=_nullable().get)
        elif hasattr(data, "to_pandas"):
            data = data.to_pandas()
    if not isinstance(data, pd.DataFrame):
        raise DataError(f"data must be a pandas DataFrame or a mapping of columns, got {type(data).__name__}")
    if data.shape[1] == 0:
        raise DataError("data has no columns")
    return data


def _objects(cells: Sequence[Any]) -> NDArray[np.object_]:
    # Through pandas, since numpy would unpack cells that are lists; an array, so that unequal lengths are noticed.
    return pd.Series(cells, dtype=object).to_numpy()


def _nullable() -> dict[Any, Any]:
    """Arrow's types whose columns pandas would turn into floats or objects if, and only if, a cell is missing."""
    import pyarrow

    sized = {f"{sign}int{bits}": f"{'U' if sign else ''}Int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)}
    known = {getattr(pyarrow, arrow)(): pd.api.types.pandas_dtype(name) for arrow, name in sized.items()}
    return {**known, pyarrow.bool_(): pd.BooleanDtype()}


def check_columns(frame: pd.DataFrame, domain: Domain, columns: Iterable[str]) -> None:
    """Raise unless every name in `columns` is one column of `frame` whose dtype suits its declaration.

    Raises
    ------
    DataError
        If a column is absent or appears twice.
    DomainError
        If its dtype is not numbers, booleans, text, categories or objects, or can match none of its levels.
    """
    for name in columns:
        kind, declared = dtype_kind(frame, name), domain.get(name)
        # Floats may be levels of text of which every cell is missing, so only integers and booleans tell.
        if kind == "text" or frame[name].dtype.kind not in "iub" or not isinstance(declared, Levels):
            continue
        if all(isinstance(level, str) for level in declared.code_of()):
            raise DomainError(
                f"column {name!r} holds numbers, but none of its declared levels is a number; "
                "declare the numbers as levels or convert the column"
            )


def dtype_kind(frame: pd.DataFrame, name: str) -> Literal["boolean", "numeric", "text"]:
    """What the dtype of one column says of its cells; errors as in `check_columns`."""
    count = int((frame.columns == name).sum())
    if count != 1:
        what = "has no column" if count == 0 else "has more than one column"
        raise DataError(f"data {what} {name!r}, which the formula uses")
    dtype: Any = frame[name].dtype
    is_dtype = pd.api.types
    if isinstance(dtype, pd.CategoricalDtype) and dtype.categories.dtype.kind in "mMc":
        dtype = dtype.categories.dtype
    if is_dtype.is_object_dtype(dtype) or isinstance(dtype, (pd.CategoricalDtype, pd.StringDtype)):
        return "text"
    if is_dtype.is_bool_dtype(dtype):
        return "boolean"
    if is_dtype.is_numeric_dtype(dtype) and not is_dtype.is_complex_dtype(dtype):
        return "numeric"
    if isinstance(dtype, pd.ArrowDtype) and (dtype.type is str or dtype.pyarrow_dtype == "null"):
        return "text"
    raise DomainError(f"column {name!r} has dtype {dtype}; convert it to numbers, booleans or text first")


def encode(frame: pd.DataFrame, domain: Domain, columns: Iterable[str]) -> tuple[dict[str, Encoded], NDArray[np.bool_]]:
    """Encode declared columns.

    Parameters
    ----------
    frame : DataFrame, n rows
        Has passed `check_columns`.
    columns : iterable of str
        Names to encode, all in `domain`.

    Returns
    -------
    encoded : dict
        A range gives floats of shape (n,) within it, missing as NaN; levels give `Codes`.
    complete : ndarray of bool, shape (n,)
        Rows with no missing cell among `columns`.
    """
    encoded: dict[str, Encoded] = {}
    complete = np.ones(len(frame), dtype=bool)
    for name in columns:
        declared, cells = domain[name], frame[name]
        if isinstance(declared, Range):
            numbers = _clipped(numbers_of(cells), declared)
            complete &= ~np.isnan(numbers)
            encoded[name] = numbers
        else:
            codes = encode_levels(cells, declared)
            complete &= codes >= 0
            encoded[name] = Codes(codes, declared.values)
    return encoded, complete


def take(encoded: Mapping[str, Encoded], rows: NDArray[np.bool_]) -> dict[str, Encoded]:
    """The rows where `rows` holds, of every encoded column."""
    return {
        name: Codes(column.values[rows], column.levels, column.contrast) if isinstance(column, Codes) else column[rows]
        for name, column in encoded.items()
    }


def encode_levels(cells: pd.Series[Any], levels: Levels) -> NDArray[np.intp]:
    """Position of each cell among `levels` by canonical value, -1 where there is none; shape (n,)."""
    code_of = levels.code_of()
    if isinstance(cells.dtype, pd.CategoricalDtype):
        categories = [code_of.get(canonical(c), -1) for c in cells.cat.categories]  # type: ignore[arg-type]
        return _look_up(categories, cells.cat.codes.to_numpy())
    if pd.api.types.is_numeric_dtype(cells.dtype):
        return _numeric_codes(numbers_of(cells), code_of)
    if isinstance(cells.dtype, (pd.StringDtype, pd.ArrowDtype)):
        codes, uniques = pd.factorize(cells)
        return _look_up([code_of.get(canonical(value), -1) for value in uniques], codes)  # type: ignore[arg-type]
    return _object_codes(cells, code_of)


def _object_codes(cells: pd.Series[Any], code_of: Mapping[float | str, int]) -> NDArray[np.intp]:
    # Only strings are remembered: a dictionary takes 1, True and timedelta(1) for one key, and the first row would win.
    seen: dict[str, int] = {}

    def code(cell: object) -> int:
        if type(cell) is not str:
            return code_of.get(canonical(cell), -1)  # type: ignore[arg-type]
        if cell not in seen:
            seen[cell] = code_of.get(canonical(cell), -1)  # type: ignore[arg-type]
        return seen[cell]

    return np.fromiter(map(code, cells), np.intp, len(cells))


def _look_up(table: list[int], positions: NDArray[np.integer[Any]]) -> NDArray[np.intp]:
    # The last entry answers position -1, pandas' mark for a missing cell.
    return np.array([*table, -1], dtype=np.intp)[positions]


def _numeric_codes(numbers: Array, code_of: Mapping[float | str, int]) -> NDArray[np.intp]:
    known = np.array(sorted(value for value in code_of if isinstance(value, float)))
    if len(known) == 0:
        return np.full(len(numbers), -1, dtype=np.intp)
    codes = np.array([code_of[float(value)] for value in known], dtype=np.intp)
    nearest = np.minimum(np.searchsorted(known, numbers), len(known) - 1)
    return np.where(known[nearest] == numbers, codes[nearest], -1)


def numbers_of(cells: pd.Series[Any]) -> Array:
    """The cells as doubles, shape (n,); what is not a finite number is NaN or infinite."""
    if isinstance(cells.dtype, pd.CategoricalDtype):
        table = np.array([*(as_number(category) for category in cells.cat.categories), np.nan])
        return table[cells.cat.codes.to_numpy()]
    if pd.api.types.is_numeric_dtype(cells.dtype):
        with np.errstate(all="ignore"):
            return np.asarray(cells.to_numpy(dtype=np.float64, na_value=np.nan))
    return np.fromiter((as_number(cell) for cell in cells), np.float64, len(cells))


def _clipped(numbers: Array, declared: Range) -> Array:
    clipped = np.clip(numbers, declared.low, declared.high)
    clipped[~np.isfinite(numbers)] = np.nan
    return clipped
