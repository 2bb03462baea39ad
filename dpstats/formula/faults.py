"""What may be wrong with a row, column by column: which faults there may be, and which rows have them.

Nothing here raises, warns or branches on a cell in a way that another row could notice.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dpstats.data import Table, as_table
from dpstats.data.columns import MISSING_TOKEN, token_of
from dpstats.data.identities import MISSING_WORDS
from dpstats.data.persons import NOBODY
from dpstats.domain import Domain, Levels, Range, number_pair
from dpstats.domain.declarations import NINES
from dpstats.families import Family
from dpstats.formula.expression import Column as ColumnNode
from dpstats.formula.parse import Formula
from dpstats.formula.reader import ReadableDesign
from dpstats.quiet import quiet
from dpstats.wording import days_since, joined, phrase

Flags = NDArray[np.bool_]

Facts = Mapping[str, Range | Levels | None]
"""What is declared of each column that a formula reads; None: numeric, its range open."""


FORMULA = "(formula)"
"""In place of a column: a term, the response or an offset is not finite."""


NO_NUMBER = "missing, or not a number"
"""What is wrong with a cell that is lost to a column of numbers."""

OPEN = "open"
"""What is declared of a column of which nothing is."""

UNIT = "Are the cells in another unit? Compare the codebook. Declare the range in the unit of the data"
"""What to look at where nearly all rows lie beyond a range."""

AS_LEVELS = " as levels"
"""What stands behind two numbers that are levels."""

TRUTHS = "(0, 1)"
"""What is declared of a column of 0 and 1, or of bool."""

SHARE = "(0.0, 1.0)"
"""What is declared of a number between 0 and 1."""

TWO_LEVELS = "2 levels"
"""What is declared of a bool column, and of a response of 0 and 1."""

TWO_TEXTS = "2 text levels"
"""What is declared of a column of two levels that are text."""

DROPS = " drops"
"""What stands behind a declared interval that drops rows beyond it."""

TYPICAL = " typical"
"""What stands before that if the interval follows typical values and not the declared ends."""


ANY_VALUE = "any value"
"""What is declared of an absorbed factor, whose values only tell groups apart."""


CLIPPED_WORDS = {
    "": ". The coefficient is that of the clipped values",
    "exposure": ". Rates divide by the clipped exposures",
    "offset": ". The offset is that of the clipped values",
    "weight": ". These rows have the clipped weights",
}
"""What clipped cells mean for a fit."""


SHARED_CODES = {"below": "-9", "above": "999", "outside": "-9 or 999"}
"""Usual codes for missing on either side of ranges of which most are somewhere else."""

NEARLY_ALL = 0.9
"""Of the rows: no codes for missing are as frequent."""


def codes_beyond(low: float, high: float) -> dict[str, str]:
    """Usual codes for missing on either side of a range.

    Examples
    --------
    >>> codes_beyond(30, 50)["outside"], codes_beyond(0, 5)["above"]
    ('-9, 99 or 999', '9 or 999')
    """
    below = [f"{-code:g}" for code in NINES if -code < low][:1]
    above = [f"{code:.0f}" for code in NINES if code > high and (code != NINES[1] or high >= NINES[0])][:2]
    return {"below": joined(below, "or"), "above": joined(above, "or"), "outside": joined([*below, *above], "or")}


class Fault(NamedTuple):
    """What may be wrong with a row: the column, how, and what was declared of it."""

    column: str
    # "missing" and "undeclared" of levels, "lost" of other columns; "outside" where below and above are one
    kind: Literal["lost", "missing", "undeclared", "below", "above", "outside"]
    declared: str
    response: bool = False  # whether the model explains the column
    beside: Literal["", "exposure", "offset", "weight"] = ""  # what a column is that has no coefficient
    bytes_of_text: bool = False  # whether levels of text are compared with bytes of a file, which may not be UTF-8

    @property
    def stored(self) -> tuple[object, ...]:
        """As older versions stored it, unless they did not tell what it is: a plan keeps its digest."""
        return tuple(self)[: 6 if self.bytes_of_text else 5 if self.beside else 4 if self.response else 3]

    @property
    def loses(self) -> bool:
        """Whether a row that has it is left out; else a cell is clipped."""
        return self.kind in ("lost", "missing", "undeclared")

    @property
    def ungrouped(self) -> bool:
        """Whether a row that has it is of no group of an absorbed factor."""
        return self.declared == ANY_VALUE

    @property
    def beyond_typical(self) -> bool:
        """Whether a row that has it is missing or lies beyond the cut-offs of typical values."""
        return self.loses and self.declared.endswith(TYPICAL + DROPS)

    @property
    def effect(self) -> str:
        """What it does to rows, and what to look at, in words."""
        if self.loses:
            return f"are lost to `{self.column}`: {self.advice}"
        return self._clipped(self._codebook_range)

    @property
    def unit_effect(self) -> str:
        """`effect`, where nearly all rows lie beyond the range."""
        return self._clipped(self._codebook_range if self.declared == TRUTHS else UNIT, fitted=False)

    @property
    def large_effect(self) -> str:
        """`effect`, where so many rows have it that there is no fit: a column declared as numbers may hold text."""
        if not self.loses:
            return self._clipped(self._codebook_range, fitted=False)
        return f"are lost to `{self.column}`: {self.large_advice}"

    @property
    def large_advice(self) -> str:
        """`advice`, where the column may be text as a whole."""
        numbers = self.kind == "lost" and self.column != FORMULA and not self.declared.endswith("levels")
        if not numbers or not self.advice.startswith(NO_NUMBER) or self.declared == TRUTHS:
            return self.advice
        return (
            f"{NO_NUMBER}. If the column holds text, list its levels in the Domain. If it holds numbers with thousands "
            "separators or decimal commas, write 31245 for 31,245 and 62.5 for 62,5. If it holds dates, make them "
            f"numbers, {days_since(self.column)}"
        )

    def _clipped(self, fix: str, *, fitted: bool = True) -> str:
        """What is wrong with clipped rows, with the coefficients of a fit, and what to type."""
        biased = ", which biases every coefficient, usually towards zero" if self.response else ""
        own = CLIPPED_WORDS[self.beside] if fitted and not self.response else ""
        where = f"have `{self.column}` {self.kind} its declared range {self.declared}, where they are clipped"
        return f"{where}{biased}{own}. {fix}"

    def shared_effect(self, columns: str, *, large: bool = False) -> str:
        """`effect` of several columns, the same for all that have the same cause, or `large_effect`."""
        if not self.loses:
            own = CLIPPED_WORDS[self.beside].replace("coefficient is that", "coefficients are those") * (not large)
            return f"have {columns} {self.kind} their declared ranges, where they are clipped{own}. " + self._codebook(
                self._codes if self.declared == TRUTHS else SHARED_CODES[self.kind]
            )
        reason = self.large_advice if large else self.advice
        if self.beyond_typical:
            reason = f"missing, or beyond 3 sd of the typical means, where rows are left out. {self._typical_source}"
        elif self.declared.endswith(DROPS):
            reason = "missing, or outside the intervals beyond which rows are left out. Check these intervals"
        return f"are lost to {columns}: {reason}"

    @property
    def _typical_source(self) -> str:
        """What to do where many rows lie beyond typical values."""
        typical = phrase("typical=(mean, sd)", shell="typical")
        inner = phrase("inner=(low, high)", shell="inner")
        return f"If a column is skewed, declare {inner} in its place. If not, compare {typical} with its source"

    @property
    def _codes(self) -> str:
        """Usual codes for missing where the fault is."""
        low, high = map(float, self.declared[1 : self.declared.index(")")].split(","))
        return codes_beyond(low, high)[self.kind]

    @property
    def _codebook_range(self) -> str:
        """What to type if values lie outside the declared range."""
        return self._codebook(self._codes)

    def _codebook(self, codes: str) -> str:
        """What to type if values lie outside a declared range, by codes for missing there: a response drops no rows."""
        dropped = phrase('declare dp.Range(low, high, outside="drop")', shell="declare outside: drop")
        missing = "make these cells missing" if self.response else dropped
        if self.response and self.kind == "below" and self.declared.startswith(("(0,", SHARE)):
            # A count, which is never negative, begins there too.
            return (
                f"Compare the codebook. If the values are codes for missing, such as -9, {missing}. Declare a wider "
                "range only if the response can be negative"
            )
        named = f", such as {codes}" * bool(codes)
        fix = f"If the values are right, declare a wider range. If they are codes for missing{named}, {missing}"
        if self.declared == TRUTHS and self.kind != "below":
            return f"Are its codes 1 and 2? Then declare the levels [1, 2]. Otherwise compare the codebook. {fix}"
        return f"Compare the codebook. {fix}"

    @property
    def other_unit(self) -> str:
        """`advice`, where nearly all rows lie on one side of the range."""
        return self.advice if self.declared == TRUTHS else f"{self.kind} the declared range {self.declared}. {UNIT}"

    @property
    def advice(self) -> str:
        """What to look at, where many rows have it."""
        if self.column == FORMULA:
            return (
                "a term, the response or an offset is not finite there. Transform columns that can be zero or negative"
            )
        if self.ungrouped:
            return "missing, so that the row is in no group"
        if self.kind == "missing":
            return "missing, or not UTF-8 text" if self.bytes_of_text else "missing"
        if self.kind == "undeclared" and self.declared.endswith(AS_LEVELS):
            two = self.declared.removesuffix(AS_LEVELS)
            coded = ". If its codes are 1 and 2, declare the levels [1, 2]" if two == "0, 1" else ""
            meant = (
                f". If numbers between the levels are meant, declare the range ({two}), in a file {{range: [{two}]}}"
            )
            return (
                f"neither of the levels {two}{coded}. Compare the codebook. If the cells are a code for missing, such "
                f"as 9, make them missing{'' if self.response else meant}"
            )
        if self.kind == "undeclared":
            undeclared = "a level that is not declared, or a code for missing, such as 9"
            if self.declared != TWO_LEVELS:
                return f"{undeclared}. Compare the spelling with the codebook"
            # A response of two values that is declared bool or by a range has two levels as well.
            return (
                f"{undeclared}. If bool or (0, 1) is declared and the codes are 1 and 2, or no and yes, declare the "
                "levels [1, 2], or ['no', 'yes']. Compare the spelling with the codebook if levels are declared"
            )
        if self.kind != "lost":
            return f"{self.kind} the declared range {self.declared}. {self._codebook_range}"
        if self.declared.endswith("levels"):
            return "missing, or a level that is not declared. Compare the spelling with the codebook"
        if self.declared.endswith(DROPS):
            inside = self.declared.removesuffix(DROPS)
            if inside.endswith(TYPICAL):
                reach = f"outside {inside.removesuffix(TYPICAL)}, 3 sd from the typical mean"
                return f"missing, or {reach}, beyond which rows are left out. {self._typical_source}"
            return f"missing, or outside {inside}, beyond which rows are left out. Check this range"
        if self.declared == TRUTHS:
            return f"{NO_NUMBER}. If the column holds text, list its levels, such as ['no', 'yes']"
        return f"{NO_NUMBER}. Convert text, dates and numbers with commas before the call"


BINARY = Levels((0, 1))
"""Of a response of two values that is declared by no levels."""


def column_facts(parsed: Formula, known: Mapping[str, Range | Levels], family: Family) -> Facts:
    """What is known of each column that a formula reads, as its fit reads it; (0, 1) is of codes alone."""
    facts: dict[str, Range | Levels | None] = {name: known.get(name) for name in parsed.columns}
    response = parsed.response.node
    if family.response == "binary" and parsed.failures is None and isinstance(response, ColumnNode):
        declared = facts[response.name]
        # Neither 0 nor 1 is missing, not clipped.
        facts[response.name] = BINARY if declared is None or isinstance(declared, Range) else declared
    numbers = {
        *parsed.exposures,
        *parsed.weight_columns,
        *(parsed.response_columns if family.response == "count" else ()),
    }
    for name in numbers.difference(parsed.exog_columns):
        if isinstance(declared := facts[name], Range) and declared.is_binary:
            facts[name] = replace(declared, low=0.0, high=1.0)
    return facts


def _beside(name: str, parsed: Formula) -> Literal["", "exposure", "offset", "weight"]:
    """What a column is that has no coefficient; of one that has any, or is the response, nothing."""
    if name in parsed.exog_columns or name in parsed.response_columns:
        return ""
    if name in parsed.exposures:
        return "exposure"
    return "weight" if name in parsed.weight_columns else "offset" if name in parsed.predicting_columns else ""


def is_csv_text(table: Table | None, name: str) -> bool:
    """Whether a column comes from a text file, by its declared type."""
    return table is not None and table.count(name) == 1 and table.column(name).type_name == "CSV text"


def possible_faults(
    facts: Facts,
    design: ReadableDesign | None,
    parsed: Formula,
    absorbed: str | None = None,
    *,
    table: Table | None = None,
) -> tuple[Fault, ...]:
    """What may be wrong with a row: first what loses it, then what clips it; public. A design has no range open.

    A row may have no value of a factor that is `absorbed`, unless its values identify persons: such rows are nobody's,
    and no guarantee for persons lets them be counted (docs/proofs/persons, 8).
    """
    words = {name: _declared(declared) for name, declared in facts.items()}
    faults: list[Fault] = []
    for name, declared in facts.items():
        if isinstance(declared, Levels):
            texts = is_csv_text(table, name) and any(isinstance(value, str) for value in declared.values)
            faults.append(Fault(name, "missing", words[name], bytes_of_text=texts))
            faults.append(Fault(name, "undeclared", words[name]))
        else:
            faults.append(Fault(name, "lost", words[name]))
    if absorbed is not None:
        faults.append(Fault(absorbed, "missing", ANY_VALUE))
    if design is not None and design.has_gaps:
        faults.append(Fault(FORMULA, "lost", "finite everywhere"))
    for name, declared in facts.items():
        if isinstance(declared, Range) and not declared.drops:
            whole = Fault(name, "below", words[name], name in parsed.response_columns, _beside(name, parsed))
            faults += [whole, whole._replace(kind="above")]
    return tuple(faults)


def _declared(fact: Range | Levels | None) -> str:
    if fact is None:
        return OPEN
    if isinstance(fact, Range):
        low, high = fact.interval
        typical = fact.inner is None and (low, high) != (fact.low, fact.high)  # which alone moves the ends
        ends = SHARE if (low, high) == (0, 1) and not fact.is_binary else f"({low:g}, {high:g})"
        return ends + TYPICAL * typical + DROPS * fact.drops
    if fact is not BINARY and (pair := number_pair(fact)) is not None:
        return f"{pair[0]}, {pair[1]}{AS_LEVELS}"
    texts = all(isinstance(value, str) for value in fact.values)
    return TWO_TEXTS if texts and len(fact.values) == 2 else f"{len(fact.values)} levels"


MISSING_TOKENS = np.array([MISSING_TOKEN, *map(token_of, MISSING_WORDS)], dtype=np.uint64)
"""The tokens of cells that are missing, not of an undeclared level."""

NOWHERE = np.zeros(1, dtype=bool)
"""The flag of every row, where none has it."""


def raw_flags(block: Table, facts: Facts, design: ReadableDesign | None, faults: Iterable[Fault]) -> Iterator[Flags]:
    """For each fault which rows of `block` have it, whatever else is wrong with them: (r,), or (1,) for none."""
    states = {name: _states(block, name, fact) for name, fact in facts.items()}
    for fault in faults:
        if fault.column == FORMULA:
            assert design is not None
            yield ~design.usable(block)
        elif fault.ungrouped:
            yield np.asarray(block.column(fault.column).identities()[:, 0] == NOBODY)
        elif fault.kind == "outside":
            yield states[fault.column]["below"] | states[fault.column]["above"]
        else:
            yield states[fault.column][fault.kind]


def fault_flags(block: Table, facts: Facts, design: ReadableDesign | None, faults: Sequence[Fault]) -> Flags:
    """Which faults count for each row of `block`, shape (r, faults): what loses it, or else what clips it."""
    flags = np.empty((block.rows, len(faults)), dtype=bool)
    lost = np.zeros(block.rows, dtype=bool)
    for own, fault, raw in zip(flags.T, faults, raw_flags(block, facts, design, faults), strict=True):
        own[:] = raw if fault.loses and fault.column != FORMULA else raw & ~lost
        lost |= own & fault.loses
    return flags


def _states(table: Table, name: str, fact: Range | Levels | None) -> dict[str, Flags]:
    """Which cells have each kind of fault, of shape (r,), or (1,) for none."""
    cells = table.column(name)
    if isinstance(fact, Levels):
        without = cells.codes(fact.code_of()) < 0
        if not without.any():
            return dict.fromkeys(("missing", "undeclared", "lost"), NOWHERE)
        missing = without.copy()
        missing[without] = np.isin(cells.select(without).tokens(), MISSING_TOKENS)
        return {"missing": missing, "undeclared": without & ~missing, "lost": without}  # the last one in older plans
    numbers = cells.numbers()
    if fact is None:
        return {"lost": ~np.isfinite(numbers)}
    if fact.drops:
        return {"lost": ~fact.holds(numbers)}
    if cells.all_within(numbers, fact.low, fact.high):
        return {"lost": NOWHERE, "below": NOWHERE, "above": NOWHERE}
    lost = ~np.isfinite(numbers)
    return {"lost": lost, "below": ~lost & (numbers < fact.low), "above": ~lost & (numbers > fact.high)}


class CellFaults(NamedTuple):
    """In how many rows for predictions a cell is at fault, by column."""

    beyond: dict[str, int]  # a level is not declared, or a number is clipped, or one that the fit left out rows of
    missing: dict[str, int]  # a cell is missing
    not_positive: dict[str, int]  # an exposure is 0 or less, and has no logarithm
    rows_missing: int  # rows with a missing cell


def cell_faults(design: ReadableDesign, data: object, *, offset: bool) -> CellFaults:
    """What is wrong with the cells of rows for predictions, of the columns that `data` has."""
    table = as_table(data)
    read = design.parsed.predicting_columns if offset else design.parsed.exog_columns
    names = [name for name in read if table.count(name)]
    if not names:
        return CellFaults({}, {}, {}, 0)
    exposures = design.parsed.plain_exposures if offset else set()
    with quiet():
        counted, nothing = partial(_fault_counts, design.model_domain, names, exposures), np.zeros(3 * len(names) + 1)
        *counts, rows = map(int, sum(table.batches(names).map(counted).collect(), nothing))
    parts = np.reshape(counts, (3, len(names))).tolist()
    beyond, missing, not_positive = ({name: n for name, n in zip(names, part, strict=True) if n} for part in parts)
    return CellFaults(beyond, missing, not_positive, rows)


def _fault_counts(domain: Domain, names: Sequence[str], exposures: set[str], table: Table) -> NDArray[np.int64]:
    """The rows of `CellFaults`: beyond, missing and not positive by column, and missing in any of them."""
    beyond, not_positive = np.zeros((2, len(names)), dtype=np.int64)
    missing = np.zeros((len(names), table.rows), dtype=bool)
    for place, name in enumerate(names):
        declared = domain[name]
        if isinstance(declared, Levels):
            states = _states(table, name, declared)
            missing[place], beyond[place] = states["missing"], np.sum(states["undeclared"])
            continue
        numbers = table.column(name).numbers()
        missing[place] = ~np.isfinite(numbers)
        low, high = declared.interval
        outside = np.isfinite(numbers) & ((numbers < low) | (numbers > high))
        if name in exposures:
            # A number below a positive end is predicted at this end, where the range does not leave rows out.
            unlogged = np.isfinite(numbers) & ((numbers if declared.drops else np.clip(numbers, low, high)) <= 0)
            not_positive[place], outside = unlogged.sum(), outside & ~unlogged
        beyond[place] = np.sum(outside)
    counts = [*beyond, *missing.sum(axis=1), *not_positive, missing.any(axis=0).sum()]
    return np.array(counts, dtype=np.int64)
