"""The sum of w x x' in exact integers, its noise, and the cover of floating point (docs/proofs/information)."""

from __future__ import annotations

import math
import operator
from collections.abc import Iterable, Iterator, Sequence
from functools import partial

import numpy as np
from numpy.typing import NDArray

from dpstats.data import Rows, as_rows
from dpstats.privacy.calibration import check_positive
from dpstats.privacy.information.matrix import MatrixNoise, Mixing, substitute_columns
from dpstats.privacy.randomness import RandomSource, noisy_integers

Float = NDArray[np.float64]
Pair = tuple[Float, Float]
Blocks = Iterable[Pair]
Weighted = tuple[Float, tuple[Float, ...]]
"""Columns (p, rows), and some weights of each row (rows,)."""

PLACES = 20
"""Binary places of a row's cells: products have twice as many."""

UNIT_PLACES = 22
"""Binary places of its cells before it is weighted: squares of a row up to `FARTHEST_ROW` add up without rounding."""

FARTHEST_ROW = 16.0
"""A row of so many times the length that it may have counts for nothing."""

BLOCK_ROWS = 4096
"""So many products of twice `PLACES` places add up without rounding in a float64, in any order."""

PART_CELLS, LEAST_ROWS = 81920, 256
"""So many cells are handled at once, but at least so many rows."""

MACHINE_PARTS = 1024
"""So many of those sums, each at most 2^52, fit a 64-bit integer."""

KEPT = 1 - 2.0**-40
"""Rows are kept this factor below their bound, which stands above the rounding of a square root and a few products."""

COVER_PLACES = 32
"""Binary places of the lattice that the release is on, in units of the greatest weight."""

LATTICE_LIMIT = 2**61
"""Entries are clamped to so many lattice steps, so that they fit the noise's 64-bit integers."""

COVER_SHARE = 0.01
"""Share of the matrix's own budget for what floating point leaves."""


def integer_rows(exog: Float, weights: Float, diagonal: Float, weight_bound: float) -> Float:
    """Integers v, as floats of shape (rows, p), with v v' the row's contribution in units of h 2^-40.

    v = sqrt(w / h) D^-1/2 x 2^20 truncated towards 0, so that its squared length is at most w / h 2^40. A row with
    x' D^-1 x > 1 is shortened to 1, and one beyond `FARTHEST_ROW` to nothing; w is clipped to [0, h]. Every step is
    elementwise or a sum of integers without rounding: a row's integers do not depend on the other rows.
    """
    return integer_columns(exog.T, weights, diagonal, weight_bound, np.empty(exog.shape[::-1])).T


def integer_columns(columns: Float, weights: Float, diagonal: Float, weight_bound: float, out: Float) -> Float:
    """The integers of `integer_rows`, shape (p, rows), in `out`, of columns (p, rows)."""
    cells, shares = _unit_integers(columns, diagonal, out)
    return _weighted_integers(cells, shares, weights, weight_bound, cells)


def columns_of(exog: Float) -> Float:
    """A copy that may be written over, shape (p, rows): one column after the other."""
    return np.array(exog.T, dtype=np.float64, order="C")


def _unit_integers(columns: Float, diagonal: Float, out: Float) -> Pair:
    """In `out` u = D^-1/2 x 2^22 truncated, shape (p, rows), and what takes a row to 20 places and its length.

    The latter, shape (rows,), is KEPT 2^20 / max(2^22, |u|). |u|^2 is a sum of squares of integers: exact below 2^53 in
    any order, and above 2^52, where the row is left out, whenever the exact one is.
    """
    for column, scale, product in zip(columns, 2.0**UNIT_PLACES / np.sqrt(diagonal), out, strict=True):
        np.multiply(column, scale, out=product, dtype=np.float64)
    np.trunc(out, out=out)
    squares = np.einsum("ji,ji->i", out, out)
    shares = KEPT * 2.0**PLACES / np.sqrt(np.maximum(squares, 4.0**UNIT_PLACES))
    shares[~(squares < FARTHEST_ROW**2 * 4.0**UNIT_PLACES)] = 0.0
    return out, shares


