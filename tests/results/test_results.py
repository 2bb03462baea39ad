"""What a result says: tables, frames, files; and what a plan says before there is one."""

from __future__ import annotations

import json
import pickle
import re
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import dpstats as dp
from dpstats.errors import NotReleasedError
from dpstats.results.contrasts import to_the_noise

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


def shown(result: dp.GLMResults) -> list[str]:
    """The coefficients of a table: those that a choice of columns left in."""
    return [name for name, stays in zip(result.params.index, result.in_model, strict=True) if stays]


@pytest.mark.slow
def test_summaries_fit_the_page_and_say_what_was_bought(result: dp.GLMResults) -> None:
    text = result.summary(full=True).as_text()
    assert max(len(line) for line in text.splitlines()) <= 80
    for word in ("Adjacency:", "Epsilon:", "Delta:", "Certified:", "Budget", "Noise in the objective"):
        assert word in text
    assert ("Excess risk" in text) == (not result.plan.request.options.replicates), "its bounds are of certified plans"
    assert len({len(line) for line in text.splitlines() if line.startswith("==")}) == 1
    for name, bound in result.noise_at_most[shown(result)].items():
        line = next(line for line in text.splitlines() if line.startswith(str(name)[:35]))
        # With standard errors the line has the corrected coefficient.
        assert result.has_errors or to_the_noise(result.params[name], bound / 10) in line
    assert ("NOT CERTIFIED" in text) == (not result.guarantee.certified)
    assert ("Selection" in text) == result.selects
    summary = result.summary(full=True)
    assert "<table" in summary.as_html()
    assert summary.as_latex().count(r"\begin{tabular}") == len(summary.tables)


@pytest.mark.slow
def test_a_summary_is_the_coefficients_and_what_they_cost(result: dp.GLMResults) -> None:
    text = result.summary().as_text()
    lines = text.splitlines()
    assert max(map(len, lines)) <= 80
    assert len(lines) <= len(result.params) + 28
    for name in shown(result):
        assert any(line.startswith(str(name)[:35]) for line in lines)
    assert ("NOT CERTIFIED" in lines[0]) == (not result.guarantee.certified)
    assert ("differentially private" in text) == result.guarantee.certified
    assert f"Budget: eps {result.guarantee.eps:.4g}" in text
    assert "the mean of y" in text
    assert result._repr_html_() == result.summary().as_html()
    assert result.to_latex() == result.summary().as_latex()
    pipes = [line for line in result.to_markdown().splitlines() if line.startswith("|")]
    assert len(pipes) == 2 + len(shown(result))
    assert len({line.replace("\\|", "").count("|") for line in pipes}) == 1


def test_the_budget_line_adds_up(result: dp.GLMResults) -> None:
    line = words(result).partition("Budget: eps ")[2].partition(" Details")[0].partition(" Ranges")[0]
    total, _, parts = line.partition(": ")
    spent = [float(part.rsplit(" ", 1)[1].rstrip(".")) for part in parts.split(", ")]
    assert sum(spent) == pytest.approx(float(total.partition(",")[0]), abs=0.002)


@pytest.mark.parametrize(
    ("value", "error", "text"),
    [
        (1.00234, 0.01653, "1.002"),
        (-0.00012, 0.31, "0.00"),
        (-0.0031, 0.31, "0.00"),
        (123456.7, 4512.0, "123500"),
        (3.14159, 9.96, "3"),
        (3.14159, 0.0996, "3.14"),
        (2.5, 0.0, "2.5"),
        (2.46813, float("inf"), "2.47"),
        (float("nan"), 1.0, ""),
        (1.23456789e-9, 2.2e-11, "1.235e-09"),
        (123456789.0, 0.5, "1.235e+08"),
        (0.9999792, 9.7e-07, "0.99997920"),
        (-12345.67891, 0.0012, "-12345.6789"),
        (1.0, 1e-20, "1.000000000000"),
        (0.0, 1e-12, "0"),
    ],
)
def test_digits_end_where_the_noise_begins(value: float, error: float, text: str) -> None:
    assert to_the_noise(value, error) == text


