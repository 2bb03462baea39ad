"""The square root of a workload as a Toeplitz matrix: the least noise known, and all past noises in memory."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpstats.arguments import shown
from dpstats.cached import cached_property
from dpstats.errors import ArgumentError
from dpstats.streaming.sums.base import Mechanism, NoisePath
from dpstats.streaming.sums.buffers import early_patterns, pattern_norm
from dpstats.streaming.sums.filters import TAP_BITS, TapPath
from dpstats.streaming.sums.series import inverse, lagged, square_root, window_root
from dpstats.streaming.sums.workloads import Halflife, Window, Workload, powers

Float = NDArray[np.float64]

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

    Raises
    ------
    ArgumentError
        If an argument is outside its range, or the root cut so short has no stable inverse.

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

    def __init__(
        self,
        *,
        horizon: int | None = None,
        halflife: float | None = None,
        window: int | None = None,
        workload: Workload | str | None = None,
        participation: Sequence[int] = (0,),
        taps: int | None = None,
    ) -> None:
        super().__init__(
            horizon=horizon, halflife=halflife, window=window, workload=workload, participation=participation
        )
        self.taps = self._count_taps(taps)

    def _count_taps(self, taps: int | None) -> int:
        if not self.workload.endless:
            if taps is not None:
                raise ArgumentError("taps is for halflife and window: a cumulative stream needs a tap a tick")
            if self.workload.ticks > MOST_TAPS:
                raise ArgumentError(f"horizon must be at most {MOST_TAPS:,} for Toeplitz: take Blt for more")
            return self.workload.ticks
        if taps is None:
            taps = _default_taps(self.workload)
        if isinstance(taps, bool) or not isinstance(taps, (int, np.integer)) or not 1 <= taps <= MOST_TAPS:
            raise ArgumentError(f"taps must be an integer from 1 to {MOST_TAPS:,}, got {shown(taps)}")
        return int(taps)

    def options(self) -> dict[str, Any]:
        """The number of taps where it can be chosen."""
        return {"taps": self.taps} if self.workload.endless else {}

    @cached_property
    def whole_taps(self) -> tuple[int, ...]:
        """The coefficients of C in units of 2**-TAP_BITS."""
        return tuple(np.rint(_root(self.workload, self.taps) * 2.0**TAP_BITS).astype(np.int64).tolist())

    @cached_property
    def coefficients(self) -> Float:
        """The coefficients of C, shape (taps,)."""
        return np.array(self.whole_taps) * 2.0**-TAP_BITS

    @cached_property
    def sensitivity(self) -> float:
        """The norm of a column of C; for a person that of several, at most (docs/proofs/streams, 3)."""
        ticks = math.inf if self.workload.endless else self.workload.ticks

        def inner(count: float, lag: int) -> float:
            return lagged(self.coefficients, int(min(count, self.taps)), lag)

        return pattern_norm(early_patterns(self.participation), inner, ticks)

    @cached_property
    def inverse(self) -> Float:
        """Coefficients of C^-1, as many as matter."""
        if not self.workload.endless:
            return inverse(self.coefficients, self.workload.ticks)
        length = 8 * max(self.taps, 32)
        while True:
            found = inverse(self.coefficients, length)
            energy = self.workload.apply(found) ** 2
            if energy[-length // 10 :].sum() <= _SETTLED * energy.sum():
                return found
            if length >= 2**24 or not energy.sum() < 1e12:
                raise ArgumentError("taps are too few: the noise of C^-1 would grow for ever")
            length *= 2

    @cached_property
    def responses(self) -> Float:
        """Noise in the release, k ticks after a draw of 1: the coefficients of A C^-1."""
        return self.workload.apply(self.inverse)

    def release_variances(self, ticks: NDArray[np.int64]) -> Float:
        """As `Mechanism.release_variances`."""
        return np.cumsum(self.responses**2)[np.minimum(ticks, len(self.responses)) - 1]

    def sum_covariance(self, first: int, second: int) -> float:
        """As `Mechanism.sum_covariance`."""
        early, late = min(first, second), max(first, second)
        sums = np.cumsum(self.inverse)
        if late > len(sums):
            sums = np.pad(sums, (0, late - len(sums)), mode="edge")
        return lagged(sums, early, late - early)

    def path(self) -> NoisePath:
        """As `Mechanism.path`."""
        return TapPath(self.whole_taps)

    def touched(self) -> int:
        """The taps: later, the same noises are in memory with and without the row."""
        span = self.participation[-1] + self.taps
        return min(span, self.workload.ticks, self.taps * len(self.participation))


def _default_taps(workload: Workload) -> int:
    if isinstance(workload, Window):
        return min(MOST_TAPS, _WINDOWS * workload.window)
    assert isinstance(workload, Halflife)
    return min(MOST_TAPS, math.ceil(_HALFLIVES * workload.halflife) + 10)


def _root(workload: Workload, count: int) -> Float:
    """The first coefficients of the workload's square root, shape (count,)."""
    if isinstance(workload, Window):
        return window_root(workload.window, count)
    return square_root(count) * powers(workload.decay, count)
