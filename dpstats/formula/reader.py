"""From the cells of a table to encoded columns, to packed blocks in model units, to rows for prediction, to faults.

Nothing here raises, warns or branches on a cell in a way that another row could notice. What may raise looks at
column names and declared types alone, which are public.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dpstats.data import Block, Column, Table, slices
from dpstats.data.columns import MISSING_TOKEN, Kind, usable_kind
from dpstats.data.persons import OwnedRows
from dpstats.domain import Domain, Levels, Range
from dpstats.errors import DomainError
from dpstats.families import Family
from dpstats.formula.coding import factor_values
from dpstats.formula.expression import Column as ColumnNode
from dpstats.formula.parse import Formula
from dpstats.formula.public_frame import Codes, Encoded
from dpstats.formula.scaled_design import ScaledDesign, all_within, packed_rows
from dpstats.quiet import quiet
from dpstats.wording import days_since

Array = NDArray[np.float64]

BLOCK_ROWS = 65536
"""Rows that are encoded at a time."""


def check_columns(table: Table, domain: Domain, columns: Iterable[str]) -> None:
    """Raise unless every name is one column of `table` (DataError) whose type suits its declaration (DomainError).

    DomainError too for types other than numbers, booleans, text, categories or objects, and if none can match a level.
    """
    for name in columns:
        column, declared = table.column(name), domain.get(name)
        usable_kind(name, column)
        # Floats may be levels of text of which every cell is missing, so only integers and booleans tell.
        if not column.integral or not isinstance(declared, Levels):
            continue
        if all(isinstance(level, str) for level in declared.code_of()):
            raise DomainError(
                f"column {name!r} is {column.type_name}, but none of its declared levels is a number; "
                "declare its numbers as levels, true and false as 1 and 0, or convert the column"
            )


def column_kind(table: Table, name: str) -> Kind:
    """What the declared type of one column says of its cells; errors as in `check_columns`."""
    return usable_kind(name, table.column(name))


def read_columns(table: Table, columns: Iterable[str]) -> dict[str, Column]:
    """The columns of the given names, once each."""
    return {name: table.column(name) for name in columns}


def encode(
    columns: Mapping[str, Column], domain: Domain, rows: slice, *, beyond: bool = False
) -> tuple[dict[str, Encoded], NDArray[np.bool_]]:
    """Declared columns of a checked table on `rows`, by name, and which rows miss none of them, shape (rows,).

    A range gives floats of shape (rows,) within it, missing as NaN; levels give `Codes`. A cell outside of a range that
    drops rows is missing; with `beyond`, which is for predictions, it stays what it is.
    """
    encoded: dict[str, Encoded] = {}
    complete = np.ones(rows.stop - rows.start, dtype=bool)
    for name, column in columns.items():
        declared, cells = domain[name], column.select(rows)
        if isinstance(declared, Range):
            encoded[name], known = _within(cells.numbers(), declared, beyond)
            complete &= known
        else:
            codes = cells.codes(declared.code_of())
            complete &= codes >= 0
            encoded[name] = Codes(codes, declared.values)
    return encoded, complete


def take(encoded: Mapping[str, Encoded], rows: NDArray[np.bool_]) -> dict[str, Encoded]:
    """The rows where `rows` holds, of every encoded column."""
    return {
        name: Codes(column.values[rows], column.levels, column.contrast) if isinstance(column, Codes) else column[rows]
        for name, column in encoded.items()
    }


def _within(numbers: Array, declared: Range, beyond: bool) -> tuple[Array, NDArray[np.bool_]]:
    """Numbers within a range, NaN where there is none, and where there is one."""
    if declared.drops:
        known = np.isfinite(numbers) if beyond else declared.holds(numbers)
        return np.where(known, numbers, np.nan), known
    if all_within(numbers := np.ascontiguousarray(numbers), declared.low, declared.high):
        return numbers, np.ones(len(numbers), dtype=bool)
    clipped, known = np.clip(numbers, declared.low, declared.high), np.isfinite(numbers)
    if not known.all():
        clipped[~known] = np.nan
    return clipped, known


Read = Sequence[tuple[Mapping[str, Column], Domain]]
"""The columns of predictor, response, weights and condition, each with the Domain that encodes them."""


def read_blocks(spec: ScaledDesign, table: Table, block_rows: int) -> Iterator[Block]:
    """The complete rows of a table whose schema suits the design, in packed blocks of at most `block_rows`."""
    return (block for block, _, _ in _read(spec, table, block_rows))


def owned_blocks(spec: ScaledDesign, table: Table, person: str, block_rows: int) -> Iterator[OwnedRows[Block]]:
    """As `read_blocks`, with the identities of the persons that the rows are of, in the column `person`."""
    ids = table.column(person)
    for block, chosen, rows in _read(spec, table, block_rows):
        yield OwnedRows(block, ids.select(rows).identities()[chosen])


def used_rows(spec: ScaledDesign, table: Table, block_rows: int) -> int:
    """How many rows `read_blocks` has; what is known to be finite is not scaled for that."""
    if not spec.numbers_are_cells:
        return sum(len(block.endog) for block in read_blocks(spec, table, block_rows))
    whole = (_whole_rows(spec, read, rows) for rows, read in _slices(spec, table, block_rows))
    return sum(int(np.sum(found.kept & factor_values(spec.coding, found.encoded)[1])) for found, _ in whole)


def _slices(spec: ScaledDesign, table: Table, block_rows: int) -> Iterator[tuple[slice, Read]]:
    """Slices of a table, with what is read of them."""
    parsed, weighing = spec.parsed, spec.domain if spec.weights is None else spec.weights.domain
    read = [
        (read_columns(table, parsed.predicting_columns), spec.domain),
        (read_columns(table, parsed.response_columns), spec.encoder.domain),
        (read_columns(table, parsed.weight_columns), weighing),
        (read_columns(table, parsed.subset_columns), spec.domain),
    ]
    return ((rows, read) for rows in slices(table.rows, block_rows))


class _WholeRows(NamedTuple):
    """Rows that miss no column."""

    encoded: dict[str, Encoded]  # of what explains
    endog: Array
    weights: Array | None
    offset: Array | None
    kept: NDArray[np.bool_]  # which of them count, by all but the columns of the design


def _whole_rows(spec: ScaledDesign, read: Read, rows: slice) -> tuple[_WholeRows, NDArray[np.bool_]]:
    """What is read of the rows that miss nothing, and which of `rows` they are."""
    parts = [encode(columns, domain, rows) for columns, domain in read]
    complete = np.logical_and.reduce([known for _, known in parts])
    whole = complete.all()
    encoded, outcome, weighed, conditions = (part if whole else take(part, complete) for part, _ in parts)
    endog = spec.encoder.encode(outcome)
    kept = np.isfinite(endog)
    if spec.subset is not None:
        kept &= spec.subset(conditions)
    weights, offset = _weights(spec, outcome, weighed), None
    if weights is not None:
        kept &= weights > 0
    if spec.offset is not None:
        offset = spec.scaled_offset(spec.offset(encoded))
        kept &= np.isfinite(offset)
    return _WholeRows(encoded, endog, weights, offset, kept), complete


def _read(spec: ScaledDesign, table: Table, block_rows: int) -> Iterator[tuple[Block, NDArray[np.bool_], slice]]:
    """Packed blocks of the rows that count, with which rows of which slice they are."""
    for rows, read in _slices(spec, table, block_rows):
        found, complete = _whole_rows(spec, read, rows)
        numbers, levels, known = packed_rows(spec, found.encoded, len(found.endog))
        kept = found.kept & known
        block = Block(numbers, found.endog, found.weights, found.offset, levels=levels)
        complete[complete] = kept
        yield block if kept.all() else block.take(kept), complete, rows


def prediction_rows(spec: ScaledDesign, table: Table, *, offset: bool) -> tuple[Array, NDArray[np.bool_], Array]:
    """Rows for prediction, which of them are complete, and their offsets; see `DesignSpec.predicting`."""
    spec = spec.unbounded
    names, size = spec.parsed.predicting_columns if offset else spec.parsed.exog_columns, len(spec.names)
    check_columns(table, spec.domain, names)
    parts = table.batches(names).map(partial(_prediction_part, spec, offset)).collect()
    whole: Array = parts[0] if len(parts) == 1 else np.concatenate([np.empty((0, size + 1)), *parts])
    complete = np.asarray(np.isfinite(whole).all(axis=1))
    whole[~complete, :size] = np.nan
    return whole[:, :size], complete, whole[:, size]


def _prediction_part(spec: ScaledDesign, offset: bool, table: Table) -> Array:
    """Rows of a table for prediction, their offset behind their columns; shape (n, p + 1), NaN where a cell is missing.

    The offset is 0 unless it is asked for and the formula has one.
    """
    added = spec.offset if offset else None
    columns = read_columns(table, spec.parsed.predicting_columns if offset else spec.parsed.exog_columns)
    result = np.full((table.rows, len(spec.names) + 1), np.nan)
    for rows in slices(table.rows, BLOCK_ROWS):
        encoded, complete = encode(columns, spec.domain, rows, beyond=True)
        encoded = take(encoded, complete)
        numbers, levels, known = packed_rows(spec, encoded, int(complete.sum()))
        exog = spec.packing.columns_of(numbers, levels)
        exog[~known] = np.nan
        at = rows.start + np.flatnonzero(complete)
        result[at, :-1] = exog
        result[at, -1] = 0.0 if added is None else spec.scaled_offset(added(encoded))
    return result


def unknown_levels(spec: ScaledDesign, table: Table, names: Iterable[str]) -> dict[str, int]:
    """Of a checked table, in how many rows each of some columns has a cell that is none of its declared levels.

    Missing cells are not counted.
    """
    coded = [name for name in names if isinstance(spec.domain[name], Levels)]
    parts = table.batches(coded).map(partial(_unknown_part, spec.domain, coded)).collect() if coded else []
    counts = {name: sum(part[at] for part in parts) for at, name in enumerate(coded)}
    return {name: count for name, count in counts.items() if count}


def _unknown_part(domain: Domain, names: Sequence[str], table: Table) -> list[int]:
    """The counts of `unknown_levels` of one table, one for each column."""
    counts = []
    for name in names:
        column, declared = table.column(name), domain[name]
        assert isinstance(declared, Levels)
        unknown = (column.codes(declared.code_of()) < 0) & (column.tokens() != MISSING_TOKEN)
        counts.append(int(unknown.sum()))
    return counts


def encoded_rows(
    spec: ScaledDesign, encoded: Mapping[str, Encoded], rows: int
) -> tuple[Array, NDArray[np.bool_], Array]:
    """Rows for prediction from encoded columns; see `DesignSpec.of_encoded`."""
    kept = np.ones(rows, dtype=bool)
    for name in spec.parsed.predicting_columns:
        declared, values = spec.domain[name], encoded[name]
        if isinstance(declared, Range) and declared.drops and not isinstance(values, Codes):
            kept &= declared.holds(values)
    spec = spec.unbounded
    numbers, levels, known = packed_rows(spec, encoded, rows)
    offset = np.zeros(rows) if spec.offset is None else spec.scaled_offset(spec.offset(encoded))
    return spec.packing.columns_of(numbers, levels), kept & known & np.isfinite(offset), offset


def response_rows(spec: ScaledDesign, table: Table) -> Array:
    """Responses of a table that suits the design, in model units, shape (n,); NaN where there is none."""
    result = np.full(table.rows, np.nan)
    columns = read_columns(table, spec.response_columns)
    for rows in slices(table.rows, BLOCK_ROWS):
        encoded, known = encode(columns, spec.encoder.domain, rows)
        outcome = {name: encoded[name] for name in spec.parsed.response_columns}
        result[rows][known] = spec.encoder.encode(outcome if known.all() else take(outcome, known))
    return result


def usable_rows(spec: ScaledDesign, table: Table) -> NDArray[np.bool_]:
    """Which rows of a table that suits the design a fit uses, but for those of weight 0, shape (n,)."""
    usable = prediction_rows(spec, table, offset=True)[1] & np.isfinite(response_rows(spec, table))
    usable &= kept_rows(spec, table)
    if spec.weights is not None:
        encoded, complete = _encode_table(table, spec.parsed.weight_columns, spec.weights.domain)
        usable &= complete & (spec.weights(encoded) >= 0)
    return usable & selected_rows(spec, table)


def selected_rows(spec: ScaledDesign, table: Table) -> NDArray[np.bool_]:
    """Which rows of a table meet the condition on rows, if there is one; shape (n,)."""
    if spec.subset is None:
        return np.ones(table.rows, dtype=bool)
    encoded, complete = _encode_table(table, spec.parsed.subset_columns, spec.domain)
    return np.asarray(complete & spec.subset(encoded))


def counting_rows(spec: ScaledDesign, table: Table) -> NDArray[np.bool_]:
    """Which selected rows count in a fit whatever their other cells are, shape (n,): not of weight 0, nor of no trials.

    Where weight or trials are missing a row is lost to them, so it is one of these.
    """
    parsed, chosen = spec.parsed, selected_rows(spec, table)
    if spec.encoder.failures is not None:
        outcome, known = _encode_table(table, parsed.response_columns, spec.encoder.domain)
        trials = spec.encoder.trials(outcome)
        if trials is not None:
            chosen &= ~(known & (trials <= 0))
    if spec.weights is not None:
        weighed, known = _encode_table(table, parsed.weight_columns, spec.weights.domain)
        chosen &= ~(known & (spec.weights(weighed) <= 0))
    return chosen


def kept_rows(spec: ScaledDesign, table: Table) -> NDArray[np.bool_]:
    """Which rows of a table that suits the design have a cell to explain with in each column, shape (n,)."""
    return _encode_table(table, spec.parsed.predicting_columns, spec.domain)[1]


def _encode_table(table: Table, names: Iterable[str], domain: Domain) -> tuple[dict[str, Encoded], NDArray[np.bool_]]:
    """All rows of some columns; see `encode`."""
    return encode(read_columns(table, names), domain, slice(0, table.rows))


def _weights(spec: ScaledDesign, outcome: dict[str, Encoded], weighed: dict[str, Encoded]) -> Array | None:
    """Weights of encoded rows over their greatest, shape (rows,); NaN where there are none."""
    trials = spec.encoder.trials(outcome)
    if spec.weights is None:
        return trials
    given = spec.weights(weighed) / spec.weights.high
    return given if trials is None else given * trials


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


def possible_faults(facts: Facts, design: ScaledDesign | None) -> tuple[Fault, ...]:
    """What may be wrong with a row: first what loses it, then what clips it; public. A design has no range open."""
    words = {name: _declared(declared) for name, declared in facts.items()}
    faults = [Fault(name, "lost", declared) for name, declared in words.items()]
    if design is not None and design.has_gaps:
        faults.append(Fault(FORMULA, "lost", "finite everywhere"))
    for name, declared in facts.items():
        if isinstance(declared, Range) and not declared.drops:
            faults += [Fault(name, "below", words[name]), Fault(name, "above", words[name])]
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


def raw_flags(block: Table, facts: Facts, design: ScaledDesign | None, faults: Iterable[Fault]) -> Iterator[Flags]:
    """For each fault which rows of `block` have it, whatever else is wrong with them: (r,), or (1,) for none."""
    states = {name: _states(block, name, fact) for name, fact in facts.items()}
    for fault in faults:
        if fault.column == FORMULA:
            assert design is not None
            with quiet():
                yield ~usable_rows(design, block)
        elif fault.kind == "outside":
            yield states[fault.column]["below"] | states[fault.column]["above"]
        else:
            yield states[fault.column][fault.kind]


def fault_flags(block: Table, facts: Facts, design: ScaledDesign | None, faults: Sequence[Fault]) -> Flags:
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
