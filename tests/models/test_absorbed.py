"""Models with one absorbed factor: what they estimate, errors that cover, sources of rows, refusals before a charge."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import dpstats as dp
from dpstats import cli
from dpstats.errors import (
    ArgumentError,
    DataError,
    DomainError,
    DPStatsError,
    FormulaError,
    MismatchError,
    NotReleasedError,
)
from dpstats.mechanisms.absorbed import WithinPlan
from dpstats.office.request import Request, call_arguments

DOMAIN: dict[str, Any] = {"x": (-3, 3), "z": (0, 10), "y": (-6, 6), "year": ["a", "b", "c"]}
FORMULA = "y ~ x + z + C(year) | firm"
LARGE = 1e5
"""An eps that leaves hardly any noise."""


def table(groups: int = 300, seed: int = 0, *, clustered: bool = False) -> pd.DataFrame:
    """Groups of 1 to 9 rows, whose effects go with x."""
    rng = np.random.default_rng(seed)
    firm = np.repeat(np.arange(groups), rng.integers(1, 10, groups))
    size, effect = len(firm), rng.normal(0, 1, groups)[firm]
    x, z = np.clip(0.7 * effect + rng.normal(0, 0.8, size), -3, 3), rng.uniform(0, 10, size)
    year = rng.choice(["a", "b", "c"], size)
    shock = rng.normal(0, 0.7, groups)[firm] * x if clustered else 0.0
    y = np.clip(0.5 * x - 0.1 * z + 0.3 * (year == "b") + effect + shock + rng.normal(0, 0.8, size), -6, 6)
    frame = pd.DataFrame({"y": y, "x": x, "z": z, "year": year, "firm": [f"f{name}" for name in firm]})
    return frame.sample(frac=1, random_state=1).reset_index(drop=True)


def differences(rows: pd.DataFrame) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Columns and response less the means of their groups, and one over the rows of the group."""
    names = {"b": rows["year"] == "b", "c": rows["year"] == "c", "x": rows["x"], "z": rows["z"], "y": rows["y"]}
    cells = pd.DataFrame(names)
    apart = (cells - cells.groupby(rows["firm"]).transform("mean")).astype(float).to_numpy()
    return apart[:, :-1], apart[:, -1], 1 / rows.groupby("firm")["y"].transform("size").to_numpy()


def within(rows: pd.DataFrame, *, whole: bool = False) -> np.ndarray:
    """Least squares of differences, each group over its rows if `whole`."""
    columns, response, weights = differences(rows)
    weighed = columns * (weights if whole else np.ones(len(weights)))[:, None]
    return np.linalg.solve(weighed.T @ columns, weighed.T @ response)


@pytest.mark.parametrize("unit", [None, "firm"])
@pytest.mark.parametrize("delta", [0.0, 1e-6])
def test_without_noise_it_is_least_squares_within(unit: str | None, delta: float) -> None:
    rows = table()
    fit = dp.ols(FORMULA, rows, LARGE, delta=delta, domain=DOMAIN, unit=unit, seed=1)
    assert list(fit.params.index) == ["C(year)[T.b]", "C(year)[T.c]", "x", "z"]
    assert fit.debiased.to_numpy() == pytest.approx(within(rows, whole=unit is not None), abs=2e-4)
    expected = rows["firm"].value_counts()
    assert fit.count == pytest.approx((expected > 1).sum() if unit else len(rows) - len(expected), abs=1)


@pytest.mark.slow
def test_errors_are_those_of_linearmodels() -> None:
    panel = pytest.importorskip("linearmodels.panel")
    rows = table()
    indexed = rows.assign(t=rows.groupby("firm").cumcount()).set_index(["firm", "t"])
    exog = pd.get_dummies(indexed[["year", "x", "z"]], columns=["year"], drop_first=True, dtype=float)
    found = panel.PanelOLS(indexed["y"], exog, entity_effects=True, singletons=True).fit()
    fit = dp.ols(FORMULA, rows, LARGE, domain=DOMAIN, seed=1)
    for ours, theirs in (("x", "x"), ("z", "z"), ("C(year)[T.b]", "year_b")):
        assert fit.debiased[ours] == pytest.approx(found.params[theirs], abs=2e-4)
        assert fit.bse[ours] == pytest.approx(found.std_errors[theirs], rel=2e-3)


