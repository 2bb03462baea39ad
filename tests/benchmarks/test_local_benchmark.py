"""The benchmark of input perturbation runs, and its reports have the law of real ones."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks import local
from dpstats.local import Spec, fit, total


def test_it_compares_every_method() -> None:
    found = local.compare(1024, 1.0, "gaussian", runs=1)
    assert set(found) == {
        "input, statistics",
        "objective, central",
        "objective, norm 1",
        "input, features as printed",
        "input, features debiased",
    }
    assert all(np.isfinite(value) for value in found.values())


@pytest.mark.parametrize("family", ["gaussian", "binomial"])
def test_simulated_sums_have_the_law_of_reports(family: str) -> None:
    """Both sums are within 8 standard deviations of the statistics' own; false alarms below 1e-12."""
    random = np.random.default_rng(1)
    data = local.census(64, random)
    name = "log_income" if family == "gaussian" else "high"
    spec = Spec(local.DOMAIN, f"{name} ~ age + sex", eps=1.0, delta=0.01, n=64, family=family)  # type: ignore[arg-type]
    one = local.simulated_total(data, spec, random)
    other = total(local.simulated_reports(data, spec, random), spec)
    assert one.count == other.count == fit(one, spec).nobs
    assert np.abs(one.values - other.values).max() < 8 * spec.lattice.scale * np.sqrt(2 * 64)


def test_speed_is_measured() -> None:
    """Machines differ: a twentieth of the stated speed is a defect of the code."""
    found = local.speed(5000)
    assert found["randomize, ms a record"] < 400
    assert found["parquet, reports a second"] > 10_000
    assert found["jsonl, reports a second"] > 1_000
