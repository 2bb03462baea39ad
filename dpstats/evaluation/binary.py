"""Models of a 0/1 response: one histogram of (predicted log odds, response) serves every metric."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from dpstats.evaluation.histograms import (
    MARGIN,
    UNKNOWN,
    Array,
    CellwiseLinear,
    Estimate,
    Histogram,
    Indices,
    Influence,
    ReleasedHistogram,
    decision_grid,
    display_bins,
    estimate,
    mean,
    monotone,
    probability_grid,
    scaled,
)
from dpstats.evaluation.result import FEW_ROWS_NOTE, PRINTED_NAMES, Tables, bin_entry, bin_table, combine_influences
from dpstats.families import Family
from dpstats.families.binomial import Binomial
from dpstats.frames import WideFrame

PROBABILITY_METRICS = ("accuracy", "brier", "log_score", "deviance", "calibration", "roc", "residuals")
DECISION_METRICS = ("accuracy", "roc")

CURVES = {"calibration", "roc", "residuals"}
SMOOTH = {"brier", "log_score", "deviance", "calibration", "residuals"}


@dataclass(frozen=True)
class BinaryModel:
    """The histogram to release of a model of a 0/1 response, and the metrics that follow from it."""

    family: Family
    # low, high: The range of linear predictors.
    low: float
    high: float
    metrics: Collection[str]
    bins: int
    levels: tuple[Any, ...] = (0, 1)  # as the response is declared

    @property
    def probabilities(self) -> bool:
        """Whether the model predicts probabilities; a support vector machine decides only."""
        return isinstance(self.family, Binomial)

    def blocks(self) -> tuple[Histogram, ...]:
        """One histogram, as fine as the metrics need: every further cell adds noise to what is summed over cells."""
        metrics = set(self.metrics)
        if not self.probabilities:
            return (Histogram(decision_grid(40 if "roc" in metrics else 2, self.low, self.high), groups=2),)
        cells = 40 if metrics & CURVES else 16 if metrics & SMOOTH else 2
        place = {40: 0.125, 16: 0.1875, 2: 0.0}[cells] if metrics & SMOOTH else 0.0
        return (Histogram(probability_grid(cells, self.low, self.high), groups=2, place=place),)

    def locate(self, linear: Array, endog: Array) -> list[tuple[Indices, Array]]:
        """Group and value of each row for each block."""
        return [((endog >= 0.5).astype(np.intp), linear)]

    def tables(self, measured: Sequence[ReleasedHistogram]) -> Tables:
        """Every figure and table asked for."""
        (block,) = measured
        tables = Tables.of(block)
        enough = block.enough(block.counts)
        for name, (figure, high) in _FIGURES.items():
            if name in self.metrics:
                low = -math.inf if name == "deviance" else 0.0
                tables.metrics[PRINTED_NAMES.get(name, name)] = (figure(block) if enough else UNKNOWN, low, high)
        if not enough:
            tables.notes.append(FEW_ROWS_NOTE)
            return tables
        if "accuracy" in self.metrics:
            tables.confusion = _confusion(block, self.levels)
        if "roc" in self.metrics:
            tables.roc = _roc(block, self.probabilities)
        if {"calibration", "residuals"} & set(self.metrics):
            table = _calibration(block, self.bins)
            tables.calibration = table if "calibration" in self.metrics else None
            tables.residuals = _residuals(block, self.bins) if "residuals" in self.metrics else None
        return tables


def _form(block: ReleasedHistogram, function: Callable[[Array, int], Array]) -> CellwiseLinear:
    """A function of (log odds, response) by lines in cells."""
    lines = [block.grid.line(lambda linear, y=y: function(linear, y)) for y in (0, 1)]  # type: ignore[misc]
    return CellwiseLinear(*(np.stack([line[part] for line in lines]) for part in range(3)))


def _flat(block: ReleasedHistogram, values: Array) -> CellwiseLinear:
    """A function that is constant in each cell, shape (2, cells)."""
    return CellwiseLinear(values, np.zeros(values.shape), np.zeros(values.shape))


def _log_loss(linear: Array, y: int) -> Array:
    return np.logaddexp(0.0, linear) - y * linear


def _chance(linear: Array) -> Array:
    return 1 / (1 + np.exp(-linear))


def _figure(block: ReleasedHistogram, form: CellwiseLinear) -> Estimate:
    value, influence, off = mean(block, form)
    return estimate(value, [influence], off)


def _accuracy(block: ReleasedHistogram) -> Estimate:
    decided = (block.grid.middle > 0).astype(np.float64)
    return _figure(block, _flat(block, np.stack([1 - decided, decided])))


def _deviance(block: ReleasedHistogram) -> Estimate:
    """1 - log score / log score of the rows' own frequency."""
    loss, by_loss, off = mean(block, _form(block, _log_loss))
    ones = np.zeros(block.counts.shape)
    ones[1] = 1.0
    if not all(block.enough(block.counts[y]) for y in (0, 1)):
        return UNKNOWN
    share, by_share, _ = mean(block, _flat(block, ones))
    entropy = -share * math.log(share) - (1 - share) * math.log1p(-share)
    slope = math.log1p(-share) - math.log(share)
    influences = [scaled(by_loss, -1 / entropy), scaled(by_share, loss * slope / entropy**2)]
    return estimate(1 - loss / entropy, combine_influences(influences), off / entropy)


