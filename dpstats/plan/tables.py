"""The tables of a plan: statsmodels' look, public values only, readable at 80 columns."""

from __future__ import annotations

import copy
import html
import re
import textwrap
from collections.abc import Callable, Sequence
from itertools import zip_longest
from typing import Any

import numpy as np
from numpy.typing import NDArray
from statsmodels.iolib import summary as statsmodels_summary
from statsmodels.iolib.summary import fmt_2cols, fmt_params
from statsmodels.iolib.table import SimpleTable

from dpstats.formula.design import DesignSpec
from dpstats.mechanisms.design import PublicDesign
from dpstats.mechanisms.stage import NoiseFacts
from dpstats.plan.facts import PlanFacts
from dpstats.privacy.guarantee import Guarantee
from dpstats.proof_pages import cite_proof

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


__all__ = ["Summary", "full_width", "plan_tables"]

WIDTH = 78

RISK_LEVEL = 0.05

MOST_TERMS = 60
"""A plan lists so many terms and then how many more there are."""

BREAKS = " :,;[(=*+/_-"
"""A name that is too long goes on in another line behind one of these."""

EXPONENT = re.compile(r"\S*\de[-+]\d\S*")
"""A number such as -3.981e-06."""


def plan_tables(plan: PlanFacts) -> list[SimpleTable]:
    """The tables that a plan and a result share: budget, noise and, where its proof applies, excess risk."""
    tables = [budget_table(plan), *bought_tables(plan), noise_table(plan)]
    return [*tables, risk_table(plan)] if has_risk(plan) else tables


def has_risk(plan: PlanFacts) -> bool:
    """Whether the proofs of the excess risk apply."""
    return plan.objective.risk_is_proved and not plan.request.options.replicates


def header_table(plan: PlanFacts, observations: str) -> SimpleTable:
    """Pairs of facts on the model (left) and on the guarantee (right)."""
    guarantee, request = plan.guarantee, plan.request
    wide = WIDTH // 2 - 18  # as wide as the tables below, whatever the facts
    title = "\n".join([*banner(guarantee), model_title(plan), *facts_lines([modelled_level(plan)])])
    left = [
        ("Dep. Variable:", shorten(plan.design.response_name, 22)),
        ("Model:", "GLM"),
        ("Family:", plan.family.name),
        ("Link:", plan.family.link),
        (
            "Method:",
            f"{request.method}, two stages" if any(role == "pilot" for role, _ in plan.stages) else request.method,
        ),
        ("Penalty:", "None" if request.penalty is None else request.penalty.name),
        ("Df Model:", str(plan.df_model)),
        *([] if guarantee.unit is None else [("Weights:", _shares(plan))]),
    ]
    right = [
        ("Adjacency:", guarantee.adjacency),
        *([] if guarantee.unit is None else [("Unit:", shorten(guarantee.unit, 20))]),
        ("Epsilon:", f"{guarantee.eps:.6g}"),
        ("Delta:", f"{guarantee.delta:.6g}"),
        ("Certified:", "yes" if guarantee.certified else "NO"),
        ("Proof:", cite_proof(guarantee.basis) if guarantee.certified else "none"),
        ("Noise:", plan.objective.law_name),
        ("No. Observations:", observations),
    ]
    for name, fact in auxiliary_facts(plan.design):
        left.append((name, shorten(fact, 18)))
        right.append(("", ""))
    table = SimpleTable([[fact] for _, fact in left], stubs=[name for name, _ in left], title=title, txt_fmt=fmt_2cols)
    table.extend_right(SimpleTable([[f"{fact:>{wide}}"] for _, fact in right], stubs=[name for name, _ in right]))
    return table


def banner(guarantee: Guarantee) -> list[str]:
    """What an uncertified output opens with; nothing for others."""
    if guarantee.certified:
        return []
    return [line.center(WIDTH) for line in textwrap.wrap(f"*** NOT CERTIFIED: {guarantee.reason} ***", WIDTH)]


def model_title(plan: PlanFacts) -> str:
    """The first line of a table of coefficients."""
    return f"Private Generalized Linear Model: {plan.family.name}".center(WIDTH)


def facts_lines(facts: Sequence[str]) -> list[str]:
    """Facts below a title, as wide as the tables."""
    return [line.center(WIDTH) for line in textwrap.wrap("; ".join(facts), WIDTH - 4)]


