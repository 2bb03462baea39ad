"""Counts with an exposure: do caps on the information that go with it give intervals, and do they cover?

``python -m benchmarks.defaults.exposures [repeats]``.

Covariates are those of Adult and of RAND, with ranges that are declared too wide; counts are overdispersed, with
coefficients that are known. "short" exposures are independent of the covariates, "long" ones go with the first of them
and are declared five times as long as is typical. Both settings see the same rows and the same seeds.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

import dpstats as dp
from benchmarks.defaults.information_caps import capped_at
from dpstats.mechanisms.spec import TIMES_MEAN

REPEATS = 40
EPS = 1.0
CELLS = ((0.06, 10_000), (0.06, 20_000), (0.3, 8_000), (0.3, 20_000))
"""Mean counts and numbers of rows."""
MOST = 30
"""The greatest count that is declared."""

Random = np.random.Generator


class Covariates(NamedTuple):
    """Rows, what is declared of them, and the slopes of counts on them."""

    frame: pd.DataFrame
    domain: Mapping[str, Any]
    slopes: Mapping[str, float]

    def predictors(self) -> np.ndarray:
        """The rows' linear predictors, but for a constant."""
        parts = [
            slope * (self.frame[name.partition("[T.")[0]] == name.partition("[T.")[2].rstrip("]")).to_numpy(float)
            if "[T." in name
            else slope * self.frame[name].to_numpy(float)
            for name, slope in self.slopes.items()
        ]
        return np.sum(parts, axis=0)


def adult() -> Covariates:
    domain = {"age": (0, 120), "education_num": (0, 60), "hours_per_week": (0, 400), "sex": ["Female", "Male"]}
    slopes = {"age": -0.015, "education_num": 0.05, "hours_per_week": 0.01, "sex[T.Male]": 0.3}
    frame = dp.datasets.load_adult().data[list(domain)].dropna()
    return Covariates(frame, domain, slopes)


def rand() -> Covariates:
    domain = {"lncoins": (0, 50), "physlm": (0, 1), "disea": (0, 300), "idp": (0, 1)}
    slopes = {"lncoins": -0.05, "physlm": 0.25, "disea": 0.03, "idp": -0.2}
    return Covariates(dp.datasets.load_randhie().data[list(domain)], domain, slopes)


def short(frame: pd.DataFrame, random: Random) -> np.ndarray:
    return random.beta(3, 1.2, len(frame)).clip(0.02, 1)


def long(frame: pd.DataFrame, random: Random) -> np.ndarray:
    first = frame.iloc[:, 0].to_numpy(float)
    units = (first - first.mean()) / first.std()
    return np.exp(0.4 * units + 0.5 * random.normal(size=len(frame)) - 0.4).clip(0.05, 5)


COVARIATES = {"Adult": adult, "RAND": rand}
EXPOSURES = {"short": (short, (0.0, 1.0)), "long": (long, (0.01, 5.0))}


def rows_of(found: Covariates, kind: str, mean: float, number: int, seed: int) -> pd.DataFrame:
    """Rows with exposures and counts."""
    random = np.random.default_rng(seed)
    places = random.choice(len(found.frame), number, replace=False)
    frame = found.frame.iloc[places].reset_index(drop=True)
    exposures = EXPOSURES[kind][0](frame, random)
    means = np.exp(found.predictors()[places]) * exposures
    counts = random.poisson(mean * means / means.mean() * random.gamma(2, 0.5, number))
    return frame.assign(years=exposures, y=counts)


def measured(
    found: Covariates, kind: str, mean: float, number: int, multiple: float, repeats: int
) -> tuple[float, ...]:
    """The share of coefficients with an interval, the coverage of those of slopes, and how many these are."""
    domain = {**found.domain, "years": EXPOSURES[kind][1], "y": (0, MOST)}
    shares, covered = [], []
    for seed in range(repeats):
        frame = rows_of(found, kind, mean, number, seed)
        with capped_at(multiple):
            fit = dp.poisson(f"y ~ {' + '.join(found.domain)}", frame, EPS, domain=domain, exposure="years", seed=seed)
        shares.append(float(np.isfinite(fit.bse).mean()) if fit.has_errors else 0.0)
        if fit.has_errors:
            low, high = fit.conf_int().to_numpy().T
            for name, slope in found.slopes.items():
                place = fit.params.index.get_loc(name)
                covered += [low[place] <= slope <= high[place]] if np.isfinite(fit.bse.iloc[place]) else []
    return float(np.mean(shares)), float(np.mean(covered)), float(len(covered))


def main(repeats: int = REPEATS) -> None:
    print("| covariates | exposures | mean | n | no cap | cap |\n|---|---|---|---|---|---|")
    for name, make in COVARIATES.items():
        found = make()
        for kind in EXPOSURES:
            for mean, number in CELLS:
                cells = [measured(found, kind, mean, number, multiple, repeats) for multiple in (np.inf, TIMES_MEAN)]
                texts = [f"{share:.2f}, {coverage:.3f}" for share, coverage, _ in cells]
                print(f"| {name} | {kind} | {mean} | {number:,} | {' | '.join(texts)} |", flush=True)


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
