"""The purchase of a response's centre and spread, or of its greatest count and mean, within the declared range."""

from __future__ import annotations

import math
from dataclasses import replace
from functools import partial

import numpy as np
from numpy.typing import NDArray

from dpstats.families.base import padded
from dpstats.formula.design import DesignSpec
from dpstats.plan import Plan
from dpstats.plan.response import MEAN_SHARE, ResponsePurchase
from dpstats.privacy.guarantee import Adjacency
from dpstats.privacy.randomness import RandomSource
from dpstats.privacy.working import buy_interval, buy_mean, buy_rate, buy_reach, buy_weighted_mean
from dpstats.rows import Block, Rows
from dpstats.tables import Table

Array = NDArray[np.float64]

LARGEST_EXPONENT = 700.0
"""exp of more would overflow."""

LEAST_RATE = 1e-300
"""Its logarithm is a number still."""


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
    eps = planned.eps
    if plan.family.response == "continuous":
        low, high = buy_interval(
            _unexplained(design, data), planned.low, planned.high, eps=eps, adjacency=adjacency, random=random
        )
        return replace(planned, low=low, high=high)
    share = MEAN_SHARE if design.has_intercept else 0.0
    high = buy_reach(design.responses(data), planned.high, eps=(1 - share) * eps, random=random)
    if not share:
        return replace(planned, high=high)
    mean = _mean(design, data, high, eps=share * eps, adjacency=adjacency, random=random)
    return replace(planned, high=high, mean=mean)


def _unexplained(design: DesignSpec, data: Table) -> Rows[Array]:
    """Continuous responses less what an offset says of them, in the user's units."""
    if design.offset is None:
        return design.responses(data)
    return design.rows(data).each(partial(_less_offset, design))


def _mean(
    design: DesignSpec, data: Table, most: float, *, eps: float, adjacency: Adjacency, random: RandomSource
) -> float:
    """The mean of counts, weighted as the rows are; with an offset the counts per exp(offset)."""
    if design.offset is not None:
        longest = math.exp(min(design.offset.high, LARGEST_EXPONENT))
        rate = buy_rate(design.rows(data).each(partial(_exposed, design)), most, eps=eps, random=random) / longest
        return max(rate, LEAST_RATE)
    if design.weights is not None:
        weighted = design.rows(data).each(_weighted)
        return buy_weighted_mean(weighted, most, eps=eps, adjacency=adjacency, random=random)
    return buy_mean(design.responses(data), most, eps=eps, adjacency=adjacency, random=random)


def _less_offset(design: DesignSpec, block: Block) -> Array:
    assert block.offset is not None
    middle, half_width = design.response_scaling()
    return np.asarray((block.endog - block.offset) * half_width + middle)


def _weighted(block: Block) -> tuple[Array, Array]:
    """Responses and weights of some rows of counts, whose model units are the user's."""
    weights = np.ones(len(block.endog)) if block.weights is None else block.weights
    return np.asarray(block.endog, dtype=np.float64), np.asarray(weights, dtype=np.float64)


def _exposed(design: DesignSpec, block: Block) -> tuple[Array, Array, Array]:
    """Responses, weights, and exposures over the greatest, of some rows of counts."""
    assert block.offset is not None
    assert design.offset is not None
    short = block.offset - (design.offset.high - design.offset_center)
    return *_weighted(block), np.exp(padded(np.asarray(short)))[: len(short)]
