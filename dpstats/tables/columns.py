"""Columns as their containers hold them, and how their cells are read: as numbers, or as codes of declared levels.

A column's kind follows from its declared type alone, which is public. Reading cells never raises, warns or calls
their own methods: a cell that cannot be read is missing.
"""

from __future__ import annotations

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, Literal

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from dpstats.domain import as_number, canonical
from dpstats.errors import DomainError
from dpstats.tables import identities
from dpstats.tables.identities import Identities

Array = NDArray[np.float64]
Codes = NDArray[np.intp]
Tokens = NDArray[np.uint64]
CodeOf = Mapping[float | str, int]
"""Canonical value of each declared level, to its code."""

MISSING = 0x7FF8000000000000
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
        """Each cell as the identity of a person, shape (rows, 2); see `dpstats.tables.identities`."""
        return identities.of_numbers(self.numbers())

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
        return identities.of_integers(self.values) if integers else super().identities()

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
            return identities.of_numbers(self.numbers())
        whole = np.uint64 if pd.api.types.is_unsigned_integer_dtype(dtype) else np.int64
        return identities.of_integers(self.values.to_numpy(dtype=whole, na_value=0), ~np.asarray(self.values.isna()))


class ObjectColumn(Column):
    """Python objects of any type, shape (rows,)."""

    def __init__(self, cells: NDArray[np.object_], type_name: str = "object") -> None:
        self.cells = cells
        self._type_name = type_name

    @property
    def type_name(self) -> str:
        return self._type_name

    @property
    def kind(self) -> Kind:
        return "text"

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
        return identities.of_objects(self.cells)

    def select(self, rows: Chosen) -> ObjectColumn:
        return ObjectColumn(self.cells[rows], self._type_name)

    def __len__(self) -> int:
        return len(self.cells)


class CategoricalColumn(Column):
    """Positions in a list of categories, -1 for a missing cell. The categories are data, like cells."""

    def __init__(self, positions: NDArray[np.integer[Any]], categories: Column) -> None:
        self.positions = positions
        self.categories = categories

    @property
    def type_name(self) -> str:
        return "category"

    @property
    def kind(self) -> Kind:
        return "text"

    def numbers(self) -> Array:
        return look_up(self.categories.numbers(), self.positions, np.nan)

    def codes(self, code_of: CodeOf) -> Codes:
        return look_up(self.categories.codes(code_of), self.positions, -1)

    def tokens(self) -> Tokens:
        return look_up(self.categories.tokens(), self.positions, MISSING)

    def identities(self) -> Identities:
        return identities.looked_up(self.categories.identities(), self.positions)

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

    def __init__(self, type_name: str, rows: int) -> None:
        self._type_name = type_name
        self._rows = rows

    @property
    def type_name(self) -> str:
        return self._type_name

    @property
    def kind(self) -> None:
        return None

    def numbers(self) -> Array:
        return np.full(self._rows, np.nan)

    def codes(self, code_of: CodeOf) -> Codes:
        return np.full(self._rows, -1, dtype=np.intp)

    def identities(self) -> Identities:
        return identities.missing(self._rows)

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
    """The bits of each finite number, `MISSING` for the others; shape (rows,)."""
    # Adding zero makes minus zero zero.
    return np.where(np.isfinite(numbers), (numbers + 0.0).view(np.uint64), np.uint64(MISSING))


def token_of(value: float | str | None) -> int:
    """The token of one canonical value."""
    if value is None:
        return MISSING
    if isinstance(value, str):
        return int.from_bytes(hashlib.blake2b(value.encode("utf-8", "surrogatepass"), digest_size=8).digest(), "little")
    return int(numeric_tokens(np.array([value]))[0])


def usable_kind(name: str, column: Column) -> Kind:
    """The kind of column `name`; DomainError if its type is neither numbers, booleans nor text."""
    if column.kind is None:
        told = f"column {name!r} has dtype {column.type_name}"
        raise DomainError(f"{told}; convert it to numbers, booleans or text first")
    return column.kind
