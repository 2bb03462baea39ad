"""What names, types and declarations alone tell of a model before a cent is spent on it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from dpstats.arguments import near_miss
from dpstats.domain import Domain, Levels
from dpstats.formula.cells import column_kind
from dpstats.formula.expression import Column
from dpstats.formula.parse import Formula, parse
from dpstats.formula.response import Kind
from dpstats.tables import Table

TAKEN = "not declared: it is taken as 0 or 1"
"""What the reader of a result must be told too, since rows may have been lost."""

MOST_LISTED = 8
"""Names in a note; more are counted."""


def advice(
    formula: str,
    domain: Domain | Mapping[str, Any],
    table: Table | None,
    bought: Iterable[str],
    kind: Kind = "continuous",
) -> tuple[str, ...]:
    """Sentences on what was probably not meant; a function of formula, Domain, schema and options.

    Parameters
    ----------
    formula : str
    domain : Domain or dict
        As the caller declared it.
    table : Table or None
        Its names and types alone are looked at.
    bought : iterable of str
        Columns whose range is bought.
    kind : {"continuous", "binary", "count"}
        What the family takes the response for.
    """
    declared, parsed = Domain.coerce(domain), parse(formula)
    said = [doubt for name in bought if (doubt := _bought(name, declared, table)) is not None]
    said += [] if kind != "binary" else _taken(parsed, declared, table)
    said += [
        f"{name} is declared by one level, so it has no coefficient beside an intercept: list the others"
        for name in parsed.exog_columns
        if isinstance(column := declared.get(name), Levels) and len(column.values) == 1
    ]
    return tuple(said + _absent(declared, table, set(parsed.columns)) + _unused(declared, parsed, table))


def _bought(name: str, declared: Domain, table: Table | None) -> str | None:
    """Why a range may be bought by mistake."""
    near = near_miss(name, declared)
    if near is not None:
        return f"{name} is not declared, and its range will be bought; the domain declares {near}: did you mean that?"
    if table is not None and table.count(name) == 1 and table.column(name).type_name == "CSV text":
        return (
            f"{name} is not declared and comes from a CSV file, which tells no types: it is read as numbers, and text "
            "in it is missing; list its levels in the domain if it is text"
        )
    return None


def _taken(parsed: Formula, declared: Domain, table: Table | None) -> list[str]:
    """That an undeclared response of two values is taken as 0 or 1, unless its type says so."""
    node = parsed.response.node
    if parsed.failures is not None or not isinstance(node, Column) or node.name in declared:
        return []
    if table is not None and table.count(node.name) == 1 and column_kind(table, node.name) == "boolean":
        return []
    return [f"{node.name} is {TAKEN}, and rows of any other code are left out; declare its two levels if it has others"]


def _absent(declared: Domain, table: Table | None, read: set[str]) -> list[str]:
    """Declared names that the data have in another spelling."""
    if table is None:
        return []
    names = [label for label in table.labels if isinstance(label, str)]
    missing = [name for name in declared if name not in names and name not in read]
    near = [(name, near_miss(name, [label for label in names if label not in declared])) for name in missing]
    return [
        f"the domain declares {name}, and the data have {found}: did you mean that?" for name, found in near if found
    ]


def _unused(declared: Domain, parsed: Formula, table: Table | None) -> list[str]:
    """Declared names that a dry run does not read."""
    unused = [name for name in declared if name not in parsed.columns]
    if table is not None or not unused:
        return []
    more = f" and {len(unused) - MOST_LISTED} more" if len(unused) > MOST_LISTED else ""
    return [f"declared and not used by this formula: {', '.join(unused[:MOST_LISTED])}{more}"]
