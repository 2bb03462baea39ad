"""What `dpstats.check` says of fits that narrow a range that is far too wide, and what such fits do."""

from __future__ import annotations

import re

import numpy as np
import pandas as pd
import pytest
from numpy.typing import NDArray

import dpstats as dp
from dpstats.privacy.trimming import (
    COUNT_MARGIN,
    USUALLY_ENOUGH,
    WORTHWHILE,
    choose_inner_interval,
    counts_away,
    noisy_away,
    rows_that_pay,
    rows_to_narrow,
    usually_narrows,
)

ROWS = 20_000
KEEPS = "A fit that buys ranges takes a wider part, without the rows outside it, or keeps the range."


def column(outside: float, eighths: int, seed: int, *, zeros: float = 0.0) -> NDArray[np.float64]:
    """Values in some eighths of (0, 100), but for a share that lie in the rest; a part of all is zero."""
    random, end = np.random.default_rng(seed), 12.5 * eighths
    inside, rest = random.uniform(0.1, end, ROWS), random.uniform(end, 100, ROWS)
    return np.where(random.random(ROWS) < zeros, 0.0, np.where(random.random(ROWS) < outside, rest, inside))


def data_of(x: NDArray[np.float64]) -> pd.DataFrame:
    return pd.DataFrame({"x": x, "y": np.random.default_rng(5).integers(0, 2, len(x))})


DOMAIN = {"x": (0, 100), "y": (0, 1)}


def finding(x: NDArray[np.float64], eps: float = 1.0, seed: int = 1) -> str:
    (text,) = dp.check("y ~ x", data_of(x), DOMAIN, eps, family="binomial", seed=seed).findings
    return text


def told_eps(text: str) -> tuple[float, float]:
    """The eps from which a fit narrows the range: of few zeros, and of many."""
    told = re.search(r"eps of about (\S+) or more(?: \((\S+) if many of its values are 0, up to nine in ten\))?", text)
    assert told is not None
    return float(told[1]), float(told[2] or np.nan)


def narrowing(eps: float, outside: float, eighths: int, *, fits: int, zeros: float = 0.0) -> float:
    """The share of fits that narrow the range to a half or less."""
    narrowed = 0
    for seed in range(fits):
        rows = data_of(column(outside, eighths, seed, zeros=zeros))
        fit = dp.glm("y ~ x", rows, eps, domain=DOMAIN, family="binomial", seed=seed)
        whole = fit.plan.design.domain["x"]  # type: ignore[union-attr]
        narrowed += isinstance(whole, dp.Range) and whole.interval != (0, 100)
    return narrowed / fits


@pytest.mark.slow
@pytest.mark.parametrize(("outside", "eighths", "zeros"), [(0.0, 1, 0.0), (0.01, 2, 0.0), (0.0, 1, 0.6), (0.0, 1, 0.9)])
def test_at_the_eps_that_is_told_nearly_all_fits_narrow_the_range(outside: float, eighths: int, zeros: float) -> None:
    """At the eps that pays for the rows alone half of the fits did: their count of the rows is noisy."""
    few, many = told_eps(finding(column(outside, eighths, 0, zeros=zeros)))
    assert narrowing(many if zeros else few, outside, eighths, fits=20, zeros=zeros) >= 0.8


@pytest.mark.slow
def test_the_eps_that_is_told_is_no_larger_than_it_must_be() -> None:
    """`COUNT_MARGIN` from both sides: at the eps that pays for the rows alone half of the fits narrow the range."""
    told, _ = told_eps(finding(column(0.0, 1, 0)))
    assert 0.2 <= narrowing(told / COUNT_MARGIN, 0.0, 1, fits=30) <= 0.8
    assert COUNT_MARGIN <= 1.25


@pytest.mark.parametrize(("outside", "eighths"), [(0.045, 1), (0.045, 2), (0.03, 2)])
def test_of_a_range_that_fits_keep_none_is_promised_to_be_narrowed(outside: float, eighths: int) -> None:
    """With 4 % of the rows in the rest of the range none of 30 fits narrowed it, at any eps."""
    text = finding(column(outside, eighths, 0))
    assert KEEPS in text
    assert "by itself" not in text
    assert re.search(r"[Aa]bout \d+ rows \(s\.d\. \d+\) lie outside this part", text)


def test_of_zeros_whose_others_fill_the_range_the_finding_makes_no_promise() -> None:
    """Nineteen of 20 values are zero, and the others lie anywhere: no fit of 30 narrowed it at 1.4, which was told."""
    text = finding(np.where(np.random.default_rng(1).random(ROWS) < 0.97, 0.0, column(0.87, 1, 2)))
    assert "usually narrows it by itself, unless many of its values are 0" in text
    assert narrowing(1.4, 0.87, 1, fits=3, zeros=0.97) == 0.0


def bought(outside: float, eighths: int, paid: float, columns: int = 1, draws: int = 40) -> float:
    """The share of purchases that narrow a range to half, each by so many times the rows that it takes at all."""
    eps, narrowed = paid * rows_to_narrow(1.0, "add_remove", columns) / ROWS, 0
    for seed in range(draws):
        random = np.random.default_rng(seed)
        counts = counts_away([column(outside, eighths, seed)], 0.0, 100.0)
        away = noisy_away(counts, 0.1 * eps, random)
        how = {"adjacency": "add_remove", "random": random, "columns": columns}
        low, high = choose_inner_interval(counts, away, 0.9 * eps, **how)  # type: ignore[arg-type]
        narrowed += high - low <= 50
    return narrowed / draws


@pytest.mark.parametrize("paid", [WORTHWHILE, USUALLY_ENOUGH])
@pytest.mark.parametrize("columns", [1, 8])
@pytest.mark.slow
def test_a_purchase_is_promised_where_nine_of_ten_narrow(paid: float, columns: int) -> None:
    """`PAID_FOR_NEEDED` from both sides: where as many eighths leave out .01 more, fewer than all do."""
    promised = kept = 0
    for eighths in (1, 2):
        for outside in np.arange(0, 0.051, 0.01):
            usually = usually_narrows({eighths: float(outside)}, "add_remove", columns, paid)
            if usually:
                promised += 1
                assert bought(float(outside), eighths, paid, columns) >= 0.85
            elif outside > 0.9 * 0.02 * np.log2(8 / eighths):
                kept += 1
                assert bought(float(outside), eighths, paid, columns) < 0.6
    assert promised >= (1 if columns == 8 else 3)
    assert kept


@pytest.mark.slow
def test_a_fit_of_the_rows_that_are_told_counts_enough_of_them() -> None:
    """`COUNT_MARGIN`: without it half of the fits count too few rows to buy, with it nearly none."""
    eps = rows_that_pay(1.0, "add_remove", 1) / ROWS
    buy = {part: narrowing(part * eps, 0.0, 1, fits=12) for part in (1.0, COUNT_MARGIN)}
    assert buy[1.0] <= 0.75
    assert buy[COUNT_MARGIN] >= 0.8
