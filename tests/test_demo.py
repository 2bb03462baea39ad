"""The demonstration: one certified fit, a table of 80 columns."""

from __future__ import annotations

import pytest

from dpstats.api import plan
from dpstats.cli.main import EPS, fit_adult, main
from dpstats.datasets import load_adult

WIDE = (
    "income ~ age + education_num + marital_status + occupation + relationship + race + sex "
    "+ np.log1p(capital_gain) + np.log1p(capital_loss) + hours_per_week"
)


def test_demo_prints_a_summary_of_80_columns(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["demo"]) == 0
    printed = capsys.readouterr().out
    assert "Certified: 1-differentially private" in printed
    assert "Pr(income = >50K); logit link; rows: about 3" in printed
    assert "(s.d. 141)" in printed
    assert max(map(len, printed.splitlines())) <= 80


def test_the_noise_of_a_wide_model_is_cut_to_its_design() -> None:
    """A norm of the whole row would cost 562 (l1), or 1,286 (l2), at the same budget."""
    planned = plan(WIDE, load_adult().domain, EPS, family="binomial", check_share=0, fitstats=None)
    assert planned.noise.norm == "design"
    assert float((planned.noise_sd**2).sum()) <= 221
    assert planned.noise_sd["marital_status[T.Divorced]"] < planned.noise_sd["Intercept"]


def test_demo_spends_what_it_says_and_learns_something() -> None:
    """Unseeded: estimates stand more than four standard errors from the marks, and nearly every level is identified."""
    fit = fit_adult()
    assert fit.guarantee.certified
    assert fit.guarantee.eps == EPS
    assert 0.3 < fit.debiased["education_num"] < 0.45
    assert fit.debiased["marital_status[T.Never-married]"] < -2
    assert (fit.pvalues.drop(["sex[T.Male]", "marital_status[T.Married-AF-spouse]"]) < 0.05).sum() >= 8
