"""The ledger's entries as a DataFrame, as text and as an HTML page."""

from __future__ import annotations

import textwrap
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from html import escape

import pandas as pd

from dpstats.frames import LogFrame
from dpstats.ledger.accounts import Books, Statement
from dpstats.ledger.store import Connection
from dpstats.privacy.accounting import DELTA_UNIT, EPS_UNIT, RHO_UNIT

WIDTH = 80
_COLUMNS = (
    *("eps", "delta", "rho", "label", "analyst", "purpose", "formula", "method", "adjacency", "unit", "basis"),
    *("version", "plan_hash", "domain_hash", "time", "state", "part", "note"),
)
_OPTIONAL = ("analyst", "purpose", "formula", "method", "plan_hash", "domain_hash")
_DERIVED = ("rho", "part", "unit")
WORST_PART = (
    "Only the worst part of a partition counts. This holds as long as every row stays in its part from call to call, "
    "which the ledger cannot check."
)
NAMELESS = "(no name)"


def entries(connection: Connection, books: Books, account: int, unit: str | None) -> pd.DataFrame:
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
    return LogFrame(table.assign(**texts)[list(_COLUMNS)].astype({"eps": float, "delta": float}))


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
        words = "; ".join(dict.fromkeys(one_line(word) for word in about if isinstance(word, str) and word))
        lines += textwrap.wrap(words, WIDTH, initial_indent=" " * 7, subsequent_indent=" " * 7)
    if any(statement.entries["part"] != "") and not statement.part:
        lines += ["", *textwrap.wrap(WORST_PART, WIDTH)]
    lines += ["=" * WIDTH] if len(statement.entries) else [" " * 7 + "nothing yet", "=" * WIDTH]
    return "\n".join(lines)


def title(statement: Statement) -> str:
    """Whose budget it is."""
    part = f", part {one_line(statement.part)}" if statement.part else ""
    return f"Privacy budget of {one_line(statement.facts.dataset)}{part}"


def terms(statement: Statement) -> str:
    """How charges are stated and add up."""
    facts = statement.facts
    unit = "" if facts.unit is None else f" per {one_line(facts.unit)}"
    text = f"adjacency {facts.adjacency}{unit}, {facts.accountant} composition"
    if facts.accountant == "zcdp":
        text += f"; total eps {facts.eps:.6g}, delta {facts.delta:.6g}, half of which converts rho"
    if statement.domain is not None:
        text += f"; for data with the {len(statement.domain)} columns of its Domain"
    return text


def totals(statement: Statement) -> Iterator[tuple[str, float, float, float]]:
    """Of what is counted: its name, the total, what is spent and what remains."""
    spent, remaining = statement.spent, statement.left
    limit = spent.plus(remaining) if statement.part else statement.facts.limit
    for name, unit in (("eps", EPS_UNIT), ("delta", DELTA_UNIT), ("rho", RHO_UNIT)):
        if name != ("rho" if statement.facts.accountant == "basic" else "eps"):
            total, used, rest = (float(getattr(amount, name) * unit) for amount in (limit, spent, remaining))
            yield name, total, used, rest


def has_analysts(statement: Statement) -> bool:
    """Whether anyone is named or limited."""
    return not statement.part and any(statement.analysts.index != "")


def _analysts(statement: Statement) -> list[str]:
    """A line for each analyst, if there are any."""
    if not has_analysts(statement):
        return []
    counted = "eps" if statement.facts.accountant == "basic" else "rho"
    head = f"{'analyst':<28}{'entries':>9}{counted + ' spent':>13}{'quota eps':>13}{'eps remaining':>17}"
    lines = ["-" * WIDTH, head]
    for name, row in statement.analysts.iterrows():
        quota = "-" if pd.isna(row["quota_eps"]) else f"{row['quota_eps']:.5g}"
        figures = f"{row['entries']:>9.0f}{row[counted]:>13.5g}{quota:>13}{row['remaining_eps']:>17.5g}"
        lines.append(f"{textwrap.shorten(one_line(str(name)) or NAMELESS, 27):<28}{figures}")
    return lines


def _row(name: str, *cells: str) -> str:
    return f"{name:<7}" + "".join(f"{cell:>14}" for cell in cells)


def one_line(words: str) -> str:
    """On one line, with nothing that could steer a terminal."""
    return "".join(letter if letter.isprintable() else " " for letter in " ".join(words.split()))


_STYLE = """
body { font: 15px/1.45 system-ui, sans-serif; color: #1b2733; max-width: 62rem; margin: 2rem auto; padding: 0 1rem; }
h1 { font-size: 1.5rem; margin-bottom: .2rem; } h2 { font-size: 1.1rem; margin-top: 2rem; }
p.terms { color: #55606b; margin-top: 0; }
table { border-collapse: collapse; width: 100%; } th, td { padding: .3rem .6rem; }
th, td { text-align: left; vertical-align: top; }
th { border-bottom: 2px solid #1b2733; font-weight: 600; } td { border-bottom: 1px solid #d8dee4; }
.number { text-align: right; font-variant-numeric: tabular-nums; white-space: nowrap; }
.refunded { color: #8a949e; text-decoration: line-through; }
.about { color: #55606b; font-size: .9em; } code { font-size: .95em; }
progress { width: 100%; min-width: 8rem; accent-color: #2f6f9f; }
th.number { white-space: normal; }
@media (max-width: 40rem) {
  th, td { padding: .3rem .35rem; } code { overflow-wrap: anywhere; }
  progress { min-width: 3rem; }
}
"""
_ABOUT = (
    "Spent budget does not come back when a result is deleted. A charge is made before its rows are read, and "
    "entries are never changed. Nothing on this page is computed from rows."
)


