"""Fits end to end: the optimum under the drawn noise, the units, the ledger, and what a result keeps."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import statsmodels.formula.api as smf
from scipy import optimize

import dpstats as dp
from dpstats.data.columns import NumericColumn
from dpstats.mechanisms.release import LastStep
from dpstats.privacy.randomness import random_source
from dpstats.solvers.objective import PerturbedObjective

DOMAIN = {"y": (-12, 12), "x": (-4, 4), "z": (0, 10), "g": ["a", "b", "c"], "b": (0, 1), "count": (0, 30)}

FAMILIES = {"gaussian": "y", "binomial": "b", "poisson": "count", "huber_svm": "b", "smooth_svm": "b"}


def frame(rows: int = 4000, seed: int = 0) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    data = pd.DataFrame(
        {"x": rng.uniform(-4, 4, rows), "z": rng.uniform(0, 10, rows), "g": rng.choice(["a", "b", "c"], rows)}
    )
    linear = 0.5 * data["x"] - 0.2 * data["z"] + (data["g"] == "b")
    data["y"] = 1 + linear + rng.normal(size=rows)
    data["b"] = (rng.random(rows) < 1 / (1 + np.exp(-linear))).astype(int)
    data["count"] = rng.poisson(np.exp(0.3 * linear + 0.5))
    return data


@pytest.mark.parametrize("delta", [0.0, 1e-6])
@pytest.mark.parametrize("family", FAMILIES)
def test_released_is_the_optimum_under_the_drawn_noise(family: str, delta: float) -> None:
    """A general-purpose optimiser on the same objective and the same draw ends at the same place."""
    data = frame(500)
    settings = {"family": family, "domain": DOMAIN, "response": "declared", "check_share": 0}  # else others draw first
    fit = dp.glm(f"{FAMILIES[family]} ~ x + z + g", data, 1.0, delta=delta, seed=5, **settings)
    plan = fit.plan.objective
    blocks = fit.plan.design.blocks(data)  # type: ignore[attr-defined]
    objective = PerturbedObjective(plan.family, blocks, plan.curvature, plan.sample(random_source(5)))
    found = optimize.minimize(lambda theta: objective.accumulate(theta)[:2], fit.scaled_params, jac=True, tol=1e-12)
    apart = np.linalg.norm(found.x - fit.scaled_params)
    assert apart <= 1e-5 + 40 * plan.final.scale * np.sqrt(plan.size)
    elsewhere = optimize.minimize(
        lambda theta: objective.accumulate(theta)[:2], np.zeros(plan.size), jac=True, tol=1e-12
    )
    assert np.linalg.norm(elsewhere.x - fit.scaled_params) <= 1e-3


def test_large_budgets_agree_with_statsmodels() -> None:
    """With a budget that leaves next to no noise the user's units are those of a classical fit."""
    data = frame()
    settings = {"domain": DOMAIN, "curvature": 1e-3, "seed": 1}
    private = dp.ols("y ~ x * g + np.sqrt(z)", data, 1e5, residual_cap=50.0, **settings)
    assert private.params.to_numpy() == pytest.approx(smf.ols("y ~ x * g + np.sqrt(z)", data).fit().params, abs=2e-2)
    private = dp.logit("b ~ x + z + C(g, Sum)", data, 1e5, **settings)
    classical = smf.logit("b ~ x + z + C(g, Sum)", data).fit(disp=False)
    assert private.params.to_numpy() == pytest.approx(classical.params, abs=2e-2)
    private = dp.poisson("count ~ x + z + g", data, 1e6, mean_cap=30, **settings)
    classical = smf.poisson("count ~ x + z + g", data).fit(disp=False)
    assert private.params.to_numpy() == pytest.approx(classical.params, abs=2e-2)


def test_predictions_are_in_the_responses_units() -> None:
    data = frame()
    for family, response in FAMILIES.items():
        fit = dp.glm(f"{response} ~ x + z + g", data, 50.0, family=family, domain=DOMAIN, seed=2)
        mean, linear = fit.predict(data), fit.predict(data, which="linear")
        assert mean.index.equals(data.index)
        by_hand = 0
        if family == "gaussian":
            by_hand = fit.params["Intercept"] + fit.params["x"] * data["x"] + fit.params["z"] * data["z"]
            by_hand = by_hand + fit.params["g[T.b]"] * (data["g"] == "b") + fit.params["g[T.c]"] * (data["g"] == "c")
            assert mean.to_numpy() == pytest.approx(by_hand.to_numpy(), abs=1e-8)
        elif family == "binomial":
            assert mean.to_numpy() == pytest.approx(1 / (1 + np.exp(-linear.to_numpy())))
        elif family == "poisson":
            assert mean.to_numpy() == pytest.approx(np.exp(linear.to_numpy()))
        else:
            assert set(mean) <= {0.0, 1.0}
    missing = data.head(3).assign(g=["a", "never declared", None])
    with (
        pytest.warns(UserWarning, match="1 of 3 rows have a level of 'g'"),
        pytest.warns(UserWarning, match="1 of 3 rows have no value of 'g'"),
    ):
        assert fit.predict(missing).isna().tolist() == [False, True, True]
    with pytest.raises(dp.errors.ArgumentError, match="which"):
        fit.predict(data, which="probability")  # type: ignore[arg-type]
    with pytest.raises(dp.errors.DPStatsError, match="'g'"):
        fit.predict(data.drop(columns="g"))


