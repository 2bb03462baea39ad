"""What follows from the number of rows: how errors are paid for, which ranges and what of the response are bought.

Public facts and a count decide (`dpstats.models.expectations`). How the constants were chosen, and how often the rule
is right, is in docs/benchmarks_inference.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from scipy import special

from dpstats.call import Request
from dpstats.domain import Range
from dpstats.errors import DPStatsError
from dpstats.families import Family, Poisson
from dpstats.families.base import OF_PIECES
from dpstats.families.negative_binomial import least_alpha
from dpstats.formula.design import DesignSpec, design_spec
from dpstats.mechanisms.spec import errors_are_free, obstacle
from dpstats.mechanisms.statistics import ResidualCentre
from dpstats.models.expectations import LIKELY_PART, choose, comparable, expectations, has_expectation
from dpstats.models.population import KNOWN, RAREST, KnownColumns, known_counts, mean_exposure
from dpstats.models.ranges import score_noise
from dpstats.plan import Plan, range_eps, replan_request, with_settled_law
from dpstats.plan.methods import (
    CAPPED_A_COLUMN,
    CENTRE_SHARE,
    FEWEST_BOUGHT,
    FULL_SHARES,
    INTERVAL_CAP,
    LARGEST_EXPONENT,
    MEAN_SHARE,
    TAILS_SHARE,
    ResidualPurchase,
    ResponsePurchase,
    caps_for_intervals,
    is_open_least_squares,
    is_open_quantile,
    may_cap_persons,
    may_take_statistics,
    may_take_sums,
    narrowed_unasked,
    response_purchase,
)
from dpstats.plan.methods import (
    interval_share as share_of_response,
)
from dpstats.plan.plan import plan_model, rescaled
from dpstats.privacy.dispersion import CountMoments
from dpstats.privacy.ranges import count_candidates, likely_reach, likely_response_interval, likely_sums
from dpstats.privacy.residuals import UNEXPECTED, likely_alike
from dpstats.privacy.trimming import (
    COUNT_SHARE,
    MOST_SHARE,
    counts_away,
    likely_interval,
    priced_choices,
    share_to_spend,
)

Vector = NDArray[np.float64]

MIDDLE, LIKELY, SURE = 0.5, 0.9, 0.99
"""A forecast counts on intervals than which nine in ten of the purchases are no wider; its ends on the other shares.

By design one purchase in twenty keeps its declared range once the rows pay for it, at nearly all numbers of rows."""

ROWS_A_COLUMN = 400.0
"""Sums of residuals are bought for so many rows times eps for each column or more.

