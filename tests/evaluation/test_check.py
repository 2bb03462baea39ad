"""`dpstats.check`: faults are found, errors are as stated, nothing is read before the charge."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import dpstats as dp
from dpstats.data import as_table
from dpstats.domain import Range
from dpstats.errors import DomainError
from dpstats.evaluation.column_histograms import column_histograms, is_code
from dpstats.evaluation.data_check import STEPS, count_faults, shared_steps
from dpstats.formula.faults import possible_faults
from dpstats.formula.parse import parse

DOMAIN = {"y": (0, 10), "x": (0, 1), "g": ["a", "b"]}


def frame(rows: int = 5000) -> pd.DataFrame:
    """A tenth of g is misspelt, a fifth of x lies above its range, one in fifty y is missing."""
    rng = np.random.default_rng(0)
    data = pd.DataFrame(
        {"y": rng.uniform(0, 10, rows), "x": rng.uniform(0, 1.25, rows), "g": rng.choice(["a", "b"], rows)}
    )
    data.loc[::10, "g"] = "A"
    data.loc[5::50, "y"] = np.nan
    return data


def exact(formula: str, data: Any, domain: Any, **given: Any) -> dp.Check:
    """With a budget so large that there is hardly noise."""
    return dp.check(formula, data, domain, 1e4, **given)


def rows_of(check: dp.Check, column: str, fault: str) -> float:
    table = check.table.set_index(["column", "fault"])
    return float(table.loc[(column, fault), "rows"])  # type: ignore[arg-type]


def test_counts_are_those_of_a_fit() -> None:
    check = exact("y ~ x + g", frame(), DOMAIN)
    used = sum(len(endog) for _, endog, *_ in dp.plan("y ~ x + g", DOMAIN, 1.0).design.blocks(frame()))  # type: ignore[attr-defined]
    assert check.totals.loc["complete", "rows"] == pytest.approx(used, abs=0.01)
    assert check.totals.loc["rows", "rows"] == pytest.approx(5000, abs=0.01)
    assert rows_of(check, "g", "undeclared") == pytest.approx(500, abs=0.01)
    assert rows_of(check, "y", "lost") == pytest.approx(100, abs=0.01)
    kept = frame().query("g != 'A'").dropna()
    assert rows_of(check, "x", "above") == pytest.approx((kept["x"] > 1).sum(), abs=0.01)
    assert rows_of(check, "x", "below") == pytest.approx(0, abs=0.01)


def test_what_loses_a_row_together_shares_it() -> None:
    data = pd.DataFrame({"y": [np.nan, np.nan, 1.0, 1.0], "x": [np.nan, 0.5, 5.0, 0.5], "g": list("cabb")})
    check = exact("y ~ x + g", data, DOMAIN)
    assert rows_of(check, "y", "lost") == pytest.approx(1 / 3 + 1, abs=0.01)
    assert rows_of(check, "g", "undeclared") == pytest.approx(1 / 3, abs=0.01)
    assert check.counts == pytest.approx([1, 4 / 3, 1 / 3, 0, 1 / 3, 0, 0, 0, 1], abs=0.01)


def test_each_row_adds_its_steps_whatever_its_faults() -> None:
    flags = np.tri(14, 13, k=-1, dtype=bool)
    assert shared_steps(flags).sum() == 14 * STEPS
    for row in flags:
        assert shared_steps(row[None, :]).sum() == STEPS


def test_rows_where_the_formula_is_not_finite() -> None:
    data = pd.DataFrame({"y": [0.0, 1.0, 2.0, np.nan], "x": [0.5, 0.0, 0.5, 0.5], "g": list("abab")})
    check = exact("np.log(y) ~ np.log(x) + g", data, DOMAIN)
    assert rows_of(check, "(formula)", "lost") == pytest.approx(2, abs=0.01)
    assert check.totals.loc["complete", "rows"] == pytest.approx(1, abs=0.01)


def test_a_binary_response_is_lost_and_not_clipped() -> None:
    data = pd.DataFrame({"b": [0, 1, 2, 7, 1], "x": [0.5] * 5})
    check = exact("b ~ x", data, {"x": (0, 1), "b": (0, 1)}, family="binomial")
    assert rows_of(check, "b", "undeclared") == pytest.approx(2, abs=0.01)
    assert ("b", "above") not in set(zip(check.table["column"], check.table["fault"], strict=True))


def test_columns_left_open_are_looked_at_for_missing_cells() -> None:
    check = exact("y ~ x + g", frame(), {"g": ["a", "b"]})
    assert check.table["declared"].tolist() == ["open", "open", "2 text levels", "2 text levels"]
    assert rows_of(check, "y", "lost") == pytest.approx(100, abs=0.01)


@pytest.mark.parametrize("convert", [pl.from_pandas, pa.Table.from_pandas, lambda d: {n: d[n].to_numpy() for n in d}])
def test_containers(convert: Callable[[pd.DataFrame], Any]) -> None:
    assert exact("y ~ x + g", convert(frame()), DOMAIN).counts == pytest.approx(
        exact("y ~ x + g", frame(), DOMAIN).counts, abs=0.02
    )


def test_a_check_says_that_a_range_ends_at_a_code_for_missing() -> None:
    """Its counts cannot tell it with few rows."""
    check = dp.check("y ~ x + g", frame(), {**DOMAIN, "x": (0, 999)}, 0.1, seed=1)
    stored = dp.Check.from_dict(check.to_dict())
    for one in (check, stored):
        text = " ".join(one.summary().as_text().split())
        assert "The range of x ends at 999. If 999 stands for missing, declare the range without it" in text
    assert "ends at" not in str(dp.check("y ~ x + g", frame(), DOMAIN, 0.1, seed=1))


def test_findings_say_what_to_do() -> None:
    check = dp.check("y ~ x + g", frame(), DOMAIN, 0.5, seed=1)
    total, *faults = check.findings
    assert re.fullmatch(r"In all about \d+ \(\d+ %; s\.d\. \d+\) of .* rows are lost\.", total)
    assert [text.split("`")[1] for text in faults] == ["x", "g", "y"]
    assert "above the declared range (0, 1)" in faults[0]
    assert "Otherwise compare the codebook. If the values are right, declare a wider range. If they are" in faults[0]
    assert faults[0].endswith('declare dp.Range(low, high, outside="drop").')
    assert all(text[0].isupper() and text.endswith(".") and ";" not in text.split("`")[2] for text in faults)
    assert "a level that is not declared" in faults[1]
    assert max(map(len, check.summary().as_text().splitlines())) <= 80
    clean = frame().assign(g="a", x=0.5).fillna({"y": 1.0})
    assert dp.check("y ~ x + g", clean, DOMAIN, 0.5, seed=1).findings == []


@pytest.mark.parametrize(
    ("column", "most", "fix"),
    [
        ("x", 100, "usually narrows it by itself"),
        ("y", 5.5, "buys an interval of it by itself"),
        ("y", 100, "Declare a narrower range, such as domain={'y': (0, 12.5)}, and check again. Standard errors grow"),
    ],
)
def test_a_range_that_is_too_wide_is_narrowed_by_fits_themselves(column: str, most: float, fix: str) -> None:
    """A response's only within limits: of one that is a hundred times too wide, fits find a part of the way."""
    rows = {name: np.random.default_rng(1).uniform(0, 1, 4_000) for name in "xy"}
    found = dp.check(
        "y ~ x", rows, {"x": (0, 1), "y": (0, 1), column: (0, most)}, 2.0, family="gaussian", seed=1
    ).findings
    assert len(found) == 1
    assert fix in found[0]
    assert ("by itself" in found[0]) == ("by itself" in fix)


