"""Cells of every dtype become clipped numbers, codes, or missing; only names and dtypes can raise."""

from __future__ import annotations

import datetime
import math
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pandas as pd
import pytest

from dpstats.data import as_table
from dpstats.domain import Domain
from dpstats.errors import DataError, DomainError
from dpstats.formula.public_frame import Codes, Encoded
from dpstats.formula.reader import check_columns, encode

pa = pytest.importorskip("pyarrow")

DOMAIN = Domain(r=(0, 10), l=["1", 2, "x"])
NAN, NO = math.nan, -1

MIXED = [
    "1", 2, 2.0, True, None, [1], {}, datetime.date(2020, 1, 1), pd.Timestamp("2020-01-01"), 10**400, Decimal("sNaN"),
    Decimal(2), Fraction(4, 2), b"1", np.array([1, 2]), pd.NaT, pd.NA, 1j, "1_0", "nan", "-inf", "2e0", " x ", "y",
    1e308,
]  # fmt: skip
MIXED_NUMBERS = [
    1, 2, 2, 1, NAN, NAN, NAN, NAN, NAN, NAN, NAN,
    2, 2, NAN, NAN, NAN, NAN, NAN, NAN, NAN, NAN, 2, NAN, NAN, 10,
]  # fmt: skip
MIXED_CODES = [0, 1, 1, 0, NO, NO, NO, NO, NO, NO, NO, 1, 1, NO, NO, NO, NO, NO, NO, NO, NO, 1, 2, NO, NO]

COLUMNS: dict[str, tuple[pd.Series[Any], list[float], list[int]]] = {
    "int64": (pd.Series([-1, 2, 30]), [0, 2, 10], [NO, 1, NO]),
    "uint64": (pd.Series([2**64 - 1, 1], dtype="uint64"), [10, 1], [NO, 0]),
    "float": (pd.Series([1.0, NAN, math.inf, -math.inf]), [1, NAN, NAN, NAN], [0, NO, NO, NO]),
    "float16": (pd.Series([2.0], dtype="float16"), [2], [1]),
    "longdouble": (pd.Series(np.array([2, "1e4000"], dtype=np.longdouble)), [2, NAN], [1, NO]),
    "bool": (pd.Series([True, False]), [1, 0], [0, NO]),
    "nullable int": (pd.Series([2, None], dtype="Int64"), [2, NAN], [1, NO]),
    "nullable float": (pd.Series([2.5, None], dtype="Float64"), [2.5, NAN], [NO, NO]),
    "nullable bool": (pd.Series([True, None], dtype="boolean"), [1, NAN], [0, NO]),
    "text": (pd.Series(["1.0", " x ", "y", None], dtype="str"), [1, NAN, NAN, NAN], [0, 2, NO, NO]),
    "python text": (pd.Series(["2", None], dtype="string[python]"), [2, NAN], [1, NO]),
    "arrow text": (pd.Series(["2", "x", None], dtype=pd.ArrowDtype(pa.string())), [2, NAN, NAN], [1, 2, NO]),
    "arrow int": (pd.Series([2, None], dtype=pd.ArrowDtype(pa.int64())), [2, NAN], [1, NO]),
    "arrow bool": (pd.Series([True, None], dtype=pd.ArrowDtype(pa.bool_())), [1, NAN], [0, NO]),
    "arrow decimal": (
        pd.Series([Decimal("2.5"), None], dtype=pd.ArrowDtype(pa.decimal128(5, 2))),
        [2.5, NAN],
        [NO, NO],
    ),
    "arrow null": (pd.Series([None], dtype=pd.ArrowDtype(pa.null())), [NAN], [NO]),
    "category of text": (pd.Series(["x", "1", "other", None], dtype="category"), [NAN, 1, NAN, NAN], [2, 0, NO, NO]),
    "category of int": (pd.Series([2, 3, None], dtype="category"), [2, 3, NAN], [1, NO, NO]),
    "sparse": (pd.Series(pd.arrays.SparseArray([0.0, 1.0, NAN])), [0, 1, NAN], [NO, 0, NO]),
    "bytes": (pd.Series(np.array([b"1"])), [NAN], [NO]),
    "mixed objects": (pd.Series(MIXED, dtype=object), MIXED_NUMBERS, MIXED_CODES),
    "category of dates": (pd.Series(pd.to_datetime(["2020-01-01"])).astype("category"), [NAN], [NO]),
    "category of objects": (pd.Series(pd.Categorical.from_codes([0, 1, -1], [b"1", "2"])), [NAN, 2, NAN], [NO, 1, NO]),
    "arrow category": (
        pd.Series(["2", None], dtype=pd.ArrowDtype(pa.dictionary(pa.int8(), pa.string()))),
        [2, NAN],
        [1, NO],
    ),
    "empty": (pd.Series([], dtype=object), [], []),
}


