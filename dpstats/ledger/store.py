"""One SQLite file, opened safely: created whole or not at all, checked, locked, and never shared across a fork."""

from __future__ import annotations

import contextlib
import os
import re
import secrets
import sqlite3
import sys
import threading
import time
import weakref
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from dpstats.errors import LedgerError

APPLICATION_ID = 0x64704C67  # "dpLg", in the file's header
SCHEMA_VERSION = 3

ROOT = 1  # the account of the whole data set

# What version 3 added: who spends and why, the hash of the declared columns, quotas, and the data set's own Domain.
_NAMED = "analyst TEXT, purpose TEXT, domain_hash TEXT"
_TEAM = """CREATE TABLE quota (
    id INTEGER PRIMARY KEY, analyst TEXT, eps REAL NOT NULL, delta REAL NOT NULL,
    limit_eps INTEGER NOT NULL, limit_delta INTEGER NOT NULL, limit_rho INTEGER NOT NULL, time TEXT NOT NULL
);
CREATE TABLE codebook (one INTEGER PRIMARY KEY CHECK (one = 1), domain TEXT NOT NULL, hash TEXT NOT NULL,
    time TEXT NOT NULL);"""
_ENTRY_IS_FIXED = """CREATE TRIGGER entry_is_fixed BEFORE UPDATE OF id, account, cost_eps, cost_delta, cost_rho, eps,
    delta, label, formula, method, adjacency, basis, version, plan_hash, time, note, analyst, purpose, domain_hash
    ON entry BEGIN
    SELECT RAISE(ABORT, 'entries are never rewritten');
END;"""
_TEAM_STAYS = "\n".join(
    f"CREATE TRIGGER {table}_{name} BEFORE {event} ON {table} BEGIN SELECT RAISE(ABORT, '{table} {what}'); END;"
    for table in ("quota", "codebook")
    for name, event, what in (
        ("is_fixed", "UPDATE", "rows are never rewritten"),
        ("stays", "DELETE", "rows are never deleted"),
    )
)

