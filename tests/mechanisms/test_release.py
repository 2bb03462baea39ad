"""The final discrete noise: its exact law, its privacy map, and zeros."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

from dpstats.mechanisms.release import LATTICE_LIMIT, LatticeRelease
from dpstats.privacy.randomness import SystemRandom, discrete_laplace, random_source
from dpstats.solvers import pairs

FALSE_ALARM = 1e-6
"""Each chi-square test below rejects a correct sampler with this probability, for a fresh seed."""


@pytest.mark.parametrize("size", [1, 3, 105])
@pytest.mark.parametrize("distance", [1e-12, 1e-7, 3.0])
@pytest.mark.parametrize("eps", [1e-3, 0.01, 2.0, 1e6])
def test_opendp_map_agrees_with_the_charge(size: int, distance: float, eps: float) -> None:
    """OpenDP's own accounting of the noise never exceeds the share charged, and wastes almost nothing."""
    import opendp.prelude as opendp

    opendp.enable_features("contrib")
    final = LatticeRelease(eps, distance, size)
    space = opendp.vector_domain(opendp.atom_domain(T=opendp.i64)), opendp.l1_distance(T=opendp.i64)
    measurement = opendp.m.make_laplace(*space, scale=final.sensitivity / final.eps)
    assert measurement.map(final.sensitivity) <= eps * (1 + 1e-12)
    assert final.sensitivity >= 2 * math.sqrt(size) * distance / final.step + size
    assert final.sensitivity <= (4 * max(1.0, eps) + 1) * size + 1
    assert final.scale <= 7 * size * distance / math.sqrt(size) / eps


def test_two_points_near_one_optimum_stay_within_the_sensitivity() -> None:
    rng = np.random.default_rng(5)
    final = LatticeRelease(1.0, 1e-6, 7)
    for _ in range(500):
        optimum = rng.normal(size=7) * 10.0 ** rng.integers(-3, 4)
        points = []
        for _ in range(2):
            step = rng.normal(size=7)
            points.append(optimum + final.distance * step / np.linalg.norm(step))
        lattice = [np.rint(point / final.step) for point in points]
        assert np.abs(lattice[0] - lattice[1]).sum() <= final.sensitivity


@pytest.mark.slow
@pytest.mark.parametrize("random", [SystemRandom(), random_source(3)], ids=["opendp", "seeded"])
def test_noise_has_the_stated_law(random: object) -> None:
    """Chi-square of 20,000 draws against P(k) prop. to exp(-|k| / scale)."""
    final = LatticeRelease(0.5, 1.0, 4)
    scale = final.sensitivity / final.eps
    draws = np.concatenate(
        [final.release(pairs.single(np.zeros(4), np.longdouble), random) / final.step for _ in range(5000)]  # type: ignore[arg-type]
    )
    assert np.all(draws == np.rint(draws))
    edges = np.arange(-60, 61, 5)
    law = np.exp(-np.abs(np.arange(-4000, 4001)) / scale)
    law /= law.sum()
    expected = np.histogram(np.arange(-4000, 4001), np.r_[-np.inf, edges, np.inf], weights=law)[0] * len(draws)
    observed = np.histogram(draws, np.r_[-np.inf, edges, np.inf])[0]
    assert stats.chisquare(observed, expected * observed.sum() / expected.sum()).pvalue > FALSE_ALARM


def test_a_scale_wrong_by_a_tenth_is_caught() -> None:
    draws = np.abs(discrete_laplace(10.0, 20_000, np.random.default_rng(1)))
    for wrong in (9.0, 11.0):
        mean = 2 * math.exp(-1 / wrong) / (1 - math.exp(-2 / wrong))
        assert abs(draws.mean() - mean) > 5 * draws.std() / math.sqrt(len(draws))


def test_absurd_points_are_clamped_not_refused() -> None:
    final = LatticeRelease(1.0, 1e-9, 2)
    released = final.release(pairs.single([1e300, -np.inf], np.longdouble), SystemRandom())
    assert released == pytest.approx(np.array([1.0, -1.0]) * float(LATTICE_LIMIT) * final.step)
    assert final.nearest(pairs.single([math.nan, 0.0], np.longdouble)) == [0, 0]


def test_sparse_keeps_what_stands_out() -> None:
    final = LatticeRelease(1.0, 1e-9, 3)
    released = np.array([0.0, 30 * final.scale, -50 * final.scale])
    assert final.sparse(released).tolist() == [0.0, 0.0, -50 * final.scale]


@pytest.mark.parametrize("dtype", [np.float64, np.longdouble])
def test_the_rest_of_a_pair_decides_its_lattice_point(dtype: type[np.floating]) -> None:
    final = LatticeRelease(1.0, 2.0**-20, 1)
    steps = 2.0**60 if dtype is np.longdouble else 2.0**54
    for rest, moved in ((0.0, 0), (0.6, 1), (-0.6, -1), (2.4, 2), (-3.0, -3)):
        point = pairs.Pair(np.array([steps * final.step], dtype), np.array([rest * final.step], dtype))
        assert final.nearest(point)[0] - int(steps) == moved


def test_a_pair_beyond_the_limit_is_clamped_as_a_whole() -> None:
    final = LatticeRelease(1.0, 2.0**-20, 1)
    limit = float(LATTICE_LIMIT)
    high = np.array([limit * (1 + 2.0**-10) * final.step])
    inside = pairs.Pair(high, np.array([-limit * 2.0**-9 * final.step]))
    assert final.nearest(inside) == [LATTICE_LIMIT - LATTICE_LIMIT // 2**10]
    assert final.nearest(pairs.single(high, np.float64)) == [LATTICE_LIMIT]
