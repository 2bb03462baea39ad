"""NAPP-ERM with a proof: one penalised release, or a first one that decides in public how the second shrinks.

docs/proofs/napp (one stage), docs/proofs/two_stage, docs/proofs/selection. Every stage is an objective perturbation
with a fresh draw of noise; what follows from a released stage is public, and stages add up by basic composition.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dpstats.data import Block, Rows, block_rows, divide
from dpstats.errors import ArgumentError
from dpstats.families import Family
from dpstats.mechanisms.calibration import NoiseBudget, design_norms
from dpstats.mechanisms.design import NORM_NAMES, Bounds, SubDesign
from dpstats.mechanisms.inference_budget import with_inference
from dpstats.mechanisms.information import Information
from dpstats.mechanisms.information_release import release_information
from dpstats.mechanisms.least_squares import (
    LeastSquaresPlan,
    ReleasedSums,
    plan_least_squares,
    release_least_squares,
)
from dpstats.mechanisms.objective import ObjectivePlan, plan_objective, recentre, release_objective
from dpstats.mechanisms.options import Options
from dpstats.mechanisms.output import OutputPlan, check_output_options, plan_output, release_output
from dpstats.mechanisms.posterior import PosteriorPlan, plan_posterior, release_posterior
from dpstats.mechanisms.selection import allocate, noise_aware, noise_threshold
from dpstats.penalties import Lasso, Penalty, split_curvature
from dpstats.privacy.guarantee import Adjacency
from dpstats.privacy.k_norm import KNormNoise
from dpstats.privacy.randomness import RandomSource, secret_key

Vector = NDArray[np.float64]
Role = Literal["fit", "pilot", "refit"]

HEAVIEST = 1e6
"""A majoriser's weight is held below this multiple of privacy's curvature: a zero of the pilot stays near zero."""


class Stage(NamedTuple):
    """One release of a fit, and what it is for."""

    role: Role
    plan: ObjectivePlan


@dataclass(frozen=True, eq=False)
class StagesRelease:
    """Released coefficients in model units, shape (p,), the stages as they were carried out, and the information."""

    params: Vector
    stages: tuple[Stage, ...]
    information: Information | ReleasedSums | None = None


def plan_stages(
    design: Bounds,
    family: Family,
    penalty: Penalty | None,
    weights: Vector,
    *,
    eps: float,
    delta: float,
    adjacency: Adjacency,
    options: Options,
    charged: bool = False,
) -> tuple[Stage, ...]:
    """Split a budget over the releases of one fit and plan each, without rows.

    The second of two stages and the refit are planned as they would be if the first told nothing; what they cost does
    not change when it does.

    Parameters
    ----------
    design : Bounds
    family : Family
    penalty : Penalty or None
    weights : ndarray, shape (p,)
        The penalty's weight on each column.
    eps, delta : float
        The budget of all stages together.
    adjacency : {"add_remove", "replace_one"}
    options : Options

    Raises
    ------
    ArgumentError
        If the penalty is not convex and there is one stage only, or `selection` does not suit the penalty.
    """
    two = options.stages == 2 or (options.stages == "auto" and penalty is not None and not penalty.convex)
    if penalty is not None and not penalty.convex and not two:
        raise ArgumentError(f"penalty {penalty.name!r} is not convex here: it needs stages=2 (or 'auto')")
    if options.refit_share > 0 and options.selection is None and not (penalty is not None and penalty.sparse):
        raise ArgumentError("refit_share needs a sparse penalty or selection='noise_aware': nothing is selected")
    first = options.first_stage_share if two else 0.0
    # Rows that are divided between choice and refit pay for each with the whole budget.
    apart = options.split is not None and options.refit_share > 0
    chosen, refitted = (1.0, 1.0) if apart else (1 - options.refit_share, options.refit_share)
    shares: dict[Role, float] = {"pilot": chosen * first, "fit": chosen * (1 - first), "refit": refitted}
    stages = []
    last: Role = "refit" if options.refit_share > 0 else "fit"
    for role, share in shares.items():
        if share == 0:
            continue
        purchase = replace(_purchase(share * eps, share * delta, adjacency, options), charged=charged)
        if role == last:
            purchase = with_inference(purchase, design, family, penalty if role == "fit" else None, options)
        if role != "fit":
            stages.append(Stage(role, plan_objective(design, family, purchase)))
            continue
        convex = penalty if penalty is None or penalty.convex else None
        if options.selection == "noise_aware":
            plan = _select(design, family, purchase, penalty, weights, options.selection_level)
        else:
            plan = plan_objective(design, family, purchase, convex, weights)
        if options.selection == "auto":
            plan = _floored(plan, penalty, weights)
        stages.append(Stage(role, plan))
    return tuple(stages)


def release_stages(
    stages: Sequence[Stage],
    design: Bounds,
    penalty: Penalty | None,
    weights: Vector,
    rows: Rows[Block] | Iterable[tuple[Any, ...]],
    random: RandomSource,
    options: Options,
) -> StagesRelease:
    """Carry out the stages on rows that are paid for.

    Parameters
    ----------
    stages : sequence of Stage
        From `plan_stages`.
    design : Bounds
    penalty : Penalty or None
    weights : ndarray, shape (p,)
    rows : Rows of Block
    random : RandomSource
    options : Options
    """
    params = np.zeros(len(design.names))
    done: list[Stage] = []
    information: Information | ReleasedSums | None = None
    choosing = fitting = block_rows(rows)
    if isinstance(stages[0].plan, LeastSquaresPlan):
        params, information = release_least_squares(stages[0].plan, choosing, random)
        return StagesRelease(params, tuple(stages), information)
    if stages[-1].role == "refit" and options.split:
        choosing, fitting = divide(choosing, secret_key(random))
    for role, planned in stages:
        if role == "refit":
            refitted = _refit(planned, design, params, fitting, random, options)
            params, information = refitted.params, refitted.information
            done += refitted.stages
            continue
        plan = _follow(planned, design, penalty, weights, params) if role == "fit" and done else planned
        params = _release(plan, choosing, random)
        information = release_stage_information(plan, design, params, choosing, random)
        done.append(Stage(role, plan))
    return StagesRelease(params, tuple(done), information)


def release_stage_information(
    plan: ObjectivePlan, design: Bounds, params: Vector, rows: Rows[Block], random: RandomSource
) -> Information | None:
    """The information at coefficients that this plan released, if it is to be released too."""
    if plan.information is None:
        return None
    return release_information(plan.information, plan.final, plan.family, design, params, rows, plan.adjacency, random)


def plan_method_stage(
    design: Bounds,
    family: Family,
    penalty: Penalty | None,
    weights: Vector,
    *,
    eps: float,
    delta: float,
    adjacency: Adjacency,
    options: Options,
    method: str,
) -> tuple[Stage, ...]:
    """The one stage of output perturbation, posterior sampling or released statistics, planned without rows.

    Arguments and errors as for `plan_stages`.

    Raises
    ------
    ArgumentError
        Also for an option that the method does not have.
    """
    if method == "statistics":
        found = plan_least_squares(
            design, family, penalty, weights, eps=eps, delta=delta, adjacency=adjacency, options=options
        )
        return (Stage("fit", found),)
    check_output_options(options, method)
    purchase = _purchase(eps, delta, adjacency, options)
    plan = plan_posterior if method == "posterior" else plan_output
    return (Stage("fit", plan(design, family, purchase, penalty, weights, options)),)


def _release(plan: ObjectivePlan, rows: Rows[Block], random: RandomSource) -> Vector:
    """One stage's coefficients, by the mechanism that was planned."""
    if isinstance(plan, PosteriorPlan):
        return release_posterior(plan, rows, random)
    if isinstance(plan, OutputPlan):
        return release_output(plan, rows, random)
    return release_objective(plan, rows, random)


