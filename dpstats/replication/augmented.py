"""The `augmented` realisation of NAPP-ERM: penalty and privacy noise as extra rows for an ordinary fitter.

Noise rows are appended to the data and the whole is given to an unpenalised GLM fitter, here statsmodels'. As the
number of noise rows grows the fit tends to the weighted ridge of `napp.fit` (docs/proofs/napp, 4).
It is for replication and for borrowing other software: the sampled rows miss the curvature that privacy needs, so no
guarantee covers it (docs/napp.md).
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable
from typing import Any

import numpy as np
import statsmodels.api as sm
from numpy.typing import NDArray
from scipy.special import ndtri

from dpstats.arguments import safe_repr
from dpstats.data import Block, Rows, block_rows
from dpstats.errors import ArgumentError
from dpstats.families import Binomial, Family, Gaussian, Poisson
from dpstats.penalties import Penalty
from dpstats.privacy.randomness import RandomSource
from dpstats.wording import argument

HEAVIEST = 1e25
"""Majoriser weights are held at this, far above any Hessian, so that a coefficient at zero has a finite one."""

DECREMENT = 1e-9
"""Squared Newton decrement that ends each fit: the next one moves the target anyway."""


Vector = NDArray[np.float64]

RESPONSES = {"gaussian": 1.0, "binomial": 0.0, "poisson": 0.0}
"""The response e_y of a noise row. The paper suggests 0 for linear and 1 for Poisson regression, where l'(0) = 0 and
its eq. (3) divides by it; and 0 and 1 in halves for logistic, whose antithetic pairs then fail to cancel."""


def reference_draws(noise_rows: int, columns: int, random: RandomSource) -> NDArray[np.float64]:
    """Standard normal draws in antithetic pairs (row i and row i + noise_rows/2), shape (noise_rows, columns)."""
    if isinstance(noise_rows, bool) or not isinstance(noise_rows, int) or noise_rows <= 0 or noise_rows % 2:
        raise ArgumentError(f"noise_rows must be a positive even number, got {safe_repr(noise_rows)}")
    half = ndtri(random.random(noise_rows // 2 * columns)).reshape(-1, columns)
    return np.concatenate([half, -half])


def augment(family: Family, curvature: Vector, noise: Vector, draws: NDArray[np.float64]) -> tuple[Vector, Vector]:
    """Noise rows whose losses add up to about 1/2 theta' diag(curvature) theta + noise'theta (seed eq. 3 and 5).

    `curvature` is privacy's m plus the majoriser's weights; the family has no caps, of which an ordinary fitter knows
    none: ArgumentError for others. exog (noise_rows, p) and endog (noise_rows,), of `reference_draws`.
    """
    response = noise_response(family)
    slope, bend = _at_zero(family, response)
    rows = len(draws)
    return draws * np.sqrt(curvature / (rows * bend)) + noise / (rows * slope), np.full(rows, response)


def minimize(
    family: Family,
    rows: Rows[Block] | Iterable[tuple[Any, ...]],
    curvature: Vector,
    noise: Vector,
    penalty: Penalty | None,
    random: RandomSource,
    *,
    weights: Vector | None = None,
    noise_rows: int = 10_000,
    iterations: int = 80,
    change: float = 1e-7,
) -> Vector:
    """The augmented counterpart of `napp.fit`, uncertified: one statsmodels GLM fit an iteration.

    The same standard normal draws serve every iteration, rescaled, so that the iterations converge (the paper redraws
    them and averages the wander away).
    """
    scale = np.ones(len(noise)) if weights is None else np.asarray(weights, dtype=np.float64)
    draws = reference_draws(noise_rows, len(noise), random)
    blocks = block_rows(rows).collect()
    exog = np.concatenate([np.empty((0, len(noise))), *(block.exog for block in blocks)])
    endog = np.concatenate([np.empty(0), *(block.endog for block in blocks)])

    def fit(total: Vector, start: Vector) -> Vector:
        extra, response = augment(family, total, noise, draws)
        return _ordinary_fit(family, np.concatenate([exog, extra]), np.concatenate([endog, response]), start)

    theta = fit(curvature, np.zeros(len(noise)))
    if penalty is None:
        return theta
    for _ in range(iterations):
        heavier = np.minimum(penalty.majorizer(theta, scale), HEAVIEST)
        previous, theta = theta, fit(curvature + heavier, theta)
        if np.max(np.abs(theta - previous)) <= change * np.max(np.abs(theta)):
            break
    return theta


def _ordinary_fit(family: Family, exog: NDArray[np.float64], endog: Vector, start: Vector) -> Vector:
    """Maximum likelihood by statsmodels, silent: its warnings would tell of the data."""
    likelihood = {"gaussian": sm.families.Gaussian, "binomial": sm.families.Binomial, "poisson": sm.families.Poisson}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = sm.GLM(endog, exog, family=likelihood[family.name]())
        fitted = model.fit(start_params=start, tol=1e-12, tol_criterion="params", maxiter=200)
    return np.asarray(fitted.params, dtype=np.float64)


def noise_response(family: Family) -> float:
    """The response of a noise row; ArgumentError for a family that statsmodels does not fit."""
    if not isinstance(family, (Gaussian, Binomial, Poisson)):
        raise ArgumentError(
            f"{argument('realization', 'augmented')} needs a family statsmodels fits, Gaussian, Binomial or Poisson;"
            f" got {safe_repr(family)}"
        )
    return RESPONSES[family.name]


def _at_zero(family: Family, response: float) -> tuple[float, float]:
    """l'(0) and l''(0) of the uncapped loss at a response."""
    if isinstance(family, Gaussian):
        return -response, 1.0
    if isinstance(family, Binomial):
        return 0.5 - response, 0.25
    return 1.0 - response, 1.0
