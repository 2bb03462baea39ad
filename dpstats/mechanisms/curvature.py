"""The default curvature: from the family, the noise and a guess at the coefficients' norm, never from rows."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray
from scipy import optimize

from dpstats.families import Family
from dpstats.mechanisms.design import Bounds

Vector = NDArray[np.float64]

SEARCHED = (0.3, 50.0)
"""Multiples of the curvature that would be best if the Jacobian were free, between which the best one is sought."""


def typical_sizes(family: Family, design: Bounds, radius: float | None = None) -> Vector:
    """A guess at the size of each coefficient in model units, shape (p,), settled by the experiments in docs/defaults.

    For rows of Euclidean norm one the family's `typical_norm` in equal parts, none above its `typical_size`. An
    intercept's column is as small as the row has terms: it has the family's `typical_intercept`, in units of the linear
    predictor, where that is more.

    Parameters
    ----------
    radius : float, optional
        The norm of the coefficients to assume instead; the same proportions.
    """
    size = len(design.names)
    each = min(family.typical_size, family.typical_norm / float(np.sqrt(size)))
    sizes = np.full(size, each / float(np.sqrt(design.curvature_ratio(np.ones(size)))))
    for image in design.images:
        if image.block.kind == "intercept":
            constant = image.columns[int(np.argmax(np.abs(image.matrix[0])))]
            sizes[constant] = max(sizes[constant], family.typical_intercept / float(np.max(np.abs(image.matrix))))
    return sizes if radius is None else sizes * (radius / float(np.linalg.norm(sizes)))


def least_curvature(family: Family, unit_ratio: float, eps: float, *, shared: bool = False) -> float:
    """The curvature at which the Jacobian alone costs eps, sup ||x||^2 = `unit_ratio`: more of it is needed.

    `shared` says that rows of a person share a weight: kappa h = eps instead of log(1 + kappa h) = eps.
    """
    return unit_ratio * family.curvature_bound / (eps if shared else math.expm1(min(eps, 700.0)))


def risk_curvature(radius: float, mean_square: Callable[[float], float], least: float) -> tuple[float, float]:
    """The curvature m that minimises the risk bound E||b(m)||^2 / (2 m) + m radius^2 / 2 (docs/proofs/risk).

    Parameters
    ----------
    radius : float
        Guess at the norm of the coefficients.
    mean_square : callable
        m -> E||b||^2 of the noise that the budget buys at curvature m; decreasing, perhaps infinite.
    least : float
        Curvature below which `mean_square` may be infinite.

    Returns
    -------
    curvature, risk : float
        Without a Jacobian the best m is sqrt(E||b||^2) / radius; a family whose curvature does not vanish where its
        gradient is extreme gains from more.
    """
    start = max(np.sqrt(mean_square(np.inf)) / radius, least)

    def risk(log_multiple: float) -> float:
        m = start * np.exp(log_multiple)
        return float(mean_square(m) / (2 * m) + m * radius**2 / 2)

    low, high = np.log(SEARCHED)
    found = optimize.minimize_scalar(risk, bounds=(low, high), method="bounded", options={"xatol": 0.01})
    return float(start * np.exp(found.x)), float(found.fun)
