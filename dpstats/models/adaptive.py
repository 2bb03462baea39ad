"""Which of several plans of one call suits a number of rows: coefficients alone, errors that are free, or paid for.

What each would show is forecast from public facts: a closed form of what `dpstats.models.forecast` draws, within
milliseconds. How the constants were chosen, and how often the rule is right, is in docs/benchmarks_inference.
"""

from __future__ import annotations

import contextlib
import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Literal, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy import special

from dpstats.arguments import check_type
from dpstats.cached import cached_property
from dpstats.call import Request
from dpstats.domain import Domain, Range
from dpstats.errors import DPStatsError
from dpstats.families import Family, Poisson
from dpstats.families.base import OF_PIECES
from dpstats.families.negative_binomial import least_alpha
from dpstats.formula.design import DesignSpec, design_spec
from dpstats.frames import NotedFrame
from dpstats.inference import KnownInformation, MatrixLaw
from dpstats.inference.inverse import LEAST_RATIO
from dpstats.mechanisms.design import SubDesign
from dpstats.mechanisms.spec import errors_are_free, obstacle
from dpstats.mechanisms.statistics import ResidualCentre
from dpstats.models.forecast import (
    Forecast,
    RowMeans,
    forecast,
    information_law,
    mean_information,
    releases_errors,
    response_words,
    row_means,
    sample_rows,
    typical_response,
    weight_cap,
)
from dpstats.models.population import POOR, RAREST, USUAL, KnownColumns, known_counts
from dpstats.plan import Plan, range_eps, replan_request, with_settled_law
from dpstats.plan.methods import (
    CENTRE_SHARE,
    FEWEST_BOUGHT,
    FULL_SHARES,
    INTERVAL_CAP,
    MEAN_SHARE,
    TAILS_SHARE,
    ResidualPurchase,
    ResponsePurchase,
    caps_for_intervals,
    is_open_least_squares,
    is_open_quantile,
    may_take_statistics,
    response_purchase,
    trimmable,
)
from dpstats.plan.methods import (
    interval_share as share_of_response,
)
from dpstats.plan.plan import plan_model, rescaled
from dpstats.privacy.ranges import likely_reach, likely_response_interval
from dpstats.privacy.trimming import likely_interval, share_to_spend
from dpstats.wording import phrase

Vector = NDArray[np.float64]

EXPECTED_RATIO = 2.5
"""At this ratio of the expected information to its noise a coefficient has an interval every other time."""

LOSS_PRICE = 2.0
"""Errors for a further tenth of the coefficients are worth a loss that is larger by a twentieth: one over this."""

SUPPOSED_LOSS = 5.0
"""What noise adds to the loss of least squares counts so many times over: it is relative to what the columns leave
unexplained, which is a fifth of what is supposed where they explain nine tenths.

So it does of released statistics until an interval of the response is bought, and in proportion to `LIKELY_PART` over
the part of the range that it is, squared, from then on: where responses fill their range statistics lose far less.
"""

LESS_INFORMATION = (1.0, 1 / 2, 1 / 4, 1 / 8)
"""Columns may go together more than is supposed: released statistics and a residual cap are compared by the shares of
intervals, on average over so much of the information."""

WIDTH_PRICE = 0.2
"""There intervals that are half as wide are worth as much as a seventh more of the coefficients that have one."""

FAR = 1e6
"""So many times the rows: what shrinkage does to them is not seen."""

SMALL_COUNT = 2.0
"""A forecast takes the count of the rows for so many of its standard deviations less: 97 of 100 are larger."""

MIDDLE, LIKELY, SURE = 0.5, 0.9, 0.99
"""A forecast counts on intervals than which nine in ten of the purchases are no wider; its ends on the other shares.

By design one purchase in twenty keeps its declared range once the rows pay for it, at nearly all numbers of rows."""

ROWS_A_COLUMN = 1000.0
"""Residuals are bought for so many rows times eps for each column or more.

From 2,500 on no intervals would be lost where columns go together. But predictions from sums without residuals are up
to 1.7 times as far off as those of coefficients alone there; with residuals 1.3 times."""

LIKELY_CHOSEN = 8
"""Columns that a lasso with a refit is taken to choose, with the intercept: it keeps 2 to 8 of 60 (docs/guide)."""

LIKELY_CAP = 3.5
"""Until it is bought the cap of residuals is taken for so many of their standard deviations."""