def _weighted_integers(cells: Float, shares: Float, weights: Float, weight_bound: float, out: Float) -> Float:
    """The integers of `integer_rows`, shape (p, rows), in `out`, which may be `cells`."""
    length = np.minimum(np.maximum(weights, 0.0), weight_bound)
    length /= weight_bound
    np.sqrt(length, out=length)
    length *= shares
    for cell, product in zip(cells, out, strict=True):
        np.multiply(cell, length, out=product)
    return np.trunc(out, out=out)


def integer_information(blocks: Blocks, diagonal: Float, weight_bound: float) -> NDArray[np.object_]:
    """The exact sum of v v', Python integers of shape (p, p); arguments as for `integer_rows`."""
    return integer_sums(_parts(blocks), diagonal, (weight_bound,))[0]


def integer_sums(parts: Iterable[Weighted], diagonal: Float, weight_bounds: tuple[float, ...]) -> NDArray[np.object_]:
    """The exact sums of v v' for each of some weights of the rows, Python integers of shape (weights, p, p).

    Columns, shape (p, rows) with at most `BLOCK_ROWS` rows, are written over.
    """
    shape = len(weight_bounds), len(diagonal), len(diagonal)
    total, subtotal = np.zeros(shape, dtype=object), np.zeros(shape, dtype=np.int64)
    for count, (columns, weights) in enumerate(parts, 1):
        cells, shares = _unit_integers(columns, diagonal, columns)
        spare = cells if len(weights) == 1 else np.empty_like(cells)
        for place, (row_weights, bound) in enumerate(zip(weights, weight_bounds, strict=True), 1):
            integers = _weighted_integers(cells, shares, row_weights, bound, cells if place == len(weights) else spare)
            # numpy's @ holds the interpreter back where its result is small.
            subtotal[place - 1] += np.dot(integers, integers.T).astype(np.int64)
        if count % MACHINE_PARTS == 0:
            total, subtotal = total + subtotal, np.zeros(shape, dtype=np.int64)
    return np.asarray(total + subtotal, dtype=object)


def _parts(blocks: Blocks) -> Iterator[Weighted]:
    """Small parts stay in the cache; every step is row by row, so that they change nothing."""
    for exog, weights in blocks:
        for part in row_parts(*exog.shape):
            yield columns_of(exog[part]), (weights[part],)


def inner_information(diagonal: Float, mixing: Mixing, weight_bound: float, blocks: Blocks) -> NDArray[np.object_]:
    """The exact sum over some rows x, in the coordinates z = L^-1 x with L the rows of `mixing`."""
    return inner_sums(diagonal, mixing, (weight_bound,), _parts(blocks))[0]


def inner_sums(
    diagonal: Float, mixing: Mixing, weight_bounds: tuple[float, ...], parts: Iterable[Weighted]
) -> NDArray[np.object_]:
    """`inner_information` for each of some weights of the rows, in one pass: shape (weights, p, p).

    Columns are written over, as by `integer_sums`.
    """
    inner = ((substitute_columns(columns, mixing), weights) for columns, weights in parts)
    return integer_sums(inner, diagonal, weight_bounds)


def noisy_information(
    blocks: Rows[Pair] | Blocks,
    noise: MatrixNoise,
    *,
    weight_bound: float,
    cover_eps: float,
    random: RandomSource,
    total: NDArray[np.object_] | None = None,
) -> Float:
    """The sum of w x x', exactly symmetric, with the noise of a plan. Reads rows: charge first.

    Blocks are (exog (rows, p), weights (rows,)), row-wise functions of the data and of released values; weights are
    clipped to [0, h], h the `weight_bound` that `noise` is calibrated for. `cover_eps` is a further, pure part of the
    budget for floating point, such as `COVER_SHARE` of the matrix's own. With `total`, their `inner_information`, no
    row is read.
    """
    bound = check_positive("weight_bound", weight_bound)
    if total is None:
        part = partial(inner_information, np.array(noise.diagonal), noise.mixing, bound)
        total = as_rows(blocks).total(part, operator.add)
    return cover_with_noise([total], noise, weight_bound=bound, cover_eps=cover_eps, random=random)[0]


