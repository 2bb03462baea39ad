"""A private stream while it runs: noisy sums by ticks, and a state from which it goes on (docs/proofs/streams, 7)."""

from __future__ import annotations

import contextlib
import copy
import hashlib
import json
import os
import threading
from collections.abc import Iterator
from typing import Any, Protocol

import numpy as np

from dpstats.arguments import is_whole, safe_repr
from dpstats.errors import ArgumentError, DataError, StreamError
from dpstats.privacy.guarantee import Guarantee
from dpstats.privacy.randomness import RandomSource, SystemRandom
from dpstats.streaming.sums.lattice import Draws, Float, Integers, NoisePath
from dpstats.streaming.sums.workloads import Halflife, Window, Workload

VERSION = 1

HEADER = b"dpstats stream state %d: PRIVATE DATA, as confidential as the rows; never publish, copy or edit\n"


def pack(content: dict[str, Any]) -> bytes:
    """Header, SHA-256 of the body, body."""
    body = json.dumps(content, separators=(",", ":"), allow_nan=False).encode()
    return HEADER % VERSION + hashlib.sha256(body).hexdigest().encode() + b"\n" + body


def unpack(content: bytes) -> dict[str, Any]:
    """What `pack` was given. StreamError if the header, the version or the checksum is another."""
    if not isinstance(content, bytes):
        raise ArgumentError("content must be the bytes that to_bytes gave")
    header, _, rest = content.partition(b"\n")
    if header + b"\n" != HEADER % VERSION:
        raise StreamError("this is not a stream state of this version of dpstats")
    digest, _, body = rest.partition(b"\n")
    if hashlib.sha256(body).hexdigest().encode() != digest:
        raise StreamError("the state is damaged: its checksum does not match")
    facts = json.loads(body)
    assert isinstance(facts, dict)
    return facts


class NoiseSource(Protocol):
    """What running sums need of a `Mechanism`."""

    @property
    def workload(self) -> Workload: ...

    def path(self) -> NoisePath: ...


class NoisePlan(Protocol):
    """What running sums need of a `SumsPlan`."""

    @property
    def mechanism(self) -> NoiseSource: ...

    @property
    def size(self) -> int: ...

    @property
    def step(self) -> float: ...

    @property
    def draws(self) -> Draws: ...

    @property
    def guarantee(self) -> Guarantee: ...

    def to_dict(self) -> dict[str, Any]: ...


class TickLock:
    """One tick at a time, in the process that has the stream: two that are closed at once would have the same noise."""

    def __init__(self) -> None:
        self._process, self._lock = os.getpid(), threading.Lock()

    def check_process(self, fix: str) -> None:
        """StreamError in a process that was forked from the stream's."""
        if os.getpid() != self._process:
            raise StreamError(f"the stream belongs to another process, from which this one was forked: {fix}")

    @contextlib.contextmanager
    def held(self) -> Iterator[None]:
        """StreamError while another thread is within the block."""
        if not self._lock.acquire(blocking=False):
            raise StreamError("another thread is closing a tick of this stream: close one after the other")
        try:
            yield
        finally:
            self._lock.release()


LARGEST = 2**200
"""Entries of vectors are clamped to so many steps: no vector can overflow what follows."""


