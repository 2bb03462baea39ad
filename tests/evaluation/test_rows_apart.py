"""Rows that lie apart from the rest of a range, of which `dpstats.check` has counts by part alone."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from numpy.typing import NDArray

import dpstats as dp
from dpstats.evaluation.column_histograms import heap_beyond, parts_apart

Ends = tuple[float, float]


def findings(x: NDArray[np.float64], ends: Ends, eps: float, seed: int, **given: str) -> list[str]:
    rows = pd.DataFrame({"y": np.arange(len(x)) % 2, "x": x})
    how = {"formula": "y ~ x", "family": "binomial", **given}
    return dp.check(data=rows, domain={"y": (0, 1), "x": ends}, eps=eps, seed=seed, **how).findings  # type: ignore[arg-type]


def tells_apart(texts: list[str]) -> bool:
    return any("lie apart from these" in text or "a group by itself" in text for text in texts)


def coded_ages(code: float, share: float, rows: int, seed: int = 12) -> NDArray[np.float64]:
    random = np.random.default_rng(seed)
    return np.where(random.random(rows) < share, code, random.integers(18, 66, rows))


CODES = [
    (88, (0, 100), "between 87.5 and 100"),
    (888, (0, 1000), "between 875 and 1000"),
    (777, (0, 999), "between 749.25 and 874.125"),
    (-7, (-10, 100), "between -10 and 3.75"),
    (-1, (-1, 70), "between -1 and 7.875"),
]


@pytest.mark.parametrize(("code", "ends", "place"), CODES)
@pytest.mark.parametrize("share", [0.03, 0.08, 0.2])
def test_a_code_that_no_check_tries_is_told_with_its_rows(code: float, ends: Ends, place: str, share: float) -> None:
    """In eight hundredths of the rows it was never told, and the report had no word of it."""
    for seed in range(4):
        (text,) = findings(coded_ages(code, share, 20_000), ends, 0.1, seed)
        assert place in text
        assert tells_apart([text])
        assert "declare the range without it, " in text
        told = re.search(r"[Aa]bout ([\d,]+)(?: rows)? \(s\.d\. (\d+)\)", text)
        assert told is not None
        assert float(told[1].replace(",", "")) == pytest.approx(20_000 * share, abs=5 * float(told[2]) + 80)
    (text,) = findings(coded_ages(code, share, 20_000), ends, 0.1, 1, formula="x ~ y", family="gaussian")
    assert "make these cells missing" in text or "make it missing before the call" in text
    assert "declare the range without it" not in text


def test_two_codes_side_by_side_are_told_together_and_codes_at_both_ends_by_themselves() -> None:
    random = np.random.default_rng(13)
    ages, part = random.integers(18, 60, 20_000).astype(float), random.random(20_000)
    both = np.select([part < 0.05, part < 0.1], [77, 88], ages)
    (text,) = findings(both, (0, 100), 0.5, 1)
    assert (
        "are without a fault and have `x` between 75 and 100, and hardly any row lies between them and the others"
        in text
    )
    low, high = findings(np.select([part < 0.05, part < 0.1], [-8, 88], ages), (-10, 100), 0.5, 1)
    assert "between -10 and 3.75" in low
    assert "between 86.25 and 100" in high


def test_a_code_of_a_count_is_told_before_what_limits_the_count() -> None:
    random = np.random.default_rng(13)
    counts = np.where(random.random(20_000) < 0.03, 88.0, random.poisson(2.0, 20_000))
    rows = pd.DataFrame({"x": np.arange(20_000) % 2, "y": counts})
    domain = {"x": (0, 1), "y": (0, 100)}
    (text,) = dp.check("y ~ x", rows, domain, 0.5, family="poisson", seed=1).findings
    assert "lie apart from these, between 87.5 and 100. If they have a code for missing, make these cells" in text


def top_coded(random: np.random.Generator, rows: int) -> NDArray[np.float64]:
    return np.minimum(random.lognormal(10.3, 1.0, rows), 150_000)


def heaped(random: np.random.Generator, rows: int) -> NDArray[np.float64]:
    ages = np.clip(random.normal(45, 18, rows), 0, 95).round()
    return np.where(random.random(rows) < 0.4, np.round(ages / 5) * 5, ages)


def two_modes(random: np.random.Generator, rows: int) -> NDArray[np.float64]:
    return np.where(random.random(rows) < 0.15, random.normal(70, 9, rows), random.normal(35, 9, rows)).clip(0, 100)


HONEST: dict[str, tuple[Callable[[np.random.Generator, int], NDArray[np.float64]], Ends]] = {
    "incomes": (lambda random, rows: random.lognormal(10, 0.8, rows).clip(0, 200_000), (0, 200_000)),
    "incomes with a highest one": (top_coded, (0, 150_000)),
    "exponential": (lambda random, rows: random.exponential(25, rows).clip(0, 300), (0, 300)),
    "costs": (lambda random, rows: random.gamma(0.4, 4_000, rows).clip(0, 60_000), (0, 60_000)),
    "counts": (
        lambda random, rows: (random.negative_binomial(2, 0.1, rows) * (random.random(rows) < 0.6)).clip(0, 120),
        (0, 120),
    ),
    "two modes": (two_modes, (0, 100)),
    "heaped ages": (heaped, (0, 100)),
    "ages up to 90": (lambda random, rows: np.minimum(random.normal(50, 18, rows).clip(18, 120).round(), 90), (18, 90)),
    "five values": (lambda random, rows: 25.0 * random.choice(5, rows, p=[0.1, 0.2, 0.3, 0.3, 0.1]), (0, 100)),
}


@pytest.mark.parametrize("kind", HONEST)
def test_honest_skewed_numbers_have_no_rows_apart(kind: str) -> None:
    draw, ends = HONEST[kind]
    for rows, eps in ((2_000, 0.1), (2_000, 1.0), (20_000, 0.1), (20_000, 1.0)):
        for seed in range(3):
            assert not tells_apart(findings(draw(np.random.default_rng(seed), rows), ends, eps, seed))


def rate(shares: tuple[float, ...], heap: float, *, draws: int = 400) -> float:
    """How often rows are told apart where the heap has so many standard deviations of the noise in a count."""
    random, told = np.random.default_rng(3), 0
    for _ in range(draws):
        counts = heap * np.array(shares) + random.laplace(0, 2**-0.5, 8)
        told += bool(parts_apart(1e6 * counts, 1e6, 4.0))  # so many rows that chance is nothing beside noise
    return told / draws


def in_valley(rest: float) -> tuple[float, ...]:
    """A tenth of the rows in one part, beyond one that has `rest` times as many; no part beyond has any."""
    return (1.5, 3.0, 3.0, 1.5, rest, 1.0, 0.0, 0.0)


def test_rows_apart_are_told_where_the_counts_show_it_and_a_valley_is_no_gap() -> None:
    """The heap has at least nine standard deviations more than an empty part: half of it four and a half."""
    assert rate(in_valley(0.0), 12) >= 0.88
    assert rate(in_valley(0.0), 7) <= 0.04  # by counts of more noise hardly any: `CERTAINLY_FEWER`
    assert rate(in_valley(0.05), 20) >= 0.9  # a few rows between: `EMPTY`
    assert max(rate(in_valley(0.3), heap) for heap in (7, 9, 12, 20, 60)) <= 0.05
    assert rate(in_valley(0.2), 60) <= 0.02


def test_a_large_group_is_no_code() -> None:
    """`MOST_APART`: of two groups with a fifth and four fifths the small one is told, of a third none."""
    assert rate((2.0, 1.0, 1.0, 0.0, 1.0, 0.0, 0.0, 0.0), 40) >= 0.95
    assert rate((1.0, 0.5, 0.5, 0.0, 1.0, 0.0, 0.0, 0.0), 40) == 0.0


def test_a_heap_has_rows_of_its_own() -> None:
    """A count of 13 (s.d. 38) was told as rows that lie apart, because noise made the count beside it negative."""
    counts = np.array([9_000.0, 500.0, -210.0, 13.0, 0.0, 0.0, 0.0, 0.0])
    assert heap_beyond(counts, range(2), 38.0, 4.0) is None
    assert heap_beyond(counts + np.array([0, 0, 0, 300, 0, 0, 0, 0]), range(2), 38.0, 4.0) == 3
    steps = np.array([9_000.0, 0.0, 0.0, 140.0, 280.0, 0.0, 0.0, 0.0])
    assert heap_beyond(steps, range(1), 30.0, 4.0) == 4  # two rises, neither of which is enough


def test_rows_apart_that_noise_may_have_made_say_so() -> None:
    """At eps .05 about 1,634 rows (s.d. 264) were told where no row lies, without a word of noise."""
    rows = pd.DataFrame({"y": np.arange(20_000) % 2, "x": np.arange(20_000) % 10})
    check = dp.check("y ~ x", rows, {"y": (0, 1), "x": (0, 100)}, 0.05, family="binomial", seed=1)
    for deviations, doubted in ((7.7, True), (8.1, False)):
        at = np.where(np.arange(len(check.at)) == 2 + 6, deviations * check.place_err, 0.0)
        at[2] = check.counts[0]  # after the two levels of y
        (text,) = replace(check, at=at).findings
        assert "lie apart from these, between 75 and 87.5" in text
        assert ("Noise alone finds such rows in up to 2 of 100 checks. Check again to confirm it." in text) == doubted


@pytest.mark.parametrize(("width", "tail"), [(12.5, 0.045), (25, 0.045), (25, 0.03)])
def test_parts_of_a_long_tail_differ_by_chance(width: float, tail: float) -> None:
    """Of an even tail one part has some rows more than the next: that is no noise, and it was told as rows apart."""
    for seed in range(5):
        random = np.random.default_rng(seed)
        even, rest = random.uniform(0.1, width, 20_000), random.uniform(width, 100, 20_000)
        (text,) = findings(np.where(random.random(20_000) < tail, rest, even), (0, 100), 1.0, seed)
        assert not tells_apart([text])
    few = np.array([20_000.0, 900.0, 80.0, 9.0, 0.0, 0.0, 12.0, 0.0])
    assert parts_apart(few, 0.01, 4.0) == []
    assert parts_apart(few + np.array([0, 0, 0, 0, 0, 0, 12, 0]), 0.01, 4.0) == [range(6, 7)]


@pytest.mark.slow
def test_nearly_all_checks_tell_a_code_and_hardly_any_blames_honest_numbers() -> None:
    """Of 150 checks with a code 146 tell it, and of 270 of honest numbers none tells of rows apart."""
    told = [
        tells_apart(findings(coded_ages(code, share, 20_000, seed), ends, 0.1, seed))
        for code, ends, _ in CODES
        for share in (0.03, 0.15)
        for seed in range(15)
    ]
    assert sum(told) >= 143
    blamed = [
        tells_apart(findings(draw(np.random.default_rng(seed), 4_000), ends, 0.3, seed))
        for draw, ends in HONEST.values()
        for seed in range(30)
    ]
    assert sum(blamed) <= 2