@pytest.mark.slow
def test_errors_are_those_of_pyfixest() -> None:
    fixest = pytest.importorskip("pyfixest")
    rows = table()
    found = fixest.feols("y ~ x + z + C(year) | firm", data=rows, vcov="iid")
    fit = dp.ols(FORMULA, rows, LARGE, domain=DOMAIN, seed=1)
    for name in ("x", "z"):
        assert fit.debiased[name] == pytest.approx(found.coef()[name], abs=2e-4)
        assert fit.bse[name] == pytest.approx(found.se()[name], rel=5e-3)


def test_clustered_errors_follow_the_groups() -> None:
    """The sandwich of groups that count alike, computed by hand; HC0 would be a half of it."""
    rows = table(2000, clustered=True)
    fit = dp.ols(FORMULA, rows, LARGE, domain=DOMAIN, unit="firm", seed=1)
    columns, response, weights = differences(rows)
    coef = within(rows, whole=True)
    inverse = np.linalg.inv(columns.T @ (columns * weights[:, None]))
    scores = columns * (weights * (response - columns @ coef))[:, None]
    by_group = pd.DataFrame(scores).groupby(rows["firm"]).sum().to_numpy()
    expected = np.sqrt(np.diag(inverse @ by_group.T @ by_group @ inverse))
    # What is beyond eight times the mean is cut, which takes a few per cent here.
    ratio = fit.bse.to_numpy() / expected
    assert (ratio > 0.88).all()
    assert (ratio < 1.01).all()
    plain = np.sqrt(np.diag(inverse @ scores.T @ scores @ inverse))
    assert fit.bse["x"] > 1.3 * plain[2]


@pytest.mark.slow
def test_intervals_cover() -> None:
    """95 % intervals of four coefficients, 20 data sets each: at least .88, which is missed with a chance of .005."""
    truth = np.array([0.3, 0.0, 0.5, -0.1])
    for unit, groups, clustered in ((None, 800, False), ("firm", 2500, True)):
        hits = []
        for seed in range(20):
            fit = dp.ols(FORMULA, table(groups, seed, clustered=clustered), 2.0, domain=DOMAIN, unit=unit, seed=seed)
            ends = fit.conf_int().to_numpy()
            hits.append((ends[:, 0] <= truth) & (truth <= ends[:, 1]))
        assert 0.88 <= np.mean(hits) <= 1.0


@pytest.mark.slow
def test_sources_and_orders_give_the_same_release(tmp_path: Path) -> None:
    """One pass over whole numbers: frames, dicts, files, and Dask frames of several parts without a cluster."""
    rows = table()
    rows.to_csv(tmp_path / "rows.csv", index=False)
    rows.to_parquet(tmp_path / "rows.parquet", row_group_size=97)
    sources: list[Any] = [rows, rows.sample(frac=1, random_state=3), rows.to_dict("list")]
    sources += [str(tmp_path / "rows.csv"), str(tmp_path / "rows.parquet")]
    polars = pytest.importorskip("polars")
    sources += [polars.from_pandas(rows).lazy()]
    frames = pytest.importorskip("dask.dataframe")
    sources += [frames.from_pandas(rows, npartitions=4)]
    for unit in (None, "firm"):
        fits = [dp.ols(FORMULA, source, 1.0, domain=DOMAIN, unit=unit, seed=5, check_share=0) for source in sources]
        assert len({fit.debiased.to_json() for fit in fits}) == 1
        assert len({fit.bse.to_json() for fit in fits}) == 1


@pytest.mark.slow
def test_a_cluster_gives_the_same_release(client: Any) -> None:
    frames = pytest.importorskip("dask.dataframe")
    rows = table(80)
    here = dp.ols(FORMULA, rows, 1.0, domain=DOMAIN, unit="firm", seed=5, check_share=0)
    there = dp.ols(
        FORMULA, frames.from_pandas(rows, npartitions=2), 1.0, domain=DOMAIN, unit="firm", seed=5, check_share=0
    )
    assert here.bse.to_numpy() == pytest.approx(there.bse.to_numpy(), rel=1e-12)


def test_rows_of_no_group_or_with_missing_cells_are_left_out() -> None:
    rows = table()
    more = rows.head(40).assign(firm=None, y=6.0)
    worse = rows.tail(40).assign(x=np.nan, y=-6.0)
    fit = dp.ols(FORMULA, pd.concat([more, rows, worse]), 1.0, domain=DOMAIN, seed=5)
    assert (fit.debiased == dp.ols(FORMULA, rows, 1.0, domain=DOMAIN, seed=5).debiased).all()