class PrefixSums:
    """Noisy sums of a stream of integer vectors, released at every tick.

    Made by `SumsPlan.start`. A tick's noise is drawn *before* its vector is given and is part of the state: write the
    state durably after `step` and before its numbers leave the process, and whenever the process is killed the same
    numbers are released again. Stepping twice from one state with different vectors is a second release that no
    budget covers: keep one copy of the state, and let a ledger keep the tick.

    Attributes
    ----------
    plan : SumsPlan
    tick : int
        Ticks released so far.
    released, total : ndarray, shape (size,)
        The latest release, and the noisy sum of all ticks, in the rows' units.
    guarantee : Guarantee

    Examples
    --------
    >>> import numpy as np
    >>> from dpstats.streaming.sums import Blt
    >>> plan = Blt(horizon=120).plan(size=2, eps=1.0, delta=1e-5)
    >>> stream = plan.start(recall=4)
    >>> stream.step(plan.total(np.array([[0.6, 0.8]]))).shape
    (2,)
    >>> stream.tick, stream.guarantee == plan.guarantee, stream.released.shape
    (1, True, (2,))
    """

    def __init__(self, plan: NoisePlan, random: RandomSource, state: dict[str, Any]) -> None:
        self.plan = plan
        self._random = random
        self._path = plan.mechanism.path()
        self._state = state
        self._lock = TickLock()

    @classmethod
    def begin(cls, plan: NoisePlan, random: RandomSource, recall: int) -> PrefixSums:
        """Before the first tick, with the first noise drawn.

        Examples
        --------
        >>> from dpstats.privacy.randomness import random_source
        >>> PrefixSums.begin(plan, random_source(None), recall=0).tick
        0
        """
        if not is_whole(recall) or recall < 0:
            raise ArgumentError(f"recall must be a non-negative integer, got {safe_repr(recall)}")
        workload = plan.mechanism.workload
        recalled = max(int(recall), workload.window if isinstance(workload, Window) else 0)
        stream = cls(plan, random, {})
        zero: Integers = np.full(plan.size, 0, dtype=object)
        stream._state = {
            "tick": 0,
            "recall": recalled,
            "memory": stream._path.memory(plan.size),
            "fresh": stream._draw(1),
            "sums": [zero],
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
        workload = self.plan.mechanism.workload
        sums = self._state["sums"]
        if isinstance(workload, Halflife):
            return np.array(self._state["decayed"])
        if isinstance(workload, Window):
            first = sums[-1 - workload.window] if self.tick >= workload.window else 0
            return self._scaled(sums[-1] - first)
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

        Returns
        -------
        ndarray, shape (size,)

        Raises
        ------
        StreamError
            If the stream is past its horizon, another thread is closing a tick, or this process was forked from the one
            that has the stream: the same noise would be released twice. Nothing was read.
        DataError
            If the vector is of another shape or type; nothing was released.

        Examples
        --------
        >>> stream.step(np.zeros(2, dtype=np.int64)).shape
        (2,)
        """
        self._lock.check_process("close ticks there")
        with self._lock.held():
            return self._step(vector)

    def _step(self, vector: Any) -> Float:
        tick = self.tick + 1
        last = self.plan.mechanism.workload.ticks
        if tick > last:
            raise StreamError(f"the stream is past its last tick, {last:,}: declare a longer horizon for a new one")
        exact = self._checked(vector)
        noise, memory = self._path.step(tick, self._state["fresh"], self._state["memory"])
        noisy = exact + noise
        sums = [*self._state["sums"], self._state["sums"][-1] + noisy]
        workload = self.plan.mechanism.workload
        decayed = self._state["decayed"]
        if isinstance(workload, Halflife):
            decayed = workload.decay * decayed + self._scaled(noisy)
        # Everything is computed before anything is kept: a failure leaves the state as it was.
        self._state = {
            "tick": tick,
            "recall": self._state["recall"],
            "memory": memory,
            "fresh": self._draw(tick + 1) if tick < last else memory[:0],
            "sums": sums[-1 - self._state["recall"] :],
            "decayed": decayed,
        }
        return self.released

    def between(self, a: int, b: int) -> Float:
        """The noisy sum of the ticks a + 1, ..., b from the releases at a and b: no further charge.

        Its noise has the standard deviation that `SumsPlan.covariance` gives for the interval.

        Parameters
        ----------
        a, b : int
            0 <= a < b <= tick; releases before `recall` ticks ago are gone.

        Returns
        -------
        ndarray, shape (size,)

        Raises
        ------
        ArgumentError
            If the interval is empty, not over yet or no longer remembered.

        Examples
        --------
        >>> stream.between(0, 1).shape
        (2,)
        """
        sums = self._state["sums"]
        oldest = self.tick + 1 - len(sums)
        if not is_interval(a, b, self.tick):
            raise ArgumentError(f"between needs 0 <= a < b <= {self.tick}, the ticks so far, got {safe_repr((a, b))}")
        if a < oldest:
            raise ArgumentError(f"a must be at least {oldest}: start the stream with a larger recall=")
        return self._scaled(sums[b - oldest] - sums[a - oldest])

    def to_bytes(self) -> bytes:
        """The state with a versioned header: private data, for a file that only its owner can read.

        Examples
        --------
        >>> PrefixSums.from_bytes(stream.to_bytes(), plan).tick == stream.tick
        True
        """
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
    def from_bytes(cls, content: bytes, plan: NoisePlan) -> PrefixSums:
        """The stream whose `to_bytes` gave `content`: its next release is the one that would have followed.

        Parameters
        ----------
        content : bytes
        plan : SumsPlan
            The plan it was started from, or `stored_plan` of the same content.

        Raises
        ------
        StreamError
            If the content is damaged, of another version, or of another plan.
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
        restored = {
            **state,
            "memory": _integers(state["memory"], size),
            "fresh": _integers(state["fresh"], size),
            "sums": list(_integers(state["sums"], size)),
            "decayed": np.array([float.fromhex(value) for value in state["decayed"]]),
        }
        return cls(plan, random, restored)

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
        whole = np.issubdtype(array.dtype, np.integer)
        if array.dtype == object:
            whole = all(type(value) is int for value in array.ravel().tolist())
        if not whole or array.shape != (self.plan.size,):
            raise DataError(f"vector must be {self.plan.size} integers, lattice steps as SumsPlan.total makes them")
        return np.asarray(np.clip(array.astype(object), -LARGEST, LARGEST), dtype=object)


def is_interval(a: object, b: object, last: int | None) -> bool:
    """Whether a + 1, ..., b are ticks, up to the last one if there is one."""
    return is_whole(a) and is_whole(b) and 0 <= a < b and (last is None or b <= last)


def _integers(rows: list[list[int]], size: int) -> Integers:
    """Python integers, shape (n, size)."""
    array = np.full((len(rows), size), 0, dtype=object)
    for place, row in enumerate(rows):
        array[place] = row
    return array
