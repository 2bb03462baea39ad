"""Which rows belong to a part: functions of each row alone that can be sent to other processes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from dpstats.errors import DataError
from dpstats.tables import Table
from dpstats.tables.table import Holds


def all_hold(rules: Sequence[Holds], table: Table) -> NDArray[np.bool_]:
    """Where all of the rules hold, shape (rows,)."""
    return np.logical_and.reduce([rule(table) for rule in rules])


def has_code(by: str, code_of: Mapping[float | str, int], code: int, table: Table) -> NDArray[np.bool_]:
    """Where the column `by` has the value of that code, shape (rows,)."""
    if table.count(by) != 1:
        raise DataError(f"data must have exactly one column {by!r}, which the partition goes by")
    return table.column(by).codes(code_of) == code
