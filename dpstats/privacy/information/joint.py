"""Coefficients and information from one budget: both bounded along the loss curve (docs/proofs/information, part 3)."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dpstats.arguments import safe_repr
from dpstats.errors import ArgumentError
from dpstats.families import Binomial, Family, Gaussian, HuberSVM, NegativeBinomial, Poisson, SmoothSVM, get_family
from dpstats.privacy.calibration import CELLS, ROUNDING, check_positive, determinant_loss
from dpstats.privacy.guarantee import Adjacency, check_adjacency, check_budget

Float = NDArray[np.float64]


LOGISTIC_STEEPNESS = 1 / (6 * math.sqrt(3))
"""sup of the derivative of p (1 - p), p the logistic curve."""

SPAN = 1e-9
"""Relative accuracy of `free_ratio`, from below."""


class JointScales(NamedTuple):
    """Scales of the fit's noise and of the matrix noise; infinite if the curvature is too small for any noise."""

    fit: float
    matrix: float


def headroom(family: Family | str) -> float:
    """inf over the loss curve of (L - |l'|) / hbar: how much of the gradient's noise the information has for nothing.

    1 for logistic and negative binomial regression; min(1, (y_max - mean_cap) / mean_cap) or 0 for Poisson; 0 where
    the curvature is extreme with the gradient, and for the smooth SVM, where the quotient falls to 0 at the end of the
    curve. ArgumentError for a family without a majorant.
    """
    family = get_family(family)
    majorant_lipschitz(family)
    if isinstance(family, (Binomial, NegativeBinomial)):
        return 1.0
    if isinstance(family, Poisson):
        cap = family.curvature_bound
        return min(1.0, (family.lipschitz - cap) / cap)
    return 0.0


def majorant_lipschitz(family: Family | str) -> float:
    """Lipschitz constant in eta of a majorant hbar >= l'' with (|l'|, hbar) covered by the family's curve.

    l'' itself for the logistic and the negative binomial loss and the smooth SVM; for Poisson too, but mean_cap where
    l'' jumps from it to 0; a constant for the others. ArgumentError for a family without a majorant.
    """
    family = get_family(family)
    if isinstance(family, Binomial):
        return LOGISTIC_STEEPNESS
    if isinstance(family, NegativeBinomial):
        return 4 * family.curvature_bound * LOGISTIC_STEEPNESS
    if isinstance(family, Poisson):
        cap = family.curvature_bound
        return cap * (family.steepness if cap < family.lipschitz else 1.0)
    if isinstance(family, SmoothSVM):
        return 1.5 / family.h**2
    if isinstance(family, (Gaussian, HuberSVM)):
        return 0.0
    raise ArgumentError(f"no majorant of the curvature of {family.name!r} is proved")


def row_weights(family: Family | str, eta: Float, endog: Float) -> Float:
    """l'' at eta, at most the majorant; shape (rows,)."""
    family = get_family(family)
    majorant_lipschitz(family)
    return np.asarray(family.weight(eta, endog), dtype=np.float64)


def free_information(
    family: Family | str,
    *,
    eps: float,
    curvature_ratio: float,
    row_norm: float,
    adjacency: Adjacency = "add_remove",
) -> float:
    """The largest 1 / s2 that costs nothing beside a fit on which the whole of eps is spent; 0 if there is none.

    headroom X / s - kappa with s = X L / eps (2 X L / eps to replace one), in units of 1 / l''. At such a scale of the
    matrix noise the joint bound is attained at the extreme gradient alone; with more, it rises.
    """
    family = get_family(family)
    eps, _ = check_budget(eps)
    kappa, norm = check_positive("curvature_ratio", curvature_ratio), check_positive("row_norm", row_norm)
    rows = 2 if check_adjacency(adjacency) == "replace_one" else 1
    scale = rows * norm * family.lipschitz / eps
    return max(0.0, headroom(family) * norm / scale - kappa)


