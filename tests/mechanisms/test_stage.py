"""What every mechanism's plan answers: callers use this alone, and never ask which mechanism a plan is of."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import dpstats as dp
from dpstats.data import block_rows
from dpstats.mechanisms.napp import MECHANISMS, stored_plan
from dpstats.mechanisms.stage import StagePlan
from dpstats.privacy.randomness import random_source

DOMAIN = {"x": (-1, 1), "y": (0, 1)}
CALLS: dict[str, dict[str, Any]] = {
    "objective": {"inference": True},
    "pilot": {"stages": 2, "penalty": "scad", "alpha": 1.0},
    "output": {"method": "output"},
    "posterior": {"method": "posterior", "delta": 1e-6},
    "region": {"method": "posterior"},
    "statistics": {"method": "statistics"},
}


class Asked:
    """Names the table of the excess risk that a plan takes."""

    def __getattr__(self, name: str) -> Any:
        return lambda *arguments: name


@pytest.fixture(params=CALLS)
def plan(request: pytest.FixtureRequest) -> dp.Plan:
    return dp.plan("y ~ x", DOMAIN, 1.0, **CALLS[request.param])


@pytest.fixture
def stage(plan: dp.Plan) -> StagePlan:
    return plan.stages[-1].plan


def test_a_stored_plan_comes_back_as_it_was(stage: StagePlan) -> None:
    again = stored_plan(json.loads(json.dumps(stage.to_dict())))
    assert type(again) is type(stage) is MECHANISMS[stage.released]
    assert again.to_dict() == stage.to_dict()
    assert again.cost == stage.cost


def test_a_release_is_as_long_as_the_plan_and_has_what_it_says(plan: dp.Plan, stage: StagePlan) -> None:
    random = np.random.default_rng(1)
    rows = block_rows([(np.column_stack((np.full(50, 0.5), random.uniform(-0.5, 0.5, 50))), random.uniform(-1, 1, 50))])
    released = stage.release(plan.design, rows, random_source(1))
    assert released.params.shape == (stage.size,)
    assert np.isfinite(released.params).all()
    assert (released.information is not None) == (stage.information is not None or stage.statistics is not None)


def test_what_is_shown_of_the_noise_fits_its_headers(stage: StagePlan) -> None:
    title, headers, rows = stage.noise_facts
    assert title
    assert rows
    assert all(len(cells) == len(headers) for _, cells in rows)
    assert (stage.noise_variances > 0).all()


def test_predictions_are_covariances(stage: StagePlan) -> None:
    noise, bias = stage.predicted_error(1e4 * np.eye(stage.size), np.ones(stage.size))
    for matrix in (noise, bias):
        assert matrix.shape == (stage.size, stage.size)
        assert np.linalg.eigvalsh((matrix + matrix.T) / 2).min() >= -1e-12 * np.trace(matrix)
    bounds = stage.noise_bounds(np.eye(stage.size))
    assert bounds.shape == (stage.size,)
    if stage.statistics is None:
        assert (bounds**2 >= np.diag(noise) * (1 - 1e-9)).all()


def test_a_bound_on_the_risk_is_taken_where_one_is_proved(stage: StagePlan) -> None:
    assert (stage.risk(Asked()) == "unproved") == (not stage.risk_is_proved)  # type: ignore[arg-type]


def test_nothing_outside_asks_which_mechanism_a_plan_is_of() -> None:
    kinds = "|".join(mechanism.__name__ for mechanism in MECHANISMS.values())
    package = Path(dp.__file__).parent
    outside = [path for path in package.rglob("*.py") if path.parent.name != "mechanisms"]
    assert [str(path) for path in outside if re.search(rf"\b(?:{kinds})\b", path.read_text())] == []
