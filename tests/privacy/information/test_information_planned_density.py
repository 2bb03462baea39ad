"""Exact densities of (coefficients, information) at the numbers of plans as they are released, one column.

Nothing is drawn, so nothing can fail by chance.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from joint_density import Released, worst_log_ratio

import dpstats as dp
from dpstats.audit.exact import audit_exact
from dpstats.families import Binomial, Family, Gaussian, HuberSVM, Poisson, Quantile, SmoothSVM
from dpstats.mechanisms import calibration, objective
from dpstats.mechanisms.information import eta_error
from dpstats.mechanisms.objective import ObjectivePlan
from dpstats.privacy.information import JointScales
from dpstats.privacy.noise import Noise

FAMILIES = [
    Binomial(),
    Gaussian(0.5),
    Poisson(2.0, 4.0),
    Poisson(3.0, 4.0),
    HuberSVM(0.5),
    SmoothSVM(0.2),
    Quantile(0.8, 0.1),
]
RESPONSES = {"continuous": [-9.0, 9.0], "count": [0.0, 4.0], "binary": [0.0, 1.0]}
KINKS = (0, 0.5, -0.5, 1.5, -1.5, math.log(2), math.log(3), 0.2, -0.8, 0.3, 1.3, 0.8)
ETA = np.unique(np.concatenate((np.linspace(-30, 30, 12001), *((kink - 1e-9, kink + 1e-9) for kink in KINKS))))


def stage_of(family: Family, adjacency: str, eps: float = 1.0, row_norm: float = 2.0, **options: Any) -> ObjectivePlan:
    """The plan of a fit to one column of an array."""
    model = dp.GLM(np.zeros(1), np.zeros((1, 1)), family, row_norm=row_norm)
    return model.plan(eps, adjacency=adjacency, **options).stages[-1].plan


def worst(
    stage: ObjectivePlan, *, moved: tuple[float, ...] = (0.0,), matrix: float | None = None, row: float | None = None
) -> float:
    """The greatest log-ratio of neighbours at the plan's own scales, over responses and either sign of the noise.

    `moved` are differences of the linear predictors that the information is taken at; `matrix` is another scale of its
    noise, and `row` another length of the rows.
    """
    family, plan = stage.family, stage.information
    assert plan is not None
    reach = row or stage.row_length
    losses = []
    for response in RESPONSES[family.response]:
        endog = family.clip_response(np.array([response]))
        other = family.clip_response(np.array([sum(RESPONSES[family.response]) - response]))
        for sign in (-1, 1):
            base = Released(
                family,
                np.full((1, 1), reach),
                endog,
                stage.curvature,
                Noise("laplace", "l2", stage.noise.scale / float(stage.noise_shape[0])),
                matrix or plan.noise.scale,
                math.sqrt(float(plan.noise.metric[0, 0])),
                np.array([sign * 1e6]),
            )
            if stage.adjacency == "add_remove":
                neighbour = replace(base, exog=np.empty((0, 1)), endog=np.empty(0))
            else:
                neighbour = replace(base, endog=other)
            for difference in moved:
                pair = [replace(one, moved=difference) for one in (base, neighbour)]
                losses.append(worst_log_ratio(*pair, (ETA / reach)[:, None]))
    return max(losses)


@pytest.mark.parametrize("eps", [0.3, 1.0, 4.0])
@pytest.mark.parametrize("inference", ["auto", True])
@pytest.mark.parametrize("adjacency", ["add_remove", "replace_one"])
@pytest.mark.parametrize("family", FAMILIES, ids=repr)
def test_the_plan_keeps_its_charge(family: Family, adjacency: str, inference: Any, eps: float) -> None:
    """Also where the information is taken as far off as the last step of the fit may be."""
    stage = stage_of(family, adjacency, eps, inference=inference)
    if stage.information is None:
        assert inference == "auto"
        return
    error = eta_error(stage.final, stage.row_length)
    charged = stage.eps + stage.information.eps
    loss = worst(stage, moved=(-error, 0.0, error))
    assert loss <= charged * (1 + 1e-6)
    if adjacency == "add_remove":
        assert loss >= charged * (0.97 if eps < 1 else 0.99)


@pytest.mark.slow
@pytest.mark.parametrize("inference", ["auto", True])
@pytest.mark.parametrize("adjacency", ["add_remove", "replace_one"])
def test_the_plan_keeps_delta(adjacency: str, inference: Any) -> None:
    """Exact hockey-stick integrals of logistic regression with normal noise, in both orders."""
    delta = 1e-3
    stage = stage_of(Binomial(), adjacency, delta=delta, noise="gaussian", inference=inference)
    plan = stage.information
    assert plan is not None
    if plan.noise.law == "wishart":
        pytest.skip("a Laplace law of one entry: the bound of every outcome is that of pure noise, tested above")
    scale = stage.noise.scale / float(stage.noise_shape[0])
    for pull in (-2.0, 2.0, 3.5):
        base = Released(
            stage.family,
            np.full((1, 1), stage.row_length),
            np.zeros(1),
            stage.curvature,
            Noise("gaussian", "l2", scale),
            plan.noise.scale,
            math.sqrt(float(plan.noise.metric[0, 0])),
            np.array([pull * scale]),
        )
        removed = replace(base, exog=np.empty((0, 1)), endog=np.empty(0))
        other = removed if adjacency == "add_remove" else replace(base, endog=np.ones(1))
        box = [*base.fit.box(6 * scale), (-6 * plan.noise.scale, 6 * plan.noise.scale + 0.25)]
        result = audit_exact(
            base.log_density, other.log_density, box, eps=stage.eps + plan.eps, delta=delta, tolerance=1e-6,
            max_cells=1500,
        )  # fmt: skip
        assert result.hockey_stick - result.error <= delta


class TestPlanted:
    """Plans that are wrong in one number: the density shows it."""

    def test_curvature_at_another_eta(self) -> None:
        stage = stage_of(Binomial(), "add_remove")
        assert stage.information is not None
        assert worst(stage, moved=(-2.0,)) > 1.03 * (stage.eps + stage.information.eps)

    def test_the_error_of_the_last_step_is_not_charged(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """A last step so coarse that linear predictors differ by .05, and a plan that takes them to be equal."""
        stage = stage_of(SmoothSVM(0.2), "add_remove", inference=True, release_share=1.5e-9, information_share=0.8)
        assert stage.information is not None
        error = eta_error(stage.final, stage.row_length)
        assert worst(stage, moved=(-error, error)) <= (stage.eps + stage.information.eps) * (1 + 1e-6)
        assert 0.01 < error < 0.2
        monkeypatch.setattr(objective, "eta_error", lambda final, row_length, offset_bound=0.0: 0.0)
        wrong = stage_of(SmoothSVM(0.2), "add_remove", inference=True, release_share=1.5e-9, information_share=0.8)
        assert wrong.information is not None
        own = eta_error(wrong.final, wrong.row_length)
        assert worst(wrong, moved=(-own, own)) > (wrong.eps + wrong.information.eps) * (1 + 1e-3)

    @pytest.mark.parametrize("family", [Poisson(2.0, 4.0), SmoothSVM(0.2), HuberSVM(0.25)], ids=repr)
    def test_weight_bound_forgotten(self, family: Family) -> None:
        """The matrix noise for weights up to 1, where they reach h."""
        stage = stage_of(family, "add_remove", inference=True)
        assert stage.information is not None
        assert family.curvature_bound > 1
        wrong = stage.information.noise.scale / family.curvature_bound
        assert worst(stage, matrix=wrong) > (stage.eps + stage.information.eps) * 1.05

    def test_metric_not_scaled(self) -> None:
        """Rows of x'D^-1x = 2 that are not shortened."""
        stage = stage_of(Gaussian(0.5), "add_remove", inference=True)
        assert stage.information is not None
        assert worst(stage, row=math.sqrt(2) * stage.row_length) > (stage.eps + stage.information.eps) * 1.05

    @pytest.mark.parametrize("family", [HuberSVM(0.5), Gaussian(0.5)], ids=repr)
    def test_free_claimed_where_nothing_is(self, family: Family, monkeypatch: pytest.MonkeyPatch) -> None:
        """A plan that believes in a headroom of one: `free_ratio` keeps the charge; without it the density shows."""
        from dpstats.mechanisms import spec

        monkeypatch.setattr(spec, "errors_are_free", lambda family, options: True)
        monkeypatch.setattr(calibration, "headroom", lambda family: 1.0)
        stage = stage_of(family, "add_remove")
        if stage.information is not None:  # the raised curvature made room
            assert worst(stage) <= (stage.eps + stage.information.eps) * (1 + 1e-6)

        def claimed(self: calibration.Calibration, kappa: float, scale: float, error: float) -> JointScales:
            return JointScales(scale, family.curvature_bound / (0.5 * self.budget.eps))

        monkeypatch.setattr(calibration.Calibration, "_free_scales", claimed)
        stage = stage_of(family, "add_remove")
        assert stage.information is not None
        assert worst(stage) > (stage.eps + stage.information.eps) * 1.05

    def test_one_row_charged_for_two(self) -> None:
        stage = stage_of(HuberSVM(0.5), "add_remove", inference=True)
        assert stage.information is not None
        assert worst(replace(stage, adjacency="replace_one")) > (stage.eps + stage.information.eps) * 1.05
