"""What a plan sets aside for the information, and what the release does with it: prices, order, and planted bugs.

Prices are recomputed by other routes than the plan's. Where something is drawn, it is from a seed and nothing asserted
depends on the draw, but where a false-alarm rate is stated.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import pytest
from covers import pairwise
from hypothesis import given, settings
from hypothesis import strategies as st

import dpstats as dp
from dpstats.data import Block, Rows, block_rows
from dpstats.families import Binomial, Family, Gaussian, HuberSVM, NegativeBinomial, Poisson, SmoothSVM
from dpstats.mechanisms import information_release as mechanism
from dpstats.mechanisms.design import ArrayDesign, SubDesign, array_norms, constant_column
from dpstats.mechanisms.information import (
    FARTHEST,
    TAIL,
    Information,
    InformationPlan,
    eta_error,
    matrix_metric,
    with_final_step,
)
from dpstats.mechanisms.napp import plan_stages, release_stages
from dpstats.mechanisms.objective import ObjectivePlan
from dpstats.mechanisms.options import Options
from dpstats.mechanisms.release import LatticeRelease
from dpstats.mechanisms.spec import FitSpec
from dpstats.mechanisms.stage import StagesRelease
from dpstats.penalties import Lasso, Ridge
from dpstats.privacy.information import (
    headroom,
    joint_information_loss,
    majorant_lipschitz,
    row_weights,
    spread_bound,
)
from dpstats.privacy.information.exact_sums import PLACES, integer_rows
from dpstats.privacy.information.joint_gaussian import joint_profile
from dpstats.privacy.randomness import random_source
from dpstats.solvers import pairs

FAMILIES: list[Family] = [
    Binomial(),
    Poisson(2.0, 4.0),
    Poisson(3.0, 4.0),
    NegativeBinomial(0.5, 4.0),
    Gaussian(0.5),
    HuberSVM(0.5),
    SmoothSVM(0.2),
]
ADJACENCIES = ["add_remove", "replace_one"]
COLUMNS: dict[str, Any] = {"x": (0, 1), "z": (-3, 5), "g": ["a", "b", "c", "d"], "w": (-1, 1), "f": ["u", "v"]}
FORMULAS = ["y ~ x", "y ~ x + z + g", "y ~ 0 + x + z", "y ~ g", "y ~ 0 + g + x", "y ~ x*g", "y ~ x + z + g + w + f"]


def domain_of(family: Family) -> dict[str, Any]:
    """Ranges of the columns, with a response that suits the family."""
    response = {"continuous": (-5, 5), "count": (0, 4), "binary": [0, 1]}[family.response]
    return {**COLUMNS, "y": response}


def stage_of(family: Family, eps: float, formula: str = "y ~ x + z + g", **options: Any) -> ObjectivePlan:
    """The last stage of a formula's plan."""
    return dp.plan(formula, domain_of(family), eps, family=family, check_share=0, **options).stages[-1].plan


def rows(count: int, family: Family, seed: int = 0) -> pd.DataFrame:
    """Public random rows within the domain, half of all numbers at an end of its range."""
    random = np.random.default_rng(seed)
    frame = {}
    for name, declared in domain_of(family).items():
        if isinstance(declared, list):
            frame[name] = np.array(declared)[random.integers(0, len(declared), count)]
        else:
            ends = np.array(declared, dtype=float)
            inside, edge = random.uniform(*ends, count), ends[random.integers(0, 2, count)]
            frame[name] = np.where(random.random(count) < 0.5, inside, edge)
    if family.response == "count":
        frame["y"] = np.rint(frame["y"])
    return pd.DataFrame(frame)


def charged_loss(stage: ObjectivePlan) -> float:
    """The eps of fit and matrix by their noise scales, as proved; pure noise."""
    assert stage.information is not None
    return joint_information_loss(
        stage.family,
        scale=stage.noise.scale,
        matrix_scale=stage.information.noise.scale,
        curvature_ratio=stage.kappa,
        row_norm=stage.row_norm,
        adjacency=stage.adjacency,
        eta_error=eta_error(stage.final, stage.row_length),
        weight_cap=stage.information.purchase.weight_cap,
    )


