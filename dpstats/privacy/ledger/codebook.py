"""The Domain that belongs to a ledger's data set: a call that declares its columns otherwise is about other data."""

from __future__ import annotations

import datetime
import hashlib
import json
import sqlite3
from collections.abc import Iterable
from pathlib import Path

from dpstats.domain import Domain, Levels, Range, canonical
from dpstats.errors import LedgerError
from dpstats.privacy.ledger.store import insert


def schema_hash(domain: Domain) -> str:
    """A hash of the declarations, whatever order the columns are in; levels keep theirs, which is the coding."""
    facts = {name: _meant(column) for name, column in domain.items()}
    return hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()


def _meant(column: Range | Levels | None) -> list[str | float | None]:
    """What a declaration says to every cell: 17 and 17.0 end a range alike, and 1 and "1" are one level."""
    if column is None:
        return []
    if isinstance(column, Range):
        return ["range", float(column.low), float(column.high)]
    return ["levels", *map(canonical, column.values)]


def used(domain: Domain, columns: Iterable[str]) -> Domain:
    """The declarations of `columns`."""
    return Domain({name: domain[name] for name in columns if name in domain})


def read_codebook(connection: sqlite3.Connection) -> Domain | None:
    """The Domain that the file keeps, if any."""
    row = connection.execute("SELECT domain FROM codebook").fetchone()
    return None if row is None else Domain.from_json(row[0])


def keep_codebook(connection: sqlite3.Connection, domain: Domain, path: Path) -> None:
    """Keep `domain` for good, or check that it is the one kept. Raises LedgerError on another one."""
    kept = read_codebook(connection)
    if kept is None:
        now = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
        row = {"one": 1, "domain": domain.to_json(), "hash": schema_hash(domain), "time": now}
        insert(connection, "codebook", row)
    elif schema_hash(kept) != schema_hash(domain):
        raise LedgerError(
            f"domain: ledger {path} keeps another one ({_difference(kept, domain)}); leave domain out and read it from "
            "ledger.domain, or use another path for another data set"
        )


def check_codebook(kept: Domain | None, domain: Domain | None, columns: Iterable[str], path: Path) -> None:
    """Raise LedgerError if a release of `columns`, declared by `domain`, is about other data than the ledger's.

    Columns that `domain` leaves out have their ranges bought, which no declaration contradicts; they must be known.
    Nothing is checked where the ledger keeps no Domain, or the caller of `charge` states none.
    """
    if kept is None or domain is None:
        return
    names = list(dict.fromkeys(columns))
    if unknown := [name for name in names if name not in kept]:
        raise LedgerError(
            f"domain: column {unknown[0]!r} is not in the Domain of ledger {path}, which is for the data set that has "
            f"{_some(list(kept))}; charge the ledger of the data at hand"
        )
    for name in names:
        if name in domain and _meant(domain[name]) != _meant(kept[name]):
            raise LedgerError(
                f"domain: column {name!r} is declared as {_said(domain[name])}, and as {_said(kept[name])} in the "
                f"Domain of ledger {path}; pass domain=ledger.domain, or charge the ledger of the data at hand"
            )


def _difference(kept: Domain, other: Domain) -> str:
    """The first column in which two Domains differ."""
    for name in [*kept, *other]:
        if _meant(kept.get(name)) != _meant(other.get(name)):
            return f"{name!r}: {_said(kept.get(name))} there, {_said(other.get(name))} here"
    raise AssertionError("the Domains agree")


def _said(column: Range | Levels | None) -> str:
    if column is None:
        return "nothing"
    if isinstance(column, Range):
        return f"({column.low}, {column.high})"
    return f"[{_some(list(map(str, column.values)))}]"


def _some(names: list[str], most: int = 4) -> str:
    shown = ", ".join(names[:most])
    return shown if len(names) <= most else f"{shown} and {len(names) - most} more"
