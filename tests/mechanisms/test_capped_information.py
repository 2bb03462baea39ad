"""Fits whose information has a cap of its own: what is planned, charged, summed, stored and refused.

Exact densities of plans draw nothing; fits have fixed seeds.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import pytest

import dpstats as dp
from dpstats.errors import ArgumentError
from dpstats.families import Binomial, Family, NegativeBinomial, Poisson
from dpstats.mechanisms import information_release
from dpstats.mechanisms.information import InformationPlan, eta_error
from dpstats.mechanisms.objective import ObjectivePlan
from dpstats.mechanisms.spec import TIMES_MEAN
from dpstats.privacy.information import joint_information_loss, row_weights

CAPPED: list[tuple[Family, float]] = [
    (Poisson(2.0, 4.0), 0.5),
    (Poisson(3.0, 4.0), 0.8),
    (Poisson(3.0, 4.0), 2.0),
    (Poisson(3.0, 3.0), 0.5),
    (NegativeBinomial(0.5, 4.0), 0.6),
    (Binomial(), 0.05),
]
ETA = np.unique(
    np.concatenate((np.linspace(-30, 30, 12001), *((at - 1e-9, at + 1e-9) for at in np.log([0.05, 0.5, 0.8, 1, 2, 3]))))
)


def domain_of(family: Family) -> dict[str, Any]:
    return {"x": (0, 1), "g": ["a", "b", "c"], "y": [0, 1] if family.response == "binary" else (0, 4)}


def stage_of(family: Family, cap: float | None, formula: str = "y ~ x + g", **options: Any) -> ObjectivePlan:
    options = {"inference": True, "information_cap": cap} | options
    return dp.plan(formula, domain_of(family), options.pop("eps", 1.0), family=family, **options).stages[-1].plan


def worst(stage: ObjectivePlan, cap: float | None, moved: float = 0.0, exposure: float = 1.0) -> float:
    """The greatest log-ratio of (coefficient, information) of one row more, of an intercept alone, over both.

    The information is taken `moved` away in eta; over matrices of one entry the supremum is the weight over the scale.
    The row has an `exposure` over the greatest, and any linear predictor with it.
    """
    family, plan = stage.family, stage.information
    assert plan is not None
    length, pull, unit = stage.row_length, float(stage.curvature[0]), stage.row_norm / stage.noise.scale
    size = length**2 / float(plan.noise.metric[0, 0])
    losses = []
    for response in (0.0, 1.0) if family.response == "binary" else (0.0, 2.0, 4.0):
        endog = family.clip_response(np.full_like(ETA, response))
        slope = np.abs(family.slope(ETA, endog))
        grown = np.log1p(length**2 * family.weight(ETA, endog) / pull)
        weights = row_weights(family, ETA + moved, endog, cap, exposure)
        losses.append(float((grown + unit * slope + size * weights / plan.noise.scale).max()))
        losses.append(float((unit * slope - grown + size * weights / plan.noise.scale).max()))
    return max(losses)


@pytest.mark.parametrize("adjacency", ["add_remove", "replace_one"])
@pytest.mark.parametrize("inference", ["auto", True, "robust"])
@pytest.mark.parametrize(("family", "cap"), CAPPED, ids=repr)
class TestPlan:
    def test_scales_are_worth_what_is_charged(self, family: Family, cap: float, inference: Any, adjacency: str) -> None:
        for eps in (0.3, 1.0, 4.0):
            stage = stage_of(family, cap, eps=eps, inference=inference, adjacency=adjacency)
            plan = stage.information
            if plan is None:
                assert inference == "auto"
                continue
            assert plan.weight_bound == plan.purchase.weight_cap == cap
            charged = stage.eps + plan.eps
            stated = joint_information_loss(
                family,
                scale=stage.noise.scale,
                matrix_scale=plan.noise.scale,
                curvature_ratio=stage.kappa,
                row_norm=stage.row_norm,
                adjacency=adjacency,  # type: ignore[arg-type]
                eta_error=eta_error(stage.final, stage.row_length),
                weight_cap=cap,
            )
            assert charged * (1 - 1e-4) <= stated <= charged * (1 + 1e-9)

    def test_the_cap_costs_the_fit_nothing(self, family: Family, cap: float, inference: Any, adjacency: str) -> None:
        """The same noise in the coefficients, and no more in the matrix."""
        capped = stage_of(family, cap, inference=inference, adjacency=adjacency)
        plain = stage_of(family, None, inference=inference, adjacency=adjacency)
        assert capped.noise.scale == pytest.approx(plain.noise.scale, rel=2.1e-3)
        if plain.information is not None:
            assert capped.information is not None
            assert capped.information.noise.scale <= plain.information.noise.scale * (1 + 1e-9)


@pytest.mark.parametrize("inference", ["auto", True])
@pytest.mark.parametrize(("family", "cap"), CAPPED, ids=repr)
def test_exact_density_of_an_intercept(family: Family, cap: float, inference: Any) -> None:
    """The plan keeps its charge wherever the last step leaves the information; weights that are not capped do not."""
    stage = stage_of(family, cap, "y ~ 1", inference=inference)
    plan = stage.information
    if plan is None:
        assert inference == "auto"
        return
    charged, error = stage.eps + plan.eps, eta_error(stage.final, stage.row_length)
    losses = [worst(stage, cap, moved) for moved in (-error, 0.0, error)]
    assert max(losses) <= charged * (1 + 1e-6)
    assert max(losses) >= charged * 0.98
    assert worst(stage, cap, error, exposure=0.3) <= charged * (1 + 1e-6)
    if inference is True:
        assert worst(stage, None) > charged * 1.05


@pytest.mark.parametrize("inference", ["auto", True])
def test_normal_noise(inference: Any) -> None:
    """Beside normal noise of the fit the matrix has less of it, for the same delta."""
    family = Poisson(2.0, 4.0)
    common = {"delta": 1e-5, "noise": "gaussian", "inference": inference}
    capped, plain = stage_of(family, 0.3, **common), stage_of(family, None, **common)
    assert capped.information is not None
    assert plain.information is not None
    assert capped.noise.scale == pytest.approx(plain.noise.scale, rel=1e-3)
    assert capped.information.noise.entry_variance < 0.6 * plain.information.noise.entry_variance


def counts(rows: int = 4_000) -> pd.DataFrame:
    random = np.random.default_rng(7)
    x, g = random.uniform(0, 1, rows), random.choice(["a", "b", "c"], rows)
    return pd.DataFrame({"x": x, "g": g, "y": random.poisson(np.exp(0.3 + x - 0.4 * (g == "b")))})


DOMAIN: dict[str, Any] = {"x": (0, 1), "g": ["a", "b", "c"], "y": (0, 60)}


def fitted(**options: Any) -> dp.GLMResults:
    return dp.poisson("y ~ x + g", counts(), 4.0, domain=DOMAIN, seed=1, allow_uncertified=True, **options)


def exposed(ends: tuple[float, float] = (0.1, 2.0), **options: Any) -> tuple[pd.DataFrame, dp.GLMResults]:
    """Rows with exposures that go with x, and a fit of them."""
    rows, random = counts(8_000), np.random.default_rng(9)
    rows["t"] = np.clip(rows["x"] + random.exponential(0.4, len(rows)), 0.1, 2.0)
    rows["y"] = random.poisson(np.exp(-0.6 + rows["x"] - 0.4 * (rows["g"] == "b")) * rows["t"])
    caps = {} if "information_cap" not in options else {"mean_cap": 20.0, "y_max": 30.0}
    settings = {"inference": True, "seed": 1, "allow_uncertified": True, "ranges": "declared"} | caps | options
    return rows, dp.poisson("y ~ x + g", rows, 4.0, domain=DOMAIN | {"t": ends}, exposure="t", **settings)


class TestFit:
    def test_by_default_the_cap_follows_the_bought_mean(self) -> None:
        for inference in ("auto", True):
            result = fitted(inference=inference)
            response, plan = result.plan.response, result.plan.stages[-1].plan.information
            assert response is not None
            assert response.mean is not None
            assert plan is not None
            assert plan.weight_bound == pytest.approx(TIMES_MEAN * response.mean)

    def test_no_cap_where_it_could_not_be_made_up_for(self) -> None:
        common = {"domain": DOMAIN, "seed": 1, "allow_uncertified": True, "inference": True}
        result = dp.poisson("y ~ 0 + x", counts(), 4.0, **common)  # type: ignore[arg-type]
        plan = result.plan.stages[-1].plan.information
        assert plan is not None
        assert plan.purchase.weight_cap is None
        assert plan.weight_bound == result.plan.family.curvature_bound

    @pytest.mark.parametrize("ends", [(0.1, 2.0), (0.0, 2.0)])
    def test_with_an_exposure_the_cap_follows_the_bought_rate(self, ends: tuple[float, float]) -> None:
        rows, fit = exposed(ends=ends)
        response, plan = fit.plan.response, fit.plan.stages[-1].plan.information
        assert response is not None
        assert response.mean == pytest.approx(rows["y"].sum() / rows["t"].sum(), rel=0.1)
        assert plan is not None
        assert plan.weight_bound == plan.purchase.weight_cap == pytest.approx(TIMES_MEAN * response.mean * 2.0)

    @pytest.mark.parametrize("inference", ["auto", True, "robust"])
    def test_weights_are_capped_where_they_are_summed(self, inference: Any, monkeypatch: pytest.MonkeyPatch) -> None:
        seen: list[np.ndarray] = []
        summed = information_release.inner_sums

        def spied(diagonal: Any, mixing: Any, bounds: Any, parts: Any) -> Any:
            parts = list(parts)
            seen.extend(weights[0].copy() for _, weights in parts)
            assert bounds[0] == 0.7
            return summed(diagonal, mixing, bounds, parts)

        monkeypatch.setattr(information_release, "inner_sums", spied)
        fitted(inference=inference, information_cap=0.7, mean_cap=20.0, y_max=30.0)
        weights = np.concatenate(seen)
        assert weights.max() == 0.7
        assert 0.5 < np.mean(weights == 0.7) <= 1

    @pytest.mark.parametrize("inference", [True, "robust"])
    def test_a_row_has_a_cap_in_proportion_to_its_exposure(
        self, inference: Any, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        seen: list[np.ndarray] = []
        summed = information_release.inner_sums

        def spied(diagonal: Any, mixing: Any, bounds: Any, parts: Any) -> Any:
            parts = list(parts)
            seen.extend(weights[0].copy() for _, weights in parts)
            return summed(diagonal, mixing, bounds, parts)

        monkeypatch.setattr(information_release, "inner_sums", spied)
        rows, _ = exposed(inference=inference, information_cap=0.05)
        caps = 0.05 * rows["t"].to_numpy() / 2.0
        weights = np.concatenate(seen)
        assert np.all(weights <= 0.05)
        assert weights == pytest.approx(caps, rel=1e-9)  # all rates are above it

    def test_beside_an_exposure_the_cap_is_made_up_for(self) -> None:
        """The law of the exposure is not released: the correction does not need it."""
        (_, plain), (_, capped), (_, low) = (exposed(information_cap=cap) for cap in (19.0, 4.0, 1.0))
        for result in (capped, low):
            moved = (result.debiased - plain.debiased) / plain.bse
            assert np.abs(moved).max() < 0.5
            assert np.all(result.bse / plain.bse < 1.5)
            assert np.all(result.bse / plain.bse > 0.8)

    def test_estimates_are_those_of_the_whole_information(self) -> None:
        """At twice the mean hardly a row is capped; at half of it all are, and it is made up for."""
        common = {"inference": True, "mean_cap": 20.0, "y_max": 30.0}
        plain, capped, low = (fitted(information_cap=cap, **common) for cap in (19.0, 4.0, 1.0))
        for result in (capped, low):
            moved = (result.debiased - plain.debiased) / plain.bse
            assert np.abs(moved).max() < 0.5
            assert np.all(result.bse / plain.bse < 1.5)
            assert np.all(result.bse / plain.bse > 0.8)

    def test_a_stored_result_has_the_cap(self) -> None:
        result = fitted(information_cap=1.0, inference=True)
        again = dp.GLMResults.from_dict(result.to_dict())
        pd.testing.assert_frame_equal(again.conf_int(), result.conf_int())
        plan = again.plan.stages[-1].plan.information
        assert plan is not None
        assert plan.purchase.weight_cap == 1.0

    def test_what_was_stored_before_there_was_a_cap(self) -> None:
        plan = stage_of(Poisson(2.0, 4.0), None).information
        assert plan is not None
        stored = plan.to_dict()
        del stored["purchase"]["weight_cap"]
        assert InformationPlan.from_dict(stored) == plan


class TestRefused:
    @pytest.mark.parametrize("cap", [0.0, -1.0, math.nan, math.inf, "2", True, 1e60])
    def test_what_is_no_cap(self, cap: Any) -> None:
        with pytest.raises(ArgumentError, match="information_cap must be a positive number"):
            stage_of(Poisson(2.0, 4.0), cap)

    def test_where_it_would_be_ignored(self) -> None:
        common: dict[str, Any] = {"information_cap": 1.0}
        with pytest.raises(ArgumentError, match="does not suit family 'gaussian'"):
            dp.plan("y ~ x", DOMAIN, 1.0, family="gaussian", **common)
        with pytest.raises(ArgumentError, match="this fit has none"):
            dp.plan("y ~ x", DOMAIN, 1.0, family="poisson", inference=None, **common)
        with pytest.raises(ArgumentError, match="an intercept and without an offset"):
            dp.plan("y ~ 0 + x", DOMAIN, 1.0, family="poisson", **common)
        family = dp.families.NegativeBinomial(1.0)
        with pytest.raises(ArgumentError, match="without an offset or family 'poisson'"):
            dp.plan("y ~ g", DOMAIN | {"t": (0.5, 2)}, 1.0, family=family, exposure="t", **common)
        with pytest.raises(ArgumentError, match="an intercept and without an offset"):
            dp.GLM(np.zeros(1), np.zeros((1, 1)), Poisson(2.0, 4.0), row_norm=1.0).plan(1.0, **common)


def test_planted_a_cap_that_is_not_charged() -> None:
    """A plan priced with a lower cap than its weights have: the density shows it."""
    stage = stage_of(Poisson(2.0, 4.0), 0.4, "y ~ 1")
    plan = stage.information
    assert plan is not None
    assert worst(stage, 0.4) <= (stage.eps + plan.eps) * (1 + 1e-6)
    wrong = replace(stage, information=replace(plan, purchase=replace(plan.purchase, weight_cap=0.8)))
    assert worst(wrong, 0.8) > (stage.eps + plan.eps) * 1.05