def test_two_charges_of_the_whole_budget(tmp_path: Path) -> None:
    ledger = dp.Ledger(tmp_path / "rows.ledger", dataset="rows", eps=2.0)
    fit = dp.ols(FORMULA, table(), 1.0, domain=DOMAIN, ledger=ledger, label="within")
    assert fit.guarantee.certified
    assert fit.budget["eps"].sum() == pytest.approx(1.0)
    entries = ledger.entries()
    assert entries["eps"].tolist() == pytest.approx([0.03, 0.97])
    assert entries["label"].tolist() == ["within", "within"]
    with pytest.raises(dp.errors.BudgetExceeded):
        dp.ols(FORMULA, table(), 1.5, domain=DOMAIN, ledger=ledger)


def test_the_domain_of_a_ledger_need_not_have_the_absorbed_column(tmp_path: Path) -> None:
    with dp.Ledger(tmp_path / "rows.ledger", dataset="rows", eps=2.0, domain=DOMAIN) as ledger:
        assert dp.ols(FORMULA, table(), 1.0, ledger=ledger).guarantee.eps == 1.0
        assert ledger.remaining.eps == 1.0


def test_a_record_of_groups_is_charged_to_a_ledger_for_them(tmp_path: Path) -> None:
    ledger = dp.Ledger(tmp_path / "firms.ledger", dataset="rows", eps=2.0, unit="firm")
    assert dp.ols(FORMULA, table(), 1.0, domain=DOMAIN, ledger=ledger, unit="firm").guarantee.unit == "firm"
    with pytest.raises(DPStatsError):
        dp.ols(FORMULA, table(), 0.5, domain=DOMAIN, ledger=ledger)
    assert ledger.entries()["eps"].tolist() == pytest.approx([0.03, 0.97])


@pytest.mark.parametrize("unit", [None, "firm"])
def test_what_is_saved_is_loaded(tmp_path: Path, unit: str | None) -> None:
    fit = dp.ols(FORMULA, table(), 3.0, domain=DOMAIN, unit=unit, seed=2)
    fit.save(tmp_path / "fit.json")
    again = dp.AbsorbedResults.load(tmp_path / "fit.json")
    assert str(again) == str(fit)
    assert repr(again) == repr(fit)
    assert again.tidy().equals(fit.tidy())
    assert max(map(len, str(fit).splitlines())) <= 80
    stored = WithinPlan.from_dict(fit.plan.to_dict())
    assert stored.digest() == fit.plan.digest()


def test_the_plan_reads_no_row_and_fits_the_same() -> None:
    rows, plan = table(), dp.plan(FORMULA, DOMAIN, 1.0)
    assert plan.names == ("C(year)[T.b]", "C(year)[T.c]", "x", "z")
    fit = plan.fit(rows, seed=4)
    assert not fit.guarantee.certified
    assert (fit.debiased == dp.ols(FORMULA, rows, 1.0, domain=DOMAIN, seed=4).debiased).all()
    assert plan.digest() == dp.plan(FORMULA, DOMAIN, 1.0).digest()
    assert max(map(len, str(plan).splitlines())) <= 80


@pytest.mark.parametrize("unit", [None, "firm"])
def test_the_forecast_is_near(unit: str | None) -> None:
    rows = table(4000)
    plan = dp.plan(FORMULA, DOMAIN, 2.0, unit=unit)
    sd = {"x": 0.8, "z": 10 / 12**0.5}
    expected = plan.standard_errors(len(rows), 4000, residual_sd=0.8, within_sd=sd)["std_error"]
    found = dp.ols(FORMULA, rows, 2.0, domain=DOMAIN, unit=unit, seed=3).bse
    assert (found / expected).between(0.75, 1.5).all()


def test_predictions_are_of_the_columns() -> None:
    fit = dp.ols(FORMULA, table(), LARGE, domain=DOMAIN, seed=1)
    rows = pd.DataFrame({"x": [0.0, 1.0, np.nan], "z": [0.0, 10.0, 1.0], "year": ["a", "b", "a"]})
    expected = fit.params["x"] + 10 * fit.params["z"] + fit.params["C(year)[T.b]"]
    assert fit.predict(rows).to_numpy() == pytest.approx([0.0, expected, np.nan], nan_ok=True, abs=1e-9)
    with pytest.raises(NotReleasedError, match="effects of firm"):
        fit.get_prediction(rows)
    assert fit.t_test("x - z = 0").effect[0] == pytest.approx(fit.debiased["x"] - fit.debiased["z"])
    assert fit.wald_test_terms().table.index.tolist() == ["C(year)", "x", "z"]


