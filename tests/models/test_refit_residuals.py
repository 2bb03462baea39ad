"""The cap of a fit of chosen columns: by residuals about a rough fit, which its own rows pay for."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from planted_residuals import clean_counts

import dpstats as dp
from dpstats.data import Block, Rows, block_rows
from dpstats.families import Gaussian
from dpstats.formula.design import design_spec
from dpstats.mechanisms import residuals, screening
from dpstats.mechanisms.calibration import NoiseBudget
from dpstats.mechanisms.options import Options
from dpstats.mechanisms.residuals import suited_family
from dpstats.mechanisms.spec import CapPurchase, FitSpec
from dpstats.models import sources
from dpstats.plan import Plan

COLUMNS = [f"x{at}" for at in range(12)]
MODEL = f"y ~ {' + '.join(COLUMNS)}"
WIDE: dict[str, Any] = {**dict.fromkeys(COLUMNS, (-1, 1)), "y": (-50, 50)}
ROWS = 24_000
SCREEN: dict[str, Any] = {"screen": 4, "split": "rows", "inference": True}
LASSO: dict[str, Any] = {"penalty": "lasso", "alpha": "auto", "refit_share": 0.5, "split": "rows"}
LASSO |= {"inference": True}
CHOICES = pytest.mark.parametrize("choice", [SCREEN, LASSO], ids=["screen", "lasso"])


def frame(rows: int = ROWS, seed: int = 0) -> pd.DataFrame:
    random = np.random.default_rng(seed)
    data = pd.DataFrame(random.uniform(-1, 1, (rows, len(COLUMNS))), columns=COLUMNS)
    data["y"] = 4 * data["x1"] - 3 * data["x4"] + 3 * data["x9"] + random.standard_normal(rows)
    return data


def fitted(choice: dict[str, Any], data: pd.DataFrame | None = None, **options: Any) -> Any:
    return dp.ols(MODEL, frame() if data is None else data, domain=WIDE, **{"eps": 1.0, "seed": 1, **choice, **options})


@CHOICES
def test_the_cap_fits_the_residuals_and_errors_shrink(choice: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    found = fitted(choice)
    cap = found.plan.family.residual_cap * found.plan.design.response_scaling()[1]
    assert 3 < cap < 6  # of residuals with a standard deviation of 1
    shown = " ".join(found.summary().as_text().split())
    assert "residual spread" in shown
    assert f"capped at {cap:.4g}" in shown
    assert "sums with a cap" not in shown
    again = dp.GLMResults.from_dict(found.to_dict())
    pd.testing.assert_frame_equal(again.conf_int(), found.conf_int())
    assert again.plan.digest() == found.plan.digest()
    monkeypatch.setattr("dpstats.models.sources.with_refit_residuals", lambda plan, rows: plan)
    wide = fitted(choice)
    assert wide.plan.residuals is None
    both = np.isfinite(found.bse) & np.isfinite(wide.bse)
    assert both.sum() >= 3
    assert (found.bse[both] < wide.bse[both]).all()


@CHOICES
@pytest.mark.parametrize(
    "options",
    [
        {"residual_cap": 4.0},
        {"response": "declared"},
        {"check_share": 0},
        {"eps": 0.3},
        {"inference": None},
    ],
)
def test_who_insists_and_few_rows_buy_no_residuals(choice: dict[str, Any], options: dict[str, Any]) -> None:
    assert fitted(choice, **options).plan.residuals is None


def test_rows_that_count_apart_buy_no_residuals() -> None:
    data = frame().assign(w=1.0, o=0.0)
    for given in ({"weights": "w"}, {"offset": "o"}):
        found = dp.ols(MODEL, data, 1.0, domain={**WIDE, "w": (0, 1), "o": (-1, 1)}, seed=1, **SCREEN, **given)
        assert found.plan.residuals is None


@CHOICES
@pytest.mark.parametrize("delta", [0.0, 1e-6])
@pytest.mark.parametrize("adjacency", ["add_remove", "replace_one"])
def test_the_rough_fit_and_the_histogram_cost_what_is_set_aside(
    delta: float, adjacency: str, choice: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    spent: list[float] = []
    honest_plan, honest_counts = residuals.plan_objective, residuals.buy_residual_counts

    def noted_plan(*arguments: Any) -> Any:
        first = honest_plan(*arguments)
        assert first.delta == 0
        spent.append(first.cost)
        return first

    def noted_counts(*arguments: Any, eps: float, **others: Any) -> Any:
        spent.append(eps)
        assert others["adjacency"] == adjacency
        return honest_counts(*arguments, eps=eps, **others)

    monkeypatch.setattr(residuals, "plan_objective", noted_plan)
    monkeypatch.setattr(residuals, "buy_residual_counts", noted_counts)
    found = fitted(choice, delta=delta, adjacency=adjacency)
    plan = found.plan
    assert len(spent) == 2
    assert sum(spent) <= plan.residuals.eps * (1 + 1e-9)
    # The rows of the last fit pay for both and for the fit; all rows for the counts and the interval.
    own = plan.residuals.eps + plan.stages[-1].plan.cost
    own += 0.0 if plan.screening is None else plan.screening.range_eps
    assert own + plan.counts.eps + plan.response.eps <= 1 + 1e-9
    assert own + plan.counts.eps + plan.response.eps > 0.99
    assert found.guarantee.eps == 1.0
    assert found.guarantee.delta <= delta


@CHOICES
def test_the_rows_of_the_last_fit_pay_alone(choice: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """The histogram has about half of the rows, and with screening none of those that have chosen: exact there."""
    read: dict[str, int] = {}
    honest_counts, honest_choice = residuals.buy_residual_counts, screening.release_screening

    def noted_counts(values: Rows[Any], *arguments: Any, **others: Any) -> Any:
        read["fit"] = values.total(lambda parts: sum(len(part) for part in parts), int.__add__)
        return honest_counts(values, *arguments, **others)

    def noted_choice(plan: Any, spec: Any, rows: Rows[Block], random: Any) -> Any:
        read["choice"] = rows.total(lambda blocks: sum(len(block.endog) for block in blocks), int.__add__)
        return honest_choice(plan, spec, rows, random)

    monkeypatch.setattr(residuals, "buy_residual_counts", noted_counts)
    monkeypatch.setattr(screening, "release_screening", noted_choice)
    fitted(choice)
    assert read["fit"] == pytest.approx(ROWS / 2, abs=5 * np.sqrt(ROWS) / 2)
    assert read.get("choice", ROWS - read["fit"]) + read["fit"] == ROWS


@CHOICES
def test_a_planted_purchase_beside_the_whole_fit_is_not_released(
    choice: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The purchase costs more than its fit has set aside."""
    honest = sources.with_refit_residuals

    def dearer(plan: Plan, rows: float) -> Plan:
        plan = honest(plan, rows)
        assert plan.residuals is not None
        return replace(plan, residuals=replace(plan.residuals, eps=1.1 * plan.residuals.eps))

    monkeypatch.setattr(sources, "with_refit_residuals", dearer)
    with pytest.raises(dp.errors.ReleaseError, match="nothing was released"):
        fitted(choice)


