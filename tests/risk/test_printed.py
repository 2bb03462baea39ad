"""The printed bounds: as printed, in the right units, and wrong exactly where docs/risk says so."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

from dpstats.risk.literature_bounds import (
    CHAUDHURI,
    FUKUCHI,
    NAPP,
    Bound,
    PublicSetting,
    chaudhuri,
    kifer_noise_square,
    napp,
    napp_noise_square,
    printed_bounds,
)

PURE = PublicSetting(
    columns=4, eps=0.5, delta=0.0, pi=0.05, curvature=3.0, lipschitz=1.2, smoothness=0.4, radius=2.5, rows=5000
)
GAUSSIAN = replace(PURE, delta=1e-5)
FALSE_ALARM = 1e-6
"""For each statistical test of this file."""


def wrong_units(bound: Bound) -> bool:
    """NAPP's misplaced bracket; and lambda where sqrt(lambda) is the norm of q, in Fukuchi et al.'s lemma 7."""
    misprint = bound.gap == "unregularised" and bound.source.startswith(f"{NAPP}, theorem 8")
    return misprint or bound.source.startswith(FUKUCHI)


def test_values_by_hand() -> None:
    """With p = 1 and pi = 1/e the gamma bound is 1; per row and in the papers' letters."""
    setting = PublicSetting(
        columns=1,
        eps=2.0,
        delta=0.0,
        pi=math.exp(-1),
        curvature=8.0,
        lipschitz=1.0,
        smoothness=0.25,
        radius=3.0,
        rows=100,
    )
    values = [bound.value for bound in chaudhuri(setting)]
    slope, rows, eps = 8.0 / 100, 100, 2.0  # Lambda
    lemma_5 = 4 / (slope * rows**2 * eps**2)
    theorem_4 = 8 / (slope * rows**2 * eps**2) + slope / 2 * 9
    lemma_3 = 2 * (0.25 + slope) / (slope**2 * rows**2 * eps**2)
    theorem_3 = 16 * (0.25 + slope) / (slope**2 * rows**2 * eps**2) + slope / 2 * 9
    assert values == pytest.approx([rows * value for value in (lemma_5, theorem_4, lemma_3, theorem_3)])
    theorem_8, misprint, lemma_7, theorem_10 = (bound.value for bound in napp(setting))
    assert theorem_8 == pytest.approx(1 / 8)
    assert misprint == pytest.approx(1 / 8 + 36)
    assert lemma_7 == pytest.approx(1 / 8 + 36)
    assert theorem_10 == pytest.approx(2 / 8 + 36)


def test_napp_and_kifer_bound_the_same_gaussian_norm() -> None:
    assert napp_noise_square(GAUSSIAN) == pytest.approx(kifer_noise_square(GAUSSIAN))


@pytest.mark.parametrize("setting", [PURE, GAUSSIAN], ids=["pure", "gaussian"])
def test_the_sound_ones_are_in_the_units_of_the_loss(setting: PublicSetting) -> None:
    """Other units of the columns change no bound; k times the loss gives k times the bound."""
    columns = replace(
        setting,
        curvature=4 * setting.curvature,
        lipschitz=2 * setting.lipschitz,
        smoothness=4 * setting.smoothness,
        radius=setting.radius / 2,
    )
    loss = replace(
        setting,
        curvature=3 * setting.curvature,
        lipschitz=3 * setting.lipschitz,
        smoothness=3 * setting.smoothness,
    )
    for bound, rescaled, tripled in zip(*map(printed_bounds, (setting, columns, loss)), strict=True):
        unchanged = rescaled.value == pytest.approx(bound.value)
        proportional = tripled.value == pytest.approx(3 * bound.value)
        assert (unchanged and proportional) != wrong_units(bound), bound.source


@pytest.mark.parametrize("setting", [PURE, GAUSSIAN], ids=["pure", "gaussian"])
def test_only_bounds_that_say_so_need_n(setting: PublicSetting) -> None:
    without = printed_bounds(replace(setting, rows=None))
    for bound, bare in zip(printed_bounds(setting), without, strict=True):
        assert math.isfinite(bound.value)
        assert math.isnan(bare.value) == ("needs n" in bound.note)


def test_input_perturbation_needs_enough_rows() -> None:
    small = printed_bounds(replace(GAUSSIAN, rows=20))
    assert [bound.gap for bound in small if math.isnan(bound.value)] == ["unregularised", "unregularised"]


def test_chaudhuri_lemma_5_fails_where_the_jacobian_takes_half_the_budget() -> None:
    """p = 1, no rows, eps' = eps / 2: the gap exceeds eq. (66) with probability pi**sqrt(1/2), about .12, not .05."""
    eps, pi, count = 1.0, 0.05, 20_000
    curvature = 0.25 / math.expm1(eps / 4)
    left = eps - 2 * math.log1p(0.25 / curvature)
    assert left == pytest.approx(eps / 2)
    setting = PublicSetting(1, eps, 0.0, pi, curvature, lipschitz=1.0, smoothness=0.25, radius=1.0)
    noise = np.random.default_rng(0).exponential(2 / left, size=count)
    gaps = noise**2 / (2 * curvature)
    printed = next(bound.value for bound in chaudhuri(setting) if bound.source.startswith(f"{CHAUDHURI}, lemma 5"))
    failures = int(np.sum(gaps > printed))
    assert failures > stats.binom.ppf(1 - FALSE_ALARM, count, pi)
    assert stats.binom.ppf(FALSE_ALARM / 2, count, pi**0.5**0.5) <= failures
    assert failures <= stats.binom.ppf(1 - FALSE_ALARM / 2, count, pi**0.5**0.5)
    mended = printed * (eps / left) ** 2
    assert np.sum(gaps > mended) <= stats.binom.ppf(1 - FALSE_ALARM, count, pi)


def test_napp_lemma_7_fails_for_a_lasso() -> None:
    """Second iterate of the lasso weights without noise: eq. (16) puts a negative bound on a gap that is positive."""
    weight, response = 1.0, 2.0

    def ridge(slope: float) -> float:
        """The minimiser of (t - response)^2 / 2 + slope t^2."""
        return response / (1 + 2 * slope)

    def lasso(theta: float) -> float:
        return (theta - response) ** 2 / 2 + weight * abs(theta)

    first = ridge(0.01)
    slope = weight / abs(first)
    second, best = ridge(slope), response - weight
    assert lasso(second) - lasso(best) > 0
    assert slope * best**2 - weight * abs(best) < 0


def test_the_quoted_normal_norm_bound_fails_for_large_pi() -> None:
    """Lemma 28 as quoted, ||b||^2 <= 2 p sigma^2 log(1/pi): below the mean of ||b||^2 once pi > exp(-1/2)."""
    for pi, holds in ((0.05, True), (0.5, True), (0.7, False)):
        assert (stats.chi2.sf(2 * 100 * math.log(1 / pi), 100) <= pi) == holds


def test_napp_theorem_8_is_no_bound_on_a_mean() -> None:
    """E||b||^2 / (2 m) without rows exceeds eq. (18) for pi near one, which the mean does not depend on."""
    setting = replace(PURE, columns=1, pi=0.9)
    scale = setting.lipschitz / (0.5 * setting.eps)
    mean = 2 * scale**2 / (2 * setting.curvature)
    assert mean > napp(setting)[0].value
