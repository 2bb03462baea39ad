"""``Surv(time, event) ~ group``: times to an event and groups of rows, bound to the Domain."""

from __future__ import annotations

import ast
import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dpstats.arguments import is_number, safe_repr
from dpstats.data import Table
from dpstats.domain import Domain
from dpstats.errors import ArgumentError, DomainError, FormulaError
from dpstats.formula.expression import Node, as_codes, bind, columns_of, evaluate, public_values
from dpstats.formula.parse import Factor, Formula, parse
from dpstats.formula.reader import encode
from dpstats.formula.response import (
    Condition,
    Response,
    RowValue,
    bind_response,
    bind_subset,
    bind_value,
    clipping_response,
)
from dpstats.formula.syntax import dots
from dpstats.wording import argument

Array = NDArray[np.float64]
Codes = NDArray[np.intp]

MOST_GROUPS = 50
"""Beyond it a formula most probably names the wrong column."""

USAGE = "write Surv(time, event) ~ group, or Surv(time, event) ~ 1 without groups"


@dataclass(frozen=True, eq=False)
class SurvivalTimes:
    """The response of a formula of survival: how long a row was observed from 0, and whether an event ended it."""

    name: str  # as the formula writes it
    time: RowValue
    event: Response
    breaks: Array  # ends of the intervals, increasing from 0 to the end of the observation, shape (K + 1,)
    entry: RowValue | None = None  # from when on a row is observed, if not from 0

    @property
    def parts(self) -> tuple[tuple[tuple[str, ...], Domain], ...]:
        """The columns of times and event, each with the Domain that encodes them."""
        bound = (self.time, self.event) if self.entry is None else (self.time, self.event, self.entry)
        return tuple((columns_of(part.node), part.domain) for part in bound)

    def observed(self, table: Table, rows: slice) -> Observed:
        """How long each row was observed, and how it left."""
        encoded = [encode(table, names, domain, rows) for names, domain in self.parts]
        (of_time, complete), (of_event, known) = encoded[:2]
        times, events, complete = self.time(of_time), self.event.encode(of_event), complete & known
        starts = np.zeros_like(times)
        if self.entry is not None:
            starts, complete = self.entry(encoded[2][0]), complete & encoded[2][1]
            complete &= starts < times
        complete = complete & np.isfinite(times) & np.isfinite(events) & np.isfinite(starts)
        inside = np.searchsorted(self.breaks[1:], np.where(complete, times, 0.0), side="left")
        beyond = times >= self.breaks[-1]
        places = np.where(beyond, len(self.breaks) - 1, inside).astype(np.intp)
        return Observed(starts, np.minimum(times, self.breaks[-1]), places, (events == 1) & ~beyond, complete)


class Observed(NamedTuple):
    """Rows under observation, shapes (rows,); what is not `complete` is to be left out.

    An interval holds its upper end, and who is there at the end of the last has no event: beyond a clipped time it is
    not known when.
    """

    starts: Array
    times: Array
    places: Codes  # the interval in which a row leaves; K for those observed to the end
    events: NDArray[np.bool_]
    complete: NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class Groups:
    """What the right side of a formula divides rows by: every combination of the levels of its factors."""

    names: tuple[str, ...]
    nodes: tuple[Node, ...]
    sizes: tuple[int, ...]  # numbers of levels
    subset: Condition | None
    columns: tuple[str, ...]
    domain: Domain

    def codes(self, table: Table, rows: slice) -> tuple[Codes, NDArray[np.bool_]]:
        """The group of each row, and whether it is known, shapes (rows,)."""
        encoded, known = encode(table, self.columns, self.domain, rows)
        group = np.zeros(rows.stop - rows.start, dtype=np.intp)
        for node, size in zip(self.nodes, self.sizes, strict=True):
            codes = as_codes(evaluate(node, encoded))
            assert codes is not None
            known = known & (codes.values >= 0)
            group = group * size + codes.values
        if self.subset is not None:
            known = known & self.subset(encoded)
        return group, known


class SurvivalFormula(NamedTuple):
    """A formula of survival in parts that `parse` reads."""

    name: str  # the left side, as it is written
    times: Formula  # ``time ~ right side``
    events: Formula  # ``event ~ 1``
    entry: Formula | None  # ``entry ~ 1``, where rows are not observed from 0 on


