"""Rows from plain arrays: clipped to the stated norms, incomplete rows dropped, nothing copied that need not be."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpstats.families import Family
from dpstats.mechanisms.design import NormName
from dpstats.quiet import quiet
from dpstats.rows import Block, MemoryRows
from dpstats.tables import Column, Matrix, slices

BLOCK_ROWS = 8192
"""Rows of a block: it is copied as soon as one of them must change."""

LONGEST = 1e150
"""Rows longer than this count as not finite: their squares overflow and shortening them would lose all digits."""

INSIDE = 1 - 2.0**-48
"""Shortened rows end this much inside the bound, so that rounding cannot put them outside."""

CLEARLY = 1 - 1e-9
"""Sums of squares in any order agree far better than this."""


def array_blocks(endog: Column, exog: Matrix, family: Family, norms: Mapping[NormName, float]) -> MemoryRows[Block]:
    """Blocks of complete rows within the bounds; views of the arrays wherever nothing had to change.

    Parameters
    ----------
    endog : Column, n rows
    exog : Matrix, n rows
    family : Family
        Its `clip_response` maps the responses to its domain.
    norms : dict
        Bounds on the rows' l1, l2 and linf norms; longer rows are shortened to them.
    """
    with quiet():
        return MemoryRows(
            [
                _clean(exog.block(rows), family.clip_response(_finite(endog.select(rows).numbers())), norms)
                for rows in slices(exog.rows, BLOCK_ROWS)
            ]
        )


def _finite(response: NDArray[np.float64]) -> NDArray[np.float64]:
    """The responses, NaN where they are infinite: a family would clip them to its largest."""
    return np.where(np.isfinite(response), response, np.nan)


def _clean(exog: NDArray[np.float64], response: NDArray[Any], norms: Mapping[NormName, float]) -> Block:
    """Drop rows that are not finite, shorten those that are too long."""
    if np.isfinite(response).all() and _clearly_inside(exog, norms):
        return Block(exog, response)
    lengths = {name: _length(exog, name) for name in norms}
    complete = np.isfinite(response)
    factor = np.ones(len(exog))
    for name, bound in norms.items():
        complete &= lengths[name] < LONGEST
        needed = np.where(lengths[name] > bound, INSIDE * bound / np.maximum(lengths[name], bound), 1.0)
        factor = np.minimum(factor, needed)
    if not complete.all():
        exog, response, factor = exog[complete], response[complete], factor[complete]
    if (factor < 1).any():
        exog = exog * factor[:, None]
    return Block(exog, response)


def _clearly_inside(exog: NDArray[np.float64], norms: Mapping[NormName, float]) -> bool:
    """Whether every row is finite and so far below its bounds that no order of a sum could tell otherwise."""
    sizes = {
        "l2": lambda: np.sqrt(np.einsum("ij,ij->i", exog, exog)),
        "l1": lambda: np.abs(exog).sum(axis=1),
        "linf": lambda: np.abs(exog).max(axis=1),
    }
    return all(bool((sizes[name]() <= CLEARLY * min(bound, LONGEST)).all()) for name, bound in norms.items())


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
