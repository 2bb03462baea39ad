"""NAPP-ERM with a proof: one penalised release, or a first one that decides in public how the second shrinks.

docs/proofs/napp (one stage), docs/proofs/two_stage, docs/proofs/selection. Every stage is an objective perturbation
with a fresh draw of noise; what follows from a released stage is public, and stages add up by basic composition.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from dpstats.data import Block, Rows, block_rows, divide
from dpstats.errors import ArgumentError
from dpstats.formula.design import DesignSpec
from dpstats.mechanisms.calibration import NoiseBudget
from dpstats.mechanisms.design import NORM_NAMES, NormName
from dpstats.mechanisms.information import Information, ReleasedSums
from dpstats.mechanisms.least_squares import LeastSquaresPlan
from dpstats.mechanisms.objective import ObjectivePlan, plan_objective
from dpstats.mechanisms.output import OutputPlan
from dpstats.mechanisms.posterior import PosteriorPlan
from dpstats.mechanisms.residuals import suited_family
from dpstats.mechanisms.selection import allocate, noise_aware, noise_threshold
from dpstats.mechanisms.spec import FitSpec, automatic_alpha, with_inference
from dpstats.mechanisms.spreads import balancing_weights, declared_spreads
from dpstats.mechanisms.stage import Role, Stage, StagePlan, StagesRelease
from dpstats.penalties import Lasso, split_curvature
from dpstats.privacy.k_norm import KNormNoise
from dpstats.privacy.randomness import RandomSource, secret_key
from dpstats.wording import argument

Vector = NDArray[np.float64]

HEAVIEST = 1e6
"""A majoriser's weight is held below this multiple of privacy's curvature: a zero of the pilot stays near zero."""

AUTO_FIT, AUTO_CHOICE = (1.0, 1.0), (7.0, 3.0)
"""The lasso weight of alpha="auto" over the root mean squares of noise and of sampling in a score: of a lasso that is
released, and of one that chooses columns for a refit, where each column more costs errors (docs/defaults)."""

TYPICAL_SLOPE, TYPICAL_RESIDUAL, TYPICAL_SPREAD = 1 / 2, 1 / 4, 1 / 3
"""Root mean squares of the loss's slope for two classes, and for numbers, and of a column, over their bounds."""

MECHANISMS: dict[str | None, type[StagePlan]] = {
    plan.released: plan for plan in (ObjectivePlan, OutputPlan, PosteriorPlan, LeastSquaresPlan)
}


def stored_plan(stored: Mapping[str, Any]) -> StagePlan:
    """The plan of a stage whose `to_dict` gave `stored`."""
    return MECHANISMS[stored.get("released")].from_dict(stored)


def plan_stages(spec: FitSpec, eps: float, delta: float, *, charged: bool = False) -> tuple[Stage, ...]:
    """Split a budget over the releases of one fit and plan each, without rows.

    The second of two stages and the refit are planned as they would be if the first told nothing; what they cost does
    not change when it does. ArgumentError if the penalty is not convex and there is one stage only, or `selection`
    does not suit the penalty.
    """
    options, penalty = spec.options, spec.penalty
    two = options.stages == 2 or (options.stages == "auto" and penalty is not None and not penalty.convex)
    if penalty is not None and not penalty.convex and not two:
        raise ArgumentError(
            f"penalty {penalty.name!r} is not convex here: it needs {argument('stages', 2)} (or 'auto')"
        )
    if options.refit_share > 0 and options.selection is None and not (penalty is not None and penalty.sparse):
        aware = argument("selection", "noise_aware")
        raise ArgumentError(f"refit_share needs a sparse penalty or {aware}; without them nothing is selected")
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
        cap_eps = spec.cap_eps if role == "refit" else 0.0
        budget = replace(spec.budget(share * eps - cap_eps, share * delta), charged=charged)
        if role == last:
            budget = with_inference(budget, spec if role == "fit" else replace(spec, penalty=None))
        own = spec if role == last else spec.choice
        if role != "fit":
            plan = plan_objective(own.design, own.family, budget)
        elif options.selection == "noise_aware":
            plan = _noise_aware(own, budget)
        else:
            convex = penalty if penalty is None or penalty.convex else None
            plan = plan_objective(own.design, own.family, budget, convex, own.weights)
        if role == "fit" and options.selection == "auto":
            plan = _with_noise_floor(plan, own)
        if options.curvature is not None and not charged:
            plan.check_visible(options.rows_guess)
        stages.append(Stage(role, plan))
    return tuple(stages)


