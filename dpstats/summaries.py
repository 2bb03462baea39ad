"""A summary in statsmodels' look: tables as wide as one another and notes, as text, HTML, LaTeX and Markdown."""

from __future__ import annotations

import copy
import html
import io
import itertools
import re
import textwrap
from collections.abc import Callable, Sequence
from itertools import zip_longest
from typing import Any

import numpy as np
from statsmodels.iolib import summary as statsmodels_summary
from statsmodels.iolib.summary import fmt_2cols, fmt_params
from statsmodels.iolib.table import SimpleTable

from dpstats.arguments import safe_repr
from dpstats.errors import ArgumentError
from dpstats.wording import in_shell

WIDTH = 78

BREAKS = " :,;[(=*+/_-"
"""A name that is too long goes on in another line behind one of these."""

NUMBER = re.compile(r"(?<![\w.])[-+]?\d[\d,]*(?:\.\d+)?(?:[eE][-+]?\d+)?%?")
"""A number such as 12, -3.981e-06 or 8,123."""

LISTED = re.compile(r"(?<=[ =])\[[^\[\]]*\](?=[^\[\]]*\)\[)")
"""A list in a call whose level follows, as the breaks in `cut(age, [18, 25, 35])[T.(25, 35]]`."""

DETAILS = re.compile(r"\s+Details:\s+summary\(full=True\)\.")
"""What a table in a text does not lead to."""

GAP = "\ue000"
"""Stands where another cell of a column has a star, and is as wide."""

HTML_CELLS = {
    "data_fmts": ['<td style="text-align: right">%s</td>'],
    "header_fmt": '<th style="text-align: right">%s</th>',
    "header": '<th style="text-align: right">%s</th>',
    "stub_fmt": '<th style="text-align: left">%s</th>',
    "stub": '<th style="text-align: left">%s</th>',
}
"""Numbers stand to the right, their names to the left, with any style sheet."""

LATEX = str.maketrans(
    {sign: f"\\{sign}" for sign in "&%$#_{}"}
    | {
        "\\": r"\textbackslash{}",
        "~": r"\textasciitilde{}",
        "^": r"\textasciicircum{}",
        "<": r"\textless{}",
        ">": r"\textgreater{}",
        "|": r"\textbar{}",
        GAP: "",
    }
)
"""How LaTeX writes the signs that mean something to it."""

STARS = re.compile(r"(?<=\d)\*+$")
"""Behind a number. LaTeX gives them no width, so that the numbers of a column end below one another."""


