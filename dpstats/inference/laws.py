"""Laws of standardised estimates: a normal part plus a direction of the linear noise (docs/proofs/inference, 6)."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray
from scipy import special

from dpstats.errors import ArgumentError
from dpstats.inference.linear import LinearLaw

Float = NDArray[np.float64]

DRAWS = 10_000
"""Simulated draws of the noise."""

SEED = 20_260_710
"""Public seed of the simulation: intervals are a function of what was released."""

TAIL = 100
"""So many of the largest draws are replaced by an exponential tail of their mean excess."""

# Cells of the other draws, from the largest down: (how many draws, draws a cell). Fine where quantiles are asked for.
_CELLS = ((900, 5), (2000, 20), (7000, 50))

# Cells of the exponential tail, down to e^-35 of it.
_TAIL_EDGES = np.concatenate((np.linspace(0, 35, 351), [np.inf]))

_HALVINGS = 56


@dataclass(frozen=True, eq=False)
class StandardLaws:
    """The laws of Z_i = sqrt(1 - w_i^2) N + w_i z_i, each of variance one.

    Attributes
    ----------
    weights : ndarray, shape (k,)
        w_i in [0, 1).
    nodes : ndarray, shape (k, m)
        Values of |z_i|.
    masses : ndarray, shape (m,)
        Their probabilities.
    """

    weights: Float
    nodes: Float
    masses: Float

    def tail(self, bounds: Float) -> Float:
        """P(|Z_i| >= bounds_i), shape (k,): the mean over z_i of two normal tails, so without a floor."""
        spread = np.sqrt(1 - self.weights**2)[:, None]
        moved = self.weights[:, None] * self.nodes
        bounds = np.asarray(bounds, dtype=np.float64)[:, None]
        both = special.ndtr((moved - bounds) / spread) + special.ndtr((-moved - bounds) / spread)
        return np.asarray(both @ self.masses, dtype=np.float64)

    def quantile(self, alpha: float) -> Float:
        """The bounds that |Z_i| exceeds with probability `alpha`, shape (k,)."""
        if not 0 < alpha < 1:
            raise ArgumentError(f"alpha must lie strictly between 0 and 1, got {alpha!r}")
        low, high = np.zeros(len(self.weights)), np.full(len(self.weights), 2.0)
        while np.any(self.tail(high) > alpha):
            high = 2 * high
        for _ in range(_HALVINGS):
            middle = (low + high) / 2
            above = self.tail(middle) > alpha
            low, high = np.where(above, middle, low), np.where(above, high, middle)
        return high


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
        return StandardLaws(np.zeros(count), np.zeros((count, 1)), np.ones(1))
    deviations = np.sqrt(np.sum(directions @ law.covariance * directions, axis=1))
    sizes = np.sort(np.abs(draws @ (directions / np.where(deviations > 0, deviations, 1)[:, None]).T), axis=0).T
    nodes, masses = _compressed(sizes)
    # Some normal part always remains: its tail is what a probability beyond the nodes consists of.
    return StandardLaws(np.minimum(weights, np.sqrt(1 - 1e-6)), nodes, masses)


@lru_cache(maxsize=2)
def public_draws(law: LinearLaw) -> Float | None:
    """Draws of b by a generator whose seed is a constant, shape (DRAWS, p), read-only; None for normal noise."""
    if law.normal:
        return None
    draws = law.draws(DRAWS, np.random.default_rng(SEED))
    draws.setflags(write=False)
    return draws


def _compressed(sizes: Float) -> tuple[Float, Float]:
    """Few nodes for many draws, shape (k, DRAWS) sorted upward: means of cells, and a tail beyond the largest.

    g'b is symmetric and log-concave, so its mean excess falls: an exponential tail is on the safe side.
    """
    start = sizes[:, -TAIL - 1 : -TAIL]
    excess = np.mean(sizes[:, -TAIL:] - start, axis=1, keepdims=True)
    upper = np.exp(-_TAIL_EDGES)
    masses = upper[:-1] - upper[1:]
    # The mean of an exponential variable in a cell (u, v): 1 + (u e^-u - v e^-v) / (e^-u - e^-v).
    first = np.where(np.isinf(_TAIL_EDGES), 0.0, np.where(upper > 0, _TAIL_EDGES, 0.0) * upper)
    means = 1 + (first[:-1] - first[1:]) / masses
    parts, sizes_of = [start + excess * means], [masses * TAIL / DRAWS]
    end = DRAWS - TAIL
    for total, width in _CELLS:
        cells = sizes[:, end - total : end].reshape(len(sizes), -1, width)
        parts.append(cells.mean(axis=2))
        sizes_of.append(np.full(total // width, width / DRAWS))
        end -= total
    return np.concatenate(parts, axis=1), np.concatenate(sizes_of)
