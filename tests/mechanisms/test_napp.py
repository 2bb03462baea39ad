"""Stages of a fit: what each costs, what the second makes of the first, selection and refit."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pandas as pd
import pytest

import dpstats as dp
from dpstats.domain import Domain
from dpstats.errors import ArgumentError
from dpstats.families import Binomial, Gaussian
from dpstats.formula.design import design_spec
from dpstats.mechanisms.calibration import NoiseBudget
from dpstats.mechanisms.design import ArrayDesign, array_norms
from dpstats.mechanisms.napp import plan_stages, release_stages
from dpstats.mechanisms.objective import ObjectivePlan, plan_objective
from dpstats.mechanisms.options import Options
from dpstats.mechanisms.selection import noise_threshold
from dpstats.mechanisms.spec import FitSpec
from dpstats.mechanisms.stage import Stage, StagesRelease
from dpstats.penalties import L0, SCAD, Bridge, ElasticNet, Lasso, Penalty, Ridge
from dpstats.privacy.calibration import joint_scale
from dpstats.privacy.k_norm import KNormNoise
from dpstats.privacy.randomness import random_source

SIZE = 6
DESIGN = ArrayDesign(tuple(f"x{j}" for j in range(SIZE)), array_norms({"l2": 1.0, "linf": SIZE**-0.5}, SIZE))


def rows(count: int = 3000, seed: int = 0) -> list[tuple[np.ndarray, np.ndarray]]:
    rng = np.random.default_rng(seed)
    exog = rng.uniform(-1, 1, (count, SIZE)) / np.sqrt(SIZE)
    linear = exog @ np.array([2.0, -1.0, 0.5, 0, 0, 0])
    return [(exog, linear + 0.1 * rng.normal(size=count))]


def spec_of(penalty: Penalty | None = None, **options: Any) -> FitSpec:
    return FitSpec(DESIGN, Gaussian(1.0), penalty, np.ones(SIZE), Options(**options))


def planned(
    penalty: Penalty | None = None, *, eps: float = 1.0, delta: float = 0.0, **options: Any
) -> tuple[Stage, ...]:
    return plan_stages(spec_of(penalty, **{"noise": "gaussian" if delta else None, **options}), eps, delta)


def fitted(
    penalty: Penalty | None = None, *, seed: int = 1, eps: float = 1.0, delta: float = 0.0, **options: Any
) -> StagesRelease:
    stages = planned(penalty, eps=eps, delta=delta, **options)
    return release_stages(stages, spec_of(penalty, **options), rows(), random_source(seed))


@pytest.mark.parametrize("delta", [0.0, 1e-5])
@pytest.mark.parametrize(
    ("options", "roles"),
    [
        ({}, ["fit"]),
        ({"stages": 2}, ["pilot", "fit"]),
        ({"selection": "noise_aware", "refit_share": 0.3}, ["fit", "refit"]),
        (
            {"stages": 2, "selection": "noise_aware", "refit_share": 0.2, "first_stage_share": 0.5},
            ["pilot", "fit", "refit"],
        ),
    ],
)
def test_shares_add_up(options: dict[str, Any], roles: list[str], delta: float) -> None:
    stages = planned(Lasso(1.0), eps=2.0, delta=delta, **options)
    assert [role for role, _ in stages] == roles
    assert sum(plan.eps + plan.final.eps for _, plan in stages) == pytest.approx(2.0, rel=1e-12)
    assert sum(plan.delta for _, plan in stages) == pytest.approx(delta, rel=1e-12)
    assert all(plan.final.eps == pytest.approx(0.01 * (plan.eps + plan.final.eps)) for _, plan in stages)


@pytest.mark.parametrize("delta", [0.0, 1e-5])
@pytest.mark.parametrize(
    "penalty", [None, Ridge(4.0), Lasso(2.0), ElasticNet(3.0, 0.5), Bridge(2.0, 0.5), SCAD(2.0, knot=0.5), L0(1.0)]
)
def test_stage_2_keeps_its_noise_and_its_ratio(penalty: Penalty | None, delta: float) -> None:
    """What the pilot changes is public, and the noise planned without it still suffices for what is minimised."""
    before = dict(planned(penalty, delta=delta, stages=2))["fit"]
    result = fitted(penalty, delta=delta, stages=2)
    after = dict(result.stages)["fit"]
    assert after.noise == before.noise
    ratio = DESIGN.curvature_ratio(after.curvature)
    assert ratio <= before.kappa
    needed = joint_scale(
        after.family,
        eps=after.eps,
        delta=delta,
        curvature_ratio=ratio,
        row_norm=after.row_norm,
        adjacency=after.adjacency,
    )
    assert after.noise.scale >= needed * (1 - 1e-9)
    assert after.final.distance == pytest.approx(2 * after.tolerance / after.curvature.min())
    assert np.isfinite(result.params).all()


def test_stage_2_is_centred_at_stage_1() -> None:
    """The same seed draws the same pilot, and the second objective's quadratic has its minimum there."""
    stages = planned(eps=50.0, stages=2)
    pilot = release_stages(stages[:1], spec_of(), rows(), random_source(1)).params
    after = dict(fitted(eps=50.0, stages=2).stages)["fit"]
    assert -after.linear / after.curvature == pytest.approx(pilot, rel=1e-9)
    assert after.sample(random_source(0)) - stages[1].plan.sample(random_source(0)) == pytest.approx(after.linear)