LIKELY_PART = 0.3
"""Until it is bought the interval is taken for so much of the middle of the response's range.

Half to all of it is bought of most data sets, a tenth to two fifths of wide ranges (docs/proofs/purchases): only the
purchase tells, and the choice is made again after it.
"""

DRAWS = 2
"""Draws of coefficients that a forecast's means are over: more move fewer choices than another seed
does, and take longer than a fit."""

LEAST_SHARE = 0.1
"""A table with fewer intervals than that is not worth having, even for nothing."""


class Outlook(NamedTuple):
    """What a plan is expected to show of some rows."""

    share: float  # of the coefficients, those with an interval
    # Of predictions, over that of the best coefficients. That of counts is taken for one: their dispersion beyond
    # Poisson's is not known, and errors cost them at most a tenth.
    loss: float
    # The same of usual rows, where these decide whether there is a table at all.
    usual_share: float | None = None

    @property
    def worth(self) -> float:
        """What the rule maximises."""
        return self.share - LOSS_PRICE * math.log(self.loss)

    @property
    def worth_having(self) -> bool:
        """Whether there may be intervals enough for a table."""
        return (self.share if self.usual_share is None else self.usual_share) >= LEAST_SHARE


class Populations(NamedTuple):
    """What a row adds in the mean."""

    identifying: Vector  # of l'' x x', for what is identified; shape (p, p)
    usual: RowMeans
    scaling: tuple[float, float]  # middle and half width of the response, in units of which they are

    def coefficients(self, plan: Plan) -> Vector:
        """Usual ones in the model units of a plan, shape (p,)."""
        (middle, half), (own_middle, own_half) = self.scaling, plan.design.response_scaling()
        coef = self.usual.coef * (half / own_half)
        if isinstance(plan.design, DesignSpec) and plan.design.has_intercept:
            at = plan.names.index("Intercept")
            coef[at] += plan.design.scale[at] * (middle - own_middle) / own_half
        return coef


def foreseeable(plan: Plan) -> bool:
    """Whether public facts tell what a plan will show: of a formula's rows that count alike and columns that all stay.

    Ranges that are still to be bought stand in as they do in the plan.
    """
    return plan.screening is None and comparable(plan)


def comparable(plan: Plan) -> bool:
    """Whether public facts tell plans of a call apart; of a screened model the widest terms stand for the chosen."""
    return (
        isinstance(plan.design, DesignSpec)
        and plan.design.score_ratio == 1.0
        and plan.request.options.unit is None
        and plan.stages[-1].plan.size == int(plan.kept.sum())
    )


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
    asked = request.options.ranges is not None or request.method == "statistics"  # of the declared response and ranges
    return () if asked else trimmable(design)


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


def with_likely_intervals(plan: Plan, known: KnownColumns, rows: float, share: float = LIKELY) -> Plan:
    """The plan once it has bought intervals than which a share of those of such rows are no wider."""
    request, design = with_settled_law(plan), plan.design
    found: dict[str, Range] = {}
    assert isinstance(design, DesignSpec)
    for name in plan.trimmed:
        declared = design.domain[name]
        assert isinstance(declared, Range)
        values = known.numbers(name, declared)
        if values is not None:
            ends = float(declared.low), float(declared.high)
            eps, columns = range_eps(request, plan.bought) / len(plan.bought), len(plan.trimmed)
            bought = likely_interval(
                values, *ends, rows=rows, eps=eps, adjacency=request.adjacency, columns=columns, share=share
            )
            found |= {} if bought == ends else {name: replace(declared, inner=bought)}
    with contextlib.suppress(DPStatsError):  # the declared ranges serve then, as in a fit
        narrowed = design_spec(design.formula, design.domain.with_(found), family=request.family) if found else design
        return plan_model(request, narrowed, bought=plan.bought, trimmed=plan.trimmed, counts=plan.counts)
    return plan


def with_likely_response(plan: Plan, known: KnownColumns, rows: float, share: float = LIKELY) -> Plan:
    """The plan once it has bought its known response: of counts one than which a share of purchases are no greater.

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
    high = likely_reach(values, planned.high, rows=rows, eps=(1 - parts) * planned.eps, share=share)
    mean = max(float(np.minimum(values, high if poisson else planned.high).mean()), RAREST)
    # With an offset it is the rate that is bought, to which no cap goes.
    bought = replace(planned, high=high, mean=mean if centred and design.offset is None else None)
    alpha = max(float(values.var() - mean) / mean**2, 0.0)
    return bought if poisson else replace(bought, alpha=least_alpha(high, alpha))


def interval_share(request: Request, names: tuple[str, ...], rows: float) -> float:
    """The share of a fit's eps that intervals of some columns cost if there are so many rows; 0 if none are bought."""
    share = share_to_spend(rows * request.row_eps, request.adjacency, len(names))
    return min(share, request.options.range_share)


