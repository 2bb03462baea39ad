"""Containers of columns, of rows and of arrays, as callers may hand them in."""

from __future__ import annotations

import collections
import tempfile
import types
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import pandas as pd

from benchmarks.audits.edge_cases import arrow_columns, columns, pandas_columns
from benchmarks.audits.edge_cases.arrow_columns import pa, pl
from benchmarks.audits.edge_cases.columns import Column, objects

if pa is not None:
    from pyarrow import dataset, parquet
try:
    import duckdb
except ImportError:
    duckdb = None

Columns = dict[str, Any]
Plain = Callable[[list[Any], bool], Any]


@dataclass(frozen=True)
class Table:
    """A container: of `homes` columns, or of those in `only`.

    `plain` builds the columns that hold no hostile cell, of text or of numbers; their type is the same without a row.
    """

    name: str
    build: Callable[[Columns], Any]
    plain: Plain
    homes: tuple[str, ...] = ()
    only: tuple[str, ...] = ()
    target: str | None = None
    world: Literal["table", "arrays"] = "table"

    def holds(self, column: Column) -> bool:
        """Whether a column of this type may stand in it."""
        return column.home in self.homes or column.name in self.only


class Other:
    """A table of another library, which converts itself."""

    def __init__(self, **methods: Callable[..., Any]) -> None:
        for name, method in methods.items():
            setattr(self, name, method)


class Mapped(collections.UserDict):  # type: ignore[type-arg]
    """A mapping that is no dict."""


def _list(cells: list[Any], text: bool) -> Any:
    return list(cells)


def _tuple(cells: list[Any], text: bool) -> Any:
    return tuple(cells)


def _array(cells: list[Any], text: bool) -> Any:
    return np.array(cells, dtype="U3" if text else "float64")


def _series(cells: list[Any], text: bool) -> Any:
    return pd.Series(cells, dtype=object if text else "float64")


def _arrow(cells: list[Any], text: bool) -> Any:
    return pa.array(cells, pa.string() if text else pa.float64())


def _polars(cells: list[Any], text: bool) -> Any:
    return pl.Series(cells, dtype=pl.String if text else pl.Float64)


def _rows(columns: Columns) -> list[dict[str, Any]]:
    return [dict(zip(columns, cells, strict=True)) for cells in zip(*columns.values(), strict=True)]


def _records(columns: Columns) -> Any:
    kinds = [(name, object) for name in columns]
    made = np.empty(len(next(iter(columns.values()))), dtype=kinds)
    for name, cells in columns.items():
        made[name] = objects(cells)
    return made


def _block(columns: Columns) -> Any:
    return np.column_stack([objects(cells) for cells in columns.values()])


def _frames() -> Iterator[Table]:
    def labelled(label: Callable[[pd.DataFrame], Any]) -> Callable[[Columns], Any]:
        return lambda columns: (frame := pd.DataFrame(columns)).set_axis(label(frame), axis=0)

    yield Table("frame", pd.DataFrame, _series, ("pandas",))
    odd: list[Any] = ["a", np.nan, 3, None, "a", 1j, 2.0, "b", "c"]
    odds = {"odd labels": lambda frame: odd[: len(frame)], "one label": lambda frame: ["x"] * len(frame)}
    odds["two levels"] = lambda frame: pd.MultiIndex.from_arrays([range(len(frame)), [1] * len(frame)])
    for name, label in odds.items():
        yield Table(f"frame, {name}", labelled(label), _series, ("pandas",))
    by_cells = labelled(lambda frame: pd.Index(objects(list(frame["z"])), dtype=object))
    yield Table("frame labelled by z", by_cells, _series, only=("object",), target="z")
    yield Table(
        "frame of a block", lambda c: pd.DataFrame(_block(c), columns=list(c), dtype=object), _list, only=("list",)
    )


