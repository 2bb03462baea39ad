"""A ledger's report as one HTML page: every word of it escaped, no script, no other file."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from html import escape

import pandas as pd

from dpstats.privacy.ledger.facts import Statement
from dpstats.privacy.ledger.report import NAMELESS, WORST_PART, has_analysts, plain, terms, title, totals

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
.bar { background: #e6ebf0; height: .8rem; min-width: 8rem; border-radius: 2px; }
.bar div { background: #2f6f9f; height: 100%; border-radius: 2px; }
"""
_ABOUT = (
    "Spent is spent: no budget comes back by deleting a result. A charge is made before its rows are read, and entries "
    "are never changed. Nothing on this page is computed from rows."
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
        head = ["analyst", "entries", f"{counted} spent", "quota eps", "may charge now, eps at most"]
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
    name, total, spent, left = row
    share = min(spent / total, 1.0) if total > 0 else 0.0
    bar = f'<div class="bar"><div style="width: {100 * share:.1f}%"></div></div>'
    return [escape(name), *(f"{amount:.6g}" for amount in (total, spent, left)), bar if total > 0 else ""]


def _analyst(name: str, row: pd.Series[float], counted: str) -> list[str]:
    quota = "none" if pd.isna(row["quota_eps"]) else f"{row['quota_eps']:.5g}"
    figures = [f"{row['entries']:.0f}", f"{row[counted]:.5g}", quota, f"{row['remaining_eps']:.5g}"]
    return [escape(plain(name) or NAMELESS), *figures]


def _entry(entry: Mapping[Hashable, object]) -> list[str]:
    """The cells of one entry."""
    given = {name: plain(word) for name, word in entry.items() if isinstance(word, str) and word}
    who = [f"by {given['analyst']}"] if "analyst" in given else []
    who += [f"for {given['purpose']}"] if "purpose" in given else []
    about = "; ".join([*who, *(given[name] for name in ("method", "part", "note") if name in given)])
    what = f"{escape(given.get('label', ''))}"
    if "formula" in given:
        what += f"<br>{_code(given['formula'])}"
    if about:
        what += f'<br><span class="about">{escape(about)}</span>'
    state = escape(str(entry["state"]))
    time = pd.Timestamp(str(entry["time"])).strftime("%Y-%m-%d %H:%M")
    marked = '<span class="refunded">{}</span>' if state == "refunded" else "{}"
    amounts = (marked.format(f"{entry[name]:.5g}") for name in ("eps", "delta"))
    return [str(entry["entry"]), time, what, *amounts, state]


def _code(words: str) -> str:
    return f"<code>{escape(plain(words))}</code>"


def _declared(column: dict[str, list[object]]) -> str:
    """A declaration in words."""
    ((kind, values),) = column.items()
    if kind == "range":
        return f"from {values[0]} to {values[1]}"
    return plain(", ".join(map(str, values)))
