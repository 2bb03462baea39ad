"""A fast version of benchmarks/prediction/grid. Its noise is seeded: nothing here fails by chance."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks.prediction import grid


@pytest.mark.slow
@pytest.mark.parametrize(("name", "eps"), [("HMDA", 1.0), ("Computers", 0.3), ("DoctorVisits", 0.3)])
def test_no_fit_is_below_a_constant_and_a_delta_costs_nothing(name: str, eps: float) -> None:
    """Insisting on Gaussian noise costs some of what is explained, most where it is a mean: that choice is tested."""
    found = grid.line(name, eps, draws=3)
    assert found["n eps"] >= grid.ENOUGH
    assert found["not below"]
    assert found["no worse"]
    assert found["noise"] == "laplace"
    # What a fit of more rows pays for errors hides some of it.
    assert found["gaussian"] < (0.93 if name == "HMDA" else 0.98) * found["no delta"]  # type: ignore[operator]


def test_both_marks_can_be_missed() -> None:
    """Planted: fits below the constant, and a delta that takes a little away on every split."""
    good = np.array([0.20, 0.22, 0.24])
    assert grid.not_below(5_000, good, good)
    assert not grid.not_below(5_000, good, good - 0.3)
    assert grid.not_below(500, good - 0.3)
    assert grid.no_worse(good, good)[0]
    assert not grid.no_worse(good, good - np.array([0.010, 0.011, 0.012]))[0]
