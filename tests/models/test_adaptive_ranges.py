"""Intervals within declared ranges that a count of the rows decides to buy: rule, price, what is kept."""

from __future__ import annotations

import re
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import dpstats as dp
from dpstats.call import make_request
from dpstats.data import as_table
from dpstats.errors import ReleaseError
from dpstats.models.sources import FormulaSource
from dpstats.plan import range_eps
from dpstats.privacy.trimming import rows_that_pay, rows_to_narrow, share_to_spend

WIDE = dp.Domain(x=(0, 200), z=(0, 100), b=bool, s=["a", "b"], y=(-10, 20))
FORMULA = "y ~ x + z + b"
PAYS = 10_000
"""Rows that pay for intervals of two columns at eps 1."""


def made_up(rows: int, seed: int = 0) -> pd.DataFrame:
    random = np.random.default_rng(seed)
    x, z, b = random.normal(50, 2, rows), random.exponential(1, rows), random.integers(0, 2, rows)
    return pd.DataFrame({"x": x, "z": z, "b": b, "y": 2 + 0.5 * (x - 50) + 0.3 * z + random.normal(0, 1, rows)})


ROWS = made_up(PAYS)


def test_many_rows_buy_intervals_and_few_do_not(tmp_path: Path) -> None:
    for rows, bought in ((3_000, ()), (PAYS, ("x", "z"))):
        ledger = dp.Ledger(tmp_path / f"{rows}.ledger", dataset="x", eps=1.0, domain=WIDE)
        fit = dp.ols(FORMULA, ROWS.head(rows), 1.0, domain=WIDE, ledger=ledger)
        assert fit.plan.bought == fit.plan.trimmed == bought
        assert ("ranges" in fit.plan.budget.index) == bool(bought)
        assert fit.plan.budget.loc["total", "eps"] <= 1.0 + 1e-12
        assert ledger.remaining.eps == pytest.approx(0.0, abs=1e-9)
        assert dp.GLMResults.from_dict(fit.to_dict()).plan.digest() == fit.plan.digest()
    known = fit.plan.design.domain
    assert known["x"].drops
    assert known["y"] == dp.Range(-10, 20)
    assert np.ptp(known["x"].interval) < 40
    counts_again = fit.plan.fitstats is not None or fit.plan.request.method == "statistics"
    assert "before ranges were bought" in str(fit.summary()) or counts_again
    assert np.isfinite(fit.bse).all()


@pytest.mark.parametrize(("eps", "method"), [(1.0, "auto"), (20.0, "auto"), (20.0, "statistics")])
def test_a_note_says_how_many_rows_are_outside_and_whose_coefficients_these_are(eps: float, method: Any) -> None:
    arguments = {"method": method} | ({"inference": True, "residual_cap": 5.0} if method == "auto" else {})
    arguments |= {"ranges": "bought", "check_share": 0.1}
    fit = dp.ols(FORMULA, ROWS, eps, domain=WIDE, seed=3, allow_uncertified=True, **arguments)
    assert fit.plan.trimmed == ("x", "z")
    known = fit.plan.design.domain
    outside = 100 * (1 - np.mean(known["x"].holds(ROWS["x"].to_numpy()) & known["z"].holds(ROWS["z"].to_numpy())))
    for full in (False, True):
        text = " ".join(str(fit.summary(full=full)).split())
        at = re.search(r"(Rows|About [\d.]+ %|Probably less than [\d.]+ %).{,80}outside the bought range", text)
        assert at
        assert "The coefficients are those of the rows inside, not of all; ranges='declared' keeps all rows." in text
        if "Probably" in at[1]:
            assert float(at[1].split()[3]) > outside
        else:
            assert float(at[1].split()[1]) == pytest.approx(outside, abs=1)