def cover_with_noise(
    totals: Sequence[NDArray[np.object_]],
    noise: MatrixNoise,
    *,
    weight_bound: float,
    cover_eps: float,
    random: RandomSource,
) -> Float:
    """Exact sums, each with an independent draw of the noise, on the lattice of the release with its own noise.

    `totals` are of Python integers, shapes (p, p), in units of h 2^-40 and in the coordinates z of the noise; the
    result has shape (k, p, p).
    """
    upper, unit = np.triu_indices(noise.size), 2 ** (2 * PLACES - COVER_PLACES)
    lattice = []
    for total in totals:
        draws = np.rint(noise.unit_sample(random)[upper] / weight_bound * 2.0 ** (2 * PLACES))
        exact = [entry + int(draw) for entry, draw in zip(total[upper], draws, strict=True)]
        lattice += [max(-LATTICE_LIMIT, min(LATTICE_LIMIT, (2 * entry + unit) // (2 * unit))) for entry in exact]
    sensitivity = cover_sensitivity(noise, weight_bound, len(totals))
    eps = check_positive("cover_eps", cover_eps)
    noisy = noisy_integers(np.array(lattice, dtype=np.int64), sensitivity, eps, random).reshape(len(totals), -1)
    released = np.zeros((len(totals), noise.size, noise.size))
    released[:, *upper] = released[:, upper[1], upper[0]] = noisy * (weight_bound * 2.0**-COVER_PLACES)
    root = np.sqrt(np.array(noise.diagonal))
    return noise.carried(released * np.outer(root, root))


def cover_sensitivity(noise: MatrixNoise, weight_bound: float, copies: int = 1) -> int:
    """l1 distance, in lattice steps over the upper triangle, of the points of neighbours with the same ideal release.

    Twice the distance of a point from its ideal: half a step an entry, what the finer lattice rounds off, and the error
    of the draws, of which there are `copies`.
    """
    size, scale = noise.size, noise.scale / weight_bound
    entries = copies * size * (size + 1) // 2
    if noise.law == "wishart":
        length = math.sqrt(size + 1) + 10
        error = entries * length**2 * (2e-14 + (size + 8) * 2.0**-53) + 10 * (size + 1) * 2.0**-34
    else:
        error = entries * 1e-13 + 2.0**-32
    half = 0.5 + 2.0 ** (COVER_PLACES - 2 * PLACES)
    return math.ceil(2 * (entries * half + scale * error * 2.0**COVER_PLACES))


def linear_predictor(exog: Float, params: Float, offset: Float | None = None) -> Float:
    """x'theta column by column, shape (rows,): a row's value, to the last bit, does not depend on the other rows."""
    eta = np.zeros(len(exog)) if offset is None else np.array(offset, dtype=np.float64)
    for part in row_parts(*exog.shape):
        columns, inner = np.asarray(exog[part].T, order="C"), eta[part]
        product = np.empty(len(inner))
        for column, value in zip(columns, params, strict=True):
            inner += np.multiply(column, value, out=product)
    return eta


def row_parts(rows: int, columns: int = 1) -> Iterator[slice]:
    """Slices of at most `BLOCK_ROWS`, fewer of wide designs: their cells stay in a core's cache.

    All but the last have a multiple of 64 rows, as vectorised functions like them (`dpstats.families.base.pad_rows`).
    """
    most = min(BLOCK_ROWS, max(LEAST_ROWS, PART_CELLS // max(1, columns) // 64 * 64))
    return (slice(start, start + most) for start in range(0, rows, most))
