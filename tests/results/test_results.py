"""What a result says: tables, frames, files; and what a plan says before there is one."""

from __future__ import annotations

import json
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import dpstats as dp
from dpstats.errors import NotReleasedError

DOMAIN = {"y": (-12, 12), "x": (-4, 4), "z": (0, 10), "group": ["a", "b", "c"], "b": ["no", "yes"]}

CASES: dict[str, dict[str, Any]] = {
    "plain": {},
    "gaussian noise": {"delta": 1e-6},
    "replace_one": {"adjacency": "replace_one"},
    "returned": {"retrieval": "return"},
    "kept": {"retrieval": None},
    "lasso": {"penalty": "lasso", "alpha": 3.0},
    "selection": {"penalty": "lasso", "alpha": 3.0, "selection": "noise_aware", "refit_share": 0.3},
    "two stages": {"stages": 2, "penalty": dp.penalties.SCAD(2.0, knot=0.5)},
    "seeded": {"seed": 7},
    "bought": {"domain": {"group": ["a", "b", "c"]}},
    "paper": {"moor": "paper", "penalty": "lasso", "alpha": 3.0, "allow_uncertified": True},
}


def frame(rows: int = 2000) -> pd.DataFrame:
    rng = np.random.default_rng(5)
    data = pd.DataFrame(
        {"x": rng.uniform(-4, 4, rows), "z": rng.uniform(0, 10, rows), "group": rng.choice(["a", "b", "c"], rows)}
    )
    data["y"] = 1 + data["x"] - 0.3 * data["z"] + rng.normal(size=rows)
    return data.assign(b=np.where(data["y"] > 0, "yes", "no"))


@pytest.fixture(params=CASES)
def result(request: pytest.FixtureRequest) -> dp.GLMResults:
    arguments = {"domain": DOMAIN, **CASES[request.param]}
    return dp.glm("y ~ x + np.sqrt(z) + C(group, Sum) + x:group", frame(), 1.0, **arguments)


def test_summaries_fit_the_page_and_say_what_was_bought(result: dp.GLMResults) -> None:
    text = result.summary().as_text()
    assert max(len(line) for line in text.splitlines()) <= 80
    for word in ("Adjacency:", "Epsilon:", "Delta:", "Certified:", "Budget", "Noise in the objective"):
        assert word in text
    assert ("Excess risk" in text) == (not result.plan.request.options.replicates), "its bounds are of certified plans"
    assert len({len(line) for line in text.splitlines() if line.startswith("==")}) == 1
    for name, value in result.params.items():
        line = next(line for line in text.splitlines() if line.startswith(str(name)[:35]))
        assert f"{value:.4g}" in line
    assert ("NOT CERTIFIED" in text) == (not result.guarantee.certified)
    assert ("Selection" in text) == bool(len(result.selection))
    assert "<table" in result.summary().as_html()
    assert result.summary().as_latex().count(r"\begin{tabular}") == len(result.summary().tables)


def test_budget_adds_up(result: dp.GLMResults) -> None:
    budget = result.budget
    parts = budget.drop(index="total")
    for column in ("eps", "delta", "need", "retrieved"):
        assert parts[column].sum() == pytest.approx(budget.loc["total", column])
    assert budget.loc["total", "eps"] == pytest.approx(result.guarantee.eps)
    assert budget.loc["total", "delta"] == result.guarantee.delta
    assert (budget["retrieved"] >= 0).all()
    assert result.guarantee.eps <= 1.0


def test_frames(result: dp.GLMResults) -> None:
    tidy, glance = result.tidy(), result.glance()
    assert tidy["term"].tolist() == result.params.index.tolist() == list(result.plan.names)
    assert tidy["estimate"].to_numpy() == pytest.approx(result.params.to_numpy())
    assert glance.loc[0, "eps"] == result.guarantee.eps
    assert (glance.loc[0, "nobs"] is pd.NA) == (result.guarantee.adjacency == "add_remove")
    risk, printed = result.excess_risk(0.1), result.excess_risk(0.1, printed=True)
    assert (risk["value"] > 0).all()
    assert risk["bound"].is_unique
    assert set(risk["value"]) < set(printed["value"])
    assert set(printed.loc[printed["value"].isin(risk["value"]), "holds"]) == {"proved"}
    if len(result.selection):
        assert result.selection["selected"].tolist() == (result.scaled_params != 0).tolist()


