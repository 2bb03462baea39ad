"""How the books filled up, entry by entry."""

from __future__ import annotations

import math
import sqlite3
from fractions import Fraction

import pandas as pd

from dpstats.frames import Printed
from dpstats.privacy.accounting import DELTA_UNIT, EPS_UNIT, RHO_UNIT
from dpstats.privacy.ledger.facts import Facts
from dpstats.privacy.ledger.filters import Amount, Books
from dpstats.privacy.ledger.queries import read_books


def history(connection: sqlite3.Connection, facts: Facts, account: int) -> pd.DataFrame:
    """What was spent after each entry that counts; see `Spender.history`."""
    books = read_books(connection)
    below = set(books.below(account))
    rows = connection.execute(
        "SELECT id, account, analyst, time, cost_eps, cost_delta, cost_rho FROM entry WHERE state <> 'refunded' "
        "ORDER BY id"
    )
    entries = [row for row in rows if row[1] in below]
    by_analyst: dict[str, Books] = {}
    whole, found = _empty(books), {}
    for number, place, analyst, time, *cost in entries:
        name, price = analyst or "", Amount(*cost)
        whole = whole.charged(place, price)
        by_analyst[name] = by_analyst.get(name, _empty(books)).charged(place, price)
        spent, own = whole.total(account), by_analyst[name].total(account)
        zcdp = facts.accountant == "zcdp"
        counted = [math.nan, _float(spent.rho, RHO_UNIT)] if zcdp else [_float(spent.eps, EPS_UNIT), math.nan]
        personal = _float(own.rho, RHO_UNIT) if zcdp else _float(own.eps, EPS_UNIT)
        found[number] = [time, counted[0], _float(spent.delta, DELTA_UNIT), counted[1], name, personal]
    names = ["time", "eps", "delta", "rho", "analyst", "by_analyst"]
    table = pd.DataFrame.from_dict(found, orient="index", columns=names).rename_axis("entry")
    table["time"] = pd.to_datetime(table["time"], utc=True, format="ISO8601")
    return Printed(table.astype(dict.fromkeys(("eps", "delta", "rho", "by_analyst"), float) | {"analyst": object}))


def _empty(books: Books) -> Books:
    """The same accounts with nothing spent."""
    return Books(one._replace(spent=Amount(0, 0, 0)) for one in books.accounts())


def _float(amount: int, unit: Fraction) -> float:
    return float(amount * unit)
