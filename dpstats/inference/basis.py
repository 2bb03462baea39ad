"""Another basis of the coefficients, in which those that the budget does not identify stand apart.

Treatment coding measures every level of a factor, and the intercept, from its first level. If that is rare, none of
them is identified, though the other levels are among one another. The basis of this page measures from the level of
the largest released weight instead; it is a function of released values, and nothing but a change of names.
(docs/proofs/inference, 4)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dpstats.inference.linear import LinearLaw
from dpstats.inference.matrix import MatrixLaw

Float = NDArray[np.float64]
Indices = NDArray[np.intp]


@dataclass(frozen=True, eq=False)
class Dummies:
    """The treatment coding of one factor beside an intercept.

    Attributes
    ----------
    base : int
        The intercept's column, which is `constant` in every row.
    constant : float
    columns : tuple of int
        A column for each level but the reference.
    codes : tuple of float
        The one value of each column that is not zero.
    """

    base: int
    constant: float
    columns: tuple[int, ...]
    codes: tuple[float, ...]

    def weights(self, information: Float) -> Float:
        """The released weight of each level, the reference first."""
        levels = np.diag(information)[list(self.columns)] / np.array(self.codes) ** 2
        whole = information[self.base, self.base] / self.constant**2
        return np.concatenate(([whole - levels.sum()], levels))


def rebased(information: Float, factors: Sequence[Dummies]) -> Float:
    """T, shape (p, p): coefficients are T times those that measure each factor from its level of largest weight.

    Parameters
    ----------
    information : ndarray, shape (p, p)
        Released.
    factors : sequence of Dummies
    """
    transform = np.eye(len(information))
    for factor in factors:
        level = int(np.argmax(factor.weights(information))) - 1
        if level < 0:
            continue
        chosen, code = factor.columns[level], factor.codes[level]
        step = np.eye(len(information))
        # The chosen column now stands for the old reference.
        step[chosen, chosen] = -1.0
        step[factor.base, chosen] = code / factor.constant
        for column, other in zip(factor.columns, factor.codes, strict=True):
            if column != chosen:
                step[column, chosen] = -code / other
        transform = transform @ step
    return transform


@dataclass(frozen=True, eq=False)
class MappedMatrix:
    """The law of T'ET for noise E of a law and a public T.

    Attributes
    ----------
    law : MatrixLaw
    transform : ndarray, shape (p, k)
    """

    law: MatrixLaw
    transform: Float

    @property
    def size(self) -> int:
        """The number of columns k."""
        return int(self.transform.shape[1])

    def square(self, matrix: Float) -> Float:
        """S(A) = E[E A E], shape (k, k)."""
        inner = self.law.square(self.transform @ matrix @ self.transform.T)
        return self.transform.T @ inner @ self.transform

    def bilinear(self, left: Float, right: Float) -> Float:
        """Var(g'E m) for the rows g, m of `left` and `right`, shape (rows, k)."""
        return self.law.bilinear(left @ self.transform.T, right @ self.transform.T)

    def restrict(self, kept: Indices) -> MappedMatrix:
        """The law of E's rows and columns `kept`."""
        return MappedMatrix(self.law, self.transform[:, kept])


@dataclass(frozen=True, eq=False)
class MappedLinear:
    """The law of T'b for b of a law and a public T.

    Attributes
    ----------
    law : LinearLaw
    transform : ndarray, shape (p, k)
    """

    law: LinearLaw
    transform: Float

    @property
    def normal(self) -> bool:
        """Whether b is normal."""
        return self.law.normal

    @property
    def covariance(self) -> Float:
        """E T'b b'T, shape (k, k)."""
        return self.transform.T @ self.law.covariance @ self.transform

    def draws(self, count: int, random: np.random.Generator) -> Float:
        """Independent draws, shape (count, k)."""
        return self.law.draws(count, random) @ self.transform
