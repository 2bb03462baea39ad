"""With an eps beyond any privacy a fit is the one without noise: what people try first."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any
from unittest import mock

import numpy as np
import pandas as pd
import pytest
from scipy import optimize

import dpstats as dp
from dpstats.errors import ArgumentError
from dpstats.families import Binomial, Family, Gaussian, HuberSVM, NegativeBinomial, Poisson, SmoothSVM
from dpstats.mechanisms.calibration import NoiseBudget
from dpstats.mechanisms.design import ArrayDesign, array_norms
from dpstats.mechanisms.objective import plan_objective
from dpstats.mechanisms.release import LATTICE_LIMIT, LONGEST_DRAW, LatticeRelease
from dpstats.penalties import L0, Bridge, ElasticNet, Lasso, Penalty, Ridge
from dpstats.privacy.k_norm import KNormNoise
from dpstats.privacy.noise import Noise
from dpstats.privacy.randomness import random_source
from dpstats.solvers import pairs

AS_GOOD = 1e-5
CONVEX: tuple[Penalty | None, ...] = (None, Ridge(3.0), Lasso(1.0), ElasticNet(1.0, 0.5), Bridge(1.0, 1.5))
FAMILIES: list[tuple[str, Family]] = [
    ("b", Binomial()),
    ("y", Gaussian(0.3)),
    ("c", Poisson(6.0, 10.0)),
    ("c", NegativeBinomial(1.0, 10.0)),
    ("b", HuberSVM(0.5)),
    ("b", SmoothSVM(0.3)),
]
DOMAIN = {"x": (-1, 1), "z": (-1, 1), "w": (-1, 1), "b": [0, 1], "y": (0, 1), "c": (0, 10)}


@pytest.fixture(scope="module")
def frame() -> pd.DataFrame:
    rng = np.random.default_rng(0)
    exog = rng.normal(size=(200, 3))
    exog /= np.linalg.norm(exog, axis=1)[:, None]
    eta = exog @ [1.0, -2.0, 0.5]
    columns = pd.DataFrame(exog, columns=["x", "z", "w"])
    binary = (rng.random(200) < 1 / (1 + np.exp(-2 * eta))).astype(float)
    numbers = np.clip(0.5 + 0.1 * eta + 0.05 * rng.normal(size=200), 0, 1)
    return columns.assign(b=binary, y=numbers, c=rng.poisson(np.exp(eta)).clip(0, 10).astype(float))


def fits(frame: pd.DataFrame, response: str, family: Family) -> Iterator[Callable[..., dp.GLMResults]]:
    """From arrays and by formula."""
    exog, endog = frame[["x", "z", "w"]].to_numpy(), frame[response].to_numpy()
    yield lambda eps, **how: dp.GLM(endog, exog, family=family, row_norm=1.0).fit(eps, **how)
    yield lambda eps, **how: dp.glm(f"{response} ~ x + z + w", frame, eps, family=family, domain=DOMAIN, **how)


@contextmanager
def without_noise() -> Iterator[None]:
    """The same objectives, their optima released as they are."""
    with ExitStack() as stack:
        exact = {
            (Noise, "sample"): lambda law, size, random: np.zeros(size),
            (KNormNoise, "sample"): lambda law, random: np.zeros(law.size),
            (LatticeRelease, "release"): lambda final, theta, random: (theta.high + theta.low).astype(float),
        }
        for (owner, name), stand_in in exact.items():
            stack.enter_context(mock.patch.object(owner, name, stand_in))
        yield


@pytest.mark.slow
@pytest.mark.parametrize(("response", "family"), FAMILIES, ids=lambda value: getattr(value, "name", value))
def test_a_fit_is_the_one_without_noise(frame: pd.DataFrame, response: str, family: Family) -> None:
    """Every family, penalty, number of stages and both entries; coefficients stood at the lattice's end here."""
    ways: list[dict[str, Any]] = [{"penalty": penalty} for penalty in CONVEX]
    ways += [{"penalty": penalty, "method": "output"} for penalty in CONVEX]
    ways += [{"penalty": penalty, "stages": 2} for penalty in (*CONVEX[:3], Bridge(1.0, 0.5), L0(1.0))]
    ways += [{"inference": True}, {"delta": 1e-6}]
    for number, fit in enumerate(fits(frame, response, family)):
        for place, way in enumerate(ways):
            # A different eps each time; all of them once with an array, and once with a formula.
            eps = (1e6, 1e7, 1e9)[(number + place) % 3]
            released = fit(eps, curvature=30.0, **way).scaled_params
            with without_noise():
                exact = fit(eps, curvature=30.0, **way).scaled_params
            assert np.max(np.abs(released - exact)) <= AS_GOOD * np.max(np.abs(exact)), (way, eps)
        # With the default curvature, which shrinks less the larger eps is.
        released = fit(1e6).scaled_params
        with without_noise():
            exact = fit(1e6).scaled_params
        assert np.max(np.abs(released - exact)) <= AS_GOOD * np.max(np.abs(exact))


