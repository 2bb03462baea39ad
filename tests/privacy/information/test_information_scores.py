"""Sums of squared scores: sensitivity of the integers, for every row and pair, values and noise.

Seeds are fixed. One test of fit at level 1e-4.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy import stats

from dpstats.data import MemoryRows
from dpstats.errors import ArgumentError
from dpstats.privacy.information import design_metric, noisy_spread, noisy_sum, spread_allowances, spread_bound
from dpstats.privacy.information.exact_sums import integer_information
from dpstats.privacy.information.matrix import MatrixNoise
from dpstats.privacy.information.scores import PARTS, Directions, direction_parts, directions
from dpstats.privacy.k_norm import box, intercept, simplex, unit_images
from dpstats.privacy.randomness import SystemRandom


def setting(size: int = 6, seed: int = 0) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    root = rng.normal(size=(size, size + 2))
    return np.linalg.inv(root @ root.T), rng.uniform(0.5, 3, size), np.array([0, 2, 5])


def row_parts(
    exog: np.ndarray, slopes: np.ndarray, public: Directions, diagonal: np.ndarray, lipschitz: float
) -> np.ndarray:
    """What each row alone has in each direction, shape (rows, k)."""
    rows = zip(exog, slopes, strict=True)
    totals = (integer_information([(row[None], np.array([slope**2]))], diagonal, lipschitz**2) for row, slope in rows)
    return np.array([direction_parts(total, public) for total in totals])


def rows_of(inverse: np.ndarray, kept: np.ndarray) -> np.ndarray:
    """The contrasts that are single coefficients."""
    return np.eye(len(inverse))[kept]


def hard_rows(inverse: np.ndarray, diagonal: np.ndarray, kept: np.ndarray, count: int = 400) -> np.ndarray:
    """Random rows at their bound, the worst one first."""
    scaled = np.sqrt(diagonal)[:, None] * inverse[:, kept] / np.sqrt(np.diag(inverse)[kept])
    worst = np.linalg.svd(scaled)[0][:, 0]
    cells = np.random.default_rng(4).normal(size=(count, len(diagonal)))
    cells /= np.linalg.norm(cells, axis=1)[:, None]
    cells[0] = worst
    return cells * np.sqrt(diagonal)


def test_bound_is_the_formula() -> None:
    inverse, diagonal, kept = setting()
    root = np.diag(np.sqrt(diagonal))
    middle = inverse[:, kept] / np.diag(inverse)[kept] @ inverse[kept]
    assert spread_bound(inverse, diagonal, rows_of(inverse, kept)) == pytest.approx(
        np.linalg.eigvalsh(root @ middle @ root)[-1], rel=1e-6
    )


def test_one_row_moves_the_integers_by_at_most_one_bound() -> None:
    inverse, diagonal, kept = setting()
    public = directions(inverse, diagonal, rows_of(inverse, kept))
    exog = np.vstack((hard_rows(inverse, diagonal, kept), 1e3 * hard_rows(inverse, diagonal, kept)))
    slopes = np.where(np.arange(len(exog)) % 2, 2.0, -7.0)
    parts = row_parts(exog, slopes, public, diagonal, 2.0)
    assert parts.min() >= 0
    # Each of three sums is rounded.
    assert 0.999 * PARTS < parts.sum(axis=1).max() <= PARTS + 3 / 2
    assert public.cells.max() < 2**31 + 1


def test_replacing_may_move_twice_as_much() -> None:
    """Two records that load different coefficients."""
    inverse, diagonal = np.eye(2), np.ones(2)
    public = directions(inverse, diagonal, np.eye(2))
    first, second = row_parts(np.eye(2), np.ones(2), public, diagonal, 1.0)
    assert np.abs(first - second).sum() > 1.999 * PARTS


def test_neighbours_differ_by_the_sensitivity() -> None:
    """Rounded sums of many rows, with and without one of them, and with it replaced."""
    inverse, diagonal, kept = setting()
    public = directions(inverse, diagonal, rows_of(inverse, kept))
    exog, slopes = hard_rows(inverse, diagonal, kept), np.linspace(-1, 1, 400)
    total = integer_information([(exog, slopes**2)], diagonal, 1.0)
    whole, widest = direction_parts(total, public), 0
    for row in range(50):
        one, other = (integer_information([(exog[[at]], slopes[[at]] ** 2)], diagonal, 1.0) for at in (row, 399 - row))
        without = direction_parts(total - one, public)
        widest = max(widest, int(np.abs(whole - without).sum()))
        assert np.abs(whole - without).sum() <= PARTS + 3
        assert np.abs(whole - direction_parts(total - one + other, public)).sum() <= 2 * PARTS + 3
    assert widest > 0.99 * PARTS


def test_parts_are_exact_where_floats_are_not() -> None:
    """2^31 rows' worth: the sum of integers, not of their float images."""
    inverse, diagonal = np.eye(2), np.ones(2)
    public = directions(inverse, diagonal, np.eye(2))
    one = integer_information([(np.eye(2)[:1], np.ones(1))], diagonal, 1.0)
    many, single = one * 2**31, int(direction_parts(one, public)[0])
    assert direction_parts(many, public)[0] == pytest.approx(2**31 * single, rel=1e-9)
    assert abs(int(direction_parts(many + one, public)[0] - direction_parts(many, public)[0]) - single) <= 1