def capped_at(plan: PlanFacts) -> float | None:
    """From which residual on least squares is no longer that, in the response's units; None if no row has one."""
    cap, design = getattr(plan.family, "residual_cap", None), plan.design
    if cap is None or not plan.objective.caps_loss:
        return None
    units = float(cap * design.response_scaling()[1])
    return None if isinstance(design, DesignSpec) and units >= design.response.high - design.response.low else units


def modelled_level(plan: PlanFacts) -> str:
    """What the coefficients are about: of a response of two values, which of them they speak for."""
    design, family = plan.design, plan.family
    name = " ".join(design.response_name.split())
    if family.response == "binary":
        spec = design.response if isinstance(design, DesignSpec) else None
        if spec is not None and spec.trials is not None:
            event = name.partition("+")[0].strip() + " per trial"
        elif spec is not None and spec.levels is not None and spec.levels != (False, True):
            event = f"{name} = {spec.levels[1]}"
        else:
            event = name if any(sign in name for sign in "<>=") else f"{name} = 1"  # a comparison is an event
        return f"the class {event}" if family.name.endswith("svm") else f"Pr({event})"
    return f"the mean of {name}"


def auxiliary_facts(design: PublicDesign) -> list[tuple[str, str]]:
    """What belongs to the rows beside their columns, as pairs of a heading and a name."""
    facts = []
    if isinstance(design, DesignSpec):
        for name, value in (("Weights:", design.weights), ("Offset:", design.offset), ("Subset:", design.subset)):
            if value is not None:
                facts.append((name, value.name.removeprefix(f"{name[:-1].lower()}(").removesuffix(")")))
        if design.response.trials is not None:
            facts.append(("Trials at most:", format_number(design.response.trials)))
        return facts
    if design.score_ratio is None:
        facts.append(("Weights:", "an array"))
    return [*facts, ("Offset:", "an array")] if design.offset_bound else facts


def column_table(plan: PlanFacts) -> SimpleTable:
    """The terms and the bounds on their part of a row, in model units."""
    rows = [
        (term.name, [str(term.columns.stop - term.columns.start), format_number(term.l2), format_number(term.l1)])
        for term in plan.design.terms
    ]
    if len(rows) > MOST_TERMS:
        rows = [*rows[:MOST_TERMS], (f"... {len(rows) - MOST_TERMS} more", ["", "", ""])]
    return full_width(["columns", "l2 bound", "l1 bound"], rows, [10, 12, 12], title="Terms, bounds in model units")


def budget_table(plan: PlanFacts) -> SimpleTable:
    """Every purchase and the total; beside it what the classical split would have wasted."""
    budget = plan.budget
    columns = ["eps", "delta", "need", "retrieved"]
    rows = [
        (name, [*(format_number(row[column]) for column in columns), row["buys"]]) for name, row in budget.iterrows()
    ]
    return full_width([*columns, "buys"], rows, [9, 9, 9, 9, 23], title="Budget")


def bought_tables(plan: PlanFacts) -> list[SimpleTable]:
    """What was bought of the columns' values, once it is known: ranges, and what the fit needed of the response."""
    rows = []
    if plan.completed:
        domain = getattr(plan.design, "domain", {})
        ranges = {name: domain[name] for name in plan.bought if name in domain}
        rows = [(name, [*map(format_number, (pair.low, pair.high)), "range"]) for name, pair in ranges.items()]
    if plan.completed and plan.response is not None:
        found = plan.response
        use = "centre, scale and cap" if plan.family.response == "continuous" else "greatest count"
        rows.append((plan.design.response_name, [format_number(found.low), format_number(found.high), use]))
        if found.mean is not None:
            what = "rate, per exp(offset)" if plan.design.offset_bound else "mean"
            rows.append((plan.design.response_name, ["", format_number(found.mean), what]))
    return [full_width(["low", "high", "for"], rows, [12, 12, 23], title="Bought with the budget")] if rows else []


NOISE_WIDTHS = {"curvature": 20, "on": 13, "drawn": 13, "sd of noise": 14, "ratio": 9}
"""Of the columns of a table of noise that are not 11 wide."""


def noise_table(plan: PlanFacts) -> SimpleTable:
    """The noise of each stage, a row without a name taking the stage's."""
    stages = [(role, stage.noise_facts) for role, stage in plan.stages]
    rows = [(name or role, cells) for role, facts in stages for name, cells in facts.rows]
    return facts_table(stages[-1][1]._replace(rows=tuple(rows)))


