"""A fit on the terms that screening keeps, with the rest of the budget (docs/proofs/screening, theorem)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

import numpy as np
from numpy.typing import NDArray

from dpstats.data import Block, Rows, divide
from dpstats.errors import ArgumentError
from dpstats.families import Family
from dpstats.mechanisms.design import Bounds, SubDesign
from dpstats.mechanisms.information import Information
from dpstats.mechanisms.napp import Stage, StagesRelease, plan_stages, release_stages
from dpstats.mechanisms.objective import ObjectivePlan, recentre
from dpstats.mechanisms.options import Options
from dpstats.mechanisms.screening import ScreeningPlan, plan_screening, release_screening
from dpstats.penalties import Penalty
from dpstats.privacy.guarantee import Adjacency
from dpstats.privacy.randomness import RandomSource, secret_key

Vector = NDArray[np.float64]


def plan_fit(
    design: Bounds,
    family: Family,
    penalty: Penalty | None,
    weights: Vector,
    *,
    eps: float,
    delta: float,
    adjacency: Adjacency,
    options: Options,
) -> tuple[ScreeningPlan | None, tuple[Stage, ...]]:
    """Split a budget over the releases of one fit, screening among them if it is asked for; reads no rows.

    With screening the stages are planned as if the widest terms were kept. What is charged does not depend on which
    terms are; the noise of the fit follows them.

    Parameters
    ----------
    design, family, penalty, weights, eps, delta, adjacency, options
        As for `dpstats.mechanisms.napp.plan_stages`.

    Raises
    ------
    ArgumentError
        As `plan_stages`, and if no term would be screened out, or an option would let the charge or the feasibility
        of the fit follow the terms kept.
    """
    _check_split(options)
    if options.screen is None:
        return None, plan_stages(
            design, family, penalty, weights, eps=eps, delta=delta, adjacency=adjacency, options=options
        )
    if options.retrieval == "return":
        raise ArgumentError("retrieval='return' does not go with screen: what is left over follows the columns kept")
    if options.replicates:
        raise ArgumentError("screen is not part of the replicated paper; leave one of them out")
    screening = plan_screening(design, family, weights, eps=eps, delta=delta, adjacency=adjacency, options=options)
    if options.curvature is not None:
        # Too little curvature must not come out after the charge: what suffices for all columns does for some.
        _plan_part(screening, np.arange(len(design.names)), design, family, penalty, weights, options)
    return screening, _plan_part(screening, np.array(screening.kept), design, family, penalty, weights, options)


def _check_split(options: Options) -> None:
    """Raise ArgumentError unless there is one choice to keep the rows of apart."""
    if options.split is None:
        return
    if options.screen is None and options.refit_share == 0:
        raise ArgumentError("split='rows' needs a choice of columns to keep apart: give screen or refit_share")
    if options.screen is not None and options.refit_share > 0:
        raise ArgumentError("split='rows' divides rows once: give screen or refit_share, not both")
    if options.retrieval == "return":
        raise ArgumentError("retrieval='return' does not go with split='rows': parts pay side by side")
    if options.replicates:
        raise ArgumentError("split is not part of the replicated paper; leave one of them out")


def release_screened(
    screening: ScreeningPlan,
    stages: Sequence[Stage],
    design: Bounds,
    penalty: Penalty | None,
    weights: Vector,
    rows: Rows[Block],
    random: RandomSource,
    options: Options,
) -> tuple[ScreeningPlan, StagesRelease]:
    """Choose the terms and fit them, on rows that are paid for; the other coefficients are zero.

    Parameters
    ----------
    screening : ScreeningPlan
    stages : sequence of Stage
        From `plan_fit`; their budgets hold whichever terms are chosen.
    design, penalty, weights, rows, random, options
        As for `dpstats.mechanisms.napp.release_stages`.
    """
    family = stages[0].plan.family
    choosing, fitting = divide(rows, secret_key(random)) if options.split else (rows, rows)
    chosen = release_screening(screening, design, family, weights, choosing, random)
    kept = np.array(chosen)
    planned = _plan_part(screening, kept, design, family, penalty, weights, options, charged=True)
    planned = tuple(
        Stage(role, _centred(plan, stand_in, screening.kept, kept, len(weights)))
        for (role, plan), (_, stand_in) in zip(planned, stages, strict=True)
    )
    part = SubDesign(design, kept)
    inside = fitting.map(partial(Block.columns, kept=kept)).persist()
    fitted = release_stages(planned, part, penalty, weights[kept], inside, random, options)
    params = np.zeros(len(design.names))
    params[kept] = fitted.params
    information = fitted.information.among(chosen) if isinstance(fitted.information, Information) else None
    return replace(screening, kept=chosen), StagesRelease(params, fitted.stages, information)


def _plan_part(
    screening: ScreeningPlan,
    kept: NDArray[np.intp],
    design: Bounds,
    family: Family,
    penalty: Penalty | None,
    weights: Vector,
    options: Options,
    *,
    charged: bool = False,
) -> tuple[Stage, ...]:
    """The stages of a fit on some columns with what screening leaves of the budget."""
    return plan_stages(
        SubDesign(design, kept),
        family,
        penalty,
        weights[kept],
        eps=screening.fit_eps,
        delta=screening.fit_delta,
        adjacency=screening.adjacency,
        options=options,
        charged=charged,
    )


def _centred(
    plan: ObjectivePlan, stand_in: ObjectivePlan, shown: Sequence[int], kept: NDArray[np.intp], size: int
) -> ObjectivePlan:
    """The plan, shrinking what is kept in any case to where the stand-in shrinks it, such as a bought mean."""
    if not np.any(stand_in.linear):
        return plan
    target = np.zeros(size)
    target[list(shown)] = -stand_in.linear / stand_in.curvature
    return recentre(plan, plan.curvature, -plan.curvature * target[kept])
