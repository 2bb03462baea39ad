"""Gaussian calibration where floating-point numbers end, against arithmetic of 400 digits; deterministic."""

from __future__ import annotations

import math
from typing import Any

import mpmath as mp
import numpy as np
import pytest

import dpstats as dp
from dpstats.errors import ArgumentError
from dpstats.families import Binomial, Family, Gaussian, HuberSVM
from dpstats.privacy.calibration import joint_loss, joint_scale, objective_noise
from dpstats.privacy.gaussian import SPLITS, insertion
from dpstats.privacy.guarantee import DELTA_MIN

LOGISTIC, HUBER, SQUARED = Binomial(), HuberSVM(0.5), Gaussian(2.0)


@pytest.fixture(autouse=True)
def digits() -> Any:
    """Enough to subtract numbers that agree in 300."""
    with mp.workdps(400):
        yield


def profile(eps: Any, mu: Any) -> Any:
    """P(u > eps / mu - mu / 2) - exp(eps) P(u > eps / mu + mu / 2)."""
    return mp.ncdf(mu / 2 - eps / mu) - mp.exp(eps) * mp.ncdf(-mu / 2 - eps / mu)


def insert(eps: Any, mu: Any, signed: bool) -> Any:
    if signed:
        return profile(eps, mu)
    return 2 * profile(eps, mu) if eps >= mu**2 / 2 else 1 - 2 * mp.exp(eps) * mp.ncdf(-mu)


def remove_at_a_corner(eps: Any, mu: Any, cost: Any) -> Any:
    """Curves with a point at which gradient and curvature are both greatest, log(1 + kappa h) = cost there."""
    return profile(eps - cost, mu) if eps >= cost else 1 - 2 * mp.exp(eps - cost) * mp.ncdf(-mu / 2)


def remove_logistic(eps: Any, mu: Any, kappa: Any) -> Any:
    """g(u) is the supremum over p of log(1 + kappa p (1 - p)) + p mu u + (p mu)^2 / 2; it exceeds eps at u > 0 only."""

    def g(u: Any) -> Any:
        def rate(p: Any) -> Any:
            return kappa * (1 - 2 * p) / (1 + kappa * p * (1 - p)) + mu * u + p * mu**2

        # At a maximum half of the digits of p give all of those of g.
        p = mp.mpf(1) if rate(mp.mpf(1)) >= 0 else halve(lambda p: rate(p) > 0, mp.mpf("0.5"), mp.mpf(1), steps=65)
        return mp.log1p(kappa * p * (1 - p)) + p * mu * u + (p * mu) ** 2 / 2

    with mp.workdps(40):
        assert g(mp.mpf(0)) < eps
        start = halve(lambda u: g(u) < eps, mp.mpf(0), eps / mu + 10)
        nodes = [start + k / (1 + start) for k in (0, 1, 3, 8, 20, 60, 120)]
        bend = (kappa - mu**2) / mu  # from here on p = 1
        nodes = sorted([*nodes, bend]) if start < bend < nodes[-1] else nodes
        return mp.quad(lambda u: -mp.npdf(u) * mp.expm1(eps - g(u)), nodes)


def halve(left: Any, low: Any, high: Any, steps: int = 130) -> Any:
    for _ in range(steps):
        middle = (low + high) / 2
        low, high = (middle, high) if left(middle) else (low, middle)
    return low


def exact_delta(family: Family, eps: float, scale: float, kappa: float, adjacency: str) -> Any:
    budget, mu = mp.mpf(eps), family.lipschitz / mp.mpf(scale)
    if family is LOGISTIC:
        return max(remove_logistic(budget, mu, mp.mpf(kappa)), insert(budget, mu, True))
    cost = mp.log1p(mp.mpf(kappa) * mp.mpf(family.curvature_bound))
    if adjacency == "add_remove":
        return max(remove_at_a_corner(budget, mu, cost), insert(budget, mu, family.signed))
    splits = [mp.mpf(float(split)) for split in eps * SPLITS]
    return min(remove_at_a_corner(e, mu, cost) + mp.exp(e) * insert(budget - e, mu, family.signed) for e in splits)


# Family, adjacency, eps, delta, share of eps that the Jacobian takes.
CASES = [
    *((HUBER, "add_remove", 1.0, delta, 0.5) for delta in (1e-10, 1e-100, 1e-280)),
    *((SQUARED, "add_remove", 1.0, delta, 0.5) for delta in (1e-10, 1e-100, 1e-280)),
    (LOGISTIC, "add_remove", 1.0, 1e-280, 0.5),
    # The mass of the far cells times exp(-eps).
    (SQUARED, "add_remove", 165.0, 2.9e-270, 0.18),
    (HUBER, "add_remove", 319.0, 1.4e-207, 0.09),
    (HUBER, "add_remove", 100.0, 1e-280, 0.01),
    (LOGISTIC, "add_remove", 456.0, 1.3e-235, 0.066),
    # Insertion with a small mu.
    (SQUARED, "add_remove", 3.9e-9, 8.2e-149, 1e-6),
    (SQUARED, "replace_one", 1.6e-12, 1.3e-286, 1e-6),
    (SQUARED, "replace_one", 0.313, 7.6e-22, 1 - 1e-9),
    (HUBER, "replace_one", 0.237, 1.5e-113, 1 - 1e-9),
    (HUBER, "replace_one", 3.1e-5, 4.5e-140, 0.999),
    # What the Jacobian leaves of eps.
    (HUBER, "add_remove", 24.0, 1e-250, 1 - 1e-9),
    (LOGISTIC, "add_remove", 0.05, 1e-250, 0.999),
]


