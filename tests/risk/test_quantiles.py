"""Quantiles of weighted squares: against quadrature, against draws, never below."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest
from scipy import integrate, special, stats

from dpstats.errors import ArgumentError
from dpstats.privacy.noise import Noise
from dpstats.risk.gaps import LEVELS, quadratic_quantile

LAWS = [Noise("gaussian", "l2", 2.0), Noise("laplace", "l1", 2.0), Noise("laplace", "l2", 2.0)]
LAWS.append(Noise("laplace", "linf", 2.0))
FALSE_ALARM = 1e-6
"""For each statistical test of this file."""


def law_id(noise: Noise) -> str:
    return f"{noise.kind}-{noise.norm}"


def draws(noise: Noise, size: int, count: int, seed: int) -> np.ndarray:
    random = np.random.default_rng(seed)
    if noise.kind == "gaussian" or noise.norm == "l1":
        return noise.sample(size * count, random).reshape(count, size)
    return np.array([noise.sample(size, random) for _ in range(count)])


def first_of_two(noise: Noise) -> Callable[[float], float]:
    """P(b_1^2 > x) for b of two coordinates, by one-dimensional quadrature that shares nothing with the code."""

    def spherical(x: float) -> float:
        root = math.sqrt(x) / noise.scale
        # Radius Gamma(2), angle uniform: |cos| > root / r.
        tail = integrate.quad(lambda r: r * math.exp(-r) * 2 / math.pi * math.acos(root / r), root, np.inf)
        return float(tail[0])

    def cube(x: float) -> float:
        root = math.sqrt(x) / noise.scale
        return float(integrate.quad(lambda r: r**2 / 2 * math.exp(-r) * (1 - root / r), root, np.inf)[0])

    closed = {
        "gaussian-l2": lambda x: float(special.erfc(math.sqrt(x / 2) / noise.scale)),
        "laplace-l1": lambda x: math.exp(-math.sqrt(x) / noise.scale),
        "laplace-l2": spherical,
        "laplace-linf": cube,
    }
    return closed[law_id(noise)]


@pytest.mark.parametrize("noise", LAWS, ids=law_id)
@pytest.mark.parametrize("pi", [0.3, 0.05, 1e-4])
def test_one_coordinate_of_two_matches_quadrature(noise: Noise, pi: float) -> None:
    bound = quadratic_quantile(noise, np.array([1.0, 0.0]), 1 - pi)
    exceeds = first_of_two(noise)
    assert exceeds(bound) <= pi
    assert exceeds(bound / 1.005) >= pi


@pytest.mark.parametrize("pi", [0.3, 0.05, 1e-4])
def test_two_normal_squares_match_quadrature(pi: float) -> None:
    weights = np.array([0.3, 2.0])
    bound = quadratic_quantile(Noise("gaussian", "l2", 1.5), weights, 1 - pi) / 1.5**2

    def exceeds(x: float) -> float:
        inner = integrate.quad(
            lambda z: stats.norm.pdf(z) * special.erfc(math.sqrt(max(x - weights[0] * z * z, 0) / weights[1] / 2)),
            -40,
            40,
            points=[-math.sqrt(x / weights[0]), math.sqrt(x / weights[0])],
        )
        return float(inner[0])

    assert exceeds(bound) <= pi + 1e-8
    assert exceeds(bound / 1.005) >= pi


@pytest.mark.slow
@pytest.mark.parametrize("noise", LAWS, ids=law_id)
@pytest.mark.parametrize("size", [3, 40])
def test_draws_exceed_it_as_often_as_stated(noise: Noise, size: int) -> None:
    count, pi = 4000, 0.05
    weights = np.geomspace(0.02, 1, size)
    exceeded = int(
        np.sum(draws(noise, size, count, seed=7) ** 2 @ weights > quadratic_quantile(noise, weights, 1 - pi))
    )
    low, high = stats.binom.ppf([FALSE_ALARM / 2, 1 - FALSE_ALARM / 2], count, pi)
    assert low <= exceeded <= high


@pytest.mark.parametrize("noise", LAWS, ids=law_id)
def test_equal_weights_agree_with_the_norm_quantile(noise: Noise) -> None:
    norm = 0.7 * noise.norm_quantile(6, 0.95) ** 2
    assert quadratic_quantile(noise, np.full(6, 0.7), 0.95) == pytest.approx(norm, rel=3e-3)


@pytest.mark.slow
@pytest.mark.parametrize("noise", LAWS, ids=law_id)
def test_many_distinct_weights_are_rounded_up_by_little(noise: Noise) -> None:
    weights = np.linspace(0.5, 1, 2 * LEVELS)
    squares = draws(noise, len(weights), 4000, seed=11) ** 2 @ weights
    bound = quadratic_quantile(noise, weights, 0.95)
    assert np.sum(squares > bound) <= stats.binom.ppf(1 - FALSE_ALARM, 4000, 0.05)
    # Rungs 1 % apart and the draws' own error, about 4 standard errors of the sample quantile.
    assert bound <= 1.1 * np.quantile(squares, 0.95)


def test_monotone_in_the_weights() -> None:
    noise = Noise("laplace", "l2", 1.0)
    small, large = np.array([0.2, 0.5, 1.0]), np.array([0.3, 0.5, 1.0])
    assert quadratic_quantile(noise, small, 0.95) < quadratic_quantile(noise, large, 0.95)


@pytest.mark.parametrize("weights", [[-1.0, 1.0], [0.0, 0.0], [np.inf, 1.0], [[1.0]]])
def test_bad_weights(weights: list[float]) -> None:
    with pytest.raises(ArgumentError, match="weights"):
        quadratic_quantile(LAWS[0], np.array(weights), 0.95)


@pytest.mark.parametrize("probability", [0.0, 1.0, -1.0, 2.0])
def test_bad_probability(probability: float) -> None:
    with pytest.raises(ArgumentError, match="probability"):
        quadratic_quantile(LAWS[0], np.ones(2), probability)


def test_a_probability_beyond_the_grid_is_still_bounded() -> None:
    """One minus 1e-12 is finer than the transform's rounding error: the norm bound takes over."""
    noise = Noise("gaussian", "l2", 1.0)
    weights = np.array([0.1, 1.0])
    assert quadratic_quantile(noise, weights, 1 - 1e-12) == noise.norm_quantile(2, 1 - 1e-12) ** 2
