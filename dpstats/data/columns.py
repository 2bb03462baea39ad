"""Columns as their containers hold them, and how their cells are read: as numbers, or as codes of declared levels.

A column's kind follows from its declared type alone, which is public. Reading cells never raises, warns or calls
their own methods: a cell that cannot be read is missing.
"""

from __future__ import annotations

import decimal
import hashlib
import uuid
from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, Literal

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from dpstats.domain import as_number, canonical
from dpstats.errors import DomainError

Identities = NDArray[np.uint64]
"""Shape (rows, 2)."""

MISSING_IDENTITY = np.uint64(2**64 - 1)
"""Both halves of the identity of a missing cell."""

NUMBER, INTEGER = np.uint64(0), np.uint64(1)
"""First halves: of a number, whose bits follow, and of a whole number that no double holds. Texts' are hashed."""

LONGEST = 400
"""Letters of the longest text, and digits of the longest decimal, that is looked at as a number: doubles need fewer."""

EXACT = 2**53
"""Whole numbers below it are doubles."""


def missing_identities(rows: int) -> Identities:
    """Missing cells, shape (rows, 2)."""
    return np.full((rows, 2), MISSING_IDENTITY)


def of_numbers(numbers: NDArray[np.float64]) -> Identities:
    """Identities of doubles; what is not finite is missing."""
    found = _by_bits(numbers)
    wide = np.isfinite(numbers) & (np.abs(numbers) >= EXACT)
    signed = wide & (np.abs(numbers) < 2.0**63)
    found[signed] = of_integers(numbers[signed].astype(np.int64))
    for place in np.flatnonzero(wide & ~signed):
        found[place] = _integer(int(numbers[place]))
    return found


def of_integers(values: NDArray[np.integer[Any]], known: NDArray[np.bool_] | None = None) -> Identities:
    """Identities of integers of up to 64 bits, exactly; `known` is False where a cell is missing."""
    wide = (values >= EXACT) | (values <= -EXACT)
    exact = np.column_stack([np.full(len(values), INTEGER), values.astype(np.uint64, casting="unsafe")])
    found = np.where(wide[:, None], exact, _by_bits(values.astype(np.float64)))
    return found if known is None else np.where(known[:, None], found, MISSING_IDENTITY)


def _by_bits(numbers: NDArray[np.float64]) -> Identities:
    """Doubles by their bits; what is not finite is missing."""
    # Adding zero makes minus zero zero.
    bits = (numbers + 0.0).view(np.uint64)
    return np.where(
        np.isfinite(numbers)[:, None], np.column_stack([np.full(len(bits), NUMBER), bits]), MISSING_IDENTITY
    )


def looked_up(table: Identities, positions: NDArray[np.integer[Any]]) -> Identities:
    """table[positions], missing for every position outside of the table."""
    found = missing_identities(len(positions))
    inside = (positions >= 0) & (positions < len(table))
    found[inside] = table[positions[inside]]
    return found


def of_objects(cells: NDArray[np.object_]) -> Identities:
    """Identities of Python objects: numbers, text, bytes and UUIDs; all others are missing."""
    found = np.empty((len(cells), 2), dtype=np.uint64)
    # Only strings are remembered: a dictionary takes 1, True and timedelta(1) for one key.
    seen: dict[str, tuple[int, int]] = {}
    for place, cell in enumerate(cells):
        if type(cell) is not str:
            found[place] = of_cell(cell)
        else:
            if cell not in seen:
                seen[cell] = of_cell(cell)
            found[place] = seen[cell]
    return found


def of_cell(cell: object) -> tuple[int, int]:
    """Both halves of one cell's identity. Never raises, and calls no method of the cell's own class."""
    kind = type(cell)
    if issubclass(kind, str) and len(stripped := str.strip(cell)) > LONGEST:  # type: ignore[arg-type]
        return _text(stripped)
    if kind is bytes:
        return _hashed(b"b" + cell)  # type: ignore[operator]
    if kind is uuid.UUID:
        return _hashed(b"u" + uuid.UUID.__int__(cell).to_bytes(16, "little"))  # type: ignore[arg-type]
    number = as_number(cell)
    if abs(number) < EXACT:
        return int(NUMBER), int(np.float64(number + 0.0).view(np.uint64))
    if issubclass(kind, int):
        return _integer(int.__int__(cell))  # type: ignore[arg-type]
    if issubclass(kind, np.integer):
        return _integer(int(cell))  # type: ignore[call-overload]
    if kind is decimal.Decimal or (issubclass(kind, str) and number == number):
        return _decimal(cell, number)
    if issubclass(kind, str):
        return _text(str.strip(cell))  # type: ignore[arg-type]
    # Doubles, and what counts as one, are whole from there on.
    return _integer(int(number)) if number == number else (int(MISSING_IDENTITY), int(MISSING_IDENTITY))


