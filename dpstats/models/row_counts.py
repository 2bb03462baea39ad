"""The private count of rows that a fit starts with: those that it uses, and those at fault by column."""

from __future__ import annotations

import operator
from collections.abc import Iterable, Sequence
from functools import partial

import numpy as np
from numpy.typing import NDArray

from dpstats.call import Request
from dpstats.data import Block, Rows, Table, slices
from dpstats.data.passes import row_count
from dpstats.errors import ArgumentError
from dpstats.families import Family
from dpstats.formula.design import DesignSpec
from dpstats.formula.faults import Facts, Fault, column_facts, possible_faults, raw_flags
from dpstats.formula.reader import counting_rows, used_rows
from dpstats.models.adaptive import adaptive_errors, offered_intervals
from dpstats.plan import Plan
from dpstats.plan.row_counts import CHECK_SHARE, LEAST_EPS, RowCounts
from dpstats.privacy.randomness import RandomSource, noisy_integers
from dpstats.quiet import quiet
from dpstats.wording import argument, phrase

BLOCK_ROWS = 65536


def plan_counts(request: Request, design: DesignSpec, open_ranges: Sequence[str], *, alone: bool) -> RowCounts | None:
    """What counts the rows before all else: where it is offered, unless the call says otherwise.

    The design has stand-ins for `open_ranges`; a fit that is not made `alone` is one of several that go together.
    """
    share = request.options.check_share
    obstacle = counts_obstacle(request, alone=alone)
    if share is None:
        offered = obstacle is None and request.options.n is None and request.eps >= LEAST_EPS
        share = CHECK_SHARE if offered else 0.0
    if share == 0:
        return None
    if obstacle is not None:
        raise ArgumentError(f"check_share {obstacle}")
    facts = _known_facts(design, open_ranges, request.family)
    faults = possible_faults(facts, None if open_ranges else design)
    adapts = adaptive_errors(request, request.family)
    # A public guess at the number of rows has settled what is bought.
    names = () if open_ranges or request.options.n is not None else offered_intervals(request, design)
    return RowCounts.planned(request.eps, share, request.adjacency, faults, settles_errors=adapts, trimmable=names)


def counts_obstacle(request: Request, *, alone: bool) -> str | None:
    """Why no rows are counted before a fit, with the fix; several fits that go together count none."""
    check = phrase("call dp.check", shell="run python -m dpstats check")
    if not alone:
        return f"is for a single fit; leave it out, and {check} first"
    if request.options.unit is not None:
        by_person = f"{check} with {argument('unit')}"
        return f"counts rows, and the guarantee is for persons: leave it out, and {by_person} first"
    if request.method not in ("napp", "objective"):
        return f"is not offered with {argument('method', request.method)}: leave it out, and {check} first"
    if request.options.replicates:
        return "is not part of the replicated paper; leave it out"
    if request.options.retrieval == "return":
        returned, recycled = argument("retrieval", "return"), argument("retrieval", "recycle")
        return f"cannot be combined with {returned}, which needs a price known beforehand; use {recycled}"
    return None


def _known_facts(design: DesignSpec, open_ranges: Sequence[str], family: Family) -> Facts:
    """What is known of each column of a design that has stand-ins for `open_ranges`."""
    known = {name: one for name, one in design.domain.items() if name not in open_ranges}
    return column_facts(design.parsed, known, family)


def count_rows(plan: Plan, data: Table, random: RandomSource, rows: Rows[Block] | None = None) -> RowCounts:
    """Release the counts that are planned. Reads rows, or those encoded already as the plan has it: charge first."""
    counts, design = plan.counts, plan.design
    assert counts is not None
    assert isinstance(design, DesignSpec)
    facts = _known_facts(design, [name for name in plan.bought if name not in plan.trimmed], plan.request.family)
    with quiet():
        part = partial(_row_sums, design, facts, counts.faults, rows is None)
        sums = data.batches(design.parsed.columns).total(part, operator.add)
        sums[0] += 0 if rows is None else row_count(rows)
    at_fault = noisy_integers(sums[1:], counts.fault_sensitivity, counts.fault_eps, random)
    used = data.rows if not counts.rows_eps else noisy_integers(sums[:1], 1, counts.rows_eps, random)[0]
    return counts.released(int(used), at_fault.tolist())


def _row_sums(
    design: DesignSpec, facts: Facts, faults: Sequence[Fault], encode: bool, tables: Iterable[Table]
) -> NDArray[np.int64]:
    """How many rows of some tables a fit uses, if they are to be encoded for that, and how many have each fault first.

    Shape (1 + faults,).
    """
    total = np.zeros(1 + len(faults), dtype=np.int64)
    for table in tables:
        for rows in slices(table.rows, BLOCK_ROWS):
            block = table.select(rows, rows.stop - rows.start)
            total[0] += used_rows(design, block, BLOCK_ROWS) if encode else 0
            left = counting_rows(design, block)
            for place, flags in enumerate(raw_flags(block, facts, design, faults), start=1):
                if flags.any():
                    total[place] += np.count_nonzero(left & flags)
                    left &= ~flags
    return total
