"""From the cells of a table to encoded columns, to packed blocks in model units, to rows for prediction.

Nothing here raises, warns or branches on a cell in a way that another row could notice. What may raise looks at
column names and declared types alone, which are public.
"""

from __future__ import annotations

import itertools
import operator
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dpstats.data import Block, PackedRows, Rows, Table, as_table, slices
from dpstats.data.columns import Column, usable_kind
from dpstats.data.passes import cut_even
from dpstats.data.persons import OwnedRows
from dpstats.domain import Domain, Levels, Range
from dpstats.errors import DomainError
from dpstats.formula.coding import factor_values
from dpstats.formula.public_frame import Codes, Encoded
from dpstats.formula.scaled_design import ScaledDesign, packed_rows
from dpstats.formula.subset_levels import model_domain
from dpstats.quiet import quiet

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


def encode(
    table: Table, names: Iterable[str], domain: Domain, rows: slice | None = None, *, beyond: bool = False
) -> tuple[dict[str, Encoded], NDArray[np.bool_]]:
    """Declared columns of a checked table by name, on `rows` or all, and which rows miss none of them, shape (rows,).

    A range gives floats of shape (rows,) within it, missing as NaN; levels give `Codes`. A cell outside of a range that
    drops rows is missing; with `beyond`, which is for predictions, it stays what it is.
    """
    rows = slice(0, table.rows) if rows is None else rows
    encoded: dict[str, Encoded] = {}
    complete = np.ones(rows.stop - rows.start, dtype=bool)
    for name in names:
        declared, cells = domain[name], table.column(name).select(rows)
        if isinstance(declared, Range):
            encoded[name], known = _within(cells, declared, beyond)
            complete &= known
        else:
            codes = cells.codes(declared.code_of())
            complete &= codes >= 0
            encoded[name] = Codes(codes, declared.values)
    return encoded, complete


def take(encoded: Mapping[str, Encoded], rows: NDArray[np.bool_]) -> dict[str, Encoded]:
    """The rows where `rows` holds, of every encoded column."""
    chosen = np.flatnonzero(rows)  # found once
    return {
        name: Codes(column.values[chosen], column.levels, column.contrast)
        if isinstance(column, Codes)
        else column[chosen]
        for name, column in encoded.items()
    }


def _within(cells: Column, declared: Range, beyond: bool) -> tuple[Array, NDArray[np.bool_]]:
    """Numbers within a range, NaN where there is none, and where there is one."""
    numbers = cells.numbers()
    if cells.all_within(numbers, *(declared.interval if declared.drops else (declared.low, declared.high))):
        return numbers, np.ones(len(numbers), dtype=bool)
    if declared.drops:
        known = np.isfinite(numbers) if beyond else declared.holds(numbers)
        return np.where(known, numbers, np.nan), known
    clipped, known = np.clip(numbers, declared.low, declared.high), np.isfinite(numbers)
    if not known.all():
        clipped[~known] = np.nan
    return clipped, known


class _WholeRows(NamedTuple):
    """The rows of a slice of a table that miss no column."""

    complete: NDArray[np.bool_]  # which rows of the slice they are
    encoded: dict[str, Encoded]  # of what explains
    endog: Array
    weights: Array | None
    offset: Array | None
    kept: NDArray[np.bool_]  # which of them count, by all but the columns of the design


