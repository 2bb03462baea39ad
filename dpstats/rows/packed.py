"""Rows as they are kept between passes: the level of a factor, in a byte, in place of its dummies.

A packed block has the columns that are numbers as its `exog` and the levels beside them. What its rows are is fixed by
a public `Packing`, and whatever reads them sees whole columns: they are made in pieces that stay in a core's cache,
in the thread that works on them.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dpstats.cached import cached_property
from dpstats.rows.block import Block, Floats
from dpstats.rows.passes import Other, Result, Rows, chained

PIECE_ROWS, PIECE_CELLS, LEAST_PIECE = 4096, 2**17, 256
"""Rows are opened so many at a time, of wide designs so many cells, but at least so many rows."""


class Coded(NamedTuple):
    """Columns that are functions of one level a row.

    Attributes
    ----------
    columns : slice
        Where they stand among all columns.
    values : ndarray, shape (columns, levels)
        A column of a single level is constant: no level is kept for it.
    """

    columns: slice
    values: NDArray[np.float64]

    @property
    def constant(self) -> bool:
        """Whether there is one level only."""
        return self.values.shape[1] == 1


@dataclass(frozen=True, eq=False)
class Packing:
    """How rows are kept: public.

    Attributes
    ----------
    size : int
        p, the number of columns.
    coded : tuple of Coded
        Columns made of levels, in the order in which `Block.levels` holds these.
    numbers : ndarray of int, shape (k,)
        The other columns, increasing: those of a packed block's exog.
    """

    size: int
    coded: tuple[Coded, ...]
    numbers: NDArray[np.intp]

    def opened(self, block: Block) -> Block:
        """Rows with all of their columns, one after the other in memory."""
        return block._replace(exog=self.columns_of(block.exog, block.levels), levels=None)

    def columns_of(self, numbers: Floats, levels: NDArray[Any] | None) -> NDArray[np.float64]:
        """All columns of some rows, shape (rows, p), from their `numbers`, shape (rows, k), and their levels."""
        cells, given = np.empty((self.size, len(numbers))), numbers.T
        for columns, places in self._runs:
            cells[columns] = given[places]
        for columns, values in self._constant:
            cells[columns] = values
        if levels is not None:
            for (columns, values), own in zip(self._varying, levels.T, strict=True):
                # Levels are within the table; "clip" spares numpy a buffer that it would raise from.
                values.take(own.astype(np.intp), 1, cells[columns], "clip")
        return cells.T

    def pieces(self, blocks: Iterable[Block]) -> Iterator[Block]:
        """The rows of packed blocks with all of their columns, a piece at a time."""
        most = min(PIECE_ROWS, max(LEAST_PIECE, PIECE_CELLS // max(1, self.size)))
        for block in blocks:
            for start in range(0, max(1, len(block.endog)), most):
                yield self.opened(block.part(slice(start, start + most)))

    @cached_property
    def _runs(self) -> list[tuple[slice, slice]]:
        """Numbers that stand together, among all columns and among the numbers."""
        breaks = np.flatnonzero(np.diff(self.numbers) > 1) + 1
        ends = itertools.pairwise([0, *breaks.tolist(), len(self.numbers)])
        return [(slice(int(self.numbers[a]), int(self.numbers[b - 1]) + 1), slice(a, b)) for a, b in ends if a < b]

    @cached_property
    def _constant(self) -> list[Coded]:
        return [coded for coded in self.coded if coded.constant]

    @cached_property
    def _varying(self) -> list[Coded]:
        return [coded for coded in self.coded if not coded.constant]


class PackedRows(Rows[Block]):
    """Packed blocks, opened in every pass.

    Parameters
    ----------
    packing : Packing
    rows : Rows of Block
        Packed, wherever they are.
    """

    def __init__(self, packing: Packing, rows: Rows[Block]) -> None:
        self._packing, self._rows = packing, rows

    def total(self, part: Callable[[Iterable[Block]], Result], add: Callable[[Result, Result], Result]) -> Result:
        """`part` of the opened pieces of every shard."""
        return self._rows.total(partial(_of_pieces, self._packing, part), add)

    def added(self, part: Callable[[Iterable[Block]], Result], add: Callable[[Result, Result], Result]) -> Result:
        """As `total`; where several threads work, each opens what it works on."""
        return self._rows.added(partial(_of_pieces, self._packing, part), add)

    def through(self, change: Callable[[int, Iterable[Block]], Iterable[Other]]) -> Rows[Other]:
        """What `change` makes of the opened pieces, in every pass."""
        return self._rows.through(partial(chained, partial(_pieces, self._packing), change))

    def chosen(self, change: Callable[[int, Iterable[Block]], Iterable[Block]]) -> PackedRows:
        """The rows that `change` takes of packed blocks: packed."""
        return PackedRows(self._packing, self._rows.chosen(change))

    def held(self) -> PackedRows:
        """The same rows, kept packed."""
        return PackedRows(self._packing, self._rows.held())

    def collected(self) -> list[Block]:
        """The blocks with all of their columns, as many as there are packed ones."""
        return [self._packing.opened(block) for block in self._rows.collected()]

    @property
    def beside(self) -> Rows[Block]:
        """The packed blocks."""
        return self._rows

    @property
    def stays(self) -> bool:
        """Whether the packed blocks are in memory."""
        return self._rows.stays

    def __reduce__(self) -> Any:
        raise TypeError("rows are private and cannot be pickled")


def _of_pieces(packing: Packing, part: Callable[[Iterable[Block]], Result], blocks: Iterable[Block]) -> Result:
    return part(packing.pieces(blocks))


def _pieces(packing: Packing, _: int, blocks: Iterable[Block]) -> Iterator[Block]:
    return packing.pieces(blocks)