def _mappings() -> Iterator[Table]:
    everything = ("python", "numpy", "pandas", "arrow", "polars", "series")
    yield Table("dict", dict, _list, everything)
    yield Table("dict of arrays", dict, _array, everything)
    yield Table("dict of Series", dict, _series, ("series", "pandas"))
    yield Table("mapping", lambda columns: types.MappingProxyType(columns), _list, everything)
    yield Table("UserDict", Mapped, _tuple, everything)
    by_row: dict[str, Callable[[Columns], Any]] = {
        "list of dicts": _rows,
        "list of lists": lambda columns: [list(row.values()) for row in _rows(columns)],
        "dict of dicts": lambda columns: {name: dict(enumerate(cells)) for name, cells in columns.items()},
        "dict by row": lambda columns: dict(enumerate(_rows(columns))),
        "generator of rows": lambda columns: (row for row in _rows(columns)),
        "records": _records,
        "record array": lambda columns: _records(columns).view(np.recarray),
        "array of objects": _block,
        "to_pandas": lambda columns: Other(to_pandas=lambda: pd.DataFrame({k: objects(v) for k, v in columns.items()})),
        "Series of lists": lambda columns: pd.Series(objects(list(columns.values())), index=list(columns)),
    }
    for name, build in by_row.items():
        yield Table(name, build, _list, only=("list",))
    frame = pd.DataFrame
    yield Table("interchange", lambda c: Other(__dataframe__=frame(c).__dataframe__), _series, ("pandas",))


def _chunks(columns: Columns) -> Any:
    whole = pa.table(columns)
    middle = len(whole) // 2
    return pa.concat_tables([whole.slice(0, middle), whole.slice(middle), whole.slice(0, 0)])


FOLDER = tempfile.TemporaryDirectory()
"""Where files stand, under names of their own: errors quote them."""

TEXTS = ("arrow string", "arrow large_string")
"""Columns whose cells are bytes, as those of a CSV file are."""

CHECKED = ("arrow float64, nullable", "arrow int64", "arrow bool", "arrow decimal128", "arrow float32, nullable")
"""Columns whose cells DuckDB takes in, whatever they are; it refuses text that is no UTF-8, and says so."""


def _parquet(columns: Columns) -> Any:
    path = f"{FOLDER.name}/rows.parquet"
    parquet.write_table(pa.table(columns), path)
    return path


def _csv(columns: Columns) -> Any:
    """Lines without quotation marks; cells that would need them, or are several lines, are left to tests/tables."""
    cells = [column.cast(pa.large_binary()).to_pylist() if _is_text(column) else column.to_pylist()
             for column in columns.values()]  # fmt: skip
    texts = [[b"" if cell is None else cell if isinstance(cell, bytes) else repr(cell).encode() for cell in column]
             for column in cells]  # fmt: skip
    if any(mark in text for column in texts for text in column for mark in (b",", b'"', b"\n", b"\r")):
        raise ValueError
    path = f"{FOLDER.name}/rows.csv"
    with open(path, "wb") as file:
        file.write(",".join(columns).encode() + b"\n")
        file.writelines(b",".join(line) + b"\n" for line in zip(*texts, strict=True))
    return path


def _is_text(column: Any) -> bool:
    return pa.types.is_string(column.type) or pa.types.is_large_string(column.type)


def _arrow_tables() -> Iterator[Table]:
    if pa is not None:
        forms: dict[str, Callable[[Columns], Any]] = {
            "Arrow table": pa.table,
            "record batch": lambda c: pa.RecordBatch.from_arrays(list(c.values()), names=list(c)),
            "Arrow chunks": _chunks,
            "Arrow reader": lambda c: pa.table(c).to_reader(),
            "to_arrow": lambda c: Other(to_arrow=lambda: pa.table(c)),
            "Arrow dataset": lambda c: dataset.dataset(pa.table(c)),
            "Parquet file": _parquet,
            "Arrow struct": lambda c: pa.StructArray.from_arrays(list(c.values()), names=list(c)),
        }
        for name, build in forms.items():
            yield Table(name, build, _arrow, ("arrow",))
        yield Table("CSV file", _csv, _arrow, only=TEXTS)
        if duckdb is not None:
            yield Table("DuckDB", lambda c: duckdb.connect().from_arrow(pa.table(c)), _arrow, only=CHECKED)
    if pl is not None:
        yield Table("polars frame", lambda c: pl.DataFrame(list(c.values())), _polars, ("polars",))
        yield Table("polars lazy", lambda c: pl.DataFrame(list(c.values())).lazy(), _polars, ("polars",))


