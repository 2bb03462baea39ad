"""Rows as vectors: how long they are, that sums are exact, and the loss curve that makes a Hessian free."""

from __future__ import annotations

import itertools
import math
from functools import lru_cache
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpstats.data import Block, MemoryRows
from dpstats.families import Binomial, HuberSVM, Poisson, SmoothSVM
from dpstats.streaming.plan import StreamPlan
from dpstats.streaming.request import make_plan
from dpstats.streaming.vectors import FREE_WEIGHT, linearise, reach_of

DOMAIN: dict[str, Any] = {"a": (-1, 1), "b": (0, 3), "g": ["u", "v", "w"], "y": (-1, 1)}
FAMILIES: dict[str, tuple[Any, Any]] = {
    "gaussian": ("gaussian", (-1, 1)),
    "binomial": ("binomial", [0, 1]),
    "poisson": (Poisson(mean_cap=10.0), (0, 8)),
    "huber_svm": (HuberSVM(0.5), [0, 1]),
    "smooth_svm": (SmoothSVM(0.5), [0, 1]),
}


@lru_cache
def plan_of(name: str, formula: str = "y ~ a + b + g", **options: Any) -> StreamPlan:
    family, response = FAMILIES[name]
    options = {"horizon": 8} | options
    return make_plan(formula, DOMAIN | {"y": response}, 1.0, 1e-5, family=family, **options)


def vector_of(plan: StreamPlan, exog: np.ndarray, endog: float, params: np.ndarray) -> np.ndarray:
    """One row's vector in lattice steps."""
    rows = MemoryRows([Block(exog[None], np.array([endog]))])
    return plan.vector.steps(plan.vector.exact(rows, params), plan.sums.step)


def outcomes(plan: StreamPlan) -> tuple[float, float]:
    return {"continuous": (-1.0, 1.0), "binary": (0.0, 1.0), "count": (0.0, 8.0)}[plan.family.response]


@pytest.mark.parametrize("adjacency", ["add_remove", "replace_one"])
@pytest.mark.parametrize("name", sorted(FAMILIES))
@settings(max_examples=60)
@given(data=st.data())
def test_no_row_moves_a_tick_by_more_than_is_planned_for(name: str, adjacency: Any, data: st.DataObject) -> None:
    """Any rows beyond the design's own reach, any coefficients: what a neighbour moves the sum by is planned for."""
    plan = plan_of(name, adjacency=adjacency)
    size = len(plan.names)
    values = st.floats(-3, 3)
    exog = np.array(data.draw(st.lists(values, min_size=2 * size, max_size=2 * size))).reshape(2, size)
    if data.draw(st.booleans()):  # on the boundary of the ball
        roots = np.linalg.cholesky(plan.vector.metric.metric)
        exog = exog @ roots.T / np.maximum(np.linalg.norm(exog, axis=1), 1e-9)[:, None]
    params = data.draw(st.sampled_from([0.0, 1.0, 30.0, 1e6])) * np.array(
        data.draw(st.lists(values, min_size=size, max_size=size))
    )
    endog = [data.draw(st.sampled_from([*outcomes(plan), 7.5, -4.0])) for _ in range(2)]
    one = vector_of(plan, exog[0], endog[0], params).astype(float)
    other = np.zeros_like(one)
    if adjacency == "replace_one":
        other = vector_of(plan, exog[1], endog[1], params).astype(float)
    assert np.linalg.norm(one - other) * plan.sums.step <= plan.sums.row_sensitivity


@pytest.mark.parametrize("name", sorted(FAMILIES))
def test_the_bound_is_reached(name: str) -> None:
    """The planned sensitivity is no more than 1 % above what some row does: noise is not wasted."""
    plan = plan_of(name, "y ~ a - 1")
    worst = 0.0
    exog = np.sqrt(plan.vector.metric.metric)[0]
    for eta in np.linspace(-38, 38, 1521):
        for endog in outcomes(plan):
            worst = max(worst, float(np.linalg.norm(vector_of(plan, exog, endog, eta / exog).astype(float))))
    assert 0.99 <= worst * plan.sums.step / plan.sums.row_sensitivity <= 1


@pytest.mark.parametrize("name", sorted(FAMILIES))
def test_rounding_beside_other_rows_is_planned_for(name: str) -> None:
    """One more row may carry every number of a sum over the edge of a step: each then moves by up to a step more."""
    plan = plan_of(name)
    assert plan.sums.row_sensitivity >= plan.vector.reach + math.sqrt(plan.vector.size) * plan.sums.step


