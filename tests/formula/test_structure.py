"""Quadratic forms that vanish on a design: their number, that they do, and that none is claimed that does not."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from dpstats.domain import Domain
from dpstats.families import Binomial
from dpstats.formula import vanishing_forms as structure
from dpstats.formula.design import design_spec
from dpstats.formula.vanishing_forms import design_forms, is_polynomial, vanishing_forms

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

# Numbers far from 0 or of wide ranges: a square times 1 is that of the number, a product times 1 that of the two.
WIDE_DESIGNS = {
    "y ~ x + I(x**2)": 1,
    "y ~ a + x + I(x**2)": 3 + 1,
    "y ~ z + np.log1p(z)": 0,
    "y ~ a + z + I(z**2)": 3 + 1,
    "y ~ t + I(t**2) + a": 3 + 1,
    # 1, x, ..., x^6 for ten products.
    "y ~ x + I(x**2) + I(x**3)": 10 - 7,
    "y ~ poly(t, 3)": 10 - 7,
    "y ~ center(x) + I((x - 3) * x / 2) + z": 1,
    "y ~ z + I(-z**2) + np.log1p(z)": 1,
    "y ~ x + I(x * z) + z": 1,
    "y ~ t * z": 1,
    "y ~ a * t": 21 - 9,
    "y ~ 0 + a + t + z": 3,
}


@pytest.mark.parametrize("formula", WIDE_DESIGNS)
def test_ranges_far_from_zero_make_no_false_forms(formula: str) -> None:
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


PIECES = ["np.where(x > 9.99, x ** 2, 0)", "np.abs(x - 9.99)", "np.clip(x, 0, 9.99)", "bs(x, df=5)", "I(x % 9)"]


@pytest.mark.parametrize("piece", PIECES)
def test_what_holds_on_most_of_a_range_alone_is_no_form(piece: str) -> None:
    """Only polynomials are taken at their values: of other factors a small piece may be unlike the rest."""
    spec = design_spec(f"y ~ x + {piece} + a", DOMAIN, family=Binomial())
    assert len(design_forms(spec)) == 3


POLYNOMIALS = {
    "x": True,
    "Q('x')": True,
    "center(x)": True,
    "standardize(x, ddof=1)": True,
    "poly(x, 3)": True,
    "I(-x * (z + 2) ** 3 / 4 + 1)": True,
    "poly(I(x ** 2 - x), 2)": False,
    "I(2 ** x)": False,
    "I(x ** 0.5)": False,
    "I(x ** -1)": False,
    "I(x / z)": False,
    "np.square(x)": False,
    "bs(x, df=4)": False,
    "I(c == 2)": False,
}


@pytest.mark.parametrize("code", POLYNOMIALS)
def test_polynomials_are_told_by_their_text(code: str) -> None:
    spec = design_spec(f"y ~ {code}", DOMAIN, family=Binomial())
    (factor,) = spec.coding.factor_infos
    assert is_polynomial(factor, DOMAIN) is POLYNOMIALS[code]


def test_units_of_columns_change_no_form() -> None:
    """Numbers whose squares hardly differ from a line are told apart as others are."""
    random = np.random.default_rng(3)
    unit = random.uniform(-1, 1, 500)
    plain = np.column_stack((np.ones(500), unit, unit**2))
    mixed = np.array([[1.0, 0.3, 0.0], [0.0, 1.0, 0.0], [0.0, 1.0, 1e-5]])
    for rows in (plain, plain @ mixed.T, plain * [1.0, 1e-6, 1e6]):
        (form,) = vanishing_forms(rows)
        size = np.abs(rows) @ np.abs(form) * np.abs(rows)
        assert np.all(np.abs(np.einsum("ni,ij,nj->n", rows, form, rows)) <= 1e-9 * size.sum(axis=1))
    assert len(vanishing_forms(np.column_stack((plain, unit**5)))) == 1


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