def candidates_of(plan: Plan, asked: Request | None = None) -> list[Plan]:
    """The plans of the same model that differ in what they spend on errors, nothing first, more each time.

    They insist on its law of noise. None where there is nothing to choose. `asked` was the request before the response
    of least squares was bought.
    """
    request = plan.request if asked is None else asked
    if not (adaptive_errors(request, plan.family) and comparable(plan)):
        return []
    automatic = with_settled_law(replace(plan, request=request))
    if is_open_least_squares(automatic):
        return _least_squares_candidates(plan, automatic, None if _is_first(request, asked) else plan.response)
    without, paid = (
        replace(automatic, options=replace(automatic.options, inference=setting)) for setting in (None, True)
    )
    found: list[Plan] = []
    if not errors_are_free(plan.family):  # no errors are free, and the plan has none
        found = [replace(plan, request=without)]
    else:
        with contextlib.suppress(DPStatsError):  # as public as what is planned
            found.append(replan_request(plan, without))
        found.append(replace(plan, request=automatic))
    with contextlib.suppress(DPStatsError):
        found.append(replan_request(plan, paid))
    return found


def _is_first(request: Request, asked: Request | None) -> bool:
    """Whether the choice is whether an interval of the response is bought, not what to do with it."""
    return asked is None and interval_follows(request)


def _least_squares_candidates(plan: Plan, request: Request, bought: ResponsePurchase | None) -> list[Plan]:
    """Coefficients alone, unless errors are asked for, and errors that are paid for; what is not bought stands in."""
    settings: tuple[Literal[True] | None, ...] = (True,) if request.options.inference is True else (None, True)
    found = []
    for setting in settings:
        one = replace(request, options=replace(request.options, inference=setting))
        with contextlib.suppress(DPStatsError):
            found.append(rescaled(plan, one, bought or _likely_interval(one, plan)))
    return found


def _likely_interval(request: Request, plan: Plan) -> ResponsePurchase | None:
    """What stands for the interval of a response until it is bought; None if it is not."""
    planned = response_purchase(request, plan.design)
    if planned is None:
        return None
    middle, half = (planned.high + planned.low) / 2, LIKELY_PART * (planned.high - planned.low) / 2
    return replace(planned, low=middle - half, high=middle + half)


def settled(plan: Plan, rows: float, asked: Request | None = None) -> Plan:
    """The candidate that suits `rows` best, `plan` where public facts foresee none; `asked` as for `candidates_of`."""
    candidates, response = candidates_of(plan, asked), plan.response
    with contextlib.suppress(DPStatsError, ArithmeticError, np.linalg.LinAlgError):  # as public as what is planned
        judged = candidates
        if response is not None and response.one_tail:
            # Under the wide cap of one tail more of the loss is foreseen than there is: errors would hardly ever pay.
            judged = candidates_of(replace(plan, response=replace(response, one_tail=False)), asked)
        chosen = candidates[choose(judged, rows)] if candidates else plan
        if _is_first(plan.request, asked):
            return chosen
        return _or_statistics(chosen, [one for one in candidates if one.request.options.inference is None], rows)
    return plan


def carried_out(
    plan: Plan,
    rows: float,
    known: KnownColumns | None = None,
    residual_sd: float | None = None,
    share: float = LIKELY,
) -> Plan:
    """What a plan that counts its rows becomes at so many; of what is bought, ranges as declared stand in.

    Of `known` columns and a known response those do than which a share of the purchases are no wider.
    """
    counts = plan.counts
    if plan.residuals is not None:
        plan = before_residuals(plan)
        plan = plan if known is None else with_likely_intervals(plan, known, rows, share)
        return with_public_residuals(plan, residual_sd)
    plan = plan if counts is None else with_intervals(plan, counts.trimmable, rows)
    plan = plan if known is None else with_likely_intervals(plan, known, rows, share)
    plan = plan if counts is None else affordable(plan, rows)
    request, chosen = with_settled_law(plan), plan
    follows = counts is not None and interval_follows(request)
    if follows:
        chosen = settled(plan, rows)
        if chosen.response is None:
            return rescaled(plan, chosen.request)
    bought = chosen if known is None else with_likely_response(chosen, known, rows, share)
    if counts is None:
        return bought
    if not follows:
        return settled(bought, rows)
    found = with_residuals(settled(bought, rows, request), rows, request, residual_sd)
    return rescaled(plan, found.request, None if bought is chosen else bought.response, found.residuals)


