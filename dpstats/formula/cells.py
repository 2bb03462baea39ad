"""From the cells of a table to encoded columns, one row at a time: coerce, clip, match levels, mark as missing.

Nothing here raises, warns or branches on a cell in a way that another row could notice. What may raise looks at
column names and declared types alone, which are public.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np
from numpy.typing import NDArray

from dpstats.data import Column, Table
from dpstats.data.columns import Kind, usable_kind
from dpstats.domain import Domain, Levels, Range
from dpstats.errors import DomainError
from dpstats.formula.public_frame import Codes, Encoded

Array = NDArray[np.float64]


def check_columns(table: Table, domain: Domain, columns: Iterable[str]) -> None:
    """Raise unless every name is one column of `table` (DataError) whose type suits its declaration (DomainError).

    DomainError too for types other than numbers, booleans, text, categories or objects, and if none can match a level.
    """
    for name in columns:
        column, declared = table.column(name), domain.get(name)
        usable_kind(name, column)
        # Floats may be levels of text of which every cell is missing, so only integers and booleans tell.
        if not column.integral or not isinstance(declared, Levels):
            continue
        if all(isinstance(level, str) for level in declared.code_of()):
            raise DomainError(
                f"column {name!r} is {column.type_name}, but none of its declared levels is a number; "
                "declare its numbers as levels, true and false as 1 and 0, or convert the column"
            )


def column_kind(table: Table, name: str) -> Kind:
    """What the declared type of one column says of its cells; errors as in `check_columns`."""
    return usable_kind(name, table.column(name))


def read_columns(table: Table, columns: Iterable[str]) -> dict[str, Column]:
    """The columns of the given names, once each."""
    return {name: table.column(name) for name in columns}


def encode(columns: Mapping[str, Column], domain: Domain, rows: slice) -> tuple[dict[str, Encoded], NDArray[np.bool_]]:
    """Declared columns of a checked table on `rows`, by name, and which rows miss none of them, shape (rows,).

    A range gives floats of shape (rows,) within it, missing as NaN; levels give `Codes`.
    """
    encoded: dict[str, Encoded] = {}
    complete = np.ones(rows.stop - rows.start, dtype=bool)
    for name, column in columns.items():
        declared, cells = domain[name], column.select(rows)
        if isinstance(declared, Range):
            encoded[name], known = _clipped(cells.numbers(), declared)
            complete &= known
        else:
            codes = cells.codes(declared.code_of())
            complete &= codes >= 0
            encoded[name] = Codes(codes, declared.values)
    return encoded, complete


def take(encoded: Mapping[str, Encoded], rows: NDArray[np.bool_]) -> dict[str, Encoded]:
    """The rows where `rows` holds, of every encoded column."""
    return {
        name: Codes(column.values[rows], column.levels, column.contrast) if isinstance(column, Codes) else column[rows]
        for name, column in encoded.items()
    }


def _clipped(numbers: Array, declared: Range) -> tuple[Array, NDArray[np.bool_]]:
    """Numbers within a range, NaN where they are not finite, and where they are."""
    clipped, known = np.clip(numbers, declared.low, declared.high), np.isfinite(numbers)
    if not known.all():
        clipped[~known] = np.nan
    return clipped, known
