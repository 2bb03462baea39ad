"""Tables, pictures and evaluations of results that are no generalized linear models."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest

import dpstats as dp
from dpstats.errors import ArgumentError, FormulaError, NotReleasedError
from dpstats.results.contrasts import to_the_noise

DOMAIN = {
    "y": (-3, 5),
    "x": (0, 1),
    "z": (0, 1),
    "time": (0, 2),
    "event": (0, 1),
    "mode": ["bus", "car", "rail"],
    "place": ["a", "b", "c"],
}


@pytest.fixture(scope="module")
def rows() -> pd.DataFrame:
    rng = np.random.default_rng(5)
    firm, z = np.repeat(np.arange(1000), 4), rng.uniform(size=4000)
    x = 0.7 * z + 0.3 * rng.uniform(size=4000)
    return pd.DataFrame(
        {
            "firm": firm,
            "x": x,
            "z": z,
            "y": x + rng.normal(0, 0.2, 4000) + rng.uniform(0, 0.5, 1000)[firm],
            "time": rng.uniform(0, 2, 4000),
            "event": rng.integers(0, 2, 4000),
            "mode": rng.choice(DOMAIN["mode"], 4000),
            "place": rng.choice(DOMAIN["place"], 4000),
        }
    )


@pytest.fixture(scope="module")
def models(rows: pd.DataFrame) -> dict[str, Any]:
    sums = dp.release_statistics(DOMAIN, ["y", "x", "z"], 2.0, data=rows)
    return {
        "glm": dp.ols("y ~ x", rows, 1.0, domain=DOMAIN, inference=True),
        "absorbed": dp.ols("y ~ x | firm", rows, eps=1.0, domain=DOMAIN),
        "whole": dp.ols("y ~ x | firm", rows, eps=3.0, domain=DOMAIN, unit="firm"),
        "sums": sums.fit("y ~ x"),
        "iv": sums.iv("y ~ x | z"),
        "classes": dp.glm("mode ~ x", rows, 1.0, family="multinomial", domain=DOMAIN),
        "quantiles": dp.quantreg("y ~ x", rows, 1.0, q=[0.25, 0.5], domain=DOMAIN),
        "groups": dp.ols("y ~ x", rows, eps=1.0, domain=DOMAIN, by="place"),
        "hazard": dp.hazard("Surv(time, event) ~ x", rows, 3.0, domain=DOMAIN, breaks=2),
        "curves": dp.kaplan_meier("Surv(time, event) ~ place", rows, 1.0, domain=DOMAIN),
    }


LINEAR = ("glm", "absorbed", "whole", "sums", "iv")
"""Those that are one linear model."""


def test_linear_models_of_all_kinds_stand_in_one_table(models: dict[str, Any]) -> None:
    table = dp.etable({name: models[name] for name in LINEAR})
    text = table.summary().as_text()
    assert max(map(len, text.splitlines())) <= 80
    for name in LINEAR:
        error = models[name].bse["x"]
        assert f"({to_the_noise(error, error)})" in text
        assert table.frame.loc["x", (name, "coef")] == models[name].debiased["x"]
    for fact in ("Absorbed", "Rows less groups", "Groups", "Endogenous", "First-stage F"):
        assert fact in text, fact
    with pytest.raises(ArgumentError, match="iv has another one"):
        dp.etable({"iv": models["iv"]}, exponentiate=True)
    assert "*" in dp.etable([models["absorbed"]], stars=True).summary().as_text().partition("Notes")[0]


def test_models_of_the_same_statistics_are_charged_once(models: dict[str, Any]) -> None:
    notes = " ".join(dp.etable([models["sums"], models["iv"]]).summary().as_text().split())
    assert "share one charge" in notes
    assert "they cost" not in notes
    notes = " ".join(dp.etable([models["sums"], models["iv"], models["absorbed"]]).summary().as_text().split())
    assert "share one charge" in notes
    assert "On the same rows the releases cost eps 3 together" in notes
    assert "cost eps" not in " ".join(dp.etable([models["glm"]] * 2).summary().as_text().split())


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("classes", "an equation for each class"),
        ("quantiles", r"one quantile, result\[q\]"),
        ("groups", r"one group, result\[level\]"),
        ("curves", "no coefficients"),
    ],
)
def test_results_of_several_fits_say_what_to_pass(name: str, hint: str, models: dict[str, Any]) -> None:
    with pytest.raises(ArgumentError, match=hint):
        dp.etable([models[name]])
    pytest.importorskip("matplotlib")
    with pytest.raises(ArgumentError, match=hint):
        dp.plots.coefficients(models[name])


@pytest.mark.parametrize("name", ["absorbed", "whole", "sums", "iv", "classes", "quantiles", "groups", "curves"])
def test_no_evaluation_without_a_reason(name: str, models: dict[str, Any], rows: pd.DataFrame) -> None:
    hints = {"quantiles": r"result\[q\]", "groups": r"result\[level\]"}
    with pytest.raises(ArgumentError, match=hints.get(name, "cannot be evaluated: ")):
        dp.evaluate(models[name], rows, 1.0)


@pytest.mark.parametrize("name", ["absorbed", "sums", "iv"])
def test_pictures_of_coefficients(name: str, models: dict[str, Any]) -> None:
    plots = pytest.importorskip("dpstats.plots")
    pytest.importorskip("matplotlib")
    for by_range in (False, True):
        axes = plots.coefficients(models[name], by_range=by_range)
        assert [label.get_text() for label in axes.get_yticklabels()] == ["x"]
        assert axes.get_title(loc="left") == "y (gaussian)"
    assert plots.shares(models[name]).get_xlabel() == "share of the squared standard error"
    with pytest.raises(ArgumentError, match="generalized linear model"):
        plots.effect(models[name], "x")


def test_tables_are_as_wide_as_all_others(models: dict[str, Any], rows: pd.DataFrame) -> None:
    sums = models["sums"].statistics
    for result in (*(models[name] for name in ("iv", "classes", "absorbed", "quantiles", "curves")), sums):
        ruled = {len(line) for line in result.summary().as_text().splitlines() if line.startswith("===")}
        assert ruled == {78}, type(result)


def test_two_rays_stand_below_each_other(models: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    rays = dp.results.instruments.ConfidenceSet(((-np.inf, -0.076), (0.03721, np.inf)), 0.05)
    monkeypatch.setattr(dp.IVResults, "ar_conf_int", lambda *_, **__: rays)
    lines = models["iv"].summary().as_text().splitlines()
    at = next(place for place, line in enumerate(lines) if line.endswith("(-inf, -0.076] and"))
    assert lines[at + 1].strip() == "[0.03721, inf)"


def test_odds_ratios_of_classes(models: dict[str, Any], rows: pd.DataFrame) -> None:
    plain, ratios = models["classes"].tidy(), models["classes"].tidy(exponentiate=True)
    assert np.allclose(ratios["estimate"], np.exp(plain["estimate"]))
    paid = dp.glm("mode ~ x", rows, 1.0, family="multinomial", domain=DOMAIN, inference=True)
    plain, ratios = paid.tidy(), paid.tidy(exponentiate=True)
    ends = ["estimate", "conf_low", "conf_high"]
    assert np.allclose(ratios[ends], np.exp(plain[ends]))
    assert (ratios["std_error"] == plain["std_error"]).all()


def test_another_base_class_is_refused() -> None:
    with pytest.raises(FormulaError, match="declare that level first"):
        dp.plan("C(mode, Treatment('car')) ~ x", DOMAIN, 1.0, family="multinomial")
    assert dp.plan("C(mode) ~ x", DOMAIN, 1.0, family="multinomial").classes == ("bus", "car", "rail")


def test_the_formula_of_instruments_is_known() -> None:
    with pytest.raises(FormulaError, match=r"w stands on both sides .* dp.release_statistics\(...\).iv"):
        dp.plan("y ~ x + w | z + w", {**DOMAIN, "w": (0, 1)}, eps=1.0)
    with pytest.raises(FormulaError, match="one factor can be absorbed"):
        dp.plan("y ~ C(place) | firm + C(mode)", DOMAIN, eps=1.0)


def test_a_log_rank_test_is_one_line(models: dict[str, Any]) -> None:
    assert repr(models["curves"].logrank()).startswith("<LogRank: statistic=")


def test_plans_without_forecasts_say_so() -> None:
    with pytest.raises(ArgumentError, match="generalized linear models, got QuantilePlan"):
        dp.sample_size(dp.plan_quantreg("y ~ x", DOMAIN, 1.0, q=[0.25, 0.5]), se={"x": 0.1})  # type: ignore[arg-type]
    with pytest.raises(ArgumentError, match="q must be one of the quantiles"):
        dp.plan_quantreg("y ~ x", DOMAIN, 1.0, q=[0.25, 0.5])[0.9]


def test_a_hazard_is_of_the_times_and_the_event(rows: pd.DataFrame) -> None:
    fit = dp.hazard("Surv(time, event) ~ x", rows.assign(died=rows["event"]), 1.0, domain=DOMAIN, seed=1)
    assert "the hazard of Surv(time, event)" in fit.summary().as_text()
    assert "Dep. Variable:      Surv(time, event)" in fit.plan.summary().as_text()
    assert "the hazard of Surv(time, event)" in dp.etable([fit]).summary().as_text()


@pytest.mark.parametrize(
    "name", ["absorbed", "whole", "sums", "iv", "classes", "quantiles", "groups", "hazard", "curves"]
)
@pytest.mark.parametrize("asked", ["nobs", "resid", "get_margeff", "aic", "plot", "pvalues", "predict", "cov_params"])
def test_what_another_model_has_is_no_bare_attribute_error(name: str, asked: str, models: dict[str, Any]) -> None:
    result = models[name]
    if not hasattr(result, asked):
        with pytest.raises(NotReleasedError):
            getattr(result, asked)
    with pytest.raises(AttributeError, match="has no attribute 'nonsense'"):
        _ = result.nonsense
    assert not hasattr(result, "_private")


@pytest.mark.parametrize("name", ["absorbed", "sums", "iv", "quantiles", "groups", "hazard", "curves"])
def test_every_model_has_a_picture(name: str, models: dict[str, Any]) -> None:
    pytest.importorskip("matplotlib")
    arguments = {"term": "x"} if name in ("quantiles", "groups") else {}
    assert models[name].plot(**arguments).get_title(loc="left")


def test_pictures_of_survival_and_of_quantiles(models: dict[str, Any]) -> None:
    pytest.importorskip("matplotlib")
    axes = models["hazard"].plot("survival", newdata={"x": [0.1, 0.9]})
    assert (len(axes.lines), axes.get_xlabel()) == (2, "time")
    assert axes.lines[0].get_ydata()[0] == 1.0
    with pytest.raises(ArgumentError, match="newdata must have the persons"):
        models["hazard"].plot("survival")
    with pytest.raises(ArgumentError, match="hazards"):
        models["glm"].plot("survival", newdata={"x": [0.1]})
    with pytest.raises(ArgumentError, match="term"):
        models["quantiles"].plot("z")


def test_survival_takes_the_domain_of_the_ledger(rows: pd.DataFrame, tmp_path: Any) -> None:
    ledger = dp.Ledger(tmp_path / "one.ledger", dataset="rows", eps=5.0, domain=DOMAIN)
    assert dp.kaplan_meier("Surv(time, event) ~ place", rows, 1.0, ledger=ledger).guarantee.eps == 1.0
    assert dp.hazard("Surv(time, event) ~ x", rows, 1.0, breaks=2, ledger=tmp_path / "one.ledger").guarantee.eps == 1.0
    assert ledger.remaining[0] == pytest.approx(3.0)


def test_a_factor_of_one_level_within_groups_is_refused(rows: pd.DataFrame) -> None:
    with pytest.raises(FormulaError, match="declared with one level"):
        dp.ols("y ~ o | firm", rows.assign(o="a"), eps=1.0, domain={**DOMAIN, "o": ["a"]})


def test_what_linear_models_lack_names_what_to_use() -> None:
    """Of a model with an absorbed factor, of released sums and with instruments."""
    rng = np.random.default_rng(0)
    rows = {"x": rng.uniform(0, 1, 4000), "z": rng.uniform(0, 1, 4000), "firm": np.repeat(np.arange(400), 10)}
    rows["y"] = rows["x"] + rng.normal(0, 0.1, 4000)
    domain = {"x": (0, 1), "z": (0, 1), "y": (-1, 2)}
    within = dp.ols("y ~ x + z | firm", rows, eps=5.0, domain=domain)
    sums = dp.release_statistics(domain=domain, columns=["x", "z", "y"], eps=5.0, data=rows)
    names = "comparisons predictions get_margeff fitstats selection left_out focus excess_risk noise_at_most rsquared"
    for fit in (within, sums.fit("y ~ x + z"), sums.iv("y ~ x | z")):
        for name in names.split():
            with pytest.raises(NotReleasedError, match=rf"{name} is not offered for {type(fit).__name__}: "):
                getattr(fit, name)
        with pytest.raises(
            NotReleasedError, match=r"comparisons is not offered for \w+: its params are changes of the"
        ):
            fit.comparisons({"x": 0.1})
        with pytest.raises(NotReleasedError, match=r"fitstats is not offered for \w+: glance\(\) has"):
            _ = fit.fitstats
        assert not hasattr(fit, "predictions")
