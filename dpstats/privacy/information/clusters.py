"""Sums of squared scores of persons with several rows, bought on integers (docs/proofs/persons, section 4)."""

from __future__ import annotations

import operator
from collections.abc import Iterable
from functools import partial

import numpy as np
from numpy.typing import NDArray

from dpstats.arguments import shown
from dpstats.errors import ArgumentError
from dpstats.privacy.calibration import check_positive
from dpstats.privacy.guarantee import Adjacency, check_adjacency
from dpstats.privacy.information.matrix import Mixing, forward_substituted
from dpstats.privacy.information.rows import KEPT, PLACES, row_parts
from dpstats.privacy.information.scores import PARTS, Float, directions, in_parts
from dpstats.privacy.lattice import noisy_integers
from dpstats.privacy.randomness import RandomSource
from dpstats.rows import Rows, as_rows

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

    Parameters
    ----------
    blocks : Rows or iterable of (exog (rows, p), slopes (rows,), weights (rows,), persons (rows,))
        Slopes l' and weights are row-wise functions of the data and of released values, but for weights that share 1
        among the rows of one person.
    inverse, diagonal, contrasts, lipschitz, adjacency, random, mixing, allowances
        As for `noisy_spread`.
    most : int
        A bound on the sum of a person's weights, which the caller has seen to: 1 if rows share a weight, else how many
        rows of weight 1 a person may have.
    eps : float
        For persons.

    Returns
    -------
    ndarray (k,)
        With independent Laplace noise of scale a_i c_i'g_i (most L)^2 Lambda / eps; twice that to replace a person.
    """
    bound = check_positive("lipschitz", lipschitz)
    if most < 1:
        raise ArgumentError(f"most must be a positive whole number, got {shown(most)}")
    public = directions(inverse, diagonal, contrasts, mixing, allowances)
    # The shards of rows that know their persons hold them whole.
    squares = as_rows(blocks).total(partial(person_squares, diagonal, bound, mixing, most), operator.add)
    # Sums are rounded to whole parts, each of which may move by one more than what it is rounded from.
    records = 2 if check_adjacency(adjacency) == "replace_one" else 1
    sensitivity = records * PARTS + len(contrasts)
    noisy = noisy_integers(in_parts(squares, public), sensitivity, check_positive("eps", eps), random)
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
            inner = unit_rows(forward_substituted(exog[part], mixing), diagonal, KEPT * 2.0**ROW_PLACES)
            score = np.clip(slopes[part], -lipschitz, lipschitz) / lipschitz * np.clip(weights[part], 0.0, 1.0)
            np.add.at(total, persons[part], np.trunc(inner * score[:, None]).astype(np.int64))
    return total


def score_squares(scores: NDArray[np.int64], most: int) -> NDArray[np.object_]:
    """The exact sum over persons of s s', Python integers of shape (p, p), for scores s of length up to 2^20.

    Parameters
    ----------
    scores : ndarray (persons, p)
        From `person_scores`; over `most` they are truncated towards zero to 20 places.
    most : int
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
