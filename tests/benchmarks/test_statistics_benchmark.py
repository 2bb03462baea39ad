"""A fast version of the benchmark of released statistics; samples and noise are seeded, so it cannot fail by chance."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks.methods.statistics import excess
from benchmarks.shared.census import COLUMNS, people


@pytest.mark.slow
@pytest.mark.parametrize(("rows", "eps", "mark"), [(1_000, 0.1, 1.0), (1_600, 1.0, 0.4), (16_000, 0.1, 0.4)])
def test_excess_error_beside_adassp(rows: int, eps: float, mark: float) -> None:
    found = excess(rows, eps, runs=12).mean()
    assert found["statistics"] <= mark * found["AdaSSP"]


def test_people() -> None:
    found = people(500, np.random.default_rng(0))
    assert tuple(sorted(found.columns)) == tuple(sorted(COLUMNS))
    assert found.notna().all().all()
    assert found["log_income"].between(6, 13).all()
