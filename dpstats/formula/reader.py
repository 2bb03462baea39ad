"""From the rows of a table to packed blocks in model units, and to rows for prediction."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial

import numpy as np
from numpy.typing import NDArray

from dpstats.data import Block, Column, Table, slices
from dpstats.data.persons import OwnedRows
from dpstats.domain import Domain
from dpstats.formula import cells
from dpstats.formula.bounds import Array
from dpstats.formula.public_frame import Encoded
from dpstats.formula.scaled_design import ScaledDesign, packed_rows

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


def _read(spec: ScaledDesign, table: Table, block_rows: int) -> Iterator[tuple[Block, NDArray[np.bool_], slice]]:
    """Blocks of complete rows, with which rows of which slice they are."""
    read = [
        (cells.read_columns(table, spec.parsed.predicting_columns), spec.domain),
        (cells.read_columns(table, spec.parsed.response_columns), spec.encoder.domain),
        (
            cells.read_columns(table, spec.parsed.weight_columns),
            spec.domain if spec.weights is None else spec.weights.domain,
        ),
        (cells.read_columns(table, spec.parsed.subset_columns), spec.domain),
    ]
    for rows in slices(table.rows, block_rows):
        yield *_block(spec, read, rows), rows


def _block(spec: ScaledDesign, read: Read, rows: slice) -> tuple[Block, NDArray[np.bool_]]:
    """One packed block of complete rows, and which of `rows` they are."""
    parts = [cells.encode(columns, domain, rows) for columns, domain in read]
    complete = np.logical_and.reduce([known for _, known in parts])
    whole = complete.all()
    encoded, outcome, weighed, conditions = (part if whole else cells.take(part, complete) for part, _ in parts)
    endog = spec.encoder.encode(outcome)
    numbers, levels, known = packed_rows(spec, encoded, len(endog))
    kept = known & np.isfinite(endog)
    if spec.subset is not None:
        kept &= spec.subset(conditions)
    weights, offset = _weights(spec, outcome, weighed), None
    if weights is not None:
        kept &= weights > 0
    if spec.offset is not None:
        offset = spec.scaled_offset(spec.offset(encoded))
        kept &= np.isfinite(offset)
    block = Block(numbers, endog, weights, offset, levels=levels)
    complete[complete] = kept
    return block if kept.all() else block.take(kept), complete


def prediction_rows(spec: ScaledDesign, table: Table, *, offset: bool) -> tuple[Array, NDArray[np.bool_], Array]:
    """Rows for prediction, which of them are complete, and their offsets; see `DesignSpec.predicting`."""
    names, size = spec.predicting_columns if offset else spec.exog_columns, len(spec.names)
    cells.check_columns(table, spec.domain, names)
    parts = table.batches(names).each(partial(_prediction_part, spec, offset)).collected()
    whole: Array = parts[0] if len(parts) == 1 else np.concatenate([np.empty((0, size + 1)), *parts])
    complete = np.asarray(np.isfinite(whole).all(axis=1))
    whole[~complete, :size] = np.nan
    return whole[:, :size], complete, whole[:, size]


def _prediction_part(spec: ScaledDesign, offset: bool, table: Table) -> Array:
    """Rows of a table for prediction, their offset behind their columns; shape (n, p + 1), NaN where a cell is missing.

    The offset is 0 unless it is asked for and the formula has one.
    """
    beside = spec.offset if offset else None
    columns = cells.read_columns(table, spec.predicting_columns if offset else spec.exog_columns)
    result = np.full((table.rows, len(spec.names) + 1), np.nan)
    for rows in slices(table.rows, 65536):
        encoded, complete = cells.encode(columns, spec.domain, rows)
        encoded = cells.take(encoded, complete)
        numbers, levels, known = packed_rows(spec, encoded, int(complete.sum()))
        exog = spec.packing.columns_of(numbers, levels)
        exog[~known] = np.nan
        at = rows.start + np.flatnonzero(complete)
        result[at, :-1] = exog
        result[at, -1] = 0.0 if beside is None else spec.scaled_offset(beside(encoded))
    return result


def response_rows(spec: ScaledDesign, table: Table) -> Array:
    """Responses of a table that suits the design, in model units, shape (n,); NaN where there is none."""
    columns = cells.read_columns(table, spec.response_columns)
    result = np.full(table.rows, np.nan)
    encoded, known = cells.encode(columns, spec.encoder.domain, slice(0, table.rows))
    result[known] = spec.encoder.encode(cells.take(encoded, known))
    return result


def usable_rows(spec: ScaledDesign, table: Table) -> NDArray[np.bool_]:
    """Which rows of a table that suits the design a fit uses, but for those of weight 0, shape (n,)."""
    usable = prediction_rows(spec, table, offset=True)[1] & np.isfinite(response_rows(spec, table))
    if spec.weights is not None:
        columns = cells.read_columns(table, spec.parsed.weight_columns)
        encoded, complete = cells.encode(columns, spec.weights.domain, slice(0, table.rows))
        usable &= complete & (spec.weights(encoded) >= 0)
    if spec.subset is not None:
        columns = cells.read_columns(table, spec.parsed.subset_columns)
        encoded, complete = cells.encode(columns, spec.domain, slice(0, table.rows))
        usable &= complete & spec.subset(encoded)
    return usable


def _weights(spec: ScaledDesign, outcome: dict[str, Encoded], weighed: dict[str, Encoded]) -> Array | None:
    """Weights of encoded rows over their greatest, shape (rows,); NaN where there are none."""
    trials = spec.encoder.trials(outcome)
    if spec.weights is None:
        return trials
    given = spec.weights(weighed) / spec.weights.high
    return given if trials is None else given * trials
