"""Draws from bodies against exact laws.

Seeds are fixed. Every test of fit has level 1e-4 and there are about 60 of them: with fresh seeds, a sound package
would fail one with probability below 1 %. Planted errors are rejected at the same level.
"""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from scipy import stats

from dpstats.privacy.k_norm import (
    ConvexBody,
    Group,
    KNormNoise,
    ball,
    box,
    cross,
    intercept,
    k_norm_noise,
    simplex,
    unit_images,
)
from dpstats.privacy.k_norm import groups as sampling
from dpstats.privacy.k_norm import noise as law
from dpstats.privacy.k_norm.groups import choose, draw_cell, integer_below, subset, tail_sums
from dpstats.privacy.randomness import SystemRandom

LEVEL = 1e-4
HULL = (intercept(), simplex(3), simplex(2), box(2))


def draws(noise: KNormNoise, count: int = 4000, seed: int = 5) -> np.ndarray:
    random = np.random.default_rng(seed)
    return np.array([noise.sample(random) for _ in range(count)])


def radius_fits(noise: KNormNoise, sample: np.ndarray) -> float:
    """The p-value of each group's gauge, Gamma(d) of scale s / w; unit maps, blocks in the order of the columns."""
    worst = 1.0
    for body, group, share in zip(noise.bodies, noise.groups, noise.shares, strict=True):
        columns = [column for index in group for column in noise.images[index].columns]
        exact = stats.gamma(body.size, scale=noise.scale / share).cdf
        worst = min(worst, stats.kstest(body.gauge(sample[:, columns]), exact).pvalue * len(noise.groups))
    return worst


def laws() -> list[KNormNoise]:
    blocks = [intercept(), simplex(3), box(), simplex(12), cross(2), ball(2)]
    groups = ((0, 1), (2, 3, 4), (5,))
    return [k_norm_noise(unit_images(HULL), 2.0), KNormNoise(0.5, unit_images(blocks), groups, (0.5, 0.3, 0.2))]


@pytest.mark.slow
@pytest.mark.parametrize("noise", laws(), ids=range(2))
def test_radius(noise: KNormNoise) -> None:
    assert radius_fits(noise, draws(noise)) > LEVEL


@pytest.mark.slow
@pytest.mark.parametrize("noise", laws(), ids=range(2))
def test_planted_radius_of_shape_d(noise: KNormNoise, monkeypatch: pytest.MonkeyPatch) -> None:
    right = law.gamma_variable
    monkeypatch.setattr(law, "gamma_variable", lambda shape, random: right(shape - 1, random))
    assert radius_fits(noise, draws(noise)) < LEVEL


@pytest.mark.slow
@pytest.mark.parametrize("noise", laws(), ids=range(2))
def test_planted_scales(noise: KNormNoise) -> None:
    assert radius_fits(noise, draws(noise) / 2) < LEVEL
    if len(noise.groups) > 1:
        forgotten = KNormNoise(noise.scale, noise.images, noise.groups, noise.shares)
        forgotten.__dict__["_scales"] = (noise.scale,) * len(noise.groups)
        assert radius_fits(noise, draws(forgotten)) < LEVEL


@pytest.mark.parametrize("sizes", [(1,), (4,), (2, 3), (1, 2, 2)])
def test_cells(sizes: tuple[int, ...]) -> None:
    """Counts of (j_1, ..., j_T) against prod C(k, j)^2 B(J + 1, K - J + 1), by enumeration."""
    random, dimension = np.random.default_rng(2), sum(sizes)
    cells = list(itertools.product(*(range(size + 1) for size in sizes)))
    weights = np.array(
        [
            math.prod(math.comb(k, j) ** 2 for k, j in zip(sizes, cell, strict=True))
            * math.factorial(sum(cell))
            * math.factorial(dimension - sum(cell))
            for cell in cells
        ],
        dtype=float,
    )
    found = [draw_cell(sizes, random) for _ in range(6000)]
    counts = np.array([found.count(cell) for cell in cells])
    assert counts.sum() == len(found)
    assert stats.chisquare(counts, weights / weights.sum() * len(found)).pvalue > LEVEL
    # Planted: the beta function left out.
    wrong = np.array([math.prod(math.comb(k, j) ** 2 for k, j in zip(sizes, cell, strict=True)) for cell in cells])
    if dimension > 1:
        assert stats.chisquare(counts, wrong / wrong.sum() * len(found)).pvalue < LEVEL


def test_tail_sums_are_exact() -> None:
    """Vandermonde: one block's squares add up to C(2k, k); and a product of polynomials, in floats."""
    assert sum(tail_sums((300,))[0]) == math.comb(600, 300)
    product = np.array([1.0])
    for size in (3, 1, 4):
        product = np.convolve(product, [math.comb(size, j) ** 2 for j in range(size + 1)])
    assert tail_sums((3, 1, 4))[0] == tuple(int(value) for value in product)


@pytest.mark.parametrize("source", [np.random.default_rng(3), SystemRandom()], ids=["seeded", "system"])
def test_integers(source: SystemRandom) -> None:
    level = LEVEL if isinstance(source, np.random.Generator) else 1e-6
    values = [integer_below(7, source) for _ in range(7000)]
    assert stats.chisquare(np.bincount(values, minlength=7)).pvalue > level
    large = 3**200
    shares = [integer_below(large, source) / large for _ in range(2000)]
    assert stats.kstest(shares, stats.uniform.cdf).pvalue > level
    assert integer_below(1, source) == 0
    picked = np.bincount([choose((1, 0, 3), source) for _ in range(4000)], minlength=3)
    assert picked[1] == 0
    assert stats.binomtest(int(picked[0]), 4000, 0.25).pvalue > level
    masks = [tuple(subset(4, 2, source)) for _ in range(6000)]
    assert stats.chisquare([masks.count(mask) for mask in set(masks)]).pvalue > level
    assert len(set(masks)) == 6


