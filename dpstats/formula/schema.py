"""What the names and types of a table add to a Domain, and what they leave open."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dpstats.arguments import near_miss
from dpstats.domain import Domain
from dpstats.errors import DomainError, FormulaError
from dpstats.families import Binomial, BinomialCounts, Family
from dpstats.formula import cells
from dpstats.formula.expression import Column
from dpstats.formula.parse import Formula, parse
from dpstats.formula.response import assumed_range
from dpstats.tables import as_table


def numeric_columns_undeclared(
    formula: str, domain: Domain | Mapping[str, Any], data: object, family: Family | None = None
) -> list[str]:
    """Numeric columns that the formula reads and the Domain does not declare, by names and declared types alone.

    Without data (None) every undeclared column is taken to be numeric. Boolean columns, and a response whose range
    the family fixes, need no range and are left out.

    Raises
    ------
    DataError
        If `data` is not a table, or lacks or repeats a column of the formula.
    DomainError
        If an undeclared column is not numeric: its levels cannot be bought and must be declared.
    """
    parsed = parse(formula)
    known = schema_domain(formula, domain, data, family)
    if data is None:
        return [name for name in parsed.columns if name not in known]
    table = as_table(data)
    cells.check_columns(table, known, parsed.columns)
    for name in parsed.columns:
        if name not in Domain.coerce(domain) and cells.column_kind(table, name) == "text":
            if near := near_miss(name, Domain.coerce(domain)):
                raise DomainError(f"column {name!r} is not declared; the domain declares {near!r}: did you mean that?")
            raise DomainError(
                f"column {name!r} is not numeric and not declared; list its levels: domain={{{name!r}: [...]}}, "
                f"or give its range if it holds numbers as text: domain={{{name!r}: (low, high)}}"
            )
    return [name for name in parsed.columns if name not in known]


def schema_domain(
    formula: str, domain: Domain | Mapping[str, Any], data: object, family: Family | None = None
) -> Domain:
    """`domain` with what the schema and the family imply: boolean columns and a binary response range over (0, 1)."""
    parsed = parse(formula)
    known = Domain.coerce(domain)
    known = known if family is None else with_response(parsed, known, family)
    if data is None:
        return known
    table = as_table(data)
    boolean = [n for n in parsed.columns if n not in known and cells.column_kind(table, n) == "boolean"]
    return known.with_ranges(dict.fromkeys(boolean, (0, 1)))


def with_response(parsed: Formula, domain: Domain, family: Family) -> Domain:
    """`domain` with the range that the family fixes for a response it leaves out, if any."""
    if parsed.failures is not None:
        return _with_counts(parsed, domain, getattr(family, "trials", None))
    node = parsed.response.node
    implied = assumed_range(family.response, getattr(family, "y_max", None))
    if implied is None or not isinstance(node, Column) or node.name in domain:
        return domain
    return domain.with_ranges({node.name: (implied.low, implied.high)})


def _with_counts(parsed: Formula, domain: Domain, trials: float | None) -> Domain:
    """`domain` with (0, trials) for a column of successes or of failures that it leaves out, if the family says so."""
    assert parsed.failures is not None
    nodes = [factor.node for factor in (parsed.response, parsed.failures)]
    open_columns = [node.name for node in nodes if isinstance(node, Column) and node.name not in domain]
    return domain if trials is None else domain.with_ranges(dict.fromkeys(open_columns, (0, trials)))


def check_counts(parsed: Formula, family: Family) -> None:
    """Raise FormulaError unless successes and failures meet the binomial family."""
    if parsed.failures is not None and not isinstance(family, Binomial):
        raise FormulaError(
            f"formula {parsed.text!r} needs one response on the left of '~': successes and failures are for the "
            "binomial family; write sums as I(a + b)"
        )
    if parsed.failures is None and isinstance(family, BinomialCounts):
        raise FormulaError(f"formula {parsed.text!r} needs successes + failures on the left of '~' for this family")
