"""Arrays and frames of numbers, judged by declared type and shape."""

from __future__ import annotations

from decimal import Decimal

import numpy as np
import pandas as pd
import pytest

import dpstats as dp
from dpstats.data import as_endog, as_exog
from dpstats.errors import DataError, DomainError

pa = pytest.importorskip("pyarrow")
pl = pytest.importorskip("polars")

NAN = np.nan
ALL = slice(0, 2)


@pytest.mark.parametrize(
    "values",
    [
        np.array(["a", "b"]),
        np.array([1j, 2]),
        np.array([[1.0, 2.0]]),
        np.array(["2020-01-01"], dtype="datetime64[D]"),
        np.array([{"a": 1}], dtype=object),
        pd.Series(["a", "b"]),
        pd.DataFrame({"a": [1.0]}),
        (cell for cell in [1, 2]),
        range(2),
        None,
    ],
)
def test_responses_of_wrong_types_and_shapes_are_refused(values: object) -> None:
    with pytest.raises(DataError, match="endog"):
        as_endog(values)


UNUSUAL: list[object] = [None, "a", 2**70, np.nan, True, b"1", [], [1, 2], Decimal("sNaN"), 1j]


@pytest.mark.parametrize("cell", UNUSUAL, ids=repr)
def test_a_cell_of_a_list_never_decides_its_type(cell: object) -> None:
    """numpy would take all cells for text or objects because of one of them, and an error would tell of it."""
    assert as_endog([1.0, cell, 3]).numbers()[[0, 2]].tolist() == [1, 3]


@pytest.mark.parametrize(
    "values",
    [
        [[1.0], [2.0]],
        [[1.0], [2.0, 3.0]],
        np.array([1.0, 2.0]),
        np.array([["a"]]),
        {"a": [1.0, 2.0]},
        pd.DataFrame({"a": ["u"]}),
        pd.Series([1.0]),
        pl.DataFrame({"a": ["u"]}),
        pd.DataFrame({"a": pd.Series([1, 2], dtype=object)}),
        None,
    ],
    ids=repr,
)
def test_matrices_of_wrong_types_and_shapes_are_refused(values: object) -> None:
    """A list of lists has no declared shape: a row of another length would be an error about that row."""
    with pytest.raises(DataError, match="exog"):
        as_exog(values)


@pytest.mark.parametrize("dtype", ["Int64", "boolean", "Float64", "UInt8", "Sparse[float]"])
def test_a_missing_cell_never_decides_the_type(dtype: str) -> None:
    """An array of pandas holds objects only where a cell is missing; so does a frame of several such columns."""
    full, holed = pd.Series([1, 0], dtype=dtype), pd.Series([1, np.nan], dtype=dtype)
    assert as_endog(full).numbers().tolist() == [1, 0]
    for values in (holed, holed.array):
        np.testing.assert_array_equal(as_endog(values).numbers(), [1, NAN])
    frames = [pd.DataFrame({"a": column, "b": [True, False], "c": [1, 2]}) for column in (full, holed)]
    matrices = [as_exog(frame) for frame in frames]
    assert all(matrix.names == ("a", "b", "c") for matrix in matrices)
    assert matrices[0].block(ALL).tolist() == [[1, 1, 1], [0, 0, 2]]
    assert np.isnan(matrices[1].block(ALL)).tolist() == [[False] * 3, [True, False, False]]
    with pytest.raises(DataError, match="exog must hold real numbers, got dtype object"):
        as_exog(frames[0].assign(d=["u", "v"]).astype({"d": object}))


def test_frames_of_other_kinds() -> None:
    for frame in (pl.DataFrame({"a": [1, 2], "b": [None, 0.5]}), pa.table({"a": [1, 2], "b": [None, 0.5]})):
        matrix = as_exog(frame)
        assert (matrix.rows, matrix.size, matrix.names) == (2, 2, ("a", "b"))
        np.testing.assert_array_equal(matrix.block(ALL), [[1, NAN], [2, 0.5]])


def test_masked_cells_are_missing() -> None:
    for data in (np.array([[1, 2], [3, 4]]), np.array([[1.0, 2], [3, 4]])):
        masked = np.ma.masked_array(data, mask=[[False, True], [False, False]])
        np.testing.assert_array_equal(as_exog(masked).block(ALL), [[1, NAN], [3, 4]])
        np.testing.assert_array_equal(as_exog(np.ma.masked_array(data)).block(ALL), data)


def test_float64_rows_are_not_copied() -> None:
    exog = np.ones((4, 2))
    assert np.shares_memory(as_exog(exog).block(ALL), exog)
    frame = pd.DataFrame(exog)
    assert np.shares_memory(as_exog(frame).block(ALL), frame.to_numpy())


@pytest.mark.parametrize("cells", [[(1, 2), (1, 2), (3, 4)], [(1, 2), (1, 2), 7]])
def test_categories_decide_no_error(cells: list[object]) -> None:
    """A dtype of categories hashes them: tuples of unequal lengths would raise another error."""
    frame = pd.DataFrame({"a": pd.Series(cells, dtype=object).astype("category"), "b": [1.0, 2, 3]})
    with pytest.raises(DataError, match="exog must hold real numbers, got dtype category"):
        as_exog(frame)


SECRET = "a cell"


@pytest.mark.parametrize(
    "values",
    [
        pl.Series([SECRET], dtype=pl.Enum([SECRET])),
        pl.Series([{SECRET: 1}]),
        pl.Series([[SECRET]], dtype=pl.List(pl.Enum([SECRET]))),
        pa.array([{SECRET: 1}]),
        pd.Series([{SECRET: 1}], dtype=pd.ArrowDtype(pa.struct([(SECRET, pa.int64())]))),
        np.array([(1.0,)], dtype=[(SECRET, "f8")]),
    ],
    ids=lambda values: type(values).__name__,
)
def test_a_refused_type_is_named_without_categories_and_fields(values):
    """They are often made from cells: of an Enum of a column's values, of the keys of dicts."""
    with pytest.raises(DataError, match="got dtype") as refused:
        as_endog(values)
    assert SECRET not in str(refused.value)


def test_a_refused_sparse_type_is_named_without_its_fill_value():
    sparse = pd.DataFrame({"x": pd.arrays.SparseArray([7361984, 7361984], fill_value=7361984), "y": [0.0, 1.0]})
    with pytest.raises(DomainError, match="none of its declared levels") as refused:
        dp.glm("y ~ x", sparse, 1.0, domain={"x": ["a", "b"], "y": (0, 1)})
    assert "7361984" not in str(refused.value)
