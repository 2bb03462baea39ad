"""From the cells of a table to encoded columns, to packed blocks in model units, and to rows for prediction.

Nothing here raises, warns or branches on a cell in a way that another row could notice. What may raise looks at
column names and declared types alone, which are public.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dpstats.data import Block, Column, Table, slices
from dpstats.data.columns import MISSING_TOKEN, Kind, usable_kind
from dpstats.data.persons import OwnedRows
from dpstats.domain import Domain, Levels, Range
from dpstats.errors import DomainError
from dpstats.formula.coding import factor_values
from dpstats.formula.public_frame import Codes, Encoded
from dpstats.formula.scaled_design import ScaledDesign, all_within, packed_rows

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
