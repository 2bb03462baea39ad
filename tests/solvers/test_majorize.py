"""Weighted ridge iterations: descent, agreement with the proximal solver, stationary points of concave penalties."""

import itertools

import numpy as np
import penalised_reference as reference
import pytest

from benchmarks.replications import majorized
from dpstats.families import Binomial, Gaussian, Poisson
from dpstats.penalties import L0, SCAD, Bridge, ElasticNet, Lasso, Ridge
from dpstats.solvers import prox
from dpstats.solvers.objective import PerturbedObjective

FAMILIES = [Gaussian(5.0), Binomial(), Poisson(30.0, 20.0)]
CONVEX = [Ridge(3.0), Lasso(6.0), ElasticNet(9.0, 0.7), Bridge(5.0, 1.2), Bridge(3.0, 1.7)]
WEIGHTS = np.array([0.0, 1.0, 1.0, 2.0, 1.0, 1.0])


def problem(family):
    exog, endog = reference.rows(family, 200, 6, seed=4)
    noise = np.array([0.0, 1.0, -2.0, 0.5, -0.3, 3.0])
    return PerturbedObjective(family, [(exog, endog)], np.full(6, 0.5), noise)


@pytest.mark.parametrize(("family", "penalty"), list(itertools.product(FAMILIES, CONVEX)), ids=str)
class TestConvex:
    def test_it_is_close_to_the_proximal_optimum(self, family, penalty):
        objective = problem(family)
        by_ridges = majorized.iterate(objective, penalty, weights=WEIGHTS, iterations=2000, change=1e-10)
        by_prox = prox.minimize(objective, penalty, 1e-8, weights=WEIGHTS)
        np.testing.assert_allclose(by_ridges, by_prox.astype(float), atol=1e-6)


@pytest.mark.parametrize("penalty", [Lasso(6.0), Bridge(4.0, 0.5), SCAD(8.0, knot=0.5)], ids=str)
def test_every_fit_lowers_the_objective(penalty):
    objective = problem(Binomial())
    heights, theta = [], np.full(6, 0.3)
    for _ in range(15):
        heights.append(objective.accumulate(theta).value + penalty.value(theta, WEIGHTS))
        theta = majorized.iterate(objective, penalty, theta, weights=WEIGHTS, iterations=1)
    assert np.all(np.diff(heights) <= 1e-9)
    assert heights[-1] < heights[0] - 0.1


@pytest.mark.parametrize("penalty", [Bridge(4.0, 0.5), SCAD(8.0, knot=0.5), L0(3.0)], ids=str)
def test_concave_penalties_end_at_a_stationary_point(penalty):
    objective = problem(Gaussian(5.0))
    theta = majorized.iterate(objective, penalty, weights=WEIGHTS, iterations=1000, change=1e-12)
    zero = np.abs(theta) < 1e-8
    assert 0 < np.sum(zero) < 6
    pull = np.where(WEIGHTS > 0, penalty.majorizer(theta, WEIGHTS) * theta, 0.0)
    gradient = objective.accumulate(theta).gradient
    np.testing.assert_allclose((gradient + pull)[~zero], 0, atol=1e-5)
