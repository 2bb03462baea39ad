"""Two models compared on the same rows: the noise of one paired comparison beside that of two evaluations.

``python -m benchmarks.methods.paired [draws]``. Half of the census' rows and simulated counts fit the models, the other
half compares them. Each line has the difference without noise, the paired sampling error, the median noise of the
comparison, that of the difference of two evaluations for half of eps each, and how often 95 % intervals cover over
resampled rows.
"""

from __future__ import annotations

import itertools
import math
import sys
import warnings
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

import dpstats as dp

DRAWS = 60
BUDGETS = (0.3, 1.0, 3.0)
VANISHING = 1e7  # an eps at which there is hardly noise


class Case(NamedTuple):
    """Two models, the rows that compare them, a loss, and the metric of one model that tells it, if there is one."""

    name: str
    models: tuple[Any, Any]
    rows: pd.DataFrame
    loss: str
    single: str | None


def cases() -> list[Case]:
    """Hours and income of the census, and counts."""
    adult, rows = dp.datasets.load_adult(), dp.datasets.load_adult("test").data
    few, more = "age + sex", "age + sex + education_num"
    hours = [dp.ols(f"hours_per_week ~ {x}", adult.data, 2.0, domain=adult.domain, seed=1) for x in (few, more)]
    terms = (few, more, f"{more} + hours_per_week")
    income = [dp.logit(f"income ~ {x}", adult.data, 2.0, domain=adult.domain, seed=1) for x in terms]
    random = np.random.default_rng(0)
    exog = random.uniform(-1, 1, (24_000, 2))
    counts = pd.DataFrame(exog, columns=["x", "z"])
    counts["n"] = np.minimum(random.poisson(np.exp(0.5 + exog @ [0.7, 0.3])), 20)
    domain = {"x": (-1, 1), "z": (-1, 1), "n": (0, 20)}
    visits = [dp.poisson(f"n ~ {x}", counts[:8000], 2.0, domain=domain, seed=1) for x in ("x", "x + z")]
    return [
        Case("hours", (hours[0], hours[1]), rows, "mse", "rmse"),
        Case("hours", (hours[0], hours[1]), rows, "mae", "mae"),
        Case("income", (income[0], income[1]), rows, "log_score", "log_score"),
        Case("income", (income[0], income[1]), rows, "brier", "brier"),
        Case("income", (income[0], income[1]), rows, "accuracy", "accuracy"),
        Case("income and hours", (income[1], income[2]), rows, "log_score", "log_score"),
        Case("counts", (visits[0], visits[1]), counts[8000:], "deviance", None),
        Case("counts", (visits[0], visits[1]), counts[8000:], "mae", "mae"),
    ]


def of_two(case: Case, eps: float, seed: int) -> float:
    """The noise of the difference of two evaluations for half of eps each."""
    if case.single is None:
        return math.nan
    noise = []
    for place, model in enumerate(case.models):
        line = dp.evaluate(model, case.rows, eps / 2, metrics=[case.single], seed=2 * seed + place).metrics.iloc[0]
        noise.append(line.noise_se * (2 * line.estimate if case.single == "rmse" else 1))
    return math.hypot(*noise)


def line_of(case: Case, eps: float, draws: int) -> dict[str, Any]:
    """One line of the table."""
    fewer, more = case.models
    paired = {"against": fewer, "metrics": [case.loss]}
    exact = dp.evaluate(more, case.rows, VANISHING, seed=0, **paired).metrics.iloc[0]
    noise = [dp.evaluate(more, case.rows, eps, seed=seed, **paired).metrics.iloc[0].noise_se for seed in range(draws)]
    random, covered = np.random.default_rng(7), []
    for seed in range(draws):
        sample = case.rows.iloc[random.integers(0, len(case.rows), len(case.rows))]
        found = dp.evaluate(more, sample, eps, seed=seed, **paired).metrics.iloc[0]
        covered.append(found.low <= exact.estimate <= found.high)
    return {
        "case": f"{case.name}, {case.loss}",
        "eps": eps,
        "difference": exact.estimate,
        "sampling": exact.sampling_se,
        "noise": np.median(noise),
        "of two": np.median([of_two(case, eps, seed) for seed in range(min(draws, 15))]),
        "covered": np.mean(covered),
    }


def main() -> None:
    draws = int(sys.argv[1]) if len(sys.argv) > 1 else DRAWS
    warnings.simplefilter("ignore", RuntimeWarning)
    lines = [line_of(case, eps, draws) for case, eps in itertools.product(cases(), BUDGETS)]
    print(pd.DataFrame(lines).to_string(index=False, float_format="{:.3g}".format))


if __name__ == "__main__":
    main()
