"""One SQLite file, opened safely: created whole or not at all, checked, locked, and never shared across a fork."""

from __future__ import annotations

import contextlib
import os
import re
import secrets
import sqlite3
import sys
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from dpstats.errors import LedgerError
from dpstats.ledger.store import (
    CODEBOOK,
    ENTRY_FACTS,
    KEYED,
    KEYS,
    NAMED,
    ROOT,
    SCHEMA_VERSION,
    TABLES,
    TEAM,
    Connection,
    Store,
    insert,
)

APPLICATION_ID = 0x64704C67  # "dpLg", in the file's header

_ENTRY_IS_FIXED = f"""CREATE TRIGGER entry_is_fixed BEFORE UPDATE OF {ENTRY_FACTS}
    ON entry BEGIN
    SELECT RAISE(ABORT, 'entries are never rewritten');
END;"""
_QUOTA_STAYS, _CODEBOOK_STAYS = (
    "\n".join(
        f"CREATE TRIGGER {table}_{name} BEFORE {event} ON {table} BEGIN SELECT RAISE(ABORT, '{table} {what}'); END;"
        for name, event, what in (
            ("is_fixed", "UPDATE", "rows are never rewritten"),
            ("stays", "DELETE", "rows are never deleted"),
        )
    )
    for table in ("quota", "codebook")
)

# Balances are kept by triggers, in the transaction of the entry itself; nothing is ever deleted, and an entry's state
# is all that may change.
CREATE = f"""
{TABLES}
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
{_QUOTA_STAYS}
{_CODEBOOK_STAYS}

PRAGMA application_id = {APPLICATION_ID};
PRAGMA user_version = {SCHEMA_VERSION};
"""

_TO_2 = "ALTER TABLE ledger ADD COLUMN unit TEXT;"
_TO_3 = "\n".join(
    [
        *(f"ALTER TABLE entry ADD COLUMN {column};" for column in NAMED.split(", ")),
        *(TEAM, _QUOTA_STAYS, _CODEBOOK_STAYS),
    ]
)
_TO_4 = f"ALTER TABLE entry ADD COLUMN {KEYED};\n{KEYS}\nDROP TRIGGER entry_is_fixed;\n{_ENTRY_IS_FIXED}"
_TO_5 = f"""ALTER TABLE codebook RENAME TO only_codebook;
{CODEBOOK}
INSERT INTO codebook SELECT * FROM only_codebook;
DROP TABLE only_codebook;
{_CODEBOOK_STAYS}"""
UPGRADES: dict[int, tuple[str, ...]] = {
    1: (_TO_2, _TO_3, _TO_4),
    2: (_TO_3, _TO_4),
    3: (_TO_4, _TO_5),
    4: (_TO_5,),
}
"""By the version of an older file, what makes it one of this version: nothing that stands in a table is changed.

A file of version 1 has no unit, so that its charges are for rows; one of version 2 has no analysts and no Domain;
one of version 3 has no keys, and one of version 4 keeps its first Domain for good.
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


def _letter(match: re.Match[bytes]) -> bytes:
    """A blank, tab, end of line or backslash, which mountinfo writes in octal."""
    return bytes([int(match[1], 8)])


_DAMAGED = (
    "is damaged; restore the file from before the damage only if no charge was made since, "
    "and otherwise treat its budget as spent"
)
_RETRY = {sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED, sqlite3.SQLITE_PROTOCOL}
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


class SQLiteStore(Store):
    """A ledger in an existing file at an absolute path."""

    path: Path
    database_error = sqlite3.Error

    def __init__(self, path: Path, timeout: float) -> None:
        super().__init__(path, timeout)
        self._file: tuple[int, int] | None = None

    def exists(self) -> bool:
        """Whether there is a file at the path."""
        return self.path.exists()

    def create(self, row: Mapping[str, Any]) -> None:
        """Make a complete ledger in one step, or leave the one that is there."""
        if not self.exists():
            create(self.path, row)

    def has_table(self, connection: Connection, name: str) -> bool:
        """Whether the file has a table of that name."""
        cursor = connection.execute("SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = ?", (name,))
        return cursor.fetchone() is not None

    def _begin(self, *, write: bool) -> Connection:
        """Connect if need be and start a transaction, waiting for others up to the timeout; nothing is written yet.

        SQLite's own waiting backs off to 100 ms, which starves one process among many; this one asks every few ms.
        """
        deadline, wait = time.monotonic() + self.timeout, 0.001
        while True:
            try:
                connection = self._connect()
                connection.execute("BEGIN IMMEDIATE" if write else "BEGIN")
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
        self._check_identity(connection)
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

    def _check_pages(self, connection: Connection) -> None:
        """Raise LedgerError unless pages and indexes are in order."""
        if connection.execute("PRAGMA integrity_check(1)").fetchone()[0] != "ok":
            raise LedgerError(f"ledger {self.path} {_DAMAGED}")

    def _advice(self, error: Exception) -> str:
        code = _code(error)
        if code in _RETRY:
            return f"stayed locked by another process for {self.timeout:g} s; try again, or raise timeout"
        return _ADVICE.get(code, f"cannot be used ({error}); check that it is a ledger on a local disk")


def create(path: Path, row: Mapping[str, Any]) -> None:
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


def _write_draft(draft: Path, row: Mapping[str, Any]) -> None:
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


def _code(error: Exception) -> int:
    """SQLite's primary result code, 0 if the error has none."""
    return getattr(error, "sqlite_errorcode", 0) & 0xFF
