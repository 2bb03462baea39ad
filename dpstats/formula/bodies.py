"""The small body that holds a term's part of every row, for noise cut to the design (docs/proofs/bodies, 5).

A body is found by measuring a term on public rows. Privacy does not rest on what was found: every row is moved into
its bodies (`DesignSpec.blocks`), so that a wrong one costs accuracy alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from dpstats.formula.bounds import FactorBounds
from dpstats.privacy.bodies import Block, Image, ball, box, cross, intercept, simplex

Array = NDArray[np.float64]

FLAT = 1e-6
"""Columns that are zero in every row get so small a share of a unit column's noise: the law needs a density there."""

LARGEST_CONDITION = 1e3
"""Coding matrices of larger condition would magnify the rounding of rows beyond what the row bound allows for."""

ROUNDING = 1e-9
"""Sums measured on public rows may exceed 1 by so much without being taken for larger."""


@dataclass(frozen=True, eq=False)
class Body:
    """The body of some columns of the design.

    Attributes
    ----------
    columns : slice
    image : Image
        The block, and its map to the columns in model units.
    scales : ndarray, shape (k,), or None
        What the columns in model units are divided by to be the block's coordinates. None where no row can leave the
        body: columns that code levels are rows of a public matrix, and a single column is clipped to its range.
    """

    columns: slice
    image: Image
    scales: Array | None


def term_bodies(
    parts: Sequence[tuple[slice, FactorBounds]], reach: Array, scale: Array, constant: int | None
) -> tuple[Body, ...]:
    """A body for each subterm, in model units.

    Parameters
    ----------
    parts : sequence of (columns, bounds)
        The subterms in the order of their columns; bounds in the user's units.
    reach, scale : ndarray, shape (p,)
        Largest absolute value of each centred column in the user's units, and its divisor: a column of an unclipped
        row in model units is at most reach / scale.
    constant : int or None
        Position of the intercept.
    """
    bodies: list[Body] = []
    shift = np.zeros(len(scale))
    homogenised = constant is not None
    for columns, bounds in parts:
        if constant is not None and columns.start == constant:
            continue
        coded = _coded(bounds, scale[columns], homogenised)
        if coded is None:
            bodies.append(_measured(columns, bounds, reach[columns], scale[columns]))
            continue
        block, matrix, offset = coded
        homogenised = homogenised or bool(offset.any())
        shift[columns] = offset
        bodies.append(Body(columns, Image(block, tuple(range(columns.start, columns.stop)), matrix), None))
    if not homogenised:
        return tuple(bodies)
    if constant is not None:
        shift[constant] = 1 / scale[constant]
    reached = np.flatnonzero(shift)
    image = Image(intercept(), tuple(reached.tolist()), shift[None, reached])
    return (Body(slice(0, 0), image, None), *bodies)


def _coded(bounds: FactorBounds, scale: Array, homogenised: bool) -> tuple[Block, Array, Array] | None:
    """Block, map and constant row of columns that code levels only; None where the measured body serves.

    A row is one of the rows of the coding matrix L: d L for d with a single 1. Rows of zeros need no coordinate. If
    there are none, d adds up to 1, the row of the first combination of levels is constant, and the others' coordinates
    are the dummies of their differences from it: it joins the intercept, or stands for one.
    """
    if not bounds.codes or (bounds.positive and bounds.total <= 1 + ROUNDING and bounds.vanishes):
        return None
    matrix = np.ones((1, 1))
    for code in bounds.codes:
        matrix = np.asarray(np.kron(code, matrix), dtype=np.float64)
    matrix = matrix / scale
    kept = matrix[np.any(matrix != 0, axis=1)]
    if len(kept) < len(matrix) and _well_conditioned(kept * scale):
        return simplex(len(kept)), kept, np.zeros(len(scale))
    # Without an intercept the first such term gives one.
    if len(kept) == 1 or not _well_conditioned(kept * scale):
        return None
    differences = kept[1:] - kept[0]
    if not _well_conditioned(differences * scale, 0 if homogenised else 1):
        return simplex(len(kept)), kept, np.zeros(len(scale))
    return simplex(len(differences)), differences, kept[0]


def _well_conditioned(matrix: Array, missing: int = 0) -> bool:
    """Whether a coding matrix has full column rank, up to `missing`, with room for rounding."""
    values = np.linalg.svd(matrix, compute_uv=False)
    rank = matrix.shape[1] - missing
    return len(values) >= rank and bool(values[rank - 1] * LARGEST_CONDITION >= values[0])


def _measured(columns: slice, bounds: FactorBounds, reach: Array, scale: Array) -> Body:
    """The least of box, ball, cross and simplex around what was measured."""
    size = columns.stop - columns.start
    unit = np.where(reach > 0, reach, FLAT * scale * float(np.min(1 / scale))) / scale
    if size == 1:
        # A dummy beside an intercept has no negative twin; a numeric column is centred.
        block = simplex(1) if bounds.codes is not None and bounds.positive else box(1)
        return replace(_diagonal(columns, block, unit), scales=None)
    raw = np.where(reach > 0, bounds.total / scale, unit)
    in_sum = simplex(size) if bounds.positive else cross(size)
    candidates = [
        _diagonal(columns, in_sum, raw),
        _diagonal(columns, in_sum, unit * (bounds.l1 or 1.0)),
        _diagonal(columns, box(size), unit),
        _diagonal(columns, ball(size), unit * (bounds.l2 or 1.0)),
    ]
    best = min(candidates, key=_energy)
    return best if bounds.codes is None else replace(best, scales=None)


def _energy(body: Body) -> float:
    """E||b||^2 of noise for this block alone, up to the scale."""
    size = body.image.block.size
    return (size + 1) * (size + 2) * body.image.block.variance * body.image.trace


def _diagonal(columns: slice, block: Block, scales: Array) -> Body:
    return Body(columns, Image(block, tuple(range(columns.start, columns.stop)), scales), scales)


def restricted(images: Sequence[Image], kept: NDArray[np.intp]) -> tuple[Image, ...]:
    """The images of the columns `kept`, renumbered; blocks that reach none of them are dropped.

    A row without its other columns is the image of the same point of the block, and a coordinate whose row of the map
    has become zero may be dropped: box, simplex, cross and ball hold their own sections.
    """
    place = {int(column): position for position, column in enumerate(kept)}
    left = []
    for image in images:
        inside = [index for index, column in enumerate(image.columns) if column in place]
        if not inside:
            continue
        matrix = image.matrix[:, inside]
        rows = np.any(matrix != 0, axis=1)
        if not rows.any():
            continue
        columns = tuple(place[image.columns[index]] for index in inside)
        block = image.block if image.block.kind == "intercept" else replace(image.block, size=int(rows.sum()))
        left.append(Image(block, columns, matrix[rows]))
    return tuple(left)