With fewer a table that is insisted on would lose intervals. With more, coefficients would be further off: those of sums
without residuals are so by half at 400 to 1,000."""

LIKELY_CHOSEN = 8
"""Columns that a lasso with a refit is taken to choose, with the intercept: it keeps 2 to 8 of 60 (docs/guide)."""


def adaptive_errors(request: Request, family: Family) -> bool:
    """Whether what is spent on errors follows the number of rows: of one plain fit that leaves it open."""
    options = request.options
    if request.method == "statistics":  # whose errors cost nothing
        return False
    plain = options.refit_share == 0 and options.stages == 1 and options.focus is None and family.name not in OF_PIECES
    if not plain or obstacle(family, request.penalty, options) is not None:
        return False
    return options.inference == "auto" or (options.inference is True and may_take_statistics(request))


def interval_follows(request: Request) -> bool:
    """Whether it follows the choice of errors if an interval of the response is bought: none for coefficients alone."""
    undecided = request.options.response == "auto" and is_open_least_squares(request)
    return undecided and adaptive_errors(request, request.family)


def affordable(plan: Plan, rows: float | None) -> Plan:
    """The plan, without the interval of the response that nobody asked for if `rows` are too few to tell it.

    It has the law of noise of the plan that is charged.
    """
    request, options = with_settled_law(plan), plan.request.options
    open_cap = is_open_least_squares(request) and (options.inference, options.focus) != (None, None)
    if rows is None or options.response != "auto" or not (open_cap or is_open_quantile(request)):
        return plan
    if rows * request.row_eps * share_of_response(request) >= FEWEST_BOUGHT:
        return plan
    return rescaled(plan, replace(request, options=replace(request.options, response="declared")))


def offered_intervals(request: Request, design: DesignSpec) -> tuple[str, ...]:
    """The columns whose declared ranges a plan may narrow, as it is for the number of rows to say."""
    choice = request.options.ranges is not None or request.method == "statistics"  # of the declared response and ranges
    return () if choice else narrowed_unasked(design.parsed, design.domain)


def with_intervals(plan: Plan, names: tuple[str, ...], rows: float) -> Plan:
    """The plan that buys intervals within the declared ranges of some columns, if so many rows pay for them."""
    share = interval_share(plan.request, names, rows)
    if not share:
        return plan
    request = with_settled_law(plan)
    options = replace(request.options, ranges="bought", range_share=share)
    with contextlib.suppress(DPStatsError):  # as public as what is planned
        return replan_request(replace(plan, bought=names, trimmed=names), replace(request, options=options))
    return plan


def with_chosen_ranges(plan: Plan) -> Plan:
    """The plan that narrows ranges of the columns it will choose, if the rows that were counted pay for it."""
    if plan.screening is not None and plan.counts is not None and plan.counts.rows is not None:
        with contextlib.suppress(DPStatsError):  # as public as what is planned
            return replan_request(plan, with_settled_law(plan))
    return plan


def most_of_intervals(plan: Plan, share: float) -> float:
    """What a row may cost in all for intervals, once rows at zero are known, if the call allows such a `share`.

    That is as planned, or more where a count of the rows decides to buy them and the rest still pays for a fit.
    """
    request, planned = with_settled_law(plan), range_eps(plan.request, plan.bought)
    if not plan.bought or plan.counts is None or not plan.counts.trimmable:
        return planned
    most = min(MOST_SHARE, share) * request.row_eps
    with contextlib.suppress(DPStatsError):  # as public as what is planned
        rescaled(plan, with_spent(request, planned, most))
        return most
    return planned


def with_spent(request: Request, planned: float, spent: float) -> Request:
    """The request whose intervals cost what was spent for them."""
    if spent == planned:
        return request
    share = math.nextafter(spent / request.row_eps, 1.0)  # rounding leaves the fit no more than the rest
    return replace(request, options=replace(request.options, range_share=share))


def with_likely_intervals(
    plan: Plan, known: KnownColumns, rows: float, share: float = LIKELY, most: float | None = None
) -> Plan:
    """The plan once it has bought intervals than which a share of those of such rows are no wider.

    All together cost `most` at most, or what is planned.
    """
    request, design = with_settled_law(plan), plan.design
    assert isinstance(design, DesignSpec)
    declared = {name: one for name in plan.trimmed if isinstance(one := design.domain[name], Range)}
    values = [known.numbers(name, one) for name, one in declared.items()]
    parts = [
        1.0 if of is None else counts_away(of, float(one.low), float(one.high)).away / len(of)
        for of, one in zip(values, declared.values(), strict=True)
    ]
    if not declared:
        return plan
    eps, columns = range_eps(request, plan.bought), len(declared)
    part = eps / len(plan.bought)
    others = part * (len(plan.bought) - columns)
    most = eps if most is None else most
    how: dict[str, Any] = {"eps": columns * part, "most": most - others, "adjacency": request.adjacency}
    choices, spent = priced_choices(lambda place, _: rows * parts[place], columns, **how)
    same = spent == columns * part
    ranges: dict[str, Range] = {}
    for (name, one), of, choice in zip(declared.items(), values, choices, strict=True):
        price = part if same else choice.eps / (1 - COUNT_SHARE)
        if of is None or not price:
            continue
        ends = float(one.low), float(one.high)
        bought = likely_interval(
            of, *ends, rows=rows, eps=price, adjacency=request.adjacency, columns=columns, share=share
        )
        ranges |= {} if bought == ends else {name: replace(one, inner=bought)}
    request = request if same else with_spent(request, eps, others + spent)
    with contextlib.suppress(DPStatsError):  # the declared ranges serve then, as in a fit
        narrowed = design_spec(design.formula, design.domain.with_(ranges), family=request.family) if ranges else design
        return plan_model(request, narrowed, bought=plan.bought, trimmed=plan.trimmed, counts=plan.counts)
    return plan


def with_likely_response(plan: Plan, known: KnownColumns, rows: float, share: float = LIKELY) -> Plan:
    """The plan once it has bought its known response: of counts the mean one, or by other ends one few exceed.

    The plan itself if nothing is known of its response or nothing is bought.
    """
    planned, request, design = plan.response, with_settled_law(plan), plan.design
    assert isinstance(design, DesignSpec)
    if planned is None:
        return plan
    continuous = plan.family.response == "continuous"
    bought = _likely_ends(plan, known, rows) if continuous else _likely_counts(plan, known, rows, share)
    with contextlib.suppress(DPStatsError):  # the plan that was charged serves then, as in a fit
        return plan if bought is None else rescaled(plan, request, bought)
    return plan


def _likely_ends(plan: Plan, known: KnownColumns, rows: float) -> ResponsePurchase | None:
    """The interval of a continuous response that is likely to be bought."""
    planned, design = plan.response, plan.design
    assert planned is not None
    assert isinstance(design, DesignSpec)
    declared = design.domain.get(design.response_name)
    if not isinstance(declared, Range) or design.offset is not None:
        return None
    values = known.numbers(design.response_name, declared)
    if values is None:
        return None
    low, high = design.response.low, design.response.high
    ends = likely_response_interval(
        values,
        low,
        high,
        rows=rows,
        eps=planned.eps,
        adjacency=plan.request.adjacency,
        core=None if plan.family.models_mean else rows,
        share=LIKELY,
    )
    one_tail = plan.family.models_mean and (ends[0] == low) != (ends[1] == high)
    return replace(planned, low=ends[0], high=ends[1], one_tail=one_tail)


def _likely_counts(plan: Plan, known: KnownColumns, rows: float, share: float) -> ResponsePurchase | None:
    """The greatest count that is likely to be bought, with the mean or the dispersion of the counts."""
    planned, design = plan.response, plan.design
    assert planned is not None
    assert isinstance(design, DesignSpec)
    values = known_counts(design, plan.family, known)
    if values is None:
        return None
    values, poisson, centred = values[np.isfinite(values)], isinstance(plan.family, Poisson), design.has_intercept
    parts = MEAN_SHARE if poisson and centred else 0.0 if poisson else 1 / 2
    # The noise is in proportion to the greatest count, of which the mean moves smoothly with the rows and eps.
    ends = None if share == LIKELY else share
    high = likely_reach(values, planned.high, rows=rows, eps=(1 - parts) * planned.eps, share=ends)
    mean = max(float(np.minimum(values, high if poisson else planned.high).mean()), RAREST)
    if poisson:
        part = min(mean / high, 1.0)
        level = _likely_mean(plan, known, high, part, rows=rows, eps=parts * planned.eps, share=ends)
        return replace(planned, high=high, mean=level if centred else None)
    bought = replace(planned, high=high, mean=mean if centred and design.offset is None else None)
    alpha = least_alpha(high, max(float(values.var() - mean) / mean**2, 0.0))
    least = CountMoments(mean, alpha, rows).least_reach(count_candidates(planned.high), score_noise(plan))
    high = max(high, least)
    return replace(bought, high=high, alpha=least_alpha(high, alpha))


def _likely_mean(
    plan: Plan, known: KnownColumns, high: float, part: float, *, rows: float, eps: float, share: float | None
) -> float | None:
    """The mean of counts that is likely to be bought if it is a part of the greatest one; with an offset their rate.

    That of few rows is mostly noise, and several times theirs where counts are rare; a cap on weights follows it.
    """
    design = plan.design
    assert isinstance(design, DesignSpec)
    if not eps:
        return None
    if design.offset is None:
        sensitivity = 1 if plan.request.adjacency == "add_remove" else 2
        above, below = likely_sums([rows * part, rows * (1 - part)], sensitivity, eps, share)
        return high * above / (above + below)
    longest = math.exp(min(design.offset.high, LARGEST_EXPONENT))
    events, time = likely_sums([rows * part, rows * mean_exposure(design, known, KNOWN) / longest], 2, eps, share)
    return high * events / time / longest


def interval_share(request: Request, names: tuple[str, ...], rows: float) -> float:
    """The share of a fit's eps that intervals of some columns cost if there are so many rows; 0 if none are bought."""
    share = share_to_spend(rows * request.row_eps, request.adjacency, len(names))
    return min(share, request.options.range_share)


