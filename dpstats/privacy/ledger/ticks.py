"""Where a charged stream stands: its tick and the hash of its one valid state, kept beside its entry in the ledger.

The table is made when the first stream is charged; ledgers without streams do not have it. A tick moves on by one, from
the state that is known: whoever holds another state, an old copy or that of a process that was overtaken, is refused.
"""

from __future__ import annotations

import sqlite3
from typing import NamedTuple

from dpstats.errors import LedgerError
from dpstats.privacy.ledger.spender import Spender

CREATE = (
    """CREATE TABLE IF NOT EXISTS stream (
    entry INTEGER PRIMARY KEY REFERENCES entry, tick INTEGER NOT NULL CHECK (tick >= 0), digest TEXT NOT NULL
)""",
    """CREATE TRIGGER IF NOT EXISTS stream_moves_on BEFORE UPDATE ON stream
WHEN NEW.entry <> OLD.entry OR NEW.tick <> OLD.tick + 1 BEGIN
    SELECT RAISE(ABORT, 'a stream moves on by one tick');
END""",
    """CREATE TRIGGER IF NOT EXISTS stream_stays BEFORE DELETE ON stream BEGIN
    SELECT RAISE(ABORT, 'streams are never deleted');
END""",
)


class Position(NamedTuple):
    """A stream's last tick and the hash of its state after it."""

    tick: int
    digest: str


class StreamBooks:
    """The ticks of the streams that a ledger was charged for.

    Parameters
    ----------
    spender : Ledger or Part
    """

    def __init__(self, spender: Spender) -> None:
        self._store = spender._store

    def charge_of(self, plan_hash: str) -> int | None:
        """The number of the entry charged as `plan_hash`, unless it was refunded; None if there is none."""
        with self._store.transaction(write=False) as connection:
            found = connection.execute(
                "SELECT id FROM entry WHERE plan_hash = ? AND state <> 'refunded'", (plan_hash,)
            ).fetchone()
        return None if found is None else int(found[0])

    def begin(self, entry: int, digest: str) -> None:
        """Put the stream of an entry before its first tick, unless it stands there or further on already.

        Raises
        ------
        LedgerError
            If the charge was refunded, or the file cannot be written.
        """
        with self._store.transaction(write=True) as connection:
            for statement in CREATE:
                connection.execute(statement)
            connection.execute("INSERT OR IGNORE INTO stream VALUES (?, 0, ?)", (entry, digest))
            connection.execute("UPDATE entry SET state = 'read' WHERE id = ? AND state = 'charged'", (entry,))
            state = connection.execute("SELECT state FROM entry WHERE id = ?", (entry,)).fetchone()
            if state is None or state[0] != "read":
                raise LedgerError(f"charge {entry} was refunded; charge the ledger again before reading rows")

    def position(self, entry: int) -> Position | None:
        """Where the stream of an entry stands; None if the ledger knows of none."""
        with self._store.transaction(write=False) as connection:
            if not _has_table(connection):
                return None
            found = connection.execute("SELECT tick, digest FROM stream WHERE entry = ?", (entry,)).fetchone()
        return None if found is None else Position(int(found[0]), str(found[1]))

    def advance(self, entry: int, before: Position, digest: str) -> bool:
        """Move a stream on by one tick, durably, if it stands `before`; whether it did."""
        with self._store.transaction(write=True) as connection:
            moved = connection.execute(
                "UPDATE stream SET tick = tick + 1, digest = ? WHERE entry = ? AND tick = ? AND digest = ?",
                (digest, entry, before.tick, before.digest),
            ).rowcount
        return moved == 1


def _has_table(connection: sqlite3.Connection) -> bool:
    return (
        connection.execute("SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = 'stream'").fetchone()
        is not None
    )
