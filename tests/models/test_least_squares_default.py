"""Least squares with errors: a cap that intervals can do with, or released statistics, and nothing for no errors."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import pytest
import statsmodels.formula.api as smf
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

import dpstats as dp
from dpstats.call import make_request
from dpstats.domain import Domain
from dpstats.errors import ArgumentError
from dpstats.formula.design import design_spec
from dpstats.mechanisms.stage import StagesRelease
from dpstats.mechanisms.statistics import ResidualCentre
from dpstats.models import glm, ranges, residuals, sources
from dpstats.models.adaptive import affordable, settled
from dpstats.models.expectations import WIDTH_PRICE, expectations
from dpstats.models.sources import FormulaSource
from dpstats.plan import Plan
from dpstats.plan.methods import ERRORS_SHARE, FEWEST_BOUGHT, INTERVAL_CAP, ONE_TAIL, fit_spec, plan_releases
from dpstats.plan.plan import rescaled
from dpstats.results.standard_errors import beyond_cap

FULL = {"x": (0, 1), "z": (-1, 1), "y": (-1, 3)}
WIDE = {**FULL, "y": (-50, 50)}
MODEL = "y ~ x + z"


def frame(rows: int, seed: int = 0, *, skewed: bool = False) -> pd.DataFrame:
    random = np.random.default_rng(seed)
    data = pd.DataFrame({"x": random.uniform(0, 1, rows), "z": random.uniform(-1, 1, rows)})
    noise = random.exponential(0.5, rows) - 0.5 if skewed else 0.5 * random.standard_normal(rows)
    data["y"] = 1 + 0.6 * data["x"] - 0.2 * data["z"] + noise
    return data


def fit(rows: int, eps: float = 1.0, domain: Any = WIDE, **options: Any) -> Any:
    return dp.ols(MODEL, frame(rows), eps, domain=domain, **{"seed": 1, **options})


def test_few_rows_get_coefficients_alone_and_buy_nothing_for_others() -> None:
    found = fit(60)
    assert not found.has_errors
    assert found.plan.response is None
    assert found.family.residual_cap == pytest.approx(100 / 8)


def test_the_cap_that_a_plan_states_holds_of_every_fit_of_it() -> None:
    """Of coefficients alone the one number; with errors the other is a bound, until the interval is bought."""
    domain = {**WIDE, "y": (0, 60_000)}

    def said(plan: dp.Plan) -> str:
        return " ".join(str(plan.summary()).split())

    adaptive = said(dp.plan(MODEL, domain, 1.0))
    assert "Without standard errors the cap is 7,500 in units of the response." in adaptive
    assert "it determines the cap: at most 27,000. Such a fit may also take method='statistics'" in adaptive
    paid = said(dp.plan(MODEL, domain, 1.0, inference=True, method="napp"))
    assert "buys an interval of the response. The cap is 0.9 times half its width, or 0.9 times its width if" in paid
    assert "only one of its ends is an end of the declared range. It is at most 27,000 in units" in paid
    assert "this value with fewer than about 1,700 rows." in paid
    weighted = said(dp.plan(MODEL, {**domain, "w": (0, 1)}, 1.0, weights="w"))  # it follows no count
    assert "Residuals beyond 7,500 (residual_cap" in weighted
    alone = dp.plan(MODEL, domain, 1.0, inference=None)
    assert "Residuals beyond 7,500 (residual_cap" in said(alone)
    given = dp.plan(MODEL, domain, 1.0, family=dp.families.Gaussian(residual_cap=500))
    assert "Residuals beyond 500 (residual_cap" in said(given)
    found = dp.ols(MODEL, frame(3_000), 1.0, domain={**WIDE, "y": (-400, 400)}, inference=True, method="napp", seed=1)
    assert found.family.residual_cap <= 0.9 * 400
    assert f"Residuals beyond {found.family.residual_cap:.4g} (residual_cap" in " ".join(found.notes)


@pytest.mark.slow
def test_a_cap_buys_an_interval_and_statistics_do_not() -> None:
    bought, sums = fit(30_000, method="napp"), fit(30_000, domain=FULL, method="statistics")
    assert bought.plan.request.method == "napp"
    assert bought.plan.response is not None
    half = (bought.plan.response.high - bought.plan.response.low) / 2
    assert bought.family.residual_cap == pytest.approx(INTERVAL_CAP * half)
    assert bought.family.residual_cap < 100 / 8
    assert sums.plan.request.method == "statistics"
    assert sums.guarantee.basis == "docs/proofs/statistics"
    assert sums.statistics.fit("y ~ x").params.index.tolist() == ["Intercept", "x"]
    shown = " ".join(sums.summary().as_text().split())
    assert "method: statistics" in shown
    assert "R2 0." in shown
    assert bought.budget.loc["response", "eps"] == pytest.approx(ERRORS_SHARE)
    for found in (bought, sums):
        assert found.budget["eps"].drop("total").sum() == pytest.approx(1.0, rel=1e-9)
        assert found.guarantee.eps == 1.0


@pytest.mark.parametrize(
    ("ends", "wide"), [((0.0, 25.0), True), ((62.5, 100.0), True), ((25.0, 75.0), False), ((0.0, 100.0), False)]
)
def test_the_cap_is_wide_for_a_response_that_meets_one_end(
    ends: tuple[float, float], wide: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The interval is the purchase's alone: the rows, which lie about 1, have no part in it."""
    monkeypatch.setattr(ranges, "buy_interval", lambda *_, **__: ends)
    domain = {**FULL, "y": (0, 100)}
    found = dp.ols(MODEL, frame(3_000), 1.0, domain=domain, inference=True, method="napp", seed=1)
    assert found.family.residual_cap == pytest.approx(
        INTERVAL_CAP * (ONE_TAIL if wide else 1) * (ends[1] - ends[0]) / 2
    )
    assert found.plan.response.to_dict().get("one_tail", False) is wide
    assert dp.GLMResults.from_dict(found.to_dict()).plan.response == found.plan.response


