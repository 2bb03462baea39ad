"""Coverage after a choice of columns on other rows, and how many columns without an effect get a p below .05.

``python -m benchmarks.inference.sparse_coverage [draws] [method ...]``, methods and draws as in `sparse`. Four of 60
columns are active. The model chosen has the coefficients that a fit of the chosen columns tends to as rows grow (from
210,000 rows whose responses are their means), the full model those of the draw. Errors allow for columns of one fit.
"""

from __future__ import annotations

import itertools
import logging
import sys
import warnings
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy import special

from benchmarks.inference.sparse import METHODS, ROWS, Sample, columns_of, draw, fitted

DRAWS = 30
LEVEL = 0.05
DESIGNS = (("neighbours", 0.0), ("neighbours", 0.5), ("neighbours", 0.8), ("factor", 0.5), ("factor", 0.8))


def limit(exog: NDArray[np.float64], means: NDArray[np.float64], family: str) -> NDArray[np.float64]:
    """The slopes of a fit of these means, by Newton's steps."""
    exog = np.column_stack([np.ones(len(exog)), exog])
    params = np.zeros(exog.shape[1])
    for _ in range(1 if family == "gaussian" else 7):
        eta = exog @ params
        centre = special.expit(eta) if family == "binomial" else eta
        weights = centre * (1 - centre) if family == "binomial" else np.ones(len(exog))
        params = params + np.linalg.solve(exog.T @ (exog * weights[:, None]), exog.T @ (means - centre))
    return params[1:]


def outcomes(
    sample: Sample, population: NDArray[np.float64], family: str, method: str, seed: int
) -> list[dict[str, Any]]:
    """The chosen columns of one fit, a row each, or a row without a column."""
    names = list(sample.frame.columns[:-1])
    fit = fitted(sample, family, method, seed)
    chosen = [name for name in names if fit.params[name] != 0]
    if not fit.has_errors or not chosen:
        return [{"active": name in sample.active, "shown": False} for name in chosen] or [{"shown": False}]
    full = np.array([sample.active.get(name, 0.0) for name in names])
    eta = population @ full
    means = special.expit(eta) if family == "binomial" else eta
    places = [names.index(name) for name in chosen]
    intervals, tested, asked = fit.conf_int(), fit.pvalues, fit.t_test(chosen)
    lines = []
    for name, truth, of_all, (low, high) in zip(
        chosen, limit(population[:, places], means, family), full[places], asked.conf_int(), strict=True
    ):
        shown = bool(np.isfinite(intervals.loc[name]).all())
        lines.append(
            {
                "active": name in sample.active,
                "shown": shown,
                "withheld": bool(np.isfinite(high - low)) and not shown,
                "chosen model": low <= truth <= high,
                "full model": low <= of_all <= high,
                "p < .05": bool(tested[name] < LEVEL),
            }
        )
    return lines


def table(draws: int, methods: tuple[str, ...]) -> pd.DataFrame:
    """Every chosen column of every fit, a row each."""
    lines = []
    for design in DESIGNS:
        random = np.random.default_rng(99)
        population = np.concatenate([columns_of(*design, random) for _ in range(210_000 // ROWS)])
        for effects, family, seed, method in itertools.product(
            ("strong", "weak"), ("binomial", "gaussian"), range(draws), methods
        ):
            cell = {"method": method, "columns": design[0], "correlation": design[1], "effects": effects}
            found = outcomes(draw(*design, effects, family, seed), population, family, method, seed)
            lines += [{**cell, "family": family, "seed": seed, **line} for line in found]
    return pd.DataFrame(lines)


def share(hits: pd.Series, of: pd.Series, fits: pd.Series) -> str:
    """A share of columns with its standard error over fits."""
    if not of.sum():
        return "-"
    ratio = hits[of].sum() / of.sum()
    errors = ((hits & of) - ratio * of).astype(float).groupby(fits).sum()
    return f"{ratio:.3f} ± {np.sqrt((errors**2).sum()) / of.sum():.3f} ({of.sum()})"


def summary(lines: pd.DataFrame, by: list[str]) -> pd.DataFrame:
    """Columns a fit, coverage and p-values of what is shown, and coverage of what only `t_test` has."""
    flags = ["active", "shown", "withheld", "chosen model", "full model", "p < .05"]
    rows = {}
    for cell, group in lines.groupby(by):
        flag = group[flags].fillna(False).astype(bool)
        fits = group.groupby(["columns", "correlation", "effects", "family", "seed"]).ngroup()
        inactive, count = ~flag["active"] & group["active"].notna(), fits.nunique()
        shown = flag["shown"]
        rows[cell] = {
            "active": f"{flag['active'].sum() / count:.2f}",
            "inactive": f"{inactive.sum() / count:.2f}",
            "active shown": f"{(flag['active'] & shown).sum() / count:.2f}",
            "chosen model": share(flag["chosen model"], shown, fits),
            "full model": share(flag["full model"], shown, fits),
            "inactive, chosen model": share(flag["chosen model"], inactive & shown, fits),
            "inactive, p < .05": share(flag["p < .05"], inactive & shown, fits),
            "of chosen inactive": share(flag["p < .05"], inactive, fits),
            "of p < .05": share(inactive, flag["p < .05"], fits),
            "t_test alone": share(flag["chosen model"], flag["withheld"], fits),
        }
    return pd.DataFrame(rows).T


def main() -> None:
    draws = int(sys.argv[1]) if len(sys.argv) > 1 else DRAWS
    logging.getLogger("dpstats").setLevel(logging.ERROR)
    warnings.simplefilter("ignore", RuntimeWarning)
    lines = table(draws, tuple(sys.argv[2:]) or METHODS)
    for by in (["method"], ["method", "columns", "correlation"], ["method", "family", "effects"]):
        print(f"\n{summary(lines, by).to_string()}")


if __name__ == "__main__":
    main()
