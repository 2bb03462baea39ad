"""What names and declarations tell before a cent is spent; no cell has a part in it."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import dpstats as dp
from dpstats.errors import ArgumentError, DataError, DomainError, FormulaError


def frame(rows: int = 300) -> pd.DataFrame:
    rng = np.random.default_rng(2)
    return pd.DataFrame({"y": rng.uniform(size=rows), "age": rng.uniform(17, 90, rows), "sex": ["F"] * rows})


def said(caplog: pytest.LogCaptureFixture) -> str:
    return " | ".join(record.getMessage() for record in caplog.records)


def test_a_near_miss_is_said_by_plan_and_before_a_fit(caplog: pytest.LogCaptureFixture) -> None:
    plan = dp.plan("y ~ age", {"y": (0, 1), "ages": (17, 90)}, 1.0)
    assert (
        plan.advice[0]
        == "column age is not declared, so the budget buys its range; the domain declares ages: did you mean that?"
    )
    assert "did you mean that?" in " ".join(str(plan.summary()).split())
    dp.ols("y ~ age", frame(), 1.0, domain={"y": (0, 1), "ages": (17, 90)})
    assert "the domain declares ages: did you mean that?" in said(caplog)
    assert "the budget buys the ranges of age" in said(caplog)


def test_a_plan_refuses_another_spelling_as_the_fit_does() -> None:
    """It bought a range of `age` beside a declared `Age`, and the fit refused the same call."""
    data = frame().assign(b=lambda rows: rows["y"] > 0.5)
    for formula, domain, family in (
        ("y ~ age", {"y": (0, 1), "Age": (17, 90)}, "gaussian"),
        ("y ~ age", {"y": (0, 1), "_age": (17, 90)}, "gaussian"),
        ("b ~ age", {"B": [0, 1], "age": (17, 90)}, "binomial"),
        ("y ~ age", {"Y": (0, 1), "age": (17, 90)}, "gaussian"),
    ):
        told = r"is not declared; the domain declares '.*': did you mean that\?"
        with pytest.raises(DomainError, match=told):
            dp.plan(formula, domain, 1.0, family=family)
        with pytest.raises(DomainError, match=told):
            dp.glm(formula, data, 1.0, domain=domain, family=family)
    both = dp.plan("y ~ age + Age", {"y": (0, 1), "Age": (17, 90)}, 1.0)  # which the data have then
    assert both.bought == ("age",)


CODED = frame().assign(b=lambda rows: 1 + (rows["y"] > 0.5), c=lambda rows: (5 * rows["y"]).astype(int))


@pytest.mark.parametrize("verb", [dp.glm, dp.check])
@pytest.mark.parametrize(
    ("formula", "family", "domain", "told"),
    [
        ("y ~ age", "gaussian", {"y": (0, 1), "Age": (17, 90)}, "'age' is not declared; the domain declares 'Age'"),
        ("b ~ age", "binomial", {"age": (17, 90)}, r"declare {'b': \(0, 1\)} in the domain .* such as {'b': \[1, 2\]}"),
        ("b ~ age", "huber_svm", {"age": (17, 90)}, "the response 'b' is not declared"),
        ("b ~ age", "binomial", {"age": (17, 90), "B": [1, 2]}, "the domain declares 'B': did you mean that"),
        ("b ~ age", "binomial", {"age": (17, 90), "b": (1, 2)}, r"two levels, such as \[1, 2\], of which the second"),
        ("b ~ age", "binomial", {"age": (17, 90), "b": (0, 100)}, r"has the range \(0, 100\)"),
        ("b ~ age", "binomial", {"age": (17, 90), "b": [0, 1, 2]}, "has 3 levels"),
        ("c ~ age", "poisson", {"age": (17, 90), "c": (-9, 20)}, r"begins at -9: declare \(0, 20\)"),
        ("c ~ age", "negative_binomial", {"age": (17, 90), "c": (-99, 20)}, "make those cells missing"),
        ("c ~ age", "poisson", {"age": (17, 90), "c": (-1, 20)}, r"begins at -1: declare \(0, 20\)"),
        ("c ~ age", "negative_binomial", {"age": (17, 90), "c": (-0.5, 20)}, "make those cells missing"),
        ("I(2 * c) ~ age", "poisson", {"age": (17, 90), "c": (-1, 20)}, r"'c' in the response I\(2 \* c\)"),
    ],
)
def test_a_domain_that_cannot_be_right_is_refused_for_nothing(
    tmp_path: Path, verb: Any, formula: str, family: str, domain: dict[str, Any], told: str
) -> None:
    ledger = dp.Ledger(tmp_path / "data.ledger", eps=1.0, dataset="people")
    with pytest.raises(DomainError, match=told):
        verb(formula, CODED, eps=0.5, domain=domain, family=family, ledger=ledger)
    assert ledger.remaining.eps == 1.0


@pytest.mark.parametrize("family", ["poisson", "negative_binomial"])
def test_no_call_takes_a_negative_count(family: str) -> None:
    domain = {"age": (17, 90), "c": (-1, 20)}
    calls: list[Any] = [
        lambda: dp.plan("c ~ age", domain, 1.0, family=family),
        lambda: dp.streaming.Regression("c ~ age", domain, 1.0, horizon=4, family=family),
    ]
    for call in calls:
        with pytest.raises(DomainError, match="the response 'c' is a count, and its range begins at -1"):
            call()


def test_of_a_count_below_zero_the_first_advice_is_to_make_it_missing() -> None:
    rows = CODED.assign(c=CODED["c"].where(CODED.index % 4 > 0, -9))
    found = dp.check("c ~ age", rows, {"age": (17, 90), "c": (0, 20)}, 5.0, family="poisson", seed=1).findings
    assert "If the values are codes for missing, such as -9, make these cells missing. Declare" in found[0]
    assert "Declare a wider range only if the response can be negative" in found[0]


def test_what_may_be_right_is_fitted(caplog: pytest.LogCaptureFixture) -> None:
    domain = {"age": (17, 90)}
    boolean = CODED.assign(b=CODED["b"] == 2)
    assert dp.logit("b ~ age", boolean, 1.0, domain=domain, seed=1).plan.advice == ()
    assert dp.logit("b ~ age", CODED, 1.0, domain=domain | {"b": [1, 2]}, seed=1).plan.design.response.levels == (1, 2)
    for formula, declared in (
        ("c ~ age", (1, 20)),
        ("I(c - 1) ~ age", (0, 20)),
        ("I(c ** 2) ~ age", (-8, 8)),
    ):
        assert dp.plan(formula, domain | {"c": declared}, 1.0, family="poisson").family.name == "poisson"
    # Both spellings are columns.
    both = CODED.assign(Age=1.0)
    assert dp.plan("c ~ age", domain | {"c": (0, 20)}, 1.0).bought == ()
    dp.ols("y ~ age", both, 1.0, domain={"y": (0, 1), "Age": (17, 90)}, seed=1)
    assert "the budget buys the ranges of age" in said(caplog)
    # A plan does not know the type of the response.
    assert "the response 'b' is not declared" in dp.plan("b ~ age", domain, 1.0, family="binomial").advice[0]


def test_what_is_well_declared_is_said_nothing_of(caplog: pytest.LogCaptureFixture) -> None:
    domain = {"y": (0, 1), "age": (17, 90), "sex": ["F", "M"], "other": (0, 1)}
    assert dp.plan("y ~ age", domain, 1.0).advice == ("declared and not used by this formula: sex, other",)
    fit = dp.ols("y ~ age", frame(), 1.0, domain=domain)
    assert fit.plan.advice == ()
    assert said(caplog) == ""


def test_other_things_that_names_and_levels_tell() -> None:
    plan = dp.plan("y ~ sex", {"y": (0, 1), "sex": ["F"]}, 1.0)
    assert "declared with one level" in plan.advice[0]
    data = frame().rename(columns={"age": "AGE"})
    fit = dp.ols("y ~ C(sex)", data, 1.0, domain={"y": (0, 1), "age": (17, 90), "sex": ["F", "M"]})
    assert fit.plan.advice == ("the domain declares age, and the data have AGE: did you mean that?",)


@pytest.mark.parametrize(
    ("declared", "code"),
    [
        ((0, 999), "999"),
        ((18, 9999), "9999"),
        ((1, 99999), "99999"),
        ((500, 999999), "999999"),
        ((0, 99999), None),
        ((-9, 100), "-9"),
        ((-99, 10), "-99"),
        ((0, 99), None),  # ages and hours
        ((0, 9999), None),  # amounts of four digits
        ((10, 99.9), "99.9"),
        ((0, 99.9), None),  # percentages with one decimal
        ((10, 99.5), None),
        ((-99, 999), "-99 and 999"),
        ((-999, 999), None),
        ((0, 1000), None),
        (dp.Range(0, 999, outside="drop"), None),
        (dp.Range(0, 999, typical=(50, 10)), None),
    ],
)
def test_a_range_that_ends_at_a_code_for_missing(declared: object, code: str | None) -> None:
    advice = dp.plan("y ~ age", {"y": (0, 1), "age": declared}, 1.0).advice
    named = "either" if code == "-99 and 999" else code
    assert [code is not None and f"the range of age ends at {code}. If {named} stands" in one for one in advice] == (
        [] if code is None else [True]
    )
    assert 'outside="drop"' in " ".join(advice) or code is None


def test_text_of_a_csv_file_that_is_not_declared_is_said_to_be_read_as_numbers(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    frame().to_csv(tmp_path / "rows.csv", index=False)
    dp.ols("y ~ age + sex", tmp_path / "rows.csv", 1.0, domain={"y": (0, 1), "age": (17, 90)})
    assert "sex is not declared and comes from a CSV file" in said(caplog)
    assert "age" not in said(caplog).replace("ranges", "")


def test_columns_of_a_csv_file_that_are_not_declared_are_listed_in_one_line(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    names = [f"x{place}" for place in range(30)]
    rows = pd.DataFrame(np.random.default_rng(1).uniform(0, 1, (40_000, 31)), columns=[*names, "y"])
    rows.to_csv(tmp_path / "rows.csv", index=False)
    dp.ols(f"y ~ {' + '.join(names)}", tmp_path / "rows.csv", 2.0, domain={"y": (0, 1)}, rows_at_least=40_000, seed=1)
    told = [record.getMessage() for record in caplog.records if "CSV" in record.getMessage()]
    assert len(told) == 1
    assert "columns x0, x1, x2" in told[0]
    assert "more are not declared and come from a CSV file" in told[0]
    assert len(told[0]) < 300


def test_advice_is_the_same_whatever_the_rows(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    found = []
    for data in (frame(), frame(7).assign(age=np.nan, sex="canary"), frame().iloc[:0]):
        caplog.clear()
        dp.ols("y ~ age + sex", data, 1.0, domain={"Y": (0, 1), "sex": ["F", "M"], "y": (0, 2)})
        found.append(said(caplog))
    assert found[0] == found[1] == found[2]
    assert "canary" not in found[0]


@pytest.mark.parametrize("argument", ["weights", "offset"])
def test_columns_beside_the_formula_have_near_misses_too(argument: str) -> None:
    domain = {"y": (0, 1), "age": (17, 90), "Age": (0, 1)}
    with pytest.raises(DataError, match="data has no column 'Age'; did you mean 'age'"):
        dp.ols("y ~ age", frame(), 1.0, domain=domain, **{argument: "Age"})


def test_a_text_column_that_is_declared_otherwise() -> None:
    with pytest.raises(DomainError, match="declares 'Sex': did you mean that"):
        dp.ols("y ~ sex", frame(), 1.0, domain={"y": (0, 1), "Sex": ["F", "M"]})


def test_arrays_need_a_stated_bound() -> None:
    with pytest.raises(ArgumentError, match="row_norm is missing"):
        dp.GLM([0.0, 1.0], np.eye(2))


def test_minus_one_below_positive_numbers_is_named_as_a_code() -> None:
    """As below answers from 0 to 10, and not below logarithms or differences."""
    none, code = ((-1, 1), (-1, 5), (-1, 9), (-2, 75)), ((-1, 10), (-1, 75))
    for ends, named in ((ends, ends in code) for ends in none + code):
        advice = dp.plan("y ~ age", {"age": ends, "y": (0, 1)}, 1.0).advice
        assert any("the range of age ends at -1. If -1 stands for missing" in one for one in advice) == named


@pytest.mark.parametrize(
    ("term", "ends", "told"),
    [
        ("np.log(x)", (1, 500_000), "np.log(x) 65 % of the range (1, 500000) lies below 5,000: if few rows"),
        ("log10(x)", (1, 500_000), "log10(x) 65 % of"),
        ("np.log2(x)", (1, 500_000), "np.log2(x) 65 % of"),
        ("np.log1p(x)", (0, 500_000), "np.log1p(x) 65 % of the range (0, 500000) lies below 5,000"),
        ("np.log(x + 1)", (0, 500_000), "np.log(x + 1) 65 % of"),
        ("center(np.log(x))", (1, 500_000), "np.log(x) 65 % of"),
        ("age:np.log(x / 1000)", (1, 500_000), "np.log(x / 1000) 65 % of"),
        ("np.log(x)", dp.Range(1, 500_000, typical=(60_000, 30_000)), "np.log(x) 61 % of the range (1, 150000)"),
        ("np.log(x)", (1, 10_001), "np.log(x) 50 % of the range (1, 10001)"),
        ("np.log(x)", (1, 9_999.5), None),
        ("np.log(x)", (1_000, 300_000), None),
        ("np.log(x)", (18, 90), None),
        ("np.log(x)", (1, 100), None),
        ("np.log(x)", (10, 5_000), None),
        ("np.log(x)", (0, 500_000), None),  # its lowest finite logarithm is far above
        ("np.log(x)", dp.Range(1, 500_000, inner=(1_000, 300_000)), None),
        ("x", (1, 500_000), None),
        ("np.sqrt(x)", (1, 500_000), None),
        ("np.log(x + age)", (1, 500_000), None),
    ],
)
def test_a_range_that_begins_far_too_low_for_a_logarithm_is_named(term: str, ends: Any, told: str | None) -> None:
    advice = dp.plan(f"y ~ age + {term}", {"y": (0, 1), "age": (17, 90), "x": ends}, 1.0).advice
    assert len(advice) == (told is not None)
    if told is not None:
        assert advice[0].startswith(f"on the scale of {told}")
        assert "declare a lower end near the smallest plausible value" in advice[0]


def test_ranges_of_logarithms_are_named_in_one_sentence() -> None:
    """A column with two logarithms once; of the response, whose interval is bought on its own scale, nothing."""
    domain = {"y": (1, 500_000), "a": (1, 1e6), "b": (1, 1e5)}
    (told,) = dp.plan("np.log(y) ~ np.log(a) + np.log(b) + np.log1p(a)", domain, 1.0).advice
    assert told.startswith(
        "on the scale of np.log(a) 67 % of the range (1, 1000000) lies below 10,000 and of np.log(b) 60 % of the range "
        "(1, 100000) lies below 1,000: if few rows lie there, declare lower ends near the smallest plausible values"
    )
    names = "abcdef"
    formula = f"y ~ {' + '.join(f'np.log({name})' for name in names)}"
    (told,) = dp.plan(formula, {"y": (0, 1), **dict.fromkeys(names, (1, 1e6))}, 1.0).advice
    assert "np.log(c)" in told
    assert "np.log(d)" not in told
    assert "and of 3 more columns alike: if few rows" in told


@pytest.mark.parametrize("term", ["np.log(C(age))", "np.log(age == 'a')", "np.log(cut(age, [1, 20]))"])
def test_a_logarithm_of_no_number_is_refused_with_its_place(term: str) -> None:
    with pytest.raises(FormulaError, match="of the formula"):
        dp.plan(f"y ~ {term}", {"y": (0, 1), "age": (1, 500_000)}, 1.0)
