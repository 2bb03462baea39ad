"""Dask frames at the door: judged by their declared columns, partition by partition."""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import dpstats as dp
from dpstats.data import Table, as_table
from dpstats.data import dask as partitions
from dpstats.data.dask import ClusterTable
from dpstats.data.table import Stream
from dpstats.errors import ArgumentError, DataError, DPStatsError

dd = pytest.importorskip("dask.dataframe")
dask = pytest.importorskip("dask")


def frame(rows: int = 10) -> pd.DataFrame:
    return pd.DataFrame({"x": np.arange(rows, dtype=float), "g": ["a", "b"] * (rows // 2), "k": range(rows)})


def cells(name: str) -> Callable[[Iterable[Table]], list[float]]:
    def read(tables: Iterable[Table]) -> list[float]:
        return [value for table in tables for value in table.column(name).numbers().tolist()]

    return read


def read(table: Table, name: str) -> list[float]:
    return table.batches([name]).total(cells(name), operator.add)


PLANS: dict[str, Callable[[Any], Any]] = {
    "as it is": lambda d: d,
    "computed columns": lambda d: d.assign(z=d.x * 2).rename(columns={"z": "w"}),
    "chosen columns": lambda d: d[["k", "x"]],
    "rows of listed values": lambda d: d[d.g.isin(["a", "b"])],
    "by partition": lambda d: d.map_partitions(lambda part: part.assign(x=part.x)),
    "persisted": lambda d: d.persist(),
    "persisted and changed": lambda d: d.persist().assign(z=1),
    "delayed": lambda d: dd.from_delayed([dask.delayed(frame)()], meta=frame(2)),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", PLANS)
def test_partitions_are_read_in_order(client: Any, name: str) -> None:
    table = as_table(PLANS[name](dd.from_pandas(frame(), npartitions=3)))
    assert isinstance(table, ClusterTable)
    assert read(table, "x") == list(range(10))
    assert table.rows == 10
    assert table.where(_first, ["k"]).rows == 4
    assert read(table.where(_first, ["k"]).where(_first, ["x"]), "x") == [0, 1, 2, 3]


def _first(table: Table) -> Any:
    return table.column("k" if table.count("k") else "x").numbers() < 4


def test_without_a_client_partitions_are_worked_out_here() -> None:
    """A frame needs no cluster: it is then a stream like others."""
    with dask.config.set(scheduler="sync"):
        table = _without_client(dd.from_pandas(frame(), npartitions=3))
    assert isinstance(table, Stream)
    assert read(table, "x") == list(range(10))


def _without_client(data: Any) -> Table:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(partitions, "running_client", lambda: None)
        return as_table(data)


MOVED: dict[str, Callable[[Any], Any]] = {
    "shuffled": lambda d: d.shuffle("g"),
    "sorted": lambda d: d.sort_values("x"),
    "indexed": lambda d: d.set_index("k"),
    "in other partitions": lambda d: d.repartition(npartitions=2),
}

REFUSED: dict[str, Callable[[Any], Any]] = {
    "centred": lambda d: d.assign(z=d.x - d.x.mean()),
    "filled with a mean": lambda d: d.fillna({"x": d.x.mean()}),
    "filled from the row before": lambda d: d.ffill(),
    "shifted": lambda d: d.assign(z=d.x.shift(1)),
    "centred and sorted": lambda d: d.assign(z=d.x - d.x.mean()).sort_values("x"),
    "without duplicates": lambda d: d.drop_duplicates(),
    "cumulated": lambda d: d.assign(z=d.x.cumsum()),
    "joined": lambda d: d.merge(d, on="k"),
    "counted": lambda d: d.groupby("g").x.sum().to_frame(),
    "listed in other rows": lambda d: d[d.x.isin(dd.from_pandas(frame(), npartitions=1).x)],
    "listed with a mean": lambda d: d[d.x.isin([1, d.x.mean().to_delayed()])],
}


@pytest.mark.slow
@pytest.mark.parametrize("name", MOVED)
def test_rows_that_move_between_partitions_are_to_be_persisted(client: Any, name: str) -> None:
    data = MOVED[name](dd.from_pandas(frame(), npartitions=3))
    with pytest.raises(DataError, match=r"data\.persist\(\)"):
        as_table(data)
    assert as_table(data.persist()).rows > 0


@pytest.mark.parametrize("name", REFUSED)
def test_rows_that_depend_on_others_are_refused_without_a_way_round(name: str) -> None:
    """Persisted, the frame would pass, with every person's cells in every row."""
    data = REFUSED[name](dd.from_pandas(frame(), npartitions=3))
    with pytest.raises(DataError, match="computed from that row alone") as refusal:
        _without_client(data)
    assert "persist" not in str(refusal.value)
    assert "Parquet" not in str(refusal.value)


@pytest.mark.parametrize("values", [[1, 3], (1, 3), {1, 3}, np.array([1, 3])], ids=lambda values: type(values).__name__)
def test_rows_are_chosen_by_a_list_of_values(values: Any) -> None:
    data = dd.from_pandas(frame(), npartitions=3)
    with dask.config.set(scheduler="sync"):
        assert read(_without_client(data[data.x.isin(values)]), "x") == [1, 3]


def test_types_taken_from_cells_are_refused(client: Any, tmp_path: Path) -> None:
    frame().to_csv(tmp_path / "rows.csv", index=False)
    with pytest.raises(DataError, match=r"read_csv infers column types"):
        as_table(dd.read_csv(tmp_path / "rows.csv").assign(z=1))


def test_declared_types_decide(client: Any) -> None:
    """A column is what the frame declares; its cells are read one by one, whatever its partitions hold."""
    data = dd.from_map(_odd, [0, 1], meta=pd.DataFrame({"x": pd.Series(dtype=float)}))
    table = as_table(data)
    assert table.column("x").kind == "numeric"
    np.testing.assert_equal(read(table, "x"), [0.0, 1.0, 2.0, np.nan, 3.5])
    with pytest.raises(AssertionError):
        table.column("x").numbers()


def _odd(part: int) -> pd.DataFrame:
    return pd.DataFrame({"x": [0.0, 1.0] if part == 0 else pd.Series(["2", "x", 3.5], dtype=object)})


def test_parquet_reads_the_columns_that_are_asked_for(client: Any, tmp_path: Path) -> None:
    for part in range(2):
        frame().to_parquet(tmp_path / f"{part}.parquet", index=False)
    table = as_table(dd.read_parquet(str(tmp_path / "*.parquet")))
    assert read(table, "x") == [*range(10), *range(10)]
    assert table.rows == 20


def files(folder: Path, kind: str) -> Path:
    for part in range(2):
        data = frame(20)
        if kind == "parquet":
            data.to_parquet(folder / f"{part}.parquet", index=False, row_group_size=6)
        else:
            data.to_csv(folder / f"{part}.csv", index=False)
    return folder / f"*.{kind}"


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["parquet", "csv"])
def test_files_are_read_by_the_workers(client: Any, tmp_path: Path, kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(partitions, "SHARD_ROWS", 10)
    path = files(tmp_path, kind)
    table, here = as_table(path, "dask"), as_table(path)
    assert isinstance(table, ClusterTable)
    assert table.labels == here.labels
    assert table.column("g").kind == here.column("g").kind
    assert read(table, "x") == read(here, "x")
    assert table.rows == 40
    found = dp.ols("x ~ k", path, 1.0, domain={"x": (0, 20), "k": (0, 20)}, seed=1, engine="dask").params
    np.testing.assert_allclose(found, dp.ols("x ~ k", path, 1.0, domain={"x": (0, 20), "k": (0, 20)}, seed=1).params)


def test_row_groups_make_shards() -> None:
    assert partitions.group_partitions([6, 6, 6, 2], 10) == [[0, 1], [2, 3]]
    assert partitions.group_partitions([20, 1, 20], 10) == [[0], [1, 2]]
    assert partitions.group_partitions([], 10) == []


@pytest.mark.parametrize(
    ("data", "engine", "told"),
    [
        ({"x": [1.0]}, "dask", "data must be the path"),
        ("nowhere/*.parquet", "dask", "nowhere"),
        ("nowhere/*.parquet", "spark", "engine must be one of"),
    ],
)
def test_engines_that_cannot_serve(client: Any, data: Any, engine: str, told: str) -> None:
    with pytest.raises(DPStatsError, match=re.escape(told)):
        as_table(data, engine)


def test_an_engine_without_a_cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(partitions, "running_client", lambda: None)
    with pytest.raises(ArgumentError, match="needs a cluster"):
        as_table(files(tmp_path, "csv"), "dask")


def test_repr_says_nothing_of_rows(client: Any) -> None:
    assert repr(as_table(dd.from_pandas(frame(), npartitions=3))) == "<ClusterTable of 3 columns>"
