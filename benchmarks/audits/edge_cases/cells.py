"""Hostile cells: values that code which converts, compares, hashes, prints or stores a cell may stumble over.

Each has a meaning, where the design fixes one: None (missing), a number, or text; `OPEN` where it fixes none.
"""

from __future__ import annotations

import array
import collections
import datetime
import decimal
import enum
import fractions
import io
import ipaddress
import itertools
import math
import numbers
import pathlib
import re
import uuid
import weakref
from collections.abc import Callable
from dataclasses import dataclass
from types import EllipsisType
from typing import Any

import numpy as np
import pandas as pd

from benchmarks.audits.edge_cases import objects

OPEN = ...
Meaning = float | str | None | EllipsisType


@dataclass(frozen=True)
class Cell:
    """A cell, made anew for each use."""

    name: str
    make: Callable[[], Any]
    means: Meaning = OPEN


@dataclass(frozen=True)
class Hidden:
    """A value under a mask or a null: the cell is missing, whatever lies beneath."""

    value: Any


DECIMAL = re.compile(r"\s*[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?\s*", re.ASCII)


def meaning(value: Any) -> Meaning:
    """What a value stored in a typed column means; written without a look at the package."""
    if value is None or value is pd.NA or value is pd.NaT or value is np.ma.masked or isinstance(value, Hidden):
        return None
    if type(value) in (bool, int, float) or isinstance(value, (np.floating, np.integer, np.bool_)):
        try:
            number = float(value)
        except OverflowError:
            return None
        return number if math.isfinite(number) else None
    if type(value) not in (str, np.str_):
        return OPEN
    if DECIMAL.fullmatch(value):
        number = float(value)
        return number if math.isfinite(number) else None
    return OPEN if any(letter.isdigit() and not letter.isascii() for letter in value) else str(value)


def _plain() -> list[Cell]:
    """Cells of builtin types whose meaning `meaning` knows."""
    values: list[Any] = [
        None, math.nan, math.inf, -math.inf, pd.NA, pd.NaT, True, False, 0, -0.0, 5e-324, 2.3e-308, 1e-160, 1e151,
        1e200, 1e308, -1e308, 127, -128, 2**31, 2**53 + 1, 2**63, 2**64 - 1, -(2**64), 10**400, -(10**5000),
        "", " ", "a ", " b", "A", "1", "2.0", "+1.", "1_0", "0x1", "1e400", "1e-400", "nan", "-inf", "Infinity", "True",
        "None", "NA", "<NA>", "NaT", "２", "١", "½", "1\n", "\ufeff1", "\x00", "a\x00", "a\x00b", "\udc80", "a\udc80",
        "𝟙", "a" * 1_000_000, "9" * 5000, "2020-01-01", "a\u00a0", "%s", "{0}", "{y}", "'); --",
    ]  # fmt: skip
    named = {"a" * 1_000_000: "a million letters", "9" * 5000: "5000 digits", -(10**5000): "-10**5000"}
    named[10**400] = "10**400"
    made = []
    for value in values:
        means = meaning(value.strip() if type(value) is str else value)
        name = named.get(value) if type(value) in (str, int) else None
        made.append(Cell(name or f"{type(value).__name__} {value!r}"[:60], lambda value=value: value, means))
    return made


def _numpy() -> list[Cell]:
    """Scalars and arrays of numpy."""
    record = np.array([(1, 2.0)], dtype=[("i", "i4"), ("f", "f8")])
    values: dict[str, tuple[Callable[[], Any], Meaning]] = {
        "float16": (lambda: np.float16(2), 2.0),
        "float32 nan": (lambda: np.float32("nan"), None),
        "longdouble 2": (lambda: np.longdouble(2), OPEN),
        "longdouble 1e4000": (lambda: np.longdouble("1e4000"), None),
        "longdouble 1e-4000": (lambda: np.longdouble("1e-4000"), OPEN),
        "int8": (lambda: np.int8(-128), -128.0),
        "uint64": (lambda: np.uint64(2**64 - 1), float(2**64)),
        "bool": (lambda: np.bool_(True), 1.0),
        "complex": (lambda: np.complex128(1), None),
        "str": (lambda: np.str_("a"), OPEN),
        "bytes": (lambda: np.bytes_(b"1"), None),
        "void": (lambda: np.void(b"abc"), None),
        "record": (lambda: record[0], None),
        "datetime64": (lambda: np.datetime64("2020-01-01"), None),
        "datetime64 NaT": (lambda: np.datetime64("NaT"), None),
        "timedelta64": (lambda: np.timedelta64(1, "D"), None),
        "0-d": (lambda: np.array(1.0), OPEN),
        "0-d text": (lambda: np.array("a"), OPEN),
        "0-d object": (lambda: np.array(None, dtype=object), OPEN),
        "array": (lambda: np.array([1.0, 2.0]), None),
        "array of one": (lambda: np.array([1.0]), None),
        "empty array": (lambda: np.array([]), None),
        "masked": (lambda: np.ma.masked, None),
        "masked array": (lambda: np.ma.array([1, 2], mask=[0, 1]), None),
        "matrix": (lambda: np.ones((2, 2)), None),
    }
    return [Cell(f"numpy {name}", make, means) for name, (make, means) in values.items()]


