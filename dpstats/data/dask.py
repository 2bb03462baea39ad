"""Rows in the partitions of a Dask frame: one shard a partition, and nothing but sums comes back."""

from __future__ import annotations

import copy
import itertools
import os
import time
import uuid
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import starmap
from typing import Any, NamedTuple
from weakref import WeakSet

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
from numpy.typing import NDArray

from dpstats.data.batches import Files, batches_of
from dpstats.data.columns import Column
from dpstats.data.containers import from_pandas
from dpstats.data.files import PARQUET, file_kind, from_files, matching_files, scan_parquet
from dpstats.data.passes import Change, Element, Other, Result, Rows, chained
from dpstats.data.table import Holds, RowSelection, Stream, Table, in_memory, selected, with_deciding
from dpstats.data.worker import (
    BUCKETS,
    FailedShard,
    Pickled,
    ShardGroup,
    ShardWork,
    add_sums,
    fingerprint,
    gather_shard,
    keep_shard,
    pick_bucket,
    split_shard,
    sum_shard,
)
from dpstats.errors import ArgumentError, DataError, RowsChangedError

FAN_IN = 16
"""Sums that one task adds up."""

NO_WORKERS = 300.0
"""Seconds without any worker after which waiting for one ends."""

POLL = 5.0
"""Seconds between two looks at the cluster."""


class Shard(NamedTuple):
    """Where the elements of one shard come from."""

    # picklable, from results of `inputs` to elements; None if the only input is what was kept of them
    source: Callable[..., Iterable[Any]] | None
    inputs: tuple[Any, ...] = ()  # futures of the cluster


class Tasks(WeakSet[Any]):
    """Futures of what is kept on the workers for one release, as long as somebody needs them."""

    def release(self) -> None:
        """Let the cluster drop it all, whoever still refers to it."""
        for future in list(self):
            future.release()


class DaskRows(Rows[Element]):
    """Elements on the workers of a cluster; those of a shard must be the same, in the same order, whenever worked out.

    `marks` (by shard, of the elements kept of it) and `tasks` are shared by all rows made of these. `check` is called
    after every total and raises RowsChangedError where what the elements are made of has changed.
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
            result = _result(self._client, sums[-1])
        finally:
            # An error that Dask raises holds its own frames, and with them these.
            for future in sums:
                future.release()
        if self._check_source is not None:
            self._check_source()
        if isinstance(result, FailedShard):
            raise RuntimeError("a worker could not work out its shard")
        total, marks = result.value()
        self._check(marks)
        return total

    def _sums(self, part: Callable[[Iterable[Element]], Result], add: Callable[[Result, Result], Result]) -> list[Any]:
        """Tasks that sum over each shard and then add up what these found, the last one all of it."""
        names = _names("sum")
        level = [
            self._client.submit(sum_shard, Pickled((work, part)), shard.inputs, key=next(names), pure=False)
            for work, shard in zip(self._works(), self._shards, strict=True)
        ]
        every, joining = list(level), Pickled(add)
        while len(level) > 1:
            level = [
                self._client.submit(add_sums, joining, level[at : at + FAN_IN], key=next(names), pure=False)
                for at in range(0, len(level), FAN_IN)
            ]
            every += level
        return every

    def map_shards(self, change: Callable[[int, Iterable[Element]], Iterable[Other]]) -> DaskRows[Other]:
        """What `change` makes of the elements, in every pass."""
        both = chained(self._change, change)
        return DaskRows(self._client, self._shards, both, self._marks, self._tasks, self._check_source)

    def persist(self) -> DaskRows[Element]:
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
            work = Pickled(ShardGroup(tuple(works[at] for at in group), tuple(map(len, inputs))))
            futures.append(self._client.submit(keep_shard, work, sum(inputs, ()), key=next(names), pure=False))
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

    def collect(self) -> list[Element]:
        """Refused: rows stay on the workers."""
        raise DataError(
            "rows of a Dask frame stay on its cluster; for predictions use "
            "data.map_partitions(result.predict, meta=(None, float))"
        )

    distributed = True
    """Tallies of persons are made where the rows are, one shard or several."""

    def by_person(self) -> DaskRows[Element]:
        """The same elements, of `Owned`, in new shards on the workers that hold their persons whole."""
        names, count = _names("person"), max(1, min(len(self._shards), BUCKETS, sum(self._client.nthreads().values())))
        parts = [
            self._client.submit(split_shard, Pickled((work, count)), shard.inputs, key=next(names), pure=False)
            for work, shard in zip(self._works(), self._shards, strict=True)
        ]
        shards = [
            [self._client.submit(pick_bucket, Pickled(at), [part], key=next(names), pure=False) for part in parts]
            for at in range(count)
        ]
        buckets = [Shard(gather_shard, tuple(inputs)) for inputs in shards]
        return DaskRows[Element](self._client, buckets, tasks=self._tasks, check=self._check_source).persist()

    def _works(self) -> list[ShardWork]:
        return [ShardWork(number, shard.source, self._change) for number, shard in enumerate(self._shards)]

    def _check(self, marks: Iterable[tuple[int, int]]) -> None:
        """Raise if a shard that was lost came back with other elements: no pass may see other rows than the last."""
        for shard, mark in marks:
            if self._marks.setdefault(shard, mark) != mark:
                raise RowsChangedError


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


KEEPS_ROWS = ("FromGraph", "Concat", "Partitions", "DelayedsExpr")
"""Dask's operations, besides those that it calls blockwise, that work out every partition by itself."""

