"""The exact-density mode against closed forms."""

from __future__ import annotations

import numpy as np
import pytest
from planted import gaussian_delta
from scipy.stats import norm

from dpstats.audit import audit_exact
from dpstats.errors import ArgumentError

WIDE = [(-60.0, 61.0)]


def laplace(centre, scale=1.0):
    return lambda points: -np.abs(points[:, 0] - centre) / scale - np.log(2 * scale)


def normal(centre, sigma):
    centre = np.atleast_1d(centre)
    return lambda points: norm.logpdf(points, centre, sigma).sum(axis=1)


@pytest.mark.parametrize("shift", [0.3, 1.0, 2.0])
def test_laplace_log_ratio_is_the_shift_over_the_scale(shift):
    result = audit_exact(laplace(0), laplace(shift), WIDE, eps=shift)
    assert result.max_log_ratio == pytest.approx(shift, rel=1e-12)
    assert result.passed
    assert not audit_exact(laplace(0), laplace(shift), WIDE, eps=shift * 0.999).passed


@pytest.mark.parametrize(("eps", "shift"), [(0.5, 1.0), (1.0, 1.5), (0.1, 3.0)])
def test_laplace_hockey_stick_is_the_closed_form(eps, shift):
    result = audit_exact(laplace(0), laplace(shift), WIDE, eps=eps, delta=0.1)
    assert result.hockey_stick == pytest.approx(1 - np.exp((eps - shift) / 2), abs=1e-9)
    assert abs(result.hockey_stick - (1 - np.exp((eps - shift) / 2))) <= result.error + 1e-13


@pytest.mark.parametrize(("eps", "mu"), [(1.0, 0.25), (0.5, 1.0), (5.0, 2.0)])
def test_gaussian_hockey_stick_is_the_analytic_profile(eps, mu):
    exact = gaussian_delta(eps, mu)
    result = audit_exact(normal(0, 1 / mu), normal(1, 1 / mu), [(-15 / mu, 1 + 15 / mu)], eps=eps, delta=exact * 1.001)
    assert result.hockey_stick == pytest.approx(exact, abs=1e-10)
    assert result.passed
    assert not audit_exact(
        normal(0, 1 / mu), normal(1, 1 / mu), [(-15 / mu, 1 + 15 / mu)], eps=eps, delta=exact * 0.99
    ).passed


def test_two_dimensions_agree_with_one():
    """A shift of length 1 in any direction has the profile of the one-dimensional Gaussian mechanism."""
    shift = np.array([0.6, 0.8])
    result = audit_exact(normal([0, 0], 1.0), normal(shift, 1.0), [(-8, 9)] * 2, eps=0.5, delta=0.2, tolerance=1e-6)
    assert result.hockey_stick == pytest.approx(gaussian_delta(0.5, 1.0), abs=1e-6)
    assert result.outside < 1e-6


def test_both_directions_count():
    """Half a normal against a whole one: the ratio is 2 one way and unbounded the other."""

    def half(points):
        with np.errstate(divide="ignore"):
            return norm.logpdf(points[:, 0]) + np.log(2.0 * (points[:, 0] > 0))

    for pair in ((half, normal(0, 1.0)), (normal(0, 1.0), half)):
        result = audit_exact(*pair, [(-10, 10)], eps=5, delta=0.1)
        assert result.max_log_ratio == np.inf
        assert result.hockey_stick == pytest.approx(0.5, abs=1e-9)


def test_a_narrow_peak_of_the_ratio_is_climbed():
    """Greatest between grid points: found by the shrinking grids, not by the coarse one."""
    bump = lambda points: norm.logpdf(points[:, 0]) + 0.7 * np.exp(-((points[:, 0] - 0.1234567) ** 2) / 1e-2)  # noqa: E731
    result = audit_exact(bump, normal(0, 1.0), [(-10, 10)], eps=0.69)
    assert result.max_log_ratio == pytest.approx(0.7, abs=1e-12)
    assert result.where[0] == pytest.approx(0.1234567, abs=1e-6)


def test_mass_outside_the_box_is_stated():
    result = audit_exact(laplace(0), laplace(1), [(-3, 3)], eps=1, delta=0.1)
    assert result.outside == pytest.approx(0.5 * (np.exp(-4) + np.exp(-2)), abs=1e-9)


@pytest.mark.parametrize("box", [[], [(0, 1)] * 3, [(1, 0)], [(0, np.inf)]])
def test_boxes_that_cannot_be_integrated_over_are_refused(box):
    with pytest.raises(ArgumentError, match="box"):
        audit_exact(laplace(0), laplace(1), box, eps=1)


def test_a_log_density_that_is_no_number_is_refused():
    with pytest.raises(ArgumentError, match="log density"):
        audit_exact(lambda points: np.full(len(points), np.nan), laplace(1), WIDE, eps=1)


def test_the_summary_fits_a_terminal():
    text = str(audit_exact(laplace(0), laplace(1), WIDE, eps=0.5))
    assert "REFUTED" in text
    assert max(map(len, text.splitlines())) <= 80