@pytest.mark.parametrize("eps", [1e6, 1e7, 1e9])
def test_a_ridge_regression_is_found_by_anyone(eps: float) -> None:
    rng = np.random.default_rng(1)
    exog = rng.normal(size=(3000, 8))
    exog /= np.linalg.norm(exog, axis=1)[:, None]
    endog = (rng.random(3000) < 1 / (1 + np.exp(-exog @ np.arange(8.0)))).astype(float)

    def slope(theta: np.ndarray) -> np.ndarray:
        return exog.T @ (1 / (1 + np.exp(-exog @ theta)) - endog) + 60.0 * theta

    def bend(theta: np.ndarray) -> np.ndarray:
        chance = 1 / (1 + np.exp(-exog @ theta))
        return (exog.T * (chance * (1 - chance))) @ exog + 60.0 * np.eye(8)

    exact = optimize.root(slope, np.zeros(8), jac=bend, tol=1e-14).x
    fit = dp.GLM(endog, exog, family="binomial", row_norm=1.0).fit(eps, penalty=Ridge(30.0), curvature=30.0)
    assert np.max(np.abs(np.asarray(fit.params) - exact)) <= AS_GOOD * np.max(np.abs(exact))


def test_released_sums_are_those_of_least_squares(frame: pd.DataFrame) -> None:
    fit = dp.glm("y ~ x + z + w", frame, 1e6, domain=DOMAIN, method="statistics")
    design = np.column_stack([np.ones(len(frame)), frame[["x", "z", "w"]]])
    exact = np.linalg.lstsq(design, frame["y"], rcond=None)[0]
    assert np.max(np.abs(np.asarray(fit.params) - exact)) <= AS_GOOD * np.max(np.abs(exact))


def test_a_posterior_draw_is_as_near_as_it_says(frame: pd.DataFrame) -> None:
    """Its spread falls with the root of eps alone; from 1e6 on rounding would cost all of delta, in public."""
    how: dict[str, Any] = {"delta": 1e-6, "family": "binomial", "domain": DOMAIN, "curvature": 30.0}
    fit = dp.glm("b ~ 0 + x + z", frame, 1e4, method="posterior", **how)
    with without_noise():
        exact = dp.glm("b ~ 0 + x + z", frame, 1e4, inference=None, **how).scaled_params
    spread = np.sqrt(fit.plan.objective.noise_variances)
    assert np.all(np.abs(fit.scaled_params - exact) <= 8 * spread)
    assert np.max(spread) <= 3e-4
    with pytest.raises(ArgumentError, match="eps is too large for method='posterior'"):
        dp.glm("b ~ 0 + x + z", frame, 1e7, method="posterior", **how)


def square(family: Family | str) -> dp.GLM:
    endog, exog = np.array([0.0, 1.0, 1.0]), np.eye(3)
    return dp.GLM(endog, exog, family=family, row_norm=1.0)


@pytest.mark.parametrize("family", ["binomial", "gaussian", Poisson(y_max=20.0, mean_cap=15.0)], ids=str)
@pytest.mark.parametrize(("eps", "curvature"), [(1e6, 1e-14), (1e6, 1e-30), (1e9, 1e-20), (1e9, 1e-30)])
def test_a_curvature_that_floating_point_cannot_hold_is_refused(
    family: Family | str, eps: float, curvature: float
) -> None:
    """The last step's noise grows as its inverse square: coefficients of 4e32 were released without a word."""
    with pytest.raises(ArgumentError, match=r"curvature leaves .* Give ") as refused:
        square(family).fit(eps, curvature=curvature)
    enough = float(str(refused.value).split("Give ")[1].split()[0])
    plan = square(family).plan(eps, curvature=enough).objective
    assert plan.final_norm < 1e-2 * plan.radius


def test_a_last_step_that_is_seen_is_said_to_be() -> None:
    said = "More curvature reduces it."
    for curvature, seen in [(1e-12, True), (1e-6, False), (None, False)]:
        plan, fit = square("binomial").plan(1e6, curvature=curvature), square("binomial").fit(1e6, curvature=curvature)
        for text in (plan, fit, fit.summary(full=True)):
            assert (said in " ".join(str(text).split())) is seen


@pytest.mark.parametrize("rows", [1.0, 1e7, 1e10])
def test_the_lattice_holds_every_optimum_that_the_curvature_permits(rows: float) -> None:
    """||theta|| <= (rows L X + ||b||) / min(m), up to the largest eps that is accepted."""
    for family in (Gaussian(1e50), Gaussian(1e-50), Binomial(), SmoothSVM(1e-6)):
        for eps in (1e-3, 1.0, 1e6, 1e9, 1e50):
            for curvature in (1e-9, 1.0, 1e9):
                purchase = NoiseBudget(eps, 0.0, 0.01 * eps, "add_remove", curvature=curvature, rows_at_most=rows)
                try:
                    plan = plan_objective(ArrayDesign(("x", "z"), array_norms(1.0, 2)), family, purchase)
                except ArgumentError:
                    continue
                pull = max(rows, 1e7) * family.lipschitz + (LONGEST_DRAW + 2) * plan.gradient_size
                assert math.log2(pull / curvature) <= math.log2(plan.final.step) + math.log2(LATTICE_LIMIT)


def test_a_lattice_point_needs_no_64_bits() -> None:
    """The planted bug clamps where 64-bit integers would end: 2**61 steps."""
    final = LatticeRelease(1e4, 2.0**-52, 8)
    theta = pairs.single(np.linspace(-1.5, 1.5, 8), np.longdouble)
    assert np.min(np.abs(theta.high)) > 2**61 * final.step
    assert final.release(theta, random_source(1)) == pytest.approx(theta.high.astype(float), rel=1e-12)
    with mock.patch("dpstats.mechanisms.release.LATTICE_LIMIT", 2**61):
        stuck = final.release(theta, random_source(1))
    assert np.max(np.abs(stuck)) < 0.2