MOVES_ROWS = ("RearrangeByColumn", "SetIndex", "SortValues", "Repartition", "ResolveOverlappingDivisions")
"""Those that only move rows between partitions."""

SHARD_ROWS = 2**19
"""Rows of a file that one task reads, at least, if there are more."""

READS_LINES = "dask.dataframe.io.csv"

ShardsOf = Callable[[Sequence[str]], Sequence[Shard]]
"""From names of columns to shards of tables that have those columns."""


class ClusterTable(Table):
    """A table whose rows are on a cluster and stay there.

    `shards_of` gives the rows with some of the columns, after the charge; `files` are what the workers read, as this
    process sees them; `tasks` is what a release keeps on the cluster.
    """

    distributed = True

    def __init__(
        self, labels: Sequence[Any], declared: Sequence[Column], shards_of: ShardsOf, client: Any, files: Files
    ) -> None:
        super().__init__(labels, -1, tuple(declared).__getitem__)
        self._shards_of, self._client, self._files = shards_of, client, files
        self._selections: tuple[RowSelection, ...] = ()
        self._tasks = Tasks()

    def check_ready(self) -> None:
        """Raise DataError unless the files are what they were when they were opened."""
        self._files.check_ready()

    @property
    def rows(self) -> int:
        """The number of rows, in a pass over them. Private unless the adjacency makes it public: charge first."""
        return self.batches(()).total(_row_count, int.__add__)

    def batches(self, names: Iterable[str]) -> DaskRows[Table]:
        """The rows, as tables with the columns called `names`. Charge first."""
        shards = self._shards_of(with_deciding(names, self._selections))
        tables: Any = DaskRows(self._client, shards, tasks=self._tasks, check=self._files.check_all)
        return tables.map(partial(selected, self._selections)) if self._selections else tables

    def only(self, names: Iterable[str]) -> ClusterTable:
        """The table for one release, whose passes ask for their columns by name."""
        table = copy.copy(self)
        table._tasks = Tasks()
        return table

    def forget(self) -> None:
        """Let the cluster drop what was kept of the rows."""
        self._tasks.release()

    def where(self, holds: Holds, names: Iterable[str]) -> ClusterTable:
        """The rows where `holds`, which must be picklable, says so; reads nothing yet."""
        table = copy.copy(self)
        table.filtered, table._selections = True, (*self._selections, RowSelection(holds, tuple(names)))
        return table

    def __repr__(self) -> str:
        return f"<ClusterTable of {len(self.labels)} columns>"


