"""The purchase of a response's centre and spread, or of its greatest count and mean, within the declared range."""

from __future__ import annotations

import math
from dataclasses import replace
from functools import partial
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dpstats.families.base import padded
from dpstats.formula.design import DesignSpec, response_values
from dpstats.models.persons import counted_rows, counted_values
from dpstats.plan import Plan
from dpstats.plan.response import MEAN_SHARE, ResponsePurchase
from dpstats.privacy.guarantee import Adjacency
from dpstats.privacy.randomness import RandomSource
from dpstats.privacy.unit import Unit
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
    eps, rows = planned.eps, _Rows(design, data, plan.request.options.record, random)
    if plan.family.response == "continuous":
        low, high = buy_interval(
            rows.unexplained(), planned.low, planned.high, eps=eps, adjacency=adjacency, random=random
        )
        return replace(planned, low=low, high=high)
    share = MEAN_SHARE if design.has_intercept else 0.0
    high = buy_reach(rows.responses(), planned.high, eps=(1 - share) * eps, random=random)
    if not share:
        return replace(planned, high=high)
    mean = _mean(rows, high, eps=share * eps, adjacency=adjacency, random=random)
    return replace(planned, high=high, mean=mean)


class _Rows(NamedTuple):
    """The rows that count in the purchases of a response."""

    design: DesignSpec
    data: Table
    record: Unit
    random: RandomSource

    def complete(self) -> Rows[Block]:
        """In model units."""
        return counted_rows(self.design, self.data, self.record, self.random)

    def responses(self) -> Rows[Array]:
        """Responses in the user's units."""
        read = partial(response_values, self.design)
        return counted_values(self.data, read, self.design.response_columns, self.record, self.random)

    def unexplained(self) -> Rows[Array]:
        """Continuous responses less what an offset says of them, in the user's units."""
        if self.design.offset is None:
            return self.responses()
        return self.complete().each(partial(_less_offset, self.design))


def _mean(rows: _Rows, most: float, *, eps: float, adjacency: Adjacency, random: RandomSource) -> float:
    """The mean of counts, weighted as the rows are; with an offset the counts per exp(offset)."""
    design = rows.design
    if design.offset is not None:
        longest = math.exp(min(design.offset.high, LARGEST_EXPONENT))
        rate = buy_rate(rows.complete().each(partial(_exposed, design)), most, eps=eps, random=random) / longest
        return max(rate, LEAST_RATE)
    if design.weights is not None:
        return buy_weighted_mean(rows.complete().each(_weighted), most, eps=eps, adjacency=adjacency, random=random)
    return buy_mean(rows.responses(), most, eps=eps, adjacency=adjacency, random=random)


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
