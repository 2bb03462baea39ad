"""What least squares by released sums buys of its residuals: coefficients that they are about, and their spread."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from functools import partial

from dpstats.data import Block, Rows
from dpstats.formula.design import DesignSpec
from dpstats.mechanisms.napp import release_stages
from dpstats.mechanisms.residuals import ERROR_OF_CAP, residuals_about
from dpstats.mechanisms.statistics import ResidualCentre
from dpstats.plan import Plan, fit_spec
from dpstats.plan.methods import CENTRE_SHARE, TAILS_SHARE, ResidualPurchase
from dpstats.plan.plan import interval_cap, plan_model
from dpstats.privacy.randomness import RandomSource
from dpstats.privacy.residuals import buy_residual_counts, class_edges, residual_tails, share_beyond


def bought_residuals(
    plan: Plan, rows: float, read: Callable[[Plan], Rows[Block]], random: RandomSource
) -> tuple[ResidualPurchase, Rows[Block]]:
    """Buy what a plan sets aside for them: a fit without errors, then how far residuals about it reach.

    `read` has the rows of a plan. Reads rows: charge first. They come back with the response in model units of its
    declared range, for the sums of residuals: only these units have changed.
    """
    request, response, design, purchase = plan.request, plan.response, plan.design, plan.residuals
    assert purchase is not None
    assert response is not None
    assert isinstance(design, DesignSpec)
    share = CENTRE_SHARE / (CENTRE_SHARE + TAILS_SHARE)
    first = first_fit(plan, share * purchase.eps)
    encoded = read(first)
    spec = fit_spec(first.request, first.design, first.family)
    coef = release_stages(first.stages, spec, encoded, random).params
    own, declared = first.design.response_scaling(), design.without_working().response_scaling()
    reach = (design.response.high - design.response.low) / own[1]
    about = ResidualCentre(tuple(coef), reach)
    values, eps = encoded.map(partial(residuals_about, about)), (1 - share) * purchase.eps
    counts = buy_residual_counts(values, 1.0, eps=eps, adjacency=request.adjacency, random=random)
    # Of persons those with a complete row: more than rows that were drawn among all and are complete.
    number = rows if request.options.unit is None else max(float(counts.sum()), 1.0)
    sensitivity = 1 if request.adjacency == "add_remove" else 2
    error = ERROR_OF_CAP * math.sqrt(len(coef)) / (max(number, 1.0) * request.row_eps)
    deviation = math.sqrt(2) * sensitivity / eps
    tails = residual_tails(counts, class_edges(1.0), deviation=deviation, rows=number, unit_error=error)
    widest, expected = interval_cap(design, response) / reach, not response.one_tail
    # With several rows a person has less of a sampling error, beside which the noise is larger.
    cap = reach * tails.settled_cap(widest, expected=expected, widens=request.options.unit is None)
    shift = None if tails.has_two(expected=expected) else tails.shift(cap / reach)
    beyond = share_beyond(counts, class_edges(1.0), cap / reach, deviation=deviation, rows=number)
    # In model units of the declared response.
    scale = own[1] / declared[1]
    moved = scale * coef
    at = design.names.index("Intercept")
    moved[at] += design.scale[at] * (own[0] - declared[0]) / declared[1]
    centre, sd = ResidualCentre(tuple(moved.tolist()), scale * cap), float(f"{tails.rms * reach * own[1]:.4g}")
    residuals = replace(purchase, centre=centre, beyond=beyond, sd=sd, shift=shift)
    return residuals, encoded if own == declared else encoded.map_rows(
        partial(_in_units, scale, (own[0] - declared[0]) / declared[1])
    )


def first_fit(plan: Plan, eps: float) -> Plan:
    """Coefficients alone for `eps`, pure, under the cap of coefficients alone."""
    options = replace(plan.request.options, inference=None, noise="laplace", fitstats=None)
    request = replace(
        plan.request, eps=plan.request.options.record.rows * eps, delta=0.0, method="napp", options=options
    )
    assert plan.response is not None
    assert isinstance(plan.design, DesignSpec)
    return plan_model(
        request, plan.design, bought=(), trimmed=(), response=replace(plan.response, eps=0.0), counts=None
    )


def _in_units(scale: float, shift: float, _: int, blocks: Iterable[Block]) -> Iterator[Block]:
    return (block._replace(endog=block.endog * scale + shift) for block in blocks)
