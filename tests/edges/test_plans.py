"""Every plan that is accepted is carried out, printed, saved and loaded: to fail after the charge loses the budget."""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import dpstats as dp
from benchmarks.audits import plans
from benchmarks.audits.plans import Case
from dpstats.errors import ArgumentError, DPStatsError, FormulaError
from dpstats.formula import vanishing_forms

CASES = 120
"""Of the 20,000 and more that `python -m benchmarks.audits.plans` runs."""


@pytest.mark.slow
@pytest.mark.parametrize("part", range(4))
def test_every_accepted_plan_is_carried_out(part: int, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.ERROR, "dpstats")
    found = list(plans.search(range(part, CASES, 4)))
    assert not [plans.told(one) for one in found if one.faulty]
    kinds = [one.kind for one in found]
    assert kinds.count("carried out") >= 0.3 * len(found)
    assert kinds.count("refused") >= 0.1 * len(found)


ONE_LEVEL: list[tuple[str, dict[str, Any]]] = [
    ("y ~ x + g", {"family": "gaussian", "inference": "robust"}),
    ("y ~ x + g", {"family": "gaussian", "method": "statistics"}),
    ("y ~ x*g", {"family": "gaussian", "inference": True}),
    ("y ~ C(g, Sum)", {"family": "poisson", "inference": True}),
    ("y ~ x*g", {"family": "smooth_svm", "method": "posterior", "delta": 1e-6}),
]
EMPTY: list[tuple[str, dict[str, Any]]] = [
    ("y ~ x + I(0 * x)", {"family": "gaussian", "inference": "model"}),
    ("y ~ x + I(0 * x)", {"family": "gaussian", "inference": "robust"}),
    ("y ~ cut(x, [0, 0.5, 1]) + bs(x, df=3)", {"family": "gaussian", "subset": "x < 0", "screen": 1}),
    ("np.log(y) ~ rff(x, gamma=1.0, D=6) + g", {"family": "gaussian", "method": "statistics"}),
]


@pytest.mark.slow
@pytest.mark.parametrize(("formula", "arguments"), ONE_LEVEL + EMPTY, ids=str)
def test_plans_that_failed_after_the_charge(formula: str, arguments: dict[str, Any], tmp_path: Path) -> None:
    response = (0, 1) if "svm" not in arguments["family"] else [0, 1]
    domain = {"x": (-1, 1), "g": ["only"], "y": (0, 20) if arguments["family"] == "poisson" else response}
    case = Case(formula, domain, {"eps": 2.0, **arguments})
    found = plans.carried_out(case, 6, tmp_path)
    assert found.kind == "carried out", found.said


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (
            {"penalty": "lasso", "alpha": 30.0, "penalty_weights": {"x": 1e9}, "adjacency": "replace_one"},
            "penalty weight",
        ),
        ({"penalty": dp.penalties.Bridge(1e6, 1.5)}, "alpha"),
        ({"curvature": 0.003}, "curvature"),
    ],
    ids=str,
)
def test_draws_that_would_not_end_are_refused(arguments: dict[str, Any], named: str) -> None:
    """By rejection from a law that the penalty or the rows leave nothing of: the fit hung, after the charge."""
    formula, domain = "y ~ x + I(x**2)", {"x": (0, 10), "y": (0, 1)}
    with pytest.raises(ArgumentError, match=f"{named}.* is too (large|small) for method='posterior'"):
        dp.plan(formula, domain, 4.0, delta=1e-6, family="binomial", method="posterior", **arguments)
    usual = dp.plan(formula, domain, 4.0, delta=1e-6, family="binomial", method="posterior", penalty="lasso", alpha=3.0)
    assert usual.objective.exact  # type: ignore[attr-defined]


FAR = {"x": (0, 1e-160), "y": (0, 1)}


@pytest.mark.parametrize("arguments", [{"inference": "robust"}, {"inference": True}, {"method": "statistics"}], ids=str)
def test_errors_in_units_that_are_too_far_apart_are_refused(arguments: dict[str, Any]) -> None:
    """Their variances would be infinite; robust ones were no matrix for LAPACK, after the charge."""
    with pytest.raises(ArgumentError, match="rescale"):
        dp.plan("y ~ x", FAR, 1.0, **arguments)
    if "method" in arguments:
        with pytest.raises(ArgumentError, match="rescale"):
            dp.release_statistics(FAR, ["y", "x"], 1.0, data={"x": [0.0], "y": [0.0]})


def test_coefficients_in_such_units_are_released_alone(tmp_path: Path) -> None:
    domain = {"x": (0, 1e-160), "y": (0, 1)}
    assert dp.plan("y ~ x", domain, 1.0, family="binomial").objective.information is None
    found = plans.carried_out(Case("y ~ x", domain, {"eps": 1.0, "family": "binomial"}), 2, tmp_path)
    assert found.kind == "carried out", found.said


def test_coefficients_that_no_double_holds_are_refused() -> None:
    with pytest.raises(FormulaError, match="rescale"):
        dp.plan("y ~ x", {"x": (0, 1e-200), "y": (0, 1e200)}, 1.0)


@pytest.mark.parametrize(
    "family",
    [
        lambda cap: dp.plan("y ~ x", {"x": (0, 1), "y": (0, 1)}, 1.0, family=dp.families.Gaussian(residual_cap=cap)),
        lambda cap: dp.GLM([0.0], np.ones((1, 1)), dp.families.Gaussian(residual_cap=cap), 1.0).plan(1.0),
        lambda cap: dp.families.Poisson(y_max=cap),
        lambda cap: dp.families.Poisson(mean_cap=cap, y_max=5.0),
        lambda cap: dp.families.HuberSVM(h=cap),
        lambda cap: dp.families.SmoothSVM(h=cap),
    ],
)
def test_caps_whose_squares_are_no_numbers_are_refused(family: Callable[[float], Any]) -> None:
    """Below 1e-162 a release failed for some rows and not for others, after it was charged."""
    for cap in (1e-300, 1e-162, 1e-51, 1e51, 1e300):
        with pytest.raises(DPStatsError, match="must be a positive number from 1e-50 to 1e\\+50"):
            family(cap)


def test_the_search_finds_a_fault(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The fault put back that lost fits with a factor of one level: the greatest of none of its columns."""
    sizes = vanishing_forms._sizes

    def as_before(spec: Any) -> Any:
        assert all(len(range(*columns.indices(len(spec.names)))) for columns in spec.coding.term_slices.values())
        return sizes(spec)

    monkeypatch.setattr(vanishing_forms, "_sizes", as_before)
    # Designs are kept: one that no other test has.
    domain = {"x": (-1, 1), "g": ["alone"], "y": (0, 1)}
    case = Case("y ~ x + g", domain, {"eps": 2.0, "family": "gaussian", "inference": "robust"})
    found = [plans.carried_out(case, seed, tmp_path) for seed in range(2)]
    # Printing the plan meets it before any row is read, or else the release does.
    assert all(one.faulty and ("ReleaseError" in one.said or "as_before" in one.said) for one in found), found


def test_units_too_far_apart_for_errors_are_refused_whichever_columns_screening_keeps() -> None:
    """The plan's stand-ins are the widest terms; the others may be the ones that no double holds the errors of."""
    domain = {"x": (17, 90), "z": (0, 1e-140), "y": (0, 1)}
    with pytest.raises(ArgumentError, match="a factor of 1e70 or more"):
        dp.plan("y ~ bs(x, df=3) + z", domain, 1.0, family="binomial", inference="robust", screen=1)
    assert dp.plan("y ~ bs(x, df=3) + z", domain, 1.0, family="binomial", screen=1).screening is not None