class Summary(statsmodels_summary.Summary):
    """statsmodels' Summary, for tables that need not have the same number of columns in LaTeX either.

    Names of columns and levels are text in HTML and LaTeX, whatever signs they hold. Notes are sentences, which are
    numbered.
    """

    def __init__(self, tables: Sequence[SimpleTable] = (), notes: Sequence[str] = ()) -> None:
        super().__init__()
        self.tables = list(tables)
        if notes:
            self.add_extra_txt(wrap_notes(notes))

    def as_text(self) -> str:
        """The tables one below the other, then the notes."""
        return str(super().as_text()).replace(GAP, " ")

    def as_latex(self, label: str = "", *, floating: bool = False) -> str:
        """Each table as a tabular of its own, then the notes; for a preamble with ``\\usepackage{booktabs}``.

        With a label, or if `floating`, all is in a table environment, whose caption is the first table's title if that
        has one.
        """
        floating = check_label(label) != "" or floating
        # statsmodels' own replacements know only some of the signs.
        tables, notes = [_as_text(table, _latex) for table in self._whole()], list(map(_latex, self._notes()))
        caption = tables[0].title
        if floating:
            tables[0].title = ""
        look = {"replacements": {}, "data_aligns": "r", "header_align": "r", "stub": "%s", "header": "%s"}
        parts = [table.as_latex_tabular(center=not floating, **look) for table in tables]
        # After the end of a line TeX takes these signs as arguments of it.
        parts = [re.sub(r"(?m)^(\s*)([\[*])", r"\1{\2}", part) for part in parts]
        below = [r"\begin{minipage}{\linewidth}", r"\footnotesize", "\n\n".join(notes), r"\end{minipage}"]
        if not floating:
            return "\n\n".join([*parts, *(["\n".join(below)] if notes else [])])
        # Without a caption a label would have the number of the section.
        numbered = rf"\caption{{{caption}}}" if caption else r"\refstepcounter{table}"
        head = [r"\begin{table}[htbp]", r"\centering", numbered]
        head += [rf"\label{{{label}}}"] if label else []
        return "\n".join(
            [*head, "\n\n\\medskip\n".join(parts), *(["", r"\medskip", *below] if notes else []), r"\end{table}"]
        )

    def as_html(self) -> str:
        """Each table, then the notes."""
        parts = [_as_text(table, _html).as_html(**HTML_CELLS) for table in self._whole()]
        notes = [html.escape(note) for note in self._notes()]
        return "".join([*parts, *(["<br/><br/>" + "<br/>".join(notes)] if notes else [])])

    def as_markdown(self) -> str:
        """Each table in the pipes of Markdown, then the notes."""
        return "\n\n".join([*map(markdown_table, self._whole()), *map(_markdown, self._notes())])

    def as_docx(self, title: str | None = None) -> bytes:
        """A Word file: a heading if there is one, each table below its title, then the notes. Needs python-docx."""
        try:
            from docx import Document
            from docx.enum.text import WD_ALIGN_PARAGRAPH
        except ImportError as error:
            raise ArgumentError(
                "Word files need the package python-docx: pip install python-docx. Word also opens what to_html() makes"
            ) from error
        document, file = Document(), io.BytesIO()
        if title is not None:
            document.add_heading(title, 1)
        for table in map(_unbroken, self._whole()):
            rows = [[str(cell.data).replace(GAP, "").strip() for cell in row] for row in table]
            size = max(map(len, rows))
            document.add_paragraph(table.title)
            made = document.add_table(len(rows), size, style="Light List Accent 1")
            for line, cells in zip(made.rows, rows, strict=True):
                # A head names the columns of numbers alone.
                for place, text in enumerate([""] * (size - len(cells)) + cells):
                    line.cells[place].text = text
                    line.cells[place].paragraphs[0].alignment = WD_ALIGN_PARAGRAPH.RIGHT if place else None
        for note in self._notes():
            document.add_paragraph(note, style="List Bullet")
        document.save(file)
        return file.getvalue()

    def _whole(self) -> list[SimpleTable]:
        """The tables, without those that go on with one before: where lines have no end it is whole."""
        return [table for table in self.tables if getattr(table, "unbroken", table) is not None]

    def _notes(self) -> list[str]:
        return [] if self.extra_txt is None else notes_of(DETAILS.sub("", self.extra_txt))


def check_label(label: object) -> str:
    """A label of LaTeX, for ``\\ref``; empty for none."""
    if not isinstance(label, str) or not re.fullmatch(r"[\w+:/. -]*", label):
        raise ArgumentError(f"label must be letters, digits and signs such as ':', got {safe_repr(label)}")
    return label


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
    whole = copy.deepcopy(getattr(table, "unbroken", table))
    whole.title = getattr(table, "whole_title", " ".join((table.title or "").split()))
    return whole


def with_title(table: SimpleTable, title: str | None) -> SimpleTable:
    """The table with its title: in lines that fit, and on one line with a semicolon between headings.

    A heading ends before an empty line, which is not shown, and where a line has room for the next word.
    """
    if title:
        blocks = [_whole_heading(block) for block in title.split("\n\n") if block.strip()]
        table.title, table.whole_title = _centred(title.replace("\n\n", "\n")), "; ".join(blocks)
    return table


def _whole_heading(block: str) -> str:
    """Lines of a title on one line: a heading of several lines breaks where the next word has no room."""
    lines = [line.split() for line in block.split("\n") if line.strip()]
    whole = " ".join(lines[0])
    for line, following in itertools.pairwise(lines):
        ends = len(" ".join([*line, following[0]])) <= WIDTH - 4
        whole = f"{whole.rstrip(';') + ';' if ends else whole} {' '.join(following)}"
    return whole


def _as_text(table: SimpleTable, text: Callable[[str], str]) -> SimpleTable:
    """The table with `text` of its title and of its cells."""
    copied = _unbroken(table)
    copied.title = text(copied.title)
    for row in copied:
        for cell in row:
            cell.data = text(cell.data.strip()) if isinstance(cell.data, str) else cell.data
    return copied


def _latex(text: str) -> str:
    """The text as TeX reads it: two hyphens are no dash, and names in backticks are typewritten."""
    signs = re.sub("-(?=-)", "-{}", text.translate(LATEX))
    return STARS.sub(r"\\rlap{$^{\g<0>}$}", re.sub("`([^`]+)`", r"\\texttt{\1}", signs))