class TestPrices:
    @pytest.mark.parametrize("inference", ["auto", True, "robust"])
    @pytest.mark.parametrize("adjacency", ADJACENCIES)
    @pytest.mark.parametrize("family", FAMILIES, ids=repr)
    def test_pure_scales_are_worth_what_is_charged(self, family: Family, adjacency: str, inference: Any) -> None:
        for eps in (0.2, 1.0, 4.0):
            stage = stage_of(family, eps, adjacency=adjacency, inference=inference)
            if inference == "auto" and headroom(family) == 0:
                assert stage.information is None
                continue
            assert stage.information is not None or inference == "auto"
            if stage.information is None:
                continue
            charged = stage.eps + stage.information.eps
            # The cells of the curve cost 1e-5 of it at most: the whole charge is put to use.
            assert charged * (1 - 1e-4) <= charged_loss(stage) <= charged * (1 + 1e-12)

    @settings(max_examples=40)
    @given(
        eps=st.floats(0.05, 12),
        formula=st.sampled_from(FORMULAS),
        family=st.sampled_from(FAMILIES),
        adjacency=st.sampled_from(ADJACENCIES),
        paid=st.booleans(),
        share=st.one_of(st.none(), st.floats(0.02, 0.9)),
    )
    def test_any_budget_and_columns(
        self, eps: float, formula: str, family: Family, adjacency: str, paid: bool, share: float | None
    ) -> None:
        options: dict[str, Any] = {"inference": True, "information_share": share} if paid else {}
        options |= {"adjacency": adjacency, "check_share": 0, "fitstats": None}
        plan = dp.plan(formula, domain_of(family), eps, family=family, **options)
        stage = plan.stages[-1].plan
        assert plan.guarantee.eps == pytest.approx(eps, rel=1e-12)
        assert sum(one.cost for _, one in plan.stages) == pytest.approx(eps, rel=1e-9)
        if stage.information is not None:
            assert charged_loss(stage) <= (stage.eps + stage.information.eps) * (1 + 1e-12)
            assert stage.kappa <= plan.design.curvature_ratio(stage.curvature) * (1 + 1e-12)

    @pytest.mark.parametrize("adjacency", ADJACENCIES)
    @pytest.mark.parametrize("inference", ["auto", True])
    @pytest.mark.parametrize(
        "family", [Binomial(), Poisson(2.0, 4.0), NegativeBinomial(0.5, 4.0), Gaussian(0.5)], ids=repr
    )
    def test_normal_scales_keep_delta(self, family: Family, inference: Any, adjacency: str) -> None:
        """By the profile of the stage's own numbers; its scales are worth the budget, up to 1 % of delta's."""
        delta = 1e-5
        stage = stage_of(family, 1.0, delta=delta, noise="gaussian", adjacency=adjacency, inference=inference)
        plan = stage.information
        if plan is None:
            assert inference == "auto"
            assert headroom(family) == 0
            return
        profile = joint_profile(
            stage.family,
            eps=stage.eps + plan.eps,
            delta=delta,
            curvature_ratio=stage.kappa,
            adjacency=adjacency,
            law=plan.noise.law,
            eta_error=eta_error(stage.final, stage.row_length),
        )
        mu = stage.row_norm * stage.family.lipschitz / stage.noise.scale
        assert 0.8 * delta <= profile.bound(mu, 1 / plan.noise.scale) <= delta
        assert profile.bound(1.05 * mu, 1.05 / plan.noise.scale) > delta

    @pytest.mark.parametrize("delta", [0.0, 1e-6])
    @pytest.mark.parametrize("adjacency", ADJACENCIES)
    @pytest.mark.parametrize(
        "family", [Binomial(), Poisson(2.0, 4.0), Poisson(3.0, 4.0), NegativeBinomial(0.5, 4.0)], ids=repr
    )
    def test_free_leaves_the_noise_of_the_fit(self, family: Family, adjacency: str, delta: float) -> None:
        """But for the shares of rounding and dispersion, the noise is that of coefficients alone."""
        for eps in (0.3, 1.0, 5.0):
            stage = stage_of(family, eps, adjacency=adjacency, delta=delta, fitstats=None)
            if stage.information is None:
                continue
            left = eps - stage.information.purchase.extra_eps
            alone = stage_of(
                family, left, adjacency=adjacency, delta=delta, inference=None, release_share=0.01 * eps / left
            )
            assert stage.final.eps == pytest.approx(alone.final.eps)
            assert stage.noise.scale == pytest.approx(alone.noise.scale, rel=0.0021)
            assert np.all(stage.curvature >= alone.curvature * (1 - 1e-12))
            assert np.all(stage.curvature <= 2 * alone.curvature * (1 + 1e-12))

    @pytest.mark.parametrize("family", FAMILIES, ids=repr)
    def test_without_inference_nothing_is_set_aside(self, family: Family) -> None:
        stage = stage_of(family, 1.0, inference=None)
        assert stage.information is None
        assert stage.cost == pytest.approx(1.0)

    @pytest.mark.parametrize("adjacency", ADJACENCIES)
    @pytest.mark.parametrize("family", [Binomial(), Poisson(2.0, 4.0)], ids=repr)
    def test_a_curvature_that_is_given_is_kept(self, family: Family, adjacency: str) -> None:
        """The fit's whole budget then goes to the extreme gradient; the error of its last step takes .2 % of noise."""
        for curvature in (20.0, 500.0):
            stage = stage_of(family, 1.0, curvature=curvature, adjacency=adjacency)
            np.testing.assert_array_equal(stage.curvature, curvature)
            assert stage.information is not None
            assert charged_loss(stage) <= (stage.eps + stage.information.eps) * (1 + 1e-12)
            rows = 2 if adjacency == "replace_one" else 1
            extreme = rows * stage.row_norm * family.lipschitz / (stage.eps + stage.information.eps)
            assert stage.noise.scale <= 1.0021 * extreme

    @pytest.mark.parametrize("formula", FORMULAS)
    def test_bounds_hold_in_every_row(self, formula: str) -> None:
        """kappa, the row's length and the metric, at random rows, half of their cells at an end of the range."""
        plan = dp.plan(formula, domain_of(Binomial()), 1.0, family="binomial", inference=True)
        stage, (exog, complete) = plan.stages[-1].plan, plan.design.exog(rows(3000, Binomial()))  # type: ignore[attr-defined]
        assert stage.information is not None
        assert complete.all()
        assert np.max(np.sum(exog**2 / stage.curvature, axis=1)) <= stage.kappa * (1 + 1e-9)
        assert np.max(np.linalg.norm(exog, axis=1)) <= stage.row_length * (1 + 1e-9)
        metric = stage.information.noise.metric
        lengths = np.einsum("ij,ij->i", exog @ np.linalg.inv(metric), exog)
        assert 0.3 <= lengths.max() <= 1 + 1e-9


