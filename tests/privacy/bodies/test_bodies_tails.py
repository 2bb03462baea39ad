"""Bounds on coordinates and on the length: against draws, and against exact laws where these are simple.

Seeds are fixed. Tests of draws have level 1e-4 and there are about 60 of them: with fresh seeds, a sound package would
fail one with probability below 1 %.
"""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import integrate, stats

from dpstats.errors import ArgumentError
from dpstats.privacy.k_norm import (
    ConvexBody,
    Group,
    Image,
    KNormNoise,
    ball,
    box,
    cross,
    intercept,
    k_norm_noise,
    simplex,
    unit_images,
)
from dpstats.privacy.k_norm.quantiles import log_concave_quantile, marginal

LEVEL = 1e-4
DESIGNS = {
    "adult": [intercept(), *[box()] * 6, *map(simplex, (6, 13, 5, 4))],
    "interaction": [intercept(), box(), cross(3), *map(simplex, (3, 4, 12))],
    "balls": [ball(4), simplex(3), intercept(), ball(1)],
    "plain": [simplex(3), box(2), cross(2)],
}


def laws() -> dict[str, KNormNoise]:
    noises = {name: k_norm_noise(unit_images(blocks), 0.5) for name, blocks in DESIGNS.items()}
    rng = np.random.default_rng(0)
    contrasts = (
        Image(intercept(), (0, 1), [[1.0, 0.5]]),
        Image(simplex(4), (1, 2, 3), rng.normal(size=(4, 3))),
        Image(box(3), (4, 5, 6), rng.normal(size=(3, 3))),
    )
    return noises | {"contrasts": KNormNoise(2.0, contrasts, ((0, 1), (2,)), (0.6, 0.4))}


LAWS = laws()
SAMPLES: dict[str, np.ndarray] = {}


def draws(name: str) -> np.ndarray:
    if name not in SAMPLES:
        random = np.random.default_rng(9)
        SAMPLES[name] = np.array([LAWS[name].sample(random) for _ in range(4000)])
    return SAMPLES[name]


@pytest.mark.slow
@pytest.mark.parametrize("probability", [0.05, 0.5, 0.95, 0.999])
@pytest.mark.parametrize("name", LAWS)
def test_norm_quantile_is_a_bound(name: str, probability: float) -> None:
    lengths = np.linalg.norm(draws(name), axis=1)
    bound = LAWS[name].norm_quantile(probability)
    within = int((lengths <= bound).sum())
    assert stats.binomtest(within, len(lengths), probability, alternative="less").pvalue > LEVEL
    if probability == 0.95 and name != "contrasts":
        assert bound < 1.4 * np.quantile(lengths, probability)


@pytest.mark.parametrize("name", LAWS)
def test_norm_quantile_far_out(name: str) -> None:
    """Not above the exact law of the gauge times the longest row, so the tail is exponential."""
    noise = LAWS[name]
    values = [noise.norm_quantile(1 - 10.0**-power) for power in range(1, 15)]
    assert np.all(np.diff(values) > 0)
    assert values[-1] < 30 * math.sqrt(noise.expected_square())


@pytest.mark.parametrize("name", LAWS)
def test_thresholds_are_joint_bounds(name: str) -> None:
    noise, sample = LAWS[name], np.abs(draws(name))
    for level in (0.5, 0.05):
        beyond = int((sample > noise.thresholds(level)).any(axis=1).sum())
        assert stats.binomtest(beyond, len(sample), level, alternative="greater").pvalue > LEVEL
    some = noise.thresholds(0.1, [1])
    assert np.isinf(some[[0, 2]]).all()
    assert stats.binomtest(int((sample[:, 1] > some[1]).sum()), len(sample), 0.1, alternative="greater").pvalue > LEVEL
    if name != "contrasts":
        # The marginal laws are exact, so the bound of one column is reached.
        assert stats.binomtest(int((sample[:, 1] > 0.97 * some[1]).sum()), len(sample), 0.1).pvalue > LEVEL


@pytest.mark.slow
@pytest.mark.parametrize(
    ("group", "block"),
    [
        (Group((box(2), cross(3))), box(2)),
        (Group((box(2), cross(3))), cross(3)),
        (Group((ball(3), cross(3))), ball(3)),
        (Group((intercept(), simplex(3), box(2))), box(2)),
        (Group((intercept(), simplex(3), box(2))), simplex(3)),
        (Group((intercept(), simplex(3), simplex(3))), intercept()),
        (Group((intercept(), simplex(2), simplex(4))), simplex(4)),
    ],
    ids=str,
)
def test_marginals(group: Group, block: ConvexBody) -> None:
    """Probability integral transform of R U_i: uniform."""
    rng, law = np.random.default_rng(1), marginal(group, block)
    where = group.slices[group.blocks.index(block)].start
    values = [rng.gamma(group.size + 1) * abs(group.uniform(rng)[where]) for _ in range(3000)]
    assert stats.kstest([law.tail(value) for value in values], stats.uniform.cdf).pvalue > LEVEL
    assert law.tail(law.quantile(1e-9)) == pytest.approx(1e-9, rel=1e-4)
    assert law.tail(1e-12) == pytest.approx(1, abs=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize("size", [1, 2, 7, 60])
def test_marginals_against_integrals(size: int) -> None:
    """A cross-polytope's coordinate is Laplace; a cube's and a ball's tails by quadrature over the radius; one simplex
    beside the intercept is again a cross-polytope, so its dummies are Laplace too."""
    for bound in (0.01, 1.0, 9.0):
        assert marginal(Group((cross(size),)), cross(size)).tail(bound) == pytest.approx(math.exp(-bound), rel=1e-10)
        hull = marginal(Group((intercept(), simplex(size))), simplex(size)).tail(bound)
        assert math.exp(-bound) * (1 - 1e-9) <= hull <= 1.005 * math.exp(-bound)
        for block, survival in (
            (box(size), lambda v: 1 - v),
            (ball(size), lambda v: 2 * stats.beta((size + 1) / 2, (size + 1) / 2).sf((1 + v) / 2)),
        ):
            exact = integrate.quad(
                lambda r, s=survival, b=bound: stats.gamma.pdf(r, size + 1) * s(b / r), bound, 400, limit=400
            )[0]
            found = marginal(Group((block,)), block).tail(bound)
            assert exact * (1 - 1e-6) <= found <= 1.005 * exact


def test_log_concave_bound_is_above_known_laws() -> None:
    for level in (0.3, 0.01, 1e-6, 1e-12):
        bound = log_concave_quantile(level)
        assert bound >= stats.laplace(scale=math.sqrt(0.5)).isf(level / 2)
        assert bound >= stats.norm.isf(level / 2)
        assert bound < 3 * stats.laplace(scale=math.sqrt(0.5)).isf(level / 2)


def test_invalid_calls() -> None:
    noise = LAWS["plain"]
    for probability in (0.0, 1.0, math.nan):
        with pytest.raises(ArgumentError):
            noise.norm_quantile(probability)
        with pytest.raises(ArgumentError):
            noise.thresholds(probability)
    for columns in ([], [0, 0], [99]):
        with pytest.raises(ArgumentError):
            noise.thresholds(0.1, columns)