@pytest.mark.slow
@pytest.mark.parametrize(("family", "adjacency", "eps", "delta", "share"), CASES)
def test_the_scale_is_enough_and_the_loss_its_inverse(
    family: Family, adjacency: str, eps: float, delta: float, share: float
) -> None:
    kappa = math.expm1(share * eps) / family.curvature_bound
    common: dict[str, Any] = {"delta": delta, "curvature_ratio": kappa, "row_norm": 1.0, "adjacency": adjacency}
    scale = joint_scale(family, eps=eps, **common)
    assert 0 < exact_delta(family, eps, scale, kappa, adjacency) <= delta
    if share < 0.9:  # hardly less noise would do
        assert exact_delta(family, eps, scale * (1 - 2e-3), kappa, adjacency) > delta
    assert joint_loss(family, scale=scale, kind="gaussian", **common) == pytest.approx(max(eps, 1e-6), rel=1e-4)


@pytest.mark.slow
@pytest.mark.parametrize("signed", [True, False])
@pytest.mark.parametrize("mu", [1e-90, 1e-40, 1e-16, 1e-7, 1e-4, 2.9e-3, 3.1e-3, 0.1, 3.0, 40.0])
def test_insertion_is_bounded_from_above_and_closely(mu: float, signed: bool) -> None:
    for steps in (0.0, 1e-6, 0.3, 2.0, 8.0, 36.0):
        eps = min(mu * (steps + mu / 4), 500.0)
        exact = insert(mp.mpf(eps), mp.mpf(mu), signed)
        found = insertion(np.array([eps]), mu, signed)[0]
        if exact < 1e-300:
            assert found < 1e-300
            continue
        assert exact * (1 - mp.mpf("2e-7")) <= found <= exact * (1 + mp.mpf("5e-6"))
        shifted = insertion(np.array([eps]), mu, signed, np.array([30.0]))[0]
        assert shifted == pytest.approx(math.exp(30) * found, rel=1e-12)


def test_insertion_is_raised_before_it_can_vanish() -> None:
    """exp(500) times less than the least floating-point number."""
    exact = mp.exp(500) * profile(mp.mpf(41), mp.mpf(1))
    assert insertion(np.array([41.0]), 1.0, True)[0] == 0 < exact < 1e-100
    assert insertion(np.array([41.0]), 1.0, True, 500.0)[0] == pytest.approx(float(exact), rel=1e-10)


@pytest.mark.parametrize("delta", [5e-324, 1e-310, 1e-300, 0.99 * DELTA_MIN])
def test_a_delta_beside_which_floating_point_numbers_end_is_refused(delta: float) -> None:
    common: dict[str, Any] = {"delta": delta, "row_norm": 1.0}
    for call in (
        lambda: joint_scale(LOGISTIC, eps=1.0, curvature_ratio=0.1, **common),
        lambda: joint_loss(LOGISTIC, scale=9.0, curvature_ratio=0.1, kind="gaussian", **common),
        lambda: objective_noise(LOGISTIC, eps=1.0, curvature=9.0, **common),
        lambda: dp.sample_size("binomial", 3, eps=1.0, delta=delta, target=0.1, radius=1.0),
    ):
        with pytest.raises(ArgumentError, match=r"^delta must be 0, or at least 1e-290"):
            call()


@pytest.mark.parametrize("delta", [1e-300, 1e-251])
def test_public_calls_leave_room_for_shares_of_delta(delta: float) -> None:
    domain = dp.Domain({"x": (0, 1), "y": (0, 1)})
    with pytest.raises(ArgumentError, match=r"^delta must be 0, or at least 1e-250"):
        dp.plan("y ~ x", domain, eps=1.0, delta=delta)


@pytest.mark.slow
@pytest.mark.parametrize("eps", [1e-300, 1e-30, 1.0, 1e300])
@pytest.mark.parametrize("family", [LOGISTIC, HUBER, SQUARED], ids=lambda family: family.name)
def test_no_argument_makes_the_arithmetic_fail(family: Family, eps: float) -> None:
    """Warnings are errors here."""
    for adjacency in ("add_remove", "replace_one"):
        for delta in (DELTA_MIN, 1e-5, 1 - 1e-15):
            for extreme in (1e-300, 1e-3, 1e300):
                common: dict[str, Any] = {"delta": delta, "curvature_ratio": extreme, "row_norm": 1.0}
                assert joint_scale(family, eps=eps, adjacency=adjacency, **common) > 0
                assert joint_loss(family, scale=extreme, adjacency=adjacency, kind="gaussian", **common) > 0
