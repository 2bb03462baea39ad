"""Transforms agree with patsy's where both can answer, and stay row-wise where patsy's would not."""

from __future__ import annotations

import numpy as np
import patsy
import pytest
from numpy.typing import NDArray

import dpstats as dp
from dpstats.formula.transforms import TRANSFORMS

GRID = np.linspace(-2.0, 5.0, 1009)
ROWS = np.array([-2.0, -1.3, 0.0, 0.123, 1.5, 3.999, 5.0])


def from_patsy(name: str, options: dict[str, object]) -> NDArray[np.float64]:
    transform = getattr(patsy, name).__patsy_stateful_transform__()
    transform.memorize_chunk(GRID, **options)
    transform.memorize_finish()
    return np.asarray(transform.transform(ROWS, **options))


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("center", {}),
        ("standardize", {}),
        ("standardize", {"ddof": 1}),
        ("standardize", {"center": False}),
        ("scale", {"rescale": False}),
        ("bs", {"df": 4}),
        ("bs", {"df": 7, "degree": 2}),
        ("bs", {"df": 5, "include_intercept": True}),
        ("bs", {"knots": [0.0, 1.0]}),
        ("bs", {"df": 4, "degree": 0}),
        ("bs", {"df": 4, "degree": 1}),
        ("bs", {"df": 5, "lower_bound": -3.0, "upper_bound": 6.0}),
        ("cr", {"df": 3}),
        ("cr", {"df": 6}),
        ("cr", {"df": 5, "constraints": "center"}),
        ("cr", {"knots": [0.0, 1.0, 2.0]}),
        ("cr", {"df": 3, "constraints": [[1.0, 1.0, 0.0, 0.0]]}),
        ("cr", {"df": 4, "lower_bound": -3.0, "upper_bound": 6.0}),
        ("cc", {"df": 3}),
        ("cc", {"df": 6}),
        ("cc", {"df": 4, "constraints": "center"}),
        ("cc", {"knots": [0.0, 1.0], "lower_bound": -2.0, "upper_bound": 5.0}),
    ],
)
def test_values_are_patsys(name: str, options: dict[str, object]) -> None:
    ours = TRANSFORMS[name](GRID, **options)(ROWS)
    np.testing.assert_allclose(ours, from_patsy(name, options), rtol=0, atol=1e-12)


@pytest.mark.parametrize("constraints", [None, "center"])
def test_tensor_products_are_patsys(constraints: str | None) -> None:
    bases = [np.asarray(patsy.cr(GRID, df=4)), np.asarray(patsy.bs(GRID[::-1] ** 2, df=3))]
    options = {} if constraints is None else {"constraints": constraints}
    transform = patsy.te.__patsy_stateful_transform__()
    transform.memorize_chunk(*bases, **options)
    transform.memorize_finish()
    some = [basis[::100] for basis in bases]
    ours = TRANSFORMS["te"](*bases, **options)(*some)
    np.testing.assert_allclose(ours, transform.transform(*some, **options), rtol=0, atol=1e-12)


def test_polynomials_are_orthogonal_over_the_range_and_bounded_by_one() -> None:
    basis = TRANSFORMS["poly"](np.array([-2.0, 5.0]), 4)(GRID)
    nodes, weights = np.polynomial.legendre.leggauss(10)
    at_nodes = TRANSFORMS["poly"](GRID, 4)(1.5 + 3.5 * nodes)
    gram = (at_nodes * weights[:, None]).T @ at_nodes
    np.testing.assert_allclose(gram, np.diag(2 / (2 * np.arange(1, 5) + 1)), atol=1e-12)
    assert np.abs(basis).max() == pytest.approx(1.0)


@pytest.mark.parametrize("name", ["poly", "bs", "cr", "cc"])
def test_rows_beyond_the_public_values_are_clipped_and_infinite_ones_are_missing(name: str) -> None:
    basis = TRANSFORMS[name](GRID, 4)
    inside = basis(np.array([-2.0, 5.0]))
    outside = basis(np.array([-9.0, 1e300, np.inf, np.nan]))
    np.testing.assert_array_equal(outside[:2], inside)
    assert np.isnan(outside[2:]).all()


@pytest.mark.parametrize("name", ["center", "standardize", "poly", "bs", "cr", "cc"])
def test_no_rows_are_rows_too(name: str) -> None:
    options = {} if name in ("center", "standardize") else {"df": 4} if name != "poly" else {"degree": 2}
    transform = TRANSFORMS[name](GRID, **options)
    assert transform(np.empty(0)).shape == (0, *transform(ROWS).shape[1:])


def test_public_values_that_are_not_finite_teach_nothing() -> None:
    with_gaps = np.concatenate([GRID, [np.nan, np.inf, -np.inf]])
    for name, options in [("center", {}), ("standardize", {}), ("bs", {"df": 5}), ("cr", {"df": 4})]:
        np.testing.assert_array_equal(
            TRANSFORMS[name](with_gaps, **options)(ROWS), TRANSFORMS[name](GRID, **options)(ROWS)
        )


def test_a_constant_argument_is_centred_not_divided_by_zero() -> None:
    np.testing.assert_array_equal(TRANSFORMS["standardize"](np.full(9, 3.0))(np.array([3.0])), [0.0])


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("poly", {"degree": 0}),
        ("poly", {"degree": 2.5}),
        ("poly", {"degree": True}),
        ("bs", {}),
        ("bs", {"df": 1}),
        ("bs", {"df": 5, "degree": -1}),
        ("bs", {"df": 5, "degree": 1.5}),
        ("bs", {"df": 5, "knots": [1.0]}),
        ("bs", {"knots": [9.0]}),
        ("bs", {"knots": [float("nan")]}),
        ("bs", {"df": 5, "lower_bound": 6.0, "upper_bound": 5.5}),
        ("bs", {"knots": [], "degree": 0}),
        ("cr", {}),
        ("cr", {"df": 1}),
        ("cr", {"df": 3, "constraints": "sum"}),
        ("cr", {"df": 3, "constraints": [[1.0, 2.0]]}),
        ("cr", {"knots": [0.0, 0.0], "df": 4}),
        ("cc", {"df": 0}),
    ],
)
def test_bad_options_are_value_errors(name: str, options: dict[str, object]) -> None:
    with pytest.raises(ValueError, match=r"."):
        TRANSFORMS[name](GRID, **options)


@pytest.mark.parametrize("name", ["bs", "cr", "cc"])
def test_a_basis_needs_a_range(name: str) -> None:
    with pytest.raises(ValueError, match="constant"):
        TRANSFORMS[name](np.full(9, 3.0), df=4)
    with pytest.raises(ValueError, match="not finite anywhere"):
        TRANSFORMS[name](np.full(9, np.nan), df=4)


def test_a_centred_basis_of_no_finite_value_is_refused_by_name() -> None:
    domain = {"x": (1000, 1001), "z": (1e-170, 2e-162), "y": (0, 1)}
    with pytest.raises(dp.errors.FormulaError, match="not finite anywhere"):
        dp.plan("y ~ 0 + te(cr(x, df=3), cr(z, df=3), constraints='center')", domain, 1.0)