WRONG: list[tuple[str, dict[str, Any], type[DPStatsError], str]] = [
    ("y ~ x | firm + year", {}, FormulaError, r"C\(year\) \| firm"),
    ("y ~ x | firm | year", {}, FormulaError, "one factor"),
    ("y ~ x | firm^year", {}, FormulaError, "one factor"),
    ("y ~ x | firm[x]", {}, FormulaError, "the name of one column"),
    ("y ~ x | ", {}, FormulaError, "the name of one column"),
    ("y ~ x - 1 | firm", {}, FormulaError, "leave out - 1"),
    ("y ~ 1 | firm", {}, FormulaError, "add a column"),
    ("y ~ x + C(firm) | firm", {}, FormulaError, "absorbed"),
    ("y ~ x | nobody", {}, DataError, "nobody"),
    ("y ~ x + other | firm", {}, DomainError, "'other' is not declared"),
    (FORMULA, {"family": "poisson"}, ArgumentError, "gaussian"),
    (FORMULA, {"family": dp.families.Gaussian(1.0)}, ArgumentError, "residual_cap"),
    (FORMULA, {"method": "napp"}, ArgumentError, "method"),
    (FORMULA, {"penalty": "ridge", "alpha": 1.0}, ArgumentError, "penalty"),
    (FORMULA, {"weights": "z"}, ArgumentError, "weights"),
    (FORMULA, {"offset": "z"}, ArgumentError, "offset"),
    ("y ~ x + weights(z) | firm", {}, FormulaError, "weights"),
    (FORMULA, {"unit": "year"}, ArgumentError, "unit='firm'"),
    (FORMULA, {"unit": "firm", "max_rows": 3}, ArgumentError, "max_rows"),
    (FORMULA, {"inference": None}, ArgumentError, "inference"),
    (FORMULA, {"inference": "robust"}, ArgumentError, "inference"),
    (FORMULA, {"split": "rows"}, ArgumentError, "split"),
    (FORMULA, {"screen": 2}, ArgumentError, "screen"),
    (FORMULA, {"stages": 2}, ArgumentError, "stages"),
    (FORMULA, {"n": 1000}, ArgumentError, "n cannot be combined"),
    (FORMULA, {"radius": -1.0}, ArgumentError, "radius"),
    (FORMULA, {"adjacency": "any"}, ArgumentError, "adjacency"),
    (FORMULA, {"delta": 2.0}, ArgumentError, "delta"),
    (FORMULA, {"seed": -1}, ArgumentError, "seed"),
    (FORMULA, {"label": 3}, ArgumentError, "label"),
]


@pytest.mark.parametrize(("formula", "arguments", "error", "words"), WRONG)
def test_what_does_not_suit_is_refused_before_the_charge(
    tmp_path: Path, formula: str, arguments: dict[str, Any], error: type[DPStatsError], words: str
) -> None:
    ledger = dp.Ledger(tmp_path / "rows.ledger", dataset="rows", eps=2.0)
    rows = table(20).assign(other=1.0)
    with pytest.raises(error, match=words):
        dp.glm(formula, rows, 1.0, domain=DOMAIN, ledger=ledger, **arguments)
    assert ledger.entries().empty


@pytest.mark.parametrize("verb", [dp.logit, dp.poisson, dp.svm])
def test_other_models_have_no_absorbed_factor(verb: Any) -> None:
    with pytest.raises(ArgumentError, match=r"gaussian.*write the factor as \+ C\(firm\)"):
        verb("y ~ x | firm", table(20), 1.0, domain=DOMAIN)
    with pytest.raises(ArgumentError, match=r"leave out \| firm; unit='firm' protects persons"):
        verb("y ~ x | firm", table(20), 1.0, domain=DOMAIN, unit="firm")


def test_a_check_of_an_absorbed_factor_is_of_the_other_columns_and_of_its_missing_cells(tmp_path: Path) -> None:
    rows, wide = table(2000), {**DOMAIN, "y": (-600, 600)}
    found = dp.check("y ~ x | firm", rows, wide, 1.0, seed=1)
    plain = dp.check("y ~ x", rows, wide, 1.0, family="gaussian", seed=1)
    assert [fault.column for fault in found.faults] == ["y", "x", "firm", "y", "y", "x", "x"]
    assert found.counts[[0, 1, 2]] == pytest.approx(plain.counts[[0, 1, 2]], abs=20)
    assert "Check of y ~ x | firm" in str(found)
    # A fit of the plain formula buys an interval of the response.
    assert any("buys an interval of it by itself" in one for one in plain.findings)
    assert [one for one in found.findings if "with an absorbed factor no fit buys it" in one] == found.findings
    found.save(tmp_path / "check.json")
    assert str(dp.load(tmp_path / "check.json")) == str(found)
    # No fit of another family absorbs a factor, but rows without an identifier are counted so.
    logistic = dp.check("p ~ x | firm", rows.assign(p=1), {**wide, "p": bool}, 1.0, family="binomial")
    assert [fault.kind for fault in logistic.faults if fault.ungrouped] == ["missing"]


