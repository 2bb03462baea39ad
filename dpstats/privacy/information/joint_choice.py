"""The better law of the matrix noise beside normal noise of the fit (docs/proofs/information, 4)."""

from __future__ import annotations

import math
from functools import lru_cache
from typing import NamedTuple

from scipy import optimize

from dpstats.arguments import shown
from dpstats.errors import ArgumentError
from dpstats.families import Family, get_family
from dpstats.privacy.calibration import CELLS, check_positive
from dpstats.privacy.calibration_gaussian import check_delta, gaussian_mu
from dpstats.privacy.guarantee import Adjacency, check_adjacency, check_budget
from dpstats.privacy.information.joint import JointScales
from dpstats.privacy.information.joint_gaussian import JointProfile, joint_profile
from dpstats.privacy.information.matrix import MatrixLaw, MatrixNoise

LAWS: tuple[MatrixLaw, ...] = ("wishart", "normal")

PRECISION = 1e-3
"""Relative, of the matrix noise's scale."""


class JointChoice(NamedTuple):
    """A law of the matrix noise, with the scales of fit and matrix and the variance of an entry off the diagonal."""

    law: MatrixLaw
    scales: JointScales
    entry_variance: float


@lru_cache(maxsize=64)
def best_joint_scales_delta(
    family: Family | str,
    *,
    eps: float,
    delta: float,
    size: int,
    curvature_ratio: float,
    row_norm: float,
    surcharge: float = 0.01,
    adjacency: Adjacency = "add_remove",
    eta_error: float = 0.0,
) -> JointChoice:
    """The matrix noise of least variance, of either law, that a little more normal noise of the fit pays for.

    Parameters
    ----------
    family, eps, delta, curvature_ratio, row_norm, adjacency, eta_error
        As for `joint_scales_delta`.
    size : int
        p, the columns of the matrix.
    surcharge : float
        Positive: the fit's noise is (1 + surcharge) times what it is with the whole budget to itself.

    Returns
    -------
    JointChoice
        Its scales are private together. Infinite scales if the curvature is too small for any noise.

    Raises
    ------
    ArgumentError
        If an argument is outside its range.
    """
    family = get_family(family)
    eps, delta = check_budget(eps, delta)
    check_positive("delta", delta)
    check_delta(delta)
    kappa, norm = check_positive("curvature_ratio", curvature_ratio), check_positive("row_norm", row_norm)
    adjacency, extra = check_adjacency(adjacency), check_positive("surcharge", surcharge)
    if size < 1:
        raise ArgumentError(f"size must be a positive number of columns, got {shown(size)}")
    profiles = {
        law: joint_profile(
            family, eps=eps, delta=delta, curvature_ratio=kappa, adjacency=adjacency, law=law, eta_error=eta_error
        )
        for law in LAWS
    }
    most = gaussian_mu(family.curve(CELLS), family.signed, profiles["normal"].eps, delta, kappa, adjacency)
    if most == 0:
        return JointChoice("normal", JointScales(math.inf, math.inf), math.inf)
    mu = most / (1 + extra)
    found = [_choice(law, profile, mu, size, norm * family.lipschitz / mu) for law, profile in profiles.items()]
    return min(found, key=lambda choice: choice.entry_variance)


def _choice(law: MatrixLaw, profile: JointProfile, mu: float, size: int, fit: float) -> JointChoice:
    inverse = _greatest_inverse(profile, mu)
    if inverse == 0:
        return JointChoice(law, JointScales(fit, math.inf), math.inf)
    noise = MatrixNoise(law, 1 / inverse, (1.0,) * size)
    return JointChoice(law, JointScales(fit, noise.scale), noise.entry_variance)


def _greatest_inverse(profile: JointProfile, mu: float) -> float:
    """The greatest inverse scale of the matrix noise, up to `PRECISION`, at which the bound holds; 0 if none does."""
    weight = float(max(profile.removal.weight.max(), profile.removal.extra.max()))
    guess = math.log(mu / weight)
    profile = profile.near(mu, 0.5 * mu / weight)

    def excess(log_inverse: float) -> float:
        return math.log(max(profile.bound(mu, math.exp(log_inverse)), 1e-300) / profile.delta)

    high, step = guess, 0.5
    while excess(high) <= 0:
        high, step = high + step, 2 * step
    low, step = high - 0.5, 0.5
    while excess(low) > 0:
        if step > 20:
            return 0.0
        high, step = low, 2 * step
        low = high - step
    root = float(optimize.brentq(excess, low, high, xtol=PRECISION))
    while excess(root) > 0:
        root -= PRECISION
    return math.exp(root)