@pytest.mark.slow
def test_errors_of_one_tail_never_have_the_narrow_cap(monkeypatch: pytest.MonkeyPatch) -> None:
    """Under it they pay of fewer rows, and slopes are bent."""
    monkeypatch.setattr(ranges, "buy_interval", lambda *_, **__: (0.0, 50.0))
    domain, data = {**FULL, "y": (0, 200), "g": list(range(7))}, frame(20_000)
    data["g"] = np.arange(20_000) % 7
    few, many = (
        dp.ols(f"{MODEL} + g", data[:rows], 0.5, domain=domain, method="napp", seed=1) for rows in (8_000, 20_000)
    )
    assert few.has_errors
    for found in (few, many):
        assert found.family.residual_cap == pytest.approx(INTERVAL_CAP * 25 * ONE_TAIL)


@pytest.mark.slow
def test_who_insists_is_heard() -> None:
    named = fit(30_000, domain=FULL, method="napp")
    assert named.plan.request.method == "napp"
    assert named.has_errors
    assert named.plan.response is not None
    capped = fit(30_000, domain=FULL, residual_cap=2.0)
    assert capped.plan.response is None
    assert capped.family.residual_cap == pytest.approx(2.0)
    declared = fit(30_000, response="declared", method="napp")
    assert declared.plan.response is None
    assert declared.family.residual_cap == pytest.approx(0.45 * 100)
    asked = fit(30_000, domain=FULL, response="bought")
    assert asked.plan.request.method == "napp"
    assert asked.budget.loc["response", "eps"] == pytest.approx(0.06)
    assert fit(30_000, inference=None).plan.response is None
    assert fit(30_000, inference="robust").plan.response is not None


