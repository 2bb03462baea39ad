"""Positive definite linear systems, solved whatever rounding has made of them."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import linalg

from dpstats.solvers.chunks import CHUNK_ROWS

Vector = NDArray[np.float64]

SMALL_COLUMNS = 32
SMALL_PRODUCT = 10**6
"""BLAS multiplies matrices of few columns, in so many products, as they lie in memory; larger ones it packs first."""


def square_rows(width: int) -> int:
    """How many rows of so many columns `weighted_square` is best given at a time."""
    return CHUNK_ROWS if width > SMALL_COLUMNS else min(CHUNK_ROWS, SMALL_PRODUCT // width**2)


def weighted_square(exog: NDArray[Any], weights: NDArray[np.floating]) -> NDArray[np.float64]:
    """X' diag(w) X of rows X, shape (rows, p), and weights w >= 0, shape (rows,): shape (p, p).

    Symmetric up to rounding.
    """
    # np.dot leaves the interpreter free whatever its result's size is, and the operator @ only where it is large.
    if exog.shape[1] <= SMALL_COLUMNS:
        return np.asarray(np.dot(exog.T, np.einsum("ij,i->ij", exog, weights)), dtype=np.float64)
    rooted = np.einsum("ij,i->ij", exog, np.sqrt(weights))
    return np.asarray(np.dot(rooted.T, rooted), dtype=np.float64)


def solve_positive(hessian: NDArray[np.float64], gradient: Vector, floor: float) -> Vector:
    """Solve hessian @ x = gradient for a positive definite matrix whose eigenvalues are at least `floor`.

    Falls back from a diagonally scaled Cholesky factor to an eigendecomposition when rounding has made the matrix
    indefinite, as for collinear columns under a tiny curvature.
    """
    scale = 1 / np.sqrt(np.diag(hessian))
    scaled = hessian * scale[:, None] * scale
    try:
        factor = linalg.cho_factor(scaled, check_finite=False)
        return scale * linalg.cho_solve(factor, scale * gradient, check_finite=False)
    except linalg.LinAlgError:
        if not np.all(np.isfinite(hessian)):
            return gradient / floor  # a direction all the same: the solvers only take what certainly pays
        values, vectors = linalg.eigh(hessian, check_finite=False)
        return vectors @ ((vectors.T @ gradient) / np.maximum(values, floor))
