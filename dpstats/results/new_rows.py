"""Rows that a result predicts, as a model's columns and offsets."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from dpstats.arguments import is_number
from dpstats.errors import ArgumentError, DataError
from dpstats.formula.design import DesignSpec
from dpstats.formula.parse import parse
from dpstats.mechanisms.design import PublicDesign
from dpstats.tables import Table, as_endog, as_exog

Vector = NDArray[np.float64]


class NewRows(NamedTuple):
    """Rows for prediction: in model units, which are complete, their labels, and what is added to x'theta."""

    exog: Vector
    complete: NDArray[np.bool_]
    labels: pd.Index | None
    offset: Vector


def _array_rows(design: PublicDesign, newdata: Any, offset: Any) -> NewRows:
    """Rows for prediction of a model of plain arrays."""
    matrix = as_exog(newdata)
    if matrix.size != len(design.names):
        raise DataError(f"newdata must have {len(design.names)} columns, got {matrix.size}")
    if offset is None and design.offset_bound > 0:
        raise ArgumentError("offset must be given, as the model was fitted with one: offset=0 leaves it out")
    rows = matrix.block(slice(0, matrix.rows))
    own = as_offset(0.0 if offset is None else offset, len(rows))
    return NewRows(rows, np.isfinite(rows).all(axis=1) & np.isfinite(own), pd.RangeIndex(len(rows)), own)


def missing_offset(design: DesignSpec, table: Table) -> str | None:
    """A column that the offset alone reads and a table lacks, if there is one."""
    parsed = parse(design.formula)
    beside = [name for name in parsed.predicting_columns if name not in parsed.exog_columns]
    return next((name for name in beside if not table.count(name)), None)


def with_exposure(link: str, offset: Any, exposure: Any) -> Any:
    """The offset that an exposure stands for, beside another one if there is one.

    Raises
    ------
    ArgumentError
        If the link is no logarithm, or an exposure is not positive.
    """
    if exposure is None:
        return offset
    if link != "log":
        raise ArgumentError(f"exposure needs a log link, and this one's is {link!r}; offset= goes with any")
    try:
        given = np.asarray(exposure, dtype=np.float64)
    except (TypeError, ValueError):
        given = np.zeros(1)
    if not (given > 0).all():
        raise ArgumentError("exposure must be a positive number, or one for each row; its logarithm is added")
    return np.log(given)[()] + (0.0 if offset is None else np.asarray(offset, dtype=np.float64))


def as_offset(offset: Any, rows: int) -> Vector:
    """A number, or one for each of some rows, shape (rows,).

    Raises
    ------
    ArgumentError, DataError
        If it is neither.
    """
    if is_number(offset):
        return np.full(rows, float(offset))
    column = as_endog(offset, "offset")
    if len(column) != rows:
        raise ArgumentError(f"offset must be a number or have one for each of the {rows} rows, got {len(column)}")
    return column.numbers()