@CHOICES
@pytest.mark.parametrize("adjacency", ["add_remove", "replace_one"])
@pytest.mark.parametrize("given", [{}, {"delta": 0.01}, {"eps": 0.2}])
def test_a_plan_with_public_rows_costs_what_the_fit_does(
    given: dict[str, Any], adjacency: str, choice: dict[str, Any], tmp_path: Path
) -> None:
    settings = {"eps": 1.0, "n": ROWS, "adjacency": adjacency, **choice, **given}
    plan = dp.plan(MODEL, WIDE, **settings)
    ledger = dp.Ledger(tmp_path / "rows.ledger", dataset="rows", eps=1.0, delta=0.1, adjacency=adjacency)
    found = dp.ols(MODEL, frame(), domain=WIDE, ledger=ledger, **settings)
    assert found.guarantee == plan.guarantee
    assert ledger.entries().iloc[-1]["eps"] == settings["eps"]
    bought = "eps" not in given
    assert ("residual spread" in plan.budget.index) == ("residual spread" in found.budget.index) == bought
    if bought:
        pd.testing.assert_series_equal(plan.budget.loc["residual spread"], found.budget.loc["residual spread"])
    assert ("how far residuals about it reach" in " ".join(str(plan.summary()).split())) == bought
    assert plan.at(0.5).at(settings["eps"]).digest() == plan.digest()


