"""The solver reaches its certified tolerance on any data, and its certificate bounds the true gradient."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mpmath import mp, mpf

from dpstats.families import Binomial, Family, Gaussian, HuberSVM, NegativeBinomial, Poisson, SmoothSVM
from dpstats.penalties import Lasso, Penalty
from dpstats.solvers import prox
from dpstats.solvers.newton import _refine, minimize
from dpstats.solvers.objective import PerturbedObjective
from dpstats.solvers.pairs import product, single
from dpstats.solvers.rounding import CERTIFIED_ROWS, POINT_BITS, SPLIT_BITS, WIDEST, ladder, split_array

LADDER = ladder(WIDEST)

FAMILIES: list[Family] = [
    Gaussian(residual_cap=0.5),
    Binomial(),
    Poisson(mean_cap=10.0, y_max=10.0),
    NegativeBinomial(0.5, 10.0),
    HuberSVM(),
    SmoothSVM(),
]


def rows_of(kind: str, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Data sets that break ordinary fitters, with rows in the unit ball."""
    exog = rng.normal(size=(60, 4))
    endog = (exog[:, 0] > 0).astype(float)
    if kind == "collinear":
        exog[:, 1] = exog[:, 0]
    elif kind == "constant":
        exog[:] = 1.0
    elif kind == "zero":
        exog[:] = 0.0
    elif kind == "wide":
        exog = rng.normal(size=(5, 40))
        endog = endog[:5]
    elif kind == "empty":
        exog, endog = exog[:0], endog[:0]
    elif kind == "single":
        exog, endog = exog[:1], endog[:1]
    norm = np.maximum(1.0, np.linalg.norm(exog, axis=1))
    return exog / norm[:, None], endog


@pytest.mark.parametrize("family", FAMILIES, ids=lambda family: family.name)
@pytest.mark.parametrize("kind", ["separable", "collinear", "constant", "zero", "wide", "empty", "single"])
@pytest.mark.parametrize("curvature", [1e-6, 1.0, 1e4])
def test_reaches_the_tolerance_on_any_data(family: Family, kind: str, curvature: float) -> None:
    rng = np.random.default_rng(7)
    exog, endog = rows_of(kind, rng)
    noise = 10 * rng.normal(size=exog.shape[1])
    objective = PerturbedObjective(family, [(exog, endog)], np.full(exog.shape[1], curvature), noise)
    tolerance = 1e-8
    theta = minimize(objective, tolerance)
    certified = objective.certified_gradient(theta, LADDER[-1])
    assert certified.norm <= 1.0001 * tolerance


@pytest.mark.parametrize("penalty", [None, Lasso(0.5)], ids=["smooth", "lasso"])
@pytest.mark.parametrize("outlier", [1e15, 1e20, 1e300, 1.7e308])
@pytest.mark.parametrize("cap", [1e-3, 0.05])
def test_no_response_however_far_leads_the_solver_astray(cap: float, outlier: float, penalty: Penalty | None) -> None:
    """Array responses are unbounded; whoever owns one row could otherwise move what is released as they please."""
    rng = np.random.default_rng(0)
    exog = rng.normal(size=(3000, 5))
    exog /= np.linalg.norm(exog, axis=1)[:, None]
    endog = exog @ rng.normal(size=5) + 0.1 * rng.standard_cauchy(3000)
    endog[:2] = outlier, -outlier
    objective = PerturbedObjective(Gaussian(cap), [(exog, endog)], np.ones(5), rng.normal(size=5))
    tolerance = 1e-9 * cap
    if penalty is None:
        assert objective.certified_gradient(minimize(objective, tolerance), LADDER[-1]).norm <= 1.0001 * tolerance
        return
    theta = prox.minimize(objective, penalty, tolerance)
    certified = objective.certified_gradient(theta, LADDER[-1])
    assert penalty.distance(certified.gradient, theta) + certified.error <= 1.0001 * tolerance


