"""Public bounds on the terms of a design, and the suprema that follow from them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from dpstats.arguments import safe_repr
from dpstats.errors import ArgumentError
from dpstats.formula.transforms import Norms
from dpstats.privacy.k_norm import ConvexBody, Image, ball, box, cross, intercept, simplex

Array = NDArray[np.float64]

LARGEST = 1e100
"""Columns must stay below this, so that scaling them cannot overflow."""

LEAST = 1e-290
"""Columns that vary must reach this far from their centre: subnormal numbers are rounded by more than any margin."""

MARGIN = 1e-3
"""A smooth basis may rise a little between grid points; bounds measured on a grid are widened by this share."""

NEGLIGIBLE = 1e-12
"""Values this share below zero are zeros that were rounded."""

LEAST_FINITE = 0.01
"""A factor must be finite on a greater share of the public rows: on fewer its bounds would be those of a corner."""


@dataclass(frozen=True, eq=False)
class Term:
    """One term of the design in model units: where it stands and how large it can be in any row."""

    name: str
    columns: slice  # the term's k columns of the design
    maxima: Array  # (k,), bounds on the absolute value of each column
    l2: float  # bounds on the Euclidean norm and (l1) the sum of absolute values of the term's part of a row
    l1: float
    penalized: bool = True  # whether a penalty applies to the term


@dataclass(frozen=True, eq=False)
class FactorBounds:
    """What one coded factor contributes to its terms.

    `low` and `high`, shape (k,), bound its columns; `l2` and `l1` bound the norms of the row after each column is
    divided by its largest absolute value. `total` bounds the sum of absolute values as they are, `positive` says that
    none was negative, and `vanishes` that the row may be zero. `codes` holds the coding matrices of factors of levels,
    and is None if a factor is numeric.
    """

    low: Array
    high: Array
    l2: float
    l1: float
    total: float
    positive: bool
    vanishes: bool
    codes: tuple[Array, ...] | None = None


def measure(values: Array, *, grid: bool, codes: tuple[Array, ...] | None = None) -> FactorBounds:
    """Bounds of a factor from its values on public rows, shape (m, k); rows with a non-finite value are left out.

    With `grid`, the rows only sample the values a column can take, and the bounds are widened by `MARGIN`. Raises
    ValueError if hardly any public row is finite.
    """
    finite = values[np.isfinite(values).all(axis=1)]
    if len(finite) <= LEAST_FINITE * len(values):
        raise ValueError("it is not finite anywhere on the declared ranges, or nearly so; narrow them")
    low, high = finite.min(axis=0), finite.max(axis=0)
    reach = np.maximum(np.abs(low), np.abs(high))
    unit = np.abs(finite) / np.where(reach > 0, reach, 1.0)
    l2, l1 = np.sqrt((unit**2).sum(axis=1).max()), unit.sum(axis=1).max()
    margin = MARGIN if grid else 0.0
    width = high - low
    sums = np.abs(finite).sum(axis=1)
    return FactorBounds(
        low - margin * width,
        high + margin * width,
        float(l2 * (1 + margin)),
        float(l1 * (1 + margin)),
        total=float(sums.max()),
        positive=bool((low >= -NEGLIGIBLE * reach).all()),
        vanishes=bool(sums.min() == 0),
        codes=None if grid else codes,
    )


def proved_bounds(norms: Norms, size: int) -> FactorBounds:
    """Bounds of a factor of `size` columns whose norms are proved, whatever the row."""
    ends = np.full(size, norms.largest)
    l2, l1 = norms.l2 / norms.largest, norms.l1 / norms.largest
    return FactorBounds(-ends, ends, l2, l1, total=norms.l1, positive=False, vanishes=False)


def interact(factors: list[FactorBounds]) -> FactorBounds:
    """Bounds of the products of factors, in patsy's column order (the first factor varies fastest).

    Exact when the factors read different columns of the data, since then each can be at its extreme at once, and the
    norm of an outer product is the product of the norms; never too small otherwise.
    """
    low, high, l2, l1, total = np.ones(1), np.ones(1), 1.0, 1.0, 1.0
    for factor in factors:
        ends = [np.multiply.outer(end, other).ravel() for end in (factor.low, factor.high) for other in (low, high)]
        low, high = np.min(ends, axis=0), np.max(ends, axis=0)
        l2, l1, total = l2 * factor.l2, l1 * factor.l1, total * factor.total
    coded = all(factor.codes is not None for factor in factors)
    return FactorBounds(
        low,
        high,
        l2,
        l1,
        total,
        positive=all(factor.positive for factor in factors),
        vanishes=any(factor.vanishes for factor in factors),
        codes=tuple(code for factor in factors for code in factor.codes or ()) if coded else None,
    )


def largest_sum(gains: Array, limits: Array, total: float) -> float:
    """max sum_j gains_j z_j over 0 <= z_j <= limits_j and sum_j z_j <= total (a fractional knapsack)."""
    order = np.argsort(-gains)
    room = np.clip(total - np.concatenate(([0.0], np.cumsum(limits[order])[:-1])), 0.0, limits[order])
    return float(gains[order] @ room)


def term_norm(term: Term, which: str, weights: Array) -> float:
    """An upper bound on the norm of the term's part of a row after multiplying column j by weights_j.

    The supremum under the term's bounds for l2 and linf; for l1 the smaller of two bounds, from the l1 bound and, by
    Cauchy and Schwarz, from the l2 bound.
    """
    if which == "linf":
        return float(np.max(weights * term.maxima, initial=0.0))
    if which == "l2":
        return math.sqrt(largest_sum(weights**2, term.maxima**2, term.l2**2))
    if which == "l1":
        by_l2 = term.l2 * float(np.linalg.norm(weights[term.maxima > 0]))
        return min(largest_sum(weights, term.maxima, term.l1), by_l2)
    raise ArgumentError(f"which must be 'l1', 'l2' or 'linf', got {safe_repr(which)}")


def unit_term(name: str, columns: slice, reach: Array, norms: list[tuple[float, float]]) -> Term:
    """A term whose columns are divided by their reach; its norms come from those of its parts."""
    maxima = (reach[columns] > 0).astype(float)
    l2 = np.sqrt(sum(l2**2 for l2, _ in norms))
    l1 = sum(l1 for _, l1 in norms)
    # A single centred column reaches 1 whatever its range was; the parts' norms are of uncentred columns.
    return Term(name, columns, maxima, float(min(l2, np.linalg.norm(maxima))), float(min(l1, maxima.sum())))


FLAT = 1e-6
"""Columns that are zero in every row get so small a share of a unit column's noise: the law needs a density there."""

