"""Rows in blocks, wherever they are: what every pass over data goes through."""

from dpstats.rows.block import Block, Floats
from dpstats.rows.passes import MemoryRows, Rows, as_rows, block_rows, divided, row_count, thinned

__all__ = ["Block", "Floats", "MemoryRows", "Rows", "as_rows", "block_rows", "divided", "row_count", "thinned"]
