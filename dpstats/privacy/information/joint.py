"""Coefficients and information from one budget: both bounded along the loss curve (docs/proofs/information, part 3)."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dpstats.arguments import safe_repr
from dpstats.errors import ArgumentError
from dpstats.families import (
    Binomial,
    Family,
    Gaussian,
    HuberSVM,
    NegativeBinomial,
    Poisson,
    Quantile,
    SmoothSVM,
    get_family,
)
from dpstats.families.base import LossCurve, closed_cap
from dpstats.families.hazard import PiecewiseExponential
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

    1 for logistic and negative binomial regression; h for quantiles; min(1, (y_max - mean_cap) / mean_cap) or 0 for
    Poisson; 0 where the curvature is extreme with the gradient, and for the smooth SVM, where the quotient falls to 0
    at the end of the curve. ArgumentError for a family without a majorant.
    """
    family = get_family(family, of_pieces=True)
    majorant_lipschitz(family)
    if isinstance(family, (Binomial, NegativeBinomial)):
        return 1.0
    if isinstance(family, Poisson):
        cap = family.curvature_bound
        return min(1.0, (family.lipschitz - cap) / cap)
    if isinstance(family, Quantile):
        return closed_cap("h", family.h)
    return 0.0


def majorant_lipschitz(family: Family | str, weight_cap: float | None = None) -> float:
    """Lipschitz constant in eta of a majorant hbar of the rows' weights with (|l'|, hbar) covered by the curve.

    l'' itself for the logistic, the negative binomial and the pinball loss and the smooth SVM; for Poisson too, but
    mean_cap where l'' jumps from it to 0; a constant for the others; no more than the cap of weights that have one,
    whose slopes are at most in proportion to themselves. ArgumentError for a family without a majorant.
    """
    family = get_family(family, of_pieces=True)
    cap = weight_bound(family, weight_cap)
    if isinstance(family, Binomial):
        return min(LOGISTIC_STEEPNESS, cap)
    if isinstance(family, NegativeBinomial):
        return min(4 * family.curvature_bound * LOGISTIC_STEEPNESS, cap)
    if isinstance(family, Poisson):
        return cap * (family.steepness if family.curvature_bound < family.lipschitz else 1.0)
    if isinstance(family, PiecewiseExponential):  # of what an event counts
        return 1.0
    if isinstance(family, Quantile):
        return LOGISTIC_STEEPNESS / closed_cap("h", family.h) ** 2
    if isinstance(family, SmoothSVM):
        return 1.5 / family.h**2
    if isinstance(family, (Gaussian, HuberSVM)):
        return 0.0
    raise ArgumentError(f"no majorant of the curvature of {family.name!r} is proved")


def tail_slope(family: Family, weight_cap: float | None) -> float:
    """What l'' is divided by in capped weights of counts beyond mean_cap, so that they are at most y_max - |l'|.

    The steepness of l'' there, where the cap leaves weights continuous: up to y_max - mean_cap; otherwise 1.
    """
    if weight_cap is None or not isinstance(family, Poisson) or family.curvature_bound >= family.lipschitz:
        return 1.0
    return family.steepness if weight_cap <= family.lipschitz - family.curvature_bound else 1.0


def weight_bound(family: Family, weight_cap: float | None) -> float:
    """The greatest weight of a row in the matrix, of those of a person together: a hazard's person has one event."""
    if isinstance(family, PiecewiseExponential):
        return 1.0
    return family.curvature_bound if weight_cap is None else min(weight_cap, family.curvature_bound)


def row_weights(
    family: Family | str, eta: Float, endog: Float, weight_cap: float | None = None, exposure: Float | float = 1.0
) -> Float:
    """l'' at eta, or no more than a cap, at most the majorant; of a hazard what an event counts. Shape (rows,).

    `exposure` is over the greatest, as of `capped_weights`.
    """
    family = get_family(family, of_pieces=True)
    majorant_lipschitz(family)
    if isinstance(family, PiecewiseExponential):
        return np.asarray(family.event_counts(eta, endog), dtype=np.float64)
    return capped_weights(family, eta, np.asarray(family.weight(eta, endog), dtype=np.float64), weight_cap, exposure)


def capped_weights(
    family: Family, eta: Float, weights: Float, weight_cap: float | None, exposure: Float | float = 1.0
) -> Float:
    """The rows' weights in the matrix, shape (rows,), from l'' at eta.

    A row's own cap goes with its exposure over the greatest: a row of half of it has half the cap.
    """
    if weight_cap is None:
        return weights
    slope = tail_slope(family, weight_cap)
    if slope > 1:
        weights = np.where(eta > math.log(family.curvature_bound), weights / slope, weights)
    return np.minimum(weights, weight_cap * np.minimum(exposure, 1.0))


