"""Power series, and the coefficients of buffered linear Toeplitz matrices: exact norms, and their choice
(docs/proofs/streams, 2)."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache, partial

import numpy as np
from numpy.typing import NDArray
from scipy import optimize, signal

from dpstats.arguments import is_whole
from dpstats.cached import cached_property
from dpstats.errors import ArgumentError
from dpstats.streaming.sums.workloads import Cumulative, Float, Halflife, Workload, powers


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
    series_inverse = np.ones(1)
    while len(series_inverse) < count:
        length = min(2 * len(series_inverse), count)
        product = signal.convolve(series[:length], series_inverse)[:length]
        correction = -np.pad(product, (0, length - len(product)))
        correction[0] += 2.0
        series_inverse = signal.convolve(series_inverse, correction)[:length]
    return np.asarray(series_inverse[:count], dtype=np.float64)


def lagged_product(series: Float, count: float, lag: int) -> float:
    """sum_{k < count} series_k series_{k + lag}; coefficients beyond the end are zero."""
    length = int(max(0, min(count, len(series) - lag)))
    return float(series[:length] @ series[lag : lag + length])


@dataclass(frozen=True)
class PoleSum:
    """The series sum_i weight_i q_i^k, k = 0, 1, ..., with q_i = 1 - gap_i in [0, 1].

    Gaps are kept rather than q, which near 1 has no digits for them.
    """

    weights: Float  # shape (poles,)
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
        logs = self._logs[:, None] + self._logs
        total = np.zeros(len(counts))
        for place, product in np.ndenumerate(np.outer(self.weights, self.weights)):
            sums = -np.expm1(counts * logs[place]) / ratio[place] if ratio[place] > 0 else counts.astype(np.float64)
            total += product * sums
        return total

    @property
    def _logs(self) -> Float:
        # A pole at 0 would have the logarithm of 0.
        return np.log1p(-np.minimum(self.gaps, 1 - 1e-300))


BITS = 64
"""Decays and weights are whole multiples of 2**-BITS: C is what these say, whatever fit they came from."""

CLOSE = 1.002
"""The fewest buffers are taken whose greatest standard deviation is within this factor of the square root's."""

MOST_BUFFERS = 5

_LONGEST_ROOT = 10**7  # horizons whose square root is worth computing


@dataclass(frozen=True)
class Buffers:
    """Decays r_j below 1 and weights w_j above 0, equally many, in units of 2**-64.

    ArgumentError if one is outside its range.
    """

    decays: tuple[int, ...]
    weights: tuple[int, ...]

    def __post_init__(self) -> None:
        unit = 1 << BITS
        parts = (self.decays, self.weights)
        if not all(isinstance(part, (tuple, list)) and all(map(is_whole, part)) for part in parts):
            raise ArgumentError("decays and weights must be tuples of integers, in units of 2**-64")
        if not self.decays or len(self.decays) != len(self.weights):
            raise ArgumentError("decays and weights must be equally many, at least one")
        if not (min(self.decays) >= 0 and min(self.weights) > 0 and max(*self.decays, *self.weights) < unit):
            raise ArgumentError("decays must lie in [0, 1) and weights in (0, 1)")
        if self.inverse[0].max() >= 1:
            raise ArgumentError("weights must be small enough for the inverse to decay without changing sign")

    @classmethod
    def rounded(cls, gaps: Float, weights: Float) -> Buffers:
        """The nearest to decays 1 - `gaps` and `weights`."""
        unit = 1 << BITS
        return cls(
            tuple(unit - max(1, round(float(gap) * unit)) for gap in gaps),
            tuple(max(1, round(float(weight) * unit)) for weight in weights),
        )

    @cached_property
    def gaps(self) -> Float:
        """1 - r_j."""
        return np.array([((1 << BITS) - decay) / (1 << BITS) for decay in self.decays])

    @cached_property
    def tail(self) -> PoleSum:
        """The coefficients of C from the second on."""
        return PoleSum(np.array([weight / (1 << BITS) for weight in self.weights]), self.gaps)

    @cached_property
    def inverse(self) -> tuple[Float, Float]:
        """1 - p_j and v_j > 0 of C^-1 = 1 - sum_j v_j z / (1 - p_j z): from diag(1 - r) + sqrt(w) sqrt(w)'."""
        root = np.sqrt(np.array([weight / (1 << BITS) for weight in self.weights]))
        values, vectors = np.linalg.eigh(np.diag(self.gaps) + np.outer(root, root))
        return np.maximum(values, 2.0**-BITS), (vectors.T @ root) ** 2

    def inner(self, count: float, lag: int) -> float:
        """sum_{k < count} c_k c_{k + lag}, the product of two columns of C."""
        if count <= 0:
            return 0.0
        first = 1.0 if lag == 0 else float(self.tail.coefficients(np.array([lag - 1]))[0])
        return first + self.tail.inner(count - 1, lag)

    def response(self, decay: float) -> PoleSum:
        """The coefficients of C^-1 / (1 - decay z): noise in sums whose ticks decay so."""
        gaps, weights = self.inverse
        distance = gaps - (1 - decay)
        terms = weights / np.where(np.abs(distance) < 1e-14, 1e-14, distance)
        return PoleSum(np.append(terms, 1 - terms.sum()), np.append(gaps, 1 - decay))