def test_a_declared_range_that_stays_is_not_called_bought() -> None:
    """Rows outside it are left out, as declared, and are none of those of which the bought range of `x` has a share."""
    domain = WIDE | {"z": dp.Range(0, 10, outside="drop"), "b": dp.Range(0.5, 9, outside="drop")}
    rows = ROWS.assign(z=np.linspace(0, 12, len(ROWS)), b=np.linspace(0, 9, len(ROWS)))
    fit = dp.ols("y ~ x + z + b", rows, 4.0, domain=domain, ranges="bought", seed=1)
    assert fit.plan.trimmed == ("x", "z", "b")
    assert [name for name in fit.plan.trimmed if fit.plan.design.domain[name].inner is not None] == ["x"]
    notes = " ".join(fit.notes)
    assert "Ranges kept as declared: z, b" in " ".join(str(fit.summary()).split())
    assert re.search(r"outside the bought range of x \([\d.]+, [\d.]+\) and are left out", notes)
    assert "z outside (0, 10) or b outside (0.5, 9) are left out" in notes


def test_the_plan_shows_the_rule_before_any_row_is_read() -> None:
    plan = dp.plan(FORMULA, WIDE, 1.0)
    assert plan.bought == ()
    assert plan.counts.trimmable == ("x", "z")
    assert dp.Plan.from_dict(plan.to_dict()).counts == plan.counts
    shown = " ".join(str(plan.summary()).split())
    least = rows_that_pay(1.0, "add_remove", 2)
    assert f"With about {least:,.0f} rows or more, a fit spends at most 7 % of eps on narrower ranges of" in shown
    table = plan.by_rows()["ranges"]
    assert (table == np.where(table.index >= least, "bought", "declared")).all()
    assert plan.at(2.0).counts.trimmable == ("x", "z")


@pytest.mark.parametrize(
    ("formula", "domain", "options"),
    [
        (FORMULA, WIDE, {"ranges": "declared"}),
        (FORMULA, WIDE, {"check_share": 0}),
        ("y ~ b + s", WIDE, {}),
        (FORMULA, WIDE.with_(x=dp.Range(0, 200, inner=(40, 60)), z=dp.Range(0, 100, typical=(1, 1))), {}),
        (FORMULA, {"y": (-10, 20), "x": (0, 200), "b": bool}, {}),
        (FORMULA, WIDE, {"unit": "who"}),
        (FORMULA, WIDE, {"method": "output"}),
        (FORMULA, WIDE, {"method": "output", "n": PAYS}),
        (FORMULA, WIDE, {"unit": "who", "n": PAYS}),
    ],
    ids=str,
)
def test_where_nothing_is_left_to_decide_nothing_is_bought(formula: str, domain: Any, options: dict[str, Any]) -> None:
    plan = dp.plan(formula, domain, 1.0, **options)
    assert plan.trimmed == ()
    assert plan.counts is None or plan.counts.trimmable == ()


def test_only_columns_whose_range_is_open_to_narrowing_are() -> None:
    domain = WIDE.with_(x=dp.Range(0, 200, "drop"), z=dp.Range(0, 100, typical=(1, 1)))
    assert dp.plan(f"{FORMULA} + I(y > 2)", domain, 1.0).counts.trimmable == ("x",)


def test_several_fits_that_share_a_budget_buy_nothing() -> None:
    plans = dp.plan_many({"a": FORMULA, "b": "y ~ x"}, WIDE, 1.0).plans.values()
    assert all(plan.trimmed == () and plan.counts is None for plan in plans)


def test_a_public_guess_settles_what_the_same_count_would() -> None:
    fit = dp.ols(FORMULA, ROWS, 1.0, domain=WIDE, seed=1)
    guess = dp.plan(FORMULA, WIDE, 1.0, n=float(fit.plan.counts.rows))
    assert guess.trimmed == fit.plan.trimmed
    assert guess.request.options.range_share == fit.plan.request.options.range_share
    assert guess.fit(ROWS, seed=1).plan.design.domain["x"].drops
    assert dp.plan(FORMULA, WIDE, 1.0, n=1_000).trimmed == ()