@pytest.mark.parametrize(
    ("options", "buys"),
    [
        ({}, False),
        ({"inference": True}, True),
        ({"inference": "model"}, True),
        ({"inference": True, "method": "statistics"}, False),
        ({"inference": True, "response": "declared"}, False),
        ({"inference": None}, False),
        ({"penalty": "lasso", "alpha": 1.0}, False),
    ],
)
def test_a_plan_prices_an_interval_where_errors_are_asked_for(options: dict[str, Any], buys: bool) -> None:
    plan = dp.plan(MODEL, WIDE, 1.0, **options)
    assert (plan.response is not None) == buys
    if plan.response is not None:
        assert plan.response.eps == pytest.approx(ERRORS_SHARE)
        assert "eps 0.03 buys" in " ".join(str(plan.summary()).split())


def test_a_smaller_share_of_the_response_is_what_is_spent() -> None:
    assert dp.plan(MODEL, WIDE, 1.0, inference=True, response_share=0.01).response.eps == pytest.approx(0.01)  # type: ignore[union-attr]


@pytest.mark.slow
def test_a_public_number_of_rows_settles_the_same_beforehand() -> None:
    settled = dp.plan(MODEL, FULL, 1.0, n=60.0)
    assert settled.request.options.inference is None
    assert settled.response is None
    wide = dp.plan(MODEL, WIDE, 1.0, n=30_000.0)
    assert wide.request.options.inference is True
    assert wide.response is not None
    found = wide.fit(frame(30_000), seed=1)
    assert found.plan.response.high < 50
    assert found.budget["eps"].drop("total").sum() == pytest.approx(1.0, rel=1e-9)


def test_too_few_rows_to_tell_an_interval_keep_the_declared_range() -> None:
    least = FEWEST_BOUGHT / ERRORS_SHARE
    few, many = (dp.plan(MODEL, WIDE, 1.0, n=rows, inference=True) for rows in (0.9 * least, 1.1 * least))
    assert few.response is None
    assert many.response is not None
    counted = fit(500, inference=True)
    assert counted.plan.response is None
    assert counted.budget["eps"].drop("total").sum() == pytest.approx(1.0, rel=1e-9)


def costs(persons: int, seed: int) -> pd.DataFrame:
    """Costs with an exponential tail, of persons with one to nine rows."""
    random = np.random.default_rng(seed)
    person = np.repeat(np.arange(persons), np.minimum(1 + random.poisson(2.05, persons), 9))
    treat, own = random.integers(0, 2, persons)[person], random.normal(0, 0.3, persons)[person]
    age = np.clip(random.normal(45, 12, persons), 20, 80)[person]
    mean = 5.4 * np.exp(0.35 * treat + 0.012 * (age - 45) + own)
    made = {
        "pid": person,
        "group": person % 3,
        "treat": treat,
        "age": age,
        "cost": random.exponential(mean).clip(0, 59),
    }
    return pd.DataFrame(made).assign(w=random.uniform(0.2, 1, len(person)), o=random.uniform(-1, 1, len(person)))


COSTS = {"treat": [0, 1], "age": (20, 80), "cost": (0, 60), "w": (0, 1), "o": (-1, 1), "group": [0, 1, 2]}
COST = "cost ~ treat + age"


def errors_cap(plan: Plan) -> float:
    """The least cap that intervals can do with, in units of the response: of what was bought, or is declared."""
    bought = plan.response
    if bought is None:
        return 0.45 * 60
    wide = (bought.low == 0) != (bought.high == 60)
    return min(0.45 * 60, (0.9 if wide else 0.45) * (bought.high - bought.low))


