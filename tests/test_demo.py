"""The demonstration: one certified fit, a table of 80 columns."""

from __future__ import annotations

import pytest

from dpstats.api import plan
from dpstats.datasets import load_adult
from dpstats.demo import EPS, FORMULA, fit_adult, main


def test_demo_prints_a_summary_of_80_columns(capsys: pytest.CaptureFixture[str]) -> None:
    main()
    printed = capsys.readouterr().out
    assert "Certified: 1-differentially private" in printed
    assert "Pr(income = >50K); logit link; rows: private" in printed
    assert max(map(len, printed.splitlines())) <= 80


def test_the_demos_noise_is_cut_to_its_design() -> None:
    """A norm of the whole row would cost 562 (l1), or 1,286 (l2), at the same budget."""
    planned = plan(FORMULA, load_adult().domain, EPS, family="binomial")
    assert planned.noise.norm == "design"
    assert float((planned.noise_sd**2).sum()) <= 221
    assert planned.noise_sd["marital_status[T.Divorced]"] < planned.noise_sd["Intercept"]


def test_demo_spends_what_it_says_and_learns_something() -> None:
    """Unseeded: at eps = 1 both coefficients stand more than nine standard deviations from the marks."""
    fit = fit_adult()
    assert fit.guarantee.certified
    assert fit.guarantee.eps == EPS
    assert 0.1 < fit.params["education_num"] < 0.5
    assert fit.params["marital_status[T.Never-married]"] < 0