def test_a_forecast_takes_the_spread_of_any_coefficient() -> None:
    plan = dp.plan("y ~ x + I(z**2) + C(year) | firm", DOMAIN, 1.0)
    narrow, wide = (plan.standard_errors(20_000, 4000, within_sd={"I(z ** 2)": sd}).std_error for sd in (1.0, 10.0))
    assert narrow["I(z ** 2)"] > 3 * wide["I(z ** 2)"]
    with pytest.raises(ArgumentError, match=r"the name of a coefficient, one of .*'x', 'I\(z \*\* 2\)'"):
        plan.standard_errors(20_000, 4000, within_sd={"z": 1.0})
    with pytest.raises(ArgumentError, match="'x' must have a positive number, got -1"):
        plan.standard_errors(20_000, 4000, within_sd={"x": -1})
    level = next(name for name in plan.names if name.startswith("C(year)"))
    rare, usual = (plan.standard_errors(20_000, 4000, within_sd=sd) for sd in ({level: 0.1}, None))
    assert rare.std_error[level] > 2 * usual.std_error[level]
    assert rare.std_error["x"] == pytest.approx(usual.std_error["x"], rel=0.05)
    assert "the levels of a factor are equally frequent within every firm" in usual.attrs["note"]
    assert f"{level!r}: 0.4" in usual.attrs["note"]


def test_what_a_forecast_assumes_is_printed_until_it_is_described() -> None:
    plan = dp.plan("y ~ x + z + C(year) | firm", DOMAIN, 1.0, unit="firm")
    usual = plan.standard_errors(20_000, 4000)
    words = " ".join(repr(usual).split())
    assert (
        "every firm has 5 rows, residuals have a standard deviation of 0.84, the levels of a factor are equally "
        "frequent within every firm and numbers vary within firm with" in words
    )
    assert "type residual_sd=0.84 and within_sd={'x': 1, 'z': 1.67, 'C(year)" in words
    known = plan.standard_errors(20_000, 4000, residual_sd=0.84, within_sd={"x": 1.0, "z": 10 / 6})
    assert known.to_numpy() == pytest.approx(usual.to_numpy())
    levels = {name: 0.4 for name in plan.names if name.startswith("C(year)")}
    within = {"x": 1.0, "z": 10 / 6, **levels}
    words = " ".join(repr(plan.standard_errors(20_000, 4000, residual_sd=0.84, within_sd=within)).split())
    assert "This assumes that every firm has 5 rows. Count no firm of one row" in words
    assert "residuals" not in words
    rows = dp.plan("y ~ x + z + C(year) | firm", DOMAIN, 1.0)
    described = rows.standard_errors(20_000, 4000, residual_sd=0.84, within_sd=within)
    assert "assumes" not in repr(described), "single rows count alike in groups of any size"
    assert "numbers vary" not in repr(plan.standard_errors(20_000, 4000, within_sd={"x": 1.0, "z": 1.0}))


@pytest.mark.parametrize(("most", "noise", "sampling"), [(4, 1.04, 1.04), (10, 1.06, 1.11), (20, 1.05, 1.19)])
def test_uneven_groups_are_larger_by_what_the_guide_says(most: int, noise: float, sampling: float) -> None:
    """Of 1 / information, and of the root of the score's variance over it, for weights 1 / rows."""
    rows = np.arange(2.0, most + 1)
    information, score = np.array(
        [(np.mean(1 - 1 / each), np.mean((each - 1) / each**2)) for each in (rows, np.array([rows.mean()]))]
    ).T
    assert information[1] / information[0] == pytest.approx(noise, abs=0.005)
    assert np.sqrt(score[0] / score[1]) * information[1] / information[0] == pytest.approx(sampling, abs=0.005)


def test_numbers_of_rows_and_groups_are_both_asked_for() -> None:
    plan = dp.plan("y ~ x | firm", DOMAIN, 1.0, unit="firm")
    with pytest.raises(ArgumentError, match=r"standard_errors\(n, groups\), where n is the number of rows"):
        plan.standard_errors(4000)
    with pytest.raises(ArgumentError, match="within_sd= and residual_sd= describe"):
        plan.standard_errors(20_000, 4000, like=table(20))
    with pytest.raises(ArgumentError, match=r"plan.standard_errors\(n, groups\)"):
        plan.by_rows()