def candidates_of(plan: Plan, original: Request | None = None) -> list[Plan]:
    """The plans of the same model that differ in what they spend on errors, nothing first, more each time.

    They insist on its law of noise. None where there is nothing to choose. `original` was the request before the
    response of least squares was bought.
    """
    request = plan.request if original is None else original
    if not (adaptive_errors(request, plan.family) and comparable(plan)):
        return []
    automatic = with_settled_law(replace(plan, request=request))
    if is_open_least_squares(automatic):
        return _least_squares_candidates(plan, automatic, None if _is_first(request, original) else plan.response)
    without, paid = (
        replace(automatic, options=replace(automatic.options, inference=setting)) for setting in (None, True)
    )
    candidates: list[Plan] = []
    if not errors_are_free(plan.family, request.options):  # no errors are free, and the plan has none
        candidates = [replace(plan, request=without)]
    else:
        with contextlib.suppress(DPStatsError):  # as public as what is planned
            candidates.append(replan_request(plan, without))
        candidates.append(replace(plan, request=automatic))
    with contextlib.suppress(DPStatsError):
        candidates.append(replan_request(plan, paid))
    return candidates


def _is_first(request: Request, original: Request | None) -> bool:
    """Whether the choice is whether an interval of the response is bought, not what to do with it."""
    return original is None and interval_follows(request)


