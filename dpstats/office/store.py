"""What an office must not forget: analysts, jobs with their releases, and who did what, in one SQLite file."""

from __future__ import annotations

import contextlib
import hashlib
import json
import secrets
import sqlite3
import threading
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from dpstats.errors import DPStatsError
from dpstats.office.request import Request

APPLICATION_ID = 0x64704F66  # "dpOf", in the file's header

OPEN = ("waiting", "paying", "taken")
"""States that a job leaves again; all others are final. Nobody works on one that is not paid."""

FACTS = "id, analyst, dataset, verb, arguments, label, key, taken, deadline, state, begun, ended, shared, message"
"""The columns of a job without its result, which may be long."""

CREATE = f"""
CREATE TABLE IF NOT EXISTS person (
    name TEXT NOT NULL, role TEXT NOT NULL CHECK (role IN ('analyst', 'keeper')), token TEXT NOT NULL UNIQUE,
    since REAL NOT NULL, revoked REAL
);
CREATE TABLE IF NOT EXISTS job (
    id TEXT PRIMARY KEY, analyst TEXT NOT NULL, dataset TEXT NOT NULL, verb TEXT NOT NULL, arguments TEXT NOT NULL,
    label TEXT, key TEXT NOT NULL, digest TEXT NOT NULL, taken REAL NOT NULL, deadline REAL NOT NULL,
    state TEXT NOT NULL CHECK (state IN ('waiting', 'paying', 'taken', 'refused', 'released', 'failed')),
    begun REAL, ended REAL, attempts INTEGER NOT NULL DEFAULT 0, shared INTEGER NOT NULL DEFAULT 0,
    message TEXT, result TEXT, UNIQUE (analyst, key)
);
CREATE INDEX IF NOT EXISTS job_state ON job (state);
CREATE TABLE IF NOT EXISTS audit (
    id INTEGER PRIMARY KEY, time REAL NOT NULL, actor TEXT NOT NULL, act TEXT NOT NULL, subject TEXT NOT NULL
);
CREATE TABLE IF NOT EXISTS setting (name TEXT PRIMARY KEY, value TEXT NOT NULL);
CREATE TRIGGER IF NOT EXISTS job_is_final BEFORE UPDATE OF state, result, ended, message ON job
WHEN OLD.state NOT IN {OPEN} BEGIN SELECT RAISE(ABORT, 'a job that has ended is final'); END;
CREATE TRIGGER IF NOT EXISTS job_is_fixed BEFORE UPDATE OF id, analyst, dataset, verb, arguments, key, taken ON job
BEGIN SELECT RAISE(ABORT, 'requests are never rewritten'); END;
CREATE TRIGGER IF NOT EXISTS job_stays BEFORE DELETE ON job BEGIN SELECT RAISE(ABORT, 'jobs are never deleted'); END;
CREATE TRIGGER IF NOT EXISTS audit_is_fixed BEFORE UPDATE ON audit
BEGIN SELECT RAISE(ABORT, 'the audit log is never rewritten'); END;
CREATE TRIGGER IF NOT EXISTS audit_stays BEFORE DELETE ON audit
BEGIN SELECT RAISE(ABORT, 'the audit log is never deleted'); END;
PRAGMA application_id = {APPLICATION_ID};
"""


class Unavailable(DPStatsError):
    """The office cannot answer now; nothing was charged by this call, and it may be sent again."""

    def __init__(self) -> None:
        super().__init__("the office cannot take this now; nothing was lost, try again later")


class TooManyRequests(DPStatsError):
    """Somebody has asked for as much as one person may at a time; nothing was taken, and it may be sent again."""


class Store:
    """The file ``office.db`` in a folder, shared by servers and workers; a change is on disk when a call returns."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._lock = threading.RLock()
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        with self._lock, _translated():
            # A file that is there is not opened here: closing it would drop the locks of other connections.
            with contextlib.suppress(FileExistsError):
                (folder / "office.db").touch(mode=0o600, exist_ok=False)
            self._connection = sqlite3.connect(
                folder / "office.db", timeout=30.0, isolation_level=None, check_same_thread=False
            )
            self._connection.row_factory = sqlite3.Row
            for setting in ("journal_mode = WAL", "synchronous = FULL", "fullfsync = ON"):
                self._connection.execute(f"PRAGMA {setting}")
            if self._connection.execute("PRAGMA application_id").fetchone()[0] != APPLICATION_ID:
                self._connection.executescript(f"BEGIN IMMEDIATE; {CREATE} COMMIT;")

    @contextlib.contextmanager
    def writing(self) -> Iterator[sqlite3.Connection]:
        """A transaction, durable once the block is left without an error; Unavailable if the disk refuses."""
        with self._lock, _translated():
            self._connection.execute("BEGIN IMMEDIATE")
            try:
                yield self._connection
                self._connection.execute("COMMIT")
            except BaseException:
                with contextlib.suppress(sqlite3.Error):
                    self._connection.execute("ROLLBACK")
                raise

    def rows(self, sql: str, parameters: Sequence[Any] = ()) -> list[sqlite3.Row]:
        with self._lock, _translated():
            return self._connection.execute(sql, tuple(parameters)).fetchall()

    def row(self, sql: str, parameters: Sequence[Any] = ()) -> sqlite3.Row | None:
        return next(iter(self.rows(sql, parameters)), None)

    def close(self) -> None:
        with self._lock:
            self._connection.close()


@contextlib.contextmanager
def _translated() -> Iterator[None]:
    """Turn errors of the disk into one that names nothing."""
    try:
        yield
    except sqlite3.IntegrityError:
        raise
    except (sqlite3.DatabaseError, OSError) as error:
        raise Unavailable from error


def insert(connection: sqlite3.Connection, table: str, **row: Any) -> None:
    places = ", ".join("?" * len(row))
    connection.execute(f"INSERT INTO {table} ({', '.join(row)}) VALUES ({places})", tuple(row.values()))


def request_of(row: Mapping[str, Any] | sqlite3.Row) -> Request:
    return Request(row["dataset"], row["verb"], json.loads(row["arguments"]), row["label"])


def new_token() -> str:
    """256 random bits, in letters that fit into headers."""
    return secrets.token_urlsafe(32)


def hash_of(token: object) -> str:
    """What is stored of a token; it has 256 bits, so a plain hash cannot be searched."""
    return hashlib.sha256(str(token).encode("utf-8", "surrogatepass")).hexdigest()
