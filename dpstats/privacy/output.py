"""The noise of output perturbation, in the metric of the curvature (docs/proofs/output)."""

from __future__ import annotations

import math

from dpstats.arguments import shown
from dpstats.errors import ArgumentError
from dpstats.families import Family
from dpstats.privacy.calibration import check_positive
from dpstats.privacy.gaussian import analytic_mu
from dpstats.privacy.guarantee import Adjacency, check_adjacency, check_budget
from dpstats.privacy.noise import Kind, Noise

ROUNDED = 1 + 1e-12
"""Covers the rounding of the few operations below."""


def output_sensitivity(family: Family, *, curvature_ratio: float, adjacency: Adjacency = "add_remove") -> float:
    """How far one row moves the optimum in the norm of its curvature, ||M^(1/2) (theta - theta')||_2.

    Parameters
    ----------
    family : Family
        The loss, its caps set.
    curvature_ratio : float
        kappa, the supremum of x' M^-1 x over all rows.
    adjacency : {"add_remove", "replace_one"}

    Returns
    -------
    float
        L sqrt(kappa) to add or remove a row, twice that to replace one (docs/proofs/output, Theorem 1).
    """
    rows = 2 if check_adjacency(adjacency) == "replace_one" else 1
    ratio = check_positive("curvature_ratio", curvature_ratio)
    return rows * family.lipschitz * math.sqrt(ratio) * ROUNDED


def output_noise(
    family: Family,
    *,
    eps: float,
    delta: float = 0.0,
    curvature_ratio: float,
    adjacency: Adjacency = "add_remove",
    kind: Kind | None = None,
) -> Noise:
    """The law of g, where output perturbation releases the optimum plus M^(-1/2) g.

    Parameters
    ----------
    family : Family
        The loss, its caps set.
    eps, delta : float
    curvature_ratio : float
        kappa, the supremum of x' M^-1 x over all rows.
    adjacency : {"add_remove", "replace_one"}
    kind : {"laplace", "gaussian"}, optional
        By default Gaussian noise where delta is positive.

    Returns
    -------
    Noise
        "laplace": density prop. to exp(-||g||_2 / scale), a Gamma(p) radius, (eps, 0)-DP. "gaussian": N(0, scale^2 I),
        the analytic Gaussian mechanism.

    Raises
    ------
    ArgumentError
        If an argument is outside its range, or Gaussian noise is asked for with delta = 0.

    References
    ----------
    docs/proofs/output; Chaudhuri et al. (2011), algorithm 1; Balle and Wang (2018).
    """
    eps, delta = check_budget(eps, delta)
    sensitivity = output_sensitivity(family, curvature_ratio=curvature_ratio, adjacency=adjacency)
    if (kind or ("gaussian" if delta > 0 else "laplace")) == "laplace":
        return Noise("laplace", "l2", sensitivity / eps * ROUNDED)
    if delta == 0:
        raise ArgumentError(f"delta must be positive for Gaussian noise, got {shown(delta)}")
    return Noise("gaussian", "l2", sensitivity / analytic_mu(eps, delta) * ROUNDED)
