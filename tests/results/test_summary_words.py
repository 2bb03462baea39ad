"""What a reader of a summary is told in words: caps, shrinkage, selection, p-values, names."""

from __future__ import annotations

import json
import re
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy.stats import norm

import dpstats as dp
from dpstats.cli.main import main
from dpstats.data import as_table
from dpstats.errors import ArgumentError, DataError, DomainError, NotReleasedError
from dpstats.plan.tables import in_units
from dpstats.results.contrasts import (
    COEFFICIENT_WIDTHS,
    WaldTestTerms,
    coefficient_cells,
    coefficient_headers,
    with_pvalues_note,
)
from dpstats.summaries import WIDTH, full_width

DOMAIN = {"x": (0, 1), "z": (0, 1), "y": (0, 8000), "b": (0, 1)}


def rows(size: int = 1000) -> pd.DataFrame:
    rng = np.random.default_rng(4)
    data = pd.DataFrame({"x": rng.uniform(0, 1, size), "z": rng.uniform(0, 1, size)})
    return data.assign(y=1000 + 4000 * data["x"] + rng.normal(0, 100, size), b=(data["x"] > 0.5).astype(int))


def words(fit: Any, **arguments: Any) -> str:
    return " ".join(fit.summary(**arguments).as_text().split())


@pytest.mark.parametrize("full", [False, True])
def test_the_cap_of_residuals_is_said_in_units_of_the_response(full: bool) -> None:
    capped = dp.ols("y ~ x", rows(), 1.0, domain=DOMAIN, method="napp", inference=None)
    assert "Residuals beyond 1,000 (residual_cap" in words(capped, full=full)
    assert "Residuals beyond 1,000" in words(capped.plan)
    for other in ({"method": "statistics"}, {"residual_cap": 8000}):
        assert "residual_cap" not in words(dp.ols("y ~ x", rows(), 1.0, domain=DOMAIN, **other), full=full)
    assert "residual_cap" not in words(dp.logit("b ~ x", rows(), 1.0, domain=DOMAIN), full=full)


def test_coefficients_without_errors_are_said_to_be_shrunken() -> None:
    known = words(dp.ols("y ~ x", rows(), 1.0, domain=DOMAIN, seed=1, inference=None))
    assert "inference=True pays for them" in known
    assert "y forecast " in known
    # Of how many rows they would be is not known there.
    unknown = words(dp.ols("y ~ x", rows(), 1.0, domain=DOMAIN, seed=1, check_share=0))
    assert "inference=True pays for them; plan.standard_errors(n)" in unknown
    assert "y forecast " not in unknown
    sparse = words(dp.lasso("y ~ x + z", rows(), 1.0, domain=DOMAIN, seed=1, alpha=1.0))
    assert "Coefficients are shrunk" in sparse
    assert "inference=True" not in sparse, "a sparse penalty leaves nothing to buy"
    assert "Coefficients are shrunk" not in words(dp.ols("y ~ x", rows(), 1.0, domain=DOMAIN, seed=1, inference=True))


def test_a_kept_coefficient_that_is_small_beside_others_is_not_printed_as_zero() -> None:
    fit = dp.lasso("y ~ x + z", rows().assign(z=rows()["z"] * 1e6), 1.0, domain={**DOMAIN, "z": (0, 1e6)}, alpha=0.01)
    lines = [line.split() for line in fit.summary().as_text().splitlines() if line.startswith(("x ", "z "))]
    for name, shown in lines:
        assert float(shown) == pytest.approx(fit.params[name], rel=0.05)
    assert lines


def test_what_was_left_out_stands_in_a_line_and_zeros_in_none() -> None:
    fit = dp.lasso("y ~ x + z", rows(), 1.0, domain=DOMAIN, alpha=1e5)
    assert (list(fit.selection.index), fit.left_out) == (["Intercept"], ["x", "z"])
    assert "effects in the model chosen: 0 of 2 columns" in words(fit)
    assert "Left out: x, z." in words(fit)
    refitted = {"refit_share": 0.5, "split": "rows", "inference": True}
    none = words(dp.lasso("y ~ x + z", rows(), 1.0, domain=DOMAIN, alpha=1e5, **refitted))
    assert "Left out: x, z." in none
    assert "similar column" not in none, "there is no coefficient that it could be in"
    assert not [line for line in fit.summary().as_text().splitlines() if line.startswith(("x ", "z "))]
    screened = dp.ols("y ~ x + z", rows(), 1.0, domain=DOMAIN, screen=1)
    assert "effects in the model chosen: 1 of 2 columns" in words(screened)
    assert "Effects in the model chosen: 1 of 2 columns" in screened.summary(full=True).as_text()
    names = [f"x{j}" for j in range(12)]
    row, unit = {name: [0.5] for name in (*names, "y")}, dict.fromkeys((*names, "y"), (0, 1))
    wide = dp.ols(f"y ~ {' + '.join(names)}", row, 1.0, domain=unit, screen=2)
    assert " and 2 more (fit.left_out has all)." in words(wide)


def test_lost_rows_are_a_reason_for_nothing_identified() -> None:
    fit = dp.logit("b ~ x", rows(50), 0.01, domain=DOMAIN, inference=True, seed=1, check_share=0)
    assert "dp.check" in words(fit)


def test_no_heading_says_that_p_values_are_normal() -> None:
    fit = dp.logit("b ~ z", rows(20_000), 5.0, domain=DOMAIN, inference=True, seed=1)
    for shown in (fit, fit.t_test("z = 1"), fit.get_margeff(at="zero"), fit.wald_test_terms()):
        text = str(shown)
        assert "p-value" in text
        assert not any(name in text for name in ("P>", "chi2", " z "))
    assert fit.t_test("z = 1").summary_frame().columns[3] == "P>|z|", "frames have statsmodels' names"


def test_nothing_is_tested_of_what_is_not_identified() -> None:
    assert coefficient_cells([1.0, np.inf, 0.0, 0.54, -np.inf, np.inf])[2:4] == ["", ""]
    assert coefficient_cells([1.0, 0.5, 2.0, 0.046, 0.02, 1.98])[3] == "0.046"


def test_names_are_whole_and_go_on_in_another_line_where_the_page_ends() -> None:
    widths, cells = COEFFICIENT_WIDTHS, ["-2.01", "0.11", "-17.67", "0.000", "-2.23", "-1.79"]
    headers = coefficient_headers(0.05)
    for name in ("job[T.professional]", "a_rather_long_name_indeed"):
        text = full_width(headers, [(name, cells)], widths).as_text()
        assert name in text
        assert {len(line) for line in text.splitlines()} == {WIDTH}
    for name, narrow in (("n" * 60, True), ("job[T.professional, specialised in something]", False)):
        lines = full_width(headers, [(name, cells)], widths, narrow=narrow).as_text().splitlines()
        assert {len(line) for line in lines} == {WIDTH}
        kept = "".join(lines[3:-1])
        for cell in cells:
            kept = kept.replace(cell, "", 1)
        assert kept.replace(" ", "") == name.replace(" ", "")


def test_the_heading_says_where_residuals_are_capped() -> None:
    fit = dp.ols("y ~ x", rows(), 1.0, domain=DOMAIN, method="napp", inference=None)
    assert "residuals capped at 1,000" in " ".join(str(fit).split())
    exact = dp.ols("y ~ x", rows(), 1.0, domain=DOMAIN, method="statistics")
    assert "capped" not in str(exact)
    lines = [line.split() for line in str(dp.etable([fit, exact])).splitlines()]
    assert ["Residual", "cap", "1,000"] in lines


def test_a_plan_says_which_alpha_means_something() -> None:
    plan = dp.plan("y ~ x + z", DOMAIN, 1.0, penalty="lasso", alpha=4.0, rows_guess=500)
    said = words(plan)
    noise, most = float(np.median(plan.noise_sd)), plan.family.lipschitz * max(term.l2 for term in plan.design.terms)
    assert f"a standard deviation of {noise:.3g}, below which" in said
    assert f"no column is kept above {most * 500:.3g} for 500 rows" in said
    fit = dp.lasso("y ~ x + z", rows(500), 1.0, domain=DOMAIN, alpha=1.01 * most * 500)
    assert np.all(fit.params[["x", "z"]] == 0)
    assert "alpha =" not in words(dp.plan("y ~ x", DOMAIN, 1.0, penalty="ridge", alpha=4.0))
    assert "inference=True pays for them" not in said


@pytest.mark.parametrize("inference", [True, None])
def test_ratios_are_exponentials_of_what_errors_are_of(inference: bool | None) -> None:
    fit = dp.logit("b ~ z", rows(3000), 2.0, domain=DOMAIN, inference=inference)
    plain, ratios = fit.tidy(), fit.tidy(exponentiate=True)
    assert ratios["estimate"].to_numpy() == pytest.approx(np.exp(fit.debiased if inference else fit.params).to_numpy())
    if inference:
        assert ratios["conf_low"].to_numpy() == pytest.approx(np.exp(fit.conf_int()[0]).to_numpy())
        assert ratios["std_error"].equals(plain["std_error"])
    assert ratios["released"].equals(plain["released"])
    with pytest.raises(
        ArgumentError, match="exponentiate needs a logit or log link; the link of this model is 'identity'"
    ):
        dp.ols("y ~ x", rows(), 1.0, domain=DOMAIN).tidy(exponentiate=True)
    with pytest.raises(ArgumentError, match="exponentiate"):
        fit.tidy(exponentiate="yes")  # type: ignore[arg-type]


