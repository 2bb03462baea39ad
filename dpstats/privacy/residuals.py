"""How far residuals reach, bought as a histogram of them (docs/proofs/purchases)."""

from __future__ import annotations

import bisect
import math
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

Array = NDArray[np.float64]

DOUBLINGS, STEPS = 12, 3
"""Sizes are told apart from the greatest possible one down to 2^-12 of it, three classes a doubling for each sign."""

SHAPES, SCALES = (0.25, 2.2), (0.02, 3.0)
"""Ends of the shapes of a Weibull tail that are tried, and of its scales in units of where the tail begins."""

SHAPE, SHAPE_SPREAD = 1.2, 0.5
"""Where the histogram tells nothing, log shape is normal about that of 1.2 with this standard deviation."""

TAIL_ROWS, TAIL_SHARE = 200.0, 0.05
"""A tail has half of the rows, or so many standard deviations of a count's noise if that is less, but this share.

No Weibull law fits all sizes: one that is fitted to half of many rows is wrong far out."""

LEAST_CAP = 3.0
"""A cap is so many root mean squares of the residuals at least."""

BENDS = 0.2
"""What residuals have beyond the cap may be so much of a standard error, if all of it were on one side."""

ALIKE, TAIL = 0.45, (1.5, 5.0)
"""Residuals have two tails if one has so much of the other's rows, between so many root mean squares of the median.

Normal ones have three times as many there as beyond two, so that fewer rows tell them from those with a single tail."""

TAILS_SEEN = 0.75
"""So much of what normal residuals have in their tails is seen about a rough fit, which spreads them further."""

UNEXPECTED = 0.5
"""Standard deviations of the noise by which a second tail must be seen if only one is expected."""

SMALL_NOISE = 0.3
"""Noise of so much of the sampling error hardly matters: it makes a standard error 1.044 times as large."""


class ResidualTails(NamedTuple):
    """What a noisy histogram tells of residuals."""

    rms: float
    cap: float  # beyond which hardly anything is
    alike: float  # how clearly both tails have rows, in standard deviations of the noise; negative if one lacks them
    rows: float
    unit_error: float  # the noise of a mean, for each unit of the cap
    tail: _Tail | None  # None if too few rows tell of it

    def has_two(self, *, expected: bool) -> bool:
        """Whether to go by two tails, where these are `expected` or only one is."""
        return self.alike > (0.0 if expected else UNEXPECTED)

    def settled_cap(self, widest: float, *, expected: bool, widens: bool = False) -> float:
        """The cap, `widest` at most and without two tails; if it `widens` it is wider where noise hardly matters."""
        narrow = min(self.cap, widest) if self.has_two(expected=expected) else widest
        if not widens or self.tail is None:
            return narrow
        return max(narrow, min(self.cap, SMALL_NOISE * self.rms / (math.sqrt(self.rows) * self.unit_error)))

    def shift(self, cap: float) -> float | None:
        """How far a mean moves, in standard errors, if all that residuals have beyond a cap is on one side.

        None if too few rows tell.
        """
        if self.tail is None:
            return None
        error = math.hypot(self.rms / math.sqrt(self.rows), self.unit_error * cap)
        return float(f"{self.tail.excess(cap) / (self.rows * error):.3g}")


def class_edges(reach: float) -> Array:
    """The upper ends of the classes of sizes, the last of which has all that are greater too."""
    return np.asarray(reach * 2.0 ** (np.arange(-STEPS * DOUBLINGS, 1) / STEPS))


def residual_counts(values: Rows[Array], edges: Array) -> NDArray[np.int64]:
    """How many values are of each sign and class of size, shape (2, classes), those below 0 first."""
    return values.total(partial(_counts, edges), operator.add)


