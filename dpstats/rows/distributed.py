"""Rows on the workers of a Dask cluster: one shard for each partition, and nothing but sums comes back.

What is sent to the cluster are functions, public names of tasks and, if the caller's data are in this process, the
partitions. What comes back is one combined value a pass. docs/proofs/clusters says what is private of it.
"""

from __future__ import annotations

import itertools
import time
import uuid
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import Any, NamedTuple
from weakref import WeakSet

import numpy as np
from numpy.typing import NDArray

from dpstats.errors import DataError, RowsChangedError
from dpstats.rows.gathering import BUCKETS, gathered, picked, split
from dpstats.rows.passes import Change, Element, Other, Result, Rows, chained
from dpstats.rows.remote import Lost, Sealed, Together, Work, added, kept, summed

FAN_IN = 16
"""Sums that one task adds up."""

NO_WORKERS = 300.0
"""Seconds without any worker after which waiting for one ends."""

POLL = 5.0
"""Seconds between two looks at the cluster."""


class Shard(NamedTuple):
    """Where the elements of one shard come from.

    Attributes
    ----------
    source : callable, optional
        Picklable; from the results of `inputs` to the elements. None if the only input is what was kept of them.
    inputs : tuple of distributed.Future
    """

    source: Callable[..., Iterable[Any]] | None
    inputs: tuple[Any, ...] = ()


class Tasks(WeakSet[Any]):
    """Futures of what is kept on the workers for one release, as long as somebody needs them."""

    def release(self) -> None:
        """Let the cluster drop it all, whoever still refers to it."""
        for future in list(self):
            future.release()