def _html(text: str) -> str:
    return html.escape(text).replace(GAP, "&nbsp;")


def markdown_table(table: SimpleTable) -> str:
    """A table in the pipes of Markdown, its title above it; columns of numbers to the right."""
    table = _unbroken(table)
    cells = [[_markdown(str(cell.data).replace(GAP, "").strip()).replace("|", "\\|") for cell in row] for row in table]
    size = max(map(len, cells))
    cells = [["", *row] if len(row) < size else row for row in cells]
    above = [row for row, made in zip(cells, table, strict=True) if made.datatype == "header"]
    head = [" ".join(filter(None, column)) for column in zip(*above, strict=True)] or [""] * size
    rows = [head, *(row for row, made in zip(cells, table, strict=True) if made.datatype != "header")]
    lines = [f"| {' | '.join(row)} |" for row in rows]
    lines.insert(1, f"|:---|{'---:|' * (size - 1)}")
    return "\n".join([*([f"**{_markdown(table.title)}**", ""] if table.title else []), *lines])


def _markdown(text: str) -> str:
    """The text with signs as signs where they would begin a tag or an entity of HTML; between backticks they do not."""
    begin = r"`[^`]+`|&(?=#?\w+;)|<(?=[A-Za-z/!?])"
    return re.sub(begin, lambda match: {"&": "&amp;", "<": "&lt;"}.get(match[0], match[0]), text)


def paired_facts(
    title: str, left: Sequence[tuple[str, str]], right: Sequence[tuple[str, str]], width: int = WIDTH // 2 - 18
) -> SimpleTable:
    """A header: facts by name in two columns, those on the right so wide that it ends with the tables below."""

    def made(width: int, columns: int = 18) -> SimpleTable:
        facts, stubs = [[fact] for _, fact in left], [name for name, _ in left]
        table = with_title(SimpleTable(facts, stubs=stubs, txt_fmt={**fmt_2cols, "colwidths": columns}), title)
        table.extend_right(SimpleTable([[f"{fact:>{width}}"] for _, fact in right], stubs=[name for name, _ in right]))
        return table

    def missing(*widths: int) -> int:
        return WIDTH - len(made(*widths).as_text().split("\n")[-1])

    # Names and facts on the left are narrower where a fact on the right is long.
    width = max([width, *(len(fact) for _, fact in right)])
    rooms = ((missing(width, columns), columns) for columns in (18, 17, 16))
    more, columns = next((room for room in rooms if room[0] >= 0), (0, 18))
    return made(width + more, columns)


def _centred(title: str) -> str:
    """A title of several lines, or of one that is too long, with each of its lines in the middle."""
    lines = [part for line in title.split("\n") for part in textwrap.wrap(line.strip(), WIDTH) or [""]]
    return title if len(lines) == 1 else "\n".join(line.center(WIDTH) for line in lines)


LEAST_ROOM = 3
"""For the names of rows, in characters, above their indent: very long numbers make a table wider than the header."""


def full_width(
    headers: Sequence[str],
    rows: Sequence[tuple[Any, list[str]]],
    columns: Sequence[int],
    title: str | None = None,
    *,
    narrow: bool = True,
) -> SimpleTable:
    """A table as wide as the header: named rows, with the given widths for the columns beside the names.

    Names that are longer than what is left get the blanks of the columns before they go on in another line, unless the
    columns stand below others and may not be made `narrow`. Text in the columns goes on in other lines too; numbers do
    not, for which a column is made wider.
    """
    whole, names = rows, [str(name) for name, _ in rows]
    short = without_lists(names, WIDTH - sum(columns) - len(columns))
    rows = [(name, cells) for name, (_, cells) in zip(short, rows, strict=True)]
    columns = _narrowed(headers, rows, _widened(rows, columns)) if narrow else columns
    room = max(WIDTH - sum(columns) - len(columns), LEAST_ROOM)
    formats = {**fmt_params, "colwidths": [room, *columns], "data_fmts": ["%s"]}  # widths are these, not its own
    lines = [line for name, cells in rows for line in _row_lines(name, cells, room, columns)]
    heads = ["\n".join(wrap_text(head, width)) for head, width in zip(headers, columns, strict=True)] if headers else []
    data, stubs = [cells for _, cells in lines], [name for name, _ in lines]
    table = with_title(SimpleTable(data, headers=heads, stubs=stubs, txt_fmt=formats), title)
    same = short == names and len(lines) == len(rows) and heads == list(headers)
    return table if same else with_rows(table, headers, whole)


