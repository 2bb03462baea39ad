"""Types of column that Arrow and polars have, the invalid included; none where they are not installed."""

from __future__ import annotations

import datetime
from collections.abc import Callable, Iterator, Sequence
from decimal import Decimal
from typing import Any

import numpy as np
import pandas as pd

from benchmarks.audits.edge_cases.cells import Hidden
from benchmarks.audits.edge_cases.columns import FLOATS, WIDE, Build, Column, extremes, own

try:
    import pyarrow as pa
    import pyarrow.compute as pc
except ImportError:
    pa = pc = None
try:
    import polars as pl
except ImportError:
    pl = None

INVALID = own(
    none=None, lone=b"\xff", after=b"a\xff", surrogate=b"\xed\xa0\x80", nul="a\x00", long="a" * 100_000,
    overlong=b"\xc0\x80", cut=b"1\xe2\x82",
)  # fmt: skip
"""Text that is no UTF-8: Arrow's readers and its buffers let it pass."""

BAD_DAYS = own(none=None, year_zero=-719_529, year_10000=2_932_897, least=-(2**31), greatest=2**31 - 1)
BAD_TIMES = own(none=None, nanosecond=1, negative=-1, later=86_400_000_000_001, greatest=2**63 - 1, least=-(2**63))


def _bytes(cells: Sequence[Any]) -> list[bytes | None]:
    for cell in cells:
        if cell is not None and not isinstance(cell, (str, bytes)):
            raise TypeError
    return [str.encode(cell, "utf-8", "surrogatepass") if isinstance(cell, str) else cell for cell in cells]


def _text(target: str) -> Build:
    """A builder of text that Arrow does not check."""

    def build(cells: Sequence[Any], every: Sequence[Any]) -> Any:
        options = pc.CastOptions(target_type=getattr(pa, target)(), allow_invalid_utf8=True)
        return pc.cast(pa.array(_bytes(cells), pa.binary()), options=options)

    return build


def _of(make: Callable[[], Any]) -> Build:
    def build(cells: Sequence[Any], every: Sequence[Any]) -> Any:
        made = pa.array(list(cells), make())
        made.validate(full=True)  # a list of a fixed length takes a generator of another, and dies when it is read
        return made

    return build


def _view(storage: str, make: Callable[[], Any]) -> Build:
    """A builder of a type from the integers that it stores, allowed or not."""
    return lambda cells, every: pa.array(list(cells), getattr(pa, storage)()).view(make())


def _beneath(dtype: str) -> Build:
    """A builder whose nulls have values beneath."""

    def build(cells: Sequence[Any], every: Sequence[Any]) -> Any:
        values = np.array([c.value if isinstance(c, Hidden) else c for c in cells], dtype=dtype)
        valid = np.packbits(np.array([not isinstance(c, Hidden) for c in cells], dtype=bool), bitorder="little")
        buffers = [pa.py_buffer(valid.tobytes()), pa.py_buffer(values.tobytes())]
        return pa.Array.from_buffers(pa.from_numpy_dtype(dtype), len(cells), buffers)

    return build


def _dictionary(values: Build) -> Build:
    def build(cells: Sequence[Any], every: Sequence[Any]) -> Any:
        # The dictionary of a column is data, and no part of its type.
        return pa.DictionaryArray.from_arrays(pa.array(range(len(cells)), pa.int8()), values(cells, every))

    return build


def _indexed(cells: Sequence[Any], every: Sequence[Any]) -> Any:
    """Positions in a dictionary, which nothing checks."""
    return pa.DictionaryArray.from_arrays(pa.array(list(cells), pa.int32()), pa.array([1.0, 2.0, 3.0]), safe=False)


def _sliced(build: Build) -> Build:
    return lambda cells, every: build([cells[0], *cells, cells[0]] if len(cells) else [None], every)[1:][: len(cells)]


def _run_ends(cells: Sequence[Any], every: Sequence[Any]) -> Any:
    return pa.RunEndEncodedArray.from_arrays(
        pa.array(range(1, len(cells) + 1), pa.int32()), pa.array(list(cells), pa.float64())
    )


