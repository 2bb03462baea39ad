"""Types of column that pandas has: numpy's and its own dtypes, categories, and series with odd indexes."""

from __future__ import annotations

import datetime
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pandas as pd

from benchmarks.audits.edge_cases.cells import Hidden
from benchmarks.audits.edge_cases.columns import FLOATS, WIDE, Build, Column, extremes, hidden, objects, own

DATES = tuple(datetime.date(2020, 1, day) for day in (1, 2, 3))
STAMPS = tuple(pd.Timestamp(2020, 1, day) for day in (1, 2, 3))
NUMBERS = (1.0, 2.0, 3.0)


def typed(dtype: Any) -> Build:
    """A builder of series of one dtype."""
    return lambda cells, every: pd.Series(objects(cells), dtype=object).astype(dtype)


def _nullable(array: Any, dtype: str) -> Build:
    def build(cells: Sequence[Any], every: Sequence[Any]) -> Any:
        values, mask = hidden([Hidden(1) if cell is None else cell for cell in cells])
        return pd.Series(array(np.array(values, dtype=dtype), np.array(mask, dtype=bool)))

    return build


def _distinct(every: Sequence[Any]) -> list[Any]:
    """The cells without repetitions or missing ones: what categories may be."""
    return [cell for cell in dict.fromkeys(every) if not (pd.api.types.is_scalar(cell) and pd.isna(cell))]


def _category(dtype: Any = object, ordered: bool = False) -> Build:
    def build(cells: Sequence[Any], every: Sequence[Any]) -> Any:
        values = _distinct(every)
        place = {value: code for code, value in enumerate(values)}
        index = pd.Index(objects(values), dtype=object)
        index = index if dtype is object else pd.Index(index.astype(dtype))
        codes = [place.get(cell, -1) for cell in cells]
        return pd.Series(pd.Categorical.from_codes(codes, categories=index, ordered=ordered))

    return build


def _plain() -> Iterator[Column]:
    yield Column("object", "pandas", typed(object), stored=False)
    for name in ("float16", "float32", "float64", "longdouble"):
        yield Column(f"pandas {name}", "pandas", typed(name), "numbers", FLOATS)
    for name in WIDE:
        yield Column(f"pandas {name}", "pandas", typed(name), "numbers", extremes(name))
    yield Column("pandas bool", "pandas", typed(bool), (True, False))
    yield Column("pandas complex", "pandas", typed(complex), "numbers", own(i=1j))
    for unit in ("datetime64[ns]", "datetime64[s]"):
        yield Column(f"pandas {unit}", "pandas", typed(unit), STAMPS, own(nat=pd.NaT))
    zoned = own(nat=pd.NaT, far=pd.Timestamp("1800-01-01"))
    yield Column("pandas zoned", "pandas", typed("datetime64[ns, UTC]"), tuple(t.tz_localize("UTC") for t in STAMPS))
    yield Column("pandas timedelta", "pandas", typed("timedelta64[ns]"), (pd.Timedelta(1), pd.Timedelta(2)), zoned[:1])
    yield Column("pandas period", "pandas", typed("period[D]"), tuple(pd.Period(d, "D") for d in DATES), zoned[:1])
    yield Column(
        "pandas interval", "pandas", typed("interval[int64]"), (pd.Interval(0, 1), pd.Interval(1, 2)), own(none=None)
    )


