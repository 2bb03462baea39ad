"""What a fit buys of its response: charged once, shown, and the only thing the final plan learns of the rows."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import statsmodels.api as sm
import statsmodels.formula.api as smf

import dpstats as dp
from dpstats.data.columns import NumericColumn
from dpstats.models import ranges, sources
from dpstats.plan import Plan
from dpstats.plan.methods import ResponsePurchase
from dpstats.privacy.dispersion import CountMoments
from dpstats.results.glm_results import GLMResults

DOMAIN = {"x": (0, 1), "g": ["a", "b"], "y": (-20, 40), "c": (0, 100)}


def frame(rows: int = 5000, seed: int = 0, shift: float = 0.0) -> pd.DataFrame:
    random = np.random.default_rng(seed)
    data = pd.DataFrame({"x": random.uniform(0, 1, rows), "g": random.choice(["a", "b"], rows)})
    data["y"] = 3 + shift + data["x"] - (data["g"] == "b") + 0.3 * random.normal(size=rows)
    data["c"] = random.poisson(np.exp(data["x"] - 1 + shift))
    return data


def fit(family: str, data: pd.DataFrame | None = None, eps: float = 1.0, **options: Any) -> Any:
    response = {"gaussian": "y", "poisson": "c", "negative_binomial": "c"}[family]
    settings = {"domain": DOMAIN, "family": family, "response": "bought", **options}
    return dp.glm(f"{response} ~ x + g", frame() if data is None else data, eps, **settings)


@pytest.mark.parametrize("adjacency", ["add_remove", "replace_one"])
@pytest.mark.parametrize("family", ["gaussian", "poisson", "negative_binomial"])
def test_the_budget_adds_up_and_is_charged(family: str, adjacency: str, tmp_path: Path) -> None:
    with dp.Ledger(tmp_path / "ledger.db", dataset="d", eps=2.0, adjacency=adjacency) as ledger:
        fitted = fit(family, eps=0.7, adjacency=adjacency, ledger=ledger, response_share=0.1)
        assert sum(ledger.entries()["eps"]) == pytest.approx(0.7, rel=1e-12)
    parts = fitted.budget["eps"].drop("total")
    assert parts["response"] == pytest.approx(0.07)
    assert parts.sum() == pytest.approx(0.7, rel=1e-12)
    assert fitted.guarantee.certified
    assert fitted.guarantee.eps == 0.7


@pytest.mark.parametrize("family", ["gaussian", "poisson", "negative_binomial"])
def test_the_charge_comes_before_the_rows(family: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def unreadable(column: object) -> None:
        raise OSError("the disk is gone")

    with dp.Ledger(tmp_path / "ledger.db", dataset="d", eps=2.0) as ledger:
        monkeypatch.setattr(NumericColumn, "numbers", unreadable)
        with pytest.raises(dp.errors.ReleaseError):
            fit(family, eps=0.5, ledger=ledger, check_share=0)
        assert ledger.remaining.eps == pytest.approx(1.5)


def final_plan(family: str, data: pd.DataFrame) -> str:
    """The completed plan, as JSON; noise aside it may depend on the purchase alone."""
    return json.dumps(fit(family, data, seed=1, check_share=0).plan.to_dict(), sort_keys=True)


def same_plan(family: str, monkeypatch: pytest.MonkeyPatch) -> bool:
    """Whether data that differ a great deal end in one plan when the purchases come out the same."""
    monkeypatch.setattr(ranges, "buy_interval", lambda *_, **__: (1.0, 5.0))
    monkeypatch.setattr(ranges, "buy_reach", lambda *_, **__: 6.0)
    monkeypatch.setattr(ranges, "buy_mean", lambda *_, **__: 1.5)
    monkeypatch.setattr(ranges, "buy_count_moments", lambda *_, **__: CountMoments(1.5, 0.4, 700.0))
    return final_plan(family, frame()) == final_plan(family, frame(700, 5, shift=1.0))


@pytest.mark.parametrize("family", ["gaussian", "poisson", "negative_binomial"])
def test_the_final_plan_is_a_function_of_what_was_released(family: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert same_plan(family, monkeypatch)


@pytest.mark.parametrize("family", ["gaussian", "poisson"])
def test_a_cap_that_follows_the_rows_is_caught(family: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Planted: the interval, or the greatest count, is widened to hold every row."""
    honest = sources.bought_response

    def peeking(plan: Plan, data: Any, random: Any) -> ResponsePurchase:
        found = honest(plan, data, random)
        most = float(np.nanmax(plan.design.response_values(data)))  # type: ignore[arg-type]
        return ResponsePurchase(found.eps, found.low, max(found.high, most + 6), found.mean)

    monkeypatch.setattr(sources, "bought_response", peeking)
    assert not same_plan(family, monkeypatch)


