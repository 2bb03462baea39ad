"""What the noise of a fit costs, alone or with the information (docs/proofs/objective, information)."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dpstats.errors import ArgumentError
from dpstats.families import Family
from dpstats.mechanisms.curvature import least_curvature
from dpstats.mechanisms.design import Bounds
from dpstats.mechanisms.information import InformationPlan, matrix_metric
from dpstats.mechanisms.metrics import Metric, Purchase
from dpstats.privacy.calibration import classical_scale, joint_loss, joint_scale
from dpstats.privacy.information import (
    JointScales,
    MatrixLaw,
    MatrixNoise,
    best_joint_scales_delta,
    free_ratio,
    headroom,
    joint_scales,
    joint_scales_delta,
)

Vector = NDArray[np.float64]

ROOM_WANTED = 0.4
"""Free information: the curvature is raised until kappa takes no more than this part of what the fit's noise has room
for in l'',"""

MOST_ROOM = 1.6
"""but no further than to so many times what the fit alone would have: it is shrinkage,"""

ROOM_PER_EPS = 1.4
"""and where eps is small, little more than that (docs/defaults)."""

LEAST_FREE = 0.25
"""Information is not worth having for less than this part of that room."""

FREE_SURCHARGE = 0.002
"""What is called free may raise the scale of normal noise by this part, and of other noise where nothing else helps."""

PAID_SURCHARGES = (0.1, 0.25)
"""What is paid for raises it by so much: where the fit's noise has room for the information, and where it has none."""

PAID_ROOM = 1.5
"""Information that is paid for: the curvature is so many times what is best for prediction; the noise is less then."""


class Price(NamedTuple):
    """Noise scale and cost of one fit, beside the classical split's scale and what that really costs."""

    scale: float
    eps: float
    planned: float
    classical: float
    need: float


def price_fit(design: Bounds, family: Family, purchase: Purchase, metric: Metric, curvature: Vector) -> Price:
    """Calibrate the noise at a curvature, and settle where retrieved budget goes.

    Raises
    ------
    ArgumentError
        If no noise is enough.
    """
    kappa = design.curvature_ratio(curvature)
    if not kappa > 0:
        raise ArgumentError(
            f"eps = {purchase.eps:.3g}, the part of eps that is left for this fit, is too small: noise of about "
            f"{family.lipschitz / purchase.eps:.1g} would drown any data. Give an eps between 0.01 and 10, as is usual"
        )
    joint = scales(family, purchase, metric, kappa).fit
    if not np.isfinite(joint):
        square = design.curvature_ratio(np.ones(len(curvature)))
        least = least_curvature(family, square, purchase.eps, shared=purchase.shared)
        raise ArgumentError(
            f"curvature is too small for eps = {purchase.eps:.3g}: give more than about {least:.4g}, or raise eps"
        )
    classical, need = _classical(family, purchase, metric, purchase.eps, kappa)
    # Too little curvature for the classical split leaves nothing to retrieve: the joint bound then asks for more noise.
    if need >= purchase.eps or purchase.retrieval == "recycle":
        return Price(joint, purchase.eps, purchase.eps, classical, need)
    charged = need if purchase.retrieval == "return" else purchase.eps
    return Price(classical, charged, purchase.eps, classical, need)


def scales(family: Family, purchase: Purchase, metric: Metric, kappa: float, error: float = 0.0) -> JointScales:
    """Scales of the noise of the fit, and of its information if that is paid for too.

    Parameters
    ----------
    error : float
        Bound on the difference of linear predictors at the released and at the exact optimum.
    """
    common = {**_bought(purchase, metric), "eps": purchase.eps, "curvature_ratio": kappa, "shared": purchase.shared}
    if purchase.information is None:
        return JointScales(joint_scale(family, **common), np.inf)
    common |= {"ratio": purchase.information.ratio, "eta_error": error}
    if metric.kind == "gaussian":
        del common["shared"]  # which is for pure noise alone
        return joint_scales_delta(family, law="wishart", **common)
    del common["delta"]
    return joint_scales(family, **common)


