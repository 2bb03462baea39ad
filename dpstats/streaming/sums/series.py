"""Power series: square roots of workloads, inverses, and sums of geometric series (docs/proofs/streams, 2)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import signal

Float = NDArray[np.float64]


def square_root(count: int) -> Float:
    """Coefficients of (1 - z)^(-1/2), binom(2k, k) / 4^k, shape (count,)."""
    steps = np.arange(1, count)
    return np.concatenate(([1.0], np.cumprod((2 * steps - 1) / (2 * steps))))


def window_root(window: int, count: int) -> Float:
    """Coefficients of ((1 - z^window) / (1 - z))^(1/2), shape (count,)."""
    sparse = np.zeros(count)
    lags = np.arange(1, (count - 1) // window + 1)
    sparse[0] = 1.0
    sparse[lags * window] = np.cumprod((2 * lags - 3) / (2 * lags))  # (1 - z)^(1/2)
    return np.asarray(signal.fftconvolve(square_root(count), sparse)[:count], dtype=np.float64)


def inverse(series: Float, count: int) -> Float:
    """The first `count` coefficients of 1 / series, whose constant is 1, by Newton's iteration y (2 - series y)."""
    found = np.ones(1)
    while len(found) < count:
        length = min(2 * len(found), count)
        product = signal.convolve(series[:length], found)[:length]
        correction = -np.pad(product, (0, length - len(product)))
        correction[0] += 2.0
        found = signal.convolve(found, correction)[:length]
    return np.asarray(found[:count], dtype=np.float64)


def lagged(series: Float, count: int, lag: int) -> float:
    """sum_{k < count} series_k series_{k + lag}; coefficients beyond the end are zero."""
    length = max(0, min(count, len(series) - lag))
    return float(series[:length] @ series[lag : lag + length])


@dataclass(frozen=True)
class PoleSum:
    """The series sum_i weight_i q_i^k, k = 0, 1, ..., with q_i = 1 - gap_i in [0, 1].

    Gaps are kept rather than q, which near 1 has no digits for them.

    Attributes
    ----------
    weights, gaps : ndarray, shape (poles,)
    """

    weights: Float
    gaps: Float

    def coefficients(self, lags: NDArray[np.int64]) -> Float:
        """The coefficients at `lags`, shape (n,); zero where a lag is negative."""
        exponents = np.maximum(lags, 0)[:, None] * self._logs
        return np.where(lags < 0, 0.0, np.exp(exponents) @ self.weights)

    def inner(self, count: float, lag: int = 0) -> float:
        """sum_{k < count} of the coefficients at k and k + lag; infinite counts need gaps above 0."""
        ratio = self.gaps[:, None] + self.gaps - self.gaps[:, None] * self.gaps
        if np.isinf(count):
            sums = 1 / ratio
        else:
            exponents = count * (self._logs[:, None] + self._logs)
            safe = np.where(ratio > 0, ratio, 1.0)
            sums = np.where(ratio > 0, -np.expm1(exponents) / safe, count)
        return float(self.weights @ sums @ (self.weights * np.exp(lag * self._logs)))

    def energies(self, counts: NDArray[np.int64]) -> Float:
        """sum_{k < count} of the squared coefficients at each of `counts`, shape (n,)."""
        ratio = self.gaps[:, None] + self.gaps - self.gaps[:, None] * self.gaps
        products = np.outer(self.weights, self.weights)
        logs = self._logs[:, None] + self._logs
        total = np.zeros(len(counts))
        for row, column in np.ndindex(ratio.shape):
            if ratio[row, column] > 0:
                sums = -np.expm1(counts * logs[row, column]) / ratio[row, column]
            else:
                sums = counts.astype(np.float64)
            total += products[row, column] * sums
        return total

    @property
    def _logs(self) -> Float:
        # A pole at 0 would have the logarithm of 0.
        return np.log1p(-np.minimum(self.gaps, 1 - 1e-300))