@pytest.mark.parametrize("eps", [0.1, 0.5, 2.0])
@pytest.mark.parametrize(
    "options",
    [
        {"method": "napp"},
        {"inference": True, "unit": "pid"},
        {"inference": True, "unit": "pid", "max_rows": 5},
        {"inference": "robust"},
        {"inference": "model"},
        {"inference": True, "weights": "w"},
        {"inference": True, "offset": "o"},
        {"offset": "o"},
        {"inference": True, "method": "napp", "response": "declared"},
        {"inference": True, "method": "napp", "n": 1_500},
        {"inference": True, "check_share": 0},
        {"inference": True, "response": "bought"},
        {"inference": True, "by": "group"},
        {"inference": True, "penalty": "ridge", "alpha": 1.0},
        {"inference": True, "screen": 1, "split": "rows"},
        {"inference": True, "penalty": "lasso", "alpha": 1.0, "refit_share": 0.5, "split": "rows"},
        {"inference": True, "stages": 2},
        {"focus": "treat"},
        {"focus": "treat", "inference": None},
        {"focus": "treat", "check_share": 0},
    ],
    ids=str,
)
def test_no_fit_with_errors_has_a_cap_for_predictions(options: dict[str, Any], eps: float) -> None:
    """Of few rows the cap was an eighth of the declared range, or what noise had chosen, and slopes were missed."""
    found = dp.ols(COST, costs(1_000, 1), eps, domain=COSTS, seed=1, **options)
    for one in found.fits if "by" in options else [found]:
        assert isinstance(one, dp.GLMResults)
        if one.has_errors or "focus" in options:
            assert one.family.residual_cap >= errors_cap(one.plan) * (1 - 1e-12)  # type: ignore[attr-defined]
        if eps == 0.1 and one.plan.response is not None:
            assert (one.plan.response.low, one.plan.response.high) == (0, 60)


def test_arrays_with_errors_have_the_cap_of_errors() -> None:
    data = frame(2_000)
    exog, endog = data[["x", "z"]].to_numpy(), data["y"].to_numpy() / 4
    for inference, cap in ((None, 0.25), (True, INTERVAL_CAP), ("robust", INTERVAL_CAP)):
        found = dp.GLM(endog, exog, family="gaussian", row_norm=2.0).fit(1.0, inference=inference, seed=1)
        assert found.family.residual_cap == cap  # type: ignore[attr-defined]


@pytest.mark.slow
@pytest.mark.parametrize(
    "options", [{"unit": "pid"}, {"inference": "robust"}, {"by": "group"}, {"weights": "w"}], ids=str
)
def test_intervals_of_few_rows_cover_the_slopes_of_least_squares(options: dict[str, Any]) -> None:
    """Of 40 fits, weighted by person where these are the unit: fewer than 33 have probability .002 at .95.

    Below .55 of the slopes of treatment were covered, and by group of what was shown a half.
    """
    covered = []
    for seed in range(40):
        data = costs(3_000, seed)
        if "unit" in options:
            data["share"] = 1 / data.groupby("pid")["pid"].transform("size")
        else:
            data = data.groupby("pid").head(1).assign(share=1.0)
            data["share"] = data["w"] if "weights" in options else 1.0
        found = dp.ols(COST, data, 0.5, domain=COSTS, seed=seed, **{"inference": True, **options})
        one, rows = (found.fits[0], data[data["group"] == 0]) if "by" in options else (found, data)
        slopes = smf.wls(COST, rows, weights=rows["share"]).fit().params[1:]
        interval = one.conf_int().to_numpy()[1:]
        covered.append((interval[:, 0] <= slopes) & (slopes <= interval[:, 1]))
    assert np.sum(covered, axis=0).min() >= 33


