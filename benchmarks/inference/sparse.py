"""Sparse models with correlated columns: what is shown with |z| > 3, and how much of it the full model does not have.

``python -m benchmarks.inference.sparse [draws] [method ...]``, a method being a number of terms for `screen=`, "auto"
or an alpha of a lasso whose columns are refitted on other rows. Four columns are active. A false discovery is a column
with |z| > 3 whose coefficient in the model of all columns is zero.
"""

from __future__ import annotations

import itertools
import logging
import sys
import warnings
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy import special

import dpstats as dp

DRAWS = 4
ROWS = 30_000
COLUMNS = 60
EPS = 1.0
SHOWN = 3.0
METHODS = ("screen=5", "screen=8", "alpha=auto")

EFFECTS = {"strong": (0.8, -0.8, 0.8, 0.8), "mixed": (0.6, -0.5, 0.4, 0.3), "weak": (0.6, -0.4, 0.2, 0.1)}
"""By standard deviations of the columns."""

DESIGNS = (*itertools.product(("neighbours", "factor"), (0.5, 0.7, 0.9)), ("RAND", None))


class Sample(NamedTuple):
    """Rows of one draw, their Domain, and the coefficients of the active columns."""

    frame: pd.DataFrame
    domain: dict[str, tuple[float, float]]
    active: dict[str, float]


def columns_of(kind: str, correlation: float | None, random: np.random.Generator) -> NDArray[np.float64]:
    """Rows of columns like their neighbours, alike by one factor, or of the RAND experiment with their products."""
    if kind == "RAND":
        numbers = dp.datasets.load_randhie().data.drop(columns="mdvis").to_numpy(dtype=float)
        standard = (numbers - numbers.mean(axis=0)) / numbers.std(axis=0)
        pairs = itertools.combinations(range(numbers.shape[1]), 2)
        exog = np.column_stack([standard, *(standard[:, a] * standard[:, b] for a, b in pairs)])
        exog = (exog - exog.mean(axis=0)) / exog.std(axis=0)
        alike = np.abs(np.triu(np.corrcoef(exog.T), 1)).max(axis=0)
        exog = np.clip(exog[:, alike < 0.9], -4, 4)
        return exog[random.integers(0, len(exog), ROWS)]
    assert correlation is not None
    noise = random.normal(size=(ROWS, COLUMNS))
    if kind == "factor":
        shared = random.normal(size=(ROWS, 1))
        return np.clip(np.sqrt(correlation) * shared + np.sqrt(1 - correlation) * noise, -4, 4)
    places = np.arange(COLUMNS)
    alike = correlation ** np.abs(places[:, None] - places)
    return np.clip(noise @ np.linalg.cholesky(alike).T, -4, 4)


def draw(kind: str, correlation: float | None, effects: str, family: str, seed: int) -> Sample:
    """Rows whose response four of the columns move."""
    random = np.random.default_rng([seed, round(10 * (correlation or 0)), len(kind), len(effects), len(family)])
    exog = columns_of(kind, correlation, random)
    active = random.choice(exog.shape[1], 4, replace=False)
    eta = exog[:, active] @ EFFECTS[effects]
    names = [f"x{j}" for j in range(exog.shape[1])]
    frame = pd.DataFrame(exog, columns=names)
    domain = dict.fromkeys(names, (-4.0, 4.0))
    coefficients = dict(zip([names[j] for j in active], EFFECTS[effects], strict=True))
    if family == "gaussian":
        return Sample(frame.assign(y=eta + random.normal(size=ROWS)), {**domain, "y": (-8.0, 8.0)}, coefficients)
    response = (random.random(ROWS) < special.expit(eta)).astype(int)
    return Sample(frame.assign(y=response), {**domain, "y": (0.0, 1.0)}, coefficients)


def arguments(method: str) -> dict[str, Any]:
    """Of `dp.glm`."""
    name, _, value = method.partition("=")
    if name == "screen":
        return {"screen": int(value), "split": "rows"}
    alpha = value if value == "auto" else float(value)
    return {"penalty": "lasso", "alpha": alpha, "refit_share": 0.5, "split": "rows"}


def fitted(sample: Sample, family: str, method: str, seed: int) -> dp.GLMResults:
    """One fit with standard errors."""
    formula = f"y ~ {' + '.join(sample.frame.columns[:-1])}"
    options = {"family": family, "domain": sample.domain, "seed": seed, "inference": True, **arguments(method)}
    return dp.glm(formula, sample.frame, EPS, **options)


def outcome(sample: Sample, family: str, method: str, seed: int) -> dict[str, float]:
    """What one fit chooses and shows."""
    names = list(sample.frame.columns[:-1])
    fit = fitted(sample, family, method, seed)
    chosen = {name for name in names if fit.params[name] != 0}
    shown = set[str]()
    if fit.released is not None and fit.has_errors:
        statistics = fit.tvalues.reindex(names)
        shown = set(statistics.index[statistics.abs() > SHOWN])
    return {
        "chosen": len(chosen),
        "active left out": len(sample.active.keys() - chosen),
        "found": len(shown & sample.active.keys()),
        "false": len(shown - sample.active.keys()),
    }


def table(draws: int, methods: tuple[str, ...]) -> pd.DataFrame:
    """Every fit, a row each."""
    lines = []
    for family, (kind, correlation), effects, seed in itertools.product(
        ("binomial", "gaussian"), DESIGNS, EFFECTS, range(draws)
    ):
        sample = draw(kind, correlation, effects, family, seed)
        for method in methods:
            cell = {"method": method, "columns": kind, "correlation": correlation or "real", "effects": effects}
            lines.append({**cell, "family": family, **outcome(sample, family, method, seed)})
    return pd.DataFrame(lines)


def summary(lines: pd.DataFrame, by: list[str]) -> pd.DataFrame:
    """Means over fits, power, and the share of false discoveries."""
    groups = lines.groupby(by)
    sums = groups[["found", "false"]].sum()
    return (
        groups[["chosen", "active left out"]]
        .mean()
        .assign(
            power=groups["found"].mean() / 4, false=sums["false"], rate=sums["false"] / (sums["found"] + sums["false"])
        )
    )


def main() -> None:
    draws = int(sys.argv[1]) if len(sys.argv) > 1 else DRAWS
    logging.getLogger("dpstats").setLevel(logging.ERROR)
    warnings.simplefilter("ignore", RuntimeWarning)
    lines = table(draws, tuple(sys.argv[2:]) or METHODS)
    for by in (["method"], ["method", "correlation"], ["method", "effects"], ["method", "columns", "family"]):
        print(f"\n{summary(lines, by).round(3).to_string()}")


if __name__ == "__main__":
    main()
