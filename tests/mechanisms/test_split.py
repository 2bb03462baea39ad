"""Rows divided by draws: what is charged, who reads which rows, and what inference after a choice gains by it.

Seeds are fixed. The comparison of coverages has a false-alarm rate below 1e-4.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import dpstats as dp
from dpstats.data import Block, Rows, block_rows, divide
from dpstats.errors import ArgumentError
from dpstats.mechanisms import napp
from dpstats.mechanisms.napp import plan_stages
from dpstats.mechanisms.objective import ObjectivePlan
from dpstats.plan import paid_apart
from dpstats.plan.methods import INTERVAL_CAP, WORKING_CAP, fit_spec
from dpstats.privacy.randomness import SystemRandom, secret_key
from dpstats.results import standard_errors

COLUMNS = [f"x{j}" for j in range(12)]
DOMAIN = {**dict.fromkeys(COLUMNS, (-1, 1)), "y": (-3, 3), "b": [0, 1]}
FORMULA = "y ~ " + " + ".join(COLUMNS)
LASSO = {"penalty": "lasso", "alpha": 1.0, "selection": "noise_aware", "refit_share": 0.5, "split": "rows"}


def frame(rows: int = 2000, seed: int = 1) -> pd.DataFrame:
    random = np.random.default_rng(seed)
    data = pd.DataFrame(random.uniform(-1, 1, (rows, len(COLUMNS))), columns=COLUMNS)
    data["y"] = data["x0"] + random.normal(0, 0.5, rows)
    data["b"] = (random.random(rows) < 1 / (1 + np.exp(-2 * data["x0"]))).astype(int)
    return data


@pytest.mark.parametrize("adjacency", ["add_remove", "replace_one"])
@pytest.mark.parametrize("options", [LASSO, {"screen": 2, "split": "rows"}], ids=["refit", "screen"])
def test_each_part_has_the_whole_budget_and_the_ledger_is_charged_once(
    options: dict[str, object], adjacency: str, tmp_path: Path
) -> None:
    options = {**options, "check_share": 0}
    with dp.Ledger(tmp_path / "ledger.db", dataset="d", eps=2.0, adjacency=adjacency) as ledger:
        fit = dp.glm(FORMULA, frame(), 2.0, domain=DOMAIN, adjacency=adjacency, ledger=ledger, **options)
        assert ledger.entries()["eps"].tolist() == [2.0]
    assert fit.guarantee.eps == 2.0
    if fit.plan.screening is not None:
        assert fit.plan.screening.eps == pytest.approx(2.0)
        assert fit.plan.screening.fit_eps == pytest.approx(2.0)
    for part in paid_apart(fit.plan.stages, fit.plan.request.options):
        assert sum(stage.cost for _, stage in part) == pytest.approx(2.0, rel=1e-9)
    together = dp.plan(FORMULA, DOMAIN, 2.0, adjacency=adjacency, **{**options, "split": None})
    assert fit.plan.stages[-1].plan.noise.scale < together.stages[-1].plan.noise.scale


def test_delta_counts_once() -> None:
    plan = dp.plan(FORMULA, DOMAIN, 1.0, delta=1e-6, noise="gaussian", **LASSO)
    assert plan.guarantee.delta == 1e-6
    assert all(stage.delta == pytest.approx(1e-6) for _, stage in plan.stages)


def test_every_row_is_in_one_part() -> None:
    """A draw a row: all rows once, about half in each part, no two divisions alike."""
    exog = np.arange(4000.0).reshape(2000, 2)
    blocks = block_rows([(exog[:700], np.arange(700.0)), (exog[700:], np.arange(700.0, 2000.0))])
    found = [[part.collect() for part in divide(blocks, secret_key(SystemRandom()))] for _ in range(2)]
    for first, second in found:
        rows = [np.concatenate([block.endog for block in part]) for part in (first, second)]
        assert sorted(np.concatenate(rows).tolist()) == list(range(2000))
        assert 850 < len(rows[0]) < 1150
        for block in [*first, *second]:
            assert block.exog[:, 0].tolist() == (2 * block.endog).tolist()
    once, again = (first[0].endog for first, _ in found)
    assert not np.array_equal(once, again)


def test_the_refit_reads_no_row_that_chose(monkeypatch: pytest.MonkeyPatch) -> None:
    """Planted: a refit on all rows would be paid for by those of one part only."""
    seen: list[set[float]] = []
    whole = ObjectivePlan.coefficients

    def watched(plan: ObjectivePlan, blocks: Rows[Block], random: object) -> np.ndarray:
        seen.append({float(row[0]) for block in blocks.collect() for row in block.exog})
        return whole(plan, blocks, random)  # type: ignore[arg-type]

    monkeypatch.setattr(ObjectivePlan, "coefficients", watched)
    monkeypatch.setattr(
        napp,
        "divide",
        lambda rows, key: tuple(rows.map(lambda block, at=at: block.part(slice(at, None, 2))) for at in (0, 1)),
    )
    exog = np.column_stack((np.linspace(0.1, 0.5, 600), np.full(600, 0.2)))
    endog = np.random.default_rng(1).integers(0, 2, 600).astype(float)
    model = dp.GLM(endog, exog, "binomial", row_norm=1.0)
    model.fit(5.0, penalty="lasso", alpha=0.001, refit_share=0.5, split="rows", seed=1)
    assert len(seen) == 2
    assert len(seen[0]) == len(seen[1]) == 300
    assert not seen[0] & seen[1]


def test_a_choice_on_other_rows_has_the_cap_of_coefficients_alone() -> None:
    """Each stage is calibrated with its own cap, before and after the interval of the response is bought."""
    automatic = {"penalty": "lasso", "alpha": "auto", "refit_share": 0.5, "split": "rows", "inference": True}
    fit = dp.glm(FORMULA, frame(), 2.0, domain=DOMAIN, **automatic)
    for plan in (dp.plan(FORMULA, DOMAIN, 2.0, **automatic), fit.plan):
        chooses, refits = (stage.plan for stage in plan.stages)
        caps = [stage.family.lipschitz for stage in (chooses, refits)]
        assert caps[0] == WORKING_CAP
        assert caps[1] >= INTERVAL_CAP
        assert plan.family == refits.family
    spec = fit_spec(fit.plan.request, fit.plan.design, fit.plan.family)
    assert spec.choosing == chooses.family
    first, last = plan_stages(spec, 1.0, 0.0)
    assert first.plan.to_dict() == plan_stages(replace(spec, family=chooses.family), 1.0, 0.0)[0].plan.to_dict()
    assert last.plan.to_dict() == plan_stages(replace(spec, choosing=None), 1.0, 0.0)[1].plan.to_dict()
    narrow = dp.plan(FORMULA, DOMAIN, 2.0, family=dp.families.Gaussian(1.0), **automatic)
    together = dp.plan(FORMULA, DOMAIN, 2.0, **{**automatic, "split": None})
    for plan in (narrow, together):
        assert len({stage.plan.family for stage in plan.stages}) == 1


@pytest.mark.slow
def test_inference_after_a_choice() -> None:
    """Of null columns those chosen look large on the rows that chose them, and not on others."""
    random = np.random.default_rng(4)
    options = {**LASSO, "selection": None, "inference": True, "domain": DOMAIN, "response": "declared"}
    strengths = {None: 1.8, "rows": 1.0}
    covered: dict[str | None, list[bool]] = {None: [], "rows": []}
    fits: dict[str | None, dp.GLMResults] = {}
    for _ in range(60):
        data = frame(3000, int(random.integers(2**31)))
        data["y"] = random.normal(0, 0.5, len(data))
        for split, found in covered.items():
            seed = int(random.integers(2**31))
            fit = dp.glm(FORMULA, data, 20.0, **{**options, "split": split, "alpha": strengths[split]}, seed=seed)  # type: ignore[arg-type]
            ends = fit.conf_int().loc[fit.params[fit.params != 0].index].drop("Intercept", errors="ignore")
            found += ((ends[0] <= 0) & (ends[1] >= 0)).tolist()
            fits[split] = fit
    for split, fit in fits.items():
        assert ("Not adjusted for selection" in fit.summary().as_text()) == (split is None)
    same, apart = (np.array(covered[split]) for split in (None, "rows"))
    assert min(len(same), len(apart)) > 30
    assert same.mean() < 0.85
    assert apart.mean() > 0.9


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"split": "rows"}, "screen or refit_share"),
        ({**LASSO, "screen": 2}, "not both"),
        ({**LASSO, "retrieval": "return"}, "parts pay in parallel"),
        ({**LASSO, "split": "row"}, "split must be one of"),
    ],
)
def test_what_cannot_be_divided_is_refused(options: dict[str, object], message: str) -> None:
    with pytest.raises(ArgumentError, match=message):
        dp.plan(FORMULA, DOMAIN, 1.0, **options)  # type: ignore[arg-type]


def lasso_fit(alpha: float) -> dp.GLMResults:
    """A response that x moves and z hardly, with the columns of a lasso fitted to the other half of the rows."""
    rng = np.random.default_rng(4)
    rows = pd.DataFrame({"x": rng.uniform(-1, 1, 4_000), "z": rng.uniform(-1, 1, 4_000)})
    rows["y"] = (rng.random(4_000) < 1 / (1 + np.exp(-2 * rows["x"] - 0.1 * rows["z"]))).astype(int)
    domain = {"x": (-1, 1), "z": (-1, 1), "y": [0, 1]}
    options = {"penalty": "lasso", "refit_share": 0.5, "split": "rows", "inference": True}
    return dp.logit("y ~ x + z", rows, 50.0, domain=domain, alpha=alpha, seed=3, allow_uncertified=True, **options)


def test_an_effect_that_explains_the_choice_of_its_column_has_an_error() -> None:
    fit = lasso_fit(0.5)
    assert np.isfinite(fit.bse).all()
    assert "No error is shown" not in str(fit.summary())


def test_a_column_that_may_stand_for_another_has_no_error_in_the_table(monkeypatch: pytest.MonkeyPatch) -> None:
    fit = lasso_fit(0.5)
    x, z = abs(fit.scaled_params * fit.information.to_numpy().diagonal())[1:] / 0.5
    monkeypatch.setattr(standard_errors, "STAND_IN", float(np.sqrt(x * z)))
    shown = dp.GLMResults.from_dict(fit.to_dict())
    assert np.isinf(shown.bse["z"])
    assert np.isnan(shown.pvalues["z"])
    assert shown.conf_int().loc["z"].tolist() == [-np.inf, np.inf]
    assert shown.bse["x"] == fit.bse["x"]
    assert np.isnan(shown.anova().loc["z", "pvalue"])
    assert "No error is shown for z: an effect this uncertain" in " ".join(str(shown.summary()).split())
    assert np.isfinite(shown.t_test("z").sd).all()
    assert (
        shown.get_prediction({"x": [0.1], "z": [0.2]})
        .summary_frame()
        .equals(fit.get_prediction({"x": [0.1], "z": [0.2]}).summary_frame())
    )


def test_a_lasso_takes_a_residual_cap_of_least_squares_alone() -> None:
    fit = dp.lasso(FORMULA, frame(), 1.0, domain=DOMAIN, residual_cap=1.5)
    assert fit.family == dp.families.Gaussian(1.5)
    for family in ("binomial", dp.families.Gaussian(2.0)):
        with pytest.raises(ArgumentError, match="residual_cap is for family='gaussian'"):
            dp.lasso(FORMULA, frame(), 1.0, domain=DOMAIN, residual_cap=1.5, family=family)
