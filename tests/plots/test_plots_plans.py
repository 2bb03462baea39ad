"""A picture of plans shows what such plans say."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from drawn import DOMAIN
from looking import band_of, caption, marks

import dpstats as dp
from dpstats import plots
from dpstats.errors import ArgumentError
from dpstats.plan import replan

PLANS: dict[str, dict[str, Any]] = {
    "binomial": {"formula": "b ~ x + z + group", "family": "binomial"},
    "delta": {"formula": "y ~ x + z", "delta": 1e-6},
    "counts": {"formula": "count ~ x + z", "family": "poisson"},
    "counts, delta": {"formula": "count ~ x + z", "family": "poisson", "delta": 1e-6, "stages": 2},
    "bought": {"formula": "y ~ x + w", "delta": 1e-5, "stages": 2},
    "bought response": {"formula": "y ~ x + z", "response": "bought", "adjacency": "replace_one"},
    "lasso": {"formula": "y ~ x + z", "penalty": "lasso", "alpha": 2.0, "selection": "noise_aware", "refit_share": 0.3},
    "laws that differ by stage": {
        "formula": "y ~ x + z + group + w",
        "delta": 0.01,
        **{"penalty": "lasso", "alpha": 2.0, "selection": "noise_aware", "refit_share": 0.3},
    },
    "screened": {"formula": "y ~ x + z + group", "screen": 1},
    "returned": {"formula": "y ~ x + z", "retrieval": "return"},
    "inference": {"formula": "y ~ x + z", "inference": True},
    "output": {"formula": "y ~ x + z", "method": "output", "delta": 1e-6},
    "split": {"formula": "y ~ x + z + group", "screen": 1, "split": "rows"},
}


@pytest.mark.slow
@pytest.mark.parametrize("name", PLANS)
def test_a_plan_at_another_eps_is_the_plan_of_such_a_call(name: str) -> None:
    formula = PLANS[name]["formula"]
    rest = {key: value for key, value in PLANS[name].items() if key != "formula"}
    for eps in (0.8, 1.6, 2.0, 7.0):
        asked = dp.plan(formula, DOMAIN, eps, **rest)
        assert replan(dp.plan(formula, DOMAIN, 1.0, **rest), eps).to_dict() == asked.to_dict()


def test_the_risk_of_output_perturbation_needs_a_number_of_rows() -> None:
    plan = dp.plan("y ~ x + z", DOMAIN, 1.0, method="output")
    with pytest.raises(ArgumentError, match="n must be given"):
        plots.budget(plan, eps=[0.5, 2.0])
    ax = plots.budget(plan, eps=[0.5, 2.0], n=3000)
    bounds = [replan(plan, eps).excess_risk(n=3000)["per_row"].iloc[2] for eps in (0.5, 2.0)]
    assert marks(ax, "3,000 rows")[:, 1] == pytest.approx(bounds)


def test_the_risk_per_row_against_eps() -> None:
    plan = dp.plan("b ~ x + z + group", DOMAIN, 1.0, family="binomial")
    ax = plots.budget(plan, eps=[4.0, 0.5, 2.0], n=[1000, 20000], pi=0.1)
    for count in (1000, 20000):
        expected = [
            dp.plan("b ~ x + z + group", DOMAIN, eps, family="binomial")
            .excess_risk(0.1, n=count)
            .set_index("bound")
            .loc["unregularised, with probability 0.9", "per_row"]
            for eps in (0.5, 2.0, 4.0)
        ]
        assert marks(ax, f"{count:,} rows") == pytest.approx(np.column_stack([[0.5, 2.0, 4.0], expected]))
    assert set(marks(ax, "eps = 1")[:, 0]) == {1.0}
    assert "without the data: the picture costs nothing" in caption(ax)
    assert "whether any one row is in the data" in caption(ax)


def test_the_noise_against_eps() -> None:
    plan = dp.plan("y ~ x + z + group", DOMAIN, 1.0, adjacency="replace_one")
    ax = plots.budget(plan, eps=[1.0, 3.0], what="noise", n=500)
    spreads = [dp.plan("y ~ x + z + group", DOMAIN, eps, adjacency="replace_one").noise_sd / 500 for eps in (1.0, 3.0)]
    assert marks(ax, "500 rows")[:, 1] == pytest.approx([found.median() for found in spreads])
    corners = band_of(ax)
    for eps, found in zip((1.0, 3.0), spreads, strict=True):
        heights = corners[corners[:, 0] == eps, 1]
        assert [heights.min(), heights.max()] == pytest.approx([found.min(), found.max()])
    assert "the contents of any one row" in caption(ax)


@pytest.mark.slow
def test_standard_errors_against_eps() -> None:
    plan = dp.plan("b ~ x + z + group", DOMAIN, 1.0, family="binomial")
    ax = plots.budget(plan, eps=[0.5, 2.0], what="se", n=[256_000, 1_024_000], coefficient="x")
    for count in (256_000, 1_024_000):
        foreseen = [plan.at(eps).standard_errors(count).loc["x"] for eps in (0.5, 2.0)]
        assert marks(ax, f"{count:,} rows")[:, 1] == pytest.approx([one["std_error"] for one in foreseen])
        (line,) = (line for line in ax.lines if line.get_label() == f"{count:,} rows")
        assert line.get_markevery() == [at for at, one in enumerate(foreseen) if one["identified_upper"] >= 0.95]
    known = {"x": (0.0, 1.0), "z": (5.0, 2.0), "group": {"a": 0.4, "b": 0.3}, "b": {"yes": 0.5}}
    other = plots.budget(plan, eps=[0.5, 2.0], what="se", n=64_000, coefficient="x", typical=known)
    foreseen = [plan.at(eps).standard_errors(64_000, typical=known).loc["x", "std_error"] for eps in (0.5, 2.0)]
    assert marks(other, "64,000 rows")[:, 1] == pytest.approx(foreseen)
    assert "rows as described by typical= or like=" in caption(other)
    for picture, drawn in ((ax, True), (other, False)):
        assert bool(picture.collections) == ("Band: from more to less informative rows" in caption(picture)) == drawn
        assert ("Marks and band: where less informative rows too are likely" in caption(picture)) == drawn
    few = plots.budget(plan, eps=[0.5, 2.0], what="se", n=1_000, coefficient="x")
    assert not few.collections
    assert "band" not in caption(few).lower()
    assert "Marks: where the error is likely to be finite" in caption(other)
    assert "Marks: where less informative rows too are likely to have a finite error" in caption(few)
    with pytest.raises(ArgumentError, match="typical goes with what='se'"):
        plots.budget(plan, typical=known)
    assert ax.get_ylabel() == "standard error of x"
    assert "simulated from the Domain" in caption(ax)
    for wrong, fix in (
        ({"coefficient": "y", "n": 10}, "one of the plan's, Intercept"),
        ({}, "n must be given for what='se'"),
    ):
        with pytest.raises(ArgumentError, match=fix):
            plots.budget(plan, what="se", **wrong)  # type: ignore[arg-type]
    with pytest.raises(ArgumentError, match="coefficient goes with what='se'"):
        plots.budget(plan, coefficient="x")
    with pytest.raises(ArgumentError, match="inference=True"):
        plots.budget(dp.plan("y ~ x", DOMAIN, 1.0, check_share=0), what="se", n=100)


def test_budgets_that_cannot_be_planned_are_left_out_unless_asked_for() -> None:
    plan = dp.plan("y ~ x + w", DOMAIN, 0.4)
    drawn = plots.budget(plan).lines[0].get_xdata()
    with pytest.raises(ArgumentError, match="eps"):
        replan(plan, 0.05)
    assert 0.05 < min(drawn) <= 0.4
    assert max(drawn) == pytest.approx(3.2)
    with pytest.raises(ArgumentError, match="eps"):
        plots.budget(plan, eps=[0.05, 1.0])


@pytest.mark.parametrize(
    ("arguments", "fix"),
    [
        ({"what": "width"}, "what must be"),
        ({"n": 0}, "n must be a positive integer"),
        ({"n": [1.5]}, "n must be a positive integer"),
        ({"n": list(range(1, 9))}, "n must hold 1 to 6"),
        ({"eps": 2.0}, "at least two budgets"),
        ({"eps": [1.0, -2.0]}, "eps must be positive"),
        ({"pi": 2.0}, "pi"),
    ],
)
def test_wrong_arguments_of_budgets(arguments: dict[str, Any], fix: str) -> None:
    with pytest.raises(ArgumentError, match=fix):
        plots.budget(dp.plan("y ~ x", DOMAIN, 1.0), **arguments)
