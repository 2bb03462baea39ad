"""What a plan buys of its response within the declared range, and what follows from it (docs/proofs/purchases)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dpstats.errors import ArgumentError
from dpstats.families import Family, Poisson
from dpstats.formula.design import DesignSpec
from dpstats.mechanisms.design import PublicDesign
from dpstats.mechanisms.napp import Stage
from dpstats.mechanisms.objective_plan import recentred
from dpstats.request import Request

Vector = NDArray[np.float64]

MEAN_SHARE = 0.25
"""The part of a count's purchase that buys the mean; the greatest count gets the rest."""


@dataclass(frozen=True)
class ResponsePurchase:
    """What is bought of the response.

    Attributes
    ----------
    eps : float
        What it costs.
    low, high : float
        The interval that scale, centre and cap of a continuous response follow, or 0 and the greatest count that is
        not clipped; in the user's units. The declared range until it is bought.
    mean : float or None
        The bought mean of a count, or its rate per exp(offset); None until then, for other responses, and without an
        intercept to centre.
    """

    eps: float
    low: float
    high: float
    mean: float | None = None


def response_purchase(request: Request, design: PublicDesign) -> ResponsePurchase | None:
    """What the request buys of its response, the declared range standing in for what is not known yet; None if nothing.

    Raises
    ------
    ArgumentError
        If the purchase is asked for where there is nothing to buy or no room for it in the plan.
    """
    obstacle = _obstacle(request, design)
    wanted = request.options.response
    if wanted == "bought" and obstacle is not None:
        raise ArgumentError(f"response='bought' {obstacle}")
    open_counts = isinstance(request.family, Poisson) and not _capped(request.family)
    if wanted == "declared" or obstacle is not None or not (wanted == "bought" or open_counts):
        return None
    assert isinstance(design, DesignSpec)
    return ResponsePurchase(request.options.response_share * request.row_eps, design.response.low, design.response.high)


def centred(stages: Sequence[Stage], design: PublicDesign, mean: float, kept: Sequence[int]) -> tuple[Stage, ...]:
    """The stages of counts, shrinking the intercept towards the linear predictor of a released mean instead of zero.

    They hold the columns `kept` of the design.
    """
    assert isinstance(design, DesignSpec)
    target = np.zeros(len(design.names))
    at = design.names.index("Intercept")
    family = stages[0].plan.family
    assert isinstance(family, Poisson)
    # With an offset what was bought is the rate: counts per exp(offset).
    level = family.predictor(mean) if design.offset is None else math.log(mean) + design.offset_center
    target[at] = level * design.scale[at]
    inside = target[list(kept)]
    return tuple(Stage(role, recentred(plan, plan.curvature, -plan.curvature * inside)) for role, plan in stages)


def _obstacle(request: Request, design: PublicDesign) -> str | None:
    """Why nothing can be bought of the response, with the fix."""
    if request.family.response == "binary":
        return f"does not suit family {request.family.name!r}, whose response has two values; leave it out"
    if request.family.response == "count" and not isinstance(request.family, Poisson):
        return f"is not offered for family {request.family.name!r}; declare the range of the counts"
    if not isinstance(design, DesignSpec):
        return "needs a formula and a declared range; leave it out for plain arrays"
    if request.options.replicates:
        return "is not part of the replicated paper; leave it out"
    if request.options.retrieval == "return":
        return "leaves open what retrieval='return' would return; take retrieval='recycle'"
    return None


def _capped(family: Family) -> bool:
    """Whether the analyst has chosen a cap for counts."""
    return getattr(family, "y_max", None) is not None or getattr(family, "mean_cap", None) is not None
