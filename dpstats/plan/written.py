"""A summary in LaTeX, HTML and Markdown: names are text, on one line, whatever signs they hold."""

from __future__ import annotations

import copy
import html
import re
from collections.abc import Callable, Sequence
from typing import Any

from statsmodels.iolib import summary as statsmodels_summary
from statsmodels.iolib.table import SimpleTable

DETAILS = re.compile(r"\s+Details:\s+summary\(full=True\)\.")
"""What a table in a text does not lead to."""

LATEX = str.maketrans(
    {sign: f"\\{sign}" for sign in "&%$#_{}"}
    | {
        "\\": r"\textbackslash{}",
        "~": r"\textasciitilde{}",
        "^": r"\textasciicircum{}",
        "<": r"\textless{}",
        ">": r"\textgreater{}",
        "|": r"\textbar{}",
    }
)
"""How LaTeX writes the signs that mean something to it."""


class Summary(statsmodels_summary.Summary):
    """statsmodels' Summary, for tables that need not have the same number of columns in LaTeX either.

    Names of columns and levels are text in HTML and LaTeX, whatever signs they hold.
    """

    def as_latex(self) -> str:
        """Each table as a tabular of its own, then the notes; for a preamble with ``\\usepackage{booktabs}``."""
        # statsmodels' own replacements know only some of the signs.
        parts = [_as_text(table, _latex).as_latex_tabular(replacements={}) for table in self.tables]
        return "\n\n".join([*parts, *map(_latex, self._notes())])

    def as_html(self) -> str:
        """Each table, then the notes."""
        parts = [_as_text(table, html.escape).as_html() for table in self.tables]
        notes = [html.escape(note) for note in self._notes()]
        return "".join([*parts, *(["<br/><br/>" + "<br/>".join(notes)] if notes else [])])

    def as_markdown(self) -> str:
        """Each table in the pipes of Markdown, then the notes."""
        return "\n\n".join([*map(markdown_table, self.tables), *self._notes()])

    def _notes(self) -> list[str]:
        return [] if self.extra_txt is None else notes_of(DETAILS.sub("", self.extra_txt))


def notes_of(text: str) -> list[str]:
    """The notes of a text, one line each: what goes on in another line is set in there."""
    notes: list[str] = []
    for line in text.split("\n"):
        if line.startswith(" ") and notes:
            notes[-1] += f" {line.strip()}"
        else:
            notes.append(line)
    return [note for note in notes if note]


def with_rows(table: SimpleTable, headers: Sequence[str], rows: Sequence[tuple[Any, list[str]]]) -> SimpleTable:
    """The table, whose names and cells go on in other lines, with its rows as they are where lines have no end."""
    data, stubs = [cells for _, cells in rows], [str(name) for name, _ in rows]
    table.unbroken = SimpleTable(data, headers=list(headers), stubs=stubs)
    return table


def _unbroken(table: SimpleTable) -> SimpleTable:
    """The table with each of its rows on one line, and its title."""
    found = copy.deepcopy(getattr(table, "unbroken", table))
    found.title = " ".join((table.title or "").split())
    return found


def _as_text(table: SimpleTable, text: Callable[[str], str]) -> SimpleTable:
    """The table with `text` of its title and of its cells."""
    found = _unbroken(table)
    found.title = text(found.title)
    for row in found:
        for cell in row:
            cell.data = text(cell.data.strip()) if isinstance(cell.data, str) else cell.data
    return found


def _latex(text: str) -> str:
    return text.translate(LATEX)


def markdown_table(table: SimpleTable) -> str:
    """A table in the pipes of Markdown, its title above it; columns of numbers to the right."""
    table = _unbroken(table)
    cells = [[str(cell.data).strip().replace("|", "\\|") for cell in row] for row in table]
    size = max(map(len, cells))
    cells = [["", *row] if len(row) < size else row for row in cells]
    above = [row for row, made in zip(cells, table, strict=True) if made.datatype == "header"]
    head = [" ".join(filter(None, column)) for column in zip(*above, strict=True)] or [""] * size
    rows = [head, *(row for row, made in zip(cells, table, strict=True) if made.datatype != "header")]
    lines = [f"| {' | '.join(row)} |" for row in rows]
    lines.insert(1, f"|:---|{'---:|' * (size - 1)}")
    return "\n".join([*([f"**{table.title}**", ""] if table.title else []), *lines])
