"""The office's file: durable, private to its user, and safe to open twice in one process."""

from __future__ import annotations

import sqlite3
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from dpstats.office.store import Store, Unavailable, insert

WRITE = """
import contextlib, sqlite3, sys
for number in range(20):
    with contextlib.closing(sqlite3.connect(sys.argv[1] + "/office.db")) as connection, connection:
        row = (number, "a", "b", "c" * 5000)
        connection.execute("INSERT INTO audit (time, actor, act, subject) VALUES (?, ?, ?, ?)", row)
"""


def test_others_cannot_read_it(tmp_path: Path) -> None:
    Store(tmp_path / "office").close()
    assert stat.S_IMODE((tmp_path / "office").stat().st_mode) == 0o700
    assert stat.S_IMODE((tmp_path / "office" / "office.db").stat().st_mode) == 0o600


def test_commits_wait_for_the_disk(tmp_path: Path) -> None:
    store = Store(tmp_path)
    assert store.row("PRAGMA synchronous")[0] == 2  # type: ignore[index]
    assert store.row("PRAGMA journal_mode")[0] == "wal"  # type: ignore[index]


def test_a_block_that_fails_leaves_nothing(tmp_path: Path) -> None:
    store = Store(tmp_path)

    def fail() -> None:
        with store.writing() as connection:
            insert(connection, "audit", time=0.0, actor="a", act="b", subject="c")
            raise KeyError

    with pytest.raises(KeyError):
        fail()
    assert store.rows("SELECT * FROM audit") == []


def test_a_second_connection_of_the_process_does_not_drop_the_locks_of_the_first(tmp_path: Path) -> None:
    """Else another process, taking itself for the last one, would remove the log that the first still reads."""
    first = Store(tmp_path)
    first.rows("SELECT * FROM audit")
    second = Store(tmp_path)
    subprocess.run([sys.executable, "-c", WRITE, str(tmp_path)], check=True)
    for store in (first, second):
        assert len(store.rows("SELECT * FROM audit")) == 20
    assert (tmp_path / "office.db-wal").exists()


def test_a_file_that_is_none_makes_the_office_unavailable(tmp_path: Path) -> None:
    (tmp_path / "office.db").write_bytes(b"no database, but a text that is long enough" * 50)
    with pytest.raises(Unavailable) as error:
        Store(tmp_path)
    assert str(tmp_path) not in str(error.value)
    assert isinstance(error.value.__cause__, sqlite3.DatabaseError)
