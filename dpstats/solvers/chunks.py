"""Rows are worked on in pieces whose arrays stay in a core's cache, whatever a block's size."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from dpstats.rows import Block

CHUNK_ROWS = 4096
"""At most so many rows are handled at once,"""

CHUNK_CELLS = 2**17
"""and of wide designs so many cells;"""

CERTIFIED_CELLS = 2**16
"""fewer where errors are bounded: rows are there three times over, with a leading part and a rest."""

LEAST_CHUNK = 256


def chunk_rows(width: int, rows: int, cells: int = CHUNK_CELLS) -> int:
    """How many rows of so many columns make a chunk of at most `rows` rows and, of wide designs, `cells` cells."""
    return min(rows, max(LEAST_CHUNK, cells // max(1, width)))


def chunks(blocks: Iterable[Block], rows: int, cells: int = CHUNK_CELLS) -> Iterator[Block]:
    """The blocks cut into such pieces."""
    for block in blocks:
        most = chunk_rows(block.exog.shape[1], rows, cells)
        if len(block.endog) <= most:
            yield block
            continue
        for start in range(0, len(block.endog), most):
            yield block.part(slice(start, start + most))