@pytest.mark.slow
def test_two_stages_beat_one_where_shrinkage_hurts() -> None:
    """n = 3000, eps = 1, least squares: mean squared distance to the truth over 40 seeds; far above noise."""
    truth = np.array([2.0, -1.0, 0.5, 0, 0, 0])

    def error(**options: Any) -> float:
        return float(np.mean([np.sum((fitted(seed=seed, **options).params - truth) ** 2) for seed in range(40)]))

    assert error(stages=2) < 0.7 * error()


def test_auto_takes_two_stages_only_where_one_has_no_guarantee() -> None:
    assert [role for role, _ in planned(Lasso(1.0), stages="auto")] == ["fit"]
    assert [role for role, _ in planned(SCAD(1.0), stages="auto")] == ["pilot", "fit"]


def test_refit_takes_the_selected_columns_only() -> None:
    result = fitted(Lasso(1.0), eps=4.0, selection="noise_aware", refit_share=0.5)
    refit = dict(result.stages)["refit"]
    assert 1 <= refit.size < SIZE
    assert np.count_nonzero(result.params) == refit.size
    assert set(np.flatnonzero(result.params)) <= {0, 1, 2}
    nothing = fitted(Lasso(1e6), selection="noise_aware", refit_share=0.5)
    assert not nothing.params.any()
    assert [role for role, _ in nothing.stages] == ["fit", "refit"]


def test_noise_aware_thresholds_are_public_and_part_of_the_weight() -> None:
    plain = dict(planned(Lasso(2.0)))["fit"]
    aware = dict(planned(Lasso(2.0), selection="noise_aware", selection_level=0.01))["fit"]
    stricter = dict(planned(Lasso(2.0), selection="noise_aware", selection_level=0.0001))["fit"]
    assert not plain.threshold.any()
    assert aware.penalty_weights == pytest.approx(2.0 + aware.threshold)
    assert (stricter.threshold > aware.threshold).all()
    aware_options = Options(selection="noise_aware")
    weights = np.array([0.0, 1, 1, 1, 1, 1])
    unpenalised = plan_stages(FitSpec(DESIGN, Gaussian(1.0), Lasso(2.0), weights, aware_options), 1.0, 0.0)[0].plan
    assert unpenalised.threshold[0] == unpenalised.penalty_weights[0] == 0
    # The law of the least thresholds is taken, whatever its variance.
    domain = Domain(y=(0, 1), g=[f"g{j}" for j in range(40)])
    spec = design_spec("y ~ g", domain, family=Binomial())
    weights = np.ones(len(spec.names))
    stages = plan_stages(FitSpec(spec, Binomial(), None, weights, aware_options), 1.0, 0.0)
    chosen = stages[0].plan
    for norm in ("l1", "l2", "linf", "design"):
        plan = plan_objective(spec, Binomial(), NoiseBudget(0.99, 0.0, 0.01, "add_remove", norm=norm))  # type: ignore[arg-type]
        if isinstance(plan.noise, KNormNoise):
            thresholds = plan.noise.thresholds(0.05)
        else:
            thresholds = noise_threshold(plan.noise, plan.size, 0.05) / plan.noise_shape
        assert chosen.threshold.sum() <= thresholds.sum() * (1 + 1e-9)


