"""Positive definite linear systems, solved whatever rounding has made of them."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy import linalg

Vector = NDArray[np.float64]


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