@pytest.mark.parametrize(
    ("groups", "eps", "told"), [(8, 1.0, "Too few groups"), (30, 20.0, "Few groups"), (300, 5.0, "")]
)
def test_a_summary_says_that_there_are_too_few_groups(groups: int, eps: float, told: str) -> None:
    """The count is printed as released; beside a count that was raised to its noise "73 (s.d. 73)" was no news."""
    fit = dp.ols("y ~ x | firm", table(groups), eps, domain=DOMAIN, unit="firm", seed=2)
    text = " ".join(str(fit.summary()).split())
    assert ("Too few groups:" in text, "] Few groups:" in text) == (told == "Too few groups", told == "Few groups")
    assert "Not identified" not in text or not told
    assert fit.count == max(fit.released.counted, 0)
    assert fit.glance().loc[0, "groups"] == round(fit.count)
    if told == "Too few groups":
        assert "With unit='firm' and this eps it stands out from about 290 on" in text
    assert "slopes do not differ by firm" in str(
        dp.ols("y ~ x | firm", table(groups), eps, domain=DOMAIN, seed=2).summary()
    )


@pytest.mark.parametrize("unit", [{}, {"unit": "firm"}])
def test_a_summary_says_once_what_is_protected(unit: dict[str, str]) -> None:
    """It was "for adding or removing one row, by dp.proof("absorbed"), for each row, with its firm"."""
    text = " ".join(str(dp.ols("y ~ x | firm", table(100), 2.0, domain=DOMAIN, **unit).summary()).split())
    what = "one firm with all its rows" if unit else "one row"
    assert f'The fit is 2-differentially private for adding or removing {what}, by dp.proof("absorbed").' in text


def test_others_say_where_a_factor_is_absorbed() -> None:
    with pytest.raises(ArgumentError):
        dp.evaluate(dp.ols(FORMULA, table(20), 1.0, domain=DOMAIN, seed=1), table(20), 1.0)


def test_the_shell_and_an_office_refuse_it(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["plan", "y ~ x | firm", "--eps", "1"]) != 0
    assert "dpstats.ols" in capsys.readouterr().err
    request = Request("rows", "glm", {"formula": "y ~ x | firm", "eps": 1.0})
    with pytest.raises(ArgumentError, match="not offered here"):
        call_arguments(request, None, dict)
    with pytest.raises(ArgumentError, match="standard_errors"):
        dp.required(dp.plan(FORMULA, DOMAIN, 1.0), se={"x": 0.1}, n=1000)


@pytest.mark.parametrize("unit", [None, "firm"])
def test_a_wrong_domain_stops_a_fit_for_the_price_of_the_counts(tmp_path: Path, unit: str | None) -> None:
    rows, wrong = table(2000), {**DOMAIN, "y": (-6, -1)}
    ledger = dp.Ledger(tmp_path / "rows.ledger", dataset="rows", eps=4.0, unit=unit)
    with pytest.raises(MismatchError, match="`y` outside its declared range"):
        dp.ols(FORMULA, rows, 3.0, domain=wrong, unit=unit, ledger=ledger)
    assert ledger.entries()["eps"].tolist() == pytest.approx([0.09])
    going = dp.ols(FORMULA, rows, 3.0, domain=wrong, unit=unit, on_mismatch="go", seed=1)
    assert "outside its declared range" in " ".join(going.summary().as_text().split())
    dp.ols(FORMULA, rows, 3.0, domain=wrong, unit=unit, check_share=0)


def test_what_counts_rows_is_planned_paid_for_and_kept(tmp_path: Path) -> None:
    plan = dp.plan(FORMULA, DOMAIN, 1.0, check_share=0.1)
    assert plan.budget.loc["row counts", "eps"] == pytest.approx(0.1)
    assert plan.budget["eps"].sum() == pytest.approx(1.0)
    assert plan.counts is not None
    rest = dp.plan(FORMULA, DOMAIN, plan.counts.rest, check_share=0)
    assert plan.plan.noise == rest.plan.noise
    assert plan.digest() != dp.plan(FORMULA, DOMAIN, 1.0).digest()
    fit = plan.fit(table(), seed=1)
    fit.save(tmp_path / "fit.json")
    assert dp.load(tmp_path / "fit.json").counts == fit.counts
    assert fit.counts.rows == pytest.approx(len(table()), abs=500)


