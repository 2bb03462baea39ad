"""Persons with several rows: coverage of intervals clustered by persons, and what shares and draws cost.

``python -m benchmarks.inference.persons [runs]``. Logistic responses whose persons have an effect of their own
(standard deviation 1.5) and 1 to 10 rows; one covariate is the person's, one the row's. The target of the intervals is
the fit to 400,000 persons of the same law, without privacy, with the same weights. About 3 minutes of one core for 100
runs.
"""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
import pandas as pd

import dpstats as dp

DOMAIN = {"y": [0, 1], "own": (-1, 1), "now": (-1, 1)}
FORMULA = "y ~ own + now"
CASES: dict[str, dict[str, Any]] = {
    "by rows, for rows": {},
    "equal shares": {"unit": "person"},
    "at most 10 rows": {"unit": "person", "max_rows": 10},
    "at most 3 rows": {"unit": "person", "max_rows": 3},
}


def population(persons: int, seed: int) -> pd.DataFrame:
    """Rows of some persons."""
    rng = np.random.default_rng(seed)
    rows = rng.integers(1, 11, persons)
    person = np.repeat(np.arange(persons), rows)
    effect, own = (np.repeat(draws, rows) for draws in (rng.normal(0, 1.5, persons), rng.uniform(-1, 1, persons)))
    now = rng.uniform(-1, 1, len(person))
    chance = 1 / (1 + np.exp(-(0.3 + own - 0.7 * now + effect)))
    return pd.DataFrame({"person": person, "own": own, "now": now, "y": (rng.random(len(person)) < chance).astype(int)})


def limit(*, equal: bool) -> pd.Series[float]:
    """The coefficients that a fit to ever more persons tends to."""
    from statsmodels.formula.api import glm
    from statsmodels.genmod.families import Binomial

    data = population(400_000, 10**6)
    sizes = data.groupby("person")["person"].transform("size")
    weights = 1 / sizes if equal else np.ones(len(sizes))
    return glm(FORMULA, data, freq_weights=np.asarray(weights), family=Binomial()).fit().params


def cell(persons: int, eps: float, runs: int, targets: dict[bool, pd.Series[float]]) -> pd.DataFrame:
    """Coverage of 95 % intervals, share of bounded ones, their median width, and the error of the coefficients."""
    found = []
    for name, options in CASES.items():
        target = targets["unit" in options and "max_rows" not in options]
        covered, bounded, widths, errors = [], [], [], []
        for run in range(runs):
            data = population(persons, run)
            fit = dp.logit(FORMULA, data, eps, domain=DOMAIN, inference=True, seed=run, **options)
            ends = fit.conf_int().to_numpy()
            inside = (ends[:, 0] <= target.to_numpy()) & (target.to_numpy() <= ends[:, 1])
            covered.append(inside)
            bounded.append(np.isfinite(ends).all(axis=1))
            widths.append(ends[:, 1] - ends[:, 0])
            errors.append(fit.debiased.to_numpy() - target.to_numpy())
        by_column = np.mean(covered, axis=0)
        found.append(
            {
                "persons": persons,
                "eps": eps,
                "rows count": name,
                "covered": float(by_column.mean()),
                "least": float(by_column.min()),
                "bounded": float(np.mean(bounded)),
                "width": float(np.median(widths)),
                "error": float(np.sqrt(np.median(np.square(errors)))),
            }
        )
    return pd.DataFrame(found)


def main(runs: int = 100) -> pd.DataFrame:
    """All cells."""
    targets = {equal: limit(equal=equal) for equal in (True, False)}
    parts = [cell(persons, eps, runs, targets) for persons, eps in ((2000, 1.0), (2000, 3.0), (8000, 1.0))]
    table = pd.concat(parts, ignore_index=True)
    print(table.round(3).to_string(index=False))
    return table


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 100)