def test_a_range_that_clips_rows_is_not_too_wide_and_what_few_rows_have_is_not_told_of_all() -> None:
    """A third of x lies below its range, whose lowest quarter has all others; of the rest all lie in an eighth of z."""
    random = np.random.default_rng(1)
    data = {name: random.uniform(0, 1, 6_000) for name in "xzy"}
    domain = {"x": (1 / 3, 4), "z": (0, 10), "y": (0, 1)}
    wider, too_wide = dp.check("y ~ x + z", data, domain, 1.0, family="gaussian", seed=1).findings
    assert "clipped in `x`" in wider
    assert re.match(
        r"At least 9\d % of the rows without a fault \(95 % confidence\) have `z` between 0 and 1.25", too_wide
    )
    (told,) = dp.check("y ~ x + z", data, {**domain, "x": (0, 1.5)}, 1.0, family="gaussian", seed=1).findings
    assert re.match(r"At least 9\d % of the rows without a fault \(95 % confidence\) have `z`", told)


@pytest.mark.parametrize("values", ["normal", "skewed"])
@pytest.mark.parametrize("eps", [0.05, 0.3])
def test_a_response_that_is_narrowed_as_advised_is_not_clipped_in_the_end(values: str, eps: float) -> None:
    """From a range ten thousand times too wide to one at most 40 times too wide, of which a fit buys the rest."""
    random = np.random.default_rng(2)
    y = random.normal(40, 12, 20_000) if values == "normal" else random.exponential(25, 20_000)
    data, ends = {"x": random.uniform(0, 1, 20_000), "y": y}, (-1e6, 1e6)
    for _ in range(10):
        text = " ".join(dp.check("y ~ x", data, {"x": (0, 1), "y": ends}, eps, family="gaussian", seed=3).findings)
        found = re.search(r"such as domain={'y': \((\S+), (\S+)\)}, and check again", text)
        if found is None:
            break
        ends = float(found[1]), float(found[2])
    assert "clipped" not in text
    assert np.mean((y < ends[0]) | (y > ends[1])) < 0.005
    assert ends[1] - ends[0] < 4_000


BY_ITSELF = (
    r"eps of about (\S+) or more(?: \(\S+ if many of its values are 0, up to nine in ten\))? a fit of so many rows "
    r"usually narrows it by itself"
)


def test_of_a_range_wider_than_a_fit_narrows_the_finding_says_what_to_declare() -> None:
    rows = {name: np.random.default_rng(1).uniform(0, 1, 8_000) for name in "xy"}
    (found,) = dp.check("y ~ x", rows, {"x": (0, 6400), "y": (0, 1)}, 2.0, family="gaussian", seed=1).findings
    assert (
        "If its values may fill less than 100, 1/64 of the declared range, that is not enough: declare the range"
        in found
    )
    assert "that is known of it, or buy a range with domain={}" in found
    assert "A check counts eighths of a range; with domain={'x': (0, 800)} it counts smaller ones" in found
    assert "if many of its values are 0, up to nine in ten" in found
    assert re.search(r"type dp\.buy_ranges\(data, \['x'\], eps=[\d.]+, domain={'x': \(0, 6400\)}\)", found)
    shifted = {"x": rows["x"] + 1, "y": rows["y"]}
    (found,) = dp.check("y ~ x", shifted, {"x": (1, 6401), "y": (0, 1)}, 2.0, family="gaussian", seed=1).findings
    assert "type dp.buy_ranges(data, ['x'], eps=0.1, domain={'x': (1, 6401)})" in found
    assert "values are 0" not in found


@pytest.mark.parametrize(
    ("family", "told"),
    [
        ("poisson", "A fit buys a limit for counts by itself"),
        ("negative_binomial", "A fit buys a limit for counts by itself"),
        (dp.families.Poisson(mean_cap=5.0), "declare the largest count to expect"),
        (dp.families.NegativeBinomial(alpha=1.5), "declare the largest count to expect"),
        (dp.families.Poisson(y_max=30), "clips counts to its y_max"),
    ],
)
def test_a_count_that_is_declared_too_wide_is_narrowed_only_where_no_fit_does_so_unasked(
    family: Any, told: str
) -> None:
    rows = {"x": np.random.default_rng(1).uniform(0, 1, 4_000), "y": np.random.default_rng(2).poisson(1.0, 4_000)}
    domain = {"x": (0, 1), "y": (0, 500)}
    check = dp.check("y ~ x", rows, domain, 2.0, family=family, seed=1)
    (found,) = check.findings
    assert told in found
    assert ("response" in dp.plan("y ~ x", domain, 1.0, family=family).budget.index) == ("by itself" in told)
    assert dp.Check.from_dict(check.to_dict()).findings == [found]


@pytest.mark.parametrize(
    ("eps", "domain", "told"),
    [
        (0.001, DOMAIN, "so this check can find little. Raise eps: eps ="),
        (
            5.0,
            {**DOMAIN, "x": (0, 2), "g": ["a", "b", "A"]},
            "No fault stands out from the noise. If a column loses or clips 2 rows, a check finds it with a "
            "probability of 90 %.",
        ),
        (5.0, DOMAIN, "Beside the findings above, no fault stands out from the noise. If a column"),
    ],
)
def test_what_noise_may_hide_is_said(eps: float, domain: Any, told: str) -> None:
    data = frame().fillna({"y": 1.0})
    check = dp.check("y ~ x + g", data, domain, eps, seed=1)
    words = " ".join(str(check).split())
    assert told in words
    # What is found stands before what the figures mean.
    notes = words.partition("Notes: ")[2]
    assert notes.startswith(f"[1] {check.findings[0][:40] if check.findings else 'No guarantee'}")


@pytest.mark.slow
def test_stated_errors_hold() -> None:
    """200 seeded runs: mean within 4.5 standard errors (1 false alarm in 20,000 figures), spread within 12 %."""
    for adjacency in ("add_remove", "replace_one"):
        truth = exact("y ~ x + g", frame(300), DOMAIN).counts
        checks = [dp.check("y ~ x + g", frame(300), DOMAIN, 0.4, adjacency=adjacency, seed=s) for s in range(200)]
        at = exact("y ~ x + g", frame(300), DOMAIN).at
        first, faults = checks[0], len(checks[0].faults)
        stated = np.concatenate([[first.clean_err], np.full(faults, first.std_err), np.full(len(at), first.place_err)])
        errors = np.array([np.append(check.counts - truth, check.at - at) / stated for check in checks])
        assert np.abs(errors.mean(axis=0)).max() < 4.5 / np.sqrt(200)
        assert errors.std() == pytest.approx(1.0, rel=0.12)
        assert first.totals.loc["lost", "std_err"] == pytest.approx(first.std_err * np.sqrt(4))


