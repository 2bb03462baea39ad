"""Coverage of intervals beside a bought dispersion, on simulated counts and on visits of the RAND experiment.

`python -m benchmarks.inference.negative_binomial [RUNS]`: a line a cell. Visits are drawn with replacement from the
20,190 person-years that statsmodels ships; the truth is the fit of statsmodels to all of them, at the alpha and the
greatest count of the run. `width` is the median standard error of a slope over that of a fit that knows alpha.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
import statsmodels.api as sm
import statsmodels.formula.api as smf

import dpstats as dp

SIMULATED = {"x": (0, 1), "z": (-3, 3), "g": ["a", "b", "c"], "y": (0, 100)}
RAND = {"lncoins": (0, 4.6), "idp": (0, 1), "physlm": (0, 1), "disea": (0, 60), "mdvis": (0, 80)}
CELLS = [(5_000, 1.0, 0.5, 1.0), (20_000, 1.0, 0.5, 1.0), (20_000, 0.5, 2.0, 1.0), (50_000, 3.0, 0.5, 2.0)]


def simulated(rows: int, alpha: float, strength: float, random: np.random.Generator) -> pd.DataFrame:
    data = pd.DataFrame({"x": random.uniform(0, 1, rows), "z": random.normal(0, 1, rows).clip(-3, 3)})
    data["g"] = random.choice(list("abc"), rows, p=[0.5, 0.3, 0.2])
    mean = np.exp(0.2 + strength * (0.8 * data["x"] + 0.3 * data["z"] + 0.4 * (data["g"] == "b")))
    return data.assign(y=random.negative_binomial(1 / alpha, 1 / (1 + alpha * mean)))


def same(values: pd.Series, fit: dp.GLMResults) -> pd.Series:
    return values


def cell(
    runs: int,
    draw: Callable[[np.random.Generator], pd.DataFrame],
    formula: str,
    domain: dict[str, Any],
    eps: float,
    truth: Callable[[dp.GLMResults], pd.Series],
    known: float | None,
) -> str:
    """Shares covered and shown, median alpha, and the width beside a fit that knows alpha."""
    covered, shown, alphas, errors = [], [], [], []
    for run in range(runs):
        data = draw(np.random.default_rng([7, run]))
        fit = dp.glm(formula, data, eps, family="negative_binomial", domain=domain, seed=run)
        if not fit.has_errors:
            shown.append(0.0)
            continue
        ends, there = fit.conf_int().to_numpy(), fit.identified.to_numpy()
        value = truth(fit)[fit.params.index].to_numpy()
        covered += ((ends[:, 0] <= value) & (value <= ends[:, 1]))[there].tolist()
        shown.append(float(there.mean()))
        alphas.append(fit.family.alpha)
        if known is not None:
            family = dp.families.NegativeBinomial(known, fit.family.y_max)
            knowing = dp.glm(formula, data, eps, family=family, domain=domain, seed=run)
            errors.append(fit.bse.iloc[-1] / knowing.bse.iloc[-1] if knowing.has_errors else np.nan)
    width = f"{np.nanmedian(errors):.2f}" if errors else "-"
    return f"covered {np.mean(covered):.3f} shown {np.mean(shown):.2f} alpha {np.median(alphas):.2f} width {width}"


def main(runs: int) -> None:
    for rows, eps, alpha, strength in CELLS:
        values = {"Intercept": 0.2, "g[T.b]": 0.4 * strength, "g[T.c]": 0.0, "x": 0.8 * strength, "z": 0.3 * strength}
        found = cell(
            runs,
            partial(simulated, rows, alpha, strength),
            "y ~ x + z + g",
            SIMULATED,
            eps,
            partial(same, pd.Series(values)),
            alpha,
        )
        print(f"simulated {rows:,} rows, eps {eps:g}, alpha {alpha:g}, slopes x {strength:g}: {found}", flush=True)
    visits = sm.datasets.randhie.load_pandas().data
    visits["idp"], visits["physlm"] = (visits[name].round().astype(int) for name in ("idp", "physlm"))
    formula, fitted = "mdvis ~ lncoins + idp + physlm + disea", {}

    def whole(fit: dp.GLMResults) -> pd.Series:
        key = fit.family.alpha, fit.family.y_max
        if key not in fitted:
            family = sm.families.NegativeBinomial(alpha=key[0])
            capped = visits.assign(mdvis=np.minimum(visits["mdvis"], key[1]))
            fitted[key] = smf.glm(formula, capped, family=family).fit().params
        return fitted[key]

    drawn = partial(visits.sample, 20_000, replace=True)
    for eps in (1.0, 3.0):
        found = cell(runs, lambda random: drawn(random_state=random), formula, RAND, eps, whole, None)
        print(f"RAND 20,000 rows, eps {eps:g}: {found}", flush=True)


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 100)
