"""Private sums of a stream: a mechanism and its noise by ticks, the plan of that noise for a budget, and the stream
while it runs (docs/proofs/streams, 4 and 7)."""

from __future__ import annotations

import copy
import math
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal, TypedDict, Unpack, overload

import numpy as np
from numpy.typing import NDArray

from dpstats.arguments import explain_calls, is_whole, safe_repr
from dpstats.call import expand_signature
from dpstats.errors import ArgumentError, DataError, StreamError
from dpstats.privacy.gaussian import analytic_mu
from dpstats.privacy.guarantee import Adjacency, Guarantee, check_adjacency, check_budget, check_delta
from dpstats.privacy.k_norm import KNormNoise
from dpstats.privacy.randomness import RandomSource, SystemRandom, random_source
from dpstats.streaming.sums.lattice import (
    MOST_NUMBERS,
    ROUNDING,
    Draws,
    Float,
    GaussianDraws,
    Integers,
    NoisePath,
    check_reach,
    discrete_mu,
    lattice_step,
    lattice_total,
    zeros,
)
from dpstats.streaming.sums.state import TickLock, pack, unpack
from dpstats.streaming.sums.workloads import Halflife, Window, Workload, check_count, check_participation, make_workload

Reach = float | Mapping[str, float] | KNormNoise
"""How far one row moves its tick's vector: see `Mechanism.plan`."""


class MechanismKeywords(TypedDict, total=False):
    """The arguments that all mechanisms have, see `Mechanism`."""

    horizon: int | None
    halflife: float | None
    window: int | None
    workload: Workload | str | None
    participation: Sequence[int]


KEYWORD_DEFAULTS: dict[str, Any] = {"participation": (0,)}


