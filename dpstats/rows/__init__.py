"""Rows in blocks, wherever they are: what every pass over data goes through."""

from dpstats.rows.block import Block, Floats
from dpstats.rows.memory import Memory
from dpstats.rows.packed import Coded, PackedRows, Packing
from dpstats.rows.passes import MemoryRows, Rows, as_rows, block_rows, divided, parted, row_count, thinned
from dpstats.rows.reading import ReadRows

__all__ = [
    "Block",
    "Coded",
    "Floats",
    "Memory",
    "MemoryRows",
    "PackedRows",
    "Packing",
    "ReadRows",
    "Rows",
    "as_rows",
    "block_rows",
    "divided",
    "parted",
    "row_count",
    "thinned",
]
