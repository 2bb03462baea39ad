"""`method="statistics"`: a linear model whose rows are read as sums alone."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import statsmodels.formula.api as smf

import dpstats as dp

DOMAIN = {"y": (0, 10), "a": (0, 5), "b": (-1, 1), "g": ["u", "v", "w"]}
COLUMNS = ["y", "a", "b", "g"]
FORMULA = "y ~ a + b + g"


def frame(rows: int, seed: int = 0) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    found = pd.DataFrame({"a": rng.uniform(0, 5, rows), "b": rng.uniform(-1, 1, rows)})
    found["g"] = rng.choice(["u", "v", "w"], rows)
    found["y"] = (2 + 0.8 * found["a"] + found["b"] + (found["g"] == "v") + rng.normal(size=rows)).clip(0, 10)
    return found


def fit(eps: float, rows: int = 2000, formula: str = FORMULA, **arguments: Any) -> dp.GLMResults:
    settings = {"domain": DOMAIN, "method": "statistics", "check_share": 0, "seed": 1, **arguments}
    return dp.ols(formula, frame(rows), eps, **settings)


@pytest.mark.parametrize("adjacency", ["add_remove", "replace_one"])
@pytest.mark.parametrize("delta", [0.0, 1e-2])
def test_it_is_the_release_of_statistics_with_the_same_noise(delta: float, adjacency: str) -> None:
    found = fit(0.7, delta=delta, adjacency=adjacency)
    stats = dp.release_statistics(DOMAIN, COLUMNS, 0.7, data=frame(2000), delta=delta, adjacency=adjacency, seed=1)
    other = stats.fit(FORMULA)
    assert found.guarantee == stats.guarantee
    assert np.array_equal(found.statistics.released, stats.released)
    assert found.nobs == stats.nobs
    for name in ("params", "debiased", "bse", "pvalues"):
        assert getattr(found, name).to_numpy() == pytest.approx(getattr(other, name).to_numpy(), rel=1e-7, abs=1e-9)
    assert found.conf_int().to_numpy() == pytest.approx(other.conf_int().to_numpy(), rel=1e-7)
    assert found.predict(frame(20, 3)).to_numpy() == pytest.approx(other.predict(frame(20, 3)).to_numpy())


def test_with_hardly_any_noise_it_is_least_squares() -> None:
    found, right = fit(1e5), smf.ols(FORMULA, frame(2000)).fit()
    assert found.params.to_numpy() == pytest.approx(right.params.to_numpy(), abs=0.01)
    assert found.bse.to_numpy() == pytest.approx(right.bse.to_numpy(), rel=0.02)
    assert found.scale == pytest.approx(right.scale, rel=0.02)
    tests, anova = found.t_test("a - b = 0"), right.wald_test_terms(scalar=True).table
    assert tests.effect == pytest.approx(right.params["a"] - right.params["b"], abs=0.01)
    assert found.anova().loc["g", "df_constraint"] == 2
    assert found.anova().loc["g", "statistic"] / 2 == pytest.approx(anova.loc["g", "statistic"], rel=0.1)
    mean = found.get_prediction(frame(5, 7)).summary_frame()
    expected = right.get_prediction(frame(5, 7)).summary_frame()
    for name in ("mean", "mean_se"):
        assert mean[name].to_numpy() == pytest.approx(expected[name].to_numpy(), rel=0.03)


def test_other_models_of_the_columns_cost_nothing(tmp_path: Path) -> None:
    with dp.Ledger(tmp_path / "ledger.db", dataset="d", eps=1.0) as ledger:
        found = fit(0.8, seed=None, ledger=ledger)
        assert found.guarantee.certified
        assert found.guarantee.basis == "docs/proofs/statistics"
        assert found.budget.loc["total", "eps"] == 0.8
        assert found.budget["eps"].iloc[:-1].sum() == pytest.approx(0.8)
        smaller = found.statistics.fit("y ~ a")
        assert smaller.guarantee == found.guarantee
        assert len(ledger.entries()) == 1
        assert ledger.entries()["eps"].to_numpy() == pytest.approx([0.8])


def test_ranges_are_bought_first() -> None:
    found = fit(20.0, domain={"g": DOMAIN["g"], "y": DOMAIN["y"]})
    assert found.plan.bought == ("a", "b")
    assert found.budget["eps"].iloc[:-1].sum() == pytest.approx(20.0)
    assert found.guarantee.rho is None
    right = smf.ols(FORMULA, frame(2000)).fit()
    assert found.params.to_numpy() == pytest.approx(right.params.to_numpy(), abs=0.15)
    # The sums know what was paid before them, once stored too.
    again = dp.ReleasedStatistics.from_dict(json.loads(json.dumps(found.statistics.to_dict())))
    for held in (found.statistics, again):
        assert held.budget["eps"].to_dict() == pytest.approx({"ranges": 2.0, "statistics": 17.82, "cover": 0.18})


@pytest.mark.parametrize("penalty", [dp.penalties.Lasso(40.0), dp.penalties.ElasticNet(20.0, 0.5)])
def test_sparse_penalties(penalty: dp.penalties.Penalty) -> None:
    found = fit(50.0, penalty=penalty)
    assert found.params.to_numpy() == pytest.approx(
        found.statistics.fit(FORMULA, penalty=penalty).params.to_numpy(), abs=1e-9
    )
    with pytest.raises(dp.errors.NotReleasedError, match="selection"):
        _ = found.bse
    assert np.isfinite(found.statistics.fit(FORMULA).bse).all()
    assert "noise sd" in str(found)
    assert found.tidy()[["std_error", "conf_low"]].isna().all(axis=None)


def test_a_penalty_weight_frees_a_term() -> None:
    heavy = fit(1e4, penalty="lasso", alpha=1e4)
    freed = fit(1e4, penalty="lasso", alpha=1e4, penalty_weights={"a": 0.0})
    assert heavy.params["a"] == 0
    assert freed.params["a"] == pytest.approx(0.8, abs=0.1)


def test_a_ridge_keeps_the_errors() -> None:
    found = fit(10.0, penalty="ridge", alpha=50.0)
    assert np.abs(found.scaled_params).sum() < np.abs(fit(10.0).scaled_params).sum()
    assert found.bse.to_numpy() == pytest.approx(fit(10.0).bse.to_numpy())


REFUSED = [
    ({"family": "poisson"}, "gaussian"),
    ({"penalty": "scad", "alpha": 1.0}, "convex"),
    ({"curvature": 1.0}, "curvature"),
    ({"inference": "robust"}, "inference"),
    ({"information_share": 0.2}, "information_share"),
    ({"stages": 2}, "stages"),
    ({"response": "bought"}, "response"),
    ({"screen": 2}, "screen"),
    ({"unit": "g"}, "unit"),
    ({"family": dp.families.Gaussian(residual_cap=1.0)}, "residual_cap"),
    ({"noise": "gaussian"}, "delta"),
    ({"weights": "b"}, "weights"),
    ({"offset": "b"}, "offset"),
    ({"radius": 1e9}, "radius"),
    ({"formula": "y ~ 0 + a"}, "intercept"),
]


@pytest.mark.parametrize(("arguments", "fragment"), REFUSED, ids=[said for _, said in REFUSED])
def test_what_sums_do_not_have_is_refused_before_a_charge(
    arguments: dict[str, Any], fragment: str, tmp_path: Path
) -> None:
    given = {"family": "gaussian", "formula": FORMULA, **arguments}
    formula = given.pop("formula")
    with dp.Ledger(tmp_path / "ledger.db", dataset="d", eps=1.0) as ledger:
        with pytest.raises(dp.errors.DPStatsError, match=fragment):
            dp.glm(formula, frame(50), 0.5, domain=DOMAIN, method="statistics", ledger=ledger, **given)
        assert len(ledger.entries()) == 0


def test_arrays_are_refused() -> None:
    model = dp.GLM(np.zeros(10), np.zeros((10, 2)), family="gaussian", row_norm=1.0)
    with pytest.raises(dp.errors.ArgumentError, match="formula"):
        model.fit(1.0, method="statistics")


@pytest.mark.parametrize(("noise", "law"), [("laplace", "wishart matrix"), ("gaussian", "normal matrix")])
def test_a_law_can_be_insisted_on(noise: Any, law: str) -> None:
    plan = dp.plan(FORMULA, DOMAIN, 1.0, delta=1e-6, method="statistics", noise=noise)
    assert plan.objective.law_name == law
    assert plan.delta == (0.0 if noise == "laplace" else 1e-6)


def test_stored_and_read_back(tmp_path: Path) -> None:
    found = fit(2.0, delta=1e-3)
    found.save(tmp_path / "fit.json")
    again = dp.GLMResults.load(tmp_path / "fit.json")
    assert str(again) == str(found)
    assert again.plan.digest() == found.plan.digest()
    assert again.statistics.fit("y ~ g").params.equals(found.statistics.fit("y ~ g").params)


def test_without_inference_there_are_no_errors() -> None:
    found = fit(2.0, inference=None)
    assert found.params.equals(fit(2.0).params)
    with pytest.raises(dp.errors.NotReleasedError):
        _ = found.pvalues


def test_other_methods_have_no_statistics() -> None:
    with pytest.raises(dp.errors.NotReleasedError, match="release_statistics"):
        _ = fit(2.0, method="napp").statistics


def test_the_tables_fit_the_page() -> None:
    plan = dp.plan(FORMULA, DOMAIN, 1.0, method="statistics")
    for shown in (plan, fit(1.0), fit(1.0, penalty="lasso", alpha=5.0)):
        assert max(map(len, str(shown).splitlines())) <= 80
        whole = shown.summary(full=True) if isinstance(shown, dp.GLMResults) else shown.summary()
        assert "X'y" in str(whole)
        assert max(map(len, str(whole).splitlines())) <= 80
    with pytest.raises(dp.errors.ArgumentError, match="no bound"):
        dp.plots.budget(plan, eps=[0.5, 1.0])


@pytest.mark.slow
def test_the_noise_sd_of_a_coefficient_is_what_noise_gives_it() -> None:
    """200 releases of the same rows: the standard deviation of each coefficient is within 25 % of the median of what
    is said of it. False alarm: a deviation of 200 normal draws errs by 5 %, so under 1e-5 for five coefficients."""
    data = frame(5000)
    fits = [
        dp.ols(FORMULA, data, 2.0, domain=DOMAIN, method="statistics", seed=seed, inference=None) for seed in range(200)
    ]
    spread = np.std([found.params for found in fits], axis=0)
    said = np.median([found.noise_at_most for found in fits], axis=0)
    assert spread == pytest.approx(said, rel=0.25)