@pytest.mark.slow
def test_intercept_and_parts_of_the_hull() -> None:
    """Given how many are positive, a is Beta; the positive and negative sums are a and 1 - a times Beta variables."""
    random = np.random.default_rng(8)
    points = [sampling.uniform_in_hull((3, 2), random) for _ in range(8000)]
    share = np.array([(constant + 1) / 2 for constant, _ in points])
    parts = np.array([np.concatenate(both) for _, both in points])
    positive = (parts > 0).sum(axis=1)
    for total in range(6):
        assert stats.kstest(share[positive == total], stats.beta(total + 1, 6 - total).cdf).pvalue > LEVEL
    first = (parts[:, :3] > 0).sum(axis=1)
    for count in (1, 2):
        chosen = first == count
        above = np.maximum(parts[chosen, :3], 0).sum(axis=1) / share[chosen]
        below = -np.minimum(parts[chosen, :3], 0).sum(axis=1) / (1 - share[chosen])
        assert stats.kstest(above, stats.beta(count, 1).cdf).pvalue > LEVEL
        assert stats.kstest(below, stats.beta(3 - count, 1).cdf).pvalue > LEVEL
    orthant = (parts[first == 1, :3] > 0).argmax(axis=1)
    assert stats.chisquare(np.bincount(orthant, minlength=3)).pvalue > LEVEL
    single = np.abs(parts[first == 1, :3]).max(axis=1)
    assert stats.kstest(single / 1.2, stats.uniform.cdf).pvalue < LEVEL  # not uniform: the test has power


@pytest.mark.parametrize("block", [box(3), cross(3), ball(3), simplex(3)], ids=str)
def test_marginals_of_symmetric_bodies(block: ConvexBody) -> None:
    random = np.random.default_rng(4)
    sample = np.array([sampling.uniform_in_block(block, random) for _ in range(4000)])
    marginal = {
        "box": stats.uniform.cdf,
        "cross": stats.beta(1, 3).cdf,
        "simplex": stats.beta(1, 3).cdf,
        "ball": lambda v: stats.beta(0.5, 2).cdf(v**2),
    }[block.kind]
    for column in sample.T:
        assert stats.kstest(np.abs(column), marginal).pvalue > LEVEL
    assert stats.kstest(block.gauge(sample), lambda r: np.clip(r, 0, 1) ** 3).pvalue > LEVEL
    orthant = ((sample > 0) @ (1, 2, 4)).astype(int)
    assert stats.chisquare(np.bincount(orthant, minlength=8)).pvalue > LEVEL


class Fixed:
    """The same uniform again and again."""

    def __init__(self, value: float) -> None:
        self.value = value

    def random(self, size: int) -> np.ndarray:
        return np.full(size, self.value)


@pytest.mark.parametrize("value", [0.0, 2.0**-53, 0.25, 1 - 2.0**-53])
def test_extreme_uniforms_give_finite_noise(value: float) -> None:
    for noise in laws():
        assert np.isfinite(noise.sample(Fixed(value))).all()


def test_exponentials_are_fine_at_both_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    """The outermost 2**-53 of the uniforms, on either side, holds values far apart, as a continuous law has."""
    for side in (0, 1):
        found = []
        for exponent in (52, 40, 20, 0):

            def outermost(count: int, fine: int = (2**exponent - 1) << 12, side: int = side) -> bytes:
                return np.repeat(np.array([side, fine, 0], np.uint64), count // 24).tobytes()

            monkeypatch.setattr("dpstats.privacy.randomness.os.urandom", outermost)
            found.append(float(sampling.exponentials(1, SystemRandom())[0]))
        steps = np.diff(np.log(found)) if side == 0 else np.diff(found)
        assert np.all(np.abs(steps) > 0.5)


def test_system_randomness_and_seeds_take_the_same_path() -> None:
    for noise in laws():
        assert noise.sample(SystemRandom()).shape == (noise.size,)
        one, two = (noise.sample(np.random.default_rng(1)) for _ in range(2))
        np.testing.assert_array_equal(one, two)


def test_rounding_stays_far_below_the_tolerance() -> None:
    """Uniforms moved by their rounding, 2**-53 of themselves, move b by far less than 1e-9 of its size."""

    class Nudged:
        def __init__(self, factor: float) -> None:
            self.source, self.factor = np.random.default_rng(6), factor

        def random(self, size: int) -> np.ndarray:
            uniform = self.source.random(size)
            # Only continuous draws: the integers' bits stay.
            return np.where(uniform < 0.5, uniform * self.factor, 1 - (1 - uniform) * self.factor)

    noise = laws()[1]
    root = math.sqrt(noise.expected_square())
    plain, moved = Nudged(1.0), Nudged(1 - 2.0**-50)
    for _ in range(200):
        assert np.abs(noise.sample(plain) - noise.sample(moved)).max() < 1e-12 * root


def test_group_without_simplices_is_the_product() -> None:
    group = Group((box(1), intercept()))
    sample = np.array([group.uniform(np.random.default_rng(seed)) for seed in range(3000)])
    for column in sample.T:
        assert stats.kstest(column, stats.uniform(-1, 2).cdf).pvalue > LEVEL
