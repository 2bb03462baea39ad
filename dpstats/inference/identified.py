"""Which coefficients a noisy information identifies (docs/proofs/inference, 4)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dpstats.arguments import shown
from dpstats.errors import ArgumentError
from dpstats.inference.inverse import check_symmetric, solve
from dpstats.inference.matrix import MatrixLaw

Float = NDArray[np.float64]

LEAST_RATIO = 2.0
"""A coefficient's information must be so many standard deviations of its noise."""

LIKELY = 0.95
"""The chance of that with which forecasts count on a coefficient."""


@dataclass(frozen=True, eq=False)
class Identified:
    """The active coefficients and the inverse of their information.

    Attributes
    ----------
    active : ndarray of bool, shape (p,)
        False: not identified at this budget.
    inverse : ndarray, shape (k, k)
        G of the active coefficients.
    ratios : ndarray, shape (p,)
        r_j = G_jj / sd(g_j'E g_j); of a coefficient that is not identified the one at which it was dropped.
    law : MatrixLaw
        The matrix noise among the active coefficients.
    """

    active: NDArray[np.bool_]
    inverse: Float
    ratios: Float
    law: MatrixLaw

    @property
    def directions(self) -> Float:
        """g_j = G e_j of the active coefficients as rows in all p columns, shape (k, p)."""
        rows = np.zeros((len(self.inverse), len(self.active)))
        rows[:, self.active] = self.inverse
        return rows


def identify(information: Float, law: MatrixLaw, least: float = LEAST_RATIO) -> Identified:
    """Drop the coefficient of the least information t-ratio until all are at least `least`.

    Parameters
    ----------
    information : ndarray, shape (p, p)
        The released information H.
    law : MatrixLaw
        The law of its noise.
    least : float
        Positive.
    """
    if not (np.isfinite(least) and least > 0):
        raise ArgumentError(f"least must be finite and positive, got {shown(least)}")
    information = check_symmetric("information", information, law.size)
    kept, ratios, start = np.arange(law.size), np.zeros(law.size), None
    inverse = np.zeros((0, 0))
    while len(kept):
        inner = law.restrict(kept)
        inverse, solved = solve(information[np.ix_(kept, kept)], inner, start)
        found = np.diag(inverse) / np.sqrt(inner.bilinear(inverse, inverse))
        ratios[kept] = found
        worst = int(np.argmin(found))
        # Without a solution the information is that of no positive definite matrix: some coefficient has to go.
        if solved and found[worst] >= least:
            break
        kept = np.delete(kept, worst)
        rest = np.delete(np.arange(len(found)), worst)
        start = _without(inverse, worst)[np.ix_(rest, rest)]
    else:
        inner, inverse = law.restrict(np.arange(0)), np.zeros((0, 0))
    active = np.isin(np.arange(law.size), kept)
    return Identified(active, inverse, ratios, inner)


def _without(inverse: Float, column: int) -> Float:
    """(X_KK)^-1 for X = G^-1 and K all but one column, in all columns: a rank-one change of G."""
    return inverse - np.outer(inverse[column], inverse[column]) / inverse[column, column]
