"""Every pass of a release sees the same rows: files that change in between end it, whatever is read of them."""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import dpstats as dp
from dpstats.data import Block, Table, as_table, batches, csv, files, persons
from dpstats.data import batches as marks
from dpstats.data.batches import Files
from dpstats.data.persons import OwnedRows, shared_weights
from dpstats.errors import DataError, NoRoomError, ReleaseError, RowsChangedError

pa = pytest.importorskip("pyarrow")
ds = pytest.importorskip("pyarrow.dataset")
fs = pytest.importorskip("pyarrow.fs")
pl = pytest.importorskip("polars")

DOMAIN = {"x": (-1, 1), "y": (0, 1)}


def frame(rows: int = 1000, seed: int = 0) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    return pd.DataFrame({"id": np.arange(rows), "x": rng.uniform(-1, 1, rows), "y": np.zeros(rows)})


def write(path: Path, cells: pd.DataFrame) -> None:
    if path.suffix == ".parquet":
        cells.to_parquet(path, row_group_size=100)
    else:
        cells.to_csv(path, index=False)


KINDS: dict[str, tuple[str, Callable[[Path], Any]]] = {
    "CSV": ("rows.csv", lambda path: path),
    "CSV, packed": ("rows.csv.gz", lambda path: path),
    "Parquet": ("rows.parquet", lambda path: path),
    "pattern": ("rows.parquet", lambda path: path.parent / "*.parquet"),
    "dataset": ("rows.parquet", ds.dataset),
    "dataset of a folder": ("rows.parquet", lambda path: ds.dataset(path.parent, format="parquet")),
    "union": ("rows.parquet", lambda path: ds.dataset([ds.dataset(path), ds.dataset(pa.Table.from_pandas(frame()))])),
}


def replaced(path: Path, cells: pd.DataFrame) -> None:
    other = path.with_name(f"other{''.join(path.suffixes)}")
    write(other, cells)
    os.replace(other, path)


def rewritten(path: Path, cells: pd.DataFrame) -> None:
    """In place, with as many bytes and the time of the last change set back."""
    before = path.stat()
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    with path.open("r+b") as file:
        file.write(content)
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert (path.stat().st_size, path.stat().st_mtime_ns) == (before.st_size, before.st_mtime_ns)


def emptied(path: Path, cells: pd.DataFrame) -> None:
    write(path, cells.iloc[:0])


def removed(path: Path, cells: pd.DataFrame) -> None:
    path.unlink()


CHANGES = [replaced, rewritten, emptied, removed]


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("kind", KINDS)
def test_no_pass_sees_other_rows_than_the_last(kind: str, change: Any, tmp_path: Path) -> None:
    name, opened = KINDS[kind]
    write(tmp_path / name, frame())
    table = as_table(opened(tmp_path / name))
    rows = table.only(["x"]).batches(["x"])
    assert sum(part.rows for part in rows.collect()) >= 1000
    assert sum(part.rows for part in rows.collect()) >= 1000
    change(tmp_path / name, frame(seed=1))
    with pytest.raises(RowsChangedError):
        rows.collect()
    # What is public tells it before anything is spent.
    with pytest.raises(DataError, match="was changed after it was opened"):
        table.where(lambda part: part.column("x").numbers() > 0, ["x"]).only(["x"]).check_ready()


