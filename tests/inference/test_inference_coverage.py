"""Coverage in simulated cells. Seeds are fixed; limits are three standard errors beyond nominal, so that three cells
raise a false alarm with a probability below one in a hundred."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from benchmarks.inference.core import Cell, draw, minimum, projected
from benchmarks.inference.entry_noise import wishart_difference
from dpstats.inference import Estimates, ModelSpread, NormalLaw, wald_test

REPETITIONS = 150


@pytest.mark.slow
@pytest.mark.parametrize("family", ["binomial", "gaussian"])
def test_coverage_and_size(family: str) -> None:
    """p = 3, n = 10,000, eps = 0.5: pooled coverage of 95 and 90 % intervals, size of a joint test."""
    cell = Cell(family, 3, 10_000, 0.5)
    law, curvature = cell.plan
    phi = 1.0 if family == "binomial" else 0.04
    covers, narrow, joint, widths = [], [], [], []
    for seed in range(REPETITIONS):
        random = np.random.default_rng([9, seed])
        exog, endog = draw(cell, random)
        theta = minimum(cell, exog, endog, curvature, law.draws(1, random)[0])
        eta = exog @ theta
        weights = np.exp(-eta) / (1 + np.exp(-eta)) ** 2 if family == "binomial" else np.ones(cell.rows)
        exact = (exog.T * weights) @ exog
        information, noise = projected(cell, exact + cell.noise.sample(random))
        estimates = Estimates(theta, information, curvature, law, noise, ModelSpread(phi))
        oracle = Estimates(theta, exact, curvature, law, wishart_difference(1e-7, np.ones(3)), ModelSpread(phi))
        found = estimates.contrasts(np.eye(3))
        covers.append(np.mean(found.pvalues(cell.truth) > 0.05))
        narrow.append(np.mean(found.pvalues(cell.truth) > 0.1))
        joint.append(wald_test(estimates, np.eye(3), cell.truth).pvalue <= 0.05)
        widths.append(found.half_width() / oracle.contrasts(np.eye(3)).half_width())
    for values, nominal in ((covers, 0.95), (narrow, 0.9)):
        error = np.std(values) / np.sqrt(REPETITIONS)
        assert nominal - 3 * error <= np.mean(values) <= nominal + 3 * error + 0.01
    assert np.mean(joint) <= 0.05 + 3 * np.sqrt(0.05 * 0.95 / REPETITIONS)
    assert np.median(widths) < 1.1


@pytest.mark.slow
def test_collinear_columns() -> None:
    """Two columns of correlation .99, one of them dropped in most fits: what it adds to the other is allowed for.

    True coefficients have the deviations that section 4 of the proof takes them to have; a reach that does not grow
    with the inflation of variance covers two thirds.
    """
    correlation = np.array([[1, 0.99, 0.3, 0], [0.99, 1, 0.3, 0], [0.3, 0.3, 1, 0], [0, 0, 0, 1]])
    exact, law, size, phi = 2000 * correlation, wishart_difference(20.0, np.ones(4)), 0.5, 0.04
    curvature, noise = 30 * np.eye(4), NormalLaw(400 * np.eye(4))
    covers: dict[bool, list[bool]] = {True: [], False: []}
    for seed in range(REPETITIONS):
        random = np.random.default_rng([10, seed])
        first, second = random.standard_normal((2, 4, 5))
        truth = 1.5 * size * np.sqrt(np.diag(np.linalg.inv(correlation))) * random.standard_normal(4)
        score = random.multivariate_normal(np.zeros(4), phi * exact) + 20 * random.standard_normal(4)
        theta = np.linalg.solve(exact + curvature, exact @ truth - score)
        information = exact + 10 * (first @ first.T - second @ second.T)
        estimates = Estimates(theta, information, curvature, noise, law, ModelSpread(phi), size)
        plain = replace(estimates.identified, inflations=np.ones(4))
        for inflated, found in ((True, estimates), (False, replace(estimates, found=plain))):
            contrasts = found.contrasts(np.eye(4))
            shown = np.isfinite(contrasts.se)
            covers[inflated] += (contrasts.pvalues(truth) > 0.05)[shown].tolist()
    assert len(covers[True]) > 0.7 * len(covers[False])
    assert np.mean(covers[True]) > 0.94
    assert np.mean(covers[False]) < 0.8