def _or_statistics(plan: Plan, alone: Sequence[Plan], rows: float) -> Plan:
    """Released statistics in the place of errors that are paid for, where their intervals are expected to be better.

    They are chosen before coefficients `alone` too, where these are a candidate: their loss may be larger.
    """
    if plan.request.options.inference is not True or not may_take_statistics(plan.request) or not foreseeable(plan):
        return plan
    sums = rescaled(plan, replace(with_settled_law(plan), method="statistics"), plan.response)
    capped, linear = (one.intervals(rows) for one in expectations([plan, sums]))
    return sums if linear > capped and all(choose([one, sums], rows) for one in alone) else plan


def with_residuals(plan: Plan, rows: float, asked: Request, residual_sd: float | None = None) -> Plan:
    """The plan of sums of residuals that takes the place of one with errors, if so many rows pay for it.

    The plan has an interval of its response; `asked` was the request before. A likely cap stands in, and no
    coefficients: public facts and `rows` decide whether residuals are bought, and nothing fails for those that are.
    """
    request, size = with_settled_law(plan), len(plan.names)
    suits = plan.response is not None and request.options.inference is True and may_take_statistics(asked)
    if not suits or not foreseeable(plan) or rows * request.row_eps < ROWS_A_COLUMN * size:
        return plan
    cap = INTERVAL_CAP
    if residual_sd is not None:
        assert isinstance(plan.design, DesignSpec)
        cap = min(cap, LIKELY_CAP * residual_sd / plan.design.without_working().response_scaling()[1])
    residuals = ResidualPurchase(
        residual_share(rows * request.row_eps, size) * request.row_eps, ResidualCentre((0.0,) * size, cap)
    )
    with contextlib.suppress(DPStatsError):  # as public as what is planned
        return rescaled(plan, replace(request, method="statistics"), plan.response, residuals)
    return plan


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
    if not suits or plan.residuals is not None or used < ROWS_A_COLUMN * size:
        return plan
    with contextlib.suppress(DPStatsError):  # as public as what is planned
        purchase = ResidualPurchase(residual_share(used, size) * request.row_eps)
        return rescaled(plan, request, plan.response, purchase)
    return plan


def residual_share(information: float, size: int) -> float:
    """The share of eps that residuals cost by rows times eps, of so many columns."""
    share = (CENTRE_SHARE + TAILS_SHARE) * math.sqrt(min(1.0, FULL_SHARES * size / information))
    return float(f"{share:.2g}")


def with_public_residuals(plan: Plan, residual_sd: float | None = None) -> Plan:
    """The plan with residuals, if it is for a public number of rows that decides so before any is read."""
    rows = plan.request.options.n
    if rows is None:
        return plan
    plan = with_refit_residuals(plan, rows)
    return with_residuals(plan, rows, plan.request, residual_sd) if interval_follows(plan.request) else plan


def before_residuals(plan: Plan) -> Plan:
    """The plan that `with_public_residuals` gave this one for."""
    if plan.residuals is None:
        return plan
    request = with_settled_law(plan)
    return rescaled(plan, replace(request, method="napp") if request.method == "statistics" else request)


def choose(candidates: Sequence[Plan], n: float, typical: object = None) -> int:
    """The place of the plan that suits `n` rows best: the first, coefficients alone, where none shows many intervals.

    The candidates are foreseeable plans of one call that differ in what they spend on errors. `n` may be a released
    count, and `typical` is as for `Plan.standard_errors`. Nothing but public facts and `n` decides.
    """
    return preferred(outlooks(candidates, [n], typical)[0])


def preferred(expected: Sequence[Outlook]) -> int:
    """The place of the outlook that is worth most; the first, unless another shows intervals."""
    others = (one.worth if one.worth_having else -math.inf for one in expected[1:])
    return int(np.argmax([expected[0].worth, *others]))


def outlooks(candidates: Sequence[Plan], rows: Sequence[float], typical: object = None) -> list[list[Outlook]]:
    """What each of the candidates is expected to show of each number of rows; arguments as for `choose`."""
    expected = expectations(candidates, typical)
    return [[one.of(n) for one in expected] for n in rows]


