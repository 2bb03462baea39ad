"""What standard errors add to the time of a fit: ``python -m benchmarks.speed.errors [rows [repeats]]``.

CPU seconds on one thread, the kinds of inference in turns in one process; medians, and medians of the ratio within a
turn. Fits with and without errors may take different numbers of passes, as their noise differs.
"""

from __future__ import annotations

import os
import sys
import time

import numpy as np
import pandas as pd

import dpstats as dp
from benchmarks.speed.fits import EPS, ONE_THREAD, ROW_NORMS, SEED, arrays
from dpstats.families import Binomial, Family, Gaussian, Poisson

KINDS = (None, "auto", True, "robust")
FAMILIES: tuple[Family, ...] = (Binomial(), Gaussian(2.0), Poisson(y_max=9.0))


def responses(rows: int) -> tuple[np.ndarray, dict[str, np.ndarray]]:
    """The rows of `arrays`, and a response for each family."""
    answer, exog = arrays(rows)
    random = np.random.default_rng(SEED)
    eta = 0.1 * exog @ random.standard_normal(exog.shape[1])
    return exog, {
        "binomial": answer,
        "gaussian": np.clip(eta + random.standard_normal(rows), -3, 3) / 3,
        "poisson": np.minimum(random.poisson(np.exp(eta)), 9).astype(np.float64),
    }


def seconds(family: Family, exog: np.ndarray, endog: np.ndarray, repeats: int) -> pd.DataFrame:
    """CPU seconds of fits, a column for each kind of inference, a row for each turn."""
    turns = []
    for _ in range(repeats + 1):
        turn = {}
        for kind in KINDS:
            start = time.process_time()
            dp.GLM(endog, exog, family=family, row_norm=ROW_NORMS[exog.shape[1]]).fit(EPS, inference=kind, seed=SEED)
            turn[str(kind)] = time.process_time() - start
        turns.append(turn)
    return pd.DataFrame(turns[1:])  # the first turn loads what is loaded late


def measure(rows: int, repeats: int) -> pd.DataFrame:
    """A row for each family: the fit's seconds, and by what part each kind of errors adds to them."""
    exog, found = responses(rows)
    lines = {}
    for family in FAMILIES:
        table = seconds(family, exog, found[family.name], repeats)
        added = table.drop(columns="None").div(table["None"], axis=0).median() - 1
        lines[family.name] = {"fit": table["None"].median(), **added}
    return pd.DataFrame(lines).T


if __name__ == "__main__":
    if any(os.environ.get(name) != "1" for name in ONE_THREAD):
        os.execve(
            sys.executable,
            [sys.executable, "-m", "benchmarks.speed.errors", *sys.argv[1:]],
            {**os.environ, **ONE_THREAD},
        )
    given = [int(value) for value in sys.argv[1:]]
    print(measure(*(given + [1_000_000, 4][len(given) :])).round(3).to_string())