def stored_plan(stored: Mapping[str, Any]) -> ObjectivePlan:
    """The plan of a stage whose `to_dict` gave `stored`."""
    kinds: dict[Any, type[ObjectivePlan]] = {
        "output": OutputPlan,
        "posterior": PosteriorPlan,
        "statistics": LeastSquaresPlan,
    }
    return kinds.get(stored.get("released"), ObjectivePlan).from_dict(stored)


def _purchase(eps: float, delta: float, adjacency: Adjacency, options: Options) -> NoiseBudget:
    """One stage's budget, a share of it for its final discrete noise."""
    final_eps = options.release_share * eps
    retrieval = options.retrieval if options.retrieval != "paper" else None
    return NoiseBudget(
        eps - final_eps,
        delta,
        final_eps,
        adjacency,
        retrieval,
        options.curvature,
        options.radius,
        options.noise,
        rows_at_most=options.rows_at_most,
        shared=options.record.shared,
    )


def _select(
    design: Bounds,
    family: Family,
    purchase: NoiseBudget,
    penalty: Penalty | None,
    weights: Vector,
    level: float,
) -> ObjectivePlan:
    """A plan that adds the threshold which noise alone rarely passes to the weight of every penalised column.

    The norm of the noise is chosen for the least threshold: the maximum of p coordinates is what decides here.
    """
    if not np.any(weights):
        raise ArgumentError("selection='noise_aware' needs a penalised column; see penalty_weights")
    choices = [replace(purchase, kind="laplace", norm=norm) for norm in (*design_norms(design), *NORM_NAMES)]
    if purchase.kind == "gaussian" or (purchase.kind is None and purchase.delta > 0):
        gaussian = replace(purchase, kind="gaussian")
        choices = [gaussian] if purchase.kind == "gaussian" else [*choices, gaussian]
    plans = []
    for choice in choices:
        plan = plan_objective(design, family, choice, penalty, weights)
        spread = _thresholds(plan, level, weights)
        lasso, _ = noise_aware(penalty, weights, spread)
        plans.append(replace(plan, penalty=Lasso(1.0), penalty_weights=lasso, threshold=spread))
    return min(plans, key=lambda plan: float(np.sum(plan.threshold)))