class Mechanism(ABC):
    """A way to release sums of a stream of vectors at every tick under one charge.

    Parameters
    ----------
    horizon : int, optional
        The last tick of a cumulative stream. Without any workload, a million ticks are planned, with 1.8 times
        the noise of a horizon of 6 ticks, 1.6 times that of 24, 1.45 times that of 120, and 1.3 times that of 1,000.
    halflife, window : number, optional
        The number of ticks after which the weight of a tick is one half, or that are summed. The stream may run for
        ever at constant noise.
    workload : Workload or {"cumulative", "halflife", "window"}, optional
        The same in one object; a name only checks the other arguments.
    participation : tuple of int
        Offsets of the ticks that one person can have a row in, such as (0, 1, 2, 3, 12, 13, 14, 15). The guarantee is
        then for persons.

    Examples
    --------
    >>> from dpstats.streaming.sums import Tree
    >>> tree = Tree(horizon=16)
    >>> tree.horizon, tree.to_dict()["horizon"], tree.sensitivity > 0, tree.draw_deviation
    (16, 16, True, 1.0)
    >>> tree.std([1, 16]).shape, tree.std_between(4, 8) > 0, tree.covariance([(0, 4), (4, 8)]).shape
    ((2,), True, (2, 2))
    >>> print(tree.plan(size=3, eps=1.0, delta=1e-5).guarantee)
    eps=1, delta=1e-05, add_remove, certified
    """

    name: ClassVar[str]
    workloads: ClassVar[tuple[str, ...]] = ("cumulative", "halflife", "window")

    @explain_calls()
    @expand_signature(MechanismKeywords, defaults=KEYWORD_DEFAULTS)
    def __init__(self, **arguments: Unpack[MechanismKeywords]) -> None:
        ticks = {name: arguments.get(name) for name in ("workload", "horizon", "halflife", "window")}
        self.workload = make_workload(**ticks)  # type: ignore[arg-type]
        self.participation = check_participation(arguments.get("participation", (0,)))
        if self.workload.name not in self.workloads:
            message = f"{type(self).__name__} makes sums of all ticks only: use Blt or Toeplitz for a {{}}"
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

    def options(self) -> dict[str, Any]:
        """The arguments besides workload and participation."""
        return {}

    def touched(self) -> int:
        """How many ticks' noises a row may move, itself included, where the path rounds; 0 if it does not."""
        return 0

    def to_dict(self) -> dict[str, Any]:
        """Plain public values, for JSON."""
        person = list(self.participation)
        return {"mechanism": self.name, **self.workload.to_dict(), "participation": person, **self.options()}

    def __repr__(self) -> str:
        hidden = {"mechanism", "filter", "participation"}
        arguments = {name: value for name, value in self.to_dict().items() if name not in hidden}
        if self.participation != (0,):
            arguments["participation"] = self.participation
        return f"{type(self).__name__}({', '.join(f'{name}={value!r}' for name, value in arguments.items())})"

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
        for a budget in eps and delta. ArgumentError if a tick lies outside the horizon.
        """
        ticks = self.check_ticks(np.atleast_1d(np.asarray(t)))
        values = self.sensitivity * self.draw_deviation * np.sqrt(self.release_variances(ticks))
        return float(values[0]) if np.ndim(t) == 0 else values

    def std_between(self, a: int, b: int) -> float:
        """The same of the sum of the ticks a + 1, ..., b, the difference of two releases."""
        return float(np.sqrt(self.covariance([(a, b)])[0, 0]))

    def covariance(self, intervals: Sequence[tuple[int, int]]) -> Float:
        """Covariance of the noise of sums over intervals of ticks, in units of (Delta / mu)^2, shape (n, n).

        An interval (a, b), 0 <= a < b, has the ticks a + 1, ..., b; ArgumentError if one is empty or beyond the
        horizon.
        """
        return (self.sensitivity * self.draw_deviation) ** 2 * self.draw_covariance(intervals)

    @property
    def draw_deviation(self) -> float:
        """The standard deviation of a coordinate of a draw whose scale is 1."""
        return 1.0

    def draw_covariance(self, intervals: Sequence[tuple[int, int]]) -> Float:
        """`covariance` for draws of variance 1."""
        listed: Any = intervals
        listed = listed.tolist() if isinstance(listed, np.ndarray) else listed
        if not isinstance(listed, (list, tuple)):
            raise ArgumentError("intervals must be a list of pairs (a, b) with 0 <= a < b")
        for pair in listed:
            if not isinstance(pair, (tuple, list)) or len(pair) != 2 or not is_interval(pair[0], pair[1], None):
                raise ArgumentError(f"intervals must be pairs (a, b) with 0 <= a < b, got {safe_repr(pair)}")
        ends = sorted({int(end) for pair in listed for end in pair} - {0})
        self.check_ticks(np.array(ends, dtype=np.int64))
        sums = np.zeros((len(ends), len(ends)))
        for row, late in enumerate(ends):
            for column, early in enumerate(ends[: row + 1]):
                sums[row, column] = sums[column, row] = self.sum_covariance(early, late)
        # Nothing has been summed before the first tick.
        chosen = np.array([float(end == b) - float(end == a) for a, b in listed for end in ends])
        chosen = chosen.reshape(len(listed), len(ends))
        return np.asarray(chosen @ sums @ chosen.T, dtype=np.float64)

    def release_variances(self, ticks: NDArray[np.int64]) -> Float:
        """Variances of the releases at `ticks`, for draws of variance 1, shape (n,)."""
        return np.array([self.sum_covariance(tick, tick) for tick in ticks.tolist()])

    def check_ticks(self, ticks: NDArray[Any]) -> NDArray[np.int64]:
        """`ticks` as integers; ArgumentError if they are not whole numbers from 1 to the horizon."""
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
        row_sensitivity: Reach = 1.0,
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
            Spent once, for the whole stream; delta is 0 for `KNormTree` and positive for all others.
        row_sensitivity : float, mapping or KNormNoise
            Delta: the most one row moves its tick's vector, in the Euclidean norm. Adding, removing or replacing it
            makes the difference: a row that is replaced moves its vector by up to twice its length. `KNormTree` also
            takes ``{"l1": ..., "l2": ..., "linf": ...}``, and the norm of the least noise of them, or a body's law
            whose scale is the most a row moves its tick's vector, in the body's norm.
        adjacency : {"add_remove", "replace_one"}
            What `row_sensitivity` was computed for. The ticks are public, their rows are not.
        step : float, optional
            The spacing of the public lattice that vectors lie on, in the units of `row_sensitivity`; by default about
            2**-40 of it.
        allow_uncertified : bool
            Must be True for a calibration that no proof covers.

        Raises
        ------
        UncertifiedError
            If the calibration is uncertified and that was not allowed.
        """
        size, adjacency = check_count("size", size, MOST_NUMBERS), check_adjacency(adjacency)
        claim = Guarantee(*check_budget(eps, delta), adjacency, basis=BASIS)
        return self._calibrate(size, claim, row_sensitivity, step, allow_uncertified=allow_uncertified)

    def _calibrate(
        self, size: int, claim: Guarantee, row_sensitivity: Reach, step: float | None, *, allow_uncertified: bool
    ) -> SumsPlan:
        """The noise for the budget of a claim."""
        eps, delta = claim.eps, claim.delta
        check_delta(delta, LEAST_DELTA)
        if delta == 0:
            raise ArgumentError(f"delta must be positive for {type(self).__name__}: KNormTree is pure")
        if isinstance(row_sensitivity, Mapping):
            if "l2" not in row_sensitivity:
                raise ArgumentError("row_sensitivity must give the l2 norm for Gaussian noise")
            row_sensitivity = row_sensitivity["l2"]
        reach = check_reach("row_sensitivity", row_sensitivity)  # type: ignore[arg-type]
        first_mu = analytic_mu(eps, delta)
        spacing = lattice_step(step, reach, self.sensitivity * reach / first_mu)
        # Columns of C, and the rounding of past noise, which differs by less than a step in each number that a row
        # touches.
        slack = math.sqrt(self.touched() * size) * (1 + 2 * self.path().error())
        moved = self.sensitivity * (1 + ROUNDING) * reach / spacing + slack
        mu = discrete_mu(eps, delta, moved, 2 * self.workload.ticks * size, first_mu)
        return SumsPlan(self, size, reach, "l2", spacing, GaussianDraws(moved / mu), replace(claim, rho=mu**2 / 2))


