"""The proved gaps: as theorems on random data, as levels over the noise, and with constants that cannot be improved."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

from dpstats.errors import ArgumentError
from dpstats.families import Binomial, Family, Gaussian, HuberSVM, Poisson
from dpstats.privacy.noise import Noise
from dpstats.risk.gaps import gap_mean, gap_quantile, log_concave_quantile
from dpstats.solvers.newton import minimize
from dpstats.solvers.objective import PerturbedObjective

FAMILIES: list[Family] = [Gaussian(residual_cap=0.5), Binomial(), Poisson(mean_cap=5.0, y_max=5.0), HuberSVM()]
LAWS = [Noise("gaussian", "l2", 3.0), Noise("laplace", "l1", 3.0), Noise("laplace", "l2", 3.0)]
LAWS.append(Noise("laplace", "linf", 3.0))
FALSE_ALARM = 1e-6
"""For each statistical test of this file."""


def rows(seed: int, count: int, columns: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    exog = rng.normal(size=(count, columns))
    exog /= np.maximum(1, np.linalg.norm(exog, axis=1))[:, None]
    return exog, (exog[:, 0] + rng.normal(scale=0.3, size=count) > 0).astype(float)


def optimum(
    family: Family, data: tuple[np.ndarray, np.ndarray], curvature: np.ndarray, linear: np.ndarray
) -> np.ndarray:
    found = minimize(PerturbedObjective(family, [data], curvature, linear), 1e-9)
    return np.asarray(found, dtype=float)


def value(family: Family, data: tuple[np.ndarray, np.ndarray], curvature: np.ndarray, theta: np.ndarray) -> float:
    """Sum of losses plus 1/2 theta' diag(curvature) theta."""
    exog, endog = data
    return float(np.sum(family.derivatives(exog @ theta, endog).value) + 0.5 * theta @ (curvature * theta))


@pytest.mark.parametrize("family", FAMILIES, ids=lambda family: family.name)
def test_both_theorems_hold_for_every_draw(family: Family) -> None:
    """F(theta_b) - F(theta) <= 1/2 ||b + e theta||^2 in the metric 1 / (m + e), e from 0 to m."""
    rng = np.random.default_rng(5)
    for seed in range(25):
        data = rows(seed, int(rng.integers(0, 40)), 3)
        curvature = np.exp(rng.normal(size=3))
        linear = 3 * rng.normal(size=3)
        removed = rng.choice([0.0, 0.5, 1.0]) * curvature
        released = optimum(family, data, curvature, linear)
        for theta in (optimum(family, data, curvature, 0 * linear), 2 * rng.normal(size=3)):
            kept = curvature - removed
            gap = value(family, data, kept, released) - value(family, data, kept, theta)
            bound = 0.5 * np.sum((linear + removed * theta) ** 2 / (curvature + removed))
            assert gap <= bound + 1e-8


def test_theorem_1_is_attained_without_rows() -> None:
    curvature, linear = np.array([0.5, 4.0]), np.array([1.0, -3.0])
    data = rows(0, 0, 2)
    released = optimum(Binomial(), data, curvature, linear)
    assert value(Binomial(), data, curvature, released) == pytest.approx(0.5 * np.sum(linear**2 / curvature), rel=1e-8)


def test_theorem_2_is_attained_by_a_linear_loss() -> None:
    """One saturated row: the loss is 1 - theta, m = b = theta = 1, and the released minimiser is 0."""
    family, data, one = Gaussian(residual_cap=1.0), (np.ones((1, 1)), np.array([100.0])), np.ones(1)
    released = optimum(family, data, one, one)
    gap = value(family, data, 0 * one, released) - value(family, data, 0 * one, one)
    assert gap == pytest.approx(0.25 * (1 + 1) ** 2, rel=1e-7)


@pytest.mark.parametrize("noise", LAWS, ids=lambda noise: f"{noise.kind}-{noise.norm}")
def test_the_level_is_exact_without_rows(noise: Noise) -> None:
    """Without rows the gap is 1/2 ||b||^2 in the metric 1/m, so the bound must fail as often as it may, not less."""
    random, count, pi = np.random.default_rng(3), 4000, 0.1
    curvature, shape = np.array([1.0, 2.0, 10.0]), np.array([1.0, 0.6, 0.3])
    linear = np.array([noise.sample(3, random) for _ in range(count)]) / shape
    failures = int(np.sum(0.5 * linear**2 @ (1 / curvature) > gap_quantile(noise, shape, curvature, pi)))
    low, high = stats.binom.ppf([FALSE_ALARM / 2, 1 - FALSE_ALARM / 2], count, pi)
    assert low <= failures <= high


