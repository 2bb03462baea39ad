"""`cut` and `np.digitize` in formulas: R's and numpy's bins, row by row."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import dpstats as dp
from dpstats.formula.design import design_spec
from dpstats.formula.expression import cut, digits

DOMAIN = {"y": (0, 1), "x": (0, 10), "z": (-1, 1)}
GRID = np.array([-1.0, 0.0, 0.5, 2.0, 2.5, 5.0, 7.0, 10.0, 11.0, np.nan, np.inf])


@pytest.mark.parametrize("right", [True, False])
@pytest.mark.parametrize("lowest", [True, False])
def test_bins_are_those_of_pandas(right: bool, lowest: bool) -> None:
    breaks = [0, 2, 5, 10]
    found = cut(breaks, ["l", "m", "h"], right, lowest)(GRID)
    expected = pd.cut(GRID, breaks, right=right, labels=["l", "m", "h"], include_lowest=lowest and right).codes.copy()
    if lowest and not right:
        expected[GRID == 10] = 2  # R closes the last bin there, pandas none
    np.testing.assert_array_equal(found.values, expected)


@pytest.mark.parametrize("right", [True, False])
def test_numbers_of_bins_are_those_of_numpy(right: bool) -> None:
    finite = GRID[np.isfinite(GRID)]
    found = digits([2, 5], right)(finite)
    np.testing.assert_array_equal(found.values, np.digitize(finite, [2, 5], right=right))
    assert found.levels == (0, 1, 2)


@pytest.mark.parametrize(
    "formula", ["y ~ cut(x, [2, 5, 8]) + z", "y ~ cut(log(x), [0, 1, 2]):z", "y ~ C(cut(x, [2, 5, 8]), Sum) + z"]
)
def test_what_is_in_no_bin_is_left_out_silently_and_by_itself(formula: str) -> None:
    data = pd.DataFrame({"x": [1.0, 3.0, 6.0, 9.0, 4.0, np.nan], "z": 0.5, "y": 0.5})
    spec = design_spec(formula, DOMAIN, family=dp.families.Gaussian())
    exog, complete = spec.exog(data)
    values = data["x"].to_numpy()
    with np.errstate(invalid="ignore"):
        kept = ((values > 1) & (np.log(values) <= 2) if "log" in formula else (values > 2) & (values <= 8)).tolist()
    assert complete.tolist() == kept
    for row in range(len(data)):
        alone, whole = spec.exog(data.iloc[[row]])
        assert whole.tolist() == [kept[row]]
        np.testing.assert_array_equal(alone[0], exog[row])
    assert len(spec.blocks(data)[0].exog) == sum(kept)


def test_a_fit_by_bins_finds_their_means() -> None:
    rng = np.random.default_rng(4)
    data = pd.DataFrame({"x": rng.uniform(0, 10, 20_000)})
    data["y"] = np.select([data["x"] < 2, data["x"] < 5], [0.2, 0.9], 0.4)
    fit = dp.ols("y ~ cut(x, [0, 2, 5, 10], ['low', 'mid', 'high'])", data, 50.0, domain=DOMAIN, seed=1)
    np.testing.assert_allclose(fit.params.to_numpy(), [0.2, 0.7, 0.2], atol=0.03)
    numbers = dp.ols("y ~ C(np.digitize(x, [2, 5]))", data, 50.0, domain=DOMAIN, seed=1)
    np.testing.assert_allclose(numbers.params.to_numpy(), [0.2, 0.7, 0.2], atol=0.03)
