"""Rows from plain arrays: clipped to the stated norms, incomplete rows dropped, nothing copied that need not be."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from dpstats.domain import as_number
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
    """`values` as a numeric array of `ndim` dimensions; judged by declared type and shape, never by cells.

    A list declares no type: its cells are read one by one, and what is not a number is missing.

    Raises
    ------
    DataError
        If the type is not real numbers (or bool) or the shape is wrong.
    """
    if isinstance(values, pd.Series | pd.DataFrame | pd.api.extensions.ExtensionArray):
        array = _from_pandas(name, pd.Series(values) if values.ndim == 1 else pd.DataFrame(values))
    elif hasattr(values, "dtype"):
        array = np.asarray(values)
    else:
        array = _from_list(name, values)
    if array.dtype.kind not in "buif":
        raise DataError(f"{name} must hold real numbers, got dtype {array.dtype}; convert it to float64")
    if array.ndim != ndim:
        raise DataError(f"{name} must have {ndim} dimension(s), got {array.ndim}")
    return array


def _from_pandas(name: str, values: pd.Series[Any] | pd.DataFrame) -> NDArray[Any]:
    """One type for all columns, by their dtypes; as an array numpy would choose it by whether a cell is missing."""
    dtypes: list[Any] = list(dict.fromkeys(values.dtypes)) if isinstance(values, pd.DataFrame) else [values.dtype]
    if len(dtypes) == 1 and isinstance(dtypes[0], np.dtype):
        return np.asarray(values)
    numeric = pd.api.types.is_numeric_dtype
    for dtype in dtypes:
        if not numeric(dtype) or pd.api.types.is_complex_dtype(dtype):
            raise DataError(f"{name} must hold real numbers, got dtype {dtype}; convert it to float64")
    with np.errstate(all="ignore"):
        return np.asarray(values.to_numpy(dtype=np.float64, na_value=np.nan))


def _from_list(name: str, values: Any) -> NDArray[np.float64]:
    """The cells as numbers, shape of the nested lists; what is none is NaN."""
    try:
        objects = np.asarray(values, dtype=object)
    except ValueError:
        raise DataError(f"{name} must be a rectangular array of numbers") from None
    return np.fromiter(map(as_number, objects.flat), np.float64, objects.size).reshape(objects.shape)


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
        with np.errstate(all="ignore"):  # a long double too large for float64 becomes infinite, without a warning
            cells, response = np.asarray(exog[rows], np.float64), np.asarray(endog[rows], np.float64)
        blocks.append(_clean(cells, family.clip_response(response), norms))
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
