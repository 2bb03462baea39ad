"""Do default intervals of counts cover the log-linear coefficient?

``python -m benchmarks.defaults.count_coverage [sets]``.

Data that are exactly Poisson with a log link, under several default caps on the mean: what the capped model's optimum
misses without noise (``... bias``), and what intervals cover. ``... rand [sets]`` has the price on real counts.
Purchases, noise and data differ from set to set; all caps see the same data sets.
"""

from __future__ import annotations

import sys
from typing import Any, NamedTuple
from unittest import mock

import numpy as np
import pandas as pd
import statsmodels.formula.api as smf

import dpstats as dp
from benchmarks.prediction import randhie
from dpstats.families import Poisson, poisson
from dpstats.privacy.ranges import REACH_PRICE, count_candidates

SHARES = {"1/2": 0.5, "0.6": 0.6, "2/3": 2 / 3, "3/4": 0.75}
"""The default cap as a share of the greatest count."""
SETS = 40
MOST = 60
"""The greatest count that is declared."""
POPULATION = 40_000
"""Rows that stand for a population."""
SELECTION_EPS = 0.045
"""What buys the greatest count of a default fit at eps 1: three quarters of 6 %."""

Random = np.random.Generator


class Design(NamedTuple):
    """Counts of mean exp(level + slope x), times an exposure where there is one."""

    level: float
    slope: float
    exposed: bool = False
    uniform: bool = False
    dispersion: float = 0.0

    def rows(self, number: int, random: Random) -> pd.DataFrame:
        x = random.uniform(-1, 1, number) if self.uniform else np.clip(random.normal(size=number), -3, 3)
        time = random.uniform(0.1, 5, number) if self.exposed else np.ones(number)
        mean = time * np.exp(self.level + self.slope * x)
        spread = random.gamma(1 / self.dispersion, self.dispersion, number) if self.dispersion else 1.0
        return pd.DataFrame({"x": x, "time": time, "mean": mean, "y": random.poisson(mean * spread)})


DESIGNS = {
    "exposure .1 to 5": Design(0.3, 0.4, exposed=True),
    "normal x, slope .4": Design(0.3, 0.4),
    "normal x, slope .8": Design(0.3, 0.8),
    "uniform x, slope 1": Design(1.0, 1.0, uniform=True),
    "mean of 8": Design(2.1, 0.3, uniform=True),
    "variance mean + mean^2 / 2": Design(0.3, 0.4, dispersion=0.5),
}
COVERED = (("exposure .1 to 5", 4_000, 1.0), ("normal x, slope .8", 4_000, 1.0), ("normal x, slope .4", 4_000, 1.0))
LARGE = (("exposure .1 to 5", 20_000, 1.0), ("exposure .1 to 5", 20_000, 3.0))
"""Design, rows, eps."""


def optimum(rows: pd.DataFrame, family: Poisson, start: tuple[float, float]) -> np.ndarray:
    """Intercept and slope of the capped model without noise and shrinkage, by Newton's method."""
    columns = np.column_stack([np.ones(len(rows)), rows["x"]])
    offset, counts = np.log(rows["time"].to_numpy()), family.clip_response(rows["y"].to_numpy(float))
    found = np.array(start)
    for _ in range(50):
        eta = columns @ found + offset
        slopes, curvatures = family.slope(eta, counts), family.weight(eta, counts)
        step = np.linalg.solve((columns.T * curvatures) @ columns, columns.T @ slopes)
        found = found - np.clip(step, -0.5, 0.5)
        if np.max(np.abs(step)) < 1e-8:
            break
    return found


def likely_reach(counts: np.ndarray, number: int) -> float:
    """The greatest count that the purchase takes of so many rows when its noise is left out."""
    candidates = count_candidates(MOST)
    above = number * np.array([np.mean(counts > candidate) for candidate in candidates])
    return float(candidates[np.argmin(above + REACH_PRICE / SELECTION_EPS * np.log2(candidates))])


def bias(name: str, number: int) -> list[str]:
    """What the slope of each cap's optimum misses, in sampling standard errors of maximum likelihood."""
    design = DESIGNS[name]
    rows = design.rows(POPULATION, np.random.default_rng(1))
    start = (design.level, design.slope)
    exact = optimum(rows, Poisson(mean_cap=1e4, y_max=2e4), start)
    columns = np.column_stack([np.ones(POPULATION), rows["x"]])
    information = (columns.T * rows["mean"].to_numpy()) @ columns * (number / POPULATION)
    error = np.sqrt(np.linalg.inv(information)[1, 1])
    most = likely_reach(rows["y"].to_numpy(), number)
    missed = [optimum(rows, Poisson(share * most, most), start)[1] - exact[1] for share in SHARES.values()]
    return [name, f"{number:,}", f"{most:g}", *(f"{value / error:.2f}" for value in missed)]


