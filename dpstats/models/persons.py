"""Rows and values of persons: shared weights or a draw, from a table whose column tells persons apart.

What is read here is private; docs/proofs/persons says what a person may add to it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

import numpy as np
from numpy.typing import NDArray

from dpstats.data import Block, MemoryRows, PackedRows, Rows, Table
from dpstats.data.columns import usable_kind
from dpstats.data.persons import OwnedRows, draw_block, draw_rows, draw_values, shared_weights
from dpstats.errors import ArgumentError
from dpstats.formula.design import DesignSpec
from dpstats.privacy.guarantee import Unit
from dpstats.privacy.randomness import RandomSource, secret_key

Values = NDArray[np.float64]
Read = Callable[[Table], Values]


def check_unit(table: Table, record: Unit) -> None:
    """Raise unless one column of numbers or text tells persons apart, by the schema alone.

    ArgumentError if every pass works the rows out again, in this process, where they are not kept.
    """
    if record.column is None:
        return
    usable_kind(record.column, table.column(record.column))
    if table.reworked:
        raise ArgumentError(
            "unit needs a cluster for a Dask frame, where the rows of a person are brought together: from distributed "
            "import Client; client = Client(), or its address. Or write the frame to Parquet and pass the path"
        )


def person_rows(design: DesignSpec, table: Table, record: Unit, random: RandomSource) -> PackedRows:
    """The rows of a fit: those of a person share a weight of 1, or are few enough. Reads rows: charge first."""
    if record.column is None or not record.shared:
        return counted_rows(design, table, record, random)
    return PackedRows(design.packing, shared_weights(_kept(design.owned(table, record.column))))


def counted_rows(design: DesignSpec, table: Table, record: Unit, random: RandomSource) -> PackedRows:
    """Complete rows to be counted: all, or as many of a person as may be counted. Reads rows: charge first."""
    if record.column is None:
        return design.rows(table)
    rows = _kept(design.owned(table, record.column))
    return PackedRows(design.packing, draw_rows(rows, record.rows, secret_key(random), draw_block))


def counted_values(table: Table, read: Read, names: Sequence[str], record: Unit, random: RandomSource) -> Rows[Values]:
    """Finite values to be counted, as many of a person as may be counted. Reads rows: charge first.

    `read` gives a value of each row from a table with the columns `names`; it must be picklable.
    """
    if record.column is None:
        return table.batches(names).map(read)
    rows = table.batches([*names, record.column]).map(partial(_owned_values, read, record.column))
    return draw_rows(rows, record.rows, secret_key(random), draw_values)


def counted_tables(table: Table, names: Sequence[str], record: Unit, random: RandomSource) -> Rows[Table]:
    """Rows to be counted whatever their cells are, as many of a person as may be. Reads rows: charge first."""
    if record.column is None:
        return table.batches(names)
    rows = table.batches([*names, record.column]).map(partial(_owned_table, record.column))
    return draw_rows(rows, record.rows, secret_key(random), _chosen)


def _kept(rows: Rows[OwnedRows[Block]]) -> Rows[OwnedRows[Block]]:
    """Worked out once, where rows are in memory anyway: there are two passes to come."""
    return rows.persist() if isinstance(rows, MemoryRows) else rows


def _owned_values(read: Read, column: str, table: Table) -> OwnedRows[Values]:
    values = read(table)
    known = np.isfinite(values)
    return OwnedRows(values[known], table.column(column).identities()[known])


def _owned_table(column: str, table: Table) -> OwnedRows[Table]:
    return OwnedRows(table, table.column(column).identities())


def _chosen(table: Table, persons: NDArray[np.intp], chosen: NDArray[np.bool_]) -> Table:
    return table.select(chosen, int(np.count_nonzero(chosen)))
