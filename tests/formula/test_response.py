"""The response: levels and ranges that suit the family, scaling, and cells that cannot be a response."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest

import dpstats as dp
from dpstats.domain import Domain
from dpstats.errors import DomainError, FormulaError
from dpstats.families import Binomial, Family, Gaussian, HuberSVM, Poisson
from dpstats.formula.design import design_spec
from dpstats.plan.tables import auxiliary_facts

DOMAIN = Domain(
    {"income ($)": (0, 100)},
    x=(0, 1),
    y=(-2, 6),
    sick=(0, 1),
    count=(0, 20),
    debt=(-5, 0),
    income=["<=50K", ">50K"],
    three=["a", "b", "c"],
    coded=[1, 2],
    flag=bool,
)


def endog(formula: str, family: Family, domain: Domain = DOMAIN, **cells: list[Any]) -> list[float]:
    """The responses of rows that differ in the given cells."""
    frame = pd.DataFrame({**cells, "x": 0.5})
    return design_spec(formula, domain, family=family).blocks(frame)[0][1].tolist()


@pytest.mark.parametrize("family", [Binomial(), HuberSVM()])
def test_two_levels_are_0_and_1_in_declared_order(family: Family) -> None:
    assert endog("income ~ x", family, income=[">50K", "<=50K", " >50K ", "?", None]) == [1, 0, 1]
    assert endog("coded ~ x", family, coded=[1, "2", 2.0, 3]) == [0, 1, 1]
    assert endog("C(income, levels=['>50K', '<=50K']) ~ x", family, income=[">50K", "<=50K"]) == [0, 1]
    spec = design_spec("income ~ x", DOMAIN, family=family)
    assert spec.response.levels == ("<=50K", ">50K")
    assert (spec.response.kind, spec.response.low, spec.response.high) == ("binary", 0, 1)
    assert spec.response_scaling() == (0, 1)


def test_a_range_of_0_and_1_takes_those_two_values_only() -> None:
    cells = [0, 1, 2, -1, 0.5, None]
    assert endog("sick ~ x", Binomial(), sick=cells) == [0, 1]
    assert endog("flag ~ x", Binomial(), flag=[True, False]) == [1, 0]
    assert design_spec("sick ~ x", DOMAIN, family=Binomial()).response.levels is None
    # The same column on both sides: clipped as a number, yet its row counts only where it is a response.
    assert endog("sick ~ x + sick", Binomial(), sick=cells) == [0, 1]


def test_comparisons_are_responses() -> None:
    assert endog("I(income == '>50K') ~ x", Binomial(), income=[">50K", "<=50K"]) == [1, 0]
    assert endog("(y > 2) ~ x", Binomial(), y=[1, 2, 3, None]) == [0, 0, 1]
    assert endog("I(1 * (y > 2)) ~ x", Binomial(), y=[1, 3]) == [0, 1]
    assert endog("(y > 2) ~ x", Gaussian(), y=[1, 3]) == [-1, 1]


def test_an_undeclared_binary_response_ranges_over_0_and_1() -> None:
    assert endog("new ~ x", Binomial(), Domain(x=(0, 1)), new=[0, 1, 7]) == [0, 1]
    with pytest.raises(DomainError, match="'new' is not declared"):
        design_spec("new ~ x", Domain(x=(0, 1)), family=Gaussian())
    with pytest.raises(DomainError, match="'new' is not declared"):
        design_spec("(new > 1) ~ x", Domain(x=(0, 1)), family=Binomial())


def test_an_undeclared_count_may_be_bounded_by_the_family() -> None:
    spec = design_spec("new ~ x", Domain(x=(0, 1)), family=Poisson(y_max=7))
    assert (spec.response.low, spec.response.high) == (0, 7)
    with pytest.raises(DomainError, match="'new' is not declared"):
        design_spec("new ~ x", Domain(x=(0, 1)), family=Poisson())


@pytest.mark.parametrize(
    ("formula", "fix"),
    [
        ("three ~ x", "has 3 levels.*I\\(column == 'level'\\)"),
        ("y ~ x", "range \\(-2, 6\\).*declare \\(0, 1\\) or two levels"),
        ("count ~ x", "range \\(0, 20\\)"),
        ("np.log(count + 1) ~ x", "values other than 0 and 1"),
    ],
)
def test_what_is_not_binary_is_refused_with_the_fix(formula: str, fix: str) -> None:
    with pytest.raises(DomainError, match=fix):
        design_spec(formula, DOMAIN, family=Binomial())


@pytest.mark.parametrize("family", [Gaussian(), Poisson()])
def test_levels_are_not_numbers(family: Family) -> None:
    with pytest.raises(DomainError, match=r"declared by levels.*declare a range"):
        design_spec("income ~ x", DOMAIN, family=family)


def test_continuous_responses_fill_minus_one_to_one() -> None:
    assert endog("y ~ x", Gaussian(), y=[-2, 2, 6, 99, -99, np.inf, None]) == [-1, 0, 1, 1, -1]
    assert endog("y ~ 0 + x", Gaussian(), y=[-2, 0, 6]) == pytest.approx([-1 / 3, 0, 1])
    assert endog("Q('income ($)') ~ x", Gaussian(), **{"income ($)": [0, 50, 100]}) == [-1, 0, 1]


def test_expressions_have_the_range_of_their_public_values() -> None:
    spec = design_spec("np.log(count + 1) ~ x", DOMAIN, family=Gaussian())
    assert (spec.response.low, spec.response.high) == pytest.approx((0, np.log(21)))
    assert endog("np.log(count + 1) ~ x", Gaussian(), count=[0, 20, 400]) == [-1, 1, 1]
    # log(0) leaves the row out; the lowest finite public value is the range's lower end.
    assert len(endog("np.log(count) ~ x", Gaussian(), count=[0, 20])) == 1


def test_a_constant_response_is_zero() -> None:
    assert endog("I(0 * y + 3) ~ x", Gaussian(), y=[1, 2]) == [0, 0]


def test_counts_are_clipped_and_not_scaled() -> None:
    assert endog("count ~ x", Poisson(), count=[0, 3, 25, -1, None]) == [0, 3, 20, 0]
    assert endog("y ~ x", Poisson(), y=[-2, 3]) == [0, 3]
    with pytest.raises(DomainError, match="must have a range above 0"):
        design_spec("debt ~ x", DOMAIN, family=Poisson())


def test_a_response_is_one_column() -> None:
    with pytest.raises(FormulaError, match="single column"):
        design_spec("poly(y, 2) ~ x", DOMAIN, family=Gaussian())


@pytest.mark.parametrize(
    ("formula", "given"),
    [
        ("y ~ x + offset(log(t))", {"exposure": "t"}),
        ("y ~ x + offset(np.log(t))", {"exposure": "t"}),
        ("y ~ x + offset(log(t))", {"offset": "np.log(t)"}),
        ("y ~ x", {"exposure": "t", "offset": "log(t)"}),
    ],
)
def test_an_offset_given_twice_counts_once_however_the_logarithm_is_written(
    formula: str, given: dict[str, str]
) -> None:
    """offset(log(t)) beside an exposure counted twice: an intercept of -3.2 for -2."""
    domain = {"y": (0, 50), "x": (0, 1), "t": (0.1, 10)}
    plan = dp.plan(formula, domain, 1.0, family="poisson", **given)  # type: ignore[arg-type]
    assert plan.design.offset.name == "offset(np.log(t))"
    both = dp.plan("y ~ x + offset(x)", domain, 1.0, family="poisson", exposure="t")
    assert ("Offset:", "x + np.log(t)") in auxiliary_facts(both)