def fitted(formula: str, rows: pd.DataFrame, eps: float, share: float, **settings: Any) -> dp.GLMResults:
    """The default fit with another share."""
    with mock.patch.object(poisson, "CAP_SHARE", share):
        return dp.poisson(formula, rows, eps, **settings)


def coverage(name: str, number: int, eps: float, sets: int) -> list[list[str]]:
    """A line for each cap: coverage with its standard error, mean error with its own, spread, median standard error."""
    design, random = DESIGNS[name], np.random.default_rng(7)
    settings: dict[str, Any] = {"domain": {"x": (-3, 3), "time": (0.1, 5), "y": (0, MOST)}}
    if design.exposed:
        settings["exposure"] = "time"
    seen: dict[str, list[tuple[float, float, bool]]] = {share: [] for share in SHARES}
    for _ in range(sets):
        rows = design.rows(number, random)
        for share, value in SHARES.items():
            fit = fitted("y ~ x", rows, eps, value, **settings)
            low, high = fit.conf_int().loc["x"]
            seen[share].append((fit.debiased["x"] - design.slope, fit.bse["x"], low <= design.slope <= high))
    return [[name, f"{number:,}", f"{eps:g}", share, *_line(np.array(found))] for share, found in seen.items()]


def _line(found: np.ndarray) -> list[str]:
    errors, reported, covered = found.T
    share, spread, sets = covered.mean(), errors.std(ddof=1), len(found)
    return [
        f"{share:.2f} ± {np.sqrt(share * (1 - share) / sets):.2f}",
        f"{errors.mean():+.4f} ± {spread / np.sqrt(sets):.4f}",
        f"{np.sqrt(np.mean(errors**2)):.4f}",
        f"{np.median(reported):.4f}",
        f"{np.isfinite(reported).mean():.2f}",
    ]


def rand(number: int, eps: float, sets: int) -> list[list[str]]:
    """Root mean square error of the coefficients but the intercept against maximum likelihood, share with errors."""
    loaded = dp.datasets.load_randhie()
    exact = smf.poisson(randhie.FORMULA, loaded.data).fit(disp=False).params.drop("Intercept")
    random, kept = np.random.default_rng(7), ("1/2", "2/3")
    seen: dict[str, list[np.ndarray]] = {share: [] for share in kept}
    for _ in range(sets):
        rows = loaded.data.iloc[random.choice(len(loaded.data), number, replace=False)]
        for share in kept:
            fit = fitted(randhie.FORMULA, rows, eps, SHARES[share], domain=loaded.domain)
            missed = fit.params[exact.index] - exact
            seen[share].append(np.array([np.mean(missed**2), np.mean(np.isfinite(fit.bse[exact.index]))]))
    lines = []
    for share, found in seen.items():
        squares, bounded = np.mean(found, axis=0)
        lines.append(["RAND", f"{number:,}", f"{eps:g}", share, f"{np.sqrt(squares):.3f}", f"{bounded:.2f}"])
    return lines


def main() -> None:
    what = sys.argv[1] if len(sys.argv) > 1 and not sys.argv[1].isdigit() else "coverage"
    sets = int(sys.argv[-1]) if sys.argv[-1].isdigit() else SETS
    if what == "bias":
        print("counts | n | greatest |", " | ".join(SHARES))
        for name in DESIGNS:
            for number in (4_000, 20_000):
                print(*bias(name, number), sep=" | ", flush=True)
        return
    if what == "rand":
        print("data | n | eps | cap | error | with a standard error")
        for number in (4_000, 20_000):
            for eps in (1.0, 3.0):
                for line in rand(number, eps, sets):
                    print(*line, sep=" | ", flush=True)
        return
    print("counts | n | eps | cap | covered | mean error | rms error | median s.e. | bounded")
    for name, number, eps in (*COVERED, *LARGE):
        for line in coverage(name, number, eps, sets):
            print(*line, sep=" | ", flush=True)


if __name__ == "__main__":
    main()