def _thresholds(plan: ObjectivePlan, level: float, weights: Vector) -> Vector:
    """What noise alone rarely passes on the penalised columns, shape (p,); 0 on the others."""
    penalised = np.flatnonzero(weights)
    if isinstance(plan.noise, KNormNoise):
        bounds = plan.noise.thresholds(level, penalised.tolist())
    else:
        bounds = noise_threshold(plan.noise, plan.size, level, columns=len(penalised)) / plan.noise_shape
    return np.where(weights > 0, bounds, 0.0)


def _floored(plan: ObjectivePlan, penalty: Penalty | None, weights: Vector) -> ObjectivePlan:
    """The plan with no lasso weight of a penalised column below the root mean square of its noise."""
    if penalty is None or not penalty.sparse:
        raise ArgumentError("selection='auto' needs a sparse penalty, such as 'lasso'")
    lasso, _ = noise_aware(penalty, weights, 0.0)
    floor = np.where(weights > 0, np.sqrt(plan.noise_variances), 0.0)
    return replace(plan, penalty=Lasso(1.0), penalty_weights=np.maximum(lasso, floor), threshold=floor)


def _follow(
    plan: ObjectivePlan, design: Bounds, penalty: Penalty | None, weights: Vector, pilot: Vector
) -> ObjectivePlan:
    """The second stage, shrunk towards the released pilot, most where the pilot is small (docs/proofs/two_stage).

    What the penalty has of curvature, or the last majoriser of one that is not convex, pulls towards zero beside it.
    """
    maxima = np.concatenate([term.maxima for term in design.terms])
    privacy = allocate(pilot, design.terms, maxima, design.curvature_ratio, plan.kappa) * (1 + 1e-12)
    own = np.zeros(plan.size)
    if penalty is not None and penalty.convex:
        own = split_curvature(penalty)[0] * weights
    elif penalty is not None:
        own = np.minimum(penalty.majorizer(pilot, weights), HEAVIEST * float(np.max(privacy)))
    return recentre(plan, privacy + own, -privacy * pilot)


def _refit(
    planned: ObjectivePlan,
    design: Bounds,
    selected: Vector,
    rows: Rows[Block],
    random: RandomSource,
    options: Options,
) -> StagesRelease:
    """Fit the selected columns again, unpenalised, with the share kept for it; nothing selected releases zeros."""
    kept = np.flatnonzero(selected)
    if not kept.size:
        return StagesRelease(selected, (Stage("refit", planned),))
    # The charge is fixed by now. On fewer columns noise of the classical scale may cost more than was charged, so what
    # "return" left is spent on whatever noise it buys here.
    inference, part = planned.information, SubDesign(design, kept)
    purchase = replace(
        _purchase(planned.eps, planned.delta, planned.adjacency, options),
        eps=planned.eps + (0.0 if inference is None else inference.eps),
        final_eps=planned.final.eps,
        retrieval=None if options.retrieval is None else "recycle",
        information=None if inference is None else inference.purchase.suited(part),
        charged=True,
    )
    plan = plan_objective(part, planned.family, purchase)
    if inference is None:
        plan = replace(plan, planned_eps=planned.planned_eps, joint_need=planned.joint_need)
    if np.any(planned.linear):
        plan = recentre(plan, plan.curvature, plan.curvature * (planned.linear / planned.curvature)[kept])
    params, inside = np.zeros(len(selected)), rows.map(partial(Block.columns, kept=kept)).persist()
    params[kept] = release_objective(plan, inside, random)
    information = release_stage_information(plan, part, params[kept], inside, random)
    if information is not None:
        information = information.among(kept.tolist())
    return StagesRelease(params, (Stage("refit", plan),), information)
