"""Forecasts of clustered standard errors over those of fits.

``python -m benchmarks.inference.person_forecasts [fits]``. Panels of 6,000 persons with 1 to 20 rows each. A person's
rows are correlated alike in three columns (normal within three standard deviations, uniform, 0/1) and in what these do
not explain; eps 1, `unit=` and `inference=True`. A figure is the forecast by typical values, or by another panel of the
same law (`like=`), over the median of some fits: the median of four coefficients, the least and the greatest; by
`std_error` and by `lower` of a forecast. Less than a minute of one core.
"""

from __future__ import annotations

import logging
import sys
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy import special

import dpstats as dp

PERSONS, MOST_ROWS, EPS, FITS = 6000, 20, 1.0, 30
CORRELATIONS = (0.0, 0.5, 0.9)
COLUMNS = {"x": (-3, 3), "u": (0, 1), "b": [0, 1]}
FORMULA = "y ~ x + u + b"
RESPONSES: dict[str, Any] = {"binomial": [0, 1], "gaussian": (-8, 9)}  # 17 standard deviations of the residuals
TYPICAL = {"x": (0, 1), "u": (0.5, 0.29), "b": 0.4}
KNOWN: dict[str, dict[str, dict[str, Any]]] = {
    "binomial": {"typical=": {"typical": {**TYPICAL, "y": 0.5}}},
    "gaussian": {
        "typical= and residual_sd=": {"typical": {**TYPICAL, "y": (0.5, 1.2)}, "residual_sd": 1.0},
        "typical= of the columns": {"typical": TYPICAL},
    },
}


def panel(family: str, correlation: float, seed: int) -> pd.DataFrame:
    """Persons with their rows."""
    random = np.random.default_rng(seed)
    person = np.repeat(np.arange(PERSONS), random.integers(1, MOST_ROWS + 1, PERSONS))

    def alike() -> NDArray[np.float64]:
        own = random.normal(size=PERSONS)[person]
        return np.sqrt(correlation) * own + np.sqrt(1 - correlation) * random.normal(size=len(person))

    x, u, b = np.clip(alike(), -3, 3), special.ndtr(alike()), (special.ndtr(alike()) < TYPICAL["b"]).astype(int)
    linear, rest = 0.5 * x + 0.5 * u + 0.6 * b, alike()
    if family == "gaussian":
        return pd.DataFrame({"person": person, "x": x, "u": u, "b": b, "y": linear + rest})
    chance = special.expit(linear - 0.5)
    return pd.DataFrame({"person": person, "x": x, "u": u, "b": b, "y": (special.ndtr(rest) < chance).astype(int)})


def ratios(family: str, correlation: float, fits: int) -> dict[str, pd.Series[float]]:
    """Forecasts over the median errors of fits, by coefficient."""
    domain = {**COLUMNS, "y": RESPONSES[family]}
    plan = dp.plan(FORMULA, domain, EPS, family=family, unit="person", inference=True)
    rows = panel(family, correlation, 0)
    errors = [plan.fit(rows).bse for _ in range(fits)]
    median = pd.concat(errors, axis=1).median(axis=1)
    known = {**KNOWN[family], "like=": {"like": panel(family, correlation, 1)}}
    tables = {name: plan.standard_errors(PERSONS, **facts) for name, facts in known.items()}
    return {f"{name} {kind}": table[kind] / median for name, table in tables.items() for kind in ("lower", "std_error")}


def main(fits: int = FITS) -> None:
    """Print a line for each family and correlation."""
    logging.getLogger("dpstats").setLevel(logging.ERROR)
    for family in RESPONSES:
        for correlation in CORRELATIONS:
            found = ratios(family, correlation, fits)
            cells = [f"{name} {one.median():.2f} ({one.min():.2f} to {one.max():.2f})" for name, one in found.items()]
            print(f"{family:<10}{correlation:<5}", *cells, sep="   ", flush=True)


if __name__ == "__main__":
    main(*map(int, sys.argv[1:2]))
