"""Sums of squared scores of rows and of persons, bought on integers (docs/proofs/information, part 5)."""

from __future__ import annotations

import operator
from collections.abc import Iterable
from functools import partial
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dpstats.arguments import safe_repr
from dpstats.data import Rows, as_rows
from dpstats.errors import ArgumentError
from dpstats.privacy.calibration import check_positive
from dpstats.privacy.guarantee import Adjacency, check_adjacency
from dpstats.privacy.information.exact_sums import KEPT, PLACES, inner_information, row_parts
from dpstats.privacy.information.matrix import Mixing, forward_substitute
from dpstats.privacy.randomness import RandomSource, noisy_integers

Float = NDArray[np.float64]

PARTS = 2**30
"""Of a row's bound: sums are whole numbers of them."""

MOST_PARTS = 2**62
"""Sums are held at so many, so that they fit the noise's 64-bit integers, however many rows there are."""

DIRECTION_PLACES = 31
"""Binary places of a public direction."""


def noisy_sum(
    values: Rows[Float] | Iterable[Float], bound: float, *, eps: float, random: RandomSource, total: int | None = None
) -> float:
    """The sum of numbers clipped to [0, bound], one a row, eps-private to add, remove or replace a row.

    With Laplace noise of scale bound / eps; may be negative. With `total`, their `whole_parts`, no row is read.
    """
    bound = check_positive("bound", bound)
    if total is None:
        total = int(as_rows(values).total(partial(_all_parts, bound), operator.add)[0])
    clamped = np.array([min(total, MOST_PARTS)], dtype=np.int64)
    return float(noisy_integers(clamped, PARTS, check_positive("eps", eps), random)[0]) * (bound / PARTS)


def whole_parts(bound: float, values: Float) -> int:
    """The sum of some rows' numbers, each in whole `PARTS` of the bound: exact for fewer than 2^33 rows."""
    return int(np.rint(np.clip(values, 0.0, bound) / bound * PARTS).astype(np.int64).sum())


def _all_parts(bound: float, values: Iterable[Float]) -> NDArray[np.object_]:
    """`whole_parts` of several arrays: a Python integer of any length, shape (1,)."""
    return np.array([sum(whole_parts(bound, block) for block in values), None], dtype=object)[:-1]


class Directions(NamedTuple):
    """Public directions of the scores, on integers."""

    cells: Float  # (p, k): integers: D^1/2 L'g_i / sqrt(a_i c_i'g_i) over `unit`
    unit: float
    bound: float  # Lambda, of these integers: sup over rows of sum_i (x'g_i)^2 / (a_i c_i'g_i)
    sizes: Float  # (k,): a_i c_i'g_i


def directions(
    inverse: Float,
    diagonal: Float,
    contrasts: Float,
    mixing: Mixing = (),
    allowances: Float | None = None,
) -> Directions:
    """Directions g_i = G c_i for the rows c_i of `contrasts` and the public G = `inverse`, over sqrt(a_i c_i'g_i)."""
    columns = _columns(inverse, contrasts, mixing)
    sizes = _contrast_variances(inverse, contrasts) * (1.0 if allowances is None else allowances)
    scaled = np.sqrt(diagonal)[:, None] * columns / np.sqrt(sizes)
    unit = float(np.linalg.norm(scaled, axis=0).max()) / (2.0**DIRECTION_PLACES * KEPT)
    cells = np.rint(scaled / unit)
    used = cells * unit
    return Directions(cells, unit, float(np.linalg.eigvalsh(used.T @ used)[-1]) * (1 + 1e-9), sizes)


def spread_bound(
    inverse: Float,
    diagonal: Float,
    contrasts: Float,
    mixing: Mixing = (),
    allowances: Float | None = None,
) -> float:
    """Lambda = lambda_max(sum_i D^1/2 L'g_i g_i'L D^1/2 / (a_i c_i'g_i)) for the rows c_i of `contrasts`."""
    return directions(inverse, diagonal, contrasts, mixing, allowances).bound


ALLOWANCE_POWERS = (0.75, 0.5, 0.25, 0.0)
"""Powers of what one row can do to a direction's variance that its share of the noise may go with."""


