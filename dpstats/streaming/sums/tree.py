"""The tree of partial sums: every node has one noise, a prefix is a sum of nodes (docs/proofs/streams, 5)."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from dpstats.errors import ArgumentError, UncertifiedError
from dpstats.privacy.guarantee import Adjacency
from dpstats.streaming.sums.base import Integers, Mechanism, NoisePath, zeros
from dpstats.streaming.sums.plan import SumsPlan, printed_tree_plan
from dpstats.streaming.sums.workloads import Workload

Float = NDArray[np.float64]
Calibration = Literal["exact", "printed"]


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


def node_memberships(start: int, offsets: Sequence[int], horizon: int, arity: int, every: bool) -> list[int]:
    """For each node with a noise, how many of the ticks start + offsets it sums, if any.

    `every` node is noised, or only those that some prefix uses: not the last child of its parent.
    """
    inside = [start + offset for offset in offsets if 1 <= start + offset <= horizon]
    counts: list[int] = []
    for level in range(levels_below(horizon, arity)):
        width = arity**level
        blocks = [-(-tick // width) for tick in inside]
        counts += [
            blocks.count(block)
            for block in sorted(set(blocks))
            if block * width <= horizon and (every or block % arity != 0)
        ]
    return counts


def worst_memberships(offsets: Sequence[int], horizon: int, arity: int, every: bool, power: int) -> int:
    """max over a person's first tick of sum over nodes of (ticks in the node)^power.

    All starts within two spans that are powers of the arity, and the same before the stream's begin, are tried: a later
    start has the same blocks below and no more above them (docs/proofs/streams, 5).
    """
    span = offsets[-1] + 1
    period = 1
    while period < span:
        period *= arity
    starts = range(1 - offsets[-1], min(horizon, arity * period) + 1)
    return max(
        sum(count**power for count in node_memberships(start, offsets, horizon, arity, every)) for start in starts
    )


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
        if calibration not in ("exact", "printed"):
            raise ArgumentError(f"calibration must be 'exact' or 'printed', got {calibration!r}")
        if calibration == "printed" and self.participation != (0,):
            raise ArgumentError("calibration='printed' knows of one row a person: drop participation")
        self.calibration = calibration

    def options(self) -> dict[str, Any]:
        """The calibration."""
        return {"calibration": self.calibration}

    @cached_property
    def sensitivity(self) -> float:
        """The square root of the number of nodes that hold a tick; for a person, of the sum of squared counts."""
        return math.sqrt(worst_memberships(self.participation, self.workload.ticks, 2, every=False, power=2))

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