@dataclass(frozen=True, eq=False)
class ReadableDesign(ScaledDesign):
    """A design that reads rows block by block. Attributes as for `ScaledDesign`."""

    def check_schema(self, data: object) -> None:
        """Raise DataError or DomainError if `data` cannot be encoded, by its column names and types alone."""
        check_columns(as_table(data), self.domain, self.parsed.columns)

    def rows(self, data: object, block_rows: int = BLOCK_ROWS) -> PackedRows:
        """Rows in model units, encoded whenever they are gone through until they are held; the rest as `blocks`."""
        table = as_table(data)
        self.check_schema(table)
        return PackedRows(self.packing, table.batches(self.columns).map_shards(partial(_blocks, self, block_rows)))

    def blocks(self, data: object, block_rows: int = BLOCK_ROWS) -> list[Block]:
        """Rows in model units, in blocks of at most `block_rows`; one block of no rows if `data` has none.

        Rows with a missing, unparsable or infinite cell, an unknown level, or a value that is not finite are left out
        without a trace. Raises as `check_schema`.
        """
        with quiet():
            return self.rows(data, block_rows).collect()

    def owned(self, data: object, person: str, block_rows: int = BLOCK_ROWS) -> Rows[OwnedRows[Block]]:
        """Packed rows in model units with the identities in column `person`; the rest as `rows`."""
        table = as_table(data)
        self.check_schema(table)
        usable_kind(person, table.column(person))
        return table.batches([*self.columns, person]).map_shards(partial(_owned, self, person, block_rows))

    def read_blocks(self, table: Table, block_rows: int, person: str | None = None) -> Iterator[Block]:
        """The complete rows of a table whose schema suits the design, in packed blocks of at most `block_rows`.

        With the identities of the persons that the rows are of, in the column `person`, if that is given.
        """
        whole = table.only(self.columns)  # which fetches each once
        for rows in slices(table.rows, block_rows):
            chunk = self._whole_rows(whole, rows)
            numbers, levels, known = packed_rows(self, chunk.encoded, len(chunk.endog))
            ids: Any = None if person is None else table.column(person).select(rows).identities()[chunk.complete]
            block, kept = Block(numbers, chunk.endog, chunk.weights, chunk.offset, ids, levels), chunk.kept & known
            yield block if kept.all() else block.take(kept)

    def used_rows(self, table: Table) -> int:
        """How many rows `read_blocks` has; what is known to be finite is not scaled for that."""
        if not self.numbers_are_cells:
            return sum(len(block.endog) for block in self.read_blocks(table, BLOCK_ROWS))
        whole = table.only(self.columns)
        chunks = (self._whole_rows(whole, rows) for rows in slices(table.rows, BLOCK_ROWS))
        return sum(int(np.sum(one.kept & factor_values(self.factors, one.encoded)[1])) for one in chunks)

    def _whole_rows(self, table: Table, rows: slice) -> _WholeRows:
        """What is read of the rows of a slice that miss nothing."""
        parsed, weighing = self.parsed, self.domain if self.weights is None else self.weights.domain
        parts = [
            encode(table, parsed.predicting_columns, self.domain, rows),
            encode(table, parsed.response_columns, self.encoder.domain, rows),
            encode(table, parsed.weight_columns, weighing, rows),
            encode(table, parsed.subset_columns, self.domain, rows),
        ]
        complete = np.logical_and.reduce([known for _, known in parts])
        whole = complete.all()
        encoded, outcome, weighed, conditions = (part if whole else take(part, complete) for part, _ in parts)
        endog = self.encoder.encode(outcome)
        kept = np.isfinite(endog)
        if self.subset is not None:
            kept &= self.subset(conditions)
        # Over their greatest; the trials of a row are a weight as well.
        weights, offset = self.encoder.trials(outcome), None
        if self.weights is not None:
            given = self.weights(weighed) / self.weights.high
            weights = given if weights is None else given * weights
        if weights is not None:
            kept &= weights > 0
        if self.offset is not None:
            offset = self.scaled_offset(self.offset(encoded))
            kept &= np.isfinite(offset)
        return _WholeRows(complete, encoded, endog, weights, offset, kept)

    def exog(self, data: object) -> tuple[Array, NDArray[np.bool_]]:
        """Rows for prediction in model units, shape (n, p), NaN where they cannot be encoded; which can be, shape (n,).

        Errors as in `check_schema`, of the columns that explain; the response is not needed.
        """
        return self.predicting(data, offset=False)[:2]

    def predicting(
        self, data: object, *, offset: bool, coefficients: Array | None = None
    ) -> tuple[Array, NDArray[np.bool_], Array]:
        """Rows for prediction as `exog` gives them, and their offsets in model units, shape (n,), in one pass.

        Offsets are 0 unless `offset` asks for them and the formula has one. With `coefficients` the rows are x'theta,
        shape (n, 1): no more than a batch of x is kept. Errors as in `check_schema`, of the columns read.
        """
        spec, table = self.unbounded, as_table(data)
        names = spec.parsed.predicting_columns if offset else spec.parsed.exog_columns
        check_columns(table, spec.domain, names)
        rows, size = table.batches(names).map(partial(_prediction_part, spec, names, offset)), len(spec.names)
        if coefficients is not None:
            rows, size = rows.map(partial(_linear_part, coefficients)), 1
        with quiet():
            parts = rows.collect()
        whole: Array = parts[0] if len(parts) == 1 else np.concatenate([np.empty((0, size + 1)), *parts])
        complete = np.asarray(np.isfinite(whole).all(axis=1))
        whole[~complete, :size] = np.nan
        return whole[:, :size], complete, whole[:, size]

    def of_encoded(self, encoded: Mapping[str, Encoded], rows: int) -> tuple[Array, NDArray[np.bool_], Array]:
        """As `predicting`, of encoded columns without a missing cell, but complete are rows that a fit keeps alone."""
        kept = np.ones(rows, dtype=bool)
        for name in self.parsed.predicting_columns:
            declared, values = self.domain[name], encoded[name]
            if isinstance(declared, Range) and declared.drops and not isinstance(values, Codes):
                kept &= declared.holds(values)
        spec = self.unbounded
        with quiet():
            numbers, levels, known = packed_rows(spec, encoded, rows)
            offset = np.zeros(rows) if spec.offset is None else spec.scaled_offset(spec.offset(encoded))
        return spec.packing.columns_of(numbers, levels), kept & known & np.isfinite(offset), offset

    def keeps(self, data: object) -> NDArray[np.bool_]:
        """Which rows have a cell to explain with in each column, within every range that drops rows, shape (n,)."""
        with quiet():
            return encode(as_table(data), self.parsed.predicting_columns, self.domain)[1]

    def usable(self, table: Table) -> NDArray[np.bool_]:
        """Which rows a fit uses, but for those of weight 0, shape (n,)."""
        with quiet():
            usable = self.predicting(table, offset=True)[1] & np.isfinite(self.endog_of(table)) & self.keeps(table)
            if self.weights is not None:
                encoded, complete = encode(table, self.parsed.weight_columns, self.weights.domain)
                usable &= complete & (self.weights(encoded) >= 0)
            return usable & self._selected(table)

    def counting_rows(self, table: Table) -> NDArray[np.bool_]:
        """Which selected rows count whatever their other cells are, shape (n,): not of weight 0, nor of no trials.

        Where weight or trials are missing a row is lost to them, so it is one of these.
        """
        parsed, chosen = self.parsed, self._selected(table)
        if self.encoder.failures is not None:
            outcome, known = encode(table, parsed.response_columns, self.encoder.domain)
            trials = self.encoder.trials(outcome)
            if trials is not None:
                chosen &= ~(known & (trials <= 0))
        if self.weights is not None:
            weighed, known = encode(table, parsed.weight_columns, self.weights.domain)
            chosen &= ~(known & (self.weights(weighed) <= 0))
        return chosen

    @property
    def model_domain(self) -> Domain:
        """The Domain without levels that the model does not have, as no row of its subset has them."""
        return model_domain(self.parsed, self.domain)

    def _selected(self, table: Table) -> NDArray[np.bool_]:
        """Which rows of a table meet the condition on rows, if there is one; shape (n,)."""
        if self.subset is None:
            return np.ones(table.rows, dtype=bool)
        encoded, complete = encode(table, self.parsed.subset_columns, self.domain)
        return np.asarray(complete & self.subset(encoded))

    def endog(self, data: object) -> Array:
        """Responses in model units, shape (n,); NaN in rows with a missing cell or no response."""
        table = as_table(data)
        self.check_schema(table)
        with quiet():
            parts = table.batches(self.response_columns).map(self.endog_of).collect()
        return parts[0] if len(parts) == 1 else np.concatenate([np.empty(0), *parts])

    def endog_of(self, batch: Table) -> Array:
        """The responses of one table that has passed `check_schema`; see `endog`."""
        result, batch = np.full(batch.rows, np.nan), batch.only(self.response_columns)
        for rows in slices(batch.rows, BLOCK_ROWS):
            encoded, known = encode(batch, self.response_columns, self.encoder.domain, rows)
            outcome = {name: encoded[name] for name in self.parsed.response_columns}
            result[rows][known] = self.encoder.encode(outcome if known.all() else take(outcome, known))
        return result

    def response_values(self, table: Table) -> Array:
        """Responses in the user's units, clipped to their range, shape (n,); NaN where there is none."""
        return self.endog_of(table) * self.response.scale + self.response.center


