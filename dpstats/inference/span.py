"""Noise that is the same in every direction of a metric, and what the design knows of the matrix beforehand.

docs/proofs/inference, 2.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import linalg

from dpstats.arguments import shown
from dpstats.errors import ArgumentError
from dpstats.inference.inverse import check_symmetric

Float = NDArray[np.float64]
Indices = NDArray[np.intp]

RANK = 1e-9
"""Forms that depend on others up to this share of their size are left out."""


@dataclass(frozen=True, eq=False)
class SpanNoise:
    """Noise E = R U R' with R R' = D: U symmetric, its entries uncorrelated, of variance v, 2 v on the diagonal.

    Attributes
    ----------
    metric : ndarray, shape (p, p)
        D, positive definite, such as `MatrixNoise.metric`.
    variance : float
        v, such as `MatrixNoise.entry_variance`.
    removed : ndarray, shape (p, p, p, p), optional
        E[F_ij F_kl] of the part F of the noise that was taken off, see `project_forms`.
    """

    metric: Float
    variance: float
    removed: Float | None = None

    def __post_init__(self) -> None:
        size = len(self.metric)
        check_symmetric("metric", self.metric, size)
        if not (np.isfinite(self.variance) and self.variance > 0):
            raise ArgumentError(f"variance must be finite and positive, got {shown(self.variance)}")
        if self.removed is not None and self.removed.shape != (size,) * 4:
            raise ArgumentError("removed must have four axes as long as the metric")

    @property
    def size(self) -> int:
        """The number of rows p."""
        return len(self.metric)

    def square(self, matrix: Float) -> Float:
        """S(A) = E[E A E], shape (p, p)."""
        size, metric = self.size, self.metric
        whole = self.variance * (float(np.sum(matrix * metric)) * metric + metric @ matrix.T @ metric)
        if self.removed is None:
            return whole
        off = self.removed.reshape(size**2, size**2) @ matrix.ravel()
        return np.asarray(whole - off.reshape(size, size), dtype=np.float64)

    def bilinear(self, left: Float, right: Float) -> Float:
        """Var(g'E m) for the rows g, m of `left` and `right`, shape (k, p)."""
        inner = left @ self.metric
        own = np.sum(inner * left, axis=1) * np.sum(right @ self.metric * right, axis=1)
        whole = self.variance * (own + np.sum(inner * right, axis=1) ** 2)
        if self.removed is None:
            return np.asarray(whole, dtype=np.float64)
        # Axes 1 and 2 are kept apart in `removed`: g_i A_jk m_l with A = m g'.
        middle = np.einsum("ni,nj->nij", right, left).reshape(len(left), self.size**2)
        moved = middle @ self.removed.reshape(self.size**2, self.size**2)
        moved = moved.reshape(len(left), self.size, self.size)
        return np.asarray(whole - np.einsum("ni,nij,nj->n", left, moved, right), dtype=np.float64)

    def restrict(self, kept: Indices) -> SpanNoise:
        """The law of E's rows and columns `kept`."""
        removed = None if self.removed is None else self.removed[np.ix_(kept, kept, kept, kept)]
        return SpanNoise(self.metric[np.ix_(kept, kept)], self.variance, removed)


def project_forms(matrix: Float, law: SpanNoise, forms: Float) -> tuple[Float, SpanNoise]:
    """A released matrix and its noise after the forms that vanish on every row.

    Parameters
    ----------
    matrix : ndarray, shape (p, p)
        The released matrix.
    law : SpanNoise
        Its noise, with nothing removed.
    forms : ndarray, shape (q, p, p)
        Symmetric C with x'C x = 0 in every row, so that tr(C H) = 0 without noise.

    Returns
    -------
    matrix : ndarray, shape (p, p)
        The nearest matrix, in the metric of the noise, on which the forms vanish.
    law : SpanNoise
        Of its noise: no unbiased linear estimate has less.
    """
    matrix = check_symmetric("matrix", matrix, law.size)
    if law.removed is not None:
        raise ArgumentError("law has forms removed already")
    if forms.shape[1:] != matrix.shape or not np.all(np.isfinite(forms)):
        raise ArgumentError("forms must be finite and have a row and a column for each of the matrix's")
    if not len(forms):
        return matrix, law
    root = np.linalg.cholesky(law.metric)
    basis = _orthonormal(root.T @ forms @ root)
    whitened = linalg.solve_triangular(root, linalg.solve_triangular(root, matrix, lower=True).T, lower=True)
    directions = root @ basis @ root.T
    flat = directions.reshape(len(directions), -1)
    products = (flat.T @ flat).reshape((law.size,) * 4)
    # E[F A F]_il is the sum over j, k of E[F_ij F_kl] A_jk: as a matrix on A its rows are (i, l), its columns (j, k).
    removed = 2 * law.variance * products.transpose(0, 3, 1, 2)
    clean = matrix - np.tensordot(np.tensordot(basis, whitened, axes=2), directions, axes=1)
    return (clean + clean.T) / 2, SpanNoise(law.metric, law.variance, np.ascontiguousarray(removed))


def _orthonormal(forms: Float) -> Float:
    """An orthonormal basis of symmetric matrices, shape (rank, p, p)."""
    flat = forms.reshape(len(forms), -1)
    _, values, basis = np.linalg.svd(flat / np.linalg.norm(flat, axis=1, keepdims=True), full_matrices=False)
    kept = basis[values > RANK * values[0]].reshape(-1, *forms.shape[1:])
    return np.asarray((kept + kept.transpose(0, 2, 1)) / 2, dtype=np.float64)


@dataclass(frozen=True, eq=False)
class LevelSpanNoise:
    """Noise sum_j C_j'E_j C_j of independent E_j, each as in `SpanNoise` with nothing removed.

    Attributes
    ----------
    maps : ndarray, shape (levels, q, p)
        C_j, such as `LevelNoise.maps`.
    metric : ndarray, shape (q, q)
    variance : float
        Of each E_j, such as `LevelNoise.noise.metric` and its `entry_variance`.
    """

    maps: Float
    metric: Float
    variance: float

    def __post_init__(self) -> None:
        SpanNoise(self.metric, self.variance)
        if self.maps.ndim != 3 or self.maps.shape[1] != len(self.metric) or not np.all(np.isfinite(self.maps)):
            raise ArgumentError("maps must be finite, of shape (levels, q, p) with q the size of the metric")

    @property
    def size(self) -> int:
        """The number of columns p."""
        return int(self.maps.shape[2])

    def square(self, matrix: Float) -> Float:
        """S(A) = E[E A E], shape (p, p)."""
        metric, turned = self.metric, self.maps.transpose(0, 2, 1)
        inner = self.maps @ matrix.T @ turned
        traces = np.sum(inner * metric, axis=(1, 2))
        return np.asarray(
            self.variance
            * np.sum(turned @ (traces[:, None, None] * metric + metric @ inner @ metric) @ self.maps, axis=0)
        )

    def bilinear(self, left: Float, right: Float) -> Float:
        """Var(g'E m) for the rows g, m of `left` and `right`, shape (k, p)."""
        first, second = left @ self.maps.transpose(0, 2, 1), right @ self.maps.transpose(0, 2, 1)
        inner = first @ self.metric
        own = np.sum(inner * first, axis=2) * np.sum(second @ self.metric * second, axis=2)
        return np.asarray(self.variance * np.sum(own + np.sum(inner * second, axis=2) ** 2, axis=0))

    def restrict(self, kept: Indices) -> LevelSpanNoise:
        """The law of E's rows and columns `kept`."""
        return LevelSpanNoise(self.maps[:, :, kept], self.metric, self.variance)
