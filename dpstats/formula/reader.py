"""From the cells of a table to encoded columns, to packed blocks in model units, to rows for prediction, to faults.

Nothing here raises, warns or branches on a cell in a way that another row could notice. What may raise looks at
column names and declared types alone, which are public.
"""

from __future__ import annotations

import itertools
import operator
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dpstats.data import Block, PackedRows, Rows, Table, as_table, slices
from dpstats.data.columns import MISSING_TOKEN, Column, token_of, usable_kind
from dpstats.data.identities import MISSING_WORDS
from dpstats.data.passes import cut_even
from dpstats.data.persons import NOBODY, OwnedRows
from dpstats.domain import Domain, Levels, Range, number_pair
from dpstats.domain.declarations import NINES
from dpstats.errors import DomainError
from dpstats.families import Family
from dpstats.formula.coding import factor_values
from dpstats.formula.expression import Column as ColumnNode
from dpstats.formula.parse import Formula
from dpstats.formula.public_frame import Codes, Encoded
from dpstats.formula.scaled_design import ScaledDesign, packed_rows
from dpstats.quiet import quiet
from dpstats.wording import days_since, joined, phrase

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

    def cell_faults(self, data: object, *, offset: bool) -> CellFaults:
        """What is wrong with the cells of rows for predictions, of the columns that `data` has."""
        table = as_table(data)
        read = self.parsed.predicting_columns if offset else self.parsed.exog_columns
        names = [name for name in read if table.count(name)]
        if not names:
            return CellFaults({}, {}, {}, 0)
        exposures = self.parsed.plain_exposures if offset else set()
        with quiet():
            counted, nothing = partial(_fault_counts, self.domain, names, exposures), np.zeros(3 * len(names) + 1)
            *counts, rows = map(int, sum(table.batches(names).map(counted).collect(), nothing))
        parts = np.reshape(counts, (3, len(names))).tolist()
        beyond, missing, not_positive = ({name: n for name, n in zip(names, part, strict=True) if n} for part in parts)
        return CellFaults(beyond, missing, not_positive, rows)

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


class CellFaults(NamedTuple):
    """In how many rows for predictions a cell is at fault, by column."""

    beyond: dict[str, int]  # a level is not declared, or a number is clipped, or one that the fit left out rows of
    missing: dict[str, int]  # a cell is missing
    not_positive: dict[str, int]  # an exposure is 0 or less, and has no logarithm
    rows_missing: int  # rows with a missing cell


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
