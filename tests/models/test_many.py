"""One budget over several models: what each costs, ranges bought once, one charge."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import dpstats as dp


def frame(rows: int = 3000) -> pd.DataFrame:
    rng = np.random.default_rng(3)
    data = pd.DataFrame({"x": rng.uniform(20, 40, rows), "z": rng.normal(size=rows), "b": rng.integers(0, 2, rows)})
    return data.assign(y=data["x"] + rng.normal(size=rows))


MODELS = {"mean": "y ~ x", "risk": {"formula": "b ~ x + z", "family": "binomial", "penalty": "lasso", "alpha": 1.0}}


def test_shares_add_up_and_ranges_are_bought_once() -> None:
    plans = dp.plan_many(MODELS, {"b": (0, 1)}, 2.0, delta=1e-5, weights=[3, 1], range_share=0.25)
    assert plans.bought == ("y", "x", "z")
    assert plans.range_eps == 0.5
    assert [plans[name].eps for name in MODELS] == pytest.approx([1.125, 0.375])
    assert plans.guarantee.eps == pytest.approx(2.0)
    assert plans.guarantee.eps <= 2.0
    assert plans.guarantee.delta <= 1e-5
    assert all(plan.bought == () for plan in plans.plans.values())
    assert "y, x, z" in str(plans)
    assert max(len(line) for line in str(plans).splitlines()) <= 80


def test_one_charge_pays_for_all(tmp_path: Path) -> None:
    plans = dp.plan_many(MODELS, {"x": (20, 40), "b": (0, 1)}, 30.0)
    with dp.Ledger(tmp_path / "ledger.db", dataset="d", eps=40.0) as ledger:
        fits = plans.fit(frame(), ledger=ledger)
        assert ledger.remaining.eps == pytest.approx(10.0)
        assert len(ledger.entries()) == 1
        with pytest.raises(dp.errors.BudgetExceeded):
            plans.fit(frame(), ledger=ledger)
    assert list(fits) == ["mean", "risk"]
    assert fits["mean"].params["x"] == pytest.approx(1, abs=0.5)
    assert fits["mean"].plan.design.domain["y"] is not None  # type: ignore[attr-defined]
    assert fits["risk"].guarantee.certified


def test_the_summary_says_which_models_have_errors_and_what_to_type() -> None:
    """Linear models had none by default, of millions of rows too, and no word said so."""
    domain = {"x": (20, 40), "z": (-3, 3), "y": (0, 60), "b": (0, 1)}
    models = {
        "open": "y ~ x",
        "asked": {"formula": "y ~ x", "inference": True},
        "free": {"formula": "b ~ x", "family": "binomial"},
        "declined": {"formula": "y ~ z", "inference": None},
        "lasso": {"formula": "y ~ x + z", "penalty": "lasso", "alpha": 1.0},
    }
    text = " ".join(str(dp.plan_many(models, domain, 5.0).summary()).split())
    for name, errors in {"open": "no", "asked": "yes", "free": "perhaps", "declined": "no", "lasso": "no"}.items():
        assert f"{name} 1 0 {errors} " in text
    assert "open: no standard errors." in text
    assert 'Pass n=, a public guess at the number of rows. To pay for them in any case, write {"formula":' in text
    assert "lasso: no standard errors. inference=True is not offered" in text
    assert "free: standard errors cost nothing extra" in text
    assert "declined:" not in text
    assert "open 1 0 yes " in " ".join(str(dp.plan_many(models, domain, 5.0, n=10**6)).split())
    few = " ".join(str(dp.plan_many(models, domain, 5.0, n=30)).split())
    assert "open and free: no standard errors, by the number of rows n. To pay" in few


def test_a_public_number_of_rows_decides_as_in_a_single_fit() -> None:
    """The fit planned once more from what was settled already, and left out what the plan buys."""
    data, domain = frame(20_000), {"x": (20, 40), "y": (0, 400)}
    plans = dp.plan_many({"one": "y ~ x", "two": "y ~ 1"}, domain, 2.0, n=20_000)
    fits = plans.fit(data, seed=1)
    single = dp.ols("y ~ x", data, 1.0, domain=domain, n=20_000, seed=1, ranges="declared")
    assert list(plans["one"].budget.index) == list(fits["one"].budget.index) == list(single.budget.index)
    assert "response" in fits["one"].budget.index
    assert fits["one"].bse.to_numpy() == pytest.approx(single.bse.to_numpy(), rel=0.1)
    bought = dp.plan_many({"one": "y ~ x"}, None, 2.0, n=20_000).fit(data, seed=1)["one"]
    assert bought.has_errors
    assert bought.guarantee.eps == pytest.approx(1.8)


def test_bad_plans_are_refused() -> None:
    for models, arguments, fragment in [
        ({}, {}, "models"),
        ({"a": {"family": "binomial"}}, {}, "formula"),
        ({"a": {"formula": "y ~ x", "eps": 1.0}}, {}, "eps"),
        ({"a": "y ~ x"}, {"weights": [1, 2]}, "weights"),
        ({"a": "y ~ x"}, {"weights": [0]}, "weights"),
        ({"a": "y ~ x"}, {"range_share": 0.0}, "range_share"),
        ({"a": {"formula": "y ~ x", "penaltie": "ridge"}}, {}, "penalty"),
    ]:
        with pytest.raises(dp.errors.DPStatsError, match=fragment):
            dp.plan_many(models, None, 1.0, **arguments)


def test_a_frame_that_does_not_suit_a_model_costs_nothing(tmp_path: Path) -> None:
    plans = dp.plan_many(MODELS, {"b": (0, 1)}, 2.0)
    with dp.Ledger(tmp_path / "ledger.db", dataset="d", eps=4.0) as ledger:
        with pytest.raises(dp.errors.DataError, match="'b'"):
            plans.fit(frame().drop(columns="b"), ledger=ledger)
        assert ledger.remaining.eps == 4.0


def test_bought_ranges_serve_any_number_of_models(tmp_path: Path) -> None:
    with dp.Ledger(tmp_path / "ledger.db", dataset="d", eps=4.0) as ledger:
        bought = dp.buy_ranges(frame(), ["x", "y"], 2.0, domain={"b": (0, 1)}, ledger=ledger)
        assert bought.guarantee.eps == 2.0
        assert "b" in bought.domain
        low, high = bought.domain["x"].low, bought.domain["x"].high
        # The grid of ends is coarse, so they may lie outside the data; far inside has probability below e^-500.
        assert low < 22
        assert high > 38
        for _ in range(2):
            fit = dp.ols("y ~ x", frame(), 0.5, domain=bought.domain, ledger=ledger)
            assert fit.plan.bought == ()
        assert ledger.remaining.eps == pytest.approx(1.0)
        for columns in ([], ["x", "x"], ["b"]):
            with pytest.raises(dp.errors.ArgumentError, match="columns"):
                dp.buy_ranges(frame(), columns, 0.1, domain={"b": (0, 1)}, ledger=ledger)
        assert ledger.remaining.eps == pytest.approx(1.0)


def test_budget_is_not_returned_before_ranges_are_known() -> None:
    """What is left over follows the bought ranges: a charge made before them would be too small (or too large)."""
    data = frame(50)
    for domain, missing in (({"x": (20, 40)}, "y"), (None, "x")):
        with pytest.raises(dp.errors.ArgumentError, match=f"retrieval.*{missing}"):
            dp.ols("y ~ x", data, 1.0, domain=domain, retrieval="return")
        with pytest.raises(dp.errors.ArgumentError, match=f"retrieval.*{missing}"):
            dp.plan_many({"one": {"formula": "y ~ x", "retrieval": "return"}}, domain, 1.0)
    assert dp.plan("y ~ x", {"x": (20, 40), "y": (0, 60)}, 1.0, retrieval="return", curvature=50.0).eps < 1.0


def test_text_in_a_column_to_be_bought_is_refused_before_the_charge(tmp_path: Path) -> None:
    data = frame(50).assign(x=["1"] * 49 + ["CANARY"])
    with dp.Ledger(tmp_path / "ledger.db", dataset="d", eps=40.0) as ledger:
        with pytest.raises(dp.errors.DomainError, match="'x' is not numeric") as caught:
            dp.plan_many(MODELS, {"b": (0, 1)}, 30.0).fit(data, ledger=ledger)
        assert "CANARY" not in str(caught.value)
        assert len(ledger.entries()) == 0


def test_numbers_too_large_for_a_double_buy_a_range_without_a_warning() -> None:
    huge = pd.DataFrame({"x": np.array(["1", "1e4000"], dtype=np.longdouble)})
    bought = dp.buy_ranges(huge, ["x"], 1.0).domain["x"]
    assert bought.low < bought.high  # type: ignore[union-attr]
