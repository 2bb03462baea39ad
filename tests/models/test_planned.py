"""A plan that is fitted or simulated later, and rows that do not count."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pandas as pd
import pytest

import dpstats as dp
from dpstats.errors import ArgumentError, FormulaError
from dpstats.formula.design import design_spec

DOMAIN = {"y": (0, 10), "x": (0, 1), "g": ["a", "b"], "b": ["no", "yes"], "c": (0, 40), "t": (0.5, 2)}


def frame(rows: int = 2000) -> pd.DataFrame:
    rng = np.random.default_rng(6)
    data = pd.DataFrame(
        {"x": rng.uniform(size=rows), "g": rng.choice(["a", "b"], rows), "t": rng.uniform(0.5, 2, rows)}
    )
    data["y"] = 2 + 5 * data["x"] * (data["g"] == "a") + rng.uniform(0, 1, rows)
    return data


def test_a_plan_is_fitted_as_the_call_would_have_been(tmp_path: Path) -> None:
    plan = dp.plan("y ~ x + g", DOMAIN, 1.0, weights="t", inference=True, adjacency="replace_one")
    asked = {"domain": DOMAIN, "weights": "t", "inference": True, "adjacency": "replace_one", "seed": 3}
    expected = dp.ols("y ~ x + g", frame(), 1.0, **asked)
    found = plan.fit(frame(), seed=3)
    pd.testing.assert_series_equal(found.params, expected.params)
    assert found.plan.digest() == expected.plan.digest()
    again = pickle.loads(pickle.dumps(plan)).fit(frame(), seed=3)
    pd.testing.assert_series_equal(again.params, expected.params)
    with dp.Ledger(tmp_path / "l", dataset="d", eps=5.0, adjacency="replace_one") as ledger:
        certified = plan.fit(frame(), ledger=ledger, label="planned")
        assert certified.guarantee == plan.guarantee
        assert ledger.entries()["eps"].tolist() == [0.02, 0.98]
    with pytest.raises(ArgumentError, match=r"dp\.plan"):
        found.plan.fit(frame())


@pytest.mark.parametrize(
    ("formula", "arguments"),
    [
        ("y ~ x + g", {"inference": True}),
        ("b ~ x + g", {"family": "binomial"}),
        ("c ~ x", {"family": "poisson", "exposure": "t"}),
        ("b ~ x", {"family": "huber_svm"}),
        ("y ~ x + z", {}),
        ("b ~ x", {"family": "binomial", "unit": "who"}),
    ],
)
def test_a_simulation_is_a_seeded_fit_of_the_plan(formula: str, arguments: dict[str, Any]) -> None:
    plan = dp.plan(formula, DOMAIN, 2.0, **arguments)
    found, same = plan.simulate(1500, seed=1), plan.simulate(1500, seed=1)
    assert not found.guarantee.certified
    assert "NOT CERTIFIED" in str(found)
    pd.testing.assert_series_equal(found.params, same.params)
    assert not found.params.equals(plan.simulate(1500, seed=2).params)
    assert list(found.params.index) == list(plan.names)


def test_more_rows_that_are_made_up_tell_more() -> None:
    plan = dp.plan("y ~ x + g", DOMAIN, 1.0, inference=True)
    assert plan.simulate(20_000, 1).bse["x"] < 0.5 * plan.simulate(500, 1).bse["x"]


@pytest.mark.parametrize("n", [0, -1, 2.5, True, 10**9])
def test_what_cannot_be_simulated_is_refused(n: Any) -> None:
    with pytest.raises(ArgumentError, match="n must be"):
        dp.plan("y ~ x", DOMAIN, 1.0).simulate(n, 1)
    with pytest.raises(ArgumentError, match="one column"):
        dp.plan("log(y + 1) ~ x", DOMAIN, 1.0).simulate(10, 1)


@pytest.mark.slow
def test_a_sample_size_of_a_plan_is_that_of_its_facts() -> None:
    plan = dp.plan("b ~ x + g", DOMAIN, 1.0, family="binomial")
    fit = plan.objective
    found = dp.sample_size(plan, target=0.02)
    expected = dp.sample_size(
        fit.family,
        3,
        eps=fit.planned_eps,
        target=0.02,
        radius=plan.radius,
        row_norm=dict(plan.design.row_norms),  # type: ignore[union-attr]
    )
    assert expected.n in list(found.table["n"])
    assert found.n == found.table["n"].iloc[0]
    assert dp.sample_size(plan, target=0.02, eps=3.0).n < found.n
    with pytest.raises(ArgumentError, match="columns must be given, or a plan"):
        dp.sample_size("binomial", eps=1.0, target=0.1, radius=1.0)
    with pytest.raises(ArgumentError, match="protect rows"):
        dp.sample_size(dp.plan("b ~ x", DOMAIN, 1.0, family="binomial", unit="who"), target=0.1)


class TestSubset:
    @pytest.mark.parametrize(
        ("condition", "terms"),
        [("x > 0.4", "x + g"), ("(x > 0.4) & (g == 'a')", "x"), ("g != 'a'", "x"), ("~(x > 0.4)", "x + g")],
    )
    def test_rows_are_those_of_the_filtered_frame(self, condition: str, terms: str) -> None:
        """A factor of which one level is left has no column."""
        data = frame()
        kept = data[eval(condition, {}, {"x": data["x"], "g": data["g"]})]
        assert 0 < len(kept) < len(data)
        plain = design_spec(f"y ~ {terms}", DOMAIN, family=dp.families.Gaussian())
        spec = design_spec(f"y ~ x + g + subset({condition})", DOMAIN, family=dp.families.Gaussian())
        found = np.concatenate([block.exog for block in spec.blocks(data)])
        expected = np.concatenate([block.exog for block in plain.blocks(kept)])
        np.testing.assert_array_equal(found, expected)
        assert spec.usable(spec_table(data)).sum() == len(kept)
        complete = spec.predicting(data.drop(columns="y"), offset=False)[1]
        left = data["g"].isin(kept["g"])
        np.testing.assert_array_equal(complete, left, "predictions are for any row of a level that the model has")

    def test_a_cell_that_is_missing_in_the_condition_leaves_the_row_out(self) -> None:
        data = frame(100)
        data.loc[data.index[:10], "t"] = np.nan
        spec = design_spec("y ~ x + subset(t > 0)", DOMAIN, family=dp.families.Gaussian())
        assert sum(len(block.exog) for block in spec.blocks(data)) == 90

    def test_a_fit_finds_what_holds_there(self) -> None:
        fit = dp.ols("y ~ x", frame(), 50.0, domain=DOMAIN, subset="g == 'a'", seed=1)
        assert fit.formula == "y ~ x + subset(g == 'a')"
        assert fit.params["x"] == pytest.approx(5, abs=0.5)
        assert "subset: g == 'a'" in str(fit)
        other = dp.ols("y ~ x", frame(), 50.0, domain=DOMAIN, subset="g == 'b'", seed=1)
        assert other.params["x"] == pytest.approx(0, abs=0.5)

    def test_persons_share_their_weight_among_the_rows_that_count(self) -> None:
        data = frame(3000).assign(who=np.arange(3000) // 3)
        asked = {"domain": DOMAIN, "unit": "who", "seed": 2}
        kept = data[data["x"] > 0.3]
        one = dp.ols("y ~ x", data, 5.0, subset="x > 0.3", **asked)
        two = dp.ols("y ~ x + subset(x > 0.3)", kept, 5.0, **asked)
        np.testing.assert_allclose(one.params, two.params, rtol=1e-6)

    @pytest.mark.parametrize(
        ("condition", "fix"),
        [
            ("x", "write a comparison"),
            ("x + 1", "write a comparison"),
            ("x > 3", "no row within the declared ranges"),
            ("x > x.mean()", r"center\(x\)"),
            ("g == 'q'", "one of"),
        ],
    )
    def test_what_is_no_condition_is_refused(self, condition: str, fix: str) -> None:
        with pytest.raises(FormulaError, match=fix):
            dp.plan("y ~ x", DOMAIN, 1.0, subset=condition)

    def test_it_stands_once_and_by_itself(self) -> None:
        with pytest.raises(FormulaError, match="several subset"):
            dp.plan("y ~ x + subset(x > 0.1)", DOMAIN, 1.0, subset="x > 0.2")
        with pytest.raises(FormulaError, match="cannot be part of another term"):
            dp.plan("y ~ x:subset(x > 0.1)", DOMAIN, 1.0)
        with pytest.raises(ArgumentError, match="name of a column"):
            dp.plan("y ~ x", DOMAIN, 1.0, subset=np.ones(3, dtype=bool))
        with pytest.raises(ArgumentError, match="subset"):
            dp.ols("y ~ x", frame(), 1.0, domain=DOMAIN, subset="x > 0.5", method="statistics")


class TestFreeErrorsOfCounts:
    """At a small eps they have room only beside the mean of the counts, which a fit buys."""

    DECLARED: ClassVar = {"visits": (0, 30), "age": dp.Range(18, 90), "sex": ["f", "m"]}
    CALL: ClassVar[dict[str, Any]] = {"family": "poisson", "n": 10**7}

    def rows(self, mean: float) -> pd.DataFrame:
        rng, size = np.random.default_rng(0), 200_000
        visits = rng.poisson(mean, size).clip(0, 30)
        return pd.DataFrame({"visits": visits, "age": rng.uniform(18, 90, size), "sex": rng.choice(["f", "m"], size)})

    @pytest.mark.parametrize("eps", [0.05, 0.07])
    def test_the_plan_has_the_purchases_of_the_fit(self, eps: float) -> None:
        """It said that the fit had no standard errors, and what would buy them."""
        plan = dp.plan("visits ~ age + sex", self.DECLARED, eps, **self.CALL)
        fit = plan.fit(self.rows(0.3), seed=1)
        assert np.isfinite(fit.bse).all()
        assert list(plan.budget.index) == list(fit.budget.index)
        assert plan.budget["eps"].to_numpy() == pytest.approx(fit.budget["eps"].to_numpy(), rel=0.15)
        for text in (str(plan), plan.summary().as_text()):
            words = " ".join(text.split())
            assert "They cost no extra budget, but not every fit has them" in words
            assert "supposes that visits has a mean of 1.5. If the mean is a large part of the greatest count" in words
            assert "not part of this release" not in words
        assert "uses the whole range and a mean of 1.5;" in " ".join(plan.summary().as_text().split())
        assert "shrunk towards a mean" not in plan.summary().as_text()
        assert (plan.standard_errors(10**7)["identified"] == 1).all()
        assert dp.Plan.from_dict(plan.to_dict()).digest() == plan.digest()

    def test_a_fit_whose_counts_leave_no_room_pays_for_them(self) -> None:
        """The number of rows chose errors, and the fit had none."""
        fit = dp.glm("visits ~ age + sex", self.rows(15.0), 0.05, domain=self.DECLARED, seed=1, **self.CALL)
        assert np.isfinite(fit.bse).all()
        assert fit.budget.loc["information", "eps"] > 0.2 * 0.05
        assert fit.guarantee.eps == 0.05

    def test_without_a_number_models_that_share_a_budget_perhaps_have_them(self) -> None:
        for number in (None, 10**7):
            plans = dp.plan_many({"all": "visits ~ age + sex"}, self.DECLARED, 0.05, family="poisson", n=number)
            words = " ".join(str(plans).split())
            assert "all 0.05 0 perhaps " in words
            assert "no standard errors" not in words
            assert plans.fit(self.rows(0.3), seed=1)["all"].has_errors


def spec_table(data: pd.DataFrame) -> Any:
    from dpstats.data import as_table

    return as_table(data)