def page(statement: Statement) -> str:
    """The page, as text to be written in UTF-8."""
    name = escape(title(statement))
    parts = [
        f"<h1>{name}</h1>",
        f'<p class="terms">{escape(terms(statement))}</p>',
        _table(["", "total", "spent", "remaining", ""], map(_total, totals(statement)), numbers=range(1, 4)),
    ]
    if has_analysts(statement):
        counted = "eps" if statement.facts.accountant == "basic" else "rho"
        head = ["analyst", "entries", f"{counted} spent", "quota eps", "eps remaining"]
        people = [_analyst(str(label), row, counted) for label, row in statement.analysts.iterrows()]
        parts += ["<h2>Analysts</h2>", _table(head, people, numbers=range(1, 5))]
    head = ["No.", "time (UTC)", "what", "eps", "delta", "state"]
    rows = [_entry(entry) for entry in statement.entries.reset_index().to_dict("records")]
    parts += ["<h2>Entries</h2>", _table(head, rows, numbers=(0, 3, 4)) if rows else "<p>Nothing yet.</p>"]
    if any(statement.entries["part"] != "") and not statement.part:
        parts.append(f"<p>{escape(WORST_PART)}</p>")
    if statement.domain is not None:
        declared = statement.domain.to_dict().items()
        columns = [[_code(label), escape(_declared(column))] for label, column in declared]
        parts += ["<h2>Domain of the data set</h2>", _table(["column", "declared"], columns)]
    parts.append(f'<p class="about">{escape(_ABOUT)}</p>')
    preface = f'<meta charset="utf-8"><title>{name}</title><style>{_STYLE}</style>'
    return f'<!DOCTYPE html>\n<html lang="en"><head>{preface}</head><body>\n' + "\n".join(parts) + "\n</body></html>\n"


def _table(head: Sequence[str], rows: Iterable[Sequence[str]], numbers: Iterable[int] = ()) -> str:
    """A table; `rows` are HTML, `head` is text, and columns of numbers are to the right."""
    right = set(numbers)

    def line(tag: str, cells: Iterable[str]) -> str:
        opened = (f'<{tag} class="number">' if place in right else f"<{tag}>" for place in range(len(head)))
        return f"<tr>{''.join(f'{start}{cell}</{tag}>' for start, cell in zip(opened, cells, strict=True))}</tr>"

    return "\n".join(["<table>", line("th", map(escape, head)), *(line("td", row) for row in rows), "</table>"])


def _total(row: tuple[str, float, float, float]) -> list[str]:
    name, total, spent, remaining = row
    share = min(spent / total, 1.0) if total > 0 else 0.0
    bar = f'<progress max="100" value="{100 * share:.1f}">{100 * share:.1f} %</progress>'
    return [escape(name), *(f"{amount:.6g}" for amount in (total, spent, remaining)), bar if total > 0 else ""]


def _analyst(name: str, row: pd.Series[float], counted: str) -> list[str]:
    quota = "none" if pd.isna(row["quota_eps"]) else f"{row['quota_eps']:.5g}"
    figures = [f"{row['entries']:.0f}", f"{row[counted]:.5g}", quota, f"{row['remaining_eps']:.5g}"]
    return [escape(one_line(name) or NAMELESS), *figures]


def _entry(entry: Mapping[Hashable, object]) -> list[str]:
    """The cells of one entry."""
    texts = {name: one_line(word) for name, word in entry.items() if isinstance(word, str) and word}
    who = [f"by {texts['analyst']}"] if "analyst" in texts else []
    who += [f"for {texts['purpose']}"] if "purpose" in texts else []
    about = "; ".join([*who, *(texts[name] for name in ("method", "part", "note") if name in texts)])
    what = f"{escape(texts.get('label', ''))}"
    if "formula" in texts:
        what += f"<br>{_code(texts['formula'])}"
    if about:
        what += f'<br><span class="about">{escape(about)}</span>'
    state = escape(str(entry["state"]))
    time = pd.Timestamp(str(entry["time"])).strftime("%Y-%m-%d %H:%M")
    marked = '<span class="refunded">{}</span>' if state == "refunded" else "{}"
    amounts = (marked.format(f"{entry[name]:.5g}") for name in ("eps", "delta"))
    return [str(entry["entry"]), time, what, *amounts, state]


def _code(words: str) -> str:
    return f"<code>{escape(one_line(words))}</code>"


def _declared(column: dict[str, list[object]]) -> str:
    """A declaration in words."""
    (kind, values), *extras = column.items()
    words = f"from {values[0]} to {values[1]}" if kind == "range" else ", ".join(map(str, values))
    return one_line("; ".join([words, *(f"{name} {value}" for name, value in extras)]))
