"""From the rows of a table to blocks in model units, and how they are packed between passes."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from dpstats.data import Block, CodedColumns, Column, RowPacking, Table, slices
from dpstats.data.persons import OwnedRows
from dpstats.domain import Domain
from dpstats.formula import cells
from dpstats.formula.bounds import Array, Term
from dpstats.formula.coding import (
    FactorValues,
    Part,
    column_parts,
    combination_index,
    combinations,
    factor_values,
    level_counts,
    of_rows,
    placed_subterms,
    products,
)
from dpstats.formula.public_frame import Encoded
from dpstats.privacy.k_norm import shrink_block, slack

if TYPE_CHECKING:
    from dpstats.formula.design import DesignSpec
    from dpstats.formula.parse import Formula

MOST_VALUES = 2**18
"""Of the columns of a subterm at all its levels; columns that would have more are kept as numbers."""

MOST_LEVELS = 2**16
"""Of a subterm, so that two bytes tell them apart."""


def packing_of(spec: DesignSpec) -> RowPacking:
    """How rows of a design are kept, from public facts."""
    numbers, coded = np.ones(len(spec.names), dtype=bool), []
    moved = _moved(spec)
    for columns, subterm in placed_subterms(spec.coding):
        counts, size = level_counts(spec.coding, subterm), columns.stop - columns.start
        if counts is None or not size or moved[columns].any():
            continue
        levels = math.prod(counts)
        if levels > MOST_LEVELS or size * levels > MOST_VALUES:
            continue
        every = dict(zip(subterm.factors, combinations(counts), strict=True))
        values = np.empty((size, levels))
        _scale(spec, np.arange(columns.start, columns.stop), products(spec.coding, subterm, every), values)
        coded.append(CodedColumns(columns, values))
        numbers[columns] = False
    return RowPacking(len(numbers), tuple(coded), np.flatnonzero(numbers))


def packed_rows(
    spec: DesignSpec, encoded: Mapping[str, Encoded], rows: int
) -> tuple[Array, NDArray[Any] | None, NDArray[np.bool_]]:
    """Complete encoded rows in model units, as the design's `RowPacking` keeps them.

    Numbers (rows, k), Fortran-contiguous, NaN where not finite; levels (rows, l), unsigned, or None; which rows are
    finite in all columns, (rows,).
    """
    packing = spec.packing
    numbers = np.empty((len(packing.numbers), rows))
    with np.errstate(all="ignore"):
        values, known = factor_values(spec.coding, encoded)
        wanted = np.zeros(packing.size, dtype=bool)
        wanted[packing.numbers] = True
        parts = itertools.compress(column_parts(spec.coding, values), wanted)
        known = known & _scale(spec, packing.numbers, parts, numbers)
    for columns in _shrink_all(spec, numbers.T):
        known = known & np.isfinite(numbers[columns]).all(axis=0)
    return numbers.T, _kept_levels(spec, values, rows), np.broadcast_to(known, rows)


def _scale(spec: DesignSpec, places: NDArray[np.intp], parts: Iterable[list[Part]], out: Array) -> NDArray[np.bool_]:
    """Fill in some columns in model units, shape (k, rows), from what they are products of.

    Returns which rows are finite in all of them, shape (rows,), or (1,) where there are no columns. A column after the
    other: its steps stay in the cache.
    """
    known = np.ones(1, dtype=bool)
    for column, place, factors in zip(out, places, parts, strict=True):
        values = of_rows(factors[0]) if factors else np.ones(1)
        for part in factors[1:]:
            values = values * of_rows(part)
        finite = np.isfinite(values)
        np.clip(values, spec.lower[place], spec.upper[place], out=column)
        if spec.center[place]:
            column -= spec.center[place]
        column /= spec.scale[place]
        if not finite.all():
            np.copyto(column, np.nan, where=~finite)
            known = known & finite
    return known


def _kept_levels(spec: DesignSpec, values: FactorValues, rows: int) -> NDArray[Any] | None:
    """The combination of its factors' levels that each row has, for every subterm kept by levels: (rows, l)."""
    kept = {coded.columns.start: coded.values.shape[1] for coded in spec.packing.coded if not coded.constant}
    if not kept:
        return None
    levels = np.zeros((len(kept), rows), dtype=np.min_scalar_type(max(kept.values()) - 1))
    found = (
        subterm
        for columns, subterm in placed_subterms(spec.coding)
        if columns.start in kept and columns.stop > columns.start
    )
    for own, subterm in zip(levels, found, strict=True):
        counts = level_counts(spec.coding, subterm)
        assert counts is not None
        np.copyto(own, combination_index([values[factor] for factor in subterm.factors], counts), casting="unsafe")
    return levels.T


def _moved(spec: DesignSpec) -> NDArray[np.bool_]:
    """The columns whose rows are moved into the bounds or the body of their term, shape (p,)."""
    moved = np.zeros(len(spec.names), dtype=bool)
    for columns, _ in _moves(spec):
        moved[columns] = True
    return moved


