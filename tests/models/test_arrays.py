"""Plain arrays as rows: clipped to every bound, row by row, without needless copies."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from dpstats.errors import DataError
from dpstats.families import Binomial, Gaussian
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
        [[1.0], [1.0, 2.0]],
        np.array([{"a": 1}], dtype=object),
    ],
)
def test_wrong_types_and_shapes_are_refused(values: object) -> None:
    with pytest.raises(DataError, match="endog"):
        check_array("endog", values, 1)
