"""The ledger's entries as a DataFrame and as text."""

from __future__ import annotations

import sqlite3
import textwrap
from collections.abc import Iterator

import pandas as pd

from dpstats.frames import Printed
from dpstats.privacy.accounting import DELTA_UNIT, EPS_UNIT, RHO_UNIT
from dpstats.privacy.ledger.facts import Statement
from dpstats.privacy.ledger.filters import Books

WIDTH = 80
_COLUMNS = (
    *(
        "eps",
        "delta",
        "rho",
        "label",
        "analyst",
        "purpose",
        "formula",
        "method",
        "adjacency",
        "unit",
        "basis",
        "version",
        "plan_hash",
        "domain_hash",
        "time",
    ),
    *("state", "part", "note"),
)
_OPTIONAL = ("analyst", "purpose", "formula", "method", "plan_hash", "domain_hash")
_DERIVED = ("rho", "part", "unit")
WORST_PART = (
    "Of the parts of a partition, only the worst one counts: this holds as long as every row keeps its part from call "
    "to call, which the ledger cannot see."
)
NAMELESS = "(no name)"


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
    # None where a text is missing, whatever type pandas would infer for the column.
    texts = {
        name: pd.Series([word if isinstance(word, str) else None for word in table[name]], table.index, object)
        for name in _OPTIONAL
    }
    return Printed(table.assign(**texts)[list(_COLUMNS)].astype({"eps": float, "delta": float}))


def text(statement: Statement) -> str:
    """The totals, the analysts and one paragraph an entry, in at most 80 columns."""
    lines = [*textwrap.wrap(title(statement), WIDTH), *textwrap.wrap(terms(statement), WIDTH)]
    lines += ["=" * WIDTH, _row("", "total", "spent", "remaining")]
    lines += [_row(name, *(f"{amount:.6g}" for amount in amounts)) for name, *amounts in totals(statement)]
    lines += _analysts(statement)
    lines += ["-" * WIDTH, f"{'No.':>5}  {'time (UTC)':<16}  {'eps':>10}  {'delta':>10}  state"]
    for entry in statement.entries.reset_index().to_dict("records"):
        time = entry["time"].strftime("%Y-%m-%d %H:%M")
        lines.append(f"{entry['entry']:>5}  {time}  {entry['eps']:>10.5g}  {entry['delta']:>10.3g}  {entry['state']}")
        formula = "" if entry["formula"] and entry["formula"] in entry["label"] else entry["formula"]
        about = [entry["label"], formula, entry["method"], entry["part"], entry["note"]]
        about += [entry["analyst"] and f"by {entry['analyst']}", entry["purpose"] and f"for {entry['purpose']}"]
        words = "; ".join(dict.fromkeys(plain(word) for word in about if isinstance(word, str) and word))
        lines += textwrap.wrap(words, WIDTH, initial_indent=" " * 7, subsequent_indent=" " * 7)
    if any(statement.entries["part"] != "") and not statement.part:
        lines += ["", *textwrap.wrap(WORST_PART, WIDTH)]
    lines += ["=" * WIDTH] if len(statement.entries) else [" " * 7 + "nothing yet", "=" * WIDTH]
    return "\n".join(lines)


def title(statement: Statement) -> str:
    """Whose budget it is."""
    part = f", part {plain(statement.part)}" if statement.part else ""
    return f"Privacy budget of {plain(statement.facts.dataset)}{part}"


def terms(statement: Statement) -> str:
    """How charges are stated and add up."""
    facts = statement.facts
    whose = "" if facts.unit is None else f" per {plain(facts.unit)}"
    said = f"adjacency {facts.adjacency}{whose}, {facts.accountant} composition"
    if facts.accountant == "zcdp":
        said += f"; total eps {facts.eps:.6g}, delta {facts.delta:.6g}, half of which converts rho"
    if statement.domain is not None:
        said += f"; for data with the {len(statement.domain)} columns of its Domain"
    return said


def totals(statement: Statement) -> Iterator[tuple[str, float, float, float]]:
    """Of what is counted: its name, the total, what is spent and what remains."""
    spent, left = statement.spent, statement.left
    limit = spent.plus(left) if statement.part else statement.facts.limit
    for name, unit in (("eps", EPS_UNIT), ("delta", DELTA_UNIT), ("rho", RHO_UNIT)):
        if name != ("rho" if statement.facts.accountant == "basic" else "eps"):
            total, gone, rest = (float(getattr(amount, name) * unit) for amount in (limit, spent, left))
            yield name, total, gone, rest


def has_analysts(statement: Statement) -> bool:
    """Whether anyone is named or limited."""
    return not statement.part and any(statement.analysts.index != "")


def _analysts(statement: Statement) -> list[str]:
    """A line for each analyst, if there are any."""
    if not has_analysts(statement):
        return []
    counted = "eps" if statement.facts.accountant == "basic" else "rho"
    lines = ["-" * WIDTH, f"{'analyst':<30}{'entries':>9}{counted + ' spent':>13}{'quota eps':>13}{'at most now':>13}"]
    for name, row in statement.analysts.iterrows():
        quota = "-" if pd.isna(row["quota_eps"]) else f"{row['quota_eps']:.5g}"
        figures = f"{row['entries']:>9.0f}{row[counted]:>13.5g}{quota:>13}{row['remaining_eps']:>13.5g}"
        lines.append(f"{textwrap.shorten(plain(str(name)) or NAMELESS, 29):<30}{figures}")
    return lines


def _row(name: str, *cells: str) -> str:
    return f"{name:<7}" + "".join(f"{cell:>14}" for cell in cells)


def plain(words: str) -> str:
    """On one line, with nothing that could steer a terminal."""
    return "".join(letter if letter.isprintable() else " " for letter in " ".join(words.split()))
