"""Exact integer sums of rows, their sensitivity, and the release on a lattice."""

from __future__ import annotations

import math

import numpy as np
import pytest

from dpstats.privacy.information import MatrixNoise, linear_predictor, matrix_noise, noisy_information
from dpstats.privacy.information.exact_sums import (
    BLOCK_ROWS,
    COVER_PLACES,
    FARTHEST_ROW,
    PLACES,
    UNIT_PLACES,
    _unit_integers,
    cover_sensitivity,
    cover_with_noise,
    integer_information,
    integer_rows,
)
from dpstats.privacy.randomness import SystemRandom


def rows(count: int, size: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    exog = rng.uniform(-1, 1, (count, size)) / math.sqrt(size)
    return exog, rng.uniform(0, 0.25, count)


@pytest.mark.parametrize("size", [1, 3, 20])
def test_a_row_moves_the_sum_by_at_most_its_weight(size: int) -> None:
    """v v' is positive semidefinite of rank one: its nuclear norm is |v|^2, computed here without rounding."""
    rng = np.random.default_rng(1)
    diagonal = rng.uniform(0.1, 2, size)
    exog = rng.normal(size=(500, size)) * rng.choice([1e-3, 1, 1e3], (500, 1))
    weights = rng.uniform(-0.1, 0.4, 500)
    found = integer_rows(exog, weights, diagonal, 0.25)
    assert np.array_equal(found, np.rint(found))
    for row, weight in zip(found, weights, strict=True):
        square = sum(int(cell) ** 2 for cell in row)
        assert square <= min(max(weight, 0), 0.25) * 4 * 2 ** (2 * PLACES)


def test_largest_rows_add_up_exactly() -> None:
    """All cells at their bound: partial sums stay below 2^53."""
    exog, weights = np.ones((2 * BLOCK_ROWS + 7, 1)), np.ones(2 * BLOCK_ROWS + 7)
    total = integer_information([(exog, weights)], np.ones(1), 1.0)
    each = int(integer_rows(exog[:1], weights[:1], np.ones(1), 1.0)[0, 0])
    assert each == 2**PLACES - 1
    assert total[0, 0] == len(exog) * each**2
    assert BLOCK_ROWS * 2 ** (2 * PLACES) <= 2**53


def test_a_row_does_not_move_the_others() -> None:
    """Bits of integers and linear predictors are the same alone, in any block and at any place."""
    exog, weights = rows(1001, 7)
    params = np.random.default_rng(2).normal(size=7)
    whole, eta = integer_rows(exog, weights, np.ones(7), 0.25), linear_predictor(exog, params)
    for start in (0, 1, 13, 997):
        for stop in (start + 1, 1000):
            part = slice(start, stop)
            copy = np.asfortranarray(exog[part])
            assert np.array_equal(integer_rows(copy, weights[part], np.ones(7), 0.25), whole[part])
            assert np.array_equal(linear_predictor(copy, params), eta[part])
    split = [(exog[:5], weights[:5]), (exog[5:], weights[5:])]
    together = integer_information([(exog[::-1], weights[::-1])], np.ones(7), 0.25)
    assert np.array_equal(integer_information(split, np.ones(7), 0.25), together)


def test_a_row_far_beyond_its_bound_counts_for_nothing() -> None:
    """Where squares no longer add up without rounding no row is left, and all rows below keep a length of 1."""
    rng = np.random.default_rng(5)
    exog = rng.normal(size=(3000, 20))
    exog *= (10.0 ** rng.uniform(-3, 120, 3000) / np.linalg.norm(exog, axis=1))[:, None]
    exog[:1500] *= rng.uniform(0.5, 40, 1500)[:, None] / np.linalg.norm(exog[:1500], axis=1)[:, None]
    found, length = integer_rows(exog, np.ones(3000), np.ones(20), 1.0), np.linalg.norm(exog, axis=1)
    assert not found[length > FARTHEST_ROW * (1 + 1e-5)].any()
    kept = (length > 1.0) & (length < FARTHEST_ROW * (1 - 1e-5))
    assert 300 < kept.sum() < 1200
    squares = (found[kept].astype(np.int64) ** 2).sum(axis=1)
    assert 0.9999 * 4.0**PLACES < squares.min() <= squares.max() <= 4.0**PLACES
    assert FARTHEST_ROW**2 * 4.0**UNIT_PLACES * 2 <= 2**53


@pytest.mark.parametrize("size", [2, 7, 20, 33])
def test_squares_are_the_same_in_any_order(size: int) -> None:
    """Columns in another order, and rows alone: what a row is shortened by is exact."""
    exog, _ = rows(5000, size)
    exog *= np.random.default_rng(6).choice([0.5, 3, 12], (5000, 1))
    order, diagonal = np.random.default_rng(7).permutation(size), np.linspace(1, 2, size)
    cells, shares = _unit_integers(exog.T, diagonal, np.empty((size, 5000)))
    others, again = _unit_integers(exog[:, order].T, diagonal[order], np.empty((size, 5000)))
    assert np.array_equal(others, cells[order])
    assert np.array_equal(again, shares)
    assert (shares < 0.9 * shares.max()).sum() > 500
    for row in (0, 17, 4999):
        assert _unit_integers(exog[[row]].T, diagonal, np.empty((size, 1)))[1][0] == shares[row]


def test_planted_squares_of_fractions_depend_on_the_order() -> None:
    """What the test above would find if cells were not whole."""
    exog, _ = rows(5000, 20)
    order = np.random.default_rng(7).permutation(20)
    assert (np.einsum("ij,ij->i", exog, exog) != np.einsum("ij,ij->i", exog[:, order], exog[:, order])).any()


def test_blocks_are_not_written_over() -> None:
    """Sums work in the place of copies."""
    exog, weights = rows(300, 4)
    for order in ("C", "F"):
        given = np.array(exog, order=order)  # type: ignore[call-overload]
        integer_information([(given, weights)], np.ones(4), 0.25)
        integer_rows(given, weights, np.ones(4), 0.25)
        assert np.array_equal(given, exog)


@pytest.mark.parametrize("random", [SystemRandom(), np.random.default_rng(0)], ids=["system", "seeded"])
@pytest.mark.parametrize("law", ["wishart", "normal"])
def test_release(law: str, random: object) -> None:
    """With hardly any noise the release is the weighted sum, symmetric and on the lattice."""
    exog, weights = rows(3000, 5)
    diagonal = (1.0, 1.0, 2.0, 1.0, 1.5)
    noise = MatrixNoise(law, 1e-7, diagonal)  # type: ignore[arg-type]
    found = noisy_information([(exog, weights)], noise, weight_bound=0.25, cover_eps=1.0, random=random)  # type: ignore[arg-type]
    right = (exog * weights[:, None]).T @ exog
    assert np.array_equal(found, found.T)
    # Truncation takes up to 2^-20 of the bound from a cell.
    assert np.abs(found - right).max() < 3000 * 0.25 * 2.0**-18
    root = np.sqrt(np.array(diagonal))
    steps = found / np.outer(root, root) / (0.25 * 2.0**-COVER_PLACES)
    assert np.abs(steps - np.rint(steps)).max() < 1e-3


def test_noise_is_that_of_the_plan() -> None:
    noise = matrix_noise([1.0, 4.0, 1.0], eps=0.5, weight_bound=0.25)
    draws = np.array(
        [
            noisy_information([], noise, weight_bound=0.25, cover_eps=0.005, random=np.random.default_rng(seed))
            for seed in range(1500)
        ]
    )
    ratio = (draws**2).mean(axis=0) / noise.variances()
    assert np.abs(ratio - 1).max() < 0.4
    assert ratio.mean() == pytest.approx(1, abs=0.15)


@pytest.mark.parametrize("law", ["wishart", "normal"])
@pytest.mark.parametrize("size", [1, 10, 100])
def test_cover_costs_nothing_visible(law: str, size: int) -> None:
    """1 % of eps2: the cover's scale beside the matrix noise's standard deviation off the diagonal."""
    eps = 0.1
    noise = MatrixNoise(law, 1 / eps, (1.0,) * size)  # type: ignore[arg-type]
    cover = cover_sensitivity(noise, 1.0) / (0.01 * eps) * 2.0**-COVER_PLACES
    assert cover < 1e-2 * math.sqrt(noise.entry_variance)


@pytest.mark.parametrize("size", [1, 4, 30])
def test_cover_holds_a_perturbed_draw(size: int) -> None:
    """Uniforms moved by a few roundings move the point by less than is covered."""

    class Fixed:
        def __init__(self, draws: np.ndarray) -> None:
            self.draws = draws

        def random(self, size: int) -> np.ndarray:
            return self.draws[:size]

    rng = np.random.default_rng(3)
    uniform = rng.uniform(0.001, 0.499, 2 * size * (size + 1))
    noise = MatrixNoise("wishart", 10.0, (1.0,) * size)
    moved = uniform * (1 + 1e-15 * rng.choice([-1, 1], len(uniform)))
    first, second = (noise.unit_sample(Fixed(draws)) for draws in (uniform, moved))
    distance = np.abs(first - second)[np.triu_indices(size)].sum() * 2.0**COVER_PLACES
    assert distance + size * (size + 1) / 4 <= cover_sensitivity(noise, 1.0) / 2


@pytest.mark.parametrize("law", ["wishart", "normal"])
@pytest.mark.parametrize("size", [1, 4, 30])
def test_cover_holds_sums_on_two_sides_of_a_step(law: str, size: int) -> None:
    """Sums of one ideal release may be rounded apart in every entry, whatever little noise there is."""
    entries = size * (size + 1) // 2
    unit = 2 ** (2 * PLACES - COVER_PLACES)
    below, above = np.full((size, size), unit // 2 - 1, dtype=object), np.full((size, size), unit // 2, dtype=object)
    assert int((above - below)[0, 0]) == 1  # of 2^40 parts of a weight's square: as near as two draws can tell
    noise = MatrixNoise(law, 1e-30, (1.0,) * size)  # type: ignore[arg-type]
    steps = [
        cover_with_noise([total], noise, weight_bound=1.0, cover_eps=1e6, random=np.random.default_rng(0))[0]
        * 2.0**COVER_PLACES
        for total in (below, above)
    ]
    distance = np.abs(steps[1] - steps[0])[np.triu_indices(size)].sum()
    assert distance == entries
    assert cover_sensitivity(noise, 1.0) >= distance


def test_planted_rounding_to_nearest_exceeds_the_weight() -> None:
    """Without truncation a row can move the sum by more than its weight."""
    rng = np.random.default_rng(1)
    exog = rng.normal(size=(200, 30))
    exog /= np.linalg.norm(exog, axis=1)[:, None]
    squares = (np.rint(exog * 2.0**PLACES) ** 2).sum(axis=1)
    assert squares.max() > 2 ** (2 * PLACES)
