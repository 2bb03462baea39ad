"""Proximal Newton: against a reference solver, and certified on every awkward input."""

import itertools

import numpy as np
import penalised_reference as reference
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpstats.errors import ArgumentError
from dpstats.families import Binomial, Gaussian, HuberSVM, Poisson
from dpstats.penalties import L0, SCAD, Bridge, ElasticNet, Lasso, Ridge
from dpstats.solvers import newton, prox
from dpstats.solvers.linear_algebra import minimize_quadratic
from dpstats.solvers.objective import PerturbedObjective
from dpstats.solvers.rounding import WIDEST, ladder

LADDER = ladder(WIDEST)

FAMILIES = [Gaussian(100.0), Gaussian(0.4), Binomial(), Poisson(1e6, 20.0)]
PENALTIES = [Ridge(3.0), Lasso(6.0), ElasticNet(9.0, 0.7), Bridge(6.0, 1.0), Bridge(3.0, 1.5), Bridge(3.0, 2.0)]
TOLERANCE = 1e-8


def certified_distance(objective, penalty, weights, theta):
    """The sharpest certified upper bound on the distance of 0 to the subdifferential."""
    bounds = []
    for precision in LADDER:
        certified = objective.certified_gradient(theta, precision)
        bounds.append(penalty.distance(certified.gradient, theta, weights) + certified.error)
    return min(bounds)


@pytest.mark.parametrize(("family", "penalty"), list(itertools.product(FAMILIES, PENALTIES)), ids=str)
def test_agrees_with_a_reference_solver(family, penalty):
    exog, endog = reference.rows(family, 200, 6, seed=4)
    curvature, noise = np.full(6, 0.5), np.array([0.0, 1.0, -2.0, 0.5, -0.3, 3.0])
    weights = np.array([0.0, 1.0, 1.0, 2.0, 1.0, 1.0])
    objective = PerturbedObjective(family, [(exog[:77], endog[:77]), (exog[77:], endog[77:])], curvature, noise)
    theta = prox.minimize(objective, penalty, TOLERANCE, weights=weights)
    expected = reference.solve(family, exog, endog, curvature, noise, penalty, weights)
    np.testing.assert_allclose(theta.astype(float), expected, atol=1e-6)
    assert certified_distance(objective, penalty, weights, theta) <= TOLERANCE
    if penalty.sparse:
        np.testing.assert_array_equal(theta == 0, np.abs(expected) < 1e-6)
        assert np.any(theta == 0)
        assert np.any(theta != 0)


FAMILY = st.sampled_from([Gaussian(0.7), Gaussian(3.0), Binomial(), Poisson(20.0, 20.0), HuberSVM(0.5)])
STRENGTH = st.floats(-2, 3).map(lambda power: 10**power)
PENALTY = st.one_of(
    STRENGTH.map(Ridge),
    STRENGTH.map(Lasso),
    st.builds(ElasticNet, STRENGTH, st.floats(0, 1)),
    st.builds(Bridge, STRENGTH, st.sampled_from([1.0, 1.001, 1.01, 1.1, 1.5, 1.9, 1.9999, 2.0])),
)


def awkward(kind, rows, columns, family, random):
    """Rows of a named shape, norm at most 1, and a response in the family's domain."""
    exog = random.normal(size=(rows, columns))
    if kind == "collinear":
        exog = exog[:, :1] * random.normal(size=columns) + 1e-6 * exog
    elif kind == "dummies":
        exog = (random.random((rows, columns)) < 0.1).astype(float)
    elif kind == "scales":
        exog *= 10.0 ** random.uniform(-6, 0, columns)
    elif kind == "constant":
        exog = np.ones((rows, columns))
    exog /= np.maximum(np.linalg.norm(exog, axis=1, keepdims=True), 1.0)
    if family.response == "binary":
        return exog, (exog[:, 0] > 0).astype(float)
    return exog, random.integers(0, 20, rows).astype(float) if family.response == "count" else random.uniform(
        -1, 1, rows
    )


@pytest.mark.slow
@settings(max_examples=400)
@given(
    family=FAMILY,
    penalty=PENALTY,
    kind=st.sampled_from(["plain", "collinear", "dummies", "scales", "constant"]),
    rows=st.sampled_from([0, 1, 2, 30, 300]),
    columns=st.sampled_from([1, 2, 10, 60]),
    strength=st.floats(-3, 2),
    seed=st.integers(0, 2**32 - 1),
)
def test_reaches_its_tolerance_on_any_input(family, penalty, kind, rows, columns, strength, seed):
    random = np.random.default_rng(seed)
    exog, endog = awkward(kind, rows, columns, family, random)
    noise = random.laplace(0, 10 ** random.uniform(-1, 2), columns)
    weights = random.choice([0.0, 0.1, 1.0, 10.0], columns)
    objective = PerturbedObjective(family, [(exog, endog)], np.full(columns, 10**strength), noise)
    theta = prox.minimize(objective, penalty, TOLERANCE, weights=weights)
    assert certified_distance(objective, penalty, weights, theta) <= TOLERANCE


