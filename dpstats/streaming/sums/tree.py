"""Trees of partial sums, with Gaussian noise or pure: every node has one noise, a prefix is a sum of nodes
(docs/proofs/streams, 5 and 6)."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import combinations
from typing import Any, ClassVar, Literal, Unpack

import numpy as np
from numpy.typing import NDArray

from dpstats.arguments import check_choice, explain_calls
from dpstats.cached import cached_property
from dpstats.call import expand_signature
from dpstats.errors import ArgumentError, UncertifiedError
from dpstats.privacy.guarantee import Guarantee
from dpstats.privacy.k_norm import KNormNoise
from dpstats.privacy.noise import Noise
from dpstats.streaming.sums.lattice import (
    ROUNDING,
    Draws,
    Float,
    GaussianDraws,
    Integers,
    LaplaceDraws,
    NoisePath,
    NormDraws,
    check_reach,
    lattice_step,
    law_root_mean_square,
    zeros,
)
from dpstats.streaming.sums.mechanism import KEYWORD_DEFAULTS, Mechanism, MechanismKeywords, Reach, SumsPlan
from dpstats.streaming.sums.workloads import check_count

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
    levels = 1
    while arity**levels <= horizon:
        levels += 1
    return levels


def digits(ticks: NDArray[np.int64], arity: int, levels: int) -> NDArray[np.int64]:
    """Digits of `ticks` in base `arity`, lowest first, shape (levels, n)."""
    return np.stack([ticks // arity**level % arity for level in range(levels)])


class TreePath(NoisePath):
    """Memory: row j is the summed noise of level j's nodes in the prefix, one node for each unit of digit j."""

    def __init__(self, horizon: int, arity: int) -> None:
        self.levels, self.arity = levels_below(horizon, arity), arity

    def memory(self, size: int) -> Integers:
        return zeros(self.levels, size)

    def step(self, tick: int, fresh: Integers, memory: Integers) -> tuple[Integers, Integers]:
        """The new node replaces those of the levels below it."""
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
    """sum over nodes with a noise of (ticks of a person in the node)^power, shape (n,), by the person's first tick."""
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
            for first, second in combinations(range(len(offsets)), 2):
                # A pair in one node counts twice in the square. Of two ticks in one block, both are noised.
                total += 2 * (noised[:, first] & inside[:, second] & (blocks[:, first] == blocks[:, second]))
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


class NodeTree(Mechanism):
    """A tree of partial sums: nodes have one noise each, and a release is a sum of nodes."""

    workloads = ("cumulative",)
    arity = 2
    every: ClassVar[bool] = False
    """Whether all nodes are noised, or those alone that prefixes use."""

    @cached_property
    def _levels(self) -> int:
        return levels_below(self.workload.ticks, self.arity)

    @cached_property
    def sensitivity(self) -> float:
        """The square root of the number of nodes that hold a tick; for a person, of the sum of squared counts."""
        tree = TreeShape(self.workload.ticks, self.arity, self.every)
        return math.sqrt(worst_memberships(self.participation, tree, power=2))

    def release_variances(self, ticks: NDArray[np.int64]) -> Float:
        """The nodes in a prefix."""
        return digits(ticks, self.arity, self._levels).sum(axis=0).astype(np.float64)

    def sum_covariance(self, first: int, second: int) -> float:
        """The nodes in both prefixes: those of their common leading digits, and as many of the next level as the lesser
        digit."""
        total = 0.0
        for one, other in digits(np.array([first, second]), self.arity, self._levels)[::-1].tolist():
            total += min(one, other)
            if one != other:
                break
        return total

    def path(self) -> NoisePath:
        return TreePath(self.workload.ticks, self.arity)


