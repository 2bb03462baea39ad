"""Forecasts by rows of many columns of which all is declared: noise in the whole of the information counts."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest

import dpstats as dp
from dpstats.models import expectations
from dpstats.models.forecast import forecast
from dpstats.results.error_advice import favourable_columns


def interval_chances(ratios: np.ndarray, others: np.ndarray) -> np.ndarray:
    """Of coefficients that all disturb each other."""
    return expectations.interval_chances(ratios, others, lambda: 1 - np.eye(len(ratios)))


def described(columns: int) -> tuple[str, dict[str, Any]]:
    names = [f"x{place}" for place in range(columns)]
    domain = {name: dp.Range(0, 100, typical=(50, 10)) for name in names}
    return f"y ~ {' + '.join(names)}", {**domain, "y": dp.Range(-12, 12, typical=(0, 1.1))}


def rows_of(columns: int, rows: int) -> pd.DataFrame:
    random = np.random.default_rng(1)
    data = pd.DataFrame(random.normal(50, 10, (rows, columns)), columns=[f"x{place}" for place in range(columns)])
    data["y"] = (data["x0"] - 50) / 30 + random.normal(0, 1, rows)
    return data


@pytest.mark.parametrize(
    (
        "columns",
        "tolerance",
        "drawn",
    ),  # benchmarks.inference.many_columns: logit, 40 draws
    [
        (3, 0.1, {2: 0.41, 3: 0.78, 4: 0.94}),
        (10, 0.14, {3: 0.15, 4: 0.49, 5: 0.85, 6: 0.96}),
        (30, 0.14, {5: 0.02, 6: 0.18, 7: 0.53, 8: 0.81, 10: 1.0}),
        (60, 0.14, {6: 0.0, 10: 0.57, 13: 1.0}),
    ],
)
def test_chances_are_those_of_draws_of_the_noise(columns: int, tolerance: float, drawn: dict[int, float]) -> None:
    for ratio, share in drawn.items():
        ratios = np.full(columns + 1, float(ratio))
        ratios[0] *= 2.2  # the intercept's
        assert interval_chances(ratios, ratios).mean() == pytest.approx(share, abs=tolerance)


def test_a_coefficient_that_is_hardly_identified_disturbs_others_and_a_hopeless_one_does_not() -> None:
    good = np.full(10, 8.0)
    alone, hopeless, hardly = (
        interval_chances(every := np.append(good, [ratio] * 10), every)[:10].mean() for ratio in (1e9, 0.02, 2.0)
    )
    assert alone > 0.99
    assert hopeless > 0.99
    assert hardly < 0.05
    rare = np.append(good, [0.6] * 10)  # levels of one row in 100: draws leave .4 of the numbers an interval
    assert 0.15 < interval_chances(rare, rare)[:10].mean() < 0.5


def test_levels_of_a_factor_do_not_disturb_each_other() -> None:
    """They exclude each other, so that their entry of the information is known: 30 levels are not 30 numbers."""
    levels = [f"l{place:02}" for place in range(30)]
    domain: dict[str, Any] = {"g": levels, "x": (0, 1), "z": (0, 1.5), "y": (0, 1)}
    plan = dp.plan("y ~ g + x + z", domain, 1.0, family="binomial", inference=True)
    (expected,) = expectations.expectations([plan])
    coupling = expected._other_ratios.coupling
    names = list(plan.names)
    factor, numbers = [place for place, name in enumerate(names) if name.startswith("g[")], (names.index("x"), -1)
    assert np.all(coupling[np.ix_(factor, factor)] == 0)
    assert coupling[numbers] == pytest.approx(1, abs=0.05)
    assert np.all(coupling[numbers[0], factor] > 0.5)


def test_absurd_numbers_of_rows_have_all_errors() -> None:
    ratios = np.array([0.0, 1e200, 1e300])
    assert interval_chances(ratios, ratios).tolist() == [0.0, 1.0, 1.0]
    assert interval_chances(ratios[1:], ratios[1:]).tolist() == [1.0, 1.0]


def test_more_rows_never_show_less() -> None:
    rare = np.append(np.full(10, 1.0), np.full(10, 0.07))  # benchmarks: ten numbers beside ten levels of one row in 100
    shares = np.array([interval_chances(rows * rare, rows * rare).mean() for rows in np.geomspace(1, 200, 60)])
    assert np.all(shares > np.maximum.accumulate(shares) - 0.03)  # fewer rows are tried in steps
    assert shares[-1] > 0.99


def test_rows_that_a_table_promises_errors_for_show_them_and_others_do_not() -> None:
    formula, domain = described(30)
    table = dp.plan(formula, domain, 1.0, inference=True).by_rows([14_000, 45_000])
    assert table["share"].tolist() == [pytest.approx(0, abs=0.05), pytest.approx(1, abs=0.05)]
    call: dict[str, Any] = {"domain": domain, "inference": True, "on_mismatch": "go", "seed": 1}
    few, enough = (dp.ols(formula, rows_of(30, rows), 1.0, **call).bse for rows in (14_000, 45_000))
    assert np.isfinite(few).mean() < 0.1
    assert np.isfinite(enough).mean() > 0.9


def test_a_default_fit_does_not_pay_for_errors_that_noise_in_the_whole_hides() -> None:
    formula, domain = described(30)
    table = dp.plan(formula, domain, 1.0).by_rows([14_000, 45_000])
    assert table["errors"].tolist() == ["none", "paid"]


def test_rows_that_a_note_names_as_enough_are_enough() -> None:
    formula, domain = described(30)
    data = rows_of(30, 60_000)
    fit = dp.ols(formula, data.iloc[:14_000], 1.0, domain=domain, inference=True, on_mismatch="go", seed=1)
    assert fit.needed_rows is not None
    needed = round(fit.needed_rows.usual or 0)
    assert 25_000 < needed < 45_000
    enough = dp.ols(formula, data.iloc[:needed], 1.0, domain=domain, inference=True, seed=2)
    assert np.isfinite(enough.bse).mean() >= 0.9


def test_columns_that_nobody_describes_are_not_doubly_suspected() -> None:
    domain: dict[str, Any] = {f"x{place}": (0, 100) for place in range(20)}
    formula = f"y ~ {' + '.join(domain)}"
    table = dp.plan(formula, {**domain, "y": (0, 1)}, 1.0, family="binomial", inference=True).by_rows([100_000])
    assert table["share"].iloc[0] == pytest.approx(0.48, abs=0.05)  # as it was by each coefficient's own noise


def test_forecasts_of_many_columns_say_that_correlations_are_unknown() -> None:
    """Of 60 columns with correlations of .15 to .55 none had an error at an eps for which all were forecast."""

    def note(columns: int, like: pd.DataFrame | None = None, **options: Any) -> str:
        formula, domain = described(columns)
        return forecast(dp.plan(formula, domain, 1.0, inference=True, **options), like=like).assumption

    words, public = "Columns are assumed to be hardly correlated", rows_of(21, 1_000)
    assert words in note(21)
    assert words not in note(12)
    assert words not in note(21, public)
    assert words not in note(21, public.assign(who=np.arange(1_000) // 2), unit="who")


@pytest.mark.parametrize(("columns", "many"), [(20, False), (21, True)])
def test_beyond_twenty_columns_a_number_of_rows_is_said_to_be_for_hardly_correlated_ones(
    columns: int, *, many: bool
) -> None:
    formula, domain = described(columns)
    plan = dp.plan(formula, domain, 1.0, inference=True)
    for not_collinear in (False, True):  # after a fit that has tried, and before
        assert ("hardly correlated (below about .1)" in favourable_columns(plan, not_collinear=not_collinear)) == many
    assert ("and columns are not collinear" in favourable_columns(plan)) != many
    footer = "Columns count as correlated by 0.2; fewer of more correlated columns have an interval."
    assert (footer in plan.by_rows([30_000]).attrs["note"]) == many


@pytest.mark.slow
def test_a_note_names_no_number_of_rows_for_splines() -> None:
    """It was 87,000 rows, those of a column that hardly reaches its ends; 5,000 that reach them identify all."""
    domain: dict[str, Any] = {"age": (18, 90), "edu": (0, 20), "y": (-6, 6)}
    for formula, known in (("y ~ bs(age, df=5) + edu", False), ("y ~ age + edu", True)):
        for seed in (101, 102):
            random = np.random.default_rng(seed)
            data = pd.DataFrame({"age": random.uniform(18, 90, 5_000), "edu": random.uniform(0, 20, 5_000)})
            data["y"] = np.sin(data["age"] / 15) + 0.1 * (data["edu"] - 10) + random.normal(size=5_000).clip(-4, 4)
            fit = dp.ols(formula, data, 1.0, domain=domain, inference=None, seed=seed)
            assert ("nearly all" in " ".join(fit.notes)) == known
            assert dp.ols(formula, data, 1.0, domain=domain, inference=True, seed=seed).identified.all()
            if not known:
                few = dp.ols(formula, data, 0.02, domain=domain, inference=True, on_mismatch="go", seed=seed)
                assert "Rows times eps may be too few. " in " ".join(few.notes)
