"""Several quantiles of one response under one charge, which share what is bought (docs/proofs/quantiles)."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import pairwise
from typing import Any, Unpack

import numpy as np
from scipy import special

from dpstats.arguments import is_number, safe_repr
from dpstats.call import ChargeKeywords, Request, make_request
from dpstats.errors import ArgumentError, DPStatsError
from dpstats.families.quantile import Quantile, is_quantile
from dpstats.formula.design import DesignSpec
from dpstats.models.adaptive import settled
from dpstats.models.glm import Further, fit_source, release_rows
from dpstats.models.release import holdouts
from dpstats.models.sources import FormulaSource
from dpstats.plan import Plan, with_settled_law
from dpstats.plan.plan import plan_model
from dpstats.privacy.accounting import compose, split_budget
from dpstats.privacy.guarantee import Guarantee
from dpstats.privacy.randomness import RandomSource
from dpstats.results.glm_results import GLMResults
from dpstats.results.quantiles import QuantileResults, budget_summary
from dpstats.results.stored import Printed
from dpstats.summaries import Summary

PROOF = "docs/proofs/quantiles"

MOST = 99
"""Quantiles of one call."""


SHARED = 0.06
"""What the quantile nearest to the median has beside its share, of all shares, for what it buys for all."""

LEAST_DENSITY = 0.25
"""Quantiles farther out have no more of the budget: about .05 and .95. In units of the density at the median."""

MOST_SHARED = 0.5
"""The greatest `response_share` of that quantile."""


@dataclass(frozen=True, eq=False)
class QuantilePlan(Printed):
    """The plan of several quantiles under one budget; made by `plan_quantreg`.

    Attributes
    ----------
    plans : dict
        A Plan by quantile. That of the quantile nearest to the median pays for what they share: the number of rows,
        ranges, and where the response lies.
    guarantee : Guarantee
        For all of them together.

    Examples
    --------
    >>> import dpstats as dp
    >>> plan = dp.plan_quantreg("y ~ x", {"x": (0, 1), "y": (0, 1)}, eps=1.0, q=[0.1, 0.5, 0.9])
    >>> plan
    <QuantilePlan: y ~ x, q = 0.1, 0.5, 0.9; eps=1, add_remove, certified>
    >>> round(plan[0.5].eps, 2)
    0.21
    """

    plans: Mapping[float, Plan]
    guarantee: Guarantee

    def __getitem__(self, q: float) -> Plan:
        if q not in self.plans:
            raise ArgumentError(f"q must be one of the quantiles {list(self.plans)}, got {safe_repr(q)}")
        return self.plans[q]

    @property
    def title(self) -> str:
        """What is fitted, for an entry in a ledger."""
        return f"{len(self.plans)} quantiles of {next(iter(self.plans.values())).design.response_name}"

    def summary(self) -> Summary:
        """What each quantile costs, its noise and its width; as_text, as_html, as_latex and as_markdown.

        Examples
        --------
        >>> "0.9" in plan.summary().as_text()
        True
        >>> "tabular" in plan.to_latex(), "<td" in plan.to_html(), "---:|" in plan.to_markdown()
        (True, True, True)
        """
        return budget_summary(self.plans, self.guarantee)

    def __repr__(self) -> str:
        formula = next(iter(self.plans.values())).formula
        return f"<QuantilePlan: {formula}, q = {', '.join(f'{q:.4g}' for q in self.plans)}; {self.guarantee}>"


def check_quantiles(q: object) -> tuple[float, ...]:
    """Several quantiles; ArgumentError unless they are distinct and rise."""
    listed = q.ndim == 1 if isinstance(q, np.ndarray) else isinstance(q, Sequence) and not isinstance(q, str)
    values: tuple[object, ...] = tuple(q) if listed else ()  # type: ignore[arg-type]
    if not 1 <= len(values) <= MOST:
        raise ArgumentError(f"q must be a number such as 0.5, or a list of 1 to {MOST} of them, got {safe_repr(q)}")
    # The values of a list are not quoted: they could be cells.
    if any(not is_quantile(one) for one in values):
        raise ArgumentError("q must hold numbers from 0.0001 to 0.9999, such as [0.1, 0.5, 0.9]")
    quantiles = tuple(float(one) for one in values if is_number(one))
    if any(first >= second for first, second in pairwise(quantiles)):
        raise ArgumentError("q must rise from one quantile to the next, such as [0.1, 0.5, 0.9]")
    return quantiles


def plan_quantiles(
    source: FormulaSource, q: tuple[float, ...], h: float | None, eps: float, **settings: Any
) -> QuantilePlan:
    """The plans of several quantiles, from public facts alone.

    The budget is divided so that the sum of what noise adds to their losses, relative to these, is least for a normal
    response (docs/proofs/quantiles), after what is set aside for the quantile that buys what all share.
    """
    families = [Quantile(one, h) for one in q]
    whole = make_request(eps=eps, family=families[0], **settings)
    if whole.method not in ("napp", "objective"):
        raise ArgumentError(f"method must be 'napp' or left out for several quantiles, got {safe_repr(whole.method)}")
    central = min(q, key=lambda one: abs(one - 0.5))
    density = [max(math.exp(-(special.ndtri(one) ** 2) / 2), LEAST_DENSITY) for one in q]
    weights = [(family.lipschitz / own) ** (2 / 3) for family, own in zip(families, density, strict=True)]
    weights[q.index(central)] += SHARED * sum(weights)
    shares = split_budget(whole.eps, whole.delta, weights)
    requests = {
        family.q: replace(whole, family=family, eps=share_eps, delta=share_delta)
        for family, (share_eps, share_delta) in zip(families, shares, strict=True)
    }
    options = requests[central].options
    response_share = min(options.response_share * whole.eps / requests[central].eps, MOST_SHARED)
    requests[central] = replace(requests[central], options=replace(options, response_share=response_share))
    first = source.plan(requests[central], alone=True)
    plans = {one: first if one == central else beside(first, request) for one, request in requests.items()}
    total = compose([plan.guarantee for plan in plans.values()])
    return QuantilePlan(plans, replace(total, basis=PROOF))


def beside(first: Plan, request: Request) -> Plan:
    """The plan of another quantile, which takes ranges, scale and number of rows as `first` has bought them."""
    assert isinstance(first.design, DesignSpec)
    rows = first.request.options.n if first.counts is None else first.counts.rows
    options = replace(request.options, n=None if rows is None else max(float(rows), 1.0), ranges=None)
    shared = None if first.response is None else replace(first.response, eps=0.0)
    if shared is None:
        options = replace(options, response="declared")
    request = replace(request, options=options)
    plan = plan_model(request, first.design, bought=(), trimmed=(), response=shared, counts=None)
    return plan if rows is None else settled(plan, rows)


def fit_quantiles(source: FormulaSource, planned: QuantilePlan, **charge: Unpack[ChargeKeywords]) -> QuantileResults:
    """Charge for all quantiles at once, read the rows and release them."""
    central = min(planned.plans, key=lambda q: abs(q - 0.5))
    others = {q: plan for q, plan in planned.plans.items() if q != central}
    if not others:
        fit = fit_source(source, planned[central].request, **charge)
        return QuantileResults({central: fit}, fit.guarantee)
    further = Further(
        compose([plan.guarantee for plan in others.values()]),
        planned.title,
        partial(_release_others, source, planned, central),
    )
    return fit_source(source, planned[central].request, further=further, **charge)


def _release_others(
    source: FormulaSource, planned: QuantilePlan, central: float, first: GLMResults, data: Any, random: RandomSource
) -> QuantileResults:
    """The quantiles after the first, by what it has released. Reads rows: charge first."""
    fits = {}
    for q, plan in planned.plans.items():
        if q == central:
            fits[q] = first
            continue
        following = plan
        # What cannot be planned is decided by released and public values alone; the plan that was charged serves.
        with contextlib.suppress(DPStatsError):
            following = beside(first.plan, with_settled_law(plan))
        rows = source.rows(following, data, random)
        fit = release_rows(following, plan.guarantee, rows, source.nobs(plan.request, data), random)
        fits[q] = fit._completed(holdouts=holdouts(data, "train"))
    return QuantileResults(fits, planned.guarantee)