def test_ridge_is_newtons_ridge():
    exog, endog = reference.rows(Binomial(), 300, 5, seed=1)
    noise = np.linspace(-2, 2, 5)
    plain = PerturbedObjective(Binomial(), [(exog, endog)], np.full(5, 0.5), noise)
    ridged = PerturbedObjective(Binomial(), [(exog, endog)], np.full(5, 2.5), noise)
    by_prox = prox.minimize(plain, Ridge(2.0), 1e-12)
    np.testing.assert_allclose(by_prox.astype(float), newton.minimize(ridged, 1e-12).astype(float), atol=1e-11)


def test_the_answer_does_not_depend_on_the_start_or_the_blocks():
    exog, endog = reference.rows(Poisson(50.0, 20.0), 400, 8, seed=2)
    noise, curvature = np.linspace(-3, 3, 8), np.full(8, 0.2)
    whole = PerturbedObjective(Poisson(50.0, 20.0), [(exog, endog)], curvature, noise)
    split = PerturbedObjective(Poisson(50.0, 20.0), [(exog[i::3], endog[i::3]) for i in range(3)], curvature, noise)
    first = prox.minimize(whole, Lasso(6.0), TOLERANCE)
    other = prox.minimize(split, Lasso(6.0), TOLERANCE, start=np.full(8, -40.0))
    np.testing.assert_allclose(first.astype(float), other.astype(float), atol=2 * TOLERANCE / 0.2)
    np.testing.assert_array_equal(first == 0, other == 0)


@pytest.mark.slow
def test_many_rows_start_from_a_thinned_sample():
    random = np.random.default_rng(5)
    exog = random.uniform(-0.5, 0.5, (2 * newton.WARM_START_ROWS + 1, 3))
    endog = (random.random(len(exog)) < 1 / (1 + np.exp(-2 * exog[:, 0]))).astype(float)
    objective = PerturbedObjective(Binomial(), [(exog, endog)], np.ones(3), np.zeros(3))
    theta = prox.minimize(objective, Lasso(1500.0), TOLERANCE)
    assert certified_distance(objective, Lasso(1500.0), np.ones(3), theta) <= TOLERANCE
    assert theta[0] > 1
    np.testing.assert_array_equal(theta[1:], 0)


@pytest.mark.parametrize("size", [1, 3, 40])
def test_quadratics_with_a_known_lasso_solution(size):
    # Orthogonal design: soft thresholding is the answer.
    random = np.random.default_rng(size)
    diagonal, centre = random.uniform(0.5, 2, size), random.normal(0, 2, size)
    found = minimize_quadratic(
        np.diag(diagonal), -diagonal * centre, Lasso(1.0), np.ones(size), np.zeros(size), tolerance=1e-12
    )
    np.testing.assert_allclose(found, Lasso(1.0).prox(centre, diagonal), atol=1e-12)


def test_quadratics_nearly_singular():
    # Every column the same: only the sum is identified, up to 1e-8 of curvature.
    hessian = np.ones((30, 30)) + 1e-8 * np.eye(30)
    gradient = -np.linspace(4, 5, 30)
    found = minimize_quadratic(hessian, gradient, Lasso(1.0), np.ones(30), np.zeros(30), tolerance=1e-7)
    assert Lasso(1.0).distance(gradient + hessian @ found, found) <= 1e-7


@pytest.mark.parametrize("penalty", [Bridge(1.0, 0.5), SCAD(1.0), L0(1.0)], ids=str)
def test_penalties_without_a_certificate_are_refused(penalty):
    objective = PerturbedObjective(Binomial(), [(np.ones((1, 1)), np.ones(1))], np.ones(1), np.zeros(1))
    with pytest.raises(ArgumentError, match="two stages"):
        prox.minimize(objective, penalty, TOLERANCE)


@pytest.mark.parametrize("weights", [[1.0, 1.0], [-1.0], [np.nan], [np.inf]])
def test_weights_are_checked(weights):
    objective = PerturbedObjective(Binomial(), [(np.ones((1, 1)), np.ones(1))], np.ones(1), np.zeros(1))
    with pytest.raises(ArgumentError, match="weights"):
        prox.minimize(objective, Lasso(1.0), TOLERANCE, weights=np.array(weights))


def test_tiny_caps_reach_the_tolerance() -> None:
    """A loss whose natural unit is 1e-12: absolute thresholds would stop the solver far from the optimum."""
    random = np.random.default_rng(2)
    exog = random.normal(size=(2000, 3)) / 4
    endog = exog @ np.array([1.0, -1.0, 0.0]) + random.normal(size=2000)
    objective = PerturbedObjective(Gaussian(1e-6), [(exog, endog)], np.full(3, 1e-5), 3e-6 * random.normal(size=3))
    penalty, tolerance = Lasso(1e-6), 1e-13
    theta = prox.minimize(objective, penalty, tolerance)
    certified = objective.certified_gradient(theta, LADDER[-1])
    assert penalty.distance(certified.gradient, theta) <= 1.01 * tolerance
