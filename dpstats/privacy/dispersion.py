"""The mean and the dispersion of counts, bought as a histogram (docs/proofs/purchases)."""

from __future__ import annotations

import operator
from collections.abc import Iterable
from functools import partial
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import special

from dpstats.data import Rows
from dpstats.privacy.guarantee import Adjacency
from dpstats.privacy.randomness import RandomSource, noisy_integers
from dpstats.privacy.ranges import Values, finite_rows

Array = NDArray[np.float64]

MOST_BINS = 48
"""The last bin has all greater counts."""

LOG_ALPHA_SPREAD = 1.5
"""Where the histogram tells nothing, log alpha is taken to be normal about 0 with this standard deviation."""

ABOVE = 1.0
"""The alpha of the loss is so many standard deviations above its estimate: one too large costs width, not coverage."""

ALPHAS = (1e-3, 100.0)
"""Ends of the alphas that are tried."""

POINTS = 61
"""Means and alphas on a grid, each way."""

LOST = 1.0
"""Clipping may lower the logarithm of the mean by so many standard errors."""


class CountMoments(NamedTuple):
    """What a noisy histogram tells of counts."""

    mean: float
    alpha: float  # of a negative binomial law of all counts, `ABOVE` its estimate
    rows: float  # about how many there are, and 1 at least

    def least_reach(self, candidates: Array, noise: float) -> float:
        """The least of increasing greatest counts beyond which little of the mean is lost; the last one loses none.

        Post-processing. A standard error of the logarithm of the mean is that of the rows and of privacy noise:
        `noise` in the sum of the scores for each unit of the greatest count.
        """
        failures = 1 / self.alpha
        chance = failures / (failures + self.mean)
        # k Pr(y = k) is the mean times the chance of k - 1 with one failure more.
        clipped = self.mean * special.betainc(failures + 1, candidates, chance)
        clipped += candidates * (1 - special.betainc(failures, candidates + 1, chance))
        information = self.rows * self.mean / (1 + self.alpha * self.mean)
        errors = np.hypot(1 / np.sqrt(information), noise * candidates / information)
        return float(candidates[np.argmax(np.log(clipped[-1] / clipped) <= LOST * errors)])


def bin_starts(high: float) -> Array:
    """The least count of each bin, from 0 on: 0, 1, 2, 3, 4, 6, 8, 12, 16 ... up to `high`."""
    doubling = 2.0 ** np.arange(1, MOST_BINS)
    starts = np.unique(np.concatenate([[0.0, 1.0], doubling, 1.5 * doubling]))[:MOST_BINS]
    return np.asarray(starts[starts <= max(high, 1.0)])


def bin_counts(blocks: Rows[Array], starts: Array) -> NDArray[np.int64]:
    """How many of the values lie in each bin; those below 0 in the first one."""
    return blocks.total(partial(_bin_counts, starts), operator.add)


def _bin_counts(starts: Array, blocks: Iterable[Array]) -> NDArray[np.int64]:
    counts = np.zeros(len(starts), dtype=np.int64)
    for block in blocks:
        places = np.maximum(np.searchsorted(starts, block, side="right") - 1, 0)
        counts += np.bincount(places, minlength=len(starts))
    return counts


def buy_count_moments(
    values: Values, high: float, *, eps: float, adjacency: Adjacency, random: RandomSource
) -> CountMoments:
    """Mean and dispersion of counts within [0, high], with eps-differential privacy.

    Values that are not finite count for nothing. A row is in one bin, so that a row more or less moves the histogram by
    1 in l1, and another in its place by 2.
    """
    starts, sensitivity = bin_starts(high), 1 if adjacency == "add_remove" else 2
    noisy = noisy_integers(bin_counts(finite_rows(values), starts), sensitivity, eps, random)
    return count_moments(noisy, starts, high, np.sqrt(2) * sensitivity / eps)


def count_moments(counts: NDArray[np.int64], starts: Array, high: float, deviation: float) -> CountMoments:
    """Post-processing of a histogram with noise of that standard deviation, whatever it holds.

    Posterior means of log mean and log alpha over a grid, by least squares of the counts in the bins; then once more
    over a finer one where they are likely.
    """
    ends = np.array([[1e-3, max(high, 1.0)], ALPHAS])
    low, top = np.log(ends).T
    middle, spread = (low + top) / 2, (top - low) / 4
    for _ in range(3):
        grid = [np.linspace(max(m - 4 * s, a), min(m + 4 * s, b), POINTS)
                for m, s, a, b in zip(middle, spread, low, top, strict=True)]  # fmt: skip
        weights = _likelihood(np.asarray(counts, dtype=np.float64), starts, deviation, *grid)
        shares = [weights.sum(axis=1), weights.sum(axis=0)]
        middle = np.array([share @ points for share, points in zip(shares, grid, strict=True)])
        steps = np.array([points[1] - points[0] for points in grid])
        spread = np.sqrt([share @ (points - at) ** 2 for share, points, at in zip(shares, grid, middle, strict=True)])
        spread = np.maximum(spread, steps / 2)
    alpha = np.exp(min(middle[1] + ABOVE * spread[1], np.log(ALPHAS[1])))
    # Rounded, so that the last bits of a library's functions enter no plan.
    rows = max(float(np.sum(counts, dtype=np.float64)), 1.0)
    return CountMoments(float(f"{np.exp(middle[0]):.5g}"), float(f"{alpha:.3g}"), rows)


def _likelihood(counts: Array, starts: Array, deviation: float, log_mean: Array, log_alpha: Array) -> Array:
    """Posterior weights of means and alphas, shape (means, alphas), which add up to 1."""
    mean, failures = np.exp(log_mean)[:, None, None], np.exp(-log_alpha)[None, :, None]
    below = special.betainc(failures, starts[1:], failures / (failures + mean))  # Pr(y < start)
    edges = np.concatenate([np.zeros_like(below[..., :1]), below, np.ones_like(below[..., :1])], axis=-1)
    chances = np.diff(edges, axis=-1)
    # A bin varies as its expected count and its noise do; the number of rows is what suits the bins best.
    variance = deviation**2 + max(float(counts.sum()), 1.0) * chances
    rows = np.maximum(np.sum(chances * counts / variance, axis=-1) / np.sum(chances**2 / variance, axis=-1), 0.0)
    squares = np.sum((counts - rows[..., None] * chances) ** 2 / variance + np.log(variance), axis=-1)
    squares += (log_alpha / LOG_ALPHA_SPREAD) ** 2
    weights = np.exp(-(squares - squares.min()) / 2)
    return np.asarray(weights / weights.sum())
