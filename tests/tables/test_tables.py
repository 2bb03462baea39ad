"""What is a table follows from types, names and declared lengths; only columns that are asked for are looked at."""

from __future__ import annotations

import collections
import datetime
from decimal import Decimal
from types import MappingProxyType
from typing import Any

import numpy as np
import pandas as pd
import pytest

from dpstats.data import as_table, slices
from dpstats.data.containers import column_of
from dpstats.errors import DataError

pa = pytest.importorskip("pyarrow")
pl = pytest.importorskip("polars")

NAN = np.nan


class Explosive:
    """A cell that no one may touch."""

    def __getattribute__(self, name: str) -> Any:
        raise AssertionError(f"a cell was asked for {name}")


TABLES: dict[str, Any] = {
    "pandas": pd.DataFrame({"a": [1.0, 2.0], "b": ["u", "v"]}),
    "dict of lists": {"a": [1, 2], "b": ("u", "v")},
    "dict of arrays": {"a": np.array([1, 2]), "b": np.array(["u", "v"])},
    "dict of Arrow arrays": {"a": pa.array([1, 2]), "b": pa.chunked_array([["u"], ["v"]])},
    "dict of polars Series": {"a": pl.Series([1, 2]), "b": pl.Series(["u", "v"])},
    "dict of pandas arrays": {"a": pd.array([1, 2]), "b": pd.Index(["u", "v"])},
    "mapping": MappingProxyType({"a": [1, 2], "b": ["u", "v"]}),
    "Arrow table": pa.table({"a": [1, 2], "b": ["u", "v"]}),
    "Arrow batch": pa.record_batch({"a": pa.array([1, 2]), "b": pa.array(["u", "v"])}),
    "polars": pl.DataFrame({"a": [1, 2], "b": ["u", "v"]}),
}


@pytest.mark.parametrize("name", TABLES)
def test_containers_of_every_kind_hold_the_same_cells(name: str) -> None:
    table = as_table(TABLES[name])
    assert table.labels == ("a", "b")
    assert table.rows == 2
    assert table.column("a").numbers().tolist() == [1, 2]
    assert table.column("b").codes({"v": 0, "u": 1}).tolist() == [1, 0]
    second = table.select(np.array([False, True]), 1)
    assert second.rows == 1
    assert second.column("b").codes({"v": 0}).tolist() == [0]
    assert table.column("a").select(slice(1, 2)).numbers().tolist() == [2]
    assert repr(table) == "<Table of 2 columns>"
    assert as_table(table) is table


@pytest.mark.parametrize(
    "data",
    [
        None,
        3,
        [[1, 2]],
        [{"a": 1}],
        np.ones((2, 2)),
        np.array([(1,)], dtype=[("a", int)]),
        pd.Series([1]),
        pl.Series([1]),
        iter([{"a": 1}]),
    ],
    ids=lambda data: type(data).__name__,
)
def test_what_declares_no_columns_is_refused_by_its_type(data: object) -> None:
    with pytest.raises(DataError, match=f"data must be a pandas or polars DataFrame.*got {type(data).__name__}$"):
        as_table(data)


UNDECLARED: list[Any] = [
    collections.deque([1, 2]),
    (cell for cell in [1, 2]),
    range(2),
    {1, 2},
    {0: 1, 1: 2},
    pd.Series([1, 2], index=[1, 0]),
    1,
    "ab",
    np.array(1),
    pd.DataFrame({"a": [1, 2]}),
]


@pytest.mark.parametrize("column", UNDECLARED, ids=lambda column: type(column).__name__)
def test_columns_that_declare_nothing_are_refused_only_when_asked_for(column: object) -> None:
    table = as_table({"y": [1, 2], "bad": column})
    assert table.rows == 2
    assert table.column("y").numbers().tolist() == [1, 2]
    with pytest.raises(DataError, match=r"column 'bad' of the mapping is a|must have one dimension, got 0"):
        table.column("bad")


@pytest.mark.parametrize("data", [{"a": [1], "b": []}, {"a": np.ones(2), "b": pa.array([1])}])
def test_columns_of_a_mapping_have_one_length(data: object) -> None:
    with pytest.raises(DataError, match="one length"):
        as_table(data)


def test_a_column_has_one_dimension() -> None:
    with pytest.raises(DataError, match="one dimension"):
        as_table({"a": np.ones((2, 2))}).column("a")


@pytest.mark.parametrize("data", [{}, pd.DataFrame(), pl.DataFrame(), pa.table({}), {0: {"a": 1}}], ids=repr)
def test_a_table_without_columns_lacks_each_of_them(data: object) -> None:
    """A dict of rows must not say another thing when it has none."""
    with pytest.raises(DataError, match=r"^data has no column 'a'$"):
        as_table(data).column("a")


def test_labels_of_an_index_are_not_looked_up() -> None:
    """numpy asks a Series for attributes, and pandas looks for them in its index."""
    labels = np.fromiter([Explosive(), Explosive()], dtype=object, count=2)
    series = pd.Series([1.0, 2.0])
    series.index = pd.Index(labels, dtype=object)
    column = column_of(series)
    assert column is not None
    assert column.numbers().tolist() == [1, 2]


def test_other_columns_are_never_looked_at() -> None:
    hostile = np.fromiter([Explosive(), Explosive()], dtype=object, count=2)
    far = pa.array([86_399_999_999_999, 1], pa.int64()).cast(pa.time64("ns"))
    year = pa.array([10_000 * 365, 1], pa.int32()).cast(pa.date32())
    for data in (
        {"a": [1, 2], "other": hostile, "list": [[1], [2, 3]]},
        pa.table({"a": [1.0, 2.0], "time": far, "date": year, "nested": [[1], None], "bool": [True, None]}),
        pl.DataFrame({"a": [1.0, 2.0], "time": [datetime.time(1), None], "object": pl.Series([object()] * 2)}),
    ):
        assert as_table(data).column("a").numbers().tolist() == [1, 2]


def test_columns_are_found_by_name_once() -> None:
    table = as_table(pd.DataFrame([[1, 2, 3]], columns=["a", "b", "b"]))
    with pytest.raises(DataError, match="more than one column 'b'"):
        table.column("b")
    with pytest.raises(DataError, match="no column 'c'"):
        table.column("c")


def test_slices_cover_all_rows_once() -> None:
    assert [(part.start, part.stop) for part in slices(5, 2)] == [(0, 2), (2, 4), (4, 5)]
    assert [(part.start, part.stop) for part in slices(0, 2)] == [(0, 0)]


def test_an_index_is_kept_for_predictions_and_selected_with_its_rows() -> None:
    table = as_table(pd.DataFrame({"a": [1.0, 2.0]}, index=["u", "v"]))
    assert table.index is not None
    assert table.index.tolist() == ["u", "v"]
    selected = table.select(np.array([False, True]), 1).index
    assert selected is not None
    assert selected.tolist() == ["v"]


@pytest.mark.parametrize("cell", [None, "a", 2**70, 1j, [], Decimal("sNaN"), datetime.date(2020, 1, 1)], ids=repr)
def test_a_cell_of_a_list_never_decides_its_type(cell: object) -> None:
    column = as_table({"a": [1, cell]}).column("a")
    assert column.type_name == "object"
    assert column.kind == "text"
    assert column.numbers()[0] == 1