def test_rows_without_a_fault_are_counted_by_where_they_lie() -> None:
    check = exact("y ~ x + g", frame(), DOMAIN)
    clean = frame().query("g != 'A' and x <= 1").dropna()
    located = check.located.set_index(["column", "place"])["rows"]
    assert located["g", "b"] == pytest.approx((clean["g"] == "b").sum(), abs=0.01)
    assert located["y"].to_numpy() == pytest.approx(np.histogram(clean["y"], 8, (0, 10))[0], abs=0.01)
    assert check.counts[0] == pytest.approx(len(clean), abs=0.01)


def test_the_range_of_a_logarithm_is_not_judged_by_eighths() -> None:
    """Half of the logarithms lie in the lowest eighth of the range of what they are taken of."""
    random = np.random.default_rng(4)
    data = pd.DataFrame({"x": random.uniform(0, 1, 20_000), "y": np.exp(random.normal(3, 0.7, 20_000))})
    domain = {"x": (0, 1), "y": (1, 4_000)}
    assert not dp.check("np.log(y) ~ x", data, domain, 1.0, family="gaussian", seed=1).findings
    assert "`y` between" in dp.check("y ~ x", data, domain, 1.0, seed=1).findings[0]


@pytest.mark.parametrize(("ends", "apart"), [((6, 98), "between 86.5 and 98"), ((-80, 30), "between -80 and -66.25")])
def test_rows_apart_in_a_range_far_too_wide_are_named(ends: tuple[int, int], apart: str) -> None:
    """98 is no code that the check tries; a fit kept the range for it one time in four, with a slope of .06 for .8."""
    random = np.random.default_rng(1)
    x = random.integers(6, 21, 20_000).astype(float)
    data = pd.DataFrame(
        {"x": np.where(random.random(20_000) < 0.03, ends[1] if ends[0] > 0 else ends[0], x), "y": x / 3}
    )
    domain = {"x": ends, "y": (0, 8)}
    (found,) = dp.check("y ~ x", data, domain, 0.2, family="gaussian", seed=1).findings
    assert f"lie apart from these, {apart}. If they have a code for missing, declare the range without it" in found
    assert "narrows it by itself" not in found
    (found,) = dp.check("y ~ x", data.assign(x=x), domain, 0.2, family="gaussian", seed=1).findings
    assert "lie apart" not in found
    assert "narrows it by itself" in found


def test_where_a_fit_narrows_a_range_by_itself_nothing_is_to_be_bought() -> None:
    """From the eps on from which a plan of so many rows says that it does; few rows are told what to pass."""
    random, domain = np.random.default_rng(4), {"x": (0, 5_000), "y": (0, 8)}
    for rows, bought in ((600, True), (8_000, False)):
        data = pd.DataFrame({"x": random.uniform(18, 80, rows), "y": random.uniform(0, 8, rows)})
        (said,) = dp.check("y ~ x", data, domain, 5.0, seed=1).findings
        assert ("ranges='bought'" in said) == bought
        found = re.search(
            BY_ITSELF,
            said,
        )
        assert found is not None
        for factor, ranges in ((0.8, "declared"), (1.2, "bought")):
            plan = dp.plan("y ~ x", domain, factor * float(found[1]))
            assert plan.by_rows([rows])["ranges"].tolist() == [ranges]


def test_only_columns_of_which_a_fit_may_narrow_the_range_raise_the_eps_from_which_it_does() -> None:
    """Of ten columns one has neither typical values nor an inner interval; of the others a fit narrows none."""
    random, names = np.random.default_rng(4), [f"x{place}" for place in range(10)]
    data = pd.DataFrame({name: random.normal(50, 8, 8_000) for name in names} | {"y": random.uniform(0, 8, 8_000)})
    known = {name: dp.Range(0, 400, typical=(50, 8)) for name in names}
    wide = {"x0": (0, 400), "x9": dp.Range(0, 400, inner=(0, 360)), "x8": dp.Range(0, 4000, typical=(50, 60))}
    domain, formula = {**known, **wide, "y": (0, 8)}, f"y ~ {' + '.join(names)}"
    check = dp.check(formula, data, domain, 5.0, seed=1)
    found = {text.split("`")[1]: text for text in check.findings if "far too wide" in text}
    assert found["x9"].endswith("Declare a narrower inner=(low, high): no fit narrows it.")
    assert found["x8"].endswith("Compare typical=(mean, sd) with its source: no fit narrows it.")
    by_itself = re.search(
        BY_ITSELF,
        found["x0"],
    )
    planned = re.search(r"With about ([\d,]+) rows or more", " ".join(str(dp.plan(formula, domain, 1.0)).split()))
    assert by_itself is not None
    assert planned is not None
    assert float(by_itself[1]) * 8_000 == pytest.approx(float(planned[1].replace(",", "")), rel=0.1)
    assert dp.Check.from_dict(check.to_dict()).findings == check.findings


def test_a_wide_range_of_a_spline_is_to_be_declared_anew() -> None:
    """Its knots lie over the declared range, so that neither typical= nor inner= is a remedy."""
    random = np.random.default_rng(4)
    data = pd.DataFrame({"x": random.normal(50, 8, 8_000), "y": random.uniform(0, 8, 8_000)})
    for declared in ((0, 400), dp.Range(0, 400, inner=(0, 360))):
        domain = {"x": declared, "y": (0, 8)}
        (found,) = dp.check("y ~ cr(x, df=3, constraints='center')", data, domain, 5.0, seed=1).findings
        assert found.endswith('dp.Range(low, high, outside="drop"): no fit narrows the range of a spline.')


def test_where_a_fit_buys_undeclared_ranges_it_narrows_declared_ones_only_if_asked_to() -> None:
    random = np.random.default_rng(4)
    data = pd.DataFrame({name: random.uniform(0, 8, 8_000) for name in ("x", "z", "y")})
    found = dp.check("y ~ x + z", data, {"x": (0, 400), "y": (0, 8)}, 5.0, seed=1).findings
    assert (
        next(one for one in found if "`x`" in one)
        .partition(". If its values may fill less")[0]
        .endswith("noise. A fit with ranges='bought' finds one")
    )


@pytest.mark.slow
def test_ranges_far_too_wide_are_found_and_right_ones_are_not() -> None:
    """40 seeded checks each: a wide range is missed, or a right one blamed, once in some 75 at worst."""
    rng = np.random.default_rng(5)
    data = pd.DataFrame({"y": rng.normal(50, 15, 4000), "x": rng.uniform(18, 80, 4000), "b": rng.integers(0, 2, 4000)})
    right = {"y": (0, 100), "x": (18, 80), "b": bool}
    wide, middle = {**right, "x": (0, 5000)}, {**right, "y": (-400, 500)}
    found = {"right": 0, "wide": 0, "middle": 0}
    for seed in range(40):
        for name, domain in (("right", right), ("wide", wide), ("middle", middle)):
            said = dp.check("y ~ x + b", data, domain, 0.1, seed=seed).findings
            found[name] += sum("far too wide" in one for one in said)
            if name == "wide":
                assert not any("`y`" in one and "too wide" in one for one in said)
    assert found["right"] == 0
    assert found["wide"] >= 38
    assert found["middle"] >= 38
    one = next(text for text in said if "too wide" in text)
    assert "`y` between -62.5 and 162.5, a quarter of its declared range (-400, 500)" in one


