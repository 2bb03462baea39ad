"""Strategies of tuning against Algorithm 4 as printed and the untuned default: ``python -m benchmarks.methods.tuning``.

Logistic regression on census-like data, p = 15, five curvatures. Error: the share of a large population that the fit
puts on the wrong side. Every strategy has the same rows; noise is the library's, from a seeded source.
"""

from __future__ import annotations

import sys
from itertools import pairwise

import numpy as np
import pandas as pd

from benchmarks.shared.census import COLUMNS, DOMAIN, people
from dpstats.data import MemoryRows, as_table
from dpstats.models.sources import FormulaSource
from dpstats.privacy.selection import STEPS
from dpstats.tuning.losses import block_loss
from dpstats.tuning.plan import TuningPlan, plan_tuning
from dpstats.tuning.tuned import CandidateFits, release_tuned

SEED = 2026
POPULATION = 100_000
FORMULA = f"I(log_income > 10.6) ~ {' + '.join(COLUMNS[1:])}"
GRID = {"curvature": [4.0, 12.0, 36.0, 108.0, 324.0]}
CELLS = ((1_000, 0.5), (1_000, 1.0), (4_000, 0.5), (4_000, 1.0), (10_000, 1.0), (40_000, 1.0))
"""Rows and eps."""

RUNS = 40

VARIANTS = {
    "stopping": {"strategy": "stopping"},
    "all": {"strategy": "all"},
    "parts": {"strategy": "parts"},
}


def printed(plan: TuningPlan, fitting: CandidateFits) -> np.ndarray:
    """Algorithm 4: equal portions in the order of the rows, and weights exp(-eps mistakes / 2)."""
    size = len(plan.plans)
    [block] = fitting.rows(plan.plans[0]).collect()
    cuts = np.linspace(0, len(block.endog), size + 2).astype(int)
    parts = [MemoryRows([block.part(slice(*ends))]) for ends in pairwise(cuts)]
    fits = [fitting.fit_to(one, part) for one, part in zip(plan.plans, parts[:size], strict=True)]
    mistakes = np.array([block_loss(fit, "mistakes", parts[size]) for fit in fits]) / STEPS
    weights = np.exp(-plan.guarantee.eps * (mistakes - mistakes.min()) / 2)
    draw = fitting.random.random(1)[0] * weights.sum()
    return fits[int(np.searchsorted(np.cumsum(weights), draw))].scaled_params


def errors(rows: int, eps: float, runs: int, variants: dict[str, dict] = VARIANTS) -> pd.DataFrame:
    """The error of each strategy in each run, one row a run."""
    random = np.random.default_rng([SEED, rows, round(1000 * eps)])
    plans = {
        name: plan_tuning(FORMULA, DOMAIN, GRID, eps, family="binomial", **options)
        for name, options in variants.items()
    }
    first = next(iter(plans.values()))
    assert first.default is not None
    [everyone] = first.plans[0].design.blocks(people(POPULATION, random), POPULATION)
    found = []
    for _ in range(runs):
        source, data = FormulaSource(FORMULA, None, DOMAIN), as_table(people(rows, random))
        params = {
            name: release_tuned(plan, CandidateFits(source, data, random), None).fit.scaled_params
            for name, plan in plans.items()
        }
        fitting = CandidateFits(source, data, random)
        if "parts" in plans:
            params["printed"] = printed(plans["parts"], fitting)
        params["default"] = fitting.fit(first.default)[0].scaled_params
        found.append(
            {name: np.mean((everyone.exog @ fitted > 0) != (everyone.endog > 0.5)) for name, fitted in params.items()}
        )
    return pd.DataFrame(found)


def table(runs: int = RUNS, cells: tuple = CELLS, variants: dict[str, dict] = VARIANTS) -> pd.DataFrame:
    """Mean errors over the runs, a standard error of stopping less printed, one row a cell."""
    lines = []
    for rows, eps in cells:
        found = errors(rows, eps, runs, variants)
        line = {"n": rows, "eps": eps, "n eps": rows * eps, **found.mean()}
        if {"stopping", "printed"} <= set(found):
            line["s.e. of stopping - printed"] = (found["stopping"] - found["printed"]).std() / runs**0.5
        lines.append(line)
    return pd.DataFrame(lines)


def main() -> None:
    runs = int(sys.argv[1]) if len(sys.argv) > 1 else RUNS
    print(table(runs).to_string(index=False, float_format=lambda value: f"{value:.4g}"))


if __name__ == "__main__":
    main()