def without_lists(names: Sequence[str], room: int) -> list[str]:
    """The names, those longer than `room` without lists, as `cut(age, ...)[T.(25, 35]]`: what differs stays.

    If two of them would be alike, all stay as they are.
    """
    short = [LISTED.sub("...", name) if len(name) > room else name for name in names]
    return short if len(set(short)) == len(set(names)) else list(names)


def _row_lines(name: str, cells: list[str], room: int, columns: Sequence[int]) -> list[tuple[str, list[str]]]:
    """A row of a table, on as many lines as its name and its cells need."""
    parts = [wrap_text(name, room, "  "), *(wrap_text(cell, width) for cell, width in zip(cells, columns, strict=True))]
    return [(line[0], list(line[1:])) for line in zip_longest(*parts, fillvalue="")]


def wrap_text(text: str, width: int, indent: str = "") -> list[str]:
    """The text on lines of at most `width` characters, broken behind a sign where there is one, but in no number."""
    lines: list[str] = []
    while len(text) > width:
        numbers = [match.span() for match in NUMBER.finditer(text)]
        at = next((place for place in range(width, width // 2, -1) if _may_break(text, place, numbers)), width)
        split = next((start for start, end in numbers if len(indent) < start < at < end), at)
        lines.append(text[:split].rstrip())
        text = indent + text[split:].lstrip()
    return [*lines, text]


def _may_break(text: str, place: int, numbers: Sequence[tuple[int, int]]) -> bool:
    """Whether a line may end at a place: behind a sign, outside of numbers, and not behind a bracket after a blank."""
    within = any(start < place < end for start, end in numbers)
    return text[place - 1] in BREAKS and not within and text[max(place - 2, 0) : place] != " ("


def _widened(rows: Sequence[tuple[Any, list[str]]], columns: Sequence[int]) -> list[int]:
    """Widths of the columns, or of the longest numbers in them if these are longer."""
    longest = list(columns)
    for _, cells in rows:
        for at, cell in enumerate(cells):
            longest[at] = max(longest[at], *map(len, NUMBER.findall(cell)), 0)
    return longest


def _narrowed(headers: Sequence[str], rows: Sequence[tuple[Any, list[str]]], columns: Sequence[int]) -> Sequence[int]:
    """Widths of the columns, less the blanks that the longest name has need of, the widest margin first."""
    missing = max((len(str(name)) for name, _ in rows), default=0) - (WIDTH - sum(columns) - len(columns))
    lines = [list(headers), *(cells for _, cells in rows)]
    least = [max((len(line[at]) for line in lines if at < len(line)), default=0) + 1 for at in range(len(columns))]
    narrow = list(columns)
    for _ in range(missing):
        margins = [width - needed for width, needed in zip(narrow, least, strict=True)]
        if max(margins, default=0) <= 0:
            break
        narrow[margins.index(max(margins))] -= 1
    return narrow


def wrap_notes(notes: Sequence[str]) -> list[str]:
    """Numbered notes, wrapped to the width of the tables."""
    return ["Notes:", *(line for at, note in enumerate(notes, 1) for line in wrap_note(f"[{at}] {note}", "    "))]


def wrap_note(note: str, indent: str = "  ") -> list[str]:
    """The lines of a note; options of a shell are not broken at their hyphens, since they are copied."""
    return textwrap.wrap(note, WIDTH, subsequent_indent=indent, break_on_hyphens=not in_shell())


def shorten(name: Any, width: int) -> str:
    """The name, cut to at most `width` characters: behind a word where there is one in its latter half."""
    text = str(name)
    if len(text) <= width:
        return text
    most = width - 3
    ends = (at for at in range(most, most // 2, -1) if text[at] in BREAKS or text[at - 1] in BREAKS)
    return text[: next(ends, most)].rstrip(BREAKS) + "..."


def format_number(value: float) -> str:
    """Four significant digits; nothing for what is not a number."""
    return "" if value != value else f"{value + 0.0:.4g}"  # zero has no sign


def format_range(values: Any) -> str:
    """One number, or the least and the greatest."""
    low, high = float(np.min(values)), float(np.max(values))
    return format_number(low) if high - low <= 1e-9 * high else f"{format_number(low)} to {format_number(high)}"
