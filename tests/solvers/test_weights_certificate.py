"""The certified gradient of weighted rows with offsets: its stated error bounds the distance to 60 digits."""

from __future__ import annotations

import numpy as np
import pytest
from mpmath import mp, mpf

from dpstats.data import Block
from dpstats.families import Binomial, BinomialCounts, Family, Gaussian, NegativeBinomial, Poisson
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


def whole(value: np.floating) -> mpf:
    """A float of any type, without rounding."""
    leading = float(value)
    return mpf(leading) + mpf(float(value - type(value)(leading)))


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
    assert certified.error < family.lipschitz * 200 * (1e-13 if LADDER[rung].paired else 1e-12 * (1 + bound))


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


class TestRelativeSlopes:
    """Logistic slopes carry errors in proportion to themselves."""

    @pytest.mark.parametrize("dtype", [np.float64, WIDEST])
    def test_slopes_are_within_three_units_of_themselves(self, dtype: type[np.floating]) -> None:
        eta = np.concatenate([np.random.default_rng(5).uniform(-700, 700, 300), np.linspace(-3, 3, 301)]).astype(dtype)

        def worst(computed: np.ndarray, response: float) -> float:
            with mp.workdps(60):
                sign = 2 * int(response) - 1
                exact = [-sign / (1 + mp.e ** (sign * mpf(float(value)))) for value in eta]
                gaps = [abs(whole(found) - true) / abs(true) for found, true in zip(computed, exact, strict=True)]
            return float(max(gaps)) / float(np.finfo(dtype).eps)

        eta = eta.astype(float).astype(dtype)
        family = Binomial()
        for response in (0.0, 1.0):
            assert worst(family.slope(eta, np.full_like(eta, response)), response) <= 2.5
        # Half a unit is left for a weight. Planted: a difference, which cancels.
        assert worst(family.mean(eta) - 1, 1.0) > 1e10

    def test_what_the_family_declares(self) -> None:
        family, eta = Binomial(), np.linspace(-40, 40, 80_001)
        assert family.relative_slope is not None
        bend, near = family.weight(eta, np.ones_like(eta)), family.weight(eta + 1e-3, np.ones_like(eta))
        assert 0.999 * family.relative_slope <= np.max(np.abs(eta) * bend) <= family.relative_slope
        for response in (0.0, 1.0):
            assert np.all(bend <= np.abs(family.slope(eta, np.full_like(eta, response))) * (1 + 1e-15))
        assert np.all(np.abs(np.log(near / bend)) <= 1e-3 * (1 + 1e-9))
        assert BinomialCounts(9.0).relative_slope is None

    @pytest.mark.parametrize("far", [0.0, 50.0])
    @pytest.mark.parametrize("rung", RUNGS[:-1])
    def test_the_bound_holds_and_is_small(self, far: float, rung: int) -> None:
        rows, theta = block(400, 1.0), np.array([3.0, -2.0, 5.0, 0.5])
        eta = rows.exog @ theta + rows.offset
        rows = rows._replace(endog=(eta > 0).astype(float), offset=rows.offset + np.sign(eta) * far)
        exact = exact_gradient(Binomial(), rows, theta) + 1e-9 * theta

        def error(family: Family) -> tuple[float, float]:
            objective = PerturbedObjective(family, [rows], np.full(4, 1e-9), np.zeros(4), offset_bound=1.0 + far)
            found = objective.certified_gradient(theta.astype(WIDEST), LADDER[rung])
            return found.error, float(np.linalg.norm(found.gradient.astype(float) - exact))

        bound, gap = error(Binomial())
        assert gap <= bound + 1e-15 * float(np.linalg.norm(exact))
        # In wider floats the sums, which are the same, are most of it.
        assert bound < error(BinomialCounts(1.0))[0] / (2 if rung == 0 else 1)

    def test_an_offset_beyond_its_bound_breaks_it(self) -> None:
        """The planted bug: offsets that cancel long predictors, and are not in the bound."""
        rows, theta = block(200, 1.0), np.array([3.0, -2.0, 5.0, 0.5])
        rows = rows._replace(exog=1e6 * rows.exog, endog=np.ones(200), weights=np.ones(200))
        rows = rows._replace(offset=-(rows.exog @ theta))
        exact = exact_gradient(Binomial(), rows, theta) + 1e-9 * theta

        def missed(row_norm: float, offset_bound: float) -> float:
            objective = PerturbedObjective(
                Binomial(), [rows], np.full(4, 1e-9), np.zeros(4), row_norm, np.float64, offset_bound
            )
            found = objective.certified_gradient(theta, ladder(np.float64)[0])
            return float(np.linalg.norm(found.gradient.astype(float) - exact)) / found.error

        assert missed(1e6, 0.0) > 100
        assert missed(1e6, 1e7) <= 1


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
