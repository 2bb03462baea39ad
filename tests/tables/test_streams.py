"""Tables read in batches: readers, datasets, queries and files hold the same rows as tables in memory do."""

from __future__ import annotations

import gc
import os
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import dpstats as dp
from dpstats.data import Memory, Table, as_exog, as_table, batches, files
from dpstats.data.table import Stream
from dpstats.domain import Domain
from dpstats.errors import DataError, DomainError, ReleaseError
from dpstats.families import Gaussian
from dpstats.formula.design import design_spec

pa = pytest.importorskip("pyarrow")
pl = pytest.importorskip("polars")
duckdb = pytest.importorskip("duckdb")
ds = pytest.importorskip("pyarrow.dataset")
fs = pytest.importorskip("pyarrow.fs")
pq = pytest.importorskip("pyarrow.parquet")
pc = pytest.importorskip("pyarrow.compute")

ROWS = 1000
CANARY = "canary-7316549"


def frame(rows: int = ROWS) -> pa.Table:
    rng = np.random.default_rng(0)
    numbers = rng.uniform(0, 10, rows)
    numbers[3] = np.nan
    texts = [None if at == 5 else "ab"[at % 2] for at in range(rows)]
    whole = rng.integers(0, 3, rows)
    return pa.table({"y": numbers / 2 + whole, "x": numbers, "g": texts, "n": whole, "other": [CANARY] * rows})