def test_an_automatic_alpha_is_not_said_to_be_zero() -> None:
    columns = [f"x{j}" for j in range(12)]
    table = {name: np.linspace(-1, 1, 50) for name in [*columns, "y"]}
    domain = dict.fromkeys(table, (-1, 1))
    formula = f"y ~ {' + '.join(columns)}"
    fits = [dp.lasso(formula, table, 1.0, domain=domain, alpha=alpha, seed=1) for alpha in ("auto", 5)]
    for fit, size in zip(fits, ("auto", "5"), strict=True):
        assert f"penalty: lasso, alpha {size};" in words(fit)
        assert f"lasso, alpha {size}" in dp.etable(fits).to_markdown()
    assert "ranges of x0, x1, x2, x3, x4, x5, x6, x7, 4 more" in " ".join(
        str(dp.plan(formula, domain, 1.0).summary()).split()
    )
    with pytest.raises(AttributeError, match=r"tidy\(\)\.to_csv\(path\)"):
        fits[0].to_csv("table.csv")  # type: ignore[attr-defined]
    assert "penalty: lasso, alpha auto" in str(dp.plan(formula, domain, 1.0, penalty="lasso"))


def test_tidy_takes_brooms_arguments() -> None:
    fit = dp.logit("b ~ x", rows(), 5.0, domain=DOMAIN, inference=True)
    narrow = fit.tidy(conf_int=True, conf_level=0.9)
    np.testing.assert_array_equal(narrow[["conf_low", "conf_high"]], fit.conf_int(0.1))
    np.testing.assert_array_equal(fit.tidy()[["conf_low", "conf_high"]], fit.conf_int())
    assert list(fit.tidy(conf_int=False)) == [name for name in fit.tidy() if not name.startswith("conf")]
    plain = dp.logit("b ~ x", rows(), 5.0, domain=DOMAIN, inference=None)
    assert not plain.has_errors
    for arguments in ({}, {"conf_int": False}, {"exponentiate": True}):
        without, paid = plain.tidy(**arguments), fit.tidy(**arguments)
        assert list(without) == list(paid)
        missing = {"std_error", "statistic", "p_value", "conf_low", "conf_high"} & set(paid)
        assert set(without.columns[without.isna().any()]) == missing
    ratios = fit.tidy(exponentiate=True, conf_level=0.9)
    np.testing.assert_allclose(ratios["conf_low"], np.exp(narrow["conf_low"]))
    for wrong in (0, 1, 95, "0.9", True):
        with pytest.raises(ArgumentError, match="conf_level must lie strictly between 0 and 1"):
            fit.tidy(conf_level=wrong)  # type: ignore[arg-type]
    with pytest.raises(ArgumentError, match="did you mean conf_level="):
        fit.tidy(conflevel=0.9)  # type: ignore[call-arg]


@pytest.mark.filterwarnings("ignore:means above")
def test_a_missing_exposure_is_named_with_what_to_pass() -> None:
    data = rows().assign(t=1.5, k=2.0)
    fit = dp.poisson("k ~ x", data, 1.0, domain={**DOMAIN, "t": (1, 2), "k": (0, 9)}, exposure="t")
    with pytest.raises(DataError, match=r"newdata has no column 't', which the offset .* pass exposure=1.0"):
        fit.predict({"x": [0.5]})
    assert fit.predict({"x": [0.5]}, exposure=1.5)[0] == pytest.approx(fit.predict({"x": [0.5], "t": [1.5]})[0])
    with pytest.raises(DataError, match="no column 'x'"):
        fit.predict({"t": [1.5]})


def test_where_there_are_no_errors_the_table_says_why_and_what_has_them() -> None:
    assert "add refit_share=0.5" in words(dp.lasso("y ~ x + z", rows(), 1.0, domain=DOMAIN, alpha=1.0))


def test_coefficients_of_very_few_rows_are_said_to_be_perhaps_noise() -> None:
    """Of fewer than about 280 over eps, by the count that was released."""
    few, many = (dp.ols("y ~ x + z", rows()[:n], 1.0, domain=DOMAIN, seed=3, inference=None) for n in (60, 900))
    assert few.plan.counts.rows < 280 < many.plan.counts.rows
    assert "With so few rows even their signs may be noise" in words(few)
    assert "so few rows" not in words(many)


def test_a_rare_reference_level_is_named_and_what_has_no_error_is_blank() -> None:
    rng = np.random.default_rng(0)
    data = pd.DataFrame({"age": rng.uniform(18, 90, 8000)})
    data["job"] = rng.choice(["rare", "clerk", "worker", "manager"], 8000, p=[0.002, 0.4, 0.4, 0.198])
    data["b"] = rng.random(8000) < 1 / (1 + np.exp(-(data["age"] - 50) / 10))
    domain = {"age": (18, 90), "job": ["rare", "clerk", "worker", "manager"]}
    for seed in range(20):  # whether few are identified is a matter of the noise
        fit = dp.logit("b ~ age + job", data, 0.7, domain=domain, inference=True, seed=seed)
        if fit.identified["age"] and not fit.identified["Intercept"]:
            break
    else:
        raise AssertionError("no seed leaves one of five coefficients")
    assert "job is measured from a level that is too rare" in words(fit)
    lines = {line.split()[0]: line for line in str(fit).splitlines() if line}
    for name, known in fit.identified.items():
        cells = lines[name].split()[1:]
        assert len(cells) == (6 if known else 0)


def of_regions(rows: int) -> pd.DataFrame:
    random = np.random.default_rng(1)
    data = pd.DataFrame({"x": random.uniform(0, 10, rows), "region": random.choice(["n", "e", "s"], rows)})
    return data.assign(y=50 + data["x"] + random.normal(0, 5, rows))


def test_the_cure_for_a_rare_reference_stands_in_place_of_advice_that_cannot_help() -> None:
    domain = {"x": (0, 10), "y": (0, 100), "region": ["nw", "n", "e", "s"]}
    fit = dp.ols("y ~ x + region", of_regions(8000), 1.0, domain=domain, seed=1)
    assert fit.identified["x"]
    assert not fit.identified.filter(like="region").any()
    text = words(fit)
    cure = fit.notes[0]  # before what the others are
    assert cure.startswith("Not identified at this budget: Intercept, region[T.n], region[T.e], region[T.s]. region is")
    assert cure in text
    assert "region is measured from a level that is too rare for this budget. Name a frequent one" in text
    assert "merging rare levels" not in text
    alone = dp.ols("y ~ region", of_regions(8000), 1.0, domain=domain, inference=True, seed=1)
    assert not alone.identified.any()
    assert "region is measured from a level that is too rare" in words(alone)


def test_of_a_level_without_an_interval_few_rows_or_none_are_said_to_have_it() -> None:
    domain = {"x": (0, 10), "y": (0, 100), "region": ["n", "e", "s", "nw"]}
    fit = dp.ols("y ~ x + region", of_regions(8000), 1.0, domain=domain, seed=1)
    assert "Not identified at this budget: region[T.nw], which few rows have, or none." in words(fit)


def test_a_factor_of_one_declared_level_is_summarised() -> None:
    domain = {"x": (0, 10), "y": (0, 100), "region": ["n"]}
    rows = of_regions(8000).assign(region="n")
    assert "Intercept" in words(dp.ols("y ~ x + region", rows, 1.0, domain=domain, inference=True, seed=1))


def test_a_rare_reference_is_named_where_all_levels_are_identified() -> None:
    random = np.random.default_rng(3)
    n = 15_000
    data = pd.DataFrame(
        {"x": random.uniform(0, 10, n), "g": random.choice(list("abcr"), n, p=[0.5, 0.3, 0.195, 0.005])}
    )
    data["y"] = 20 + data["x"] + random.normal(0, 4, n)
    cure = "g is measured from a rare level. From a most of its standard errors would be less than half as large"
    for levels, named in (("rabc", True), ("abcr", False), ("cabr", False)):
        fit = dp.ols("y ~ x + g", data, 1.0, domain={"x": (0, 10), "y": (0, 60), "g": list(levels)}, seed=1)
        assert fit.identified.filter(like="g[").sum() >= 2
        assert (cure in words(fit)) == named
        assert any(note.startswith("g is measured") for note in fit.notes) == named
    cured = dp.ols(
        "y ~ x + C(g, Treatment('a'))", data, 1.0, domain={"x": (0, 10), "y": (0, 60), "g": list("rabc")}, seed=1
    )
    assert cured.bse.filter(like="[T.b]").iloc[0] < 0.5


@pytest.mark.parametrize(("rare", "named"), [(0.02, True), (0.08, False)])
def test_from_the_named_level_most_errors_are_less_than_half_as_large(rare: float, named: bool) -> None:
    """As the fit that takes the advice has them: it is given only where it keeps this promise."""
    shares = [rare, *((1 - rare) * np.array([0.5, 0.3, 0.2]))]
    for seed in range(3):
        random = np.random.default_rng([seed, 3])
        data = pd.DataFrame({"x": random.uniform(0, 10, 15_000), "g": random.choice(list("rabc"), 15_000, p=shares)})
        data["y"] = 20 + data["x"] + random.normal(0, 4, 15_000)
        call: dict[str, Any] = {"domain": {"x": (0, 10), "y": (0, 60), "g": list("rabc")}, "seed": seed}
        fit = dp.ols("y ~ x + g", data, 5.0, inference=True, **call)
        other = dp.ols("y ~ x + C(g, Treatment('a'))", data, 5.0, inference=True, **call)
        smaller = [fit.bse[f"g[T.{one}]"] / other.bse[f"C(g, Treatment('a'))[T.{one}]"] for one in "bc"]
        assert (np.median(smaller) > 2) == named
        assert any("g is measured from a rare level. From a most of its" in note for note in fit.notes) == named


