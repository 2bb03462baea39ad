"""Pure noise on a tree of sums whose arity the plan chooses (docs/proofs/streams, 6)."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpstats.arguments import safe_repr
from dpstats.cached import cached_property
from dpstats.errors import ArgumentError
from dpstats.privacy.guarantee import Adjacency, Guarantee, check_adjacency, check_budget
from dpstats.privacy.k_norm import KNormNoise
from dpstats.privacy.noise import Noise
from dpstats.streaming.sums.base import Mechanism, NoisePath
from dpstats.streaming.sums.draws import Draws, LaplaceDraws, NormDraws, law_root_mean_square
from dpstats.streaming.sums.plan import BASIS, ROUNDING, SumsPlan, check_reach, check_size, lattice_step
from dpstats.streaming.sums.tree import TreePath, TreeShape, common_nodes, digits, levels_below, worst_memberships
from dpstats.streaming.sums.workloads import Workload

Float = NDArray[np.float64]

MOST_CHILDREN = 64

COVER_SHARE = 0.01
"""The share of eps for the noise that covers the rounding of real-valued draws."""

DRAW_ERROR = 1e-8
"""A computed draw is within so many root mean squares of the ideal one (docs/proofs/bodies, 5, and release)."""


class KNormTree(Mechanism):
    """A tree of partial sums with noise whose density falls with a norm of the vector: pure eps, delta = 0.

    Parameters
    ----------
    arity : int, optional
        Children of a node, 2 to 64; by default those of the least greatest standard deviation.
    horizon, workload, participation
        As for `Mechanism`; cumulative only.

    Raises
    ------
    ArgumentError
        If an argument is outside its range.

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
    workloads = ("cumulative",)

    def __init__(
        self,
        *,
        horizon: int | None = None,
        halflife: float | None = None,
        window: int | None = None,
        workload: Workload | str | None = None,
        participation: Sequence[int] = (0,),
        arity: int | None = None,
    ) -> None:
        super().__init__(
            horizon=horizon, halflife=halflife, window=window, workload=workload, participation=participation
        )
        if arity is None:
            arity = best_arity(self.workload.ticks)
        if isinstance(arity, bool) or not isinstance(arity, (int, np.integer)) or not 2 <= arity <= MOST_CHILDREN:
            raise ArgumentError(f"arity must be an integer from 2 to {MOST_CHILDREN}, got {safe_repr(arity)}")
        self.arity = int(arity)

    def options(self) -> dict[str, Any]:
        """The arity."""
        return {"arity": self.arity}

    @cached_property
    def _levels(self) -> int:
        return levels_below(self.workload.ticks, self.arity)

    @cached_property
    def sensitivity(self) -> float:
        """How many nodes hold a row; for a person, all the rows' nodes, one by one."""
        return float(
            worst_memberships(self.participation, TreeShape(self.workload.ticks, self.arity, every=False), power=1)
        )

    @property
    def draw_deviation(self) -> float:
        """That of a Laplace variable: `std` is for vectors of one number, in units of Delta / eps."""
        return math.sqrt(2)

    def release_variances(self, ticks: NDArray[np.int64]) -> Float:
        """As `Mechanism.release_variances`: the nodes in a prefix."""
        return digits(ticks, self.arity, self._levels).sum(axis=0).astype(np.float64)

    def sum_covariance(self, first: int, second: int) -> float:
        """As `Mechanism.sum_covariance`: the nodes in both prefixes."""
        return float(common_nodes(first, second, self.arity, self._levels))

    def path(self) -> NoisePath:
        """As `Mechanism.path`."""
        return TreePath(self.workload.ticks, self.arity)

    def touched(self) -> int:
        """None: sums of nodes are not rounded."""
        return 0

    def plan(
        self,
        size: int,
        *,
        eps: float,
        delta: float = 0.0,
        row_sensitivity: float | Mapping[str, float] | KNormNoise = 1.0,
        adjacency: Adjacency = "add_remove",
        step: float | None = None,
        allow_uncertified: bool = False,
    ) -> SumsPlan:
        """As `Mechanism.plan`, with more kinds of sensitivity.

        Parameters
        ----------
        size : int
        eps : float
        delta : float
            Must be 0.
        row_sensitivity : float, mapping or KNormNoise
            In the Euclidean norm; or ``{"l1": ..., "l2": ..., "linf": ...}``, of which the norm of the least noise is
            taken; or a body's law whose scale is the most a row moves its tick's vector, in the body's norm.
        adjacency, step, allow_uncertified
            As for `Mechanism.plan`.
        """
        size, adjacency = check_size(size), check_adjacency(adjacency)
        eps, delta = check_budget(eps, delta)
        if delta != 0:
            raise ArgumentError("delta must be 0 for KNormTree, which is pure: Blt makes use of a delta")
        unit = unit_law(row_sensitivity, size)
        deviation = self.sensitivity * law_root_mean_square(unit, size) / math.sqrt(size) / eps
        spacing = lattice_step(step, unit.scale, 2**4 * deviation)
        draws = self._draws(unit, size, eps, spacing)
        guarantee = Guarantee(eps, 0.0, adjacency, basis=BASIS, rho=eps**2 / 2)
        return SumsPlan(self, size, unit.scale, unit.norm, spacing, draws, guarantee)

    def _draws(self, unit: Noise | KNormNoise, size: int, eps: float, spacing: float) -> Draws:
        """The node's noise for the budget, in lattice steps."""
        nodes = round(self.sensitivity)
        if isinstance(unit, Noise) and (unit.norm == "l1" or size == 1):
            return LaplaceDraws(nodes * math.ceil(unit.scale / spacing), eps)
        main = unit.scaled(nodes * unit.scale / spacing * (1 + ROUNDING) / (eps * (1 - COVER_SHARE)))
        off = DRAW_ERROR * law_root_mean_square(main, size) * math.sqrt(size)
        return NormDraws(main, nodes * math.ceil(size + 2 * off), eps * COVER_SHARE)


def unit_law(row_sensitivity: float | Mapping[str, float] | KNormNoise, size: int) -> Noise | KNormNoise:
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
    best, left, leading, level = 0, horizon, 0, levels_below(horizon, arity) - 1
    for place in range(level, -1, -1):
        digit = left // arity**place
        if digit > 0:
            # One less at this place, and the greatest digits below.
            best = max(best, leading + digit - 1 + place * (arity - 1))
        leading, left = leading + digit, left % arity**place
    return max(best, leading)
