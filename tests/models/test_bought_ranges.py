"""Ranges bought by a fit: what has been planned is fitted, whatever ranges the purchase returns."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import dpstats as dp

FORMULAS = {
    "y ~ x": "gaussian",
    "y ~ np.log(x)": "gaussian",
    "np.log(y) ~ x": "gaussian",
    "y ~ np.sqrt(x) + I(1 / x)": "gaussian",
    "y ~ bs(x, df=4)": "gaussian",
    "y ~ poly(x, 3) + constant": "gaussian",
    "y ~ x + np.maximum(x - 2**52, 0)": "gaussian",
    "c ~ x": "poisson",
    "b ~ x": "binomial",
}


def frame(rows: int) -> pd.DataFrame:
    random = np.random.default_rng(rows)
    return pd.DataFrame({
        "x": random.uniform(1, 100, rows),
        "y": random.normal(size=rows),
        "c": random.poisson(2, rows),
        "b": random.integers(0, 2, rows),
        "constant": np.zeros(rows),
    })  # fmt: skip


@pytest.mark.parametrize("rows", [0, 1, 200])
@pytest.mark.parametrize("formula", FORMULAS)
def test_a_spent_budget_always_buys_a_fit(formula: str, rows: int) -> None:
    """With few rows the ranges are arbitrary: often entirely below zero, where logarithms and counts have no values."""
    for seed in range(8):
        fit = dp.glm(formula, frame(rows), eps=1.0, family=FORMULAS[formula], seed=seed)
        assert np.isfinite(fit.params).all()
        assert fit.budget.loc["ranges", "eps"] == pytest.approx(0.1)


def test_a_curvature_that_bought_counts_may_outgrow_is_refused_before_the_charge() -> None:
    with pytest.raises(dp.errors.ArgumentError, match="curvature"):
        dp.poisson("c ~ x", frame(200), 1.0, curvature=3.0)
    dp.poisson("c ~ x", frame(200), 1.0, curvature=300.0, domain={"c": (0, 20)})