def _moves(spec: DesignSpec) -> Iterator[tuple[slice, Callable[[Array], None]]]:
    """Columns that stand together, and what moves their part of some rows, in place: in this order."""
    for term in spec.shrunk:
        yield term.columns, partial(_shrink, term)
    for body in spec.bodies:
        if body.scales is not None:
            yield body.columns, partial(shrink_block, block=body.image.block, scales=body.scales)


def _shrink_all(spec: DesignSpec, exog: Array) -> Iterator[slice]:
    """Move what needs it of some rows' numbers, in place, and name its columns among them."""
    for columns, move in _moves(spec):
        first = int(np.searchsorted(spec.packing.numbers, columns.start))
        own = slice(first, first + columns.stop - columns.start)
        move(exog[:, own])
        yield own


def _shrink(term: Term, part: Array) -> None:
    """Scale each row of `part` down, in place, to the term's bounds less the slack."""
    squares, sizes = np.zeros(len(part)), np.zeros(len(part))
    # Column by column: a sum along rows could be rounded in another order when the number of rows changes.
    for column in part.T:
        squares += column * column
        sizes += np.abs(column)
    room = 1 + slack(part.shape[1])
    with np.errstate(all="ignore"):
        by_l2 = term.l2 / room / np.sqrt(squares)
        by_l1 = term.l1 / room / sizes
    factor = np.fmin(np.fmin(by_l2, by_l1), 1.0)
    part *= factor[:, None]


Read = Sequence[tuple[Mapping[str, Column], Domain]]
"""The columns of predictor, response, weights and condition, each with the Domain that encodes them."""


def read_blocks(spec: DesignSpec, formula: Formula, table: Table, block_rows: int) -> Iterator[Block]:
    """The complete rows of a table whose schema suits the design, in packed blocks of at most `block_rows`."""
    return (block for block, _, _ in _read(spec, formula, table, block_rows))


def owned_blocks(
    spec: DesignSpec, formula: Formula, table: Table, person: str, block_rows: int
) -> Iterator[OwnedRows[Block]]:
    """As `read_blocks`, with the identities of the persons that the rows are of, in the column `person`."""
    ids = table.column(person)
    for block, chosen, rows in _read(spec, formula, table, block_rows):
        yield OwnedRows(block, ids.select(rows).identities()[chosen])


def _read(
    spec: DesignSpec, formula: Formula, table: Table, block_rows: int
) -> Iterator[tuple[Block, NDArray[np.bool_], slice]]:
    """Blocks of complete rows, with which rows of which slice they are."""
    read = [
        (cells.read_columns(table, formula.predicting_columns), spec.domain),
        (cells.read_columns(table, formula.response_columns), spec.encoder.domain),
        (
            cells.read_columns(table, formula.weight_columns),
            spec.domain if spec.weights is None else spec.weights.domain,
        ),
        (cells.read_columns(table, formula.subset_columns), spec.domain),
    ]
    for rows in slices(table.rows, block_rows):
        yield *_block(spec, read, rows), rows


def _block(spec: DesignSpec, read: Read, rows: slice) -> tuple[Block, NDArray[np.bool_]]:
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


def prediction_rows(spec: DesignSpec, table: Table, *, offset: bool) -> tuple[Array, NDArray[np.bool_], Array]:
    """Rows for prediction, which of them are complete, and their offsets; see `DesignSpec.predicting`."""
    names, size = spec.predicting_columns if offset else spec.exog_columns, len(spec.names)
    cells.check_columns(table, spec.domain, names)
    parts = table.batches(names).each(partial(_prediction_part, spec, offset)).collected()
    whole: Array = parts[0] if len(parts) == 1 else np.concatenate([np.empty((0, size + 1)), *parts])
    complete = np.asarray(np.isfinite(whole).all(axis=1))
    whole[~complete, :size] = np.nan
    return whole[:, :size], complete, whole[:, size]


def _prediction_part(spec: DesignSpec, offset: bool, table: Table) -> Array:
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


def usable_rows(spec: DesignSpec, formula: Formula, table: Table) -> NDArray[np.bool_]:
    """Which rows a fit uses, but for those of weight 0, shape (n,)."""
    found = spec.predicting(table, offset=True)[1] & np.isfinite(spec.endog(table))
    if spec.weights is not None:
        columns = cells.read_columns(table, formula.weight_columns)
        encoded, complete = cells.encode(columns, spec.weights.domain, slice(0, table.rows))
        found &= complete & (spec.weights(encoded) >= 0)
    if spec.subset is not None:
        columns = cells.read_columns(table, formula.subset_columns)
        encoded, complete = cells.encode(columns, spec.domain, slice(0, table.rows))
        found &= complete & spec.subset(encoded)
    return found


def _weights(spec: DesignSpec, outcome: dict[str, Encoded], weighed: dict[str, Encoded]) -> Array | None:
    """Weights of encoded rows over their greatest, shape (rows,); NaN where there are none."""
    trials = spec.encoder.trials(outcome)
    if spec.weights is None:
        return trials
    given = spec.weights(weighed) / spec.weights.high
    return given if trials is None else given * trials
