"""What keeps the books: transactions of SQL on one ledger, whatever database it is in, never shared across a fork."""

from __future__ import annotations

import contextlib
import os
import threading
import weakref
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

from dpstats.errors import LedgerError

SCHEMA_VERSION = 5

ROOT = 1  # the account of the whole data set

# What version 3 added: who spends and why, the hash of the declared columns, quotas, and the data set's own Domain.
NAMED = "analyst TEXT, purpose TEXT, domain_hash TEXT"

# What version 4 added: the key under which a charge may be repeated.
KEYED = "key TEXT"
KEYS = "CREATE INDEX entry_key ON entry (key) WHERE key IS NOT NULL;"

# What version 5 changed: several Domains, of which the latest is in force.
CODEBOOK = """CREATE TABLE codebook (
    id INTEGER PRIMARY KEY, domain TEXT NOT NULL, hash TEXT NOT NULL, time TEXT NOT NULL
);"""
TEAM = f"""CREATE TABLE quota (
    id INTEGER PRIMARY KEY, analyst TEXT, eps REAL NOT NULL, delta REAL NOT NULL,
    limit_eps INTEGER NOT NULL, limit_delta INTEGER NOT NULL, limit_rho INTEGER NOT NULL, time TEXT NOT NULL
);
{CODEBOOK}"""

# Amounts are integers on the grid of docs/proofs/composition, section 1.
TABLES = f"""
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
    {NAMED}, {KEYED}
);
CREATE INDEX entry_time ON entry (time);
{KEYS}
{TEAM}
"""

ENTRY_FACTS = """id, account, cost_eps, cost_delta, cost_rho, eps,
    delta, label, formula, method, adjacency, basis, version, plan_hash, time, note, analyst, purpose, domain_hash,
    key"""
"""The columns of an entry that never change."""

# Accounts whose balance is not the sum of their entries: none, unless the file was tampered with or damaged.
UNBALANCED = """
SELECT COUNT(*) FROM account LEFT JOIN (
    SELECT account, SUM(cost_eps) AS eps, SUM(cost_delta) AS delta, SUM(cost_rho) AS rho
    FROM entry WHERE state <> 'refunded' GROUP BY account
) AS booked ON booked.account = account.id
WHERE spent_eps <> COALESCE(eps, 0) OR spent_delta <> COALESCE(delta, 0) OR spent_rho <> COALESCE(rho, 0)
"""


class Cursor(Protocol):
    """What a statement found."""

    @property
    def rowcount(self) -> int: ...
    def fetchone(self) -> Any: ...
    def fetchall(self) -> list[Any]: ...
    def __iter__(self) -> Iterator[Any]: ...


class Connection(Protocol):
    """A connection to a database; parameters stand where a statement has question marks."""

    def execute(self, sql: str, parameters: Sequence[Any] = (), /) -> Cursor: ...
    def executemany(self, sql: str, parameters: Sequence[Sequence[Any]], /) -> Any: ...


# A connection must not cross a fork: the child would inherit the belief that it holds locks, could unlink the log that
# the parent writes to, or end the parent's session. All are closed before a fork and reopened when needed.
_lock = threading.RLock()
_stores: weakref.WeakSet[Store] = weakref.WeakSet()


def _before_fork() -> None:
    _lock.acquire()
    for store in _stores:
        store.disconnect()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_before_fork, after_in_parent=_lock.release, after_in_child=_lock.release)


class Store(ABC):
    """Transactions on one ledger; `timeout` is the seconds to wait for those of others."""

    database_error: type[Exception]

    def __init__(self, path: Path | str, timeout: float) -> None:
        self.path = path  # of the file, or the URL of a database without its password
        self.timeout = timeout
        self._identity: str | None = None
        self._connection: Any = None
        with _lock:
            _stores.add(self)

    @abstractmethod
    def exists(self) -> bool:
        """Whether there is something at the path, a ledger or not."""

    @abstractmethod
    def create(self, row: Mapping[str, Any]) -> None:
        """Make the ledger whole with these totals, or not at all; one that is there stays as it is."""

    @abstractmethod
    def _begin(self, *, write: bool) -> Connection:
        """Connect if need be and start a transaction, waiting for others up to the timeout."""

    @abstractmethod
    def _check_pages(self, connection: Connection) -> None:
        """Raise LedgerError if the database itself is damaged."""

    @abstractmethod
    def has_table(self, connection: Connection, name: str) -> bool:
        """Whether the ledger has a table of that name."""

    @abstractmethod
    def _advice(self, error: Exception) -> str:
        """What is wrong with the ledger by an error of the database, and the fix."""

    @contextlib.contextmanager
    def transaction(self, *, write: bool) -> Iterator[Connection]:
        """A consistent view of the ledger; with `write`, durable once the block is left without an error.

        LedgerError if it cannot be opened, trusted, locked or written. Whether a charge whose commit failed is on
        record is then unknown, but nothing was released on its account.
        """
        with _lock, self._translated():
            connection = self._begin(write=write)
            try:
                yield connection
                connection.execute("COMMIT")
            except BaseException as error:
                try:
                    connection.execute("ROLLBACK")
                except self.database_error:  # none is open, or the connection is gone
                    self.disconnect()
                if isinstance(error, self.database_error):
                    self.disconnect()
                raise

    def verify(self) -> None:
        """Check the whole ledger: what the database knows of itself, and each balance against its entries."""
        with self.transaction(write=True) as connection:
            self._check_whole(connection)

    def _check_whole(self, connection: Connection) -> None:
        """Raise LedgerError unless all is in order and each balance is the sum of its entries."""
        self._check_pages(connection)
        if connection.execute(UNBALANCED).fetchone()[0]:
            raise LedgerError(
                f"ledger {self.path}: its balances do not match its entries; it is damaged; restore it from before the "
                "damage only if no charge was made since, and otherwise treat its budget as spent"
            )

    def disconnect(self) -> None:
        """Close the connection, if any; the next transaction opens another."""
        connection, self._connection = self._connection, None
        if connection is not None:
            with contextlib.suppress(self.database_error):
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

    def _check_identity(self, connection: Connection) -> None:
        """Raise LedgerError unless this is the ledger that was opened first."""
        identity = connection.execute("SELECT identity FROM ledger").fetchone()[0]
        if self._identity not in (None, identity):
            raise LedgerError(f"ledger {self.path} was replaced by another one while in use; open it anew")
        self._identity = identity

    @contextlib.contextmanager
    def _translated(self) -> Iterator[None]:
        """Turn the database's errors into ours, with the fix."""
        try:
            yield
        except self.database_error as error:
            raise LedgerError(f"ledger {self.path} {self._advice(error)}; nothing was released") from error


def insert(connection: Connection, table: str, row: Mapping[str, Any]) -> None:
    """Add `row` to `table`."""
    names, places = ", ".join(row), ", ".join("?" * len(row))
    connection.execute(f"INSERT INTO {table} ({names}) VALUES ({places})", tuple(row.values()))
