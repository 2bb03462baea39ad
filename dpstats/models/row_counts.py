"""The private count of rows that a fit starts with: those that it uses, and those at fault by column."""

from __future__ import annotations

import operator
from collections.abc import Iterable, Sequence
from functools import partial

import numpy as np
from numpy.typing import NDArray

from dpstats.data import Table, slices
from dpstats.formula.design import DesignSpec
from dpstats.formula.faults import Facts, Fault, fault_flags
from dpstats.formula.reader import counting_rows, read_blocks
from dpstats.plan.row_counts import RowCounts
from dpstats.privacy.randomness import RandomSource, noisy_integers

BLOCK_ROWS = 65536


def count_rows(
    counts: RowCounts,
    design: DesignSpec,
    facts: Facts,
    faults: Sequence[Fault],
    data: Table,
    random: RandomSource,
) -> RowCounts:
    """Release the counts that are planned. Reads rows: charge first.

    `design` may hold stand-ins for ranges that are open in `facts`; `faults` tells below from above, in their order.
    """
    names = [*dict.fromkeys([*design.columns, *facts])]
    sums = data.batches(names).total(partial(_row_sums, design, facts, tuple(faults), counts.faults), operator.add)
    at_fault = noisy_integers(sums[1:], counts.fault_sensitivity, counts.fault_eps, random)
    rows = data.rows if not counts.rows_eps else noisy_integers(sums[:1], 1, counts.rows_eps, random)[0]
    assert rows is not None
    return counts.released(int(rows), at_fault.tolist())


def _row_sums(
    design: DesignSpec, facts: Facts, faults: Sequence[Fault], counted: Sequence[Fault], tables: Iterable[Table]
) -> NDArray[np.int64]:
    """How many rows of some tables a fit uses, and how many have each of `counted` first; shape (1 + counted,)."""
    place = np.array([counted.index(fault.either_side) for fault in faults])
    total = np.zeros(1 + len(counted), dtype=np.int64)
    for table in tables:
        for rows in slices(table.rows, BLOCK_ROWS):
            block = table.select(rows, rows.stop - rows.start)
            total[0] += sum(len(one.endog) for one in read_blocks(design, block, BLOCK_ROWS))
            chosen = counting_rows(design, block)
            flags = fault_flags(block, facts, design, faults)[chosen]
            first = flags.argmax(axis=1)[flags.any(axis=1)]
            total[1:] += np.bincount(place[first], minlength=len(counted))
    return total
