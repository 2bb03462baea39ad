"""What a row adds to an evaluation's release: a complete one to its cells, any other to the number of rows left out."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from dpstats.data import Block, Table, as_endog, as_exog, slices
from dpstats.data.persons import OwnedRows, person_count
from dpstats.evaluation.binary import BinaryModel
from dpstats.evaluation.histograms import Array, Histogram
from dpstats.evaluation.levels import LevelModel
from dpstats.evaluation.numeric import NumericModel
from dpstats.families import BinomialCounts, Family
from dpstats.formula.design import DesignSpec
from dpstats.formula.reader import BLOCK_ROWS
from dpstats.mechanisms.design import ArrayDesign, PublicDesign
from dpstats.models.ordinal import at_first_cut
from dpstats.models.release import counted_rows
from dpstats.models.sources import AuxiliaryArrays, array_blocks
from dpstats.privacy.guarantee import Unit
from dpstats.privacy.information import linear_predictor
from dpstats.privacy.randomness import RandomSource
from dpstats.results.ordinal import CUT

Model = BinaryModel | LevelModel | NumericModel
Integers = NDArray[np.int64]


def columns_read(design: PublicDesign) -> tuple[str, ...]:
    """The columns of the data that are read."""
    return tuple(name for name in design.columns if name != CUT) if isinstance(design, DesignSpec) else ()


def steps_left_out(blocks: Sequence[Histogram], kind: Literal["laplace", "gaussian"]) -> int:
    """What a row that is left out may add to a number of its own: no more than the noise is for (docs/proofs)."""
    if kind == "laplace":
        return sum(block.largest for block in blocks)
    return math.isqrt(sum(block.square for block in blocks))


@dataclass(frozen=True, eq=False)
class RowSums:
    """Sums over rows of their parts of the release, in whole steps: histograms, then the number of rows left out.

    A row that counts (in the formula's subset, of positive weight) adds `left_out` to the last number, and takes it off
    again if it is complete: so it is in cells or left out, never both.
    """

    model: Model
    blocks: tuple[Histogram, ...]
    params: Array
    left_out: int

    def of_complete(self, rows: Iterable[Block]) -> Integers:
        """The sums over complete rows, for which nothing was added yet to the last number."""
        total = [np.zeros(block.size, dtype=np.int64) for block in self.blocks]
        complete = 0
        for row in rows:
            complete += len(row.endog)
            linear = linear_predictor(row.exog, self.params, row.offset)
            endog, weights = row.endog, row.weights
            if isinstance(self.model, BinaryModel) and isinstance(self.model.family, BinomialCounts):
                linear, endog, weights = _each_outcome(linear, row)
            weights = None if weights is None else np.asarray(weights, dtype=np.float64)
            located = self.model.locate(linear, np.asarray(endog, dtype=np.float64))
            for sums, block, (group, values) in zip(total, self.blocks, located, strict=True):
                sums += block.count(group, values, weights)
        return np.append(np.concatenate(total), -self.left_out * complete)

    def of_arrays(self, family: Family, design: ArrayDesign, data: Any, auxiliary: AuxiliaryArrays) -> Integers:
        """The sums over the rows of the pair (endog, exog). Reads rows: charge first."""
        endog, exog = as_endog(data[0]), as_exog(data[1])
        rows = array_blocks(endog, exog, family, design.norms, auxiliary)
        return self._with_counting(rows.total(self.of_complete, operator.add), exog.rows)

    def of_table(self, design: DesignSpec, table: Table, record: Unit, random: RandomSource) -> Integers:
        """The sums over the rows of a table, or over one complete row of each person. Reads rows: charge first.

        Of persons those are left out who have rows that count and no complete one.
        """
        if record.column is None:
            # In one pass: a frame that is worked out again in another may come out in another way.
            return table.batches(columns_read(design)).total(partial(self._of_tables, design), operator.add)
        drawn = counted_rows(design, table, record, random).total(self.of_complete, operator.add)
        names = (*columns_read(design), record.column)
        owned = table.batches(names).map(partial(owned_counting, design.counting_rows, record.column))
        return self._with_counting(drawn, person_count(owned))

    def _of_tables(self, design: DesignSpec, tables: Iterable[Table]) -> Integers:
        """The sums over the rows of some tables."""
        total = self.of_complete([])
        for table in tables:
            for rows in slices(table.rows, BLOCK_ROWS):
                some = table.select(rows, rows.stop - rows.start)
                total += self.of_complete(design.packing.pieces(_complete(design, some)))
                total = self._with_counting(total, int(np.count_nonzero(design.counting_rows(some))))
        return total

    def _with_counting(self, total: Integers, rows: int) -> Integers:
        """The sums with so many rows that count added to the last number."""
        total[-1] += self.left_out * rows
        return total


def _complete(design: DesignSpec, table: Table) -> Iterator[Block]:
    """The complete rows of a table, packed; of ordered levels their first pieces, with their levels as responses."""
    return design.read_blocks(at_first_cut(design, table) if design.cut_points else table, BLOCK_ROWS)


def owned_counting(
    which: Callable[[Table], NDArray[np.bool_]], person: str, table: Table
) -> OwnedRows[NDArray[np.bool_]]:
    """Whose the rows are that count, complete or not."""
    counting = which(table)
    return OwnedRows(counting[counting], table.column(person).identities()[counting])


def _each_outcome(linear: Array, row: Block) -> tuple[Array, Array, Array]:
    """The successes of rows of trials, then their failures, as weighted 0/1 responses: shapes (2 rows,)."""
    size, weight = len(linear), 1.0 if row.weights is None else row.weights
    outcomes = np.concatenate([np.ones(size), np.zeros(size)])
    return np.tile(linear, 2), outcomes, np.concatenate([weight * row.endog, weight * (1 - row.endog)])
