"""Every planted error is caught, and every sound counterpart passes.

At confidence 0.999 a sound mechanism fails with probability at most 0.001, so a fresh seed for all of them raises a
false alarm with probability below 0.02; the seed is fixed. An error that stops being caught fails its own test.
"""

from __future__ import annotations

import numpy as np
import pytest
from planted import (
    CLASSICAL,
    PLANTS,
    Plant,
    analytic_sigma,
    classical_sigma,
    gaussian_delta,
    moor,
    moor_limit,
    row,
    spherical,
)
from scipy.stats import norm

from dpstats.audit import audit, audit_exact

SEED = 20


def run(plant: Plant, mechanism):
    runs = plant.runs // 4
    claim = {"eps": plant.eps, "delta": plant.delta}
    return audit(mechanism, plant.data, plant.neighbour, **claim, runs=runs, seed=SEED, vectorized=plant.vectorized)


@pytest.mark.slow
@pytest.mark.parametrize("plant", PLANTS, ids=lambda plant: plant.name)
def test_the_planted_error_is_caught(plant):
    result = run(plant, plant.planted)
    assert result.eps_lower > plant.eps
    assert not result.passed


@pytest.mark.slow
@pytest.mark.parametrize("plant", PLANTS, ids=lambda plant: plant.name)
def test_the_sound_counterpart_passes(plant):
    result = run(plant, plant.sound)
    assert result.passed
    assert result.eps_lower <= plant.eps


def test_there_are_enough_of_them():
    assert len({plant.name for plant in PLANTS}) == len(PLANTS) >= 12


@pytest.mark.slow
def test_moor_leaks_more_the_longer_it_iterates():
    bounds = [
        audit(
            lambda data, rng, runs, steps=steps: moor(data, rng, runs, steps), [], [row(1.0)],
            eps=1, runs=100_000, seed=SEED, vectorized=True,
        ).eps_lower
        for steps in (5, 20, 80, 320)
    ]  # fmt: skip
    assert bounds == sorted(bounds)
    assert bounds[2] > 2.3


def test_moor_in_the_limit_has_an_event_of_probability_zero():
    """0 < |t| < Lambda/Lambda0: never without the row, and with it where exp(-.5) - exp(-.75) over 2 says."""
    rng = np.random.default_rng(SEED)
    without, with_row = (np.abs(moor_limit(rows, rng, 200_000, additive=False)) for rows in ([], [row(1.0)]))
    assert not ((without > 0) & (without < 0.999)).any()
    share = np.mean((with_row > 0) & (with_row < 0.999))
    exact = (np.exp(-0.5) - np.exp(-0.75)) / 2
    assert 0.04 < exact < 0.07
    # Standard error 5.6e-4; five of them.
    assert share == pytest.approx(exact, abs=2.8e-3)


def test_the_planted_spherical_noise_is_wrong_in_its_radius_alone():
    """E||b|| is the shape times the scale: 3 when right in three dimensions, 1 as printed. Five standard errors."""
    rng = np.random.default_rng(SEED)
    for shape, mean in ((None, 3.0), (1.0, 1.0)):
        lengths = np.linalg.norm(spherical(rng, 50_000, 3, 1.0, shape), axis=1)
        assert lengths.mean() == pytest.approx(mean, abs=5 * np.sqrt(mean / 50_000))


def normal(mean, sigma):
    return lambda points: norm.logpdf(points[:, 0], mean, sigma)


@pytest.mark.parametrize("claim", [CLASSICAL, (30.0, 0.01), (133.0, 0.02)])
def test_the_classical_gaussian_is_refuted_exactly_where_no_count_of_runs_could(claim):
    eps, delta = claim
    for sigma, kept in ((analytic_sigma(eps, delta), True), (classical_sigma(eps, delta), False)):
        result = audit_exact(
            normal(0, sigma), normal(1, sigma), [(-12 * sigma - 1, 12 * sigma + 2)], eps=eps, delta=delta * (1 + 1e-6)
        )
        assert result.passed is kept
        assert result.hockey_stick == pytest.approx(gaussian_delta(eps, 1 / sigma), rel=1e-5)
