"""Columns that are not identified and hide others: a note names them."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import pytest

import dpstats as dp
from dpstats.results import error_advice
from dpstats.results.standard_errors import rare_factors

DOMAIN: dict[str, Any] = {"w": (0, 40), "z": (-1, 1), "x": (-1, 1), "g": list("abcd"), "y": [0, 1]}
SLOPES = {"w": -0.25, "z": 0.5, "x": -0.4}
LEVELS = {"b": 0.4, "c": -0.4, "d": 0.3}


def rows(seed: int, count: int = 8000) -> pd.DataFrame:
    """`w` fills little of its range, so that it goes with the intercept."""
    random = np.random.default_rng([seed, 26])
    frame = pd.DataFrame({"w": np.clip(1.2 * random.gamma(2.0, 1.0, count), 0, 40)})
    frame["z"], frame["x"] = random.uniform(-1, 1, (2, count))
    frame["g"] = random.choice(list("abcd"), count, p=[0.4, 0.3, 0.2, 0.1])
    eta = 0.5 + frame["g"].map({"a": 0.0, **LEVELS}).astype(float)
    eta += sum((slope * frame[name] for name, slope in SLOPES.items()), start=pd.Series(0.0, frame.index))
    return frame.assign(y=(random.random(count) < 1 / (1 + np.exp(-eta))).astype(int))


def fitted(seed: int, eps: float, formula: str = "y ~ w + z + x + g") -> Any:
    return dp.logit(formula, rows(seed), eps, domain=DOMAIN, inference=True, ranges="declared", seed=seed)


def test_a_note_names_the_column_that_hides_others() -> None:
    named = 0
    for seed in range(8):
        fit = fitted(seed, 0.7)
        notes = " ".join(fit.notes)
        if "hides" not in notes:
            continue
        named += 1
        found = re.search(r"`w` hides(?:, or makes far wider,)? (.+?)(?: and (\d+) more|(?=:)):?", notes)
        assert found is not None
        hidden = re.split(", | and ", found[1])
        assert hidden
        assert set(hidden) <= set(fit.bse.index), "coefficients by their names"
        assert len(hidden) == 3 if found[2] else len(hidden) <= 3
        assert "a range that its values fill" in notes
        without = fitted(seed, 0.7, "y ~ z + x + g")
        assert (without.bse < fit.bse[without.bse.index] / 2).any(), "as the note has it"
    assert named >= 2, "the case is one of hidden coefficients"


def test_an_interaction_of_factors_is_named_with_what_helps_it() -> None:
    """It has rare cells and no range, and 2 of 12 coefficients are enough for the note."""
    adult = dp.datasets.load_adult()
    twice, named = pd.concat([adult.data] * 2, ignore_index=True), set[str]()
    for seed in (1, 2):
        formula = "income ~ age + sex*C(race) + hours_per_week"
        fit = dp.logit(formula, twice, 0.16, domain=adult.domain, seed=seed, inference=True)
        (note,) = (one for one in fit.notes if "hide" in one)
        assert ": merge rare levels" in note
        assert "range that" not in note
        named |= {name for name in ("`C(race)`", "`sex:C(race)`") if name in note}
    assert named == {"`C(race)`", "`sex:C(race)`"}


def test_a_spline_that_hides_one_coefficient_is_named_alone() -> None:
    """Few rows are at its end; levels that no row has are not identified either, and hide nothing."""
    adult, spline, named = dp.datasets.load_adult(), "cr(age, df=4, constraints='center')", 0
    formula = f"income ~ {spline} + education_num + sex + hours_per_week + workclass"
    for seed in range(4, 12):
        fit = dp.logit(formula, adult.data, 1.0, domain=adult.domain, seed=seed)
        for hidden in re.findall(r"`, `workclass` hide|hides? ([^:]+): ", " ".join(fit.notes)):
            named += hidden in fit.bse.index
            assert hidden
            assert fit.bse[f"{spline}[3]"] > 1, "the end itself"
    assert named >= 1


def test_no_column_is_named_where_typical_values_are_declared_and_rows_are_few() -> None:
    """The rows are too few for any five of these columns: of 24 such fits 11 had named one as the cause."""
    names, told = [f"q{j}" for j in range(30)], 0
    domain = dict.fromkeys(names, dp.Range(0, 60, typical=(3, 3.46))) | {"y": (-30, 30)}
    for seed in range(4):
        random = np.random.default_rng([seed, 4])
        data = pd.DataFrame(random.geometric(0.25, (2000, 30)) - 1.0, columns=names).clip(0, 60)
        data["y"] = 0.8 * data["q5"] - 0.6 * data["q7"] + random.normal(0, 2.5, 2000)
        call = {"screen": 5, "split": "rows", "inference": True, "on_mismatch": "go", "seed": seed}
        fit = dp.ols(f"y ~ {' + '.join(names)}", data, 1.0, domain=domain, **call)
        notes = " ".join(fit.notes)
        assert "hide" not in notes
        assert "leave it out" not in notes
        if np.isinf(fit.bse).any():
            told += 1
            assert "Rows times eps are too few" in notes
            assert re.search(r"need about [\d,]+ rows.* \(both halves\)", notes)
            assert fit.needed_rows.rows == pytest.approx(2 * fit._counted.value)
            assert dp.GLMResults.from_dict(fit.to_dict()).notes == fit.notes, "a saved fit keeps the forecast"
    assert told >= 2


def test_a_range_that_is_too_wide_even_where_a_fit_has_narrowed_it_is_named() -> None:
    """Hours below 100 in (0, 100000): the narrowest interval that is bought, 1/64 of that, hides all coefficients."""
    random = np.random.default_rng(7)
    data = pd.DataFrame({"hours": random.normal(38, 10, 20_000).clip(1, 90), "age": random.uniform(18, 95, 20_000)})
    data["g"] = random.choice(list("abcd"), 20_000)
    data["y"] = 10 + 0.5 * data["hours"] + 0.2 * data["age"] + random.normal(0, 8, 20_000)
    domain = {"hours": (0, 100_000), "age": (18, 95), "g": list("abcd"), "y": (-30, 120)}
    fit = dp.ols("y ~ age + g + hours", data, 1.0, domain=domain, seed=1)
    assert "hours" in fit.plan.trimmed
    text = " ".join(str(fit.summary()).split())
    assert "`hours` hides g[T.b], g[T.c], g[T.d] and 1 more: declare a range that its values fill" in text


def test_a_bought_interval_that_is_hardly_wider_than_the_narrowest_is_not_taken_for_filled() -> None:
    """The narrowest has 1/64 of the declared range: values may fill a small part of two of these, not of three.

    A declared interval may hold a long tail, however wide it is.
    """
    rows = {"x": np.linspace(0, 1, 500), "y": np.linspace(0, 1, 500)}
    for width, filled in ((2, False), (3, True)):
        fit = dp.ols("y ~ x", rows, 1.0, domain={"x": dp.Range(0, 64, inner=(0, width)), "y": (0, 1)})
        assert not error_advice.fills_interval(fit, "x")
        vars(fit)["plan"] = replace(fit.plan, trimmed=("x",))
        assert error_advice.fills_interval(fit, "x") is filled


def test_a_column_far_from_the_middle_of_its_inner_interval_is_named() -> None:
    """Lognormal, mean 9, within (0, 45), which holds 99.9 %: of 12 fits 6 had blank lines, and no word on the column.

    Within (0, 20) no fit has any.
    """
    random = np.random.default_rng(1)
    normal = random.normal(size=(7_500, 6))
    data = pd.DataFrame(50 + 10 * normal, columns=[f"x{place}" for place in range(6)])
    data["x0"] = np.exp(2 + 0.6 * normal[:, 0])
    data["y"] = random.random(7_500) < 1 / (1 + np.exp(-0.5 * (normal[:, 0] - normal[:, 1])))
    blank = {45: 0, 20: 0}
    for width in blank:
        domain = dict.fromkeys(data, dp.Range(0, 100, typical=(50, 10))) | {"y": bool}
        domain["x0"] = dp.Range(0, 150, inner=(0, width))
        call = {"domain": domain, "inference": True, "ranges": "declared"}
        for seed in range(10):
            fit = dp.logit("y ~ x0 + x1 + x2 + x3 + x4 + x5", data, 0.5, seed=seed, **call)
            if fit.identified.sum() <= 3:
                blank[width] += 1
                text = " ".join(str(fit.summary()).split())
                assert re.search("`x0` hides.*: declare a range or inner= that its values fill", text)
    assert blank[45] >= 2
    assert blank[20] == 0


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_a_declared_inner_interval_that_is_too_wide_is_named(seed: int) -> None:
    """Incomes in thousands within the narrowest part of (0, 250000) that `buy_ranges` hands on: it hides all."""
    random = np.random.default_rng(7)
    data = pd.DataFrame({"inc": np.exp(random.normal(3.4, 0.6, 12_000)).clip(1, 250)})
    data["age"], data["g"] = random.uniform(18, 85, 12_000), random.choice(list("abcd"), 12_000)
    data["y"] = 60 + 0.3 * data["age"] + 0.2 * data["inc"] + random.normal(0, 10, 12_000)
    inc = dp.Range(0, 250_000, inner=(0, 3906.25))
    domain = {"inc": inc, "age": (18, 85), "g": list("abcd"), "y": (0, 150)}
    fit = dp.ols("y ~ age + g + inc", data, 1.0, domain=domain, seed=seed)
    text = " ".join(str(fit.summary()).split())
    assert re.search("`inc` hides.*: declare a range or inner= that its values fill or declare typical=", text)


def splined(seed: int, spline: str, typical: tuple[float, float] | None, ranges: str | None = None) -> Any:
    """Ages of 18 to 90 in (0, 200) beside a factor of common levels."""
    random = np.random.default_rng([seed, 45])
    data = pd.DataFrame({"x": random.normal(45, 12, 20_000).clip(18, 90), "g": random.choice(list("abc"), 20_000)})
    data["y"] = 10 + 0.1 * data["x"] + (data["g"] == "b") + random.normal(0, 2, 20_000)
    domain = {"x": dp.Range(0, 200, typical=typical), "g": list("abc"), "y": (0, 40)}
    return dp.ols(f"y ~ g + {spline}", data, 1.0, domain=domain, inference=True, ranges=ranges, seed=seed)


def test_a_spline_is_named_and_not_a_factor_of_common_levels() -> None:
    """Typical values leave the knots of a spline where they are, so that its range is as wide as without."""
    spline, named = "cr(x, df=4, constraints='center')", dict.fromkeys([None, (45.0, 20.0)], 0)
    for typical in (None, (45.0, 20.0)):
        for seed in range(4):
            notes = " ".join(splined(seed, spline, typical).notes)
            assert "`g`" not in notes
            assert "merg" not in notes, "no level is rare"
            assert "typical=(mean, sd)" not in notes
            if f"`{spline}` hides" in notes:
                named[typical] += 1
                assert "declare a range that its values fill or use fewer knots" in notes
    assert min(named.values()) >= 1


def test_typical_values_are_advised_for_polynomials_and_not_for_splines() -> None:
    """They move the ends over which a polynomial is scaled: its error was .9 with them and there was none without."""
    untold, told = (splined(1, "poly(x, 2)", typical, "declared") for typical in (None, (45.0, 12.0)))
    notes = " ".join(untold.notes)
    assert "typical=(mean, sd)" in notes
    assert "knots" not in notes
    assert not untold.identified.all()
    assert told.identified.all()


def test_typical_values_are_not_advised_where_splines_alone_lack_errors() -> None:
    """Few rows reach the ends of the spline; the number beside it lacks an error at the lower eps alone."""
    random = np.random.default_rng(1)
    data = pd.DataFrame({"bmi": random.normal(27, 5, 100_000).clip(12, 60), "age": random.uniform(18, 90, 100_000)})
    data["cost"] = 800 + 20 * (data["bmi"] - 27) + 12 * data["age"] + random.normal(0, 800, 100_000)
    domain = {"cost": (-3000, 8000), "age": (18, 90), "bmi": (10, 60)}
    for eps, number in ((1.5, True), (0.02, False)):
        fit = dp.ols("cost ~ age + bs(bmi, df=4)", data, eps, domain=domain, inference=True, seed=2)
        assert not fit.identified["bs(bmi, df=4)[3]"]
        assert fit.identified["age"] == number
        notes = " ".join(fit.notes)
        assert "narrower ranges, fewer knots" in notes.lower()
        assert ("typical=(mean, sd)" in notes) == (not number)


def test_levels_are_rare_where_their_released_weights_are_so_beyond_the_noise() -> None:
    random = np.random.default_rng(3)
    for shares, rare in (([0.4, 0.3, 0.3], set[str]()), ([0.5, 0.48, 0.02], {"g"}), ([0.02, 0.5, 0.48], {"g"})):
        data = pd.DataFrame({"g": random.choice(list("abc"), 20_000, p=shares), "y": random.normal(0, 1, 20_000)})
        fit = dp.ols("y ~ g", data, 1.0, domain={"g": list("abc"), "y": (-4, 4)}, inference=True, seed=1)
        for certain in (False, True):
            assert rare_factors(error_advice.fitted_last(fit), fit._inferred, certain=certain) == rare
    fit = dp.ols("y ~ g", data[:200], 0.1, domain={"g": list("abc"), "y": (-4, 4)}, inference=True, seed=1)
    part = error_advice.fitted_last(fit)
    assert rare_factors(part, fit._inferred, certain=True) == set()
    assert rare_factors(part, fit._inferred, certain=False) == {"g"}, "noise hides what is rare"


@pytest.mark.parametrize("seed", [3, 4, 5, 15])
def test_noise_makes_no_common_reference_level_rare(seed: int) -> None:
    """Of 60 fits of so few rows times eps 9 had named the factor, whose levels have a sixth of the rows each."""
    random = np.random.default_rng([seed, 6])
    data = pd.DataFrame({"x": random.normal(45, 12, 5_000).clip(18, 90), "g": random.choice(list("abcdef"), 5_000)})
    data["y"] = 10 + 0.1 * data["x"] + random.normal(0, 2, 5_000)
    domain = {"x": dp.Range(0, 200, typical=(45, 12)), "g": list("abcdef"), "y": (0, 40)}
    call = {"domain": domain, "seed": seed, "inference": True, "on_mismatch": "go"}
    fit = dp.ols("y ~ g + cr(x, df=3, constraints='center')", data, 0.03, **call)
    assert "g is measured from" not in " ".join(fit.notes)


def of_levels(seed: int, rows: int, eps: float, shares: list[float]) -> Any:
    """A fit by a factor alone."""
    random, levels = np.random.default_rng([seed, 9]), list("abcdef")[: len(shares)]
    data = pd.DataFrame({"g": random.choice(levels, rows, p=shares), "y": random.normal(0, 1, rows)})
    domain = {"g": levels, "y": (-4, 4)}
    return dp.ols("y ~ g", data, eps, domain=domain, inference=True, on_mismatch="go", seed=seed)


def test_noise_makes_no_level_rare_for_certain_and_hides_no_rare_reference() -> None:
    """Of six levels alike none is rare, however few rows; a reference of one row in 25 is named from 2,000 rows on."""
    for seed in (0, 1, 2, 5, 6, 10):
        fit = of_levels(seed, 1_000, 0.05, [1 / 6] * 6)
        assert rare_factors(error_advice.fitted_last(fit), fit._inferred, certain=True) == set()
    for seed in range(6):
        notes = " ".join(of_levels(seed, 2_000, 0.1, [0.04, 0.48, 0.48]).notes)
        assert re.search("g is measured from a (rare level|level that is too rare)", notes)
