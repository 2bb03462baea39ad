"""The default curvature: from the family, the noise and a guess at the coefficients' norm, never from rows."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from dpstats.mechanisms.design import Bounds

NOISE_COST = 1.02
"""The joint bound may cost this much more noise, in scale, than no Jacobian at all."""

LARGEST_RATIO = 1e6
"""Range of kappa searched: from 1 / LARGEST_RATIO to LARGEST_RATIO."""


def default_radius(design: Bounds) -> float:
    """A guess at the norm of the coefficients, for rows of the design's Euclidean norm."""
    size = len(design.names)
    return 1.6 * float(np.sqrt(size / design.curvature_ratio(np.ones(size))))


def default_curvature(unit_ratio: float, radius: float, mean_square: Callable[[float], float]) -> float:
    """The curvature m = max(m_joint, m_risk) (docs/proofs/objective, choice of the curvature).

    Parameters
    ----------
    unit_ratio : float
        kappa at curvature one, sup ||x||^2.
    radius : float
        Guess at the norm of the coefficients.
    mean_square : callable
        kappa -> E||b||^2 of the noise the budget buys at that kappa.

    Returns
    -------
    float
        m_joint is the least curvature at which the joint bound costs at most 2 % more noise than none; m_risk
        = sqrt(E||b||^2) / radius minimises the risk bound E||b||^2 / (2 m) + m radius^2 / 2.
    """
    free = mean_square(1 / LARGEST_RATIO)
    low, high = np.log(1 / LARGEST_RATIO), np.log(LARGEST_RATIO)
    for _ in range(25):
        middle = (low + high) / 2
        if mean_square(float(np.exp(middle))) <= NOISE_COST**2 * free:
            low = middle
        else:
            high = middle
    kappa = float(np.exp(low))
    return max(unit_ratio / kappa, np.sqrt(mean_square(kappa)) / radius)
