"""Columns as their containers hold them, and how their cells are read: as numbers, or as codes of declared levels.

A column's kind follows from its declared type alone, which is public. Reading cells never raises, warns or calls
their own methods: a cell that cannot be read is missing. There are three forms of cells: numbers of numpy, which are
read as they lie; Python's objects, which no type of Arrow can hold (CONTRIBUTING.md); Arrow's (`arrow.py`), into which
all else is turned, a piece at a time.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from typing import Any, Literal, Self, TypeVar

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from dpstats.arguments import name_of_type
from dpstats.data.identities import MISSING_IDENTITY, Identities, of_cell, of_integers, of_numbers
from dpstats.domain import as_number, canonical
from dpstats.errors import DomainError
from dpstats.wording import days_since

Array = NDArray[np.float64]
Codes = NDArray[np.intp]
Tokens = NDArray[np.uint64]
CodeOf = Mapping[float | str, int]
"""Canonical value of each declared level, to its code."""

MISSING_TOKEN = 0x7FF8000000000000
"""The token of a missing cell: the bits of NaN."""

FEW_LEVELS = 8
"""Numbers are compared with so few levels one by one, in less time than a search takes."""

UNREAD = "the rows of a stream are read through its batches"

Chosen = slice | NDArray[np.bool_]
Kind = Literal["boolean", "numeric", "text"]
Value = TypeVar("Value")


class Column:
    """What is declared of a column. The forms of cells are subclasses; of a stream's columns nothing else is known."""

    def __init__(self, type_name: str, kind: Kind | None, *, integral: bool = False) -> None:
        self.type_name = name_of_type(type_name)  # the declared type in words
        self.kind = kind  # what it says of the cells; None if it can be neither numbers nor levels
        self.integral = integral  # whether it holds whole numbers only: no level of text is among them

    def declared(self) -> Column:
        """What is declared, without the cells."""
        return Column(self.type_name, self.kind, integral=self.integral)

    def numbers(self) -> Array:
        """The cells as doubles, shape (rows,); what is not a finite number is NaN or infinite."""
        raise AssertionError(UNREAD)

    def all_within(self, numbers: Array, low: float, high: float) -> bool:
        """Whether all its cells, read as `numbers`, lie within a finite range: none is missing, and none is clipped."""
        return all_within(numbers, low, high)

    def codes(self, code_of: CodeOf) -> Codes:
        """The code of each cell's canonical value, -1 where there is none; shape (rows,)."""
        raise AssertionError(UNREAD)

    def tokens(self) -> Tokens:
        """A number for each cell's canonical value, the same in every container and process; shape (rows,)."""
        return numeric_tokens(self.numbers())

    def identities(self) -> Identities:
        """Each cell as the identity of a person, shape (rows, 2)."""
        return of_numbers(self.numbers())

    def select(self, rows: Chosen) -> Column:
        """The cells at `rows`."""
        raise AssertionError(UNREAD)

    def __len__(self) -> int:
        raise AssertionError(UNREAD)

    def _with(self, **cells: Any) -> Self:
        """The same column of other cells."""
        column = object.__new__(type(self))
        column.__dict__ = self.__dict__ | cells
        return column


class NumericColumn(Column):
    """Numbers or booleans: an array of numpy, or one of pandas' with marks for missing cells, or a sparse one."""

    def __init__(self, values: Any) -> None:
        kind = values.dtype.kind
        super().__init__(str(values.dtype), "boolean" if kind == "b" else "numeric", integral=kind in "iub")
        self.values = values
        # The least and the greatest cell of runs of rows: one release looks at the same rows several times.
        self._ends: dict[tuple[int, int], tuple[float, float]] = {}
        self._start = 0

    def all_within(self, numbers: Array, low: float, high: float) -> bool:
        run = self._start, len(numbers)
        if numbers.size and run not in self._ends:
            together = np.ascontiguousarray(numbers)
            self._ends[run] = float(together.min()), float(together.max())
        least, greatest = self._ends.get(run, (np.nan, np.nan))
        return low <= least and greatest <= high

    def numbers(self) -> Array:
        # Side by side, however they lie: numpy's functions may round numbers that lie in steps in another way, and
        # whether a row is left out, which copies the others, would move them. A long double too large for float64
        # becomes infinite.
        with np.errstate(all="ignore"):
            if isinstance(self.values, np.ndarray):
                return np.ascontiguousarray(self.values, dtype=np.float64)
            return np.ascontiguousarray(self.values.to_numpy(dtype=np.float64, na_value=np.nan))

    def codes(self, code_of: CodeOf) -> Codes:
        return numeric_codes(self.numbers(), code_of)

    def identities(self) -> Identities:
        dtype = self.values.dtype
        if dtype.kind not in "iu":
            return of_numbers(self.numbers())
        if isinstance(dtype, pd.SparseDtype) or isinstance(self.values, np.ndarray):
            return of_integers(np.asarray(self.values))
        exact = self.values.to_numpy(dtype=np.int64 if dtype.kind == "i" else np.uint64, na_value=0)
        return of_integers(exact, ~np.asarray(self.values.isna()))

    def select(self, rows: Chosen) -> NumericColumn:
        if isinstance(rows, slice) and rows.step in (None, 1):
            return self._with(values=self.values[rows], _start=self._start + rows.indices(len(self))[0])
        return self._with(values=self.values[rows], _ends={}, _start=0)

    def __len__(self) -> int:
        return len(self.values)


