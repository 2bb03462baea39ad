"""Noise in the objective or in the optimum: Table 1 of Chaudhuri et al. (2011), printed calibration beside ours.

``python -m benchmarks.replications.classifiers [splits]``. Adult as arrays of 105 columns of norm 1, eps = .1,
replace_one, nine tenths of the rows for training. The paper has ten folds and 50 runs; here a few splits and runs, as
the first line says. Curvature n Lambda in every method; the last line of a loss is what our plan chooses itself.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Iterator

import numpy as np
import pandas as pd

import dpstats as dp
from benchmarks.prediction.adult import adult_arrays
from dpstats.families import Binomial, Family, HuberSVM
from dpstats.solvers import newton
from dpstats.solvers.objective import PerturbedObjective

EPS = 0.1
EXPONENTS = (-7.0, -3.5, -3.0, -2.5, -2.0, -1.5)
RUNS = 5
LOSSES: dict[str, Family] = {"logistic": Binomial(), "Huber SVM": HuberSVM(0.5)}

PRINTED = {
    "logistic": {
        "not private": (0.1533, 0.1694, 0.1758, 0.1895, 0.2322, 0.2478),
        "output": (0.5318, 0.4928, 0.4310, 0.3163, 0.2395, 0.2456),
        "objective": (0.8248, 0.2694, 0.2369, 0.2161, 0.2305, 0.2475),
    },
    "Huber SVM": {
        "not private": (0.1521, 0.1669, 0.1719, 0.1793, 0.2454, 0.2478),
        "output": (0.5318, 0.5011, 0.4464, 0.3352, 0.2376, 0.2476),
        "objective": (0.2585, 0.2582, 0.2559, 0.2046, 0.2319, 0.2478),
    },
}
"""Table 1 of the paper."""

Rows = tuple[np.ndarray, np.ndarray]


def minimum(family: Family, rows: Rows, curvature: float, linear: np.ndarray) -> np.ndarray:
    """The minimiser of losses, curvature and a linear term."""
    objective = PerturbedObjective(family, [rows], np.full(len(linear), curvature), linear)
    return np.asarray(newton.minimize(objective, 1e-6 * max(1.0, curvature)), dtype=np.float64)


def gamma_noise(size: int, scale: float, random: np.random.Generator) -> np.ndarray:
    """A Gamma(size) radius in a uniform direction."""
    direction = random.normal(size=size)
    return random.gamma(size, scale) * direction / np.linalg.norm(direction)


def printed_objective(
    family: Family, rows: Rows, curvature: float, random: np.random.Generator, eps: float | None = None
) -> np.ndarray:
    """Algorithm 2 as printed, with c = sup l''."""
    eps = EPS if eps is None else eps
    size, bend = rows[0].shape[1], family.curvature_bound
    left = eps - 2 * math.log1p(bend / curvature)
    if left <= 0:
        curvature, left = bend / math.expm1(eps / 4), eps / 2
    return minimum(family, rows, curvature, gamma_noise(size, 2 / left, random))


def errors(
    name: str,
    family: Family,
    training: Rows,
    test: Rows,
    seed: int,
    exponents: tuple[float, ...] | None = None,
) -> Iterator[tuple[str, str, float, float]]:
    """Loss, method, log10 of Lambda (NaN for our own choice) and test error, run by run."""
    random = np.random.default_rng(seed)
    exog, endog = training
    size, model = exog.shape[1], dp.GLM(endog, exog, family=family, row_norm=1.0)

    def wrong(theta: np.ndarray) -> float:
        return float(np.mean((test[0] @ theta > 0) != test[1]))

    for exponent in EXPONENTS if exponents is None else exponents:
        curvature = len(endog) * 10.0**exponent
        optimum = minimum(family, training, curvature, np.zeros(size))
        yield name, "not private", exponent, wrong(optimum)
        ours = model.plan(EPS, method="output", adjacency="replace_one", curvature=curvature)
        for _ in range(RUNS):
            yield name, "output", exponent, wrong(optimum + gamma_noise(size, 2 / (curvature * EPS), random))
            yield name, "output, ours", exponent, wrong(optimum + ours.objective.sample(random))
        yield name, "objective", exponent, wrong(printed_objective(family, training, curvature, random))
        try:
            fit = model.fit(EPS, method="objective", adjacency="replace_one", curvature=curvature, inference=None)
        except dp.errors.ArgumentError:
            continue  # so little curvature has no guarantee, whatever the noise
        yield name, "objective, ours", exponent, wrong(fit.scaled_params)
    for method in ("output", "objective"):
        options = {"rows_guess": len(endog)} if method == "output" else {"inference": None}
        fit = model.fit(EPS, method=method, adjacency="replace_one", **options)
        yield name, f"{method}, ours", math.nan, wrong(fit.scaled_params)


def table(splits: int) -> pd.DataFrame:
    """Mean test errors, methods down and curvature across, the printed ones beside ours."""
    endog, exog = adult_arrays()
    cut, found = len(endog) * 9 // 10, []
    for seed in range(splits):
        order = np.random.default_rng(seed).permutation(len(endog))
        training, test = ((exog[rows], endog[rows]) for rows in (order[:cut], order[cut:]))
        for name, family in LOSSES.items():
            found += list(errors(name, family, training, test, seed))
    frame = pd.DataFrame(found, columns=["loss", "method", "exponent", "error"]).fillna({"exponent": 0.0})
    means = frame.groupby(["loss", "method", "exponent"])["error"].mean().unstack()
    means = means.rename(columns={0.0: "default"})
    quoted = {
        (name, f"{method}, printed"): dict(zip(EXPONENTS, values, strict=True))
        for name, lines in PRINTED.items()
        for method, values in lines.items()
    }
    return pd.concat([means, pd.DataFrame(quoted).T]).sort_index()


def main() -> None:
    splits = int(sys.argv[1]) if len(sys.argv) > 1 else 3
    print(f"## Adult, eps = {EPS}, {splits} splits, {RUNS} runs of output perturbation each\n")
    print(table(splits).round(4).to_string())


if __name__ == "__main__":
    main()