@pytest.mark.slow
def test_the_level_that_a_model_is_of_is_named() -> None:
    text = words(dp.logit("b ~ x", frame(), 1.0, domain=DOMAIN))
    assert "Pr(b = yes)" in text
    assert "Pr(b = no)" in words(dp.logit("b ~ x", frame(), 1.0, domain={**DOMAIN, "b": ["yes", "no"]}))
    assert "Pr(I(y > 0))" in words(dp.logit("I(y > 0) ~ x", frame(), 1.0, domain=DOMAIN))
    assert "the class b = yes" in words(dp.svm("b ~ x", frame(), 1.0, domain=DOMAIN))
    assert "Pr(y = 1)" in dp.plan("y ~ x", {"x": (0, 1), "y": bool}, 1.0, family="binomial").summary().as_text()


@pytest.mark.slow
def test_the_price_of_a_row_stands_beside_the_null_model() -> None:
    fit = dp.logit("b ~ x", frame(), 1.0, domain=DOMAIN)
    assert "Excess risk" not in words(fit)
    said = " ".join(fit.summary(n=5000).as_text().split())
    bound = fit.excess_risk(n=5000).set_index("bound").loc["unregularised, with probability 0.95", "per_row"]
    assert f"adds at most {bound:.2g} to the mean loss of 5,000 rows" in said
    assert f"with a loss of {np.log(2):.4g}" in said
    public = dp.ols("y ~ x", frame(), 1.0, domain=DOMAIN, adjacency="replace_one", method="napp")
    assert "of 2,000 rows" in " ".join(public.notes), "of which a summary shows the first three"
    assert "without coefficients" not in words(public), "its loss is a function of the rows"
    guessed = dp.ols("y ~ x", frame(), 1.0, domain=DOMAIN, rows_guess=3000, method="napp")
    assert "of 3,000 rows" in " ".join(guessed.notes)


def test_budget_adds_up(result: dp.GLMResults) -> None:
    budget = result.budget
    parts = budget.drop(index="total")
    for column in ("eps", "delta", "need", "retrieved"):
        assert parts[column].sum() == pytest.approx(budget.loc["total", column])
    assert budget.loc["total", "eps"] == pytest.approx(result.guarantee.eps)
    assert budget.loc["total", "delta"] == result.guarantee.delta
    assert (budget["retrieved"] >= 0).all()
    assert result.guarantee.eps <= 1.0


@pytest.mark.slow
def test_frames(result: dp.GLMResults) -> None:
    tidy, glance = result.tidy(), result.glance()
    inside = result.in_model
    assert result.params.index.tolist() == list(result.plan.names)
    assert tidy["term"].tolist() == result.params.index[inside].tolist()
    assert tidy["released"].to_numpy() == pytest.approx(result.params[inside].to_numpy())
    estimate = result.debiased if result.has_errors else result.params
    assert tidy["estimate"].to_numpy() == pytest.approx(estimate[inside])
    assert glance.loc[0, "eps"] == result.guarantee.eps
    counts = result.plan.counts
    counted = counts is not None and counts.rows is not None and result.plan.counts_rows_used
    known = result.guarantee.adjacency == "replace_one" or result.fit_sums is not None or counted
    assert (glance.loc[0, "nobs"] is pd.NA) != known
    assert ("rows_counted" in glance) == (counts is not None and bool(counts.rows_eps) and not known)
    risk, printed = result.excess_risk(0.1), result.excess_risk(0.1, printed=True)
    assert (risk["value"] > 0).all()
    assert risk["bound"].is_unique
    assert set(risk["value"]) < set(printed["value"])
    assert set(printed.loc[printed["value"].isin(risk["value"]), "holds"]) == {"proved"}
    if result.selects:
        assert result.selection.index.tolist() == result.params.index[result.scaled_params != 0].tolist()


