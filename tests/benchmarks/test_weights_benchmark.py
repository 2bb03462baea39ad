"""A fast version of `benchmarks.methods.weights`; marks lie far beyond what eight draws showed (docs/benchmarks)."""

from __future__ import annotations

import pytest

from benchmarks.methods.weights import count_figures, exposure_figures, weight_figures

ROWS = 20_000


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:means above")
def test_an_exposure_costs_little() -> None:
    """At 200,000 rows the gap is .00005; at 20,000, with eps 1, about .001: ten times that is not met by chance."""
    found = exposure_figures(ROWS, 1.0, 1)
    assert found["not private"] == pytest.approx(0.205, abs=0.01)
    assert found["not private"] - found["exposure"] < 0.01


@pytest.mark.slow
def test_weights_and_counts_cost_little() -> None:
    for figures, name in ((weight_figures, "weighted"), (count_figures, "counts")):
        found = figures(ROWS, 1.0, 1)
        assert found["not private"] - found[name] < 0.004