def _square(rows: Sequence[Any]) -> Any:
    return objects([cell for row in rows for cell in row]).reshape(-1, 2)


def _arrays() -> Iterator[Table]:
    """Pairs (endog, exog), the hostile cell in either."""

    def pair(name: str, exog: Callable[[Columns], Any], **where: Any) -> Table:
        build = lambda c: (np.array(c["endog"], float), exog(c))  # noqa: E731
        return Table(f"exog: {name}", build, where.pop("plain", _list), target="x", world="arrays", **where)

    everything = ("python", "numpy", "pandas", "arrow", "polars", "series")
    ones = lambda c: np.column_stack([np.ones(len(c["x2"])), np.array(c["x2"], float)])  # noqa: E731
    yield Table("endog", lambda c: (c["endog"], ones(c)), _list, everything, target="endog", world="arrays")
    yield pair("column", lambda c: np.expand_dims(c["x"], 1), homes=("numpy",))
    yield pair("frame", lambda c: pd.DataFrame({k: c[k] for k in ("x", "x2")}), homes=("pandas",), plain=_series)
    rows: dict[str, Callable[[Sequence[Any]], Any]] = {
        "list of rows": lambda rows: [list(row) for row in rows], "tuple of rows": tuple, "deque": collections.deque,
        "generator": lambda rows: (row for row in rows), "list of arrays": lambda rows: [objects(r) for r in rows],
        "ragged": lambda rows: [list(row) if isinstance(row[0], float) else row[0] for row in rows],
        "object array": _square, "object frame": lambda rows: pd.DataFrame(_square(rows), dtype=object),
        "masked objects": lambda rows: np.ma.masked_array(_square(rows)),
        "nested": lambda rows: [[[cell] for cell in row] for row in rows],
        "list of Series": lambda rows: [pd.Series(objects(row)) for row in rows],
        "list of dicts": lambda rows: [{"x": row[0], "x2": row[1]} for row in rows],
    }  # fmt: skip
    for name, form in rows.items():
        yield pair(name, lambda c, form=form: form(list(zip(c["x"], c["x2"], strict=True))), only=("list",))
    yield pair("memoryview", lambda c: memoryview(np.column_stack([c["x"], c["x2"]])), only=("numpy float64",))
    whole = ("numpy float64", "numpy int64", "masked float64", "masked, hard", "masked int64")
    yield pair("whole array", lambda c: np.ma.column_stack([c["x"], c["x2"]]), only=whole)
    if pa is not None:
        yield pair("Arrow table", lambda c: pa.table({k: c[k] for k in ("x", "x2")}), homes=("arrow",), plain=_arrow)
    if pl is not None:
        frame = lambda c: pl.DataFrame([c["x"], c["x2"]])  # noqa: E731
        yield pair("polars frame", frame, homes=("polars",), plain=_polars)


TABLES = [*_frames(), *_mappings(), *_arrow_tables(), *_arrays()]
COLUMNS = [*columns.COLUMNS, *pandas_columns.COLUMNS, *arrow_columns.COLUMNS]
BY_NAME: Mapping[str, Column] = {column.name: column for column in COLUMNS}
KINDS = [(table, column) for table in TABLES for column in COLUMNS if table.holds(column)]
"""Every container with every type of column that it may have."""