@pytest.mark.slow
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
    assert set(json.loads(path.read_text())) - {"fit_statistics", "needed_rows"} == {
        "format",
        "kind",
        "plan",
        "scaled_params",
        "nobs",
        "information",
        "advice",
    }


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
    arguments |= {"check_share": 0}  # after a count the fit settles more than the plan
    plan = dp.plan(formula, arguments.pop("domain"), 1.0, **arguments)
    fit = dp.glm(formula, frame(), 1.0, domain=DOMAIN, **arguments)
    assert plan.guarantee == fit.guarantee
    assert plan.digest() != ""
    for (role, before), (role_after, after) in zip(plan.stages, fit.plan.stages, strict=True):
        assert role == role_after
        if role != "refit":
            assert before.noise == after.noise
    text = str(plan.summary())
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
    for name, where in {
        "avg_slopes": "get_margeff\\(\\) has average marginal effects",
        "margins": "get_margeff\\(\\)",
        "avg_comparisons": "comparisons\\(\\)",
        "avg_predictions": "predictions\\(\\) has averages .* get_prediction\\(newdata\\).summary_frame\\(\\)",
        "confint": "conf_int\\(\\) has the intervals",
        "std_errors": "bse has the standard errors",
        "noise_se": "noise_at_most bounds",
        "to_csv": "tidy\\(\\).to_csv\\(path\\) writes",
    }.items():
        with pytest.raises(AttributeError, match=f"'{name}'; {where}"):
            getattr(fit, name)
    sums = dp.release_statistics(DOMAIN, ["y", "x"], eps=1.0, data=frame())
    with pytest.raises(NotReleasedError, match="margins is not offered for StatisticsResults: its params are changes"):
        _ = sums.fit("y ~ x").margins
    for name in ("coef", "to_csv"):  # it has no coefficients, of which messages spoke
        with pytest.raises(NotReleasedError, match=f"{name} is not offered for ReleasedStatistics"):
            getattr(sums, name)
    assert "spends 0 of the allowed delta of 1e-06" in words(fit, full=True).lower()


@pytest.mark.parametrize(("alpha", "clipped"), [(2.0, True), (None, False)])
def test_notes_say_that_clipping_moves_slopes_where_counts_vary_more_than_poisson_counts(
    alpha: float | None, clipped: bool
) -> None:
    """By the released dispersion: about 8 of negative binomial counts, and 1 of Poisson counts. Seeds are fixed."""
    random = np.random.default_rng(2)
    x = random.uniform(0, 1, 30_000)
    mean = np.exp(1 + 0.5 * x)
    counts = random.poisson(mean) if alpha is None else random.negative_binomial(1 / alpha, 1 / (1 + alpha * mean))
    rows, declared = pd.DataFrame({"x": x, "y": counts}), {"x": (0, 1), "y": (0, 300)}
    told = words(dp.poisson("y ~ x", rows, 1.0, domain=declared, seed=3))
    varied = re.search(r"Counts vary about (\d+) times as much as Poisson counts, so clipping may move slopes", told)
    assert (varied is not None) is clipped
    assert varied is None or 5 < int(varied[1]) < 12
    assert "If counts vary far more" not in told
    low = words(dp.poisson("y ~ x", rows, 1.0, domain=declared, y_max=20, seed=4))
    assert ("If counts vary far more than Poisson counts, clipping may move slopes towards zero" in low) is clipped
    for most in (100, 300):  # limits that the analyst chose, the second at the end of the range
        chosen = words(dp.poisson("y ~ x", rows, 1.0, domain=declared, y_max=most, seed=4))
        assert "far more" not in chosen
        assert "so clipping" not in chosen


@pytest.mark.parametrize(("alpha", "clipped"), [(0.75, True), (0.15, False)])
def test_counts_are_overdispersed_from_twice_the_variance_of_poisson_counts_on(alpha: float, clipped: bool) -> None:
    """Dispersions of about 3 and 1.5, with hardly any noise. Seeds are fixed."""
    random = np.random.default_rng(5)
    x = random.uniform(0, 1, 30_000)
    mean = np.exp(0.8 + 0.4 * x)
    counts = random.negative_binomial(1 / alpha, 1 / (1 + alpha * mean))
    fit = dp.poisson("y ~ x", {"x": x, "y": counts}, 20.0, domain={"x": (0, 1), "y": (0, 300)}, inference=True, seed=1)
    low, high = fit.fitstats.loc["dispersion_used", ["low", "high"]]
    assert (2 < low < high < 4) if clipped else (1 < low < high < 2)
    assert ("times as much as Poisson counts, so clipping may move slopes" in words(fit)) is clipped


