"""What may be wrong with a row, by what is declared of its columns, and which rows it is wrong with."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dpstats.data import Table
from dpstats.domain import Levels, Range
from dpstats.families import Family
from dpstats.formula.design import DesignSpec
from dpstats.formula.expression import Column as ColumnNode
from dpstats.formula.parse import Formula
from dpstats.formula.scaled_design import all_within
from dpstats.wording import days_since

Flags = NDArray[np.bool_]

Facts = Mapping[str, Range | Levels | None]
"""What is declared of each column that a formula reads; None: numeric, its range open."""


FORMULA = "(formula)"
"""In place of a column: a term or the response is not finite."""


NO_NUMBER = "missing, or not a number"
"""What is wrong with a cell that is lost to a column of numbers."""

DROPS = " drops"
"""What stands behind a declared interval that drops rows beyond it."""


class Fault(NamedTuple):
    """What may be wrong with a row: the column, how, and what was declared of it."""

    column: str
    kind: Literal["lost", "below", "above", "outside"]  # the last one where the two before are not told apart
    declared: str

    @property
    def either_side(self) -> Fault:
        """The same, not told apart by the end of the range that it is beyond."""
        return self if self.kind == "lost" else self._replace(kind="outside")

    @property
    def effect(self) -> str:
        """What it does to rows, and what to look at, in words."""
        if self.kind == "lost":
            return f"are lost to `{self.column}`: {self.advice}"
        return f"have `{self.column}` {self.kind} its declared range {self.declared}, where they are clipped"

    @property
    def large_effect(self) -> str:
        """`effect`, where so many rows have it that a column declared as numbers may hold text."""
        numbers = self.kind == "lost" and self.column != FORMULA and not self.declared.endswith("levels")
        if not numbers or not self.advice.startswith(NO_NUMBER):
            return self.effect
        return (
            f"are lost to `{self.column}`: {NO_NUMBER}; if the column holds text, list its levels; if it holds dates, "
            f"make them numbers, {days_since(self.column)}"
        )

    @property
    def advice(self) -> str:
        """What to look at, where many rows have it."""
        if self.column == FORMULA:
            return "a term or the response is not finite there; transform columns that can be zero or negative"
        if self.kind != "lost":
            return f"{self.kind} the declared range {self.declared}; check this range and any code for missing there"
        if self.declared.endswith("levels"):
            return "missing, or a level that is not declared; compare the spelling with the codebook"
        if self.declared.endswith(DROPS):
            inside = self.declared.removesuffix(DROPS)
            return f"missing, or outside {inside}, beyond which rows are left out; check this range"
        return f"{NO_NUMBER}; convert text and dates before the call"


def column_facts(parsed: Formula, known: Mapping[str, Range | Levels], family: Family) -> Facts:
    """What is known of each column that a formula reads, as its fit reads it."""
    facts: dict[str, Range | Levels | None] = {name: known.get(name) for name in parsed.columns}
    response = parsed.response.node
    if family.response == "binary" and parsed.failures is None and isinstance(response, ColumnNode):
        declared = facts[response.name]
        # Neither 0 nor 1 is missing, not clipped.
        facts[response.name] = Levels((0, 1)) if declared is None or isinstance(declared, Range) else declared
    return facts


def possible_faults(facts: Facts, design: DesignSpec | None) -> tuple[Fault, ...]:
    """What may be wrong with a row: first what loses it, then what clips it; public. A design has no range open."""
    faults = [Fault(name, "lost", _declared(declared)) for name, declared in facts.items()]
    if design is not None and design.has_gaps:
        faults.append(Fault(FORMULA, "lost", "finite everywhere"))
    for name, declared in facts.items():
        if isinstance(declared, Range) and not declared.drops:
            faults += [Fault(name, "below", _declared(declared)), Fault(name, "above", _declared(declared))]
    return tuple(faults)


def _declared(fact: Range | Levels | None) -> str:
    if fact is None:
        return "open"
    if isinstance(fact, Range):
        low, high = fact.interval
        return f"({low:g}, {high:g})" + DROPS * fact.drops
    return f"{len(fact.values)} levels"


NOWHERE = np.zeros(1, dtype=bool)
"""The flag of every row, where none has it."""


def raw_flags(block: Table, facts: Facts, design: DesignSpec | None, faults: Iterable[Fault]) -> Iterator[Flags]:
    """For each fault which rows of `block` have it, whatever else is wrong with them: (r,), or (1,) for none."""
    states = {name: _states(block, name, fact) for name, fact in facts.items()}
    for fault in faults:
        if fault.column == FORMULA:
            assert design is not None
            yield ~design.usable(block)
        elif fault.kind == "outside":
            yield states[fault.column]["below"] | states[fault.column]["above"]
        else:
            yield states[fault.column][fault.kind]


def fault_flags(block: Table, facts: Facts, design: DesignSpec | None, faults: Sequence[Fault]) -> Flags:
    """Which faults count for each row of `block`, shape (r, faults): what loses it, or else what clips it."""
    flags = np.empty((block.rows, len(faults)), dtype=bool)
    lost = np.zeros(block.rows, dtype=bool)
    for own, fault, raw in zip(flags.T, faults, raw_flags(block, facts, design, faults), strict=True):
        own[:] = raw if fault.kind == "lost" and fault.column != FORMULA else raw & ~lost
        lost |= own & (fault.kind == "lost")
    return flags


def _states(table: Table, name: str, fact: Range | Levels | None) -> dict[str, Flags]:
    """Which cells are lost, below and above, each of shape (r,), or (1,) for none."""
    cells = table.column(name)
    if isinstance(fact, Levels):
        return {"lost": cells.codes(fact.code_of()) < 0}
    numbers = cells.numbers()
    if fact is None:
        return {"lost": ~np.isfinite(numbers)}
    if fact.drops:
        return {"lost": ~fact.holds(numbers)}
    if all_within(numbers, fact.low, fact.high):
        return {"lost": NOWHERE, "below": NOWHERE, "above": NOWHERE}
    lost = ~np.isfinite(numbers)
    return {"lost": lost, "below": ~lost & (numbers < fact.low), "above": ~lost & (numbers > fact.high)}
