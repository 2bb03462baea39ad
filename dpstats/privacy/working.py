"""What a fit may buy of its response within a declared range: where most values lie, a reach of counts, their mean.

Each is pure eps-DP for its own share of the budget. Proofs and the choice of scores: docs/proofs/purchases.
"""

from __future__ import annotations

import operator
from collections.abc import Iterable, Sequence
from functools import partial

import numpy as np
from numpy.typing import NDArray

from dpstats.privacy.guarantee import Adjacency
from dpstats.privacy.lattice import noisy_integers
from dpstats.privacy.randomness import RandomSource
from dpstats.privacy.ranges import (
    LARGEST_PENALTY,
    Array,
    Values,
    cells_between,
    finite_rows,
    interval_scores,
    noise_scale,
    noisy_argmax,
)
from dpstats.rows import Rows, as_rows

INTERVAL_PRICE = 2.5
"""An interval twice as wide must hold this many more rows, in units of the noise scale, or of one row if that is more.
Settled by the experiment in docs/proofs/purchases, as is `REACH_PRICE`."""

REACH_PRICE = 2.5
"""A reach twice as far must leave so many rows fewer above it, in the same units."""

MEAN_UNITS = 1024
"""A count enters the mean as a whole number of such parts of the reach."""


def buy_interval(
    values: Values, low: float, high: float, *, eps: float, adjacency: Adjacency, random: RandomSource
) -> tuple[float, float]:
    """Choose an interval within [low, high] that holds most of the values, with eps-differential privacy.

    Parameters
    ----------
    values : ndarray, shape (rows,), or Rows or sequence of such blocks
        Values outside [low, high] are moved to its ends; those that are not finite count for nothing.
    low, high : float
        Public.
    eps : float
        Spent whatever the values are.
    adjacency : {"add_remove", "replace_one"}
    random : RandomSource

    Returns
    -------
    low, high : float
        One of `dpstats.privacy.ranges.cells_between`: at least 1/32 of the declared width.
    """
    blocks = finite_rows(values).each(partial(np.clip, a_min=low, a_max=high))
    ends = cells_between(low, high)
    scale = noise_scale(eps, adjacency)
    price = INTERVAL_PRICE * max(scale, 1.0)
    scores = interval_scores(blocks, ends, price * np.log2((ends[:, 1] - ends[:, 0]) / (high - low)))
    first, last = ends[noisy_argmax(scores, scale, adjacency, random)]
    return float(first), float(last)


def reaches(high: float) -> Array:
    """Candidate greatest counts, increasing to `high`: four whole numbers a doubling, at least 1."""
    steps = np.floor(high * 2.0 ** (-np.arange(400) / 4))
    return np.unique(np.append(steps[(steps >= 1) & (steps < high)], high))


def reach_scores(blocks: Rows[Array] | Sequence[Array], candidates: Array, price: float) -> NDArray[np.int64]:
    """Minus the rows above each candidate, less `price` for each doubling of it; shape (k,)."""
    above = as_rows(blocks).total(partial(_above, candidates), operator.add)
    cost = np.minimum(price * np.log2(candidates / candidates[0]), LARGEST_PENALTY)
    return -above - np.rint(cost).astype(np.int64)


def _above(candidates: Array, blocks: Iterable[Array]) -> NDArray[np.int64]:
    """How many of some values lie above each candidate."""
    above = np.zeros(len(candidates), dtype=np.int64)
    for block in blocks:
        above += len(block) - np.searchsorted(np.sort(block), candidates, side="right")
    return above


def buy_reach(values: Values, high: float, *, eps: float, random: RandomSource) -> float:
    """Choose a count that few of the values exceed, at most `high`, with eps-differential privacy for both adjacencies.

    Parameters
    ----------
    values : ndarray, shape (rows,), or Rows or sequence of such blocks
        Values that are not finite count for nothing.
    high : float
        Public.
    eps : float
        Spent whatever the values are.
    random : RandomSource

    Returns
    -------
    float
        One of `reaches`.
    """
    candidates = reaches(high)
    # A row that is replaced moves all scores in one direction too, so that both notions need the same noise.
    scale = noise_scale(eps, "add_remove")
    scores = reach_scores(finite_rows(values), candidates, REACH_PRICE * max(scale, 1.0))
    return float(candidates[noisy_argmax(scores, scale, "add_remove", random)])