@pytest.mark.slow
def test_default_intervals_cover_where_the_wide_cap_hardly_pays() -> None:
    """2,000 rows with an exponential tail: under the narrow cap .58 of one slope; 15 of 20 or fewer at .95: .003."""
    covered: list[NDArray[np.bool_]] = []
    domain: dict[str, Any] = {"a": (0, 1), "b": (0, 1), "c": (0, 1), "t": [0, 1], "g": list(range(6)), "y": (0, 150)}
    for seed in range(20):
        random = np.random.default_rng(seed)
        data = pd.DataFrame({name: random.uniform(0, 1, 2_000) for name in "abc"})
        data["g"], data["t"] = random.integers(0, 6, 2_000), random.integers(0, 2, 2_000)
        data["y"] = random.exponential(4 * np.exp(0.6 * data["t"] + 0.8 * data["a"] - 0.4 * data["b"])).clip(0, 149)
        found = dp.ols("y ~ a + b + c + t + C(g)", data, 1.0, domain=domain, seed=seed)
        if found.has_errors:
            slopes = smf.ols("y ~ a + b + c + t + C(g)", data).fit().params[["a", "b", "c", "t"]].to_numpy()
            interval = found.conf_int().loc[["a", "b", "c", "t[T.1]"]].to_numpy()
            covered.append((interval[:, 0] <= slopes) & (slopes <= interval[:, 1]))
    assert len(covered) >= 15
    assert np.mean(covered, axis=0).min() >= 0.8


@pytest.mark.slow
@settings(max_examples=25)
@given(st.integers(-500, 10**7), st.sampled_from([0.05, 1.0, 20.0]), st.sampled_from([0.0, 1e-6]), st.booleans())
def test_every_count_and_interval_gives_a_plan_within_the_budget(
    rows: int, eps: float, delta: float, full: bool
) -> None:
    """What follows the count and the interval costs no more than was charged, for every value of both."""
    source = FormulaSource(MODEL, None, Domain(FULL if full else WIDE))
    charged = source.plan(make_request(eps=eps, delta=delta, ranges="declared"), alone=True)
    assert charged.counts is not None
    counted = replace(charged, counts=charged.counts.released(rows, [0] * len(charged.counts.faults)))
    random = np.random.default_rng(abs(rows))
    bought: list[float] = []

    def interval(plan: Plan, *_: Any) -> Any:
        assert plan.response is not None
        bought.append(plan.response.eps)
        low, high = np.sort(random.uniform(plan.response.low, plan.response.high, 2))
        return replace(plan.response, low=float(low), high=float(max(high, low + 0.01)))

    def centre(plan: Plan, *_: Any) -> Any:
        assert plan.residuals is not None
        bought.append(plan.residuals.eps)
        coef, cap = random.normal(size=len(plan.names)), random.exponential()
        return replace(plan.residuals, centre=ResidualCentre(tuple(coef), cap)), None

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sources, "bought_response", interval)
        patch.setattr(sources, "bought_residuals", centre)
        plan = source.complete(counted, None, np.random.default_rng(1)).plan  # type: ignore[arg-type]
    statistics = 0.0 if plan.fitstats is None else plan.fitstats.eps
    spent = charged.counts.eps + sum(bought) + statistics + sum(stage.cost for _, stage in plan.stages)
    assert len(bought) <= 2
    assert spent <= charged.guarantee.eps * (1 + 1e-9)
    assert sum(bought) == pytest.approx(sum(one.eps for one in (plan.response, plan.residuals) if one is not None))
    assert sum(stage.delta for _, stage in plan.stages) <= charged.guarantee.delta * (1 + 1e-12)
    assert (plan.request.method == "napp") or plan.design.response.working is None  # type: ignore[union-attr]


def final_plan(monkeypatch: pytest.MonkeyPatch, data: pd.DataFrame) -> str:
    """The completed plan as JSON, where all that is bought comes out the same whatever the rows are."""

    def fixed(plan: Plan, *_: Any) -> Any:
        assert plan.counts is not None
        return plan.counts.released(20_000, [0] * len(plan.counts.faults))

    with monkeypatch.context() as patch:
        patch.setattr(glm, "count_rows", fixed)
        patch.setattr(ranges, "buy_interval", lambda *_, **__: (-1.0, 3.0))
        patch.setattr(ranges, "buy_inner_intervals", lambda columns, **_: ([(-0.5, 0.5)] * len(columns), 0.02))
        patch.setattr(residuals, "release_stages", lambda *_: StagesRelease(np.array([0.1, 0.2, 0.3]), ()))
        patch.setattr(residuals, "buy_residual_counts", lambda *_, **__: np.full((2, 37), 300))
        return json.dumps(dp.ols(MODEL, data, 1.0, domain=WIDE, seed=1).plan.to_dict(), sort_keys=True)


