"""Linear Toeplitz mechanisms: the square root of a workload, and a few decaying buffers that come near it
(docs/proofs/streams, 2 and 4)."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Any, Unpack

import numpy as np
from numpy.typing import NDArray
from scipy import optimize, signal

from dpstats.arguments import explain_calls, is_whole, safe_repr
from dpstats.cached import cached_property
from dpstats.call import expand_signature
from dpstats.errors import ArgumentError
from dpstats.streaming.sums.lattice import Float, Integers, NoisePath, zeros
from dpstats.streaming.sums.mechanism import KEYWORD_DEFAULTS, Mechanism, MechanismKeywords
from dpstats.streaming.sums.workloads import Cumulative, Halflife, Window, Workload, check_count, powers


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


BITS = 64  # Decays and weights are whole multiples of 2**-BITS, and define C exactly
# The fewest buffers are used whose greatest standard deviation is within this factor of the square root's
CLOSE = 1.002
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


def pattern_norm(offsets: tuple[int, ...], inner: Callable[[float, int], float], ticks: float) -> float:
    """max over a person's patterns of (sum_ij |<c_i, c_j>|)^(1/2), for columns of a Toeplitz matrix with `ticks` rows.

    A pattern has each of the person's `offsets` in turn at the first tick, those before it left out. `inner` gives
    sum_{k < count} c_k c_{k + lag} for a count and a lag.
    """
    product = lru_cache(maxsize=None)(inner)  # patterns share most pairs
    worst = 0.0
    for first in offsets:
        pattern = [offset - first for offset in offsets if 0 <= offset - first < ticks]
        total = 0.0
        for place, later in enumerate(pattern):
            total += abs(product(ticks - later, 0))
            total += 2 * sum(abs(product(ticks - later, later - earlier)) for earlier in pattern[:place])
        worst = max(worst, total)
    return math.sqrt(worst)


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
    return pattern_norm(offsets, partial(lagged_product, root), ticks) * float(np.linalg.norm(root))


def _fit(workload: Workload, offsets: tuple[int, ...], count: int) -> tuple[Buffers, float]:
    """Buffers and their greatest standard deviation, by minimising it over interlaced poles and zeros of C."""
    ticks, rho_gap = (workload.ticks, 0.0) if isinstance(workload, Cumulative) else (math.inf, 1 - workload.decay)

    def value(buffers: Buffers) -> float:
        columns = pattern_norm(offsets, buffers.inner, ticks)
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


TAP_BITS = 32  # Taps are whole multiples of 2**-TAP_BITS, and define C exactly


class BufferPath(NoisePath):
    """C with the coefficients 1 and sum_j w_j r_j^(k-1): one buffer of past noise a term.

    Memory: row j holds sum_k r_j^(k-1) n_{t-k} in units of 2**-BITS, each step rounded down.
    """

    def __init__(self, buffers: Buffers) -> None:
        self.buffers = buffers

    def memory(self, size: int) -> Integers:
        return zeros(len(self.buffers.decays), size)

    def step(self, tick: int, fresh: Integers, memory: Integers) -> tuple[Integers, Integers]:
        weighted = np.array(self.buffers.weights, dtype=object) @ memory
        noise = fresh[0] - _halves_up(weighted, 2 * BITS)
        shifted = noise << BITS
        later = [(row * decay >> BITS) + shifted for row, decay in zip(memory, self.buffers.decays, strict=True)]
        return noise, np.stack(later)

    def error(self) -> float:
        """By how much more than 1/2 z may differ from C n: buffers are off by at most 2**-BITS / (1 - r_j)."""
        weights = np.array(self.buffers.weights) / 2.0**BITS
        return float((weights / self.buffers.gaps).sum()) * 2.0**-BITS


class TapPath(NoisePath):
    """C with finitely many coefficients 1, c_1, ..., c_{K-1} in units of 2**-TAP_BITS; memory is the last K - 1 noises.

    The last row of the memory is the latest noise.
    """

    portable = False  # taps are computed anew, and their last bit may be another machine's

    def __init__(self, taps: tuple[int, ...]) -> None:
        self.taps = taps

    def memory(self, size: int) -> Integers:
        return zeros(0, size)  # grows up to K - 1 rows

    def step(self, tick: int, fresh: Integers, memory: Integers) -> tuple[Integers, Integers]:
        weights = np.array(self.taps[1 : len(memory) + 1][::-1], dtype=object)
        noise = fresh[0] - _halves_up(exact_product(weights, memory), TAP_BITS)
        if len(self.taps) == 1:
            return noise, memory
        latest = memory[max(0, len(memory) + 2 - len(self.taps)) :]
        return noise, np.concatenate((latest, noise[None]))


def exact_product(weights: Integers, rows: Integers) -> Integers:
    """weights @ rows without rounding, in 64-bit parts where they fit; shapes (n,) and (n, size).

    Weights are at most 2**TAP_BITS in size and rows below 2**62.
    """
    if len(weights) == 0:
        return zeros(1, rows.shape[1])[0]
    if len(weights) < 64:
        return np.asarray(weights @ rows, dtype=object)
    width = 62 - TAP_BITS - math.ceil(math.log2(len(weights)))
    left, factors = rows.astype(np.int64), weights.astype(np.int64)
    total = zeros(1, rows.shape[1])[0]
    parts = -(-63 // width)
    for place in range(parts):
        part = left & ((1 << width) - 1) if place < parts - 1 else left
        total = total + ((factors @ part).astype(object) << place * width)
        left = left >> width
    return total


def _halves_up(values: Integers, bits: int) -> Integers:
    """values / 2**bits rounded to the nearest integer."""
    return (values + (1 << (bits - 1))) >> bits


MOST_TAPS = 10**6
_WINDOWS = 20  # a window's taps, in windows: within 2e-4 of the root that is not cut
_HALFLIVES = 14
_SETTLED = 1e-9  # the share of a response's energy that may lie in the last tenth of what is computed


class Toeplitz(Mechanism):
    """The square root of the workload, as a lower triangular Toeplitz matrix (docs/proofs/streams, 2).

    A cumulative stream's memory is all past noises; the others are cut to `taps` coefficients, which stays exact.

    Parameters
    ----------
    taps : int, optional
        Coefficients of C for the workloads that run for ever; by default 20 windows, or 14 half-lives.
    horizon, halflife, window, workload, participation
        As for `Mechanism`.

    References
    ----------
    .. [1] Fichtenberger, Henzinger and Upadhyay (2023), "Constant matters: fine-grained error bound on differentially
       private continual observation"; Choquette-Choo, McMahan, Rush and Thakurta (2023) for persons in several ticks.

    Examples
    --------
    >>> Toeplitz(horizon=16).sensitivity > 0
    True
    """

    name = "toeplitz"

    @explain_calls()
    @expand_signature(MechanismKeywords, defaults=KEYWORD_DEFAULTS)
    def __init__(self, *, taps: int | None = None, **arguments: Unpack[MechanismKeywords]) -> None:
        super().__init__(**arguments)
        workload = self.workload
        if not workload.endless and taps is not None:
            raise ArgumentError("taps is for halflife and window: a cumulative stream needs a tap a tick")
        if not workload.endless and workload.ticks > MOST_TAPS:
            raise ArgumentError(f"horizon must be at most {MOST_TAPS:,} for Toeplitz: use Blt for more")
        if taps is None and isinstance(workload, Window):
            taps = min(MOST_TAPS, _WINDOWS * workload.window)
        elif taps is None and isinstance(workload, Halflife):
            taps = min(MOST_TAPS, math.ceil(_HALFLIVES * workload.halflife) + 10)
        elif taps is None:
            taps = workload.ticks
        self.taps = check_count("taps", taps, MOST_TAPS)

    def options(self) -> dict[str, Any]:
        return {"taps": self.taps} if self.workload.endless else {}

    @cached_property
    def whole_taps(self) -> tuple[int, ...]:
        """The coefficients of C in units of 2**-TAP_BITS."""
        workload = self.workload
        if isinstance(workload, Window):
            root = window_root(workload.window, self.taps)
        else:
            root = square_root(self.taps) * powers(workload.decay, self.taps)
        return tuple(np.rint(root * 2.0**TAP_BITS).astype(np.int64).tolist())

    @cached_property
    def coefficients(self) -> Float:
        """The coefficients of C, shape (taps,)."""
        return np.array(self.whole_taps) * 2.0**-TAP_BITS

    @cached_property
    def sensitivity(self) -> float:
        """The norm of a column of C; for a person that of several, at most (docs/proofs/streams, 3)."""
        return pattern_norm(self.participation, partial(lagged_product, self.coefficients), self.horizon or math.inf)

    @cached_property
    def inverse(self) -> Float:
        """Coefficients of C^-1, as many as matter."""
        if not self.workload.endless:
            return inverse(self.coefficients, self.workload.ticks)
        length = 8 * max(self.taps, 32)
        while True:
            series = inverse(self.coefficients, length)
            energy = self.workload.apply(series) ** 2
            if energy[-length // 10 :].sum() <= _SETTLED * energy.sum():
                return series
            if length >= 2**24 or not energy.sum() < 1e12:
                raise ArgumentError("taps are too few: the noise of C^-1 would grow for ever")
            length *= 2

    @cached_property
    def _variances(self) -> Float:
        """By tick: sums of the squared coefficients of A C^-1, the noise in the release k ticks after a draw of 1."""
        return np.cumsum(self.workload.apply(self.inverse) ** 2)

    def release_variances(self, ticks: NDArray[np.int64]) -> Float:
        return self._variances[np.minimum(ticks, len(self._variances)) - 1]

    def sum_covariance(self, first: int, second: int) -> float:
        early, late = sorted((first, second))
        sums = np.cumsum(self.inverse)
        if late > len(sums):
            sums = np.pad(sums, (0, late - len(sums)), mode="edge")
        return lagged_product(sums, early, late - early)

    def path(self) -> NoisePath:
        return TapPath(self.whole_taps)

    def touched(self) -> int:
        """The taps: later, the same noises are in memory with and without the row."""
        span = self.participation[-1] + self.taps
        return min(span, self.workload.ticks, self.taps * len(self.participation))


class Blt(Mechanism):
    """A buffered linear Toeplitz matrix: 2 to 5 buffers, constant memory, within .5 % of the square root.

    Its decays and weights minimise the greatest standard deviation for the workload and the person's ticks. No sum of
    decaying buffers has a window's zeros: there C is the square root cut to two windows, whose memory is constant too.

    Parameters
    ----------
    buffers : int or Buffers, optional
        How many, or their very decays and weights; by default the fewest within .2 % of the square root, up to five.
    horizon, halflife, window, workload, participation
        As for `Mechanism`.

    References
    ----------
    .. [1] Dvijotham, McMahan, Pillutla, Steinke and Thakurta (2024), "Efficient and near-optimal noise generation for
       streaming differential privacy".

    Examples
    --------
    >>> from dpstats.streaming.sums import Blt
    >>> round(Blt(horizon=1024).std(1024), 2)
    3.28
    """

    name = "blt"

    @explain_calls()
    @expand_signature(MechanismKeywords, defaults=KEYWORD_DEFAULTS)
    def __init__(self, *, buffers: int | Buffers | None = None, **arguments: Unpack[MechanismKeywords]) -> None:
        super().__init__(**arguments)
        self._taps: Toeplitz | None = None
        if isinstance(self.workload, Window):
            if buffers is not None:
                raise ArgumentError("buffers must be None for a window: its C has two windows of taps instead")
            taps = 2 * self.workload.window
            self._taps = Toeplitz(workload=self.workload, participation=self.participation, taps=taps)
        elif isinstance(buffers, Buffers):
            self.filter = buffers
        elif buffers is None or (is_whole(buffers) and 1 <= buffers <= MOST_BUFFERS):
            self.filter = fit_buffers(self.workload, self.participation, buffers)
        else:
            complaint = f"buffers must be an integer from 1 to {MOST_BUFFERS}, or Buffers"
            raise ArgumentError(f"{complaint}, got {safe_repr(buffers)}")

    def options(self) -> dict[str, Any]:
        """The buffers themselves, as integers: another machine's fit may differ in its last digits."""
        if self._taps is not None:
            return {}
        return {"filter": {"decays": list(self.filter.decays), "weights": list(self.filter.weights)}}

    @cached_property
    def sensitivity(self) -> float:
        """The norm of a column of C; for a person that of several, at most (docs/proofs/streams, 3)."""
        if self._taps is not None:
            return self._taps.sensitivity
        return pattern_norm(self.participation, self.filter.inner, self.horizon or math.inf)

    @cached_property
    def _sums(self) -> PoleSum:
        """Noise in the sum of all ticks, k ticks after a draw of 1: the coefficients of C^-1 / (1 - z)."""
        return self.filter.response(1.0)

    def release_variances(self, ticks: NDArray[np.int64]) -> Float:
        if self._taps is not None:
            return self._taps.release_variances(ticks)
        return self.filter.response(self.workload.decay).energies(ticks)

    def sum_covariance(self, first: int, second: int) -> float:
        if self._taps is not None:
            return self._taps.sum_covariance(first, second)
        early, late = sorted((first, second))
        return self._sums.inner(float(early), late - early)

    def path(self) -> NoisePath:
        return self._taps.path() if self._taps is not None else BufferPath(self.filter)

    def touched(self) -> int:
        """All ticks: a buffer forgets a row, but never to the last bit."""
        return self._taps.touched() if self._taps is not None else self.workload.ticks
