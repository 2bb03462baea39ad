"""Survival curves and the log-rank test from noisy counts of who leaves when (docs/proofs/survival)."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import special

Array = NDArray[np.float64]

CLEAR = 5.0
"""A curve goes on while the number at risk is so many standard deviations of its noise,"""

LEAST_AT_RISK = 5.0
"""and at least so large."""

STEEPEST = 0.9
"""An interval takes no more of those at risk."""


class NoisyCounts(NamedTuple):
    """Noisy numbers of rows by group and interval of exit, and the variance of the noise in each number."""

    events: Array  # (G, K)
    censored: Array  # (G, K)
    rest: Array  # (G,): observed to the end
    variance: float

    @property
    def at_risk(self) -> Array:
        """Rows at risk at the start of each interval, shape (G, K)."""
        later = np.cumsum((self.events + self.censored)[:, ::-1], axis=1)[:, ::-1]
        return np.asarray(later + self.rest[:, None])

    @property
    def exposed(self) -> Array:
        """Those at risk, of whom the censored count half, shape (G, K)."""
        return self.at_risk - self.censored / 2

    @property
    def exposed_variance(self) -> Array:
        """The variance of the noise in `exposed`, shape (K,)."""
        intervals = self.events.shape[1]
        return self.variance * (2.25 + 2.0 * np.arange(intervals - 1, -1, -1))

    @property
    def clear(self) -> NDArray[np.bool_]:
        """Up to which interval the number at risk stands out of its noise, shape (G, K)."""
        least = np.maximum(CLEAR * np.sqrt(self.exposed_variance), LEAST_AT_RISK)
        return np.asarray(np.logical_and.accumulate(self.exposed >= least, axis=1))


class Curves(NamedTuple):
    """Cumulative hazards at the ends of the intervals with interval ends and errors, shapes (G, K); NaN beyond."""

    hazard: Array
    low: Array
    high: Array
    std_err: Array
    noise_err: Array


def curves(counts: NoisyCounts, alpha: float) -> Curves:
    """The actuarial estimate of each group's cumulative hazard, with pointwise intervals of noise and sampling.

    An interval holds the hazards L with (estimate - L)^2 <= z^2 (noise + rate L): the sampling variance is that of the
    hypothesis, as for a count, so that it is right where there are few events.
    """
    z = -float(special.ndtri(max(alpha / 2, 5e-324)))  # finite for every alpha
    clear, variance = counts.clear, counts.exposed_variance
    exposed = np.where(clear, counts.exposed, np.inf)
    # The ratio of two noisy numbers is off by this, to the second order of the noise.
    share = np.where(clear, counts.events / exposed * (1 - variance / exposed**2) + counts.variance / exposed**2, 0.0)
    share = np.minimum(share, STEEPEST)
    hazard = np.cumsum(-np.log1p(-share), axis=1)
    pull = 1 / (exposed * (1 - share))
    noise = _noise(share, pull, counts.variance)
    # Greenwood's variance over the hazard it is of; the hazard of a group is smoothed by a single event.
    total = np.where(clear, exposed, 0.0).sum(axis=1, keepdims=True)
    smooth = np.minimum(np.maximum(share, 0.0) + 1 / np.maximum(total, 1.0), STEEPEST)
    rate = np.cumsum(smooth * pull, axis=1) / np.cumsum(-np.log1p(-smooth), axis=1)
    middle = hazard + z**2 * rate / 2
    reach = z * np.sqrt(noise + rate * np.maximum(hazard, 0.0) + (z * rate) ** 2 / 4)
    fields = [
        *(np.maximum(_increasing(part, clear), 0.0) for part in (hazard, middle - reach, middle + reach)),
        np.sqrt(noise + rate * np.maximum(hazard, 0.0)),
        np.sqrt(noise),
    ]
    return Curves(*(np.where(clear, part, np.nan) for part in fields))


def _noise(share: Array, pull: Array, variance: float) -> Array:
    """The variance that the noise gives each cumulative hazard, by its derivatives in all counts, shape (G, K)."""
    intervals = share.shape[1]
    # An event in interval j adds to its own share, and whoever leaves in j was at risk in all intervals up to it.
    until = np.cumsum(share * pull, axis=1)
    by_event, by_censored = pull - until, until - share * pull / 2
    own = np.cumsum(by_event**2 + by_censored**2, axis=1)
    later = 2 * np.arange(intervals - 1, -1, -1) + 1
    return variance * (own + later * until**2)


def _increasing(values: Array, clear: NDArray[np.bool_]) -> Array:
    """The nearest increasing sequences, in least squares over the `clear` part of each row, shape (G, K)."""
    sequences = np.zeros_like(values)
    for row, (own, shown) in enumerate(zip(values, clear, strict=True)):
        # Neighbours that fall are pooled: the sum and the size of each pool.
        pools: list[tuple[float, int]] = []
        for value in own[shown]:
            pool = (float(value), 1)
            while pools and pools[-1][0] * pool[1] >= pool[0] * pools[-1][1]:
                before = pools.pop()
                pool = (before[0] + pool[0], before[1] + pool[1])
            pools.append(pool)
        sequences[row, shown] = np.repeat([total / size for total, size in pools], [size for _, size in pools])
    return sequences


class LogRank(NamedTuple):
    """The log-rank test that all groups have one hazard; NaN if no interval has enough rows in every group."""

    statistic: float
    df: int
    pvalue: float
    intervals: int  # that it is of
    excess: Array  # events in each group less those expected, shape (G,)

    def __repr__(self) -> str:
        excess = ", ".join(f"{one:.1f}" for one in self.excess)
        return (
            f"<LogRank: statistic={self.statistic:.4g}, df={self.df}, p-value={self.pvalue:.4g}, "
            f"intervals={self.intervals}, excess=[{excess}]>"
        )


def log_rank(counts: NoisyCounts) -> LogRank:
    """Observed less expected events of each group, over the covariance of sampling and noise.

    Under the hypothesis the noise enters through events less the common share of those at risk, times the part of
    other groups in those at risk: the derivative in the parts themselves is of the second order.
    """
    groups, intervals = counts.events.shape
    used = int(counts.clear.all(axis=0).sum())
    if groups < 2 or used == 0:
        return LogRank(np.nan, max(groups - 1, 0), np.nan, used, np.full(groups, np.nan))
    events, exposed = counts.events[:, :used], counts.exposed[:, :used]
    total = exposed.sum(axis=0)
    share, part = events.sum(axis=0) / total, exposed / total
    excess = np.asarray((events - part * events.sum(axis=0)).sum(axis=1))
    weights = np.eye(groups)[:, :, None] - part[:, None, :]
    sampling = np.einsum("k,gk,hgk->gh", share * (1 - share) * total, part, weights)
    until = np.cumsum(weights * share, axis=2)
    by_event, by_censored, by_later = weights - until, until - weights * share / 2, until[:, :, -1:]
    pulls = [by_event, by_censored, by_later * np.sqrt(2 * (intervals - used) + 1)]
    noise = sum(np.einsum("ahk,bhk->ab", pull, pull) for pull in pulls) * counts.variance
    covariance = (sampling + noise)[1:, 1:]
    statistic = max(float(excess[1:] @ np.linalg.pinv(covariance, hermitian=True) @ excess[1:]), 0.0)
    return LogRank(statistic, groups - 1, float(special.chdtrc(groups - 1, statistic)), used, excess)