def _decimal(cell: Any, number: float) -> tuple[int, int]:
    """A decimal, or a text that spells one, from 2**53 on: by its whole number, or by its ratio of whole numbers."""
    try:
        value = cell if type(cell) is decimal.Decimal else decimal.Decimal(str.strip(cell))
    except decimal.InvalidOperation:  # what spells a double and no decimal
        return _integer(int(number))
    if number != number or len(value.as_tuple().digits) > LONGEST:  # beyond doubles, none, or too long to reckon with
        return (
            _hashed(b"d" + str(value).encode()) if value.is_finite() else (int(MISSING_IDENTITY), int(MISSING_IDENTITY))
        )
    over, under = value.as_integer_ratio()
    return _integer(over) if under == 1 else _hashed(b"r" + _bytes_of(over) + b"/" + _bytes_of(under))


def _text(text: str) -> tuple[int, int]:
    """Text that is no number that a double can be near: by its letters; none is missing."""
    return (
        _hashed(b"t" + text.encode("utf-8", "surrogatepass"))
        if text
        else (int(MISSING_IDENTITY), int(MISSING_IDENTITY))
    )


def _integer(value: int) -> tuple[int, int]:
    """A whole number from 2**53 on: by its bits as `of_integers` has them, or hashed if 64 do not hold it."""
    if -(2**63) <= value < 2**64:
        return int(INTEGER), value % 2**64
    return _hashed(b"i" + _bytes_of(value))