def _least_squares_candidates(plan: Plan, request: Request, bought: ResponsePurchase | None) -> list[Plan]:
    """Coefficients alone, unless errors are asked for, and errors that are paid for; what is not bought stands in."""
    settings: tuple[Literal[True] | None, ...] = (True,) if request.options.inference is True else (None, True)
    candidates = []
    for setting in settings:
        one = replace(request, options=replace(request.options, inference=setting))
        with contextlib.suppress(DPStatsError):
            candidates.append(rescaled(plan, one, bought or _likely_interval(one, plan)))
    return candidates


def _likely_interval(request: Request, plan: Plan) -> ResponsePurchase | None:
    """What stands for the interval of a response until it is bought; None if it is not."""
    planned = response_purchase(request, plan.design)
    if planned is None:
        return None
    middle, half = (planned.high + planned.low) / 2, LIKELY_PART * (planned.high - planned.low) / 2
    return replace(planned, low=middle - half, high=middle + half)


def settled(plan: Plan, rows: float, original: Request | None = None) -> Plan:
    """The candidate that suits `rows` best, `plan` if public facts predict none; `original` as for `candidates_of`."""
    candidates, response = candidates_of(plan, original), plan.response
    with contextlib.suppress(DPStatsError, ArithmeticError, np.linalg.LinAlgError):  # as public as what is planned
        judged = candidates
        if response is not None and response.one_tail:
            # Under the wide cap of one tail the rule expects more loss than there is: errors would hardly ever pay.
            judged = candidates_of(replace(plan, response=replace(response, one_tail=False)), original)
        chosen = candidates[choose(judged, rows)] if candidates else plan
        if _is_first(plan.request, original):
            return chosen
        return _or_statistics(chosen, [one for one in candidates if one.request.options.inference is None], rows)
    return plan


def carried_out(
    plan: Plan,
    rows: float,
    known: KnownColumns | None = None,
    share: float = LIKELY,
    present: float | None = None,
) -> Plan:
    """What a plan that counts its rows becomes at so many; of what is bought, ranges as declared stand in.

    Of `known` columns and a known response those do than which a share of the purchases are no wider. What is bought
    of counts goes by the rows that are `present`, not by their number with its noise.
    """
    counts = plan.counts
    if plan.residuals is not None:
        plan = before_residuals(plan)
        plan = plan if known is None else with_likely_intervals(plan, known, rows, share)
        return with_public_residuals(plan)
    allowed = plan.request.options.range_share
    plan = plan if counts is None else with_chosen_ranges(with_intervals(plan, counts.trimmable, rows))
    if known is not None:
        plan = with_likely_intervals(plan, known, rows, share, most_of_intervals(plan, allowed))
    plan = plan if counts is None else affordable(plan, rows)
    request, chosen = with_settled_law(plan), plan
    follows = counts is not None and interval_follows(request)
    if follows:
        chosen = settled(plan, rows)
        if chosen.response is None:
            return rescaled(plan, chosen.request)
    if present is None or plan.family.response != "count":
        present = rows
    bought = chosen if known is None else with_likely_response(chosen, known, present, share)
    if counts is None:
        return bought
    if not follows:
        return settled(bought, rows)
    residual_plan = with_residuals(settled(bought, rows, request), rows, request)
    # The declared range stands in, also where released sums take the place of what has bought the interval.
    response = response_purchase(with_settled_law(chosen), plan.design) if bought is chosen else bought.response
    return rescaled(plan, residual_plan.request, response, residual_plan.residuals)


def _or_statistics(plan: Plan, alone: Sequence[Plan], rows: float) -> Plan:
    """Released statistics in the place of errors that are paid for, where their intervals are expected to be better.

    They are chosen before coefficients `alone` too, where these are a candidate: their loss may be larger.
    """
    suits = (
        plan.request.options.inference is True and may_take_sums(plan.request, plan.design) and has_expectation(plan)
    )
    if not suits:
        return plan
    sums = rescaled(plan, replace(with_settled_law(plan), method="statistics"), plan.response)
    capped, linear = (one.intervals(rows) for one in expectations([plan, sums]))
    return sums if linear > capped and all(choose([one, sums], rows) for one in alone) else plan


