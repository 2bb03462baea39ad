"""Levels that terms make of numbers: what forecasts suppose of their shares."""

from __future__ import annotations

import numpy as np
import pytest

import dpstats as dp
from dpstats.models.population import POOR, USUAL, ColumnPrior, KnownColumns

DOMAIN = {"y": (-20.0, 40.0), "x": (0, 500), "z": ["a", "b"], "age": (17, 90)}
BREAKS = [0, 20, 50, 500]
SHARES = {"poor": [1 / 27, 1 / 8, 1.0], "usual": [1 / 9, 1 / 4, 1.0]}
"""Of the levels of a declared factor, rarest first, up to a factor."""


def rows(formula: str, name: str, prior: ColumnPrior) -> np.ndarray:
    """Sorted values of a column of 40,000 rows that are supposed."""
    design = dp.plan(formula, DOMAIN, 1.0).design
    known = KnownColumns.from_arguments(design, None, None)
    return np.sort(known.drawn(design, 40_000, prior, np.random.default_rng(1))[name])  # type: ignore[arg-type]


@pytest.mark.parametrize("term", ["cut(x, [0, 20, 50, 500])", "C(np.digitize(x, [20, 50]))", "I(x > 20) + I(x > 50)"])
@pytest.mark.parametrize(("prior", "shares"), [(POOR, SHARES["poor"]), (USUAL, SHARES["usual"])])
def test_no_level_made_of_numbers_is_rarer_than_a_declared_one(
    term: str, prior: ColumnPrior, shares: list[float]
) -> None:
    """Hardly any value of a range of 0 to 500 is supposed below 50, but somebody wrote a break there."""
    least = shares[0] / sum(shares)
    levels = np.histogram(rows(f"y ~ {term} + z", "x", prior), BREAKS)[0] / 40_000
    both = least / (1 + 2 * least)  # of two rare levels beside one that all usual values are in
    assert levels[:2] == pytest.approx([both, both], rel=0.05)
    numbers = np.histogram(rows("y ~ x + z", "x", prior), BREAKS)[0] / 40_000
    assert numbers[0] < both / 10


@pytest.mark.parametrize("formula", ["y ~ cut(x, [0, 20, 50, 500]) + x", "y ~ cut(x, [0, 250, 500])", "y ~ I(x > 200)"])
def test_other_columns_are_spread_as_ever(formula: str) -> None:
    """Columns of which a term has the numbers, and levels that are common enough."""
    assert rows(formula, "x", USUAL) == pytest.approx(rows("y ~ x", "x", USUAL), abs=1e-9)


def test_breaks_leave_out_what_no_level_has() -> None:
    ages = rows("y ~ cut(age, [20, 22, 80]) + z", "age", POOR)
    assert ages.min() > 19.9
    assert np.mean(ages <= 22) == pytest.approx(1 / 9 / (1 + 1 / 9), rel=0.05)


def test_errors_are_bought_where_a_break_cuts_the_end_of_a_range() -> None:
    """Fits of 3,000 rows and eps 1 had all their errors in 10 of 10 draws; the forecast gave none to any number."""
    plan = dp.plan("y ~ cut(x, [0, 20, 50, 500]) + z", DOMAIN, 1.0)
    assert plan.by_rows(n=10_000)["errors"].tolist()[-1] == "paid"
    assert plan.standard_errors(10_000)["identified_upper"].min() > 0.9
