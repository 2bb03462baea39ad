"""Plans are made here: checked, the budget split and the noise chosen, without reading a row."""

from __future__ import annotations

import numpy as np

from dpstats.errors import ArgumentError
from dpstats.families import Family
from dpstats.families.base import check_cap
from dpstats.mechanisms.design import PublicDesign
from dpstats.mechanisms.napp import Stage
from dpstats.mechanisms.screening import ScreeningPlan
from dpstats.plan.budget import range_eps
from dpstats.plan.methods import paid_apart, planned_fit, proof_page, uncertified_method, zcdp_of
from dpstats.plan.plan import Plan
from dpstats.plan.response import ResponsePurchase, centred
from dpstats.privacy.guarantee import Guarantee
from dpstats.privacy.ranges import check_range_eps
from dpstats.replication.modes import plan_replication
from dpstats.request import Request


@np.errstate(all="ignore")
def make_plan(
    request: Request,
    design: PublicDesign,
    family: Family,
    *,
    formula: str | None,
    bought: tuple[str, ...] = (),
    response: ResponsePurchase | None = None,
) -> Plan:
    """Split the budget and plan the release; reads no row.

    Parameters
    ----------
    request : Request
    design : PublicDesign
    family : Family
        With every cap filled in.
    formula : str or None
    bought : tuple of str
        Columns whose range is bought.
    response : ResponsePurchase, optional
        What is bought of the response; design and family follow it already.

    Raises
    ------
    ArgumentError
        If budget is to be returned though ranges are bought: the noise, and so what is left over, will follow the
        ranges, but the charge is made before they are known. Likewise if `curvature` is given and the range of counts
        is bought. If eps is too small to buy the ranges with.
    """
    _check_bought(request, design, family, bought)
    # A cap on residuals is given in the response's units, which may be any.
    check_cap("residual_cap, or another cap on the loss's slope, over half the response's range", family.lipschitz)
    screening, stages = planned_fit(
        request,
        design,
        family,
        request.row_eps - range_eps(request, bought) - (0.0 if response is None else response.eps),
    )
    if response is not None and response.mean is not None:
        kept = range(len(design.names)) if screening is None else screening.kept
        stages = centred(stages, design, response.mean, kept)
    if request.options.replicates:
        stages = plan_replication(stages, design, request.penalty, request.options)
    guarantee = _guarantee(request, design, stages, bought, screening)
    return Plan(request, design, formula, bought, stages, guarantee, response, screening=screening)


def _check_bought(request: Request, design: PublicDesign, family: Family, bought: tuple[str, ...]) -> None:
    """Raise ArgumentError unless these ranges can be bought; see `make_plan`."""
    if not bought:
        return
    if request.options.retrieval == "return":
        raise ArgumentError(f"retrieval='return' needs every range in the domain; declare {', '.join(bought)}")
    share = range_eps(request, bought) / len(bought)
    check_range_eps(share, bought, request.adjacency, request.options.rows_at_least)
    if design.response_name in bought and family.response == "count" and request.options.curvature is not None:
        # The curvature that suffices follows the greatest count: too little of it must not come out after the charge.
        raise ArgumentError(f"curvature needs the range of the counts in the domain; declare {design.response_name}")


def _guarantee(
    request: Request,
    design: PublicDesign,
    stages: tuple[Stage, ...],
    bought: tuple[str, ...],
    screening: ScreeningPlan | None,
) -> Guarantee:
    """For everything that a call with these stages releases."""
    returned = sum(plan.planned_eps - plan.eps for _, plan in stages)
    record = request.options.record
    guarantee = Guarantee(
        request.eps - record.rows * returned,
        _spent_delta(request, stages, screening),
        request.adjacency,
        basis=proof_page(request, stages),
        rho=zcdp_of(stages) if not bought else None,
        unit=record.column,
    )
    unproved = uncertified_method(request, design)
    for reason in (*request.uncertified_reasons, *(() if unproved is None else (unproved,))):
        guarantee = guarantee.uncertified(reason)
    return guarantee


def _spent_delta(request: Request, stages: tuple[Stage, ...], screening: ScreeningPlan | None) -> float:
    """Pure noise spends no delta; all of it is charged while the law of the noise is open."""
    if screening is not None and request.options.noise != "laplace":
        return request.delta  # the law follows the columns kept
    if all(plan.noise.kind == "gaussian" for _, plan in stages):
        return request.delta
    return max(sum(plan.delta for _, plan in part) for part in paid_apart(stages, request.options))
