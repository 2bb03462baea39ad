"""Coverage, width, size and power of intervals from a released fit and a released information.

``python -m benchmarks.inference.core [repetitions] [metric|diagonal]``: matrix noise in the metric of the design, or of
a diagonal shape. The fit is the exact minimiser of the perturbed objective, and
the noise of fit and information is drawn directly: no release, no ledger.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise

import numpy as np
import pandas as pd
from scipy import special

from benchmarks.inference.entry_noise import project, wishart_difference
from dpstats.formula.vanishing_forms import vanishing_forms
from dpstats.inference import Estimates, MatrixLaw, ModelSpread, ReleasedLaw, SpanNoise, project_forms
from dpstats.privacy.information import MatrixNoise, design_metric
from dpstats.privacy.k_norm import Image, box, intercept, k_norm_noise, simplex, unit_images

REPETITIONS = 400
SEED = 20_260_710
CAP = {"binomial": 1.0, "gaussian": 1.0}
"""Bound on a row's derivative: sup |l'|."""

CURVE = {"binomial": 0.25, "gaussian": 1.0}
"""Bound on a row's curvature: sup l''."""

SIGMA = 0.2
"""Standard deviation of the Gaussian response, whose residuals are capped at 1."""


@dataclass(frozen=True)
class Cell:
    """A population, a sample size and a budget (pure, add_remove)."""

    family: str
    columns: int
    rows: int
    eps: float
    shape: str = "metric"

    @cached_property
    def factors(self) -> tuple[tuple[float, ...], ...]:
        """Probabilities of the factors' levels after the first."""
        rare = {3: ((0.3,),), 10: ((0.3, 0.2, 0.04), (0.4, 0.1, 0.02)), 30: ((0.2,) * 4, (0.1,) * 8, (0.05,) * 8)}
        return rare[self.columns]

    @cached_property
    def numeric(self) -> int:
        """Numeric columns, uniform in [-1, 1]."""
        return self.columns - 1 - sum(len(factor) for factor in self.factors)

    @cached_property
    def truth(self) -> np.ndarray:
        """The coefficients: moderate, of alternating sign."""
        size = 0.5 if self.family == "binomial" else 0.25
        return size * np.where(np.arange(self.columns) % 2, 1.0, -1.0) * np.linspace(1, 0.5, self.columns)

    @cached_property
    def share(self) -> float:
        """Of the budget, for the information."""
        return 0.2 if self.columns <= 5 else 0.3

    @cached_property
    def phi_share(self) -> float:
        """Of the budget, for the residuals' size."""
        return 0.05 if self.family == "gaussian" else 0.0

    @cached_property
    def images(self) -> tuple[Image, ...]:
        """The bodies of the terms."""
        return unit_images([intercept(), box(self.numeric), *(simplex(len(factor)) for factor in self.factors)])

    @cached_property
    def plan(self) -> tuple[ReleasedLaw, np.ndarray]:
        """The law of b and the curvature: for unit coefficients, and at most a quarter of the fit's budget."""
        eps = (1 - self.share - self.phi_share) * self.eps
        images = self.images
        unit = k_norm_noise(images).standard_deviations()
        # A row is at most 1 in each numeric column, and has one level of each factor.
        starts = np.cumsum([1 + self.numeric, *(len(factor) for factor in self.factors)])
        ends = [float(np.max(1 / unit[a:b])) for a, b in pairwise(starts)]
        reach = float(np.sum(1 / unit[: 1 + self.numeric])) + sum(ends)
        factor = max(1.25 * CAP[self.family] / eps, reach * CURVE[self.family] / (0.25 * eps))
        kappa = reach / factor
        free = self.family == "binomial" and kappa <= eps
        loss = 0.0 if free else np.log1p(kappa * CURVE[self.family])
        scale = CAP[self.family] / (eps - loss)
        return ReleasedLaw(k_norm_noise(images, scale), np.ones(self.columns)), np.diag(factor * unit)

    @cached_property
    def noise(self) -> MatrixNoise:
        """The law of the matrix noise."""
        scale = CURVE[self.family] / (self.share * self.eps)
        if self.shape == "metric":
            return MatrixNoise("wishart", scale, *design_metric(self.images))
        parts = [np.ones(1 + self.numeric), *(np.full(len(f), 1 / np.sqrt(len(f))) for f in self.factors)]
        diagonal = np.concatenate(parts) * (1 + self.numeric + sum(np.sqrt(len(f)) for f in self.factors))
        return MatrixNoise("wishart", scale, tuple(diagonal.tolist()))

    @cached_property
    def forms(self) -> np.ndarray:
        """What vanishes on every row."""
        return vanishing_forms(design(self, 4000, np.random.default_rng(SEED), even=True))

    @cached_property
    def coding(self) -> tuple[list[tuple[int, int]], list[tuple[int, int, float]]]:
        """What treatment coding says of the information: zeros, and entries equal to the intercept's."""
        zeros, ties, start = [], [], 1 + self.numeric
        for factor in self.factors:
            columns = range(start, start + len(factor))
            zeros += [(i, j) for i in columns for j in columns if i < j]
            ties += [(0, j, 1.0) for j in columns]
            start += len(factor)
        return zeros, ties