def _blocks(spec: ReadableDesign, block_rows: int, _: int, tables: Iterable[Table]) -> Iterator[Block]:
    """The blocks of some tables."""
    pairs = ((table.filtered, block) for table in tables for block in spec.read_blocks(table, block_rows))
    return cut_anew(pairs, block_rows)


def _owned(
    spec: ReadableDesign, person: str, block_rows: int, _: int, tables: Iterable[Table]
) -> Iterator[OwnedRows[Block]]:
    """The blocks of some tables, and whose rows they hold."""
    pairs = ((table.filtered, block) for table in tables for block in spec.read_blocks(table, block_rows, person))
    for block in cut_anew(pairs, block_rows):
        assert block.person is not None
        yield OwnedRows(block._replace(person=None), block.person)


def cut_anew(pairs: Iterable[tuple[bool, Block]], block_rows: int) -> Iterator[Block]:
    """The blocks of tables, those of filtered ones in blocks of so many rows each, wherever the tables were cut.

    Else the rows that a filter leaves out, which another account pays for, would move the ends of blocks, and with them
    the rounding of what is summed (docs/proofs/composition, 5).
    """
    for filtered, run in itertools.groupby(pairs, operator.itemgetter(0)):
        blocks = (block for _, block in run)
        yield from cut_even(blocks, block_rows) if filtered else blocks