def _counts(edges: Array, blocks: Iterable[Array]) -> NDArray[np.int64]:
    counts = np.zeros((2, len(edges)), dtype=np.int64)
    for block in blocks:
        # Of values in order an edge is looked up, not each value among the edges.
        ordered = np.sort(block)
        below, at_most = np.searchsorted(ordered, -edges[:-1]), np.searchsorted(ordered, edges[:-1], side="right")
        negative = np.searchsorted(ordered, 0.0)
        counts[0] += np.diff(negative - below, prepend=0, append=negative)
        counts[1] += np.diff(at_most - negative, prepend=0, append=len(block) - negative)
    return counts


def buy_residual_counts(
    values: Rows[Array], reach: float, *, eps: float, adjacency: Adjacency, random: RandomSource
) -> NDArray[np.int64]:
    """The counts of finite residuals with noise: eps-DP, for a row is in one of all classes."""
    sensitivity, counts = 1 if adjacency == "add_remove" else 2, residual_counts(values, class_edges(reach))
    return noisy_integers(counts.ravel(), sensitivity, eps, random).reshape(counts.shape)


def residual_tails(
    counts: NDArray[np.int64], edges: Array, *, deviation: float, rows: float, unit_error: float
) -> ResidualTails:
    """Post-processing of a histogram of about so many rows, with noise of that standard deviation, whatever it holds.

    A standard error is that of the mean of residuals and of noise of `unit_error` for each unit of the cap. Sizes
    beyond their median are taken for a Weibull tail: of its scale and shape a posterior mean over a grid.
    """
    rows, sizes = max(rows, 1.0), np.asarray(counts.sum(axis=0), dtype=np.float64)
    tail_rows = min(rows / 2, max(TAIL_ROWS * deviation, TAIL_SHARE * rows))
    start = min(int(np.argmax(np.cumsum(sizes) > rows - tail_rows)) + 1, len(edges) - 2)
    inside, begin = max(float(sizes[:start].sum()), 0.0), float(edges[start - 1])
    tail = _Tail.fitted(sizes[start:], edges[start:], begin, max(rows - inside, 1.0), np.sqrt(2) * deviation)
    middles = edges[:start] * 2.0 ** (-0.5 / STEPS)
    points = np.geomspace(begin, edges[-1], 100)
    beyond = begin**2 + np.trapezoid(2 * points * tail.above(points)[0], points)
    total = float(np.sum(np.maximum(sizes[:start], 0.0) * middles**2)) + tail.rows * beyond
    rms = float(np.sqrt(total / rows))
    candidates = edges[-1] * 2.0 ** (-np.arange(8 * DOUBLINGS) / 8)
    candidates = candidates[candidates >= LEAST_CAP * rms]
    # The narrower a cap is the more is beyond it and the less its noise: the least that serves is found by halving.
    last = bisect.bisect_left(
        candidates,
        True,
        key=lambda cap: tail.excess(cap) > BENDS * rows * np.hypot(rms / np.sqrt(rows), unit_error * cap),
    )
    cap = float(candidates[last - 1]) if last else float(edges[-1])
    # Rounded, so that the last bits of a library's functions enter no plan.
    alike, many = _alike(counts, edges, rms, deviation), tail_rows < rows / 2
    return ResidualTails(float(f"{rms:.4g}"), float(f"{cap:.4g}"), alike, rows, unit_error, tail if many else None)


def _alike(counts: NDArray[np.int64], edges: Array, rms: float, deviation: float) -> float:
    """By how many standard deviations the lesser tail has more rows than `ALIKE` of the greater one's.

    Tails lie about the median of the residuals, for the first fit that they are about has an error of its own. In a
    class that an end divides, logarithms of sizes are taken to be spread evenly.
    """
    excess = int(counts[1].sum() - counts[0].sum())
    side = int(excess > 0)
    half = np.interp(abs(excess) / 2, np.maximum.accumulate(np.cumsum(counts[side])), edges)
    median = min(float(half), rms) * (2 * side - 1)
    ends = np.array([[TAIL[0] * rms + sign * median, TAIL[1] * rms + sign * median] for sign in (-1, 1)])
    parts = np.diff(np.clip(STEPS * np.log2(edges[None, :, None] / ends[:, None, :]), 0.0, 1.0), axis=-1)[..., 0]
    tails, variances = np.sum(-parts * counts, axis=1), np.sum(parts**2, axis=1)
    less, more = np.argsort(tails)
    noise = deviation * np.sqrt(max(float(variances[less] + ALIKE**2 * variances[more]), 1.0))
    return float((tails[less] - ALIKE * tails[more]) / noise)