def pattern_norm(patterns: list[tuple[int, ...]], inner: Callable[[float, int], float], ticks: float) -> float:
    """max over patterns of (sum_ij |<c_i, c_j>|)^(1/2), for columns of a Toeplitz matrix with `ticks` rows.

    `inner` gives sum_{k < count} c_k c_{k + lag} for a count and a lag.
    """
    product = lru_cache(maxsize=None)(inner)  # patterns share most pairs
    worst = 0.0
    for pattern in patterns:
        offsets = [offset for offset in pattern if offset < ticks]
        total = 0.0
        for place, later in enumerate(offsets):
            total += abs(product(ticks - later, 0))
            total += 2 * sum(abs(product(ticks - later, later - earlier)) for earlier in offsets[:place])
        worst = max(worst, total)
    return math.sqrt(worst)


def early_patterns(offsets: tuple[int, ...]) -> list[tuple[int, ...]]:
    """One person's ticks with each of the offsets in turn at the first tick, those before it left out."""
    return [tuple(offset - first for offset in offsets if offset >= first) for first in offsets]


@lru_cache(maxsize=64)
def fit_buffers(workload: Workload, offsets: tuple[int, ...], count: int | None) -> Buffers:
    """The buffers of the least greatest standard deviation, for a cumulative or a decaying workload.

    Without a `count` the fewest that come within `CLOSE` of the square root, up to five.
    """
    if count is not None:
        return _fit(workload, offsets, count)[0]
    ticks = math.inf if workload.endless else workload.ticks
    goal = CLOSE * _root_value(workload, offsets)
    fewest = 2 if ticks <= _LONGEST_ROOT or workload.endless else MOST_BUFFERS
    for buffers in range(fewest, MOST_BUFFERS):
        fitted, value = _fit(workload, offsets, buffers)
        if value <= goal:
            return fitted
    return _fit(workload, offsets, MOST_BUFFERS)[0]


def _root_value(workload: Workload, offsets: tuple[int, ...]) -> float:
    """The greatest standard deviation of the square root, Delta / mu."""
    if isinstance(workload, Halflife):
        length = min(_LONGEST_ROOT, math.ceil(60 * workload.halflife) + 10)
        root, ticks = square_root(length) * powers(workload.decay, length), math.inf
    else:
        ticks = float(min(workload.ticks, _LONGEST_ROOT))
        root = square_root(int(ticks))
    return pattern_norm(early_patterns(offsets), partial(lagged_product, root), ticks) * float(np.linalg.norm(root))


def _fit(workload: Workload, offsets: tuple[int, ...], count: int) -> tuple[Buffers, float]:
    """Buffers and their greatest standard deviation, by minimising it over interlaced poles and zeros of C."""
    ticks, rho_gap = (workload.ticks, 0.0) if isinstance(workload, Cumulative) else (math.inf, 1 - workload.decay)
    patterns = early_patterns(offsets)

    def value(buffers: Buffers) -> float:
        columns = pattern_norm(patterns, buffers.inner, ticks)
        return columns * math.sqrt(buffers.response(1 - rho_gap).inner(ticks))

    def objective(log_steps: Float) -> float:
        return math.log(value(_interlaced(log_steps)))

    top = math.log(rho_gap * 1.2) if rho_gap else math.log(0.5 / ticks)
    start = np.linspace(min(top, -1.5), -0.5, 2 * count)
    first = np.concatenate((start[:1], np.log(np.diff(start))))
    lowest = math.log(rho_gap) if rho_gap else math.log(1e-3 / ticks)
    bounds = [(min(lowest, -2.0), -0.02)] + [(-5.0, 3.0)] * (2 * count - 1)
    best = optimize.minimize(
        objective, first, method="L-BFGS-B", bounds=bounds, options={"ftol": 1e-13, "gtol": 1e-9, "maxiter": 1000}
    )
    buffers = _interlaced(best.x)
    return buffers, value(buffers)


def _interlaced(log_steps: Float) -> Buffers:
    """Buffers of poles and zeros of C whose gaps 1 - r_1 < 1 - p_1 < 1 - r_2 < ... have these logarithms, capped.

    The first entry is the first logarithm, the others are logarithms of its steps.
    """
    logs = np.cumsum(np.concatenate((log_steps[:1], np.exp(log_steps[1:]))))
    # A smooth cap, which keeps the order: poles of C and of its inverse stay above 0.
    gaps = 0.999 / (1 + np.exp(-logs))
    poles, zeros = gaps[0::2], gaps[1::2]
    distances = poles[None, :] - poles[:, None] + np.eye(len(poles))
    weights = np.prod(zeros[None, :] - poles[:, None], axis=1) / np.prod(distances, axis=1)
    return Buffers.rounded(poles, np.abs(weights))
