"""The default: noise from a few decaying buffers, in constant memory."""

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
from dpstats.streaming.sums.buffers import MOST_BUFFERS, Buffers, early_patterns, fit_buffers, pattern_norm
from dpstats.streaming.sums.filters import BufferPath
from dpstats.streaming.sums.series import PoleSum
from dpstats.streaming.sums.toeplitz import Toeplitz
from dpstats.streaming.sums.workloads import Window, Workload

Float = NDArray[np.float64]


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

    Raises
    ------
    ArgumentError
        If an argument is outside its range.

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

    def __init__(
        self,
        *,
        horizon: int | None = None,
        halflife: float | None = None,
        window: int | None = None,
        workload: Workload | str | None = None,
        participation: Sequence[int] = (0,),
        buffers: int | Buffers | None = None,
    ) -> None:
        super().__init__(
            horizon=horizon, halflife=halflife, window=window, workload=workload, participation=participation
        )
        if isinstance(self.workload, Window):
            if buffers is not None:
                raise ArgumentError("buffers must be None for a window: its C has two windows of taps instead")
            self._taps: Toeplitz | None = Toeplitz(
                workload=self.workload, participation=self.participation, taps=2 * self.workload.window
            )
            return
        self._taps = None
        if isinstance(buffers, Buffers):
            self.filter = buffers
            return
        if buffers is not None and (isinstance(buffers, bool) or buffers not in range(1, MOST_BUFFERS + 1)):
            raise ArgumentError(
                f"buffers must be an integer from 1 to {MOST_BUFFERS}, or Buffers, got {shown(buffers)}"
            )
        self.filter = fit_buffers(self.workload, self.participation, buffers)

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
        """As `Mechanism.release_variances`."""
        if self._taps is not None:
            return self._taps.release_variances(ticks)
        return self.filter.response(self.workload.decay).energies(ticks)

    def sum_covariance(self, first: int, second: int) -> float:
        """As `Mechanism.sum_covariance`."""
        if self._taps is not None:
            return self._taps.sum_covariance(first, second)
        early, late = min(first, second), max(first, second)
        return self._sums.inner(float(early), late - early)

    def path(self) -> NoisePath:
        """As `Mechanism.path`."""
        return self._taps.path() if self._taps is not None else BufferPath(self.filter)

    def touched(self) -> int:
        """All ticks: a buffer forgets a row, but never to the last bit."""
        return self._taps.touched() if self._taps is not None else self.workload.ticks
