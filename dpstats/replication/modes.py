"""A paper's own modes behind dp.glm's options: planned, released and reported, and never certified (docs/napp)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpstats.errors import ArgumentError
from dpstats.families import Family
from dpstats.mechanisms.design import Bounds
from dpstats.mechanisms.napp import Fitted, Stage
from dpstats.mechanisms.objective_plan import ObjectivePlan
from dpstats.mechanisms.options import Options
from dpstats.penalties import Penalty
from dpstats.privacy.noise import Noise
from dpstats.privacy.randomness import RandomSource
from dpstats.replication import augmented, paper_modes
from dpstats.rows import Block, Rows

Vector = NDArray[np.float64]


def plan_replication(
    stages: Sequence[Stage], design: Bounds, penalty: Penalty | None, options: Options
) -> tuple[Stage, ...]:
    """The plan of a paper mode: the printed noise and curvature in place of the calibrated ones.

    Raises
    ------
    ArgumentError
        If the mode is combined with two stages, a refit or a missing penalty, which the paper does not know.
    """
    if design.offset_bound or design.score_ratio != 1:
        raise ArgumentError(
            "weights, offsets and counts of trials are not part of the replicated paper; leave them out"
        )
    if len(stages) != 1:
        raise ArgumentError("stages=2 and refit_share are not part of the replicated paper; leave them out")
    if penalty is None and options.as_printed:
        raise ArgumentError("penalty must be given: the replicated paper's modes realise one, such as 'lasso'")
    if not options.as_printed:
        return tuple(stages)
    plan = stages[0].plan
    constants = _constants(plan, design)
    size = plan.size
    return (
        Stage(
            "fit",
            replace(
                plan,
                noise=Noise("gaussian" if plan.delta > 0 else "laplace", "l2", constants.scale),
                noise_shape=np.ones(size),
                curvature=np.full(size, 2 * constants.lambda0),
                joint_need=plan.planned_eps,
                penalty=penalty,
            ),
        ),
    )


def release_replication(
    stages: Sequence[Stage],
    design: Bounds,
    penalty: Penalty | None,
    weights: Vector,
    rows: Rows[Block] | Iterable[tuple[Any, ...]],
    random: RandomSource,
    options: Options,
) -> Fitted:
    """Run the paper's iteration. Uncertified: what it releases depends on the rows in ways its proof leaves out."""
    plan = stages[0].plan
    if not options.as_printed:
        noise = plan.sample(random)
        theta = augmented.minimize(
            plan.family, rows, plan.curvature, noise, plan.penalty, random, weights=plan.penalty_weights
        )
        return Fitted(theta, tuple(stages))
    assert penalty is not None
    constants = _constants(plan, design)
    selection: paper_modes.Selection | None = None
    if options.selection == "vs" or options.selection == "vs+":
        selection = options.selection
    noise = constants.sample(plan.size, random, selection=selection)
    settings: dict[str, Any] = {"moor": options.moor == "paper", "selection": selection, "weights": weights}
    theta = paper_modes.fit(plan.family, rows, noise, penalty, constants.lambda0, **settings)
    if options.retrieval == "paper":
        theta = _recycled(theta, plan.family, rows, noise, penalty, constants, settings)
    return Fitted(theta, tuple(stages))


def _constants(plan: ObjectivePlan, design: Bounds) -> paper_modes.PaperConstants:
    """Algorithm 1's constants for this design."""
    return paper_modes.PaperConstants(
        eps=plan.planned_eps,
        delta=plan.delta,
        row_norm=design.norm_bound("l2", np.ones(plan.size)),
        lipschitz=plan.family.lipschitz,
        curvature_bound=plan.family.curvature_bound,
    )


def _recycled(
    theta: Vector,
    family: Family,
    rows: Rows[Block] | Iterable[tuple[Any, ...]],
    noise: Vector,
    penalty: Penalty,
    constants: paper_modes.PaperConstants,
    settings: dict[str, Any],
) -> Vector:
    """One round of Algorithm 2: shrink the same noise by what eq. (13) retrieves, and fit again."""
    heavier = paper_modes.curvature(
        penalty, theta, constants.lambda0, moor=settings["moor"], weights=settings["weights"]
    )
    planned = constants.share * constants.eps
    shrunk = noise * planned / (planned + constants.retrieved(heavier))
    lambda0 = max(constants.lambda0, float(np.min(heavier)) / 2)
    return paper_modes.fit(family, rows, shrunk, penalty, lambda0, **settings)
