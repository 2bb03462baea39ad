"""The optimum of several classes: certified gradients against long arithmetic (docs/proofs/multinomial, 4)."""

from __future__ import annotations

from collections.abc import Iterator

import mpmath
import numpy as np
import pytest

from dpstats.data import Block
from dpstats.families.multinomial import MOST_CLASSES, Multinomial
from dpstats.solvers import newton, pairs
from dpstats.solvers.classes import ClassesObjective, class_slopes
from dpstats.solvers.rounding import WIDEST, Precision, ladder


@pytest.fixture(autouse=True)
def sixty_digits() -> Iterator[None]:
    with mpmath.workdps(60):
        yield


def objective(rows: int = 60, classes: int = 4, spread: float = 1.0, weights: bool = False) -> ClassesObjective:
    rng = np.random.default_rng(rows)
    exog = rng.uniform(-0.6, 0.6, (rows, 3))
    block = Block(exog, rng.integers(0, classes, rows).astype(float), rng.uniform(0, 1, rows) if weights else None)
    noise = spread * rng.normal(size=(classes, 3))
    noise -= noise.mean(axis=0)
    return ClassesObjective(Multinomial(classes), [block], np.full(3 * classes, 0.5), noise.ravel(), 1.1)


def exact_gradient(problem: ClassesObjective, theta: pairs.Pair) -> list[mpmath.mpf]:
    """With 60 digits."""
    classes = problem.family.classes
    size = problem.size // classes

    def wide(value: np.floating) -> mpmath.mpf:
        high = float(value)
        return mpmath.mpf(high) + mpmath.mpf(float(value - type(value)(high)))

    point = [wide(high) + wide(low) for high, low in zip(*theta, strict=True)]
    total = [mpmath.mpf(m) * t + mpmath.mpf(b) for m, t, b in zip(problem.curvature, point, problem.noise, strict=True)]
    (block,) = problem.rows.collect()
    for row, (cells, y) in enumerate(zip(block.exog, block.endog, strict=True)):
        eta = [mpmath.fsum(mpmath.mpf(x) * point[k * size + j] for j, x in enumerate(cells)) for k in range(classes)]
        parts = [mpmath.exp(one - max(eta)) for one in eta]
        weight = mpmath.mpf(1 if block.weights is None else block.weights[row])
        for k in range(classes):
            slope = weight * (parts[k] / mpmath.fsum(parts) - (k == y))
            for j, x in enumerate(cells):
                total[k * size + j] += slope * mpmath.mpf(x)
    return total


@pytest.mark.parametrize("spread", [1.0, 1e6])
@pytest.mark.parametrize("weights", [False, True])
def test_certified_gradients_are_within_their_bounds(spread: float, weights: bool) -> None:
    problem = objective(spread=spread, weights=weights)
    rng = np.random.default_rng(1)
    theta = pairs.plus(
        pairs.single(rng.normal(0, spread, problem.size), WIDEST), WIDEST(1e-17) * rng.normal(size=problem.size)
    )
    exact = exact_gradient(problem, theta)
    for precision in ladder(WIDEST):
        found = problem.certified_gradient(theta, precision)
        error = mpmath.sqrt(
            mpmath.fsum(
                (mpmath.mpf(float(one)) + mpmath.mpf(float(one - WIDEST(float(one)))) - true) ** 2
                for one, true in zip(found.gradient, exact, strict=True)
            )
        )
        # The gradient is returned as one float a coefficient, whose own rounding `norm` has room for.
        assert error <= found.error + 1e-18 * float(np.linalg.norm(found.gradient.astype(float)))


@pytest.mark.parametrize("classes", [3, MOST_CLASSES])
def test_slopes_of_pairs(classes: int) -> None:
    """Within the (16 K + 48) u^2 of the proof, whatever the predictors are."""
    rng = np.random.default_rng(2)
    eta = np.vstack([rng.normal(0, 3, (4, classes)), rng.normal(0, 300, (4, classes))])
    low = eta * 1e-20
    pair = [
        pairs.plus(pairs.single(high, WIDEST), rest.astype(WIDEST)) for high, rest in zip(eta.T, low.T, strict=True)
    ]
    endog = rng.integers(0, classes, len(eta)).astype(float)
    slopes = class_slopes(Precision(WIDEST, paired=True), pair, endog, None)
    unit = float(np.finfo(WIDEST).eps)

    def exact(one: pairs.Pair, row: int) -> mpmath.mpf:
        parts = (one.high[row], one.low[row])
        return mpmath.fsum(mpmath.mpf(float(part)) + mpmath.mpf(float(part - WIDEST(float(part)))) for part in parts)

    for row in range(len(eta)):
        point = [exact(one, row) for one in pair]
        parts = [mpmath.exp(one - max(point)) for one in point]
        true = [one / mpmath.fsum(parts) - (k == endog[row]) for k, one in enumerate(parts)]
        error = mpmath.sqrt(mpmath.fsum((exact(one, row) - t) ** 2 for one, t in zip(slopes, true, strict=True)))
        assert error <= (16 * classes + 48) * unit**2


def test_derivatives() -> None:
    problem, step = objective(), 1e-6
    theta = np.random.default_rng(3).normal(size=problem.size)
    found = problem.accumulate(theta)
    assert np.allclose(found.gradient, problem.gradient(theta))
    for at in (0, 5, problem.size - 1):
        move = step * np.eye(problem.size)[at]
        above, below = problem.accumulate(theta + move), problem.accumulate(theta - move)
        assert (above.value - below.value) / (2 * step) == pytest.approx(found.gradient[at], rel=1e-6)
        assert np.allclose((above.gradient - below.gradient) / (2 * step), found.hessian[at], atol=1e-6)


@pytest.mark.parametrize("spread", [1.0, 1e5])
def test_the_optimum_is_certified_and_has_sum_zero(spread: float) -> None:
    problem = objective(rows=200, spread=spread)
    point = newton.optimum(problem, 1e-12 * spread)
    assert problem.certified_gradient(point, ladder(WIDEST)[-1]).norm <= 1e-12 * spread
    assert np.abs(point.high.reshape(4, -1).sum(axis=0)).max() <= 1e-11 * spread


def test_a_class_without_rows_and_no_rows_at_all() -> None:
    empty = Block(np.empty((0, 3)), np.empty(0))
    noise = np.array([1.0, 2, 3, -1, -2, -3, 0, 0, 0])
    problem = ClassesObjective(Multinomial(3), [empty], np.full(9, 2.0), noise, 1.0)
    assert np.allclose(newton.minimize(problem, 1e-12).astype(float), -noise / 2)