def test_saved_and_pickled_results_come_back(result: dp.GLMResults, tmp_path: Path) -> None:
    path = tmp_path / "result.json"
    result.save(path)
    for again in (dp.GLMResults.load(path), pickle.loads(pickle.dumps(result))):
        assert again.summary().as_text() == result.summary().as_text()
        assert again.params.equals(result.params)
        assert again.guarantee == result.guarantee
        assert again.predict(frame(20)).equals(result.predict(frame(20)))
        if result.released is not None:
            assert again.tidy().equals(result.tidy())
            assert again.information.equals(result.information)
    assert set(json.loads(path.read_text())) == {"format", "kind", "plan", "scaled_params", "nobs", "information"}


@pytest.mark.parametrize("text", ["", "{}", "[1]", '{"format": 2}', '{"format": 1, "plan": {}}', "not json"])
def test_other_files_are_refused(text: str, tmp_path: Path) -> None:
    path = tmp_path / "other.json"
    path.write_text(text)
    with pytest.raises(dp.errors.DataError, match="path"):
        dp.GLMResults.load(path)
    with pytest.raises(dp.errors.DataError, match="path"):
        dp.GLMResults.load(tmp_path / "missing.json")


@pytest.mark.parametrize("name", [name for name in CASES if name not in ("seeded", "paper", "bought")])
def test_a_dry_run_plans_what_the_fit_does(name: str) -> None:
    formula = "y ~ x + z + group"
    arguments = {"domain": DOMAIN, **CASES[name]}
    plan = dp.plan(formula, arguments.pop("domain"), 1.0, **arguments)
    fit = dp.glm(formula, frame(), 1.0, domain=DOMAIN, **arguments)
    assert plan.guarantee == fit.guarantee
    assert plan.digest() != ""
    for (role, before), (role_after, after) in zip(plan.stages, fit.plan.stages, strict=True):
        assert role == role_after
        if role != "refit":
            assert before.noise == after.noise
    text = str(plan)
    assert max(len(line) for line in text.splitlines()) <= 80
    assert "Terms" in text


def test_text_responses_are_coded_in_the_declared_order() -> None:
    fit = dp.logit("b ~ x", frame(), 20.0, domain=DOMAIN, seed=1)
    assert fit.params["x"] > 0.5
    turned = dp.logit("b ~ x", frame(), 20.0, domain={**DOMAIN, "b": ["yes", "no"]}, seed=1)
    assert turned.params["x"] < -0.5


def test_what_a_user_of_r_asks_for_is_answered() -> None:
    fit = dp.ols("y ~ x", frame(), 1.0, domain=DOMAIN, delta=1e-6)
    with pytest.raises(AttributeError, match="the coefficients are params"):
        _ = fit.coef
    for name in ("vcov", "residuals", "fitted"):
        with pytest.raises(NotReleasedError, match=name):
            getattr(fit, name)
    assert "of the delta of 1e-06 that was allowed 0 is spent" in words(fit).lower()


def test_notes_say_up_to_which_mean_the_link_is_a_logarithm() -> None:
    data = frame().assign(c=np.random.default_rng(1).poisson(2, 2000))
    declared = {**DOMAIN, "c": (0, 30)}
    capped = dp.poisson("c ~ x", data, 1.0, domain=declared, y_max=20)
    assert "logarithm for means up to 10. Larger means rise more slowly, to 20 at most" in words(capped)
    assert "logarithm for means" not in words(dp.poisson("c ~ x", data, 1.0, domain=declared, y_max=20, mean_cap=20))


def test_notes_on_missing_values_are_sentences() -> None:
    fit = dp.ols("np.log(z) ~ x", frame(), 1.0, domain=DOMAIN)
    assert "Not on all of the declared ranges is np.log(z) finite: rows where it is not are left out." in words(fit)
    assert ".." not in words(fit)


def words(fit: dp.GLMResults) -> str:
    """The summary's text on one line, with single spaces."""
    return " ".join(fit.summary().as_text().split())