def _area(block: ReleasedHistogram) -> Estimate:
    """The chance that a row with response 1 has the greater prediction, rows of one cell counting half."""
    if not all(block.enough(block.counts[y]) for y in (0, 1)):
        return UNKNOWN
    area, by_count = _area_and_slopes(block)
    # As in `class_error`: rows of one cell are ordered too, and cells joined by twos tell how much that may matter.
    changes = [abs(_area_and_slopes(block.joined(first))[0] - area) for first in (0, 1)]
    figure = estimate(area, [Influence(block, by_count, np.zeros(by_count.shape))])
    return figure._replace(class_error=max(changes) / 3)


def _area_and_slopes(block: ReleasedHistogram) -> tuple[float, Array]:
    """The area by the rows in cells, and its derivatives by their numbers."""
    zeros, ones = block.counts
    below = (np.cumsum(zeros) - zeros / 2) / zeros.sum()
    above = (ones.sum() - np.cumsum(ones) + ones / 2) / ones.sum()
    area = float(ones @ below / ones.sum())
    return area, np.stack([(above - area) / zeros.sum(), (below - area) / ones.sum()])


_FIGURES: dict[str, tuple[Callable[[ReleasedHistogram], Estimate], float]] = {
    "accuracy": (_accuracy, 1.0),
    "brier": (lambda block: _figure(block, _form(block, lambda linear, y: (_chance(linear) - y) ** 2)), 1.0),
    "log_score": (lambda block: _figure(block, _form(block, _log_loss)), math.log1p(math.exp(MARGIN))),
    "deviance": (_deviance, 1.0),
    "roc": (_area, 1.0),
}


def _confusion(block: ReleasedHistogram, levels: Sequence[Any]) -> pd.DataFrame:
    """Numbers of rows by response and decision, with the standard deviation of their noise."""
    decided = block.grid.middle > 0
    entries = []
    for y, decision in itertools.product((0, 1), (0, 1)):
        chosen = decided == bool(decision)
        rows = max(float(block.counts[y, chosen].sum()), 0.0)
        error = math.sqrt(block.count_variance * int(chosen.sum()))
        entries.append((levels[y], levels[decision], rows, error))
    return WideFrame(entries, columns=["response", "decision", "rows", "noise_se"])


def _roc(block: ReleasedHistogram, probabilities: bool) -> pd.DataFrame:
    """The curve at the ends of cells, from no row classified as 1 to all; its rates never fall."""
    ends = block.grid.ends[1:-1][::-1]
    thresholds = np.concatenate([[np.inf], 1 / (1 + np.exp(-ends)) if probabilities else ends, [-np.inf]])
    table: dict[str, Array] = {"threshold": thresholds}
    for y, name in ((0, "false_positive"), (1, "true_positive")):
        counts = block.counts[y][::-1]
        if not block.enough(counts):
            table |= dict.fromkeys((name, f"{name}_noise_se", f"{name}_sampling_se"), np.full(len(thresholds), np.nan))
            continue
        total = float(counts.sum())
        rate = np.concatenate([[0.0], np.cumsum(counts) / total])
        inside = np.tri(len(counts) + 1, len(counts), k=-1)
        influences = (inside - rate[:, None]) / total
        table[name] = monotone(rate)
        table[f"{name}_noise_se"] = np.sqrt(block.count_variance * (influences**2).sum(axis=1))
        sampling = block.score_ratio * np.clip(rate * (1 - rate), 0.0, None) / total
        table[f"{name}_sampling_se"] = np.sqrt(sampling)
    return WideFrame(table)


def _bins(block: ReleasedHistogram, bins: int) -> list[Array]:
    """Masks, shape (2, cells), of the bins of predictions."""
    counts = block.counts.sum(axis=0)
    labels = display_bins(counts, bins, math.sqrt(2 * block.count_variance))
    return [np.tile((labels == label).astype(np.float64), (2, 1)) for label in range(labels[-1] + 1)]


def _calibration(block: ReleasedHistogram, bins: int) -> pd.DataFrame:
    """Predicted and observed frequency by bins of the prediction."""
    ones = _flat(block, np.repeat([[0.0], [1.0]], block.grid.size, axis=1))
    return _by_prediction(block, bins, ones, ("predicted", "observed"), 0.0)


def _residuals(block: ReleasedHistogram, bins: int) -> pd.DataFrame:
    """Mean residual, response less prediction, by bins of the prediction."""
    residual = _form(block, lambda linear, y: y - _chance(linear))
    return _by_prediction(block, bins, residual, ("fitted", "residual"), -1.0)


def _by_prediction(
    block: ReleasedHistogram, bins: int, form: CellwiseLinear, names: tuple[str, str], least: float
) -> pd.DataFrame:
    """The mean of a function within [least, 1] by bins of the prediction; `names` are of prediction and mean."""
    entries = []
    chance = _form(block, lambda linear, _: _chance(linear))
    for chosen in _bins(block, bins):
        predicted, _, _ = mean(block, chance, chosen)
        ends = _chance(block.grid.ends)
        (joined,) = np.nonzero(chosen.any(axis=0))
        predicted = float(np.clip(predicted, ends[joined[0]], ends[joined[-1] + 1]))  # public ends: noise ignores them
        value, influence, _ = mean(block, form, chosen)
        figure, rows = estimate(value, [influence]), float((chosen * block.counts).sum())
        values = dict(zip(names, (predicted, min(max(value, least), 1.0)), strict=True))
        entries.append(bin_entry(rows, figure, figure.interval(least, 1.0), **values))
    return bin_table(entries)
