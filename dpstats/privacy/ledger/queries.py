"""The books as the file has them: all of a data set's, or what one analyst has spent of it."""

from __future__ import annotations

import sqlite3
from typing import NamedTuple

from dpstats.privacy.ledger.filters import Account, Amount, Books
from dpstats.privacy.ledger.schema import ROOT


class Quota(NamedTuple):
    """What one analyst may spend: as it was said, and on the ledger's grid."""

    eps: float
    delta: float
    limit: Amount


def read_books(connection: sqlite3.Connection) -> Books:
    """The tree of accounts."""
    rows = connection.execute(
        "SELECT id, parent, rule, part, spent_eps, spent_delta, spent_rho FROM account ORDER BY id"
    )
    return Books(Account(row[0], row[1], row[2], row[3], Amount(*row[4:])) for row in rows)


def analyst_books(connection: sqlite3.Connection, analyst: str | None) -> Books:
    """The tree of accounts with what `analyst` has spent alone; None stands for charges without a name."""
    rows = connection.execute(
        "SELECT account.id, parent, rule, part, COALESCE(SUM(cost_eps), 0), COALESCE(SUM(cost_delta), 0), "
        "COALESCE(SUM(cost_rho), 0) FROM account LEFT JOIN entry ON entry.account = account.id "
        "AND state <> 'refunded' AND analyst IS ? GROUP BY account.id ORDER BY account.id",
        (analyst,),
    )
    return Books(Account(row[0], row[1], row[2], row[3], Amount(*row[4:])) for row in rows)


def read_quotas(connection: sqlite3.Connection) -> dict[str | None, Quota]:
    """The quotas in force: the latest of each analyst, and under None that of all who have none of their own."""
    rows = connection.execute(
        "SELECT analyst, eps, delta, limit_eps, limit_delta, limit_rho FROM quota ORDER BY id"
    ).fetchall()
    return {row[0]: Quota(row[1], row[2], Amount(*row[3:])) for row in rows}


def quota_of(quotas: dict[str | None, Quota], analyst: str | None) -> Quota | None:
    """The analyst's own quota, else that of everyone without one, else None."""
    return quotas.get(analyst, quotas.get(None))


def quota_left(connection: sqlite3.Connection, analyst: str | None, account: int) -> Amount | None:
    """What the analyst's quota leaves for one more charge to `account`; None without a quota."""
    quota = quota_of(read_quotas(connection), analyst)
    if quota is None:
        return None
    books = analyst_books(connection, analyst)
    left = quota.limit.minus(books.total(ROOT)).plus(books.slack(account))
    return Amount(*(max(amount, 0) for amount in left))  # a quota may be lowered below what is spent


def read_analysts(connection: sqlite3.Connection) -> list[str | None]:
    """Everyone who has charged or has a quota, in order of the alphabet; None for charges without a name."""
    named = connection.execute("SELECT analyst FROM entry UNION SELECT analyst FROM quota WHERE analyst IS NOT NULL")
    return sorted((row[0] for row in named), key=lambda name: (name is None, name or ""))
