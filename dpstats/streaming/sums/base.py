"""What every mechanism for private sums of a stream is: a workload, its noise by ticks, and its price."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, overload

import numpy as np
from numpy.typing import NDArray

from dpstats.arguments import safe_repr
from dpstats.errors import ArgumentError
from dpstats.privacy.guarantee import Adjacency
from dpstats.streaming.sums.plan import SumsPlan, plan_gaussian
from dpstats.streaming.sums.workloads import Workload, check_participation, make_workload

Float = NDArray[np.float64]
Integers = NDArray[np.object_]


class NoisePath(ABC):
    """The noise of tick after tick as integers, made of fresh draws and a memory of earlier ones.

    All arrays hold Python integers (dtype object), so that nothing overflows or is rounded unseen.
    """

    @abstractmethod
    def fresh(self, tick: int) -> int:
        """How many fresh vectors tick `tick` = 1, 2, ... takes."""

    @abstractmethod
    def memory(self, size: int) -> Integers:
        """The memory before the first tick, shape (rows, size)."""

    @abstractmethod
    def step(self, tick: int, fresh: Integers, memory: Integers) -> tuple[Integers, Integers]:
        """The noise of tick `tick` >= 1, shape (size,), and the memory after it; `fresh` is of shape
        (self.fresh(tick), size), `memory` of (rows, size) and left as it is."""

    def error(self) -> float:
        """By how much more than 1/2 a number of the fresh noise may differ from what the noises make of it."""
        return 0.0


class Mechanism(ABC):
    """A way to release sums of a stream of vectors at every tick under one charge.

    Parameters
    ----------
    horizon : int, optional
        The last tick of a cumulative stream. If no workload is named at all, a million ticks are declared, which
        costs 30 to 45 % more noise than knowing that there will be a thousand, or a hundred and twenty.
    halflife : float, optional
        Ticks after which a tick weighs half: a stream that runs for ever at constant noise.
    window : int, optional
        Sums of the last `window` ticks: the same.
    workload : Workload or {"cumulative", "halflife", "window"}, optional
        The same in one object; a name only checks what the others say.
    participation : tuple of int
        Offsets of the ticks that one person can have a row in, such as (0, 1, 2, 3, 12, 13, 14, 15): the guarantee is
        then the person's.

    Raises
    ------
    ArgumentError
        If an argument is outside its range or contradicts another.

    Examples
    --------
    >>> from dpstats.streaming.sums import Tree
    >>> tree = Tree(horizon=16)
    >>> tree.horizon, tree.sensitivity > 0, tree.draw_deviation
    (16, True, 1.0)
    """

    name: ClassVar[str]
    workloads: ClassVar[tuple[str, ...]] = ("cumulative", "halflife", "window")

    def __init__(
        self,
        *,
        horizon: int | None = None,
        halflife: float | None = None,
        window: int | None = None,
        workload: Workload | str | None = None,
        participation: Sequence[int] = (0,),
    ) -> None:
        self.workload = make_workload(workload, horizon, halflife, window)
        self.participation = check_participation(participation)
        if self.workload.name not in self.workloads:
            message = f"{type(self).__name__} makes sums of all ticks only: take Blt or Toeplitz for a {{}}"
            raise ArgumentError(message.format(self.workload.name))

    @property
    def horizon(self) -> int | None:
        """The last tick that the noise is made for; None if it runs for ever."""
        return None if self.workload.endless else self.workload.ticks

    @property
    @abstractmethod
    def sensitivity(self) -> float:
        """The most that one row (one person) moves the vector that the noise is added to, if it moves a tick by 1."""

    @abstractmethod
    def sum_covariance(self, first: int, second: int) -> float:
        """Covariance of the noise of the sums of the first `first` and `second` ticks, for draws of variance 1."""

    @abstractmethod
    def path(self) -> NoisePath:
        """The noise itself."""

    @abstractmethod
    def options(self) -> dict[str, Any]:
        """What the mechanism needs beside workload and participation to be made again."""

    @abstractmethod
    def touched(self) -> int:
        """How many ticks' noises a row may move, itself included, where the path rounds; 0 if it does not."""

    def to_dict(self) -> dict[str, Any]:
        """Plain public values, for JSON.

        Examples
        --------
        >>> tree.to_dict()["horizon"]
        16
        """
        person = list(self.participation)
        return {"mechanism": self.name, **self.workload.to_dict(), "participation": person, **self.options()}

    def __repr__(self) -> str:
        given = {name: value for name, value in self.to_dict().items() if name not in ("mechanism", "filter")}
        given.pop("participation")
        if self.participation != (0,):
            given["participation"] = self.participation
        return f"{type(self).__name__}({', '.join(f'{name}={value!r}' for name, value in given.items())})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Mechanism) and self.to_dict() == other.to_dict()

    def __hash__(self) -> int:
        return hash((self.name, self.workload, self.participation))

    @overload
    def std(self, t: int) -> float: ...

    @overload
    def std(self, t: Sequence[int] | NDArray[np.integer]) -> Float: ...

    def std(self, t: int | Sequence[int] | NDArray[np.integer]) -> float | Float:
        """Standard deviation of the release at tick `t` = 1, 2, ..., in units of Delta / mu (pure: Delta / eps).

        Delta is how far one row moves its tick's vector, mu the Gaussian mechanism's budget: see `SumsPlan.noise_sd`
        for a budget in eps and delta.

        Parameters
        ----------
        t : int or array of int, shape (n,)

        Returns
        -------
        float or ndarray, shape (n,)

        Raises
        ------
        ArgumentError
            If a tick lies outside the horizon.

        Examples
        --------
        >>> tree.std([1, 16]).shape
        (2,)
        """
        ticks = self.check_ticks(np.atleast_1d(np.asarray(t)))
        values = self.sensitivity * self.draw_deviation * np.sqrt(self.release_variances(ticks))
        return float(values[0]) if np.ndim(t) == 0 else values

    def std_between(self, a: int, b: int) -> float:
        """The same of the sum of the ticks a + 1, ..., b as the difference of two releases.

        Examples
        --------
        >>> tree.std_between(4, 8) > 0
        True
        """
        return float(np.sqrt(self.covariance([(a, b)])[0, 0]))

    def covariance(self, intervals: Sequence[tuple[int, int]]) -> Float:
        """Covariance of the noise of sums over intervals of ticks, in units of (Delta / mu)^2.

        Parameters
        ----------
        intervals : sequence of (a, b)
            The ticks a + 1, ..., b, with 0 <= a < b.

        Returns
        -------
        ndarray, shape (n, n)

        Raises
        ------
        ArgumentError
            If an interval is empty or lies outside the horizon.

        Examples
        --------
        >>> tree.covariance([(0, 4), (4, 8)]).shape
        (2, 2)
        """
        return (self.sensitivity * self.draw_deviation) ** 2 * self.draw_covariance(intervals)

    @property
    def draw_deviation(self) -> float:
        """The standard deviation of a coordinate of a draw whose scale is 1."""
        return 1.0

    def draw_covariance(self, intervals: Sequence[tuple[int, int]]) -> Float:
        """`covariance` for draws of variance 1."""
        for a, b in intervals:
            if not 0 <= a < b:
                raise ArgumentError(f"intervals must be pairs (a, b) with 0 <= a < b, got {safe_repr((a, b))}")
        ends = np.array(sorted({end for interval in intervals for end in interval} | {0}))
        self.check_ticks(ends[ends > 0])
        sums = np.zeros((len(ends), len(ends)))
        for row, first in enumerate(ends.tolist()):
            for column, second in enumerate(ends[: row + 1].tolist()):
                if second > 0:
                    sums[row, column] = sums[column, row] = self.sum_covariance(second, first)
        places = {int(end): place for place, end in enumerate(ends)}
        chosen = np.zeros((len(intervals), len(ends)))
        for row, (a, b) in enumerate(intervals):
            chosen[row, places[b]], chosen[row, places[a]] = 1.0, -1.0
        return np.asarray(chosen @ sums @ chosen.T, dtype=np.float64)

    def release_variances(self, ticks: NDArray[np.int64]) -> Float:
        """Variances of the releases at `ticks`, for draws of variance 1, shape (n,)."""
        return np.array([self.sum_covariance(tick, tick) for tick in ticks.tolist()])

    def check_ticks(self, ticks: NDArray[Any]) -> NDArray[np.int64]:
        """`ticks` as integers.

        Raises
        ------
        ArgumentError
            If they are not whole numbers from 1 to the horizon.
        """
        if not np.issubdtype(ticks.dtype, np.integer) or ticks.ndim != 1:
            raise ArgumentError("t must be an integer, or a list of integers")
        if ticks.size and not (ticks.min() >= 1 and ticks.max() <= self.workload.ticks):
            raise ArgumentError(f"t must lie between 1 and {self.workload.ticks:,}, the last tick of this stream")
        return ticks.astype(np.int64)

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
        """The noise for a budget, from public values alone.

        Parameters
        ----------
        size : int
            Numbers in a vector.
        eps, delta : float
            Spent once, for the whole stream; delta must be positive for all but `KNormTree`.
        row_sensitivity : float
            Delta: the most one row moves its tick's vector, in the Euclidean norm. Adding, removing or replacing it
            makes the difference: a row that is replaced moves its vector by up to twice its length.
        adjacency : {"add_remove", "replace_one"}
            What `row_sensitivity` was computed for. The ticks are public, their rows are not.
        step : float, optional
            The spacing of the public lattice that vectors lie on, in the units of `row_sensitivity`; by default about
            2**-40 of it.
        allow_uncertified : bool
            Must be True for a calibration that no proof covers.

        Returns
        -------
        SumsPlan

        Raises
        ------
        ArgumentError
            If an argument is outside its range.
        UncertifiedError
            If the calibration is uncertified and that was not allowed.

        Examples
        --------
        >>> print(tree.plan(size=3, eps=1.0, delta=1e-5).guarantee)
        eps=1, delta=1e-05, add_remove, certified
        """
        return plan_gaussian(
            self,
            size,
            eps=eps,
            delta=delta,
            row_sensitivity=row_sensitivity,
            adjacency=adjacency,
            step=step,
        )


def zeros(rows: int, size: int) -> Integers:
    """Python integers 0, shape (rows, size)."""
    return np.full((rows, size), 0, dtype=object)
