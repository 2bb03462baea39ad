"""The whole of a screened fit by its outputs alone: not refuted as charged, refuted with a planted error.

A sound mechanism fails with probability at most 0.001 an audit with a fresh seed; seeds are fixed.
"""

from __future__ import annotations

import pickle
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from certified import Case, Release

from dpstats.audit import audit
from dpstats.families import Binomial
from dpstats.mechanisms import screening

RUNS = 500
SEED = 12
OPTIONS = {"screen": 1, "screen_share": 0.9}
BOUNDS = {"linf": 1.0}


@pytest.fixture(autouse=True)
def planned_once(monkeypatch):
    """The fit of the chosen columns is planned once for the same arguments, all of which count."""
    plan_part, kept = screening._plan_part, {}

    def once(*arguments, **options):
        key = pickle.dumps((arguments, options))
        if key not in kept:
            kept[key] = plan_part(*arguments, **options)
        return kept[key]

    monkeypatch.setattr(screening, "_plan_part", once)


class Screened(Case):
    """A case whose outputs are the coefficients and which of them were kept."""

    def mechanism(self, **options: Any):
        release = Release(self, self.plan, secure=False)
        return lambda data, rng: release(data, rng)[0]


def case(adjacency: str, eps: float = 2.0, **options: Any) -> Screened:
    every = {**OPTIONS, **options}
    return Screened("screened", Binomial(), "", eps, 0.0, adjacency, BOUNDS, size=2, options=every)


def rows(*signs: tuple[float, float]) -> tuple[np.ndarray, np.ndarray]:
    return np.ones(len(signs)), np.array(signs, dtype=float).reshape(-1, 2)


# One row more raises one score and lowers the other by all it can; one row replaced moves them by twice that.
PAIRS = {
    "add_remove": (rows((0, 1), (0, 1)), rows((0, 1), (0, 1), (1, -1))),
    "replace_one": (rows((1, 1), (1, 1), (-1, 1)), rows((1, 1), (1, 1), (1, -1))),
}


def result(adjacency: str, found: Screened, claim: float):
    return audit(found.mechanism(), *PAIRS[adjacency], eps=claim, runs=RUNS, seed=SEED)


@pytest.mark.slow
@pytest.mark.parametrize("adjacency", PAIRS)
@pytest.mark.parametrize("options", [{}, {"penalty_weights": {"x1": 0.0}, "screen": 1}], ids=["arrays", "null model"])
def test_the_claim_is_not_refuted(adjacency, options):
    if options:
        found = replace(case(adjacency, penalty="ridge", alpha=1.0, **options), size=3)
        pair = [(endog, np.column_stack([np.ones(len(exog)), exog])) for endog, exog in PAIRS[adjacency]]
        outcome = audit(found.mechanism(), *pair, eps=2.0, runs=RUNS // 3, seed=SEED)
    else:
        outcome = result(adjacency, case(adjacency), 2.0)
    assert outcome.passed, outcome.summary()


@pytest.mark.slow
@pytest.mark.parametrize("adjacency", PAIRS)
def test_a_sixth_of_the_noise_is_refuted(adjacency, monkeypatch):
    sound = screening.noise_scale
    monkeypatch.setattr(screening, "noise_scale", lambda eps, notion: sound(eps, notion) / 6)
    assert not result(adjacency, case(adjacency), 2.0).passed


def test_the_plan_reads_no_row():
    found = case("add_remove")
    first, second = PAIRS["add_remove"]
    assert found.plan_for(first).digest() == found.plan_for(second).digest() == found.plan.digest()


@pytest.mark.slow
def test_the_charge_and_the_noise_of_the_fit_do_not_follow_the_rows():
    """Columns alike in their bounds: every release has the noise of the plan."""
    found = case("add_remove")
    data = PAIRS["add_remove"][1]
    fits = [found.model(data).fit(2.0, seed=seed, **OPTIONS) for seed in range(20)]
    assert len({fit.plan.screening.kept for fit in fits}) == 2
    for fit in fits:
        assert fit.noise.scale == found.plan.noise.scale
        assert fit.budget.equals(found.plan.budget)
