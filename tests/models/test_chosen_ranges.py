"""Narrower ranges of columns that a screen chose, bought by the rows of their fit (docs/proofs/trimming, 7)."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest

import dpstats as dp
from dpstats.cli.models import fit_facts
from dpstats.data import Block, Rows
from dpstats.data.passes import row_count
from dpstats.families import Binomial
from dpstats.formula.design import DesignSpec, design_spec
from dpstats.mechanisms import narrowing, screening
from dpstats.mechanisms.narrowing import in_design

NUMBERS = [f"x{at}" for at in range(20)]
FORMULA = f"y ~ {' + '.join(NUMBERS)} + calls + g"
DOMAIN: dict[str, Any] = {**dict.fromkeys(NUMBERS, (0, 100)), "calls": (0, 20), "g": list("abc"), "y": (0, 1)}
SCREEN: dict[str, Any] = {"screen": 5, "split": "rows", "inference": True}


def frame(rows: int = 25_000, seed: int = 0) -> pd.DataFrame:
    random = np.random.default_rng(seed)
    data = pd.DataFrame(random.normal(50, 12, (rows, len(NUMBERS))).clip(0, 100), columns=NUMBERS)
    data["calls"] = np.minimum(random.poisson(random.gamma(1.2, 1.2, rows)), 20)
    data["g"] = random.choice(list("abc"), rows)
    eta = 0.05 * (data["x3"] - 50) - 0.06 * (data["x7"] - 50) + 0.5 * data["calls"] - 0.7 + 0.8 * (data["g"] == "b")
    data["y"] = (random.random(rows) < 1 / (1 + np.exp(-eta))).astype(int)
    return data


def fitted(data: pd.DataFrame | None = None, **options: Any) -> Any:
    data = frame() if data is None else data
    return dp.logit(FORMULA, data, domain=DOMAIN, **{"eps": 1.0, "seed": 1, **SCREEN, **options})


@pytest.mark.slow
def test_active_columns_are_seen_once_the_range_that_hides_them_is_narrower() -> None:
    """Six fits with fixed seeds, 18 active coefficients: at most 13 and at least 17 are seen, and few rows are lost."""
    found, declared = [], []
    for seed in range(6):
        data = frame(seed=seed)
        for fits, ranges in ((found, None), (declared, "declared")):
            fits.append(fitted(data, seed=seed, ranges=ranges))
    seen, before = (
        sum(int((one.pvalues[["x3", "x7", "calls"]] < 0.003).sum()) for one in fits) for fits in (found, declared)
    )
    assert before <= 13
    assert seen >= 17
    narrow = [one.plan.design.domain["calls"].interval for one in found]
    assert sum(ends[1] <= 10 for ends in narrow) >= 5
    for seed, (low, high) in enumerate(narrow):
        assert frame(seed=seed)["calls"].between(low, high).mean() > 0.97
    assert not any(one.plan.screening.narrowed for one in declared)


def test_what_is_bought_is_shown_stored_and_paid_by_the_rows_of_the_fit() -> None:
    found = fitted()
    plan = found.plan
    assert plan.screening.narrowed == ("calls",)
    shown = " ".join(found.summary().as_text().split())
    assert "other rows, which are fitted: narrower ranges 0.1, fit" in shown
    assert "Ranges narrowed: calls." in shown
    assert "outside the bought range of calls (0, 10) are left out" in shown
    facts, kept = fit_facts(found), [name for name in NUMBERS if found.params[name] != 0]
    assert (facts["narrowed_ranges"], facts["no_narrower_range"]) == ({"calls": [0, 10]}, kept)
    own = plan.screening.range_eps + plan.stages[-1].plan.cost
    assert 0.99 < own + plan.counts.eps <= 1 + 1e-9
    assert found.guarantee.eps == 1.0
    again = dp.GLMResults.from_dict(found.to_dict())
    assert again.summary().as_text() == found.summary().as_text()
    pd.testing.assert_series_equal(again.predict(frame(50)), found.predict(frame(50)))


def test_where_no_chosen_column_has_a_range_that_a_fit_narrows_the_summary_says_so() -> None:
    """The price is fixed before the choice; where no candidate has such a range nothing is set aside."""
    known: dict[str, Any] = {**DOMAIN, **dict.fromkeys(NUMBERS, dp.Range(0, 100, typical=(50, 12)))}
    wide = {**known, **dict.fromkeys(NUMBERS[8:], (0, 100))}
    formula = f"y ~ {' + '.join(NUMBERS)} + g"
    found = dp.logit(formula, frame(), 1.0, domain=wide, seed=1, **{**SCREEN, "screen": 2})
    assert {*NUMBERS[8:]} <= {*found.left_out}
    assert found.plan.screening.range_eps > 0
    assert "No chosen column has a range that a fit narrows" in " ".join(str(found.summary()).split())
    without = dp.logit(formula, frame(), 1.0, domain=known, seed=1, **SCREEN)
    assert without.plan.screening.range_eps == 0
    assert "narrow" not in " ".join(str(without.summary()).split()).partition("Budget:")[2]


@pytest.mark.parametrize(
    "options",
    [
        {"ranges": "declared"},
        {"eps": 0.5},
        {"split": None},
        {"inference": None},
        {"check_share": 0},
        {"adjacency": "replace_one"},
    ],
)
def test_who_declares_and_few_rows_buy_none(options: dict[str, Any]) -> None:
    plan = fitted(**options).plan
    assert plan.screening.range_eps == 0
    assert plan.screening.narrowed == ()


def test_typical_values_of_all_numbers_leave_nothing_to_buy() -> None:
    known = {name: dp.Range(0, 100, typical=(50, 30)) for name in NUMBERS} | {
        "calls": dp.Range(0, 20, typical=(1.4, 2))
    }
    plan = dp.plan(FORMULA, {**DOMAIN, **known}, 1.0, family="binomial", n=25_000, **SCREEN)
    assert "narrower ranges" not in plan.budget.index


def test_a_public_number_of_rows_plans_the_purchase() -> None:
    plan = dp.plan(FORMULA, DOMAIN, 1.0, family="binomial", n=25_000, **SCREEN)
    assert plan.budget["eps"]["narrower ranges"] == pytest.approx(0.1)
    assert plan.budget["eps"]["total"] == 1.0


def test_only_rows_of_the_fit_are_asked_after_the_choice(monkeypatch: pytest.MonkeyPatch) -> None:
    """Half of the rows, those of the fit; each choice costs its part of what is set aside."""
    spent: list[float] = []
    parts: list[Rows[Block]] = []
    honest, divide = narrowing.buy_narrowest, screening.divide

    def noted(counts: Any, *, eps: float, **others: Any) -> Any:
        spent.append(eps)
        assert {int(one.within.sum()) for one in counts} == {row_count(parts[0])}
        return honest(counts, eps=eps, **others)

    def divided(*arguments: Any) -> Any:
        one, other = divide(*arguments)
        parts.append(other)
        return one, other

    monkeypatch.setattr(narrowing, "buy_narrowest", noted)
    monkeypatch.setattr(screening, "divide", divided)
    plan = fitted().plan
    assert spent
    assert sum(spent) <= plan.screening.range_eps * (1 + 1e-9)


def test_rows_move_to_the_design_that_reads_them_so() -> None:
    """The same numbers as rows read with the narrower range, up to rounding, and within the same bounds."""
    data = frame(3000)
    whole = design_spec(FORMULA, DOMAIN, family=Binomial())
    inner = {"calls": dp.Range(0, 20, inner=(0, 5)), "x3": dp.Range(0, 100, inner=(25, 75))}
    narrow = whole.narrowed(inner)
    assert isinstance(narrow, DesignSpec)
    direct = design_spec(FORMULA, {**DOMAIN, **inner}, family=Binomial())
    assert np.array_equal(narrow.scale, direct.scale)
    blocks = [in_design(whole, narrow, block) for block in whole.blocks(data)]
    moved = np.concatenate([block.exog for block in blocks])
    read = np.concatenate([block.exog for block in direct.blocks(data)])
    np.testing.assert_allclose(moved, read, rtol=0, atol=1e-12)
    assert (np.abs(moved) <= np.concatenate([one.maxima for one in narrow.terms])).all()
    with pytest.raises(dp.errors.DomainError, match="would move other columns"):
        design_spec("y ~ x1 + I(x1 ** 2)", DOMAIN, family=Binomial()).narrowed({"x1": dp.Range(0, 100, inner=(25, 75))})


@pytest.mark.parametrize(
    "formula",
    [
        "y ~ x0 + calls + offset(calls)",
        "y ~ x0 + calls + I(calls**2)",
        "y ~ x0 + Q('a b')",
        "y ~ 0 + x0 + calls",
    ],
)
def test_what_something_else_reads_is_not_offered(formula: str) -> None:
    """Another interval would move an offset, a response or another term with it; without an intercept not the scale."""
    domain = {**DOMAIN, "a b": (0, 20)}
    offered = narrowing.narrowable(design_spec(formula, domain, family=Binomial()))
    assert set(offered) == (set() if formula.startswith("y ~ 0") else {"x0"})


def test_rows_outside_are_left_out_where_the_scale_stays() -> None:
    """(0, 20) and (10, 20) have the same scale without an intercept."""
    whole = design_spec("y ~ 0 + calls", DOMAIN, family=Binomial())
    narrow = design_spec("y ~ 0 + calls", {**DOMAIN, "calls": dp.Range(0, 20, inner=(10, 20))}, family=Binomial())
    block = whole.blocks({"calls": [3.0, 12.0, 20.0], "y": [0, 1, 1]})[0]
    np.testing.assert_allclose(in_design(whole, narrow, block).exog[:, 0] * narrow.scale[0], [12.0, 20.0])