def expectations(candidates: Sequence[Plan], typical: object = None) -> list[Expectation]:
    plans = [_with_likely_mean(plan) for plan in candidates]
    return [Expectation(*both) for both in zip(plans, populations_of(plans, typical), strict=True)]


def _with_likely_mean(plan: Plan) -> Plan:
    """The plan of counts once it has bought their mean, to which it caps the information, as far as it can be told."""
    planned, design = plan.response, plan.design
    if not isinstance(design, DesignSpec):
        return plan
    caps = isinstance(plan.family, Poisson) and design.has_intercept and design.offset is None
    if planned is None or planned.mean is not None or not caps:
        return plan
    with contextlib.suppress(DPStatsError):  # as public as what is planned
        return rescaled(plan, plan.request, replace(planned, mean=USUAL.count * design.response.high))
    return plan


def _count_level(plan: Plan) -> float:
    """The mean of counts over the greatest one: as it was bought, and else as it usually is.

    Noise goes by a bought mean too, so that rare counts say as much as others; beside a declared cap they would not.
    """
    bought, design = plan.response, plan.design
    assert isinstance(design, DesignSpec)
    if bought is None or bought.mean is None or design.offset is not None:  # with which it is a rate
        return USUAL.count
    return bought.mean / design.response.high


def populations_of(candidates: Sequence[Plan], typical: object = None) -> list[Populations]:
    """What is supposed of the rows of each candidate; arguments as for `choose`."""
    first, caps = candidates[0], [weight_cap(plan) for plan in candidates]
    assert isinstance(first.design, DesignSpec)
    supposed = first.design, first.family, _count_level(first), frozenset(caps)
    means = _declared_populations(*supposed) if typical is None else _populations(*supposed, typical)
    return [means[cap] for cap in caps]


def _populations(
    design: DesignSpec, family: Family, count: float, caps: frozenset[float | None], typical: object = None
) -> dict[float | None, Populations]:
    """What is supposed of rows, by the cap on their weights; `count` as in `_count_level`."""
    known = KnownColumns.from_arguments(design, typical, None)
    # What is identified is judged by rows that say little; but poor counts would be rare besides.
    usual, poor = (
        sample_rows(design, family, known, replace(prior, count=count), None, DRAWS) for prior in (USUAL, POOR)
    )
    return {
        cap: Populations(mean_information(family, poor, cap), row_means(family, usual, cap), design.response_scaling())
        for cap in caps
    }


_declared_populations = lru_cache(maxsize=12)(_populations)
"""By the Domain alone: the same for all numbers of rows and budgets that are asked about, and of the next fit."""


class Choices:
    """What a fit of a plan that counts its rows becomes by their number, its ranges as they are declared.

    What intervals cost is as if so much less were to be had of the rows: noise and rows go together.
    """

    def __init__(self, plan: Plan) -> None:
        counts = plan.counts
        self.plan, self.names = plan, () if counts is None else counts.trimmable
        offered = candidates_of(plan) if counts is not None and counts.settles_errors else []
        self.candidates = offered or [plan]
        self.open = bool(offered or self.names) and comparable(plan)

    @cached_property
    def _expectations(self) -> list[Expectation]:
        return expectations(self.candidates)

    def share(self, rows: float) -> float:
        """The share of eps that intervals cost."""
        return interval_share(self.plan.request, self.names, rows)

    def outlook(self, rows: float) -> tuple[int, Outlook]:
        """The place of the candidate that is chosen, and what it is expected to show."""
        left = rows * (1 - self.share(rows))
        expected = [one.of(left) for one in self._expectations]
        return (place := preferred(expected)), expected[place]


Assumptions = tuple[float | None, object, object]  # residual_sd, typical, like
Simulated = dict[object, Forecast]


