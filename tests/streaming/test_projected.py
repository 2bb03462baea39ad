"""Projected rows, lifting, and the number of directions."""

from __future__ import annotations

import json
import math
from typing import Any

import numpy as np
import pytest
from scipy import optimize

from dpstats.errors import ArgumentError
from dpstats.streaming import projected
from dpstats.streaming.constrained import Sandwich, minimise
from dpstats.streaming.constraints import Constraint, GroupL1, L1Ball, L2Ball
from dpstats.streaming.projected import Projection


def sparse_rows(rows: int, columns: int, seed: int = 0) -> np.ndarray:
    """Five entries a row, of norm 1."""
    rng = np.random.default_rng(seed)
    exog = np.zeros((rows, columns))
    for row in exog:
        row[rng.choice(columns, 5, replace=False)] = rng.choice([-1, 1], 5) / math.sqrt(5)
    return exog


def test_a_projected_row_is_as_long_as_the_row() -> None:
    """So the sensitivity of the sums of z y and z z' is that of x y and x x'."""
    exog = np.random.default_rng(1).normal(size=(50, 30)) * np.geomspace(1e-8, 1e8, 50)[:, None]
    made = Projection(30, 7).rows(exog)
    lengths = np.linalg.norm(exog, axis=1)
    np.testing.assert_allclose(np.linalg.norm(made, axis=1), lengths, rtol=1e-4)
    assert (np.linalg.norm(made, axis=1) <= lengths * (1 + 1e-12)).all()
    image = exog @ Projection(30, 7).matrix.T
    image *= (lengths / np.linalg.norm(image, axis=1))[:, None]
    np.testing.assert_allclose(made, image, atol=1e-3 * lengths.max(), rtol=1e-3)


def test_an_image_that_is_not_scaled_would_be_longer() -> None:
    """Planted: Phi x itself, which the sensitivity does not bound."""
    exog = sparse_rows(200, 30)
    bare = exog @ Projection(30, 7).matrix.T
    assert np.linalg.norm(bare, axis=1).max() > 1.3


def test_rows_without_an_image_are_zero() -> None:
    projection = Projection(4, 2)
    null = np.linalg.svd(projection.matrix)[2][-1]
    exog = np.array([[0.0] * 4, [math.nan, 0, 0, 0], [math.inf, 1, 1, 1], [1e308] * 4, [5e-324] * 4])
    made = projection.rows(exog)
    assert np.isfinite(made).all()
    np.testing.assert_array_equal(made[:3], 0)
    assert np.isfinite(projection.rows(null[None])).all()
    assert np.abs(made[4]).max() <= 1e-320


@pytest.mark.parametrize("columns", [1, 3, 30, 3000])
def test_a_row_is_projected_by_itself_to_the_last_bit(columns: int) -> None:
    """A row that is added must not move the others, not even by rounding."""
    exog = np.random.default_rng(2).normal(size=(101, columns))
    projection = Projection(columns, 17, seed=3)
    together = projection.rows(exog)
    for rows in (slice(0, 1), slice(4, 5), slice(1, 101), slice(50, 83)):
        np.testing.assert_array_equal(together[rows], projection.rows(exog[rows]))
        np.testing.assert_array_equal(together[rows], projection.rows(np.asfortranarray(exog)[rows]))


def test_plain_products_depend_on_the_rows_beside() -> None:
    """Planted: what the whole numbers are for; the last bits of a product of floats depend on how it is added up."""
    exog = np.random.default_rng(2).normal(size=(101, 3000))
    matrix = Projection(3000, 17).matrix
    alone = np.vstack([row[None] @ matrix.T for row in exog])
    assert not np.array_equal(alone, exog @ matrix.T)


@pytest.mark.parametrize("region", [3, L1Ball(1.0)], ids=["sparse", "l1"])
def test_rows_outside_the_region_enter_as_zero(region: Constraint | int) -> None:
    exog = np.array([[0.5, 0.5, 0, 0, 0], [0.6, 0.6, 0.6, 0.6, 0], [0, 0, 1.0, 0, 0]])
    made = Projection(5, 3).rows(exog, region)
    np.testing.assert_array_equal((made != 0).any(axis=1), [True, False, True])
    plain = Projection(5, 3).rows(exog)
    np.testing.assert_array_equal(made[[0, 2]], plain[[0, 2]])


