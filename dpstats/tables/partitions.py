"""Rows in the partitions of a Dask frame: judged by its declared columns alone, worked out on the cluster.

A partition is worked out inside of one task of our own, from functions and inputs that were sent as bytes. Dask's own
tasks would bear hashes of the data as names, and write cells to the workers' logs where they fail.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import starmap
from typing import Any, NamedTuple

import pandas as pd
import pyarrow.parquet as pq

from dpstats.errors import ArgumentError, DataError, RowsChangedError
from dpstats.rows.distributed import DaskRows, Shard, Tasks
from dpstats.rows.remote import mark_of
from dpstats.tables.batches import batches_of
from dpstats.tables.columns import Column
from dpstats.tables.containers import from_pandas
from dpstats.tables.files import PARQUET, ending, from_files, matching, scanned
from dpstats.tables.marks import Files
from dpstats.tables.streams import DeclaredColumn, Stream
from dpstats.tables.table import Holds, Table, in_memory

KEEPS_ROWS = ("FromGraph", "Concat", "Partitions", "DelayedsExpr")
"""Dask's operations, besides those that it calls blockwise, that work out every partition by itself."""

SHARD_ROWS = 2**19
"""Rows of a file that one task reads, at least, if there are more."""

READS_LINES = "dask.dataframe.io.csv"

ShardsOf = Callable[[Sequence[str]], Sequence[Shard]]
"""From names of columns to shards of tables that have those columns."""


class Chosen(NamedTuple):
    """Which rows are meant, and the columns that decide."""

    holds: Holds
    names: tuple[str, ...]


class ClusterTable(Table):
    """A table whose rows are on a cluster and stay there.

    Parameters
    ----------
    labels : sequence of str
        The columns' names; public.
    declared : sequence of Column
        What is known of each without a row.
    shards_of : callable
        The rows with some of the columns; called after the charge.
    client : distributed.Client
    files : Files, optional
        What the workers read, as this process sees it.
    chosen : tuple of Chosen
        Conditions on the rows.
    tasks : Tasks, optional
        What a release keeps on the cluster.
    """

    elsewhere = True

    def __init__(
        self,
        labels: Sequence[Any],
        declared: Sequence[Column],
        shards_of: ShardsOf,
        client: Any,
        files: Files | None = None,
        chosen: tuple[Chosen, ...] = (),
        tasks: Tasks | None = None,
    ) -> None:
        super().__init__(labels, -1, tuple(declared).__getitem__, divided=bool(chosen))
        self._declared, self._shards_of, self._client, self._chosen = tuple(declared), shards_of, client, chosen
        self._files = files or Files(())
        self._tasks = Tasks() if tasks is None else tasks

    def check_ready(self) -> None:
        """Raise DataError unless the files are what they were when they were opened."""
        self._files.check_ready()

    @property
    def rows(self) -> int:
        """The number of rows, in a pass over them. Private unless the adjacency makes it public: charge first."""
        return self.batches(()).total(_row_count, int.__add__)

    def batches(self, names: Iterable[str]) -> DaskRows[Table]:
        """The rows, as tables with the columns called `names`. Charge first."""
        deciding = [name for chosen in self._chosen for name in chosen.names]
        shards = self._shards_of(list(dict.fromkeys([*names, *deciding])))
        found: Any = DaskRows(self._client, shards, tasks=self._tasks, check=self._files.check_all)
        for chosen in self._chosen:
            found = found.each(partial(_where, chosen))
        return found

    def only(self, names: Iterable[str]) -> ClusterTable:
        """The table for one release, whose passes ask for their columns by name."""
        return self._like(self._chosen, Tasks())

    def forget(self) -> None:
        """Let the cluster drop what was kept of the rows."""
        self._tasks.release()

    def where(self, holds: Holds, names: Iterable[str]) -> ClusterTable:
        """The rows where `holds`, which must be picklable, says so; reads nothing yet."""
        chosen = (*self._chosen, Chosen(holds, tuple(names)))
        return self._like(chosen, self._tasks)

    def _like(self, chosen: tuple[Chosen, ...], tasks: Tasks) -> ClusterTable:
        return ClusterTable(self.labels, self._declared, self._shards_of, self._client, self._files, chosen, tasks)

    def __repr__(self) -> str:
        return f"<ClusterTable of {len(self.labels)} columns>"


def running_client() -> Any:
    """The client of a cluster that this process talks to, None if there is none.

    Raises
    ------
    DataError
        If it is asynchronous.
    """
    import sys

    if "distributed" not in sys.modules:
        return None
    from distributed import default_client

    try:
        client = default_client()
    except ValueError:
        return None
    if client.asynchronous:
        raise DataError("data: a Dask client with asynchronous=True cannot be waited for; use a synchronous one")
    return client


