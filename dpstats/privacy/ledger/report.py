"""The ledger's entries as a DataFrame and as text."""

from __future__ import annotations

import sqlite3
import textwrap
from typing import TYPE_CHECKING

import pandas as pd

from dpstats.privacy.accounting import DELTA_UNIT, EPS_UNIT, RHO_UNIT
from dpstats.privacy.ledger.filters import Amount, Books

if TYPE_CHECKING:
    from dpstats.privacy.ledger.spender import Facts

WIDTH = 80
_COLUMNS = (
    *(
        "eps",
        "delta",
        "rho",
        "label",
        "formula",
        "method",
        "adjacency",
        "unit",
        "basis",
        "version",
        "plan_hash",
        "time",
    ),
    *("state", "part", "note"),
)
_DERIVED = ("rho", "part", "unit")


def entries(connection: sqlite3.Connection, books: Books, account: int, unit: str | None) -> pd.DataFrame:
    """The entries of `account` and of the parts below it, indexed by their number; all are for the ledger's `unit`."""
    columns = ", ".join(name for name in _COLUMNS if name not in _DERIVED)
    rows = connection.execute(f"SELECT id, account, cost_rho, {columns} FROM entry ORDER BY id").fetchall()
    table = pd.DataFrame(rows, columns=["entry", "account", "rho", *columns.split(", ")]).set_index("entry")
    accounts = books.below(account)
    table = table[table["account"].isin(accounts)]
    zcdp = connection.execute("SELECT accountant FROM ledger").fetchone()[0] == "zcdp"
    table = table.assign(
        rho=table["rho"].astype(float) * float(RHO_UNIT) if zcdp else float("nan"),
        unit=pd.Series([unit] * len(table), index=table.index, dtype=object),
        part=table["account"].map({number: books.path(number) for number in accounts}).astype(object),
        time=pd.to_datetime(table["time"], utc=True, format="ISO8601"),
    )
    return table[list(_COLUMNS)].astype({"eps": float, "delta": float})


def text(table: pd.DataFrame, facts: Facts, part: str, spent: Amount, left: Amount) -> str:
    """The totals and one paragraph an entry, in at most 80 columns."""
    lines = ["Privacy budget of " + _plain(facts.dataset) + (f", part {_plain(part)}" if part else "")]
    whose = "" if facts.unit is None else f" per {_plain(facts.unit)}"
    lines += textwrap.wrap(f"adjacency {facts.adjacency}{whose}, {facts.accountant} composition", WIDTH)
    if facts.accountant == "zcdp":
        lines += [f"total eps {facts.eps:.6g}, delta {facts.delta:.6g}, half of which converts rho"]
    lines += ["=" * WIDTH, _row("", "total", "spent", "remaining")]
    limit = facts.limit if not part else spent.plus(left)
    for name, unit in (("eps", EPS_UNIT), ("delta", DELTA_UNIT), ("rho", RHO_UNIT)):
        if name != ("rho" if facts.accountant == "basic" else "eps"):
            amounts = (float(getattr(amount, name) * unit) for amount in (limit, spent, left))
            lines.append(_row(name, *(f"{amount:.6g}" for amount in amounts)))
    lines += ["-" * WIDTH, f"{'No.':>5}  {'time (UTC)':<16}  {'eps':>10}  {'delta':>10}  state"]
    for entry in table.reset_index().to_dict("records"):
        time = entry["time"].strftime("%Y-%m-%d %H:%M")
        lines.append(f"{entry['entry']:>5}  {time}  {entry['eps']:>10.5g}  {entry['delta']:>10.3g}  {entry['state']}")
        about = [entry["label"], entry["formula"], entry["method"], entry["part"], entry["note"]]
        words = "; ".join(dict.fromkeys(_plain(word) for word in about if isinstance(word, str) and word))
        lines += textwrap.wrap(words, WIDTH, initial_indent=" " * 7, subsequent_indent=" " * 7)
    if table["part"].str.len().sum() > 0 and not part:
        lines += ["", "Of the parts of a partition, only the worst one counts."]
    lines += ["=" * WIDTH] if len(table) else [" " * 7 + "nothing yet", "=" * WIDTH]
    return "\n".join(lines)


def _row(name: str, *cells: str) -> str:
    return f"{name:<7}" + "".join(f"{cell:>14}" for cell in cells)


def _plain(words: str) -> str:
    """On one line, with nothing that could steer a terminal."""
    return "".join(letter if letter.isprintable() else " " for letter in " ".join(words.split()))
