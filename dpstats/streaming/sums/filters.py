"""Noise by the inverse of a Toeplitz matrix, in integers (docs/proofs/streams, 4).

Both mechanisms release x_t + n_t with z = C n rounded: n_t = z_t - round((C - I) n)_t from fresh z and earlier n.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from dpstats.streaming.sums.base import Integers, NoisePath, zeros
from dpstats.streaming.sums.buffers import BITS, Buffers

Float = NDArray[np.float64]

TAP_BITS = 32
"""Taps are whole multiples of 2**-TAP_BITS: C is what they say."""


class BufferPath(NoisePath):
    """C with the coefficients 1 and sum_j w_j r_j^(k-1): one buffer of past noise a term.

    Memory: row j holds sum_k r_j^(k-1) n_{t-k} in units of 2**-BITS, each step rounded down.
    """

    def __init__(self, buffers: Buffers) -> None:
        self.buffers = buffers

    def fresh(self, tick: int) -> int:
        """One."""
        return 1

    def memory(self, size: int) -> Integers:
        """No past noise."""
        return zeros(len(self.buffers.decays), size)

    def step(self, tick: int, fresh: Integers, memory: Integers) -> tuple[Integers, Integers]:
        """As `NoisePath.step`."""
        weighted = sum(
            (row * weight for row, weight in zip(memory, self.buffers.weights, strict=True)), start=zeros(1, 1)[0]
        )
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

    def __init__(self, taps: tuple[int, ...]) -> None:
        self.taps = taps

    def fresh(self, tick: int) -> int:
        """One."""
        return 1

    def memory(self, size: int) -> Integers:
        """No past noise: the memory grows up to K - 1 rows."""
        return zeros(0, size)

    def step(self, tick: int, fresh: Integers, memory: Integers) -> tuple[Integers, Integers]:
        """As `NoisePath.step`."""
        weights = np.array(self.taps[1 : len(memory) + 1][::-1], dtype=object)
        past = exact_product(weights, memory)
        noise = fresh[0] - _halves_up(past, TAP_BITS)
        kept = memory[max(0, len(memory) + 2 - len(self.taps)) :] if len(self.taps) > 1 else memory
        return noise, np.concatenate((kept, noise[None])) if len(self.taps) > 1 else memory


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
