"""The demonstration: one certified fit, a table of 80 columns."""

from __future__ import annotations

import pytest

from dpstats.demo import EPS, fit_adult, main


def test_demo_prints_a_summary_of_80_columns(capsys: pytest.CaptureFixture[str]) -> None:
    main()
    printed = capsys.readouterr().out
    assert "Certified:                           yes" in printed
    assert "No. Observations:                private" in printed
    assert max(map(len, printed.splitlines())) <= 80


def test_demo_spends_what_it_says_and_learns_something() -> None:
    """Unseeded: at eps = 1 both coefficients stand more than nine standard deviations from the marks."""
    fit = fit_adult()
    assert fit.guarantee.certified
    assert fit.guarantee.eps == EPS
    assert 0.1 < fit.params["education_num"] < 0.5
    assert fit.params["marital_status[T.Never-married]"] < 0
