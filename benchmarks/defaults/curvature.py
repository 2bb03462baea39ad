"""How large are coefficients in model units? Behind the default curvature: ``python -m benchmarks.defaults.curvature``.

The default curvature minimises a bound on the risk at a guessed norm of the coefficients. Simulated data cover few
and many rows and columns, weak and strong signals; a setting's figure is the held-out loss a row above that of the fit
without noise. Nothing real is looked at.
"""

from __future__ import annotations

import itertools
import math
import sys
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

import dpstats as dp
from dpstats.data import Block
from dpstats.families import Binomial, Family, Gaussian, HuberSVM, Poisson
from dpstats.formula.design import design_spec
from dpstats.mechanisms.calibration import NoiseBudget, typical_sizes
from dpstats.mechanisms.design import ArrayDesign
from dpstats.mechanisms.objective import plan_objective
from dpstats.solvers.newton import minimize
from dpstats.solvers.objective import PerturbedObjective

SIZES = (0.15, 0.3, 0.6, 1.0, 1.7, 3.0)
"""Multiples of the norm that is the default."""
COLUMNS = (5, 20, 60)
ROWS = (1_000, 5_000, 30_000)
BUDGETS = (0.1, 1.0)
SPREADS = (0.7, 1.5, 3.0)
"""Standard deviations of the linear predictor."""
TEST_ROWS = 10_000
REPEATS = 2
BANDS = {"n eps < 900": 900, "n eps < 4,000": 4_000, "more": math.inf}
"""Settings by rows times eps."""
TOLERANCE = 1e-4
FAMILIES: dict[str, Family] = {
    "logistic": Binomial(),
    "Huber SVM": HuberSVM(),
    "Poisson": Poisson(10.0, 20.0),
    "Gaussian": Gaussian(0.25),
}

Random = np.random.Generator


class Sample(NamedTuple):
    """A design with training and test rows in model units."""

    design: Any
    training: Block
    test: Block


def responses(family: Family, eta: np.ndarray, random: Random) -> np.ndarray:
    """Draws from a model of the family with linear predictor eta."""
    if family.response == "binary":
        return (random.random(len(eta)) < 1 / (1 + np.exp(-eta))).astype(float)
    if family.response == "count":
        return random.poisson(np.minimum(np.exp(0.6 * eta), 10)).astype(float)
    return np.clip(0.2 * eta + 0.2 * random.normal(size=len(eta)), -1, 1)


def predictor(exog: np.ndarray, spread: float, random: Random) -> np.ndarray:
    """A random linear predictor with the given standard deviation."""
    eta = exog @ random.normal(size=exog.shape[1])
    return spread * (eta - eta.mean()) / eta.std()


def array_sample(family: Family, rows: int, columns: int, spread: float, random: Random) -> Sample:
    """Normal columns under a row bound that one row in twenty exceeds."""
    exog = random.normal(size=(rows + TEST_ROWS, columns))
    norms = np.linalg.norm(exog, axis=1)
    exog /= np.maximum(norms, np.quantile(norms, 0.95))[:, None]
    # No centring: there is no intercept here, and the columns have mean zero.
    endog = responses(family, predictor(exog, spread, random), random)
    design = ArrayDesign(tuple(f"x{j}" for j in range(columns)), {"l2": 1.0})
    return Sample(design, (exog[:rows], endog[:rows]), (exog[rows:], endog[rows:]))


