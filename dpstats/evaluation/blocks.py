"""Histograms with places, released together, and what follows from them with its errors (docs/proofs/evaluation)."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dpstats.evaluation.grids import Array, Grid, Indices
from dpstats.evaluation.noise import IntegerNoise

STEPS = 1024
"""One row in lattice steps."""

WEIGHTED_STEPS = 2**20
"""The same where rows have weights: small ones must count too."""

NORMAL = 1.959963984540054
"""The 97.5 % point of the normal law."""

ROWS_NEEDED = 5.0
"""Standard deviations of its noise that a number of rows must have before it may stand below a ratio."""

TAIL = 3.0
"""Cells in the tails count as empty until their sum has so many standard deviations."""


@dataclass(frozen=True, eq=False)
class Block:
    """A histogram of one number of a row, in groups of rows, and the rows' places within its cells.

    Attributes
    ----------
    grid : Grid
    groups : int
    place : float
        The weight of a row's place beside that of its presence, from 0 (none) to 1.
    steps : int
        One row of weight 1 in lattice steps.
    score_ratio : float
        The sampling variance of a sum of weights, over the sum: 1 over the greatest number of trials where weights
        are numbers of trials over that, else at most 1.
    """

    grid: Grid
    groups: int = 1
    place: float = 0.0
    steps: int = STEPS
    score_ratio: float = 1.0

    @property
    def place_steps(self) -> int:
        """The greatest size of a place, in steps."""
        return round(self.place * self.steps)

    @property
    def size(self) -> int:
        """Numbers released."""
        return self.grid.size * self.groups * (2 if self.place else 1)

    @property
    def largest(self) -> int:
        """The greatest l1 norm of one row's part, in steps."""
        return self.steps + self.place_steps

    @property
    def square(self) -> int:
        """The greatest squared l2 norm of one row's part, in steps."""
        return self.steps**2 + self.place_steps**2

    def count(self, group: Indices, values: Array, weights: Array | None = None) -> NDArray[np.int64]:
        """Sums over rows, in steps, shape (size,).

        Parameters
        ----------
        group : ndarray of int, shape (rows,)
        values : ndarray, shape (rows,)
        weights : ndarray, shape (rows,), optional
            Within [0, 1]; 1 by default. Parts of rows are rounded towards zero, so that those of one row that is
            divided do not add up to more than the row.
        """
        cells = self.grid.size * self.groups
        cell, place = self.grid.locate(values)
        at = group * self.grid.size + cell
        # Sums of whole numbers below 2**53: exact in floating point, in whatever order.
        if weights is None:
            present = np.bincount(at, minlength=cells).astype(np.int64) * self.steps
        else:
            present = np.bincount(at, weights=np.trunc(self.steps * weights), minlength=cells).astype(np.int64)
        if not self.place:
            return present
        moved = np.rint(self.place_steps * place) if weights is None else np.trunc(self.place_steps * place * weights)
        places = np.bincount(at, weights=moved, minlength=cells)
        return np.concatenate([present, places.astype(np.int64)])

    def measured(self, released: NDArray[np.int64], noise: IntegerNoise) -> Measured:
        """The released numbers of this block, in rows."""
        shape = (self.groups, self.grid.size)
        cells = self.grid.size * self.groups
        variance = noise.variance
        counts = released[:cells].reshape(shape) / self.steps
        places, place_variance = np.zeros(shape), 0.0
        if self.place:
            places = released[cells:].reshape(shape) / self.place_steps
            place_variance = variance / self.place_steps**2
        return Measured(
            self.grid, counts, places, variance / self.steps**2, place_variance, noise.excess, self.score_ratio
        )


@dataclass(frozen=True, eq=False)
class Measured:
    """A released histogram.

    Attributes
    ----------
    grid : Grid
    counts, places : ndarray, shape (groups, cells)
        Noisy numbers of rows, and noisy sums of their places.
    count_variance, place_variance : float
        Of the noise in each.
    excess : float
        Excess kurtosis of the noise.
    score_ratio : float
        As for `Block`.
    """

    grid: Grid
    counts: Array
    places: Array
    count_variance: float
    place_variance: float
    excess: float
    score_ratio: float = 1.0

    @property
    def rows(self) -> float:
        """About how many rows there are."""
        return float(self.counts.sum())

    def enough(self, counts: Array) -> bool:
        """Whether the sum of these counts stands out of its noise."""
        return float(counts.sum()) > max(1.0, ROWS_NEEDED * math.sqrt(self.count_variance * counts.size))

    def total(self, form: Form) -> float:
        """The sum of a function over rows."""
        return float((form.constant * self.counts).sum() + (form.slope * self.places).sum())


class Form(NamedTuple):
    """A function of a row by lines in cells, shapes (groups, cells), and what it is off by at most."""

    constant: Array
    slope: Array
    error: Array


class Pull(NamedTuple):
    """How a figure moves with each released number of a block."""

    block: Measured
    counts: Array
    places: Array