def spread_allowances(inverse: Float, diagonal: Float, contrasts: Float, mixing: Mixing = ()) -> Float:
    """Public a_i, shape (k,), for `noisy_spread`: a power of u_i = g_i'L D L'g_i / c_i'g_i.

    u_i bounds what one row can add to v_i / c_i'g_i; it is large for rare levels, whose variances have much noise
    whatever is done. With the power 0 all would have as much, with 1 rare levels would bear all of it. The power is the
    one with the least geometric mean of the noise: by the median one direction of three could have several times the
    noise that it needs, where the two others have a few percent less.
    """
    columns = _columns(inverse, contrasts, mixing)
    reach = (diagonal[:, None] * columns**2).sum(axis=0) / _contrast_variances(inverse, contrasts)
    choices = [np.asarray(reach**power, dtype=np.float64) for power in ALLOWANCE_POWERS]
    bounds = [spread_bound(inverse, diagonal, contrasts, mixing, choice) for choice in choices]
    return min(zip(choices, bounds, strict=True), key=lambda one: float(np.mean(np.log(one[0] * one[1]))))[0]


def _columns(inverse: Float, contrasts: Float, mixing: Mixing) -> Float:
    """L'g_i, shape (p, k)."""
    columns = inverse @ contrasts.T
    return columns if not mixing else np.array(mixing).T @ columns


def _contrast_variances(inverse: Float, contrasts: Float) -> Float:
    """c_i'g_i, shape (k,)."""
    return np.asarray(np.sum(contrasts @ inverse * contrasts, axis=1), dtype=np.float64)


def noisy_spread(
    blocks: Rows[tuple[Float, Float]] | Iterable[tuple[Float, Float]],
    *,
    inverse: Float,
    diagonal: Float,
    contrasts: Float,
    lipschitz: float,
    eps: float,
    adjacency: Adjacency = "add_remove",
    random: RandomSource,
    mixing: Mixing = (),
    allowances: Float | None = None,
    total: NDArray[np.object_] | None = None,
) -> Float:
    """Robust variances v_i = sum l'^2 (x'g_i)^2, shape (k,), all together eps-private. Reads rows: charge first.

    Blocks are (exog (rows, p), slopes (rows,)), row-wise functions of the data and of released values; rows with z'
    D^-1 z > 1, z = L^-1 x, are shortened to 1 and slopes clipped to [-`lipschitz`, `lipschitz`]. g_i = G c_i with the
    public G = `inverse` and the rows c_i of `contrasts`, c_i'G c_i positive. The noise is independent Laplace of scale
    a_i c_i'g_i `lipschitz`^2 Lambda / eps, Lambda the `spread_bound` and a_i the public `allowances`, 1 by default;
    twice that to replace one. With `total`, their `inner_information` with weights l'^2, no row is read.
    """
    check_positive("lipschitz", lipschitz)
    public = directions(inverse, diagonal, contrasts, mixing, allowances)
    if total is None:
        part = partial(inner_information, diagonal, mixing, lipschitz**2)
        total = as_rows(blocks).map(_squared).total(part, operator.add)
    # Sums are rounded to whole parts, each of which may move by one more than what it is rounded from.
    records = 2 if check_adjacency(adjacency) == "replace_one" else 1
    sensitivity = records * PARTS + len(contrasts)
    noisy = noisy_integers(direction_parts(total, public), sensitivity, check_positive("eps", eps), random)
    return noisy * (lipschitz**2 * public.bound / PARTS) * public.sizes


def _squared(pair: tuple[Float, Float]) -> tuple[Float, Float]:
    """Rows and l'^2, the weight of their squares."""
    exog, slopes = pair
    return exog, slopes**2