def parquet(folder: Path, table: pa.Table) -> str:
    for at in range(3):
        part = table.slice(at * len(table) // 3, (at + 1) * len(table) // 3 - at * len(table) // 3)
        pq.write_table(part, folder / f"{at}.parquet", row_group_size=100)
    return str(folder / "*.parquet")


def buffers(table: pa.Table, **beside: Any) -> Any:
    """A dataset of "files" that are in memory."""
    form, parts = ds.ParquetFileFormat(), []
    for at in (0, 1):
        sink = pa.BufferOutputStream()
        pq.write_table(table.slice(at * len(table) // 2, len(table) // 2), sink)
        parts.append(form.make_fragment(pa.BufferReader(sink.getvalue())))
    return ds.FileSystemDataset(parts, table.schema, form, **beside)


def lines(folder: Path, table: pa.Table) -> Path:
    table.to_pandas().to_csv(folder / "rows.csv", index=False)
    return folder / "rows.csv"


def packed(folder: Path, table: pa.Table) -> Path:
    table.to_pandas().to_csv(folder / "rows.tsv.gz", index=False, sep="\t", quoting=1)
    return folder / "rows.tsv.gz"


def relation(table: pa.Table) -> Any:
    return duckdb.connect().from_arrow(table)


def numbers(table: Table) -> Any:
    """The cells of the column x."""
    return np.concatenate([part.column("x").numbers() for part in table.batches(["x"]).collect()])


Make = Callable[[Path, Any], Any]
STREAMS: dict[str, Make] = {
    "Arrow reader": lambda _, table: table.to_reader(max_chunksize=130),
    "dataset of files": lambda folder, table: ds.dataset(Path(parquet(folder, table)).parent),
    "dataset in memory": lambda _, table: ds.dataset(table),
    "dataset of buffers": lambda _, table: buffers(table),
    "dataset of local buffers": lambda _, table: buffers(table, filesystem=fs.LocalFileSystem()),
    "polars lazy": lambda _, table: pl.from_arrow(table).lazy(),
    "DuckDB": lambda _, table: relation(table),
    "Parquet": parquet,
    "CSV": lines,
    "TSV, packed": packed,
}


@pytest.mark.parametrize("name", STREAMS)
def test_streams_hold_the_same_cells(name: str, tmp_path: Path) -> None:
    table, expected = as_table(STREAMS[name](tmp_path, frame())), as_table(frame())
    assert isinstance(table, Stream)
    assert table.labels == expected.labels
    for _ in range(2):
        parts = table.only(["x", "g", "n"]).batches(["g", "x"]).collect()
        assert sum(part.rows for part in parts) == ROWS
        found = np.concatenate([part.column("x").numbers() for part in parts])
        np.testing.assert_array_equal(found, expected.column("x").numbers())
        codes = np.concatenate([part.column("g").codes({"b": 0, "a": 1}) for part in parts])
        np.testing.assert_array_equal(codes, expected.column("g").codes({"b": 0, "a": 1}))
        tokens = np.concatenate([part.column("g").tokens() for part in parts])
        missing = codes < 0  # in CSV, a missing text is an empty one
        np.testing.assert_array_equal(tokens[~missing], expected.column("g").tokens()[~missing])
    assert table.only(["x"]).rows == ROWS
    assert table.rows == ROWS
    assert repr(table) == "<Stream of 5 columns>"


@pytest.mark.parametrize("name", STREAMS)
def test_some_rows_of_a_stream(name: str, tmp_path: Path) -> None:
    table = as_table(STREAMS[name](tmp_path, frame()))
    chosen = table.where(lambda rows: rows.column("n").numbers() == 2, ["n"])
    again = chosen.where(lambda rows: rows.column("x").numbers() > 5, ["x"])
    n, x = frame()["n"].to_numpy(), frame()["x"].to_numpy()
    for _ in range(2):
        np.testing.assert_array_equal(numbers(again.only(["x", "n"])), x[(n == 2) & (x > 5)])
    assert chosen.filtered
    assert again.only(["x", "n"]).filtered
    assert chosen.rows == np.sum(n == 2)


@pytest.mark.parametrize("name", STREAMS)
def test_a_fit_to_a_stream_is_that_of_the_frame(name: str, tmp_path: Path) -> None:
    domain = {"y": (0, 7), "x": (0, 10), "g": ["a", "b"]}
    expected = dp.ols("y ~ x + g", frame(), 5.0, domain=domain, seed=3)
    found = dp.ols("y ~ x + g", STREAMS[name](tmp_path, frame()), 5.0, domain=domain, seed=3)
    np.testing.assert_array_equal(found.params, expected.params)


CALLS: dict[str, Callable[[Any], Any]] = {
    "range bought": lambda data: dp.ols("y ~ x", data, 50.0, domain={"y": (0, 7)}, seed=3).params,
    "response bought": lambda data: (
        dp.ols("y ~ x", data, 50.0, domain={"x": (0, 10), "y": (-99, 99)}, seed=3, response="bought").params
    ),
    "counts bought": lambda data: dp.poisson("n ~ x", data, 5.0, domain={"x": (0, 10), "n": (0, 50)}, seed=3).params,
    "buy_ranges": lambda data: dp.buy_ranges(data, ["x", "n"], 5.0, rows_at_least=1000, seed=3).domain.to_json(),
    "check": lambda data: dp.check("y ~ x + g", data, {"y": (0, 7), "g": ["a"]}, 1.0, seed=3).counts,
    "statistics": lambda data: repr(
        dp.release_statistics({"y": (0, 7), "x": (0, 10)}, ["y", "x"], 1.0, data=data, seed=3).fit("y ~ x").params
    ),
    "weights": lambda data: (
        dp.ols("y ~ x", data, 5.0, domain={"y": (0, 7), "x": (0, 10), "n": (0, 2)}, weights="n", seed=3).params
    ),
    "replace_one": lambda data: (
        dp.ols("y ~ x", data, 5.0, domain={"y": (0, 7), "x": (0, 10)}, seed=3, adjacency="replace_one").nobs
    ),
    "many": lambda data: (
        dp.plan_many({"a": "y ~ x", "b": "n ~ x"}, {"y": (0, 7), "n": (0, 2)}, 60.0).fit(data, seed=3)["b"].params
    ),
    "holdout": lambda data: (
        dp.ols(
            "y ~ x", dp.holdout(data, 0.3, by=["x", "n"], seed=1).train, 5.0, domain={"y": (0, 7), "x": (0, 10)}, seed=3
        ).params
    ),
}


@pytest.mark.parametrize("name", STREAMS)
@pytest.mark.parametrize("call", CALLS)
def test_every_call_takes_streams(name: str, call: str, tmp_path: Path) -> None:
    expected = CALLS[call](frame())
    found = CALLS[call](STREAMS[name](tmp_path, frame()))
    assert str(found) == str(expected)


def test_evaluation_prediction_and_parts_of_a_ledger(tmp_path: Path) -> None:
    domain = {"y": (0, 7), "x": (0, 10)}
    fit = dp.ols("y ~ x", frame(), 5.0, domain=domain, seed=3)
    path = parquet(tmp_path, frame())
    assert dp.evaluate(fit, path, 1.0, seed=1).metrics.equals(dp.evaluate(fit, frame(), 1.0, seed=1).metrics)
    with pytest.warns(UserWarning, match="no value of 'x'") as told:
        np.testing.assert_array_equal(fit.predict(path), fit.predict(frame()))
    assert len({str(one.message) for one in told}) == 1, "counted over all batches"
    with dp.Ledger(tmp_path / "ledger.db", dataset="d", eps=40.0) as ledger:
        part = ledger.partition("g", ["a", "b"])["b"]
        seen = [part.rows_of(as_table(data)).only(["x", "g"]) for data in (path, frame())]
        rows = list(map(numbers, seen))
        np.testing.assert_array_equal(*rows)
        assert len(rows[0]) == ROWS // 2 - 1
        dp.ols("y ~ x", path, 1.0, domain=domain, ledger=part)
        assert len(ledger.entries()) == 2  # the count of rows, and the fit


def test_only_the_columns_of_the_formula_are_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[list[str]] = []

    scanned = files.scan_parquet

    def watched(found: list[str], names: list[str], *rest: Any) -> Any:
        asked.append(list(names))
        return scanned(found, names, *rest)

    monkeypatch.setattr(files, "scan_parquet", watched)
    dp.ols("y ~ x", parquet(tmp_path, frame()), 1.0, domain={"y": (0, 7), "x": (0, 10)})
    assert asked
    assert {name for names in asked for name in names} == {"x", "y"}


def test_a_query_is_carried_out_once_for_each_release() -> None:
    runs: list[int] = []

    def watched(rows: Any) -> Any:
        runs.append(len(rows))
        return rows

    dp.ols("y ~ x", pl.from_arrow(frame()).lazy().map_batches(watched), 50.0, domain={"y": (0, 7)})
    assert runs == [ROWS]


@pytest.mark.slow
def test_what_a_query_leaves_is_a_file_without_a_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither while it is read nor afterwards is there a file to be seen, and nobody else may open it."""
    folder = tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    monkeypatch.setattr(batches, "KEPT_IN_MEMORY", 1000)
    rows = as_table(pl.from_arrow(frame()).lazy()).only(["x"])
    assert len(rows.batches(["x"]).collect()) == 1
    assert not list(folder.iterdir())
    kept = [os.stat(f"/proc/self/fd/{fd}") for fd in os.listdir("/proc/self/fd") if _is_in(fd, folder)]
    assert [one.st_mode & 0o777 for one in kept] == [0o600]
    del rows
    gc.collect()
    assert not any(_is_in(fd, folder) for fd in os.listdir("/proc/self/fd"))


def _is_in(descriptor: str, folder: Path) -> bool:
    try:
        return os.readlink(f"/proc/self/fd/{descriptor}").startswith(str(folder))
    except OSError:
        return False


def raises() -> Any:
    yield pa.record_batch({"x": [1.0], "y": [1.0]})
    raise ValueError(CANARY)


def panics(rows: Any) -> Any:
    os.write(2, f"thread panicked at {CANARY}\n".encode())
    raise ValueError(CANARY)


FAILING: dict[str, Callable[[], Any]] = {
    "polars": lambda: (
        pl.DataFrame({"x": ["1", CANARY], "y": [1.0, 2.0]}).lazy().with_columns(pl.col("x").cast(pl.Float64))
    ),
    "polars panics": lambda: pl.DataFrame({"x": [1.0], "y": [1.0]}).lazy().map_batches(panics),
    "DuckDB": lambda: duckdb.connect().sql(f"select cast(x as double) x, 1.0 y from (values ('1'), ('{CANARY}')) t(x)"),
    "reader": lambda: pa.RecordBatchReader.from_batches(pa.schema({"x": pa.float64(), "y": pa.float64()}), raises()),
}


@pytest.mark.parametrize("name", FAILING)
def test_a_query_that_fails_after_the_charge_says_one_thing(
    name: str, tmp_path: Path, capfd: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    with dp.Ledger(tmp_path / "ledger.db", dataset="d", eps=40.0) as ledger:
        with pytest.raises(ReleaseError, match="the release failed after rows were read") as caught:
            dp.ols("y ~ x", FAILING[name](), 1.0, domain={"x": (0, 1), "y": (0, 1)}, ledger=ledger)
        assert len(ledger.entries()) == 1
    assert caught.value.__context__ is None
    assert caught.value.__cause__ is None
    printed = capfd.readouterr()
    assert printed.out + printed.err + caplog.text == ""


def test_a_query_without_a_schema_is_refused_before_the_charge() -> None:
    lazy = pl.DataFrame({"x": [CANARY]}).lazy().select(pl.col("nowhere"))
    with pytest.raises(DataError, match="polars cannot resolve the columns") as caught:
        as_table(lazy)
    assert caught.value.__context__ is None


def test_types_of_queries_are_judged_without_a_row() -> None:
    every = duckdb.connect().sql(
        "select 3::uhugeint a, null b, 1::hugeint c, 3.5::decimal(30,10) d, 'x' e, true f, 1::utinyint g, 'a'::blob h, "
        "'u'::enum('u', 'v') i, date '2020-01-01' j, [1] k, 1.5::float l"
    )
    kinds = [as_table(every).column(name).kind for name in every.columns]
    assert kinds == ["numeric", "text", "numeric", "numeric", "text", "boolean", "numeric", None, "text", None, None,
                     "numeric"]  # fmt: skip
    whole = [name for name in every.columns if as_table(every).column(name).integral]
    assert whole == ["a", "c", "f", "g"]
    (cells,) = as_table(every).only(every.columns).batches(every.columns).collect()
    values = [cells.column(name).numbers()[0] for name in "acdfgl"]
    assert values == [3, 1, 3.5, 1, 1, 1.5]
    assert cells.column("i").codes({"v": 0, "u": 1}).tolist() == [1]
    lazy = pl.LazyFrame({"a": [1], "b": ["x"], "c": [True], "d": [[1]]}, schema_overrides={"b": pl.Categorical})
    assert [as_table(lazy).column(name).kind for name in "abcd"] == ["numeric", "text", "boolean", None]


def test_a_stream_shows_types_and_no_cells_but_in_batches() -> None:
    column = as_table(frame().to_reader()).column("x")
    for read in (column.numbers, column.tokens, column.__len__, lambda: column.codes({}), lambda: column.select(...)):  # type: ignore[arg-type]
        with pytest.raises(AssertionError, match="through its batches"):
            read()


def test_readers_pass_once_and_their_table_many_times() -> None:
    table = as_table(frame().to_reader())
    split = dp.holdout(table, 0.5, by="x", seed=1)
    assert split.train.rows + split.test.rows == ROWS


def test_a_reader_that_has_passed_is_refused_before_the_charge(tmp_path: Path) -> None:
    """A second model would be fitted to no rows."""
    reader = frame().to_reader()
    with dp.Ledger(tmp_path / "a.ledger", "d", eps=3.0) as ledger:
        arguments: dict[str, Any] = {"domain": {"x": (0, 1), "y": (0, 1)}, "ledger": ledger, "check_share": 0}
        with pytest.raises(dp.errors.DPStatsError):
            dp.ols("y ~ nowhere", reader, 1.0, **arguments)  # nothing is read yet
        dp.ols("y ~ x", reader, 1.0, **arguments)
        with pytest.raises(dp.errors.DataError, match="was read already"):
            dp.ols("y ~ x", reader, 1.0, **arguments)
        assert ledger.remaining.eps == pytest.approx(2.0)


def test_several_passes_over_a_reader_may_be_under_way_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batches, "BATCH_ROWS", 50)
    table = as_table(frame().to_reader(max_chunksize=50))
    rows = table.batches(["x"])
    expected = numbers(table)
    pairs = list(zip(rows, rows, strict=True))  # type: ignore[call-overload]
    assert len(pairs) > 3
    for side in (0, 1):
        found = np.concatenate([pair[side].column("x").numbers() for pair in pairs])
        assert np.array_equal(found, expected, equal_nan=True)


def test_dictionaries_may_differ_between_batches() -> None:
    """Files of Arrow could not hold them, and an error would tell of the cells."""
    parts = [pa.record_batch({"g": pa.array(texts).dictionary_encode()}) for texts in (["a", "b"], ["c", "a"], ["b"])]
    table = as_table(pa.RecordBatchReader.from_batches(parts[0].schema, parts))
    for _ in range(2):
        (batch,) = table.batches(["g"]).collect()
        assert batch.column("g").codes({"a": 0, "b": 1, "c": 2}).tolist() == [0, 1, 2, 0, 1]


@pytest.mark.parametrize("index", [pa.int8(), pa.int32()], ids=str)
def test_categories_in_parquet_may_be_no_utf8(index: Any, tmp_path: Path) -> None:
    """pyarrow checks the text of a dictionary, and its error would tell of a cell."""
    lax = pc.CastOptions(target_type=pa.string(), allow_invalid_utf8=True)
    texts = pc.cast(pa.array([b"a", b"\xff", b"b"]), options=lax)
    coded = pa.DictionaryArray.from_arrays(pa.array([0, 1, 2, None, 0], index), texts)
    pq.write_table(pa.table({"g": coded, "x": [1.0, 2, 3, 4, 5]}), tmp_path / "rows.parquet")
    table = as_table(tmp_path / "rows.parquet")
    assert table.column("g").kind == "text"
    (batch,) = table.batches(["g", "x"]).collect()
    assert batch.column("g").codes({"a": 0, "b": 1}).tolist() == [0, -1, 1, -1, 0]
    assert batch.column("x").numbers().tolist() == [1, 2, 3, 4, 5]


@pytest.mark.parametrize("format", ["csv", "json"])
def test_datasets_whose_types_come_from_cells_are_refused(format: str, tmp_path: Path) -> None:
    (tmp_path / "rows.csv").write_text(f"x\n1\n{CANARY}\n")
    (tmp_path / "rows.json").write_text('{"x": 1}\n')
    with pytest.raises(DataError, match=f"a dataset of {format} files infers column types from cells"):
        as_table(ds.dataset(tmp_path / f"rows.{format}", format=format))


def test_a_filtered_dataset_is_refused_before_the_charge(tmp_path: Path) -> None:
    """pyarrow names no files of it, so that their types cannot be compared; its reader passes once, as a query does."""
    filtered = ds.dataset(Path(parquet(tmp_path, frame())).parent).filter(pc.field("x") > 5)
    ledger = dp.Ledger(tmp_path / "one.ledger", "rows", eps=1.0)
    domain = {"x": (0, 10), "y": (0, 8)}
    with pytest.raises(DataError, match="give subset="):
        dp.ols("y ~ x", filtered, 1.0, domain=domain, ledger=ledger)
    assert ledger.entries().empty
    dp.ols("y ~ x", filtered.scanner().to_reader(), 1.0, domain=domain, ledger=ledger)


def test_files_must_be_of_one_kind(tmp_path: Path) -> None:
    pq.write_table(pa.table({"x": [1], "y": [1]}), tmp_path / "a.parquet")
    pq.write_table(pa.table({"x": [1.5], "y": [1]}), tmp_path / "b.parquet")
    with pytest.raises(DataError, match=r"column 'x' is double in '.*b.parquet' and int64 in other files"):
        as_table(tmp_path / "*.parquet")
    with pytest.raises(DataError, match="column 'x' is double"):
        as_table(ds.dataset(tmp_path))
    pq.write_table(pa.table({"x": [1]}), tmp_path / "b.parquet")
    with pytest.raises(DataError, match="has other columns than"):
        as_table(tmp_path / "*.parquet")
    (tmp_path / "c.csv").write_text("x,y\n1,2\n")
    (tmp_path / "d.csv").write_text("y,x\n1,2\n")
    with pytest.raises(DataError, match="has other columns than"):
        as_table(tmp_path / "*.csv")
    with pytest.raises(DataError, match="must name files with one ending"):
        as_table(tmp_path / "[ac].*")


@pytest.mark.parametrize(
    ("name", "content", "told"),
    [
        ("nowhere.csv", None, "does not exist; pass a path such as 'folder/"),
        ("rows.txt", "x\n1\n", "must name files with one ending: .parquet"),
        ("rows.parquet", CANARY, "is not a readable Parquet file"),
        ("rows.csv", "x;y\n1;2\n", "contains ';'; columns must be separated by commas"),
        ("rows.tsv", "x,y\n1,2\n", "contains ','; columns must be separated by tabulators"),
        ("rows.csv", "", "must start with a line of column names"),
        ("rows.csv", f'"x\n{CANARY}\n', "must start with a line of column names"),
        ("rows.csv", f"x\r{CANARY}\n", "must start with a line of column names"),
        ("rows.csv.gz", CANARY, "must start with a line of column names"),
        (".", None, "is a folder; name its files with a pattern"),
    ],
)
def test_files_that_cannot_be_opened(name: str, content: str | None, told: str, tmp_path: Path) -> None:
    if content is not None:
        (tmp_path / name).write_text(content)
    with pytest.raises(DataError, match=told) as caught:
        dp.ols("y ~ x", tmp_path / name, 1.0, domain={"x": (0, 1), "y": (0, 1)})
    assert CANARY not in str(caught.value)
    assert caught.value.__context__ is None


def test_levels_of_text_do_not_suit_a_column_of_whole_numbers_in_files(tmp_path: Path) -> None:
    with pytest.raises(DomainError, match="none of its declared levels is a number"):
        dp.ols("y ~ n", parquet(tmp_path, frame()), 1.0, domain={"y": (0, 7), "n": ["a", "b"]})


def test_arrays_are_not_read_in_batches() -> None:
    for data in (frame().to_reader(), as_table(frame().to_reader()), "rows.csv"):
        with pytest.raises(DataError, match="exog must be a two-dimensional array"):
            as_exog(data)


def test_frames_of_narwhals_are_what_they_wrap() -> None:
    narwhals = pytest.importorskip("narwhals")
    for data in (frame(), frame().to_pandas(), pl.from_arrow(frame()).lazy()):
        (batch,) = as_table(narwhals.from_native(data)).only(["x"]).batches(["x"]).collect()
        np.testing.assert_array_equal(batch.column("x").numbers(), frame()["x"].to_numpy())


def test_tables_in_memory_are_one_batch() -> None:
    table = as_table(pd.DataFrame({"x": [1.0, 2.0]}))
    assert isinstance(table, Table)
    assert table.batches(["x"]).collect() == [table]
    once = table.only(["x"])
    assert once.column("x") is once.column("x")


def counted(runs: list[int]) -> pl.LazyFrame:
    """A query that notes when it is carried out."""

    def noted(part: pl.DataFrame) -> pl.DataFrame:
        runs.append(len(part))
        return part

    cells = {"x": np.arange(300) % 7 / 7.0, "y": np.arange(300) % 2, "p": np.arange(300) // 3}
    return pl.LazyFrame(cells).map_batches(noted, streamable=False)


@pytest.mark.parametrize("side", ["train", "test"])
def test_a_side_of_a_divided_query_is_one_set_of_rows(side: str) -> None:
    """Carried out anew in every pass, a query without order could give a person one weight and then another."""
    runs: list[int] = []
    rows = getattr(dp.holdout(counted(runs), 0.4, by=["p"], seed=1), side)
    assert rows.filtered
    before = len(runs)
    dp.logit("y ~ x", rows, 1.0, domain={"x": (0, 1), "y": [0, 1]}, unit="p", seed=1)
    assert len(runs) == before + 1
    part = rows.only(["p"])
    persons = [part.batches(["p"]).map(_numbers).collect() for _ in range(2)]
    assert [batch.tolist() for batch in persons[0]] == [batch.tolist() for batch in persons[1]]


def _numbers(batch: Table) -> np.ndarray:
    return batch.column("p").numbers()


def test_a_reader_that_failed_has_no_rows_left() -> None:
    """Half of the rows, which a failing batch chose, must not be fitted in silence by a second try."""

    def batches() -> Iterator[Any]:
        yield pa.record_batch({"x": [0.5] * 10, "y": [0.1] * 10})
        raise ValueError(CANARY)

    schema = pa.schema([("x", pa.float64()), ("y", pa.float64())])
    model = dp.GLM.from_formula(
        "y ~ x", pa.RecordBatchReader.from_batches(schema, batches()), domain={"x": (0, 1), "y": (0, 1)}
    )
    for _ in range(2):
        with pytest.raises(ReleaseError) as failure:
            model.fit(1.0)
        assert CANARY not in str(failure.value)


def test_rows_of_a_part_are_cut_by_their_own_number() -> None:
    # What is left out moves the ends of batches; sums over blocks of a part must not be rounded in another way for it.
    rng = np.random.default_rng(0)
    data = pd.DataFrame({"x": rng.uniform(0, 1, 900), "y": rng.uniform(0, 1, 900), "g": rng.choice(["a", "b"], 900)})
    design = design_spec("y ~ x", Domain({"x": (0, 1), "y": (0, 1)}), family=Gaussian())

    def cut(rows: pd.DataFrame) -> list[list[int]]:
        batches = [as_table(rows.iloc[start : start + 70]) for start in range(0, len(rows), 70)]
        declared = [batches[0].column(name) for name in rows.columns]
        stream = Stream(tuple(rows.columns), declared, lambda _: iter(batches)).within(Memory())
        part = stream.where(lambda table: table.column("g").codes({"a": 0}) == 0, ["g"])
        blocks, owned = design.rows(part, 100).collect(), design.owned(part, "x", 100).collect()
        return [[len(block.endog) for block in blocks], [len(one.ids) for one in owned]]

    found = cut(data)
    assert found == cut(pd.concat([data.assign(g="b").iloc[:13], data]))
    assert set(found[0][:-1]) == set(found[1][:-1]) == {100}


def test_a_list_of_paths_is_read_in_its_order(tmp_path: Path) -> None:
    """A file that is named twice would give a person's rows more weight than one."""
    for place in range(2):
        pd.DataFrame({"x": [place + 0.25, place + 0.5]}).to_csv(tmp_path / f"{place}.csv", index=False)
    names = [tmp_path / "1.csv", str(tmp_path / "0.csv")]
    table = as_table(names)
    assert [value for part in table.batches(["x"]) for value in part.column("x").numbers()] == [1.25, 1.5, 0.25, 0.5]
    for twice in ([names[0], names[0]], [names[0], f"{tmp_path}/*.csv"]):
        with pytest.raises(DataError, match="name a file more than once"):
            as_table(twice)
    with pytest.raises(DataError, match="does not exist"):
        as_table([names[0], tmp_path / "2.csv"])
    with pytest.raises(DataError, match="or a list of such paths, got list"):
        as_table([1, 2])
