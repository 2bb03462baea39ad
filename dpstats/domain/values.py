"""By which value a cell matches a declared range or level."""

from __future__ import annotations

import math
from decimal import Decimal
from fractions import Fraction

import numpy as np

Scalar = str | int | float | bool


_NUMPY_NUMBERS = frozenset(np.dtype(code).type for code in "?bBhHiIlLqQpPefdg")


def as_number(cell: object) -> float:
    """The finite number that a cell or level stands for, or NaN.

    Python's and numpy's numbers and booleans, Decimal, Fraction and strings that spell a decimal number count;
    everything else (dates, containers, infinities, integers beyond the range of a double) is NaN. Never raises, and
    never calls a method that a cell's own class defines.
    """
    kind = type(cell)
    try:
        if issubclass(kind, str):
            text = str.__str__(cell)
            number = math.nan if "_" in text else float(text)
        elif issubclass(kind, float):
            number = float.__float__(cell)  # type: ignore[arg-type]
        elif issubclass(kind, int):
            number = int.__float__(cell)  # type: ignore[arg-type]
        elif issubclass(kind, Decimal):
            number = Decimal.__float__(cell)  # type: ignore[arg-type]
        elif kind is Fraction or kind in _NUMPY_NUMBERS:
            number = float(cell)  # type: ignore[arg-type]
        else:
            return math.nan
    except Exception:  # cells may be objects of any class, and no error may depend on a cell
        return math.nan
    return number if math.isfinite(number) else math.nan


def canonical(cell: object) -> float | str | None:
    """The value by which a cell matches a level: a number, else the stripped string, else None (missing).

    So 1, 1.0, "1" and True are one level, as are "F" and " F ".
    """
    number = as_number(cell)
    if not math.isnan(number):
        return number
    return str.strip(cell) if issubclass(type(cell), str) else None  # type: ignore[arg-type]
