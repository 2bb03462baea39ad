"""Confidence bounds from counts: binomial proportions, eps, and the hockey-stick divergence."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import betaincinv

FloatArray = NDArray[np.float64]


def clopper_pearson(count: FloatArray, runs: int, alpha: float) -> tuple[FloatArray, FloatArray]:
    """Exact one-sided bounds of a binomial proportion, each wrong with probability at most `alpha`.

    Parameters
    ----------
    count : ndarray
        Successes out of `runs`.

    Returns
    -------
    lower, upper : ndarray
        Bounds of the same shape (Clopper & Pearson 1934).
    """
    count = np.asarray(count, dtype=np.float64)
    lower = np.where(count > 0, betaincinv(np.maximum(count, 1), runs - count + 1, alpha), 0.0)
    upper = np.where(count < runs, betaincinv(count + 1, np.maximum(runs - count, 1), 1 - alpha), 1.0)
    return lower, upper


class Bounds(NamedTuple):
    """Lower confidence bounds for events: `eps` at the claimed delta, `divergence` at the claimed eps."""

    eps: FloatArray
    divergence: FloatArray


def lower_bounds(hits: FloatArray, other: FloatArray, runs: int, *, eps: float, delta: float, alpha: float) -> Bounds:
    """Bounds that events with `hits` under one data set and `other` under its neighbour give, out of `runs` each.

    Each event S shows eps >= log((P(S) - delta) / Q(S)) and a divergence of at least P(S) - exp(eps) Q(S); both
    proportions are replaced by their bounds, so an event's pair of bounds fails with probability 2 `alpha` at most.
    """
    low, _ = clopper_pearson(hits, runs, alpha)
    _, high = clopper_pearson(other, runs, alpha)
    with np.errstate(divide="ignore"):
        shown = np.log(np.maximum(low - delta, 0)) - np.log(high)
    return Bounds(np.maximum(shown, 0.0), np.maximum(low - np.exp(min(eps, 700.0)) * high, 0.0))
