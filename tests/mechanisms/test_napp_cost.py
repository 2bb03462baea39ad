"""What the stages of a fit really cost never exceeds what was charged for them before any was carried out."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from dpstats.families import Binomial, Family, Gaussian, HuberSVM, Poisson
from dpstats.mechanisms.design import ArrayDesign, SubDesign, array_norms
from dpstats.mechanisms.napp import plan_stages, release_stages
from dpstats.mechanisms.options import Options
from dpstats.mechanisms.spec import FitSpec
from dpstats.penalties import Lasso
from dpstats.privacy.calibration import joint_loss
from dpstats.privacy.randomness import random_source

SIZE = 12
DESIGN = ArrayDesign(tuple(f"x{j}" for j in range(SIZE)), array_norms({"l2": 1.0, "l1": 2.0}, SIZE))

OPTIONS: dict[str, dict[str, Any]] = {
    "refit": {"refit_share": 0.5},
    "refit, returned": {"refit_share": 0.5, "retrieval": "return"},
    "refit, kept": {"refit_share": 0.5, "retrieval": None},
    "two stages": {"stages": 2},
    "two stages, returned": {"stages": 2, "retrieval": "return"},
    "two stages, noise-aware, refit": {"stages": 2, "selection": "noise_aware", "refit_share": 0.3},
}


@pytest.mark.parametrize("options", OPTIONS)
@pytest.mark.parametrize("delta", [0.0, 1e-6])
@pytest.mark.parametrize("family", [Binomial(), HuberSVM(), Gaussian(1.0), Poisson(5.0, 10.0)], ids=lambda f: f.name)
def test_stages_cost_what_was_charged(family: Family, delta: float, options: str) -> None:
    """Recomputed from noise, curvature and columns of the stages as carried out, which follow released values."""
    rng = np.random.default_rng(4)
    exog = rng.uniform(-1, 1, (400, SIZE)) / SIZE
    exog[:, 0] = 0.9
    endog = (rng.random(400) < 0.9).astype(float)
    spec = FitSpec(DESIGN, family, Lasso(25.0), np.ones(SIZE), Options(**OPTIONS[options]))
    stages = plan_stages(spec, 5.0, delta)
    charged = sum(plan.eps + plan.final.eps for _, plan in stages)
    fitted = release_stages(stages, spec, [(exog, endog)], random_source(1))
    spent = 0.0
    for _, plan in fitted.stages:
        # Which columns a refit kept does not matter here: an array's bounds treat them alike.
        design = SubDesign(DESIGN, np.arange(plan.size))
        spent += plan.final.eps + joint_loss(
            family,
            scale=plan.noise.scale,
            delta=plan.delta,
            curvature_ratio=design.curvature_ratio(plan.curvature),
            row_norm=design.norm_bound(plan.noise.norm, plan.noise_shape),
            kind=plan.noise.kind,
        )
    if "refit" in options and fitted.params.any():
        assert fitted.stages[-1].plan.size == np.count_nonzero(fitted.params) < SIZE
    assert spent <= charged * (1 + 1e-6)
    assert sum(plan.delta for _, plan in fitted.stages) <= delta * (1 + 1e-12)