class Estimate(NamedTuple):
    """A figure with its two errors, and the excess kurtosis of the sum of both.

    `cells` bounds what the figure is off by because functions are lines within cells.
    """

    value: float
    noise_se: float
    sampling_se: float
    excess: float = 0.0
    cells: float = 0.0

    @property
    def std_err(self) -> float:
        """Both errors together."""
        return math.hypot(self.noise_se, self.sampling_se)

    def interval(self, low: float, high: float) -> tuple[float, float]:
        """A 95 % interval within the possible range: normal, corrected for the noise's kurtosis (Cornish, Fisher)."""
        reach = (NORMAL + (NORMAL**3 - 3 * NORMAL) * self.excess / 24) * self.std_err
        return max(self.value - reach, low), min(self.value + reach, high)


UNKNOWN = Estimate(math.nan, math.nan, math.nan)


def estimate(value: float, pulls: Iterable[Pull], cells: float = 0.0, hidden: float = 0.0) -> Estimate:
    """A figure's errors by the delta method: of the noise, whose law is known, and of the rows as a sample.

    Blocks are taken to be independent as samples. `hidden` is what rows that the noise may hide in a tail could add to
    the figure; it counts as an error of the noise.
    """
    noise, fourth, sampling = hidden**2, 0.0, 0.0
    for block, by_count, by_place in pulls:
        noise += block.count_variance * float((by_count**2).sum()) + block.place_variance * float((by_place**2).sum())
        fourth += block.count_variance**2 * float((by_count**4).sum())
        fourth += block.place_variance**2 * float((by_place**4).sum())
        # A third is the mean square of a place, all places alike.
        squares = block.counts * (by_count**2 + by_place**2 / 3) + 2 * block.places * by_count * by_place
        sampling += block.score_ratio * max(float(squares.sum()), 0.0)
        excess = block.excess
    spread = (noise + sampling) ** 2
    return Estimate(value, math.sqrt(noise), math.sqrt(sampling), excess * fourth / spread if spread else 0.0, cells)


def mean(block: Measured, form: Form, chosen: Array | None = None) -> tuple[float, Pull, float]:
    """The mean of a function over the rows of some cells, how it moves, and a bound on the error of its lines.

    Parameters
    ----------
    chosen : ndarray, shape (groups, cells), optional
        1 for the cells whose rows count, else 0; all of them by default.
    """
    inside = np.ones(block.counts.shape) if chosen is None else chosen
    rows = float((inside * block.counts).sum())
    form = Form(*(inside * part for part in form))
    value = block.total(form) / rows
    off = float((form.error * np.maximum(block.counts, 0.0)).sum()) / rows
    return value, Pull(block, (form.constant - inside * value) / rows, form.slope / rows), off


def scaled(pull: Pull, factor: float) -> Pull:
    """How a figure moves that moves `factor` times as much."""
    return Pull(pull.block, factor * pull.counts, factor * pull.places)


def display_bins(counts: Array, bins: int, deviation: float) -> Indices:
    """Neighbouring cells joined into at most `bins` groups of about equal numbers of rows; post-processing.

    Parameters
    ----------
    counts : ndarray, shape (cells,)
    bins : int
    deviation : float
        Standard deviation of the noise in each count. No group has fewer rows than eight of its own.

    Returns
    -------
    ndarray of int, shape (cells,)
        Non-decreasing from 0.
    """
    held = np.maximum(counts, 0.0)
    total = float(held.sum())
    for number in range(bins, 1, -1):
        if total <= 0:
            break
        share = (np.cumsum(held) - held / 2) / total
        labels = np.minimum((number * share).astype(np.intp), number - 1)
        _, labels = np.unique(labels, return_inverse=True)
        labels = labels.reshape(-1).astype(np.intp)
        sums = np.bincount(labels, weights=counts)
        if (sums > 8 * deviation * np.sqrt(np.bincount(labels))).all():
            return labels
    return np.zeros(len(counts), dtype=np.intp)


def reach(counts: Array, deviation: Array | float) -> int:
    """The last cell of an ordered row of them that is not in an empty tail; post-processing.

    Parameters
    ----------
    counts : ndarray, shape (levels,)
        From the middle outwards.
    deviation : float or ndarray, shape (levels,)
        Standard deviations of their noise.
    """
    tails = np.cumsum(counts[::-1])[::-1]
    spread = np.sqrt(np.cumsum((np.ones(len(counts)) * np.square(deviation))[::-1])[::-1])
    full = np.flatnonzero(tails > TAIL * spread)
    return int(full[-1]) if len(full) else 0


def monotone(values: Sequence[float] | Array) -> Array:
    """The nearest non-decreasing sequence in the greatest difference, within [0, 1]; post-processing."""
    array = np.clip(np.asarray(values, dtype=np.float64), 0.0, 1.0)
    above = np.maximum.accumulate(array)
    below = np.minimum.accumulate(array[::-1])[::-1]
    return (above + below) / 2
