"""Plain arrays as rows: clipped to every bound, row by row, without needless copies."""

from __future__ import annotations

from decimal import Decimal

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from dpstats.errors import ArgumentError, DataError
from dpstats.families import Binomial, Gaussian
from dpstats.mechanisms.design import array_norms
from dpstats.models.arrays import array_blocks, check_array

CELLS = st.floats(allow_nan=True, allow_infinity=True, width=64)


@given(
    arrays(np.float64, st.tuples(st.integers(0, 12), st.integers(1, 5)), elements=CELLS),
    st.dictionaries(st.sampled_from(["l1", "l2", "linf"]), st.floats(1e-6, 1e6), min_size=1),
)
@settings(max_examples=300, deadline=None)
def test_every_row_is_within_every_bound(exog: np.ndarray, norms: dict[str, float]) -> None:
    endog = np.zeros(len(exog))
    for block, response in array_blocks(endog, exog, Binomial(), norms):
        assert np.isfinite(block).all()
        assert len(block) == len(response)
        for name, bound in norms.items():
            order = {"l1": 1, "l2": 2, "linf": np.inf}[name]
            assert np.all(np.linalg.norm(block, ord=order, axis=1) <= bound)


@given(
    arrays(np.float64, st.tuples(st.integers(2, 8), st.integers(1, 4)), elements=CELLS),
    st.integers(0, 7),
    arrays(np.float64, 4, elements=CELLS),
)
@settings(max_examples=200, deadline=None)
def test_one_row_never_changes_another(exog: np.ndarray, index: int, cells: np.ndarray) -> None:
    """Changing a row leaves the encoding of all the others bit for bit as it was."""
    index %= len(exog)
    other = exog.copy()
    other[index] = cells[: exog.shape[1]]
    others = np.arange(len(exog)) != index
    endog = np.zeros(len(exog))
    kept = [array_blocks(endog[others], data[others], Gaussian(1.0), {"l2": 1.0})[0][0] for data in (exog, other)]
    whole = [array_blocks(endog, data, Gaussian(1.0), {"l2": 1.0})[0][0] for data in (exog, other)]
    assert np.array_equal(kept[0], kept[1])
    for block in whole:
        assert len(block) - len(kept[0]) in (0, 1)
        assert {row.tobytes() for row in kept[0]} <= {row.tobytes() for row in block}


def test_clean_rows_are_not_copied() -> None:
    exog = np.full((200_000, 3), 0.1)
    blocks = array_blocks(np.zeros(200_000), exog, Binomial(), {"l2": 1.0})
    assert all(np.shares_memory(block, exog) for block, _ in blocks)
    assert sum(len(block) for block, _ in blocks) == 200_000


@pytest.mark.parametrize(
    "values",
    [
        np.array(["a", "b"]),
        np.array([1j, 2]),
        np.array([[1.0, 2.0]]),
        np.array(["2020-01-01"], dtype="datetime64[D]"),
        [[1.0], [2.0]],
        np.array([{"a": 1}], dtype=object),
    ],
)
def test_wrong_types_and_shapes_are_refused(values: object) -> None:
    with pytest.raises(DataError, match="endog"):
        check_array("endog", values, 1)


UNUSUAL: list[object] = [None, "a", 2**70, np.nan, True, b"1", [], Decimal("sNaN"), 1j]


@pytest.mark.parametrize("cell", UNUSUAL, ids=repr)
def test_a_cell_of_a_list_never_decides_its_type(cell: object) -> None:
    """numpy would take all cells for text or objects because of one of them, and an error would tell of it."""
    endog = check_array("endog", [1.0, cell, 3], 1)
    assert endog.dtype == np.float64
    assert endog[[0, 2]].tolist() == [1, 3]
    assert check_array("exog", [[1, 2], [cell, 4]], 2)[:, 1].tolist() == [2, 4]


@pytest.mark.parametrize("dtype", ["Int64", "boolean", "Float64", "UInt8", "Sparse[float]"])
def test_a_missing_cell_never_decides_the_type(dtype: str) -> None:
    """An array of pandas holds objects only where a cell is missing; so does a frame of several such columns."""
    full, holed = pd.Series([1, 0], dtype=dtype), pd.Series([1, np.nan], dtype=dtype)
    both = [pd.DataFrame({"a": column, "b": [True, False], "c": [1, 2]}) for column in (full, holed)]
    for name, ndim, values in [
        ("endog", 1, full),
        ("endog", 1, holed),
        ("endog", 1, holed.array),
        ("exog", 2, both[1]),
    ]:
        assert check_array(name, values, ndim).dtype == np.float64
    assert np.isnan(check_array("exog", both[1], 2)).sum() == 1
    with pytest.raises(DataError, match="exog must hold real numbers, got dtype object"):
        check_array("exog", both[0].assign(d=["u", "v"]).astype({"d": object}), 2)


def test_numbers_too_large_for_float64_are_missing_without_a_warning() -> None:
    huge = np.array(["1", "1e4000"], dtype=np.longdouble)
    (exog, endog), *_ = array_blocks(np.zeros(2), huge[:, None], Gaussian(1.0), {"l2": 1.0})
    assert len(exog) == len(endog) == 1
    assert len(array_blocks(huge, np.ones((2, 1)), Gaussian(1.0), {"l2": 1.0})[0][1]) == 1


@pytest.mark.parametrize("bound", [1e-101, 1e-170, 1e101, 0.0, np.inf])
def test_bounds_at_which_squares_vanish_are_refused(bound: float) -> None:
    """At 1e-170 the square of a cell of 1e-163 is 0, and the row would pass for a short one."""
    with pytest.raises(ArgumentError, match="row_norm"):
        array_norms(bound, 3)