def test_auto_keeps_a_strong_lasso_and_raises_a_weak_one() -> None:
    """No lasso weight below the root mean square of the column's noise; unpenalised columns stay so."""
    plain = dict(planned(Lasso(1e-3)))["fit"]
    spread = np.sqrt(plain.noise.expected_square(SIZE) / SIZE) / plain.noise_shape
    weak = dict(planned(Lasso(1e-3), selection="auto"))["fit"]
    assert weak.noise == plain.noise
    assert weak.penalty_weights == pytest.approx(spread)
    assert weak.threshold == pytest.approx(spread)
    strong = dict(planned(ElasticNet(1e4, 0.25), selection="auto"))["fit"]
    assert strong.penalty == Lasso(1.0)
    assert strong.penalty_weights == pytest.approx(2500)
    assert strong.curvature == pytest.approx(dict(planned(ElasticNet(1e4, 0.25)))["fit"].curvature)


@pytest.mark.parametrize(
    ("penalty", "options", "fragment"),
    [
        (None, {"selection": "auto"}, "sparse"),
        (Ridge(1.0), {"selection": "auto"}, "sparse"),
        (Bridge(1.0, 0.5), {}, "stages=2"),
        (SCAD(1.0), {}, "stages=2"),
        (None, {"refit_share": 0.5}, "refit_share"),
        (Ridge(1.0), {"refit_share": 0.5}, "refit_share"),
        (Bridge(1.0, 1.5), {"selection": "noise_aware"}, "noise_aware"),
    ],
)
def test_combinations_without_a_meaning_are_refused(penalty: Penalty, options: dict[str, Any], fragment: str) -> None:
    with pytest.raises(ArgumentError, match=fragment):
        planned(penalty, **options)


def test_stages_can_be_stored() -> None:
    for role, plan in fitted(SCAD(1.0, knot=0.5), stages=2).stages:
        stored = json.loads(json.dumps(plan.to_dict()))
        assert ObjectivePlan.from_dict(stored).to_dict() == plan.to_dict(), role


def test_a_column_that_is_zero_in_every_row_is_no_trouble() -> None:
    """Such as np.maximum(x - 9, 0) on (0, 5); warnings are errors here."""
    domain = Domain(y=(0, 1), x=(0, 5))
    spec = design_spec("y ~ x + np.maximum(x - 9, 0)", domain, family=Gaussian())
    fit = FitSpec(spec, Gaussian(1.0), None, np.ones(3), Options(stages=2))
    none = [(np.empty((0, 3)), np.empty(0))]
    released = release_stages(plan_stages(fit, 1.0, 0.0), fit, none, random_source(1))
    assert np.isfinite(released.params).all()


