"""The certified gradient of weighted rows with offsets: its stated error bounds the distance to 60 digits."""

from __future__ import annotations

import numpy as np
import pytest
from mpmath import mp, mpf

from dpstats.families import Binomial, BinomialCounts, Family, Gaussian, NegativeBinomial, Poisson
from dpstats.rows import Block
from dpstats.solvers import newton
from dpstats.solvers.objective import PerturbedObjective
from dpstats.solvers.rounding import WIDEST, ladder, least_tolerance

LADDER = ladder(WIDEST)
RUNGS = range(len(LADDER))


def block(rows: int, bound: float, seed: int = 3) -> Block:
    rng = np.random.default_rng(seed)
    exog = rng.normal(size=(rows, 4))
    exog /= np.linalg.norm(exog, axis=1)[:, None]
    endog = rng.choice([0.0, 0.25, 1.0], rows)
    return Block(exog, endog, rng.choice([1.0, 0.3, 1e-9], rows), bound * rng.uniform(-1, 1, rows))


def slope(family: Family, eta: mpf, response: mpf) -> mpf:
    if isinstance(family, Gaussian):
        return max(-mpf(family.lipschitz), min(mpf(family.lipschitz), eta - response))
    if isinstance(family, Poisson):
        return min(mp.e**eta, mpf(family.curvature_bound)) - response
    if isinstance(family, NegativeBinomial):
        chance = 1 / (1 + mp.e ** (-eta - mpf(family.shift)))
        return mpf(family.failures) * chance - response * (1 - chance)
    return 1 / (1 + mp.e ** (-eta)) - response


def exact_gradient(family: Family, rows: Block, theta: np.ndarray) -> np.ndarray:
    """The sum of w l'(x'theta + o) x in 60 digits."""
    assert rows.weights is not None
    assert rows.offset is not None
    with mp.workdps(60):
        total = [mpf(0)] * len(theta)
        for x, y, w, o in zip(rows.exog, rows.endog, rows.weights, rows.offset, strict=True):
            eta = sum((mpf(float(a)) * mpf(float(b)) for a, b in zip(x, theta, strict=True)), mpf(float(o)))
            part = mpf(float(w)) * slope(family, eta, mpf(float(y)))
            total = [old + part * mpf(float(cell)) for old, cell in zip(total, x, strict=True)]
        return np.array([float(value) for value in total])


@pytest.mark.parametrize("rung", RUNGS)
@pytest.mark.parametrize("bound", [0.0, 20.0, 1e6])
@pytest.mark.parametrize("family", [BinomialCounts(9.0), Gaussian(0.5), Poisson(50.0, 20.0)], ids=lambda f: f.name)
def test_error_bound_holds(family: Family, bound: float, rung: int) -> None:
    """Predictors in which a large offset meets a long theta and cancels."""
    rows, theta = block(200, bound), np.array([3.0, -2.0, 5.0, 0.5])
    near = rows._replace(offset=rows.offset - 0.9 * (rows.exog @ theta) * (bound > 0))
    objective = PerturbedObjective(
        family, [near], np.full(4, 1e-9), np.zeros(4), offset_bound=float(np.abs(near.offset).max())
    )
    certified = objective.certified_gradient(theta.astype(WIDEST), LADDER[rung])
    exact = exact_gradient(family, near, theta) + 1e-9 * theta
    gap = float(np.linalg.norm(certified.gradient.astype(float) - exact))
    assert gap <= certified.error + 1e-15 * float(np.linalg.norm(exact))
    assert certified.error < family.lipschitz * 200 * [1e-12 * (1 + bound), 1e-12 * (1 + bound), 1e-13][rung]


def test_an_offset_beyond_its_bound_breaks_the_certificate() -> None:
    """The planted bug: offsets that nobody clipped. Responses as far out hide what adding them rounds off."""
    family, theta = Gaussian(0.5), np.array([0.3, -0.2, 0.1, 0.05])
    rows = block(200, 1.0)
    rows = rows._replace(offset=np.full(200, 1e9), endog=np.full(200, 1e9))
    exact = exact_gradient(family, rows, theta) + 1e-9 * theta

    def missed(offset_bound: float) -> float:
        objective = PerturbedObjective(
            family, [rows], np.full(4, 1e-9), np.zeros(4), widest=np.float64, offset_bound=offset_bound
        )
        found = objective.certified_gradient(theta, ladder(np.float64)[0])
        return float(np.linalg.norm(found.gradient.astype(float) - exact)) / found.error

    assert missed(1.0) > 100
    assert missed(1e9) <= 1


@pytest.mark.parametrize(
    "family",
    [Binomial(), BinomialCounts(9.0), Gaussian(0.5), Poisson(5.0, 9.0), NegativeBinomial(0.4, 9.0)],
    ids=lambda f: f.name,
)
@pytest.mark.parametrize("bound", [1.0, 50.0, 1e4])
def test_the_planned_tolerance_is_reached(family: Family, bound: float) -> None:
    rows = block(300, bound)
    rows = rows._replace(endog=family.clip_response(rows.endog))
    tolerance = least_tolerance(
        family, rows=1e7, row_norm=1.0, curvature=np.full(4, 1e-3), linear=70.0, offset_bound=bound
    )
    noise = np.array([1.0, -0.5, 0.2, 0.0])
    objective = PerturbedObjective(family, [rows], np.full(4, 1e-3), noise, offset_bound=bound)
    theta = newton.minimize(objective, tolerance)
    exact = exact_gradient(family, rows, theta) if not isinstance(family, Poisson) else None
    assert objective.certified_gradient(theta, LADDER[-1]).norm <= 1.0001 * tolerance
    if exact is not None:
        with mp.workdps(60):
            total = exact + 1e-3 * np.asarray(theta, dtype=float) + noise
        assert np.linalg.norm(total) <= tolerance + 1e-13


def test_weights_multiply_the_loss() -> None:
    """Value, gradient and Hessian of weights are those of rows repeated, and of offsets those of one more column."""
    rng = np.random.default_rng(8)
    exog, endog, weights = rng.normal(size=(50, 3)) / 3, rng.integers(0, 2, 50).astype(float), rng.integers(1, 4, 50)
    offset, theta = rng.normal(size=50), rng.normal(size=3)
    weighed = PerturbedObjective(
        Binomial(), [Block(exog, endog, weights / 4, offset)], np.full(3, 0.25), np.full(3, 0.25), offset_bound=9.0
    ).accumulate(theta)
    wide = np.column_stack([exog, offset])[np.repeat(np.arange(50), weights)]
    repeated = PerturbedObjective(
        Binomial(), [(wide, np.repeat(endog, weights))], np.array([1.0, 1, 1, 0]), np.array([1.0, 1, 1, 0])
    ).accumulate(np.append(theta, 1.0))
    assert 4 * weighed.value == pytest.approx(repeated.value)
    np.testing.assert_allclose(4 * weighed.gradient, repeated.gradient[:3])
    np.testing.assert_allclose(4 * weighed.hessian, repeated.hessian[:3, :3])
