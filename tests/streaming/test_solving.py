"""Least squares over constraint sets from noisy sums."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import optimize

from dpstats.streaming import constrained
from dpstats.streaming.constrained import minimise
from dpstats.streaming.constraints import Constraint, GroupL1, Hull, L1Ball, L2Ball, LpBall, Simplex

SETS: list[Constraint] = [
    L2Ball(0.5),
    L1Ball(0.5),
    Simplex(1.0),
    GroupL1(0.4, 2),
    LpBall(0.5, 1.3),
    Hull(np.random.default_rng(0).normal(size=(8, 5)).tolist()),
]


def sums(seed: int = 1, rows: int = 200, size: int = 5) -> tuple[np.ndarray, np.ndarray]:
    """q and Q of rows whose coefficients lie outside the sets."""
    rng = np.random.default_rng(seed)
    exog = rng.normal(size=(rows, size)) * np.geomspace(1, 0.1, size)
    endog = exog @ np.linspace(1.5, -1, size) + rng.normal(size=rows)
    return exog.T @ endog, exog.T @ exog


def squares(theta: np.ndarray, cross: np.ndarray, gram: np.ndarray) -> float:
    return float(theta @ gram @ theta - 2 * theta @ cross)


@pytest.mark.parametrize("constraint", SETS, ids=lambda c: c.name)
def test_the_least_is_certified(constraint: Constraint) -> None:
    cross, gram = sums()
    theta = minimise(cross, gram, constraint)
    scale = np.linalg.norm(cross) * constraint.reach + constraint.reach**2 * np.linalg.norm(gram, 2)
    assert 0 <= constrained.duality_gap(theta, cross, gram, constraint) + 1e-12 * scale <= 1.1e-9 * scale
    assert constraint.gauge(theta) <= 1 + 1e-9
    rng = np.random.default_rng(2)
    for point in rng.normal(size=(200, 5)):
        assert squares(constraint.project(point), cross, gram) >= squares(theta, cross, gram) - 1e-9 * scale


def test_a_set_that_holds_the_answer_gives_least_squares() -> None:
    cross, gram = sums()
    np.testing.assert_allclose(minimise(cross, gram, L2Ball(1e3)), np.linalg.solve(gram, cross), rtol=1e-3)


def test_the_euclidean_ball_against_its_multiplier() -> None:
    """(Q + lambda) theta = q with |theta| = radius, by bisection."""
    cross, gram = sums()
    lam = optimize.brentq(lambda lam: np.linalg.norm(np.linalg.solve(gram + lam * np.eye(5), cross)) - 0.5, 0, 1e6)
    expected = np.linalg.solve(gram + lam * np.eye(5), cross)
    np.testing.assert_allclose(minimise(cross, gram, L2Ball(0.5), tolerance=1e-13), expected, atol=1e-6)


def test_the_l1_ball_against_a_general_solver() -> None:
    cross, gram = sums()
    both, joint = np.concatenate([cross, -cross]), np.block([[gram, -gram], [-gram, gram]])
    found = optimize.minimize(
        lambda v: (v @ joint @ v - 2 * v @ both) / 100,
        np.full(10, 0.05),
        jac=lambda v: 2 * (joint @ v - both) / 100,
        bounds=[(0, None)] * 10,
        constraints=[{"type": "ineq", "fun": lambda v: 0.5 - v.sum(), "jac": lambda v: -np.ones(10)}],
        method="SLSQP",
        options={"ftol": 1e-13, "maxiter": 1000},
    )
    theta = minimise(cross, gram, L1Ball(0.5), tolerance=1e-12)
    np.testing.assert_allclose(theta, found.x[:5] - found.x[5:], atol=2e-5)
    assert (theta == 0).sum() >= 2


def test_a_warm_start_changes_steps_and_not_the_answer() -> None:
    cross, gram = sums()
    cold = minimise(cross, gram, L1Ball(0.5))
    warm = minimise(cross, gram, L1Ball(0.5), start=np.linspace(-3, 3, 5))
    np.testing.assert_allclose(cold, warm, atol=1e-5)
    # From the answer itself no step is taken.
    np.testing.assert_array_equal(minimise(cross, gram, L1Ball(0.5), cold, most_steps=0), L1Ball(0.5).project(cold))


def test_free_coefficients_take_their_best_values() -> None:
    cross, gram = sums()
    free = np.array([True, False, False, False, True])
    theta = minimise(cross, gram, L1Ball(0.3), free=free, tolerance=1e-12)
    assert np.abs(theta[~free]).sum() <= 0.3 + 1e-12
    residual = cross - gram @ theta
    np.testing.assert_allclose(residual[free], 0, atol=1e-8 * np.abs(cross).max())
    kept = np.ix_(~free, ~free)
    inner = cross[~free] - gram[np.ix_(~free, free)] @ theta[free]
    alone = minimise(inner, gram[kept], L1Ball(0.3), tolerance=1e-12)
    np.testing.assert_allclose(theta[~free], alone, atol=1e-5)


def test_the_positive_part_is_the_nearest_positive_matrix() -> None:
    rng = np.random.default_rng(4)
    noisy = rng.normal(size=(6, 6))
    noisy = (noisy + noisy.T) / 2
    made = constrained.positive_part(noisy)
    values = np.linalg.eigvalsh(noisy)
    np.testing.assert_allclose(np.linalg.eigvalsh(made), np.maximum(values, 0), atol=1e-12)
    # What was taken off is negative and orthogonal to what is left: the condition for the nearest.
    assert np.linalg.eigvalsh(noisy - made).max() <= 1e-12
    assert abs(np.sum((noisy - made) * made)) <= 1e-12


@pytest.mark.parametrize("constraint", [L2Ball(1.0), L1Ball(1.0), Simplex(1.0)], ids=repr)
def test_a_short_stream_is_explained_by_noise(constraint: Constraint) -> None:
    """50 rows of 20 columns are noise in 40 runs of 40, up to 5: a false alarm once in 10,000; 100,000 rows never."""
    rng = np.random.default_rng(7)
    size, deviation, found = 20, 35.0, {}
    null = constraint.project(np.zeros(size))
    theta = L1Ball(1.0).project(np.linspace(1, 0, size) ** 4)
    for rows in (50, 100_000):
        gram, fitted = np.eye(size) * rows / size, 0
        for _ in range(40):
            noise = np.triu(rng.normal(size=(size, size)) * deviation / math.sqrt(2), 1)
            noise = noise + noise.T + np.diag(rng.normal(size=size) * deviation)
            cross = gram @ theta + rng.normal(size=size) * deviation
            explained = constrained.explained_by_noise(cross, deviation, constraint)
            fitted += not explained
            if rows > 50:
                made = minimise(cross, gram + noise, constraint)
                excess = (made - theta) @ gram @ (made - theta)
                assert excess < (null - theta) @ gram @ (null - theta) / 5
        found[rows] = fitted
    assert found[50] <= 5
    assert found[100_000] == 40


def test_the_printed_descent_reaches_its_bound() -> None:
    cross, gram = sums()
    ball = L2Ball(0.5)
    lipschitz = 2 * (np.linalg.norm(gram, 2) * 0.5 + np.linalg.norm(cross))
    exact = squares(minimise(cross, gram, ball), cross, gram)
    rng = np.random.default_rng(3)
    for error in (100.0, 20.0):
        assert math.ceil((1 + lipschitz / error) ** 2) < 10**6
        noise = rng.normal(size=5)
        noisy = cross + noise * (error / 2 / np.linalg.norm(noise))
        theta = constrained.printed_descent(noisy, gram, ball, error=error, lipschitz=lipschitz, most_steps=10**6)
        assert squares(theta, cross, gram) - exact <= 4 * error * 0.5
        assert ball.gauge(theta) <= 1


def test_the_printed_descent_is_its_recursion() -> None:
    cross, gram = sums()
    ball, error, lipschitz = L1Ball(1.0), 300.0, 300.0
    point, points = np.zeros(5), []
    for _ in range(4):
        points.append(point)
        point = ball.project(point - 2 / (2 * 600.0) * 2 * (gram @ point - cross))
    found = constrained.printed_descent(cross, gram, ball, error=error, lipschitz=lipschitz, most_steps=10**6)
    np.testing.assert_allclose(found, np.mean(points, axis=0), rtol=1e-12)


def test_the_gradient_error_holds() -> None:
    """2,000 draws at failure 5 %: more than 100 above the bound would be chance once in two times were it exact; it is
    wide, and none is expected above it."""
    rng = np.random.default_rng(5)
    size, bound, above = 10, constrained.gradient_error(10, 1.0, 0.7, 2.0), 0
    for _ in range(2000):
        noise = np.triu(rng.normal(size=(size, size)) * 0.7, 1)
        noise = noise + noise.T + np.diag(rng.normal(size=size) * 0.7 * math.sqrt(2))
        above += 2 * np.linalg.norm(rng.normal(size=size)) + 4 * np.linalg.norm(noise, 2) > bound
    assert above <= 100
    # Not wider than twice what is needed.
    assert bound < 2 * (2 * math.sqrt(10) + 4 * 2 * math.sqrt(10) * 0.7)


def test_many_columns() -> None:
    rng = np.random.default_rng(6)
    exog = rng.normal(size=(600, 300))
    gram, cross = exog.T @ exog, exog.T @ exog[:, 0]
    theta = minimise(cross, gram, L1Ball(1.0))
    assert theta[0] == pytest.approx(1, abs=1e-3)
    assert constrained._largest_eigenvalue(gram) == pytest.approx(np.linalg.norm(gram, 2), rel=0.02)
    assert constrained._largest_eigenvalue(gram) >= np.linalg.norm(gram, 2)


def test_nothing_to_go_by_gives_the_start() -> None:
    np.testing.assert_array_equal(minimise(np.zeros(300), np.zeros((300, 300)), L1Ball(1.0)), np.zeros(300))
    np.testing.assert_array_equal(minimise(np.zeros(3), -np.eye(3), L2Ball(1.0)), np.zeros(3))
