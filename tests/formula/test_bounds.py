"""Term bounds and the suprema drawn from them, against linear programs and sampled rows."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import linprog

from dpstats.errors import ArgumentError
from dpstats.formula.bounds import FactorBounds, Term, interact, largest_sum, measure, term_norm

SEEDS = range(20)


@pytest.mark.parametrize("seed", SEEDS)
def test_the_knapsack_is_the_linear_program(seed: int) -> None:
    random = np.random.default_rng(seed)
    gains, limits = random.exponential(size=(2, 7))
    total = random.uniform(0, limits.sum() * 1.2)
    best = linprog(-gains, A_ub=np.ones((1, 7)), b_ub=[total], bounds=[(0, limit) for limit in limits])
    assert largest_sum(gains, limits, total) == pytest.approx(-best.fun, rel=1e-9)


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("which", ["l1", "l2", "linf"])
def test_no_row_within_the_bounds_exceeds_the_norm(seed: int, which: str) -> None:
    random = np.random.default_rng(seed)
    maxima = random.uniform(0.2, 1, 5)
    term = Term("t", slice(0, 5), maxima, l2=random.uniform(0.3, 1.5), l1=random.uniform(0.3, 2))
    weights = random.exponential(size=5)
    rows = random.uniform(-1, 1, (5000, 5)) * maxima * random.integers(0, 2, (5000, 5))
    rows /= np.maximum(1, np.maximum(np.linalg.norm(rows, axis=1) / term.l2, np.abs(rows).sum(axis=1) / term.l1))[
        :, None
    ]
    order = {"l1": 1, "l2": 2, "linf": np.inf}[which]
    assert np.linalg.norm(rows * weights, ord=order, axis=1).max() <= term_norm(term, which, weights) * (1 + 1e-12)


def test_one_hot_terms_cost_one_weight() -> None:
    term = Term("group", slice(0, 3), np.ones(3), l2=1.0, l1=1.0)
    weights = np.array([0.5, 2.0, 1.0])
    assert [term_norm(term, which, weights) for which in ("l1", "l2", "linf")] == [2.0, 2.0, 2.0]


def test_l1_uses_the_l2_bound_where_that_is_sharper() -> None:
    term = Term("basis", slice(0, 4), np.ones(4), l2=1.0, l1=4.0)
    assert term_norm(term, "l1", np.ones(4)) == pytest.approx(2.0)


def test_a_term_without_columns_has_no_norm() -> None:
    empty = Term("one level", slice(2, 2), np.empty(0), 0.0, 0.0)
    assert [term_norm(empty, which, np.empty(0)) for which in ("l1", "l2", "linf")] == [0.0, 0.0, 0.0]


def test_an_unknown_norm_is_an_error() -> None:
    with pytest.raises(ArgumentError, match="which must be"):
        term_norm(Term("t", slice(0, 1), np.ones(1), 1.0, 1.0), "l3", np.ones(1))


def test_measure_leaves_out_rows_that_are_not_finite() -> None:
    bounds = measure(np.array([[1.0, -4.0], [2.0, 2.0], [np.inf, 9.0], [np.nan, 0.0]]), grid=False)
    assert bounds.low.tolist() == [1.0, -4.0]
    assert bounds.high.tolist() == [2.0, 2.0]
    # Columns are divided by 2 and 4: the rows are (1/2, -1) and (1, 1/2), of equal norms.
    assert bounds.l2 == pytest.approx(np.sqrt(1.25))
    assert bounds.l1 == pytest.approx(1.5)
    with pytest.raises(ValueError, match="not finite anywhere"):
        measure(np.full((3, 1), np.nan), grid=True)


def test_measure_widens_what_a_grid_can_miss_but_not_constants() -> None:
    values = np.array([[0.0, 5.0], [1.0, 5.0]])
    exact, widened = measure(values, grid=False), measure(values, grid=True)
    assert widened.high[0] > exact.high[0] == 1.0
    assert widened.low[0] < exact.low[0] == 0.0
    assert (widened.low[1], widened.high[1]) == (5.0, 5.0)


@pytest.mark.parametrize("seed", SEEDS)
def test_interactions_are_bounded_exactly(seed: int) -> None:
    random = np.random.default_rng(seed)
    one, two = random.normal(size=(40, 2)), random.normal(size=(30, 3)) + 0.5
    bounds = interact([measure(one, grid=False), measure(two, grid=False)])
    # patsy's order: the first factor varies fastest.
    products = np.einsum("ia,jb->ijba", one, two).reshape(1200, 6)
    both = measure(products, grid=False)
    np.testing.assert_allclose(bounds.low, both.low)
    np.testing.assert_allclose(bounds.high, both.high)
    assert bounds.l2 == pytest.approx(both.l2)
    assert bounds.l1 == pytest.approx(both.l1)


def test_no_factors_are_the_intercept() -> None:
    bounds = interact([])
    assert isinstance(bounds, FactorBounds)
    assert (bounds.low.tolist(), bounds.high.tolist(), bounds.l2, bounds.l1) == ([1.0], [1.0], 1.0, 1.0)