class TestAutomaticAlpha:
    def test_weights_follow_the_noise_and_more_rows_raise_them(self):
        plain = planned(Lasso(0.0), selection="auto")[-1].plan
        counted = planned(Lasso(0.0), selection="auto", n=1e6)[-1].plan
        chosen = planned(Lasso(0.0), selection="auto", refit_share=0.5)[0].plan
        noise = np.sqrt(plain.noise_variances)
        np.testing.assert_allclose(plain.penalty_weights, noise)
        assert (counted.penalty_weights > 3 * noise).all()
        np.testing.assert_allclose(chosen.penalty_weights, 7 * np.sqrt(chosen.noise_variances))

    def test_without_a_penalised_column_there_is_nothing_to_weigh(self):
        domain = {"x": (-1, 1), "y": (0, 1)}
        given = {"penalty": "lasso", "family": "binomial", "refit_share": 0.5, "penalty_weights": {"x": 0.0}}
        objective = dp.plan("y ~ x", domain, 1.0, **given).stages[0].plan
        assert objective.penalty_weights.tolist() == [0, 0]

    def test_penalty_weights_multiply_it(self):
        domain = {"x": (-1, 1), "z": (-1, 1), "w": (-1, 1), "y": (0, 1)}
        given = {"family": "binomial", "penalty": "lasso", "penalty_weights": {"z": 2.0, "x": 0.0, "w": 0.1}}
        objective = dp.plan("y ~ x + z + w", domain, 1.0, n=2e4, **given).stages[0].plan
        assert objective.penalty_weights[1] == 0
        assert objective.penalty_weights[2] == 2 * objective.threshold[2]
        # A lasso that noise passes would keep columns by noise alone.
        least = np.sqrt(objective.noise_variances[3])
        assert objective.penalty_weights[3] == max(least, 0.1 * objective.threshold[3]) == least

    @pytest.mark.parametrize(("options", "times"), [({"refit_share": 0.5, "split": "rows"}, 3**0.75), ({}, 1.0)])
    def test_where_columns_are_chosen_for_a_refit_zero_one_columns_have_more_beside_numbers(self, options, times):
        domain = {"x": dp.Range(0, 120, typical=(50, 15)), "b": (0, 1), "h": ["m", "f"], "y": (0, 1)}
        plan = dp.plan("y ~ x + b + h", domain, 1.0, family="binomial", penalty="lasso", **options)
        objective = plan.stages[0].plan
        ratio = objective.penalty_weights[1:] / objective.threshold[1:]
        names = dict(zip(plan.design.names[1:], ratio, strict=True))
        assert names["x"] == pytest.approx(1)
        assert names["b"] == pytest.approx(times, rel=1e-5)
        assert names["h[T.f]"] == pytest.approx(1.5**0.75 if options else 1.0, rel=1e-5)

    def test_of_a_call(self):
        random = np.random.default_rng(0)
        frame = {"x": random.uniform(-1, 1, 4000), "z": random.uniform(-1, 1, 4000)}
        frame["y"] = frame["x"] + random.uniform(-0.2, 0.2, 4000)
        domain = {"x": (-1, 1), "z": (-1, 1), "y": (-1.2, 1.2)}
        fit = dp.lasso("y ~ x + z", frame, 5.0, domain=domain, refit_share=0.5, split="rows", inference=True)
        assert fit.params["x"] > 0.5
        assert fit.plan.request.options.n == pytest.approx(4000, abs=300)  # as it was counted
        same = dp.glm("y ~ x + z", frame, 5.0, domain=domain, penalty="lasso", alpha="auto", check_share=0)
        assert same.plan.request.options.n is None
        assert type(same).from_dict(same.to_dict()).params.equals(same.params)
        plans = [dp.plan("y ~ x + z", domain, 5.0, penalty="lasso", **given) for given in ({}, {"alpha": "auto"})]
        assert plans[0].digest() == plans[1].digest()

    @pytest.mark.parametrize(
        ("options", "message"),
        [
            ({"penalty": "ridge"}, "alpha='auto' is for penalty='lasso'"),
            ({"penalty": None}, "alpha='auto' is for penalty='lasso'"),
            ({"penalty": "lasso", "method": "statistics"}, "method='napp'"),
            ({"penalty": "lasso", "selection": "noise_aware"}, "leave selection out"),
            ({"penalty": "lasso", "alpha": "best"}, "alpha must be"),
        ],
    )
    def test_refusals(self, options, message):
        with pytest.raises(ArgumentError, match=message):
            dp.plan("y ~ x", {"x": (0, 1), "y": (0, 1)}, 1.0, **{"alpha": "auto", **options})


def test_a_weight_is_a_multiple_of_its_threshold_and_at_least_the_noise() -> None:
    """Of the default alpha the penalty weight, and beside a refit up to 2.3 times that for 0/1 columns."""
    random, names = np.random.default_rng(0), ["x0", "x1", "b0", "b1"]
    data = pd.DataFrame({name: random.normal(50, 10, 20_000).clip(0, 100) for name in names[:2]})
    data[["b0", "b1"]] = random.integers(0, 2, (20_000, 2))
    data["y"] = data["x0"] / 10 + data["x1"] / 10 + 5 * data["b0"] + 5 * data["b1"] + random.normal(size=20_000)
    domain = {"x0": (0, 100), "x1": (0, 100), "b0": (0, 1), "b1": (0, 1), "y": (0, 40)}
    ratios = {}
    for share in (0.0, 0.5):
        fit = dp.lasso(
            "y ~ x0 + x1 + b0 + b1",
            data,
            1.0,
            domain=domain,
            seed=1,
            ranges="declared",
            refit_share=share,
            penalty_weights={"x1": 2.0, "x0": 1e-3},
        )
        table = fit.selection.loc[names]
        ratios[share] = (table["weight"] / table["threshold"]).to_dict()
        assert table.loc["x0", "weight"] > 1e-2 * table.loc["x0", "threshold"]  # at least the noise
    assert ratios[0.0] == pytest.approx({"x0": ratios[0.0]["x0"], "x1": 2.0, "b0": 1.0, "b1": 1.0})
    assert ratios[0.5]["x1"] == pytest.approx(2.0)
    assert 1.5 < ratios[0.5]["b0"] < 2.35
