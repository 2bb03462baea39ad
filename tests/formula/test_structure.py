"""Quadratic forms that vanish on a design: their number, that they do, and that none is claimed that does not."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from dpstats.domain import Domain
from dpstats.families import Binomial
from dpstats.formula import structure
from dpstats.formula.design import design_spec
from dpstats.formula.structure import design_forms, vanishing_forms

DOMAIN = Domain(y=[0, 1], a=["u", "v", "w"], b=["p", "q"], c=[1, 2, 3, 4], x=(0, 10), z=(-1, 3))

# Forms of a factor of K levels beside an intercept: (K - 1)(K - 2) / 2 zeros and K - 1 ties.
DESIGNS = {
    "y ~ x + z": 0,
    "y ~ a": 3,
    "y ~ a + x": 3,
    "y ~ a + b + c + x": 3 + 1 + 6,
    "y ~ C(a, Sum) + x": 3,
    "y ~ C(c, Poly)": 6,
    "y ~ 0 + a": 3,
    # Six cells: sums of 21 products of columns are functions of the cell.
    "y ~ a * b": 21 - 6,
    # Three levels times (1, x): each level has 1, x, x^2.
    "y ~ a * x": 21 - 9,
    "y ~ bs(x, df=5) + a": 3,
}


def data(count: int = 3000) -> pd.DataFrame:
    random = np.random.default_rng(0)
    levels = {name: random.choice(np.array(DOMAIN[name].values), count) for name in ("y", "a", "b", "c")}  # type: ignore[union-attr]
    return pd.DataFrame(levels | {"x": random.uniform(0, 10, count), "z": random.uniform(-1, 3, count)})


WIDE = Domain(y=[0, 1], a=["u", "v", "w"], x=(-6, 64), z=(0, 1e5), t=(1999, 2001))

# Numbers far from 0 or of wide ranges: a square is a number of its own; a product times 1 is that of the two.
WIDE_DESIGNS = {
    "y ~ x + I(x**2)": 0,
    "y ~ a + x + I(x**2)": 3,
    "y ~ z + np.log1p(z)": 0,
    "y ~ a + z + I(z**2)": 3,
    "y ~ t + I(t**2) + a": 3,
    "y ~ t * z": 1,
    "y ~ a * t": 21 - 9,
    "y ~ 0 + a + t + z": 3,
}


@pytest.mark.parametrize("formula", WIDE_DESIGNS)
def test_ranges_far_from_zero_make_no_forms(formula: str) -> None:
    spec = design_spec(formula, WIDE, family=Binomial())
    forms = design_forms(spec)
    assert len(forms) == WIDE_DESIGNS[formula]
    random = np.random.default_rng(0)
    frame = pd.DataFrame({name: random.uniform(WIDE[name].low, WIDE[name].high, 1000) for name in "xzt"})
    frame = frame.assign(y=random.integers(0, 2, 1000), a=random.choice(["u", "v", "w"], 1000))
    exog = np.vstack([exog for exog, *_ in spec.blocks(frame)])
    on_rows = np.einsum("ni,kij,nj->kn", exog, forms, exog)
    size = np.einsum("i,kij,j->k", np.abs(exog).max(axis=0), np.abs(forms), np.abs(exog).max(axis=0))
    assert np.all(np.abs(on_rows) <= 1e-6 * size[:, None])


@pytest.mark.parametrize("formula", DESIGNS)
def test_forms_vanish_and_there_are_no_others(formula: str) -> None:
    spec = design_spec(formula, DOMAIN, family=Binomial())
    forms = design_forms(spec)
    exog = np.vstack([exog for exog, *_ in spec.blocks(data())])
    assert len(forms) == DESIGNS[formula]
    assert np.array_equal(forms, forms.transpose(0, 2, 1))
    unit = np.abs(exog).max(axis=0)
    on_rows = np.einsum("ni,kij,nj->kn", exog, forms, exog)
    size = np.einsum("i,kij,j->k", unit, np.abs(forms), unit)
    assert np.all(np.abs(on_rows) <= 1e-6 * size[:, None])
    if "bs" not in formula:
        assert len(vanishing_forms(exog)) == len(forms)


def test_rare_numbers_make_no_forms() -> None:
    """A number that is zero on all but a thousandth of its range is not taken to vanish; a comparison is a factor."""
    spec = design_spec("y ~ np.where(x > 9.99, 1, 0) + a", DOMAIN, family=Binomial())
    assert len(design_forms(spec)) == 3
    assert len(design_forms(design_spec("y ~ I(x > 9.99) + a", DOMAIN, family=Binomial()))) == 4


def test_every_cell_of_two_factors_occurs() -> None:
    """Forty levels of each of two factors: no cell may be missed, or it would be taken to be empty."""
    domain = Domain(y=[0, 1], a=list(range(20)), b=list(range(20, 40)))
    spec = design_spec("y ~ a + b", domain, family=Binomial())
    assert len(design_forms(spec)) == 2 * (19 * 18 // 2 + 19)


def test_many_columns_or_combinations_have_none(monkeypatch: pytest.MonkeyPatch) -> None:
    spec = design_spec("y ~ a * b", DOMAIN, family=Binomial())
    monkeypatch.setattr(structure, "MOST_COLUMNS", 5)
    assert design_forms(spec).shape == (0, 6, 6)
    monkeypatch.setattr(structure, "MOST_COLUMNS", 45)
    monkeypatch.setattr(structure, "MOST_ROWS", 100)
    assert design_forms(spec).shape == (0, 6, 6)


def test_same_each_time() -> None:
    spec = design_spec("y ~ a * x + c", DOMAIN, family=Binomial())
    assert np.array_equal(design_forms(spec), design_forms(spec))
