"""How cold a posterior may be drawn from: the factor on the losses that a budget pays for (docs/proofs/posterior)."""

from __future__ import annotations

import numpy as np
import opendp.prelude as opendp
from numpy.typing import NDArray

from dpstats.arguments import shown
from dpstats.errors import ArgumentError
from dpstats.families import Family
from dpstats.privacy.calibration import check_positive
from dpstats.privacy.gaussian import analytic_mu
from dpstats.privacy.guarantee import Adjacency, check_adjacency, check_budget
from dpstats.privacy.output import ROUNDED, output_sensitivity
from dpstats.privacy.randomness import RandomSource, SystemRandom


def gaussian_temperature(
    family: Family, *, eps: float, delta: float, curvature_ratio: float, adjacency: Adjacency = "add_remove"
) -> float:
    """c with theta ~ exp(-c (sum of losses + theta'M theta / 2)) (eps, delta)-DP, by its Gaussian-DP parameter.

    Parameters
    ----------
    family : Family
        The loss, its caps set.
    eps, delta : float
        delta positive.
    curvature_ratio : float
        kappa, the supremum of x' M^-1 x over all rows.
    adjacency : {"add_remove", "replace_one"}

    Returns
    -------
    float
        (mu / (L sqrt(kappa)))^2, with 2 L to replace a row (Gopi, Lee and Liu 2022; docs/proofs/posterior, Theorem 2).
    """
    eps, delta = check_budget(eps, delta)
    if delta == 0:
        raise ArgumentError(f"delta must be positive for a posterior without bounds on its region, got {shown(delta)}")
    sensitivity = output_sensitivity(family, curvature_ratio=curvature_ratio, adjacency=adjacency)
    return (analytic_mu(eps, delta) / sensitivity) ** 2 / ROUNDED


def oscillation(family: Family, reach: float) -> float:
    """The most that one row's loss varies while |eta| <= reach: exactly for signed losses, else at most 2 L reach."""
    reach = check_positive("reach", reach)
    if not family.signed:
        return 2 * family.lipschitz * reach
    ends = np.array([-reach, reach])
    values = [family.derivatives(ends, np.full(2, response)).value for response in (0.0, 1.0)]
    return float(max(abs(low - high) for low, high in values))


def region_temperature(family: Family, *, eps: float, reach: float, adjacency: Adjacency = "add_remove") -> float:
    """c with theta ~ exp(-c sum of losses) on a region where |eta| <= reach (eps, 0)-DP: eps over the oscillation.

    Half of that to replace a row: then the weights and their sum may move against each other.
    """
    eps, _ = check_budget(eps)
    rows = 2 if check_adjacency(adjacency) == "replace_one" else 1
    return eps / (rows * oscillation(family, reach) * ROUNDED)


def exponential_index(scores: NDArray[np.int64], scale: float, random: RandomSource) -> int:
    """An index k drawn with probability proportional to exp(-scores[k] / scale).

    Parameters
    ----------
    scores : ndarray of int64, shape (k,)
    scale : float
    random : RandomSource
        OpenDP draws, exactly, except from a seeded source: Gumbel noise on integers, whose maximum has that law.
    """
    if not isinstance(random, SystemRandom):
        uniform = np.maximum(random.random(len(scores)), np.finfo(np.float64).tiny)
        return int(np.argmin((scores - scores.min()) / scale + np.log(-np.log(uniform))))
    opendp.enable_features("contrib")
    space = opendp.vector_domain(opendp.atom_domain(T=opendp.i64)), opendp.linf_distance(T=opendp.i64)
    choose = opendp.m.make_noisy_max(*space, opendp.zero_concentrated_divergence(), scale=scale, negate=True)
    return int(choose([int(score) for score in scores]))
