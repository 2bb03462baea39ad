"""What names, types and declarations alone tell of a model: what a table adds to a Domain, and what to mend before
a fit."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

import numpy as np

from dpstats.arguments import near_miss, same_letters
from dpstats.data import Table
from dpstats.data.columns import usable_kind
from dpstats.domain import Domain, Levels, Range
from dpstats.domain.declarations import TYPICAL_REACH
from dpstats.errors import DomainError, FormulaError
from dpstats.families import Binomial, BinomialCounts, Family
from dpstats.formula import reader
from dpstats.formula.expression import Apply, Column, Literal, Node, bind, columns_of, evaluate, public_values
from dpstats.formula.faults import is_csv_text
from dpstats.formula.parse import Formula, parse
from dpstats.formula.response import Kind
from dpstats.wording import days_since, joined, phrase

MOST_LISTED, MOST_RANGES = 8, 3
"""Names in a note, and intervals that drop rows; more are counted."""

LOGARITHM = re.compile(r"(np\.)?log(2|10|1p)?\(")

ON_SCALE = "on the scale of"
"""How the sentence on ranges under a logarithm begins."""

LOW_PART, WIDE_LOW_PART = 0.01, 1 / 2
"""On the scale of a logarithm, a low end is too low if the values below this part of the high end have more of the
range than the second number: if the ends are more than four powers of ten apart. Of incomes of 5,000 to 300,000 beside
four other columns, 20,000 rows and eps 1, a logistic fit had a standard error of .05 with the range (50, 500000), .1
with (10, 500000), .03 with (1000, 500000), and none with (1, 500000)."""

RAW_POWER = re.compile(r"I\((\w+) \*\* (\d+)\)")


def advice(
    formula: str,
    declared: Domain,
    table: Table | None,
    bought: Iterable[str],
    kind: Kind = "continuous",
) -> tuple[str, ...]:
    """Sentences on what was probably not meant; a function of formula, Domain, schema and options.

    Of `table` names and types alone are looked at; `bought` are columns whose range is bought, `kind` is the family's.
    """
    parsed = parse(formula)
    notes = _bought(list(bought), declared, table)
    response = parsed.response.node
    if kind == "binary" and table is None and parsed.failures is None and isinstance(response, Column):
        notes += [_two_values(response.name)] if response.name not in declared else []
    notes += [doubt for name in parsed.columns if (doubt := missing_code(name, parsed, declared.get(name)))]
    notes += [
        f"column {name} is declared with one level and has no coefficient next to an intercept; list its other levels"
        for name in parsed.exog_columns
        if isinstance(column := declared.get(name), Levels) and len(column.values) == 1
    ]
    notes += _logged(parsed, declared)
    return (*notes, *(_unused(declared, parsed) if table is None else _absent(declared, parsed, table)))


def _bought(names: Sequence[str], declared: Domain, table: Table | None) -> list[str]:
    """Why ranges may be bought by mistake: in one sentence of all columns whose type no file tells."""
    near = {name: match for name in names if (match := near_miss(name, declared)) is not None}
    notes = [
        f"column {name} is not declared, so the budget buys its range; the domain declares {match}: did you mean that?"
        for name, match in near.items()
    ]
    untyped = [name for name in names if name not in near and is_csv_text(table, name)]
    if untyped:
        more = f" and {len(untyped) - MOST_LISTED} more" if len(untyped) > MOST_LISTED else ""
        listed = ", ".join(untyped[:MOST_LISTED]) + more
        if len(untyped) == 1:
            subject, read, text = (
                f"column {listed} is not declared and comes",
                "It is",
                "if it is text, list its levels",
            )
        else:
            subject = f"columns {listed} are not declared and come"
            read, text = "They are", "list the levels of those that are text"
        notes.append(
            f"{subject} from a CSV file, which declares no types. {read} read as numbers, and text counts as missing; "
            f"{text} in the domain"
        )
    return notes


def end_codes(declared: Range | Levels | None) -> list[float]:
    """Codes for missing at which a range ends, unless the declaration says more or the end is as likely a limit."""
    if not isinstance(declared, Range) or declared.extras or declared.low == -declared.high:
        return []
    # 99 is a limit of ages, hours and percentiles, and from 0 on 9999 and 99.9 those of amounts with so many digits.
    likely = (999.0,) if declared.low == 0 else (999.0, 9999.0, 99999.0, 999999.0, 99.9, 999.9)
    # A range of differences or of logarithms may begin at -1 too, but seldom reaches ten times as far up.
    refused = [-1.0] if declared.low == -1 and declared.high >= 10 else []
    return refused + [
        code for code in declared.missing_codes if code == declared.low or (code == declared.high and code in likely)
    ]


LAST_PART = 1 / 3
"""A range of the next narrower width with the same other end leaves out up to this part of a narrowed one."""


def codes_at_bought_ends(bought: Range) -> list[float]:
    """Codes for missing that may have decided an end of a range that was bought, within a declared one or of none."""
    low, high = bought.interval
    if min(-low, high) > max(-low, high) / 2:
        return []  # which numbers of both signs have, too
    if bought.inner is None:  # whose ends are powers of two
        low_from, high_from = low / 2, high / 2
    else:
        low_from, high_from = low + LAST_PART * (high - low), high - LAST_PART * (high - low)
    codes = [code for code in bought.missing_codes if (code < low_from if code < 0 else code > high_from)]
    if bought.inner is not None and high == bought.high:
        # A declared end that stays: a note names the code already, or 99 is as likely a limit.
        told = end_codes(replace(bought, inner=None))
        codes = [code for code in codes if code not in (*told, 99.0)]
    return codes


def missing_code(name: str, parsed: Formula, declared: Range | Levels | None) -> str | None:
    """That a range ends at a code for missing, and what to declare then."""
    ends = end_codes(declared)
    if not ends:
        return None
    left_out = phrase('outside="drop"', shell="outside: drop")
    if name in parsed.response_columns:
        left_out = "those cells missing in the data"
    named = " and ".join(f"{code:g}" for code in ends)
    return (
        f"the range of {name} ends at {named}. If {'either' if ends[1:] else named} stands for missing, declare the "
        f"range without it, with {left_out}; if it is a number like others, declare a range that ends a little beyond "
        "it"
    )


def _logged(parsed: Formula, declared: Domain) -> list[str]:
    """That ranges begin far too low for the logarithms of their columns in terms: one sentence on all of them."""
    factors = {factor.code: factor.node for term in parsed.terms for factor in term}
    logarithms = {one.text: one for node in factors.values() for one in _logarithms(node)}
    places: dict[str, str] = {}  # by column: one with two logarithms is named once
    for node in logarithms.values():
        (name,) = columns_of(node)
        column = declared.get(name)
        if name in places or not isinstance(column, Range) or not column.interval[1] > 0:
            continue
        low, high = column.interval
        try:
            values = evaluate(node, {name: np.array([low, LOW_PART * high, high])})
        except FormulaError:
            continue  # the design refuses it, and says where it stands
        if not (isinstance(values, np.ndarray) and np.isfinite(values).all() and values[2] > values[0]):
            continue  # at a low end of zero a logarithm is not finite, and its range begins further up
        below = float((values[1] - values[0]) / (values[2] - values[0]))
        if below > WIDE_LOW_PART:
            part = f"{100 * below:.0f} % of the range ({low:.7g}, {high:.7g})"
            places[name] = f"{node.text} {part} lies below {LOW_PART * high:,.7g}"
    if not places:
        return []
    listed = list(places.values())
    few = listed[: MOST_RANGES if len(listed) > MOST_RANGES + 1 else None]
    more = [f"of {len(listed) - len(few)} more columns alike"] if len(listed) > len(few) else []
    scales = joined([few[0], *(f"of {one}" for one in few[1:]), *more])
    lower = "a lower end near the smallest plausible value"
    lower = lower if len(listed) == 1 else "lower ends near the smallest plausible values"
    return [f"{ON_SCALE} {scales}: if few rows lie there, declare {lower}, or noise may hide many coefficients"]


def _logarithms(node: Node) -> list[Apply]:
    """The logarithms of one column under `node`, of the column as it is or in arithmetic with numbers."""
    if isinstance(node, Column | Literal):
        return []
    if isinstance(node, Apply) and LOGARITHM.match(node.text) and len(node.arguments) == 1:
        inner = node.arguments[0]
        parts = inner.arguments if isinstance(inner, Apply) else (inner,)
        if all(isinstance(one, Column | Literal) for one in parts) and len(columns_of(node)) == 1:
            return [node]
    return [one for argument in node.arguments for one in _logarithms(argument)]


def _two_values(name: str) -> str:
    """What to type for a response of two values that is not declared."""
    codes, levels = (
        phrase(f"{{{name!r}: {python}}}", shell=f"{name!r}: {{{shell}}}")
        for python, shell in (("(0, 1)", "range: [0, 1]"), ("[1, 2]", "levels: [1, 2]"))
    )
    return (
        f"the response {name!r} is not declared: declare {codes} in the domain if its codes are 0 and 1, and its two "
        f"levels if they are others, such as {levels}, of which the second is modelled"
    )


def _absent(declared: Domain, parsed: Formula, table: Table) -> list[str]:
    """Declared names that the data have in another spelling."""
    names = [label for label in table.labels if isinstance(label, str)]
    missing = [name for name in declared if name not in names and name not in parsed.columns]
    near = [(name, near_miss(name, [label for label in names if label not in declared])) for name in missing]
    return [
        f"the domain declares {name}, and the data have {match}: did you mean that?" for name, match in near if match
    ]


def _unused(declared: Domain, parsed: Formula) -> list[str]:
    """Declared names that a dry run does not read."""
    unused = [name for name in declared if name not in parsed.columns]
    if not unused:
        return []
    more = f" and {len(unused) - MOST_LISTED} more" if len(unused) > MOST_LISTED else ""
    return [f"declared and not used by this formula: {', '.join(unused[:MOST_LISTED])}{more}"]


def schema_domain(
    formula: str, declared: Domain, table: Table | None, family: Family | None = None
) -> tuple[Domain, tuple[str, ...]]:
    """`declared` with what schema and family imply, and the numeric columns that the formula reads and it leaves open.

    Boolean columns range over (0, 1). Without data every undeclared column is taken to be numeric, and a response of
    two values to be boolean. Raises DataError if `table` lacks a column, DomainError for undeclared text, an undeclared
    response of two codes, and a column that is declared in another spelling.
    """
    parsed = parse(formula)
    known = declared if family is None else with_response(parsed, declared, family)
    kinds: dict[str, str] = {}
    undeclared = [name for name in parsed.columns if name not in declared]
    # Without data those that the formula reads are known to be columns.
    columns = parsed.columns if table is None else table.labels
    if table is not None:
        kinds = {name: usable_kind(name, table.column(name)) for name in undeclared}
        boolean = [name for name, kind in kinds.items() if kind == "boolean" and name not in known]
        known = known.with_ranges(dict.fromkeys(boolean, (0, 1))) if boolean else known
        reader.check_columns(table, known, parsed.columns)
    for name in undeclared:
        near, kind = near_miss(name, declared), kinds.get(name)
        spelt = near is not None and same_letters(near, name) and near not in columns
        if near is not None and (kind == "text" or spelt):
            raise DomainError(f"column {name!r} is not declared; the domain declares {near!r}: did you mean that?")
        if kind == "text":
            levels = phrase(f"domain={{{name!r}: [...]}}", shell=f"{name!r}: {{levels: [...]}} in the file of --domain")
            ends = phrase(f"domain={{{name!r}: (low, high)}}", shell=f"{name!r}: {{range: [low, high]}}")
            raise DomainError(
                f"column {name!r} is not numeric and not declared; list its levels: {levels}, or give its range if it "
                f"holds numbers as text: {ends}; make a date a number, {days_since(name)}"
            )
    if family is not None:
        _check_response(parsed, declared, family, kinds)
    return known, tuple(name for name in parsed.columns if name not in known)


def _check_response(parsed: Formula, declared: Domain, family: Family, kinds: Mapping[str, str]) -> None:
    """Raise DomainError if what is declared of the response, or is not, cannot be right; `kinds` of open columns."""
    node = parsed.response.node
    if parsed.failures is not None:
        return
    if family.response == "binary" and isinstance(node, Column) and kinds.get(node.name, "boolean") != "boolean":
        raise DomainError(_two_values(node.name))
    check_count_range(parsed, declared, family)


def check_count_range(parsed: Formula, declared: Domain, family: Family) -> None:
    """Raise DomainError if a count is declared to be negative: cells below 0 would count as 0, and nobody would see it.

    Of a response with a transformation its columns may be, as long as it is not.
    """
    if family.response != "count":
        return
    columns = {name: declared.get(name) for name in parsed.response_columns}
    negative = [(name, one) for name, one in columns.items() if isinstance(one, Range) and one.low < 0]
    if not negative:
        return
    node, (name, column) = parsed.response.node, negative[0]
    if not isinstance(node, Column):
        if None in columns.values():
            return  # a range that is bought follows the values
        values = public_values(bind(node, declared), declared)
        if not (isinstance(values, np.ndarray) and np.nanmin(values, initial=0.0) < 0):
            return
    of = f"the response {name!r}" if isinstance(node, Column) else f"{name!r} in the response {parsed.response.code}"
    low = f"{column.low:g}"
    raise DomainError(
        f"{of} is a count, and its range begins at {low}: declare (0, {max(column.high, 1):g}), and if {low} or "
        "another number below 0 stands for missing, make those cells missing: they would count as 0"
    )


def with_response(parsed: Formula, domain: Domain, family: Family) -> Domain:
    """`domain` with the range that the family fixes for a response it leaves out, if any."""
    if parsed.failures is not None:  # the most successes, and the most failures
        most = getattr(family, "trials", None)
    else:
        most = {"binary": 1, "count": getattr(family, "y_max", None)}.get(family.response)
    if most is None:
        return domain
    nodes = [factor.node for factor in (parsed.response, parsed.failures) if factor is not None]
    open_columns = [node.name for node in nodes if isinstance(node, Column) and node.name not in domain]
    return domain.with_ranges(dict.fromkeys(open_columns, (0, most))) if open_columns else domain


def check_counts(parsed: Formula, family: Family) -> None:
    """Raise FormulaError unless successes and failures meet the binomial family."""
    if parsed.failures is not None and not isinstance(family, Binomial):
        raise FormulaError(
            f"formula {parsed.text!r} needs one response on the left of '~': successes and failures are for the "
            "binomial family; write sums as I(a + b)"
        )
    if parsed.failures is None and isinstance(family, BinomialCounts):
        raise FormulaError(f"formula {parsed.text!r} needs successes + failures on the left of '~' for this family")


POINTS = 401
"""Values of a column that are tried, evenly over its range."""


def gap_notes(parsed: Formula, domain: Domain, partial: Iterable[str]) -> tuple[str, ...]:
    """A sentence on each expression of `partial`, those not finite on all of the declared ranges, from public facts
    alone.
    """
    places = {code: _place(parsed, domain, code) or "on part of the declared ranges" for code in partial}
    return tuple(
        f"{_in_words(domain, code)} is not finite {place}: rows there are left out{_logarithm(domain, code)}"
        for code, place in places.items()
    )


def _in_words(domain: Domain, code: str) -> str:
    """An expression as it stands in the formula, but an exposure, which the call may have put there, by its name."""
    name = _exposure(code)
    return f"The logarithm of the exposure {name}" if name != code and name in domain else code


def _exposure(code: str) -> str:
    """The column whose logarithm is the offset, or the whole of another expression."""
    return code.removeprefix("offset(np.log(").removesuffix("))")


def uncentred_notes(parsed: Formula, domain: Domain) -> tuple[str, ...]:
    """A sentence on numbers that interact with another term and whose range excludes zero, from public facts alone."""
    terms = {frozenset(factor.code for factor in term) for term in parsed.terms if term}
    names = [
        factor.code
        for term in parsed.terms
        for factor in term
        if isinstance(factor.node, Column) and frozenset(one.code for one in term if one is not factor) in terms
        if isinstance(declared := domain[factor.node.name], Range) and not declared.low <= 0 <= declared.high
    ]
    if not names:
        return ()
    return (
        f"Interactions with {', '.join(dict.fromkeys(names))} (0 is outside the range): coefficients of the other part "
        f"are those at 0, and have large errors; center({names[0]}) in its place gives those at the middle of the "
        "range",
    )


def power_notes(parsed: Formula, domain: Domain) -> tuple[str, ...]:
    """A sentence on raw powers of numbers that are in the formula and whose range excludes zero."""
    columns = {factor.node.name for term in parsed.terms for factor in term if isinstance(factor.node, Column)}
    for term in parsed.terms:
        for factor in term:
            power = RAW_POWER.fullmatch(factor.code)
            declared = domain[power[1]] if power and power[1] in columns else None
            if power and isinstance(declared, Range) and not declared.low <= 0 <= declared.high:
                centred = f"I(({power[1]} - {(declared.low + declared.high) / 2:g}) ** {power[2]})"
                return (
                    f"{factor.code} moves with {power[1]} (0 is outside the range), so that both have large errors; "
                    f"{centred} in its place gives the slope of {power[1]} in the middle, with a small error",
                )
    return ()


def dropped_note(parsed: Formula, domain: Domain) -> tuple[str, ...]:
    """A sentence on the ranges that drop rows, from public facts alone."""
    ranges = {
        name: f"outside ({declared.interval[0]:g}, {declared.interval[1]:g})"
        for name, declared in domain.items()
        if isinstance(declared, Range) and declared.drops
    }
    if not ranges:
        return ()
    many, alike = len(ranges) > MOST_RANGES + 1, set(ranges.values())  # "1 more" takes as much room as its name
    few = [f"{name} {outside}" for name, outside in list(ranges.items())[: MOST_RANGES if many else None]]
    more = [f"one of {len(ranges) - MOST_RANGES} more columns outside its interval"] if many else []
    listed = f"one of {len(ranges)} columns {alike.pop()}" if many and len(alike) == 1 else " or ".join([*few, *more])
    by_typical = sum(
        isinstance(one, Range) and one.inner is None and one.interval != (one.low, one.high) for one in domain.values()
    )
    whose = "its typical mean" if len(ranges) == 1 else "their typical means"
    reason = f" ({TYPICAL_REACH:g} s.d. about {whose})" if by_typical == len(ranges) else ""
    constant = ""
    if held := parsed.held_columns.intersection(ranges):  # a basis is of the whole range, not of an interval in it
        whole = all(isinstance(one := domain[name], Range) and one.interval == (one.low, one.high) for name in held)
        constant = f", whose splines and polynomials are constant {'there' if whole else 'beyond the declared range'}"
    return (f"Rows with {listed} are left out{reason}; predictions of such rows follow the formula{constant}",)


def _logarithm(domain: Domain, code: str) -> str:
    """A word on what may be a logarithm already: an exposure that is declared to be negative."""
    name = _exposure(code)
    declared = domain.get(name)
    if name == code or not isinstance(declared, Range) or declared.low >= 0:
        return ""
    return f"; if {name} is a logarithm already, pass it as offset, not as exposure"


def _place(parsed: Formula, domain: Domain, code: str) -> str:
    """For which values of its column an expression is not finite; empty where it has several, or none was tried."""
    factors = [parsed.response, *(factor for term in parsed.terms for factor in term), *parsed.offsets]
    node = next((factor.node for factor in factors if factor.code == code), None)
    columns = () if node is None else columns_of(node)
    if node is None or len(columns) != 1 or not isinstance(declared := domain[columns[0]], Range):
        return ""
    name, tried = columns[0], np.linspace(declared.low, declared.high, POINTS)
    values = evaluate(bind(node, domain), {name: tried})
    if not isinstance(values, np.ndarray) or values.shape != tried.shape or values.dtype.kind not in "fiub":
        return ""
    missing = tried[~np.isfinite(values)]
    if not len(missing):
        return ""
    low, high = float(missing[0]), float(missing[-1])
    return f"at {name} = {low:.4g}" if low == high else f"for {name} from {low:.4g} to {high:.4g}"
