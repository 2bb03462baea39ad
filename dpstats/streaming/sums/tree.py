"""Trees of partial sums: every node has one noise, a prefix is a sum of nodes (docs/proofs/streams, 5)."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from dpstats.arguments import check_choice
from dpstats.cached import cached_property
from dpstats.errors import ArgumentError, UncertifiedError
from dpstats.privacy.guarantee import Adjacency
from dpstats.streaming.sums.base import Integers, Mechanism, NoisePath, zeros
from dpstats.streaming.sums.plan import SumsPlan, printed_tree_plan
from dpstats.streaming.sums.workloads import Workload

Float = NDArray[np.float64]
Calibration = Literal["exact", "printed"]


_CHUNK = 2**16


@dataclass(frozen=True)
class TreeShape:
    """Nodes with a noise: `every` one that is complete by the horizon, or those not their parent's last child."""

    horizon: int
    arity: int
    every: bool


def levels_below(horizon: int, arity: int) -> int:
    """Levels of nodes that are complete by the horizon: floor(log_arity horizon) + 1, in integers."""
    levels, reach = 1, arity
    while reach <= horizon:
        levels, reach = levels + 1, reach * arity
    return levels


def digits(ticks: NDArray[np.int64], arity: int, levels: int) -> NDArray[np.int64]:
    """Digits of `ticks` in base `arity`, lowest first, shape (levels, n)."""
    return np.stack([ticks // arity**level % arity for level in range(levels)])


class TreePath(NoisePath):
    """Memory: row j is the summed noise of level j's nodes in the prefix, one node for each unit of digit j."""

    def __init__(self, horizon: int, arity: int) -> None:
        self.levels, self.arity = levels_below(horizon, arity), arity

    def fresh(self, tick: int) -> int:
        """One: each tick completes one node that prefixes use."""
        return 1

    def memory(self, size: int) -> Integers:
        """No nodes."""
        return zeros(self.levels, size)

    def step(self, tick: int, fresh: Integers, memory: Integers) -> tuple[Integers, Integers]:
        """As `NoisePath.step`: the new node replaces those of the levels below it."""
        level = trailing(tick, self.arity)
        later = memory.copy()
        noise = fresh[0] - memory[:level].sum(axis=0) if level else fresh[0]
        later[:level] = 0
        later[level] = memory[level] + fresh[0]
        return noise, later


def trailing(tick: int, arity: int) -> int:
    """Zeros at the end of `tick` in base `arity`: the level of the node that it completes."""
    level = 0
    while tick % arity == 0:
        tick, level = tick // arity, level + 1
    return level


def memberships(starts: NDArray[np.int64], offsets: Sequence[int], tree: TreeShape, power: int) -> NDArray[np.int64]:
    """sum over nodes with a noise of (ticks of a person in the node)^power, shape (n,), for the person's first ticks."""
    ticks = starts[:, None] + np.array(offsets)
    inside = (ticks >= 1) & (ticks <= tree.horizon)
    total = np.zeros(len(starts), dtype=np.int64)
    for level in range(levels_below(tree.horizon, tree.arity)):
        width = tree.arity**level
        blocks = -(-ticks // width)
        noised = inside & (blocks * width <= tree.horizon)
        if not tree.every:
            noised &= blocks % tree.arity != 0
        total += noised.sum(axis=1)
        if power == 2:
            for first in range(len(offsets)):
                for second in range(first):
                    # A pair in one node counts twice in the square. Of two ticks in one block, both are noised.
                    together = noised[:, first] & inside[:, second] & (blocks[:, first] == blocks[:, second])
                    total += 2 * together
    return total


def worst_memberships(offsets: Sequence[int], tree: TreeShape, power: int) -> int:
    """The greatest of `memberships` over a person's first tick.

    Starts within `arity` periods, powers of the arity and no less than the span, and those before the stream began are
    tried: a later start has the same blocks below and no more above them (docs/proofs/streams, 5).
    """
    period = 1
    while period < offsets[-1] + 1:
        period *= tree.arity
    last = min(tree.horizon, tree.arity * period)
    most, worst = levels_below(tree.horizon, tree.arity) * len(offsets) ** power, 0
    for start in range(1 - offsets[-1], last + 1, _CHUNK):
        starts = np.arange(start, min(start + _CHUNK, last + 1))
        worst = max(worst, int(memberships(starts, offsets, tree, power).max()))
        if worst == most:
            break
    return worst


class Tree(Mechanism):
    """Algorithm 4 of Kasiviswanathan, Nissim and Jin: a binary tree of partial sums, one noise a node.

    Parameters
    ----------
    calibration : {"exact", "printed"}
        One Gaussian mechanism for the whole transcript, or the variance that the paper prints, which needs
        `allow_uncertified`: at two ticks it is too small, at a thousand four times too large a deviation.
    horizon, workload, participation
        As for `Mechanism`; cumulative only.

    Raises
    ------
    ArgumentError
        If an argument is outside its range.

    Examples
    --------
    >>> Tree(horizon=16).std(16) > 0
    True
    """

    name = "tree"
    workloads = ("cumulative",)

    def __init__(
        self,
        *,
        horizon: int | None = None,
        halflife: float | None = None,
        window: int | None = None,
        workload: Workload | str | None = None,
        participation: Sequence[int] = (0,),
        calibration: Calibration = "exact",
    ) -> None:
        super().__init__(
            horizon=horizon, halflife=halflife, window=window, workload=workload, participation=participation
        )
        check_choice("calibration", calibration, ("exact", "printed"))
        if calibration == "printed" and self.participation != (0,):
            raise ArgumentError("calibration='printed' knows of one row a person: drop participation")
        self.calibration = calibration

    def options(self) -> dict[str, Any]:
        """The calibration."""
        return {"calibration": self.calibration}

    @cached_property
    def sensitivity(self) -> float:
        """The square root of the number of nodes that hold a tick; for a person, of the sum of squared counts."""
        return math.sqrt(worst_memberships(self.participation, TreeShape(self.workload.ticks, 2, every=False), power=2))

    def release_variances(self, ticks: NDArray[np.int64]) -> Float:
        """As `Mechanism.release_variances`: the nodes in a prefix."""
        return digits(ticks, 2, levels_below(self.workload.ticks, 2)).sum(axis=0).astype(np.float64)

    def sum_covariance(self, first: int, second: int) -> float:
        """As `Mechanism.sum_covariance`: the nodes in both prefixes."""
        return float(common_nodes(first, second, 2, levels_below(self.workload.ticks, 2)))

    def path(self) -> NoisePath:
        """As `Mechanism.path`."""
        return TreePath(self.workload.ticks, 2)

    def touched(self) -> int:
        """None: sums of nodes are not rounded."""
        return 0

    def plan(
        self,
        size: int,
        *,
        eps: float,
        delta: float = 0.0,
        row_sensitivity: float | Mapping[str, float] = 1.0,
        adjacency: Adjacency = "add_remove",
        step: float | None = None,
        allow_uncertified: bool = False,
    ) -> SumsPlan:
        """As `Mechanism.plan`; with ``calibration="printed"`` the noise is the paper's."""
        exact = super().plan(
            size, eps=eps, delta=delta, row_sensitivity=row_sensitivity, adjacency=adjacency, step=step
        )
        if self.calibration == "exact":
            return exact
        if not allow_uncertified:
            raise UncertifiedError(
                "calibration='printed' has no valid proof: pass allow_uncertified=True, or use 'exact'"
            )
        return printed_tree_plan(exact)


def common_nodes(first: int, second: int, arity: int, levels: int) -> int:
    """Nodes that the prefixes of `first` and `second` ticks have in common: those of their common leading digits, and
    as many of the next level as the lesser digit."""
    total = 0
    for level in reversed(range(levels)):
        one, other = first // arity**level % arity, second // arity**level % arity
        total += min(one, other)
        if one != other:
            break
    return total


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
