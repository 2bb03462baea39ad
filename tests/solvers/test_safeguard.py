"""The solver of last resort, by itself and behind the fast ones: it ends, and is certified, on any data."""

from __future__ import annotations

import time

import numpy as np
import pytest
from mpmath import mp, mpf
from test_pairs import exact_slope

from dpstats.families import Binomial, Family, Gaussian, HuberSVM, NegativeBinomial, Poisson, Quantile, SmoothSVM
from dpstats.penalties import Bridge, Lasso, Penalty
from dpstats.solvers import newton, pairs, prox, safeguard
from dpstats.solvers.objective import PerturbedObjective
from dpstats.solvers.pairs import Pair
from dpstats.solvers.rounding import SAFE_SHARE, WIDEST, Scale, gradient_error, ladder, least_tolerance

FAMILIES: list[Family] = [
    Gaussian(0.5),
    Binomial(),
    Poisson(10.0, 10.0),
    NegativeBinomial(0.5, 9.0),
    HuberSVM(0.1),
    SmoothSVM(1e-3),
    Quantile(0.8, 0.01),
]
PENALTIES: list[Penalty | None] = [None, Lasso(0.3), Bridge(0.5, 1.5)]


def problem(
    family: Family, rows: int, columns: int, curvature: float, seed: int = 3, widest: type[np.floating] = WIDEST
) -> PerturbedObjective:
    """Rows in the unit ball, two of the columns nearly collinear, responses that separate."""
    rng = np.random.default_rng(seed)
    exog = rng.normal(size=(rows, columns))
    exog[:, 1] = exog[:, 0] + 1e-7 * exog[:, 1]
    exog /= np.maximum(1.0, np.linalg.norm(exog, axis=1))[:, None]
    eta = 4 * exog @ rng.normal(size=columns)
    endog = {"binary": (eta > 0).astype(float), "count": np.clip(np.round(np.exp(eta)), 0, 10)}.get(
        family.response, eta
    )
    return PerturbedObjective(
        family, [(exog, endog)], np.full(columns, curvature), rng.normal(size=columns), widest=widest
    )


def distance(objective: PerturbedObjective, theta: Pair, penalty: Penalty | None) -> float:
    """The certified distance of 0 to the subdifferential."""
    certified = objective.certified_gradient(theta, objective.ladder[-1])
    nearest = (penalty or Lasso(0.0)).distance(certified.gradient, theta.high)
    return nearest + certified.error


@pytest.mark.parametrize("widest", [np.float64, WIDEST])
@pytest.mark.parametrize("penalty", PENALTIES, ids=str)
@pytest.mark.parametrize("family", FAMILIES, ids=str)
def test_alone_it_ends_from_zero(family: Family, penalty: Penalty | None, widest: type[np.floating]) -> None:
    objective = problem(family, 60, 4, 1e-3, widest=widest)
    theta = safeguard.minimize(objective, 1e-10, pairs.single(np.zeros(4), widest), penalty)
    assert theta.high.dtype == widest
    assert distance(objective, theta, penalty) <= 1.0001e-10


@pytest.mark.slow
@pytest.mark.parametrize("penalty", PENALTIES, ids=str)
@pytest.mark.parametrize("family", FAMILIES, ids=str)
def test_float64_alone_gives_the_same_guarantee(family: Family, penalty: Penalty | None) -> None:
    """As on Windows and macOS on ARM: a tolerance that no single float64 can certify, met by pairs of them."""
    tolerance, curvature = 1e-14, 1e-2
    found = []
    for widest in (np.float64, WIDEST):
        objective = problem(family, 3000, 5, curvature, widest=widest)
        theta = newton.optimum(objective, tolerance) if penalty is None else prox.optimum(objective, penalty, tolerance)
        assert distance(objective, theta, penalty) <= 1.0001 * tolerance
        found.append(theta)
    assert found[0].high.dtype == np.float64
    # Each at most the tolerance over the curvature from the optimum.
    apart = (found[0].high - found[1].high) + (found[0].low - found[1].low)
    assert float(np.linalg.norm(apart.astype(float))) <= 2.001 * tolerance / curvature
    assert ladder(np.float64)[-1].dtype is np.float64


KNOWN = [
    (SmoothSVM(1e-7), 300, Lasso(0.1), 1e-6, 1.0),
    (SmoothSVM(1e-8), 100, Bridge(0.2, 1.1), 1e-6, 1.0),
    (HuberSVM(1e-7), 300, None, 1e-8, 1e-3),
    (HuberSVM(1e-9), 30, Lasso(1e-2), 1e-8, 1e-3),
    (Binomial(), 300, None, 1e-9, 1e-4),
    (Gaussian(1e-6), 300, Lasso(1e-7), 1e-8, 1e-9),
    (Poisson(100.0, 10.0), 300, Lasso(0.1), 1e-9, 1e-3),
]
"""Settings at which the fast solvers stall or plain floats are too coarse: family, rows, penalty, curvature, noise."""


