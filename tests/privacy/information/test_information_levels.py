"""Matrix noise by levels: what a row moves, exact log-ratios, moments, and where it is less than the whole matrix's."""

from __future__ import annotations

import numpy as np
import pytest
from wishart_law import log_ratio

from dpstats.errors import ArgumentError
from dpstats.privacy.information import (
    LevelNoise,
    MatrixNoise,
    design_metric,
    level_maps,
    noisy_information,
    noisy_level_information,
    shaped_diagonal,
)
from dpstats.privacy.k_norm import intercept, simplex, unit_images
from dpstats.privacy.randomness import SystemRandom


def treatment(levels: int, others: int, law: str = "wishart") -> tuple[LevelNoise, MatrixNoise]:
    """Intercept, numeric columns and a factor's dummies; noise by levels and for the whole, scale 1."""
    size = 1 + others + levels - 1
    kept, columns = np.arange(1 + others), np.arange(1 + others, size)
    coding = np.vstack((np.zeros(levels - 1), np.eye(levels - 1)))
    part = MatrixNoise(law, 1.0, shaped_diagonal([1.0] * (1 + others), [1] * (1 + others)))  # type: ignore[arg-type]
    whole = shaped_diagonal([1.0] * (2 + others), [1] * (1 + others) + [levels - 1])
    return LevelNoise(part, level_maps(coding, columns, kept, 1.0, size)), MatrixNoise(law, 1.0, whole)  # type: ignore[arg-type]


def rows(count: int = 500, levels: int = 4) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    exog = np.column_stack((np.ones(count), rng.uniform(-1, 1, (count, 2))))
    return exog, rng.uniform(0, 1, count), rng.integers(0, levels, count)


def test_sum_is_that_of_the_rows() -> None:
    noise, _ = treatment(4, 2)
    exog, weights, levels = rows()
    x = np.column_stack((exog, np.eye(4)[levels][:, 1:]))
    quiet = LevelNoise(noise.noise.scaled(1e-7), noise.maps)
    found = noisy_level_information(
        [(exog[:99], weights[:99], levels[:99]), (exog[99:], weights[99:], levels[99:])],
        quiet,
        weight_bound=1.0,
        cover_eps=1.0,
        random=SystemRandom(),
    )
    assert np.abs(found - (x * weights[:, None]).T @ x).max() < 0.02
    assert found[3, 4] == 0
    assert np.array_equal(found, found.T)


def test_a_row_meets_one_matrix() -> None:
    """The exact log-ratio of all level matrices is that of one: at most tr A / s, and reached."""
    rng, worst = np.random.default_rng(2), 0.0
    for _ in range(20):
        draws = rng.normal(size=(3, 2, 2))
        draws = draws @ draws.transpose(0, 2, 1) * rng.choice([-1, 1], (3, 1, 1))
        row = rng.normal(size=2)
        added = np.zeros((3, 2, 2))
        added[rng.integers(3)] = np.outer(row, row) / (row @ row)
        worst = max(worst, abs(sum(log_ratio(draw, move) for draw, move in zip(draws, added, strict=True))))
    assert 0.999 < worst <= 1 + 1e-6


@pytest.mark.slow
@pytest.mark.parametrize("law", ["wishart", "normal"])
def test_moments(law: str) -> None:
    noise, whole = treatment(3, 1, law)
    random = np.random.default_rng(6)
    middle = np.array([[2, 0.3, 0, 0.1], [0.3, 1, 0.2, 0], [0, 0.2, 0.5, 0], [0.1, 0, 0, 1]])
    for each in (noise, whole):
        draws = np.array([each.sample(random) for _ in range(20000)])
        variances = each.variances()
        nonzero = variances > 0
        assert np.all(draws[:, ~nonzero] == 0)
        assert (draws**2).mean(axis=0)[nonzero] / variances[nonzero] == pytest.approx(np.ones(nonzero.sum()), abs=0.1)
        sandwich, exact = np.einsum("kij,jl,klm->im", draws, middle, draws) / len(draws), each.sandwich(middle)
        assert np.abs(sandwich - exact).max() < 0.06 * np.abs(exact).max()
    assert noise.variances()[2, 3] == 0