def mean_parts(blocks: Rows[Array] | Sequence[Array], most: float) -> NDArray[np.int64]:
    """The sum of the values, clipped to [0, most], and that of what they lack of `most`; in parts of `most`."""
    return as_rows(blocks).total(partial(_mean_parts, most), operator.add)


def _mean_parts(most: float, blocks: Iterable[Array]) -> NDArray[np.int64]:
    total = np.zeros(2, dtype=np.int64)
    for block in blocks:
        parts = np.rint(np.clip(block, 0, most) / most * MEAN_UNITS).astype(np.int64)
        total += np.array([parts.sum(), (MEAN_UNITS - parts).sum()])
    return total


def buy_mean(values: Values, most: float, *, eps: float, adjacency: Adjacency, random: RandomSource) -> float:
    """The mean of counts clipped to [0, most], with eps-differential privacy.

    Parameters
    ----------
    values : ndarray, shape (rows,), or Rows or sequence of such blocks
    most : float
        Public, positive.
    eps : float
        Spent whatever the values are.
    adjacency : {"add_remove", "replace_one"}
    random : RandomSource

    Returns
    -------
    float
        Strictly between 0 and `most`.
    """
    sensitivity = MEAN_UNITS * (1 if adjacency == "add_remove" else 2)
    held, lacked = _seen(mean_parts(finite_rows(values), most), sensitivity, eps, random)
    return float(most * (held / (held + lacked)))


def weighted_mean_parts(most: float, blocks: Iterable[tuple[Array, Array]]) -> NDArray[np.int64]:
    """As `mean_parts` for some rows of (values, weights), both sums times the weights; a row adds one unit at most."""
    total = np.zeros(2, dtype=np.int64)
    for values, weights in blocks:
        whole = np.rint(np.clip(weights, 0, 1) * MEAN_UNITS).astype(np.int64)
        held = np.rint(np.clip(values, 0, most) / most * whole).astype(np.int64)
        total += np.array([held.sum(), (whole - held).sum()])
    return total


def rate_parts(most: float, blocks: Iterable[tuple[Array, Array, Array]]) -> NDArray[np.int64]:
    """The sums of w y / most and of w t for some rows of (values y, weights w, exposures t), in `MEAN_UNITS`."""
    total = np.zeros(2, dtype=np.int64)
    for values, weights, exposures in blocks:
        parts = np.clip(weights, 0, 1) * MEAN_UNITS
        events, time = np.clip(values, 0, most) / most, np.clip(exposures, 0, 1)
        total += np.array([np.rint(parts * of).astype(np.int64).sum() for of in (events, time)])
    return total


def buy_weighted_mean(
    rows: Rows[tuple[Array, Array]], most: float, *, eps: float, adjacency: Adjacency, random: RandomSource
) -> float:
    """As `buy_mean`, of rows (values, weights) with weights within [0, 1]."""
    sensitivity = MEAN_UNITS * (1 if adjacency == "add_remove" else 2)
    held, lacked = _seen(rows.total(partial(weighted_mean_parts, most), operator.add), sensitivity, eps, random)
    return float(most * (held / (held + lacked)))


def buy_rate(rows: Rows[tuple[Array, Array, Array]], most: float, *, eps: float, random: RandomSource) -> float:
    """The sum of counts clipped to [0, most] over that of exposures, with eps-differential privacy.

    Parameters
    ----------
    rows : Rows of (values, weights, exposures)
        Weights and exposures within [0, 1].
    most : float
        Public, positive.
    eps : float
        Both sums move by one unit at most, whether a row is added, removed or replaced.
    random : RandomSource

    Returns
    -------
    float
        Positive.
    """
    events, time = _seen(rows.total(partial(rate_parts, most), operator.add), 2 * MEAN_UNITS, eps, random)
    return float(most * events / time)


def _seen(total: NDArray[np.int64], sensitivity: int, eps: float, random: RandomSource) -> Array:
    """Sums with their noise; what cannot be told from it is taken for one standard deviation (post-processing)."""
    deviation = np.sqrt(2) * sensitivity / eps
    return np.maximum(noisy_integers(total, sensitivity, eps, random), deviation)
