"""Prediction error by the share of stage 1 and the spread of its allocation: how both defaults were chosen."""

from __future__ import annotations

from collections import defaultdict
from functools import cache

import numpy as np
import pandas as pd

from benchmarks.replications.napp_methods import ONES
from benchmarks.replications.napp_settings import COLUMNS, DESIGN, PLAIN_FAMILIES, Rows, Setting, Vector, draw, error
from dpstats.mechanisms.napp import plan_stages
from dpstats.mechanisms.objective import ObjectivePlan
from dpstats.mechanisms.options import Options
from dpstats.mechanisms.selection import allocate
from dpstats.mechanisms.spec import FitSpec
from dpstats.penalties import SCAD, Bridge, Lasso, Penalty
from dpstats.solvers import prox
from dpstats.solvers.objective import PerturbedObjective

SEED = 2026
SHARES = (0.1, 0.2, 0.3, 0.5)
SPREADS = (1.0, 3.0, 10.0, 30.0)
SAMPLES = (
    ("linear", (500, 5000)),
    ("logistic", (1000, 10_000)),
    ("poisson", (1000, 10_000)),
)
MAXIMA = np.full(COLUMNS, 0.25)


@cache
def stage(setting: Setting) -> ObjectivePlan:
    """One release's plan. Counts are modelled up to y_max: with 10,000 rows a lower cap costs more than the noise."""
    spec = FitSpec(DESIGN, PLAIN_FAMILIES[setting.model], None, ONES, Options())
    return plan_stages(spec, setting.eps, setting.delta)[0].plan


def penalties(setting: Setting) -> dict[str, Penalty]:
    """Strengths that select well without privacy."""
    strength = 0.05 * float(np.sqrt(setting.rows)) * (3.0 if setting.model == "poisson" else 1.0)
    return {"lasso": Lasso(strength), "bridge 1/2": Bridge(strength, 0.5), "SCAD": SCAD(strength, knot=0.3)}


def shares(repeats: int) -> pd.DataFrame:
    """Test error by model, rows, eps, penalty, centre of stage 2, share and spread; share 0 is one shot."""
    lines = []
    for model, sizes in SAMPLES:
        tests = draw(model, 10_000, np.random.default_rng(SEED))
        for rows in sizes:
            for eps in (0.4, 1.0):
                setting = Setting(model, rows, eps, 0.0)
                found = defaultdict(list)
                for repeat in range(repeats):
                    block = draw(model, rows, np.random.default_rng([SEED, 1, repeat]))
                    for key, theta in _fits(setting, block, np.random.default_rng([SEED, 2, repeat])):
                        found[key].append(error(model, theta, tests))
                lines += [(model, rows, eps, *key, repeats, float(np.mean(values))) for key, values in found.items()]
    return pd.DataFrame(
        lines, columns=["model", "rows", "eps", "penalty", "centre", "share", "spread", "repeats", "error"]
    )


def _fits(
    setting: Setting, rows: Rows, random: np.random.Generator
) -> list[tuple[tuple[str, str, float, float], Vector]]:
    chosen = penalties(setting)
    one = stage(setting)
    fits = [(("lasso", "zero", 0.0, 1.0), _solve(one, rows, one.curvature, one.sample(random), chosen["lasso"]))]
    for share in SHARES:
        first, second = (stage(_part(setting, part)) for part in (share, 1 - share))
        pilot = _solve(first, rows, first.curvature, first.sample(random), None)
        noise = second.sample(random)
        for spread in SPREADS:
            privacy = allocate(pilot, DESIGN.terms, MAXIMA, DESIGN.curvature_ratio, second.kappa, spread)
            for name, penalty in chosen.items():
                convex = penalty if penalty.convex else None
                own = 0.0 if penalty.convex else np.minimum(penalty.majorizer(pilot, ONES), 1e6 * np.max(privacy))
                for centre in ("zero", "stage 1") if penalty.convex else ("stage 1",):
                    linear = noise - privacy * pilot if centre == "stage 1" else noise
                    theta = _solve(second, rows, privacy + own, linear, convex)
                    fits.append(((name, centre, share, spread), theta))
    return fits


def _part(setting: Setting, share: float) -> Setting:
    return Setting(setting.model, setting.rows, share * setting.eps, share * setting.delta)


def _solve(one: ObjectivePlan, rows: Rows, curvature: Vector, noise: Vector, penalty: Penalty | None) -> Vector:
    objective = PerturbedObjective(one.family, [rows], curvature, noise, 1.0)
    return prox.minimize(objective, penalty or Lasso(0.0), 1e-6).astype(float)
