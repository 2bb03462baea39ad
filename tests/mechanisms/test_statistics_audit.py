"""The auditor, which knows nothing of matrices, on the whole release of statistics."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import pytest

import dpstats as dp
from dpstats.families import Gaussian
from dpstats.formula.design import design_spec
from dpstats.mechanisms.statistics import StatisticsPlan, plan_statistics
from dpstats.privacy.guarantee import Adjacency

EPS, DELTA = 1.0, 1e-2
DESIGN = design_spec("y ~ a", {"y": (-1, 1), "a": (-1, 1)}, family=Gaussian())
NONE = pd.DataFrame({"y": [0.0], "a": [0.0]}).iloc[:0]
ONE = pd.DataFrame({"y": [1.0], "a": [1.0]})
OTHER = pd.DataFrame({"y": [-1.0], "a": [1.0]})


def mechanism(plan: StatisticsPlan) -> Callable[[Any, np.random.Generator], Any]:
    upper = np.triu_indices(plan.noise.size + 1)
    read = {id(data): plan.design.blocks(data) for data in (NONE, ONE, OTHER)}

    def release(data: Any, rng: np.random.Generator) -> Any:
        return plan.release(read[id(data)], rng)[upper]

    return release


def planned(delta: float, adjacency: Adjacency) -> StatisticsPlan:
    plan = plan_statistics(DESIGN, eps=EPS, delta=delta, adjacency=adjacency)
    assert plan.noise.law == ("normal" if delta else "wishart")
    return plan


@pytest.mark.slow
@pytest.mark.parametrize("delta", [0.0, DELTA])
@pytest.mark.parametrize("adjacency", ["add_remove", "replace_one"])
def test_the_auditor_finds_no_fault(adjacency: Adjacency, delta: float) -> None:
    plan = planned(delta, adjacency)
    neighbour = NONE if adjacency == "add_remove" else OTHER
    result = dp.audit(mechanism(plan), ONE, neighbour, eps=EPS, delta=plan.guarantee.delta, runs=6_000, seed=1)
    assert result.passed
    assert result.eps_lower > 0.1  # and it has seen something


@pytest.mark.parametrize("delta", [0.0, DELTA])
def test_the_auditor_finds_a_third_of_the_noise(delta: float) -> None:
    """Planted: the scale of three times the budget."""
    plan = planned(delta, "add_remove")
    bug = replace(plan, noise=replace(plan.noise, scale=plan.noise.scale / 3))
    assert not dp.audit(mechanism(bug), ONE, NONE, eps=EPS, delta=plan.guarantee.delta, runs=2_000, seed=1).passed