def test_values() -> None:
    inverse, diagonal, kept = setting()
    exog, slopes = hard_rows(inverse, diagonal, kept), np.linspace(-1, 1, 400)
    found = noisy_spread(
        [(exog[:9], slopes[:9]), (exog[9:], slopes[9:])],
        inverse=inverse,
        diagonal=diagonal,
        contrasts=rows_of(inverse, kept),
        lipschitz=1.0,
        eps=1e6,
        random=SystemRandom(),
    )
    right = ((slopes[:, None] * (exog @ inverse[:, kept])) ** 2).sum(axis=0)
    assert found == pytest.approx(right, rel=1e-3)
    assert noisy_sum([slopes[:9] ** 2, slopes[9:] ** 2], 1.0, eps=1e7, random=SystemRandom()) == pytest.approx(
        (slopes**2).sum(), rel=1e-4
    )


@pytest.mark.slow
def test_noise() -> None:
    random = np.random.default_rng(5)
    draws = np.array([noisy_sum([], 4.0, eps=0.5, random=random) for _ in range(4000)])
    assert stats.kstest(draws, stats.laplace(scale=8.0).cdf).pvalue > 1e-4
    inverse, diagonal, kept = setting()
    spread = {
        "inverse": inverse,
        "diagonal": diagonal,
        "contrasts": rows_of(inverse, kept),
        "lipschitz": 2.0,
        "eps": 0.5,
    }
    for adjacency, times in (("add_remove", 1), ("replace_one", 2)):
        found = np.array([noisy_spread([], adjacency=adjacency, random=random, **spread) for _ in range(2000)])  # type: ignore[arg-type]
        scale = times * np.diag(inverse)[kept] * 4 * spread_bound(inverse, diagonal, rows_of(inverse, kept)) / 0.5
        assert np.abs(found).mean(axis=0) / scale == pytest.approx(np.ones(3), abs=0.15)


def test_values_outside_the_bound_are_clipped() -> None:
    found = noisy_sum([np.array([9.0, -1.0])], 1.0, eps=1e9, random=SystemRandom())
    assert found == pytest.approx(1, abs=1e-6)
    with pytest.raises(ArgumentError):
        noisy_sum([], 0.0, eps=1.0, random=SystemRandom())