def _prediction_part(spec: ReadableDesign, names: Sequence[str], offset: bool, table: Table) -> Array:
    """Rows of a table for prediction, their offset behind their columns; shape (n, p + 1), NaN where a cell is missing.

    The offset is 0 unless it is asked for and the formula has one.
    """
    added, table = spec.offset if offset else None, table.only(names)
    result = np.full((table.rows, len(spec.names) + 1), np.nan)
    for rows in slices(table.rows, BLOCK_ROWS):
        encoded, complete = encode(table, names, spec.domain, rows, beyond=True)
        encoded = take(encoded, complete)
        numbers, levels, known = packed_rows(spec, encoded, int(complete.sum()))
        exog = spec.packing.columns_of(numbers, levels)
        exog[~known] = np.nan
        at = rows.start + np.flatnonzero(complete)
        result[at, :-1] = exog
        result[at, -1] = 0.0 if added is None else spec.scaled_offset(added(encoded))
    return result


def _linear_part(coefficients: Array, part: Array) -> Array:
    """Linear predictor and offset of rows, shape (n, 2), NaN where a cell is missing; `part` as `_prediction_part`."""
    complete = np.isfinite(part).all(axis=1)
    linear = np.full((len(part), 2), np.nan)
    linear[complete, 0] = part[complete][:, :-1] @ coefficients
    linear[:, 1] = part[:, -1]
    return linear