@pytest.mark.slow
@pytest.mark.parametrize("noise", LAWS, ids=lambda noise: f"{noise.kind}-{noise.norm}")
def test_the_level_holds_with_rows(noise: Noise) -> None:
    """Both gaps of logistic regression on 30 rows: no more failures than pi allows."""
    random, count, pi = np.random.default_rng(4), 200, 0.2
    family, data = Binomial(), rows(1, 30, 3)
    curvature, shape = np.array([1.0, 2.0, 4.0]), np.array([1.0, 0.7, 0.5])
    best = optimum(family, data, curvature, np.zeros(3))
    free = optimum(family, data, np.full(3, 1e-3), np.zeros(3))
    radius = float(np.linalg.norm(free))
    regularised = gap_quantile(noise, shape, curvature, pi)
    unregularised = gap_quantile(noise, shape, curvature, pi, removed=curvature, radius=radius)
    failures = np.zeros(2)
    for _ in range(count):
        released = optimum(family, data, curvature, noise.sample(3, random) / shape)
        gaps = [value(family, data, kept, released) - value(family, data, kept, theta)
                for kept, theta in ((curvature, best), (0 * curvature, free))]  # fmt: skip
        failures += np.array(gaps) > [regularised, unregularised]
    assert np.all(failures <= stats.binom.ppf(1 - FALSE_ALARM, count, pi))


@pytest.mark.parametrize("noise", LAWS, ids=lambda noise: f"{noise.kind}-{noise.norm}")
@pytest.mark.parametrize("direction", [np.array([1.0, 0.0, 0.0]), np.ones(3) / math.sqrt(3)], ids=["axis", "diagonal"])
def test_the_unregularised_level_holds_for_the_bound_itself(noise: Noise, direction: np.ndarray) -> None:
    """1/4 ||b + m theta||^2 / m, which some data attain, exceeds the quantile no more often than pi."""
    random, count, pi, radius = np.random.default_rng(6), 4000, 0.1, 4.0
    curvature, shape = np.array([3.0, 1.0, 2.0]), np.array([0.5, 0.8, 1.0])
    linear = np.array([noise.sample(3, random) for _ in range(count)]) / shape
    worst = 0.25 * (linear + curvature * radius * direction) ** 2 @ (1 / curvature)
    bound = gap_quantile(noise, shape, curvature, pi, removed=curvature, radius=radius)
    assert np.sum(worst > bound) <= stats.binom.ppf(1 - FALSE_ALARM, count, pi)
    mean = gap_mean(noise, shape, curvature, removed=curvature, radius=radius)
    assert np.mean(worst) <= mean + 5 * np.std(worst) / math.sqrt(count)


@pytest.mark.parametrize("noise", LAWS, ids=lambda noise: f"{noise.kind}-{noise.norm}")
def test_the_mean_is_exact_without_rows(noise: Noise) -> None:
    """Within 5 standard errors of 4,000 draws: false-alarm rate below 1e-5 by the central limit theorem."""
    random, count = np.random.default_rng(8), 4000
    curvature, shape = np.array([1.0, 2.0, 10.0]), np.array([1.0, 0.6, 0.3])
    gaps = 0.5 * (np.array([noise.sample(3, random) for _ in range(count)]) / shape) ** 2 @ (1 / curvature)
    assert abs(np.mean(gaps) - gap_mean(noise, shape, curvature)) <= 5 * np.std(gaps) / math.sqrt(count)


@pytest.mark.parametrize("probability", [0.3, 0.1, 0.01, 1e-4])
def test_log_concave_quantile_covers_the_usual_laws(probability: float) -> None:
    bound = log_concave_quantile(1.0, probability)
    for law in (stats.norm(), stats.laplace(scale=math.sqrt(0.5)), stats.uniform(-math.sqrt(3), 2 * math.sqrt(3))):
        assert law.isf(probability) <= bound * (1 + 1e-12)


def test_log_concave_quantile_is_the_best_for_log_concave_tails() -> None:
    """|X| exponential of rate 2 up to t, the rest of its mass at t: P(X >= t) = exp(-2 t) / 2."""
    end = 1.5
    variance = 2 / 4 * (1 - math.exp(-2 * end) * (1 + 2 * end))
    assert log_concave_quantile(math.sqrt(variance), math.exp(-2 * end) / 2) == pytest.approx(end, rel=1e-12)


def test_removing_more_curvature_costs_more() -> None:
    ones = np.ones(2)
    gaps = [gap_quantile(LAWS[0], ones, 2 * ones, 0.05, removed=share * 2 * ones, radius=3.0) for share in (0, 0.5, 1)]
    assert gaps == sorted(gaps)


@pytest.mark.parametrize(
    ("changes", "name"),
    [
        ({"pi": 0.0}, "pi"),
        ({"pi": 1.0}, "pi"),
        ({"radius": -1.0}, "radius"),
        ({"radius": math.inf}, "radius"),
        ({"shape": np.array([0.0, 1.0])}, "shape"),
        ({"curvature": np.array([-1.0, 1.0])}, "curvature"),
        ({"removed": np.array([3.0, 0.0])}, "removed"),
    ],
)
def test_bad_arguments(changes: dict[str, object], name: str) -> None:
    arguments: dict[str, object] = {"shape": np.ones(2), "curvature": np.ones(2), "pi": 0.05} | changes
    with pytest.raises(ArgumentError, match=name):
        gap_quantile(LAWS[0], **arguments)  # type: ignore[arg-type]


@pytest.mark.parametrize("probability", [0.0, 0.5, 0.7])
def test_log_concave_quantile_needs_a_tail(probability: float) -> None:
    with pytest.raises(ArgumentError, match="probability"):
        log_concave_quantile(1.0, probability)