def same_plan(monkeypatch: pytest.MonkeyPatch) -> bool:
    return final_plan(monkeypatch, frame(5000)) == final_plan(monkeypatch, frame(700, 5, skewed=True) * 1.5)


def test_the_plan_is_a_function_of_what_was_released(monkeypatch: pytest.MonkeyPatch) -> None:
    assert same_plan(monkeypatch)


def test_a_cap_that_follows_the_rows_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """Planted: the cap is a multiple of the responses' own standard deviation."""
    honest = sources.bought_response

    def peeking(plan: Plan, data: Any, random: Any) -> Any:
        spread = 3 * float(np.std(data.column("y").numbers()))
        return replace(honest(plan, data, random), low=1 - spread, high=1 + spread)

    monkeypatch.setattr(sources, "bought_response", peeking)
    assert not same_plan(monkeypatch)


def test_statistics_never_take_a_bought_interval_for_their_bound() -> None:
    """Responses beyond a bought interval would add more to the sums than their noise is for."""
    design = design_spec(MODEL, Domain(WIDE), family=dp.families.Gaussian()).with_working(0.0, 1.0)
    request = make_request(eps=1.0, method="statistics")
    with pytest.raises(ArgumentError, match="declared range"):
        plan_releases(request, design, fit_spec(request, design, dp.families.Gaussian(0.7)), 1.0)


def test_the_share_of_rows_beyond_the_cap_is_told_with_its_error() -> None:
    data = frame(20_000, skewed=True)
    found = dp.ols(MODEL, data, 3.0, domain=WIDE, residual_cap=1.0, seed=1)
    away = np.abs(data["y"] - found.predict(data)) > 1.0
    share = beyond_cap(found.plan, found.released, (20_000.0, 100.0))
    assert share is not None
    assert abs(share.value - np.mean(away)) < 4 * share.sd
    assert 0 < share.sd < 0.02
    assert "% of the rows (s.d." in " ".join(found.summary().as_text().split())
    assert "have a residual beyond the cap" in " ".join(found.summary(full=True).as_text().split())
    alone = dp.ols(MODEL, data, 3.0, domain=WIDE, residual_cap=1.0, inference=None, seed=1)
    assert "beyond the cap" not in alone.summary().as_text()


def test_the_share_beyond_the_cap_is_of_the_rows_that_are_fitted() -> None:
    """About 10,000 of 20,000, where the others chose the columns."""
    data = frame(20_000, skewed=True)
    found = dp.ols(MODEL, data, 3.0, domain=WIDE, residual_cap=1.0, screen=1, split="rows", inference=True, seed=1)
    away = np.abs(data["y"] - found.predict(data)) > 1.0
    share = beyond_cap(found.plan, found.released, (10_000.0, 100.0))
    assert share is not None
    assert abs(share.value - np.mean(away)) < 4 * share.sd


@pytest.mark.slow
def test_default_intervals_cover_where_errors_are_exponential() -> None:
    """.98 of the worst slope; with the cap of two tails .5 (docs/benchmarks_inference)."""
    random, data = np.random.default_rng(11), frame(10_000, 11)
    data["y"] = (1 + 2 * data["x"] + data["z"]) * random.exponential(size=len(data)) + 1
    slopes = smf.ols(MODEL, data).fit().params[1:]
    covered = []
    for seed in range(16):
        interval = dp.ols(MODEL, data, 0.5, domain={**FULL, "y": (0, 100)}, seed=seed).conf_int().loc[slopes.index]
        covered.append((interval.iloc[:, 0] <= slopes) & (slopes <= interval.iloc[:, 1]))
    assert np.mean(covered, axis=0).min() >= 0.8


