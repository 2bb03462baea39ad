"""Columns from one-dimensional containers: Arrow, numpy and masked arrays, lists, pandas, polars."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from dpstats.arguments import name_of_type
from dpstats.data.columns import (
    MISSING_TOKEN,
    Array,
    CategoricalColumn,
    Chosen,
    CodeOf,
    Codes,
    Column,
    Kind,
    NumericColumn,
    ObjectColumn,
    Tokens,
    look_up,
    numeric_codes,
    numeric_tokens,
    token_of,
)
from dpstats.data.identities import MISSING_IDENTITY, Identities, of_cell, of_integers, of_numbers
from dpstats.domain import as_number, canonical
from dpstats.errors import DataError

PLAIN = r"^-?[0-9]{1,18}(\.[0-9]{0,18})?([eE][-+]?[0-9]{1,2})?$"
"""Texts that Arrow and Python read alike."""

NO_WORDS: Mapping[str, float] = {}


class ArrowColumn(Column):
    """Cells of an Arrow array, chunked or not, or of a polars Series, which becomes Arrow's a piece at a time.

    `words` are texts that stand for numbers where nothing else is known of a cell.
    """

    def __init__(
        self,
        values: Any,
        type_name: str,
        kind: Kind | None,
        *,
        integral: bool = False,
        words: Mapping[str, float] = NO_WORDS,
    ) -> None:
        super().__init__(type_name, kind, integral=integral)
        self.values, self._words = values, words
        self._positions: NDArray[np.intp] | None = None  # of the rows that are meant, in order; None for all

    def numbers(self) -> Array:
        def number(text: bytes | None) -> float:
            cell = _decoded(text)
            return as_number(self._words.get((cell or "").strip(), cell))

        return self._read(lambda texts: _of_texts(texts, np.asarray, number), _numbers, np.nan)

    def codes(self, code_of: CodeOf) -> Codes:
        def code(text: bytes | None) -> int:
            value: Any = canonical(_decoded(text))
            return code_of.get(value, code_of.get(self._words.get(value), -1))  # type: ignore[arg-type]

        return self._read(
            lambda texts: np.array([code(text) for text in texts.to_pylist()], dtype=np.intp),
            lambda cells: numeric_codes(_numbers(cells), code_of),
            -1,
        )

    def tokens(self) -> Tokens:
        def token(text: bytes | None) -> int:
            value: Any = canonical(_decoded(text))
            return token_of(self._words.get(value, value))

        return self._read(
            lambda texts: _of_texts(texts, numeric_tokens, token),
            lambda cells: numeric_tokens(_numbers(cells)),
            MISSING_TOKEN,
        )

    def identities(self) -> Identities:
        def person(text: bytes | None) -> object:
            cell = _decoded(text)
            return None if cell is None else self._words.get(cell.strip(), cell)

        return self._read(lambda texts: _of_cells(map(person, texts.to_pylist())), _identities, MISSING_IDENTITY)

    def select(self, rows: Chosen) -> ArrowColumn:
        values, positions = self.values, self._positions
        if positions is not None:
            positions = positions[rows]
        elif isinstance(rows, slice):
            values = values[rows]
        elif isinstance(values, pa.Array | pa.ChunkedArray):
            # Arrow cannot filter all of its types.
            positions = np.flatnonzero(rows)
        else:
            values = values.filter(rows)
        return self._with(values=values, _positions=positions)

    def __len__(self) -> int:
        return len(self.values if self._positions is None else self._positions)

    def _read(
        self, of_texts: Callable[[pa.Array], NDArray[Any]], of_others: Callable[[pa.Array], NDArray[Any]], missing: Any
    ) -> NDArray[Any]:
        """What is read of distinct texts (as bytes), or of an array of another type, for each cell."""
        cells, positions = self.values, self._positions
        if positions is not None:  # they are in order: the least slice that holds them
            first, end = (int(positions[0]), int(positions[-1]) + 1) if len(positions) else (0, 0)
            cells, positions = cells[first:end], positions - first
        cells = cells if isinstance(cells, pa.Array | pa.ChunkedArray) else cells.to_arrow()
        chunks = cells.chunks if isinstance(cells, pa.ChunkedArray) else [cells]
        parts = [_read(chunk, of_texts, of_others, missing) for chunk in chunks or [pa.nulls(0)]]
        read = parts[0] if len(parts) == 1 else np.concatenate(parts)
        return read if positions is None else read[positions]


def from_arrow(values: pa.Array | pa.ChunkedArray) -> ArrowColumn:
    """An Arrow array, chunked or not, as a column, by its type alone."""
    kind = kind_of(values.type)
    if kind is None:
        return unusable(str(values.type), len(values))
    return ArrowColumn(values, str(values.type), kind, integral=is_integral(values.type))


def unusable(type_name: str, rows: int) -> ArrowColumn:
    """Cells of a type that is neither numbers nor text; of no use but to be refused, or to be all missing."""
    return ArrowColumn(pa.nulls(rows), type_name, None)


@lru_cache(maxsize=64)
def kind_of(declared: pa.DataType) -> Kind | None:
    """What a type says of its cells; None if it is neither numbers nor text, or this pyarrow cannot read it."""
    kinds = pa.types
    if kinds.is_dictionary(declared):
        return None if kind_of(declared.value_type) is None else "text"
    if kinds.is_boolean(declared):
        kind: Kind = "boolean"
    elif kinds.is_integer(declared) or kinds.is_floating(declared) or kinds.is_decimal(declared):
        kind = "numeric"
    elif _is_text(declared) or kinds.is_null(declared):
        kind = "text"
    else:
        return None
    try:
        # What an older pyarrow has no kernel for must fail here, on a missing cell, and not on rows.
        ArrowColumn(pa.nulls(1, declared), "", kind).numbers()
    except (pa.ArrowException, NotImplementedError, ValueError, TypeError):
        return None
    return kind


def is_integral(declared: pa.DataType) -> bool:
    """Whether a type holds whole numbers only."""
    return pa.types.is_integer(declared) or pa.types.is_boolean(declared)


def _is_text(declared: pa.DataType) -> bool:
    view = getattr(pa.types, "is_string_view", lambda _: False)
    return pa.types.is_string(declared) or pa.types.is_large_string(declared) or view(declared)


def _read(
    cells: pa.Array,
    of_texts: Callable[[pa.Array], NDArray[Any]],
    of_others: Callable[[pa.Array], NDArray[Any]],
    missing: Any,
) -> NDArray[Any]:
    """One chunk of `ArrowColumn._read`."""
    if pa.types.is_dictionary(cells.type):
        return look_up(_read(cells.dictionary, of_texts, of_others, missing), _positions(cells.indices), missing)
    if _is_text(cells.type):
        # As bytes: pyarrow decodes all cells or raises, and the error quotes them.
        encoded = cells.cast(pa.large_binary()).dictionary_encode()
        return look_up(of_texts(encoded.dictionary), _positions(encoded.indices), missing)
    return of_others(cells)


def _numbers(cells: pa.Array) -> Array:
    """Cells that are no text as doubles, shape (rows,)."""
    if pa.types.is_null(cells.type):
        return np.full(len(cells), np.nan)
    if pa.types.is_boolean(cells.type):
        cells = cells.cast(pa.uint8())
    if pa.types.is_float16(cells.type):
        valid = np.asarray(cells.is_valid().to_numpy(zero_copy_only=False))
        return np.where(valid, cells.to_numpy(zero_copy_only=False).astype(np.float64), np.nan)
    return np.asarray(cells.cast(pa.float64(), safe=False).to_numpy(zero_copy_only=False), dtype=np.float64)


def _of_texts(
    texts: pa.Array, of_numbers: Callable[[Array], NDArray[Any]], of_other: Callable[[bytes | None], object]
) -> NDArray[Any]:
    """What is read of some texts: of plain decimal numbers, which Arrow rounds as Python does, and of others."""
    plain = np.asarray(pc.match_substring_regex(texts, PLAIN).fill_null(False).to_numpy(zero_copy_only=False))
    numbers = texts.filter(pa.array(plain)).view(pa.large_string()).cast(pa.float64()).to_numpy()
    read = of_numbers(numbers)
    cells = np.empty(len(texts), dtype=read.dtype)
    cells[plain] = read
    others = texts.filter(pa.array(~plain)).to_pylist()
    cells[~plain] = np.array([of_other(text) for text in others], dtype=read.dtype)
    return cells


def _identities(cells: pa.Array) -> Identities:
    """Cells that are no text as identities, shape (rows, 2)."""
    if pa.types.is_decimal(cells.type):
        return _of_cells(cells.to_pylist())
    if not pa.types.is_integer(cells.type):
        return of_numbers(_numbers(cells))
    whole = pa.uint64() if pa.types.is_unsigned_integer(cells.type) else pa.int64()
    known = np.asarray(cells.is_valid().to_numpy(zero_copy_only=False))
    return of_integers(cells.cast(whole).fill_null(0).to_numpy(zero_copy_only=False), known)


def _of_cells(cells: Any) -> Identities:
    return np.array([of_cell(cell) for cell in cells], dtype=np.uint64).reshape(-1, 2)


def _decoded(text: bytes | None) -> str | None:
    """None for what is not UTF-8."""
    try:
        return None if text is None else text.decode("utf-8")
    except UnicodeDecodeError:
        return None


def _positions(indices: pa.Array) -> NDArray[np.int64]:
    return np.asarray(indices.cast(pa.int64(), safe=False).fill_null(-1).to_numpy(zero_copy_only=False))


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
        if plain.values.dtype.kind in "iu":  # as doubles large identifiers would be one
            return NumericColumn(pd.arrays.IntegerArray(plain.values, mask))
        return NumericColumn(np.where(mask, np.nan, plain.numbers()))
    if isinstance(plain, ObjectColumn):
        cells = plain.cells.copy()
        cells[mask] = None
        return ObjectColumn(cells, plain.type_name)
    return plain


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
        # Of objects, since it declares no type. From an iterator: numpy would unpack cells that are lists themselves.
        return ObjectColumn(np.fromiter(values, dtype=object, count=len(values)))
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
