"""Caps on residuals of persons: clustered standard errors over the spread of estimates, and coverage.

``python -m benchmarks.inference.person_caps [fits]``. 4,000 persons with 1 to 8 rows, log wages whose residuals have a
standard deviation of .46, half of its square the person's; each fit has a panel of its own. "interval" is a cap that
follows the response interval (`response="bought"` leaves it there), the default follows the residuals. A cell has the
least and the greatest of four slopes. About 3 minutes of one core for 100 fits.
"""

from __future__ import annotations

import logging
import sys
from typing import Any

import numpy as np
import pandas as pd

import dpstats as dp

PERSONS, MOST_ROWS, SPREAD, FITS = 4000, 8, 0.46, 100
SLOPES = {"education": 0.08, "experience": 0.02, "union": 0.1, "married": 0.05}
COLUMNS = {"education": (6, 18), "experience": (0, 30), "union": (0, 1), "married": (0, 1)}
NARROW, WIDE = (0, 6), (0, 14.6)
INTERVAL: dict[str, Any] = {"response": "bought"}
CASES: tuple[tuple[float, tuple[float, float], dict[str, Any]], ...] = (
    *((eps, ends, how) for eps in (2.0, 8.0) for ends in (NARROW, WIDE) for how in (INTERVAL, {})),
    (2.0, WIDE, {"residual_cap": 1.4}),
    (8.0, WIDE, {"residual_cap": 1.4}),
    (8.0, WIDE, {"max_rows": 4, **INTERVAL}),
    (8.0, WIDE, {"max_rows": 4}),
)


def panel(seed: int) -> pd.DataFrame:
    """Persons with their rows; education is the person's."""
    random = np.random.default_rng(seed)
    person = np.repeat(np.arange(PERSONS), random.integers(1, MOST_ROWS + 1, PERSONS))
    education = np.clip(random.normal(12, 2, PERSONS), 6, 18)[person]
    started = random.uniform(0, 22, PERSONS)[person]
    rows = pd.DataFrame({"person": person, "education": education})
    rows["experience"] = started + rows.groupby("person").cumcount()
    for name, share in (("union", 0.25), ("married", 0.45)):
        own = random.beta(share, 1 - share, PERSONS)[person]
        rows[name] = (random.random(len(person)) < own).astype(int)
    rest = np.sqrt(0.5) * SPREAD * (random.normal(size=PERSONS)[person] + random.normal(size=len(person)))
    return rows.assign(wage=0.6 + sum(slope * rows[name] for name, slope in SLOPES.items()) + rest)


def line(eps: float, ends: tuple[float, float], options: dict[str, Any], fits: int) -> pd.DataFrame:
    """Mean standard error over the spread of the estimates, and coverage, by slope."""
    found = []
    for seed in range(fits):
        fit = dp.ols(
            f"wage ~ {' + '.join(SLOPES)}",
            panel(seed),
            eps,
            domain={**COLUMNS, "wage": ends},
            unit="person",
            inference=True,
            **options,
        )
        found.append(fit.uncertainty().loc[list(SLOPES)])
    truth = pd.Series(SLOPES)
    coef = pd.concat([one["coef"] for one in found], axis=1)
    errors = pd.concat([one["std_error"] for one in found], axis=1)
    covered = pd.concat([(one["low"] <= truth) & (truth <= one["high"]) for one in found], axis=1)
    centred = coef.std(axis=1)
    return pd.DataFrame(
        {"error": errors.mean(axis=1), "ratio": errors.mean(axis=1) / centred, "covered": covered.mean(axis=1)}
    )


def main(fits: int = FITS) -> None:
    """Print a line for each case."""
    logging.getLogger("dpstats").setLevel(logging.ERROR)
    for eps, ends, options in CASES:
        one = line(eps, ends, options, fits)
        cells = [f"{name} {one[name].min():.3f} to {one[name].max():.3f}" for name in one]
        print(f"{eps:<4}{ends!s:<12}{options!s:<40}", *cells, one["error"].round(5).tolist(), sep="  ", flush=True)


if __name__ == "__main__":
    main(*map(int, sys.argv[1:2]))