LARGEST_CONDITION = 1e3
"""Coding matrices of larger condition would magnify the rounding of rows beyond what the row bound allows for."""

ROUNDING = 1e-9
"""Sums measured on public rows may exceed 1 by so much without being taken for larger."""


@dataclass(frozen=True, eq=False)
class TermBody:
    """The body of some columns of the design."""

    columns: slice
    image: Image  # the block, and its map to the columns in model units
    # (k,), what columns in model units are divided by to be the block's coordinates. None where no row can leave the
    # body: columns that code levels are rows of a public matrix, and a single column is clipped to its range.
    scales: Array | None


def term_bodies(
    parts: Sequence[tuple[slice, FactorBounds]], reach: Array, scale: Array, constant: int | None
) -> tuple[TermBody, ...]:
    """A body for each subterm, (columns, bounds in the user's units) in their order, in model units.

    `reach` is the largest absolute value of each centred column in the user's units, shape (p,), and `scale` its
    divisor; `constant` is the position of the intercept.
    """
    bodies: list[TermBody] = []
    shift = np.zeros(len(scale))
    homogenised = constant is not None
    for columns, bounds in parts:
        if constant is not None and columns.start == constant:
            continue
        coded = _coded_body(bounds, scale[columns], homogenised)
        if coded is None:
            bodies.append(_measured_body(columns, bounds, reach[columns], scale[columns]))
            continue
        block, matrix, offset = coded
        homogenised = homogenised or bool(offset.any())
        shift[columns] = offset
        bodies.append(TermBody(columns, Image(block, tuple(range(columns.start, columns.stop)), matrix), None))
    if not homogenised:
        return tuple(bodies)
    if constant is not None:
        shift[constant] = 1 / scale[constant]
    reached = np.flatnonzero(shift)
    image = Image(intercept(), tuple(reached.tolist()), shift[None, reached])
    return (TermBody(slice(0, 0), image, None), *bodies)


def _coded_body(bounds: FactorBounds, scale: Array, homogenised: bool) -> tuple[ConvexBody, Array, Array] | None:
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


def _measured_body(columns: slice, bounds: FactorBounds, reach: Array, scale: Array) -> TermBody:
    """The least of box, ball, cross and simplex around what was measured."""
    size = columns.stop - columns.start
    unit = np.where(reach > 0, reach, FLAT * scale * float(np.min(1 / scale))) / scale
    if size == 1:
        # A dummy beside an intercept has no negative twin; a numeric column is centred.
        block = simplex(1) if bounds.codes is not None and bounds.positive else box(1)
        return replace(_scaled_body(columns, block, unit), scales=None)
    raw = np.where(reach > 0, bounds.total / scale, unit)
    in_sum = simplex(size) if bounds.positive else cross(size)
    candidates = [
        _scaled_body(columns, in_sum, raw),
        _scaled_body(columns, in_sum, unit * (bounds.l1 or 1.0)),
        _scaled_body(columns, box(size), unit),
        _scaled_body(columns, ball(size), unit * (bounds.l2 or 1.0)),
    ]
    best = min(candidates, key=_energy)
    return best if bounds.codes is None else replace(best, scales=None)


def _energy(body: TermBody) -> float:
    """E||b||^2 of noise for this block alone, up to the scale."""
    size = body.image.block.size
    return (size + 1) * (size + 2) * body.image.block.variance * body.image.trace


def _scaled_body(columns: slice, block: ConvexBody, scales: Array) -> TermBody:
    return TermBody(columns, Image(block, tuple(range(columns.start, columns.stop)), scales), scales)


def restrict_images(images: Sequence[Image], kept: NDArray[np.intp]) -> tuple[Image, ...]:
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
        left.append(Image(block, columns, matrix[rows], image.spread))
    return tuple(left)