@pytest.mark.slow
@pytest.mark.parametrize(("domain", "skewed"), [(FULL, False), (WIDE, True)])
def test_default_intervals_cover_the_slopes_of_least_squares(domain: Any, skewed: bool) -> None:
    data = frame(20_000, 3, skewed=skewed)
    inside = data["y"].between(*domain["y"])
    data = data[inside].reset_index(drop=True)
    slopes = smf.ols(MODEL, data).fit().params[1:]
    covered = []
    for seed in range(40):
        interval = dp.ols(MODEL, data, 1.0, domain=domain, seed=seed).conf_int().loc[slopes.index].to_numpy()
        covered.append((interval[:, 0] <= slopes) & (slopes <= interval[:, 1]))
    assert np.mean(covered, axis=0).min() >= 0.85  # .95 less 3 standard errors


def test_the_cap_and_the_fewest_rows_are_those_of_the_pages() -> None:
    """Nine tenths of the interval's half widths (proofs/purchases), from 50 rows times the purchase's eps on."""
    plan = FormulaSource(MODEL, None, WIDE).plan(make_request(eps=1.0, family="gaussian", inference=True), alone=True)
    assert plan.response is not None
    assert plan.family.lipschitz == pytest.approx(0.9)
    assert affordable(plan, 1_640).response is None
    assert affordable(plan, 1_700).response is not None


def offered(low: float, high: float, formula: str = MODEL, eps: float = 1.0) -> tuple[Plan, Plan]:
    """A cap that follows an interval which was bought, and released statistics."""
    request = make_request(eps=eps, family="gaussian", inference=True)
    plan = FormulaSource(formula, None, Domain(COLUMNS | WIDE)).plan(request, alone=True)
    assert plan.response is not None
    capped = rescaled(plan, plan.request, replace(plan.response, low=low, high=high))
    return capped, rescaled(plan, replace(plan.request, method="statistics"), capped.response)


COLUMNS = {f"x{k}": (0, 1) for k in range(8)}
EIGHT = "y ~ " + " + ".join(COLUMNS)


def test_widths_decide_where_all_have_intervals_and_intervals_where_few_have() -> None:
    """Statistics go by the whole range, a cap by what is bought of it; but they show more where columns are many."""
    for low, high, ratio, taken in ((-2.0, 2.0, 0.08, 0), (-50.0, 50.0, 1.0, 1)):
        capped, sums = expectations(offered(low, high))
        assert min(capped.share(30_000), sums.share(30_000)) > 0.99
        assert capped.width(30_000) / sums.width(30_000) == pytest.approx(ratio, rel=0.2)
        assert (sums.intervals(30_000) > capped.intervals(30_000)) == taken
    capped, sums = expectations(offered(-12.5, 12.5, EIGHT))
    for rows, taken in ((1_000, True), (5_000, False)):
        assert sums.width(rows) > 3 * capped.width(rows)
        assert (sums.share(rows) > 1.3 * capped.share(rows)) == taken
        assert (sums.intervals(rows) > capped.intervals(rows)) == taken


def settled_method(inference: Any, rows: float, high: float = 25.0) -> str:
    """What a call takes for so many rows once (-high, high) has been bought of (-50, 50)."""
    request = make_request(eps=1.0, family="gaussian", inference=inference)
    plan = FormulaSource(EIGHT, None, Domain(COLUMNS | WIDE)).plan(request, alone=True)
    paid = replace(plan.request, options=replace(plan.request.options, inference=True))
    priced = rescaled(plan, paid).response
    assert priced is not None
    found = settled(rescaled(plan, paid, replace(priced, low=-high, high=high)), rows, plan.request)
    return "alone" if found.request.options.inference is None else found.request.method