# Amounts are integers on the grid of docs/proofs/composition, section 1. Balances are kept by triggers, in the
# transaction of the entry itself; nothing is ever deleted, and an entry's state is all that may change.
CREATE = f"""
CREATE TABLE ledger (
    one INTEGER PRIMARY KEY CHECK (one = 1), identity TEXT NOT NULL, dataset TEXT NOT NULL,
    eps REAL NOT NULL, delta REAL NOT NULL, adjacency TEXT NOT NULL, unit TEXT, accountant TEXT NOT NULL,
    limit_eps INTEGER NOT NULL, limit_delta INTEGER NOT NULL, limit_rho INTEGER NOT NULL,
    version TEXT NOT NULL, created TEXT NOT NULL
);
CREATE TABLE account (
    id INTEGER PRIMARY KEY, parent INTEGER REFERENCES account, rule TEXT, part TEXT,
    spent_eps INTEGER NOT NULL DEFAULT 0 CHECK (spent_eps >= 0),
    spent_delta INTEGER NOT NULL DEFAULT 0 CHECK (spent_delta >= 0),
    spent_rho INTEGER NOT NULL DEFAULT 0 CHECK (spent_rho >= 0),
    UNIQUE (parent, rule, part), CHECK ((id = {ROOT}) = (parent IS NULL))
);
CREATE TABLE entry (
    id INTEGER PRIMARY KEY, account INTEGER NOT NULL REFERENCES account,
    cost_eps INTEGER NOT NULL CHECK (cost_eps >= 0), cost_delta INTEGER NOT NULL CHECK (cost_delta >= 0),
    cost_rho INTEGER NOT NULL CHECK (cost_rho >= 0),
    eps REAL NOT NULL, delta REAL NOT NULL, label TEXT NOT NULL, formula TEXT, method TEXT, adjacency TEXT NOT NULL,
    basis TEXT NOT NULL, version TEXT NOT NULL, plan_hash TEXT, time TEXT NOT NULL, note TEXT NOT NULL,
    state TEXT NOT NULL DEFAULT 'charged' CHECK (state IN ('charged', 'read', 'refunded')),
    {_NAMED}
);
CREATE INDEX entry_time ON entry (time);
{_TEAM}
INSERT INTO account (id) VALUES ({ROOT});

CREATE TRIGGER entry_debits AFTER INSERT ON entry BEGIN
    UPDATE account SET spent_eps = spent_eps + NEW.cost_eps, spent_delta = spent_delta + NEW.cost_delta,
        spent_rho = spent_rho + NEW.cost_rho WHERE id = NEW.account;
END;
CREATE TRIGGER entry_refunds AFTER UPDATE OF state ON entry WHEN NEW.state = 'refunded' BEGIN
    UPDATE account SET spent_eps = spent_eps - NEW.cost_eps, spent_delta = spent_delta - NEW.cost_delta,
        spent_rho = spent_rho - NEW.cost_rho WHERE id = NEW.account;
END;
CREATE TRIGGER entry_starts_charged BEFORE INSERT ON entry WHEN NEW.state <> 'charged' BEGIN
    SELECT RAISE(ABORT, 'an entry starts as charged');
END;
CREATE TRIGGER entry_moves_on BEFORE UPDATE OF state ON entry
WHEN OLD.state <> 'charged' OR NEW.state = 'charged' BEGIN
    SELECT RAISE(ABORT, 'an entry that was read or refunded is final');
END;
{_ENTRY_IS_FIXED}
CREATE TRIGGER entry_stays BEFORE DELETE ON entry BEGIN SELECT RAISE(ABORT, 'entries are never deleted'); END;
CREATE TRIGGER account_is_fixed BEFORE UPDATE OF id, parent, rule, part ON account BEGIN
    SELECT RAISE(ABORT, 'accounts are never rewritten');
END;
CREATE TRIGGER account_stays BEFORE DELETE ON account BEGIN SELECT RAISE(ABORT, 'accounts are never deleted'); END;
CREATE TRIGGER ledger_is_fixed BEFORE UPDATE ON ledger BEGIN SELECT RAISE(ABORT, 'totals are never rewritten'); END;
CREATE TRIGGER ledger_stays BEFORE DELETE ON ledger BEGIN SELECT RAISE(ABORT, 'totals are never deleted'); END;
{_TEAM_STAYS}

PRAGMA application_id = {APPLICATION_ID};
PRAGMA user_version = {SCHEMA_VERSION};
"""

_TO_2 = "ALTER TABLE ledger ADD COLUMN unit TEXT;"
_TO_3 = "\n".join(
    [
        *(f"ALTER TABLE entry ADD COLUMN {column};" for column in _NAMED.split(", ")),
        *(_TEAM, "DROP TRIGGER entry_is_fixed;", _ENTRY_IS_FIXED, _TEAM_STAYS),
    ]
)
UPGRADES: dict[int, tuple[str, ...]] = {1: (_TO_2, _TO_3), 2: (_TO_3,)}
"""By the version of an older file, what makes it one of this version: columns and tables are added, nothing is changed.

A file of version 1 has no unit, so that its charges are for rows; one of version 2 has no analysts and no Domain.
"""

# Accounts whose balance is not the sum of their entries: none, unless the file was tampered with or damaged.
UNBALANCED = """
SELECT COUNT(*) FROM account LEFT JOIN (
    SELECT account, SUM(cost_eps) AS eps, SUM(cost_delta) AS delta, SUM(cost_rho) AS rho
    FROM entry WHERE state <> 'refunded' GROUP BY account
) AS booked ON booked.account = account.id
WHERE spent_eps <> COALESCE(eps, 0) OR spent_delta <> COALESCE(delta, 0) OR spent_rho <> COALESCE(rho, 0)
"""


MOUNTS = "/proc/self/mountinfo"
"""Where Linux says what is mounted; a bind mount within one file system has no other mark."""

_ESCAPED = re.compile(rb"\\([0-7]{3})")


def is_mount_point(path: Path) -> bool:
    """Whether something is mounted at an absolute `path` without links; OSError if the system does not tell."""
    if not sys.platform.startswith("linux"):
        return os.path.ismount(path)
    with open(MOUNTS, "rb") as file:
        points = {_ESCAPED.sub(_letter, line.split(b" ")[4]) for line in file if line.count(b" ") > 4}
    return os.fsencode(path) in points