@dataclass(frozen=True, eq=False)
class AdaptiveForecast(Forecast):
    """Standard errors of fits of a plan that follows the number of its rows; `plan` is what spends most on errors."""

    followed: Plan
    assumptions: Assumptions
    simulated: Simulated
    likely_share: float = LIKELY
    _plans: dict[float, tuple[Plan, Forecast | None]] = field(init=False, repr=False, default_factory=dict)

    @cached_property
    def _known_columns(self) -> KnownColumns | None:
        """What is known of columns, if anything is."""
        assert isinstance(self.followed.design, DesignSpec)
        _, *given = self.assumptions
        nothing = all(one is None for one in given)
        return None if nothing else KnownColumns.from_arguments(self.followed.design, *given)

    @cached_property
    def _residual_sd(self) -> float | None:
        """That of residuals of least squares in the user's units, if it is said or follows from a known response."""
        said, known, design = self.assumptions[0], self._known_columns, self.plan.design
        assert isinstance(design, DesignSpec)
        if said is not None or known is None or not known.has(design.parsed.response_columns):
            return said
        return math.sqrt(self.populations[self.names[0]].square) * design.response_scaling()[1]

    def at(self, plan: Plan) -> Forecast:
        check_type("plan", plan, Plan, "a plan of the same call, as plan.at(eps) makes it")
        return forecast_by_rows(plan, *self.assumptions, simulated=self.simulated)

    def cautious(self) -> Forecast:
        return replace(self, likely_share=SURE)

    def errors(self, n: int) -> pd.DataFrame:
        """As of any forecast; of described rows the ends are those of purchases that go well and badly."""
        table, plan = super().errors(n), self.plan_at(n)
        if not self.known or not (plan.trimmed or (plan.response is not None and plan.family.response == "count")):
            return table
        found = table["std_error"]
        well, badly = (replace(self, likely_share=share) for share in (MIDDLE, SURE))
        if well.bought_at(n) != self.bought_at(n):
            # Where there are errors after worse purchases no draws need tell that there are some.
            sure = np.isfinite(found).all()
            best = well.expected(self.last, n) if sure else well.likely(self.last, n, rough=True)[0]
            table["lower"] = np.minimum(found, best)
        if badly.bought_at(n) != self.bought_at(n):
            table["upper"] = np.maximum(found, badly.likely(self.last, n, rough=True)[0])
        return table

    def plan_at(self, n: float) -> Plan:
        return self._settled(n)[0]

    def bought_at(self, n: float) -> tuple[Domain, ResponsePurchase | None]:
        """The Domain with the ranges that the search finds, and what is bought of the response."""
        plan = self.plan_at(n)
        assert isinstance(plan.design, DesignSpec)
        return plan.design.domain, plan.response

    def expected(self, name: str, n: int) -> Vector:
        found = self._settled(n)[1]
        return np.full(len(self.plan.names), np.inf) if found is None else found.expected(name, n)

    def identified_draws(self, name: str, n: int, draws: int) -> Iterator[NDArray[np.bool_]]:
        found = self._settled(n)[1]
        if found is None:
            return iter([np.zeros(len(self.plan.names), dtype=bool)])
        return found.identified_draws(name, n, draws)

    def _settled(self, n: float) -> tuple[Plan, Forecast | None]:
        """The plan for `n` rows, to three digits, and what is foreseen of its errors; None if it has none.

        A search asks for many numbers of rows, and the choice changes at few. It is that of a count which the noise
        has made small: what more rows decide may not come.
        """
        counts = self.followed.counts
        rows = float(f"{max(n - (SMALL_COUNT * counts.rows_sd if counts is not None else 0.0), 1.0):.3g}")
        if rows not in self._plans:
            plan = carried_out(self.followed, rows, self._known_columns, self._residual_sd, self.likely_share)
            plan = _with_likely_mean(plan)
            found = _foreseen(plan, self.assumptions, self.simulated) if releases_errors(plan) else None
            self._plans[rows] = (plan, found)
        return self._plans[rows]


def _foreseen(plan: Plan, assumptions: Assumptions, simulated: Simulated) -> Forecast:
    """What is foreseen of a plan by rows that are simulated once for all plans with the same units and cap."""
    assert isinstance(plan.design, DesignSpec)
    kind = (plan.design.response_scaling(), plan.family, weight_cap(plan), plan.design.domain)
    if kind not in simulated:
        simulated[kind] = forecast(plan, *assumptions)
    return simulated[kind].at(plan)


