"""What released counts and coefficients settle after the charge stays within it, whatever they are: no fit is lost."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import dpstats as dp
from dpstats.call import make_request
from dpstats.models.adaptive import carried_out, settled
from dpstats.models.sources import FormulaSource

DOMAIN = {"x": (-3, 3), "z": (-3, 3), "y": (-5, 5)}


@pytest.mark.parametrize("delta", [1e-9, 1e-6, 1e-4, 3e-4])
@pytest.mark.parametrize("inference", ["auto", True, "robust"])
@pytest.mark.parametrize("options", [{}, {"screen": 1}, {"screen": 1, "split": "rows"}])
def test_the_law_of_the_noise_is_that_of_the_charge_for_any_count(
    delta: float, inference: object, options: dict[str, Any]
) -> None:
    """Fewer rows than an interval of the response needs had turned Laplace noise into Gaussian noise."""
    source = FormulaSource("y ~ x + z", None, DOMAIN)
    request = make_request(eps=1.0, delta=delta, family="gaussian", inference=inference, **options)  # type: ignore[arg-type]
    plan = source.plan(request, alone=True)
    assert plan.counts is not None
    for rows in (-1e6, 0.0, 5.0, 400.0, 3e4, 1e9):
        for found in (carried_out(plan, rows), settled(plan, rows)):
            assert {stage.plan.noise.kind for stage in found.stages} <= {plan.stages[-1].plan.noise.kind}
            assert found.guarantee.delta <= plan.guarantee.delta


@pytest.mark.parametrize("delta", [1e-4, 3e-4])
def test_a_fit_of_few_rows_with_a_delta_is_released(delta: float) -> None:
    random = np.random.default_rng(0)
    rows = {"x": random.uniform(-3, 3, 400), "z": random.uniform(-3, 3, 400), "y": random.normal(size=400)}
    for seed in range(3):
        assert dp.ols("y ~ x + z", rows, 1.0, delta=delta, inference=True, domain=DOMAIN, seed=seed).params.size == 3


def test_predictors_without_weight_lose_no_fit() -> None:
    """Released coefficients of several hundred leave no row a weight, and fit statistics nothing to divide by."""
    for seed in range(8):
        random = np.random.default_rng(seed)
        rows = {"x": random.uniform(-3, 3, 100), "c": random.poisson(0.01, 100)}
        family = dp.families.Poisson(mean_cap=0.001)
        domain = {"x": (-3, 3), "c": (0, 5000)}
        found = dp.glm("c ~ x", rows, 1.0, family=family, domain=domain, inference=True, on_mismatch="go", seed=seed)
        assert np.isfinite(found.params).all()


def test_a_refit_that_cannot_be_planned_is_refused_before_the_charge() -> None:
    columns = list("uvxzabcdefhij")
    random = np.random.default_rng(0)
    rows = {name: random.uniform(-1, 1, 200) for name in columns} | {"k": random.poisson(2, 200)}
    rows["g"] = random.choice(list("lmnopqr"), 200)
    domain = dict.fromkeys(columns, (-1, 1)) | {"k": (0, 1e6), "g": list("lmnopqr")}
    formula = f"k ~ {' + '.join(columns)} + C(g)"
    for eps in (0.005, 0.01):
        try:
            dp.plan(formula, domain, eps, family="negative_binomial", screen=8, response="declared")
        except dp.errors.ArgumentError:
            continue
        found = dp.glm(
            formula, rows, eps, family="negative_binomial", domain=domain, screen=8, response="declared",
            on_mismatch="go", seed=1,
        )  # fmt: skip
        assert len(found.selection)