def room(family: Family, purchase: Purchase, kappa: float) -> float:
    """By what the curvature is raised to make room for free information."""
    rows = 2 if purchase.adjacency == "replace_one" else 1
    most = headroom(family) * purchase.eps / (rows * family.lipschitz)
    return min(MOST_ROOM, 1 + ROOM_PER_EPS * purchase.eps, max(1.0, kappa / (ROOM_WANTED * most)))


def price_information(
    design: Bounds, family: Family, purchase: Purchase, metric: Metric, curvature: Vector, alone: Price, error: float
) -> tuple[Price, InformationPlan] | None:
    """Calibrate the noise of fit and information together.

    Parameters
    ----------
    alone : Price
        Of the fit whose noise is to be kept, if the information is to be free.
    error : float
        As for `scales`.

    Returns
    -------
    Price, InformationPlan, or None
        None if the information was to be free and there is hardly room for it.
    """
    asked, kappa = purchase.information, design.curvature_ratio(curvature)
    assert asked is not None
    found: JointScales | None
    law: MatrixLaw = "wishart"
    if metric.kind == "gaussian":
        law, found = _normal_scales(family, purchase, metric, kappa, len(curvature), error)
    elif asked.free:
        found = _free_scales(family, purchase, metric, kappa, alone.scale, error)
    else:
        found = scales(family, purchase, metric, kappa, error)
    if found is None:
        return None
    loss = _loss(family, purchase, metric, found.fit, kappa)
    fit = min(loss, purchase.eps)
    classical, need = _classical(family, purchase, metric, fit, kappa)
    noise = MatrixNoise(law, found.matrix, *matrix_metric(design))
    plan = InformationPlan(asked, noise, family.curvature_bound, purchase.eps - fit, error)
    return Price(found.fit, fit, fit, classical, need), plan


def _free_scales(
    family: Family, purchase: Purchase, metric: Metric, kappa: float, scale: float, error: float
) -> JointScales | None:
    """The matrix noise that there is room for beside the fit's pure noise of a scale; None for hardly any.

    Where the whole of eps is spent on the extreme gradient, the error of the last step finds no room unless there is a
    little more noise.
    """
    for fit in (scale, scale * (1 + FREE_SURCHARGE)):
        ratio = free_ratio(
            family,
            scale=fit,
            eps=purchase.eps,
            curvature_ratio=kappa,
            row_norm=metric.row_norm,
            adjacency=purchase.adjacency,
            eta_error=error,
            shared=purchase.shared,
        )
        if ratio > LEAST_FREE * headroom(family):
            return JointScales(fit, fit / (ratio * metric.row_norm))
    return None


def _normal_scales(
    family: Family, purchase: Purchase, metric: Metric, kappa: float, size: int, error: float
) -> tuple[MatrixLaw, JointScales | None]:
    """The matrix noise beside normal noise of the fit that is raised a little, and its law."""
    asked = purchase.information
    assert asked is not None
    paid = PAID_SURCHARGES[0 if headroom(family) > 0 else 1] if asked.surcharge is None else asked.surcharge
    choice = best_joint_scales_delta(
        family,
        eps=purchase.eps,
        size=size,
        curvature_ratio=kappa,
        surcharge=FREE_SURCHARGE if asked.free else paid,
        eta_error=error,
        **_bought(purchase, metric),
    )
    return choice.law, choice.scales if np.isfinite(choice.entry_variance) else None


def _bought(purchase: Purchase, metric: Metric) -> dict[str, Any]:
    """What the calibrations have in common."""
    return {"delta": metric.delta, "row_norm": metric.row_norm, "adjacency": purchase.adjacency}


def _classical(family: Family, purchase: Purchase, metric: Metric, eps: float, kappa: float) -> tuple[float, float]:
    """The scale of the papers' even split of eps, and what noise of that scale really costs."""
    classical = classical_scale(family, eps=eps, **_bought(purchase, metric))
    return classical, _loss(family, purchase, metric, classical, kappa)


def _loss(family: Family, purchase: Purchase, metric: Metric, scale: float, kappa: float) -> float:
    """What noise of a scale costs."""
    return joint_loss(
        family,
        scale=scale,
        curvature_ratio=kappa,
        kind=metric.kind,
        shared=purchase.shared,
        **_bought(purchase, metric),
    )
