"""Columns of one design as combinations of those of another."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from dpstats.errors import FormulaError
from dpstats.families import Gaussian
from dpstats.formula.design import DesignSpec, design_spec
from dpstats.formula.submodels import combinations, uniform_rows

DOMAIN = {"y": (0, 10), "a": (0, 5), "b": (-1, 1), "g": ["u", "v", "w"], "k": [1, 2]}
WHOLE = "y ~ bs(a, df=5) + b * g + k"


def spec(formula: str) -> DesignSpec:
    return design_spec(formula, DOMAIN, family=Gaussian())


@pytest.mark.parametrize(
    "formula",
    [
        "y ~ bs(a, df=5)",
        "y ~ a + I(a**2)",
        "y ~ poly(a, 3) + g",
        "y ~ 0 + g + C(k, Sum)",
        "y ~ g:b",
        "b ~ g",
        "I(2 * y + 1) ~ C(g, Treatment('w'))",
    ],
)
def test_combinations_hold_on_other_rows(formula: str) -> None:
    whole, part = spec(WHOLE), spec(formula)
    columns, response = combinations(whole, part)
    rng = np.random.default_rng(1)
    numbers = {name: rng.uniform(*DOMAIN[name], 500) for name in ("y", "a", "b")}
    rows = pd.DataFrame({**numbers, **{name: rng.choice(DOMAIN[name], 500) for name in ("g", "k")}})
    known = np.column_stack([whole.exog(rows)[0], whole.endog(rows)])
    assert known @ columns == pytest.approx(part.exog(rows)[0], abs=1e-6)
    assert known @ response == pytest.approx(part.endog(rows), abs=1e-6)


@pytest.mark.parametrize(
    ("formula", "fragment"),
    [
        ("y ~ np.exp(a)", "exp"),
        ("y ~ g:k", "g"),
        ("np.sqrt(y) ~ a", "sqrt"),
        ("y ~ b + I(3 * b)", "are linearly dependent"),
    ],
)
def test_what_does_not_follow(formula: str, fragment: str) -> None:
    with pytest.raises(FormulaError, match=fragment):
        combinations(spec(WHOLE), spec(formula))


def test_made_up_rows_are_public() -> None:
    first, second = (uniform_rows(spec(WHOLE).domain, 50) for _ in range(2))
    pd.testing.assert_frame_equal(pd.DataFrame(first), pd.DataFrame(second))
    assert set(first["g"]) == set(DOMAIN["g"])
    assert min(first["a"]) >= 0
    assert max(first["a"]) <= 5
