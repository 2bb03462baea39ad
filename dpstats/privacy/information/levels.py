"""Matrix noise by the levels of one factor: a row meets one small matrix only (docs/proofs/information, 6)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dpstats.errors import ArgumentError
from dpstats.privacy.information.matrix import MatrixNoise
from dpstats.privacy.information.rows import covered, integer_information
from dpstats.privacy.randomness import RandomSource

Float = NDArray[np.float64]
Levels = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class LevelNoise:
    """Noise of sum_j C_j' H_j C_j, with H_j = sum of w z z' over the rows of level j and x = C_j' z there.

    Attributes
    ----------
    noise : MatrixNoise
        Of each H_j, q by q, independent: sup z' D^-1 z <= 1. Calibrated as if there were one matrix.
    maps : ndarray (levels, q, p)
        C_j, public.

    Raises
    ------
    ArgumentError
        If the maps do not suit the noise.
    """

    noise: MatrixNoise
    maps: Float

    def __post_init__(self) -> None:
        if self.maps.ndim != 3 or self.maps.shape[1] != self.noise.size or not np.isfinite(self.maps).all():
            raise ArgumentError("maps must be finite, of shape (levels, q, p) with q the size of the noise")

    @property
    def size(self) -> int:
        """The number of columns p."""
        return int(self.maps.shape[2])

    def sample(self, random: RandomSource) -> Float:
        """Draw the noise of the p by p matrix."""
        return self.image(np.array([self.noise.sample(random) for _ in self.maps]))

    def image(self, matrices: Float) -> Float:
        """Sum of C_j' H_j C_j, exactly symmetric; `matrices` (levels, q, q)."""
        total = np.zeros((self.size, self.size))
        for matrix, taken in zip(matrices, self.maps, strict=True):
            total += taken.T @ matrix @ taken
        return (total + total.T) / 2

    def variances(self) -> Float:
        """Variances of the entries, shape (p, p); entries may be correlated, and those of exclusive columns are 0."""
        total = np.zeros((self.size, self.size))
        for taken in self.maps:
            gram = taken.T @ self.noise.metric @ taken
            total += np.outer(np.diag(gram), np.diag(gram)) + gram**2
        return self.noise.entry_variance * total

    def sandwich(self, middle: Float) -> Float:
        """E[E A E] for a symmetric A, shape (p, p)."""
        return self.image(np.array([self.noise.sandwich(taken @ middle @ taken.T) for taken in self.maps]))

    def expected_square(self) -> float:
        """E ||E||_F^2."""
        return float(self.variances().sum())


def level_maps(coding: Float, columns: NDArray[np.intp], kept: NDArray[np.intp], constant: float, size: int) -> Float:
    """The maps C_j of one factor beside an intercept.

    Parameters
    ----------
    coding : ndarray (levels, m)
        The factor's columns of x at each level.
    columns : ndarray of int (m,)
        Their places in x.
    kept : ndarray of int (q,)
        Places in x of the columns of z, the intercept first.
    constant : float
        The intercept's value in x.
    size : int
        p.

    Returns
    -------
    ndarray (levels, q, p)
        Columns of x neither in `columns` nor in `kept` are 0.
    """
    maps = np.zeros((len(coding), len(kept), size))
    maps[:, np.arange(len(kept)), kept] = 1.0
    maps[:, 0, columns] = coding / constant
    return maps


def noisy_level_information(
    blocks: Iterable[tuple[Float, Float, Levels]],
    noise: LevelNoise,
    *,
    weight_bound: float,
    cover_eps: float,
    random: RandomSource,
) -> Float:
    """The sum of w x x' with the noise of a plan. Reads rows: charge first.

    Parameters
    ----------
    blocks : iterable of (kept columns z (rows, q), weights (rows,), level (rows,))
        Row-wise functions of the data and of released values; rows of no level count for nothing.
    noise : LevelNoise
    weight_bound, cover_eps, random
        As for `noisy_information`.

    Returns
    -------
    ndarray (p, p)
        Symmetric.
    """
    diagonal, size = np.array(noise.noise.diagonal), noise.noise.size
    totals = [np.zeros((size, size), dtype=object) for _ in noise.maps]
    for exog, weights, levels in blocks:
        for level, total in enumerate(totals):
            rows = levels == level
            inside = noise.noise.coordinates(exog[rows])
            total += integer_information([(inside, weights[rows])], diagonal, weight_bound)
    return noise.image(covered(totals, noise.noise, weight_bound=weight_bound, cover_eps=cover_eps, random=random))