def _letter(found: re.Match[bytes]) -> bytes:
    """A blank, tab, end of line or backslash, which mountinfo writes in octal."""
    return bytes([int(found[1], 8)])


_RETRY = {sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED, sqlite3.SQLITE_PROTOCOL}
_DAMAGED = (
    "is damaged; restore the file from before the damage only if no charge was made since, "
    "and otherwise treat its budget as spent"
)
_ADVICE = {
    sqlite3.SQLITE_FULL: "cannot grow: the disk is full; free some space",
    sqlite3.SQLITE_IOERR: "cannot be read or written: the disk refused; check its space, quota and health",
    sqlite3.SQLITE_READONLY: "is read-only; give this process write permission to the file and its directory",
    sqlite3.SQLITE_CANTOPEN: "cannot be opened; give this process write permission to the file and its directory",
    sqlite3.SQLITE_PERM: "cannot be opened; give this process write permission to the file and its directory",
    sqlite3.SQLITE_CORRUPT: _DAMAGED,
    sqlite3.SQLITE_NOTADB: f"is not a ledger, or {_DAMAGED}",
    sqlite3.SQLITE_CONSTRAINT: "refused an entry that breaks its rules: the file or the program was altered",
}

# An SQLite connection must not cross a fork: the child would inherit the belief that it holds locks, and could
# unlink the log that the parent writes to. All are closed before a fork and reopened on both sides when needed.
_lock = threading.RLock()
_stores: weakref.WeakSet[Store] = weakref.WeakSet()


def _before_fork() -> None:
    _lock.acquire()
    for store in _stores:
        store.disconnect()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_before_fork, after_in_parent=_lock.release, after_in_child=_lock.release)


