"""Intervals where ranges are 20 to 100 times the spread, truth known: `python -m benchmarks.inference.wide_ranges`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd

import dpstats as dp

ROWS, EPS, RUNS = 10_000, 1.0, 100
SLOPES = {"gaussian": {"x": 0.5, "z": 0.3}, "binomial": {"x": 0.4, "z": 0.5}}
LOSSES = {"gaussian": dp.families.Gaussian(residual_cap=5.0), "binomial": dp.families.Binomial()}
RESPONSES: dict[str, Any] = {"gaussian": (-10, 20), "binomial": bool}


def made_up(family: str, seed: int) -> pd.DataFrame:
    """A normal and an exponential column, and a response of known slopes."""
    random = np.random.default_rng(seed)
    x, z = random.normal(50, 2, ROWS), random.exponential(1, ROWS)
    linear = SLOPES[family]["x"] * (x - 50) + SLOPES[family]["z"] * (z - 1)
    if family == "binomial":
        return pd.DataFrame({"x": x, "z": z, "y": (random.uniform(size=ROWS) < 1 / (1 + np.exp(-linear))).astype(int)})
    return pd.DataFrame({"x": x, "z": z, "y": linear + random.normal(0, 1, ROWS)})


def main() -> None:
    """Print the share of coefficients with an interval, coverage and width of those shown, and the rows lost."""
    for family, slopes in SLOPES.items():
        wide = dp.Domain(x=(0, 200), z=(0, 100), y=RESPONSES[family])
        settings: dict[str, Mapping[str, Any]] = {
            "declared": {"domain": wide, "ranges": "declared"},
            "default": {"domain": wide, "inference": "auto"},
            'ranges="bought"': {"domain": wide, "ranges": "bought"},
            "typical": {"domain": wide.with_(x=dp.Range(0, 200, typical=(50, 2)), z=dp.Range(0, 100, typical=(1, 1)))},
            "right ranges": {"domain": wide.with_(x=dp.Range(42, 58, "drop"), z=dp.Range(0, 6, "drop"))},
        }
        for name, arguments in settings.items():
            shown, held, widths, lost = [], [], [], []
            for seed in range(RUNS):
                rows = made_up(family, seed)
                fit = dp.glm("y ~ x + z", rows, EPS, family=LOSSES[family], **{"inference": True, **arguments})
                shown.append(float(np.isfinite(fit.bse).mean()))
                for column, truth in slopes.items():
                    low, high = fit.conf_int().loc[column]
                    if np.isfinite(fit.bse[column]):
                        held.append(low <= truth <= high)
                        widths.append(high - low)
                known = [fit.plan.design.domain[column].holds(rows[column].to_numpy()) for column in slopes]
                lost.append(1 - float(np.mean(np.logical_and(*known))) if name != "declared" else 0.0)
            cells = (f"{np.mean(shown):.2f} shown", f"{np.mean(held):.3f} cover", f"width {np.median(widths):.3f}")
            print(family, name, *cells, f"{np.mean(lost):.3f} lost", sep=" | ", flush=True)


if __name__ == "__main__":
    main()
