"""Negative binomial fits: like statsmodels' where privacy costs little, coefficients alone."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
import statsmodels.api as sm
import statsmodels.formula.api as smf

import dpstats as dp
from dpstats.errors import ArgumentError
from dpstats.families import get_family

DOMAIN = {"y": (0, 40), "x": (0, 1), "t": (0.5, 2), "g": ["a", "b"]}
ALPHA = 0.5


def frame(rows: int = 20_000) -> pd.DataFrame:
    rng = np.random.default_rng(12)
    data = pd.DataFrame({"x": rng.uniform(size=rows), "g": rng.choice(["a", "b"], rows)})
    data["t"] = rng.uniform(0.5, 2, rows)
    mean = data["t"] * np.exp(0.5 + data["x"] - 0.5 * (data["g"] == "b"))
    data["y"] = np.minimum(rng.poisson(mean * rng.gamma(1 / ALPHA, ALPHA, rows)), 40)
    return data


def test_a_fit_without_much_noise_is_that_of_statsmodels() -> None:
    family = dp.families.NegativeBinomial(ALPHA)
    data = frame()
    fit = dp.glm("y ~ x + g", data, 1e4, family=family, domain=DOMAIN, exposure="t", curvature=1e-3, seed=1)
    theirs = smf.glm("y ~ x + g", data, family=sm.families.NegativeBinomial(alpha=ALPHA), exposure=data["t"]).fit()
    np.testing.assert_allclose(fit.params[theirs.params.index], theirs.params, atol=2e-3)
    np.testing.assert_allclose(
        fit.predict(data.head(50)), theirs.predict(data.head(50), exposure=data["t"].head(50)), rtol=0.01
    )


def test_what_it_releases_and_what_not() -> None:
    fit = dp.glm("y ~ x + g", frame(2000), 1.0, family="negative_binomial", domain=DOMAIN)
    assert fit.guarantee.certified
    assert fit.released is None
    assert fit.plan.response is None
    with pytest.raises(AttributeError, match="family='poisson' has"):
        _ = fit.bse
    with pytest.raises(ArgumentError, match="family='poisson' has"):
        dp.plan("y ~ x", DOMAIN, 1.0, family="negative_binomial", inference=True)
    with pytest.raises(ArgumentError, match="declare the range"):
        dp.plan("y ~ x", DOMAIN, 1.0, family="negative_binomial", response="bought")
    for method in ("output", "objective"):
        assert dp.plan("y ~ x", DOMAIN, 1.0, family="negative_binomial", method=method).guarantee.certified


def test_it_is_evaluated_by_its_means() -> None:
    data = frame(5000)
    fit = dp.glm("y ~ x + g", data, 20.0, family="negative_binomial", domain=DOMAIN, exposure="t", seed=1)
    found = dp.evaluate(fit, data, 20.0, seed=2)
    error = np.abs(data["y"] - fit.predict(data)).mean()
    assert found.metrics.loc["mae", "estimate"] == pytest.approx(error, rel=0.1)
    with pytest.raises(ArgumentError, match="metrics must be among"):
        dp.evaluate(fit, data, 1.0, metrics=["deviance"])


@pytest.mark.parametrize("alpha", [0.0, -1.0, 1e-9, 1e9, float("nan"), "1"])
def test_a_dispersion_that_is_none_is_refused(alpha: object) -> None:
    with pytest.raises(ArgumentError, match="alpha"):
        dp.families.NegativeBinomial(alpha)  # type: ignore[arg-type]


def test_names_of_others() -> None:
    assert get_family(sm.families.NegativeBinomial(alpha=0.3)) == dp.families.NegativeBinomial(0.3)
    assert get_family("negbin") == dp.families.NegativeBinomial()
    again = dp.families.from_dict(dp.families.NegativeBinomial(0.3, 7.0).to_dict())
    assert again == dp.families.NegativeBinomial(0.3, 7.0)
