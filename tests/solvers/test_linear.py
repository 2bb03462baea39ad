"""Weighted squares of rows, by BLAS in two ways: deterministic."""

from __future__ import annotations

import numpy as np
import pytest

from dpstats.solvers.linear_algebra import CHUNK_ROWS, SMALL_COLUMNS, square_rows, weighted_square


@pytest.mark.parametrize("size", [1, 3, SMALL_COLUMNS, SMALL_COLUMNS + 1, 70])
@pytest.mark.parametrize("rows", [0, 1, 500])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_it_is_the_square(size: int, rows: int, dtype: type) -> None:
    random = np.random.default_rng(size)
    exog, weights = random.normal(size=(rows, size)).astype(dtype), random.random(rows)
    expected = sum(
        (w * np.outer(x, x) for w, x in zip(weights, exog.astype(float), strict=True)), np.zeros((size, size))
    )
    found = weighted_square(exog, weights)
    assert found.dtype == np.float64
    np.testing.assert_allclose(found, expected, atol=1e-5 if dtype == np.float32 and rows else 1e-12)
    np.testing.assert_allclose(found, found.T, rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("size", [1, 2, 15, 16, SMALL_COLUMNS, SMALL_COLUMNS + 1, 3000])
def test_pieces_have_rows(size: int) -> None:
    assert 900 < square_rows(size) <= CHUNK_ROWS
