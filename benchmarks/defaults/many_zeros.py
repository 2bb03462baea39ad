"""Ranges of columns with many zeros, for docs/proofs/trimming: ``python -m benchmarks.defaults.many_zeros [fits]``."""

from __future__ import annotations

import logging
import sys

import numpy as np
import pandas as pd

import dpstats as dp
from dpstats.domain import Domain

SHARES = (0.6, 0.8, 0.9, 0.95, 0.98)
BUDGETS = (0.3, 1.0, 3.0)


def made_up(share: float) -> pd.DataFrame:
    """So many zeros, and values that fill an eighth of the declared range."""
    random, rows = np.random.default_rng(3), 30_000
    x, a = np.where(random.random(rows) < share, 0, random.uniform(0, 12_000, rows)), random.uniform(0, 1, rows)
    return pd.DataFrame({"y": 1 + a + x / 12_000 + random.normal(0, 1, rows), "a": a, "x": x})


def line(formula: str, rows: pd.DataFrame, domain: Domain, column: str, fits: int, family: str) -> str:
    """Fits that narrow the column, and the share of coefficients with an interval, by eps."""
    cells = []
    for eps in BUDGETS:
        made = [dp.glm(formula, rows, eps, family=family, domain=domain) for _ in range(fits)]
        narrowed = sum(fit.plan.design.domain[column].inner is not None for fit in made)
        shown = [np.isfinite(fit.bse).mean() if fit.has_errors else 0.0 for fit in made]
        cells.append(f"{narrowed}/{fits}; {np.mean(shown):.2f}")
    return " | ".join(cells)


def main() -> None:
    """Print a line for each column."""
    logging.disable(logging.WARNING)
    fits = int(sys.argv[1]) if len(sys.argv) > 1 else 12
    domain = Domain(y=(-20, 20), a=(0, 1), x=(0, 100_000))
    for share in SHARES:
        print(
            f"| x, {100 * share:.0f} % zeros | {line('y ~ a + x', made_up(share), domain, 'x', fits, 'gaussian')} |",
            flush=True,
        )
    adult = dp.datasets.load_adult("all")
    wide = Domain(adult.domain | {"capital_gain": dp.Range(0, 99_998, outside="drop")})
    formula = "income ~ age + education_num + hours_per_week + sex + capital_gain"
    print(f"| capital_gain | {line(formula, adult.data, wide, 'capital_gain', fits, 'binomial')} |", flush=True)


if __name__ == "__main__":
    main()
