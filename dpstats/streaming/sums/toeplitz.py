"""Linear Toeplitz mechanisms: the square root of a workload, and a few decaying buffers that come near it
(docs/proofs/streams, 4)."""

from __future__ import annotations

import math
from functools import partial
from typing import Any, Unpack

import numpy as np
from numpy.typing import NDArray

from dpstats.arguments import explain_calls, is_whole, safe_repr
from dpstats.cached import cached_property
from dpstats.call import expand_signature
from dpstats.errors import ArgumentError
from dpstats.streaming.sums.buffers import (
    BITS,
    MOST_BUFFERS,
    Buffers,
    PoleSum,
    early_patterns,
    fit_buffers,
    inverse,
    lagged_product,
    pattern_norm,
    square_root,
    window_root,
)
from dpstats.streaming.sums.lattice import Float, Integers, NoisePath, zeros
from dpstats.streaming.sums.mechanism import KEYWORD_DEFAULTS, Mechanism, MechanismKeywords
from dpstats.streaming.sums.workloads import Halflife, Window, powers

TAP_BITS = 32
"""Taps are whole multiples of 2**-TAP_BITS: C is what they say."""


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
        if not is_whole(taps) or not 1 <= taps <= MOST_TAPS:
            raise ArgumentError(f"taps must be an integer from 1 to {MOST_TAPS:,}, got {safe_repr(taps)}")
        self.taps = int(taps)

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
        ticks = math.inf if self.workload.endless else self.workload.ticks
        return pattern_norm(early_patterns(self.participation), partial(lagged_product, self.coefficients), ticks)

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
        ticks = math.inf if self.workload.endless else self.workload.ticks
        return pattern_norm(early_patterns(self.participation), self.filter.inner, ticks)

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