DESIGN = design_spec("y ~ x1 + x4", WIDE, family=Gaussian())
SPEC = FitSpec(
    DESIGN, Gaussian(0.4), None, np.zeros(3), Options(), cap=CapPurchase(first_eps=0.5, tails_eps=0.4, one_tail=False)
)


def caps_of_one_release(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """What two data sets get by one plan if their rough fit and histogram come out alike.

    Both are what has been released of the first one, and the second has residuals three times as large: whatever
    differs follows from rows. No false alarm, for one release serves both.
    """
    released: list[Any] = []
    honest_counts, honest_plan = residuals.buy_residual_counts, residuals.plan_objective

    class First:
        def coefficients(self, *_: Any) -> np.ndarray[Any, Any]:
            return np.array([0.0, 0.08, -0.06])

    def counts(*arguments: Any, **others: Any) -> Any:
        released.append(honest_counts(*arguments, **others))
        return released[0]

    def first(design: Any, family: Any, budget: NoiseBudget) -> First:
        assert honest_plan(design, family, budget).cost == pytest.approx(0.5)
        return First()

    monkeypatch.setattr(residuals, "buy_residual_counts", counts)
    monkeypatch.setattr(residuals, "plan_objective", first)
    data, caps = frame(6_000), []
    wide = data.assign(y=data["y"] + 3 * np.random.default_rng(5).standard_normal(len(data)))
    for rows in (data, wide):
        blocks = block_rows([Block(*block[:2]) for block in DESIGN.blocks(rows)])
        family = suited_family(SPEC, 1.0, blocks, np.random.default_rng(1))
        assert isinstance(family, Gaussian)
        assert family.residual_cap is not None
        caps.append(family.residual_cap)
    return caps


def test_the_cap_follows_from_what_is_released(monkeypatch: pytest.MonkeyPatch) -> None:
    one, other = caps_of_one_release(monkeypatch)
    assert one == other < 0.4


def test_a_planted_clean_histogram_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """The cap by the counts before their noise."""
    clean_counts(monkeypatch, residuals)
    one, other = caps_of_one_release(monkeypatch)
    assert one != other


def test_one_tail_keeps_the_wide_cap() -> None:
    """Residuals of an exponential response have one tail: a narrow cap would bend the slopes."""
    data = frame()
    data["y"] += 2 * np.random.default_rng(3).exponential(size=len(data)) ** 1.5
    found = fitted(SCREEN, data, eps=3.0)
    assert found.plan.residuals is not None
    assert found.plan.family.residual_cap >= 0.9


@pytest.mark.slow
def test_intervals_of_the_chosen_model_cover() -> None:
    """50 fits of 4 columns of new rows: .95 less 3 standard errors of 200 such intervals is .904."""
    covered: list[bool] = []
    for seed in range(50):
        data = frame(seed=seed)
        found = fitted(SCREEN, data, seed=seed)
        assert found.plan.residuals is not None
        chosen = [name for name in COLUMNS if found.params[name] != 0]
        truth = pd.Series({"x1": 4.0, "x4": -3.0, "x9": 3.0}).reindex(chosen).fillna(0.0)
        ends = found.conf_int().loc[chosen].to_numpy()
        covered += ((ends[:, 0] <= truth) & (truth <= ends[:, 1])).tolist()
    assert np.mean(covered) > 0.904
