"""Released statistics against AdaSSP on census-like data: ``python -m benchmarks.methods.statistics``.

``python -m benchmarks.methods.statistics joined``: Adult's hours of work on columns that move together, excess squared
error with the optimal design on what they can be over that with the product of their bodies.

Excess squared error: the mean over a large population of the squared difference of predictions, scaled to [-1, 1], from
those of least squares without privacy on the same sample. Both mechanisms have the same rows, p = 15, whose Euclidean
norm is at most 1, and delta = 1e-5.
"""

from __future__ import annotations

import math
import sys
from dataclasses import replace

import numpy as np
import pandas as pd

import dpstats as dp
from benchmarks.shared.adassp import adassp
from benchmarks.shared.census import COLUMNS, DOMAIN, people
from dpstats.families import Gaussian
from dpstats.formula.design import design_spec
from dpstats.inference.basis import self_adjoint
from dpstats.mechanisms.statistics import RADIUS, Moments, plan_statistics, worthwhile
from dpstats.privacy.information import MatrixNoise, design_metric
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


FORMULAS = {
    "age * sex + education_num": 1,
    "age * education_num * sex": 1,
    "bs(age, df=5) + education_num + sex": 1,
    "poly(age, 2) + education_num + sex": 0,
    "poly(age, 3) + poly(education_num, 2) + sex": 0,
    "poly(age, 2) * sex + marital_status + poly(education_num, 2)": 0,
}
"""Models of hours_per_week, and whether the plan takes the optimal design."""

JOINED_ROWS, JOINED_RUNS = 20_000, 60


def joined() -> pd.DataFrame:
    """Ratios of excess squared errors, one line a model, by eps: optimal design over product."""
    adult = dp.datasets.load_adult()
    data, lines = adult.data.dropna().iloc[:JOINED_ROWS], {}
    for formula in FORMULAS:
        design = design_spec(f"hours_per_week ~ {formula}", adult.domain, family=Gaussian())
        [(exog, endog, *_)] = design.blocks(data, len(data))
        best, gram = np.linalg.lstsq(exog, endog)[0], exog.T @ exog / len(exog)
        rows, axes = np.column_stack([exog, endog]), np.eye(len(best) + 1)
        for eps in (0.1, 0.5, 2.0, 8.0):
            plan, found = plan_statistics(design, eps=eps), []
            for together in (design.joined, ()):
                metric = MatrixNoise("normal", 1.0, *design_metric(design.images, joined=together))
                whole, errors = replace(plan, metric=metric), []
                for seed in range(JOINED_RUNS):
                    noise = plan.noise.sample(np.random.default_rng(seed))
                    moments = Moments.of(whole, self_adjoint(rows.T @ rows + whole.axes @ noise @ whole.axes.T))
                    fitted = moments.equations(axes[:, :-1], axes[:, -1]).solve(RADIUS, None, np.ones(len(best)))
                    errors.append((fitted - best) @ gram @ (fitted - best))
                found.append(np.mean(errors))
            lines.setdefault(formula, {})[f"eps {eps:g}"] = found[0] / found[1]
        lines[formula]["taken"] = len(worthwhile(design))
    return pd.DataFrame(lines).T


def main() -> None:
    if sys.argv[1:] == ["joined"]:
        print(joined().round(2).to_string())
        return
    print(table().to_string(index=False, float_format=lambda value: f"{value:.4g}"))


if __name__ == "__main__":
    main()
