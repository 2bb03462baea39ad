"""Numbers in tables: whole, and zero without a sign; names are cut at words."""

from __future__ import annotations

import re

import numpy as np
import pytest

from dpstats.plan.tables import facts_lines
from dpstats.plots import style
from dpstats.results.contrasts import coefficient_cells, to_the_noise
from dpstats.summaries import Summary, format_number, full_width, shorten, without_lists, wrap_text


def test_no_number_is_broken_across_lines() -> None:
    """Whatever the size of the numbers and the width of their columns."""
    rng = np.random.default_rng(0)
    for _ in range(200):
        numbers = [f"{sign * 10.0**power:{form}}" for sign, power, form in zip(
            rng.choice([-1, 1], 4), rng.uniform(-9, 12, 4), rng.choice([",.2f", ".6g", ".3e", ",.0f"], 4), strict=True
        )]  # fmt: skip
        cells = [f"about {numbers[0]} (s.d. {numbers[1]})", f"[{numbers[2]}", f"{numbers[3]}%"]
        text = Summary([full_width(["a", "b", "c"], [("a name", cells)], [12, 6, 6])]).as_text()
        for number in numbers:
            assert number in text, text


def test_text_is_broken_behind_signs_and_before_brackets() -> None:
    assert wrap_text("about 8,123 (s.d. 141)", 14) == ["about 8,123", "(s.d. 141)"]
    assert wrap_text("occupation[T.Machine-op-inspct]", 20) == ["occupation[", "T.Machine-op-inspct]"]
    assert "".join(wrap_text("1" * 40, 18)) == "1" * 40, "an identity that no line has room for"


@pytest.mark.parametrize("error", [0.04, 1e-9, np.inf, np.nan, 0.0])
def test_zero_has_no_sign(error: float) -> None:
    for value in (-0.0, -1e-12 if error == 0.04 else -0.0):
        assert not re.match(r"-0(\.0*)?$", to_the_noise(value, error))
        cells = coefficient_cells([value, error, value, 1.0, value, value])
        assert not [cell for cell in cells if re.match(r"-0(\.0*)?$", cell)]
    assert format_number(-0.0) == "0"


def test_names_are_cut_at_words() -> None:
    name = "an income that a household has reported for the year"
    assert shorten(name, 30) == "an income that a household..."
    assert shorten("x" * 50, 20) == "x" * 17 + "..."
    assert style.shorten("occupation[T.Machine operators and inspectors]", 34) == "occupation[…and inspectors]"
    assert len(style.shorten("y" * 80, 34)) == 34
    lines = style.wrapped("What eps buys: income ~ age + sex + education_num + hours_per_week", 40).split("\n")
    assert lines == ["What eps buys: income ~ age + sex +", "education_num + hours_per_week"]
    assert all(len(line) <= 30 for line in style.wrapped(name * 4, 30).split("\n"))


def test_facts_of_a_title_are_whole_lines() -> None:
    facts = ["the mean of y", "identity link", "rows: about 7,976 (s.d. 141)", "residuals capped at 1.625"]
    lines = [line.strip() for line in facts_lines(facts)]
    assert lines == ["the mean of y; identity link; rows: about 7,976 (s.d. 141);", "residuals capped at 1.625"]


def test_long_names_of_bins_lose_their_breaks_and_keep_their_level() -> None:
    names = [f"cut(age, [18, 25, 35, 45, 55, 65, 95], right=False)[T.[{low}, 95)]:x" for low in (18, 25)]
    assert without_lists(names, 30) == [f"cut(age, ..., right=False)[T.[{low}, 95)]:x" for low in (18, 25)]
    assert without_lists(names, 80) == names
    alike = ["cut(age, [18, 25, 35])[T.(25, 35]]", "cut(age, [20, 25, 35])[T.(25, 35]]"]
    assert without_lists(alike, 20) == alike
    shown = Summary([full_width(["coef"], [(name, ["1.0"]) for name in names], [30])])
    assert "..., right" in shown.as_text()
    assert "65, 95]" in shown.as_html()
