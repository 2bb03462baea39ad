"""Which of 60 columns the calls of the guide keep, how many of them have no effect, and how well the fits predict.

``python -m benchmarks.methods.lasso [draws]``. Five columns are active, with effects of .15 to .6 for each standard
deviation. A figure is a mean over both families, three numbers of rows and three budgets.
"""

from __future__ import annotations

import itertools
import logging
import sys
import warnings
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from scipy import special

import dpstats as dp
from dpstats.mechanisms import napp
from dpstats.results.summary_notes import finds_fewer

DRAWS = 3
COLUMNS = 60
EFFECTS = (0.6, -0.5, 0.4, 0.3, 0.15)
ROWS, NEW_ROWS = (5_000, 20_000, 50_000), 20_000
BUDGETS = (0.5, 1.0, 3.0)
SHOWN = 3.0
NAMES = [f"x{j}" for j in range(COLUMNS)]

REFIT = {"penalty": "lasso", "alpha": "auto", "refit_share": 0.5, "inference": True}
APART = {"split": "rows", "inference": True}
CALLS: dict[str, dict[str, Any]] = {
    "lasso": {"penalty": "lasso", "alpha": "auto"},
    "lasso, 1.5 alpha": {"penalty": "lasso", "alpha": "auto"},
    "lasso, 2 alpha": {"penalty": "lasso", "alpha": "auto"},
    "all columns": {},
    "screen=5": {"screen": 5},
    "screen=7": {"screen": 7},
    "screen=7, split": {"screen": 7, **APART},
    "lasso, refit": REFIT,
    "lasso, refit, split": {**REFIT, **APART},
}
STRENGTHS = {"lasso, 1.5 alpha": (1.5, 1.5), "lasso, 2 alpha": (2.0, 2.0)}
"""Of noise and of sampling in the default alpha, which has 1 of both."""


class Sample(NamedTuple):
    """Rows to fit, new rows, and the active columns."""

    rows: pd.DataFrame
    new: pd.DataFrame
    active: set[str]


def draw(family: str, rows: int, correlation: float, seed: int) -> Sample:
    """Rows whose columns all have this correlation with each other."""
    random = np.random.default_rng([seed, rows, round(10 * correlation), len(family)])
    active = random.choice(COLUMNS, len(EFFECTS), replace=False)

    def made(size: int) -> pd.DataFrame:
        own, shared = random.normal(size=(size, COLUMNS)), random.normal(size=(size, 1))
        exog = np.clip(np.sqrt(correlation) * shared + np.sqrt(1 - correlation) * own, -4, 4)
        eta = exog[:, active] @ EFFECTS
        if family == "gaussian":
            endog = np.clip(eta + random.normal(size=size), -6, 6)
        else:
            endog = (random.random(size) < special.expit(eta)).astype(float)
        return pd.DataFrame(exog, columns=NAMES).assign(y=endog)

    return Sample(made(rows), made(NEW_ROWS), {NAMES[j] for j in active})


def explained(family: str, endog: np.ndarray, mean: np.ndarray) -> float:
    """Share of the deviance of new rows that a fit explains."""

    def deviance(means: np.ndarray) -> float:
        if family == "gaussian":
            return float(np.sum((endog - means) ** 2))
        inside = np.clip(means, 1e-12, 1 - 1e-12)
        return -float(np.sum(special.xlogy(endog, inside) + special.xlog1py(1 - endog, -inside)))

    return 1 - deviance(mean) / deviance(np.full_like(mean, endog.mean()))


def outcome(sample: Sample, family: str, eps: float, call: str, seed: int) -> dict[str, float]:
    """What one call keeps, shows with |z| above 3, and explains."""
    domain = {**dict.fromkeys(NAMES, (-4, 4)), "y": (0, 1) if family == "binomial" else (-6, 6)}
    usual, napp.AUTO_FIT = napp.AUTO_FIT, STRENGTHS.get(call, napp.AUTO_FIT)
    options = {"domain": domain, "family": family, "seed": seed, "on_mismatch": "go", **CALLS[call]}
    fit = dp.glm(f"y ~ {' + '.join(NAMES)}", sample.rows, eps, **options)
    napp.AUTO_FIT = usual
    kept = {name for name in NAMES if fit.params[name] != 0}
    tested = "refit" in call or "split" in call
    shown = {name for name in NAMES if fit.has_errors and abs(fit.tvalues[name]) > SHOWN}
    return {
        "kept": len(kept),
        "of them without effect": len(kept - sample.active),
        "active found": len(kept & sample.active) / len(EFFECTS),
        "explained": explained(family, sample.new["y"].to_numpy(), np.asarray(fit.predict(sample.new))),
        "|z| > 3, active": len(shown & sample.active) / len(EFFECTS) if tested else np.nan,
        "|z| > 3, without effect": len(shown - sample.active) if tested else np.nan,
        "noted": finds_fewer(fit),
    }


def table(draws: int = DRAWS, calls: tuple[str, ...] = tuple(CALLS)) -> pd.DataFrame:
    """Every fit, a row each."""
    lines = []
    cells = itertools.product((0.0, 0.5), ("binomial", "gaussian"), ROWS, BUDGETS, range(draws))
    for correlation, family, rows, eps, seed in cells:
        sample = draw(family, rows, correlation, 100 + seed)
        for call in calls:
            cell = {"call": call, "correlation": correlation, "family": family, "rows": rows, "eps": eps, "draw": seed}
            lines.append({**cell, **outcome(sample, family, eps, call, seed)})
    return pd.DataFrame(lines)


def noted(lines: pd.DataFrame) -> pd.DataFrame:
    """Refits beside screening, by whether the summary of the refit says that screening finds weaker effects."""
    cell = ["correlation", "family", "rows", "eps", "draw"]
    refit, screen = (
        lines[lines["call"] == call].set_index(cell) for call in ("lasso, refit, split", "screen=7, split")
    )
    found = "|z| > 3, active"
    pairs = refit[["noted"]].assign(refit=refit[found], screen=screen[found])
    pairs["screen more"], pairs["refit more"] = pairs["screen"] > pairs["refit"], pairs["screen"] < pairs["refit"]
    return pairs.groupby("noted").mean().assign(fits=pairs.groupby("noted").size())


def main() -> None:
    logging.getLogger("dpstats").setLevel(logging.ERROR)
    warnings.simplefilter("ignore", RuntimeWarning)
    lines = table(int(sys.argv[1]) if len(sys.argv) > 1 else DRAWS)
    figures = list(lines.columns[6:-1])
    for by in (["correlation", "call"], ["call"], ["family", "call"], ["rows", "call"], ["eps", "call"]):
        print(f"\n{lines.groupby(by, sort=False)[figures].mean().round(3).to_string()}")
    print(f"\n{noted(lines).round(3).to_string()}")


if __name__ == "__main__":
    main()
