"""What the noise can do to each coefficient, from public values alone (docs/proofs/inference, 10)."""

from __future__ import annotations

from typing import Literal, get_args

import numpy as np
from numpy.typing import NDArray
from scipy import linalg

from dpstats.arguments import shown
from dpstats.errors import ArgumentError
from dpstats.inference.inverse import check_symmetric

Float = NDArray[np.float64]
Reading = Literal["linear", "normal", "l1", "any"]


def noise_at_most(
    covariance: Float, curvature: Float, directions: Float | None = None, *, reading: Reading = "linear"
) -> Float:
    """A bound on the standard deviation that the noise alone gives each coefficient, whatever the rows are.

    Parameters
    ----------
    covariance : ndarray, shape (p, p)
        Of the objective's noise b.
    curvature : ndarray, shape (p, p)
        M, positive definite: the objective had theta'M theta / 2.
    directions : ndarray, shape (k, p), optional
        Rows c, for sd(c'theta); the coefficients by default.
    reading : {"linear", "normal", "l1", "any"}
        "linear": for the part of theta that is linear in b, whatever its law, the least of lambda c'M^-1 c, with
        lambda the largest eigenvalue of M^-1/2 Sigma M^-1/2, and of the bound of "any". The others hold for theta
        itself, given the rows, for any convex loss and penalty: "normal" b has the same bound, "l1" (independent
        Laplace entries) twice lambda, and "any" law ((tr(M^-1 Sigma) c'M^-1 c)^1/2 + (c'M^-1 Sigma M^-1 c)^1/2)^2 / 4.

    Returns
    -------
    ndarray, shape (k,)
    """
    if reading not in get_args(Reading):
        raise ArgumentError(f"reading must be one of {list(get_args(Reading))}, got {shown(reading)}")
    curvature = check_symmetric("curvature", curvature, len(curvature))
    covariance = check_symmetric("covariance", covariance, len(curvature))
    if np.linalg.eigvalsh(curvature)[0] <= 0:
        raise ArgumentError("curvature must be positive definite")
    rows = np.eye(len(curvature)) if directions is None else np.asarray(directions, dtype=np.float64)
    moved = np.linalg.solve(curvature, rows.T).T
    plain = np.sum(rows * moved, axis=1)
    values = linalg.eigh(covariance, curvature, eigvals_only=True)
    largest = max(float(values[-1]), 0.0) * plain
    every = (np.sqrt(float(values.sum()) * plain) + np.sqrt(np.sum(moved @ covariance * moved, axis=1))) ** 2 / 4
    factor = {"linear": 1.0, "normal": 1.0, "l1": 2.0, "any": np.inf}[reading]
    return np.sqrt(np.minimum(factor * largest, every))
