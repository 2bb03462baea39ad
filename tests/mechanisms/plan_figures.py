"""Writes plan_figures.json, with which test_plan_figures.py compares: python tests/mechanisms/plan_figures.py."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

import dpstats as dp

STORED = Path(__file__).with_name("plan_figures.json")
RESPONSES: dict[str, Any] = {"binomial": [0, 1], "gaussian": (0, 10), "poisson": (0, 40), "smooth_svm": [0, 1]}
FORMULAS = {"plain": "y ~ x0 + x1 + x2", "mixed": "y ~ x0 * g + x1 + C(h)", "spline": "y ~ 0 + x0 + bs(x1, df=4)"}
OPTIONS: dict[str, dict[str, Any]] = {
    "default": {},
    "replaced": {"adjacency": "replace_one"},
    "inference": {"inference": True},
    "delta": {"delta": 1e-6},
    "normal": {"delta": 1e-6, "noise": "gaussian", "inference": True, "adjacency": "replace_one"},
    "lasso": {"penalty": "lasso", "alpha": 1.0},
}
COLUMNS = {"x0": (-1, 2), "x1": (-2, 3), "x2": (-3, 4), "g": list("abcd"), "h": [1, 2, 3]}


def plans() -> Iterator[tuple[str, Any]]:
    """Names and plans."""
    for family, response in RESPONSES.items():
        for design, formula in FORMULAS.items():
            for name, options in OPTIONS.items():
                arguments = {"domain": COLUMNS | {"y": response}, "family": family, **options}
                yield f"{family}, {design}, {name}", dp.plan(formula, eps=1.0, **arguments)
    for columns in (1, 20, 150):
        model = dp.GLM(np.zeros(4), np.ones((4, columns)), family="binomial", row_norm=7.5)
        for name in ("default", "delta"):
            yield f"arrays, {columns}, {name}", model.plan(0.7, **OPTIONS[name])


def figures(plan: Any) -> dict[str, float | str]:
    """What a plan settles, in a few numbers."""
    stage = plan.objective
    information = stage.information
    return {
        "law": f"{stage.noise.kind} {stage.noise.norm}" + ("" if information is None else f", {information.noise.law}"),
        "scale": stage.noise.scale,
        "curvature": float(np.sum(stage.curvature)),
        "variance": float(np.sum(stage.noise_variances)),
        "kappa": stage.kappa,
        "eps": stage.eps,
        "need": stage.joint_need,
        "matrix": 0.0 if information is None else information.noise.scale,
    }


if __name__ == "__main__":
    STORED.write_text(json.dumps({name: figures(plan) for name, plan in plans()}, indent=0) + "\n")
