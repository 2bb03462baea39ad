"""How a design's rows are kept between passes: the levels of its factors, and the columns that are numbers.

A column of a factor without numbers takes one value at each level, or combination of levels, and which is public: it is
scaled once, and a row keeps its level alone. What is made of the levels is the column to the last bit.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from dpstats.formula.bounds import Array, Term
from dpstats.formula.codes import Encoded
from dpstats.formula.coding import (
    FactorValues,
    Part,
    column_parts,
    combinations,
    combined,
    factor_values,
    level_counts,
    of_rows,
    placed_subterms,
    products,
)
from dpstats.privacy.bodies import shrink_block, slack
from dpstats.rows import Coded, Packing

if TYPE_CHECKING:
    from dpstats.formula.design import DesignSpec

MOST_VALUES = 2**18
"""Of the columns of a subterm at all its levels; columns that would have more are kept as numbers."""

MOST_LEVELS = 2**16
"""Of a subterm, so that two bytes tell them apart."""


def packing_of(spec: DesignSpec) -> Packing:
    """How rows of a design are kept, from public facts."""
    numbers, coded = np.ones(len(spec.names), dtype=bool), []
    moved = _moved(spec)
    for columns, subterm in placed_subterms(spec.coding):
        counts, size = level_counts(spec.coding, subterm), columns.stop - columns.start
        if counts is None or not size or moved[columns].any():
            continue
        levels = math.prod(counts)
        if levels > MOST_LEVELS or size * levels > MOST_VALUES:
            continue
        every = dict(zip(subterm.factors, combinations(counts), strict=True))
        values = np.empty((size, levels))
        _scale(spec, np.arange(columns.start, columns.stop), products(spec.coding, subterm, every), values)
        coded.append(Coded(columns, values))
        numbers[columns] = False
    return Packing(len(numbers), tuple(coded), np.flatnonzero(numbers))


def packed_rows(
    spec: DesignSpec, encoded: Mapping[str, Encoded], rows: int
) -> tuple[Array, NDArray[Any] | None, NDArray[np.bool_]]:
    """Complete encoded rows in model units, as the design's `Packing` keeps them.

    Returns
    -------
    numbers : ndarray, shape (rows, k)
        One column after the other in memory; NaN where a value is not finite.
    levels : ndarray of unsigned integers, shape (rows, l), or None
        None where there are none to keep.
    known : ndarray of bool, shape (rows,)
        Rows whose columns are all finite numbers.
    """
    packing = spec.packing
    numbers = np.empty((len(packing.numbers), rows))
    with np.errstate(all="ignore"):
        values, known = factor_values(spec.coding, encoded)
        wanted = np.zeros(packing.size, dtype=bool)
        wanted[packing.numbers] = True
        parts = itertools.compress(column_parts(spec.coding, values), wanted)
        known = known & _scale(spec, packing.numbers, parts, numbers)
    for columns in _shrink_all(spec, numbers.T):
        known = known & np.isfinite(numbers[columns]).all(axis=0)
    return numbers.T, _kept_levels(spec, values, rows), np.broadcast_to(known, rows)


def _scale(spec: DesignSpec, places: NDArray[np.intp], parts: Iterable[list[Part]], out: Array) -> NDArray[np.bool_]:
    """Fill in some columns in model units, shape (k, rows), from what they are products of.

    Returns which rows are finite in all of them, shape (rows,), or (1,) where there are no columns. A column after the
    other: its steps stay in the cache.
    """
    known = np.ones(1, dtype=bool)
    for column, place, factors in zip(out, places, parts, strict=True):
        values = of_rows(factors[0]) if factors else np.ones(1)
        for part in factors[1:]:
            values = values * of_rows(part)
        finite = np.isfinite(values)
        np.clip(values, spec.lower[place], spec.upper[place], out=column)
        if spec.center[place]:
            column -= spec.center[place]
        column /= spec.scale[place]
        if not finite.all():
            np.copyto(column, np.nan, where=~finite)
            known = known & finite
    return known


def _kept_levels(spec: DesignSpec, values: FactorValues, rows: int) -> NDArray[Any] | None:
    """The combination of its factors' levels that each row has, for every subterm kept by levels: (rows, l)."""
    kept = {coded.columns.start: coded.values.shape[1] for coded in spec.packing.coded if not coded.constant}
    if not kept:
        return None
    levels = np.zeros((len(kept), rows), dtype=np.min_scalar_type(max(kept.values()) - 1))
    found = (
        subterm
        for columns, subterm in placed_subterms(spec.coding)
        if columns.start in kept and columns.stop > columns.start
    )
    for own, subterm in zip(levels, found, strict=True):
        counts = level_counts(spec.coding, subterm)
        assert counts is not None
        np.copyto(own, combined([values[factor] for factor in subterm.factors], counts), casting="unsafe")
    return levels.T


def _moved(spec: DesignSpec) -> NDArray[np.bool_]:
    """The columns whose rows are moved into the bounds or the body of their term, shape (p,)."""
    moved = np.zeros(len(spec.names), dtype=bool)
    for columns, _ in _moves(spec):
        moved[columns] = True
    return moved


def _moves(spec: DesignSpec) -> Iterator[tuple[slice, Callable[[Array], None]]]:
    """Columns that stand together, and what moves their part of some rows, in place: in this order."""
    for term in spec.shrunk:
        yield term.columns, partial(_shrink, term)
    for body in spec.bodies:
        if body.scales is not None:
            yield body.columns, partial(shrink_block, block=body.image.block, scales=body.scales)


def _shrink_all(spec: DesignSpec, exog: Array) -> Iterator[slice]:
    """Move what needs it of some rows' numbers, in place, and name its columns among them."""
    for columns, move in _moves(spec):
        first = int(np.searchsorted(spec.packing.numbers, columns.start))
        own = slice(first, first + columns.stop - columns.start)
        move(exog[:, own])
        yield own


def _shrink(term: Term, part: Array) -> None:
    """Scale each row of `part` down, in place, to the term's bounds less the slack."""
    squares, sizes = np.zeros(len(part)), np.zeros(len(part))
    # Column by column: a sum along rows could be rounded in another order when the number of rows changes.
    for column in part.T:
        squares += column * column
        sizes += np.abs(column)
    room = 1 + slack(part.shape[1])
    with np.errstate(all="ignore"):
        by_l2 = term.l2 / room / np.sqrt(squares)
        by_l1 = term.l1 / room / sizes
    factor = np.fmin(np.fmin(by_l2, by_l1), 1.0)
    part *= factor[:, None]