def running_client() -> Any:
    """The client of a cluster that this process talks to, None without one; DataError if it is asynchronous."""
    import sys

    if "distributed" not in sys.modules:
        return None
    from distributed import default_client

    try:
        client = default_client()
    except ValueError:
        return None
    if client.asynchronous:
        raise DataError("data: a Dask client with asynchronous=True is not supported; use a synchronous client")
    return client


def from_dask(frame: Any) -> Table:
    """The rows of a Dask frame: on the cluster of the running client, or else worked out here, one by one.

    Raises DataError if partitions are no pandas frames, depend on each other, or take their types from cells (CSV).
    """
    if not isinstance(frame._meta, pd.DataFrame):
        raise DataError("data: the partitions of the Dask frame must be pandas frames")
    _check_operations(frame)
    labels = list(frame.columns)
    declared = [from_pandas(frame._meta.iloc[:, at]).declared() for at in range(len(labels))]
    client = running_client()
    if client is None:
        here = Stream(labels, declared, partial(_read_here, frame, {}))
        here.recomputed = True
        return here
    return ClusterTable(labels, declared, partial(_shards, frame), client, Files(()))


def files_on_cluster(path: str | os.PathLike[str]) -> ClusterTable:
    """Parquet or CSV files, read by the workers, which must see them under the same names.

    Raises ArgumentError without a running client, DataError as `dpstats.data.files.from_files`.
    """
    client = running_client()
    if client is None:
        raise ArgumentError(
            "engine='dask' needs a cluster: from distributed import Client; client = Client(), or its address"
        )
    paths = [os.path.abspath(name) for name in matching_files(os.fspath(path))]
    files, here = Files(paths), from_files(path)
    columns = [here.at(at) for at in range(len(here.labels))]
    return ClusterTable(here.labels, columns, partial(_pieces, paths), client, files)


def _pieces(paths: Sequence[str], names: Sequence[str]) -> list[Shard]:
    """Shards of about `SHARD_ROWS` rows: row groups of Parquet files, whole files of lines."""
    shards = []
    for name in paths:
        if file_kind(name) not in PARQUET:
            shards.append(Shard(partial(_lines_of, name, list(names))))
            continue
        with pq.ParquetFile(name) as file:
            sizes = [file.metadata.row_group(at).num_rows for at in range(file.metadata.num_row_groups)]
        for groups in group_partitions(sizes, SHARD_ROWS):
            shards.append(Shard(partial(_groups_of, name, groups, list(names))))
    return shards


def group_partitions(sizes: Sequence[int], least: int) -> list[list[int]]:
    """Places that follow each other, in groups whose sizes add up to `least` or more, but for the last."""
    groups, total = list[list[int]](), least
    for place, size in enumerate(sizes):
        if total >= least:
            groups.append([])
            total = 0
        groups[-1].append(place)
        total += size
    return groups


def _lines_of(name: str, names: Sequence[str]) -> Iterator[Table]:
    return from_files(name).read(names)


def _groups_of(name: str, groups: Sequence[int], names: Sequence[str]) -> Iterator[Table]:
    return batches_of(scan_parquet(Files([name]), names, groups))