def _numbers() -> Iterator[Column]:
    for name in ("float16", "float32", "float64"):
        cells = FLOATS + own(none=None)
        yield Column(f"arrow {name}", "arrow", lambda c, e, name=name: pa.array(np.array(c, name)), "numbers", FLOATS)
        if name != "float16":
            yield Column(f"arrow {name}, nullable", "arrow", _of(getattr(pa, name)), "numbers", cells)
    for name in WIDE:
        cells = extremes(name) + own(none=None)
        yield Column(f"arrow {name}", "arrow", _of(getattr(pa, name)), "numbers", cells)
    hides = own(hidden_1=Hidden(1.0), hidden_nan=Hidden(np.nan), hidden_tiny=Hidden(5e-324))
    yield Column("arrow float64, values beneath", "arrow", _beneath("float64"), "numbers", hides)
    yield Column("arrow int64, values beneath", "arrow", _beneath("int64"), "numbers", own(hidden=Hidden(2**62)))
    yield Column("arrow sliced", "arrow", _sliced(_of(pa.float64)), "numbers", FLOATS + own(none=None))
    yield Column("arrow bool", "arrow", _of(pa.bool_), (True, False), own(none=None))
    few = tuple(Decimal(k) for k in (1, 2, 3))
    cells = own(none=None, most=Decimal("99.99"), small=Decimal("0.01"))
    yield Column("arrow decimal128", "arrow", _of(lambda: pa.decimal128(4, 2)), few, cells)
    cells = own(none=None, most=Decimal(10) ** 70, least=-(Decimal(10) ** 70))
    yield Column("arrow decimal256", "arrow", _of(lambda: pa.decimal256(76, 0)), few, cells)
    yield Column("arrow null", "arrow", _of(pa.null), (None,))


def _texts() -> Iterator[Column]:
    for name in ("string", "large_string", "string_view"):
        if hasattr(pa, name):
            yield Column(f"arrow {name}", "arrow", _text(name), "text", INVALID)
            if name != "string_view":
                yield Column(f"arrow {name} dictionary", "arrow", _dictionary(_text(name)), "text", INVALID)
    yield Column("arrow sliced string", "arrow", _sliced(_text("string")), "text", INVALID)
    for name in ("binary", "large_binary", "binary_view"):
        if hasattr(pa, name):
            yield Column(f"arrow {name}", "arrow", _of(getattr(pa, name)), (b"1", b"2"), own(none=None, bad=b"\xff"))
    fixed = own(none=None, bad=b"\xff\xfe\xfd")
    yield Column("arrow fixed binary", "arrow", _of(lambda: pa.binary(3)), (b"abc", b"abd"), fixed)
    plain = own(none=None, nan=np.nan, inf=np.inf)
    yield Column("arrow dictionary of floats", "arrow", _dictionary(_of(pa.float64)), "numbers", plain)
    outside = own(none=None, beyond=99, before=-7, greatest=2**31 - 1)
    yield Column("arrow dictionary, index outside", "arrow", _indexed, (0, 1, 2), outside)
    yield Column("arrow dictionary of days", "arrow", _dictionary(_view("int32", pa.date32)), (0, 1, 2), BAD_DAYS)


def _times() -> Iterator[Column]:
    days, times = (0, 1, 2), tuple(1000 * k for k in (0, 1, 2))
    yield Column("arrow date32", "arrow", _view("int32", pa.date32), days, BAD_DAYS)
    yield Column("arrow date64", "arrow", _view("int64", pa.date64), (0, 86_400_000), BAD_TIMES)
    for storage, unit in (("int32", "s"), ("int32", "ms"), ("int64", "us"), ("int64", "ns")):
        make = pa.time32 if storage == "int32" else pa.time64
        yield Column(f"arrow time {unit}", "arrow", _view(storage, lambda m=make, u=unit: m(u)), times, BAD_TIMES)
    for unit in ("s", "ms", "us", "ns"):
        for zone in (None, "UTC", "+01:00", "Mars/Phobos"):
            make = _view("int64", lambda u=unit, z=zone: pa.timestamp(u, z))
            yield Column(f"arrow timestamp {unit} {zone}", "arrow", make, times, BAD_TIMES)
        make = _view("int64", lambda u=unit: pa.duration(u))
        yield Column(f"arrow duration {unit}", "arrow", make, times, BAD_TIMES)
    spans = (pa.MonthDayNano([1, 1, 1]), pa.MonthDayNano([2, 1, 1]))
    yield Column("arrow interval", "arrow", _of(pa.month_day_nano_interval), spans, own(none=None))