def test_a_range_ten_times_too_wide_costs_little() -> None:
    """Seeded. Without the purchase the noise is ten times what the response needs."""
    data = frame()
    tight, wide = {**DOMAIN, "y": (0, 6)}, {**DOMAIN, "y": (-20, 40)}

    def missed(domain: dict[str, Any], response: str) -> float:
        fits = [
            dp.ols("y ~ x + g", data, 0.3, domain=domain, response=response, seed=seed).predict(data)
            for seed in range(5)
        ]
        return float(np.mean([np.mean((found - data["y"]) ** 2) for found in fits])) - 0.09

    assert missed(wide, "bought") <= missed(tight, "declared") + 0.05
    assert missed(wide, "declared") > 2 * missed(wide, "bought")


def test_the_noise_follows_the_purchase_and_the_dry_run_bounds_it() -> None:
    for family in ("gaussian", "poisson"):
        settings = {"response": "bought", "check_share": 0}
        fitted = fit(family, seed=3, **settings)
        dry = dp.plan(f"{'y' if family == 'gaussian' else 'c'} ~ x + g", DOMAIN, 1.0, family=family, **settings)
        in_units = [plan.noise.scale * plan.design.response_scaling()[1] for plan in (fitted.plan, dry)]
        assert in_units[0] < in_units[1] / 2
        assert dry.budget.index.tolist() == fitted.budget.index.tolist()
        assert fitted.guarantee == dry.guarantee.uncertified(fitted.guarantee.reason)


def test_coefficients_and_predictions_are_in_the_users_units() -> None:
    """With a budget that leaves no noise: least squares, and Poisson regression, on the rows as they are."""
    data = frame()
    exact = np.linalg.lstsq(
        np.column_stack([np.ones(len(data)), data["g"] == "b", data["x"]]).astype(float), data["y"], rcond=None
    )[0]
    fitted = fit("gaussian", data, 1e6)
    assert fitted.params[["Intercept", "g[T.b]", "x"]].to_numpy() == pytest.approx(exact, abs=2e-3)
    by_hand = fitted.params["Intercept"] + fitted.params["g[T.b]"] * (data["g"] == "b") + fitted.params["x"] * data["x"]
    assert fitted.predict(data).to_numpy() == pytest.approx(by_hand.to_numpy(), abs=1e-9)
    counts = fit("poisson", data, 1e6)
    classical = smf.glm("c ~ x + g", data, family=sm.families.Poisson()).fit()
    assert counts.params.to_numpy() == pytest.approx(classical.params[counts.params.index].to_numpy(), abs=5e-3)
    assert counts.predict(data).mean() == pytest.approx(data["c"].mean(), rel=0.02)


@pytest.mark.slow
def test_what_was_bought_is_saved_and_shown(tmp_path: Path) -> None:
    for family in ("gaussian", "poisson"):
        fitted = fit(family)
        fitted.save(tmp_path / "fit.json")
        again = GLMResults.load(tmp_path / "fit.json")
        assert again.plan.response == fitted.plan.response
        assert again.params.to_dict() == fitted.params.to_dict()
        assert again.predict(frame(50)).equals(fitted.predict(frame(50)))
        text = again.summary(full=True).as_text()
        assert "Bought with the budget" in text
        assert f"{fitted.plan.response.high:.4g}" in text
        assert max(map(len, text.splitlines())) <= 80
        assert "Bought with the budget" not in str(dp.plan("c ~ x", DOMAIN, 1.0, family="poisson").summary())