SumsNorm = Literal["l2", "l1", "linf", "design"]

BASIS = "docs/proofs/streams"
LEAST_DELTA = 1e-280


@dataclass(frozen=True)
class SumsPlan:
    """The public facts of a private stream: mechanism, noise, lattice and guarantee.

    Attributes
    ----------
    mechanism : Mechanism
    size : int
        Numbers in a vector.
    row_sensitivity : float
        Delta, the most one row moves its tick's vector, in the norm `norm`.
    norm : {"l2", "l1", "linf", "design"}
    step : float
        Spacing of the lattice; vectors are whole multiples of it.
    draws : Draws
        The law of a fresh noise vector, in lattice steps.
    guarantee : Guarantee
        Of the whole transcript, spent once: per row, or per person if `mechanism.participation` says so.

    Examples
    --------
    >>> import numpy as np
    >>> from dpstats.streaming.sums import Blt, plan_from_dict
    >>> plan = Blt(horizon=120).plan(size=2, eps=1.0, delta=1e-5)
    >>> plan.noise_sd(12).shape, plan.covariance([(0, 12), (12, 24)]).shape
    ((2,), (2, 2))
    >>> plan.start().step(plan.total(np.array([[0.6, 0.8]]))).shape
    (2,)
    >>> plan_from_dict(plan.to_dict()).guarantee == plan.guarantee, plan.repeats(plan)
    (True, True)
    """

    mechanism: Mechanism
    size: int
    row_sensitivity: float
    norm: SumsNorm
    step: float
    draws: Draws
    guarantee: Guarantee

    def noise_sd(self, t: int) -> Float:
        """Standard deviations of the noise in the release at tick `t`, in the rows' units, shape (size,).

        ArgumentError if `t` lies outside the horizon.
        """
        variance = self.mechanism.release_variances(self.mechanism.check_ticks(np.array([t])))[0]
        return self.step * np.sqrt(variance * np.diag(self.draws.covariance(self.size)))

    def covariance(self, intervals: Sequence[tuple[int, int]], coordinate: int = 0) -> Float:
        """Covariance of one coordinate's noise in sums over intervals, in the rows' units, shape (n, n).

        The sums are differences of released prefix sums; intervals as for `Mechanism.covariance`.
        """
        variance = float(self.draws.covariance(self.size)[coordinate, coordinate])
        return self.step**2 * variance * self.mechanism.draw_covariance(intervals)

    def total(self, rows: NDArray[np.floating]) -> NDArray[np.object_]:
        """The sum of rows as whole lattice steps, each row shortened to Delta and truncated, shape (size,).

        Parameters
        ----------
        rows : ndarray, shape (n, size)
            A row with an entry that is not finite counts as zero. Under replace_one rows are shortened to
            half of Delta.

        Raises
        ------
        ArgumentError
            If the noise is cut to a body: whoever made the body makes rows that lie in it.
        DataError
            If `rows` have another shape or type.
        """
        if self.norm == "design":
            raise ArgumentError("rows must be whole lattice steps made by the design of the body")
        longest = self.row_sensitivity / (2 if self.guarantee.adjacency == "replace_one" else 1)
        return lattice_total(rows, self.size, self.norm, longest, self.step)

    def start(self, *, seed: int | None = None, recall: int = 0) -> PrefixSums:
        """A stream before its first tick.

        Parameters
        ----------
        seed : int, optional
            For a reproducible stream, whose guarantee is not certified.
        recall : int
            How many past releases to keep for `PrefixSums.between`.
        """
        return PrefixSums.begin(self, random_source(seed), recall)

    def repeats(self, stored: SumsPlan) -> bool:
        """Whether a stored plan is this one as computed on another machine; if so, its noise may be continued here.

        The buffers of `Blt` are an optimum, whose last digits are the machine's. Those of the stored plan fix every
        step in integers, and its scale is the one that was certified for them; here it must be found again.
        """
        ours, theirs = self.to_dict(), stored.to_dict()
        if ours == theirs:
            return True
        if not stored.mechanism.path().portable:
            return False
        claim, reach = stored.guarantee, {str(stored.norm): stored.row_sensitivity}
        spent: dict[str, Any] = {"eps": claim.eps, "delta": claim.delta, "adjacency": claim.adjacency}
        again = stored.mechanism.plan(stored.size, row_sensitivity=reach, step=stored.step, **spent)
        for facts in (ours, theirs):
            facts["mechanism"].pop("filter", None)
            facts["guarantee"].pop("rho")
            facts.pop("draws")
        here, there = ([one.draws.to_dict(), one.guarantee.rho] for one in (again, stored))
        return nearly_equal(ours, theirs, SAME_BOUND) and all(map(nearly_equal, here, there, (SAME_SCALE, SAME_SCALE)))

    def to_dict(self) -> dict[str, Any]:
        """Plain public values, for JSON."""
        compound = {name: getattr(self, name).to_dict() for name in ("mechanism", "draws", "guarantee")}
        return {**vars(self), **compound}