@pytest.mark.parametrize("adjacency", ["add_remove", "replace_one"])
@pytest.mark.parametrize("columns", [1, 3, 12])
def test_the_share_is_what_the_page_says(adjacency: Any, columns: int) -> None:
    """docs/proofs/trimming, 6: from 3.4 times the rows that a range needs, four times these, .01 to .07."""
    needed = columns * rows_to_narrow(1.0, adjacency, columns)
    least = 3.4 * needed / 0.07
    assert rows_that_pay(2.0, adjacency, columns) == pytest.approx(least / 2)
    shares = [share_to_spend(rows, adjacency, columns) for rows in (-1e9, 0.0, 0.999 * least, 1.001 * least, 1e15)]
    assert shares == pytest.approx([0, 0, 0, 0.07, 0.01])
    rows = 2.5 * least
    assert 4 * needed / rows <= share_to_spend(rows, adjacency, columns) < 4 * needed / rows + 0.005
    assert share_to_spend(1e9, adjacency, 0) == 0


def test_less_may_be_spent_than_the_rule_says() -> None:
    assert dp.plan(FORMULA, WIDE, 1.0, n=PAYS, range_share=0.02).budget.loc["ranges", "eps"] == pytest.approx(0.02)


@pytest.mark.parametrize("options", [{}, {"penalty": "ridge", "alpha": 1.0}, {"delta": 1e-6}, {"inference": None}])
def test_the_budget_is_the_same_whatever_is_counted(options: dict[str, Any]) -> None:
    table = as_table(ROWS.head(200))
    source = FormulaSource(FORMULA, table, WIDE)
    charged = source.plan(make_request(eps=1.0, **options), alone=True)
    for rows in (-50, 200, 8_000, 10**5, 10**8):
        counted = replace(charged, counts=charged.counts.released(rows, [0] * len(charged.counts.faults)))
        plan = source.complete(counted, table, np.random.default_rng(1)).plan
        assert bool(plan.trimmed) == (rows >= 8_000)
        spent = charged.counts.eps + range_eps(plan.request, plan.bought) + sum(stage.cost for _, stage in plan.stages)
        spent += 0.0 if plan.fitstats is None else plan.fitstats.eps
        assert spent <= 1 + 1e-12
        assert plan.noise.kind == charged.noise.kind


def test_intervals_that_the_rest_does_not_pay_for_are_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """The planted bug: intervals are bought, and the rest is planned with all that was left before."""
    monkeypatch.setattr(sys.modules["dpstats.plan.plan"], "range_eps", lambda *_: 0.0)
    assert not dp.ols(FORMULA, ROWS.head(3_000), 1.0, domain=WIDE, seed=1).plan.bought
    with pytest.raises(ReleaseError):
        dp.ols(FORMULA, ROWS, 1.0, domain=WIDE, seed=1)


@pytest.mark.slow
@pytest.mark.parametrize("n", [100, 5_000, 20_000])
def test_forecasts_are_those_of_what_the_number_of_rows_settles(n: int) -> None:
    """Coefficients alone, errors over the declared ranges, or beside what is bought of them: by the public rule."""
    known = {"x": (100, 40), "z": (50, 20)}
    plan = dp.plan(FORMULA, WIDE, 1.0)
    row, foreseen = plan.forecast(typical=known).plan_at(n), plan.standard_errors(n, typical=known)
    assert (row.request.options.inference, bool(row.trimmed)) == {
        100: (None, False),
        5_000: (True, False),
        20_000: (True, True),
    }[n]
    if row.request.options.inference is None:
        assert np.isinf(foreseen["std_error"]).all()
        return
    share = share_to_spend(n, "add_remove", 2)
    options: dict[str, Any] = {"ranges": "bought", "range_share": share} if share else {"ranges": "declared"}
    same = dp.plan(FORMULA, WIDE, 1.0, inference=True, **options).standard_errors(n, typical=known)
    # What is spent follows a count that the noise makes small: a step of the share, at most.
    pd.testing.assert_frame_equal(foreseen, same, rtol=0.01)