def _bytes_of(value: int) -> bytes:
    # Not as digits, which Python refuses to write of very long numbers.
    return value.to_bytes(value.bit_length() // 8 + 1, "little", signed=True)


def _hashed(cell: bytes) -> tuple[int, int]:
    digest = hashlib.blake2b(cell, digest_size=16).digest()
    return int.from_bytes(digest[:8], "little"), int.from_bytes(digest[8:], "little")


Array = NDArray[np.float64]
Codes = NDArray[np.intp]
Tokens = NDArray[np.uint64]
CodeOf = Mapping[float | str, int]
"""Canonical value of each declared level, to its code."""

MISSING_TOKEN = 0x7FF8000000000000
"""The token of a missing cell: the bits of NaN."""

FEW_LEVELS = 8
"""Numbers are compared with so few levels one by one, in less time than a search takes."""

Chosen = slice | NDArray[np.bool_]
Kind = Literal["boolean", "numeric", "text"]


class Column(ABC):
    """Cells of one declared type."""

    @property
    @abstractmethod
    def type_name(self) -> str:
        """The declared type in words."""

    @property
    @abstractmethod
    def kind(self) -> Kind | None:
        """What the declared type says of the cells; None if it can be neither numbers nor levels."""

    @property
    def integral(self) -> bool:
        """Whether the declared type can hold whole numbers only: no level of text is among them."""
        return False

    @abstractmethod
    def numbers(self) -> Array:
        """The cells as doubles, shape (rows,); what is not a finite number is NaN or infinite."""

    @abstractmethod
    def codes(self, code_of: CodeOf) -> Codes:
        """The code of each cell's canonical value, -1 where there is none; shape (rows,)."""

    def tokens(self) -> Tokens:
        """A number for each cell's canonical value, the same in every container and process; shape (rows,)."""
        return numeric_tokens(self.numbers())

    def identities(self) -> Identities:
        """Each cell as the identity of a person, shape (rows, 2); see `dpstats.data.columns`."""
        return of_numbers(self.numbers())

    @abstractmethod
    def select(self, rows: Chosen) -> Column:
        """The cells at `rows`."""

    @abstractmethod
    def __len__(self) -> int: ...


class NumericColumn(Column):
    """A numpy array of numbers or booleans."""

    def __init__(self, values: Any) -> None:
        self.values: Any = values

    @property
    def type_name(self) -> str:
        return str(self.values.dtype)

    @property
    def kind(self) -> Kind:
        return "boolean" if self.values.dtype.kind == "b" else "numeric"

    @property
    def integral(self) -> bool:
        return self.values.dtype.kind in "iub"

    def numbers(self) -> Array:
        # A long double too large for float64 becomes infinite.
        with np.errstate(all="ignore"):
            return np.asarray(self.values.astype(np.float64, copy=False))

    def codes(self, code_of: CodeOf) -> Codes:
        return numeric_codes(self.numbers(), code_of)

    def identities(self) -> Identities:
        integers = self.values.dtype.kind in "iu"
        return of_integers(self.values) if integers else super().identities()

    def select(self, rows: Chosen) -> NumericColumn:
        return type(self)(self.values[rows])

    def __len__(self) -> int:
        return len(self.values)


class NullableColumn(NumericColumn):
    """A pandas array of numbers or booleans with a mark for missing cells, or a sparse one."""

    @property
    def kind(self) -> Kind:
        return "boolean" if pd.api.types.is_bool_dtype(self.values.dtype) else "numeric"

    def numbers(self) -> Array:
        with np.errstate(all="ignore"):
            return np.asarray(self.values.to_numpy(dtype=np.float64, na_value=np.nan))

    def identities(self) -> Identities:
        dtype = self.values.dtype
        if not pd.api.types.is_integer_dtype(dtype) or isinstance(dtype, pd.SparseDtype):
            return of_numbers(self.numbers())
        whole = np.uint64 if pd.api.types.is_unsigned_integer_dtype(dtype) else np.int64
        return of_integers(self.values.to_numpy(dtype=whole, na_value=0), ~np.asarray(self.values.isna()))


class ObjectColumn(Column):
    """Python objects of any type, shape (rows,)."""

    kind: Kind = "text"

    def __init__(self, cells: NDArray[np.object_], type_name: str = "object") -> None:
        self.cells = cells
        self._type_name = type_name

    @property
    def type_name(self) -> str:
        return self._type_name

    def numbers(self) -> Array:
        return np.fromiter(map(as_number, self.cells), np.float64, len(self.cells))

    def codes(self, code_of: CodeOf) -> Codes:
        # Only strings are remembered: a dictionary takes 1, True and timedelta(1) for one key, and the first would win.
        seen: dict[str, int] = {}

        def code(cell: object) -> int:
            if type(cell) is not str:
                return code_of.get(canonical(cell), -1)  # type: ignore[arg-type]
            if cell not in seen:
                seen[cell] = code_of.get(canonical(cell), -1)  # type: ignore[arg-type]
            return seen[cell]

        return np.fromiter(map(code, self.cells), np.intp, len(self.cells))

    def tokens(self) -> Tokens:
        seen: dict[str, int] = {}

        def token(cell: object) -> int:
            if type(cell) is not str:
                return token_of(canonical(cell))
            if cell not in seen:
                seen[cell] = token_of(canonical(cell))
            return seen[cell]

        return np.fromiter(map(token, self.cells), np.uint64, len(self.cells))

    def identities(self) -> Identities:
        return of_objects(self.cells)

    def select(self, rows: Chosen) -> ObjectColumn:
        return ObjectColumn(self.cells[rows], self._type_name)

    def __len__(self) -> int:
        return len(self.cells)


class CategoricalColumn(Column):
    """Positions in a list of categories, -1 for a missing cell. The categories are data, like cells."""

    type_name = "category"
    kind: Kind = "text"

    def __init__(self, positions: NDArray[np.integer[Any]], categories: Column) -> None:
        self.positions = positions
        self.categories = categories

    def numbers(self) -> Array:
        return look_up(self.categories.numbers(), self.positions, np.nan)

    def codes(self, code_of: CodeOf) -> Codes:
        return look_up(self.categories.codes(code_of), self.positions, -1)

    def tokens(self) -> Tokens:
        return look_up(self.categories.tokens(), self.positions, MISSING_TOKEN)

    def identities(self) -> Identities:
        return looked_up(self.categories.identities(), self.positions)

    def select(self, rows: Chosen) -> CategoricalColumn:
        return CategoricalColumn(self.positions[rows], self.categories)

    def __len__(self) -> int:
        return len(self.positions)


class ChosenColumn(Column):
    """Some rows of a column whose container has no way of its own to choose them."""

    def __init__(self, column: Column, positions: NDArray[np.intp]) -> None:
        self.column = column
        self.positions = positions

    @property
    def type_name(self) -> str:
        return self.column.type_name

    @property
    def kind(self) -> Kind | None:
        return self.column.kind

    @property
    def integral(self) -> bool:
        return self.column.integral

    def numbers(self) -> Array:
        around, positions = self._around()
        return around.numbers()[positions]

    def codes(self, code_of: CodeOf) -> Codes:
        around, positions = self._around()
        return around.codes(code_of)[positions]

    def tokens(self) -> Tokens:
        around, positions = self._around()
        return around.tokens()[positions]

    def identities(self) -> Identities:
        around, positions = self._around()
        return around.identities()[positions]

    def select(self, rows: Chosen) -> ChosenColumn:
        return ChosenColumn(self.column, self.positions[rows])

    def __len__(self) -> int:
        return len(self.positions)

    def _around(self) -> tuple[Column, NDArray[np.intp]]:
        """The least slice that holds the chosen rows, which are in order, and their places in it."""
        if not len(self.positions):
            return self.column.select(slice(0, 0)), self.positions
        first, last = int(self.positions[0]), int(self.positions[-1])
        return self.column.select(slice(first, last + 1)), self.positions - first


class UnusableColumn(Column):
    """Cells of a type that is neither numbers nor text; of no use but to be refused, or to be all missing."""

    kind = None

    def __init__(self, type_name: str, rows: int) -> None:
        self._type_name = type_name
        self._rows = rows

    @property
    def type_name(self) -> str:
        return self._type_name

    def numbers(self) -> Array:
        return np.full(self._rows, np.nan)

    def codes(self, code_of: CodeOf) -> Codes:
        return np.full(self._rows, -1, dtype=np.intp)

    def identities(self) -> Identities:
        return missing_identities(self._rows)

    def select(self, rows: Chosen) -> UnusableColumn:
        return UnusableColumn(self._type_name, len(np.empty(self._rows, dtype=bool)[rows]))

    def __len__(self) -> int:
        return self._rows


def look_up(table: NDArray[Any], positions: NDArray[np.integer[Any]], missing: float) -> NDArray[Any]:
    """table[positions], `missing` for every position outside of the table."""
    inside = (positions >= 0) & (positions < len(table))
    if inside.all():
        return np.asarray(table[positions])
    found = np.full(len(positions), missing, dtype=table.dtype)
    found[inside] = table[positions[inside]]
    return found


def numeric_codes(numbers: Array, code_of: CodeOf) -> Codes:
    """Codes of numbers, shape (rows,)."""
    known = np.array(sorted(value for value in code_of if isinstance(value, float)))
    if len(known) == 0:
        return np.full(len(numbers), -1, dtype=np.intp)
    codes = np.array([code_of[float(value)] for value in known], dtype=np.intp)
    if len(known) <= FEW_LEVELS and codes.max() < np.iinfo(np.int8).max:
        found = np.zeros(len(numbers), dtype=np.int8)
        for value, code in zip(known, codes, strict=True):
            found += (numbers == value).view(np.int8) * np.int8(code + 1)
        return found.astype(np.intp) - 1
    nearest = np.minimum(np.searchsorted(known, numbers), len(known) - 1)
    return np.where(known[nearest] == numbers, codes[nearest], -1)


def numeric_tokens(numbers: Array) -> Tokens:
    """The bits of each finite number, `MISSING_TOKEN` for the others; shape (rows,)."""
    # Adding zero makes minus zero zero.
    return np.where(np.isfinite(numbers), (numbers + 0.0).view(np.uint64), np.uint64(MISSING_TOKEN))


def token_of(value: float | str | None) -> int:
    """The token of one canonical value."""
    if value is None:
        return MISSING_TOKEN
    if isinstance(value, str):
        return int.from_bytes(hashlib.blake2b(value.encode("utf-8", "surrogatepass"), digest_size=8).digest(), "little")
    return int(numeric_tokens(np.array([value]))[0])


def usable_kind(name: str, column: Column) -> Kind:
    """The kind of column `name`; DomainError if its type is neither numbers, booleans nor text."""
    if column.kind is None:
        told = f"column {name!r} has dtype {column.type_name}"
        raise DomainError(f"{told}; convert it to numbers, booleans or text first")
    return column.kind