def test_ranges_are_not_judged_by_the_few_rows_that_another_column_leaves() -> None:
    """All rows without a fault have an x near 6, those that y clips lie everywhere."""
    random = np.random.default_rng(0)
    clean, domain = np.arange(6000) % 5 == 0, {"y": (0, 10), "x": (0, 100)}
    rows = pd.DataFrame({"x": np.where(clean, random.uniform(2, 10, 6000), random.uniform(0, 100, 6000))})
    rows["y"] = np.where(clean, random.uniform(0, 10, 6000), 50)
    found = exact("y ~ x", rows, domain).findings
    assert not any("far too wide" in one for one in found), found
    assert any("clipped in `y`" in one for one in found)
    assert any("have `x` between" in one for one in exact("y ~ x", rows[clean], domain).findings)


def with_codes(rows: int = 4000) -> pd.DataFrame:
    """One in twenty has 999 for an age, and one in thirty -9 for a score; hours end at a genuine 99."""
    rng = np.random.default_rng(7)
    data = pd.DataFrame(
        {
            "y": rng.normal(50, 15, rows),
            "age": rng.uniform(18, 90, rows),
            "score": rng.uniform(20, 100, rows),
            "hours": rng.normal(60, 20, rows).clip(1, 99).round(),
        }
    )
    data.loc[::20, "age"] = 999
    data.loc[::30, "score"] = -9
    return data


CODED = {"y": (0, 100), "age": (0, 999), "score": (-9, 100), "hours": (1, 99)}


def test_codes_for_missing_within_a_range_are_found() -> None:
    found = exact("y ~ age + score + hours", with_codes(), CODED)
    coded = [one for one in found.findings if "stands for missing" in one]
    assert [one.split("`")[1] for one in coded] == ["age", "score"]
    assert "rows are without a fault and have `age` equal to 999" in coded[0]
    assert "domain={'age': dp.Range(low, high, outside=\"drop\")}" in coded[0]
    assert "data['age'].mask(data['age'] == 999)" in coded[0]
    located = found.located.set_index(["column", "place"])["rows"]
    assert located["score", "exactly -9"] == pytest.approx((with_codes()["score"] == -9).sum(), abs=200)
    # A response drops no rows, so this is not what to type for one.
    assert "outside" not in next(one for one in exact("age ~ hours", with_codes(), CODED).findings if "missing" in one)
    assert dp.Check.from_dict(found.to_dict()).findings == found.findings