def _check_operations(frame: Any) -> None:
    """Raise unless every partition is worked out by itself, from a source that declares its types."""
    from dask import is_dask_collection
    from dask.dataframe.dask_expr._expr import Blockwise, MapOverlap

    # Reductions come first: a frame that is centred and then sorted is refused for the mean.
    for node in sorted(frame.expr.walk(), key=lambda node: type(node).__name__ in MOVES_ROWS):
        name = type(node).__name__
        if name in MOVES_ROWS:
            raise DataError(
                f"data: partitions of the Dask frame depend on one another ({name}); pass data.persist(), or write "
                "the frame to Parquet. The guarantee protects rows of the frame that is passed"
            )
        # What fills in by column keeps its values in a dict, where Dask's expression has no further node.
        filled = [value for one in node.operands if isinstance(one, dict) for value in one.values()]
        alone = isinstance(node, Blockwise) and not isinstance(node, MapOverlap)
        if name == "Isin":  # Dask calls it blockwise with the cells of another frame, too
            alone = _is_listed(node.operand("values"))
        alone = alone or _is_listed(node)
        if not (alone or name in KEEPS_ROWS) or any(map(is_dask_collection, filled)):
            raise DataError(
                f"data: rows of the Dask frame depend on other rows ({name}), so that one person's record changes "
                "many of them, which the guarantee does not cover. Each row must be computed from that row alone; "
                "use a public constant, such as the middle of the declared range"
            )
        reader = node.operand("func") if "func" in node._parameters else None
        if getattr(getattr(reader, "func", reader), "__module__", "") == READS_LINES:
            raise DataError(
                "data: dask.dataframe.read_csv infers column types from cells; pass the path of the files with "
                'engine="dask", or convert them to Parquet'
            )


def _is_listed(node: Any) -> bool:
    """Whether Dask's node is a list of plain values, as `isin` takes one, with no task behind it that reads rows."""
    from dask.delayed import DelayedLeaf

    if type(node).__name__ != "_DelayedExpr" or not isinstance(leaf := node.operand("obj"), DelayedLeaf):
        return False
    values = leaf.dask[leaf.key]
    return bool(pd.api.types.is_list_like(values)) and all(map(pd.api.types.is_scalar, values))


class DaskPartition(NamedTuple):
    """How one partition is worked out."""

    graph: Mapping[Hashable, Any]  # Dask's tasks, without those that the cluster has carried out
    key: Hashable  # the task that makes the partition
    done: tuple[Hashable, ...]  # tasks that the cluster has carried out, whose results are handed over

    def __call__(self, *results: Any) -> Iterator[Table]:
        """The partition as a table. Its cells are read for what they are, whatever type the others have."""
        import dask

        table = in_memory(dask.get({**self.graph, **dict(zip(self.done, results, strict=True))}, self.key))
        assert table is not None, "a partition is a pandas frame"
        yield table


def _partitions(frame: Any, names: Sequence[str]) -> Iterator[tuple[DaskPartition, tuple[Any, ...]]]:
    """How each partition of some columns is worked out, and the futures of what the cluster has."""
    from dask.optimization import cull
    from dask.utils import ensure_dict

    wanted = frame[list(names) or list(frame.columns[:1])].optimize()
    graph = ensure_dict(wanted.__dask_graph__())
    for key in wanted.__dask_keys__():
        own, _ = cull(graph, key)
        futures = {name: task for name, task in own.items() if _is_future(task)}
        tasks = {name: task for name, task in own.items() if name not in futures}
        yield DaskPartition(tasks, key, tuple(futures)), tuple(futures.values())


def _shards(frame: Any, names: Sequence[str]) -> list[Shard]:
    return list(starmap(Shard, _partitions(frame, names)))


def _read_here(frame: Any, marks: dict[tuple[str | int, ...], int], names: Sequence[str]) -> Iterator[Table]:
    """The partitions one after the other, in this process; RowsChangedError if one is not what it was by its mark."""
    for place, (source, futures) in enumerate(_partitions(frame, names)):
        for table in source(*(future.result() for future in futures)):
            mark = fingerprint([table])
            if marks.setdefault((place, *names), mark) != mark:
                raise RowsChangedError
            yield table


def _is_future(task: Any) -> bool:
    return type(task).__name__ == "Future" and type(task).__module__ == "distributed.client"


def _row_count(tables: Iterable[Table]) -> int:
    return sum(table.rows for table in tables)