def test_a_dispersion_that_noise_hides_is_named_so() -> None:
    """It is then the standard deviation of its noise. Seeds are fixed."""
    random = np.random.default_rng(2)
    rows = pd.DataFrame({"x": random.uniform(0, 1, 30_000)})
    rows["y"] = random.poisson(np.exp(0.5 * rows["x"]))
    fits = [dp.poisson("y ~ x", rows, 1.0, domain={"x": (0, 1), "y": (0, 300)}, y_max=100, seed=k) for k in range(4)]
    for fit in fits:
        value, error = fit.fitstats.loc["dispersion_used", ["value", "std_error"]]
        assert ("(noise alone)" in words(fit)) is (value <= error)
    assert any("(noise alone)" in words(fit) for fit in fits)


def test_notes_say_up_to_which_mean_the_link_is_a_logarithm() -> None:
    """Of coefficients with which some row may pass it: the others say what a coefficient is."""
    data = frame().assign(c=np.random.default_rng(1).poisson(2, 2000))
    declared = {**DOMAIN, "c": (0, 30)}
    capped = dp.poisson("c ~ x", data, 1.0, domain=declared, y_max=20, seed=1)
    below = "logarithm of a ratio of means; tidy(exponentiate=True) has the ratios. Counts above 20 are clipped to 20."
    assert below in words(capped)
    assert "link is the logarithm for means up to 13.33, which these coefficients do not exceed." in words(capped)
    capped = dp.poisson("c ~ x", data, 1.0, domain=declared, y_max=20, mean_cap=1, seed=1)
    assert "logarithm for means up to 1. Larger means rise more slowly, to at most 20" in words(capped)
    assert "logarithm of a ratio" not in words(capped)
    assert "logarithm for means" not in words(dp.poisson("c ~ x", data, 1.0, domain=declared, y_max=20, mean_cap=20))


def test_notes_on_missing_values_are_sentences() -> None:
    fit = dp.ols("np.log(z) ~ x", frame(), 1.0, domain=DOMAIN)
    assert "np.log(z) is not finite at z = 0: rows there are left out." in words(fit)
    assert ".." not in words(fit)


def words(fit: dp.GLMResults, **arguments: Any) -> str:
    """The summary's text on one line, with single spaces."""
    return " ".join(fit.summary(**arguments).as_text().split())


def test_a_count_that_is_not_of_the_rows_used_has_a_name_of_its_own() -> None:
    random = np.random.default_rng(0)
    data = pd.DataFrame({"x": random.uniform(0, 1, 4_000), "t": random.uniform(0.5, 2, 4_000)})
    data = data.assign(y=random.poisson(data["t"]), who=np.arange(4_000) // 2)
    domain = {"t": (0, 2), "y": (0, 9)}
    clips, gaps = (
        dp.poisson(f"y ~ {term}", data, 2.0, domain=domain, exposure="t", seed=1).glance().iloc[0]
        for term in ("x", "np.sqrt(x - 0.1)")
    )
    assert clips["nobs"] == pytest.approx(4_000, abs=9 * clips["nobs_std_error"])
    assert gaps["nobs"] is pd.NA
    known = {**domain, "x": (0, 1)}
    kept = dp.poisson("y ~ x", data, 2.0, domain=known, exposure="t", ranges="bought", seed=1).glance()
    assert "note" not in kept.attrs
    assert kept.loc[0, "nobs"] == pytest.approx(4_000, abs=9 * kept.loc[0, "nobs_std_error"])
    wide = {**domain, "x": (-50, 50)}
    narrowed = dp.poisson("y ~ x", data, 6.0, domain=wide, exposure="t", ranges="bought", seed=1).glance()
    assert narrowed.loc[0, "nobs"] is pd.NA
    assert "rows outside a range that was bought after the count are left out" in " ".join(repr(narrowed).split())
    uncounted = dp.poisson("y ~ x", data, 2.0, domain=known, exposure="t", check_share=0, seed=1).glance()
    assert "check_share=0.03 buys a count" in " ".join(repr(uncounted).split())
    before = narrowed.iloc[0]
    assert before["rows_counted"] == pytest.approx(4_000, abs=9 * before["rows_counted_std_error"])
    persons = dp.poisson("y ~ x", data, 2.0, domain={**domain, "x": (0, 1)}, unit="who", seed=1).glance().iloc[0]
    assert persons["persons_counted"] == pytest.approx(2_000, abs=9 * persons["persons_counted_std_error"])
