"""Files are written whole or not at all: a full disk or a killed process costs no older one."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path
from typing import IO, Any

import pytest

import dpstats as dp
from dpstats import writing
from dpstats.errors import ArgumentError
from dpstats.writing import whole_file, write_whole

DOMAIN = {"x": (0, 1), "y": (0, 1)}


def rows() -> dict[str, list[float]]:
    return {"x": [0.1, 0.5, 0.9] * 100, "y": [0.2, 0.4, 0.8] * 100}


def full(*_: object) -> None:
    raise OSError(errno.ENOSPC, "No space left on device")


SAVED: dict[str, Callable[[], Any]] = {
    "fit": lambda: dp.ols("y ~ x", rows(), 5.0, domain=DOMAIN),
    "check": lambda: dp.check("y ~ x", rows(), DOMAIN, 1.0),
    "absorbed": lambda: dp.ols("y ~ x | g", {**rows(), "g": ["a", "b", "a"] * 100}, 5.0, domain=DOMAIN),
    "statistics": lambda: dp.release_statistics(DOMAIN, ["y", "x"], 1.0, data=rows()),
}


@pytest.mark.parametrize("name", SAVED)
def test_a_disk_that_is_full_leaves_the_older_file(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, found = tmp_path / "saved.json", SAVED[name]()
    found.save(path)
    before = path.read_bytes()
    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(ArgumentError, match="No space left on device"):
        found.save(path)
    assert path.read_bytes() == before
    assert os.listdir(tmp_path) == ["saved.json"]


def test_a_process_that_is_killed_leaves_the_older_file(tmp_path: Path) -> None:
    path = tmp_path / "saved.json"
    path.write_text("older")
    code = f"""
        import os, pathlib, runpy
        with runpy.run_path({writing.__file__!r})["whole_file"](pathlib.Path({str(path)!r})) as file:
            file.write(b"newer")
            file.flush()
            os._exit(9)
    """
    run = subprocess.run([sys.executable, "-c", textwrap.dedent(code)], check=False)
    assert run.returncode == 9
    assert path.read_text() == "older"


def test_rights_and_links_stay(tmp_path: Path) -> None:
    path, link, older = tmp_path / "saved.json", tmp_path / "link.json", os.umask(0o022)
    try:
        write_whole(path, "one")
        assert path.stat().st_mode & 0o777 == 0o644
    finally:
        os.umask(older)
    path.chmod(0o600)
    link.symlink_to(path)
    write_whole(link, "tw\u00f6")
    assert link.is_symlink()
    assert path.read_text(encoding="utf-8") == "tw\u00f6"
    assert path.stat().st_mode & 0o777 == 0o600


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="there are no named pipes")
def test_a_device_is_written_to_and_not_replaced(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    reader = os.open(tmp_path / "pipe", os.O_RDONLY | os.O_NONBLOCK)
    write_whole(tmp_path / "pipe", "text")
    assert os.read(reader, 99) == b"text"
    assert (tmp_path / "pipe").is_fifo()
    os.close(reader)


def test_a_new_file_replaces_none_and_leaves_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "new"
    write_whole(path, "one", new=True)
    with pytest.raises(FileExistsError):
        write_whole(path, "two", new=True)
    assert path.read_text() == "one"
    path.unlink()
    with pytest.raises(ZeroDivisionError), whole_file(path, new=True) as file:
        _fail(file)
    assert os.listdir(tmp_path) == []
    monkeypatch.setattr(writing.os, "replace", full)
    with pytest.raises(OSError, match="No space left"):
        write_whole(path, "one", new=True)
    assert os.listdir(tmp_path) == []


def _fail(file: IO[bytes]) -> None:
    file.write(b"some")
    raise ZeroDivisionError


@pytest.mark.parametrize("name", ["reports.jsonl", "reports.parquet"])
def test_reports_are_all_in_their_file_or_none(name: str, tmp_path: Path) -> None:
    spec = dp.local.Spec(DOMAIN, "y ~ x", eps=2.0, delta=1e-6, n=5000)

    def broken() -> Any:
        for _ in range(3):
            yield dp.local.randomize({"x": 0.3, "y": 0.7}, spec)
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        dp.local.write(broken(), tmp_path / name)
    assert os.listdir(tmp_path) == []
    reports = [dp.local.randomize({"x": 0.3, "y": 0.7}, spec) for _ in range(3)]
    dp.local.write(reports, tmp_path / name)
    assert [report.values.tolist() for report in dp.local.read(tmp_path / name)] == [
        report.values.tolist() for report in reports
    ]
