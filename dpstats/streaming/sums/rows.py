"""Rows as integers: what one row adds to a tick does not depend on the others, and is never too long."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from dpstats.errors import DataError

Float = NDArray[np.float64]

_BELOW = 1 - 2.0**-30  # stands above the rounding of the steps before truncation, for a million numbers

_BLOCK = 4096

_ADD: dict[str, Callable[[Float, Float], Float]] = {
    "l1": lambda total, size: total + size,
    "l2": lambda total, size: total + size**2,
    "linf": np.maximum,
}


def lattice_total(rows: NDArray[np.floating], size: int, norm: str, longest: float, step: float) -> NDArray[np.object_]:
    """Sum of rows in whole steps: each is shortened to `longest` in the norm and truncated towards 0.

    Parameters
    ----------
    rows : ndarray, shape (n, size)
        A row with an entry that is not finite counts as zero.
    size : int
    norm : {"l1", "l2", "linf"}
    longest, step : float
        `longest` / `step` is at most 2**50.

    Returns
    -------
    ndarray of Python integers, shape (size,)

    Raises
    ------
    DataError
        If the shape is another or the entries are not floating-point numbers.
    """
    array = np.asarray(rows)
    if array.ndim != 2 or array.shape[1] != size or not np.issubdtype(array.dtype, np.floating):
        raise DataError(f"rows must be floating-point numbers of shape (n, {size})")
    total = np.full(size, 0, dtype=object)
    for start in range(0, len(array), _BLOCK):
        whole = _whole(array[start : start + _BLOCK].astype(np.float64), norm, longest, step)
        # 4,096 rows of at most 2**50 each fit 64 bits.
        total = total + whole.sum(axis=0).astype(object)
    return total


def _whole(block: NDArray[np.float64], norm: str, longest: float, step: float) -> NDArray[np.int64]:
    """Each row as integers, shape (n, size)."""
    with np.errstate(all="ignore"):
        finite = np.asarray(np.isfinite(block).all(axis=1))
        block = np.where(finite.reshape(-1, 1), block, 0.0)
        largest = np.maximum(np.abs(block).max(axis=1), 1e-300)
        unit = block / largest[:, None]
        length = np.zeros(len(block))
        for column in np.abs(unit).T:  # column by column: the order of the sum does not depend on the block
            length = _ADD[norm](length, column)
        length = np.sqrt(length) if norm == "l2" else length
        short = largest * length <= longest
        kept = np.where(short.reshape(-1, 1), block, unit * (longest / np.maximum(length, 1.0))[:, None])
        return np.trunc(kept * (_BELOW / step)).astype(np.int64)
