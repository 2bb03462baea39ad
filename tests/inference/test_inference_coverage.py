"""Coverage in simulated cells. Seeds are fixed; limits are three standard errors beyond nominal, so that three cells
raise a false alarm with a probability below one in a hundred."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks.inference.core import Cell, draw, minimum, projected
from benchmarks.inference.entry_noise import wishart_difference
from dpstats.inference import Estimates, ModelSpread, wald_test

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