def joint_information_loss(
    family: Family | str,
    *,
    scale: float,
    matrix_scale: float,
    curvature_ratio: float,
    row_norm: float,
    adjacency: Adjacency = "add_remove",
    eta_error: float = 0.0,
    shared: bool = False,
) -> float:
    """The eps of a fit with Laplace noise of `scale` s and its information with Wishart noise of `matrix_scale` s2.

    sup over C of [log(1 + kappa h) + X g / s + h / s2], and to replace one sup over C of [X g / s + h / s2] more; kappa
    h for the logarithm if `shared`; an upper bound, by the cells of the curve. `eta_error` bounds the difference of a
    row's linear predictors at the released and at the exact optimum.
    """
    family = get_family(family)
    per_gradient = check_positive("row_norm", row_norm) / check_positive("scale", scale)
    per_weight = 1 / check_positive("matrix_scale", matrix_scale)
    kappa = check_positive("curvature_ratio", curvature_ratio)
    curve, shift = family.curve(CELLS), _majorant_shift(family, eta_error)
    cost = per_gradient * curve.gradient + per_weight * (curve.curvature + shift)
    loss = float(np.max(determinant_loss(kappa, curve.curvature, shared=shared) + cost))
    if check_adjacency(adjacency) == "replace_one":
        loss += float(np.max(cost))
    return loss * (1 + 3 * ROUNDING)


def joint_scales(
    family: Family | str,
    *,
    eps: float,
    curvature_ratio: float,
    row_norm: float,
    ratio: float,
    adjacency: Adjacency = "add_remove",
    eta_error: float = 0.0,
    shared: bool = False,
) -> JointScales:
    """The least scales of fit and matrix noise for a pure budget of both, for a given ratio of the two.

    `ratio`, not negative, is 1 / s2 as a multiple of row_norm / s: for logistic regression 1 is the free amount and the
    share kappa of the determinant together. At 0 s is what `joint_scale` gives, and s2 is infinite.
    """
    family = get_family(family)
    eps, _ = check_budget(eps)
    kappa, norm = check_positive("curvature_ratio", curvature_ratio), check_positive("row_norm", row_norm)
    ratio = check_ratio(ratio)
    curve = family.curve(CELLS)
    cost = curve.gradient + ratio * (curve.curvature + _majorant_shift(family, eta_error))
    remaining = eps * (1 - 3 * ROUNDING) - determinant_loss(kappa, curve.curvature, shared=shared) * (1 + ROUNDING)
    if remaining.min() <= 0:
        return JointScales(math.inf, math.inf)
    second = float(np.max(cost)) if check_adjacency(adjacency) == "replace_one" else 0.0
    scale = norm * float(np.max((cost + second) / remaining))
    return JointScales(scale, scale / (ratio * norm) if ratio > 0 else math.inf)


def free_ratio(
    family: Family | str,
    *,
    scale: float,
    eps: float,
    curvature_ratio: float,
    row_norm: float,
    adjacency: Adjacency = "add_remove",
    eta_error: float = 0.0,
    shared: bool = False,
) -> float:
    """The largest ratio, as `joint_scales` takes it, at which eps pays for a fit with noise of `scale` and the matrix.

    0 if eps does not even pay for the fit.
    """
    family = get_family(family)
    eps, _ = check_budget(eps)
    kappa, norm = check_positive("curvature_ratio", curvature_ratio), check_positive("row_norm", row_norm)
    unit = check_positive("scale", scale) / norm
    curve = family.curve(CELLS)
    weight = curve.curvature + _majorant_shift(family, eta_error)
    remaining = (
        unit * (eps * (1 - 3 * ROUNDING) - determinant_loss(kappa, curve.curvature, shared=shared) * (1 + ROUNDING))
        - curve.gradient
    )
    if check_adjacency(adjacency) == "add_remove":
        return max(0.0, float(np.min(remaining / weight)))
    # With the second record: the greatest g_i + r h_i is added to what each cell needs.
    low, high = 0.0, max(0.0, float(np.min(remaining / weight)))
    while high > low + SPAN * (1 + low):
        middle = (low + high) / 2
        second = float(np.max(curve.gradient + middle * weight))
        low, high = (middle, high) if np.all(middle * weight + second <= remaining) else (low, middle)
    return low


def check_ratio(ratio: float) -> float:
    """The ratio as a float; ArgumentError if it is negative or not finite."""
    if not math.isfinite(ratio) or ratio < 0:
        raise ArgumentError(f"ratio must be a finite number, not negative, got {safe_repr(ratio)}")
    return float(ratio)


def _majorant_shift(family: Family, eta_error: float) -> float:
    """How much more than at the exact optimum the majorant may be at the released one."""
    lipschitz = majorant_lipschitz(family)
    if not math.isfinite(eta_error) or eta_error < 0:
        raise ArgumentError(f"eta_error must be a finite number, not negative, got {safe_repr(eta_error)}")
    return lipschitz * eta_error