SETTINGS: dict[str, dict[str, Any]] = {
    "plain": {},
    "ridge": {"penalty": "ridge", "alpha": 2.0},
    "replace_one": {"adjacency": "replace_one"},
    "normal noise": {"delta": 1e-6, "noise": "gaussian"},
    "delta": {"delta": 1e-6},
    "two stages": {"stages": 2},
    "split, refit": {"penalty": "lasso", "alpha": 20.0, "refit_share": 0.5, "split": "rows"},
    "split, screen": {"screen": 2, "split": "rows"},
    "two stages, normal noise": {"stages": 2, "delta": 1e-6, "noise": "gaussian"},
    "lasso, refit": {"penalty": "lasso", "alpha": 20.0, "refit_share": 0.5},
    "two stages, refit": {"penalty": "lasso", "alpha": 20.0, "refit_share": 0.4, "stages": 2},
    "scad, refit": {"penalty": "scad", "alpha": 5.0, "refit_share": 0.5, "stages": 2},
    "screen": {"screen": 2},
    "screen, refit": {"screen": 2, "penalty": "lasso", "alpha": 20.0, "refit_share": 0.5},
    "noise-aware, refit": {"selection": "noise_aware", "penalty": "lasso", "alpha": 1.0, "refit_share": 0.5},
    "bought ranges": {"open": ("x", "z")},
    "bought response": {"response": "bought"},
}


class TestBudgets:
    @pytest.mark.slow
    @pytest.mark.parametrize(
        ("setting", "inference", "family"),
        pairwise(
            list(SETTINGS), ["auto", True, "robust", None], [Poisson(2.0, 4.0), Gaussian(), Binomial(), HuberSVM()]
        ),
        ids=str,
    )
    def test_parts_add_up_and_the_ledger_is_charged_once(
        self, setting: str, inference: Any, family: Family, tmp_path: Any
    ) -> None:
        """Before and after the release, which follows released values; one entry of the ledger."""
        asked = dict(SETTINGS[setting])
        left_open = asked.pop("open", ())
        if asked.get("response") == "bought" and family.response == "binary":
            family = Poisson(2.0, 4.0)
        known = {name: facts for name, facts in domain_of(family).items() if name not in left_open}
        adjacency = asked.get("adjacency", "add_remove")
        with dp.Ledger(tmp_path / "books.db", dataset="d", eps=3.0, delta=1e-6, adjacency=adjacency) as ledger:
            result = dp.glm(
                "y ~ x + z + g", rows(300, family), 2.0, domain=known, family=family, ledger=ledger,
                inference=inference, **asked,
            )  # fmt: skip
            entries = ledger.entries()
        # The rows are counted first, where they are: an entry of its own.
        assert len(entries) in (1, 2)
        assert float(entries["eps"].sum()) == pytest.approx(2.0)
        planned = dp.GLM.from_formula("y ~ x + z + g", rows(0, family), family, known).plan(
            2.0, inference=inference, **asked
        )
        for plan in (result.plan, planned):
            table = plan.budget
            # All rows pay for counts and intervals, and then two parts of them side by side.
            times = 2 if "split" in asked else 1
            together = sum(table["eps"].get(name, 0.0) for name in ("row counts", "ranges", "response"))
            spent = together + times * (plan.guarantee.eps - together)
            assert table["eps"].iloc[:-1].sum() == pytest.approx(spent, rel=1e-9)
            assert table["delta"].iloc[:-1].sum() <= plan.guarantee.delta * (1 + 1e-9)
            assert plan.guarantee.eps == pytest.approx(2.0, rel=1e-9)
            assert plan.guarantee.certified
            assert ("information" in table.index) == (plan.stages[-1].plan.information is not None)
        if inference is None:
            assert result.released is None
        last = result.plan.stages[-1].plan
        if last.information is not None and last.noise.kind == "laplace":
            assert charged_loss(last) <= (last.eps + last.information.eps) * (1 + 1e-9)

    def test_too_little_left_releases_nothing(self, tmp_path: Any) -> None:
        with dp.Ledger(tmp_path / "b.db", dataset="d", eps=1.0) as ledger:
            with pytest.raises(dp.errors.BudgetExceeded):
                dp.glm("y ~ x", rows(50, Binomial()), 1.5, domain=domain_of(Binomial()), family="binomial",
                       inference=True, ledger=ledger)  # fmt: skip
            assert not len(ledger.entries())