@pytest.mark.parametrize(("levels", "others"), [(5, 2), (10, 2), (30, 2), (100, 3)])
def test_less_noise_in_every_entry(levels: int, others: int) -> None:
    """One factor beside few other columns: no entry has more noise, those of levels have much less."""
    noise, whole = treatment(levels, others)
    ratio = noise.variances() / whole.variances()
    assert ratio.max() < 1
    factor = slice(1 + others, None)
    assert ratio[1 + others :, : 1 + others].max() < 8 / levels
    assert np.count_nonzero(noise.variances()[factor, factor]) == levels - 1


def test_more_noise_where_the_others_are_many() -> None:
    noise, whole = treatment(10, 5)
    assert noise.variances()[1, 1] > whole.variances()[1, 1]


def test_one_level_is_the_whole_matrix() -> None:
    noise = MatrixNoise("wishart", 1.0, (1.0, 2.0, 0.5))
    one = LevelNoise(noise, np.eye(3)[None])
    assert one.variances() == pytest.approx(noise.variances())
    exog, weights, _ = rows()
    common = {"weight_bound": 1.0, "cover_eps": 1.0}
    first = noisy_information([(exog, weights)], noise, random=np.random.default_rng(1), **common)
    levels = np.zeros(len(exog), dtype=np.int64)
    second = noisy_level_information([(exog, weights, levels)], one, random=np.random.default_rng(1), **common)
    assert np.array_equal(first, second)


def test_planted_two_levels_in_one_row() -> None:
    """A row counted at two levels moves two matrices."""
    noise = np.eye(2)
    assert sum(abs(log_ratio(noise, np.outer([1, 0], [1, 0]))) for _ in range(2)) == pytest.approx(2)


def test_errors() -> None:
    with pytest.raises(ArgumentError):
        LevelNoise(MatrixNoise("wishart", 1.0, (1.0, 1.0)), np.zeros((2, 3, 4)))


@pytest.mark.parametrize(
    ("levels", "others", "found"),
    [
        (5, 2, (0.90, 0.36, 0.72)),
        (10, 2, (0.77, 0.23, 0.69)),
        (30, 2, (0.47, 0.08, 0.45)),
        (10, 5, (1.94, 0.58, 1.75)),
    ],
)
def test_table_of_the_page(levels: int, others: int, found: tuple[float, ...]) -> None:
    noise, whole = treatment(levels, others)
    ratio = noise.variances() / whole.variances()
    assert (ratio[1, 2], ratio[1 + others, 1], ratio[1 + others, 1 + others]) == pytest.approx(found, abs=5.1e-3)


@pytest.mark.slow
def test_metric_within_levels() -> None:
    """Rows in the coordinates of the small matrices' metric: the release is the same sum."""
    metric = design_metric(unit_images([intercept(), simplex(2)]))
    noise = LevelNoise(MatrixNoise("wishart", 1e-8, *metric), treatment(4, 2)[0].maps)
    rng = np.random.default_rng(3)
    exog = np.column_stack((np.ones(300), np.eye(3)[rng.integers(0, 3, 300)][:, 1:]))
    weights, levels = rng.uniform(0, 1, 300), rng.integers(0, 4, 300)
    found = noisy_level_information(
        [(exog, weights, levels)], noise, weight_bound=1.0, cover_eps=1.0, random=SystemRandom()
    )
    x = np.column_stack((exog, np.eye(4)[levels][:, 1:]))
    assert np.abs(found - (x * weights[:, None]).T @ x).max() < 0.02
    random = np.random.default_rng(4)
    draws = np.array([noise.sample(random) for _ in range(10_000)])
    nonzero = noise.variances() > 0
    assert (draws**2).mean(axis=0)[nonzero] / noise.variances()[nonzero] == pytest.approx(1, abs=0.15)