def test_statistics_are_taken_where_they_are_worth_more_than_coefficients_alone() -> None:
    """The more of the range is bought the fewer rows they take; but any number where errors are asked for."""
    assert [settled_method(True, rows) for rows in (600, 1_500)] == ["statistics", "statistics"]
    assert [settled_method("auto", rows) for rows in (600, 1_500, 2_000)] == ["alone", "napp", "statistics"]
    assert [settled_method(inference, 1_500, 15.0) for inference in (True, "auto")] == ["statistics", "napp"]
    assert settled_method("auto", 1_500, 50.0) == "statistics"


def test_intervals_half_as_wide_are_worth_a_seventh_more_of_them() -> None:
    assert pytest.approx(1.149, abs=1e-3) == 2**WIDTH_PRICE
    expected = expectations(offered(-25.0, 25.0))[0]
    shares = [expected.share(part * 4_000) for part in (1, 1 / 2, 1 / 4, 1 / 8)]
    assert expected.intervals(4_000) == pytest.approx(np.mean(shares) / expected.width(4_000) ** WIDTH_PRICE)
    assert expected.intervals(-5) == expected.intervals(1)  # a released count


@pytest.mark.parametrize("unit", [None, "person"])
def test_no_residual_of_a_linear_probability_model_is_moved(unit: str | None) -> None:
    """A response of 0 and 1 has residuals of both values: a cap near their size made slopes a fifth too small.

    Estimates miss four standard errors in about one fit in 10,000.
    """
    random = np.random.default_rng(77)
    x, z = random.uniform(0, 10, 20_000), random.integers(0, 2, 20_000)
    ill = (random.random(20_000) < 0.2 + 0.03 * x + 0.1 * z).astype(int)
    rows = pd.DataFrame({"x": x, "z": z, "ill": ill, "person": np.arange(20_000)})
    domain = {"x": (0, 10), "z": bool, "ill": bool}
    fit = dp.ols("ill ~ x + z", rows, 2.0, domain=domain, inference=True, unit=unit, seed=1)
    assert (np.abs((fit.debiased - [0.2, 0.03, 0.1]) / fit.bse) < 4).all()
    assert fit.bse["x"] < 0.003


def test_a_linear_probability_model_has_no_more_noise_than_its_residuals_need() -> None:
    """Errors are those of a cap of 1, the length of the range: of twice as much they are a fifth larger here.

    Forecasts know that the response varies as 0 and 1 do; and where numbers between were meant, a note says so.
    """
    random = np.random.default_rng(77)
    x, z = random.uniform(0, 10, 4000), random.integers(0, 2, 4000)
    rows = pd.DataFrame({"x": x, "z": z, "ill": (random.random(4000) < 0.2 + 0.03 * x + 0.1 * z).astype(int)})
    plan = dp.plan("ill ~ x + z", {"x": (0, 10), "z": bool, "ill": bool}, 1.0, family="gaussian", inference=True)
    fit = dp.ols("ill ~ x + z", rows, 1.0, domain=plan.design.domain, inference=True, seed=1)
    wide = dp.ols("ill ~ x + z", rows, 1.0, domain=plan.design.domain, inference=True, seed=1, residual_cap=2.0)
    assert fit.bse["x"] < 0.9 * wide.bse["x"]
    exact = smf.ols("ill ~ x + z", rows).fit().bse["z"]
    assert plan.standard_errors(4000)["sampling"]["z"] == pytest.approx(exact, rel=0.4)
    note = "ill is declared as 0 and 1, so no residual is capped. If it has numbers between 0 and 1, declare (0.0, 1.0)"
    assert note in " ".join(str(fit.summary()).split())
    assert note in " ".join(str(plan).split())
    assert note not in " ".join(str(wide.summary()).split())
