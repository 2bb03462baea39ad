"""The methods compared: our certified modes, the paper's own, and the fit without privacy.

Each maps (setting, rows, random) to one coefficient vector a strength. One draw of noise serves all strengths of a
simulated data set; each point of a curve stands for a release of its own, and a curve for as many releases.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cache
from typing import Literal

import numpy as np

from benchmarks.replications.napp_settings import COLUMNS, DESIGN, PLAIN_FAMILIES, Rows, Setting, Vector
from dpstats.mechanisms.napp import plan_stages, release_stages
from dpstats.mechanisms.options import Options
from dpstats.mechanisms.selection import noise_threshold
from dpstats.mechanisms.spec import FitSpec
from dpstats.mechanisms.stage import Stage, StagePlan
from dpstats.penalties import Lasso
from dpstats.replication import napp
from dpstats.solvers import prox
from dpstats.solvers.objective import PerturbedObjective

Method = Callable[[Setting, Rows, np.random.Generator], Vector]
ONES = np.ones(COLUMNS)
ITERATIONS = 40
"""Fits of a paper mode; the paper says 80 for Adult, and nothing changes after 40 here."""


@cache
def plan(setting: Setting, options: tuple[tuple[str, object], ...] = ()) -> tuple[Stage, ...]:
    """The certified plan without a penalty, which does not depend on the strength."""
    spec = FitSpec(DESIGN, setting.family, Lasso(1.0), ONES, Options(**dict(options)))  # type: ignore[arg-type]
    return plan_stages(spec, setting.eps, setting.delta)


def noise_size(objective: StagePlan) -> Vector:
    """Root mean square of each column's noise, shape (p,): public."""
    unit = objective.noise.expected_square(objective.size) / objective.size
    return np.asarray(np.sqrt(unit) / objective.noise_shape)


def one_shot(
    setting: Setting,
    rows: Rows,
    random: np.random.Generator,
    *,
    floor: float | Literal["level"] = 0.0,
    retrieval: str | None = "recycle",
    level: float = 0.05,
) -> Vector:
    """Certified one-shot lasso whose weight is at least `floor` times the noise's size, or its threshold at `level`."""
    objective = plan(setting, (("retrieval", retrieval),))[0].plan
    least = noise_threshold(objective.noise, COLUMNS, level) if floor == "level" else floor * noise_size(objective)
    state = int(random.integers(2**62))
    fits = []
    for strength in setting.strengths:
        weighted = replace(objective, penalty=Lasso(1.0), penalty_weights=np.maximum(strength, least) * ONES)
        fits.append(weighted.coefficients([rows], np.random.default_rng(state)))
    return np.array(fits)


def noise_aware(setting: Setting, rows: Rows, random: np.random.Generator, *, level: float = 0.05) -> Vector:
    """Certified `selection="noise_aware"`: the threshold comes on top of the strength."""
    state = int(random.integers(2**62))
    objective = plan(setting, (("selection", "noise_aware"), ("selection_level", level)))[0].plan
    fits = []
    for strength in setting.strengths:
        weighted = replace(objective, penalty=Lasso(1.0), penalty_weights=strength + objective.threshold)
        fits.append(weighted.coefficients([rows], np.random.default_rng(state)))
    return np.array(fits)


def two_stage(setting: Setting, rows: Rows, random: np.random.Generator, *, share: float = 0.2) -> Vector:
    """Certified two-stage lasso."""
    options = Options(stages=2, first_stage_share=share)
    stages = plan(setting, (("stages", 2), ("first_stage_share", share)))
    state = int(random.integers(2**62))
    fits = []
    for strength in setting.strengths:
        penalty = Lasso(float(strength))
        weighted = [Stage(role, replace(one, penalty=penalty) if role == "fit" else one) for role, one in stages]
        source = np.random.default_rng(state)
        spec = FitSpec(DESIGN, setting.family, penalty, ONES, options)
        fits.append(release_stages(weighted, spec, [rows], source).params)
    return np.array(fits)


def constants(setting: Setting) -> napp.PaperConstants:
    """Algorithm 1's constants under the family's bounds."""
    family = setting.family
    return napp.PaperConstants(
        setting.eps, setting.delta, lipschitz=family.lipschitz, curvature_bound=family.curvature_bound
    )


def paper(
    setting: Setting,
    rows: Rows,
    random: np.random.Generator,
    *,
    selection: napp.Selection | None = "vs+",
    printed: bool = False,
    moor: bool = True,
    recycle: bool = False,
) -> Vector:
    """The paper's modes, uncertified, with the right or the printed gamma shape (the same for Gaussian noise)."""
    bounds, family = constants(setting), setting.family
    noise = bounds.sample(COLUMNS, random, printed_shape=printed, selection=selection)
    fits = []
    for strength in setting.strengths:
        penalty = Lasso(float(strength))

        def fit(noise: Vector, lambda0: float, penalty: Lasso = penalty) -> Vector:
            return napp.fit(
                family, [rows], noise, penalty, lambda0, moor=moor, selection=selection, iterations=ITERATIONS
            )

        theta = fit(noise, bounds.lambda0)
        if recycle:
            spare, heaviest = retrieved(setting, theta, float(strength), moor)
            planned = bounds.share * bounds.eps
            theta = fit(noise * planned / (planned + spare), max(bounds.lambda0, heaviest / 2))
        fits.append(theta)
    return np.array(fits)


def retrieved(setting: Setting, theta: Vector, strength: float, moor: bool) -> tuple[float, float]:
    """Eq. (13) with max for min: the eps said to be spare, and the least weight it reads it from."""
    bounds = constants(setting)
    heavier = napp.curvature(Lasso(strength), theta, bounds.lambda0, moor=moor, weights=ONES)
    return bounds.retrieved(heavier), float(np.min(heavier))


def not_private(setting: Setting, rows: Rows, random: np.random.Generator) -> Vector:
    """The lasso without noise, and no more curvature than keeps it unique."""
    family = PLAIN_FAMILIES[setting.model]
    objective = PerturbedObjective(family, [rows], np.full(COLUMNS, 1e-3), np.zeros(COLUMNS))
    return np.array([prox.minimize(objective, Lasso(float(a)), 1e-6).astype(float) for a in setting.strengths])
