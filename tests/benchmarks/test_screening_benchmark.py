"""A fast version of `benchmarks.methods.screening`: fewer draws, marks over four standard errors below the mean."""

from __future__ import annotations

import time

import pytest

from benchmarks.methods import screening


@pytest.mark.slow
@pytest.mark.parametrize(("eps", "mark"), [(0.3, 0.26), (1.0, 0.31)])
def test_sparse_logistic_regression_on_500_columns(eps: float, mark: float) -> None:
    """The means are .313 and .333, of draws .023 and .006 apart (24 and 8 draws); the first has a few poor draws."""
    fits = {
        "formula": screening.by_formula(eps, screen=screening.KEPT, seed=0),
        "exact": screening.maximum_likelihood(5),
    }
    found = screening.compare(fits, screening.ACTIVE, draws=4)
    assert found["formula"].mean >= mark
    assert found["exact"].mean == pytest.approx(0.34, abs=0.03)


def test_dense_truths_lose() -> None:
    """Fifty columns that all matter: .04 with screening, .23 without, of draws .006 apart."""
    fits = {"screen": screening.by_array(0.3, screen=screening.KEPT), "all": screening.by_array(0.3)}
    found = screening.compare(fits, 50, draws=2, columns=50)
    assert found["screen"].mean < found["all"].mean - 0.1


@pytest.mark.slow
def test_a_formula_of_500_columns_takes_seconds() -> None:
    start = time.process_time()
    screening.seconds()
    assert time.process_time() - start < 20