class Tree(NodeTree):
    """Algorithm 4 of Kasiviswanathan, Nissim and Jin: a binary tree of partial sums, one noise a node.

    Parameters
    ----------
    calibration : {"exact", "printed"}
        One Gaussian mechanism for the whole transcript, or the variance that the paper prints, which needs
        `allow_uncertified`: at two ticks it is too small, at a thousand four times too large a deviation.
    horizon, workload, participation
        As for `Mechanism`; cumulative only.

    Examples
    --------
    >>> Tree(horizon=16).std(16) > 0
    True
    """

    name = "tree"

    @explain_calls()
    @expand_signature(MechanismKeywords, defaults=KEYWORD_DEFAULTS)
    def __init__(self, *, calibration: Calibration = "exact", **arguments: Unpack[MechanismKeywords]) -> None:
        super().__init__(**arguments)
        check_choice("calibration", calibration, ("exact", "printed"))
        if calibration == "printed" and self.participation != (0,):
            raise ArgumentError("calibration='printed' is for one row per person: leave participation out")
        self.calibration = calibration

    def options(self) -> dict[str, Any]:
        return {"calibration": self.calibration}

    def _calibrate(
        self, size: int, claim: Guarantee, row_sensitivity: Reach, step: float | None, *, allow_uncertified: bool
    ) -> SumsPlan:
        exact = super()._calibrate(size, claim, row_sensitivity, step, allow_uncertified=allow_uncertified)
        if self.calibration == "exact":
            return exact
        if not allow_uncertified:
            raise UncertifiedError(
                "calibration='printed' has no valid proof: pass allow_uncertified=True, or use 'exact'"
            )
        # The variance of a node as printed: 2 log2(T)^2 Delta^2 ln(2 / delta) / eps^2.
        factor = math.sqrt(2 * math.log(2 / claim.delta)) * math.log2(self.workload.ticks) / claim.eps
        if factor == 0:
            raise ArgumentError("horizon must be at least 2: the printed variance of a single tick is zero")
        guarantee = claim.uncertified("the printed variance of Algorithm 4 is not what its guarantee needs")
        return replace(exact, draws=GaussianDraws(factor * exact.row_sensitivity / exact.step), guarantee=guarantee)


# A node's own share in its estimate is a multiple of 2**-16: any share is unbiased, and this one all but the best
WEIGHT_BITS = 16


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
        return zeros(len(self.shares), size)

    def step(self, tick: int, fresh: Integers, memory: Integers) -> tuple[Integers, Integers]:
        """The new leaf is merged upwards with the nodes that it completes."""
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