def with_residuals(plan: Plan, rows: float, original: Request) -> Plan:
    """The plan of sums of residuals that takes the place of one with errors, if so many rows pay for it.

    Of so many persons it is the same fit, whose cap will follow their residuals. The plan has an interval of its
    response; `original` was the request before. The widest cap stands in, and no coefficients: public facts and `rows`
    decide whether residuals are bought, and nothing fails for those that are.
    """
    request, size = with_settled_law(plan), len(plan.names)
    if not pays_for_residuals(plan, rows, original):
        return plan
    if request.options.unit is None:
        request = replace(request, method="statistics")
    centre = ResidualCentre((0.0,) * size, INTERVAL_CAP)
    residuals = ResidualPurchase(residual_share(rows * request.row_eps, size) * request.row_eps, centre)
    with contextlib.suppress(DPStatsError):  # as public as what is planned
        return rescaled(plan, request, plan.response, residuals)
    return plan


def pays_for_residuals(plan: Plan, rows: float, original: Request) -> bool:
    """Whether so many rows pay for the residuals of a plan with errors; `original` as for `with_residuals`."""
    rule, least = (may_take_sums, ROWS_A_COLUMN)
    if original.options.unit is not None:
        rule, least = may_cap_persons, CAPPED_A_COLUMN
    suits = plan.request.options.inference is True and rule(original, plan.design) and has_expectation(plan)
    return suits and plan.response is not None and rows * plan.request.row_eps >= least * len(plan.names)


def with_refit_residuals(plan: Plan, rows: float) -> Plan:
    """The plan of columns that are chosen on half of so many rows, if the other half pays for a cap of its residuals.

    The plan has an interval of its response. The widest terms stand for those chosen, `LIKELY_CHOSEN` columns for what
    a lasso keeps.
    """
    request, options = with_settled_law(plan), plan.request.options
    screened, alike = plan.screening is not None, plan.design.score_ratio == 1.0 and not plan.design.offset_bound
    chooses = options.split is not None and (screened or options.refit_share > 0)
    suits = chooses and alike and options.unit is None and plan.response is not None and caps_for_intervals(request)
    used, size = rows * request.row_eps / 2, int(plan.kept.sum()) if screened else min(len(plan.names), LIKELY_CHOSEN)
    if not suits or plan.residuals is not None or used < CAPPED_A_COLUMN * size:
        return plan
    with contextlib.suppress(DPStatsError):  # as public as what is planned
        purchase = ResidualPurchase(residual_share(used, size) * request.row_eps)
        return rescaled(plan, request, plan.response, purchase)
    return plan


def finds_cap(plan: Plan, rows: float, share: float) -> bool:
    """Whether such a share of the purchases of a cap of residuals find one, if they are normal, of so many rows."""
    if plan.residuals is None:
        return True
    sensitivity = 1 if plan.request.adjacency == "add_remove" else 2
    deviation = math.sqrt(2) * sensitivity / (TAILS_SHARE / (CENTRE_SHARE + TAILS_SHARE) * plan.residuals.eps)
    needed = UNEXPECTED if plan.response is not None and plan.response.one_tail else 0.0
    used = rows if plan.request.options.split is None else rows / 2
    return likely_alike(used, deviation) - float(special.ndtri(share)) > needed


def residual_share(information: float, size: int) -> float:
    """The share of eps that residuals cost by rows times eps, of so many columns."""
    share = (CENTRE_SHARE + TAILS_SHARE) * math.sqrt(min(1.0, FULL_SHARES * size / information))
    return float(f"{share:.2g}")


def with_public_residuals(plan: Plan) -> Plan:
    """The plan with residuals, if it is for a public number of rows that decides so before any is read."""
    rows = plan.request.options.n
    if rows is None:
        return plan
    plan = with_refit_residuals(plan, rows)
    return with_residuals(plan, rows, plan.request) if interval_follows(plan.request) else plan


def before_residuals(plan: Plan) -> Plan:
    """The plan that `with_public_residuals` gave this one for."""
    if plan.residuals is None:
        return plan
    request = with_settled_law(plan)
    return rescaled(plan, replace(request, method="napp") if request.method == "statistics" else request)
