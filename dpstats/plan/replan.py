"""The same call at another eps: what more or less budget would buy."""

from __future__ import annotations

from dataclasses import replace

from dpstats.plan.making import make_plan
from dpstats.plan.plan import Plan
from dpstats.privacy.guarantee import check_budget


def replanned(plan: Plan, eps: float) -> Plan:
    """The plan of the same call with `eps` in place of its own; reads no row and spends nothing.

    Bought values that the plan knows already stay as they are, and so does a law of the noise that had to be settled
    because stages differed in it.

    Parameters
    ----------
    plan : Plan
    eps : float
        The total.

    Raises
    ------
    ArgumentError
        If `eps` is not positive, or too small for the ranges that the call buys.
    """
    eps, _ = check_budget(eps)
    request = replace(plan.request, eps=eps)
    response = plan.response
    if response is not None:
        response = replace(response, eps=request.options.response_share * request.row_eps)
    found = make_plan(request, plan.design, plan.family, formula=plan.formula, bought=plan.bought, response=response)
    call = None if plan.call is None else plan.call.at(eps)
    if found.one_law or not (plan.bought or response):
        return replace(found, call=call)
    # As in a call: where something is bought first, all stages keep to pure noise if one would.
    settled = replace(request, options=replace(request.options, noise="laplace"))
    found = make_plan(settled, plan.design, plan.family, formula=plan.formula, bought=plan.bought, response=response)
    return replace(found, call=call)
