"""Which of several plans of one call suits a number of rows: coefficients alone, errors that are free, or paid for.

What each would show is forecast from public facts: a closed form of what `dpstats.models.forecast` draws, within
milliseconds. How the constants were chosen, and how often the rule is right, is in docs/benchmarks_inference.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy import special

from dpstats.call import Request
from dpstats.errors import DPStatsError
from dpstats.families import Family
from dpstats.formula.design import DesignSpec
from dpstats.frames import WideFrame
from dpstats.inference import KnownInformation, MatrixLaw, SpanNoise
from dpstats.inference.inverse import LEAST_RATIO
from dpstats.mechanisms.spec import obstacle
from dpstats.models.forecast import RowMeans, mean_information, row_means, sample_rows, weight_cap
from dpstats.models.population import POOR, USUAL, KnownColumns
from dpstats.models.ranges import trimmable
from dpstats.plan import Plan, replan_request, with_settled_law
from dpstats.privacy.information import headroom
from dpstats.privacy.trimming import share_to_spend
from dpstats.results.standard_errors import shrunk_towards

Vector = NDArray[np.float64]

EXPECTED_RATIO = 2.5
"""At this ratio of the expected information to its noise a coefficient has an interval every other time."""

LOSS_PRICE = 2.0
"""Errors for a further tenth of the coefficients are worth a loss that is larger by a twentieth: one over this."""

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

    @property
    def worth(self) -> float:
        """What the rule maximises."""
        return self.share - LOSS_PRICE * math.log(self.loss)


class Populations(NamedTuple):
    """What a row adds in the mean."""

    identifying: Vector  # of l'' x x', for what is identified; shape (p, p)
    usual: RowMeans


def foreseeable(plan: Plan) -> bool:
    """Whether public facts tell what a plan will show: of a formula's rows that count alike and columns that all stay.

    Ranges that are still to be bought stand in as they do in the plan.
    """
    return (
        isinstance(plan.design, DesignSpec)
        and plan.design.score_ratio == 1.0
        and plan.request.options.unit is None
        and plan.screening is None
        and plan.stages[-1].plan.size == len(plan.names)
    )


def adaptive_errors(request: Request, family: Family) -> bool:
    """Whether what is spent on errors follows the number of rows: of one plain fit whose errors are left open."""
    options = request.options
    plain = options.screen is None and options.refit_share == 0 and options.stages == 1
    return plain and options.inference == "auto" and obstacle(family, request.penalty, options) is None


def offered_intervals(request: Request, design: DesignSpec) -> tuple[str, ...]:
    """The columns whose declared ranges a plan may narrow, as it is for the number of rows to say."""
    return trimmable(design) if request.options.ranges is None else ()


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


def interval_share(request: Request, names: tuple[str, ...], rows: float) -> float:
    """The share of a fit's eps that intervals of some columns cost if there are so many rows; 0 if none are bought."""
    share = share_to_spend(rows * request.row_eps, request.adjacency, len(names))
    return min(share, request.options.range_share)


def candidates_of(plan: Plan) -> list[Plan]:
    """The plans of the same model that differ in what they spend on errors, nothing first, more each time.

    They insist on its law of noise. None where there is nothing to choose.
    """
    if not (adaptive_errors(plan.request, plan.family) and foreseeable(plan)):
        return []
    automatic = with_settled_law(plan)
    without, paid = (
        replace(automatic, options=replace(automatic.options, inference=setting)) for setting in (None, True)
    )
    found: list[Plan] = []
    if headroom(plan.family) == 0:  # no errors are free, and the plan has none
        found = [replace(plan, request=without)]
    else:
        with contextlib.suppress(DPStatsError):  # as public as what is planned
            found.append(replan_request(plan, without))
        found.append(replace(plan, request=automatic))
    with contextlib.suppress(DPStatsError):
        found.append(replan_request(plan, paid))
    return found


def settled(plan: Plan, rows: float) -> Plan:
    """The candidate that suits `rows` best; `plan` where public facts foresee none of them."""
    candidates = candidates_of(plan)
    with contextlib.suppress(DPStatsError, np.linalg.LinAlgError):  # as public as what is planned
        return candidates[choose(candidates, rows)] if candidates else plan
    return plan


def choose(candidates: Sequence[Plan], n: float, typical: object = None) -> int:
    """The place of the plan that suits `n` rows best: the first, coefficients alone, where none shows many intervals.

    The candidates are foreseeable plans of one call that differ in what they spend on errors. `n` may be a released
    count, and `typical` is as for `Plan.standard_errors`. Nothing but public facts and `n` decides.
    """
    return preferred(outlooks(candidates, [n], typical)[0])


def preferred(expected: Sequence[Outlook]) -> int:
    """The place of the outlook that is worth most; the first, unless another shows intervals."""
    worths = [outlook.worth if outlook.share >= LEAST_SHARE else -math.inf for outlook in expected[1:]]
    return int(np.argmax([expected[0].worth, *worths]))


