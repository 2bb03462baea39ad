"""Rows that are read anew, kept in memory or in a file: the same in every pass, within the memory that was given."""

from __future__ import annotations

import gc
import os
import pickle
import tempfile
import time
import tracemalloc
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from rows_contract import RowsContract

import dpstats as dp
from dpstats.data import Block, Memory, MemoryRows, ReadRows, row_count, spool
from dpstats.data import spool as memory
from dpstats.data import spool as reading
from dpstats.errors import ArgumentError

DOMAIN = {"y": (-3, 3), "a": (0, 1), "b": (0, 1)}


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where temporary files go."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path


class TestRead(RowsContract):
    def make(self, blocks: list[Block]) -> ReadRows[Block]:
        return ReadRows(lambda: blocks, Memory(1e9))


class TestReadWithoutMemory(RowsContract):
    """Whatever is kept goes to a file."""

    @pytest.fixture(autouse=True)
    def slow(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(reading, "PASSES", 1e9)
        monkeypatch.setattr(reading, "_file_costs", _wrote)

    def make(self, blocks: list[Block]) -> ReadRows[Block]:
        return ReadRows(lambda: blocks, Memory(1))


class TestSpooled(TestReadWithoutMemory):
    def make(self, blocks: list[Block]) -> ReadRows[Block]:
        return super().make(blocks).persist()  # type: ignore[return-value]


def _wrote(file: spool.Spool, kept: list[Block]) -> float:
    for block in kept:
        file.write(block)
    return 0.0


def slow_blocks(count: int, rows: int = 1000) -> Iterator[Block]:
    for number in range(count):
        time.sleep(0.002)
        exog = np.random.default_rng(number).normal(size=(rows, 5))
        yield Block(exog, exog[:, 0], None, np.full(rows, float(number)))


def test_a_file_holds_what_was_written_to_it() -> None:
    rows = ReadRows(lambda: slow_blocks(20), Memory(100_000)).persist()
    assert isinstance(rows, ReadRows)
    assert rows.persist() is rows
    for _ in range(2):
        for found, expected in zip(rows.collect(), slow_blocks(20), strict=True):
            np.testing.assert_array_equal(found.exog, expected.exog)
            assert found.weights is None
            np.testing.assert_array_equal(found.offset, expected.offset)
    single = ReadRows(
        lambda: (block.exog[:, 1].astype(np.float32) for block in slow_blocks(20)), Memory(9000)
    ).persist()
    assert {array.dtype for array in single.collect()} == {np.dtype(np.float32)}


def open_files(folder: Path) -> list[str]:
    """What is open of a folder; sockets come and go on their own."""
    links = [f"/proc/self/fd/{fd}" for fd in os.listdir("/proc/self/fd")]
    return [link for link in links if os.path.islink(link) and os.readlink(link).startswith(str(folder))]


@pytest.mark.slow
def test_a_file_is_invisible_private_and_gone(folder: Path) -> None:
    rows = ReadRows(lambda: slow_blocks(5), Memory(1)).persist()
    assert not list(folder.iterdir())
    files = open_files(folder)
    assert [os.stat(file).st_mode & 0o777 for file in files] == [0o600]
    assert [os.stat(file).st_nlink for file in files] == [0]
    with pytest.raises(TypeError, match="private"):
        pickle.dumps(rows)
    del rows
    gc.collect()
    assert not open_files(folder)


@pytest.mark.parametrize("error", [KeyboardInterrupt, ValueError])
def test_an_interrupted_pass_leaves_no_file(error: type[BaseException], folder: Path) -> None:
    def broken() -> Iterator[Block]:
        yield from slow_blocks(5)
        raise error

    with pytest.raises(error):
        ReadRows(broken, Memory(1)).persist()
    gc.collect()
    assert not list(folder.iterdir())
    assert not open_files(folder)


@pytest.mark.slow
def test_memory_is_lent_and_given_back() -> None:
    limit = Memory(1_300_000)
    size = sum(cells.nbytes for block in slow_blocks(10) for cells in block if cells is not None)
    one, other = (ReadRows(lambda: slow_blocks(10), limit).persist() for _ in range(2))
    assert isinstance(one, MemoryRows)
    assert isinstance(other, MemoryRows)
    assert limit.taken == 2 * size
    third = ReadRows(lambda: slow_blocks(10), limit).persist()
    assert isinstance(third, ReadRows)
    assert limit.taken == 2 * size
    del one
    gc.collect()
    assert limit.taken == size
    assert isinstance(ReadRows(lambda: slow_blocks(10), limit).persist(), MemoryRows)


def test_what_is_kept_of_a_part_is_not_the_whole() -> None:
    parts = ReadRows(lambda: (block.part(slice(0, 10)) for block in slow_blocks(5)), Memory(1e6)).persist().collect()
    assert all(block.exog.base is None for block in parts)


def test_what_costs_less_to_read_again_is_not_written() -> None:
    """Elements that are there already cost nothing: no file is faster, unless the machine stops within the first."""
    blocks = list(slow_blocks(20))
    rows = ReadRows(lambda: blocks, Memory(1000))
    assert any(rows.persist() is rows for _ in range(3))
    assert isinstance(ReadRows(lambda: slow_blocks(20), Memory(1000)).persist(), ReadRows)


def test_elements_that_are_no_arrays_are_read_again() -> None:
    rows = ReadRows(lambda: ["a", "b"], Memory(1000))
    assert rows.persist() is rows


@pytest.mark.parametrize("where", ["first", "later", "write"])
def test_a_full_disk_means_reading_again(where: str, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []

    def free(_: int) -> float:
        asked.append(1)
        return 0.0 if where == "first" or len(asked) > 10 else 1e12

    def fails(*_: object) -> None:
        raise OSError(28, "No space left on device")

    if where == "write":
        monkeypatch.setattr(spool.Spool, "_append", fails)
    else:
        monkeypatch.setattr(spool, "free_bytes", free)
    rows = ReadRows(lambda: slow_blocks(20), Memory(1000))
    assert rows.persist() is rows
    assert row_count(rows) == 20_000


def test_a_file_that_was_cut_is_an_error() -> None:
    file = spool.Spool()
    file.write([np.ones(1000)])
    file._file.truncate(100)
    with pytest.raises(OSError, match="shorter"):
        file.read(0)


def test_the_memory_of_the_machine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    whole = memory.machine_bytes()
    assert 2**28 < whole < 2**50
    assert Memory().limit == memory.SHARE * whole
    (tmp_path / "max").write_text("1000000\n")
    monkeypatch.setattr(memory, "_LIMITS", (str(tmp_path / "max"), str(tmp_path / "nowhere")))
    assert memory.machine_bytes() == 1e6
    (tmp_path / "max").write_text("max\n")
    assert memory.machine_bytes() > 1e6
    monkeypatch.delattr(os, "sysconf")
    assert memory.machine_bytes() == memory.ASSUMED


@pytest.mark.parametrize("given", [0, -1, "2GB", True, float("nan"), [1]])
def test_memory_must_be_a_number_of_bytes(given: object) -> None:
    with pytest.raises(ArgumentError, match="memory must be a positive number of bytes"):
        dp.ols("y ~ a", frame(10), 1.0, domain=DOMAIN, memory=given)


def frame(rows: int) -> pd.DataFrame:
    rng = np.random.default_rng(0)
    cells = pd.DataFrame(rng.uniform(size=(rows, 2)), columns=["a", "b"])
    return cells.assign(y=cells["a"] - 2 * cells["b"] + rng.normal(size=rows))


def parquet(folder: Path, rows: int) -> Path:
    folder.mkdir()
    frame(rows).to_parquet(folder / "rows.parquet", row_group_size=2000)
    return folder / "rows.parquet"


FITS = {
    "plain": {},
    "split": {"penalty": "lasso", "alpha": 1.0, "selection": "noise_aware", "refit_share": 0.5, "split": "rows"},
    "two stages": {"stages": 2},
    "inference": {"inference": True},
    "screened": {"screen": 1},
}


@pytest.mark.parametrize("name", FITS)
@pytest.mark.parametrize("limit", [1, 500_000, 1e12])
@pytest.mark.parametrize("file", [True, False])
def test_memory_changes_no_release(name: str, limit: float, file: bool, tmp_path: Path) -> None:
    data = parquet(tmp_path / "data", 30_000) if file else frame(30_000)
    fit = dp.ols("y ~ a + b", data, 3.0, domain=DOMAIN, seed=2, memory=limit, **FITS[name])
    expected = dp.ols("y ~ a + b", frame(30_000), 3.0, domain=DOMAIN, seed=2, **FITS[name])
    # The final noise is on a lattice: rounding in another order of sums does not show, or by one step.
    np.testing.assert_allclose(fit.params, expected.params, rtol=0, atol=1e-8)
    assert fit.plan.digest() == expected.plan.digest()


@pytest.mark.slow
def test_memory_stays_flat(tmp_path: Path) -> None:
    """Four times the rows need no more of it, where the design would need 29 MB."""
    peaks = []
    for rows in (300_000, 1_200_000):
        path = parquet(tmp_path / str(rows), rows)
        tracemalloc.start()
        dp.ols("y ~ a + b", path, 1.0, domain=DOMAIN, memory=2e6)
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert peaks[1] < 1.1 * peaks[0] + 1e6
    assert peaks[1] < 1.5e7


def test_predictions_of_files_keep_no_more_than_their_results(tmp_path: Path) -> None:
    """Of 22 columns of a design, which would need 176 bytes a row, only the linear predictor of each row is kept."""
    path = parquet(tmp_path / "data", 300_000)
    formula = "y ~ bs(a, df=10) + bs(b, df=10)"
    fit = dp.ols(formula, frame(30_000), 3.0, domain=DOMAIN, seed=2, inference=None)
    tracemalloc.start()
    predicted = fit.predict(path)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 65e6, "all columns of all rows at once are 2 x 53 MB"
    np.testing.assert_allclose(predicted, fit.predict(frame(300_000)), rtol=1e-12)
