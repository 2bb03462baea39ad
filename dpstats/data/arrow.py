"""Columns of Arrow data, read without pandas: types stay as they are declared, and text is decoded cell by cell."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from dpstats.data.columns import (
    MISSING_TOKEN,
    Array,
    Chosen,
    CodeOf,
    Codes,
    Column,
    Kind,
    Tokens,
    look_up,
    numeric_codes,
    numeric_tokens,
    token_of,
)
from dpstats.data.identities import MISSING_IDENTITY, Identities, of_cell, of_integers, of_numbers
from dpstats.domain import as_number, canonical

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
        return self._read(lambda texts: _numbers_of_text(texts, self._words), _numbers, np.nan)

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
            lambda texts: np.array([token(text) for text in texts.to_pylist()], dtype=np.uint64),
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


def _numbers_of_text(texts: pa.Array, words: Mapping[str, float]) -> Array:
    """`as_number` of some texts; Arrow reads the plain decimal numbers among them, rounded as Python does."""
    plain = np.asarray(pc.match_substring_regex(texts, PLAIN).fill_null(False).to_numpy(zero_copy_only=False))
    numbers = np.empty(len(texts))
    numbers[plain] = texts.filter(pa.array(plain)).view(pa.large_string()).cast(pa.float64()).to_numpy()
    others = map(_decoded, texts.filter(pa.array(~plain)).to_pylist())
    numbers[~plain] = [as_number(words.get((text or "").strip(), text)) for text in others]
    return numbers


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
