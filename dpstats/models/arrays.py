"""Rows from plain arrays: clipped to the stated norms, incomplete rows dropped, nothing copied that need not be."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpstats.errors import DataError
from dpstats.families import Family
from dpstats.mechanisms.design import NormName
from dpstats.solvers.objective import Block

BLOCK_ROWS = 8192
"""Rows of a block: it is copied as soon as one of them must change."""

LONGEST = 1e150
"""Rows longer than this count as not finite: their squares overflow and shortening them would lose all digits."""

INSIDE = 1 - 2.0**-48
"""Shortened rows end this much inside the bound, so that rounding cannot put them outside."""


def check_array(name: str, values: Any, ndim: int) -> NDArray[Any]:
    """`values` as a numeric array of `ndim` dimensions; judged by type and shape, never by cells.

    Raises
    ------
    DataError
        If the type is not real numbers (or bool) or the shape is wrong.
    """
    try:
        array = np.asarray(values)
    except ValueError:
        raise DataError(f"{name} must be a rectangular array of numbers") from None
    if array.dtype.kind not in "buif":
        raise DataError(f"{name} must hold real numbers, got dtype {array.dtype}; convert it to float64")
    if array.ndim != ndim:
        raise DataError(f"{name} must have {ndim} dimension(s), got {array.ndim}")
    return array


def array_blocks(
    endog: NDArray[Any], exog: NDArray[Any], family: Family, norms: Mapping[NormName, float]
) -> list[Block]:
    """Blocks of complete rows within the bounds; views of the arrays wherever nothing had to change.

    Parameters
    ----------
    endog : ndarray, shape (rows,)
    exog : ndarray, shape (rows, p)
    family : Family
        Its `clip_response` maps the responses to its domain.
    norms : dict
        Bounds on the rows' l1, l2 and linf norms; longer rows are shortened to them.
    """
    blocks = []
    for start in range(0, len(endog), BLOCK_ROWS):
        rows = slice(start, start + BLOCK_ROWS)
        response = family.clip_response(np.asarray(endog[rows], dtype=np.float64))
        blocks.append(_clean(np.asarray(exog[rows], dtype=np.float64), response, norms))
    return blocks


def _clean(exog: NDArray[np.float64], response: NDArray[Any], norms: Mapping[NormName, float]) -> Block:
    """Drop rows that are not finite, shorten those that are too long."""
    with np.errstate(over="ignore", invalid="ignore"):
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
    return exog, response


def _length(exog: NDArray[np.float64], norm: NormName) -> NDArray[np.float64]:
    """The norm of each row, shape (rows,)."""
    if norm == "l2":
        return np.sqrt(np.einsum("ij,ij->i", exog, exog))
    size = np.abs(exog)
    return np.sum(size, axis=1) if norm == "l1" else np.max(size, axis=1, initial=0.0)