@pytest.mark.slow
def test_a_sample_size_is_one_at_which_the_adaptive_plan_has_the_errors() -> None:
    plan, known = dp.plan(FORMULA, WIDE, 1.0), {"x": (100, 40), "z": (50, 20), "b": 0.5}
    size = dp.sample_size(plan, se={"b": 0.1}, typical=known)
    assert plan.standard_errors(size.n, typical=known).loc["b", "std_error"] <= 0.1
    assert not size.free


def test_rows_beyond_a_declared_range_are_left_out_where_a_narrower_one_was_bought() -> None:
    """Two notes are of the same rows: the first must not say that they are clipped."""
    random = np.random.default_rng(0)
    x = np.where(np.arange(20_000) % 20, random.normal(50, 2, 20_000), 300)
    rows = pd.DataFrame({"x": x, "y": 0.1 * np.minimum(x, 60) + random.normal(0, 1, 20_000)})
    arguments: dict[str, Any] = {"domain": {"x": (0, 200), "y": (-10, 30)}, "seed": 1}
    bought = dp.ols("y ~ x", rows, 4.0, ranges="bought", check_share=0.1, allow_uncertified=True, **arguments)
    declared = dp.ols("y ~ x", rows, 4.0, ranges="declared", **arguments)
    assert bought.plan.design.domain["x"].drops
    texts = [" ".join(str(fit.summary()).split()) for fit in (bought, declared)]
    among = "They are among those outside the bought range, which are left out."
    assert f"have `x` outside its declared range (0, 200). {among}" in texts[0]
    assert "clipped" not in texts[0]
    clipped = "where they are clipped. The coefficient is that of the clipped values"
    assert f"have `x` outside its declared range (0, 200), {clipped}" in texts[1]
    assert "they name a column only if at least about" in " ".join(str(declared.summary(full=True)).split())


def test_side_by_side_a_narrowed_fit_names_its_rows() -> None:
    """Else models of some rows stand beside models of all."""
    call = {"domain": WIDE, "seed": 3, "allow_uncertified": True, "method": "statistics", "check_share": 0.1}
    whole, narrowed = (dp.ols(FORMULA, ROWS, 20.0, ranges=ranges, **call) for ranges in ("declared", "bought"))
    low, high = narrowed.plan.design.domain["x"].interval
    assert high - low <= 100
    for text in (str(dp.etable({"all": whole, "some": narrowed})), dp.etable([narrowed]).to_latex()):
        assert f"rows outside the bought range of x ({low:,.6g}, {high:,.6g}) or z" in " ".join(text.split())
    assert "left out" not in str(dp.etable([whole]))


@pytest.mark.parametrize(
    "spline", ["bs(x, df=4)", "cr(x, df=3, constraints='center')", "te(cr(x, df=3), cr(z, df=3), constraints='center')"]
)
def test_a_fit_does_not_narrow_what_a_spline_reads(spline: str) -> None:
    """Its knots would stay where they are."""
    others = {"z"} - ({"z"} if "z" in spline else set())
    fit = dp.logit(f"b ~ {spline}{' + z' * bool(others)}", ROWS, 4.0, domain=WIDE, check_share=0.05)
    assert set(fit.plan.bought) == others
    assert set(dp.logit("b ~ poly(x, 2) + z", ROWS, 4.0, domain=WIDE).plan.bought) == {"x", "z"}


def many_zeros(share: float, rows: int = 30_000) -> pd.DataFrame:
    """A column of which so many values are zero, and the others fill an eighth of its range."""
    random = np.random.default_rng(3)
    x, a = np.where(random.random(rows) < share, 0, random.uniform(0, 12_000, rows)), random.uniform(0, 1, rows)
    return pd.DataFrame({"y": 1 + a + x / 12_000 + random.normal(0, 1, rows), "a": a, "x": x})


