"""Logistic regression from second moments: the nearest line, its equation, and what noise does to the solution."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy import integrate, special, stats

import dpstats as dp
from dpstats.local.collector import BestLinear, LinearisedLogistic, nearest_line
from dpstats.penalties import Lasso
from dpstats.privacy.k_norm.blocks import Image, ball, box, cross, intercept, simplex

HALF = np.array([[0.5]])


def logistic(rows: int = 3000, *, constant: bool = True, ridge: float = 0.3) -> tuple[LinearisedLogistic, np.ndarray]:
    """Four columns, of which the first may be an intercept, and the rows themselves."""
    rng = np.random.default_rng(0)
    exog = rng.uniform(-0.5, 0.5, (rows, 4))
    if constant:
        exog[:, 0] = 0.5
    endog = (rng.random(rows) < special.expit(exog @ [1, 2, -6, 4.0])).astype(float)
    first = intercept() if constant else box()
    images = tuple(Image(first if j == 0 else box(), (j,), HALF) for j in range(4))
    vector = exog.T @ (endog - 0.5)
    return LinearisedLogistic(exog.T @ exog, vector, ridge * np.eye(4), images, rows), vector


def equation(loss: LinearisedLogistic, theta: np.ndarray) -> np.ndarray:
    """Zero at the solution."""
    line = loss.line(theta)
    return line.slope * loss.gram @ theta + line.offset * loss.sums + loss.ridge @ theta - loss.vector


def by_quadrature(law: stats.rv_continuous, low: float, high: float) -> BestLinear:
    """The nearest line by the moments of a law."""

    def mean(function: object) -> float:
        return float(integrate.quad(lambda eta: function(eta) * law.pdf(eta), low, high, limit=200)[0])  # type: ignore[operator]

    center, square = law.mean(), law.var()
    slope = mean(lambda eta: (special.expit(eta) - 0.5) * (eta - center)) / square
    return BestLinear(mean(lambda eta: special.expit(eta) - 0.5) - slope * center, slope)


def test_the_nearest_line_is_that_of_the_law() -> None:
    uniform = nearest_line(0.5, 4 / 12 * 4, -1.5, 2.5)
    assert uniform == pytest.approx(by_quadrature(stats.uniform(-1.5, 4), -1.5, 2.5), abs=1e-4)
    bent = stats.beta(2, 5, loc=-3, scale=6)
    found = nearest_line(bent.mean(), bent.var(), -3, 3)
    assert found == pytest.approx(by_quadrature(bent, -3, 3), abs=1e-4)
    normal = stats.norm(-1, 1.5)
    far = nearest_line(-1, 1.5**2, -1e4, 1e4)
    assert far == pytest.approx(by_quadrature(normal, -15, 13), abs=3e-3)


def test_two_points_have_the_line_through_them() -> None:
    low, high, share = -1.4, 2.2, 0.3
    mean = (1 - share) * low + share * high
    line = nearest_line(mean, share * (1 - share) * (high - low) ** 2, low, high)
    for eta in (low, high):
        assert line.offset + line.slope * eta == pytest.approx(special.expit(eta) - 0.5, abs=2e-3)


@pytest.mark.parametrize("mean", [-30.0, 0.0, 3.0])
def test_one_point_has_the_tangent(mean: float) -> None:
    line = nearest_line(mean, 0.0, mean - 1, mean + 1)
    assert line.slope == pytest.approx(special.expit(mean) * special.expit(-mean))
    assert line.offset + line.slope * mean == pytest.approx(special.expit(mean) - 0.5)


@pytest.mark.parametrize(("mean", "variance"), [(5.0, 1e6), (-9.0, 0.1), (np.pi, 1e-30), (0.0, 4.0), (1e3, 1.0)])
def test_moments_that_no_law_has_do_no_harm(mean: float, variance: float) -> None:
    """Noise makes such: a mean outside of the range, a variance above the greatest."""
    line = nearest_line(mean, variance, -2.0, 2.0)
    assert 0 < line.slope <= 0.25 + 1e-9
    assert np.isfinite(line.offset)


@pytest.mark.slow
def test_the_range_is_that_of_the_rows() -> None:
    """Every kind of body: the extreme points of each reach it, and no point passes it."""
    random = np.random.default_rng(2)
    kinds = [intercept(), box(2), simplex(3), cross(2), ball(2)]
    places = np.split(np.arange(10), np.cumsum([kind.size for kind in kinds])[:-1])
    images = tuple(
        Image(kind, tuple(place), random.uniform(0.2, 1.0, kind.size))
        for kind, place in zip(kinds, places, strict=True)
    )
    theta = random.normal(size=10)
    draws = random.normal(size=(400_000, 10))
    draws[:, 0] = 1.0
    draws[:, 1:3] = np.sign(draws[:, 1:3])
    for place in (places[2], places[3]):
        largest = np.argmax(draws[:, place], axis=1)
        sign = np.where(random.random(len(draws)) < 0.5, 0.0 if place is places[2] else -1.0, 1.0)
        draws[:, place] = 0.0
        draws[np.arange(len(draws)), place[0] + largest] = sign
    draws[:, places[4]] /= np.linalg.norm(draws[:, places[4]], axis=1)[:, None]
    matrix = np.zeros((10, 10))
    for image in images:
        matrix[np.ix_(image.columns, image.columns)] = image.matrix
    reached = draws @ matrix @ theta
    low, high = LinearisedLogistic(np.eye(10), theta, np.eye(10), images, 1).reach(theta)
    assert low - 1e-9 <= reached.min() <= low + 0.05
    assert high - 0.05 <= reached.max() <= high + 1e-9


@pytest.mark.parametrize("constant", [True, False])
def test_the_solution_solves_the_equation_and_is_near_the_likelihoods(constant: bool) -> None:
    loss, vector = logistic(constant=constant, ridge=1e-6)
    theta = loss.solve(None, np.ones(4), 1e-9)
    assert np.abs(equation(loss, theta)).max() < 1e-7 * np.linalg.norm(vector)
    assert theta == pytest.approx([1, 2, -6, 4], abs=0.75)
    quadratic = np.linalg.solve(loss.gram / 4, vector)
    assert np.linalg.norm(theta - [1, 2, -6, 4]) < np.linalg.norm(quadratic - [1, 2, -6, 4])


@pytest.mark.parametrize("constant", [True, False])
def test_what_noise_does_to_first_order(constant: bool) -> None:
    """Every entry of the sums in turn, by central differences."""
    loss, _ = logistic(300, constant=constant)
    theta = loss.solve(None, np.ones(4), 1e-9)
    expected = 0.3 * np.eye(4)
    for i in range(4):
        for j in range(i + 1):
            moved = np.zeros((4, 4))
            moved[i, j] = moved[j, i] = 1e-4
            ends = [equation(replace(loss, gram=loss.gram + sign * moved), theta) for sign in (1, -1)]
            change = (ends[0] - ends[1]) / 2e-4
            expected += (2 if i == j else 1) * 1.7 * np.outer(change, change)
    inverse = np.linalg.inv(np.array([
        (equation(loss, theta + 1e-5 * unit) - equation(loss, theta - 1e-5 * unit)) / 2e-5 for unit in np.eye(4)
    ]).T)  # fmt: skip
    found = loss.covariance(theta, 1.7, 0.3)
    assert found == pytest.approx(inverse @ expected @ inverse.T, rel=1e-5, abs=1e-8)


@pytest.mark.slow
def test_a_lasso_leaves_columns_out() -> None:
    loss, vector = logistic()
    weights = np.array([0.0, 1.0, 1.0, 1.0])
    plain = loss.solve(None, weights, 1e-9)
    assert loss.solve(Lasso(0.0), weights, 1e-9) == pytest.approx(plain, abs=1e-6)
    sparse = loss.solve(Lasso(120.0), weights, 1e-9)
    assert (sparse[1:] == 0).any()
    assert abs(sparse[2]) < abs(plain[2])
    slope = equation(loss, sparse)
    assert np.abs(slope[1:]).max() <= 120.0 * (1 + 1e-6)
    assert abs(slope[0]) < 1e-6 * np.linalg.norm(vector)


@pytest.mark.slow
def test_separated_rows_end() -> None:
    loss, _ = logistic(ridge=1e-3)
    loss = replace(loss, vector=np.array([0.0, 0.0, -370.0, 0.0]) * 10)
    theta = loss.solve(None, np.ones(4), 1e-9)
    assert np.isfinite(theta).all()


FORMULAS = ["y ~ x + g", "y ~ 0 + x", "y ~ x*g + z", "y ~ 1", "y ~ 0 + g", "y ~ C(g, Sum) + x", "y ~ bs(z, df=4) + x"]


@pytest.mark.slow
@pytest.mark.parametrize("formula", FORMULAS)
@pytest.mark.parametrize("penalty", [None, "lasso"])
def test_whatever_the_sums_are_there_is_a_fit(formula: str, penalty: str | None) -> None:
    """Sums that noise could make, likely or not: all zeros, far out in one part, and of one sign."""
    domain = {"x": (0, 1), "g": ["a", "b", "c"], "y": (0, 1), "z": (0, 5)}
    spec = dp.local.Spec(domain, formula, eps=1.0, delta=1e-5, n=100, family="binomial")
    rng, size, columns = np.random.default_rng(0), spec.size, len(spec.names)
    part = np.arange(size) < columns
    far = 100 * int(spec.lattice.scale) * 8
    sums = [np.zeros(size), rng.integers(-9, 9, size), rng.integers(-far, far, size), far * part, -far * part]
    sums += [far * ~part, -far * ~part, far * part + far // 100 * ~part, np.full(size, far)]
    for values in sums:
        total = dp.local.Total(spec.hash, np.asarray(values, dtype=np.int64), 100)
        fit = dp.local.fit(total, spec, penalty=penalty, alpha=None if penalty is None else 1.0)
        assert np.isfinite(fit.params).all()
        assert np.isfinite(fit.noise_covariance).all()
        assert (np.diag(fit.noise_covariance) >= 0).all()