def test_bought_ranges_are_shown_as_a_table() -> None:
    declared = {name: DOMAIN[name] for name in ("g", "y")}
    fitted = dp.ols("y ~ x + g", frame(), 1.0, domain=declared)
    text = fitted.summary(full=True).as_text()
    low, high = fitted.plan.design.domain["x"].low, fitted.plan.design.domain["x"].high
    line = next(line for line in text.splitlines() if line.startswith("x ") and line.endswith("range"))
    assert line.split()[1:3] == [f"{low:.4g}", f"{high:.4g}"]
    assert max(map(len, text.splitlines())) <= 80


def test_the_intercept_is_shrunk_towards_the_bought_mean() -> None:
    """A mean of .05 and a large curvature: the linear term pulls the intercept to the logarithm, not to zero."""
    random = np.random.default_rng(0)
    data = pd.DataFrame({"x": random.uniform(0, 1, 20_000), "c": random.poisson(0.05, 20_000)})
    found = dp.poisson("c ~ x", data, 1.0, domain={"x": (0, 1), "c": (0, 20)}, curvature=5e4, seed=2)
    plan, at = found.plan, found.plan.names.index("Intercept")
    target = -plan.objective.linear[at] / plan.objective.curvature[at] / plan.design.scale[at]
    assert target == pytest.approx(np.log(plan.response.mean))
    assert found.params["Intercept"] == pytest.approx(np.log(0.05), abs=0.5)
    assert "shrunk towards a mean of" in found.summary(full=True).as_text().replace("\n", " ")
    notes = found.excess_risk(printed=True).query("holds == 'proved'")["note"]
    assert notes.str.contains("within radius of what they are shrunk to").sum() == 2


@pytest.mark.parametrize("options", [{"stages": 2}, {"penalty": "lasso", "alpha": 1.0, "refit_share": 0.3}])
def test_stages_and_refits_are_centred_too(options: dict[str, Any]) -> None:
    fitted = fit("poisson", seed=1, **options)
    assert np.isfinite(fitted.params).all()
    assert all(np.any(plan.linear) for _, plan in fitted.plan.stages)
    assert fitted.predict(frame()).mean() == pytest.approx(frame()["c"].mean(), rel=0.5)


def test_counts_are_bought_unless_the_analyst_chose_a_cap() -> None:
    arguments: dict[str, Any] = {"domain": DOMAIN, "eps": 1.0}
    assert dp.plan("c ~ x", family="poisson", **arguments).response is not None
    assert dp.plan("c ~ x", family=dp.families.Poisson(y_max=20), **arguments).response is None
    assert dp.plan("c ~ x", family="poisson", response="declared", **arguments).response is None
    assert dp.plan("c ~ x", family="poisson", retrieval="return", **arguments).response is None
    assert dp.plan("y ~ x", **arguments).response is None
    family = dp.families.Poisson(mean_cap=50.0, y_max=2.0)
    kept = dp.glm("c ~ x", frame(), family=family, response="bought", seed=4, **arguments)
    assert kept.plan.family.y_max <= 2
    assert kept.plan.family.mean_cap == 50


@pytest.mark.parametrize("rows", [0, 1, 3])
@pytest.mark.parametrize("family", ["gaussian", "poisson"])
def test_a_spent_budget_always_buys_a_fit(family: str, rows: int) -> None:
    for options in ({}, {"domain": {"g": ["a", "b"]}}, {"adjacency": "replace_one"}):
        for eps in (0.5, 1e3):
            if "domain" in options and eps < 1:
                continue
            assert np.isfinite(fit(family, frame(rows), eps, **options).params).all()


