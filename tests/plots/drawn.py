"""What the tests of pictures draw: a Domain, fits, and results with facts replaced."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd

import dpstats as dp

DOMAIN = {"y": (-8, 8), "b": ["no", "yes"], "x": (-2, 2), "z": (0, 10), "group": ["a", "b", "c$_$"], "count": (0, 30)}


def fitted(rows: pd.DataFrame, formula: str = "b ~ x + z + group", **arguments: Any) -> dp.GLMResults:
    options = {"domain": DOMAIN, "family": "binomial", "eps": 4.0, "seed": 3, **arguments}
    return dp.glm(formula, rows, **options)


def changed(result: dp.GLMResults, **facts: Any) -> Any:
    """What pictures ask of a result, with some of the facts replaced."""
    names = ("plan", "predicting_design", "guarantee", "in_model", "ignores_selection", "has_errors")
    names += ("_family", "_design", "params", "bse", "noise_at_most", "variance_shares", "uncertainty")
    return SimpleNamespace(**{name: getattr(result, name, None) for name in names} | facts)


def without_ends(result: dp.GLMResults, *names: str) -> Any:
    """The result as if some coefficients were not identified."""

    def uncertainty(alpha: float = 0.05) -> pd.DataFrame:
        table = result.uncertainty(alpha)
        table.loc[list(names), ["std_error", "low", "high"]] = [np.inf, -np.inf, np.inf]
        return table

    errors = result.bse
    errors[list(names)] = np.inf
    return changed(result, uncertainty=uncertainty, bse=errors)


def predicting(fit: dp.GLMResults, lost: slice) -> Any:
    """The result with some predictions not identified."""

    def get_prediction(frame: pd.DataFrame, alpha: float = 0.05) -> Any:
        found = fit.get_prediction(frame, alpha)
        errors, ends = found.se_mean.copy(), found.intervals.copy()
        errors[lost], ends[lost] = np.inf, [0.0, 1.0]
        return replace(found, se_mean=errors, intervals=ends)

    return changed(fit, get_prediction=get_prediction)