def formula_sample(family: Family, rows: int, columns: int, spread: float, random: Random) -> Sample:
    """A formula of about as many numeric columns as factors, whose levels are unequally common."""
    total, frame, domain, size = rows + TEST_ROWS, {}, {}, 1
    while size < columns:
        name, levels = f"v{size}", int(min(random.integers(2, 12), columns - size + 1))
        if random.random() < 0.5 or levels < 2:
            centre, width = random.uniform(-0.4, 0.4), random.uniform(0.15, 0.4)
            frame[name], domain[name] = np.clip(random.normal(centre, width, total), -1, 1), (-1, 1)
            size += 1
        else:
            frame[name] = random.choice(levels, total, p=random.dirichlet(np.full(levels, 1.5)))
            domain[name] = list(range(levels))
            size += levels - 1
    declared = dp.Domain(domain | {"y": (-1, 1) if family.response == "continuous" else (0, 20)})
    if family.response == "binary":
        declared = dp.Domain(domain | {"y": [0, 1]})
    spec = design_spec("y ~ " + " + ".join(frame), declared, family=family)
    exog = spec.exog(pd.DataFrame(frame))[0]
    endog = responses(family, predictor(exog, spread, random) + 0.7 * random.normal(), random)
    return Sample(spec, (exog[:rows], endog[:rows]), (exog[rows:], endog[rows:]))


DESIGNS: dict[str, Callable[[Family, int, int, float, Random], Sample]] = {
    "arrays": array_sample,
    "formula": formula_sample,
}


def solve(family: Family, block: Block, curvature: np.ndarray, linear: np.ndarray) -> np.ndarray:
    """The minimiser of the objective with the given public terms."""
    return np.asarray(minimize(PerturbedObjective(family, [block], curvature, linear), TOLERANCE), dtype=float)


class Cost(NamedTuple):
    """What noise and curvature cost in held-out loss a row, for each guess; and the fall that could be had."""

    excess: np.ndarray
    gain: float


def costs(family: Family, sample: Sample, eps: float, random: Random) -> Cost:
    """The loss above that of the fit without noise, on one draw of the noise for all guesses."""
    columns = sample.training[0].shape[1]
    ones, zeros = np.ones(columns), np.zeros(columns)

    def loss(params: np.ndarray) -> float:
        exog, endog = sample.test
        return float(np.mean(family.derivatives(exog @ params, family.clip_response(endog)).value))

    null = zeros.copy()
    if sample.design.has_intercept:
        column = (sample.training[0][:, :1], sample.training[1])
        null[:1] = solve(family, column, 1e-3 * ones[:1], zeros[:1])
    free = loss(solve(family, sample.training, 1e-2 * ones, zeros))
    state = random.integers(2**32)
    guess = float(np.linalg.norm(typical_sizes(family, sample.design)))
    found = []
    for size in SIZES:
        purchase = NoiseBudget(0.99 * eps, 0.0, 0.01 * eps, "add_remove", radius=size * guess)
        plan = plan_objective(sample.design, family, purchase)
        noisy = solve(family, sample.training, plan.curvature, plan.sample(np.random.default_rng(state)))
        found.append(loss(noisy) - free)
    return Cost(np.array(found), loss(null) - free)


def table(family: Family, design: str, repeats: int = REPEATS) -> pd.DataFrame:
    """Mean excess loss a row, in thousandths, for each guess; by how far the data and the budget reach."""
    bands: dict[tuple[int, str], list[np.ndarray]] = {(size, name): [] for size in COLUMNS for name in BANDS}
    for setting, (columns, rows, eps, spread) in enumerate(itertools.product(COLUMNS, ROWS, BUDGETS, SPREADS)):
        random = np.random.default_rng([2026, setting])
        drawn = [
            costs(family, DESIGNS[design](family, rows, columns, spread, random), eps, random) for _ in range(repeats)
        ]
        name = next(name for name, most in BANDS.items() if rows * eps < most)
        excess, gain = np.mean([cost.excess for cost in drawn], axis=0), float(np.mean([cost.gain for cost in drawn]))
        bands[columns, name].append(np.append(excess, gain))
    lines = {name: 1000 * np.mean(values, axis=0) for name, values in bands.items()}
    return pd.DataFrame(lines, index=[*(f"x {size:g}" for size in SIZES), "to be had"]).T.round(1)


def main() -> None:
    chosen = [tuple(text.split(",")) for text in sys.argv[1:]] or list(itertools.product(FAMILIES, DESIGNS))
    for name, design in chosen:
        print(f"\n## {name}, {design}: loss a row above the fit without noise, in thousandths\n")
        print(table(FAMILIES[name], design).to_string(), flush=True)


if __name__ == "__main__":
    main()
