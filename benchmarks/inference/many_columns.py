"""Do forecasts by rows of many columns, of which all is declared, agree with draws of the noise and with fits?

``python -m benchmarks.inference.many_columns draws`` prints, by columns and by the ratio of a slope's information to
its noise, the share of coefficients that draws of the noise leave an interval, and the chance that
`dpstats.models.expectations` expects; ``fits [FITS]`` the shares of fits with standard errors and of the forecast.
"""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
import pandas as pd

import dpstats as dp
from dpstats.models.expectations import InformationRatios, interval_chances, noise_projection
from dpstats.models.forecast import forecast

RATIOS = (2, 3, 4, 5, 6, 7, 8, 10, 13)
DRAWS = 40
FITS: tuple[tuple[str, int, float, bool, tuple[int, ...]], ...] = (
    # family, numbers, their correlation, whether with a factor of four levels, rows
    ("gaussian", 15, 0.0, True, (6_000, 9_000, 13_000)),
    ("gaussian", 50, 0.0, False, (50_000, 70_000, 100_000)),
    ("gaussian", 30, 0.3, False, (20_000, 40_000, 60_000)),
    ("binomial", 20, 0.0, False, (10_000, 15_000, 25_000)),
    ("binomial", 45, 0.0, True, (50_000, 70_000, 100_000)),
    ("poisson", 20, 0.0, False, (15_000, 25_000, 40_000)),
)


def declared(family: str, numbers: int, factor: bool) -> tuple[str, dict[str, Any]]:
    """Numbers a tenth of whose range is their standard deviation, a response with typical values, eps 1."""
    domain: dict[str, Any] = {f"x{place}": dp.Range(0, 100, typical=(50, 10)) for place in range(numbers)}
    if factor:
        domain["region"] = list("uvwx")
    response = {"gaussian": dp.Range(-12, 12, typical=(0, 1.1)), "poisson": dp.Range(0, 20, typical=(1, 1.1))}
    return f"y ~ {' + '.join(domain)}", {**domain, "y": response.get(family, (0, 1))}


def rows_of(family: str, numbers: int, correlation: float, factor: bool, rows: int, seed: int) -> pd.DataFrame:
    """Normal columns, of which the first two have an effect."""
    random = np.random.default_rng([seed, rows])
    exog = np.sqrt(1 - correlation) * random.normal(size=(rows, numbers))
    exog += np.sqrt(correlation) * random.normal(size=(rows, 1))
    frame = pd.DataFrame(50 + 10 * exog, columns=[f"x{place}" for place in range(numbers)])
    if factor:
        frame["region"] = random.choice(list("uvwx"), rows, p=[0.4, 0.3, 0.2, 0.1])
    eta = 0.3 * exog[:, 0] - 0.2 * exog[:, 1]
    if family == "gaussian":
        return frame.assign(y=eta + random.normal(size=rows))
    if family == "poisson":
        return frame.assign(y=random.poisson(np.exp(eta - 0.06)))
    return frame.assign(y=(random.random(rows) < 1 / (1 + np.exp(-eta))).astype(int))


def chance(of_rows: InformationRatios, rows: int) -> float:
    """The expected share of coefficients with an interval, all by the same rows."""
    ratios = of_rows.of(rows)
    return float(interval_chances(ratios, ratios, lambda: of_rows.coupling).mean())


def draws() -> None:
    """Shares that draws of the noise leave an interval, and what is expected."""
    for family in ("binomial", "gaussian"):
        for numbers in (3, 10, 20, 30, 60):
            formula, domain = declared(family, numbers, factor=False)
            plan = dp.plan(formula, domain, 1.0, family=family, inference=True, ranges="declared", check_share=0)
            expected = forecast(plan)
            information = expected.populations[expected.last].information
            of_rows = InformationRatios(plan, information, noise_projection(plan))
            row_ratio = float(np.median(of_rows.of(1e9))) / 1e9
            for ratio in RATIOS:
                rows = round(ratio / row_ratio)
                drawn = np.isfinite(list(expected.drawn_errors(expected.last, rows, DRAWS))).mean()
                print(family, numbers, ratio, f"{drawn:.2f} | {chance(of_rows, rows):.2f}", sep=" | ", flush=True)


def fits(count: int) -> None:
    """Shares of coefficients with a standard error in fits, and by `plan.by_rows`."""
    for family, numbers, correlation, factor, sizes in FITS:
        formula, domain = declared(family, numbers, factor)
        call: dict[str, Any] = {"family": family, "inference": True, "on_mismatch": "go"}
        by_rows = dp.plan(formula, domain, 1.0, **call).by_rows(list(sizes))["share"]
        for rows in sizes:
            shares = []
            for seed in range(count):
                frame = rows_of(family, numbers, correlation, factor, rows, seed)
                shares.append(np.isfinite(dp.glm(formula, frame, 1.0, domain=domain, seed=seed, **call).bse).mean())
            what = (family, f"{numbers}{' and a factor' * factor}", correlation, f"{rows:,}")
            print(*what, f"{by_rows[rows]:.2f} | {np.mean(shares):.2f}", sep=" | ", flush=True)


if __name__ == "__main__":
    if sys.argv[1] == "draws":
        draws()
    else:
        fits(int(sys.argv[2]) if len(sys.argv) > 2 else 6)
