"""The sum of w l' x over rows, all parts of it but the smallest without rounding (docs/proofs/release)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from dpstats.families.base import Family
from dpstats.rows import Block
from dpstats.solvers import pairs
from dpstats.solvers.chunks import CERTIFIED_CELLS, chunk_rows, chunks
from dpstats.solvers.pairs import Array, Pair
from dpstats.solvers.rounding import CERTIFIED_ROWS, SPLIT_BITS, Precision, Split, split

Sums = tuple[Pair, float]
"""The parts of the sum of w l' x, shape (parts, p), and the sum of w |l'|."""


def certified_sums(
    family: Family,
    precision: Precision,
    widest: type[np.floating],
    bounds: tuple[float, float],
    theta: Pair,
    blocks: Iterable[Block],
) -> Sums:
    """What some rows add; `bounds` are those on l' and on the rows, theta has shape (p,)."""
    point, width = precision.point(theta), len(theta.high)
    total, absolute = pairs.single(np.zeros((precision.sums, width)), widest), 0.0
    inside, rows, room = np.zeros(total.high.shape), 0, None
    for block in chunks(blocks, CERTIFIED_ROWS, CERTIFIED_CELLS):
        if rows + len(block.endog) > CERTIFIED_ROWS:
            total, inside, rows = pairs.plus(total, inside), np.zeros_like(inside), 0
        exog = np.asarray(block.exog, dtype=np.float64)
        room = room or _room(exog)
        cells = split(exog, bounds[1], SPLIT_BITS, room)
        slope = precision.slope(family, cells, point, block)
        _add(inside, slope, cells, precision, bounds)
        absolute, rows = absolute + float(np.sum(np.abs(slope.high))), rows + len(block.endog)
    return pairs.plus(total, inside), absolute


def plus_certified(one: Sums, other: Sums) -> Sums:
    """What more rows add."""
    return pairs.add(one[0], other[0]), one[1] + other[1]


def _add(
    inside: NDArray[np.float64], slope: Pair, rows: Split, precision: Precision, bounds: tuple[float, float]
) -> None:
    """Add the sums of l' x over some rows, shape (parts, p): all parts but the last without rounding.

    So they are over all chunks together, as long as these have at most `CERTIFIED_ROWS` rows.
    """
    weights = split(slope.high, bounds[0], SPLIT_BITS)
    inside[0] += np.dot(weights.leading, rows.leading)
    if precision.sums == 2:
        inside[1] += np.dot(weights.leading, rows.rest)
        inside[1] += np.dot(weights.rest.astype(np.float64, copy=False), rows.whole)
        return
    finer = split(weights.rest, bounds[0] * 2.0**-SPLIT_BITS, SPLIT_BITS)
    cells = split(rows.rest, bounds[1] * 2.0**-SPLIT_BITS, SPLIT_BITS)
    inside[1] += np.dot(weights.leading, cells.leading)
    inside[2] += np.dot(finer.leading, rows.leading)
    inside[3] += np.dot(weights.leading, cells.rest) + np.dot(finer.leading, rows.rest)
    inside[3] += np.dot((finer.rest + slope.low).astype(np.float64), rows.whole)


def _room(exog: Array) -> tuple[Array, Array]:
    """For the parts of the rows of a chunk, used again and again: it stays in the cache, laid out as the rows are."""
    shape = chunk_rows(exog.shape[1], CERTIFIED_ROWS, CERTIFIED_CELLS), exog.shape[1]
    order: Literal["C", "F"] = "F" if exog.strides[0] < exog.strides[1] else "C"
    return np.empty(shape, order=order), np.empty(shape, order=order)