def test_groups_are_not_counted_where_their_number_is_public() -> None:
    assert dp.plan(FORMULA, DOMAIN, 1.0, unit="firm", adjacency="replace_one").counts is None
    with pytest.raises(ArgumentError, match="check_share"):
        dp.plan(FORMULA, DOMAIN, 1.0, unit="firm", adjacency="replace_one", check_share=0.05)


def test_normal_noise_keeps_its_zcdp_beside_the_counts() -> None:
    plan = dp.plan(FORMULA, DOMAIN, 1.0, delta=1e-3)
    if plan.guarantee.delta:
        assert plan.counts is not None
        alone = dp.plan(FORMULA, DOMAIN, plan.counts.rest, delta=1e-3, check_share=0).guarantee
        assert plan.guarantee.rho == pytest.approx(alone.rho + plan.counts.eps**2 / 2)


def test_dots_and_conditions() -> None:
    rows = table()
    fit = dp.ols("y ~ . | firm", rows, 1.0, domain={**DOMAIN, "firm": ["f1"]}, subset="z >= 5", seed=3)
    assert set(fit.params.index) == {"x", "z", "year[T.b]", "year[T.c]"}
    part = dp.ols("y ~ x + z + year | firm", rows[rows["z"] >= 5], 1.0, domain=DOMAIN, seed=3)
    assert fit.debiased[part.debiased.index].to_numpy() == pytest.approx(part.debiased.to_numpy(), rel=1e-9)


def test_a_column_that_never_varies_within_groups_is_said_to_be_out_of_reach() -> None:
    rows = table(1000)
    rows["size"] = rows["firm"].str[1:].astype(float) % 10
    fit = dp.ols("y ~ x + size | firm", rows, 5.0, domain={**DOMAIN, "size": (0, 9)}, seed=1)
    text = " ".join(str(fit.summary()).split())
    assert "fewer or less collinear columns or a larger eps help. Leave out a column that never varies within" in text
    assert "Two columns that rise together in each firm cannot be told apart" in text
    assert "hardly apart from" not in text
    assert "rows less groups are all rows but one of each firm" in text
    alone, beside = (dp.plan(one, {**DOMAIN, "size": (0, 9)}, 1.0) for one in ("y ~ x | firm", "y ~ x + size | firm"))
    errors = [plan.standard_errors(20_000, 4000).loc["x", "std_error"] for plan in (alone, beside)]
    assert errors[1] > 1.2 * errors[0]


def panel(persons: int = 545) -> pd.DataFrame:
    """Eight years of each person, whose experience rises by one a year."""
    rng = np.random.default_rng(0)
    person, year = np.repeat(np.arange(persons), 8), np.tile(np.arange(8), persons)
    exper = np.repeat(rng.integers(0, 10, persons), 8) + year
    union = (rng.random(len(person)) < 0.25).astype(int)
    y = np.clip(0.05 * exper + 0.1 * union + rng.normal(1, 0.3, len(person)), -3, 5)
    return pd.DataFrame({"person": person, "year": year, "exper": exper, "union": union, "y": y})


PANEL: dict[str, Any] = {"year": (0, 7), "exper": (0, 20), "union": (0, 1), "y": (-3, 5)}


@pytest.mark.parametrize(("eps", "unit"), [(3.0, None), (1000.0, None), (100.0, "person")])
def test_a_column_that_varies_only_together_with_another_is_named_with_it(eps: float, unit: str | None) -> None:
    """At no eps can experience and year be told apart: neither more rows nor narrower ranges help."""
    fit = dp.ols("y ~ exper + union + year | person", panel(), eps, domain=PANEL, unit=unit, seed=1)
    assert np.isinf(fit.bse["exper"])
    (note,) = (one for one in fit.notes if one.startswith("Not identified"))
    assert "exper varies within person, but hardly apart from year. Two columns that rise together in each" in note
    assert "those of other columns can be blank too. Leave one of the two out." in note
    assert "too few rows" not in note
    assert note in " ".join(str(fit.summary()).split())
    left_out = dp.ols("y ~ union + year | person", panel(), eps, domain=PANEL, unit=unit, seed=1)
    assert left_out.bse["year"] < 0.2 * fit.bse["year"]


