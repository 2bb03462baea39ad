"""The purchase of a response's centre and spread, or of its greatest count and mean, within the declared range."""

from __future__ import annotations

from dataclasses import replace

from dpstats.formula.design import DesignSpec
from dpstats.plan import Plan
from dpstats.plan.response import MEAN_SHARE, ResponsePurchase
from dpstats.privacy.randomness import RandomSource
from dpstats.privacy.working import buy_interval, buy_mean, buy_reach
from dpstats.tables import Table


def bought_response(plan: Plan, data: Table, random: RandomSource) -> ResponsePurchase:
    """Buy what the plan sets aside for its response. Reads rows: charge first.

    Parameters
    ----------
    plan : Plan
        With every range known, and a response to be bought.
    data : Table
    random : RandomSource
    """
    planned, design, adjacency = plan.response, plan.design, plan.request.adjacency
    assert planned is not None
    assert isinstance(design, DesignSpec)
    if plan.family.response == "continuous":
        low, high = buy_interval(
            design.responses(data), planned.low, planned.high, eps=planned.eps, adjacency=adjacency, random=random
        )
        return replace(planned, low=low, high=high)
    share = MEAN_SHARE if design.has_intercept else 0.0
    high = buy_reach(design.responses(data), planned.high, eps=(1 - share) * planned.eps, random=random)
    if not share:
        return replace(planned, high=high)
    mean = buy_mean(design.responses(data), high, eps=share * planned.eps, adjacency=adjacency, random=random)
    return replace(planned, high=high, mean=mean)
