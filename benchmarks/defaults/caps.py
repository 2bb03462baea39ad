"""How large should the default residual cap be? Simulated least squares: ``python -m benchmarks.defaults.caps``.

Formulas of 6, 20 and 50 columns, 1,000 to 30,000 rows, eps 0.1 to 1, and responses that fill little or much of their
declared range: bell-shaped, skewed, or with two humps. The figure is the held-out R2, never counted below -0.5.
Nothing real is looked at.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable

import numpy as np
import pandas as pd

from benchmarks.defaults.curvature import TEST_ROWS, formula_sample, predictor, solve
from dpstats.families import Gaussian
from dpstats.mechanisms.calibration import NoiseBudget
from dpstats.mechanisms.objective import plan_objective

CAPS = (1.0, 0.5, 0.35, 0.25, 0.15)
"""In half widths of the response's range."""
SPREADS, SHARES = (0.12, 0.3), (0.2, 0.6, 0.9)
"""Standard deviations of the response in half widths of its range, and the explained shares of its variance."""

Random = np.random.Generator


def two_humps(size: int, random: Random) -> np.ndarray:
    """Errors of variance one around plus and minus one."""
    drawn = np.sign(random.normal(size=size)) + 0.3 * random.normal(size=size)
    return drawn / drawn.std()


ERRORS: dict[str, Callable[[int, Random], np.ndarray]] = {
    "bell": lambda size, random: random.normal(size=size),
    "skewed": lambda size, random: random.exponential(size=size) - 1,
    "two humps": two_humps,
}


def fits(shape: str, columns: int, rows: int, eps: float, spread: float, share: float, random: Random) -> np.ndarray:
    """Held-out R2 for each cap, on one data set and one draw of the noise for all caps."""
    sample = formula_sample(Gaussian(1.0), rows, columns, 1.0, random)
    exog = np.concatenate([sample.training[0], sample.test[0]])
    errors = ERRORS[shape](rows + TEST_ROWS, random)
    response = np.sqrt(share) * predictor(exog, 1.0, random) + np.sqrt(1 - share) * errors
    endog = np.clip(random.uniform(-0.4, 0.4) + spread * response, -1, 1)
    found = []
    for cap in CAPS:
        plan = plan_objective(sample.design, Gaussian(cap), NoiseBudget(0.99 * eps, 0.0, 0.01 * eps, "add_remove"))
        linear = plan.sample(np.random.default_rng(5))
        params = solve(plan.family, (exog[:rows], endog[:rows]), plan.curvature, linear)
        left = np.mean((endog[rows:] - exog[rows:] @ params) ** 2)
        found.append(max(-0.5, 1 - float(left / np.var(endog[rows:]))))
    return np.array(found)


def table(
    columns: tuple[int, ...] = (6, 20, 50),
    rows: tuple[int, ...] = (1_000, 6_000, 30_000),
    budgets: tuple[float, ...] = (0.1, 0.3, 1.0),
) -> pd.DataFrame:
    """Mean R2 for each cap, and the greatest loss to the best cap of a setting with n eps of at least 1,000."""
    lines = {}
    for shape in ERRORS:
        settings = list(itertools.product(columns, rows, budgets, SPREADS, SHARES))
        found = np.array([fits(shape, *setting, np.random.default_rng([7, k])) for k, setting in enumerate(settings)])
        enough = np.array([setting[1] * setting[2] >= 1_000 for setting in settings])
        lost = (found.max(axis=1, keepdims=True) - found)[enough].max(axis=0)
        lines[shape] = [f"{mean:.3f} ({most:.2f})" for mean, most in zip(found.mean(axis=0), lost, strict=True)]
    return pd.DataFrame(lines, index=[f"cap {cap:g}" for cap in CAPS]).T


def main() -> None:
    print("## Mean R2, and in brackets the greatest loss to the best cap where n eps >= 1,000\n")
    print(table().to_string())


if __name__ == "__main__":
    main()