class ObjectColumn(Column):
    """Python objects of any type, shape (rows,)."""

    def __init__(self, cells: NDArray[np.object_], type_name: str = "object") -> None:
        super().__init__(type_name, "text")
        self.cells = cells

    def numbers(self) -> Array:
        return np.fromiter(map(as_number, self.cells), np.float64, len(self))

    def codes(self, code_of: CodeOf) -> Codes:
        code = _once_for_text(lambda cell: code_of.get(canonical(cell), -1))  # type: ignore[arg-type]
        return np.fromiter(map(code, self.cells), np.intp, len(self))

    def tokens(self) -> Tokens:
        token = _once_for_text(lambda cell: token_of(canonical(cell)))
        return np.fromiter(map(token, self.cells), np.uint64, len(self))

    def identities(self) -> Identities:
        return np.fromiter(map(_once_for_text(of_cell), self.cells), np.dtype((np.uint64, 2)), len(self))

    def select(self, rows: Chosen) -> ObjectColumn:
        return self._with(cells=self.cells[rows])

    def __len__(self) -> int:
        return len(self.cells)


class CategoricalColumn(Column):
    """Positions in a list of categories, -1 for a missing cell. The categories are data, like cells."""

    def __init__(self, positions: NDArray[np.integer[Any]], categories: Column) -> None:
        super().__init__("category", "text")
        self.positions = positions
        self.categories = categories

    def numbers(self) -> Array:
        return look_up(self.categories.numbers(), self.positions, np.nan)

    def codes(self, code_of: CodeOf) -> Codes:
        return look_up(self.categories.codes(code_of), self.positions, -1)

    def tokens(self) -> Tokens:
        return look_up(self.categories.tokens(), self.positions, MISSING_TOKEN)

    def identities(self) -> Identities:
        return look_up(self.categories.identities(), self.positions, MISSING_IDENTITY)

    def select(self, rows: Chosen) -> CategoricalColumn:
        return self._with(positions=self.positions[rows])

    def __len__(self) -> int:
        return len(self.positions)


def _once_for_text(read: Callable[[object], Value]) -> Callable[[object], Value]:
    """`read`, of equal texts once. Only text is remembered: a dictionary takes 1, True and timedelta(1) for one key."""
    known: dict[str, Value] = {}

    def read_once(cell: object) -> Value:
        if type(cell) is not str:
            return read(cell)
        if cell not in known:
            known[cell] = read(cell)
        return known[cell]

    return read_once


def all_within(values: Array, low: float, high: float) -> bool:
    """Whether no value is missing or outside of a finite range: two quick looks save what would be done about them."""
    return bool(values.size) and bool(low <= values.min() and values.max() <= high)


def look_up(table: NDArray[Any], positions: NDArray[np.integer[Any]], missing: Any) -> NDArray[Any]:
    """table[positions], `missing` for every position outside of the table."""
    within = (positions >= 0) & (positions < len(table))
    if within.all():
        return np.asarray(table[positions])
    values = np.full((len(positions), *table.shape[1:]), missing, dtype=table.dtype)
    values[within] = table[positions[within]]
    return values


def numeric_codes(numbers: Array, code_of: CodeOf) -> Codes:
    """Codes of numbers, shape (rows,)."""
    known = np.array(sorted(value for value in code_of if isinstance(value, float)))
    if len(known) == 0:
        return np.full(len(numbers), -1, dtype=np.intp)
    codes = np.array([code_of[float(value)] for value in known], dtype=np.intp)
    if len(known) <= FEW_LEVELS and codes.max() < np.iinfo(np.int8).max:
        shifted = np.zeros(len(numbers), dtype=np.int8)
        for value, code in zip(known, codes, strict=True):
            shifted += (numbers == value).view(np.int8) * np.int8(code + 1)
        return shifted.astype(np.intp) - 1
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
        dates = any(word in column.type_name.lower() for word in ("date", "timestamp"))
        fix = f"make it a number, {days_since(name)}" if dates else "convert it to numbers, booleans or text first"
        raise DomainError(f"column {name!r} has dtype {column.type_name}; {fix}")
    return column.kind
