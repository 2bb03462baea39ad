"""Rows, wherever they are: containers become tables, tables blocks in model units, and passes go over these."""

from dpstats.data.columns import Column
from dpstats.data.ingest import Matrix, as_endog, as_exog, as_table
from dpstats.data.passes import (
    Block,
    CodedColumns,
    Floats,
    MemoryRows,
    PackedRows,
    RowPacking,
    Rows,
    as_rows,
    block_rows,
    divide,
    partition,
    row_count,
    thin,
)
from dpstats.data.spool import Memory, ReadRows
from dpstats.data.table import Table, slices

__all__ = [
    "Block",
    "CodedColumns",
    "Column",
    "Floats",
    "Matrix",
    "Memory",
    "MemoryRows",
    "PackedRows",
    "ReadRows",
    "RowPacking",
    "Rows",
    "Table",
    "as_endog",
    "as_exog",
    "as_rows",
    "as_table",
    "block_rows",
    "divide",
    "partition",
    "row_count",
    "slices",
    "thin",
]