ZEROS = dp.Domain(y=(-20, 20), a=(0, 1), x=(0, 100_000))


@pytest.mark.parametrize("options", [{}, {"ranges": "bought"}])
def test_a_range_is_narrowed_though_nine_in_ten_values_are_zero(options: dict[str, Any]) -> None:
    """None of 10 was, and two of three coefficients had errors. Seeds 0 to 4, all must pass."""
    rows = many_zeros(0.9)
    for seed in range(5):
        fit = dp.ols("y ~ a + x", rows, 1.0, domain=ZEROS, seed=seed, **options)
        assert 12_000 <= fit.plan.design.domain["x"].interval[1] <= 25_000
        assert np.isfinite(fit.bse).all()
        assert fit.plan.budget.loc["ranges", "eps"] <= (0.1 if options else 0.07) + 1e-12
        assert fit.plan.budget.loc["total", "eps"] <= 1 + 1e-12
        assert any("outside the bought range of x" in note for note in fit.notes)


def test_what_cannot_narrow_a_range_is_left_to_the_fit() -> None:
    """Of 30 rows away from zero none is lost, and only counts are paid for: by eight in ten of these fits."""
    rows, spent = many_zeros(0.999), []
    for seed in range(10):
        fit = dp.ols("y ~ a + x", rows, 1.0, domain=ZEROS, seed=seed)
        assert fit.plan.design.domain["x"].interval == (0, 100_000)
        spent.append(fit.plan.budget.loc["ranges", "eps"])
    assert np.quantile(spent, 0.8) < 0.01


@pytest.mark.parametrize(
    ("eps", "rows", "share", "options"),
    [(0.5, 30_000, 0.95, {}), (0.5, 10_000, 0.8, {}), (1.0, 30_000, 0.95, {"adjacency": "replace_one"})],
)
def test_a_range_is_bought_beside_a_column_of_many_zeros(
    eps: float, rows: int, share: float, options: dict[str, Any]
) -> None:
    """What the zeros leave unspent goes to the fit, and no range of another column is refused for it by then."""
    data, domain = many_zeros(share, rows), {"y": (-20, 20), "x": (0, 100_000)}
    for seed in range(3):
        fit = dp.ols("y ~ a + x", data, eps, domain=domain, ranges="bought", seed=seed, **options)
        assert fit.plan.bought == ("a", "x")
        assert fit.plan.budget.loc["ranges", "eps"] < 0.1 * eps
        assert fit.plan.budget.loc["total", "eps"] == pytest.approx(eps)


@pytest.mark.parametrize("options", [{"curvature": 0.178}, {"check_share": 0.92}])
def test_a_price_rises_only_where_the_rest_pays_for_a_fit(options: dict[str, Any]) -> None:
    """At the planned price, .01, the plan is possible, and at .07 it is not."""
    rows = many_zeros(0.98, 300_000).assign(b=lambda data: (data["y"] > 1.5).astype(int))
    for seed in range(2):
        fit = dp.logit("b ~ a + x", rows, 1.0, domain=ZEROS.with_(b=bool), seed=seed, **options)
        assert fit.plan.bought == ("x",)
        assert fit.plan.budget.loc["ranges", "eps"] <= 0.01 + 1e-12


@pytest.mark.parametrize("options", [{"ranges": "bought"}, {"adjacency": "replace_one", "penalty": "lasso"}])
def test_the_width_of_a_quantile_needs_no_more_curvature_by_a_count_of_the_rows(options: dict[str, Any]) -> None:
    fit = dp.quantreg("y ~ a + x", many_zeros(0.99, 100_000), 3.0, domain=ZEROS, curvature=1.6, seed=1, **options)
    assert fit.plan.bought == ("x",)
    assert np.isfinite(fit.params).all()


