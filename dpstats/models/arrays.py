"""Rows from plain arrays: clipped to the stated norms, incomplete rows dropped, nothing copied that need not be."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpstats.arguments import shown
from dpstats.errors import ArgumentError, DataError
from dpstats.families import Family
from dpstats.mechanisms.design import NormName
from dpstats.privacy.calibration import check_positive
from dpstats.quiet import quiet
from dpstats.rows import Block, Floats, MemoryRows
from dpstats.rows.threads import of_each, runs_of
from dpstats.tables import Column, Matrix, as_endog, slices

BLOCK_ROWS = 8192
"""Rows of a block: it is copied as soon as one of them must change."""

LONGEST = 1e150
"""Rows longer than this count as not finite: their squares overflow and shortening them would lose all digits."""

OFFSET_BOUND = 100.0
"""Offsets of arrays are clipped to this size unless another is stated."""

ROUNDINGS = 16
"""More than the roundings of a row's length, of the factor that shortens it, and of its product with a cell, beside
one for each column of the sum."""

CLEARLY = 1 - 1e-9
"""Sums of squares in any order agree far better than this."""


@dataclass(frozen=True)
class ArrayBeside:
    """What belongs to the rows of plain arrays beside their columns.

    Attributes
    ----------
    weights, offset : Column or None
    weight_bound, offset_bound : float
        Weights beyond it count as much, and are divided by it; offsets are clipped to it on either side.
    """

    weights: Column | None = None
    offset: Column | None = None
    weight_bound: float = 1.0
    offset_bound: float = OFFSET_BOUND

    def of(self, rows: slice) -> tuple[Floats | None, Floats | None]:
        """Weights within [0, 1] and offsets of some rows, NaN where a row has none or must not count."""
        weights = offset = None
        if self.weights is not None:
            given = _finite(self.weights.select(rows).numbers())
            weights = np.where(given > 0, np.minimum(given, self.weight_bound) / self.weight_bound, np.nan)
        if self.offset is not None:
            offset = np.clip(_finite(self.offset.select(rows).numbers()), -self.offset_bound, self.offset_bound)
        return weights, offset


def array_beside(weights: Any, offset: Any, weight_bound: float, offset_bound: float, rows: int) -> ArrayBeside:
    """Weights and offsets of arrays with their public bounds, checked.

    Raises
    ------
    DataError
        If one is no vector of numbers, or has not one for each of `rows` rows.
    ArgumentError
        If a bound is no number from 1e-50 to 1e50.
    """
    for name, bound in (("weight_bound", weight_bound), ("offset_bound", offset_bound)):
        if not 1e-50 <= check_positive(name, bound) <= 1e50:
            raise ArgumentError(f"{name} must be a number from 1e-50 to 1e50, got {shown(bound)}")
    columns = (_beside_column("weights", weights, rows), _beside_column("offset", offset, rows))
    return ArrayBeside(*columns, float(weight_bound), float(offset_bound))


def _beside_column(name: str, given: Any, rows: int) -> Column | None:
    column = None if given is None else as_endog(given, name)
    if column is not None and len(column) != rows:
        raise DataError(f"{name} must have one number for each row of exog")
    return column


def array_blocks(
    endog: Column,
    exog: Matrix,
    family: Family,
    norms: Mapping[NormName, float],
    beside: ArrayBeside | None = None,
) -> MemoryRows[Block]:
    """Blocks of complete rows within the bounds; views of the arrays wherever nothing had to change.

    Parameters
    ----------
    endog : Column, n rows
    exog : Matrix, n rows
    family : Family
        Its `clip_response` maps the responses to its domain.
    norms : dict
        Bounds on the rows' l1, l2 and linf norms; longer rows are shortened to them.
    beside : ArrayBeside, optional
        Weights and offsets; none by default.
    """
    more = ArrayBeside() if beside is None else beside
    blocks = partial(_blocks, endog, exog, family, norms, more)
    with quiet():
        return MemoryRows(list(chain.from_iterable(of_each(blocks, runs_of(list(slices(exog.rows, BLOCK_ROWS)))))))


def _blocks(
    endog: Column,
    exog: Matrix,
    family: Family,
    norms: Mapping[NormName, float],
    beside: ArrayBeside,
    pieces: Sequence[slice],
) -> list[Block]:
    """One block for each piece of the rows."""
    return [_block(endog, exog, family, norms, beside, rows) for rows in pieces]


def _block(
    endog: Column,
    exog: Matrix,
    family: Family,
    norms: Mapping[NormName, float],
    beside: ArrayBeside,
    rows: slice,
) -> Block:
    """The complete rows among some."""
    response = family.clip_response(_finite(endog.select(rows).numbers()))
    return _clean(Block(exog.block(rows), response, *beside.of(rows)), norms)


def _finite(response: NDArray[np.float64]) -> NDArray[np.float64]:
    """The responses, NaN where they are infinite: a family would clip them to its largest."""
    finite = np.isfinite(response)
    return response if finite.all() else np.where(finite, response, np.nan)


def _clean(block: Block, norms: Mapping[NormName, float]) -> Block:
    """Drop rows that are not finite, shorten those that are too long."""
    numbers = [cells for cells in (block.endog, block.weights, block.offset) if cells is not None]
    complete = np.logical_and.reduce([np.isfinite(cells) for cells in numbers])
    exog = np.asarray(block.exog)
    unclear = np.flatnonzero(~_clearly_inside(exog, norms))
    shorter, factor = _shortened(exog[unclear], norms)
    complete[unclear] &= np.isfinite(factor)
    if shorter.size:
        exog = np.array(exog, dtype=np.result_type(exog, factor))
        exog[unclear[shorter]] *= factor[shorter, None]
        block = block._replace(exog=exog)
    return block if complete.all() else block.take(complete)


def _shortened(exog: Floats, norms: Mapping[NormName, float]) -> tuple[NDArray[np.intp], NDArray[np.float64]]:
    """Which rows are too long, and what each must be multiplied by, shape (rows,): NaN for one that is not finite."""
    factor = np.ones(len(exog))
    for name, bound in norms.items():
        length, most = _length(exog, name), inside(name, exog.shape[1]) * bound
        # The greatest of some sizes is not rounded: rows of a linf norm at the bound stay as they are.
        long = length > (bound if name == "linf" else most)
        needed = np.where(long, most / np.maximum(length, most), 1.0)
        factor = np.minimum(factor, np.where(length < LONGEST, needed, np.nan))
    return np.flatnonzero(factor < 1), factor


def inside(norm: NormName, columns: int) -> float:
    """The share of a bound that a row's computed norm may reach, so that the exact norm stays within the bound.

    A sum of p squares or sizes is computed to p roundings of 2^-53, and the greatest of them exactly. What is left
    holds for the shortened row, whose factor and cells are rounded once more (docs/proofs/design).
    """
    return 1 - (ROUNDINGS + (0 if norm == "linf" else columns)) * 2.0**-53


def _clearly_inside(exog: Floats, norms: Mapping[NormName, float]) -> NDArray[np.bool_]:
    """Which rows are finite and so far below their bounds that no order of a sum could tell otherwise: (rows,)."""
    sizes = {
        "l2": lambda: np.sqrt(np.einsum("ij,ij->i", exog, exog)),
        "l1": lambda: np.abs(exog).sum(axis=1),
        "linf": lambda: np.abs(exog).max(axis=1),
    }
    return np.logical_and.reduce([sizes[name]() <= CLEARLY * min(bound, LONGEST) for name, bound in norms.items()])


def _length(exog: NDArray[np.float64], norm: NormName) -> NDArray[np.float64]:
    """The norm of each row, shape (rows,)."""
    total = np.zeros(len(exog))
    # Column by column: a sum along rows is rounded in another order where there are few of them.
    for column in exog.T:
        if norm == "l2":
            total += column * column
        elif norm == "l1":
            total += np.abs(column)
        else:
            total = np.maximum(total, np.abs(column))
    return np.sqrt(total) if norm == "l2" else total