# Relative differences between machines: of a row's reach, and of the noise's scale for the same buffers
SAME_BOUND, SAME_SCALE = 1e-13, 1e-10


def nearly_equal(one: Any, other: Any, share: float) -> bool:
    """Whether plain values are the same, floats up to a share of their size."""
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(nearly_equal(one[name], other[name], share) for name in one)
    if isinstance(one, float) and isinstance(other, float):
        return math.isclose(one, other, rel_tol=share)
    return bool(one == other)


LARGEST = 2**200  # Entries of vectors are clamped to this many steps, so that nothing overflows


class PrefixSums:
    """Noisy sums of a stream of integer vectors, released at every tick.

    Made by `SumsPlan.start`. A tick's noise is drawn *before* its vector is given and is part of the state: write the
    state durably after `step` and before its numbers leave the process, and whenever the process is killed the same
    numbers are released again. Stepping twice from one state with different vectors is a second release that no
    budget covers: keep one copy of the state, and let a ledger keep the tick.

    Examples
    --------
    >>> import numpy as np
    >>> from dpstats.privacy.randomness import random_source
    >>> from dpstats.streaming.sums import Blt
    >>> plan = Blt(horizon=120).plan(size=2, eps=1.0, delta=1e-5)
    >>> PrefixSums.begin(plan, random_source(None), recall=0).tick  # as plan.start()
    0
    >>> stream = plan.start(recall=4)
    >>> stream.step(plan.total(np.array([[0.6, 0.8]]))).shape, stream.step(np.zeros(2, dtype=np.int64)).shape
    ((2,), (2,))
    >>> stream.tick, stream.guarantee == plan.guarantee, stream.released.shape, stream.between(0, 1).shape
    (2, True, (2,), (2,))
    >>> PrefixSums.from_bytes(stream.to_bytes(), plan).tick == stream.tick
    True
    """

    def __init__(self, plan: SumsPlan, random: RandomSource, state: dict[str, Any]) -> None:
        self.plan = plan
        self._random = random
        self._path = plan.mechanism.path()
        self._state = state
        self._lock = TickLock()

    @classmethod
    def begin(cls, plan: SumsPlan, random: RandomSource, recall: int) -> PrefixSums:
        """Before the first tick, with the first noise drawn."""
        if not is_whole(recall) or recall < 0:
            raise ArgumentError(f"recall must be a non-negative integer, got {safe_repr(recall)}")
        workload = plan.mechanism.workload
        recalled = max(int(recall), workload.window if isinstance(workload, Window) else 0)
        stream = cls(plan, random, {})
        stream._state = {
            "tick": 0,
            "recall": recalled,
            "memory": stream._path.memory(plan.size),
            "fresh": stream._draw(1),
            "sums": list(zeros(1, plan.size)),
            "decayed": np.zeros(plan.size),
        }
        return stream

    @property
    def tick(self) -> int:
        """Ticks released so far."""
        return int(self._state["tick"])

    @property
    def guarantee(self) -> Guarantee:
        """Of the whole transcript; not certified if the stream is seeded."""
        if isinstance(self._random, SystemRandom) or not self.plan.guarantee.certified:
            return self.plan.guarantee
        return self.plan.guarantee.uncertified("a seed makes the noise reproducible")

    @property
    def released(self) -> Float:
        """The latest release, in the rows' units, shape (size,)."""
        workload, sums = self.plan.mechanism.workload, self._state["sums"]
        if isinstance(workload, Halflife):
            return np.array(self._state["decayed"])
        if isinstance(workload, Window) and self.tick >= workload.window:
            return self._scaled(sums[-1] - sums[-1 - workload.window])
        return self._scaled(sums[-1])

    @property
    def total(self) -> Float:
        """The noisy sum of all ticks so far, whatever the workload, in the rows' units, shape (size,).

        Differences of totals are sums over intervals: kept by the caller, they make `between` reach back for ever.
        """
        return self._scaled(self._state["sums"][-1])

    def step(self, vector: Any) -> Float:
        """Close a tick with its vector and return the noisy sum, in the rows' units.

        Parameters
        ----------
        vector : array of integers, shape (size,)
            The sum of the tick's rows in lattice steps, as `SumsPlan.total` makes it: one row must not move it by more
            than `SumsPlan.row_sensitivity`. It may depend on earlier releases.

        Raises
        ------
        StreamError
            If the stream is past its horizon, another thread is closing a tick, or this process was forked from the one
            that has the stream: the same noise would be released twice. Nothing was read.
        DataError
            If the vector is of another shape or type; nothing was released.
        """
        self._lock.check_process("close ticks there")
        with self._lock.held():
            return self._step(vector)

    def _step(self, vector: Any) -> Float:
        state, tick, workload = self._state, self.tick + 1, self.plan.mechanism.workload
        if tick > (last := workload.ticks):
            raise StreamError(f"the stream is past its last tick, {last:,}: declare a longer horizon for a new one")
        exact = self._checked(vector)
        noise, memory = self._path.step(tick, state["fresh"], state["memory"])
        noisy, decayed = exact + noise, state["decayed"]
        if isinstance(workload, Halflife):
            decayed = workload.decay * decayed + self._scaled(noisy)
        # Everything is computed before anything is kept: a failure leaves the state as it was.
        self._state = {
            "tick": tick,
            "recall": state["recall"],
            "memory": memory,
            "fresh": self._draw(tick + 1) if tick < last else memory[:0],
            "sums": [*state["sums"], state["sums"][-1] + noisy][-1 - state["recall"] :],
            "decayed": decayed,
        }
        return self.released

    def between(self, a: int, b: int) -> Float:
        """The noisy sum of the ticks a + 1, ..., b from the releases at a and b, shape (size,): no further charge.

        `SumsPlan.covariance` gives its noise. ArgumentError if the interval is empty, not over yet or begins more than
        `recall` ticks ago.
        """
        sums = self._state["sums"]
        oldest = self.tick + 1 - len(sums)
        if not is_interval(a, b, self.tick):
            raise ArgumentError(f"between needs 0 <= a < b <= {self.tick}, the ticks so far, got {safe_repr((a, b))}")
        if a < oldest:
            raise ArgumentError(f"a must be at least {oldest}: start the stream with a larger recall=")
        return self._scaled(sums[b - oldest] - sums[a - oldest])

    def to_bytes(self) -> bytes:
        """The state with a versioned header: private data, for a file that only its owner can read."""
        random = None if isinstance(self._random, SystemRandom) else self._random.bit_generator.state  # type: ignore[attr-defined]
        state = {
            **self._state,
            "memory": self._state["memory"].tolist(),
            "fresh": self._state["fresh"].tolist(),
            "sums": [row.tolist() for row in self._state["sums"]],
            "decayed": [value.hex() for value in self._state["decayed"].tolist()],
        }
        return pack({"plan": self.plan.to_dict(), "state": state, "random": random})

    @classmethod
    def from_bytes(cls, content: bytes, plan: SumsPlan) -> PrefixSums:
        """The stream whose `to_bytes` gave `content`: its next release is the one that would have followed.

        `plan` is the plan it was started from, or `stored_plan` of the same content. StreamError if the content is
        damaged, of another version, or of another plan.
        """
        stored = unpack(content)
        if stored["plan"] != plan.to_dict():
            raise StreamError("the state belongs to another plan: horizon, budget, size and lattice must be the same")
        state, size = stored["state"], plan.size
        random: RandomSource = SystemRandom()
        if stored["random"] is not None:
            generator = np.random.default_rng()
            generator.bit_generator.state = stored["random"]
            random = generator
        # Python integers, shapes (n, size).
        whole = {name: np.array(state[name], dtype=object).reshape(-1, size) for name in ("memory", "fresh", "sums")}
        decayed = np.array([float.fromhex(value) for value in state["decayed"]])
        return cls(plan, random, {**state, **whole, "sums": list(whole["sums"]), "decayed": decayed})

    def __repr__(self) -> str:
        return f"PrefixSums(tick={self.tick}, mechanism={self.plan.mechanism!r})"

    def __reduce__(self) -> Any:
        raise StreamError("a private stream cannot be pickled: to_bytes gives its state, which is private data")

    def __copy__(self) -> PrefixSums:
        raise StreamError("a private stream cannot be copied: two copies would make two releases")

    def __deepcopy__(self, memo: Any) -> PrefixSums:
        return copy.copy(self)

    def _draw(self, tick: int) -> Integers:
        """The fresh noise of a tick."""
        return self.plan.draws.draw(self._path.fresh(tick), self.plan.size, self._random)

    def _scaled(self, whole: Integers) -> Float:
        return whole.astype(np.float64) * self.plan.step

    def _checked(self, vector: Any) -> Integers:
        array = np.asarray(vector)
        plain = array.dtype == object and all(type(value) is int for value in array.ravel().tolist())
        whole = plain or np.issubdtype(array.dtype, np.integer)
        if not whole or array.shape != (self.plan.size,):
            raise DataError(f"vector must be {self.plan.size} integers, lattice steps as SumsPlan.total makes them")
        return np.asarray(np.clip(array.astype(object), -LARGEST, LARGEST), dtype=object)


def is_interval(a: object, b: object, last: int | None) -> bool:
    """Whether a + 1, ..., b are ticks, up to the last one if there is one."""
    return is_whole(a) and is_whole(b) and 0 <= a < b and (last is None or b <= last)