@pytest.mark.slow
@pytest.mark.parametrize(("family", "rows", "penalty", "curvature", "noise"), KNOWN, ids=str)
def test_extreme_settings_reach_the_planned_tolerance(
    family: Family, rows: int, penalty: Penalty | None, curvature: float, noise: float
) -> None:
    """The tolerance that a plan for 1e7 rows would take, uneven curvature included."""
    for spread in (1.0, 1e8):
        plain = problem(family, rows, 4, curvature)
        uneven = curvature * spread ** np.array([0.0, 1.0, 0.5, 0.0])
        objective = plain.altered(plain.rows, uneven, noise * plain.noise)
        reachable = least_tolerance(
            family, rows=1e7, row_norm=1.0, curvature=uneven, linear=70 * noise, penalised=isinstance(penalty, Bridge)
        )
        tolerance = max(1e-9 * noise, reachable)
        theta = newton.optimum(objective, tolerance) if penalty is None else prox.optimum(objective, penalty, tolerance)
        assert distance(objective, theta, penalty) <= 1.0001 * tolerance


@pytest.mark.parametrize("widest", [np.float64, WIDEST])
@pytest.mark.parametrize("family", FAMILIES, ids=str)
def test_the_last_rung_is_planned_for_the_worst_rows(family: Family, widest: type[np.floating]) -> None:
    """Whatever the rows and wherever the solver looks, the rounding bound is a small share of the tolerance."""
    rng = np.random.default_rng(8)
    for rows in (1.0, 1e4, 1e7, 1e10):
        curvature = 10.0 ** rng.uniform(-8, 3, 6)
        planned = least_tolerance(family, rows=rows, row_norm=2.0, curvature=curvature, linear=30.0, widest=widest)
        for used in (0.01 * rows, rows):
            pull = used * family.lipschitz * 2.0 + 30.0
            far = 2 * pull / curvature.min()
            scale = Scale(6, used, 2.0, far, curvature.max() * far + 30.0, used * family.lipschitz)
            assert gradient_error(family, ladder(widest)[-1], widest, scale) <= SAFE_SHARE * planned


def test_at_the_defaults_rounding_costs_nothing() -> None:
    """1e7 rows, with or without extended floats: the least tolerance is far below what the noise leaves visible."""
    for widest, allowed in ((np.longdouble, 1e-14), (np.float64, 1e-13)):
        found = least_tolerance(Binomial(), rows=1e7, row_norm=1.0, curvature=np.ones(20), linear=1e3, widest=widest)
        assert found < allowed


@pytest.mark.slow
def test_a_tolerance_out_of_reach_is_no_error() -> None:
    """On more rows than were planned for: the best point there is, in finite time."""
    for family in FAMILIES:
        objective = problem(family, 100, 4, 0.1, widest=np.float64)
        start = time.perf_counter()
        for theta in (newton.minimize(objective, 1e-60), prox.minimize(objective, Lasso(0.1), 1e-60)):
            assert np.all(np.isfinite(theta))
        assert time.perf_counter() - start < 60
        exact = newton.minimize(problem(family, 100, 4, 0.1), 1e-12)
        assert float(np.linalg.norm((newton.minimize(objective, 1e-60) - exact).astype(float))) < 1e-10


@pytest.mark.slow
@pytest.mark.parametrize("penalty", PENALTIES, ids=str)
@pytest.mark.parametrize("family", FAMILIES, ids=str)
def test_a_tolerance_out_of_reach_is_missed_by_no_more_than_proved(family: Family, penalty: Penalty | None) -> None:
    """The corollary: the point released is within twice what any data of so many rows can be certified to."""
    objective = problem(family, 200, 4, 0.1, widest=np.float64)
    linear = float(np.linalg.norm(objective.noise))
    reachable = least_tolerance(
        family,
        rows=200,
        row_norm=1.0,
        curvature=objective.curvature,
        linear=linear,
        penalised=isinstance(penalty, Bridge),
        widest=np.float64,
    )
    unreachable = 1e-40
    theta = newton.optimum(objective, unreachable) if penalty is None else prox.optimum(objective, penalty, unreachable)
    assert unreachable < distance(objective, theta, penalty) <= 2 * reachable


@pytest.mark.parametrize("family", [Gaussian(0.5), HuberSVM(0.25), Poisson(1.0, 1.0)], ids=str)
@pytest.mark.parametrize("widest", [np.float64, WIDEST])
@pytest.mark.parametrize("side", [-1.0, 1.0])
def test_the_last_rung_holds_its_bound_at_a_kink(family: Family, widest: type[np.floating], side: float) -> None:
    """A predictor whose leading float, after cancellation, is the kink itself, and whose rest lies on either side.

    l' + l'' rest was wrong by up to 4e-8 here, at a stated bound of 1e-17.
    """
    kink = {"continuous": 0.5, "binary": 0.75, "count": 0.0}[family.response]
    rest = 0.3 * 2.0**40 * float(np.finfo(widest).eps)
    exog, theta = np.array([[0.5, 0.5, -0.5]]), np.array([2.0**41, 2 * (kink + side * rest), 2.0**41])
    endog = np.array([1.0 if family.response == "binary" else 0.0])
    objective = PerturbedObjective(family, [(exog, endog)], np.full(3, 1e-30), np.zeros(3), widest=widest)
    certified = objective.certified_gradient(theta, objective.ladder[-1])
    with mp.workdps(90):
        eta = sum((mpf(float(a)) * mpf(float(b)) for a, b in zip(exog[0], theta, strict=True)), mpf(0))
        slope = exact_slope(family, eta, mpf(endog[0]))
        exact = np.array([float(slope * mpf(cell)) for cell in exog[0]]) + 1e-30 * theta
    gap = float(np.linalg.norm(certified.gradient.astype(float) - exact))
    assert gap <= certified.error + 4e-16
    assert certified.error < 1e-3 * rest
