"""Does the cap on residuals bias slopes of many rows? ``python -m benchmarks.defaults.many_rows [fits]``.

Simulated responses with long tails. Each line has, of the slopes of default fits in their standard errors: how far they
are from ordinary least squares of the same rows, and the coverage of 95 % intervals that follows from it and from the
spread of the fits; then the median standard error, and the cap in standard deviations of the residuals. Every cell is
run before, under the cap of the response's interval, and now. Nothing real is looked at.
"""

from __future__ import annotations

import sys
from unittest import mock

import numpy as np
import pandas as pd
from scipy.special import ndtr

import dpstats as dp
from dpstats.privacy import residuals

KINDS = "lognormal .8", "lognormal .6", "gamma .5", "t 3", "normal", "four columns"
DOMAIN = {"x": bool, "rare": bool, "w": (0, 10), "z": (-4, 4)}
BEFORE = {"SMALL_NOISE": 1e-9, "TAIL_ROWS": 1e9}


def sample(kind: str, rows: int, random: np.random.Generator) -> tuple[pd.DataFrame, tuple[float, float]]:
    """Columns and response, and the range of the latter."""
    x, normal = random.integers(0, 2, rows), random.standard_normal(rows)
    low, high, columns = 0.0, 20.0, {"x": x}
    if kind == "four columns":
        columns = {"rare": random.random(rows) < 0.05, "x": random.random(rows) < 0.3}
        columns |= {"w": 10 * random.random(rows), "z": random.standard_normal(rows).clip(-4, 4)}
        y = np.exp(
            0.15 * columns["rare"] + 0.1 * columns["x"] + 0.03 * columns["w"] + 0.1 * columns["z"] + 0.8 * normal
        )
    elif kind == "gamma .5":
        high, y = 25.0, random.gamma(0.5, 2.0, rows) * np.exp(0.2 * x)
    elif kind == "lognormal .6":
        high, y = 12.0, np.exp(0.6 * normal + 0.3 * x)
    elif kind == "lognormal .8":
        y = np.exp(0.8 * normal + 0.15 * x)
    else:
        high = 6.0 if kind == "normal" else 30.0
        low, y = -high, 0.2 * x + (normal if kind == "normal" else random.standard_t(3, rows))
    return pd.DataFrame({**columns, "y": y.clip(low, high)}), (low, high)


def cell(kind: str, rows: int, eps: float, fits: int) -> str:
    off, errors, sampling, caps = [], [], [], []
    for seed in range(fits):
        data, ends = sample(kind, rows, np.random.default_rng(seed))
        exog = np.column_stack([np.ones(rows), data.drop(columns="y")]).astype(float)
        inverse = np.linalg.inv(exog.T @ exog)
        coef = inverse @ (exog.T @ data["y"])
        sd = float(np.std(data["y"] - exog @ coef))
        names = list(data.columns[:-1])
        fit = dp.ols(f"y ~ {' + '.join(names)}", data, eps, domain={**{one: DOMAIN[one] for one in names}, "y": ends})
        se = fit.bse.to_numpy()[1:]
        off.append((fit.params.to_numpy() - coef)[1:] / se)
        errors.append(se)
        sampling.append(sd * np.sqrt(np.diag(inverse))[1:] / se)
        caps.append(fit.plan.residuals.centre.cap * (ends[1] - ends[0]) / 2 / sd)
    bias, spread = np.mean(off, axis=0), np.sqrt(np.var(off, axis=0) + np.mean(sampling, axis=0) ** 2)
    covered = ndtr((1.96 - bias) / spread) - ndtr((-1.96 - bias) / spread)
    shown = (np.array2string(one, precision=4) for one in (bias, covered, np.median(errors, axis=0)))
    return f"{' '.join(shown)} cap {np.median(caps):.1f}"


if __name__ == "__main__":
    most = int(sys.argv[1]) if len(sys.argv) > 1 else 20
    for kind in KINDS:
        for rows in (30_000, 300_000, 1_000_000, 3_000_000):
            for eps in (0.3, 1.0):
                fits = max(3, int(most * min(1.0, 300_000 / rows)))
                with mock.patch.multiple(residuals, **BEFORE):
                    print(kind, rows, eps, "before", cell(kind, rows, eps, fits), flush=True)
                print(kind, rows, eps, "now", cell(kind, rows, eps, fits), flush=True)