def design(cell: Cell, count: int, random: np.random.Generator, even: bool = False) -> np.ndarray:
    """Rows; with `even`, all levels are as probable as each other."""
    exog = np.zeros((count, cell.columns))
    exog[:, 0] = 1.0
    exog[:, 1 : 1 + cell.numeric] = random.uniform(-1, 1, (count, cell.numeric))
    start = 1 + cell.numeric
    for factor in cell.factors:
        chances = np.full(len(factor), 1 / (len(factor) + 1)) if even else factor
        level = np.searchsorted(np.cumsum(chances), random.random(count))
        chosen = np.flatnonzero(level < len(factor))
        exog[chosen, start + level[chosen]] = 1.0
        start += len(factor)
    return exog


def draw(cell: Cell, random: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Rows and responses."""
    exog = design(cell, cell.rows, random)
    eta = exog @ cell.truth
    if cell.family == "binomial":
        return exog, (random.random(cell.rows) < special.expit(eta)).astype(float)
    return exog, eta + SIGMA * random.standard_normal(cell.rows)


def minimum(cell: Cell, exog: np.ndarray, endog: np.ndarray, curvature: np.ndarray, noise: np.ndarray) -> np.ndarray:
    """The minimiser of the objective with curvature and linear noise, by Newton's method."""
    theta = np.zeros(cell.columns)
    for _ in range(50):
        eta = exog @ theta
        mean = special.expit(eta) if cell.family == "binomial" else eta
        weights = mean * (1 - mean) if cell.family == "binomial" else np.ones(cell.rows)
        gradient = exog.T @ (mean - endog) + curvature @ theta + noise
        step = np.linalg.solve((exog.T * weights) @ exog + curvature, gradient)
        theta = theta - step / max(1.0, float(np.abs(exog @ step).max()) / 2)
        if np.abs(step).max() < 1e-10:
            break
    return theta


def projected(cell: Cell, noisy: np.ndarray) -> tuple[np.ndarray, MatrixLaw]:
    """The released matrix and its noise after what the coding says."""
    if cell.shape == "metric":
        return project_forms(noisy, SpanNoise(cell.noise.metric, cell.noise.entry_variance), cell.forms)
    return project(noisy, wishart_difference(cell.noise.scale, np.array(cell.noise.diagonal)), *cell.coding)


def repetition(cell: Cell, seed: int) -> dict[str, np.ndarray]:
    """One sample's intervals and tests, ours, the oracle's and those that ignore the noise; arrays of shape (p,)."""
    random = np.random.default_rng([SEED, seed])
    (law, curvature), exog_endog = cell.plan, draw(cell, random)
    exog, endog = exog_endog
    theta = minimum(cell, exog, endog, curvature, law.draws(1, random)[0])
    mean = special.expit(exog @ theta) if cell.family == "binomial" else exog @ theta
    weights = mean * (1 - mean) if cell.family == "binomial" else np.ones(cell.rows)
    exact = (exog.T * weights) @ exog
    information, noise = projected(cell, exact + cell.noise.sample(random))
    ours = Estimates(theta, information, curvature, law, noise, ModelSpread())
    phi = 1.0
    if cell.family == "gaussian":
        phi, unit = SIGMA**2, CAP["gaussian"] ** 2 / (cell.phi_share * cell.eps)
        squares = float(np.sum(np.minimum((endog - mean) ** 2, 1))) + random.laplace(scale=unit)
        # The self-consistent information's entry of the intercept is the number of rows; where it is not identified
        # the released entry must do, at least a standard deviation of its noise.
        inverse, active = ours.identified.inverse, ours.identified.active
        first = np.eye(cell.columns)[:1]
        number = max(float(information[0, 0]), float(np.sqrt(noise.bilinear(first, first)[0])))
        if active[0]:
            number = float((information[np.ix_(active, active)] + ours.identified.law.square(inverse))[0, 0])
        spread = ModelSpread(squares / number, np.sqrt(2) * unit / number)
        ours = Estimates(theta, information, curvature, law, noise, spread, found=ours.identified)
    oracle = Estimates(theta, exact, curvature, law, wishart_difference(1e-7, np.ones(cell.columns)), ModelSpread(phi))
    plain = np.sqrt(phi * np.diag(np.linalg.inv(exact)))
    return {**_judged(cell, ours, ""), **_judged(cell, oracle, "oracle "), "plain": plain, "theta": theta}


def _judged(cell: Cell, estimates: Estimates, name: str) -> dict[str, np.ndarray]:
    found = estimates.contrasts(np.eye(cell.columns))
    low, high = found.conf_int(0.05).T
    low90, high90 = found.conf_int(0.1).T
    return {
        name + "half": found.half_width(0.05),
        name + "covers": (low <= cell.truth) & (cell.truth <= high),
        name + "covers 90": (low90 <= cell.truth) & (cell.truth <= high90),
        name + "null": found.pvalues(cell.truth),
        name + "zero": found.pvalues(0.0),
    }


def figures(cell: Cell, repetitions: int) -> dict[str, float | str]:
    """The line of the table for one cell."""
    runs = [repetition(cell, seed) for seed in range(repetitions)]
    found = {key: np.array([run[key] for run in runs]) for key in runs[0]}
    naive = np.abs(found["theta"] - cell.truth) <= 1.96 * found["plain"]
    errors = found["covers"].mean(axis=1).std() / np.sqrt(repetitions)
    return {
        "cell": f"{cell.family} p={cell.columns} n={cell.rows:.0e} eps={cell.eps}",
        "shown": np.isfinite(found["half"]).mean(),
        "cov 95": found["covers"].mean(),
        "s.e.": errors,
        "least": found["covers"].mean(axis=0).min(),
        "oracle cov": found["oracle covers"].mean(),
        "cov 90": found["covers 90"].mean(),
        "naive 95": naive.mean(),
        "width/oracle": np.median(found["half"] / found["oracle half"]),
        "width/plain": np.median(found["half"] / (1.96 * found["plain"])),
        "size .05": (found["null"] <= 0.05).mean(),
        "size .01": (found["null"] <= 0.01).mean(),
        "power": (found["zero"] <= 0.05).mean(),
        "oracle power": (found["oracle zero"] <= 0.05).mean(),
    }


CELLS = (
    Cell("binomial", 3, 1000, 0.5),
    Cell("binomial", 3, 10_000, 0.1),
    Cell("binomial", 10, 10_000, 0.1),
    Cell("binomial", 10, 10_000, 0.5),
    Cell("binomial", 10, 10_000, 1.0),
    Cell("binomial", 30, 10_000, 1.0),
    Cell("gaussian", 3, 1000, 0.5),
    Cell("gaussian", 3, 10_000, 0.1),
    Cell("gaussian", 10, 10_000, 0.1),
    Cell("gaussian", 10, 10_000, 0.5),
    Cell("gaussian", 10, 10_000, 1.0),
)


def main(repetitions: int = REPETITIONS, shape: str = "metric") -> None:
    """Print the table, a line as soon as it is there."""
    for index, cell in enumerate(CELLS):
        table = pd.DataFrame([figures(replace(cell, shape=shape), repetitions)]).round(3)
        print(table.to_string(index=False, header=index == 0), flush=True)


if __name__ == "__main__":
    main(*(int(word) if word.isdigit() else word for word in sys.argv[1:]))