def forecast_by_rows(
    plan: Plan, residual_sd: float | None, typical: object, like: object, *, simulated: Simulated | None = None
) -> Forecast:
    """What is foreseen of a plan's standard errors, as each number of rows settles it; see `Plan.standard_errors`.

    `simulated` is what has been foreseen of the same call at other budgets.
    """
    simulated, assumptions = {} if simulated is None else simulated, (residual_sd, typical, like)
    plan = plan if plan.residuals is None else with_public_residuals(before_residuals(plan), residual_sd)
    counts = plan.counts
    follows = counts is not None and bool(counts.settles_errors or counts.trimmable)
    persons = plan.request.options.unit is not None and plan.screening is None
    narrows = bool(plan.trimmed or plan.response) and not (typical is None and like is None)
    if not (follows or narrows) or not (foreseeable(plan) or persons):
        return forecast(plan, *assumptions)
    dearest = [plan, *candidates_of(plan)][-1]
    if interval_follows(plan.request):
        dearest = rescaled(plan, dearest.request)
    found = _foreseen(dearest, assumptions, simulated)
    return AdaptiveForecast(dearest, found.populations, plan, assumptions, simulated)


ROWS = (300, 1_000, 3_000, 10_000, 30_000, 100_000, 300_000, 1_000_000)
"""Numbers of rows that a plan tells the choice for."""


def by_rows(plan: Plan) -> pd.DataFrame:
    """What would be chosen by number of rows: which ranges, how errors are paid for, and how many to expect."""
    choices, found = Choices(plan), []
    asked = plan.request.options.inference is True and comparable(plan) and plan.family.name not in OF_PIECES
    for rows in ROWS if choices.open or asked else ():
        with np.errstate(all="ignore"):  # of units that are far apart
            place, expected = choices.outlook(rows)
        setting = choices.candidates[place].request.options.inference
        paid = "none" if not expected.share else "free" if setting == "auto" else "paid"
        found.append((rows, "bought" if choices.share(rows) else "declared", paid, expected.share))
    table = NotedFrame(pd.DataFrame(found, columns=["rows", "ranges", "errors", "share"]).set_index("rows"))
    if found and plan.family.response == "binary":
        assert isinstance(plan.design, DesignSpec)
        nothing = KnownColumns.from_arguments(plan.design, None, None)
        share = sample_rows(plan.design, plan.family, nothing, POOR, None, 1).mean
        known = phrase(f"plan.standard_errors(n, {typical_response(plan, share)})", shell=typical_response(plan, share))
        table.attrs["note"] = f"This assumes that {response_words(plan, share)}; {known} takes the share that you know."
    return table


class Expectation:
    """What a plan is expected to show by the number of its rows, of which each adds what is supposed in the mean."""

    def __init__(self, plan: Plan, means: Populations) -> None:
        self.plan, usual = plan, means.usual
        kept = np.flatnonzero(plan.kept)
        among = np.ix_(kept, kept)
        self.coef, self.row_information = means.coefficients(plan)[kept], usual.information[among]
        self.ratios = InformationRatios(plan, means.identifying[among])
        # Of a well-specified model l'^2 over l'' is twice the loss of a row that is left: the unit of an excess.
        rescaled_by = (plan.design.response_scaling()[1] / means.scaling[1]) ** 2
        self.units = usual.weight / usual.square * rescaled_by if usual.square > 0 else 0.0

    @cached_property
    def _usual_ratios(self) -> InformationRatios:
        return InformationRatios(self.plan, self.row_information)

    def of(self, n: float) -> Outlook:
        """For `n` rows, at least one: a released count may be negative."""
        share, family, stage = self.share(n), self.plan.family, self.plan.stages[-1].plan
        if family.response == "count":
            # By poor rows alone errors would be put off that fits of many counts would have.
            return Outlook(share, 1.0, self._share(self._usual_ratios, n))
        noise, bias = stage.predicted_error(self._used(n) * self.row_information, self.coef - stage.shrunk_towards)
        excess = float(np.sum(self.row_information * (noise + bias))) * self.units
        excess *= self._supposed_loss() if family.response == "continuous" else 1.0
        return Outlook(share, 1 + max(excess, 0.0))

    def _supposed_loss(self) -> float:
        """How many times what noise adds to the loss of least squares counts."""
        response = self.plan.response
        if response is None or self.plan.request.method != "statistics":
            return SUPPOSED_LOSS
        part = (response.high - response.low) / 2 / self.plan.design.response_scaling()[1]
        return SUPPOSED_LOSS * (LIKELY_PART / part) ** 2

    def _used(self, n: float) -> float:
        n = max(float(n), 1.0)
        return n / 2 if self.plan.request.options.split is not None else n  # the others choose the columns

    def share(self, n: float) -> float:
        """Of the coefficients those that are expected to have an interval, of `n` rows."""
        return self._share(self.ratios, n)

    def slopes(self, n: float) -> float:
        """The same share of the slopes, of all if there are none."""
        slopes = np.array([name != "Intercept" for name in _fitted_design(self.plan).names])
        return float(np.mean(self._chances(self.ratios, n)[slopes if slopes.any() else ...]))

    def _share(self, by_rows: InformationRatios, n: float) -> float:
        return float(np.mean(self._chances(by_rows, n)))

    def _chances(self, by_rows: InformationRatios, n: float) -> Vector:
        ratios = by_rows.of(self._used(n))
        # Near the threshold the noise decides, so that the chance is smooth in n.
        return np.where(ratios > 0, special.ndtr(ratios - EXPECTED_RATIO), 0.0)

    def intervals(self, n: float) -> float:
        """What those of a linear model are worth beside those of another, of `n` rows."""
        share = float(np.mean([self.share(part * max(float(n), 1.0)) for part in LESS_INFORMATION]))
        return share / self.width(n) ** WIDTH_PRICE

    def width(self, n: float) -> float:
        """Of a linear model the geometric mean of the slopes' standard errors in the user's units, of `n` rows."""
        design, information = _fitted_design(self.plan), self._used(n) * self.row_information
        stage = self.plan.stages[-1].plan
        far, _ = stage.predicted_error(FAR * information, self.coef - stage.shrunk_towards)
        rows = design.back_transform()[0][[name != "Intercept" for name in design.names]]
        covariance = FAR**2 * far + np.linalg.pinv(information) / self.units
        squares = np.sum(rows @ covariance * rows, axis=1)
        return float(np.exp(np.mean(np.log(squares[squares > 0])) / 2)) if np.any(squares > 0) else 1.0


