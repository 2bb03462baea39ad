"""The tree with every node's noise used: a node is estimated by itself and by its children (docs/proofs/streams, 5)."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpstats.cached import cached_property
from dpstats.streaming.sums.base import Integers, Mechanism, NoisePath, zeros
from dpstats.streaming.sums.tree import TreeShape, digits, levels_below, trailing, worst_memberships

Float = NDArray[np.float64]

WEIGHT_BITS = 16
"""A node's own share in its estimate is a multiple of 2**-16: any share is unbiased, and this one all but the best."""


def own_shares(levels: int) -> list[int]:
    """The share of a node's own noisy sum in its estimate, in units of 2**-16, by level.

    With v_0 = 1 and v_j = 1 / (1 + 1 / (2 v_{j-1})) = 2^j / (2^(j+1) - 1), the best share is v_j.
    """
    unit = 1 << WEIGHT_BITS
    return [unit if level == 0 else round(unit * 2**level / (2 ** (level + 1) - 1)) for level in range(levels)]


class HonakerPath(NoisePath):
    """Memory: row j is the noise of the estimate of level j's node in the current prefix, in units of 2**(-16 j)."""

    def __init__(self, horizon: int) -> None:
        self.shares = own_shares(levels_below(horizon, 2))

    def fresh(self, tick: int) -> int:
        """One for each node that the tick completes."""
        return trailing(tick, 2) + 1

    def memory(self, size: int) -> Integers:
        """No nodes."""
        return zeros(len(self.shares), size)

    def step(self, tick: int, fresh: Integers, memory: Integers) -> tuple[Integers, Integers]:
        """As `NoisePath.step`: the new leaf is merged upwards with the nodes that it completes."""
        level = trailing(tick, 2)
        later = memory.copy()
        estimate = fresh[0]
        for below in range(level):
            own = self.shares[below + 1]
            children = (estimate + memory[below]) * ((1 << WEIGHT_BITS) - own)
            estimate = children + (fresh[below + 1] * own << WEIGHT_BITS * below)
            later[below] = 0
        later[level] = estimate
        return self._rounded(later) - self._rounded(memory), later

    def _rounded(self, memory: Integers) -> Integers:
        """The nearest integers to the noise of the prefix."""
        top = WEIGHT_BITS * (len(memory) - 1)
        total = zeros(1, memory.shape[1])[0] + (1 << top >> 1)
        for level, row in enumerate(memory):
            total = total + (row << top - WEIGHT_BITS * level)
        return total >> top


class Honaker(Mechanism):
    """Honaker's tree: all nodes are noised, and what is known from below is averaged in as nodes complete.

    Parameters
    ----------
    horizon, workload, participation
        As for `Mechanism`; cumulative only.

    Raises
    ------
    ArgumentError
        If an argument is outside its range.

    References
    ----------
    .. [1] Honaker (2015), "Efficient use of differentially private binary trees", estimation from below.

    Examples
    --------
    >>> Honaker(horizon=16).std(16) > 0
    True
    """

    name = "honaker"
    workloads = ("cumulative",)

    def options(self) -> dict[str, Any]:
        """None."""
        return {}

    @cached_property
    def _levels(self) -> int:
        return levels_below(self.workload.ticks, 2)

    @cached_property
    def _shares(self) -> Float:
        return np.array(own_shares(self._levels)) / 2.0**WEIGHT_BITS

    @cached_property
    def _variances(self) -> Float:
        """Variances of the estimates of nodes, by level."""
        found = [1.0]
        for own in self._shares[1:].tolist():
            found.append(own**2 + (1 - own) ** 2 * 2 * found[-1])
        return np.array(found)

    @cached_property
    def sensitivity(self) -> float:
        """The square root of the number of nodes that hold a tick; for a person, of the sum of squared counts."""
        return math.sqrt(worst_memberships(self.participation, TreeShape(self.workload.ticks, 2, every=True), power=2))

    def release_variances(self, ticks: NDArray[np.int64]) -> Float:
        """As `Mechanism.release_variances`."""
        return np.asarray(self._variances @ digits(ticks, 2, self._levels), dtype=np.float64)

    def sum_covariance(self, first: int, second: int) -> float:
        """As `Mechanism.sum_covariance`.

        Prefixes share the nodes of their common leading digits. At the first digit that differs the longer one has a
        node that holds all further nodes of the shorter one, each with the product of the shares in between.
        """
        total, inherited = 0.0, 0.0
        for level in reversed(range(self._levels)):
            one, other = first >> level & 1, second >> level & 1
            if inherited == 0.0:
                if one and other:
                    total += self._variances[level]
                elif one or other:
                    inherited, shorter = 1.0 - self._shares[level], min(first, second)
                continue
            if shorter >> level & 1:
                total += inherited * self._variances[level]
            inherited *= 1.0 - self._shares[level]
        return total

    def path(self) -> NoisePath:
        """As `Mechanism.path`."""
        return HonakerPath(self.workload.ticks)

    def touched(self) -> int:
        """None: the rounding is that of a function of the noisy nodes."""
        return 0
