"""Joint (eps, delta) of coefficients and information: exact hockey-stick integrals and limits. Nothing is drawn."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import ClassVar

import numpy as np
import pytest
from joint_density import Released
from scipy import integrate, stats

from dpstats.audit.exact import audit_exact
from dpstats.errors import ArgumentError
from dpstats.families import Binomial, Family, Gaussian, NegativeBinomial, Poisson, SmoothSVM
from dpstats.privacy.calibration import joint_scale
from dpstats.privacy.information import best_joint_scales_delta, joint_scales_delta
from dpstats.privacy.information.joint_gaussian import joint_profile
from dpstats.privacy.noise import Noise

EPS, DELTA = 1.0, 1e-3


def hockey_stick(family: Family, adjacency: str, kappa: float, scale: float, matrix: float) -> float:
    """The greatest integral over a few pulls of the noise, one column, both orders."""
    most = 0.0
    first_response, second_response = {"continuous": (0.0, 9.0), "count": (0.0, 4.0), "binary": (0.0, 1.0)}[
        family.response
    ]
    for pull in (-2.0, 2.0, 3.5, -3.5):
        base = Released(
            family,
            np.ones((1, 1)),
            np.array([first_response]),
            np.array([1 / kappa]),
            Noise("gaussian", "l2", scale),
            matrix,
            1.0,
            np.array([pull * scale]),
        )
        removed = replace(base, exog=np.empty((0, 1)), endog=np.empty(0))
        other = removed if adjacency == "add_remove" else replace(base, endog=np.array([second_response]))
        box = [*base.fit.box(6 * scale), (-6 * matrix, 6 * matrix + family.curvature_bound)]
        result = audit_exact(
            base.log_density, other.log_density, box, eps=EPS, delta=DELTA, tolerance=1e-6, max_cells=1500
        )
        most = max(most, result.hockey_stick - result.error)
    return most


@pytest.mark.slow
@pytest.mark.parametrize("ratio", [1.0, 6.0])
@pytest.mark.parametrize("adjacency", ["add_remove", "replace_one"])
@pytest.mark.parametrize(
    "family", [Binomial(), Gaussian(0.5), Poisson(1.0, 4.0), NegativeBinomial(0.5, 4.0), SmoothSVM(0.2)], ids=repr
)
def test_exact_integral_keeps_delta(family: Family, adjacency: str, ratio: float) -> None:
    kappa, ratio = 0.1 / family.curvature_bound, ratio * family.lipschitz / family.curvature_bound
    fit, matrix = joint_scales_delta(
        family, eps=EPS, delta=DELTA, curvature_ratio=kappa, row_norm=1.0, ratio=ratio, adjacency=adjacency
    )
    assert hockey_stick(family, adjacency, kappa, fit, matrix) <= DELTA
    if adjacency == "add_remove" and isinstance(family, Gaussian):
        assert hockey_stick(family, adjacency, kappa, 0.7 * fit, 0.7 * matrix) > DELTA


def test_one_cell_against_the_analytic_mechanism() -> None:
    """Squared loss: one corner, two normal noises: as one with mu^2 = mu1^2 + mu2^2, less log(1 + kappa) of eps."""
    family, kappa = Gaussian(0.5), 0.1
    profile = joint_profile(family, eps=EPS, delta=1e-5, curvature_ratio=kappa)
    for mu, inverse in ((0.2, 0.1), (0.1, 0.25), (0.25, 0.02)):
        both, left = math.hypot(mu, inverse), EPS - math.log1p(kappa)
        exact = stats.norm.sf(left / both - both / 2) - math.exp(left) * stats.norm.sf(left / both + both / 2)
        assert exact <= profile.bound(mu, inverse) * (1 + 1e-9)
        # The supremum over w, B for negative u or v, and |u| for the insertion, add a little.
        assert profile.bound(mu, inverse) <= 2.5 * exact


def test_bound_against_quadrature() -> None:
    """The two-dimensional expectation for logistic regression by a fine sum."""
    kappa, mu, inverse, eps = 0.4, 0.28, 0.5, 1.0
    profile = joint_profile("binomial", eps=eps, delta=1e-5, curvature_ratio=kappa)
    p = np.linspace(0, 1, 401)
    h = np.where(p < 0.5, 0.25, p * (1 - p))
    nodes = np.linspace(-7, 7, 401)
    total = np.zeros((len(nodes), len(nodes)))
    for index, v in enumerate(nodes):
        tilt = np.maximum(0.0, inverse * h * v + (inverse * h) ** 2 / 2)
        plane = np.log1p(kappa * h) + tilt
        lines = np.maximum(plane.max(), (plane + (mu * p) ** 2 / 2)[:, None] + mu * np.outer(p, nodes)).max(axis=0)
        total[index] = np.maximum(0, -np.expm1(eps - lines)) * stats.norm.pdf(nodes) * stats.norm.pdf(v)
    exact = integrate.trapezoid(integrate.trapezoid(total, nodes), nodes)
    assert exact * (1 - 1e-3) <= profile.bound(mu, inverse) <= exact * 1.02


class TestLimits:
    @pytest.mark.parametrize("law", ["normal", "wishart"])
    @pytest.mark.parametrize("adjacency", ["add_remove", "replace_one"])
    def test_little_information_is_the_fit_alone(self, law: str, adjacency: str) -> None:
        common = {"eps": 1.0, "delta": 1e-5, "curvature_ratio": 0.5, "row_norm": 1.0, "adjacency": adjacency}
        alone = joint_scale("binomial", **common)  # type: ignore[arg-type]
        fit, matrix = joint_scales_delta("binomial", ratio=1e-3, law=law, **common)  # type: ignore[arg-type]
        assert alone <= fit <= alone * 1.001
        assert matrix == pytest.approx(fit * 1e3)
        assert joint_scales_delta("binomial", ratio=0, law=law, **common).fit == pytest.approx(alone)  # type: ignore[arg-type]

    def test_more_information_costs_more(self) -> None:
        common = {"eps": 1.0, "delta": 1e-5, "curvature_ratio": 0.2, "row_norm": 1.0}
        for law in ("normal", "wishart"):
            fits = [joint_scales_delta("binomial", ratio=ratio, law=law, **common).fit for ratio in (1, 8, 16)]  # type: ignore[arg-type]
            assert fits[0] <= fits[1] * (1 + 2e-4)
            assert fits[1] < fits[2]

    def test_nearly_free_beside_wishart_noise(self) -> None:
        """A loss above eps has a gradient term above eps at p = 1: 1 / s2 of nine tenths of eps - kappa is free."""
        kappa, eps, common = 0.3, 1.0, {"delta": 1e-6, "row_norm": 1.0}
        alone = joint_scale("binomial", eps=eps, curvature_ratio=kappa, **common)
        fit, matrix = joint_scales_delta(
            "binomial", eps=eps, curvature_ratio=kappa, ratio=0.9 * (eps - kappa) * alone, law="wishart", **common
        )
        assert fit <= alone * 1.001
        assert 1 / matrix > 0.89 * (eps - kappa)

    def test_figures_of_the_page(self) -> None:
        common = {"eps": 1.0, "delta": 1e-5, "curvature_ratio": 0.1, "row_norm": 1.0}
        for law, adjacency, inverse, low, high in (
            ("wishart", "add_remove", 0.9, 1.0, 1.001),
            ("wishart", "replace_one", 0.5, 1.0, 1.005),
            ("normal", "add_remove", 0.87, 1.05, 1.1),
        ):
            alone = joint_scale("binomial", adjacency=adjacency, **common)  # type: ignore[arg-type]
            ratio = inverse * alone * (1.07 if law == "normal" else 1.0)
            scales = joint_scales_delta("binomial", ratio=ratio, law=law, adjacency=adjacency, **common)  # type: ignore[arg-type]
            assert low <= scales.fit / alone <= high
            assert 1 / scales.matrix == pytest.approx(inverse, rel=0.02)

    def test_no_curvature(self) -> None:
        scales = joint_scales_delta("binomial", eps=0.1, delta=1e-6, curvature_ratio=10, row_norm=1, ratio=1)
        assert math.isinf(scales.fit)


@pytest.mark.slow
def test_planted_matrix_not_charged() -> None:
    """The matrix released beside a fit that has all of (eps, delta)."""
    family, kappa = Gaussian(0.5), 0.1
    alone = joint_scale(family, eps=EPS, delta=DELTA, curvature_ratio=kappa, row_norm=1.0)
    assert hockey_stick(family, "add_remove", kappa, alone, alone) > DELTA


class TestChoice:
    COMMON: ClassVar = {"curvature_ratio": 0.1, "row_norm": 1.0}

    @pytest.mark.slow
    @pytest.mark.parametrize("adjacency", ["add_remove", "replace_one"])
    def test_exact_integral_keeps_delta(self, adjacency: str) -> None:
        """Of the pair chosen, with normal matrix noise; and not of one whose matrix noise is a quarter of it."""
        choice = best_joint_scales_delta(
            "binomial", eps=EPS, delta=DELTA, size=6, surcharge=0.05, adjacency=adjacency, **self.COMMON
        )
        assert choice.law == "normal"
        assert hockey_stick(Binomial(), adjacency, 0.1, *choice.scales) <= DELTA
        if adjacency == "add_remove":
            assert hockey_stick(Binomial(), adjacency, 0.1, choice.scales.fit, choice.scales.matrix / 4) > DELTA

    def test_law_by_size(self) -> None:
        """Normal noise from a handful of columns on: its entries do not grow with the matrix."""
        found = [
            best_joint_scales_delta("binomial", eps=1.0, delta=1e-6, size=size, surcharge=0.01, **self.COMMON)
            for size in (1, 30, 100)
        ]
        assert [choice.law for choice in found] == ["wishart", "normal", "normal"]
        assert found[0].entry_variance < found[1].entry_variance == found[2].entry_variance

    @pytest.mark.slow
    @pytest.mark.parametrize("adjacency", ["add_remove", "replace_one"])
    def test_surcharge_is_kept_and_pays(self, adjacency: str) -> None:
        common = self.COMMON | {"eps": 0.5, "delta": 1e-6, "adjacency": adjacency}
        alone = joint_scale("binomial", **common)  # type: ignore[arg-type]
        found = [
            best_joint_scales_delta("binomial", size=8, surcharge=extra, **common)  # type: ignore[arg-type]
            for extra in (0.003, 0.03, 0.3)
        ]
        for choice, extra in zip(found, (0.003, 0.03, 0.3), strict=True):
            assert choice.scales.fit == pytest.approx((1 + extra) * alone, rel=1e-4)
        assert found[0].entry_variance > found[1].entry_variance > found[2].entry_variance
        again = joint_scales_delta(
            "binomial", ratio=found[1].scales.fit / found[1].scales.matrix, law=found[1].law, **common
        )
        assert again.fit == pytest.approx(found[1].scales.fit, rel=5e-3)

    def test_few_shares_are_as_good(self) -> None:
        profile = joint_profile("binomial", eps=1.0, delta=1e-5, curvature_ratio=0.1, adjacency="replace_one")
        mu, inverse = 0.13, 0.25
        few = profile.near(0.9 * mu, 0.9 * inverse)
        assert len(few.shares) <= 5
        assert profile.bound(mu, inverse) <= few.bound(mu, inverse) <= 1.02 * profile.bound(mu, inverse)

    def test_no_curvature_and_errors(self) -> None:
        none = best_joint_scales_delta("binomial", eps=0.1, delta=1e-6, size=3, curvature_ratio=10, row_norm=1)
        assert math.isinf(none.scales.fit)
        for wrong in ({"size": 0}, {"size": 3, "surcharge": 0.0}, {"size": 3, "delta": 0.0}):
            with pytest.raises(ArgumentError):
                best_joint_scales_delta("binomial", **({"eps": 1.0, "delta": 1e-6} | self.COMMON | wrong))  # type: ignore[arg-type]
