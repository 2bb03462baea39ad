"""The allocation of curvature against a convex solver, and its limits."""

from dataclasses import dataclass

import cvxpy as cp
import numpy as np
import pytest

from dpstats.errors import ArgumentError
from dpstats.mechanisms.selection import allocate


@dataclass(frozen=True)
class Term:
    columns: slice
    l2: float


class Design:
    """Terms with column maxima and an l2 bound; the worst row by fractional knapsack."""

    def __init__(self, *terms: tuple[list[float], float]):
        ends = np.cumsum([0, *(len(maxima) for maxima, _ in terms)])
        self.terms = [Term(slice(ends[i], ends[i + 1]), l2) for i, (_, l2) in enumerate(terms)]
        self.maxima = np.concatenate([np.array(maxima, float) for maxima, _ in terms])

    def ratio(self, curvature):
        total = 0.0
        for term in self.terms:
            left = term.l2**2
            for j in np.argsort(curvature[term.columns]):
                taken = min(left, self.maxima[term.columns][j] ** 2)
                total += taken / curvature[term.columns][j]
                left -= taken
        return total

    def least_shrinkage(self, stage1, kappa):
        """min sum m_j stage1_j^2 with ratio(m) <= kappa, in r = 1/m and the knapsack's dual."""
        r, total = cp.Variable(len(stage1), pos=True), 0
        for term in self.terms:
            level = cp.Variable(nonneg=True)
            total += term.l2**2 * level + self.maxima[term.columns] ** 2 @ cp.pos(r[term.columns] - level)
        objective = cp.sum(cp.multiply(stage1**2, cp.inv_pos(r)))
        return cp.Problem(cp.Minimize(objective), [total <= kappa]).solve(solver=cp.CLARABEL)


BOX = Design(([0.5, 0.2, 0.9, 0.4], 2.0))
FACTORS = Design(([1.0], 1.0), ([0.5], 0.5), ([1.0, 1.0, 1.0, 1.0], 1.0), ([0.8, 0.3, 0.6], 0.9))
RANDOM = np.random.default_rng(8)


@pytest.mark.parametrize("design", [BOX, FACTORS], ids=["box", "factors"])
@pytest.mark.parametrize("trial", range(4))
def test_shrinks_stage_1_least(design, trial):
    stage1 = RANDOM.laplace(0, 1, len(design.maxima))
    found = allocate(stage1, design.terms, design.maxima, design.ratio, 0.3, spread=1e6)
    assert found @ stage1**2 == pytest.approx(design.least_shrinkage(stage1, 0.3), rel=1e-5)
    assert design.ratio(found) == pytest.approx(0.3, rel=1e-12)


def test_without_a_term_bound_it_is_the_lassos_weights():
    stage1 = np.array([2.0, -0.5, 0.1, 1.0])
    found = allocate(stage1, BOX.terms, BOX.maxima, BOX.ratio, 0.3, spread=1e6)
    expected = BOX.maxima / np.abs(stage1) * np.sum(BOX.maxima * np.abs(stage1)) / 0.3
    np.testing.assert_allclose(found, expected, rtol=1e-10)


def test_a_factors_columns_share_the_group_lassos_weight():
    # One dummy a row: the worst row is the whole bound on any one level, so all levels get the same curvature.
    factor = Design(([1.0] * 4, 1.0), ([1.0], 1.0))
    stage1 = np.array([0.5, -0.5, 0.3, 0.2, 1.0])
    found = allocate(stage1, factor.terms, factor.maxima, factor.ratio, 1.0, spread=1e6)
    np.testing.assert_allclose(found[:4], found[0])
    assert found[0] / found[4] == pytest.approx(1 / np.linalg.norm(stage1[:4]), rel=1e-9)


@pytest.mark.parametrize(
    "stage1", [np.zeros(4), [0.0, 0.0, 0.0, 2.0], [1e-300, 1.0, 1e300, 1.0], [-1.0, 1.0, 0.0, 1e-9]], ids=str
)
@pytest.mark.parametrize("kappa", [1e-6, 1.0, 50.0])
def test_kappa_is_met_and_the_spread_kept(stage1, kappa):
    found = allocate(np.asarray(stage1), BOX.terms, BOX.maxima, BOX.ratio, kappa, spread=10.0)
    even = BOX.ratio(np.ones(4)) / kappa
    assert BOX.ratio(found) == pytest.approx(kappa, rel=1e-12)
    assert np.all(found >= even / 10 * (1 - 1e-9))
    assert np.all(found <= even * 10 * (1 + 1e-9))


def test_no_spread_is_the_even_allocation():
    found = allocate(np.array([3.0, 0.1, 0.0, -1.0]), BOX.terms, BOX.maxima, BOX.ratio, 0.4, spread=1.0)
    np.testing.assert_allclose(found, BOX.ratio(np.ones(4)) / 0.4)


@pytest.mark.parametrize("arguments", [{"kappa": 0.0}, {"kappa": np.inf}, {"kappa": 1.0, "spread": 0.5}], ids=str)
def test_arguments(arguments):
    with pytest.raises(ArgumentError, match=list(arguments)[-1]):
        allocate(np.ones(4), BOX.terms, BOX.maxima, BOX.ratio, **arguments)