def relative_exposure(offset: Float | float, high: float) -> Float:
    """exp(offset) over the greatest: what a row's cap on its weight is in proportion to."""
    return np.asarray(np.exp(np.minimum(np.asarray(offset, dtype=np.float64) - high, 0.0)))


def curve_weights(family: Family, curve: LossCurve, weight_cap: float | None) -> Float:
    """What a record's weight at the optimum is at most in each cell of the curve, shape (cells,)."""
    if isinstance(family, PiecewiseExponential):
        return np.ones_like(curve.curvature)
    if weight_cap is None:
        return curve.curvature
    return np.minimum(curve.curvature / tail_slope(family, weight_cap), check_positive("weight_cap", weight_cap))


class RecordCells(NamedTuple):
    """Upper corners of cells that hold every record's |l'|, l'' and weight in the matrix, shapes (cells,)."""

    gradient: Float
    curvature: Float
    weight: Float


def record_cells(family: Family, weight_cap: float | None) -> RecordCells:
    """Those of the loss curve; a hazard's person has no weight in the matrix without an event."""
    if isinstance(family, PiecewiseExponential):
        return RecordCells(*family.corners())
    curve = family.curve(CELLS)
    return RecordCells(curve.gradient, curve.curvature, curve_weights(family, curve, weight_cap))


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
    family = get_family(family, of_pieces=True)
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
    weight_cap: float | None = None,
) -> float:
    """The eps of a fit with Laplace noise of `scale` s and its information with Wishart noise of `matrix_scale` s2.

    sup over C of [log(1 + kappa h) + X g / s + h / s2], and to replace one sup over C of [X g / s + h / s2] more; kappa
    h for the logarithm if `shared`; an upper bound, by the cells of the curve. `eta_error` bounds the difference of a
    row's linear predictors at the released and at the exact optimum; h / s2 has the weights under `weight_cap`.
    """
    family = get_family(family, of_pieces=True)
    per_gradient = check_positive("row_norm", row_norm) / check_positive("scale", scale)
    per_weight = 1 / check_positive("matrix_scale", matrix_scale)
    kappa = check_positive("curvature_ratio", curvature_ratio)
    cells, shift = record_cells(family, weight_cap), majorant_shift(family, eta_error, weight_cap)
    cost = per_gradient * cells.gradient + per_weight * (cells.weight + shift)
    loss = float(np.max(determinant_loss(kappa, cells.curvature, shared=shared) + cost))
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
    weight_cap: float | None = None,
) -> JointScales:
    """The least scales of fit and matrix noise for a pure budget of both, for a given ratio of the two.

    `ratio`, not negative, is 1 / s2 as a multiple of row_norm / s: for logistic regression 1 is the free amount and the
    share kappa of the determinant together. At 0 s is what `joint_scale` gives, and s2 is infinite.
    """
    family = get_family(family, of_pieces=True)
    eps, _ = check_budget(eps)
    kappa, norm = check_positive("curvature_ratio", curvature_ratio), check_positive("row_norm", row_norm)
    ratio = check_ratio(ratio)
    cells, shift = record_cells(family, weight_cap), majorant_shift(family, eta_error, weight_cap)
    cost = cells.gradient + ratio * (cells.weight + shift)
    remaining = eps * (1 - 3 * ROUNDING) - determinant_loss(kappa, cells.curvature, shared=shared) * (1 + ROUNDING)
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
    weight_cap: float | None = None,
) -> float:
    """The largest ratio, as `joint_scales` takes it, at which eps pays for a fit with noise of `scale` and the matrix.

    0 if eps does not even pay for the fit.
    """
    family = get_family(family, of_pieces=True)
    eps, _ = check_budget(eps)
    kappa, norm = check_positive("curvature_ratio", curvature_ratio), check_positive("row_norm", row_norm)
    unit = check_positive("scale", scale) / norm
    curve, shift = family.curve(CELLS), majorant_shift(family, eta_error, weight_cap)
    weight = curve_weights(family, curve, weight_cap) + shift
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


def majorant_shift(family: Family, eta_error: float, weight_cap: float | None) -> float:
    """How much more than at the exact optimum the majorant may be at the released one.

    `eta_error` bounds the difference of a row's linear predictors there.
    """
    lipschitz = majorant_lipschitz(family, weight_cap)
    if not math.isfinite(eta_error) or eta_error < 0:
        raise ArgumentError(f"eta_error must be a finite number, not negative, got {safe_repr(eta_error)}")
    return lipschitz * eta_error
