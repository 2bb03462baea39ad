"""Narrower ranges of columns that were chosen, bought by the rows that are fitted (docs/proofs/trimming, 7)."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import numpy as np
from numpy.typing import NDArray

from dpstats.data import Block, Rows
from dpstats.domain import Range
from dpstats.errors import DPStatsError
from dpstats.formula.design import DesignSpec
from dpstats.formula.expression import columns_of
from dpstats.mechanisms.design import formula_variables
from dpstats.mechanisms.spec import FitSpec
from dpstats.privacy.randomness import RandomSource
from dpstats.privacy.ranges import CellCounts, cell_counts
from dpstats.privacy.trimming import buy_narrowest

Vector = NDArray[np.float64]

ROUNDS = (2 / 3, 1 / 3)
"""Parts of the price, for one column each: one that fills little of its range hides the coefficients of all."""

GRID = 2.0**30
"""Places within a range are rounded to its parts, so that a cell at the end of an interval is inside."""


def narrowed_design(
    spec: FitSpec, eps: float, columns: NDArray[np.intp], rows: Rows[Block], random: RandomSource
) -> DesignSpec | None:
    """The design with narrower ranges of some of the chosen `columns`; None if none are bought.

    Reads rows: charge first.
    """
    design = spec.design
    if not eps or not isinstance(design, DesignSpec):
        return None
    offered = {name: column for name, column in narrowable(design).items() if column in columns}
    counts = {name: _place_counts(design, column, rows) for name, column in offered.items()}
    ranges: dict[str, Range] = {}
    for part in ROUNDS:
        left = [name for name in offered if name not in ranges]
        if not left:
            break
        own = [counts[name] for name in left]
        bought = buy_narrowest(own, eps=part * eps, adjacency=spec.adjacency, random=random)
        if bought is None:
            break
        name, declared = left[bought[0]], design.domain[left[bought[0]]]
        assert isinstance(declared, Range)
        low, width = float(declared.low), float(declared.high) - float(declared.low)
        ends = (max(low + bought[1] * width, low), min(low + bought[2] * width, float(declared.high)))
        ranges[name] = replace(declared, inner=ends)
    try:
        return design.narrowed(ranges) if ranges else None
    except DPStatsError:  # of released values alone: the declared ranges serve
        return None


def narrowable(design: DesignSpec) -> dict[str, int]:
    """By column of the data, the columns of the design of which a narrower range may be bought once they are chosen.

    They are terms by themselves, which nothing else reads: no other term, offset, weight, condition or response. Their
    range has more than two codes and is a plain pair; without an intercept a narrower one may have the same scale.
    """
    if not design.has_intercept:
        return {}
    parsed = design.parsed
    offsets = {name for factor in parsed.offsets for name in columns_of(factor.node)}
    elsewhere = offsets.union(parsed.response_columns, parsed.weight_columns, parsed.subset_columns)
    variables = (one for one in formula_variables(design).values() if one.alone and one.factor is None)
    return {
        name: one.column
        for one in variables
        if (name := one.column_name) not in elsewhere and name == design.names[one.column]
        if _is_plain(design.domain[name])
    }


def _is_plain(declared: object) -> bool:
    return isinstance(declared, Range) and not declared.is_binary and not declared.drops and not declared.extras


def _place_counts(design: DesignSpec, column: int, rows: Rows[Block]) -> CellCounts:
    """How a column lies within its range, of which the ends are 0 and 1."""
    low, high = float(design.lower[column]), float(design.upper[column])
    atom = round(-low / (high - low) * GRID) / GRID if low <= 0 <= high else None
    return cell_counts(rows.map(partial(_places, design, column)), 0.0, 1.0, atom=atom)


def _places(design: DesignSpec, column: int, block: Block) -> Vector:
    low, high = design.lower[column], design.upper[column]
    values = np.asarray(block.exog[:, column], dtype=np.float64) * design.scale[column] + design.center[column]
    return np.asarray(np.clip(np.rint((values - low) / (high - low) * GRID) / GRID, 0.0, 1.0))


def in_design(whole: DesignSpec, narrow: DesignSpec, block: Block) -> Block:
    """The rows that lie within the narrower ranges, in the model units of their design."""
    moved = np.flatnonzero((whole.lower != narrow.lower) | (whole.upper != narrow.upper))
    exog = np.array(block.exog, dtype=np.float64)
    inside = np.ones(len(exog), dtype=bool)
    for column in moved:
        low, high = narrow.lower[column], narrow.upper[column]
        values = exog[:, column] * whole.scale[column] + whole.center[column]
        slack = (whole.upper[column] - whole.lower[column]) / GRID
        inside &= (values >= low - slack) & (values <= high + slack)
        exog[:, column] = (np.clip(values, low, high) - narrow.center[column]) / narrow.scale[column]
    return block._replace(exog=exog).take(inside)