class Store:
    """Transactions on an existing file at an absolute path; `timeout` is the seconds to wait for those of others."""

    def __init__(self, path: Path, timeout: float) -> None:
        self.path = path
        self.timeout = timeout
        self._identity: str | None = None
        self._file: tuple[int, int] | None = None
        self._connection: sqlite3.Connection | None = None
        with _lock:
            _stores.add(self)

    @contextlib.contextmanager
    def transaction(self, *, write: bool) -> Iterator[sqlite3.Connection]:
        """A consistent view of the file; with `write`, durable once the block is left without an error.

        LedgerError if the file cannot be opened, trusted, locked or written. Whether a charge whose commit failed is in
        the file is then unknown, but nothing was released on its account.
        """
        with _lock, self._translated():
            connection = self._begin("BEGIN IMMEDIATE" if write else "BEGIN")
            try:
                yield connection
                connection.execute("COMMIT")
            except BaseException as error:
                with contextlib.suppress(sqlite3.Error):
                    if connection.in_transaction:
                        connection.execute("ROLLBACK")
                if isinstance(error, sqlite3.Error):
                    self.disconnect()
                raise

    def verify(self) -> None:
        """Check the whole file: pages, indexes, and each balance against its entries. Raises LedgerError."""
        with self.transaction(write=True) as connection:
            self._check_whole(connection)

    def disconnect(self) -> None:
        """Close the connection, if any; the next transaction opens another."""
        connection, self._connection = self._connection, None
        if connection is not None:
            with contextlib.suppress(sqlite3.Error):
                connection.close()

    def __del__(self) -> None:
        if getattr(self, "_connection", None) is not None:
            self.disconnect()

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_connection": None}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        with _lock:
            _stores.add(self)

    def _begin(self, statement: str) -> sqlite3.Connection:
        """Connect if need be and start a transaction, waiting for others up to the timeout; nothing is written yet.

        SQLite's own waiting backs off to 100 ms, which starves one process among many; this one asks every few ms.
        """
        deadline, wait = time.monotonic() + self.timeout, 0.001
        while True:
            try:
                connection = self._connect()
                connection.execute(statement)
                connection.execute("SELECT one FROM ledger")  # a reading transaction takes its view here
                return connection
            except sqlite3.Error as error:
                if _code(error) not in _RETRY or time.monotonic() > deadline:
                    self.disconnect()
                    raise
                if self._connection is not None and self._connection.in_transaction:
                    self._connection.execute("ROLLBACK")
            time.sleep(wait)
            wait = min(2 * wait, 0.008)

    def _connect(self) -> sqlite3.Connection:
        """The open connection to the file at the path, after making sure that it is still the same ledger."""
        try:
            status = os.stat(self.path)
        except OSError as error:
            raise LedgerError(f"ledger {self.path} is missing; restore the file, or correct the path") from error
        # Each time: a second name may have come while the connection was open, beside which another process charges.
        _check_file(self.path)
        if self._connection is not None and self._file == (status.st_dev, status.st_ino):
            return self._connection
        self.disconnect()
        connection = sqlite3.connect(
            f"{self.path.as_uri()}?mode=rw",
            uri=True,
            isolation_level=None,
            check_same_thread=False,
            timeout=0.0,
        )
        try:
            self._prepare(connection)
        except BaseException:
            connection.close()
            raise
        self._connection, self._file = connection, (status.st_dev, status.st_ino)
        return connection

    def _prepare(self, connection: sqlite3.Connection) -> None:
        """Check that the file is a ledger of this version, and the one we know; only then change its settings."""
        if connection.execute("PRAGMA application_id").fetchone()[0] != APPLICATION_ID:
            raise LedgerError(f"path: {self.path} is another program's database; give the ledger a file of its own")
        version = _version(connection)
        if version != SCHEMA_VERSION and version not in UPGRADES:
            fix = "upgrade dpstats" if version > SCHEMA_VERSION else "use the dpstats version that wrote it"
            raise LedgerError(f"ledger {self.path} has schema version {version}, not {SCHEMA_VERSION}; {fix}")
        identity = connection.execute("SELECT identity FROM ledger").fetchone()[0]
        if self._identity not in (None, identity):
            raise LedgerError(f"ledger {self.path} was replaced by another one while in use; open it anew")
        self._identity = identity
        if connection.execute("PRAGMA journal_mode = WAL").fetchone()[0] != "wal":
            raise LedgerError(f"ledger {self.path} needs a local disk: this file system cannot share a write-ahead log")
        connection.execute("PRAGMA synchronous = FULL")
        connection.execute("PRAGMA fullfsync = ON")
        connection.execute("PRAGMA foreign_keys = ON")
        if version in UPGRADES:
            self._upgrade(connection)

    def _upgrade(self, connection: sqlite3.Connection) -> None:
        """Make an older file one of this version, in one transaction: whole, or not at all."""
        connection.execute("BEGIN IMMEDIATE")
        try:
            # Another process may have been faster; only a file in order is touched.
            steps = UPGRADES.get(_version(connection), ())
            self._check_whole(connection)
            for statement in _statements("\n".join(steps)):
                connection.execute(statement)
            connection.execute(f"PRAGMA user_version = {SCHEMA_VERSION}")
            connection.execute("COMMIT")
        except BaseException:
            with contextlib.suppress(sqlite3.Error):
                connection.execute("ROLLBACK")
            raise

    def _check_whole(self, connection: sqlite3.Connection) -> None:
        """Raise LedgerError unless pages and indexes are in order and each balance is the sum of its entries."""
        if connection.execute("PRAGMA integrity_check(1)").fetchone()[0] != "ok":
            raise LedgerError(f"ledger {self.path} {_DAMAGED}")
        if connection.execute(UNBALANCED).fetchone()[0]:
            raise LedgerError(f"ledger {self.path}: its balances do not match its entries; it {_DAMAGED}")

    @contextlib.contextmanager
    def _translated(self) -> Iterator[None]:
        """Turn SQLite's errors into ours, with the fix."""
        try:
            yield
        except sqlite3.Error as error:
            code = _code(error)
            if code in _RETRY:
                advice = f"stayed locked by another process for {self.timeout:g} s; try again, or raise timeout"
            else:
                advice = _ADVICE.get(code, f"cannot be used ({error}); check that it is a ledger on a local disk")
            raise LedgerError(f"ledger {self.path} {advice}; nothing was released") from error


def insert(connection: sqlite3.Connection, table: str, row: dict[str, Any]) -> int:
    """Add `row` to `table`; its number."""
    names, places = ", ".join(row), ", ".join("?" * len(row))
    number = connection.execute(f"INSERT INTO {table} ({names}) VALUES ({places})", tuple(row.values())).lastrowid
    assert number is not None
    return number


