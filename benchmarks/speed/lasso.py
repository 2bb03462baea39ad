"""Seconds for one certified lasso fit and for glum's non-private lasso on the same rows, and their ratio.

Run it on a quiet machine with OMP_NUM_THREADS=1: threads that compete for cores slow small products the most.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable

import numpy as np
from glum import GeneralizedLinearRegressor

from dpstats.families import Binomial, Family, Gaussian, Poisson
from dpstats.penalties import Lasso
from dpstats.solvers import prox
from dpstats.solvers.objective import PerturbedObjective


def draw(name: str, rows: int, columns: int) -> tuple[Family, np.ndarray, np.ndarray]:
    """Rows of norm at most 1 and a response of half the columns."""
    random = np.random.default_rng(20240611)
    exog = random.uniform(-1, 1, (rows, columns)) / np.sqrt(columns)
    eta = exog @ np.where(np.arange(columns) % 2, 0.0, np.linspace(1, 3, columns))
    if name == "binomial":
        return Binomial(), exog, (random.random(rows) < 1 / (1 + np.exp(-eta))).astype(float)
    if name == "poisson":
        return Poisson(mean_cap=50.0, y_max=50.0), exog, np.minimum(random.poisson(np.exp(eta)), 50).astype(float)
    return Gaussian(residual_cap=10.0), exog, eta + random.normal(0, 0.5, rows)


def seconds(run: Callable[[], object], repeats: int) -> float:
    """Median time of `repeats` runs."""
    times = []
    for _ in range(repeats):
        begun = time.perf_counter()
        run()
        times.append(time.perf_counter() - begun)
    return statistics.median(times)


def main() -> None:
    """Print one line a family."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--columns", type=int, default=20)
    parser.add_argument("--repeats", type=int, default=3)
    options = parser.parse_args()
    random = np.random.default_rng(1)
    for name in ("gaussian", "binomial", "poisson"):
        family, exog, endog = draw(name, options.rows, options.columns)
        alpha = 2e-3 * options.rows / np.sqrt(options.columns)
        noise = random.laplace(0, 1.0, options.columns)
        objective = PerturbedObjective(family, [(exog, endog)], np.full(options.columns, 1.0), noise)
        peer = GeneralizedLinearRegressor(
            family=name, alpha=alpha / options.rows, l1_ratio=1.0, fit_intercept=False, gradient_tol=1e-6
        )
        ours = seconds(
            lambda objective=objective, alpha=alpha: prox.minimize(objective, Lasso(alpha), 1e-8), options.repeats
        )
        theirs = seconds(lambda peer=peer, exog=exog, endog=endog: peer.fit(exog, endog), options.repeats)
        apart = np.max(np.abs(peer.coef_ - prox.minimize(objective, Lasso(alpha), 1e-8).astype(float)))
        zeros = int(np.sum(peer.coef_ == 0))
        print(
            f"{name}: dpstats {ours:.2f} s, glum {theirs:.2f} s, ratio {ours / theirs:.2f}; "
            f"coefficients at most {apart:.1e} apart (noise included), {zeros} zeros"
        )


if __name__ == "__main__":
    main()