class Honaker(NodeTree):
    """Honaker's tree: all nodes are noised, and what is known from below is averaged in as nodes complete.

    `horizon`, `workload` and `participation` are as for `Mechanism`; cumulative only.

    References
    ----------
    .. [1] Honaker (2015), "Efficient use of differentially private binary trees", estimation from below.

    Examples
    --------
    >>> Honaker(horizon=16).std(16) > 0
    True
    """

    name = "honaker"
    every = True

    @cached_property
    def _shares(self) -> Float:
        return np.array(own_shares(self._levels)) / 2.0**WEIGHT_BITS

    @cached_property
    def _variances(self) -> Float:
        """Variances of the estimates of nodes, by level."""
        variances = [1.0]
        for own in self._shares[1:].tolist():
            variances.append(own**2 + (1 - own) ** 2 * 2 * variances[-1])
        return np.array(variances)

    def release_variances(self, ticks: NDArray[np.int64]) -> Float:
        return np.asarray(self._variances @ digits(ticks, 2, self._levels), dtype=np.float64)

    def sum_covariance(self, first: int, second: int) -> float:
        """Prefixes share the nodes of their common leading digits. At the first digit that differs the longer one has a
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
        return HonakerPath(self.workload.ticks)


MOST_CHILDREN = 64
COVER_SHARE = 0.01  # Share of eps for the noise that covers the rounding of real-valued draws
# Distance of a computed draw from the ideal one, in root mean squares (docs/proofs/bodies, 5, and release)
DRAW_ERROR = 1e-8


class KNormTree(NodeTree):
    """A tree of partial sums with noise whose density falls with a norm of the vector: pure eps, delta = 0.

    Parameters
    ----------
    arity : int, optional
        Children of a node, 2 to 64; by default those of the least greatest standard deviation.
    horizon, workload, participation
        As for `Mechanism`; cumulative only.

    References
    ----------
    .. [1] Chan, Shi and Song (2011), "Private and continual release of statistics"; Hardt and Talwar (2010) for the
       K-norm mechanism.

    Examples
    --------
    >>> print(KNormTree(horizon=16).plan(size=2, eps=1.0).guarantee)
    eps=1, add_remove, certified
    """

    name = "knorm_tree"

    @explain_calls()
    @expand_signature(MechanismKeywords, defaults=KEYWORD_DEFAULTS)
    def __init__(self, *, arity: int | None = None, **arguments: Unpack[MechanismKeywords]) -> None:
        super().__init__(**arguments)
        chosen = best_arity(self.workload.ticks) if arity is None else arity
        self.arity = check_count("arity", chosen, MOST_CHILDREN, least=2)

    def options(self) -> dict[str, Any]:
        return {"arity": self.arity}

    @cached_property
    def sensitivity(self) -> float:
        """How many nodes hold a row; for a person, all the rows' nodes, one by one."""
        tree = TreeShape(self.workload.ticks, self.arity, self.every)
        return float(worst_memberships(self.participation, tree, power=1))

    @property
    def draw_deviation(self) -> float:
        """That of a Laplace variable: `std` is for vectors of one number, in units of Delta / eps."""
        return math.sqrt(2)

    def _calibrate(
        self, size: int, claim: Guarantee, row_sensitivity: Reach, step: float | None, *, allow_uncertified: bool
    ) -> SumsPlan:
        eps = claim.eps
        if claim.delta != 0:
            raise ArgumentError("delta must be 0 for KNormTree, which is pure: use Blt with a delta")
        unit = unit_law(row_sensitivity, size)
        deviation = self.sensitivity * law_root_mean_square(unit, size) / math.sqrt(size) / eps
        spacing = lattice_step(step, unit.scale, 2**4 * deviation)
        nodes = round(self.sensitivity)
        if isinstance(unit, Noise) and (unit.norm == "l1" or size == 1):
            draws: Draws = LaplaceDraws(nodes * math.ceil(unit.scale / spacing), eps)
        else:
            main = unit.scaled(nodes * unit.scale / spacing * (1 + ROUNDING) / (eps * (1 - COVER_SHARE)))
            off = DRAW_ERROR * law_root_mean_square(main, size) * math.sqrt(size)
            draws = NormDraws(main, nodes * math.ceil(size + 2 * off), eps * COVER_SHARE)
        return SumsPlan(self, size, unit.scale, unit.norm, spacing, draws, replace(claim, rho=eps**2 / 2))


def unit_law(row_sensitivity: Reach, size: int) -> Noise | KNormNoise:
    """The law whose scale is a row's reach in its norm, of the least root mean square among those given."""
    if isinstance(row_sensitivity, KNormNoise):
        if row_sensitivity.size != size:
            raise ArgumentError(f"row_sensitivity is a body of {row_sensitivity.size} columns, but size is {size}")
        check_reach("row_sensitivity", row_sensitivity.scale)
        return row_sensitivity
    if not isinstance(row_sensitivity, Mapping):
        row_sensitivity = {"l2": row_sensitivity}
    if not row_sensitivity or not set(row_sensitivity) <= {"l1", "l2", "linf"}:
        raise ArgumentError("row_sensitivity must be a number, or name norms among 'l1', 'l2' and 'linf'")
    laws = [
        Noise("laplace", norm, check_reach(f"row_sensitivity[{norm!r}]", bound))  # type: ignore[arg-type]
        for norm, bound in row_sensitivity.items()
    ]
    return min(laws, key=lambda law: law.expected_square(size))


@lru_cache(maxsize=64)
def best_arity(horizon: int) -> int:
    """The arity from 2 to 64 with the least greatest standard deviation, rows taken to be in nodes of all levels."""

    def worst(arity: int) -> float:
        return levels_below(horizon, arity) * math.sqrt(greatest_digit_sum(horizon, arity))

    return min(range(2, min(MOST_CHILDREN, horizon + 1) + 1), key=worst)


def greatest_digit_sum(horizon: int, arity: int) -> int:
    """The greatest sum of digits of a number up to `horizon`."""
    best, leading = 0, 0
    for place in reversed(range(levels_below(horizon, arity))):
        digit = horizon // arity**place % arity
        if digit > 0:
            # One less at this place, and the greatest digits below.
            best = max(best, leading + digit - 1 + place * (arity - 1))
        leading += digit
    return max(best, leading)