def create(path: Path, row: dict[str, Any]) -> None:
    """Make a complete ledger at `path` in one step, or leave the one that another process has just made.

    The file is built under another name and linked into place, so a crash never leaves half a ledger, and an empty
    or cut-off file at `path` is never mistaken for a fresh budget. LedgerError if the directory is missing or cannot be
    written, or the logs of a deleted ledger are still there.
    """
    for suffix in ("-wal", "-journal"):
        # A log with its ledger beside it is in order: another process may have made both since the caller looked.
        if path.with_name(path.name + suffix).exists() and not path.exists():
            raise LedgerError(
                f"ledger {path} is missing but its log {path.name}{suffix} is there; restore the ledger beside it, "
                "or delete the log to give up that budget"
            )
    draft = path.with_name(f"{_draft_prefix(path)}{secrets.token_hex(8)}")
    try:
        _write_draft(draft, row)
        with contextlib.suppress(FileExistsError):
            os.link(draft, path)
    except sqlite3.Error as error:
        advice = _ADVICE.get(_code(error), f"failed ({error})")
        raise LedgerError(f"path: a ledger cannot be made in {path.parent}: it {advice}") from error
    except OSError as error:
        raise LedgerError(f"path: a ledger cannot be made in {path.parent} ({error.strerror})") from error
    finally:
        for name in (draft, draft.with_name(draft.name + "-wal"), draft.with_name(draft.name + "-shm")):
            with contextlib.suppress(OSError):
                name.unlink()
    sync_directory(path.parent)


def _write_draft(draft: Path, row: dict[str, Any]) -> None:
    """The complete, synchronised database at `draft`, with no log beside it."""
    connection = sqlite3.connect(draft, isolation_level=None)
    try:
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = FULL")
        connection.executescript(f"BEGIN; {CREATE}")
        insert(connection, "ledger", {"one": 1, **row})
        connection.execute("COMMIT")
    finally:
        connection.close()


def sync_directory(directory: Path) -> None:
    """Make the names in a directory durable, where the system lets it be synchronised."""
    if os.name != "posix":
        return
    descriptor = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _check_file(path: Path) -> None:
    """Refuse what SQLite would accept: an empty file, which it takes for a new database, and a second name of any kind.

    The file is not opened here: closing it would drop the locks of this process's other connections to it.
    """
    if not path.is_file():
        raise LedgerError(f"path: {path} is not a regular file; give the ledger a file of its own")
    if os.stat(path).st_size == 0:
        raise LedgerError(
            f"path: {path} is empty, not a ledger; restore it, or delete it if it never was one (nothing was written)"
        )
    if os.stat(path).st_nlink > 1:
        _drop_drafts(path)
    if os.stat(path).st_nlink > 1:
        raise LedgerError(f"ledger {path} has a second hard link, which would have another log; remove that link")
    try:
        mounted = is_mount_point(path)
    except OSError as error:
        raise LedgerError(
            f"ledger {path}: the list of mounts cannot be read ({error.strerror}); mount /proc"
        ) from error
    if mounted:
        raise LedgerError(
            f"ledger {path} is mounted as a single file: under its other name it has another log, and both could "
            "spend the whole budget; mount its folder instead"
        )


def _draft_prefix(path: Path) -> str:
    return f".{path.name}.draft-"


def _drop_drafts(path: Path) -> None:
    """Remove the second name that a crash between linking and unlinking a draft has left."""
    for draft in path.parent.glob(f"{_draft_prefix(path)}*"):
        with contextlib.suppress(OSError):
            if draft.samefile(path):
                draft.unlink()


def _version(connection: sqlite3.Connection) -> int:
    """Of the file's schema."""
    return int(connection.execute("PRAGMA user_version").fetchone()[0])


def _statements(script: str) -> Iterator[str]:
    """The statements of a script one by one, since `executescript` would commit first."""
    statement = ""
    for line in script.splitlines():
        statement += line + "\n"
        if sqlite3.complete_statement(statement):
            yield statement
            statement = ""


def _code(error: sqlite3.Error) -> int:
    """SQLite's primary result code, 0 if the error has none."""
    return getattr(error, "sqlite_errorcode", 0) & 0xFF
