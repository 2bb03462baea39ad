"""Who has spent how much, and what quotas allow."""

from __future__ import annotations

import math
import sqlite3

import pandas as pd

from dpstats.frames import Printed
from dpstats.privacy.accounting import DELTA_UNIT, EPS_UNIT, RHO_UNIT
from dpstats.privacy.ledger.facts import Facts
from dpstats.privacy.ledger.filters import largest
from dpstats.privacy.ledger.prices import left_of
from dpstats.privacy.ledger.queries import analyst_books, quota_left, quota_of, read_analysts, read_books, read_quotas
from dpstats.privacy.ledger.schema import ROOT

COLUMNS = (*("entries", "eps", "delta", "rho", "quota_eps", "quota_delta", "remaining_eps", "remaining_delta"),)


def analysts(connection: sqlite3.Connection, facts: Facts) -> pd.DataFrame:
    """One row an analyst, by name; see `Spender.spending`."""
    quotas, whole = read_quotas(connection), left_of(read_books(connection), facts, ROOT)
    counted = dict(
        connection.execute("SELECT analyst, COUNT(*) FROM entry WHERE state <> 'refunded' GROUP BY analyst").fetchall()
    )
    rows = {}
    for analyst in read_analysts(connection):
        spent = analyst_books(connection, analyst).total(ROOT)
        quota, left = quota_of(quotas, analyst), quota_left(connection, analyst, ROOT)
        eps, rho = (float(spent.eps * EPS_UNIT), math.nan)
        if facts.accountant == "zcdp":
            eps, rho = math.nan, float(spent.rho * RHO_UNIT)
        limits = (math.nan, math.nan) if quota is None else (quota.eps, quota.delta)
        remaining = largest(facts.accountant, whole if left is None else whole.least(left))
        rows[analyst or ""] = (
            counted.get(analyst, 0),
            *(eps, float(spent.delta * DELTA_UNIT), rho),
            *(*limits, *remaining),
        )
    table = pd.DataFrame.from_dict(rows, orient="index", columns=list(COLUMNS))
    return Printed(table.astype({name: int if name == "entries" else float for name in COLUMNS}).rename_axis("analyst"))
