"""The rounded pinball loss: what it is of the response, what is free beside it, and planted errors; deterministic."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from scipy import integrate, special

from dpstats.errors import ArgumentError
from dpstats.families import Quantile
from dpstats.families.base import one_cell
from dpstats.families.quantile import default_width
from dpstats.privacy.calibration import joint_loss, joint_scale
from dpstats.privacy.information import headroom

ETA = np.linspace(-40, 40, 80_001)


def pinball(residual: np.ndarray, q: float) -> np.ndarray:
    return np.maximum(q * residual, (q - 1) * residual)


def log_density(family: Quantile, theta: np.ndarray, curvature: float, scale: float, *, row: bool) -> np.ndarray:
    """Of the optimum of one row (1, y = 0) or of none, with Laplace noise of a scale; shape of theta."""
    _, slope, bend = family.derivatives(theta, np.zeros_like(theta))
    noise = -curvature * theta - (slope if row else 0.0)
    return np.asarray(np.log(curvature + (bend if row else 0.0)) - np.abs(noise) / scale)


@pytest.mark.parametrize("q", [0.1, 0.5, 0.75])
def test_it_is_the_pinball_loss_of_a_shifted_response(q: float) -> None:
    """And exceeds that of the response by at most h log 2; the code leaves out what it is at 0."""
    family, eta = Quantile(q, 0.5), np.linspace(-3, 3, 11)
    found = family.derivatives(eta, np.full_like(eta, 0.7)).value
    shifts = special.logit((np.arange(20_000) + 0.5) / 20_000) * 0.5
    exact = np.array([pinball(0.7 + shifts - one, q).mean() for one in [*eta, 0.0]])
    assert found == pytest.approx(exact[:-1] - exact[-1], abs=3e-4)
    narrow = Quantile(q, 1e-3).derivatives(eta, np.full_like(eta, 0.7)).value
    assert narrow == pytest.approx(pinball(0.7 - eta, q) - pinball(np.array(0.7), q), abs=1e-3 * math.log(2))


def test_a_response_far_off_leaves_every_digit() -> None:
    eta = np.array([0.1, 0.2])
    for far, slope in ((1e300, -0.3), (-1e300, 0.7)):
        found = Quantile(0.3, 1e-3).derivatives(eta, np.full(2, far))
        assert found.value == pytest.approx(slope * eta, rel=1e-15)
        assert found.gradient == pytest.approx(slope)


@pytest.mark.parametrize("q", [0.02, 0.3, 0.5, 0.9])
def test_the_information_is_free_up_to_h(q: float) -> None:
    """(L - |l'|) / l'' is at least h on all of the curve, and comes near it at its end."""
    family = Quantile(q, 0.25)
    _, slope, bend = family.derivatives(ETA / 4, np.zeros_like(ETA))
    inside = bend > 1e-9
    quotient = (family.lipschitz - np.abs(slope[inside])) / bend[inside]
    assert headroom(family) == 0.25
    assert quotient.min() == pytest.approx(0.25, rel=1e-4)
    assert quotient.min() > 0.25 * (1 - 1e-6)


@pytest.mark.parametrize(("q", "logistic", "parabola"), [(0.5, 0.5, 0.6436), (0.9, 0.9220, 1.1585)])
def test_scales_of_the_proof_page(q: float, logistic: float, parabola: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """A parabola over +-.25, and the logistic corner that moves quantiles as much."""
    common = {"eps": 1.0, "curvature_ratio": 1 / 8, "row_norm": 1.0}
    assert joint_scale(Quantile(q, 0.25 / math.pi), **common) == pytest.approx(logistic, abs=1e-4)
    monkeypatch.setattr(Quantile, "curve", lambda self, size=1000: one_cell(self.lipschitz, 0.5 / 0.25))
    assert joint_scale(Quantile(q, 0.25 / math.pi), **common) == pytest.approx(parabola, abs=1e-4)


class TestPlantedErrors:
    @pytest.mark.parametrize("q", [0.1, 0.9])
    def test_half_for_the_slope_at_every_quantile(self, q: float, monkeypatch: pytest.MonkeyPatch) -> None:
        """The exact density ratio of one row more or less keeps to eps, and does not with half the slope."""
        family, curvature, worst = Quantile(q, 0.05), 20.0, []
        for planted in (False, True):
            if planted:
                halved = replace(family, q=0.5).curve(100_000)
                monkeypatch.setattr(Quantile, "curve", lambda self, size, planted=halved: planted)
            scale = joint_scale(family, eps=1.0, curvature_ratio=1 / curvature, row_norm=1.0)
            theta = np.linspace(-3, 3, 20_001)
            pair = [log_density(family, theta, curvature, scale, row=row) for row in (True, False)]
            worst.append(float(np.abs(pair[0] - pair[1]).max()))
        assert 0.99 < worst[0] <= 1 + 1e-9
        assert worst[1] > 1.5

    def test_a_loss_that_is_called_signed(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Normal noise of deviation 2 beside the median: both sides of y count, twice what a signed loss has."""
        sigma, m, h = 2.0, 1e-3, 1e-3
        family = Quantile(0.5, h)

        def excess(theta: float) -> float:
            point = np.array([theta])
            slope, bend = (float(part[0]) for part in family.derivatives(point, np.zeros(1))[1:])
            absent = m * math.exp(-((m * theta) ** 2) / (2 * sigma**2))
            present = (m + bend) * math.exp(-((m * theta + slope) ** 2) / (2 * sigma**2))
            return max(absent - math.e * present, 0.0) / (sigma * math.sqrt(2 * math.pi))

        far = 12 * sigma / m
        exact = 2 * integrate.quad(excess, 1.0, far, points=[6e3, 8e3, 9e3], limit=200)[0]
        assert exact == pytest.approx(5.8485e-6, rel=1e-3)
        law = {"scale": sigma, "row_norm": 1.0, "curvature_ratio": 1e-9, "kind": "gaussian"}
        assert joint_loss(family, delta=exact * 0.999, **law) > 1
        monkeypatch.setattr(Quantile, "signed", True)
        assert joint_loss(family, delta=exact * 0.999, **law) < 0.99


def test_the_default_width_falls_with_the_rows() -> None:
    usual = default_width(0.5)
    assert default_width(0.5, 1e4) == usual
    assert default_width(0.5, 4e4) == pytest.approx(usual / 2)
    assert default_width(0.5, 1.0) == default_width(0.5, -3.0) == pytest.approx(1.25 * usual)
    assert default_width(0.9) == pytest.approx(0.6 * usual)
    assert Quantile().resolve((-2.0, 2.0)).h == pytest.approx(2 * usual)


@pytest.mark.parametrize("value", [0, 1, -0.5, 2.0, "median", None, True, float("nan")])
def test_quantiles_that_are_none(value: object) -> None:
    with pytest.raises(ArgumentError, match=r"q must be a number from 0\.0001 to 0\.9999"):
        Quantile(value)  # type: ignore[arg-type]


@pytest.mark.parametrize("value", [0.0, -1.0, "wide", float("inf")])
def test_widths_that_are_none(value: object) -> None:
    with pytest.raises(ArgumentError, match="h must be a positive number"):
        Quantile(0.5, value)  # type: ignore[arg-type]