def test_a_response_that_is_declared_far_too_wide_is_named_although_an_interval_of_it_was_bought() -> None:
    domain = {"x": (0, 10), "region": ["n", "e", "s"]}
    for high, wide in ((100_000, True), (120, False)):
        fit = dp.ols("y ~ x + region", of_regions(8000), 1.0, domain={**domain, "y": (-high, high)}, seed=1)
        assert fit.plan.response.high - fit.plan.response.low < 2 * high
        assert (f"of the declared range, (-{high:g}, {high:g}): declare a narrower range" in words(fit)) == wide


@pytest.mark.slow
def test_a_common_reference_is_advised_wherever_the_others_have_errors_among_one_another() -> None:
    rng = np.random.default_rng(8)
    data = pd.DataFrame({"g": rng.choice(["rare", "b", "c", "d"], 8000, p=[0.004, 0.4, 0.35, 0.246])})
    data = data.assign(x=rng.uniform(0, 1, 8000), f=(rng.random(8000) < 0.02).astype(int))
    data["z"] = 10 + (data["g"] == "c") - 2 * (data["g"] == "rare") + rng.normal(0, 2, 8000)
    domain = {"x": (0, 1), "f": [0, 1], "g": ["rare", "b", "c", "d"], "z": (0, 30)}
    advice, within = "g is measured from a level that is too rare", []
    for seed in range(8):  # whether the rare level is identified, its interval unbounded, is a matter of the noise
        fit = dp.ols("z ~ x + g + f", data, 1.0, domain=domain, inference=True, method="napp", seed=seed)
        unknown = not fit.identified.filter(like="g[").any()
        assert (advice in words(fit)) == unknown
        if unknown:
            assert np.isfinite(fit.t_test("g[T.c] - g[T.b]").sd).all()
            within.append(bool(fit._inferred.table.estimates.identified.active.all()))
        common = {**domain, "g": ["b", "c", "d", "rare"]}
        assert advice not in words(
            dp.ols("z ~ x + g + f", data, 1.0, domain=common, inference=True, method="napp", seed=seed)
        )
    assert any(within), "one whose information is identified, though its interval is unbounded"


@pytest.mark.slow
def test_a_reference_with_its_share_of_the_rows_is_seldom_called_rare() -> None:
    """Of 1,000 rows at eps .1 noise has it so in about 4 of 120 fits."""
    rng = np.random.default_rng(3)
    levels = ["midwest", "northeast", "south", "west"]
    data = pd.DataFrame({"region": rng.choice(levels, 1000, p=[0.23, 0.19, 0.37, 0.21])})
    data["age"] = rng.uniform(18, 65, 1000)
    data["b"] = rng.random(1000) < np.where(data["region"] == "south", 0.3, 0.5)
    domain = {"region": levels, "age": (18, 65)}
    fits = [
        dp.logit("b ~ age + region", data, 0.1, domain=domain, inference=True, seed=seed, on_mismatch="go")
        for seed in range(30)
    ]
    assert sum("measured from a level" in words(fit) for fit in fits) <= 4


