"""Cells of columns that could raise, warn or shout: text that is no text, masks, hostile objects, odd categories."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pandas as pd
import pytest

from dpstats.data import Column, as_table
from dpstats.data.containers import column_of
from dpstats.domain import Domain, as_number, canonical

pa = pytest.importorskip("pyarrow")
pl = pytest.importorskip("polars")

NAN = np.nan
CODE_OF = Domain(l=["é", "b", 2])["l"].code_of()  # type: ignore[union-attr]


def undecodable(declared: Any) -> Any:
    """Four texts of which the second is Latin-1, not UTF-8."""
    wide = pa.types.is_large_string(declared)
    offsets = np.array([0, 2, 3, 4, 5], dtype=np.int64 if wide else np.int32)
    buffers = [None, pa.py_buffer(offsets.tobytes()), pa.py_buffer("é".encode() + "é".encode("latin-1") + b"b2")]
    return pa.Array.from_buffers(declared, 4, buffers)


def pandas_text(storage: str) -> Callable[[], Any]:
    return lambda: pd.array(undecodable(pa.large_string()), dtype=storage)


def arrow_backed() -> Any:
    return pd.arrays.ArrowExtensionArray(undecodable(pa.string()))


UNDECODABLE: dict[str, Callable[[], Any]] = {
    "string": lambda: undecodable(pa.string()),
    "large string": lambda: undecodable(pa.large_string()),
    "chunks": lambda: pa.chunked_array([undecodable(pa.string())[:2], undecodable(pa.string())[2:]]),
    "dictionary": lambda: pa.DictionaryArray.from_arrays(pa.array([0, 1, 2, 3]), undecodable(pa.string())),
    "pandas Arrow": arrow_backed,
    "pandas text": lambda: pd.arrays.ArrowStringArray(pa.chunked_array([undecodable(pa.large_string())])),
    "pandas frame": lambda: pd.DataFrame({"a": arrow_backed()})["a"],
}


@pytest.mark.parametrize("name", UNDECODABLE)
def test_text_that_is_not_utf8_is_missing(name: str) -> None:
    column = column_of(UNDECODABLE[name]())
    assert column is not None
    assert column.kind == "text"
    assert column.codes(CODE_OF).tolist() == [0, -1, 1, 2]
    np.testing.assert_array_equal(column.numbers(), [NAN, NAN, NAN, 2])


MASKED: dict[str, Any] = {
    "float": np.ma.masked_array([2.0, 2.0, 3.0], mask=[False, True, False]),
    "int": np.ma.masked_array([2, 2, 3], mask=[False, True, False]),
    "object": np.ma.masked_array(np.array([2, 2, 3], dtype=object), mask=[False, True, False]),
    "text": np.ma.masked_array(["2", "2", "3"], mask=[False, True, False]),
}


@pytest.mark.parametrize("name", MASKED)
def test_masked_cells_are_missing_and_a_mask_decides_nothing(name: str) -> None:
    for values, missing in ((MASKED[name], True), (np.ma.masked_array(MASKED[name].data), False)):
        column = column_of(values)
        assert column is not None
        assert column.kind == ("numeric" if name in ("float", "int") else "text")
        np.testing.assert_array_equal(column.numbers(), [2, NAN if missing else 2, 3])
        assert column.codes(CODE_OF).tolist() == [2, -1 if missing else 2, -1]


def test_arrow_numbers_of_every_width() -> None:
    for declared in (pa.int8(), pa.uint64(), pa.float16(), pa.float32(), pa.decimal128(9, 2), pa.decimal256(40, 1)):
        values = np.float16(2) if declared == pa.float16() else Decimal(2) if pa.types.is_decimal(declared) else 2
        column = column_of(pa.array([values, None], declared))
        assert column is not None
        assert column.kind == "numeric"
        np.testing.assert_array_equal(column.numbers(), [2, NAN])
        assert column.codes(CODE_OF).tolist() == [2, -1]
    boolean = column_of(pa.array([True, None]))
    assert boolean is not None
    assert boolean.kind == "boolean"
    np.testing.assert_array_equal(boolean.numbers(), [1, NAN])


UNUSABLE = [
    pa.date32(),
    pa.time64("ns"),
    pa.list_(pa.int8()),
    pa.binary(),
    pa.timestamp("us"),
    pa.struct([("a", pa.int8())]),
]


@pytest.mark.parametrize("declared", UNUSABLE, ids=str)
def test_arrow_types_that_are_neither_numbers_nor_text_are_known_by_type(declared: Any) -> None:
    for column in (column_of(pa.nulls(2, declared)), column_of(pd.arrays.ArrowExtensionArray(pa.nulls(2, declared)))):
        assert column is not None
        assert column.kind is None
        assert column.type_name == str(declared).partition("<")[0]  # not a field's name
        assert column.select(slice(0, 1)).codes(CODE_OF).tolist() == [-1]


@pytest.mark.parametrize("dtype", ["Time", "Date", "Datetime", "List", "Object", "Binary", "Struct", "Duration"])
def test_polars_types_that_are_neither_numbers_nor_text_are_known_by_type(dtype: str) -> None:
    declared = {"List": pl.List(pl.Int8), "Struct": pl.Struct({"a": pl.Int8})}.get(dtype, getattr(pl, dtype))
    column = column_of(pl.Series([None, None], dtype=declared))
    assert column is not None
    assert column.kind is None


@pytest.mark.parametrize("dtype", ["Enum", "Categorical", "String"])
def test_polars_text_and_levels(dtype: str) -> None:
    declared = pl.Enum(["b", "2"]) if dtype == "Enum" else getattr(pl, dtype)
    column = column_of(pl.Series(["b", None, "2"], dtype=declared))
    assert column is not None
    assert column.kind == "text"
    assert column.codes(CODE_OF).tolist() == [1, -1, 2]
    np.testing.assert_array_equal(column.numbers(), [NAN, NAN, 2])


def hostile(method: str, base: type = object) -> Any:
    """An object, or a number or text of a class of its own, whose `method` raises or shouts."""

    def shout(*args: object) -> Any:
        warnings.warn("a cell was touched", stacklevel=1)
        raise KeyboardInterrupt

    return type("Hostile", (base,), {method: shout})


METHODS = ["__float__", "__eq__", "__hash__", "__str__", "__repr__", "__len__", "__iter__", "__array__", "__bool__"]


@pytest.mark.parametrize("method", [*METHODS, "__getattribute__", "__index__", "__int__", "strip", "__lt__"])
@pytest.mark.parametrize("base", [object, str, float, int, Decimal, Fraction, list], ids=lambda base: base.__name__)
def test_no_method_of_a_cell_is_called(method: str, base: type) -> None:
    made = hostile(method, base)
    cell = made() if base in (object, list) else made("2" if base is str else 2)
    cells = np.empty(2, dtype=object)
    cells[0], cells[1] = cell, 2
    expected = 2.0 if base in (str, float, int, Decimal) else NAN
    column = column_of(cells)
    assert column is not None
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        np.testing.assert_array_equal(column.numbers(), [expected, 2])
        assert column.codes(CODE_OF).tolist() == [2 if expected == 2 else -1, 2]


def test_a_class_that_lies_about_itself_is_no_number() -> None:
    class Liar:
        @property
        def __class__(self) -> Any:
            raise KeyboardInterrupt

    assert np.isnan(as_number(Liar()))
    assert canonical(Liar()) is None


def test_categories_are_data() -> None:
    for categories in (pd.to_datetime(["2020-01-01"]), pd.Index([1j]), pd.interval_range(0, 1), pd.Index([b"1"])):
        column: Column = as_table(pd.DataFrame({"a": pd.Categorical.from_codes([0, -1], categories)})).column("a")
        assert column.kind == "text"
        assert column.codes(CODE_OF).tolist() == [-1, -1]
        assert np.isnan(column.numbers()).all()


def odd_numbers() -> list[bytes | None]:
    """Texts that spell numbers, nearly spell them, or do not."""
    random = np.random.default_rng(5)
    bits = random.integers(0, 2**63, 3000).view(np.float64)
    texts = [repr(float(value)) for value in [*bits, *random.normal(size=3000), *random.integers(0, 10**9, 1000)]]
    letters = "0123456789.-+eE_ "
    texts += ["".join(random.choice(list(letters), random.integers(0, 9))) for _ in range(3000)]
    texts += [f"{random.integers(10**18)}{random.integers(10**18)}.{random.integers(10**18)}" for _ in range(300)]
    texts += [
        f"0.{random.integers(10**18):018}",
        "1.",
        ".5",
        "-.5",
        "1e400",
        "-0",
        "0x1",
        "1_0",
        "nan",
        "inf",
        "٣",
        "1\n",
    ]
    return [None, b"\xff", b"1\xff", b"1\x00", *(text.encode() for text in texts)]


def test_text_is_read_as_python_reads_it() -> None:
    """To the last bit: which cells stand beside a text must not decide how it is rounded."""
    texts = odd_numbers()
    read = [np.nan if text is None or b"\xff" in text else as_number(text.decode()) for text in texts]
    column = column_of(pa.array(texts, pa.binary()).view(pa.string()))
    assert column is not None
    np.testing.assert_array_equal(column.numbers().view(np.int64), np.array(read).view(np.int64))
    for place in range(0, len(texts), 50):
        np.testing.assert_array_equal(column.select(slice(place, place + 1)).numbers(), read[place : place + 1])


TEXTS = [getattr(pa, name)() for name in ("string", "string_view", "large_string") if hasattr(pa, name)]


@pytest.mark.parametrize("declared", TEXTS, ids=str)
def test_rows_of_arrow_text_can_be_chosen(declared: Any) -> None:
    """pyarrow has no filter for views; a part of a partition needs one after the charge."""
    column = column_of(pa.chunked_array([pa.array(["b", "2"]).cast(declared), pa.array([None, "b"]).cast(declared)]))
    assert column is not None
    chosen = column.select(np.array([True, False, True, True]))
    assert len(chosen) == 3
    assert chosen.kind == "text"
    assert chosen.codes(CODE_OF).tolist() == [1, -1, 1]
    assert chosen.select(slice(1, 3)).codes(CODE_OF).tolist() == [-1, 1]
    assert chosen.select(np.array([False, True, False])).codes(CODE_OF).tolist() == [-1]
    assert len(column.select(np.zeros(4, dtype=bool)).numbers()) == 0


@pytest.mark.parametrize("kind", ["numpy", "Float64", "strided"])
def test_remembered_ends_are_those_of_the_rows_that_are_chosen(kind: str) -> None:
    """A column remembers the ends of runs of rows: slices of slices and masks get no other rows' answer.

    A cell beyond its range that were taken for one within would not be clipped, and its row count for more than 1.
    """
    random = np.random.default_rng(3)
    values = random.choice([0.0, 0.5, 1.0, 7.0, np.nan], 20, p=[0.3, 0.3, 0.2, 0.1, 0.1])
    cells: Any = {"numpy": values, "Float64": pd.array(values, dtype="Float64"), "strided": np.repeat(values, 2)[::2]}
    whole = as_table({"x": cells[kind]}).column("x")
    for _ in range(300):
        column, left = whole, values
        for _ in range(random.integers(1, 5)):
            start, stop = sorted(random.integers(-5, len(left) + 5, 2))
            mask = random.random(len(left)) < 0.5
            chosen: Any = mask if random.random() < 0.3 else slice(int(start), int(stop), int(random.integers(1, 3)))
            column, left = column.select(chosen), left[chosen]
            expected = len(left) > 0 and bool(np.all((left >= 0) & (left <= 1)))
            assert column.all_within(column.numbers(), 0.0, 1.0) == expected