def test_the_matrix_is_public_and_the_same_for_all() -> None:
    first, second = Projection(10, 4, 7), Projection(**json.loads(json.dumps(Projection(10, 4, 7).to_dict())))
    np.testing.assert_array_equal(first.matrix, second.matrix)
    assert not np.array_equal(first.matrix, Projection(10, 4, 8).matrix)
    # Kept for ever: what a stored stream was summed along.
    assert first.matrix[0, 0] == pytest.approx(0.0006150771, rel=1e-5)
    wide = Projection(400, 300).matrix
    assert np.var(wide) * 300 == pytest.approx(1, abs=5 * math.sqrt(2 / 120_000))
    with pytest.raises(ValueError, match="read-only"):
        first.matrix[0, 0] = 1


@pytest.mark.slow
@pytest.mark.parametrize("constraint", [L1Ball(1.0), L2Ball(1.0), GroupL1(1.0, 2)], ids=lambda c: c.name)
def test_lifting_has_the_image_and_no_larger_gauge(constraint: Constraint) -> None:
    projection = Projection(60, 25, 2)
    true = constraint.project(np.random.default_rng(3).normal(size=60) / 20)
    lifted = projection.lift(projection.matrix @ true, constraint)
    image = projection.matrix @ true
    assert np.linalg.norm(projection.matrix @ lifted - image) <= 1e-6 * np.linalg.norm(image)
    assert constraint.gauge(lifted) <= constraint.gauge(true) + 2e-3


@pytest.mark.slow
def test_lifting_against_closed_forms() -> None:
    """The pseudo-inverse for the Euclidean ball, a linear programme for the L1 ball, a sparse point itself."""
    projection = Projection(60, 25, 2)
    true = L1Ball(0.8).project(np.random.default_rng(3).normal(size=60) / 10)
    image = projection.matrix @ true
    euclidean = np.linalg.pinv(projection.matrix) @ image
    np.testing.assert_allclose(projection.lift(image, L2Ball(1.0)), euclidean, atol=2e-3 * np.linalg.norm(euclidean))
    both = np.hstack([projection.matrix, -projection.matrix])
    least = optimize.linprog(np.ones(120), A_eq=both, b_eq=image, method="highs").fun
    assert least - 1e-6 <= L1Ball(1.0).gauge(projection.lift(image, L1Ball(1.0))) <= least + 2e-3
    sparse = np.zeros(60)
    sparse[[3, 40]] = [0.5, -0.4]
    np.testing.assert_allclose(projection.lift(projection.matrix @ sparse, L1Ball(1.0)), sparse, atol=1e-3)


def test_the_fit_is_over_the_image_of_the_set() -> None:
    """As many directions as columns: the fit on the columns; few: no worse in the sketch than any other point."""
    exog = sparse_rows(2000, 12)
    theta = np.zeros(12)
    theta[:2] = [0.6, -0.4]
    endog = exog @ theta
    for directions in (6, 200):
        projection = Projection(12, directions, 1)
        made = projection.rows(exog)
        gram, cross = made.T @ made, made.T @ endog
        found = projection.fit(cross, gram, L1Ball(1.0))
        assert L1Ball(1.0).gauge(found) <= 1 + 1e-9
        image = projection.matrix @ found
        rng = np.random.default_rng(4)
        value = image @ gram @ image - 2 * image @ cross
        for point in rng.normal(size=(100, 12)):
            other = projection.matrix @ L1Ball(1.0).project(point)
            assert value <= other @ gram @ other - 2 * other @ cross + 1e-3
        if directions == 200:
            np.testing.assert_allclose(found, theta, atol=0.1)


def test_a_sandwich_is_its_product() -> None:
    rng = np.random.default_rng(5)
    outer, inner = rng.normal(size=(3, 8)), np.diag([1.0, 2.0, 3.0])
    vector = rng.normal(size=8)
    np.testing.assert_allclose(Sandwich(outer, inner) @ vector, outer.T @ inner @ outer @ vector)