def encoded(data: object, *columns: str) -> tuple[dict[str, Encoded], np.ndarray]:
    table = as_table(data)
    check_columns(table, DOMAIN, columns)
    return encode(table, columns, DOMAIN)


@pytest.mark.parametrize("name", COLUMNS)
def test_every_dtype_is_encoded(name: str) -> None:
    cells, numbers, codes = COLUMNS[name]
    columns, complete = encoded(pd.DataFrame({"r": cells, "l": cells}), "r", "l")
    np.testing.assert_array_equal(columns["r"], numbers)  # type: ignore[arg-type]
    assert isinstance(columns["l"], Codes)
    np.testing.assert_array_equal(columns["l"].values, codes)
    np.testing.assert_array_equal(complete, ~np.isnan(numbers) & (np.array(codes, dtype=int) >= 0))


def test_the_callers_frame_is_left_alone() -> None:
    frame = pd.DataFrame({"r": [-5.0, math.inf, 20.0]})
    before = frame.copy()
    encoded(frame, "r")
    pd.testing.assert_frame_equal(frame, before)


@pytest.mark.parametrize("order", [1, -1])
def test_equal_objects_of_different_kinds_do_not_shadow_each_other(order: int) -> None:
    # All of these are one dictionary key, and only the numbers stand for level 2.
    cells = [2, np.timedelta64(2, "s"), 2.0, Fraction(2), 2 + 0j][::order]
    frame = pd.DataFrame({"l": pd.Series(cells, dtype=object)})
    alone = [encoded(frame.iloc[[i]], "l")[0]["l"].values[0] for i in range(5)]  # type: ignore[union-attr]
    assert encoded(frame, "l")[0]["l"].values.tolist() == alone  # type: ignore[union-attr]
    assert alone[::order][0] == 1
    assert alone[::order][4] == NO


UNSUPPORTED: dict[str, pd.Series[Any]] = {
    "datetime": pd.Series(pd.to_datetime(["2020-01-01"])),
    "timedelta": pd.Series(pd.to_timedelta([1], unit="D")),
    "complex": pd.Series([1 + 2j]),
    "period": pd.Series(pd.period_range("2020", periods=1)),
    "interval": pd.Series(pd.interval_range(0, 1)),
    "arrow list": pd.Series([[1]], dtype=pd.ArrowDtype(pa.list_(pa.int64()))),
    "arrow date": pd.Series([datetime.date(2020, 1, 1)], dtype=pd.ArrowDtype(pa.date32())),
}


@pytest.mark.parametrize("name", UNSUPPORTED)
def test_dtypes_without_numbers_or_levels_are_refused(name: str) -> None:
    with pytest.raises(DomainError, match=r"column 'r' has dtype .*; (convert|make) it"):
        check_columns(as_table(pd.DataFrame({"r": UNSUPPORTED[name]})), DOMAIN, ["r"])


@pytest.mark.parametrize("cells", [[1, 2], [True, False]])
def test_integers_cannot_match_levels_of_text(cells: list[object]) -> None:
    with pytest.raises(DomainError, match=r"'sex' is (int64|bool), but none of its declared levels is"):
        check_columns(as_table({"sex": np.array(cells)}), Domain(sex=["F", "M"]), ["sex"])


def test_a_column_of_which_every_cell_is_missing_passes() -> None:
    check_columns(as_table({"sex": np.array([NAN, NAN])}), Domain(sex=["F", "M"]), ["sex"])


def test_columns_must_be_there_once() -> None:
    frame = as_table(pd.DataFrame([[1, 2, 3]], columns=["a", "b", "b"]))
    assert frame.column("a").kind == "numeric"
    with pytest.raises(DataError, match="more than one column 'b'"):
        frame.column("b")
    with pytest.raises(DataError, match="no column 'c'"):
        frame.column("c")
    with pytest.raises(DataError, match="no column 'a'"):
        as_table(pd.DataFrame([[1]], columns=pd.MultiIndex.from_tuples([("a", "b")]))).column("a")