def test_the_summary_of_persons_says_how_they_are_weighed() -> None:
    data = rows().assign(who=np.arange(len(rows())) // 2)
    text = words(dp.logit("b ~ x", data, 2.0, domain=DOMAIN, unit="who"))
    assert "every who weighs the same" in text.partition("coef")[0]
    assert "The rows of one who share a weight of 1 equally, so each who counts the same" in text
    several = words(dp.logit("b ~ x", data, 2.0, domain=DOMAIN, unit="who", max_rows=3))
    assert "3 rows of each who at most" in several.partition("coef")[0]


def test_a_negative_binomial_fit_has_its_alpha_in_the_title() -> None:
    data = rows().assign(n=1)
    family = dp.families.NegativeBinomial(alpha=0.5)
    fit = dp.glm("n ~ x", data, 2.0, domain={**DOMAIN, "n": (0, 9)}, family=family)
    title = "Private Generalized Linear Model: negative binomial, alpha = 0.5"
    assert title in words(fit)
    assert title in " ".join(str(fit.summary(full=True)).split())
    assert title in " ".join(str(fit.plan.summary()).split())


def test_predictions_print_as_a_table() -> None:
    fit = dp.logit("b ~ x", rows(), 5.0, domain=DOMAIN, inference=True)
    found = fit.get_prediction({"x": [0.2, 0.4]})
    assert str(found) == repr(found) == repr(found.summary_frame())
    assert str(found).split()[:2] == ["mean", "mean_se"]
    assert "<table" in found._repr_html_()


def test_levels_that_are_not_declared_are_counted_by_column_and_never_quoted() -> None:
    data = rows().assign(g="a")
    fit = dp.logit("b ~ x + g", data, 5.0, domain={**DOMAIN, "g": ["a", "b"]}, inference=True)
    new = pd.DataFrame({"x": [0.1, 0.2, 0.3, np.nan], "g": ["a", "secret", None, "a"]})
    for predict in (fit.predict, fit.get_prediction):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            predict(new)
        missing, unknown = (str(one.message) for one in caught)
        assert "1 of 4 rows have a level of 'g' that the Domain does not" in unknown
        assert missing == "newdata: 2 of 4 rows have no value of 'x' or 'g', and no prediction (NaN)"
        assert "declared are 'a', 'b'" in unknown
        assert "secret" not in unknown
        assert {one.filename for one in caught} == {__file__}
    with pytest.warns(UserWarning, match="2 of 3 rows have no value") as caught:
        assert fit.predict(new[new["g"] != "secret"]).isna().tolist() == [False, True, True]
    assert len(caught) == 1, "missing is not unknown"


def test_fits_of_several_parts_warn_of_cells_once_and_predict_as_each_part_does() -> None:
    data = rows(3000).assign(g=["a", "b", "c"] * 1000)
    domain, new = (
        {**DOMAIN, "g": ["a", "b", "c"]},
        pd.DataFrame({"x": [0.1, 0.7, 3.0, np.nan], "g": ["a", "b", "c", "a"]}),
    )
    groups = dp.logit("b ~ x", data, 5.0, domain=domain, by="g", shrink=False)
    quantiles = dp.quantreg("y ~ x", data, 5.0, [0.2, 0.5, 0.8], domain=domain)
    found = {}
    for name, fit in (("groups", groups), ("quantiles", quantiles)):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            found[name] = fit.predict(new)
        missing, clipped = (str(one.message) for one in caught)
        assert missing == "newdata: 1 of 4 rows have no value of 'x', and no prediction (NaN)"
        assert "1 of 4 rows have 'x' outside of its range (0, 1)" in clipped
        assert {one.filename for one in caught} == {__file__}
    whole = new.iloc[:2]
    for place, level in enumerate("ab"):
        assert found["groups"][place] == groups[level].predict(whole)[place]
    assert found["quantiles"].loc[0, 0.5] == quantiles.fits[0.5].predict(whole)[0]


def test_every_release_says_in_one_phrase_what_its_guarantee_hides() -> None:
    data = rows(3000).assign(g=["a", "b", "c"] * 1000)
    domain = {**DOMAIN, "g": ["a", "b", "c"]}
    releases = [
        dp.ols("y ~ x", data, 1.0, domain=domain),
        dp.ols("y ~ x | g", data, 1.0, domain=domain),
        dp.quantreg("y ~ x", data, 1.0, [0.2, 0.8], domain=domain),
        dp.logit("b ~ x", data, 1.0, domain=domain, by="g"),
        dp.check("y ~ x", data, domain, 1.0),
    ]
    releases.append(dp.evaluate(releases[0], data, 1.0))
    for one in releases:
        text = " ".join(str(one.summary()).split())
        assert "1-differentially private for adding or removing one row" in text
        assert "under add_remove" not in text


def test_numbers_of_new_rows_that_are_clipped_are_counted_by_column() -> None:
    fit = dp.logit("b ~ x", rows(), 5.0, domain=DOMAIN, inference=True, ranges="declared")
    low, high = fit.plan.design.domain["x"].interval  # type: ignore[union-attr]
    new = pd.DataFrame({"x": [low, low - 1.25, np.nan, high + 7, np.inf]})

    def compare(data: pd.DataFrame) -> None:
        fit.comparisons({"x": 0.1}, newdata=data)

    for call in (fit.predict, fit.get_prediction, compare, lambda data: fit.predictions(newdata=data)):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            call(new)
        missing, clipped = (str(one.message) for one in caught)
        assert "2 of 5 rows have 'x' outside of its range (" in clipped
        assert missing.startswith("newdata: 2 of 5 rows have no value of 'x'"), "nor any that is finite"
        assert {one.filename for one in caught} == {__file__}
    dropping = dp.logit("b ~ x", rows(), 5.0, domain={**DOMAIN, "x": dp.Range(low, high, outside="drop")})
    with pytest.warns(UserWarning, match=r"2 of 3 rows have 'x' outside of .*: their predictions are extrapolations"):
        dropping.predict(new[np.isfinite(new["x"])])


def test_a_bought_range_leaves_the_polynomials_of_the_declared_one() -> None:
    rng = np.random.default_rng(0)
    data = pd.DataFrame({"x": np.clip(rng.normal(40, 6, 40_000), 0, 200)})
    data["y"] = np.clip(50 + 0.5 * (data["x"] - 40) + rng.normal(0, 5, 40_000), 0, 100)
    domain, new = {"x": (0, 200), "y": (0, 100)}, {"x": [30.0, 70.0, 199.0, 200.0, 300.0]}
    fit = dp.ols("y ~ poly(x, 2)", data, 2.0, domain=domain, seed=1)
    low, high = fit.plan.design.domain["x"].interval
    assert 0 < low < 30 < high < 70
    with pytest.warns(UserWarning, match=r"are extrapolations, and beyond \(0, 200\) splines and polynomials stay as"):
        predicted = fit.predict(new).to_numpy()
    assert predicted[-1] == predicted[-2] != predicted[-3]
    declared = dp.plan("y ~ poly(x, 2)", domain, 2.0).design
    units = [one.exog(as_table(new))[0] * one.scale + one.center for one in (declared, fit.plan.design)]
    np.testing.assert_allclose(*units, rtol=1e-9, atol=1e-9)


@pytest.mark.filterwarnings("ignore:means above")
def test_comparisons_of_a_model_with_an_exposure_take_that_of_the_new_rows() -> None:
    data = rows().assign(years=2.0, count=lambda frame: frame["b"])
    domain = {**DOMAIN, "years": (0, 10), "count": (0, 5)}
    fit = dp.poisson("count ~ x", data, 20.0, domain=domain, exposure="years", inference=True, ranges="declared")
    new = pd.DataFrame({"x": [0.0, 0.5], "g": ["a", "b"]})
    with pytest.raises(dp.errors.DataError, match="'years', which the offset of this model reads: add it, or pass exp"):
        fit.comparisons({"x": 0.1}, newdata=new, by="g")
    found = fit.comparisons({"x": 0.1}, newdata=new, by="g", exposure=[1.0, 3.0])
    added = fit.comparisons({"x": 0.1}, newdata=new.assign(years=[1.0, 3.0]), by="g")
    pd.testing.assert_frame_equal(pd.DataFrame(found), pd.DataFrame(added))
    with pytest.raises(dp.errors.ArgumentError, match=r"by takes one column, got .*; add one that numbers the groups"):
        fit.comparisons({"x": 0.1}, newdata=new, by=["x", "g"], exposure=1)  # type: ignore[arg-type]
    assert "rate ratios (of the intercept a rate)" in " ".join(str(dp.etable([fit], exponentiate=True)).split())
    assert fit.tidy(exponentiate=True).attrs["note"].startswith("on the log scale: std_error, released")
    assert "note" not in fit.tidy().attrs
    rates = fit.predictions(newdata=new.iloc[:1], exposure=1)
    expected = fit.get_prediction(new.iloc[:1], exposure=1).predicted_mean
    assert rates["estimate"].to_numpy() == pytest.approx(np.asarray(expected))
    with pytest.raises(dp.errors.ArgumentError, match="pass these too"):
        fit.predictions(exposure=1)
    with pytest.raises(dp.errors.ArgumentError, match="one for each of the 2 rows"):
        fit.comparisons({"x": 0.1}, newdata=new, exposure=[1.0, 2.0, 3.0])


def test_an_exposure_beyond_the_mean_cap_is_told(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    data = rows().assign(years=2.0, count=lambda frame: frame["b"])
    domain = {**DOMAIN, "years": (0, 10), "count": (0, 5)}
    fit = dp.poisson("count ~ x", data, 20.0, domain=domain, exposure="years", inference=True, ranges="declared")
    new = pd.DataFrame({"x": [0.0, 0.5], "g": ["a", "b"]})
    told = r"mean cap of this fit, rise more slowly than the exposure, to at most .*: predict with exposure=1, and mul"
    for call in (fit.predict, fit.get_prediction, lambda rows, **by: fit.predictions(newdata=rows, **by)):
        with pytest.warns(UserWarning, match=told):
            call(new, exposure=1000.0)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            call(new, exposure=1.0)
        with pytest.warns(UserWarning, match=told):  # the exposure is a column of the rows
            call(new.assign(years=10.0))
    assert fit.predict(new.assign(years=10.0), which="linear").notna().all()  # is not capped
    fit.save(tmp_path / "fit.json")
    new.assign(years=10.0).to_csv(tmp_path / "new.csv")
    asked = ["predict", str(tmp_path / "fit.json"), str(tmp_path / "new.csv")]
    assert main([*asked, "--exposure", "1000"]) == 0
    assert capfd.readouterr().err.count("predict with --exposure 1, and multiply the rates") == 1
    assert main(asked) == 0
    assert capfd.readouterr().err.count("predict with --exposure 1, and multiply the rates") == 1
    assert main([*asked, "--exposure", "1"]) == 0
    assert capfd.readouterr().err == ""


def test_ratios_beyond_the_mean_cap_are_told() -> None:
    rng = np.random.default_rng(1)
    data = pd.DataFrame({"x": rng.uniform(0, 1, 8000), "years": rng.uniform(0.5, 4, 8000)})
    data["count"] = rng.poisson(data["years"] * np.exp(data["x"] - 1))
    domain = {"x": (0, 1), "years": (0, 30), "count": (0, 12)}
    fit = dp.poisson("count ~ x", data, 20.0, domain=domain, exposure="years", inference=True, response="declared")
    rows = pd.DataFrame({"x": [0.1, 0.2], "years": [1.0, 25.0]})
    ratios = {"comparison": "ratio", "newdata": rows}
    told = (
        "^means above 8, the mean cap of this fit, rise more slowly than the exposure, to at most 12: predict with exp"
    )
    with pytest.warns(UserWarning, match=told) as warned:
        capped = fit.comparisons({"x": 0.5}, **ratios)["estimate"].item()
    assert len(warned) == 1, "one for all changes"
    rate = fit.comparisons({"x": 0.5}, exposure=1, **ratios)["estimate"].item()
    assert capped < 1.35 < 1.55 < rate < 1.75, "exp(0.5) is 1.65"
    stepped = rows.assign(years=15.0)  # 6.7 as the rows are, and 10 after the step
    assert fit.get_prediction(stepped).predicted_mean.max() < 8
    with pytest.warns(UserWarning, match=told):
        fit.comparisons({"x": 0.5}, newdata=stepped)


def test_an_exposure_of_zero_is_told_from_a_missing_one() -> None:
    data = rows().assign(years=2.0, count=lambda frame: frame["b"])
    domain = {**DOMAIN, "years": (0, 10), "count": (0, 5)}
    fit = dp.poisson("count ~ x", data, 20.0, domain=domain, exposure="years", ranges="declared")
    new = pd.DataFrame({"x": [0.0] * 5, "years": [0.0, -1.0, np.nan, 2.0, 11.0]})
    with pytest.warns(UserWarning, match="^newdata: ") as told:
        assert fit.predict(new).isna().tolist() == [True, True, True, False, False]
    assert {str(one.message) for one in told} == {
        "newdata: 1 of 5 rows have no value of 'years', and no prediction (NaN)",
        "newdata: 2 of 5 rows have 'years' of 0 or less, and no prediction (NaN): an exposure must be positive",
        "newdata: 1 of 5 rows have 'years' outside of its range (0, 10), for which the model takes the nearer end",
    }
    fit = dp.poisson("count ~ x", data, 20.0, domain={**domain, "years": (0.5, 10)}, exposure="years")
    with pytest.warns(UserWarning, match="outside of its range .0.5, 10., for which the model takes the nearer end"):
        assert fit.predict(new.iloc[:1]).notna().all()


def test_a_mean_beyond_the_cap_is_told_with_an_exposure_alone() -> None:
    """Without one the cap is among the limits that were declared for the response."""
    rng = np.random.default_rng(0)
    data = pd.DataFrame({"x": rng.uniform(0, 1, 5000)})
    data["count"] = rng.poisson(np.exp(3 * data["x"] - 1)).clip(max=6)
    domain = {"x": (0, 1), "count": (0, 6)}
    fit = dp.poisson("count ~ x", data, 20.0, domain=domain, response="declared", ranges="declared")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        fit.predict({"x": [0.1, 1.0]})
    with pytest.warns(UserWarning, match=r"^means above 4, .* rise more slowly than the exposure, to at most 6"):
        fit.predict({"x": [0.1, 0.5]}, exposure=5.0)


def test_the_joint_test_names_what_it_leaves_out_beside_an_exposure() -> None:
    rng = np.random.default_rng(0)
    data = pd.DataFrame({"age": rng.uniform(20, 70, 6000), "years": rng.uniform(0.5, 5, 6000)})
    data["narrow"] = rng.normal(0, 0.02, 6000)
    data["claims"] = rng.poisson(0.3 * data["years"] * np.exp(0.02 * (data["age"] - 45)))
    domain = {"age": (20, 70), "years": (0.5, 5), "claims": (0, 20), "narrow": (-10, 10)}
    fit = dp.poisson("claims ~ age + narrow", data, 1.0, domain=domain, exposure="years", seed=1)
    assert np.isinf(fit.bse["narrow"])
    assert str(fit.fitstats).endswith("slopes: joint test of age, without narrow (too noisy for it)")
    whole = dp.poisson("claims ~ age", data, 1.0, domain=domain, exposure="years", seed=1)
    assert "joint test" not in str(whole.fitstats)


def test_a_ledger_that_keeps_the_domain_gives_it(tmp_path: Path) -> None:
    ledger = dp.Ledger(tmp_path / "l.db", dataset="d", eps=2.0, domain=DOMAIN)
    fit = dp.logit("b ~ x", rows(), 1.0, ledger=ledger.signed("ada"))
    assert fit.plan.bought == ()
    assert fit.plan.names == dp.plan("b ~ x", DOMAIN, 1.0, family="binomial").names
    assert ledger.remaining.eps == 1.0
    with pytest.raises(DomainError, match=r"The ledger keeps the Domain of its data: pass domain=ledger\.domain"):
        dp.GLM.from_formula("b ~ g", rows().assign(g="text"), "binomial").fit(1.0, ledger=ledger)
    with pytest.raises(DomainError) as caught:
        dp.logit("b ~ g", rows().assign(g="text"), 1.0, domain={"x": (0, 1)}, ledger=ledger)
    assert "ledger keeps" not in str(caught.value)
    assert ledger.remaining.eps == 1.0


WIDE = {f"v{at}": (0, 1) for at in range(24)}


@pytest.mark.slow
def test_a_plan_says_that_free_errors_are_a_matter_of_luck_and_of_how_many_rows() -> None:
    plan = dp.plan("b ~ x + z", DOMAIN, 0.5, family="binomial", check_share=0)
    found = re.search(r"About ([\d,]+) rows are enough for all of them, even if", words(plan))
    assert found is not None
    enough = int(found[1].replace(",", ""))
    assert plan.standard_errors(enough)["identified_upper"].min() >= 0.9
    assert plan.standard_errors(enough // 2)["identified_upper"].min() < 0.95
    assert all(plan.simulate(enough, seed).identified.all() for seed in range(6))
    wide = dp.plan(
        f"b ~ {' + '.join(f'v{at}' for at in range(24))}", {**DOMAIN, **WIDE}, 0.5, family="binomial", check_share=0
    )
    assert "plan.standard_errors(n) predicts whether a fit will have them" in words(wide)
    assert "inference=True reserves budget for them" in words(plan)
    paid = words(dp.plan("b ~ x + z", DOMAIN, 0.5, family="binomial", inference=True))
    assert "not every fit has them" not in paid
    weighted = words(dp.plan("b ~ x", {**DOMAIN, "w": (0, 1)}, 0.5, family="poisson", weights="w"))
    assert "are enough for all" not in weighted


@pytest.mark.slow
@pytest.mark.parametrize("more", [{}, {"inference": True}, {"penalty": "lasso", "alpha": 1.0}, {"inference": None}])
@pytest.mark.parametrize(("formula", "family"), [("y ~ x", "gaussian"), ("b ~ x", "binomial"), ("b ~ x", "poisson")])
def test_words_hold_no_placeholder(formula: str, family: str, more: dict[str, Any]) -> None:
    penalised = "penalty" in more and family == "gaussian"
    plan = dp.plan(formula, DOMAIN, 1.0, family=family, **({**more, "inference": None} if penalised else more))
    assert "{" not in str(plan.summary())
    assert "{" not in str(plan.fit(rows(300)).summary(full=True))


def test_a_tuned_fit_says_so() -> None:
    found = dp.tune("y ~ x", rows(300), {"curvature": [1.0, 10.0]}, eps=2.0, domain=DOMAIN)
    assert "link; rows: private; residuals capped at 1,000; tuned" in words(found.fit)
    assert "dp.tune chose the settings on the same rows" in words(found.fit)
    assert "tuned" not in words(dp.ols("y ~ x", rows(), 1.0, domain=DOMAIN))


def test_who_tells_persons_apart_is_no_column_of_the_model() -> None:
    data = rows().assign(who=np.arange(1000) // 2)
    for domain in ({**DOMAIN, "who": (0, 500)}, DOMAIN):
        with pytest.raises(ArgumentError, match="unit: 'who' identifies persons and must not be in the formula"):
            dp.ols("y ~ x + who", data, 1.0, domain=domain, unit="who")


def test_objects_show_themselves_shortly() -> None:
    terms = " + ".join(f"I(x ** {power})" for power in range(1, 60))
    plan = dp.plan(f"y ~ {terms}", DOMAIN, 1.0)
    assert len(repr(plan)) < 300
    bought = dp.buy_ranges(rows(), ["x"], 1.0)
    assert repr(bought).startswith("<BoughtRanges: Domain({'x': (") or repr(bought).startswith(
        "<BoughtRanges: Domain(x="
    )
    assert dp.plan("y ~ x", DOMAIN, 1.0).simulate(200).params.shape == (2,)


def test_tables_for_texts_lead_to_no_call() -> None:
    fit = dp.ols("y ~ x", rows(), 1.0, domain=DOMAIN)
    assert "Details: summary(full=True)" in words(fit)
    for text in (fit.to_latex(), fit.to_markdown()):
        assert "Details" not in text
        assert "Budget: eps 1" in text


def test_the_cap_of_a_fit_is_what_the_argument_takes() -> None:
    fit = dp.ols("y ~ x", rows(), 1.0, domain=DOMAIN)
    assert fit.family == dp.families.Gaussian(residual_cap=1000.0)
    again = dp.ols("y ~ x", rows(), 1.0, domain=DOMAIN, residual_cap=fit.family.residual_cap)
    assert again.plan.family == fit.plan.family


def test_an_estimate_belongs_to_its_error() -> None:
    fit = dp.ols("y ~ x", rows(), 1.0, domain=DOMAIN, inference=True)
    tidy = fit.tidy()
    np.testing.assert_array_equal(tidy["estimate"], fit.debiased)
    np.testing.assert_array_equal(tidy["released"], fit.params)
    np.testing.assert_allclose(tidy["estimate"] / tidy["std_error"], tidy["statistic"])
    plain = dp.ols("y ~ x", rows(), 1.0, domain=DOMAIN, inference=None).tidy()
    assert list(plain) == list(tidy)
    assert (
        plain.drop(columns=["term", "estimate", "released", "scaled_released", "noise_at_most"]).isna().all(axis=None)
    )


def test_no_number_goes_on_in_another_line() -> None:
    """The column is made wider: -3.981e- stood above 06."""
    cells = coefficient_cells([-3.981e-6, 7.1e-9, -552.8, 0.0, -3.943e-6, -3.915e-106])
    for name in ("x", "a name that is longer than what is left"):
        text = str(full_width(coefficient_headers(0.05), [("Intercept", cells), (name, cells)], COEFFICIENT_WIDTHS))
        assert text.count(" -3.981e-06 ") == text.count(" -3.943e-06 ") == 2
        assert max(map(len, text.splitlines())) == 78


def wide_rows(n: int, width: int = 8, *, normal: bool = False) -> tuple[str, pd.DataFrame, dict[str, Any]]:
    """Numbers and a 0/1 response that five of them move; `normal` ones fill their range with three s.d. each way."""
    random = np.random.default_rng(12)
    names = [f"x{place}" for place in range(width)]
    exog = random.normal(0, 1 / 3, (n, width)).clip(-1, 1) if normal else random.uniform(-1, 1, (n, width))
    data = pd.DataFrame(exog, columns=names)
    data["b"] = (random.random(n) < 1 / (1 + np.exp(-data[names[:5]].sum(axis=1)))).astype(int)
    return f"b ~ {' + '.join(names)}", data, {**dict.fromkeys(names, (-1, 1)), "b": (0, 1)}


@pytest.mark.slow
def test_what_is_advised_gives_intervals() -> None:
    """The eps and the rows that a table without errors names are those at which fits show nearly all."""
    formula, data, domain = wide_rows(4_000, 20, normal=True)
    fit = dp.logit(formula, data, 0.5, domain=domain, inference=None, check_share=0.03)
    found = re.search(
        r"If columns fill their ranges and are not collinear, nearly all of them need about ([\d,]+) rows "
        r"\(or eps = ([\d.]+) with these\)\. If not, they may need ten times as many: dp\.plan\(",
        words(fit),
    )
    assert found is not None, words(fit)
    needed, eps = (float(text.replace(",", "")) for text in found.groups())
    assert needed / 4_000 == pytest.approx(eps / 0.5, rel=0.35)  # rows are counted with noise

    def shares(data: pd.DataFrame, eps: float, fits: int) -> float:
        each = [dp.logit(formula, data, eps, domain=domain, inference=True) for _ in range(fits)]
        return float(np.mean([np.mean(one.identified) for one in each]))

    assert shares(data, eps, 3) > 0.7
    assert shares(wide_rows(int(needed), 20, normal=True)[1], 0.5, 3) > 0.7
    # A quarter of the rows shows far less.
    assert shares(wide_rows(int(needed / 4), 20, normal=True)[1], 0.5, 4) < 0.5


def test_a_fit_that_bought_errors_is_not_told_that_its_rows_are_enough() -> None:
    """Of collinear columns the forecast for usual ones says so."""
    random = np.random.default_rng(3)
    names = [f"x{place}" for place in range(20)]
    data = pd.DataFrame(np.clip(random.normal(size=(5_000, 1)) + random.normal(size=(5_000, 20)), -4, 4), columns=names)
    data["y"] = data["x0"] + random.normal(size=5_000)
    fit = dp.ols(f"y ~ {' + '.join(names)}", data, 1.0, domain=dict.fromkeys([*names, "y"], (-4, 4)),
                 inference=True, method="napp", seed=2)  # fmt: skip
    assert not fit.identified.all()
    assert fit.needed_rows.usual > fit.needed_rows.rows
    asked = "Narrower ranges, typical=(mean, sd) in the Domain (free) and fewer or less collinear columns (screen="
    assert re.search(rf"Rows times eps are too few: .* need about [\d,]+ rows.*\. {re.escape(asked)}", words(fit))
    assert "forecast" not in words(fit)
    known = {**dict.fromkeys([*names, "y"], (-4, 4)), "x3": dp.Range(-4, 4, typical=(0, 1.4))}
    fit = dp.ols(f"y ~ {' + '.join(names)}", data, 1.0, domain=known, inference=True, method="napp", seed=2)
    assert not fit.identified.all()
    assert "arrower ranges and fewer or less collinear columns" in words(fit)


def test_a_logarithm_whose_range_begins_far_too_low_is_named_where_coefficients_are_blank() -> None:
    """Before the number of rows that are enough without it; where all are identified the table has no word on it."""
    random = np.random.default_rng(5)
    data = pd.DataFrame({"age": random.uniform(18, 90, 20_000), "edu": random.uniform(0, 20, 20_000)})
    data["region"] = random.choice(list("abcd"), 20_000)
    data["income"] = np.clip(np.exp(random.normal(10.7, 0.8, 20_000)), 5_000, 300_000)
    eta = 0.03 * (data["age"] - 115) - 0.5 * (np.log(data["income"]) - 10.7)
    data["ill"] = random.random(20_000) < 1 / (1 + np.exp(-eta))
    formula, told = "ill ~ age + edu + region + np.log(income)", "On the scale of np.log(income)"
    for eps, low, named, blank in ((0.5, 1, True, True), (1.0, 20, True, False), (0.5, 1_000, False, False)):
        domain = {"age": (18, 90), "edu": (0, 20), "region": list("abcd"), "income": (low, 500_000)}
        fit = dp.logit(formula, data, eps, domain=domain, seed=1)
        found = words(fit)
        assert fit.identified.all() != blank
        assert (told in found) == (named and blank)
        assert (told in words(fit, full=True)) == named
        assert (told in words(dp.plan(formula, domain, eps, family="binomial"))) == named
        assert (told in words(dp.check(formula, data, domain, eps, family="binomial", seed=1))) == named
        if blank:
            assert found.count(told) == 1
            assert found.index(told) < found.index("Rows times eps are too few")


def test_too_few_persons_are_not_told_of_their_rows() -> None:
    """3,000 rows of 1,000 persons."""
    random = np.random.default_rng(0)
    names = [f"x{place}" for place in range(12)]
    data = pd.DataFrame(random.uniform(0, 1, (3_000, 12)), columns=names)
    data = data.assign(who=np.arange(3_000) // 3, b=(random.random(3_000) < 0.5).astype(int))
    domain = {**dict.fromkeys(names, (0, 1)), "b": (0, 1)}
    fit = dp.logit(f"b ~ {' + '.join(names)}", data, 1.0, domain=domain, unit="who", inference=True, seed=1)
    assert re.search(r"Persons times eps are too few: .* need about [\d,]+ persons", words(fit))
    assert "Rows times eps" not in words(fit)


def test_a_p_value_far_above_that_of_a_normal_distribution_has_a_note() -> None:
    """Adult at a small eps, where coef/se can be far out and p is not."""
    said = "p-values account for noise in std err, and can be larger or smaller than coef/se suggests."
    noted = set[bool]()
    adult, formula = dp.datasets.load_adult(), "income ~ age + sex*C(race) + hours_per_week"
    for eps, seed in ((0.3, 1), (1.0, 2)):
        fit = dp.logit(formula, adult.data, eps, domain=adult.domain, seed=seed, inference=True)
        p, z = fit.pvalues, fit.tvalues
        unlike = bool(((p >= 0.001) & (p > 20 * norm.sf(z.abs()))).any())
        assert (said in words(fit)) == unlike
        assert (said in fit.notes) == unlike
        assert (said in words(fit, full=True)) == unlike
        noted.add(unlike)
    assert noted == {False, True}


def test_a_stored_fit_gives_the_same_advice() -> None:
    formula, data, domain = wide_rows(600, 14)
    fit = dp.logit(formula, data, 0.5, domain=domain, inference=None)
    assert "nearly all of them need about" in words(fit)
    stored = type(fit).from_dict(json.loads(json.dumps(fit.to_dict())))
    for full in (False, True):
        assert words(stored, full=full) == words(fit, full=full)
    older = {name: fact for name, fact in fit.to_dict().items() if name != "needed_rows"}
    assert "plan.standard_errors(n) forecasts them" in words(type(fit).from_dict(older))


def test_no_eps_is_advised_by_a_count_that_is_nearly_noise() -> None:
    formula, data, domain = wide_rows(300)
    found = words(dp.logit(formula, data, 0.5, domain=domain))
    assert "nearly all of them" in found
    assert "or eps" not in found


def test_what_was_paid_for_and_noise_hides_is_named() -> None:
    formula, data, domain = wide_rows(3_000, 14)
    hidden = 0
    for seed, eps in enumerate((*(0.1,) * 8, 20.0)):  # at .1 about one in three; seeds are fixed
        options = {"inference": True, "fitstats": 0.1, "on_mismatch": "go", "seed": seed, "allow_uncertified": True}
        fit = dp.logit(formula, data, eps, domain=domain, **options)
        share = fit.fitstats.T.to_dict().get("deviance_explained")
        hidden += (named := share is not None and not share["std_error"] <= 0.25 and not fit.identified.all())
        assert ("Noise hides deviance explained." in words(fit)) == named
    assert 0 < hidden < 9
    without = dp.logit(
        formula, data, 0.5, domain=domain, inference=True, fitstats=None, on_mismatch="go", seed=1,
        allow_uncertified=True,
    )  # fmt: skip
    assert "Noise hides" not in words(without)


def test_a_table_without_errors_names_what_helps_in_every_form() -> None:
    formula, data, domain = wide_rows(300)
    fit = dp.logit(formula, data, 0.5, domain=domain)
    assert not fit.has_errors
    for text in (words(fit), " ".join(str(fit.summary(full=True)).split())):
        assert "nearly all of them need about" in text
        assert "inference=True buys" not in text
    with pytest.raises(NotReleasedError, match="summary\\(\\) says what would be enough"):
        _ = fit.bse


def test_notes_that_have_no_room_are_counted_and_kept() -> None:
    _, data, domain = wide_rows(3_000)
    data["count"] = np.random.default_rng(3).poisson(2, 3_000)
    fit = dp.poisson("count ~ x0 + g", data.assign(g="a", who=np.arange(3_000)), 30.0,
                     domain={**domain, "g": ["a", "b"], "count": (0, 30)}, unit="who", seed=1)  # fmt: skip
    notes, text = fit.notes, str(fit.summary())
    assert len(notes) > 3
    below = [line for line in text.rpartition("==\n")[2].splitlines() if line and not line.startswith("  ")]
    assert len(below) == 2 + 3 + 1  # certificate and budget, three notes, and how many more there are
    more = len(notes) - 3
    assert below[-1] == f"{more} more note{'s' * (more > 1)}: fit.notes"
    # What becomes of rows of nobody is shortened there.
    assert all(note.partition("Rows without a value")[0] in " ".join(text.split()) for note in notes[:3])
    assert all(note not in " ".join(text.split()) for note in notes[3:])
    short = dp.ols("x0 ~ x1", data, 5.0, domain=domain)
    assert len(short.notes) <= 3
    assert "fit.notes" not in str(short.summary())
    risk = [note for note in str(fit.summary(n=3_000)).split("\n") if note.startswith("Excess risk")]
    assert len(risk) <= 1


def test_what_coefficients_are_comes_before_words_of_the_table() -> None:
    random = np.random.default_rng(4)
    data = pd.DataFrame(random.normal(0, 1, (30_000, 3)), columns=["x", "z", "count"])
    data["count"] = random.poisson(np.exp(1.5 + 0.2 * data["x"]))
    domain = {"x": (-100, 100), "z": (-4, 4), "count": (0, 40)}
    places = {"cap": "The link is the logarithm", "rows": "outside the bought range", "bias": "coef is bias-corrected"}
    for seed in range(2):
        fit = dp.poisson("count ~ x + z", data, 0.2, domain=domain, ranges="bought", inference=True, seed=seed,
                         allow_uncertified=True)  # fmt: skip
        first = {
            name: next((k for k, note in enumerate(fit.notes) if text in note), 99) for name, text in places.items()
        }
        assert first["rows"] < first["cap"] < first["bias"]


def test_ranges_that_were_declared_are_told_apart_from_those_that_were_not() -> None:
    random = np.random.default_rng(4)
    data = pd.DataFrame({"x": random.normal(0, 1, 30_000), "z": random.normal(0, 1, 30_000)})
    data["y"] = data["x"] + data["z"] + random.normal(0, 1, 30_000)
    fit = dp.ols("y ~ x + z", data, 1.0, domain={"x": (-100, 100), "y": (-10, 10)}, ranges="bought")
    assert fit.plan.trimmed == ("x",)
    low, high = fit.plan.design.domain["z"].interval
    assert f"Ranges bought: z ({low:g}, {high:g}). Ranges narrowed: x." in words(fit)


def test_a_summary_shows_the_ranges_that_were_bought_of_undeclared_columns() -> None:
    """Of an income of up to 200,000 with a code 999999 the range tells it."""
    random = np.random.default_rng(5)
    data = pd.DataFrame(random.uniform(1, 3, (8000, 6)), columns=list("abcdef"))
    data["income"] = np.where(data.index % 30 == 0, 999_999, random.uniform(0, 200_000, 8000))
    data["y"] = random.uniform(0, 10, 8000)
    few = words(dp.ols("y ~ income", data, 2.0, domain={"y": (0, 10)}, seed=1))
    assert (
        "Ranges bought, which clip: income (0, 1,048,576). The range of income reaches just beyond 999999, a usual"
        in few
    )
    assert "code for missing. If 999999 stands for missing, declare" in few
    assert 'declare the range without it, with outside="drop".' in few
    many = words(dp.ols("y ~ income + a + b + c + d + e + f", data, 20.0, domain={"y": (0, 10)}, seed=1))
    assert (
        "income (0, 1,048,576), a (1, 3), b (1, 3), c (1, 3) and 3 more. The range of income reaches just beyond 999999"
        in many
    )
    coded = np.where(data.index % 30 == 0, -9, random.uniform(1, 5, 8000))
    assert "The range of b reaches just beyond -9, a usual code for missing. If -9 stands for missing" in words(
        dp.ols("y ~ b", data.assign(b=coded), 2.0, domain={"y": (0, 10)}, seed=1)
    )
    plain = random.normal(0, 30, 8000)
    assert "stands for missing" not in words(dp.ols("y ~ b", data.assign(b=plain), 2.0, domain={"y": (0, 10)}, seed=1))


@pytest.mark.parametrize("declared", [(0, 20_000), (0, 30_000), (0, 50_000)])
def test_a_code_that_ends_a_narrowed_range_is_named(declared: tuple[int, int]) -> None:
    """Of incomes around 2,700 a fit kept all up to 9999, said nothing, and its slope was a half of what is right."""
    random = np.random.default_rng(7)
    data = pd.DataFrame({"income": np.round(np.exp(random.normal(7.9, 0.5, 20_000))), "y": random.normal(0, 1, 20_000)})
    data["income"] = data["income"].mask(random.random(20_000) < 0.05, 9999)
    call = {"domain": {"income": declared, "y": (-6, 6)}, "ranges": "bought", "inference": None, "seed": 1}
    fit = dp.ols("y ~ income", data, 2.0, **call)
    assert 9999 <= fit.plan.design.domain["income"].inner[1] < declared[1]
    told = (
        "The range of income reaches just beyond 9999, a usual code for missing. If 9999 stands for missing, declare "
        'the range without it, with outside="drop".'
    )
    assert words(fit).count(told) == 1
    assert told in fit.notes  # and so in JSON, whose reader has no line on the budget
    assert " ".join(str(fit.summary(full=True)).split()).count(told) == 1
    less = dp.ols("y ~ income", data[data["income"] < 4000], 2.0, **call)
    assert less.plan.design.domain["income"].inner[1] < 9999
    assert "stands for missing" not in words(less)


def test_a_code_in_a_response_is_to_be_made_missing() -> None:
    random = np.random.default_rng(7)
    data = pd.DataFrame({"x": random.normal(0, 1, 8000), "y": random.normal(50, 5, 8000)})
    data["y"] = data["y"].mask(random.random(8000) < 0.05, 999)
    fit = dp.ols("y ~ x", data, 2.0, domain={"x": (-6, 6)}, inference=None, seed=1)
    assert "beyond 999, a usual code for missing. If 999 stands for missing, make those cells missing." in words(fit)


def test_declared_ranges_that_were_kept_are_named() -> None:
    domain = {"x": (-50, 50), "w": (0, 10), "y": (0, 8000)}
    data = rows(30_000).assign(w=lambda data: 10 * data["z"])
    shown = dp.ols("y ~ x + w", data, 4.0, domain=domain, ranges="bought")
    assert "Ranges narrowed: x. Ranges kept as declared: w." in words(shown)


def test_parts_of_a_split_budget_add_up() -> None:
    """Each part of the rows pays for itself: the counts and the dearer part make the total."""
    fit = dp.logit("b ~ x + z", rows(4000), 4.0, domain=DOMAIN, split="rows", screen=1, ranges="declared", seed=1)
    (line,) = re.findall(r"Budget: eps 4: (.*?)\. ", words(fit))
    parts = {
        part.partition(":")[0] if ":" in part else "all": sum(map(float, re.findall(r" (\d[\d.]*)(?:,|$)", part)))
        for part in line.split("; ")
    }
    assert set(parts) == {"all", "rows that choose", "other rows, which are fitted"}
    assert parts["all"] + max(parts["rows that choose"], parts["other rows, which are fitted"]) == pytest.approx(
        4, rel=1e-3
    )


def test_a_plan_claims_nothing_of_what_it_shows() -> None:
    plan = dp.plan("y ~ x", {"x": (0, 1), "y": (0, 1)}, 1.0, family="binomial")
    assert "[1] A fit by this plan is 1-differentially private" in " ".join(str(plan.summary()).split())


def test_a_misspelt_name_in_a_test_is_named() -> None:
    fit = dp.ols("y ~ x + z", rows(3000), 4.0, domain=DOMAIN)
    for test in ("xx = 0", ["x = 0", "z - xx"], {"xx": 1}):
        with pytest.raises(
            ArgumentError, match=r"no column of the model is called 'xx'; (did you mean 'x'|columns: I)"
        ):
            fit.t_test(test)
    spline = dp.ols("y ~ bs(x, df=4)", rows(3000), 4.0, domain=DOMAIN, inference=True)
    for misread in ("bs(x, df=4) = 0", "bs"):  # patsy takes the brackets for its own
        with pytest.raises(
            ArgumentError, match=r"'bs'; wald_test\('bs\(x, df=4\)'\) tests all columns of a term at once"
        ):
            spline.wald_test(misread)
    assert spline.wald_test("bs(x, df=4)").df_constraint == 4
    with pytest.raises(ArgumentError, match=r"'Intercep'; did you mean 'Intercept'\?"):
        fit.wald_test("Intercep = 1")
    with pytest.raises(ArgumentError, match="r_matrix must be an array of 3 columns"):
        fit.t_test("x = = 0")


def test_an_offset_says_shortly_why_no_fit_statistics_are_bought() -> None:
    plan = dp.plan(
        "n ~ x", {"x": (0, 1), "t": (1, 2), "n": (0, 9)}, 1.0, family="poisson", exposure="t", inference=True
    )
    text = " ".join(str(plan.summary()).split())
    assert (
        "No fit statistics are bought: fitstats averages over rows, which is not offered with an offset or exposure."
        in text
    )
    with pytest.raises(dp.errors.ArgumentError, match="not offered with an offset or exposure; leave it out"):
        dp.plan("n ~ x", {"x": (0, 1), "t": (1, 2), "n": (0, 9)}, 1.0, family="poisson", exposure="t", fitstats=0.1)


def test_comparisons_beside_an_exposure_name_ratios() -> None:
    rng = np.random.default_rng(6)
    data = pd.DataFrame({"x": rng.uniform(0, 1, 4000), "t": rng.uniform(1, 2, 4000)})
    data["n"] = rng.poisson(data["t"])
    domain = {"x": (0, 1), "t": (1, 2), "n": (0, 9)}
    fit = dp.poisson("n ~ x", data, 4.0, domain=domain, exposure="t", seed=1, allow_uncertified=True)
    for asked in (None, {"x": 0.5}):
        with pytest.raises(
            NotReleasedError, match="comparison='ratio' has ratios of means, at no charge, and newdata="
        ):
            fit.comparisons(asked)
    assert np.isfinite(fit.comparisons(comparison="ratio")["estimate"]).all()


def test_a_cap_has_four_digits() -> None:
    assert [in_units(size) for size in (674_999.0, 12_345.6, 1234.5, 0.12345)] == [
        "675,000",
        "12,350",
        "1,234",
        "0.1235",
    ]


def sparse_rows(n: int) -> tuple[str, pd.DataFrame, dict[str, tuple[float, float]]]:
    """A formula of 30 columns with long names of which two matter, rows, and their Domain."""
    rng = np.random.default_rng(5)
    names = [f"a_measurement_at_clinic_number_{j}" for j in range(30)]
    data = pd.DataFrame(rng.uniform(-1, 1, (n, 30)), columns=names)
    data["b"] = (rng.random(n) < 1 / (1 + np.exp(-3 * data[names[0]] + 2 * data[names[1]]))).astype(int)
    return f"b ~ {' + '.join(names)}", data, {**dict.fromkeys(names, (-1.0, 1.0)), "b": (0.0, 1.0)}


def test_a_lasso_says_how_many_columns_noise_keeps_and_which_call_tests_effects() -> None:
    """Of numbers of which no spread is declared between those of a third of their range and those that fill it."""
    formula, data, domain = sparse_rows(3000)
    fit = dp.lasso(formula, data, 1.0, family="binomial", domain=domain, seed=1)
    note = (
        "Columns are kept for prediction and may have no effect. Noise and chance alone would keep about 10 to "
        "12 of 30 independent columns, more if they are correlated. screen=K with split='rows' and inference=True "
        "tests effects."
    )
    assert any(line.startswith(note) for line in fit.notes)
    assert note in words(fit)
    assert note in words(fit, full=True)
    shown = " ".join(repr(fit.selection).split())
    assert note in shown
    assert "weight and threshold are limits of the gradient" in shown, "a coefficient is in other units"
    # An alpha that noise never passes, and one far below the noise.
    none, most = (
        dp.lasso(formula, data, 1.0, family="binomial", domain=domain, seed=1, alpha=alpha) for alpha in (500, 1e-6)
    )
    assert "alone would keep" not in words(none)
    assert "Noise and chance alone would keep about 30 of 30" in words(most)
    # What it names runs, and has errors.
    tested = dp.logit(formula, data, 1.0, domain=domain, seed=1, screen=3, split="rows", inference=True)
    assert tested.has_errors
    assert "kept for prediction" not in words(tested)
    assert "kept for prediction" not in repr(tested.selection)


def test_the_number_kept_without_an_effect_follows_spreads_rows_and_eps() -> None:
    """Columns that fill their ranges, 0/1 columns, and many rows times eps keep half of the columns or more."""
    names = [f"x{number}" for number in range(30)]
    numbers, binary = dp.Range(-1, 1, typical=(0, 0.58)), bool
    for kind, eps in ((numbers, 1.0), (numbers, 5.0), (binary, 1.0)):
        kept: list[int] = []
        told: set[float] = set()
        for seed in range(10):
            rng = np.random.default_rng(seed)
            cells = rng.random((6000, 30)) < 0.5 if kind is binary else rng.uniform(-1, 1, (6000, 30))
            data = pd.DataFrame(cells, columns=names).assign(y=(rng.random(6000) < 0.5).astype(int))
            domain = {**dict.fromkeys(names, kind), "y": bool}
            fit = dp.lasso("y ~ .", data, eps, family="binomial", domain=domain, seed=seed)
            kept.append(len(fit.selection) - 1)
            told |= {float(one) for line in fit.notes for one in re.findall(r"would keep about (\d+) of 30", line)}
        assert min(told) > 11, "a third was told of all"
        assert 1 / 1.25 < np.mean(kept) / np.mean(list(told)) < 1.25
    weighed = dp.lasso("y ~ .", data.assign(w=1.0), 1.0, family="binomial", domain={**domain, "w": (0, 1)}, weights="w")
    assert "Noise alone would keep about" in words(weighed), "how much the rows weigh is not known"


def test_screening_is_named_after_a_refit_only_where_it_finds_more() -> None:
    """Between 200 and 1,000 rows times eps for each column (benchmarks.methods.lasso)."""
    formula, data, domain = sparse_rows(10_000)
    options: dict[str, Any] = {"family": "binomial", "domain": domain, "seed": 1, "refit_share": 0.5, "split": "rows"}
    more = "screen=K usually finds weaker effects"
    assert more not in words(dp.lasso(formula, data, 1.0, **options)), "numbers may fill little of their ranges"
    numbers = {name: one for name, one in domain.items() if name != "b"}
    options["domain"] = {**domain, **{name: dp.Range(*one, typical=(0, 0.57)) for name, one in numbers.items()}}
    assert more in words(dp.lasso(formula, data, 1.0, **options))
    assert more not in words(dp.lasso(formula, data, 0.1, **options)), "neither finds any"
    assert more not in words(dp.lasso(formula, data, 8.0, **options)), "both find all"
    assert more not in words(dp.lasso(formula, data, 1.0, alpha=30.0, **options)), "not the alpha that was measured"
    assert more not in words(dp.logit(formula, data, 1.0, domain=domain, seed=1, screen=3))


def test_coefficients_stand_beside_their_names_and_long_names_fit() -> None:
    formula, data, domain = sparse_rows(3000)
    lines = str(dp.lasso(formula, data, 1.0, family="binomial", domain=domain, seed=1).summary()).splitlines()
    row = next(line for line in lines if line.startswith("a_measurement_at_clinic_number_0"))
    assert len(row.rstrip()) == len("a_measurement_at_clinic_number_10") + 13
    assert max(map(len, lines)) <= 80
    left_out = " ".join(lines).split("Left out: ")[1]
    assert len(left_out.split(" (fit.left_out has all)")[0]) < 140
    short = dp.lasso("y ~ x + z", rows(), 1.0, domain=DOMAIN, alpha=1.0, seed=1).summary()
    line = next(line for line in str(short).splitlines() if line.startswith("Intercept"))
    assert len(line.rstrip()) == 31
    assert "<td>" in short.as_html()
    assert "  </td>" not in short.as_html(), "blanks are for lines of fixed width"


@pytest.mark.parametrize(("high", "told"), [(1000, True), (40, False)])
def test_a_response_that_hardly_fills_its_range_is_named_where_few_rows_buy_no_interval(high: int, told: bool) -> None:
    random = np.random.default_rng(0)
    age = random.uniform(18, 80, 1500)
    data = pd.DataFrame({"age": age, "y": 10 + 0.5 * (age - 49) + random.normal(0, 8, 1500)})
    domain = {"age": (18, 80), "y": (-high, high)}
    fit = dp.ols("y ~ age", data, 1.0, domain=domain, inference=True, seed=1)
    assert fit.plan.response is None
    assert ("proportional to the declared range of y, (-1000, 1000): response='bought'" in words(fit)) == told


def test_terms_with_p_values_far_from_their_statistics_say_why() -> None:
    table = pd.DataFrame(
        {"statistic": [54236.0, 216.0], "pvalue": [2.4e-8, 8.9e-47], "df_constraint": 1, "untested": 0}
    )
    shown = with_pvalues_note(table)
    assert "larger or smaller than chi2 suggests" in " ".join(repr(shown).split())
    assert "larger or smaller than chi2 suggests" in " ".join(str(WaldTestTerms(shown)).split())
    assert "larger or smaller" not in repr(with_pvalues_note(table[1:]))


def test_what_a_mostly_blank_table_lacks_stands_before_lost_rows() -> None:
    """Skewed columns lose two rows in a hundred each beyond their typical values; wide ranges hide nearly all."""
    random, skewed, wide = np.random.default_rng(0), ["s0", "s1", "s2"], [f"w{at}" for at in range(6)]
    data = pd.DataFrame({name: np.exp(random.normal(size=20_000)) for name in skewed})
    data[wide] = random.normal(50, 8, (20_000, len(wide)))
    data["y"] = data["s0"] + random.normal(size=20_000)
    for ends, first in ((10_000, "Not identified"), (100, "are lost to `s")):
        typical = dict.fromkeys(skewed, dp.Range(0, 500, typical=(1.65, 2.16)))
        domain = {**typical, **dict.fromkeys(wide, (0, ends)), "y": (-10, 50)}
        arguments: dict[str, Any] = {"domain": domain, "ranges": "declared", "inference": True, "seed": 1}
        fit = dp.ols(f"y ~ {' + '.join(skewed + wide)}", data, 1.0, **arguments)
        text = " ".join(str(fit.summary()).split())
        assert (np.isinf(fit.bse).mean() > 1 / 3) == (first == "Not identified")
        found = re.search(r"Not identified|are lost to `s", text)
        assert found is not None
        assert found[0] == first
        assert "are lost to `s" in text


def test_no_note_takes_the_place_of_the_word_on_selection() -> None:
    """p-values of columns that the same rows chose, beside a column that loses rows and one that is clipped."""
    random = np.random.default_rng(0)
    data = {f"x{place}": random.uniform(0, 100, 8000) for place in range(5)}
    data["y"] = (random.random(8000) < data["x0"] / 100).astype(float)
    data["x0"][:800], data["x1"][1000:2000] = np.nan, 999
    domain = {**dict.fromkeys(data, (0, 100)), "y": (0, 1)}
    formula = "y ~ x0 + x1 + x2 + x3 + x4"
    fit = dp.logit(formula, data, 2.0, domain=domain, screen=3, inference=True, check_share=0.1, seed=1)
    notes = " ".join(str(fit.summary()).split("Budget:")[1].split())
    assert notes.index("Not adjusted for selection") < notes.index("are lost to `x0`")


def test_the_rows_that_a_lasso_with_a_refit_needs_are_a_least_number() -> None:
    """With 60 columns correlated by .8 it chose 17 to 20 at the 58,000 rows named; one or none had an error."""
    rng = np.random.default_rng(1)
    z = np.sqrt(0.8) * rng.standard_normal((2000, 1)) + np.sqrt(0.2) * rng.standard_normal((2000, 12))
    data = pd.DataFrame(np.clip(z / 6 + 0.5, 0, 1), columns=[f"x{place}" for place in range(12)])
    data["y"] = np.clip(50 + 4 * (z[:, 0] + z[:, 1] - z[:, 2] + 0.7 * z[:, 3]) + 10 * rng.standard_normal(2000), 0, 100)
    domain = dict.fromkeys(data, (0, 1)) | {"y": (0, 100)}
    call = {"domain": domain, "inference": True, "on_mismatch": "go", "seed": 1}
    formula = "y ~ " + " + ".join(data.columns[:-1])
    refit = dp.ols(formula, data, 1.0, penalty="lasso", refit_share=0.5, split="rows", **call)
    assert re.search(r"nearly all coefficients need at least \d", str(refit.notes))
    assert "need at least" not in str(dp.ols(formula, data, 0.5, **call).notes)


def test_a_number_that_is_not_identified_may_leave_its_effect_to_others() -> None:
    """Of 40 intervals of a column without an effect beside one in a range far too wide 5 covered, without a word."""
    random = np.random.default_rng(1)
    shared = random.normal(size=6_000)
    rows = pd.DataFrame({name: 0.3**0.5 * shared + 0.7**0.5 * random.normal(size=6_000) for name in ("m", "w")})
    rows["y"] = 0.5 * rows["w"] + random.normal(0, 1, 6_000)
    fit = dp.ols("y ~ m + w", rows, 1.0, domain={"m": (-4, 4), "w": (-50, 50), "y": (-15, 15)}, seed=1)
    assert fit.identified.to_dict() == {"Intercept": True, "m": True, "w": False}
    assert "w. Coefficients of columns correlated with it may contain its effect." in words(fit)
    assert "may contain" not in words(dp.ols("y ~ w", rows, 1.0, domain={"w": (-50, 50), "y": (-15, 15)}, seed=1))