def test_a_fit_whose_purchase_stops_at_the_count_says_that_the_ranges_stay() -> None:
    fit = dp.ols("y ~ x", many_zeros(0.999), 1.0, domain=ZEROS, ranges="bought", seed=1)
    assert fit.plan.budget.loc["ranges", "eps"] == pytest.approx(0.01, abs=1e-12)
    text = " ".join(str(fit.summary(full=True)).split())
    assert "eps 0.01 is spent on narrower ranges of x. The declared ranges stay, as where values fill them" in text
    assert "buys a narrower range" not in text


def test_the_check_promises_what_a_fit_does_of_many_zeros_and_names_a_call_that_works() -> None:
    rows = many_zeros(0.9)
    (found,) = (text for text in dp.check("y ~ a + x", rows, ZEROS, 1.0, seed=1).findings if "`x`" in text)
    stated = re.search(r"or more \((\S+) if many of its values are 0, up to nine in ten\)", found)
    called = re.search(
        r"before the fit, type (dp\.buy_ranges\(data, \['x'\], eps=0.1, domain={'x': \(0, 100000\)}\))\.", found
    )
    (other,) = (
        text
        for text in dp.check("y ~ a + x", rows, ZEROS, 1.0, seed=1, adjacency="replace_one").findings
        if "`x`" in text
    )
    assert other.count(", adjacency='replace_one')") == other.count("dp.buy_ranges(") > 0
    assert stated is not None
    assert called is not None
    eps = float(stated[1])
    for factor, least, most in ((1.0, 8, 10), (0.4, 0, 3)):
        fits = [dp.ols("y ~ a + x", rows, factor * eps, domain=ZEROS, seed=seed) for seed in range(10)]
        assert least <= sum(fit.plan.design.domain["x"].interval[1] < 100_000 for fit in fits) <= most
    assert eval(called[1], {"dp": dp, "data": rows}).domain["x"].interval[1] < 50_000


def test_a_forecast_has_the_price_that_many_zeros_take() -> None:
    """Its standard errors are those of the fits, with x narrowed as they narrow it: of the median fit in `lower`.

    `std_error` is for a purchase of the range and of the cap as nine in ten find it or better.
    """
    rows, plan = many_zeros(0.9), dp.plan("y ~ a + x", ZEROS, 1.0)
    foreseen = plan.standard_errors(len(rows), like=rows[["a", "x"]], residual_sd=1.0)
    fits = [dp.ols("y ~ a + x", rows, 1.0, domain=ZEROS, seed=seed) for seed in range(5)]
    usual = pd.concat([fit.bse for fit in fits], axis=1).median(axis=1)
    assert foreseen["lower"].to_numpy() == pytest.approx(usual[foreseen.index].to_numpy(), rel=0.2)
    ratios = foreseen["std_error"].to_numpy() / usual[foreseen.index].to_numpy()
    assert (ratios >= 1.0).all()
    assert (ratios <= [1.1, 1.1, 1.7]).all()


def test_a_note_on_a_column_that_hides_others_names_the_purchase() -> None:
    adult = dp.datasets.load_adult("all")
    domain = {**adult.domain, "capital_gain": dp.Range(0, 99998, outside="drop")}
    formula = "income ~ age + education_num + hours_per_week + sex + capital_gain"
    notes = [dp.logit(formula, adult.data, 0.3, domain=domain, seed=seed).notes for seed in range(4)]
    hiding = [note for one in notes for note in one if "`capital_gain` hides" in note]
    assert hiding
    called = "Or buy a narrower range before: dp.buy_ranges(data, ['capital_gain'], eps=0.1, domain=domain). "
    assert all(called in note for note in hiding)
    bought = dp.buy_ranges(adult.data, ["capital_gain"], eps=0.1, domain=domain, seed=1)
    assert bought.domain["capital_gain"].interval[1] < 50_000
