"""What a newcomer is told: messages name the argument and the fix, and objects show themselves in a line."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import dpstats as dp
from dpstats.results.fitted_model import NOT_RELEASED

DOMAIN = {"y": (0, 1), "x": (0, 1)}


def frame() -> pd.DataFrame:
    rng = np.random.default_rng(3)
    return pd.DataFrame({"y": rng.uniform(size=50), "x": rng.uniform(size=50)})


@pytest.fixture(scope="module")
def fit() -> dp.GLMResults:
    return dp.ols("y ~ x", frame(), 1.0, domain=DOMAIN)


@pytest.mark.parametrize(
    ("arguments", "fix"),
    [
        ({"domian": DOMAIN}, "did you mean 'domain'"),
        ({"curvatur": 1}, "did you mean 'curvature'"),
        ({"offset": np.zeros(50)}, "column"),
        ({"freq_weights": np.ones(50)}, "write weights="),
        ({"var_weights": np.ones(50)}, "weights='w'"),
        ({"penalty": "elastic_net", "alpha": 1, "l1_ratio": 0.3}, "ElasticNet"),
        ({"family": "logistics"}, "binomial"),
        ({"family": "poisson", "y_max": 4}, r"dp\.families\.Poisson\(y_max=4\) or dp\.poisson\("),
        ({"residual_cap": 4}, r"dp\.families\.Gaussian\(residual_cap=4\) or dp\.ols\("),
        ({"ledger": 3}, r"dp\.Ledger\(path"),
    ],
)
def test_arguments_that_do_not_exist(arguments: dict[str, Any], fix: str) -> None:
    with pytest.raises(dp.errors.ArgumentError, match=fix) as caught:
        dp.glm("y ~ x", frame(), 1.0, **{"domain": DOMAIN, **arguments})
    assert any(name in str(caught.value) for name in arguments)


def test_a_plan_takes_the_domain_of_a_ledger() -> None:
    with pytest.raises(dp.errors.ArgumentError, match=r"a plan spends nothing; pass domain=ledger\.domain"):
        dp.plan("y ~ x", DOMAIN, 1.0, ledger=None)  # type: ignore[call-overload]


def test_r_squared_is_looked_up_where_it_is(fit: dp.GLMResults) -> None:
    """A result of few rows has none; what is not there is still no attribute."""
    rng = np.random.default_rng(3)
    x = rng.uniform(size=20_000)
    rows = pd.DataFrame({"x": x, "y": np.clip(x + rng.normal(0, 0.1, len(x)), 0, 1)})
    known = dp.ols("y ~ x", rows, 1.0, domain=DOMAIN, inference=True)
    assert "r_squared" in known.fitstats.index
    none = dp.ols("y ~ x", rows, 1.0, domain=DOMAIN, inference=None)
    for one, said in ((known, "see fit.fitstats, whose row r_squared"), (none, "the budget has not paid for it")):
        assert not hasattr(one, "rsquared")
        with pytest.raises(dp.errors.NotReleasedError, match=said):
            _ = one.rsquared


def test_a_budget_of_two_parts_of_the_rows_says_so() -> None:
    whole = dp.plan("y ~ x + z", {**DOMAIN, "z": (0, 1)}, 1.0, screen=1, inference=True)
    parts = dp.plan("y ~ x + z", {**DOMAIN, "z": (0, 1)}, 1.0, screen=1, inference=True, split="rows")
    assert parts.budget["eps"].drop("total").sum() > 1.5
    assert "the total has the dearer of the two" in " ".join(repr(parts.budget).split())
    assert "dearer" not in repr(whole.budget)


def test_two_numbers_as_levels_are_probably_a_range() -> None:
    with pytest.raises(dp.errors.DomainError, match=r"\(17, 90\) for a range, as \['17', '90'\] for two levels"):
        dp.Domain(age=[17, 90])
    assert dp.Domain(hours=["20", "40"]) == dp.Domain.from_json(dp.Domain(hours=["20", "40"]).to_json())
    assert dp.Domain(smoker=[0, 1], sex=[1, 2], grade=[1, 3, 5])


@pytest.mark.parametrize("path", ["codebook.csv", Path("codebook.yaml")])
def test_a_path_is_no_domain(path: Any) -> None:
    with pytest.raises(dp.errors.DomainError, match=r"dp\.Domain\.from_csv read one from a path"):
        dp.ols("y ~ x", frame(), 1.0, domain=path)


def test_columns_of_a_purchase_are_a_list() -> None:
    with pytest.raises(dp.errors.ArgumentError, match=r"columns=\['x'\]"):
        dp.buy_ranges(frame(), "x", eps=1.0)


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(dp.errors.DataError, match="there is no file"):
        dp.GLMResults.load(tmp_path / "fit.json")


def test_statistics_that_nobody_paid_for(fit: dp.GLMResults) -> None:
    for name in NOT_RELEASED:
        assert not hasattr(fit, name)
        with pytest.raises(dp.errors.NotReleasedError, match=name):
            getattr(fit, name)
    with pytest.raises(AttributeError, match="has no attribute 'typo'"):
        fit.typo  # noqa: B018
    assert copy.deepcopy(fit).params.equals(fit.params)


def test_a_mapping_is_predicted_like_a_frame(fit: dp.GLMResults) -> None:
    rows = {"x": [0.1, 0.9]}
    pd.testing.assert_series_equal(fit.predict(rows), fit.predict(pd.DataFrame(rows)))


def test_objects_show_themselves_in_a_line(fit: dp.GLMResults) -> None:
    many = dp.plan_many({"first": "y ~ x", "second": "y ~ 1"}, DOMAIN, eps=1.0)
    arrays = dp.GLM([0, 1], np.ones((2, 1)), family="binomial", row_norm=1.0).fit(1.0, delta=1e-6, noise="gaussian")
    size = dp.sample_size("binomial", columns=5, eps=1.0, radius=3.0, target=0.01)
    for value in (fit, fit.plan, many, arrays, size):
        assert len(repr(value)) < 120
        assert "\n" not in repr(value)
    assert repr(fit) == "<GLMResults: gaussian, y ~ x; eps=1, add_remove, certified>"
    assert "delta=1e-06" in repr(arrays)
    assert "NOT CERTIFIED" in repr(dp.ols("y ~ x", frame(), 1.0, domain=DOMAIN, seed=1))
    assert str(fit) == fit.summary().as_text()
