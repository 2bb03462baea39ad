"""A private column, or the text of a file, passed where a name, a path or a seed is wanted, is not quoted."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pytest

import dpstats as dp
from dpstats.arguments import can_be_path
from dpstats.errors import DPStatsError

DOMAIN = {"x": (0, 1), "y": (0, 1)}
PRIVATE = pd.Series([f"cell {place}" for place in range(40)])
COLUMNS = (
    PRIVATE,
    PRIVATE.to_numpy(),
    PRIVATE.iloc[:3],
    pd.Categorical(PRIVATE),
    {*PRIVATE},
    dict.fromkeys(PRIVATE, 1),
)


def rows() -> pd.DataFrame:
    return pd.DataFrame({"x": [0.5], "y": [0.5], "name": ["cell 0"]})


CALLS: dict[str, Callable[[Any], Any]] = {
    "columns of ranges": lambda given: dp.buy_ranges(rows(), given, 1.0),
    "by": lambda given: dp.holdout(rows(), 0.5, by=given),
    "seed of made-up rows": lambda given: dp.plan("y ~ x", DOMAIN, 1.0).simulate(10, given),
    "seed of an audit": lambda given: dp.audit(lambda data, rng: 0.0, [1], [2], eps=1.0, runs=100, seed=given),
    "data": lambda given: dp.ols("y ~ x", given, eps=1.0, domain=DOMAIN),
    "ledger": lambda given: dp.ols("y ~ x", rows(), eps=1.0, domain=DOMAIN, ledger=given),
    "path of a ledger": lambda given: dp.Ledger(given, dataset="rows", eps=1.0),
}


@pytest.mark.parametrize("call", CALLS)
def test_columns_are_not_quoted(call: str) -> None:
    for given in COLUMNS:
        with pytest.raises(DPStatsError) as caught:
            CALLS[call](given)
        assert "cell" not in str(caught.value)


@pytest.mark.parametrize("call", ["data", "ledger", "path of a ledger"])
@pytest.mark.parametrize("text", ["y,x\n0.125,0.25\n", "cell " * 2000, "y,x\n" + "0.125,0.25\n" * 2000, "cell " * 60])
def test_the_text_of_a_file_is_not_quoted(call: str, text: str) -> None:
    with pytest.raises(DPStatsError) as caught:
        CALLS[call](text)
    assert "0.125" not in str(caught.value)
    assert "cell" not in str(caught.value)


def test_paths_can_be_paths() -> None:
    assert all(can_be_path(path) for path in ("rows.csv", "/a/b c/*.parquet", "zäh/ü.csv", "a/" * 1000 + "b", ""))
    assert not any(can_be_path(text) for text in ("a\nb", "a" * 256, "a/" * 3000, "a\0b", "\ud800"))


@pytest.mark.parametrize("cap", [1e-300, 1e-162, 1e-51, 1e51, 1e300])
@pytest.mark.parametrize(
    "family",
    [
        lambda cap: dp.plan("y ~ x", DOMAIN, 1.0, family=dp.families.Gaussian(residual_cap=cap)),
        lambda cap: dp.GLM([0.0], np.ones((1, 1)), dp.families.Gaussian(residual_cap=cap), 1.0).plan(1.0),
        lambda cap: dp.families.Poisson(y_max=cap),
        lambda cap: dp.families.Poisson(mean_cap=cap, y_max=5.0),
        lambda cap: dp.families.HuberSVM(h=cap),
        lambda cap: dp.families.SmoothSVM(h=cap),
    ],
)
def test_caps_whose_squares_are_no_numbers_are_refused(family: Callable[[float], Any], cap: float) -> None:
    """Below 1e-162 a release failed for some rows and not for others, after it was charged."""
    with pytest.raises(DPStatsError, match="must be a positive number from 1e-50 to 1e\\+50"):
        family(cap)


def test_no_rows_have_a_summary() -> None:
    none = pd.DataFrame({"x": np.zeros(0), "y": np.zeros(0)})
    fit = dp.ols("y ~ x", none, eps=1.0, domain=DOMAIN, adjacency="replace_one")
    assert "rows: 0" in str(fit.summary())
    assert str(fit.summary(full=True))


@pytest.mark.parametrize("width", [1e-200, 1e-60, 1e60, 1e200])
def test_caps_go_by_the_range_of_the_response(width: float) -> None:
    plan = dp.plan("y ~ x", {"x": (0, 1), "y": (0, width)}, 1.0, family=dp.families.Gaussian(residual_cap=width / 4))
    assert plan.family.lipschitz == pytest.approx(0.5)
    fit = plan.fit(pd.DataFrame({"x": [0.5], "y": [0.5 * width]}))
    assert fit.family.lipschitz == pytest.approx(width / 4)