def test_a_design_without_intercept() -> None:
    for formula, family in (("y ~ 0 + x", "gaussian"), ("c ~ 0 + x", "poisson")):
        fitted = dp.glm(formula, frame(), 1.0, family=family, domain=DOMAIN, response="bought")
        assert fitted.plan.response.mean is None
        assert fitted.plan.design.response_scaling()[0] == 0
        assert np.isfinite(fitted.params).all()


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"family": "binomial", "formula": "I(y > 3) ~ x"}, "two values"),
        ({"retrieval": "return"}, "recycle"),
        ({"realization": "augmented", "allow_uncertified": True, "penalty": "ridge", "alpha": 1.0}, "replicated"),
        ({"response": "sold"}, "response must be one of"),
        ({"response_share": 1.0}, "response_share"),
    ],
)
def test_what_cannot_be_bought_is_refused_before_the_charge(
    arguments: dict[str, Any], said: str, tmp_path: Path
) -> None:
    given = {"formula": "y ~ x", "response": "bought", **arguments}
    with dp.Ledger(tmp_path / "ledger.db", dataset="d", eps=2.0) as ledger:
        with pytest.raises(dp.errors.ArgumentError, match=said):
            dp.glm(data=frame(100), eps=1.0, domain=DOMAIN, ledger=ledger, **given)
        assert ledger.remaining.eps == 2.0
    with pytest.raises(dp.errors.ArgumentError, match="formula"):
        dp.GLM(np.zeros(5), np.ones((5, 1)), row_norm=1.0).fit(1.0, response="bought")


def test_a_budget_too_small_for_ranges_is_refused_before_the_charge(tmp_path: Path) -> None:
    with dp.Ledger(tmp_path / "ledger.db", dataset="d", eps=2.0) as ledger:
        for call in (
            lambda: dp.ols("y ~ x", frame(), 0.1, ledger=ledger),
            lambda: dp.buy_ranges(frame(), ["x", "y"], 0.03, ledger=ledger),
            lambda: dp.plan_many({"one": "y ~ x"}, None, 0.1).fit(frame(), ledger=ledger),
        ):
            with pytest.raises(dp.errors.ArgumentError, match=r"Declare ranges of .*rows_at_least"):
                call()
        assert ledger.remaining.eps == 2.0
    dp.ols("y ~ x", frame(), 0.1, rows_at_least=50_000)
    dp.buy_ranges(frame(), ["x", "y"], 0.03, rows_at_least=50_000)
    dp.plan_many({"one": "y ~ x"}, None, 0.1, rows_at_least=50_000).fit(frame())


@pytest.mark.parametrize(("rows", "bought"), [(300, False), (30_000, True)])
def test_rows_that_nobody_has_counted_are_counted_within_the_purchase(
    rows: int, bought: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    spent: list[float] = []
    for name in ("buy_number", "buy_interval"):
        honest = getattr(ranges, name)

        def noted(*given: Any, honest: Any = honest, **named: Any) -> Any:
            spent.append(named["eps"])
            return honest(*given, **named)

        monkeypatch.setattr(ranges, name, noted)
    random = np.random.default_rng(0)
    data = {"x": random.uniform(0, 1, rows), "y": random.normal(0, 1, rows)}
    domain = {"x": (0, 1), "y": (-50, 50)}
    found = dp.ols("y ~ x", data, 1.0, domain=domain, inference=True, check_share=0, seed=1)
    response = found.plan.response
    assert response is not None
    assert ((response.low, response.high) != (-50, 50)) == bought
    assert len(spent) == 1 + bought
    assert spent[0] == pytest.approx(response.eps / 8)
    assert sum(spent) <= response.eps * (1 + 1e-15)
    assert found.has_errors


@pytest.mark.parametrize(
    ("options", "bought"),
    [
        ({"inference": True}, True),
        ({"inference": None}, False),
        ({"screen": 2, "split": "rows", "inference": True}, True),
        ({"screen": 2, "inference": None}, False),
        ({"penalty": "lasso"}, False),
        ({"penalty": "lasso", "refit_share": 0.5, "inference": True}, True),
        ({"penalty": "lasso", "refit_share": 0.5}, False),
    ],
)
def test_least_squares_buys_an_interval_of_the_response_for_the_sake_of_errors(
    options: dict[str, Any], bought: bool
) -> None:
    """Also of chosen columns; others buy it where they are asked to (docs/guide/families.md)."""
    domain: dict[str, Any] = {**{f"x{at}": (0, 100) for at in range(5)}, "y": (0, 1000)}
    formula = "y ~ " + " + ".join(f"x{at}" for at in range(5))
    assert ("response" in dp.plan(formula, domain, 1.0, n=50_000, **options).budget.index) == bought
    assert "response" in dp.plan(formula, domain, 1.0, n=50_000, response="bought", **options).budget.index
