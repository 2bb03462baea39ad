"""Columns that move together: groups, the metric of what they can be, and what it spares."""

from typing import Any

import numpy as np
import pytest

import dpstats as dp
from dpstats.families import get_family
from dpstats.formula.design import DesignSpec, design_spec
from dpstats.formula.submodels import uniform_exog
from dpstats.mechanisms.design import SubDesign
from dpstats.mechanisms.information import matrix_metric
from dpstats.privacy.information import MatrixNoise, design_metric, optimal_design

DOMAIN: dict[str, Any] = {"x": (0, 50), "z": (-1, 1), "g": ["a", "b", "c"], "h": ["u", "v"], "y": (0, 1)}


def spec_of(right: str) -> DesignSpec:
    return design_spec(f"y ~ {right}", dp.Domain(DOMAIN), family=get_family("gaussian"))


def reach(exog: np.ndarray, metric: Any) -> np.ndarray:
    """x'D^-1 x of each row."""
    whole = MatrixNoise("wishart", 1.0, *metric).metric
    return np.asarray(np.einsum("ij,ij->i", exog @ np.linalg.inv(whole), exog))


@pytest.mark.parametrize("right", ["x + z + g", "C(g):h + x", "g + h", "x"])
def test_nothing_is_joined_where_terms_read_different_columns(right: str) -> None:
    spec = spec_of(right)
    assert spec.joined == () or right == "C(g):h + x"
    if not spec.joined:
        assert matrix_metric(spec) == design_metric(spec.images)


@pytest.mark.parametrize(
    ("right", "columns"),
    [
        ("x + I(x ** 2)", {"x", "I(x ** 2)"}),
        ("g + x + x:g + z", {"g[T.b]", "g[T.c]", "x", "x:g[T.b]", "x:g[T.c]"}),
        ("np.log1p(x) + x + h", {"np.log1p(x)", "x"}),
        ("x * z", {"x", "z", "x:z"}),
        ("poly(x, 3) + g", {"poly(x, 3)[0]", "poly(x, 3)[1]", "poly(x, 3)[2]"}),
    ],
)
def test_groups_hold_every_row(right: str, columns: set[str]) -> None:
    """Off the grid rows may leave the metric by a little, and are shortened: privacy does not rest on it."""
    spec = spec_of(right)
    (one,) = spec.joined
    assert {spec.names[column] for column in one.columns} == columns
    assert reach(uniform_exog(spec, 20_000), matrix_metric(spec)).max() <= 1.02


def test_a_number_beside_its_square_is_told_apart_far_sooner() -> None:
    """The information's t-ratio goes with g'Dg, by 9 here; what has nothing to do with it gains too."""
    spec = spec_of("x + I(x ** 2) + h")
    exog = uniform_exog(spec, 5_000)
    inverse = np.linalg.inv(exog.T @ exog)
    box, tight = (
        np.diag(inverse @ MatrixNoise("wishart", 1.0, *metric).metric @ inverse)
        for metric in (design_metric(spec.images), matrix_metric(spec))
    )
    place = [spec.names.index(name) for name in ("x", "I(x ** 2)")]
    assert np.all(box[place] / tight[place] > 5)
    assert np.all(box / tight > 0.9)


def test_what_is_left_of_a_group_still_holds_every_row() -> None:
    spec = spec_of("g + x + x:g + I(x ** 2)")
    exog = uniform_exog(spec, 5_000)
    for kept in ([0, 3, 4], [0, 1, 2, 3], [0, 4, 6], list(range(len(spec.names)))):
        part = SubDesign(spec, np.array(kept))
        assert part.joined
        assert reach(exog[:, kept], matrix_metric(part)).max() <= 1.02


def test_without_an_intercept_bodies_serve() -> None:
    assert spec_of("0 + x + I(x ** 2)").joined == ()


def test_optimal_design_is_that_of_the_textbooks() -> None:
    """Quadratic regression on [-1, 1]: a third each at the ends and in the middle."""
    grid = np.linspace(-1, 1, 201)
    found = optimal_design((1, 2), np.column_stack((grid, grid**2)))
    assert found is not None
    assert found.mean == pytest.approx((0.0, 2 / 3), abs=0.02)
    assert np.array(found.covariance) == pytest.approx(np.diag([2 / 3, 2 / 9]), abs=0.03)
    apart = np.column_stack((grid, grid**2)) - found.mean
    assert np.einsum("ij,ij->i", apart @ np.linalg.inv(found.covariance), apart).max() == pytest.approx(2)


def test_columns_that_depend_on_each_other_have_none() -> None:
    grid = np.linspace(-1, 1, 21)
    assert optimal_design((1, 2), np.column_stack((grid, 2 * grid))) is None
    assert optimal_design((1, 2), np.column_stack((grid, np.ones(21)))) is None
    assert optimal_design((1, 2), np.column_stack((grid, grid**2))[:2]) is None
