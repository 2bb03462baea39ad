"""Matrices with noise by entries, for simulations: the laws of docs/proofs/inference, 2, and what a coding says."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dpstats.arguments import safe_repr
from dpstats.errors import ArgumentError

Float = NDArray[np.float64]
Indices = NDArray[np.intp]


@dataclass(frozen=True)
class Tie:
    """Entry (column, column) of the matrix is `ratio` times entry (base, column), and was released so."""

    base: int
    column: int
    ratio: float  # positive
    variance: float  # of the noise of entry (base, column)


@dataclass(frozen=True, eq=False)
class EntryNoise:
    """Noise whose entries on and above the diagonal are uncorrelated."""

    variances: Float  # Var E_ij, shape (p, p); 0 where the released entry is exact, and for tied entries
    ties: tuple[Tie, ...] = ()  # pairs of entries that share their noise; a base must not be tied itself

    def __post_init__(self) -> None:
        variances = np.array(self.variances, dtype=np.float64)
        if variances.ndim != 2 or variances.shape[0] != variances.shape[1]:
            raise ArgumentError("variances must be a square matrix")
        if not np.all(np.isfinite(variances)) or np.any(variances < 0) or np.any(variances != variances.T):
            raise ArgumentError("variances must be symmetric, finite and not negative")
        if {tie.base for tie in self.ties} & {tie.column for tie in self.ties}:
            raise ArgumentError("a column may not be the base of a tie and tied itself")
        for tie in self.ties:
            pair = [tie.base, tie.column]
            variances[pair, tie.column] = variances[tie.column, pair] = 0.0
        variances.setflags(write=False)
        object.__setattr__(self, "variances", variances)

    @property
    def size(self) -> int:
        """The number of rows p."""
        return len(self.variances)

    def square(self, matrix: Float) -> Float:
        """S(A) = E[E A E], shape (p, p)."""
        result: Float = self.variances * matrix.T
        np.fill_diagonal(result, self.variances @ np.diag(matrix))
        base, column, ratio, variance = self._tied
        if len(base):
            own, right, left = matrix[column, column], matrix[base, column], matrix[column, base]
            corner = matrix[base, base] + ratio * (right + left) + ratio**2 * own
            np.add.at(result, (base, base), variance * own)
            np.add.at(result, (column, column), variance * corner)
            np.add.at(result, (base, column), variance * (left + ratio * own))
            np.add.at(result, (column, base), variance * (right + ratio * own))
        return result

    def images(self, vector: Float) -> Float:
        """S(e_j m') for each unit vector e_j, shape (p, p, p)."""
        each = [self.square(np.outer(unit, vector)) for unit in np.eye(self.size)]
        return np.array(each).reshape((self.size,) * 3)

    def bilinear(self, left: Float, right: Float) -> Float:
        """Var(g'E m) for the rows g, m of `left` and `right`, shape (k, p)."""
        off = self.variances - np.diag(np.diag(self.variances))
        product = left * right
        result: Float = np.sum(left**2 @ off * right**2 + product @ self.variances * product, axis=1)
        base, column, ratio, variance = self._tied
        if len(base):
            tied = left[:, base] * right[:, column] + left[:, column] * right[:, base] + ratio * product[:, column]
            result = result + tied**2 @ variance
        return result

    def restrict(self, kept: Indices) -> EntryNoise:
        """The law of E's rows and columns `kept`."""
        place = {int(column): index for index, column in enumerate(kept)}
        variances = self.variances[np.ix_(kept, kept)]
        ties = []
        for tie in self.ties:
            if tie.column in place and tie.base in place:
                ties.append(Tie(place[tie.base], place[tie.column], tie.ratio, tie.variance))
            elif tie.column in place:
                variances[place[tie.column], place[tie.column]] = tie.ratio**2 * tie.variance
        return EntryNoise(variances, tuple(ties))

    @property
    def _tied(self) -> tuple[Indices, Indices, Float, Float]:
        """The ties as arrays, shape (ties,) each."""
        rows = [(tie.base, tie.column, tie.ratio, tie.variance) for tie in self.ties]
        values = np.array(rows, dtype=np.float64).reshape(-1, 4)
        return values[:, 0].astype(np.intp), values[:, 1].astype(np.intp), values[:, 2], values[:, 3]


def wishart_difference(scale: float, shape: Float) -> EntryNoise:
    """The law of D^1/2 (W1 - W2) D^1/2 with W1, W2 independent Wishart matrices of p + 1 degrees and scale s/2 I.

    `shape` is the diagonal of D; it and s are positive.
    """
    return _scaled((len(shape) + 1) * _positive("scale", scale) ** 2 / 2, shape)


def symmetric_normal(scale: float, shape: Float) -> EntryNoise:
    """The law of D^1/2 E D^1/2, E symmetric normal of standard deviation s on and s / sqrt 2 off the diagonal."""
    return _scaled(_positive("scale", scale) ** 2 / 2, shape)


def project(
    matrix: Float, law: EntryNoise, zeros: Sequence[tuple[int, int]] = (), ties: Sequence[tuple[int, int, float]] = ()
) -> tuple[Float, EntryNoise]:
    """A released matrix and its noise, as yet without ties, after what the coding says of the matrix without noise.

    `zeros` (i, j) are 0 in every data set: two dummies of one factor. Of `ties` (base, column, ratio) entry (column,
    column) is `ratio` times entry (base, column) in every data set: a dummy beside an intercept. The two are averaged
    with weights inverse to their variances.
    """
    matrix, variances = np.array(matrix, dtype=np.float64), np.array(law.variances)
    if law.ties:
        raise ArgumentError("law has ties already")
    for row, column in zeros:
        if row == column:
            raise ArgumentError("zeros must lie off the diagonal")
        matrix[row, column] = matrix[column, row] = variances[row, column] = variances[column, row] = 0.0
    found = []
    for base, column, ratio in ties:
        of_base, of_column = variances[base, column], variances[column, column] / ratio**2
        total = of_base + of_column
        average = (matrix[base, column] * of_column + matrix[column, column] / ratio * of_base) / total
        matrix[base, column] = matrix[column, base] = average
        matrix[column, column] = ratio * average
        found.append(Tie(base, column, ratio, of_base * of_column / total))
    return matrix, EntryNoise(variances, tuple(found))


def _scaled(variance: float, shape: Float) -> EntryNoise:
    """Var E_jk = v D_j D_k off the diagonal, twice that on it."""
    if np.ndim(shape) != 1 or not np.all(np.isfinite(shape)) or not np.all(shape > 0):
        raise ArgumentError("shape must be a vector of finite positive numbers")
    variances = variance * np.outer(shape, shape)
    return EntryNoise(variances + np.diag(np.diag(variances)))


def _positive(name: str, value: float) -> float:
    if not (np.isfinite(value) and value > 0):
        raise ArgumentError(f"{name} must be finite and positive, got {safe_repr(value)}")
    return float(value)
