"""A loss and a design on the scale of what is known of the response, and the plan of a model of both."""

from __future__ import annotations

from dataclasses import replace

from dpstats.call import Request
from dpstats.families import BinomialCounts, Family, Gaussian, NegativeBinomial, Poisson, Quantile
from dpstats.families.negative_binomial import least_alpha
from dpstats.families.quantile import default_width
from dpstats.formula.design import DesignSpec
from dpstats.plan.methods import (
    INTERVAL_CAP,
    ONE_TAIL,
    WORKING_CAP,
    ResponsePurchase,
    caps_for_intervals,
    response_purchase,
)
from dpstats.plan.plan import Plan, make_plan
from dpstats.plan.row_counts import RowCounts

UNIT_RESPONSE = (-1.0, 1.0)
"""The range assumed of a continuous array response, as row_norm=1 is of the rows."""


def plan_model(
    request: Request,
    design: DesignSpec,
    *,
    bought: tuple[str, ...],
    trimmed: tuple[str, ...],
    response: ResponsePurchase | None = None,
    counts: RowCounts | None,
) -> Plan:
    """The plan of a design with every range, and of what was bought of the response; the rest as for `make_plan`."""
    response = response or response_purchase(request, design)
    # The sums of released statistics are of the response as it is declared: its range is their bound.
    scaling = None if request.method == "statistics" else response
    if request.family.response == "continuous":
        design = design.without_working() if scaling is None else design.with_working(scaling.low, scaling.high)
    rows = request.options.n if counts is None else counts.rows
    information = None if rows is None else rows * request.row_eps
    family = scaled_family(
        request.family, design, scaling, intervals=caps_for_intervals(request), information=information
    )
    return make_plan(
        request,
        design,
        family,
        formula=design.formula,
        bought=bought,
        trimmed=trimmed,
        response=response,
        counts=counts,
    )


def rescaled(plan: Plan, request: Request, response: ResponsePurchase | None = None) -> Plan:
    """What another request, or a `response` that has been bought, plans for the same model of a formula."""
    assert isinstance(plan.design, DesignSpec)
    return plan_model(
        request, plan.design, bought=plan.bought, trimmed=plan.trimmed, response=response, counts=plan.counts
    )


def scaled_family(
    family: Family,
    design: DesignSpec,
    response: ResponsePurchase | None = None,
    *,
    intervals: bool = False,
    information: float | None = None,
) -> Family:
    """The family on the scale of the design's response, open caps filled in from its public range.

    A residual cap, or the width of a rounded corner, is given in the response's units; the solver sees a continuous
    response scaled to [-1, 1]. `information` is rows times eps, where their number is public.
    """
    if design.response.trials is not None:
        return BinomialCounts(design.response.trials)
    _, half_width = design.response_scaling()
    if isinstance(family, Gaussian):
        given = family.residual_cap
        if given is not None:
            return Gaussian(given / half_width)
        if response is None:
            return family.resolve(UNIT_RESPONSE)
        wide = INTERVAL_CAP * (ONE_TAIL if response.one_tail else 1.0)
        return Gaussian(wide if intervals else WORKING_CAP)
    if isinstance(family, Quantile):
        open_width = default_width(family.q, information)
        return replace(family, h=open_width if family.h is None else family.h / half_width)
    if response is not None and isinstance(family, Poisson):
        most = response.high if family.y_max is None else min(response.high, family.y_max)
        return replace(family, y_max=most).resolve(None)
    if response is not None and isinstance(family, NegativeBinomial):
        most = response.high if family.y_max is None else min(response.high, family.y_max)
        # Until it is bought the least alpha stands in, beside which no other one has more noise.
        return replace(family, y_max=most, alpha=least_alpha(most, response.alpha))
    return family.resolve((design.response.low, design.response.high))