@pytest.mark.parametrize("rows", [0, 1, 2])
@pytest.mark.parametrize("family", FAMILIES)
def test_tiny_data_are_fitted_like_any_other(family: str, rows: int) -> None:
    for options in ({}, {"penalty": "lasso", "alpha": 1.0}, {"stages": 2}, {"delta": 1e-5}):
        fit = dp.glm(f"{FAMILIES[family]} ~ x + g", frame().head(rows), 1.0, family=family, domain=DOMAIN, **options)
        assert np.isfinite(fit.params).all()


def test_hard_designs_are_fitted_in_silence() -> None:
    """Separable, collinear, constant and wide: finite coefficients, and no warning (warnings are errors here)."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(50, 3)) / 3
    wide = rng.normal(size=(20, 200)) / 20
    designs = {
        "separable": (x, x[:, 0] > 0),
        "collinear": (np.column_stack([x, x]), x[:, 0] > 0),
        "constant": (np.ones((50, 2)), np.ones(50)),
        "wide": (wide, wide[:, 0] > 0),
    }
    for exog, endog in designs.values():
        for curvature in (None, 0.3):
            for penalty in (None, dp.penalties.Lasso(1.0)):
                fit = dp.GLM(endog, exog, family="binomial", row_norm=1.0).fit(
                    1.0, curvature=curvature, penalty=penalty
                )
                assert np.isfinite(fit.params).all()


def test_the_ledger_is_charged_before_rows_are_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A frame that cannot be read any more after the charge: the charge stays and nothing comes out."""
    data = frame(100)

    def unreadable(column: object) -> None:
        raise OSError(f"the disk is gone, at cell {data.loc[7, 'x']}")

    with dp.Ledger(tmp_path / "ledger.db", dataset="d", eps=2.0) as ledger:
        dp.glm("y ~ x", data, 0.5, domain=DOMAIN, ledger=ledger)
        assert ledger.remaining.eps == pytest.approx(1.5)
        with monkeypatch.context() as patched:
            patched.setattr(NumericColumn, "numbers", unreadable)
            with pytest.raises(dp.errors.ReleaseError, match="nothing was released") as caught:
                dp.glm("y ~ x", data, 0.5, domain=DOMAIN, ledger=ledger)
        assert caught.value.__notes__ == ["Ledger charge 3 was kept."]
        # The count failed, and the fit was not charged.
        assert ledger.remaining.eps == pytest.approx(1.485)
        with pytest.raises(dp.errors.BudgetExceeded):
            dp.glm("y ~ x", data, 1.5, domain=DOMAIN, ledger=ledger)
        with pytest.raises(dp.errors.UncertifiedError, match="accepts it: leave out seed=, or run without a ledger"):
            dp.glm("y ~ x", data, 0.5, domain=DOMAIN, ledger=ledger, seed=3)
        assert ledger.remaining.eps == pytest.approx(1.485)
        entries = ledger.entries()
        assert entries["eps"].tolist() == [0.015, 0.485, 0.015]
        assert entries["formula"].tolist() == ["y ~ x"] * 3


def test_seeds_reproduce_and_are_not_certified() -> None:
    first, second = (dp.glm("y ~ x", frame(), 1.0, domain=DOMAIN, seed=11) for _ in range(2))
    assert first.params.equals(second.params)
    assert not first.guarantee.certified
    assert "NOT CERTIFIED" in first.summary().as_text()
    drawn = [dp.glm("y ~ x", frame(), 1.0, domain=DOMAIN) for _ in range(2)]
    assert not drawn[0].params.equals(drawn[1].params)
    assert drawn[0].guarantee.certified


def test_the_number_of_rows_shows_only_where_it_is_public() -> None:
    data = frame(7351)
    hidden = dp.glm("y ~ x", data, 1.0, domain=DOMAIN, check_share=0)
    assert hidden.nobs is None
    assert "private" in hidden.summary().as_text()
    assert "7351" not in hidden.summary().as_text() + json.dumps(hidden.plan.to_dict())
    shown = dp.glm("y ~ x", data, 1.0, domain=DOMAIN, adjacency="replace_one")
    assert shown.nobs == 7351
    assert "7351" in shown.summary().as_text()


