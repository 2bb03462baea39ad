"""Released statistics against AdaSSP on census-like data: ``python -m benchmarks.statistics``.

Excess squared error: the mean over a large population of the squared difference of predictions, scaled to [-1, 1], from
those of least squares without privacy on the same sample. Both mechanisms have the same rows, p = 15, whose Euclidean
norm is at most 1, and delta = 1e-5.
"""

from __future__ import annotations

import math

import numpy as np
import pandas as pd

from benchmarks.adassp import adassp
from benchmarks.census import COLUMNS, DOMAIN, people
from dpstats.families import Gaussian
from dpstats.formula.design import design_spec
from dpstats.mechanisms.moments import Moments
from dpstats.mechanisms.statistics import RADIUS, plan_statistics
from dpstats.privacy.randomness import random_source

SEED = 2026
DELTA = 1e-5
POPULATION = 100_000
CELLS = (
    *((1_000, 0.1), (4_000, 0.1), (16_000, 0.1), (64_000, 0.1)),
    *((100, 1.0), (300, 1.0), (1_600, 1.0), (4_000, 1.0), (16_000, 1.0)),
)
"""Rows and eps."""

RUNS = 100


def excess(rows: int, eps: float, runs: int, radius: float = RADIUS) -> pd.DataFrame:
    """Excess squared error of each run, one row a run: of AdaSSP and of released statistics.

    Each run draws its own sample; noise is that of the library, from a seeded source.
    """
    random = np.random.default_rng([SEED, rows, round(1000 * eps)])
    design = design_spec(f"{COLUMNS[0]} ~ {' + '.join(COLUMNS[1:])}", DOMAIN, family=Gaussian())
    [(everyone, *_)] = design.blocks(people(POPULATION, random), POPULATION)
    gram = everyone.T @ everyone / len(everyone)
    plan = plan_statistics(design, eps=eps, delta=DELTA, radius=radius)
    axes = np.eye(len(design.names) + 1)
    found = []
    for run in range(runs):
        blocks = design.blocks(people(rows, random), rows)
        [(exog, endog, *_)] = blocks
        best = np.linalg.lstsq(exog, endog)[0]
        moments = Moments.of(plan, plan.release(blocks, random_source(run)))
        fitted = moments.equations(axes[:, :-1], axes[:, -1]).solve(radius, None, np.ones(len(best)))
        peer = adassp(exog, endog, eps, DELTA, random)
        found.append([float((params - best) @ gram @ (params - best)) for params in (peer, fitted)])
    return pd.DataFrame(found, columns=["AdaSSP", "statistics"])


def table(runs: int = RUNS) -> pd.DataFrame:
    """Means over the runs, and their ratio with a standard error by the delta method."""
    lines = []
    for rows, eps in CELLS:
        found = excess(rows, eps, runs)
        means = found.mean()
        ratio = means["statistics"] / means["AdaSSP"]
        error = ratio * math.sqrt(float(((found.std() / means) ** 2).sum()) / runs)
        lines.append((rows, eps, rows * eps, means["AdaSSP"], means["statistics"], ratio, error))
    return pd.DataFrame(lines, columns=["n", "eps", "n eps", "AdaSSP", "statistics", "ratio", "s.e."])


def main() -> None:
    print(table().to_string(index=False, float_format=lambda value: f"{value:.4g}"))


if __name__ == "__main__":
    main()