def test_a_pair_that_blanks_other_columns_comes_before_other_reasons() -> None:
    """Without the pair the other column has an interval: it is neither short of rows nor of variation."""
    random = np.random.default_rng(60)
    rows = panel(4000).iloc[:, :2]
    rows["exper"] = rows["year"] + rows["person"] % 3
    rows["hours"] = np.clip(38 + random.normal(0, 6, len(rows)), 10, 65)
    rows["y"] = 20 + 0.15 * rows["hours"] + 0.3 * rows["year"] + random.normal(0, 2, len(rows))
    call: dict[str, Any] = {"domain": {"year": (0, 7), "exper": (0, 10), "hours": (10, 65), "y": (0, 50)}}
    blanked = 0
    for seed in range(6):
        fit = dp.ols("y ~ hours + exper + year | person", rows, 1.0, unit="person", seed=seed, **call)
        (note,) = (one for one in fit.notes if one.startswith("Not identified"))
        pair = "hardly apart from" in note
        if pair and np.isinf(fit.bse["hours"]):
            blanked += 1
            assert note.index("those of other columns can be blank too") < note.index("there are too few rows")
            assert "For coefficients that are blank even then, there are too few rows" in note
            alone = dp.ols("y ~ hours + year | person", rows, 1.0, unit="person", seed=seed, **call)
            assert np.isfinite(alone.bse["hours"])
    assert blanked


def alike(seed: int, kind: str) -> pd.DataFrame:
    """400 groups of eight: `a` and `b` have a correlation of a half ("half"), or `c` is the sum of both ("sum")."""
    random = np.random.default_rng(seed)
    both, a, b, c, error = random.normal(0, 1, (5, 3200))
    rows = pd.DataFrame({"person": np.repeat(np.arange(400), 8), "a": a, "b": b, "c": c})
    if kind == "half":
        rows["a"], rows["b"] = 0.7 * (a + both), 0.7 * (b + both)
    else:
        rows["c"] = a + b
    rows[["a", "b", "c"]] = (2.5 + 0.7 * rows[["a", "b", "c"]]).clip(0, 5)
    return rows.assign(y=np.clip(rows["a"] + error, -3, 9))


ALIKE: dict[str, Any] = {**dict.fromkeys("abc", (0, 5)), "y": (-3, 9)}


def blank_notes(fit: Any) -> str:
    """What is said of coefficients without an interval, if any are."""
    return "".join(note for note in fit.notes if note.startswith("Not identified"))


def test_columns_that_more_eps_tells_apart_are_not_said_to_vary_together() -> None:
    blank = 0
    for seed in range(12):
        rows = alike(seed, "half")
        fit, more = (dp.ols("y ~ a + b + c | person", rows, eps, domain=ALIKE, seed=seed) for eps in (0.7, 2.0))
        blank += np.isinf(fit.bse).any()
        assert np.isfinite(more.bse).all()
        assert "but hardly apart from" not in blank_notes(fit)
    assert blank >= 4


def test_a_pair_is_named_wherever_one_of_it_alone_has_an_interval() -> None:
    """Experience alone has one, and beside the year it has none: rows and budget are not what is lacking."""
    for seed in range(8):
        call: dict[str, Any] = {"domain": PANEL, "seed": seed}
        fit = dp.ols("y ~ exper + union + year | person", panel(), 0.6, **call)
        alone = dp.ols("y ~ exper + union | person", panel(), 0.6, **call)
        assert np.isfinite(alone.bse["exper"])
        assert np.isfinite(fit.bse[["exper", "year"]]).all() or "but hardly apart from" in blank_notes(fit)


def test_a_sum_of_two_columns_varies_apart_from_each_of_them() -> None:
    for seed in range(3):
        fit = dp.ols("y ~ a + b + c | person", alike(seed, "sum"), 3.0, domain=ALIKE, seed=seed)
        assert " within person, but hardly apart from other columns. " in blank_notes(fit)


def test_a_summary_has_three_notes_on_the_model_and_in_full_all() -> None:
    rows = panel()
    rows.loc[:1000, "union"] = 7
    fit = dp.ols("y ~ exper + union + year | person", rows, 2.0, domain=PANEL, on_mismatch="go", seed=1)
    short, full = (" ".join(str(one).split()) for one in (fit.summary(), fit.summary(full=True)))
    assert len(fit.notes) > 3
    assert all(note in short for note in fit.notes[:3])
    assert f"{len(fit.notes) - 3} more note" in short
    assert "more note" not in full
    assert all(note in full for note in fit.notes)
    assert "an entry of X'X" in full, "the noise, as in the plan"
    assert "an entry of X'X" not in short
    with pytest.raises(ArgumentError, match="full must be True or False"):
        fit.summary(full="yes")  # type: ignore[arg-type]