def _nested() -> Iterator[Column]:
    lists = own(none=None, empty=[], null=[None], long=[1] * 1000)
    for name in ("list_", "large_list"):
        yield Column(f"arrow {name}", "arrow", _of(lambda n=name: getattr(pa, n)(pa.int64())), ([1], [2]), lists)
    yield Column("arrow fixed list", "arrow", _of(lambda: pa.list_(pa.int64(), 2)), ([1, 2], [3, 4]), own(none=None))
    record = own(none=None, empty={}, null={"a": None})
    yield Column("arrow struct", "arrow", _of(lambda: pa.struct({"a": pa.int64()})), ({"a": 1}, {"a": 2}), record)
    pairs = own(none=None, empty=[], twice=[("a", 1), ("a", 2)])
    yield Column("arrow map", "arrow", _of(lambda: pa.map_(pa.string(), pa.int64())), ([("a", 1)],), pairs)
    yield Column("arrow run ends", "arrow", _run_ends, "numbers", FLOATS + own(none=None))


def _through_pandas(column: Column) -> Column:
    """The column in pandas, with the dtype that it has in Arrow."""
    extension = pd.arrays.ArrowExtensionArray

    def build(cells: Sequence[Any], every: Sequence[Any]) -> Any:
        return pd.Series(extension(pa.chunked_array([column.build(cells, every)])))

    return Column(f"ArrowDtype, {column.name[6:]}", "pandas", build, column.fill, column.own)


def _pandas_text(cells: Sequence[Any], every: Sequence[Any]) -> Any:
    try:
        return pd.Series(pd.arrays.ArrowStringArray(_text("large_string")(cells, every)))
    except ValueError:
        return pd.Series(pd.arrays.ArrowStringArray(_text("string")(cells, every)))


def _polars(dtype: Any, storage: Any = None) -> Build:
    def build(cells: Sequence[Any], every: Sequence[Any]) -> Any:
        made = pl.Series(list(cells), dtype=storage or dtype, strict=True)
        if made.dtype != (storage or dtype) or len(made) != len(cells):
            raise TypeError  # a cell was taken for a record of cells
        return made if storage is None else made.cast(dtype, strict=False)

    return build


def _polars_columns() -> Iterator[Column]:
    floats, none = FLOATS + own(none=None), own(none=None)
    for name in ("Float32", "Float64"):
        yield Column(f"polars {name}", "polars", _polars(getattr(pl, name)), "numbers", floats)
    for name in WIDE:
        dtype = getattr(pl, name.title().replace("Ui", "UI"))
        yield Column(f"polars {name}", "polars", _polars(dtype), "numbers", extremes(name) + none)
    yield Column("polars Boolean", "polars", _polars(pl.Boolean), (True, False), none)
    texts = own(none=None, nul="a\x00", long="a" * 100_000)
    for name in ("String", "Categorical"):
        yield Column(f"polars {name}", "polars", _polars(getattr(pl, name)), "text", texts)
    yield Column("polars Enum", "polars", _polars(pl.Enum(["a", "b"])), ("a", "b"), none)
    yield Column("polars Date", "polars", _polars(pl.Date, pl.Int32), (0, 1, 2), BAD_DAYS)
    yield Column("polars Time", "polars", _polars(pl.Time, pl.Int64), (0, 1000, 2000), BAD_TIMES)
    for unit in ("ms", "us", "ns"):
        for zone in (None, "UTC"):
            make = _polars(pl.Datetime(unit, zone), pl.Int64)
            yield Column(f"polars Datetime {unit} {zone}", "polars", make, (0, 1000), BAD_TIMES)
        yield Column(f"polars Duration {unit}", "polars", _polars(pl.Duration(unit), pl.Int64), (0, 1000), BAD_TIMES)
    yield Column("polars Decimal", "polars", _polars(pl.Decimal(20, 2)), (Decimal(1), Decimal(2)), none)
    yield Column("polars Binary", "polars", _polars(pl.Binary), (b"1", b"2"), own(none=None, bad=b"\xff"))
    yield Column("polars List", "polars", _polars(pl.List(pl.Int64)), ([1], [2]), own(none=None, empty=[], null=[None]))
    yield Column("polars Array", "polars", _polars(pl.Array(pl.Int64, 2)), ([1, 2], [3, 4]), none)
    yield Column("polars Struct", "polars", _polars(pl.Struct({"a": pl.Int64})), ({"a": 1}, {"a": 2}), none)
    yield Column("polars Null", "polars", _polars(pl.Null), (None,))
    yield Column("polars Object", "polars", _polars(pl.Object), stored=False, own=own(date=datetime.date.min))


COLUMNS: list[Column] = []
if pa is not None:
    COLUMNS += [*_numbers(), *_texts(), *_times(), *_nested()]
    COLUMNS += [_through_pandas(column) for column in COLUMNS]
    COLUMNS += [Column("pandas text of Arrow, unchecked", "pandas", _pandas_text, "text", INVALID)]
if pl is not None:
    COLUMNS += [*_polars_columns()]
