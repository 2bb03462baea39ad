"""Sums of squared scores, bought on integers with discrete Laplace noise (docs/proofs/information, part 5)."""

from __future__ import annotations

import operator
from collections.abc import Iterable
from functools import partial
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dpstats.privacy.calibration import check_positive
from dpstats.privacy.guarantee import Adjacency, check_adjacency
from dpstats.privacy.information.matrix import forward_substituted
from dpstats.privacy.information.rows import KEPT, PLACES, row_parts
from dpstats.privacy.lattice import noisy_integers
from dpstats.privacy.randomness import RandomSource
from dpstats.rows import Rows, as_rows

Float = NDArray[np.float64]
Mixing = tuple[tuple[float, ...], ...]

PARTS = 2**30
"""A row enters a sum as a whole number of such parts of its bound; 2^33 rows fit a 64-bit integer."""

DIRECTION_PLACES = 31
"""Binary places of a public direction: its products with a row's `PLACES` add up without rounding."""


def noisy_sum(values: Rows[Float] | Iterable[Float], bound: float, *, eps: float, random: RandomSource) -> float:
    """The sum of numbers within [0, bound], one a row, eps-private to add, remove or replace a row.

    Parameters
    ----------
    values : Rows or iterable of ndarray (rows,)
        Clipped to [0, bound]; each a row-wise function of the data and of released values.
    bound : float
        L^2 for squared scores, h for weights.
    eps : float
    random : RandomSource

    Returns
    -------
    float
        With Laplace noise of scale bound / eps; may be negative.
    """
    bound = check_positive("bound", bound)
    total = as_rows(values).total(partial(_whole_parts, bound), operator.add)
    return float(noisy_integers(total, PARTS, check_positive("eps", eps), random)[0]) * (bound / PARTS)


def _whole_parts(bound: float, values: Iterable[Float]) -> NDArray[np.int64]:
    """The sum of some rows' numbers, in `PARTS` of the bound, shape (1,)."""
    total = np.zeros(1, dtype=np.int64)
    for block in values:
        total += np.rint(np.clip(block, 0.0, bound) / bound * PARTS).astype(np.int64).sum()
    return total


ALLOWANCE = 0.75
"""Power of what one row can do to a direction's variance that its share of the noise goes with."""


class Directions(NamedTuple):
    """Public directions of the scores, on integers.

    Attributes
    ----------
    cells : ndarray (p, k)
        Integers: D^1/2 L'g_i / sqrt(a_i c_i'g_i) over `unit`.
    unit : float
    bound : float
        Lambda, of these integers: sup over rows of sum_i (x'g_i)^2 / (a_i c_i'g_i).
    sizes : ndarray (k,)
        a_i c_i'g_i.
    """

    cells: Float
    unit: float
    bound: float
    sizes: Float


def directions(
    inverse: Float,
    diagonal: Float,
    contrasts: Float,
    mixing: Mixing = (),
    allowances: Float | None = None,
) -> Directions:
    """Directions g_i = G c_i for the rows c_i of `contrasts` and the public G = `inverse`, over sqrt(a_i c_i'g_i)."""
    columns = _columns(inverse, contrasts, mixing)
    sizes = _own(inverse, contrasts) * (1.0 if allowances is None else allowances)
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


def spread_allowances(inverse: Float, diagonal: Float, contrasts: Float, mixing: Mixing = ()) -> Float:
    """Public a_i, shape (k,), for `noisy_spread`: u_i^(3/4), u_i = g_i'L D L'g_i / c_i'g_i.

    u_i bounds what one row can add to v_i / c_i'g_i; it is large for rare levels, whose variances have much noise
    whatever is done. With a_i = 1 all would have as much, with a_i = u_i rare levels would bear all of it.
    """
    columns = _columns(inverse, contrasts, mixing)
    reach = (diagonal[:, None] * columns**2).sum(axis=0) / _own(inverse, contrasts)
    return np.asarray(reach**ALLOWANCE, dtype=np.float64)


def _columns(inverse: Float, contrasts: Float, mixing: Mixing) -> Float:
    """L'g_i, shape (p, k)."""
    columns = inverse @ contrasts.T
    return columns if not mixing else np.array(mixing).T @ columns


def _own(inverse: Float, contrasts: Float) -> Float:
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
) -> Float:
    """Robust variances v_i = sum l'^2 (x'g_i)^2, all together eps-private. Reads rows: charge first.

    Parameters
    ----------
    blocks : Rows or iterable of (exog (rows, p), slopes (rows,))
        Rows and l', each a row-wise function of the data and of released values.
    inverse : ndarray (p, p)
        G, public, not negative.
    diagonal : ndarray (p,)
        D; a row with z' D^-1 z > 1 is shortened to 1.
    contrasts : ndarray (k, p)
        The rows c_i, public, with c_i'G c_i positive; g_i = G c_i.
    lipschitz : float
        L; slopes are clipped to [-L, L].
    eps : float
    adjacency : {"add_remove", "replace_one"}
    random : RandomSource
    mixing : tuple of tuple of float
        L; the metric of rows is that of z = L^-1 x, as for `MatrixNoise`.
    allowances : ndarray (k,), optional
        a_i, positive and public, such as `spread_allowances`; 1 by default.

    Returns
    -------
    ndarray (k,)
        With independent Laplace noise of scale a_i c_i'g_i L^2 Lambda / eps, Lambda the `spread_bound` for the same
        mixing and allowances; twice that to replace one.
    """
    check_positive("lipschitz", lipschitz)
    public = directions(inverse, diagonal, contrasts, mixing, allowances)
    total = as_rows(blocks).total(partial(_spread_sums, public, diagonal, lipschitz, mixing), operator.add)
    sensitivity = PARTS * (2 if check_adjacency(adjacency) == "replace_one" else 1)
    noisy = noisy_integers(total, sensitivity, check_positive("eps", eps), random)
    return noisy * (lipschitz**2 * public.bound / PARTS) * public.sizes


def _spread_sums(
    public: Directions, diagonal: Float, lipschitz: float, mixing: Mixing, blocks: Iterable[tuple[Float, Float]]
) -> NDArray[np.int64]:
    """The sums of `spread_parts` over some rows, shape (k,)."""
    total = np.zeros(len(public.sizes), dtype=np.int64)
    for exog, slopes in blocks:
        for part in row_parts(len(exog)):
            inner = forward_substituted(exog[part], mixing)
            total += spread_parts(inner, slopes[part], public, diagonal, lipschitz).sum(axis=0)
    return total


def spread_parts(
    exog: Float, slopes: Float, public: Directions, diagonal: Float, lipschitz: float
) -> NDArray[np.int64]:
    """Each row's l'^2 (x'g_i)^2 / (a_i c_i'g_i L^2 Lambda) in `PARTS`, truncated: (rows, k), a row's sum up to `PARTS`.

    The product with the directions is one of integers below 2^53, exact in any order; the rest is elementwise.
    """
    cells = np.asfortranarray(exog) / np.sqrt(diagonal)
    square = np.zeros(len(cells))
    for column in cells.T:
        square += column * column
    rows = np.trunc(cells * (KEPT * 2.0**PLACES / np.maximum(1.0, np.sqrt(square)))[:, None])
    scores = (rows @ public.cells) * (public.unit * 2.0**-PLACES)
    scores *= (np.clip(slopes, -lipschitz, lipschitz) / lipschitz)[:, None]
    return np.trunc(scores * scores * (KEPT * PARTS / public.bound)).astype(np.int64)