def release_stages(
    stages: Sequence[Stage], spec: FitSpec, rows: Rows[Block] | Iterable[tuple[Any, ...]], random: RandomSource
) -> StagesRelease:
    """Carry out the stages of a plan on rows that are paid for."""
    params = np.zeros(len(spec.design.names))
    done: list[Stage] = []
    information: Information | ReleasedSums | None = None
    choosing = fitting = block_rows(rows)
    if stages[-1].role == "refit" and spec.options.split:
        choosing, fitting = divide(choosing, secret_key(random))
    for role, planned in stages:
        if role == "refit":
            refitted = _refit(planned, spec, params, fitting, random)
            params, information = refitted.params, refitted.information
            done += refitted.stages
            continue
        plan = _shrunk_to_pilot(planned, spec, params) if role == "fit" and done else planned
        params, information = plan.release(spec.design, choosing, random)
        done.append(Stage(role, plan))
    return StagesRelease(params, tuple(done), information)


def _noise_aware(spec: FitSpec, budget: NoiseBudget) -> ObjectivePlan:
    """A plan that adds the threshold which noise alone rarely passes to the weight of every penalised column.

    The norm of the noise is chosen for the least threshold: the maximum of p coordinates is what decides here.
    """
    if not np.any(spec.weights):
        raise ArgumentError(f"{argument('selection', 'noise_aware')} needs a penalised column; see penalty_weights")
    norms: tuple[NormName | Literal["design"], ...] = ("design", *NORM_NAMES) if spec.design.images else NORM_NAMES
    choices = [replace(budget, kind="laplace", norm=norm) for norm in norms]
    if budget.kind == "gaussian" or (budget.kind is None and budget.delta > 0):
        gaussian = replace(budget, kind="gaussian")
        choices = [gaussian] if budget.kind == "gaussian" else [*choices, gaussian]
    plans = []
    for choice in choices:
        plan = plan_objective(spec.design, spec.family, choice, spec.penalty, spec.weights)
        threshold = _thresholds(plan, spec)
        lasso, _ = noise_aware(spec.penalty, spec.weights, threshold)
        plans.append(replace(plan, penalty=Lasso(1.0), penalty_weights=lasso, threshold=threshold))
    return min(plans, key=lambda plan: float(np.sum(plan.threshold)))


def _thresholds(plan: ObjectivePlan, spec: FitSpec) -> Vector:
    """What noise alone rarely passes on the penalised columns, shape (p,); 0 on the others."""
    level, penalised = spec.options.selection_level, np.flatnonzero(spec.weights)
    if isinstance(plan.noise, KNormNoise):
        bounds = plan.noise.thresholds(level, penalised.tolist())
    else:
        bounds = noise_threshold(plan.noise, plan.size, level, columns=len(penalised)) / plan.noise_shape
    return np.where(spec.weights > 0, bounds, 0.0)


def _with_noise_floor(plan: ObjectivePlan, spec: FitSpec) -> ObjectivePlan:
    """The plan with no lasso weight of a penalised column below the root mean square of its noise.

    A lasso of no strength of its own has multiples of that and of sampling, as far as the number of rows is public,
    times the penalty weights. If it chooses columns for a refit, those that vary more by their declaration than others
    do have more: 0/1 columns beside numbers.
    """
    auto = automatic_alpha(spec.penalty, spec.options)
    if spec.penalty is None or not (spec.penalty.sparse or auto):
        raise ArgumentError(f"{argument('selection', 'auto')} needs a sparse penalty, such as 'lasso'")
    lasso, _ = noise_aware(spec.penalty, spec.weights, 0.0)
    least = threshold = np.where(spec.weights > 0, np.sqrt(plan.noise_variances), 0.0)
    if auto:
        noise, sampling = AUTO_CHOICE if spec.options.refit_share > 0 else AUTO_FIT
        variances = noise**2 * plan.noise_variances + sampling**2 * _sampling_variances(spec)
        threshold = np.where(spec.weights > 0, np.sqrt(variances), 0.0)
        lasso = spec.weights * threshold
        if spec.options.refit_share > 0 and isinstance(spec.design, DesignSpec):
            maxima = np.concatenate([term.maxima for term in spec.design.terms])
            penalised = (spec.weights > 0) & (maxima > 0)
            lasso[penalised] /= balancing_weights((declared_spreads(spec.design) / maxima)[penalised])
    return replace(plan, penalty=Lasso(1.0), penalty_weights=np.maximum(lasso, least), threshold=threshold)