def survival_response(formula: str) -> SurvivalFormula:
    """The parts of ``Surv(time, event) ~ x``, or of ``Surv(entry, time, event) ~ x``; FormulaError for another one."""
    if not isinstance(formula, str):
        raise FormulaError(f"formula must be a string, got {type(formula).__name__}")
    before, tilde, right = formula.partition("~")
    left = before.strip()
    try:
        call = ast.parse(left, mode="eval").body
    except (SyntaxError, ValueError, RecursionError):
        call = None
    if not (tilde and isinstance(call, ast.Call) and isinstance(call.func, ast.Name) and call.func.id == "Surv"):
        raise FormulaError(f"the left side of {safe_repr(formula)} is not Surv(time, event); {USAGE}")
    if len(call.args) not in (2, 3) or call.keywords:
        raise FormulaError(f"Surv() takes a time and an event, or an entry, a time and an event; {USAGE}")
    parts = [ast.get_source_segment(left, part) or "" for part in call.args]
    *entry, time, event = (
        text if isinstance(part, (ast.Name, ast.Call)) else f"I({text})"
        for text, part in zip(parts, call.args, strict=True)
    )
    if any(place > len(before) for place in dots(formula)):
        raise FormulaError("'.' is not offered with Surv(): write the columns out")
    # As long as the left side is, so that places in messages are those of the formula.
    times, events, *entered = (
        parse(f"{time:<{len(before)}}~{right}"),
        parse(f"{event} ~ 1"),
        *(parse(f"{one} ~ 1") for one in entry),
    )
    if any(component.failures is not None for component in (times, events, *entered)):
        raise FormulaError(f"Surv() takes a time and an event, or an entry, a time and an event; {USAGE}")
    if times.weights is not None or times.offsets:
        raise FormulaError("weights and offsets are not offered with Surv(): a person counts once")
    return SurvivalFormula(left, times, events, entered[0] if entered else None)


def bind_times(formula: SurvivalFormula, domain: Domain, breaks: object) -> SurvivalTimes:
    """Times and events under the declared facts, on the intervals that `breaks` gives (see `interval_ends`).

    DomainError if a column is not declared, or its declaration suits neither a time nor an event.
    """
    check_declared(domain, formula.times.response_columns, "give its range: (0, longest)")
    check_declared(domain, formula.events.response_columns, "declare (0, 1), or its two levels, the event last")
    kept = clipping_response(formula.events, clipping_response(formula.times, domain))
    time, entry = _bound_time(formula.times, kept), None
    if formula.entry is not None:
        check_declared(domain, formula.entry.response_columns, "give its range: (0, latest)")
        entry = _bound_time(formula.entry, clipping_response(formula.entry, kept))
    event = bind_response(formula.events, kept, "binary", True)
    return SurvivalTimes(formula.name, time, event, interval_ends(breaks, time), entry)


def _bound_time(formula: Formula, domain: Domain) -> RowValue:
    time = bind_value(formula.response.code, formula.response.node, domain)
    if time.low < 0 or time.high <= 0:
        raise DomainError(f"{time.name} is a time and is counted from 0: declare a range (0, longest)")
    return time


def bind_groups(parsed: Formula, domain: Domain) -> Groups:
    """The groups of a formula's right side; one without a name for ``~ 1``.

    FormulaError if a term has no levels, or there are more than `MOST_GROUPS`.
    """
    factors: Sequence[Factor] = list(dict.fromkeys(factor for term in parsed.terms for factor in term))
    columns = tuple(dict.fromkeys((*parsed.exog_columns, *parsed.subset_columns)))
    check_declared(domain, columns, "list its levels")
    levels: list[list[str]] = []
    nodes = []
    for factor in factors:
        node = bind(factor.node, domain)
        codes = as_codes(public_values(node, domain))
        if codes is None:
            raise FormulaError(
                f"{factor.code} is a number, and curves are drawn by group: declare its levels, or write "
                f"cut({factor.code}, [...])"
            )
        nodes.append(node)
        levels.append([f"{factor.code}={level}" for level in codes.levels])
    names = tuple(", ".join(parts) for parts in itertools.product(*levels))
    if len(names) > MOST_GROUPS:
        raise FormulaError(f"there are {len(names)} groups; {MOST_GROUPS} is the most: join levels")
    sizes = tuple(len(names) for names in levels)
    return Groups(names, tuple(nodes), sizes, bind_subset(parsed, domain), columns, domain)


def check_declared(domain: Domain, columns: Sequence[str], how: str) -> None:
    """Raise DomainError naming a column that `domain` does not declare, and how to."""
    for name in columns:
        if name not in domain:
            raise DomainError(f"column {name!r} is not declared; {how}, in {argument('domain')}")


def interval_ends(breaks: object, time: RowValue) -> Array:
    """Ends of intervals, shape (K + 1,): as listed, with 0 before them, or so many of one width up to the declared end.

    ArgumentError unless `breaks` is a whole number or increasing times within the declared range.
    """
    if isinstance(breaks, (int, np.integer)) and not isinstance(breaks, bool):
        if not 1 <= breaks <= 1000:
            raise ArgumentError(f"breaks must be between 1 and 1000 intervals, got {safe_repr(breaks)}")
        return np.linspace(0.0, time.high, int(breaks) + 1)
    if not isinstance(breaks, (list, tuple)) or not breaks or not all(is_number(end) for end in breaks):
        raise ArgumentError("breaks must be a number of intervals, or a list of increasing times: breaks=[1, 2, 5]")
    ends = np.array([*([0.0] if breaks[0] != 0 else []), *map(float, breaks)])
    if len(ends) < 2 or len(ends) > 1001 or not (np.diff(ends) > 0).all():
        raise ArgumentError("breaks must be increasing times above 0, at most 1000: breaks=[1, 2, 5]")
    if ends[-1] > time.high:
        raise ArgumentError(f"breaks must end within the declared range of {time.name}, at {time.high:g} or before")
    return ends