class InformationRatios:
    """Of each coefficient in the user's units its information over the deviation of the plan's noise in it.

    By the number of rows, each of which adds `information`, shape (p, p). It is G_jj / sd(g_j'E g_j) with G the inverse
    of what is expected, among the coefficients that are not dropped (docs/proofs/inference, 5); of a dropped one as it
    was then. Zero where none is released.
    """

    def __init__(self, plan: Plan, information: Vector) -> None:
        law, self._steps = information_law(plan), [(np.zeros(len(information)), 0.0)]
        self._dropping, self._entering = iter(self._steps[:0]), np.eye(len(information), dtype=bool)
        if law is not None:
            design = _fitted_design(plan)
            known = KnownInformation.of(information, law, design.forms(), design.dummies)
            self._entering = design.back_transform()[0] @ known.basis != 0
            self._dropping = _dropping_steps(known.matrix, known.law)

    def of(self, n: float) -> Vector:
        """Of `n` rows, shape (p,)."""
        # All grow with the rows alike, so that the same one is the least.
        for step in itertools.count(1):
            if len(self._steps) == step:
                self._steps += itertools.islice(self._dropping, 1)
            if len(self._steps) == step or n * self._steps[step][1] >= LEAST_RATIO:
                break
        ratios = n * self._steps[min(step, len(self._steps) - 1)][0]
        return np.asarray(np.where(self._entering, ratios, np.inf).min(axis=1))


def _fitted_design(plan: Plan) -> DesignSpec | SubDesign:
    """The columns that are fitted, or stand for those that will be chosen."""
    assert isinstance(plan.design, DesignSpec)
    return plan.design if plan.screening is None else SubDesign(plan.design, np.flatnonzero(plan.kept))


def _dropping_steps(information: Vector, law: MatrixLaw) -> Iterator[tuple[Vector, float]]:
    """Ratios of coefficients as the least is dropped again and again, shape (p,), and the least of those left."""
    size = len(information)
    kept = np.flatnonzero(law.bilinear(np.eye(size), np.eye(size)) > 0)
    inverse, ratios = np.linalg.pinv(information[np.ix_(kept, kept)]), np.zeros(size)
    while len(kept):
        directions = np.zeros((len(kept), size))
        directions[:, kept] = inverse
        deviations = np.sqrt(law.bilinear(directions, directions))
        found = np.divide(np.diag(inverse), deviations, out=np.zeros(len(kept)), where=deviations > 0)
        ratios[kept] = found
        least = int(np.argmin(found))
        yield ratios.copy(), float(found[least])
        # The inverse of the information among the rest: a rank-one change.
        rest = np.delete(np.arange(len(kept)), least)
        column = inverse[rest, least]
        inverse = inverse[np.ix_(rest, rest)] - np.outer(column, column) / (inverse[least, least] or 1.0)
        kept = kept[rest]