def direction_parts(total: NDArray[np.object_], public: Directions) -> NDArray[np.int64]:
    """What an exact sum of v v', in units of L^2 2^-40, has in each direction: whole `PARTS` of L^2 Lambda, shape (k,).

    A row has |v|^2 at most 2^40 in these units, so the sum of what it has in all directions is at most `PARTS`.
    """
    columns = [np.array([int(cell) for cell in column], dtype=object) for column in public.cells.T]
    exact = [sum(x * (row @ column) for x, row in zip(column, total, strict=True)) for column in columns]
    above, below = (public.unit**2 * 2.0 ** (-2 * PLACES) * (PARTS / public.bound)).as_integer_ratio()
    parts = [(2 * entry * above + below) // (2 * below) for entry in exact]
    return np.array([min(entry, MOST_PARTS) for entry in parts], dtype=np.int64)


ROW_PLACES = 40
"""Binary places of a row's part of its person's score: rows of small weight must not be lost."""

PersonRows = tuple[Float, Float, Float, NDArray[np.intp]]
"""Rows, shape (rows, p); l', weights and the number of the person that each is of, shapes (rows,)."""


def noisy_cluster_spread(
    blocks: Rows[PersonRows] | Iterable[PersonRows],
    *,
    inverse: Float,
    diagonal: Float,
    contrasts: Float,
    lipschitz: float,
    most: int,
    eps: float,
    adjacency: Adjacency = "add_remove",
    random: RandomSource,
    mixing: Mixing = (),
    allowances: Float | None = None,
) -> Float:
    """Robust variances v_i = sum over persons of (sum of w l' x'g_i over the person's rows)^2. Charge first.

    Blocks are (exog (rows, p), slopes (rows,), weights (rows,), persons (rows,)), row-wise but for weights that share 1
    among the rows of one person; all else as for `noisy_spread`. The caller has seen to it that a person's weights sum
    to `most` at most: 1 if rows share a weight, else how many rows of weight 1 a person may have. The noise is Laplace
    of scale a_i c_i'g_i (most L)^2 Lambda / eps; twice that to replace a person.
    """
    bound = check_positive("lipschitz", lipschitz)
    if most < 1:
        raise ArgumentError(f"most must be a positive whole number, got {safe_repr(most)}")
    public = directions(inverse, diagonal, contrasts, mixing, allowances)
    # The shards of rows that know their persons hold them whole.
    squares = as_rows(blocks).total(partial(person_squares, diagonal, bound, mixing, most), operator.add)
    # Sums are rounded to whole parts, each of which may move by one more than what it is rounded from.
    records = 2 if check_adjacency(adjacency) == "replace_one" else 1
    sensitivity = records * PARTS + len(contrasts)
    noisy = noisy_integers(direction_parts(squares, public), sensitivity, check_positive("eps", eps), random)
    return noisy * ((most * bound) ** 2 * public.bound / PARTS) * public.sizes


def person_squares(
    diagonal: Float, lipschitz: float, mixing: Mixing, most: int, blocks: Iterable[PersonRows]
) -> NDArray[np.object_]:
    """`score_squares` of all rows of some persons."""
    return score_squares(person_scores(diagonal, lipschitz, mixing, blocks), most)


def person_scores(diagonal: Float, lipschitz: float, mixing: Mixing, blocks: Iterable[PersonRows]) -> NDArray[np.int64]:
    """Each person's sum of w l' z / L over some rows, in parts of 2^-40, shape (persons, p).

    Each row is truncated towards zero, so that a person's sum is no longer than the sum of its weights; sums of
    integers are the same in any order.
    """
    total = np.zeros((0, len(diagonal)), dtype=np.int64)
    for exog, slopes, weights, persons in blocks:
        if len(persons) and int(persons.max()) >= len(total):
            more = int(persons.max()) + 1 - len(total)
            total = np.concatenate([total, np.zeros((more, len(diagonal)), dtype=np.int64)])
        for part in row_parts(len(exog)):
            inner = unit_rows(forward_substitute(exog[part], mixing), diagonal, KEPT * 2.0**ROW_PLACES)
            score = np.clip(slopes[part], -lipschitz, lipschitz) / lipschitz * np.clip(weights[part], 0.0, 1.0)
            np.add.at(total, persons[part], np.trunc(inner * score[:, None]).astype(np.int64))
    return total


def score_squares(scores: NDArray[np.int64], most: int) -> NDArray[np.object_]:
    """The exact sum over persons of s s', Python integers of shape (p, p), for scores s of length up to 2^20.

    Those are `person_scores` over `most`, truncated towards zero to 20 places.
    """
    total = np.zeros((scores.shape[1],) * 2, dtype=object)
    for part in row_parts(len(scores)):
        rows = np.trunc(scores[part] * (KEPT * 2.0 ** (PLACES - ROW_PLACES) / most))
        total += (rows.T @ rows).astype(np.int64)
    return total


def unit_rows(exog: Float, diagonal: Float, length: float) -> Float:
    """`length` times D^-1/2 z, shape (rows, p), rows longer than 1 shortened to it; elementwise, row by row."""
    cells = np.asfortranarray(exog, dtype=np.float64) / np.sqrt(diagonal)
    square = np.zeros(len(cells))
    for column in cells.T:
        square += column * column
    return np.asarray(cells * (length / np.maximum(1.0, np.sqrt(square)))[:, None], dtype=np.float64)
