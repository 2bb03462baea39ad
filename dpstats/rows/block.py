"""Some rows in model units."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[Any]
"""Of float64, or of float32 where the caller's arrays are."""


class Block(NamedTuple):
    """Complete rows in model units: what a mechanism sees of the data.

    Attributes
    ----------
    exog : ndarray, shape (rows, p)
    endog : ndarray, shape (rows,)
    weights : ndarray, shape (rows,), or None
        Within [0, 1]; None where every row has weight 1.
    offset : ndarray, shape (rows,), or None
        Added to x'theta; None where it is 0.
    person : ndarray of int, shape (rows,), or None
        A number for the person that a row is of, from 0 on without gaps in its shard; None where every row is by
        itself.
    levels : ndarray of unsigned integers, shape (rows, k), or None
        In place of columns that exog lacks; see `dpstats.rows.packed`. None in all that mechanisms see.
    """

    exog: Floats
    endog: Floats
    weights: Floats | None = None
    offset: Floats | None = None
    person: NDArray[np.intp] | None = None
    levels: NDArray[Any] | None = None

    def part(self, rows: slice) -> Block:
        """Consecutive rows, without a copy."""
        return self._each(rows, self.exog[rows])

    def take(self, rows: NDArray[np.bool_] | NDArray[np.intp]) -> Block:
        """The rows chosen, one after the other in memory, or one column after the other as before."""
        by_columns = self.exog.flags.fnc
        exog = np.ascontiguousarray(self.exog.T[:, rows]).T if by_columns else np.ascontiguousarray(self.exog[rows])
        return self._each(rows, exog)

    def columns(self, kept: NDArray[np.intp]) -> Block:
        """Some columns, C-contiguous."""
        return self._replace(exog=np.ascontiguousarray(self.exog[:, kept]))

    def apart(self) -> Block:
        """The rows without what their arrays are parts of, which they would keep in memory."""
        return Block(*(None if cells is None else _apart(cells) for cells in self))  # type: ignore[arg-type]

    def doubles(self) -> Block:
        """In double precision."""
        floats = (None if cells is None else np.asarray(cells, dtype=np.float64) for cells in self[:4])
        return Block(*floats)._replace(person=self.person, levels=self.levels)  # type: ignore[arg-type]

    def _each(self, rows: slice | NDArray[np.bool_] | NDArray[np.intp], exog: Floats) -> Block:
        return Block(exog, *(None if cells is None else cells[rows] for cells in self[1:]))  # type: ignore[arg-type]


def joined(blocks: Sequence[Block]) -> Block:
    """Blocks of one kind, one after the other."""
    return Block(*(None if cells[0] is None else np.concatenate(cells) for cells in zip(*blocks, strict=True)))  # type: ignore[arg-type]


def _apart(cells: Floats) -> Floats:
    return cells if getattr(cells.base, "nbytes", 0) <= cells.nbytes else cells.copy("K")