def _sampling_variances(spec: FitSpec) -> Vector:
    """Of a column that does not matter the variance of its score over samples of so many rows, shape (p,); a guess."""
    rows = 0.0 if spec.options.n is None else spec.options.n
    chosen = rows / 2 if spec.options.split is not None else rows
    slope = spec.family.lipschitz * (TYPICAL_SLOPE if spec.family.response == "binary" else TYPICAL_RESIDUAL)
    maxima = np.concatenate([term.maxima for term in spec.design.terms])
    return np.asarray(chosen * (slope * TYPICAL_SPREAD * maxima) ** 2)


def _shrunk_to_pilot(plan: StagePlan, spec: FitSpec, pilot: Vector) -> StagePlan:
    """The second stage, shrunk towards the released pilot, most where the pilot is small (docs/proofs/two_stage).

    What the penalty has of curvature, or the last majoriser of one that is not convex, pulls towards zero beside it.
    """
    design, penalty = spec.design, spec.penalty
    maxima = np.concatenate([term.maxima for term in design.terms])
    privacy = allocate(pilot, design.terms, maxima, design.curvature_ratio, plan.kappa) * (1 + 1e-12)
    pull = np.zeros(plan.size)
    if penalty is not None and penalty.convex:
        pull = split_curvature(penalty)[0] * spec.weights
    elif penalty is not None:
        pull = np.minimum(penalty.majorizer(pilot, spec.weights), HEAVIEST * float(np.max(privacy)))
    return plan.recentred(privacy + pull, -privacy * pilot)


def _refit(
    planned: StagePlan, spec: FitSpec, selected: Vector, rows: Rows[Block], random: RandomSource
) -> StagesRelease:
    """Fit the selected columns again, unpenalised, with the share set aside for it; none selected releases zeros."""
    columns = np.flatnonzero(selected)
    if not columns.size:
        return StagesRelease(selected, (Stage("refit", planned),))
    # The charge is fixed by now. On fewer columns noise of the classical scale may cost more than was charged, so what
    # "return" left is spent on whatever noise it buys here.
    inference, part = planned.information, spec.among(columns)
    part_rows = rows.map(partial(Block.columns, kept=columns)).persist()
    family = suited_family(replace(part, family=planned.family), planned.cost, part_rows, random)
    if inference is not None:  # the noise of the matrix keeps its scale, and the fit's follows the cap
        ratio = inference.purchase.ratio * family.lipschitz / planned.family.lipschitz
        purchase = replace(inference.purchase, ratio=ratio)
    budget = replace(
        spec.budget(planned.eps, planned.delta),
        eps=planned.eps + (0.0 if inference is None else inference.eps),
        final_eps=planned.final.eps,
        retrieval=None if spec.options.retrieval is None else "recycle",
        information=None if inference is None else purchase.suited(part.design),
        charged=True,
    )
    plan = plan_objective(part.design, family, budget)
    if inference is None:
        plan = replace(plan, planned_eps=planned.planned_eps, joint_need=planned.joint_need)
    if np.any(planned.linear):
        plan = plan.recentred(plan.curvature, plan.curvature * (planned.linear / planned.curvature)[columns])
    params = np.zeros(len(selected))
    params[columns], information = plan.release(part.design, part_rows, random)
    if isinstance(information, Information):
        information = information.among(columns.tolist())
    return StagesRelease(params, (Stage("refit", plan),), information)