def _extended() -> Iterator[Column]:
    for name in WIDE:
        dtype = name.replace("i", "I", 1).replace("u", "U")
        yield Column(f"pandas {dtype}", "pandas", _nullable(pd.arrays.IntegerArray, name), "numbers", extremes(name))
    masked = own(hidden_nan=Hidden(np.nan), hidden_inf=Hidden(np.inf), hidden_tiny=Hidden(5e-324), none=None)
    for name in ("float32", "float64"):
        build = _nullable(pd.arrays.FloatingArray, name)
        yield Column(f"pandas {name.title()}", "pandas", build, "numbers", FLOATS + masked)
    hides = own(hidden_true=Hidden(True), hidden_false=Hidden(False), none=None)
    yield Column("pandas boolean", "pandas", _nullable(pd.arrays.BooleanArray, "bool"), (True, False), hides)
    texts = own(nul="a\x00", surrogate="\udc80", none=None, long="a" * 100_000)
    for name in ("string[python]", "string[pyarrow]", "str"):
        yield Column(f"pandas {name}", "pandas", typed(name), "text", texts)
    yield Column("sparse float", "pandas", typed("Sparse[float64]"), "numbers", FLOATS)
    yield Column("sparse int", "pandas", typed("Sparse[int64]"), "numbers", extremes("int64"))
    yield Column("sparse bool", "pandas", typed("Sparse[bool]"), (True, False))
    yield Column("sparse object", "pandas", typed(pd.SparseDtype(object, None)), stored=False)


def _inferred(cells: Sequence[Any], every: Sequence[Any]) -> Any:
    """As callers make them: the categories, and so the dtype, are whatever the cells are."""
    return pd.Series(pd.Categorical(pd.Series(list(cells), dtype=None if len(cells) else object)))


def _categories() -> Iterator[Column]:
    yield Column("category of objects", "pandas", _category())
    yield Column("category, ordered", "pandas", _category(ordered=True))
    seeds: dict[str, Any] = {"cells": "objects", "stamps": STAMPS, "dates": DATES, "numbers": (1, 2, 3)}
    seeds |= {"flags": (True, False), "complex": (1j, 2j), "spans": (pd.Timedelta(1), pd.Timedelta(2))}
    for name, fill in seeds.items():
        yield Column(f"inferred category of {name}", "pandas", _inferred, fill, own(none=None, text="a", number=2.5))
    ranges = tuple(pd.Interval(k, k + 1) for k in range(3))
    parts: dict[str, tuple[Any, tuple[Any, ...]]] = {
        "float64": ("float64", NUMBERS), "int64": ("int64", (1, 2, 3)), "bool": ("bool", (True, False)),
        "str": ("str", ("a", "b", "c")), "string": ("string", ("a", "b", "c")), "Int64": ("Int64", (1, 2, 3)),
        "complex": ("complex128", (1j, 2j)), "datetime": ("datetime64[ns]", STAMPS),
        "zoned": ("datetime64[ns, UTC]", tuple(t.tz_localize("UTC") for t in STAMPS)), "timedelta":
        ("timedelta64[ns]", (pd.Timedelta(1), pd.Timedelta(2))), "period": ("period[D]", tuple(pd.Period(d, "D") for
        d in DATES)), "interval": ("interval[int64]", ranges), "dates": (object, DATES), "tuples": (object, ((1, 2),)),
        "uint8": ("uint8", (1, 2, 3)), "float32": ("float32", NUMBERS), "boolean": ("boolean", (True, False)),
    }  # fmt: skip
    for name, (dtype, values) in parts.items():
        yield Column(f"category of {name}", "pandas", _category(dtype), values, own(none=None))


def _indexed(index: Any) -> Build:
    return lambda cells, every: pd.Series(objects(cells), index=index(cells), dtype=object)


def _series() -> Iterator[Column]:
    yield Column("Series", "series", typed(object), stored=False)
    yield Column("Series of floats", "series", typed("float64"), "numbers", FLOATS)
    indexes = {"by its cells": objects, "backwards": lambda c: range(len(c))[::-1], "twice": lambda c: [0] * len(c)}
    for name, index in indexes.items():
        yield Column(f"Series {name}", "series", _indexed(index), stored=False)


COLUMNS = [*_plain(), *_extended(), *_categories(), *_series()]
FIXED = {column.name for column in COLUMNS if column.name.startswith("category")}
"""Types of which the cells of all neighbours are a part."""