def test_arrays_and_formula_agree() -> None:
    """The arrays that a formula makes, fitted as arrays, release the same coefficients from the same seed."""
    data = frame(300)
    settings = {"noise": "gaussian", "delta": 1e-5, "curvature": 5.0, "seed": 4}
    alone = {"check_share": 0, "fitstats": None}
    by_formula = dp.logit("b ~ x + z", data, 1.0, domain=DOMAIN, **alone, **settings)
    blocks = by_formula.plan.design.blocks(data)  # type: ignore[attr-defined]
    exog = np.concatenate([block.exog for block in blocks])
    endog = np.concatenate([block.endog for block in blocks])
    by_arrays = dp.GLM(endog, exog, family="binomial", names=["a", "b", "c"], row_norm=1.0).fit(1.0, **settings)
    assert by_arrays.plan.noise.scale == pytest.approx(by_formula.plan.noise.scale)
    assert by_arrays.scaled_params == pytest.approx(by_formula.scaled_params, abs=1e-4)
    assert by_arrays.params.index.tolist() == ["a", "b", "c"]


def test_counts_are_clipped_to_the_cap_that_the_noise_is_for() -> None:
    """A range declared above y_max must not let a count pull harder than L."""
    data = pd.DataFrame({"y": [100.0, 0.0], "x": [0.5, -0.5]})
    family = dp.families.Poisson(mean_cap=3.0, y_max=5.0)
    model = dp.GLM.from_formula("y ~ x", data, family, {"y": (0, 100), "x": (-1, 1)})
    plan = model.plan(1.0)
    assert plan.family.lipschitz == 5.0
    assert [
        endog.tolist() for _, endog, *_ in model._source.rows(plan, model._source.data, random_source(1)).collect()
    ] == [[5.0, 0.0]]


@pytest.mark.slow
@pytest.mark.parametrize("eps", [1e3, 1e5, 1e9])
def test_enormous_budgets_ask_for_no_more_than_rounding_allows(eps: float) -> None:
    """The tolerance has a public floor, so that the solver need not chase digits that no arithmetic holds."""
    fit = dp.logit("b ~ x + z + g", frame(20_000), eps, domain=DOMAIN, seed=1, check_share=0)
    plan = fit.plan.objective
    noiseless = LastStep(plan.family, 0.0, plan.row_length, plan.curvature, plan.rows_at_most)
    assert plan.tolerance >= noiseless.tolerance() > 0
    blocks = fit.plan.design.blocks(frame(20_000))  # type: ignore[attr-defined]
    objective = PerturbedObjective(plan.family, blocks, plan.curvature, plan.sample(random_source(1)))
    released = objective.accumulate(fit.scaled_params).gradient
    # A thousand scales of the final noise, times the largest eigenvalue that 20,000 rows of norm one can give.
    assert np.linalg.norm(released) <= plan.tolerance + 1e3 * plan.final.scale * 5000


def test_counts_near_their_cap_do_not_run_away() -> None:
    """Typical counts just below the declared greatest one: the default keeps the fitted mean among them."""
    rng = np.random.default_rng(0)
    x = rng.uniform(0, 1, 5000)
    data = pd.DataFrame({"y": rng.poisson(np.exp(2.3 + 0.6 * x)), "x": x})
    fit = dp.poisson("y ~ x", data, 1.0, domain={"y": (0, 20), "x": (0, 1)}, seed=1)
    assert fit.predict(data).between(5, 25).all()


def test_families_from_elsewhere_are_not_certified() -> None:
    """A subclass may declare any Lipschitz constant; no proof of ours covers it."""

    class Mine(dp.families.Binomial):
        lipschitz = 1e-6  # type: ignore[assignment]

    with pytest.raises(dp.errors.UncertifiedError, match="Mine"):
        dp.glm("b ~ x", frame(50), 1.0, family=Mine(), domain=DOMAIN)
    assert not dp.glm("b ~ x", frame(50), 1.0, family=Mine(), domain=DOMAIN, allow_uncertified=True).guarantee.certified


STATES: list[dict[str, str]] = [{"under": "raise"}, {"all": "raise"}, {"all": "warn"}, {"all": "print"}]


@pytest.mark.slow
@pytest.mark.parametrize("state", STATES, ids=str)
def test_the_callers_floating_point_state_changes_nothing(state: dict[str, str], capfd: pytest.CaptureFixture) -> None:
    """Under ``under="raise"`` one row in a thousand raises sooner or later, and none never does."""
    for rows in (0, 1, 300):
        data = frame(300).head(rows)
        for family, response in FAMILIES.items():
            arguments = {"family": family, "domain": DOMAIN, "seed": 3}
            expected = dp.glm(f"{response} ~ x + bs(z, df=4) + g", data, 1.0, **arguments)
            with np.errstate(**state):  # type: ignore[arg-type]
                found = dp.glm(f"{response} ~ x + bs(z, df=4) + g", data, 1.0, **arguments)
                predicted = found.predict(data)
            assert np.array_equal(found.scaled_params, expected.scaled_params)
            assert np.array_equal(predicted, expected.predict(data))
    assert capfd.readouterr() == ("", "")