Arrays = tuple[np.ndarray, np.ndarray]
SIZE = 3
DESIGN = ArrayDesign(("a", "b", "c"), array_norms({"l2": 1.0}, SIZE))


def array_rows(family: Family, count: int = 400) -> Arrays:
    """Rows of length up to 1 with responses of a strong effect."""
    random = np.random.default_rng(3)
    exog = random.uniform(-1, 1, (count, SIZE)) / math.sqrt(SIZE)
    endog = (exog[:, 0] > 0).astype(float)
    return exog, endog if family.response != "continuous" else 2 * endog - 1


def carried_out(
    family: Family, options: Options, penalty: Any = None, seed: int = 0, eps: float = 4.0
) -> StagesRelease:
    spec = FitSpec(DESIGN, family, penalty, np.ones(SIZE), options)
    return release_stages(plan_stages(spec, eps, 0.0), spec, [array_rows(family)], random_source(seed))


def stated(family: Family) -> str:
    return "robust" if family.response == "binary" and not isinstance(family, Binomial) else "model"


Weighed = Callable[[Family, np.ndarray, Block], np.ndarray]


def weights_seen(
    monkeypatch: pytest.MonkeyPatch, family: Family, planted: Weighed | None = None
) -> tuple[Any, StagesRelease]:
    """The weights that went into the matrix, and what was released."""
    seen: list[np.ndarray] = []
    summed, bent = mechanism.inner_sums, mechanism._bends_and_slopes

    def spied(diagonal: Any, mixing: Any, bounds: Any, parts: Any) -> Any:
        parts = list(parts)
        seen.extend(weights[0].copy() for _, weights in parts)
        return summed(diagonal, mixing, bounds, parts)

    def wrong(family: Family, params: np.ndarray, block: Block, cap: float | None, *, slopes: bool, **_: Any) -> Any:
        assert cap is None
        assert planted is not None
        return planted(family, params, block), bent(family, params, block, slopes=slopes)[1]

    monkeypatch.setattr(mechanism, "inner_sums", spied)
    if planted is not None:
        monkeypatch.setattr(mechanism, "_bends_and_slopes", wrong)
    fitted = carried_out(family, Options(inference=stated(family)))
    return np.concatenate(seen), fitted


def at_released(weights: np.ndarray, fitted: StagesRelease, family: Family) -> bool:
    """Whether the weights are l'' at the coefficients as they were released, to the last digits."""
    exog, endog = array_rows(family)
    expected = family.derivatives(exog @ fitted.params, endog).curvature
    return bool(np.allclose(weights, expected, rtol=1e-12, atol=1e-14))


