"""Laws of standardised estimates: a normal part plus a direction of the linear noise (docs/proofs/inference, 6)."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray
from scipy import special

from dpstats.arguments import shown
from dpstats.cached import cached_property
from dpstats.errors import ArgumentError
from dpstats.inference.linear import LinearLaw

Float = NDArray[np.float64]

DRAWS = 10_000
"""Simulated draws of the noise."""

SEED = 20_260_710
"""Public seed of the simulation: intervals are a function of what was released."""

TAIL = 100
"""So many of the largest draws are replaced by an exponential tail of their mean excess."""

WIDTH = 1 / 16
"""Of the cells in which draws are counted; within a cell |z| stands at its middle."""

CELLS = 256
"""Cells of one law: no draw of a variable of variance one is beyond 16."""

NORMAL_LEFT = 1 / 8
"""At least this standard deviation stays normal, so that a cell is narrow beside it."""

STEEP = 1e3
"""An exponential tail this much steeper than the normal part is a point."""

CHUNK = 64
"""Directions at once, so that their draws stay in the cache."""

_TRIES = 100
_CLOSE = 1e-12


@dataclass(frozen=True, eq=False)
class StandardLaws:
    """The laws of Z_i = sqrt(1 - w_i^2) N + w_i z_i, each of variance one.

    Attributes
    ----------
    weights : ndarray, shape (k,)
        w_i in [0, 1).
    chances : ndarray, shape (k, m)
        Probabilities of the first m cells of |z_i|, each of `WIDTH`.
    upper : ndarray, shape (k,)
        The rest: beyond `start`, with an exponential excess of mean `excess`.
    start, excess : ndarray, shape (k,)
    """

    weights: Float
    chances: Float
    upper: Float
    start: Float
    excess: Float

    def tail(self, bounds: Float) -> Float:
        """P(|Z_i| >= bounds_i), shape (k,): the mean over z_i of two normal tails, so without a floor."""
        bounds, spread = np.asarray(bounds, dtype=np.float64), np.sqrt(1 - self.weights**2)
        moved = self.weights[:, None] * (WIDTH * (np.arange(self.chances.shape[1]) + 0.5))
        both = special.ndtr((moved - bounds[:, None]) / spread[:, None])
        both += special.ndtr((-moved - bounds[:, None]) / spread[:, None])
        inner = np.sum(both * self.chances, axis=1)
        return np.asarray(inner + self.upper * self._beyond(bounds, spread), dtype=np.float64)

    def _beyond(self, bounds: Float, spread: Float) -> Float:
        """The same for |z_i| = start + excess T, T exponential: normal plus or minus exponential, in closed form."""
        shift = self.weights * self.start
        rate = spread / np.maximum(self.weights * self.excess, np.finfo(np.float64).tiny)
        near, far = (bounds - shift) / spread, (bounds + shift) / spread
        with np.errstate(over="ignore", invalid="ignore"):
            above = special.ndtr(-near) + np.exp(rate * (rate / 2 - near) + special.log_ndtr(near - rate))
            below = special.ndtr(-far) - np.exp(rate * (rate / 2 + far) + special.log_ndtr(-far - rate))
        # Where hardly any noise is left the exponential is its mean: the closed form would cancel.
        plain = special.ndtr(1 / rate - near) + special.ndtr(-1 / rate - far)
        return np.where(rate < STEEP, np.minimum(above + np.maximum(below, 0.0), 2.0), plain)

    def quantile(self, alpha: float) -> Float:
        """The bounds that |Z_i| exceeds with probability `alpha`, shape (k,)."""
        if not 0 < alpha < 1:
            raise ArgumentError(f"alpha must lie strictly between 0 and 1, got {shown(alpha)}")
        if alpha not in self._known:
            self._known[alpha] = self._solve(np.log(alpha))
        return self._known[alpha]

    @cached_property
    def _known(self) -> dict[float, Float]:
        return {}

    def _solve(self, level: float) -> Float:
        """The roots of log tail = level: false position with the Illinois rule."""

        def miss(bounds: Float) -> Float:
            return np.asarray(np.log(np.maximum(self.tail(bounds), np.finfo(np.float64).tiny)) - level)

        low, high = np.zeros(len(self.weights)), np.full(len(self.weights), 2.0)
        above, below = np.full(len(low), -level), miss(high)
        while np.any(below > 0):
            low, above = np.where(below > 0, high, low), np.where(below > 0, below, above)
            high = np.where(below > 0, 2 * high, high)
            below = miss(high)
        last = np.zeros(len(low), dtype=bool)
        for step in range(_TRIES):
            middle = low + (high - low) * above / np.maximum(above - below, np.finfo(np.float64).tiny)
            value = miss(middle)
            over = value > 0
            # An end that stays twice counts half, so that both move.
            again = (over == last) if step else np.zeros(len(low), dtype=bool)
            above = np.where(over, value, np.where(again, above / 2, above))
            below = np.where(over, np.where(again, below / 2, below), value)
            low, high, last = np.where(over, middle, low), np.where(over, high, middle), over
            if np.all((high - low <= _CLOSE * high) | (np.abs(value) <= _CLOSE)):
                break
        return np.asarray(np.where(np.abs(value) <= _CLOSE, middle, high), dtype=np.float64)


def standard_laws(directions: Float, weights: Float, law: LinearLaw, draws: Float | None) -> StandardLaws:
    """The laws of Z_i with z_i = g_i'b / sd(g_i'b).

    Parameters
    ----------
    directions : ndarray, shape (k, p)
        The rows g_i.
    weights : ndarray, shape (k,)
        The standard deviation w_i of the noise's part.
    law : LinearLaw
        The law of b.
    draws : ndarray, shape (DRAWS, p), or None
        `public_draws` of it; None where it is normal.
    """
    count = len(directions)
    if draws is None:
        return StandardLaws(np.zeros(count), np.ones((count, 1)), *np.zeros((3, count)))
    deviations = np.sqrt(np.sum(directions @ law.covariance * directions, axis=1))
    units = directions / np.where(deviations > 0, deviations, 1)[:, None]
    counts = np.zeros((count, CELLS), dtype=np.int64)
    for start in range(0, count, CHUNK):
        counts[start : start + CHUNK] = _counts(draws, units[start : start + CHUNK])
    return StandardLaws(np.minimum(weights, np.sqrt(1 - NORMAL_LEFT**2)), *_with_tail(counts))


@lru_cache(maxsize=2)
def public_draws(law: LinearLaw) -> Float | None:
    """Draws of b by a generator whose seed is a constant, shape (DRAWS, p), read-only; None for normal noise."""
    if law.normal:
        return None
    draws = law.draws(DRAWS, np.random.default_rng(SEED))
    draws.setflags(write=False)
    return draws


def _counts(draws: Float, units: Float) -> NDArray[np.int64]:
    """How many draws of |z_i| are in each cell, shape (k, CELLS)."""
    sizes = units @ draws.T
    np.abs(sizes, out=sizes)
    sizes *= 1 / WIDTH
    cells = np.minimum(sizes, CELLS - 1).astype(np.intp)
    return np.array([np.bincount(row, minlength=CELLS) for row in cells], dtype=np.int64).reshape(-1, CELLS)


def _with_tail(counts: NDArray[np.int64]) -> tuple[Float, Float, Float, Float]:
    """Chances of the cells below the `TAIL` largest draws; and how many those are, where they begin, their excess.

    g'b is symmetric and log-concave, so its mean excess falls: an exponential tail is on the safe side.
    """
    above = np.cumsum(counts[:, ::-1], axis=1)[:, ::-1]
    first = np.sum(above > TAIL, axis=1)
    inside = np.arange(CELLS) < first[:, None]
    start, tail = WIDTH * first, np.where(inside, 0, counts)
    total = np.maximum(tail.sum(axis=1), 1)
    excess = tail @ (WIDTH * (np.arange(CELLS) + 0.5)) / total - start
    chances = np.where(inside, counts, 0)[:, : max(int(first.max(initial=1)), 1)] / DRAWS
    return chances, tail.sum(axis=1) / DRAWS, start, np.maximum(excess, WIDTH / 2)
