"""Residuals that are supposed of a described response: skewed near an end of its range, normal elsewhere."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from scipy import stats

import dpstats as dp
from dpstats.models.residual_law import NEAR, ResidualLaw

DOMAIN = {"age": (18, 100), "smoker": ["never", "former", "current"], "cost": (0, 50_000)}
COLUMNS = {"age": (52, 14), "smoker": {"never": 0.55, "former": 0.28, "current": 0.17}}
PLAN = dp.plan("cost ~ age + smoker", DOMAIN, 1.0)
ROWS = 14_000


def costs(seed: int, n: int = ROWS) -> pd.DataFrame:
    """Costs of a gamma law of shape 1/2 that no column explains."""
    random = np.random.default_rng(seed)
    return pd.DataFrame(
        {
            "age": np.clip(random.normal(52, 14, n).round(), 18, 100),
            "smoker": random.choice(["never", "former", "current"], n, p=[0.55, 0.28, 0.17]),
            "cost": np.clip(random.gamma(0.5, 5000, n), 0, 50_000),
        }
    )


def described(mean: float, sd: float) -> pd.DataFrame:
    return PLAN.standard_errors(ROWS, typical={**COLUMNS, "cost": (mean, sd)}, residual_sd=sd)


def test_fits_of_a_skewed_response_are_below_the_errors_that_are_promised() -> None:
    """Six fits with fixed seeds. By normal residuals few have all of them below `upper`."""
    forecast = described(2500, 3536)
    fits = pd.DataFrame([dp.ols("cost ~ age + smoker", costs(i), 1.0, domain=DOMAIN, seed=i).bse for i in range(6)])
    assert (fits <= forecast["upper"]).all(axis=None)
    # Columns are taken to be correlated, so that the forecasts of slopes are larger.
    assert (forecast["std_error"] / fits.median()).between(0.98, 1.2).all()


def test_a_response_is_skewed_within_three_standard_deviations_of_an_end() -> None:
    """At either end; a standard deviation of 4,000 in both, so that the errors differ by the cap alone."""
    skewed, normal = described(11_800, 4000)["std_error"], described(12_001, 4000)["std_error"]
    assert (skewed[["Intercept", "age"]] > 1.08 * normal[["Intercept", "age"]]).all()
    other = described(50_000 - 11_800, 4000)["std_error"]
    assert other["age"] == pytest.approx(skewed["age"], rel=0.05)


@pytest.mark.parametrize(("mean", "sd"), [(2500, 3536), (47_000, 6000), (25_000, 14_434)])
def test_residuals_have_the_skewness_of_the_response(mean: float, sd: float) -> None:
    """A beta law of mean 0 and variance 1, of 200,000 draws with a fixed seed; the third one is uniform."""
    law = ResidualLaw.of_response(0, 50_000, mean, sd)
    drawn = law.drawn(200_000, np.random.default_rng(0))
    assert drawn.mean() == pytest.approx(0, abs=0.01)
    assert drawn.var() == pytest.approx(1, abs=0.03)
    share = mean / 50_000
    total = share * (1 - share) / (sd / 50_000) ** 2 - 1
    skewness = float(stats.beta(share * total, (1 - share) * total).stats("s"))
    assert stats.skew(drawn) == pytest.approx(skewness, abs=0.1)
    assert np.mean(drawn < law.quantile(0.8)) == pytest.approx(0.8, abs=0.005)


@pytest.mark.parametrize("deviation", [0.0, 1 / NEAR])
def test_residuals_far_from_both_ends_are_normal(deviation: float) -> None:
    law = ResidualLaw.of_response(-1.0, 1.0, 0.0, deviation)
    drawn, normal = law.drawn(1000, np.random.default_rng(1)), np.random.default_rng(1).standard_normal(1000)
    np.testing.assert_array_equal(drawn, normal)
    assert law.quantile(0.975) == pytest.approx(1.96, abs=0.001)


def test_a_response_of_two_values_has_a_forecast() -> None:
    """No beta law has all of its rows at the ends."""
    assert ResidualLaw.of_response(0, 1, 0.1, 0.3).shapes is None
    plan = dp.plan("ill ~ age", {"age": (18, 100), "ill": (0, 1)}, 1.0)
    assert np.isfinite(plan.standard_errors(50_000, typical={"age": (52, 14), "ill": 0.1})["std_error"]).all()