def from_dask(frame: Any) -> Table:
    """The rows of a Dask frame: on the cluster of the running client, or else worked out here, one by one.

    Raises
    ------
    DataError
        If its partitions are not pandas frames, depend on each other, or take their types from cells (CSV).
    """
    if not isinstance(frame._meta, pd.DataFrame):
        raise DataError("data: the partitions of the Dask frame must be pandas frames")
    _check_operations(frame)
    labels = list(frame.columns)
    columns = [from_pandas(frame._meta.iloc[:, at]) for at in range(len(labels))]
    declared = [DeclaredColumn(column.type_name, column.kind, integral=column.integral) for column in columns]
    client = running_client()
    if client is None:
        here = Stream(labels, declared, partial(_read_here, frame, {}))
        here.reworked = True
        return here
    return ClusterTable(labels, declared, partial(_shards, frame), client)


def files_on_cluster(path: str | os.PathLike[str]) -> ClusterTable:
    """The rows of Parquet or CSV files, read by the workers, which must see them under the same names.

    Raises
    ------
    ArgumentError
        If there is no running client.
    DataError
        As `dpstats.tables.files.from_files`.
    """
    client = running_client()
    if client is None:
        raise ArgumentError(
            "engine='dask' needs a cluster: from distributed import Client; client = Client(), or its address"
        )
    found = [os.path.abspath(name) for name in matching(os.fspath(path))]
    files, here = Files(found), from_files(path)
    columns = [here.at(at) for at in range(len(here.labels))]
    return ClusterTable(here.labels, columns, partial(_pieces, found), client, files)


def _pieces(found: Sequence[str], names: Sequence[str]) -> list[Shard]:
    """Shards of about `SHARD_ROWS` rows: row groups of Parquet files, whole files of lines."""
    shards = []
    for name in found:
        if ending(name) not in PARQUET:
            shards.append(Shard(partial(_lines_of, name, list(names))))
            continue
        with pq.ParquetFile(name) as file:
            sizes = [file.metadata.row_group(at).num_rows for at in range(file.metadata.num_row_groups)]
        for groups in grouped(sizes, SHARD_ROWS):
            shards.append(Shard(partial(_groups_of, name, groups, list(names))))
    return shards


def grouped(sizes: Sequence[int], least: int) -> list[list[int]]:
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
    return batches_of(scanned(Files([name]), names, groups))


def _check_operations(frame: Any) -> None:
    """Raise unless every partition is worked out by itself, from a source that declares its types."""
    from dask.dataframe.dask_expr._expr import Blockwise

    for node in frame.expr.walk():
        name = type(node).__name__
        if not isinstance(node, Blockwise) and name not in KEEPS_ROWS:
            raise DataError(
                f"data: rows of one partition of the Dask frame depend on others ({name}); call data.persist() first "
                "and pass what it returns, or write the frame to Parquet"
            )
        reader = node.operand("func") if "func" in node._parameters else None
        if getattr(getattr(reader, "func", reader), "__module__", "") == READS_LINES:
            raise DataError(
                "data: dask.dataframe.read_csv takes the types of its columns from cells; give the path of the files "
                'itself, with engine="dask", or convert them to Parquet'
            )


class Partition(NamedTuple):
    """How one partition is worked out.

    Attributes
    ----------
    graph : dict
        Dask's tasks, without those that the cluster has carried out.
    key : hashable
        The task that makes the partition.
    done : tuple
        The tasks that the cluster has carried out, whose results are handed over.
    """

    graph: Mapping[Hashable, Any]
    key: Hashable
    done: tuple[Hashable, ...]

    def __call__(self, *results: Any) -> Iterator[Table]:
        """The partition as a table. Its cells are read for what they are, whatever type the others have."""
        import dask

        found = in_memory(dask.get({**self.graph, **dict(zip(self.done, results, strict=True))}, self.key))
        assert found is not None, "a partition is a pandas frame"
        yield found


def _partitions(frame: Any, names: Sequence[str]) -> Iterator[tuple[Partition, tuple[Any, ...]]]:
    """How each partition of some columns is worked out, and the futures of what the cluster has."""
    from dask.optimization import cull
    from dask.utils import ensure_dict

    wanted = frame[list(names) or list(frame.columns[:1])].optimize()
    graph = ensure_dict(wanted.__dask_graph__())
    for key in wanted.__dask_keys__():
        own, _ = cull(graph, key)
        futures = {name: task for name, task in own.items() if _is_future(task)}
        tasks = {name: task for name, task in own.items() if name not in futures}
        yield Partition(tasks, key, tuple(futures)), tuple(futures.values())


def _shards(frame: Any, names: Sequence[str]) -> list[Shard]:
    return list(starmap(Shard, _partitions(frame, names)))


def _read_here(frame: Any, marks: dict[tuple[str | int, ...], int], names: Sequence[str]) -> Iterator[Table]:
    """The partitions one after the other, in this process; RowsChangedError if one is not what it was by its mark."""
    for place, (source, futures) in enumerate(_partitions(frame, names)):
        for found in source(*(future.result() for future in futures)):
            mark = mark_of([found])
            if marks.setdefault((place, *names), mark) != mark:
                raise RowsChangedError
            yield found


def _is_future(task: Any) -> bool:
    return type(task).__name__ == "Future" and type(task).__module__ == "distributed.client"


def _where(chosen: Chosen, table: Table) -> Table:
    return table.where(chosen.holds, chosen.names)


def _row_count(tables: Iterable[Table]) -> int:
    return sum(table.rows for table in tables)
