"""What a reader of a summary is told in words: caps, shrinkage, selection, p-values, names."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import dpstats as dp
from dpstats.plan.tables import WIDTH, full_width
from dpstats.results.contrasts import coefficient_cells
from dpstats.results.summary import beyond_normal

DOMAIN = {"x": (0, 1), "z": (0, 1), "y": (0, 8000), "b": (0, 1)}


def rows(size: int = 1000) -> pd.DataFrame:
    rng = np.random.default_rng(4)
    data = pd.DataFrame({"x": rng.uniform(0, 1, size), "z": rng.uniform(0, 1, size)})
    return data.assign(y=1000 + 4000 * data["x"] + rng.normal(0, 100, size), b=(data["x"] > 0.5).astype(int))


def words(fit: Any, **arguments: Any) -> str:
    return " ".join(fit.summary(**arguments).as_text().split())


@pytest.mark.parametrize("full", [False, True])
def test_the_cap_of_residuals_is_said_in_units_of_the_response(full: bool) -> None:
    capped = dp.ols("y ~ x", rows(), 1.0, domain=DOMAIN)
    assert "Residuals beyond 1,000 (residual_cap" in words(capped, full=full)
    assert "Residuals beyond 1,000" in words(capped.plan)
    for other in ({"method": "statistics"}, {"residual_cap": 8000}):
        assert "residual_cap" not in words(dp.ols("y ~ x", rows(), 1.0, domain=DOMAIN, **other), full=full)
    assert "residual_cap" not in words(dp.logit("b ~ x", rows(), 1.0, domain=DOMAIN), full=full)


def test_coefficients_without_errors_are_said_to_be_shrunken() -> None:
    assert "inference=True buys coefficients without it" in words(dp.ols("y ~ x", rows(), 1.0, domain=DOMAIN))
    sparse = words(dp.lasso("y ~ x + z", rows(), 1.0, domain=DOMAIN, alpha=1.0))
    assert "coef is shrunken" in sparse
    assert "inference=True" not in sparse, "a sparse penalty leaves nothing to buy"
    assert "coef is shrunken" not in words(dp.ols("y ~ x", rows(), 1.0, domain=DOMAIN, inference=True))


def test_what_was_kept_is_counted_and_zeros_are_not_noise() -> None:
    fit = dp.lasso("y ~ x + z", rows(), 1.0, domain=DOMAIN, alpha=1e5)
    assert (fit.selection["selected"].sum(), len(fit.selection)) == (1, 3)
    assert "Selection: 1 of 3 columns kept" in words(fit)
    lines = fit.summary().as_text().splitlines()
    assert not any("may be noise" in line for line in lines if line.startswith(("x ", "z ")))
    screened = dp.ols("y ~ x + z", rows(), 1.0, domain=DOMAIN, screen=1)
    assert "Selection: 2 of 3 columns kept" in words(screened)


def test_lost_rows_are_a_reason_for_nothing_identified() -> None:
    fit = dp.logit("b ~ x", rows(50), 0.01, domain=DOMAIN, inference=True)
    assert "dp.check" in words(fit)


def test_p_values_beyond_z_are_explained() -> None:
    assert beyond_normal(np.array([14.4, 0.5]), np.array([0.002, 0.617]))
    assert not beyond_normal(np.array([1.96, 8.0]), np.array([0.05, 0.0004]))
    assert not beyond_normal(np.array([0.0, np.nan]), np.array([0.5, np.nan])), "nothing is tested"


def test_nothing_is_tested_of_what_is_not_identified() -> None:
    assert coefficient_cells([1.0, np.inf, 0.0, 0.54, -np.inf, np.inf])[2:4] == ["", ""]
    assert coefficient_cells([1.0, 0.5, 2.0, 0.046, 0.02, 1.98])[3] == "0.046"


def test_names_are_whole_and_go_on_in_another_line_where_the_page_ends() -> None:
    widths, cells = [9, 9, 8, 6, 11, 11], ["-2.01", "0.11", "-17.67", "0.000", "-2.23", "-1.79"]
    headers = ["coef", "std err", "z", "P>|z|", "[0.025", "0.975]"]
    for name in ("job[T.professional]", "a_rather_long_name_indeed"):
        text = full_width(headers, [(name, cells)], widths).as_text()
        assert name in text
        assert {len(line) for line in text.splitlines()} == {WIDTH}
    for name, narrow in (("n" * 60, True), ("job[T.professional, specialised in something]", False)):
        lines = full_width(headers, [(name, cells)], widths, narrow=narrow).as_text().splitlines()
        assert {len(line) for line in lines} == {WIDTH}
        kept = "".join(lines[3:-1])
        for cell in cells:
            kept = kept.replace(cell, "", 1)
        assert kept.replace(" ", "") == name.replace(" ", "")


def test_an_undeclared_response_of_two_values_is_said_to_be_taken_as_0_or_1(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    domain = {"x": (0, 1)}
    said = "b is not declared: it is taken as 0 or 1, and rows of any other code are left out"
    fit = dp.logit("b ~ x", rows().assign(b=1 + rows()["b"]), 1.0, domain=domain)
    assert said in caplog.text
    fit.save(tmp_path / "fit.json")
    for shown in (fit, dp.GLMResults.load(tmp_path / "fit.json")):
        assert said in words(shown)
        assert words(shown, full=True).count(said) == 1
    assert words(dp.plan("b ~ x", domain, 1.0, family="binomial")).count(said) == 1
    assert said in words(dp.logit("b ~ x + z", rows(), 1.0, domain=domain)), "a range was bought"
    for other in (rows().astype({"b": bool}), rows()):
        known = domain if other["b"].dtype == bool else DOMAIN
        assert said not in words(dp.logit("b ~ x", other, 1.0, domain=known))


def test_the_cap_of_a_fit_is_what_the_argument_takes() -> None:
    fit = dp.ols("y ~ x", rows(), 1.0, domain=DOMAIN)
    assert fit.family == dp.families.Gaussian(residual_cap=1000.0)
    again = dp.ols("y ~ x", rows(), 1.0, domain=DOMAIN, residual_cap=fit.family.residual_cap)
    assert again.plan.family == fit.plan.family


def test_an_estimate_belongs_to_its_error() -> None:
    fit = dp.ols("y ~ x", rows(), 1.0, domain=DOMAIN, inference=True)
    tidy = fit.tidy()
    np.testing.assert_array_equal(tidy["estimate"], fit.debiased)
    np.testing.assert_array_equal(tidy["released"], fit.params)
    np.testing.assert_allclose(tidy["estimate"] / tidy["std_error"], tidy["statistic"])
    plain = dp.ols("y ~ x", rows(), 1.0, domain=DOMAIN).tidy()
    assert list(plain) == ["term", "estimate", "released", "scaled_released", "noise_at_most"]