@pytest.mark.parametrize("name", sorted(FAMILIES))
def test_sums_are_exact_and_do_not_depend_on_blocks(name: str) -> None:
    plan, random = plan_of(name), np.random.default_rng(0)
    size = len(plan.names)
    exog, params = random.uniform(-0.15, 0.15, (9000, size)), random.normal(size=size)
    endog = random.choice(outcomes(plan), 9000)
    whole = plan.vector.steps(plan.vector.exact(MemoryRows([Block(exog, endog)]), params), plan.sums.step)
    cuts = [0, 1, 17, 5000, 5000, 9000]
    blocks = [Block(exog[a:b], endog[a:b]) for a, b in itertools.pairwise(cuts)]
    np.testing.assert_array_equal(
        whole, plan.vector.steps(plan.vector.exact(MemoryRows(blocks), params), plan.sums.step)
    )
    # The same in floating point, from the definition.
    z = plan.vector.metric.coordinates(exog) / np.sqrt(np.array(plan.vector.metric.diagonal))
    weight, slope, squares = np.ones(9000), endog, endog**2
    if plan.method == "renewable":
        weight, slope, squares = linearise(plan.vector, exog @ params, endog, np.zeros(9000))
    square = [plan.vector.square * squares.sum()] if plan.vector.square else []
    inner = ((z * weight[:, None]).T @ z)[np.triu_indices(size)]
    want = np.concatenate([inner, z.T @ slope, square])
    want[: size * (size + 3) // 2] *= plan.vector.weights[: size * (size + 3) // 2]
    np.testing.assert_allclose(whole.astype(float) * plan.sums.step, want, atol=9000 * 2e-5, rtol=1e-4)
    matrix = plan.vector.matrix(whole.astype(float) * plan.sums.step)
    np.testing.assert_allclose(matrix, matrix.T)
    np.testing.assert_allclose(matrix[:-1, -1], z.T @ slope, atol=0.05)


def test_matrices_keep_the_norm_of_vectors() -> None:
    """The weight of entries off the diagonal is sqrt(2): a vector of x x' is as long as |x|^2."""
    plan = plan_of("gaussian")
    x = np.random.default_rng(0).normal(size=len(plan.names))
    weights = plan.vector.weights[: len(x) * (len(x) + 1) // 2]
    assert np.linalg.norm(np.outer(x, x)[np.triu_indices(len(x))] * weights) == pytest.approx(x @ x)


def test_the_information_of_a_logistic_regression_is_free_up_to_the_root_of_twelve() -> None:
    """Proposition 8 on a grid, with a bound on what lies between its points.

    |d/ds f| is at most 16 on s >= 0 (each factor and its derivative is at most 2 + s e^-s, and 12 (p q^2)' at most 3).
    """
    step = 1e-5
    s = np.arange(step / 2, 45, step)
    q = 1 / (1 + np.exp(-s))
    p = 1 / (1 + np.exp(s))
    value = (1 + q * s) * (1 + q - p * q * s) - 12 * p * q**2
    # Near 0 the function is s^2 times something positive; away from it it is above what it can lose within a step.
    near = s < 0.05
    assert (value[near] / s[near] ** 2).min() > 0.1
    assert value[~near].min() > 16 * step
    assert pytest.approx(math.sqrt(12), rel=1e-11) == FREE_WEIGHT
    eta = np.linspace(-40, 40, 160_001)
    for inner, least, most in ((FREE_WEIGHT, 1 - 1e-9, 1 + 1e-12), (4.0, 1.11803, 1.11804)):
        found = Binomial().derivatives(eta, np.ones_like(eta))
        slope = found.curvature * eta - found.gradient
        reach = math.sqrt(float(np.max(slope**2 + (inner * found.curvature) ** 2)))
        assert least <= reach <= most
        assert reach_of(Binomial(), inner) == pytest.approx(reach, rel=1e-6)


def test_scores_of_counts_are_bounded_by_their_cap() -> None:
    assert reach_of(Poisson(mean_cap=10.0, y_max=10.0), 1e-9) == pytest.approx(23.03, abs=0.01)


@pytest.mark.parametrize("offset", [0.0, 1.5])
def test_squared_scores_take_a_fiftieth_of_the_squared_reach(offset: float) -> None:
    """And they are there: the dispersion of counts follows from them."""
    domain = {"x": (-1, 1), "o": (-offset - 0.1, offset + 0.1), "y": (0, 20)}
    formula = "y ~ x + offset(o)" if offset else "y ~ x"
    vector = make_plan(formula, domain, 1.0, 1e-5, family="poisson", horizon=8).vector
    plain = reach_of(vector.family, vector.inner, offset + 0.1 if offset else 0.0)
    assert vector.square > 0
    assert plain <= vector.reach <= np.sqrt(1.0201) * plain


@pytest.mark.parametrize("name", ["binomial", "poisson", "huber_svm", "smooth_svm"])
@settings(max_examples=60)
@given(eta=st.floats(-1e8, 1e8), endog=st.sampled_from([0.0, 1.0, 8.0]))
def test_slopes_are_cut_to_what_the_weight_leaves(name: str, eta: float, endog: float) -> None:
    vector = plan_of(name).vector
    outcome = np.array([min(endog, 1.0) if name != "poisson" else endog])
    weight, slope, square = linearise(vector, np.array([eta]), outcome, np.zeros(1))
    parts = vector.inner * weight[0], vector.cross * slope[0], vector.square * square[0]
    assert np.sum(np.square(parts)) <= vector.reach**2 * (1 + 1e-12)
    if abs(eta) < 30:  # within the curve nothing is cut
        found = vector.family.derivatives(np.array([eta]), outcome)
        assert slope[0] == pytest.approx(float((found.curvature * eta - found.gradient)[0]), rel=1e-6, abs=1e-6)
        if vector.square:
            assert square[0] == pytest.approx(float(found.gradient[0] ** 2), rel=1e-6, abs=1e-6)


def test_joint_sensitivities_are_those_of_the_paper_s_setting() -> None:
    """|x| <= 1, |y| <= 1, weight 1: the root of 4.5 to replace a row, of 2 to add one (docs/proofs/streams, 8)."""
    from dpstats.privacy.information.statistics import frobenius_sensitivity

    assert frobenius_sensitivity(1.0, 1e-9, "replace_one") == pytest.approx(math.sqrt(4.5))
    assert frobenius_sensitivity(1.0, 1e-9, "add_remove") == pytest.approx(math.sqrt(2))
