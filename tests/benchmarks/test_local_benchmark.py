"""The benchmark of input perturbation runs, and its reports have the law of real ones."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks.replications import local, local_figures
from dpstats.local import Spec, fit, total
from dpstats.local.collector import local_design


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


@pytest.mark.parametrize("family", ["gaussian", "binomial"])
def test_sums_drawn_at_once_have_the_law_of_reports(family: str) -> None:
    """As above; what rounding each record's values moves is far less than one of the standard deviations."""
    random = np.random.default_rng(2)
    data = local.census(256, random)
    formula = f"{local_figures.RESPONSES[family]} ~ age + sex"
    spec = Spec(local.DOMAIN, formula, eps=1.0, delta=0.01, n=256, family=family)  # type: ignore[arg-type]
    exog, endog, *_ = local_design(formula, local.DOMAIN, family).blocks(data)[0]
    one = local_figures.total_of((exog, endog), spec, random)
    other = local.simulated_total(data, spec, random)
    assert one.count == other.count
    assert np.abs(one.values - other.values).max() < 8 * spec.lattice.scale * np.sqrt(2 * 256)


@pytest.mark.slow
def test_the_figures_have_every_method_and_a_table() -> None:
    found = local_figures.summarised(local_figures.results(1, (512,)))
    assert set(found["method"]) == set(local_figures.LABELS) == set(local_figures.read()["method"])
    assert len(found) == 2 * (1 + 2 * 4)
    assert (found.loc[found["method"] == "none", "above"] == 0).all()


def test_reports_are_drawn_anew_beside_what_is_stored() -> None:
    stored = local_figures.read()
    again = local_figures.summarised(local_figures.results(1, (128,), alone=True))
    found = local_figures.renewed(stored[stored["n"] == 128], again)
    assert found["method"].tolist() == stored.loc[stored["n"] == 128, "method"].tolist()
    assert found.loc[found["method"] == "input", "runs"].eq(1).all()
    assert found.loc[found["method"] != "input", "runs"].eq(100).all()
    assert found["error"].notna().all()


@pytest.mark.slow
def test_speed_is_measured() -> None:
    """Machines differ: a twentieth of the stated speed is a defect of the code."""
    found = local.speed(5000)
    assert found["randomize, ms a record"] < 400
    assert found["parquet, reports a second"] > 10_000
    assert found["jsonl, reports a second"] > 1_000