def test_the_printed_number_of_directions() -> None:
    """T^(2/3) W^(4/3), above d at the size of the benchmark: d = 2,000 columns, rows of ten entries, T = 1e5."""
    assert projected.printed_directions(1000, 10.0) == math.ceil(1000 ** (2 / 3) * 10 ** (4 / 3) - 1e-9)
    width = projected.region_width(2000, 10) + L1Ball(1.0).gaussian_width(2000)
    assert projected.printed_directions(100_000, width) > 2000


def test_the_width_of_sparse_rows_is_a_bound() -> None:
    """E of the norm of the k greatest of 100 normal numbers, 2,000 draws; the bound is 20 % above: no false alarm."""
    draws = np.sort(np.abs(np.random.default_rng(6).normal(size=(2000, 100))), axis=1)
    for kept in (1, 5, 50):
        exact = np.sqrt((draws[:, -kept:] ** 2).sum(axis=1)).mean()
        assert exact <= projected.region_width(100, kept) <= 2 * exact
    assert projected.region_width(100, None) == projected.region_width(100, 100) == 10
    assert projected.region_width(100, L1Ball(2.0)) == L1Ball(2.0).gaussian_width(100)


def test_plans_say_what_directions_cost() -> None:
    given: dict[str, Any] = {"rows": 1e5, "noise_sd": 26.0, "region": 10}
    projection, notes = projected.plan_projection(2000, L1Ball(1.0), directions=500, **given)
    assert projection == Projection(2000, 500, 0)
    assert "125,750 sums instead of 2,003,000" in notes[0]
    assert "exceeds d" in notes[1]
    assert "lose accuracy" in notes[2]
    chosen, _ = projected.plan_projection(2000, L1Ball(1.0), **given)
    assert chosen.directions == 705  # a quarter of a million sums
    with pytest.raises(ArgumentError, match="no fewer than the 2,000 columns"):
        projected.plan_projection(2000, L1Ball(1.0), directions="printed", **given)


def test_directions_balance_sketch_and_noise() -> None:
    """Sets of small width take what memory allows; for the Euclidean ball there is a best number, below that."""
    given: dict[str, Any] = {"rows": 1e5, "noise_sd": 37.0}
    assert projected.choose_directions(2000, L1Ball(1.0), most_numbers=10**7, **given) == 2000
    few = projected.choose_directions(2000, L1Ball(1.0), most_numbers=1000, **given)
    assert few * (few + 3) / 2 <= 1000
    best = projected.choose_directions(2000, L2Ball(1.0), most_numbers=10**7, **given)
    found = [1e5 / m + 4 * 37.0 * math.sqrt(m) for m in range(1, 2001)]
    assert found[best - 1] <= 1.01 * min(found)


@pytest.mark.parametrize(
    "call",
    [
        lambda: Projection(10, 1.5),  # type: ignore[arg-type]
        lambda: Projection(10**6, 10**6),
        lambda: Projection(10, 0),
        lambda: projected.plan_projection(9, L1Ball(), rows=10, noise_sd=1, directions=3, region=0),
        lambda: projected.plan_projection(9, L1Ball(), rows=10, noise_sd=1, directions=3, region=1.5),  # type: ignore[arg-type]
        lambda: projected.plan_projection(9, L1Ball(), rows=10, noise_sd=1, directions="few"),
        lambda: projected.plan_projection(9, L1Ball(), rows=10, noise_sd=1, directions=9),
    ],
)
def test_bad_arguments_are_named(call: Any) -> None:
    with pytest.raises(ArgumentError):
        call()


def test_all_columns_are_at_least_as_good_without_noise() -> None:
    exog = sparse_rows(3000, 40)
    theta = np.zeros(40)
    theta[:2] = [0.5, -0.5]
    endog = exog @ theta
    direct = minimise(exog.T @ endog, exog.T @ exog, L1Ball(1.0))
    made = Projection(40, 10).rows(exog)
    sketched = Projection(40, 10).fit(made.T @ endog, made.T @ made, L1Ball(1.0))
    assert np.sum((exog @ (direct - theta)) ** 2) < np.sum((exog @ (sketched - theta)) ** 2)