def facts_table(facts: NoiseFacts) -> SimpleTable:
    """The facts of noise as they are."""
    rows = [(name, [_cell(value) for value in cells]) for name, cells in facts.rows]
    widths = [NOISE_WIDTHS.get(header, 11) for header in facts.headers]
    return full_width(facts.headers, rows, widths, title=facts.title)


def _cell(value: float | str | NDArray[np.float64]) -> str:
    """Text as it is, a number in four digits, and the range of several."""
    if isinstance(value, str):
        return value
    return _range(value) if isinstance(value, np.ndarray) else format_number(value)


def risk_table(plan: PlanFacts) -> SimpleTable:
    """The proved bounds on what privacy costs in the objective."""
    n = int(plan.request.options.rows_guess) if plan.stages[-1].plan.risk_takes_rows else None
    table = plan.excess_risk(RISK_LEVEL, n=n)
    rows = [(row["bound"], [format_number(row["value"])]) for _, row in table.iterrows()]
    losses = "the sum of losses" if n is None else f"the losses of {n:,} rows"
    return full_width(["at most"], rows, [20], title=f"Excess risk: proved bounds on what privacy adds to {losses}")


def is_output(plan: PlanFacts) -> bool:
    """Whether the noise is in the coefficients themselves, not in the objective."""
    return plan.stages[-1].plan.noise_in_coefficients


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
    columns = _narrowed(headers, rows, _widened(rows, columns)) if narrow else columns
    room = WIDTH - sum(columns) - len(columns)
    formats = {**fmt_params, "colwidths": [room, *columns], "data_fmts": ["%s"]}  # widths are these, not its own
    lines = [line for name, cells in rows for line in _row_lines(str(name), cells, room, columns)]
    heads = ["\n".join(wrap_text(head, width)) for head, width in zip(headers, columns, strict=True)] if headers else []
    data, stubs = [cells for _, cells in lines], [name for name, _ in lines]
    table = SimpleTable(data, headers=heads, stubs=stubs, title=title, txt_fmt=formats)
    return table if len(lines) == len(rows) and heads == list(headers) else with_rows(table, headers, rows)


def _row_lines(name: str, cells: list[str], room: int, columns: Sequence[int]) -> list[tuple[str, list[str]]]:
    """A row of a table, on as many lines as its name and its cells need."""
    parts = [wrap_text(name, room, "  "), *(wrap_text(cell, width) for cell, width in zip(cells, columns, strict=True))]
    return [(line[0], list(line[1:])) for line in zip_longest(*parts, fillvalue="")]


def wrap_text(text: str, width: int, indent: str = "") -> list[str]:
    """The text on lines of at most `width` characters, broken behind a sign where there is one."""
    lines: list[str] = []
    while len(text) > width:
        at = max((place for place in range(width // 2 + 1, width + 1) if text[place - 1] in BREAKS), default=width)
        lines.append(text[:at].rstrip())
        text = indent + text[at:].lstrip()
    return [*lines, text]


def _widened(rows: Sequence[tuple[Any, list[str]]], columns: Sequence[int]) -> list[int]:
    """Widths of the columns, or of the longest numbers in them that have an exponent, if these are longer."""
    longest = list(columns)
    for _, cells in rows:
        for at, cell in enumerate(cells):
            longest[at] = max(longest[at], *map(len, EXPONENT.findall(cell)), 0)
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


def _shares(plan: PlanFacts) -> str:
    """How the rows of a person count."""
    record = plan.request.options.record
    return "equal shares" if record.shared else f"1, {record.rows} rows at most"


def wrap_notes(said: Sequence[str]) -> list[str]:
    """Numbered notes, wrapped to the width of the tables."""
    lines = ["Notes:"]
    for number, note in enumerate(said, start=1):
        lines += textwrap.wrap(f"[{number}] {note}", WIDTH, subsequent_indent="    ")
    return lines


def shorten(name: Any, width: int) -> str:
    """The name, cut to at most `width` characters."""
    text = str(name)
    return text if len(text) <= width else text[: width - 3] + "..."


def format_number(value: float) -> str:
    """Four significant digits; nothing for what is not a number."""
    return "" if value != value else f"{value:.4g}"


def _range(values: Any) -> str:
    """One number, or the least and the greatest."""
    low, high = float(np.min(values)), float(np.max(values))
    return format_number(low) if high - low <= 1e-9 * high else f"{format_number(low)} to {format_number(high)}"