class Colour(enum.Enum):
    RED = 1


class Number(enum.IntEnum):
    ONE = 1


Point = collections.namedtuple("Point", "x y")


def _loop() -> list[Any]:
    loop: list[Any] = []
    loop.append(loop)
    return loop


def _dead() -> Any:
    class Gone:
        pass

    return weakref.proxy(Gone())


def _library() -> list[Cell]:
    """Objects of the standard library and of pandas; none is a number or text, but for a few left open."""
    utc = datetime.UTC
    missing: dict[str, Callable[[], Any]] = {
        "complex": lambda: 1j, "complex nan": lambda: complex(math.nan, 1), "bytes": lambda: b"1",
        "bytes not UTF-8": lambda: b"\xff\xfe", "bytearray": lambda: bytearray(b"1"),
        "memoryview": lambda: memoryview(b"1"), "array.array": lambda: array.array("d", [1.0]),
        "list": lambda: [1, 2], "list of one": lambda: [1.0], "empty list": list,
        "tuple": lambda: (1, 2), "empty tuple": tuple, "named tuple": lambda: Point(1, 2), "dict": lambda: {"a": 1},
        "empty dict": dict, "set": lambda: {1}, "frozenset": lambda: frozenset("a"), "range": lambda: range(2),
        "deque": lambda: collections.deque([1]), "date": lambda: datetime.date(2020, 1, 1),
        "date year 1": lambda: datetime.date.min, "date year 9999": lambda: datetime.date.max,
        "datetime year 1": lambda: datetime.datetime.min, "datetime year 9999": lambda: datetime.datetime.max,
        "datetime UTC": lambda: datetime.datetime(2020, 1, 1, tzinfo=utc), "time": lambda: datetime.time(1, 2, 3),
        "timedelta": lambda: datetime.timedelta(1), "timedelta max": lambda: datetime.timedelta.max,
        "Enum": lambda: Colour.RED, "exception": lambda: ValueError("a"), "exception class": lambda: KeyboardInterrupt,
        "generator": lambda: (i for i in range(2)), "spent generator": lambda: iter(()),
        "count": lambda: itertools.repeat(1.0, 3), "lambda": lambda: len, "class": lambda: float,
        "Ellipsis": lambda: ..., "NotImplemented": lambda: NotImplemented, "object": object,
        "file": lambda: io.StringIO("1"), "path": lambda: pathlib.Path("a"), "uuid": lambda: uuid.UUID(int=1),
        "address": lambda: ipaddress.ip_address("127.0.0.1"), "Timestamp": lambda: pd.Timestamp("2020-01-01"),
        "Timestamp min": lambda: pd.Timestamp.min, "Timestamp tz": lambda: pd.Timestamp("2020-01-01", tz="UTC"),
        "Timedelta": lambda: pd.Timedelta(1, "D"), "Period": lambda: pd.Period("2020"),
        "Interval": lambda: pd.Interval(0, 1), "Series": lambda: pd.Series([1.0]),
        "empty Series": lambda: pd.Series([], dtype=object), "frame": lambda: pd.DataFrame({"x": [1]}),
        "Categorical": lambda: pd.Categorical(["a"]), "Index": lambda: pd.Index([1]), "dead proxy": _dead,
        "Decimal NaN": lambda: decimal.Decimal("NaN"), "Decimal sNaN": lambda: decimal.Decimal("sNaN"),
        "Decimal -sNaN7": lambda: decimal.Decimal("-sNaN7"), "Decimal inf": lambda: decimal.Decimal("Infinity"),
        "Decimal 1e400": lambda: decimal.Decimal("1e400"),
    }  # fmt: skip
    free: dict[str, Callable[[], Any]] = {
        "Decimal 2": lambda: decimal.Decimal(2), "Decimal 1e-400": lambda: decimal.Decimal("1e-400"),
        "Fraction": lambda: fractions.Fraction(4, 2), "Fraction huge": lambda: fractions.Fraction(10**400, 3),
        "Fraction tiny": lambda: fractions.Fraction(1, 10**400), "IntEnum": lambda: Number.ONE,
    }  # fmt: skip
    return [Cell(name, make, None) for name, make in missing.items()] + [Cell(name, free[name]) for name in free]


numbers.Real.register(objects.Anything)
TAME: list[Cell] = [*_plain(), *_numpy(), *_library()]
"""Cells that libraries take in without harm, or refuse."""

CELLS: list[Cell] = [*TAME, Cell("list in itself", _loop, None)]
CELLS += [Cell(name, make) for name, make in objects.HOSTILE.items()]
"""All of them, with different names."""

BY_NAME = {cell.name: cell for cell in CELLS}