class DaskRows(Rows[Element]):
    """Elements on the workers of a cluster.

    Parameters
    ----------
    client : distributed.Client
    shards : sequence of Shard
        The elements of each must be the same, and in the same order, whenever they are worked out.
    change : callable, optional
        Applied in every pass; see `Rows.through`.
    marks : dict, optional
        By shard, the mark of the elements that were kept of it; shared by all rows that are made of them.
    tasks : Tasks, optional
        Where to write down what is kept; shared by all rows that are made of these.
    check : callable, optional
        Raises RowsChangedError where what the elements are made of is not what it was; called after every total.
    """

    def __init__(
        self,
        client: Any,
        shards: Sequence[Shard],
        change: Change | None = None,
        marks: dict[int, int] | None = None,
        tasks: Tasks | None = None,
        check: Callable[[], None] | None = None,
    ) -> None:
        self._client, self._shards, self._change = client, tuple(shards), change
        self._marks = {} if marks is None else marks
        self._tasks = Tasks() if tasks is None else tasks
        self._check_source = check

    def total(self, part: Callable[[Iterable[Element]], Result], add: Callable[[Result, Result], Result]) -> Result:
        """`part` of every shard, combined on the workers in an order that is fixed."""
        if not self._shards:
            return part(())
        sums = self._sums(part, add)
        try:
            found = _result(self._client, sums[-1])
        finally:
            # An error that Dask raises holds its own frames, and with them these.
            for future in sums:
                future.release()
        if self._check_source is not None:
            self._check_source()
        if isinstance(found, Lost):
            raise RuntimeError("a worker could not work out its shard")
        total, marks = found.opened()
        self._check(marks)
        return total

    def _sums(self, part: Callable[[Iterable[Element]], Result], add: Callable[[Result, Result], Result]) -> list[Any]:
        """Tasks that sum over each shard and then add up what these found, the last one all of it."""
        names = _names("sum")
        level = [
            self._client.submit(summed, Sealed((work, part)), shard.inputs, key=next(names), pure=False)
            for work, shard in zip(self._works(), self._shards, strict=True)
        ]
        every, joining = list(level), Sealed(add)
        while len(level) > 1:
            level = [
                self._client.submit(added, joining, level[at : at + FAN_IN], key=next(names), pure=False)
                for at in range(0, len(level), FAN_IN)
            ]
            every += level
        return every

    def through(self, change: Callable[[int, Iterable[Element]], Iterable[Other]]) -> DaskRows[Other]:
        """What `change` makes of the elements, in every pass."""
        both = change if self._change is None else partial(chained, self._change, change)
        return DaskRows(self._client, self._shards, both, self._marks, self._tasks, self._check_source)

    def held(self) -> DaskRows[Element]:
        """The same elements, kept on the workers until the rows are gone: in as few shards as keep all threads busy.

        A task costs some milliseconds, in every pass.
        """
        made = all(shard.source is None for shard in self._shards)
        if made and self._change is None:
            return self
        names, works = _names("rows"), self._works()
        futures = []
        for group in [[at] for at in range(len(works))] if made else self._groups():
            inputs = [self._shards[at].inputs for at in group]
            one = Together(tuple(works[at] for at in group), tuple(map(len, inputs)))
            work = works[group[0]] if made else one
            futures.append(self._client.submit(kept, Sealed(work), sum(inputs, ()), key=next(names), pure=False))
        self._tasks.update(futures)
        marks = self._marks if made else None
        shards = [Shard(None, (one,)) for one in futures]
        return DaskRows(self._client, shards, None, marks, self._tasks, self._check_source)

    def _groups(self) -> list[list[int]]:
        """The shards that are to be kept together: by where their inputs are, for each thread of a worker."""
        threads = self._client.nthreads()
        if not threads:
            return [[at] for at in range(len(self._shards))]
        homes = self._homes(list(threads))
        groups = [
            [int(at) for at in part]
            for worker, count in threads.items()
            for part in np.array_split(np.flatnonzero(homes == worker), count)
        ]
        return sorted(group for group in groups if group)

    def _homes(self, workers: Sequence[str]) -> NDArray[np.str_]:
        """The worker that has a shard's inputs; workers in turn where none has, shape (shards,)."""
        waited = [future for shard in self._shards for future in shard.inputs]
        holding = self._client.who_has(waited) if waited else {}
        homes = [workers[at * len(workers) // len(self._shards)] for at in range(len(self._shards))]
        for at, shard in enumerate(self._shards):
            holders = [worker for future in shard.inputs for worker in holding.get(future.key, ())]
            homes[at] = next((worker for worker in holders if worker in workers), homes[at])
        return np.array(homes)

    def collected(self) -> list[Element]:
        """Refused: rows stay on the workers."""
        raise DataError(
            "rows of a Dask frame stay on its cluster; for predictions use "
            "data.map_partitions(result.predict, meta=(None, float))"
        )

    scattered = True
    """Tallies of persons are made where the rows are, one shard or several."""

    def by_person(self) -> DaskRows[Element]:
        """The same elements, of `Owned`, in new shards on the workers that hold their persons whole."""
        names, count = _names("person"), max(1, min(len(self._shards), BUCKETS, sum(self._client.nthreads().values())))
        parts = [
            self._client.submit(split, Sealed((work, count)), shard.inputs, key=next(names), pure=False)
            for work, shard in zip(self._works(), self._shards, strict=True)
        ]
        shards = [
            [self._client.submit(picked, Sealed(at), [part], key=next(names), pure=False) for part in parts]
            for at in range(count)
        ]
        found = [Shard(gathered, tuple(inputs)) for inputs in shards]
        return DaskRows[Element](self._client, found, tasks=self._tasks, check=self._check_source).held()

    def _works(self) -> list[Work]:
        return [Work(number, shard.source, self._change) for number, shard in enumerate(self._shards)]

    def _check(self, marks: Iterable[tuple[int, int]]) -> None:
        """Raise if a shard that was lost came back with other elements: no pass may see other rows than the last."""
        for shard, mark in marks:
            if self._marks.setdefault(shard, mark) != mark:
                raise RowsChangedError

    def __reduce__(self) -> Any:
        raise TypeError("rows are private and cannot be pickled")


def _names(what: str) -> Iterator[str]:
    """Names of tasks that no data enter: Dask's own are hashes of arguments."""
    own = uuid.uuid4().hex
    return (f"dpstats-{what}-{own}-{number}" for number in itertools.count())


def _result(client: Any, future: Any) -> Any:
    """What a task returned, once it is there; an error if no worker is left to carry it out."""
    from distributed import TimeoutError as Late
    from distributed import wait

    alone: float | None = None
    while True:
        try:
            wait(future, timeout=POLL)
            return future.result()
        except Late:
            working = bool(client.scheduler_info(n_workers=1)["workers"])
            alone = None if working else alone or time.monotonic()
            if alone is not None and time.monotonic() - alone > NO_WORKERS:
                raise RuntimeError("the cluster has no workers") from None