def outlooks(candidates: Sequence[Plan], rows: Sequence[float], typical: object = None) -> list[list[Outlook]]:
    """What each of the candidates is expected to show of each number of rows; arguments as for `choose`."""
    first = candidates[0]
    assert isinstance(first.design, DesignSpec)
    known = KnownColumns.from_arguments(first.design, typical, None)
    usual = sample_rows(first, known, USUAL, None, DRAWS)
    # What is identified is judged by rows that say little; but poor counts would be rare besides.
    poor = usual if first.family.response == "count" else sample_rows(first, known, POOR, None, DRAWS)
    means = {
        cap: Populations(mean_information(first.family, poor, cap), row_means(first.family, usual, cap))
        for cap in {weight_cap(plan) for plan in candidates}
    }
    each = [means[weight_cap(plan)] for plan in candidates]
    return [[expected_outlook(*both, n) for both in zip(candidates, each, strict=True)] for n in rows]


ROWS = (300, 1_000, 3_000, 10_000, 30_000, 100_000, 300_000, 1_000_000)
"""Numbers of rows that a plan tells the choice for."""


def by_rows(plan: Plan) -> pd.DataFrame:
    """What would be chosen by number of rows: which ranges, how errors are paid for, and how many to expect.

    What intervals cost is as if so much less were to be had of the rows: noise and rows go together.
    """
    names = () if plan.counts is None else plan.counts.trimmable
    candidates = candidates_of(plan) or ([plan] if names and foreseeable(plan) else [])
    shares = [interval_share(plan.request, names, rows) for rows in ROWS]
    left = [rows * (1 - share) for rows, share in zip(ROWS, shares, strict=True)]
    found: list[tuple[int, str, str, float]] = []
    for rows, share, expected in zip(ROWS, shares, outlooks(candidates, left), strict=True) if candidates else ():
        place = preferred(expected)
        setting = candidates[place].request.options.inference
        paid = "none" if not expected[place].share else "free" if setting == "auto" else "paid"
        found.append((rows, "bought" if share else "declared", paid, expected[place].share))
    return WideFrame(pd.DataFrame(found, columns=["rows", "ranges", "errors", "share"]).set_index("rows"))


def expected_outlook(plan: Plan, means: Populations, n: float) -> Outlook:
    """What a plan is expected to show of `n` rows, at least one: a released count may be negative."""
    n, family, usual = max(float(n), 1.0), plan.family, means.usual
    ratios = information_ratios(plan, n * means.identifying)
    # Near the threshold the noise decides, so that the chance is smooth in n.
    share = float(np.mean(np.where(ratios > 0, special.ndtr(ratios - EXPECTED_RATIO), 0.0)))
    if family.response == "count":
        return Outlook(share, 1.0)
    stage = plan.stages[-1].plan
    noise, bias = stage.predicted_error(n * usual.information, usual.coef - shrunk_towards(stage))
    excess = float(np.sum(usual.information * (noise + bias)))
    # Of a well-specified model l'^2 over l'' is twice the loss of a row that is left: the unit of an excess.
    return Outlook(share, 1 + max(excess, 0.0) * usual.weight / usual.square)


def information_ratios(plan: Plan, information: Vector) -> Vector:
    """Of each coefficient in the user's units its information over the deviation of the plan's noise in it, shape (p,).

    It is G_jj / sd(g_j'E g_j) with G the inverse of the expected `information`, shape (p, p), among the coefficients
    that are not dropped (docs/proofs/inference, 5); of a dropped one as it was then. Zero where none is released.
    """
    law = _matrix_law(plan)
    if law is None:
        return np.zeros(len(information))
    assert isinstance(plan.design, DesignSpec)
    known = KnownInformation.of(information, law, plan.design.forms(), plan.design.dummies)
    ratios = _dropping_ratios(known.matrix, known.law)
    rows = plan.design.back_transform()[0] @ known.basis
    return np.array([np.min(ratios[row != 0], initial=np.inf) for row in rows])


def _matrix_law(plan: Plan) -> SpanNoise | None:
    """The law of the noise of the information that a plan releases."""
    stage = plan.stages[-1].plan
    if stage.statistics is not None:
        law = stage.statistics.law
        return SpanNoise(law.metric[:-1, :-1], law.variance)
    if stage.information is None:
        return None
    noise = stage.information.noise
    return SpanNoise(noise.metric, noise.entry_variance)


def _dropping_ratios(information: Vector, law: MatrixLaw) -> Vector:
    """Ratios of coefficients, that of the least dropped until all the rest reach `LEAST_RATIO`, shape (p,)."""
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
        if found[least] >= LEAST_RATIO:
            break
        # The inverse of the information among the rest: a rank-one change.
        rest = np.delete(np.arange(len(kept)), least)
        column = inverse[rest, least]
        inverse = inverse[np.ix_(rest, rest)] - np.outer(column, column) / (inverse[least, least] or 1.0)
        kept = kept[rest]
    return ratios
