"""Models of ordered levels: one histogram of (predicted place on the scale, level) serves every metric."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import optimize, special

from dpstats.evaluation.histograms import (
    MARGIN,
    UNKNOWN,
    Array,
    CellwiseLinear,
    Estimate,
    Grid,
    Histogram,
    Indices,
    Influence,
    ReleasedHistogram,
    estimate,
    mean,
    scaled,
)
from dpstats.evaluation.result import FEW_ROWS_NOTE, PRINTED_NAMES, Tables, combine_influences

LEVEL_METRICS = ("accuracy", "mae", "rps", "log_score", "deviance")

CELLS, PLACE = 24, 0.1875
"""Of the histogram. Each level has the same cells, and each cell adds noise to what is summed over them."""

FINE = 512
"""Points, of the whole scale and about each cut-point, at which chances are looked at to divide it into cells."""


@dataclass(frozen=True, eq=False)
class LevelModel:
    """What to release of a model of ordered levels, and what to make of it."""

    points: Array  # on the scale of what rows are located by, in order, shape (K - 1,)
    # low, high: Between which places on the scale lie.
    low: float
    high: float
    metrics: Collection[str]

    def above(self, linear: Array) -> Array:
        """Chances of a level above each cut-point, shape (K - 1, ...)."""
        return np.asarray(special.expit(np.subtract.outer(-self.points, -np.asarray(linear))))

    def chances(self, linear: Array) -> Array:
        """Chances of the levels, shape (K, ...), none below that at which log odds of two levels are held."""
        above = self.above(linear)
        ones, zeros = np.ones((1, *above.shape[1:])), np.zeros((1, *above.shape[1:]))
        return np.maximum(-np.diff(np.concatenate([ones, above, zeros]), axis=0), math.exp(-MARGIN))

    def _lead(self, place: float, level: int) -> float:
        """By how much a level is more probable than all others."""
        chances = self.chances(np.array([place]))[:, 0]
        return float(chances[level] - np.delete(chances, level).max())

    def grid(self) -> Grid:
        """Cells in which the chances move about as far; where the most probable level changes is the end of one."""
        low, high = max(self.low, self.points[0] - MARGIN), min(self.high, self.points[-1] + MARGIN)
        if not low < high:  # all rows lie beyond the margin, on one side
            low, high = self.low, self.high
        near = np.add.outer(self.points, np.linspace(-MARGIN, MARGIN, FINE)).ravel()
        fine = np.unique(np.concatenate([np.linspace(low, high, FINE), np.clip(near, low, high)]))
        moved = np.arcsin(np.sqrt(self.above(fine))).sum(axis=0) + np.linspace(0.0, 1e-6, len(fine))
        inner = np.interp(np.linspace(moved[0], moved[-1], CELLS + 1)[1:-1], moved, fine)
        decided, taken = self.chances(fine).argmax(axis=0), np.zeros(len(inner), dtype=bool)
        for at in np.flatnonzero(decided[1:] != decided[:-1]):
            # Where the level that is left loses its lead, to the last digit: rows beside it count for another level.
            change = optimize.brentq(lambda place, at=at: self._lead(place, decided[at]), fine[at], fine[at + 1])
            nearest = np.argmin(np.where(taken, np.inf, np.abs(inner - change)))
            inner[nearest], taken[nearest] = change, True
        return Grid(np.unique(np.concatenate([[low], inner, [high]])))

    def blocks(self) -> tuple[Histogram, ...]:
        """One histogram."""
        smooth = bool({"rps", "log_score", "deviance"} & set(self.metrics))
        return (Histogram(self.grid(), groups=len(self.points) + 1, place=PLACE if smooth else 0.0),)

    def locate(self, linear: Array, endog: Array) -> list[tuple[Indices, Array]]:
        """Group and value of each row for each block."""
        return [(endog.astype(np.intp), linear)]

    def tables(self, measured: Sequence[ReleasedHistogram]) -> Tables:
        """Every figure asked for."""
        (block,) = measured
        tables, cuts = Tables.of(block), len(self.points)
        enough = block.enough(block.counts)
        figures: dict[str, tuple[Callable[[ReleasedHistogram], Estimate], float]] = {
            "accuracy": (self._accuracy, 1.0),
            "mae": (self._distance, float(cuts)),
            "rps": (lambda block: _figure(block, self._form(block, self._ranked)), 1.0),
            "log_score": (lambda block: _figure(block, self._form(block, self._log_loss)), MARGIN),
            "deviance": (self._deviance, 1.0),
        }
        for name, (figure, high) in figures.items():
            if name in self.metrics:
                low = -math.inf if name == "deviance" else 0.0
                tables.metrics[PRINTED_NAMES.get(name, name)] = (figure(block) if enough else UNKNOWN, low, high)
        tables.notes += [] if enough else [FEW_ROWS_NOTE]
        return tables

    def _form(self, block: ReleasedHistogram, function: Callable[[Array, int], Array]) -> CellwiseLinear:
        """A function of (place, level) by lines in cells."""
        levels = range(len(self.points) + 1)
        lines = [block.grid.line(lambda linear, y=y: function(linear, y)) for y in levels]  # type: ignore[misc]
        return CellwiseLinear(*(np.stack([line[part] for line in lines]) for part in range(3)))

    def _log_loss(self, linear: Array, y: int) -> Array:
        return np.asarray(-np.log(self.chances(linear)[y]))

    def _ranked(self, linear: Array, y: int) -> Array:
        """The mean over cut-points of the squared error of the chance to be above."""
        shape = (-1, *(1,) * np.ndim(linear))
        beyond = (y > np.arange(len(self.points))).reshape(shape)
        return np.asarray(np.mean((self.above(linear) - beyond) ** 2, axis=0))

    def _decided(self, block: ReleasedHistogram) -> NDArray[np.intp]:
        """How far each level is from the one decided for in each cell, shape (K, cells)."""
        decided = self.chances(block.grid.middle).argmax(axis=0)
        return np.abs(np.arange(len(self.points) + 1)[:, None] - decided)

    def _accuracy(self, block: ReleasedHistogram) -> Estimate:
        return _figure(block, _flat((self._decided(block) == 0).astype(np.float64)))

    def _distance(self, block: ReleasedHistogram) -> Estimate:
        return _figure(block, _flat(self._decided(block).astype(np.float64)))

    def _deviance(self, block: ReleasedHistogram) -> Estimate:
        """1 - log score / log score of the rows' own shares of the levels."""
        loss, by_loss, off = mean(block, self._form(block, self._log_loss))
        entropy, slopes = 0.0, []
        for y, counts in enumerate(block.counts):
            if block.enough(counts):
                own = np.zeros(block.counts.shape)
                own[y] = 1.0
                share, by_share, _ = mean(block, _flat(own))
                entropy -= share * math.log(share) if share < 1 else 0.0
                slopes.append((by_share, -math.log(share) - 1))
        if len(slopes) < 2:
            return UNKNOWN
        pulls: list[Influence] = [scaled(by_loss, -1 / entropy)]
        pulls += [scaled(by_share, loss * slope / entropy**2) for by_share, slope in slopes]
        return estimate(1 - loss / entropy, combine_influences(pulls), off / entropy)


def _flat(values: Array) -> CellwiseLinear:
    """A function that is constant in each cell, shape (K, cells)."""
    return CellwiseLinear(values, np.zeros(values.shape), np.zeros(values.shape))


def _figure(block: ReleasedHistogram, form: CellwiseLinear) -> Estimate:
    value, pull, off = mean(block, form)
    return estimate(value, [pull], off)
