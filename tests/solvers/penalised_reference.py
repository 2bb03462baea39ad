"""Penalised perturbed objectives handed to a general convex solver, as the reference for ours."""

from __future__ import annotations

import warnings

import cvxpy as cp
import numpy as np

from dpstats.families import Binomial, Family, Gaussian, Poisson
from dpstats.penalties import Bridge, ElasticNet, Lasso, Penalty, Ridge


def rows(family: Family, count: int, columns: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Rows of norm at most 1 and a response that depends on the first half of the columns."""
    random = np.random.default_rng(seed)
    exog = random.uniform(-1, 1, (count, columns)) / np.sqrt(columns)
    eta = 2 * exog[:, : columns // 2].sum(axis=1)
    if isinstance(family, Binomial):
        return exog, (random.random(count) < 1 / (1 + np.exp(-eta))).astype(float)
    if isinstance(family, Poisson):
        return exog, np.minimum(random.poisson(np.exp(eta)), 20).astype(float)
    return exog, np.clip(eta + random.normal(0, 0.5, count), -3, 3)


def solve(
    family: Family,
    exog: np.ndarray,
    endog: np.ndarray,
    curvature: np.ndarray,
    noise: np.ndarray,
    penalty: Penalty,
    weights: np.ndarray,
) -> np.ndarray:
    """The minimiser by an interior point method; caps of the family must be out of reach."""
    theta = cp.Variable(len(noise))
    eta = exog @ theta
    if isinstance(family, Gaussian):
        loss = 0.5 * cp.sum(cp.huber(eta - endog, family.lipschitz))
    elif isinstance(family, Binomial):
        loss = cp.sum(cp.logistic(eta) - cp.multiply(endog, eta))
    else:
        loss = cp.sum(cp.exp(eta) - cp.multiply(endog, eta))
    smooth = loss + 0.5 * cp.sum(cp.multiply(curvature, theta**2)) + noise @ theta
    problem = cp.Problem(cp.Minimize(smooth + _penalty(penalty, theta, weights)))
    with warnings.catch_warnings():
        # It warns when it stops short of the 1e-12 asked for; the comparison needs 1e-6.
        warnings.filterwarnings("ignore", message="Solution may be inaccurate")
        problem.solve(solver=cp.CLARABEL, tol_gap_abs=1e-12, tol_gap_rel=1e-12, tol_feas=1e-12)
    return np.asarray(theta.value)


def _penalty(penalty: Penalty, theta: cp.Variable, weights: np.ndarray) -> cp.Expression:
    one, two = cp.sum(cp.multiply(weights, cp.abs(theta))), cp.sum(cp.multiply(weights, theta**2))
    if isinstance(penalty, Ridge):
        return 0.5 * penalty.alpha * two
    if isinstance(penalty, Lasso):
        return penalty.alpha * one
    if isinstance(penalty, ElasticNet):
        return penalty.alpha * (penalty.l1_ratio * one + 0.5 * (1 - penalty.l1_ratio) * two)
    assert isinstance(penalty, Bridge)
    return penalty.alpha * cp.sum(cp.multiply(weights, cp.power(cp.abs(theta), penalty.q)))
