"""Columns of Arrow data, read without pandas: types stay as they are declared, and text is decoded cell by cell."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from dpstats.data import columns
from dpstats.data.columns import (
    MISSING_TOKEN,
    Array,
    Chosen,
    ChosenColumn,
    CodeOf,
    Codes,
    Column,
    Kind,
    Tokens,
    UnusableColumn,
    look_up,
    numeric_codes,
    numeric_tokens,
    token_of,
)
from dpstats.domain import as_number, canonical

PLAIN = r"^-?[0-9]{1,18}(\.[0-9]{0,18})?([eE][-+]?[0-9]{1,2})?$"
"""Texts that Arrow and Python read alike."""


def column_from_arrow(values: pa.Array | pa.ChunkedArray) -> Column:
    """An Arrow array as a column, by its type alone."""
    chunks = values.chunks if isinstance(values, pa.ChunkedArray) else [values]
    column = ArrowColumn(values.type, chunks)
    return UnusableColumn(str(values.type), len(column)) if column.kind is None else column


class ArrowColumn(Column):
    """Chunks of one Arrow type."""

    def __init__(self, declared: pa.DataType, chunks: Sequence[pa.Array]) -> None:
        self.declared = declared
        self.chunks = chunks

    @property
    def type_name(self) -> str:
        return str(self.declared)

    @property
    def kind(self) -> Kind | None:
        return kind_of(self.declared)

    @property
    def integral(self) -> bool:
        return pa.types.is_integer(self.declared) or pa.types.is_boolean(self.declared)

    def numbers(self) -> Array:
        return _joined([_numbers(chunk) for chunk in self.chunks], np.float64)

    def codes(self, code_of: CodeOf) -> Codes:
        return _joined([_codes(chunk, code_of) for chunk in self.chunks], np.intp)

    def tokens(self) -> Tokens:
        return _joined([_tokens(chunk) for chunk in self.chunks], np.uint64)

    def identities(self) -> columns.Identities:
        return np.concatenate([columns.missing_identities(0), *(_identities(chunk) for chunk in self.chunks)])

    def select(self, rows: Chosen) -> Column:
        if not isinstance(rows, slice):
            # Arrow cannot filter all of its types.
            return ChosenColumn(self, np.flatnonzero(rows))
        return type(self)(self.declared, pa.chunked_array(self.chunks, type=self.declared)[rows].chunks)

    def __len__(self) -> int:
        return sum(len(chunk) for chunk in self.chunks)


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
        _numbers(pa.nulls(1, declared))
    except (pa.ArrowException, NotImplementedError, ValueError, TypeError):
        return None
    return kind


def _is_text(declared: pa.DataType) -> bool:
    view = getattr(pa.types, "is_string_view", lambda _: False)
    return pa.types.is_string(declared) or pa.types.is_large_string(declared) or view(declared)


def _numbers(cells: pa.Array) -> Array:
    """One chunk as doubles, shape (rows,)."""
    if pa.types.is_dictionary(cells.type):
        return look_up(_numbers(cells.dictionary), _positions(cells.indices), np.nan)
    if _is_text(cells.type):
        encoded = cells.cast(pa.large_binary()).dictionary_encode()
        return look_up(_read_numbers(encoded.dictionary), _positions(encoded.indices), np.nan)
    if pa.types.is_null(cells.type):
        return np.full(len(cells), np.nan)
    if pa.types.is_boolean(cells.type):
        cells = cells.cast(pa.uint8())
    if pa.types.is_float16(cells.type):
        valid = np.asarray(cells.is_valid().to_numpy(zero_copy_only=False))
        return np.where(valid, cells.to_numpy(zero_copy_only=False).astype(np.float64), np.nan)
    return np.asarray(cells.cast(pa.float64(), safe=False).to_numpy(zero_copy_only=False), dtype=np.float64)


def _codes(cells: pa.Array, code_of: CodeOf) -> Codes:
    """One chunk as codes of levels, shape (rows,)."""
    if pa.types.is_dictionary(cells.type):
        return look_up(_codes(cells.dictionary, code_of), _positions(cells.indices), -1)
    if _is_text(cells.type):
        return _by_text(cells, lambda text: code_of.get(canonical(text), -1), np.intp, -1)  # type: ignore[arg-type]
    return numeric_codes(_numbers(cells), code_of)


def _tokens(cells: pa.Array) -> Tokens:
    """One chunk as tokens of canonical values, shape (rows,)."""
    if pa.types.is_dictionary(cells.type):
        return look_up(_tokens(cells.dictionary), _positions(cells.indices), MISSING_TOKEN)
    if _is_text(cells.type):
        return _by_text(cells, lambda text: token_of(canonical(text)), np.uint64, MISSING_TOKEN)
    return numeric_tokens(_numbers(cells))


def _identities(cells: pa.Array) -> columns.Identities:
    """One chunk as identities, shape (rows, 2)."""
    if pa.types.is_dictionary(cells.type):
        return columns.looked_up(_identities(cells.dictionary), _positions(cells.indices))
    if _is_text(cells.type):
        encoded = cells.cast(pa.large_binary()).dictionary_encode()
        table = columns.of_objects(
            np.fromiter(map(_decoded, encoded.dictionary.to_pylist()), object, len(encoded.dictionary))
        )
        return columns.looked_up(table, _positions(encoded.indices))
    if pa.types.is_decimal(cells.type):
        return columns.of_objects(np.array([*cells.to_pylist(), None], dtype=object)[:-1])
    if not pa.types.is_integer(cells.type):
        return columns.of_numbers(_numbers(cells))
    whole = pa.uint64() if pa.types.is_unsigned_integer(cells.type) else pa.int64()
    known = np.asarray(cells.is_valid().to_numpy(zero_copy_only=False))
    values = cells.cast(whole).fill_null(0).to_numpy(zero_copy_only=False)
    return columns.of_integers(values, known)


def _read_numbers(texts: pa.Array) -> Array:
    """`as_number` of some texts; Arrow reads the plain decimal numbers among them, rounded as Python does."""
    plain = np.asarray(pc.match_substring_regex(texts, PLAIN).fill_null(False).to_numpy(zero_copy_only=False))
    numbers = np.empty(len(texts))
    numbers[plain] = texts.filter(pa.array(plain)).view(pa.large_string()).cast(pa.float64()).to_numpy()
    others = texts.filter(pa.array(~plain)).to_pylist()
    numbers[~plain] = [as_number(_decoded(text)) for text in others]
    return numbers


def _by_text(cells: pa.Array, read: Callable[[str | None], Any], dtype: type[Any], missing: float) -> NDArray[Any]:
    """`read` of every distinct text, looked up for each cell; text that is not UTF-8 is read as None."""
    # As bytes: pyarrow decodes all cells or raises, and the error quotes them.
    encoded = cells.cast(pa.large_binary()).dictionary_encode()
    table = np.array([read(_decoded(text)) for text in encoded.dictionary.to_pylist()], dtype=dtype)
    return look_up(table, _positions(encoded.indices), missing)


def _decoded(text: bytes | None) -> str | None:
    try:
        return None if text is None else text.decode("utf-8")
    except UnicodeDecodeError:
        return None


def _positions(indices: pa.Array) -> NDArray[np.int64]:
    return np.asarray(indices.cast(pa.int64(), safe=False).fill_null(-1).to_numpy(zero_copy_only=False))


def _joined(parts: Sequence[NDArray[Any]], dtype: type[Any]) -> NDArray[Any]:
    return parts[0] if len(parts) == 1 else np.concatenate([np.empty(0, dtype=dtype), *parts])
