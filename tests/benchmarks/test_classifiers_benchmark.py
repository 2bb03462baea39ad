"""A fast version of benchmarks/replications/classifiers, on made-up rows with seeds."""

from __future__ import annotations

import math

import numpy as np
import pandas as pd
import pytest

from benchmarks.replications import classifier_figures as figures
from benchmarks.replications import classifiers
from benchmarks.replications.connections import connections
from dpstats.families import HuberSVM


@pytest.fixture(name="halves")
def fixture_halves() -> tuple[tuple[np.ndarray, np.ndarray], tuple[np.ndarray, np.ndarray]]:
    random = np.random.default_rng(3)
    exog = random.normal(size=(6000, 6))
    exog /= np.linalg.norm(exog, axis=1, keepdims=True)
    endog = (exog[:, 0] + 0.3 * random.normal(size=6000) > 0.1).astype(float)
    return (exog[:4000], endog[:4000]), (exog[4000:], endog[4000:])


def test_the_objective_is_the_better_place(halves, monkeypatch: pytest.MonkeyPatch) -> None:
    """At eps = .5 the margin of ours is six standard deviations of its runs (12 of them); theirs have fixed seeds."""
    monkeypatch.setattr(classifiers, "EPS", 0.5)
    monkeypatch.setattr(classifiers, "EXPONENTS", (-2.5,))
    found = pd.DataFrame(
        [line for seed in range(3) for line in classifiers.errors("Huber SVM", HuberSVM(0.5), *halves, seed)],
        columns=["loss", "method", "exponent", "error"],
    )
    means = found[found["exponent"] == -2.5].groupby("method")["error"].mean()
    assert means["objective, ours"] < means["output, ours"]
    assert means["objective"] < means["output"]
    assert np.isnan(found["exponent"]).sum() == 6


def test_the_printed_algorithm_moves_to_its_second_case() -> None:
    """Where the curvature is too little, algorithm 2 adds what takes half of eps."""
    rows = np.zeros((0, 3)), np.zeros(0)
    tiny = classifiers.printed_objective(HuberSVM(0.5), rows, 1e-9, np.random.default_rng(0))
    added = 1 / math.expm1(classifiers.EPS / 4)
    noise = classifiers.gamma_noise(3, 4 / classifiers.EPS, np.random.default_rng(0))
    np.testing.assert_allclose(tiny, -noise / added, rtol=1e-4)


def test_the_stand_in_has_the_shape_of_kddcup99() -> None:
    exog, endog = connections(4000, np.random.default_rng(1))
    assert exog.shape == (4000, 119)
    assert np.linalg.norm(exog, axis=1) == pytest.approx(1.0)
    assert 0.15 < endog.mean() < 0.25


def test_the_stored_figures_are_of_this_script() -> None:
    assert set(figures.read("learning")["n"]) == set(figures.SIZES)
    assert set(figures.read("tradeoff")["eps"]) == {0.0, *figures.BUDGETS}
    table = figures.read("table")
    assert set(table["exponent"].dropna()) == set(figures.EXPONENTS)
    # Where the curvature is large enough not to be raised, the run is of the printed size.
    wide = table[(table["method"] == "not private") & (table["exponent"] == -7.0)]
    assert (wide["error"] < 0.003).all()


@pytest.mark.slow
def test_every_method_has_an_error_at_every_budget() -> None:
    random = np.random.default_rng(2)
    training, test = connections(3000, random), connections(1000, random)
    chosen = dict.fromkeys(("not private", "output", "objective"), -1.5)
    found = list(figures.by_budget(HuberSVM(0.5), training, test, chosen, 3))
    assert {(method, eps) for method, eps, *_ in found} == {
        ("not private", 0.0),
        *((method, eps) for method in figures.METHODS[1:] for eps in figures.BUDGETS),
    }
    assert all(0 <= error <= 1 for *_, error in found)