def likely_alike(rows: float, deviation: float) -> float:
    """What `ResidualTails.alike` is on average, of so many normal residuals; the noise as in `residual_tails`."""
    tail = float(special.ndtr(-TAIL[0]) - special.ndtr(-TAIL[1]))
    classes = STEPS * np.log2(TAIL[1] / TAIL[0])
    noise = deviation * np.sqrt(classes * (1 + ALIKE**2))
    return float(TAILS_SEEN * (1 - ALIKE) * tail * rows / noise)


def share_beyond(
    counts: NDArray[np.int64], edges: Array, cap: float, *, deviation: float, rows: float
) -> tuple[float, float]:
    """The share of the rows with a residual beyond a cap, and the standard deviation of its noise.

    Post-processing. In the class that the cap divides, logarithms of sizes are taken to be spread evenly.
    """
    weights, rows = np.clip(STEPS * np.log2(edges / cap), 0.0, 1.0), max(rows, 1.0)
    share = float(counts.sum(axis=0) @ weights) / rows
    return float(f"{share:.4g}"), float(f"{deviation * np.sqrt(2 * np.sum(weights**2)) / rows:.4g}")


class _Tail(NamedTuple):
    """A posterior of Weibull tails of sizes beyond `begin`, which so many rows have."""

    begin: float
    end: float
    rows: float
    shapes: Array  # on a grid, and their scales, shape (shapes, scales)
    scales: Array
    weights: Array  # which add up to 1

    @classmethod
    def fitted(cls, counts: Array, edges: Array, begin: float, rows: float, deviation: float) -> _Tail:
        shapes, scales = np.meshgrid(np.geomspace(*SHAPES, 28), begin * np.geomspace(*SCALES, 60), indexing="ij")
        above = _survival(np.append(begin, edges[:-1]), begin, shapes, scales)
        chances = above - np.append(above[..., 1:], np.zeros_like(above[..., :1]), axis=-1)
        variance = deviation**2 + rows * chances
        squares = np.sum((counts - rows * chances) ** 2 / variance + np.log(variance), axis=-1)
        squares += (np.log(shapes / SHAPE) / SHAPE_SPREAD) ** 2
        weights = np.exp(-(squares - squares.min()) / 2)
        return cls(begin, float(edges[-1]), rows, shapes, scales, weights / weights.sum())

    def above(self, sizes: Array) -> tuple[Array, Array]:
        """The mean share of the rows beyond each size, and those of all tails."""
        each = _survival(sizes, self.begin, self.shapes, self.scales)
        return np.tensordot(self.weights, each, axes=2), each

    def excess(self, cap: float) -> float:
        """What all rows' sizes have beyond a cap, a standard deviation above its mean."""
        points = np.geomspace(cap, max(self.end, cap * 1.001), 60)
        widths = np.diff(points)
        heights = (np.append(widths, 0.0) + np.append(0.0, widths)) / 2  # by the trapezoidal rule
        each = _survival(points, self.begin, self.shapes, self.scales) @ heights * self.rows
        mean = float(np.sum(self.weights * each))
        return mean + float(np.sqrt(np.sum(self.weights * (each - mean) ** 2)))


def _survival(sizes: Array, begin: float, shapes: Array, scales: Array) -> Array:
    """Pr(size > s | size > begin), shape (shapes, scales, sizes); shapes are in the rows of their grid."""
    # A power of each size and one of each scale: to take one of each quotient took ten times as long.
    rises = (sizes / begin) ** shapes[:, :1] - 1
    powers = ((begin / scales) ** shapes)[..., None] * rises[:, None, :]
    return np.asarray(np.exp(-np.clip(powers, 0.0, 700.0)))