@pytest.mark.parametrize(
    ("cells", "codes"), [((30.0, 50.0, 40.0), 0), ((30.0, -9.0, 40.0), 1), ((999.0, -9.0, 99.0), 3)]
)
def test_a_row_with_codes_gives_them_what_others_give_their_places(cells: tuple[float, ...], codes: int) -> None:
    """Its steps add up to those of any other row, by which the noise is measured."""
    data = pd.DataFrame([(50.0, *cells)], columns=["y", "age", "score", "hours"])
    table, facts = as_table(data), {name: Range(*ends) for name, ends in CODED.items()}
    places = column_histograms(facts)
    faults = possible_faults(facts, None, parse("y ~ age + score + hours"))
    counts = count_faults(table, facts, None, faults, places)
    assert counts.sum() == STEPS
    assert counts[0] == STEPS // 4
    at = counts[1 + len(faults) :]
    assert at[at > 0].tolist() == [STEPS * 3 // 4 // (codes or 4)] * (codes or 4)
    assert (is_code(places) & (at > 0)).sum() == codes


def of_seven_columns(coded: float) -> tuple[str, pd.DataFrame, dict[str, Any]]:
    """5,937 rows, of which so many have 99 for the hours."""
    rng, rows = np.random.default_rng(3), 5937
    ranges = {"y": (20, 100), "age": (17, 90), "hours": (1, 99), "school": (1, 16)}
    data = pd.DataFrame({name: rng.normal(40, 12, rows).clip(*ends).round() for name, ends in ranges.items()})
    data["hours"] = np.where(rng.random(rows) < coded, 99, data["hours"].clip(upper=98))
    for name in ("sex", "work", "region"):
        data[name] = rng.choice(["a", "b"], rows)
    return (
        "y ~ " + " + ".join(data.columns[1:]),
        data,
        {**ranges, **{name: ["a", "b"] for name in ("sex", "work", "region")}},
    )


@pytest.mark.slow
def test_a_column_is_found_from_so_many_rows_as_a_check_says() -> None:
    """Nine of ten counts of a column that loses 74 rows, in 400 seeded checks: 3 standard errors are .045."""
    data = frame(2000).fillna({"y": 1.0, "x": 0.5}).assign(g="a")
    data.loc[data.index[:74], "g"] = np.nan
    found = [dp.check("y ~ x + g", data, {**DOMAIN, "x": (0, 2)}, 0.1, seed=seed) for seed in range(400)]
    share = np.mean([any("`g`" in finding for finding in one.findings) for one in found])
    assert "loses or clips 74 rows" in " ".join(
        str(dp.check("y ~ x", data, {**DOMAIN, "x": (0, 2)}, 0.1, seed=1)).split()
    )
    assert 0.85 < share < 0.96


def test_a_code_is_found_from_so_many_rows_as_a_check_says() -> None:
    """A tenth of the rows at rows times eps of 600; 30 seeded checks, of which nine in ten are to find it."""
    formula, data, domain = of_seven_columns(0.1)
    checks = [dp.check(formula, data, domain, 0.1, seed=seed) for seed in range(30)]
    assert sum(any("`hours` equal to 99" in one for one in check.findings) for check in checks) >= 27
    words = " ".join(str(dp.check(*of_seven_columns(0.0), 0.1, seed=1)).split())
    assert (
        "If a column loses or clips 74 rows, a check finds it with a probability of 90 %. A number within a range that "
        "may stand for missing (99 in `y`, 99 in `hours`) is found" in words
    )
    found = re.search(r"`hours`\) is found with this probability if about (\d+) rows", words)
    assert found is not None
    assert 400 < int(found[1]) < 0.1 * len(data)
    located = checks[0].located.set_index(["column", "place"])
    assert located.loc[("hours", "exactly 99"), "std_err"] == checks[0].code_err < checks[0].place_err / 5
    errors = [check.located.set_index(["column", "place"]).loc[("hours", "exactly 99"), "rows"] for check in checks]
    assert np.mean(errors) == pytest.approx((data["hours"] == 99).sum(), abs=4 * checks[0].code_err / np.sqrt(30))


@pytest.mark.slow
@pytest.mark.parametrize(("lost", "least", "most"), [(150, 40, 60), (30, 0, 20)])
def test_a_column_with_typical_values_is_found_from_so_many_rows_as_a_check_says(
    lost: int, least: int, most: int
) -> None:
    """About 60 of 20,000 normal values lie beyond 3 sd. It said 74, with which hardly any of 50 checks found it.

    60 seeded checks, of which about nine in ten find the number that is printed.
    """
    rng = np.random.default_rng(1)
    data = pd.DataFrame({"y": rng.normal(size=20_000), "x": rng.normal(27, 5, 20_000)})
    domain = {"y": (-6, 6), "x": dp.Range(0, 60, typical=(27, 5))}
    words = " ".join(str(dp.check("y ~ x", data, domain, 0.1, seed=1)).split())
    told = re.search(
        r"A column with typical= is found so from (\d+) lost rows on, because it loses rows beyond 3 sd", words
    )
    assert told is not None
    assert 200 < int(told[1]) < 235
    data.iloc[:lost, 1] = np.nan
    found = sum(bool(dp.check("y ~ x", data, domain, 0.1, seed=seed).findings) for seed in range(60))
    assert least <= found <= most


@pytest.mark.slow
def test_a_code_in_the_middle_of_a_range_takes_more_rows_and_a_check_says_so() -> None:
    """Three parts of the range are near it, at an end two: 200 seeded checks, 3 standard errors are .06."""
    formula, data, domain = of_seven_columns(0.0)
    domain = {**domain, "hours": (0, 120)}
    words = " ".join(str(dp.check(formula, data, domain, 0.1, seed=1)).split())
    rows = int(re.findall(r"`hours`\) is found with this probability if about (\d+) rows", words)[0])
    coded = data.copy()
    coded.loc[np.random.default_rng(3).permutation(len(data))[:rows], "hours"] = 99
    found = [dp.check(formula, coded, domain, 0.1, seed=seed).findings for seed in range(200)]
    assert np.mean([any("`hours` equal to 99" in one for one in findings) for findings in found]) > 0.89


def test_a_code_beside_a_full_part_of_a_range_is_found() -> None:
    """9999 has 1,034 rows, others in its eighth about 300, and those next to it 1,700: half of the checks missed it."""
    random = np.random.default_rng(7)
    income = np.round(np.exp(random.normal(7.9, 0.5, 20_000)))
    data = pd.DataFrame({name: random.normal(50, 15, 20_000).clip(0, 100) for name in ("y", "a", "b", "c", "d")})
    coded = np.where(random.random(20_000) < 0.05, 9999, income)
    domain = {**dict.fromkeys(data, (0, 100)), "income": (0, 20_000)}
    for values, least, most in ((coded, 27, 30), (income, 0, 0)):
        checks = [
            dp.check("y ~ income + a + b + c + d", data.assign(income=values), domain, 0.1, seed=k) for k in range(30)
        ]
        assert least <= sum(any("`income` equal to 9999" in one for one in check.findings) for check in checks) <= most


@pytest.mark.parametrize(
    ("ends", "code", "others", "named"),
    [
        ((-400, 400), 99, 200, True),
        ((-398, 398), 99, 200, False),  # a part of 99.5 numbers
        ((-400, 400), 99, 320, False),
        ((-1000, 7000), 999, 200, True),
        ((0, 8000), 999, 200, False),  # in the part at the end of the range
    ],
)
def test_a_code_has_more_rows_than_a_part_of_many_numbers(
    ends: tuple[int, int], code: int, others: int, named: bool
) -> None:
    """300 rows have the code; those in the parts beside its own hide it by the other rules."""
    below, above = (-code / 2, 1.5 * code) if ends[0] else (1.5 * code, 1.7 * code)
    values = np.repeat([below, above, 0.9 * code, code], [4000, 4000, others, 300])
    rows = pd.DataFrame({"y": np.arange(len(values)) % 2, "x": values})
    findings = " ".join(dp.check("y ~ x", rows, {"y": (0, 1), "x": ends}, 20.0, seed=1).findings)
    assert (
        f"`x` equal to {code}, and about {others} another value in the same eighth of the range" in findings
    ) == named
    assert ("stands for missing" in findings) == named
    assert "Are they codes too?" not in findings


def test_an_exposure_of_zero_is_named() -> None:
    rows = {"x": np.linspace(0, 1, 2000), "km": np.arange(2000) % 20, "y": np.arange(2000) % 3}
    domain = {"x": (0, 1), "km": (0, 20), "y": (0, 5)}
    found = dp.check("y ~ x", rows, domain, 5.0, family="poisson", exposure="km", seed=1)
    assert "are lost to `(formula)`: the exposure km is not above 0, or " in found.findings[0]


@pytest.mark.parametrize(("coded", "named"), [(0.06, True), (0.0, False)])
def test_a_code_at_the_end_of_a_range_that_values_fill_is_named(coded: float, named: bool) -> None:
    """It has more rows than the rest of its eighth, and fewer than the next eighth; whole numbers up to it are none."""
    random = np.random.default_rng(0)
    score = np.where(random.random(8000) < coded, 99, random.normal(60, 15, 8000).clip(0, 99).round())
    data = {"score": score, "y": random.integers(0, 2, 8000)}
    check = dp.check("y ~ score", data, {"score": (0, 100), "y": [0, 1]}, 1.0, family="binomial", seed=0)
    assert any("equal to 99" in finding for finding in check.findings) == named


def test_a_code_of_one_column_hides_no_range_of_another() -> None:
    """A fifth of the rows have a code and lie in no eighth of the other columns."""
    data = with_codes().assign(score=np.where(np.arange(4000) % 5 == 0, -9, 60))
    found = exact("y ~ age + score + hours", data, {**CODED, "y": (0, 5000), "age": (0, 99_999)}).findings
    assert [one.split("`")[1] for one in found if "far too wide" in one] == ["y", "age"]


def test_codes_of_older_files_have_the_errors_of_their_time() -> None:
    facts = exact("y ~ age + score + hours", with_codes(), CODED).to_dict()
    older = dp.Check.from_dict({**facts, "steps": facts["steps"][:3]})
    assert older.code_err == older.place_err


@pytest.mark.slow
def test_a_finding_that_noise_may_have_made_says_so() -> None:
    """Counts alone: of 18 faults noise alone passes four standard deviations in 3.1 of 100 checks."""
    formula, data, domain = of_seven_columns(0.0)
    check, random = dp.check(formula, data, domain, 1.0, seed=1), np.random.default_rng(0)
    clean = np.append(len(data), np.zeros(len(check.faults)))
    errors = np.append(check.clean_err, np.full(len(check.faults), check.std_err)) / np.sqrt(2)
    faults = [replace(check, counts=clean + random.laplace(0, errors), places=(), at=check.at[:0]) for _ in range(1000)]
    findings = [one.findings for one in faults]
    named = sum(map(bool, findings))
    assert named <= 0.04 * 1000
    said = sum(any("Noise alone finds a fault in up to 4 of 100 checks" in each for each in one) for one in findings)
    assert 0.75 * named < said <= named
    sure = replace(check, counts=clean + np.append(0, [6.1 * check.std_err] + [0] * (len(check.faults) - 1)))
    assert "Noise alone" not in sure.findings[0]


def test_a_code_with_decimals_at_the_end_of_a_range_is_found() -> None:
    random = np.random.default_rng(2)
    data = pd.DataFrame({"bmi": random.normal(27, 5, 6000).clip(12, 60), "y": random.uniform(0, 1, 6000)})
    data.loc[data.index % 33 == 0, "bmi"] = 99.9
    for end, code in ((99.9, "99.9"), (100, "")):  # within a range it is a number like others, and 99 is looked for
        found = dp.check("y ~ bmi", data, {"y": (0, 1), "bmi": (10, end)}, 2.0, family="gaussian", seed=1).findings
        assert [f"`bmi` equal to {code}, far from" in one for one in found if "equal to" in one] == [True] * bool(code)


def test_a_code_that_noise_may_have_made_says_so() -> None:
    check = dp.check("y ~ age + score + hours", with_codes(), CODED, 1.0, seed=1)
    codes, told = is_code(check.places), "`age` equal to 999"
    for sds, doubted in ((5.9, True), (6.1, False)):
        at = np.where(codes, sds * check.code_err, 0.0)
        (found,) = (one for one in replace(check, at=at).findings if told in one)
        assert ("Noise alone finds a fault in up to " in found) == doubted


@pytest.mark.slow
def test_codes_for_missing_are_found_beside_noise_and_not_made_up() -> None:
    """40 seeded checks each: noise alone passes for a code once in 600 figures, so at most two in 160 say."""
    clean = with_codes().query("age < 999 and score >= 0")
    found = {"coded": 0, "clean": 0}
    for seed in range(40):
        for name, data in (("coded", with_codes()), ("clean", clean)):
            findings = dp.check("y ~ age + score + hours", data, CODED, 1.0, seed=seed).findings
            found[name] += any("`age` equal to 999" in one for one in findings) if name == "coded" else 0
            found["clean"] += sum("missing" in one for one in findings) if name == "clean" else 0
    assert found["coded"] >= 38
    assert found["clean"] <= 2


def test_a_level_that_nobody_has_is_named() -> None:
    levels = {**DOMAIN, "g": ["a", "b", "c"]}
    data = frame().assign(g=frame()["g"].replace({"A": "C"}))
    found = next(one for one in dp.check("y ~ x + g", data, levels, 1.0, seed=1).findings if "`g`" in one)
    assert found.endswith("so they may be the misspelt ones: 'c'.")
    assert "stand out" not in dp.check("y ~ x + g", data, DOMAIN, 1.0, seed=1).findings[1]


def test_findings_have_the_errors_of_both_their_figures() -> None:
    data = pd.DataFrame({"y": [1.0] * 400, "x": [0.5] * 400, "g": ["other"] * 400})
    check = dp.check("y ~ x + g", data, DOMAIN, 0.5, seed=3)
    rows, error = check.totals.loc["rows"]
    lost = rows_of(check, "g", "undeclared")
    total = f"{rows:,.0f} (s.d. {error:,.0f}) rows"
    assert f"About {lost:,.0f} (s.d. {check.std_err:,.0f}) of {total}" in check.findings[0]
    public = dp.check("y ~ x + g", data, DOMAIN, 0.5, seed=3, adjacency="replace_one")
    assert "of 400 rows are lost" in public.findings[0]


def test_advice_on_columns_of_0_and_1_is_for_them_alone() -> None:
    """A rate, a count, an exposure and a share: nobody has coded these as 1 and 2, or as no and yes."""
    random = np.random.default_rng(0)
    rows = pd.DataFrame({name: random.uniform(0, 2, 2000) for name in ("share", "years", "code", "count")})
    rows.loc[:400, ["share", "years"]] = np.nan
    domain = {"share": (0.0, 1.0), "years": (0, 1), "count": (0, 1), "code": (0, 1)}
    found = dp.check("count ~ share + code", rows, domain, 20.0, family="poisson", exposure="years", seed=1).findings
    found = [one for one in found if "`" in one]  # but for all lost rows together
    assert len(found) == 6
    assert {one.split("`")[1] for one in found if "the levels [1, 2]" in one or "'no'" in one} == {"code"}
    shown = {one.split("`")[1]: one for one in found if "above" in one}
    assert "above the declared range (0.0, 1.0). Compare" in shown["share"]
    assert "above the declared range (0, 1). Are its codes 1 and 2?" in shown["code"]


def test_a_response_that_is_declared_as_a_share_is_a_number() -> None:
    rows = {"share": np.linspace(0, 1, 2000), "x": np.linspace(0, 1, 2000)}
    assert not dp.check("share ~ x", rows, {"share": (0.0, 1.0), "x": (0, 1)}, 20.0, seed=1).findings
    (found,) = dp.check("share ~ x", rows, {"share": (0, 1), "x": (0, 1)}, 20.0, seed=1).findings
    assert "lost to `share`" in found


def test_the_family_is_that_of_the_declared_response() -> None:
    data = pd.DataFrame({"b": [0, 1, 2, 7, 1], "x": [0.5] * 5})
    for declared in (bool, (0, 1), [0, 1]):
        assert rows_of(exact("b ~ x", data, {"x": (0, 1), "b": declared}), "b", "undeclared") == pytest.approx(
            2, abs=0.01
        )
    assert rows_of(exact("b ~ x", data, {"x": (0, 1), "b": (0, 7)}), "b", "lost") == pytest.approx(0, abs=0.01)


def test_what_counts_of_a_unit_is_said() -> None:
    check = dp.check("y ~ x + g", frame().assign(who=np.arange(5000) // 2), DOMAIN, 1.0, unit="who")
    assert "rows: one drawn from each who" in str(check)
    assert check.rows == pytest.approx(2500, abs=60)


def test_the_number_of_rows_is_shown_where_it_is_public() -> None:
    assert dp.check("y ~ x + g", frame(), DOMAIN, 0.1).nobs is None
    check = dp.check("y ~ x + g", frame(), DOMAIN, 0.1, adjacency="replace_one")
    assert check.rows == 5000
    assert check.totals.loc["rows"].tolist() == [5000.0, 0.0]
    assert "All rows are counted exactly, and noisy counts need not add up to them." in " ".join(str(check).split())


def test_complete_and_lost_rows_are_all_rows_whatever_the_noise() -> None:
    """Where noise leaves a negative number of lost rows, more were complete than there were rows."""
    negative = 0
    for seed in range(20):
        check = dp.check("y ~ x + g", frame(300).assign(g="a", y=1.0), DOMAIN, 0.02, seed=seed)
        rows, complete, lost = check.totals["rows"]
        assert rows == complete + lost == check.rows
        negative += lost == 0 < complete
    assert negative


def test_it_is_said_which_rows_are_counted_by_place() -> None:
    """Only complete rows, however many there are in all: ranges are judged by these."""
    data = frame()
    counted = "the number of rows with each level of `g` and in each eighth of the declared range of `y` (std err "
    assert counted in " ".join(str(dp.check("y ~ x + g", data, DOMAIN, 5.0)).split())
    data.loc[data.index % 3 != 0, "x"] = np.nan
    told = " ".join(str(dp.check("y ~ x + g", data, DOMAIN, 5.0)).split())
    assert "Fewer than half of all rows are left, too few to tell whether a range is too wide." in told


def test_saved_and_loaded(tmp_path: Path) -> None:
    check = dp.check("y ~ x + g", frame(), DOMAIN, 0.1, delta=1e-6)
    check.save(tmp_path / "check.json")
    again = dp.Check.load(tmp_path / "check.json")
    assert str(again) == str(check)
    assert repr(again) == repr(check)
    facts = check.to_dict()
    # Files of before have the inner ends of a range alone.
    facts["places"] = [[column, names, ends[1:-1]] for column, names, ends in facts["places"]]
    assert str(dp.Check.from_dict(facts)) == str(check)
    assert dp.Check.from_dict(facts).places == check.places
    with pytest.raises(dp.errors.DataError, match="no file"):
        dp.Check.load(tmp_path / "nothing.json")
    with pytest.raises(dp.errors.DataError, match=r"Evaluation\.save"):
        dp.Evaluation.load(tmp_path / "check.json")
    assert "NOT CERTIFIED" in str(dp.check("y ~ x + g", frame(), DOMAIN, 0.1, seed=1))


def test_names_of_another_spelling_are_said_before_the_charge(caplog: pytest.LogCaptureFixture) -> None:
    with pytest.raises(DomainError, match="column 'X' is not declared; the domain declares 'x': did you mean that"):
        exact("y ~ X + g", frame().rename(columns={"x": "X"}), DOMAIN)
    exact("y ~ g", frame().rename(columns={"x": "X"}), DOMAIN)
    assert caplog.messages == ["dpstats: the domain declares x, and the data have X: did you mean that?"]
    caplog.clear()
    exact("y ~ x + g", frame(), DOMAIN)
    assert not caplog.messages


def test_a_saved_check_of_two_text_levels_reads_as_it_did() -> None:
    check = dp.check("y ~ g", frame(300).assign(g="c", y=1.0), {"g": ["a", "b"], "y": (0, 2)}, 50.0)
    assert str(dp.Check.from_dict(json.loads(json.dumps(check.to_dict())))) == str(check)
    assert "if bool is declared" not in str(check)


def typical_check(kind: str, count: int, seed: int = 0) -> dp.Check:
    """Columns with true typical values, of which the last one of kind "wrong" lies 2 sd higher."""
    random, names = np.random.default_rng([seed, 5]), [f"v{j}" for j in range(count)]
    if kind == "skewed":
        cells, declared = random.geometric(0.25, (8000, count)) - 1.0, dp.Range(0, 60, typical=(3, 3.46))
    else:
        cells, declared = random.normal(50, 10, (8000, count)), dp.Range(0, 100, typical=(50, 10))
        cells[:, -1] += 20.0 * (kind == "wrong")
    rows = pd.DataFrame(cells, columns=names).clip(0, 100).assign(y=random.uniform(size=8000))
    domain = dict.fromkeys(names, declared) | {"y": (0, 1)}
    return dp.check(f"y ~ {' + '.join(names)}", rows, domain, 1.0, family="gaussian", seed=seed)


def test_many_skewed_columns_with_typical_values_are_one_finding_with_the_total() -> None:
    found = typical_check("skewed", 40)
    (finding,) = found.findings
    lost = found.totals.loc["lost", "rows"] / found.rows
    assert lost > 0.3
    assert f"({100 * lost:.0f} %; s.d." in finding
    assert "rows are lost because one of 40 columns is missing or beyond 3 sd of typical=" in finding
    assert "Of as many normal columns without missing cells at most 10 % would be" in finding
    assert "inner=(low, high)" in finding


def test_rows_that_normal_columns_have_beyond_their_typical_values_are_no_fault() -> None:
    for seed in range(3):
        found = typical_check("normal", 40, seed)
        assert found.findings == []
        assert "No fault stands out" in (text := " ".join(str(found).split()))
        assert re.search(r"In all about \d+ \(1\d %; s\.d\. \d+\) of [^%]+ rows are lost\. No column loses many", text)
    assert typical_check("normal", 3).findings == []


def test_one_column_with_wrong_typical_values_is_named_alone() -> None:
    (finding,) = typical_check("wrong", 40).findings
    assert "rows are lost to `v39`" in finding
    assert "compare typical=(mean, sd) with its source" in finding


def test_the_share_of_rows_in_a_part_of_a_range_is_at_least_what_the_finding_says() -> None:
    """Of 91 % between 30 and 60, the declared range being (0, 240): one check in forty states more than there is."""
    told = too_much = 0
    for seed in range(40):
        random = np.random.default_rng([seed, 1])
        x = np.where(random.random(4_000) < 0.91, random.uniform(30, 60, 4_000), random.uniform(60, 90, 4_000))
        data = {"x": x, "y": random.uniform(0, 1, 4_000)}
        domain = {"x": (0, 240), "y": (0, 1)}
        for finding in dp.check("y ~ x", data, domain, 0.05, family="gaussian", seed=seed).findings:
            share, low, high = map(float, re.findall(r"least (\d+) %.* between (\d+) and (\d+)", finding)[0])
            told += 1
            too_much += 100 * np.mean((x >= low) & (x <= high)) < share
    assert told >= 30
    assert too_much <= 3


def test_a_reference_level_that_hardly_any_row_has_is_named() -> None:
    random = np.random.default_rng(4)
    rows = {"x": random.uniform(0, 1, 8_000), "g": random.choice(["b", "c"], 8_000), "y": random.uniform(0, 1, 8_000)}
    domain = {"x": (0, 1), "y": (0, 1), "g": ["a", "b", "c"]}
    for term in ("g", "C(g)"):
        (found,) = dp.check(f"y ~ x + {term}", rows, domain, 0.5, family="gaussian", seed=2).findings
        assert found.startswith("The first level of `g`, 'a', is the reference and has few rows or none: about ")
        assert found.endswith("Declare a frequent level first, or write C(g, Treatment('a frequent level')).")
    for formula, levels in (
        ("y ~ x + C(g, Treatment('b'))", "abc"),
        ("y ~ x + g", "bac"),
        ("y ~ x + C(g, Sum)", "abc"),
    ):
        known = {**domain, "g": list(levels)}
        assert dp.check(formula, rows, known, 0.5, family="gaussian", seed=2).findings == []
    few = {**rows, "g": np.where(np.arange(8_000) < 15, "a", rows["g"])}
    (found,) = dp.check("y ~ x + g", few, domain, 5.0, family="gaussian", seed=2).findings
    assert "has few rows or none: about 1" in found
    # Where eps does not tell a rare level from others, nothing is claimed.
    assert not any("is the reference" in one for one in dp.check("y ~ x + g", rows, domain, 0.003, seed=2).findings)


@pytest.mark.parametrize("declared", [(0, 1), [0, 1]])
def test_of_codes_1_and_2_the_finding_asks_where_0_and_1_are_declared(declared: Any) -> None:
    random = np.random.default_rng(5)
    rows = {"sex": random.integers(1, 3, 4_000), "y": random.uniform(0, 1, 4_000)}
    (found,) = dp.check("y ~ sex", rows, {"sex": declared, "y": (0.0, 1.0)}, 0.5, family="gaussian", seed=3).findings
    assert re.search("codes (are )?1 and 2", found)
    assert found.index("declare the levels [1, 2]") < found.index("range", found.index("codes"))
    (found,) = dp.check(
        "y ~ sex", {**rows, "sex": 2 + 0 * rows["sex"]}, {"sex": (0, 1), "y": (0.0, 1.0)}, 0.5, seed=3
    ).findings
    assert "unit" not in found


@pytest.mark.parametrize(
    ("ends", "below", "above"),
    [((30, 50), "-9", "99 or 999"), ((-50, 5), "-99", "9 or 999"), ((0, 1000), "-9", "9999 or 99999")],
)
def test_codes_that_a_hint_names_lie_beyond_the_range(ends: Any, below: str, above: str) -> None:
    low, high = ends
    cells = np.where(np.arange(4_000) % 3 == 0, low - 100, np.where(np.arange(4_000) % 3 == 1, high + 10**5, low))
    rows = {"x": cells, "y": np.linspace(0, 1, 4_000)}
    text = " ".join(dp.check("y ~ x", rows, {"x": ends, "y": (0, 1)}, 2.0, family="gaussian", seed=3).findings)
    assert f"codes for missing, such as {below}" in text
    assert f"codes for missing, such as {above}" in text


@pytest.mark.parametrize(("share", "eps", "least", "most"), [(0.0, 0.08, 26, 30), (0.1, 0.05, 0, 3)])
def test_a_reference_level_is_rare_beside_the_commonest_and_not_for_the_noise(
    share: float, eps: float, least: int, most: int
) -> None:
    """A level of no rows is named beside others of forty deviations; one of a tenth as many rows as others is not."""
    named = 0
    for seed in range(30):
        random = np.random.default_rng(seed)
        g = np.where(random.random(2_000) < share / (2 + share), "a", random.choice(["b", "c"], 2_000))
        rows = {"g": g, "y": random.uniform(0, 1, 2_000)}
        domain = {"g": ["a", "b", "c"], "y": (0, 1)}
        found = dp.check("y ~ g", rows, domain, eps, family="gaussian", seed=seed).findings
        named += any("is the reference" in one for one in found)
    assert least <= named <= most


def test_of_nearly_all_rows_on_one_side_of_a_range_the_finding_asks_for_the_unit() -> None:
    random = np.random.default_rng(5)
    rows = {"cm": random.normal(170, 10, 4_000), "y": random.uniform(0, 1, 4_000)}
    for ends, side in (((1.3, 2.1), "above"), ((1_300, 2_100), "below")):
        (found,) = dp.check("y ~ cm", rows, {"cm": ends, "y": (0, 1)}, 0.5, family="gaussian", seed=3).findings
        assert f"{side} the declared range ({ends[0]}, {ends[1]}). Are the cells in another unit?" in found
        assert "codes for missing" not in found
    (found,) = dp.check("y ~ cm", rows, {"cm": (100, 170), "y": (0, 1)}, 0.5, family="gaussian", seed=3).findings
    assert "codes for missing" in found
    assert "unit" not in found


def test_neighbouring_codes_do_not_hide_each_other() -> None:
    """97, 98 and 99 in a hundredth of the rows each, beyond a gap; without codes nothing is found."""
    random = np.random.default_rng(11)
    hours = np.clip(random.normal(38, 10, 20_000), 1, 80).round()
    domain = {"y": (0, 1), "hours": (1, 99)}
    code = random.uniform(size=20_000)
    coded = np.select([code < 0.01, code < 0.02, code < 0.03], [97, 98, 99], hours)
    for values, named in ((coded, True), (hours, False)):
        rows = pd.DataFrame({"y": random.integers(0, 2, 20_000), "hours": values})
        findings = " ".join(dp.check("y ~ hours", rows, domain, 1.0, family="binomial", seed=1).findings)
        assert ("equal to 99" in findings) == named
        assert ("other rows lie in the same eighth of the range" in findings) == named


@pytest.mark.parametrize(("between", "apart"), [(80, True), (190, False)])
def test_a_tenth_of_the_rows_beside_codes_joins_them_to_the_others(between: int, apart: bool) -> None:
    """Of 1,200 rows with codes: .07 or .16 of so many lie in the eighth below, the rest far from it."""
    values = np.repeat([30.0, 80.0, 97.0, 98.0, 99.0], [18_000, between, 400, 400, 400])
    rows = pd.DataFrame({"y": np.arange(len(values)) % 2, "hours": values})
    findings = " ".join(dp.check("y ~ hours", rows, {"y": (0, 1), "hours": (1, 99)}, 20.0, seed=1).findings)
    assert ("equal to 99" in findings) == apart


def test_few_clipped_rows_are_named_where_they_stand_out() -> None:
    """Four of a thousand cells with a code beyond the range make a slope a tenth too small."""
    random = np.random.default_rng(11)
    rows = pd.DataFrame({"y": random.integers(0, 2, 50_000), "h": random.uniform(1, 112, 50_000)})
    domain = {"y": (0, 1), "h": (1, 112)}
    assert not dp.check("y ~ h", rows, domain, 1.0, family="binomial", seed=1).findings
    rows.loc[random.random(50_000) < 0.004, "h"] = 999.0
    (finding,) = dp.check("y ~ h", rows, domain, 1.0, family="binomial", seed=1).findings
    assert "rows are clipped in `h`: above the declared range (1, 112)" in finding


def test_shared_counts_are_told_as_least_numbers() -> None:
    """Of rows with faults in two columns each has a half, and the finding of one gave it as the number of its rows."""
    random = np.random.default_rng(1)
    rows = pd.DataFrame({"a": random.uniform(0, 100, 20_000), "b": random.uniform(0, 100, 20_000)})
    rows["y"] = random.integers(0, 2, 20_000)
    beside = dp.Domain(a=(0, 50), b=(0, 50), y=bool)
    found = dp.check("y ~ a + b", rows, beside, eps=1.0, family="binomial", seed=1).findings
    numbers = [re.match(r"At least about ([0-9,]+) \(s.d. 1\) of .* are clipped in", one) for one in found]
    assert [7_300 < int(one[1].replace(",", "")) < 7_700 for one in numbers[:2] if one] == [True, True]
    domain = beside.with_(b=(0, 100))
    (alone,) = dp.check("y ~ a + b", rows, domain, eps=1.0, family="binomial", seed=1).findings
    assert re.match(r"About (9,9|10,0)[0-9][0-9] \(s.d. 1\) of .* are clipped in `a`", alone)
