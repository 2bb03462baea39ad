"""Sums of squared scores of persons: what they estimate, what a person can add, alike however rows are cut."""

from __future__ import annotations

import numpy as np
import pytest

from dpstats.data import MemoryRows
from dpstats.privacy.information.scores import (
    PARTS,
    direction_parts,
    directions,
    noisy_cluster_spread,
    person_scores,
    score_squares,
    spread_allowances,
    spread_bound,
)

LIPSCHITZ = 0.7
SIZE = 4
Rows = tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]


def persons(count: int, most: int, seed: int, *, shared: bool = True, extreme: bool = False) -> Rows:
    """Rows of norm up to 1, slopes up to L, and whose they are; a person's alike and at the bounds if `extreme`."""
    rng = np.random.default_rng(seed)
    whose = np.repeat(np.arange(count), rng.integers(1, most + 1, count))
    exog = rng.normal(size=(len(whose), SIZE))
    slopes = rng.uniform(-LIPSCHITZ, LIPSCHITZ, len(whose))
    if extreme:
        exog, slopes = exog[np.searchsorted(whose, whose)], np.where(slopes > 0, LIPSCHITZ, -LIPSCHITZ)
        slopes = slopes[np.searchsorted(whose, whose)]
    exog /= np.linalg.norm(exog, axis=1, keepdims=True) * (1 if extreme else rng.uniform(1, 2, (len(whose), 1)))
    sizes = np.bincount(whose)[whose]
    weights = 1 / sizes if shared else np.ones(len(whose))
    order = rng.permutation(len(whose))
    return exog[order], slopes[order], weights[order], whose[order]


def without(rows: Rows, person: int) -> Rows:
    """The rows of all others, who are numbered anew."""
    kept = rows[3] != person
    exog, slopes, weights, whose = (part[kept] for part in rows)
    return exog, slopes, weights, np.unique(whose, return_inverse=True)[1]


def public(seed: int = 3) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """An inverse of the information, a diagonal metric in which rows are within 1, and contrasts."""
    rng = np.random.default_rng(seed)
    root = rng.normal(size=(SIZE, SIZE))
    return root @ root.T / 100, np.full(SIZE, 1.0), np.eye(SIZE)[: SIZE - 1]


def totals(rows: Rows, most: int) -> np.ndarray:
    inverse, diagonal, contrasts = public()
    found = directions(inverse, diagonal, contrasts)
    return direction_parts(score_squares(person_scores(diagonal, LIPSCHITZ, (), [rows]), most), found)


@pytest.mark.parametrize(("shared", "most"), [(True, 1), (False, 5)])
def test_it_estimates_the_scores_of_persons(shared: bool, most: int) -> None:
    exog, slopes, weights, whose = rows = persons(3000, 5, 1, shared=shared, extreme=True)
    inverse, diagonal, contrasts = public()
    released = noisy_cluster_spread(
        MemoryRows([rows]),
        inverse=inverse,
        diagonal=diagonal,
        contrasts=contrasts,
        lipschitz=LIPSCHITZ,
        most=most,
        eps=1e7,
        random=np.random.default_rng(2),
    )
    scores = np.zeros((3000, SIZE))
    np.add.at(scores, whose, exog * (weights * slopes)[:, None])
    expected = ((scores @ inverse @ contrasts.T) ** 2).sum(axis=0)
    assert released == pytest.approx(expected, rel=1e-3)
    by_rows = (((exog * (weights * slopes)[:, None]) @ inverse @ contrasts.T) ** 2).sum(axis=0)
    assert not np.allclose(by_rows, expected, rtol=0.05)


@pytest.mark.slow
@pytest.mark.parametrize("adjacency", ["add_remove", "replace_one"])
def test_the_noise_is_that_of_the_proof(adjacency: str) -> None:
    """Spread of 2,000 releases of one data set against the Laplace law: five standard errors, 1 in a million."""
    inverse, diagonal, contrasts = public()
    allowances = spread_allowances(inverse, diagonal, contrasts)
    rows, random = MemoryRows([persons(20, 3, 1, shared=False)]), np.random.default_rng(6)
    draws = np.array(
        [
            noisy_cluster_spread(
                rows,
                inverse=inverse,
                diagonal=diagonal,
                contrasts=contrasts,
                lipschitz=LIPSCHITZ,
                most=3,
                eps=0.5,
                adjacency=adjacency,  # type: ignore[arg-type]
                random=random,
                allowances=allowances,
            )
            for _ in range(2000)
        ]
    )
    records = 2 if adjacency == "replace_one" else 1
    own = np.diag(contrasts @ inverse @ contrasts.T)
    scale = records * (3 * LIPSCHITZ) ** 2 * spread_bound(inverse, diagonal, contrasts, (), allowances) / 0.5
    spread = np.abs(draws - np.median(draws, axis=0)).mean(axis=0) / (scale * allowances * own)
    assert spread == pytest.approx(1.0, abs=5 / np.sqrt(2000))


@pytest.mark.parametrize("extreme", [False, True], ids=["random", "extreme"])
@pytest.mark.parametrize(("shared", "most"), [(True, 1), (False, 3)])
def test_no_person_adds_more_than_the_noise_covers(shared: bool, most: int, extreme: bool) -> None:
    rows = persons(30, 3, 5, shared=shared, extreme=extreme)
    whole = totals(rows, most)
    moved = [int((whole - totals(without(rows, person), most)).sum()) for person in range(30)]
    rounded = SIZE - 1  # one for each contrast, which the noise covers
    assert min(moved) >= -rounded
    assert max(moved) <= PARTS + rounded
    if extreme:  # the bound is met but for the directions
        assert max(moved) > 0.3 * PARTS


def test_shares_forgotten_are_caught() -> None:
    """Planted: every row at full weight, with the noise of rows that share one."""
    exog, slopes, _, whose = persons(30, 3, 5, extreme=True)
    wrong = (exog, slopes, np.ones(len(slopes)), whose)
    whole = totals(wrong, 1)
    assert max(int((whole - totals(without(wrong, person), 1)).sum()) for person in range(30)) > 2 * PARTS


def test_a_cap_forgotten_in_this_pass_is_caught() -> None:
    """Planted: up to five rows of each person where two were drawn for the fit."""
    rows = persons(30, 5, 5, shared=False, extreme=True)
    whole = totals(rows, 2)
    assert max(int((whole - totals(without(rows, person), 2)).sum()) for person in range(30)) > PARTS


@pytest.mark.parametrize("cuts", [[1], [5, 40], [10, 11, 60]], ids=str)
def test_blocks_and_their_order_change_nothing(cuts: list[int]) -> None:
    rows = persons(40, 4, 8)
    parts = [tuple(part) for part in zip(*(np.split(column, cuts) for column in rows), strict=True)]
    whole = person_scores(np.ones(SIZE), LIPSCHITZ, (), [rows])
    for order in (parts, parts[::-1]):
        found = person_scores(np.ones(SIZE), LIPSCHITZ, (), order)  # type: ignore[arg-type]
        assert np.array_equal(found, whole)


def test_long_rows_steep_slopes_and_heavy_weights_are_held() -> None:
    exog, slopes, weights, whose = persons(10, 1, 2)
    scores = person_scores(np.ones(SIZE), LIPSCHITZ, (), [(1e6 * exog, 1e6 * slopes, 1e6 * weights, whose)])
    assert (np.linalg.norm(scores, axis=1) <= 2.0**40).all()
    assert (np.linalg.norm(scores, axis=1) > 0.999 * 2.0**40).all()