@pytest.mark.parametrize("family", FAMILIES, ids=lambda family: family.name)
def test_warm_start_does_not_move_the_optimum(family: Family, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(3)
    exog = rng.uniform(-0.5, 0.5, size=(4000, 3))
    endog = (rng.random(4000) < 0.4).astype(float)
    blocks = [(exog[start : start + 100], endog[start : start + 100]) for start in range(0, 4000, 100)]
    objective = PerturbedObjective(family, blocks, np.full(3, 0.1), np.ones(3))
    plain = minimize(objective, 1e-9)
    monkeypatch.setattr("dpstats.solvers.newton.WARM_START_ROWS", 400)
    warm = minimize(objective, 1e-9)
    assert float(np.linalg.norm((plain - warm).astype(float))) <= 2e-9 / 0.1


def exact_logistic_gradient(exog: np.ndarray, endog: np.ndarray, theta: np.ndarray) -> np.ndarray:
    """X'(p - y) in 60 digits."""
    with mp.workdps(60):
        point = [mpf(str(value)) if isinstance(value, str) else mpf(float(value)) for value in theta]
        total = [mpf(0)] * exog.shape[1]
        for row, response in zip(exog, endog, strict=True):
            cells = [mpf(float(cell)) for cell in row]
            eta = sum((a * b for a, b in zip(cells, point, strict=True)), mpf(0))
            slope = 1 / (1 + mp.e ** (-eta)) - mpf(float(response))
            total = [old + slope * cell for old, cell in zip(total, cells, strict=True)]
        return np.array([float(value) for value in total])


@pytest.mark.parametrize("rung", range(len(LADDER)))
@pytest.mark.parametrize("size", [1.0, 1e3, 1e7])
def test_rounding_bound_holds(rung: int, size: float) -> None:
    """The stated error bounds the distance to the gradient in 60 digits, and is not empty talk."""
    rng = np.random.default_rng(11)
    exog = rng.normal(size=(300, 5))
    exog /= np.linalg.norm(exog, axis=1)[:, None]
    endog = (rng.random(300) < 0.5).astype(float)
    # Rows nearly orthogonal to a long theta: cancellation in eta, where plain products are at their worst.
    theta = size * rng.normal(size=5)
    exog[:150] -= np.outer(exog[:150] @ theta, theta) / (theta @ theta) * (1 - 1 / size)
    objective = PerturbedObjective(Binomial(), [(exog, endog)], np.full(5, 1e-12), np.zeros(5))
    certified = objective.certified_gradient(theta.astype(np.longdouble), LADDER[rung])
    exact = exact_logistic_gradient(exog, endog, theta) + 1e-12 * theta
    gap = float(np.linalg.norm(certified.gradient.astype(float) - exact))
    assert gap <= certified.error + 1e-15 * float(np.linalg.norm(exact))
    assert certified.error < (1e-13 if LADDER[rung].paired else [1e-9, 1e-12, 1e-12][rung] * size)


@pytest.mark.slow
@given(st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=8), st.integers(0, 2**31))
@settings(max_examples=200)
def test_compensated_product_is_nearly_exact(theta: list[float], seed: int) -> None:
    row = np.random.default_rng(seed).normal(size=(1, len(theta)))
    high, low = product(row, single(theta, np.float64))
    with mp.workdps(80):
        exact = sum((mpf(float(a)) * mpf(b) for a, b in zip(row[0], theta, strict=True)), mpf(0))
        error = abs(mpf(float(high[0])) + mpf(float(low[0])) - exact)
        scale = sum((abs(mpf(float(a)) * mpf(b)) for a, b in zip(row[0], theta, strict=True)), mpf(0))
        assert error <= mpf(2) ** -100 * scale + abs(exact) * mpf(2) ** -53 * mpf(2) ** -40 + mpf(2) ** -1000


@pytest.mark.parametrize("bound", [1e-3, 1.0, 1.7, 1e5])
def test_leading_parts_sum_without_rounding(bound: float) -> None:
    """As many rows and as long a theta as the proof allows, all of one sign: the largest sums there are."""
    rng = np.random.default_rng(5)
    rows = split_array(bound * rng.uniform(0.9, 1, (CERTIFIED_ROWS, 2)) / np.sqrt(2), bound, SPLIT_BITS)
    assert np.array_equal(rows.leading + rows.rest, rows.whole)
    slopes = split_array(rng.uniform(0.99, 1, CERTIFIED_ROWS), 1.0, SPLIT_BITS)
    point = split_array(np.array([0.6, 0.8]) * 12.3, 12.3, POINT_BITS)
    for left, right in ((slopes.leading, rows.leading), (point.leading, rows.leading[:50].T)):
        exact = [sum(Fraction(a) * Fraction(b) for a, b in zip(left, column, strict=True)) for column in right.T]
        assert [Fraction(value) for value in left @ right] == exact


@pytest.mark.slow
def test_steps_over_kinks_do_not_cycle() -> None:
    """Few rows, kinks close together and hardly any curvature: the refinement alone must find the optimum."""
    rng = np.random.default_rng(4)
    for trial in range(30):
        exog = rng.normal(size=(6, 3)) / 3
        endog = rng.integers(0, 2, 6).astype(float)
        objective = PerturbedObjective(HuberSVM(h=1e-3), [(exog, endog)], np.full(3, 1e-3), rng.normal(size=3))
        start = 1e3 * rng.normal(size=3)
        hessian = objective.accumulate(start).hessian
        theta = _refine(objective, start, hessian, 1e-9)
        assert objective.certified_gradient(theta, LADDER[-1]).norm <= 1.0001e-9, trial
