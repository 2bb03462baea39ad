"""What an evaluation derives from its released histograms: figures with errors, and tables by bins."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import pandas as pd

from dpstats.evaluation.blocks import UNKNOWN, Estimate, Pull
from dpstats.frames import Printed

METRIC_COLUMNS = ["estimate", "std_err", "noise_se", "sampling_se", "low", "high", "cells"]


@dataclass
class Tables:
    """Figures and tables of one evaluation.

    Attributes
    ----------
    metrics : dict
        By name: the estimate and its possible range.
    rows : Estimate
        The number of rows evaluated.
    calibration, roc, residuals, confusion : DataFrame or None
    notes : list of str
    """

    rows: Estimate
    metrics: dict[str, tuple[Estimate, float, float]] = field(default_factory=dict)
    calibration: pd.DataFrame | None = None
    roc: pd.DataFrame | None = None
    residuals: pd.DataFrame | None = None
    confusion: pd.DataFrame | None = None
    notes: list[str] = field(default_factory=list)

    def frame(self) -> pd.DataFrame:
        """The figures, one a row, held to their possible ranges."""
        found = {name: figure_row(*entry) for name, entry in self.metrics.items()}
        return Printed(pd.DataFrame.from_dict(found, orient="index", columns=METRIC_COLUMNS).rename_axis("metric"))


def figure_row(figure: Estimate, low: float, high: float) -> list[float]:
    """A figure as a row of the table of metrics."""
    if math.isnan(figure.value):
        return [math.nan] * len(METRIC_COLUMNS)
    ends = figure.interval(low, high)
    held = min(max(figure.value, low), high)
    return [held, figure.std_err, figure.noise_se, figure.sampling_se, *ends, figure.cells]


def bin_table(entries: Sequence[dict[str, Any]]) -> pd.DataFrame:
    """One row a bin, numbered from 1."""
    return Printed(entries, index=pd.RangeIndex(1, len(entries) + 1, name="bin"))


def joined(pulls: Sequence[Pull]) -> list[Pull]:
    """One pull a block: what moves with the same numbers is added up before it is squared."""
    found: dict[int, Pull] = {}
    for pull in pulls:
        key = id(pull.block)
        if key in found:
            found[key] = Pull(pull.block, found[key].counts + pull.counts, found[key].places + pull.places)
        else:
            found[key] = pull
    return list(found.values())


__all__ = ["METRIC_COLUMNS", "UNKNOWN", "Tables", "bin_table", "figure_row", "joined"]