@pytest.mark.parametrize("name", ["rows.csv", "rows.parquet"])
@pytest.mark.parametrize("change", CHANGES)
def test_no_batch_is_used_that_was_read_of_another_file(
    name: str, change: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Within one pass too: what follows would be rows of two files, some of them twice."""
    monkeypatch.setattr(csv, "READ_BYTES", 2000)
    for module in (batches, files):
        monkeypatch.setattr(module, "BATCH_ROWS", 50)
    write(tmp_path / name, frame(5000))
    table = as_table(tmp_path / name)
    reading: Iterator[Table] = iter(table.batches(["x"]))  # type: ignore[call-overload]
    next(reading)
    change(tmp_path / name, frame(5000, seed=1))
    with pytest.raises(RowsChangedError):
        next(reading)


def heaviest(path: Path, monkeypatch: pytest.MonkeyPatch) -> float:
    """What the rows of one person weigh, in a file that gives her 3,000 more rows once persons have been tallied."""
    tally = persons.tally

    def then_replaced(rows: Any, *rest: Any) -> Any:
        found = tally(rows, *rest)
        more = pd.DataFrame({"id": 0, "x": np.linspace(-1, 1, 3000), "y": 1.0})
        replaced(path, pd.concat([frame(), more]))
        return found

    monkeypatch.setattr(persons, "tally", then_replaced)
    rows = shared_weights(as_table(path).batches(["id", "x", "y"]).map(_owned))
    weights = [(block.person, block.weights) for block in rows.collect()]
    whose, shares = (np.concatenate(parts) for parts in zip(*weights, strict=True))
    return float(np.bincount(whose, weights=shares).max())


def _owned(table: Table) -> OwnedRows[Block]:
    x, y = (table.column(name).numbers() for name in "xy")
    return OwnedRows(Block(x[:, None], y), table.column("id").identities())


@pytest.mark.parametrize("name", ["rows.csv", "rows.parquet"])
def test_a_person_weighs_one_however_files_change(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Planted: nobody looks at the file again. The guarantee for persons would be void by a factor of 3,000."""
    write(tmp_path / name, frame())
    with monkeypatch.context() as patch, pytest.raises(RowsChangedError):
        heaviest(tmp_path / name, patch)
    write(tmp_path / name, frame())
    monkeypatch.setattr(Files, "check", lambda *_: None)
    assert heaviest(tmp_path / name, monkeypatch) > 3000


FITS: dict[str, dict[str, Any]] = {
    "persons": {"unit": "id", "check_share": 0},
    "few rows of a person": {"unit": "id", "max_rows": 2, "check_share": 0},
    "passes over rows that are not kept": {"memory": 1, "check_share": 0},
}


@pytest.mark.parametrize("name", FITS)
def test_a_fit_to_a_file_that_changes_is_no_fit(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One constant message, without a frame or a context that holds rows; the charge is kept."""
    path, read, passes = tmp_path / "rows.csv", Files.opened, []

    def then_replaced(opened: Files, name: str) -> Any:
        passes.append(name)
        if len(passes) == 2:
            replaced(path, frame(seed=1))
        return read(opened, name)

    write(path, frame())
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "nowhere"))
    ledger = dp.Ledger(tmp_path / "a.ledger", "d", eps=9.0, unit="id" if "unit" in FITS[name] else None)
    monkeypatch.setattr(Files, "opened", then_replaced)
    with pytest.raises(ReleaseError) as caught:
        dp.ols("y ~ x", path, 5.0, domain=DOMAIN, ledger=ledger, **FITS[name])
    assert str(caught.value) == str(RowsChangedError())
    assert "nothing was released" in str(caught.value)
    assert caught.value.__context__ is None
    assert caught.value.__notes__ == ["Ledger charge 1 was kept."]
    assert ledger.remaining.eps == pytest.approx(4.0)


def test_a_file_that_changed_before_the_charge_costs_nothing(tmp_path: Path) -> None:
    path = tmp_path / "rows.csv"
    write(path, frame())
    model = dp.GLM.from_formula("y ~ x", path, domain=DOMAIN)
    ledger = dp.Ledger(tmp_path / "a.ledger", "d", eps=9.0)
    model.fit(1.0, ledger=ledger)
    replaced(path, frame(seed=1))
    with pytest.raises(DataError, match=r"rows\.csv' was changed after it was opened; pass its path again"):
        model.fit(1.0, ledger=ledger)
    assert ledger.remaining.eps == pytest.approx(8.0)
    dp.GLM.from_formula("y ~ x", path, domain=DOMAIN).fit(1.0, ledger=ledger)


def test_a_change_within_the_same_tick_is_seen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Stamps stand still for up to 10 ms, as here; whoever reads waits until a write must give another one."""
    mark, tick, path = marks._mark, 10**7, tmp_path / "rows.csv"

    def coarse(where: Any) -> Any:
        found = mark(where)
        assert found is not None
        return found._replace(modified=found.modified // tick * tick, changed=found.changed // tick * tick + 1)

    monkeypatch.setattr(marks, "_mark", coarse)
    for at in range(20):
        path.write_text(f"x\n{at:04d}\n")
        opened = Files([str(path)])
        path.write_text(f"x\n{at + 1:04d}\n")  # may bear the same stamp: it is what all passes read, or is refused
        try:
            with opened.opened(str(path)) as (file, _):
                file.read()
        except RowsChangedError:
            continue
        path.write_text(f"x\n{at + 2:04d}\n")
        with pytest.raises(RowsChangedError):
            opened.check_all()


def test_files_that_are_old_are_read_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    waits: list[float] = []
    monkeypatch.setattr(time, "sleep", waits.append)
    (tmp_path / "rows.csv").write_text("x\n1\n")
    name, now = str(tmp_path / "rows.csv"), time.time()
    for later in (0, 2 * marks.OLD):
        monkeypatch.setattr(time, "time", lambda later=later: now + later)
        with Files([name]).opened(name):
            pass
    assert waits[0] > 0
    assert waits[1] == 0
    whole = marks.Mark(1, 1, 1, 5 * 10**9, int(now) * 10**9)
    monkeypatch.setattr(time, "time", lambda: now)
    assert marks._grain(whole) == marks.COARSE
    assert marks._grain(whole._replace(changed=whole.changed + 1)) == marks.GRAIN


ELSEWHERE: dict[str, Callable[[], Any]] = {
    "mapped into memory": lambda: fs.LocalFileSystem(use_mmap=True),
    "another file system": lambda: fs.SubTreeFileSystem("", fs.LocalFileSystem()),
}


@pytest.mark.parametrize("where", ELSEWHERE)
def test_a_dataset_whose_files_bear_no_marks_is_read_once(where: str, tmp_path: Path) -> None:
    path = tmp_path / "rows.parquet"
    write(path, frame())
    rows = as_table(ds.dataset(str(path), filesystem=ELSEWHERE[where]())).only(["x"]).batches(["x"])
    before = [part.column("x").numbers() for part in rows.collect()]
    replaced(path, frame(seed=1))
    np.testing.assert_array_equal([part.column("x").numbers() for part in rows.collect()], before)


def test_a_dask_frame_that_comes_out_differently_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    dd, partitions = pytest.importorskip("dask.dataframe"), pytest.importorskip("dpstats.data.dask")
    monkeypatch.setattr(partitions, "running_client", lambda: None)
    drawn = np.random.default_rng(0)
    steady = dd.from_pandas(frame(), npartitions=3)
    unsteady = steady.map_partitions(lambda part: part.assign(x=drawn.uniform(-1, 1, len(part))), meta=frame(2))
    for data, alike in ((steady, True), (unsteady, False)):
        rows = as_table(data).batches(["x"])
        assert len(rows.collect()) == 3
        if alike:
            assert len(rows.collect()) == 3
        else:
            with pytest.raises(RowsChangedError):
                rows.collect()


@pytest.mark.slow
def test_files_that_workers_read_are_looked_at_too(client: Any, tmp_path: Path) -> None:
    path = tmp_path / "rows.parquet"
    write(path, frame())
    table = as_table(path, "dask")
    rows = table.where(_all, ["x"]).batches(["x"])
    assert rows.persist().total(_row_count, int.__add__) == 1000
    replaced(path, frame(seed=1))
    with pytest.raises(RowsChangedError):
        rows.persist().total(_row_count, int.__add__)
    with pytest.raises(DataError, match="was changed after it was opened"):
        table.check_ready()


def _all(table: Table) -> Any:
    return table.column("x").numbers() >= -1


def _row_count(tables: Any) -> int:
    return sum(table.rows for table in tables)


def test_a_query_without_a_folder_for_its_rows_costs_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ledger = dp.Ledger(tmp_path / "a.ledger", "d", eps=9.0)
    sources = (pl.from_pandas(frame()).lazy(), pa.Table.from_pandas(frame()).to_reader())
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "nowhere"))
    for data in sources:
        with pytest.raises(DataError, match="set the variable TMPDIR"):
            dp.ols("y ~ x", data, 1.0, domain=DOMAIN, ledger=ledger)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setattr(batches, "free_bytes", lambda _: 0.0)
    for data in sources:
        with pytest.raises(DataError, match="set the variable TMPDIR"):
            dp.ols("y ~ x", data, 1.0, domain=DOMAIN, ledger=ledger)
    assert ledger.remaining.eps == pytest.approx(9.0)


def test_a_query_whose_rows_find_no_room_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The disk may fill up after the charge; that is no defect of ours."""
    monkeypatch.setattr(batches, "KEPT_IN_MEMORY", 1000)
    monkeypatch.setattr(batches, "check_room", lambda: None)
    query = as_table(pl.from_pandas(frame()).lazy())
    monkeypatch.setattr(query, "_ready", None)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "nowhere"))
    with pytest.raises(ReleaseError) as caught:
        dp.ols("y ~ x", query, 1.0, domain=DOMAIN)
    assert str(caught.value) == str(NoRoomError())
    assert caught.value.__context__ is None


def test_a_fit_beyond_memory_needs_no_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows that no disk takes are read again in each pass."""
    expected = dp.ols("y ~ x", frame(), 5.0, domain=DOMAIN, seed=1, memory=1)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "nowhere"))
    found = dp.ols("y ~ x", frame(), 5.0, domain=DOMAIN, seed=1, memory=1)
    np.testing.assert_array_equal(found.params, expected.params)