class TestOrder:
    """The matrix is taken at the released coefficients: nowhere else is it priced, nor any other public."""

    @pytest.mark.parametrize(
        "family", [Binomial(), Poisson(2.0, 4.0), NegativeBinomial(0.5, 4.0), SmoothSVM(0.2)], ids=repr
    )
    def test_at_the_released_coefficients(self, family: Family, monkeypatch: pytest.MonkeyPatch) -> None:
        assert at_released(*weights_seen(monkeypatch, family), family)

    def test_planted_curvature_at_another_eta(self, monkeypatch: pytest.MonkeyPatch) -> None:
        def elsewhere(family: Family, params: np.ndarray, block: Block) -> np.ndarray:
            return row_weights(family, block.exog @ params + 1e-6, block.endog)

        assert not at_released(*weights_seen(monkeypatch, Binomial(), elsewhere), Binomial())

    def test_planted_coefficients_released_after_the_matrix(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """The solver's point instead of the rounded, noisy one: what a matrix before the last step would see."""
        from dpstats.mechanisms import stage

        points: list[np.ndarray] = []
        honest = stage.newton.optimum

        def spied(*arguments: Any) -> Any:
            points.append(honest(*arguments).high.astype(np.float64))
            return honest(*arguments)

        monkeypatch.setattr(stage.newton, "optimum", spied)

        def before(family: Family, params: np.ndarray, block: Block) -> np.ndarray:
            return row_weights(family, block.exog @ points[-1], block.endog)

        weights, fitted = weights_seen(monkeypatch, Binomial(), before)
        assert not np.array_equal(points[-1], fitted.params)
        assert not at_released(weights, fitted, Binomial())

    @pytest.mark.parametrize("kind", ["model", "robust"])
    def test_draws_follow_the_order_of_the_proof(self, kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
        """Coefficients, then the matrix, then scores: each reads rows only once what it depends on is released."""
        order: list[str] = []
        for module, name in (
            (mechanism, "noisy_information"),
            (mechanism, "noisy_sum"),
            (mechanism, "noisy_spread"),
            (LatticeRelease, "release"),
        ):
            honest = getattr(module, name)

            def spied(*arguments: Any, honest: Any = honest, name: str = name, **named: Any) -> Any:
                order.append(name)
                return honest(*arguments, **named)

            monkeypatch.setattr(module, name, spied)
        carried_out(Gaussian(0.5), Options(inference=kind))  # type: ignore[arg-type]
        sums = ["noisy_spread"] if kind == "robust" else ["noisy_sum", "noisy_sum"]
        assert order == ["release", "noisy_information", *sums]


class TestMetric:
    def test_a_metric_that_is_too_small_is_caught(self) -> None:
        """Planted: D not scaled, sup x'D^-1x = 2. Rows are shortened to it, so that it costs accuracy alone."""
        plan = dp.plan("y ~ x + z + g", domain_of(Binomial()), 1.0, family="binomial")
        stage, (exog, _) = plan.stages[-1].plan, plan.design.exog(rows(3000, Binomial()))  # type: ignore[attr-defined]
        assert stage.information is not None
        noise = stage.information.noise
        small = replace(noise, diagonal=tuple(0.5 * entry for entry in noise.diagonal))
        inverse = np.linalg.inv(small.metric)
        assert np.einsum("ij,ij->i", exog @ inverse, exog).max() > 1.5
        for law in (noise, small):
            weights = np.full(len(exog), 0.2)
            whole = integer_rows(law.coordinates(exog), weights, np.array(law.diagonal), 0.25)
            traces = 0.25 * (whole**2).sum(axis=1) * 4.0**-PLACES
            assert traces.max() <= 0.2
            assert traces.max() >= 0.19 * np.einsum("ij,ij->i", exog @ np.linalg.inv(law.metric), exog).clip(0, 1).max()

    @pytest.mark.parametrize("norms", [{"l2": 0.3}, {"l1": 2.0}, {"linf": 1.5}, {"l2": 1.0, "l1": 1.2}], ids=str)
    def test_arrays(self, norms: dict[str, float]) -> None:
        design = ArrayDesign(tuple("abcd"), array_norms(norms, 4))
        metric = matrix_metric(design)
        assert design.curvature_ratio(np.array(metric.diagonal)) <= 1 + 1e-12


class TestEtaError:
    def test_covers_the_last_step(self) -> None:
        """Draws of the last step never reach the bound, whose probability is that of exp(-59)."""
        random = random_source(4)
        for size, eps in ((1, 0.001), (3, 0.01), (40, 1.0)):
            final = LatticeRelease(eps, 1e-6, size)
            start = np.full(size, 0.7)
            moves = np.array([final.release(pairs.single(start, np.float64), random) - start for _ in range(300)])
            longest = np.linalg.norm(moves, axis=1).max()
            assert longest <= eta_error(final, 1.0)
            assert eta_error(final, 2.0) >= 2 * (final.distance + longest)

    @pytest.mark.parametrize("size", [1, 2, 10, 60])
    def test_covers_the_quantile_that_is_neglected(self, size: int) -> None:
        """All of the noise in one coordinate: its two-sided quantile of exp(-59) is 59 scales from zero."""
        final = LatticeRelease(0.01, 1e-6, size)
        assert eta_error(final, 3.0) >= 3 * (final.distance + (TAIL - 1) * final.scale)

    def test_tail(self) -> None:
        """P(sum of p exponentials > its bound) <= exp(-59), and p exp(-60) for the largest, by the exact laws."""
        from scipy import special

        for size in (1, 2, 10, 100, 1000):
            total = size + math.sqrt(2 * (TAIL - 1) * size) + TAIL - 1
            assert special.gammaincc(size, total) <= math.exp(-(TAIL - 1))

    @pytest.mark.parametrize(
        "family", [Binomial(), Poisson(2.0, 4.0), NegativeBinomial(0.5, 4.0), SmoothSVM(0.2)], ids=repr
    )
    def test_another_last_step_keeps_the_charge(self, family: Family) -> None:
        """(h + rho D') / s2' is at most (h + rho D) / s2 for every weight."""
        stage = stage_of(family, 1.0, inference=True)
        plan, slope = stage.information, majorant_lipschitz(family)
        assert plan is not None
        for times in (0.1, 1.0, 3.0, 50.0):
            final = replace(stage.final, distance=times * stage.final.distance)
            new = with_final_step(plan, final, stage.row_length)
            weights = np.linspace(0, family.curvature_bound, 11)
            before = (weights + slope * plan.eta_error) / plan.noise.scale
            after = (weights + slope * eta_error(final, stage.row_length)) / new.noise.scale
            assert np.all(after <= before * (1 + 1e-12))
            assert eta_error(final, stage.row_length) <= new.eta_error * (1 + 1e-9)

    @pytest.mark.parametrize("family", [Binomial(), Gaussian(0.5), Poisson(2.0, 4.0)], ids=repr)
    def test_recentred_keeps_the_charge(self, family: Family) -> None:
        stage = stage_of(family, 1.0, inference=True)
        assert stage.information is not None
        for shift in (0.1, 1e4):
            moved = stage.recentred(3 * stage.curvature, -3 * shift * stage.curvature)
            # The noise still suffices for the larger ratio that it was planned for.
            assert charged_loss(moved) <= (stage.eps + stage.information.eps) * (1 + 1e-9)
            assert moved.cost == pytest.approx(stage.cost, rel=1e-12)


class TestWithheld:
    """Whether the information is withheld is a function of what is released and public."""

    def plan(self) -> tuple[InformationPlan, ObjectivePlan]:
        stage = plan_stages(FitSpec(DESIGN, Binomial(), None, np.ones(SIZE), Options()), 1.0, 0.0)[0].plan
        assert stage.information is not None
        return stage.information, stage

    def released(self, params: np.ndarray, blocks: Rows[Block], final: Any = None) -> Information | None:
        plan, stage = self.plan()
        return mechanism.release_information(
            plan, final or stage.final, stage.family, DESIGN, params, blocks, "add_remove", random_source(0)
        )

    @pytest.mark.parametrize("count", [0, 1, 400])
    def test_far_coefficients(self, count: int) -> None:
        exog, endog = array_rows(Binomial())
        blocks = block_rows([(exog[:count], endog[:count])])
        assert self.released(np.array([0.0, 3.0, -2.0]), blocks) is not None
        assert self.released(np.array([2 * FARTHEST, 0.0, 0.0]), blocks) is None
        assert self.released(np.array([0.6 * FARTHEST, 0.0, 0.0]), blocks) is not None
        assert self.released(np.array([0.8 * FARTHEST, 0.8 * FARTHEST, 0.0]), blocks) is None

    def test_clamped_coefficients(self) -> None:
        plan, stage = self.plan()
        fine = replace(stage.final, distance=1e-140 * stage.final.distance)
        limit = mechanism.LATTICE_LIMIT * fine.step
        assert limit < FARTHEST
        for params, kept in ((0.9 * limit, True), (limit, False)):
            found = mechanism.release_information(
                plan,
                fine,
                stage.family,
                DESIGN,
                np.array([params, 0.0, 0.0]),
                block_rows([]),
                "add_remove",
                random_source(0),
            )
            assert (found is not None) == kept

    def test_a_larger_error_than_planned(self) -> None:
        _, stage = self.plan()
        assert self.released(np.zeros(SIZE), [], replace(stage.final, distance=2 * stage.final.distance)) is None

    @pytest.mark.parametrize("family", FAMILIES, ids=repr)
    def test_hostile_rows_release_as_others_do(self, family: Family) -> None:
        """No row, one row, equal rows: no error, and the same parts are released."""
        exog, endog = array_rows(family)
        # The coefficients of such fits do not get far: eps is small.
        cases = [(exog[:0], endog[:0]), (exog[:1], endog[:1]), (np.zeros_like(exog), endog), (exog, endog)]
        options = Options(inference=stated(family))  # type: ignore[arg-type]
        spec = FitSpec(DESIGN, family, None, np.ones(SIZE), options)
        stages = plan_stages(spec, 1.0, 0.0)
        for case in cases:
            fitted = release_stages(stages, spec, [case], random_source(1))
            assert fitted.information is not None
            assert np.isfinite(fitted.information.matrix).all()


class TestRefit:
    def test_without_the_intercept_the_weights_are_bought(self) -> None:
        """A penalised intercept may be put out: the refit's dispersion then needs the sum of weights."""
        data = rows(4000, Gaussian(), seed=2)
        data["y"] = 2 * data["w"]
        result = dp.glm("y ~ w + x", data, 8.0, domain=domain_of(Gaussian()), penalty="lasso", alpha=150.0, seed=1,
                        refit_share=0.5, inference=True, penalty_weights={"Intercept": 1.0},
                        check_share=0, response="declared")  # fmt: skip
        assert result.params["Intercept"] == 0
        assert result.params["w"] != 0
        stage = result.plan.stages[-1].plan
        assert stage.information is not None
        assert stage.information.purchase.weights_eps > 0
        assert sum(plan.cost for _, plan in result.plan.stages) == pytest.approx(8.0)
        assert charged_loss(stage) <= (stage.eps + stage.information.eps) * (1 + 1e-9)
        assert result.released is not None
        assert result.released.columns == tuple(np.flatnonzero(result.scaled_params))

    def test_nothing_selected_releases_no_information(self) -> None:
        fitted = carried_out(Binomial(), Options(refit_share=0.5), Lasso(1e4))
        assert not fitted.params.any()
        assert fitted.information is None

    def test_ridge_is_part_of_the_curvature(self) -> None:
        """Whatever the strength of the ridge, its curvature is there and the price is kept."""
        for strength in (0.1, 5.0, 500.0):
            spec = FitSpec(DESIGN, Binomial(), Ridge(strength), np.ones(SIZE), Options(inference=True))
            stage = plan_stages(spec, 1.0, 0.0)[0].plan
            assert np.all(stage.curvature >= strength)
            assert stage.information is not None
            assert charged_loss(stage) <= (stage.eps + stage.information.eps) * (1 + 1e-12)

    def test_a_ridge_keeps_its_strength(self) -> None:
        """Room for free information is made in the default curvature, not in what was asked for."""
        for strength in (8.0, 20.0, 200.0):
            stage = stage_of(Binomial(), 1.0, penalty="ridge", alpha=strength)
            assert stage.information is not None
            np.testing.assert_array_equal(stage.curvature[1:], strength)
            assert stage.curvature[0] < strength
            assert charged_loss(stage) <= (stage.eps + stage.information.eps) * (1 + 1e-12)


class TestDispersion:
    def test_a_name_does_not_make_a_column_constant(self) -> None:
        named = ArrayDesign(("Intercept", "b"), array_norms(1.0, 2))
        assert constant_column(named) is None
        design = dp.plan("y ~ 0 + g + x", domain_of(Gaussian()), 1.0).design
        assert constant_column(design) is None

    def test_the_intercept_is_the_constant_column(self) -> None:
        plan = dp.plan("y ~ x + z + g", domain_of(Gaussian()), 1.0)
        exog, _ = plan.design.exog(rows(50, Gaussian()))  # type: ignore[attr-defined]
        found = constant_column(plan.design)
        assert found is not None
        np.testing.assert_allclose(exog[:, found[0]], found[1], rtol=1e-12)
        kept = np.array([1, 2])
        assert constant_column(SubDesign(plan.design, kept)) is None
        assert constant_column(SubDesign(plan.design, np.array([0, 2]))) == found

    @pytest.mark.parametrize("formula", ["y ~ x + z + g", "y ~ 0 + x + z + g", "y ~ 0 + x + z", "y ~ x"])
    def test_it_is_the_mean_square_of_the_scores(self, formula: str) -> None:
        """Within four of its stated deviations of the exact quotient at the released coefficients: 6e-5 a case."""
        data = rows(5000, Gaussian(), seed=5)
        data["y"] = data["x"] + np.random.default_rng(5).normal(0, 0.7, len(data))
        result = dp.glm(formula, data, 10.0, domain=domain_of(Gaussian()), inference=True, seed=3, method="napp")
        assert result.released is not None
        spread: Any = result.released.spread
        assert spread.deviation < 0.2 * spread.phi
        residuals = (data["y"] - result.predict(data)) / result.plan.design.response_scaling()[1]
        cap = result.plan.family.lipschitz
        exact = float(np.sum(np.clip(residuals, -cap, cap) ** 2) / np.sum(np.abs(residuals) < cap))
        assert abs(spread.phi - exact) <= 4 * spread.deviation + 1e-6


class TestRobust:
    """What the robust variances are bought with."""

    def test_the_purchase_is_that_of_the_plan(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """A factor of two in eps, L or the adjacency, here or in what is stated of the noise, is seen."""
        asked: dict[str, Any] = {}

        def bought(blocks: Any, **arguments: Any) -> np.ndarray:
            asked.update(arguments)
            return np.ones(len(arguments["contrasts"]))

        monkeypatch.setattr(mechanism, "noisy_spread", bought)
        family = Binomial()
        data = rows(4000, family)
        for adjacency, records in (("add_remove", 1), ("replace_one", 2)):
            fit = dp.glm(
                "y ~ x + z", data, 5.0, domain=domain_of(family), family=family, adjacency=adjacency,
                inference="robust", seed=1,
            )  # fmt: skip
            stage = fit.plan.stages[-1].plan
            assert stage.information is not None
            assert fit.released is not None
            noise = stage.information.noise
            assert asked["eps"] == stage.information.purchase.spread_eps
            assert asked["lipschitz"] == stage.family.lipschitz
            assert asked["adjacency"] == adjacency
            assert asked["mixing"] == noise.mixing
            assert asked["diagonal"].tolist() == list(noise.diagonal)
            own = np.sum(asked["contrasts"] @ asked["inverse"] * asked["contrasts"], axis=1)
            bound = spread_bound(
                asked["inverse"], asked["diagonal"], asked["contrasts"], asked["mixing"], asked["allowances"]
            )
            scale = records * stage.family.lipschitz**2 * bound * asked["allowances"] * own / asked["eps"]
            assert fit.released.spread.deviations == pytest.approx(np.sqrt(2) * scale)

    def test_sums_are_bought_with_their_shares(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Of squared scores, of weights and of the cover: each its own bound and eps, each once."""
        seen: list[tuple[float, float]] = []
        covered: list[tuple[float, float]] = []
        whole = mechanism.noisy_information

        def bought(values: Any, bound: float, *, eps: float, random: Any, total: int) -> float:
            seen.append((bound, eps))
            return 100.0

        def matrix(blocks: Any, noise: Any, *, weight_bound: float, cover_eps: float, **others: Any) -> np.ndarray:
            covered.append((weight_bound, cover_eps))
            return whole(blocks, noise, weight_bound=weight_bound, cover_eps=cover_eps, **others)

        monkeypatch.setattr(mechanism, "noisy_sum", bought)
        monkeypatch.setattr(mechanism, "noisy_information", matrix)
        law = Poisson(2.0, 4.0)
        fit = dp.glm("y ~ 0 + x + z", rows(500, law), 2.0, domain=domain_of(law), family=law, inference=True, seed=1)
        stage = fit.plan.stages[-1].plan
        assert stage.information is not None
        purchase, family = stage.information.purchase, stage.family
        assert seen == [(family.lipschitz**2, purchase.spread_eps), (family.curvature_bound, purchase.weights_eps)]
        assert covered == [(family.curvature_bound, purchase.cover_eps)]
        assert min(purchase.weights_eps, purchase.spread_eps, purchase.cover_eps) > 0

    def test_a_matrix_that_cannot_be_inverted_loses_nothing(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """The coefficients are released by then: variances are missing, and that is all."""

        def singular(*_: object) -> object:
            raise np.linalg.LinAlgError("singular")

        monkeypatch.setattr(mechanism, "known_information", singular)
        fit = dp.glm(
            "y ~ x + z",
            rows(500, Binomial()),
            2.0,
            domain=domain_of(Binomial()),
            family="binomial",
            inference="robust",
            seed=1,
        )
        assert np.isfinite(fit.params).all()
        assert fit.released is not None
        assert np.isnan(fit.released.spread.variances).all()


class TestOnePass:
    """What rows add to every sum does not depend on the rows beside them, to the last bit."""

    FAMILIES = (Binomial(), Poisson(2.0, 4.0), Gaussian(0.5), NegativeBinomial(0.5, 4.0), SmoothSVM(0.2))

    @staticmethod
    def block(family: Family, count: int) -> Block:
        random = np.random.default_rng(11)
        exog, endog = array_rows(family, count)
        return Block(4 * exog, endog, random.random(count), random.uniform(-1, 1, count))

    @staticmethod
    def plan(kind: Any, family: Family) -> InformationPlan:
        design = ArrayDesign(("a", "b", "c"), array_norms({"l2": 4.0}, SIZE))
        options = Options(inference=kind)
        stages = plan_stages(FitSpec(design, family, None, np.ones(SIZE), options), 4.0, 0.0)
        plan = stages[-1].plan.information
        assert plan is not None
        return plan

    @pytest.mark.parametrize("capped", [False, True])
    @pytest.mark.parametrize("family", FAMILIES, ids=repr)
    def test_bends_and_slopes_are_functions_of_a_row(self, family: Family, capped: bool) -> None:
        block, params = self.block(family, 157), np.array([0.7, -0.4, 0.2])
        cap = family.curvature_bound / 10 if capped else None
        whole = mechanism._bends_and_slopes(family, params, block, cap, slopes=True)
        alone = mechanism._bends_and_slopes(family, params, block, cap, slopes=False)[0]
        assert np.array_equal(whole[0], alone)
        assert cap is None or alone.max() <= cap
        for start, stop in ((0, 1), (3, 4), (1, 156), (13, 90), (156, 157)):
            part = next(mechanism.pieces_by_columns(0, [block.part(slice(start, stop))]))
            both = mechanism._bends_and_slopes(family, params, part, cap, slopes=True)
            for found, right in zip(both, whole, strict=True):
                assert found is not None
                assert right is not None
                assert np.array_equal(found, right[start:stop])
            apart = mechanism._bends_and_slopes(family, params, part, cap, slopes=False)[0]
            assert np.array_equal(apart, alone[start:stop])

    @pytest.mark.parametrize("kind", ["model", "robust"])
    @pytest.mark.parametrize("family", FAMILIES, ids=repr)
    def test_sums_are_the_same_in_any_blocks(self, family: Family, kind: str) -> None:
        if kind == "model" and isinstance(family, SmoothSVM):
            pytest.skip("a support vector machine has robust errors only")
        block, params, plan = self.block(family, 150), np.array([0.7, -0.4, 0.2]), self.plan(kind, family)
        whole = mechanism._exact_sums(plan, family, params, [block])
        cuts = [slice(0, 1), slice(1, 66), slice(66, 67), slice(67, 150)]
        apart = mechanism._exact_sums(plan, family, params, [block.part(cut) for cut in cuts])
        added = mechanism._exact_sums(plan, family, params, [])
        for cut in reversed(cuts):
            added = added.plus(mechanism._exact_sums(plan, family, params, [block.part(cut)]))
        assert (whole.matrices == apart.matrices).all()
        assert (whole.matrices == added.matrices).all()
        assert whole.numbers == apart.numbers == added.numbers
        assert len(whole.numbers) == (0 if plan.purchase.spread in ("robust", "known") else 2)

    @pytest.mark.parametrize("kind", ["model", "robust"])
    def test_what_is_summed_is_what_is_stated(self, kind: str) -> None:
        """The matrices and the numbers against plain sums at float precision."""
        family = Gaussian(0.5)
        block, params, plan = self.block(family, 5000), np.array([0.7, -0.4, 0.2]), self.plan(kind, family)
        found = mechanism._exact_sums(plan, family, params, [block])
        assert block.weights is not None
        assert block.offset is not None
        derivatives = family.derivatives(block.exog @ params + block.offset, block.endog)
        bends, squares = block.weights * derivatives.curvature, (block.weights * derivatives.gradient) ** 2
        root = np.sqrt(np.array(plan.noise.diagonal))
        for matrix, weights, bound in zip(found.matrices, (bends, squares), (1.0, 0.25), strict=False):
            right = (block.exog * weights[:, None]).T @ block.exog
            scaled = matrix.astype(np.float64) * bound * 4.0**-PLACES * np.outer(root, root)
            np.testing.assert_allclose(scaled, right, atol=5000 * bound * root.max() ** 2 * 2.0**-PLACES)
        for number, weights, bound in zip(found.numbers, (squares, bends), (0.25, 1.0), strict=False):
            assert number * bound * 2.0**-30 == pytest.approx(weights.sum(), abs=5000 * bound * 2.0**-30)
        assert (len(found.matrices), len(found.numbers)) == ((2, 0) if kind == "robust" else (1, 2))