class TestAllowances:
    """A design with a rare level: its variance takes the noise that it needs, the others are spared."""

    images = unit_images([intercept(), box(2), simplex(4)])

    def setting(self) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        rng = np.random.default_rng(7)
        level = rng.choice(5, 4000, p=[0.4, 0.3, 0.2, 0.09, 0.01])
        exog = np.column_stack((np.ones(4000), rng.uniform(-1, 1, (4000, 2)), np.eye(5)[level][:, 1:]))
        inverse, kept = np.linalg.inv(exog.T @ exog), np.arange(7)
        allowances = spread_allowances(inverse, np.array(self.metric[0]), rows_of(inverse, kept), self.metric[1])
        return exog, inverse, kept, allowances

    @property
    def metric(self) -> tuple[tuple[float, ...], tuple[tuple[float, ...], ...]]:
        return design_metric(self.images)

    def test_one_row_moves_the_integers_by_at_most_one_bound(self) -> None:
        exog, inverse, kept, allowances = self.setting()
        diagonal, mixing = np.array(self.metric[0]), self.metric[1]
        public = directions(inverse, diagonal, rows_of(inverse, kept), mixing, allowances)
        cells = MatrixNoise("wishart", 1.0, *self.metric).coordinates(exog[:500])
        hard = hard_rows(inverse, diagonal, kept)
        worst = np.linalg.svd(public.cells)[0][:, 0] * np.sqrt(diagonal)
        for rows in (cells, hard, worst[None]):
            assert row_parts(rows, np.ones(len(rows)), public, diagonal, 1.0).sum(axis=1).max() <= PARTS + 7 / 2
        assert row_parts(worst[None], np.ones(1), public, diagonal, 1.0).sum() > 0.999 * PARTS

    def test_planted_bound_without_the_allowances(self) -> None:
        """Lambda of equal allowances with the directions of others: a row moves the integers by more."""
        _, inverse, kept, allowances = self.setting()
        diagonal, mixing = np.array(self.metric[0]), self.metric[1]
        right = directions(inverse, diagonal, rows_of(inverse, kept), mixing, allowances)
        wrong = right._replace(bound=spread_bound(inverse, diagonal, rows_of(inverse, kept), mixing))
        worst = np.linalg.svd(right.cells)[0][:, 0] * np.sqrt(diagonal)
        assert row_parts(worst[None], np.ones(1), wrong, diagonal, 1.0).sum() > 2 * PARTS

    def test_values_noise_and_gain(self) -> None:
        exog, inverse, kept, allowances = self.setting()
        diagonal, mixing = np.array(self.metric[0]), self.metric[1]
        slopes = np.random.default_rng(8).uniform(-1, 1, len(exog))
        exact = (slopes**2) @ (exog @ inverse) ** 2
        options = {
            "inverse": inverse,
            "diagonal": diagonal,
            "contrasts": rows_of(inverse, kept),
            "lipschitz": 1.0,
            "eps": 2.0,
        }
        draws = np.array(
            [
                noisy_spread(
                    [(exog, slopes)],
                    random=np.random.default_rng(seed),
                    mixing=mixing,
                    allowances=allowances,
                    **options,
                )
                for seed in range(200)
            ]
        )
        scale = (
            allowances
            * np.diag(inverse)
            * spread_bound(inverse, diagonal, rows_of(inverse, kept), mixing, allowances)
            / 2.0
        )
        equal = np.diag(inverse) * spread_bound(inverse, diagonal, rows_of(inverse, kept), mixing) / 2.0
        assert np.all(np.abs(draws - exact).mean(axis=0) / scale < 1 + 5 / np.sqrt(200))
        assert np.all(np.abs(draws - exact).mean(axis=0) / scale > 1 - 5 / np.sqrt(200))
        assert np.median(scale / equal) < 0.35
        assert np.max(scale / equal) < 1.5


class Copies(MemoryRows[Any]):
    """So many copies of some rows: 2**40."""

    def total(self, part: Any, add: Any) -> Any:
        found = part(self)
        for _ in range(40):
            found = add(found, found)
        return found


def test_a_sum_over_more_rows_than_64_bits_hold_is_held_and_does_not_turn_round() -> None:
    rows = Copies([np.ones(3)])
    assert noisy_sum(rows, 1.0, eps=1.0, random=SystemRandom()) == pytest.approx(2.0**32, rel=1e-6)
    one = MemoryRows([np.array([0.25, 1.0, 2.0])])
    assert noisy_sum(one, 1.0, eps=1e6, random=SystemRandom()) == pytest.approx(2.25, abs=1e-4)

    def test_a_number_beside_a_rare_level_has_the_noise_that_it_needs(self) -> None:
        """Intercept and a level of 97 % need the same noise; by the median of three the number would have theirs."""
        rng = np.random.default_rng(3)
        exog = np.column_stack((np.ones(3000), rng.uniform(-1, 1, 3000), rng.random(3000) < 0.97))
        diagonal, mixing = design_metric(unit_images([intercept(), box(1), simplex(1)]))
        public = (np.linalg.inv(exog.T @ exog), np.array(diagonal), np.eye(3), mixing)
        allowances, equal = spread_allowances(*public), spread_bound(*public)
        noise = allowances * spread_bound(*public, allowances)
        assert noise[1] < 0.25 * equal
        assert noise.max() < 1.1 * equal
        assert np.median(noise) > equal
