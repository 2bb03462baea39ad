"""Constraint sets: nearest points, gauges, widths, and what their dictionaries keep."""

from __future__ import annotations

import math
from dataclasses import FrozenInstanceError
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy import optimize

import dpstats as dp
from dpstats.errors import ArgumentError
from dpstats.streaming.constraints import Constraint, GroupL1, Hull, L1Ball, L2Ball, LpBall, Simplex, from_dict

SIZE = 6

CORNERS = np.random.default_rng(5).normal(size=(9, SIZE)).round(3).tolist()

SETS: list[Constraint] = [
    L2Ball(1.5),
    L1Ball(0.7),
    Simplex(2.0),
    GroupL1(1.0, 4),
    GroupL1(3.0, (1, 2, 3)),
    LpBall(1.0, 1.01),
    LpBall(2.0, 1.5),
    LpBall(0.5, 1.99),
    Hull(CORNERS),
    Hull([*CORNERS, *(-np.array(CORNERS)).tolist()]),
]

each_set = pytest.mark.parametrize("constraint", SETS, ids=lambda c: f"{c.name}-{c.to_dict().get('p', '')}")

points = arrays(np.float64, SIZE, elements=st.floats(-1e6, 1e6, allow_subnormal=False))


@pytest.mark.slow
@each_set
@given(point=points)
@settings(max_examples=60)
def test_a_projection_is_the_nearest_point(constraint: Constraint, point: np.ndarray) -> None:
    """Point minus projection makes no acute angle with any way into the set, and the projection is in it."""
    nearest = constraint.project(point)
    away = point - nearest
    scale = np.linalg.norm(point) + constraint.reach
    assert constraint.support(away) - away @ nearest <= 1e-9 * scale * (np.linalg.norm(away) + constraint.reach)
    assert constraint.gauge(nearest) <= 1 + 1e-9


def test_a_point_that_is_not_the_nearest_is_caught() -> None:
    """Planted: scaling down to the L1 ball stays inside, but is no projection."""
    point, ball = np.array([2.0, 1.0]), L1Ball(1.0)
    scaled = point / ball.gauge(point)
    assert ball.support(point - scaled) - (point - scaled) @ scaled > 0.1


@each_set
@given(point=points)
@settings(max_examples=30)
def test_a_projection_stays_where_it_is(constraint: Constraint, point: np.ndarray) -> None:
    nearest = constraint.project(point)
    np.testing.assert_allclose(constraint.project(nearest), nearest, atol=1e-8 * constraint.reach)


@pytest.mark.slow
@each_set
@given(first=points, second=points)
@settings(max_examples=30)
def test_projections_come_no_further_apart(constraint: Constraint, first: np.ndarray, second: np.ndarray) -> None:
    apart = np.linalg.norm(constraint.project(first) - constraint.project(second))
    rounding = 1e-8 * (np.linalg.norm(first) + np.linalg.norm(second) + constraint.reach)
    assert apart <= np.linalg.norm(first - second) + rounding


@pytest.mark.slow
@each_set
@given(
    point=arrays(np.float64, SIZE, elements=st.floats(-10, 10).filter(lambda size: size == 0 or abs(size) > 1e-290)),
    factor=st.floats(1e-3, 1e3),
)
@settings(max_examples=30)
def test_gauges_are_homogeneous(constraint: Constraint, point: np.ndarray, factor: float) -> None:
    """Up to the tolerance of the linear programme behind a hull's, for points that are none other in other units.

    A coordinate of 5e-324 times 1e-3 is 0, and a point without it another one; no guarantee compares their gauges.
    """
    gauge = constraint.gauge(point)
    if math.isinf(gauge):
        assert math.isinf(constraint.gauge(factor * point))
    else:
        assert constraint.gauge(factor * point) == pytest.approx(factor * gauge, rel=1e-6, abs=1e-9)


@each_set
def test_gauges_are_one_on_the_border(constraint: Constraint) -> None:
    rng = np.random.default_rng(3)
    for _ in range(20):
        border = constraint.farthest(rng.normal(size=SIZE))
        assert constraint.gauge(border) == pytest.approx(1, abs=1e-9)
        assert np.linalg.norm(border) <= constraint.reach * (1 + 1e-12)


@each_set
def test_zero_has_no_gauge_and_moves_nothing(constraint: Constraint) -> None:
    zero = np.zeros(SIZE)
    assert constraint.gauge(zero) == 0
    assert constraint.support(zero) == 0


@each_set
def test_symmetry_is_what_it_says(constraint: Constraint) -> None:
    rng = np.random.default_rng(4)
    for _ in range(5):
        corner = constraint.farthest(rng.normal(size=SIZE))
        if constraint.symmetric:
            assert constraint.gauge(-corner) == pytest.approx(constraint.gauge(corner))


@pytest.mark.slow
@each_set
def test_widths_are_expected_suprema(constraint: Constraint) -> None:
    """40,000 draws; five standard errors: a false alarm once in 2 million for each set."""
    rng = np.random.default_rng(11)
    suprema = [constraint.support(row) for row in rng.normal(size=(40_000, SIZE))]
    tolerance = 5 * np.std(suprema) / 200
    if isinstance(constraint, Hull):  # its own draws add their error
        tolerance *= math.sqrt(1 + 40_000 / 20_000)
    assert constraint.gaussian_width(SIZE) == pytest.approx(np.mean(suprema), abs=tolerance)


@pytest.mark.parametrize(
    ("constraint", "size", "width"),
    [
        (L2Ball(), 1, math.sqrt(2 / math.pi)),
        (L2Ball(), 2, math.sqrt(math.pi / 2)),
        (L1Ball(), 1, math.sqrt(2 / math.pi)),
        (L1Ball(), 2, 2 / math.sqrt(math.pi)),
        (Simplex(), 1, 0.0),
        (Simplex(), 2, 1 / math.sqrt(math.pi)),
        (Simplex(), 3, 1.5 / math.sqrt(math.pi)),
        (GroupL1(1.0, 2), 2, math.sqrt(math.pi / 2)),
        (LpBall(1.0, 1.5), 1, math.sqrt(2 / math.pi)),
        (LpBall(1.0, 1.01), 1, math.sqrt(2 / math.pi)),
    ],
    ids=repr,
)
def test_widths_in_closed_form(constraint: Constraint, size: int, width: float) -> None:
    assert constraint.gaussian_width(size) == pytest.approx(width, rel=1e-5, abs=1e-9)


@pytest.mark.parametrize(("p", "other"), [(1.01, L1Ball()), (1.99, L2Ball())], ids=["l1", "l2"])
def test_lp_balls_lie_between_the_others(p: float, other: Constraint) -> None:
    for size in (10, 1000):
        assert LpBall(1.0, p).gaussian_width(size) == pytest.approx(other.gaussian_width(size), rel=0.06)


def test_widths_of_many_dimensions() -> None:
    """Source 001: of order sqrt(log d) for the L1 ball and the simplex, sqrt(d) for the Euclidean one."""
    assert L2Ball().gaussian_width(10_000) == pytest.approx(100, rel=1e-4)
    assert 4.0 < L1Ball().gaussian_width(10_000) < math.sqrt(2 * math.log(20_000))
    assert 3.8 < Simplex().gaussian_width(10_000) < math.sqrt(2 * math.log(10_000))


def test_groups_of_one_are_the_l1_ball() -> None:
    rng = np.random.default_rng(8)
    for point in rng.normal(size=(20, 5)):
        np.testing.assert_allclose(GroupL1(0.5, 1).project(point), L1Ball(0.5).project(point), atol=1e-14)
    assert GroupL1(0.5, 1).gaussian_width(5) == L1Ball(0.5).gaussian_width(5)
    assert GroupL1(1.0, 4).sizes(10) == [4, 4, 2]


@pytest.mark.slow
def test_the_hull_of_unit_vectors_is_a_simplex_and_of_both_signs_a_cross_polytope() -> None:
    corners = np.eye(5)
    rng = np.random.default_rng(9)
    for point in 2 * rng.normal(size=(50, 5)):
        np.testing.assert_allclose(Hull(corners.tolist()).project(point), Simplex(1.0).project(point), atol=1e-10)
        both = Hull(np.vstack([corners, -corners]).tolist())
        np.testing.assert_allclose(both.project(point), L1Ball(1.0).project(point), atol=1e-10)
        assert both.gauge(point) == pytest.approx(L1Ball(1.0).gauge(point), rel=1e-9)
        np.testing.assert_array_equal(both.farthest(point), L1Ball(1.0).farthest(point))


def test_a_projection_against_a_general_solver() -> None:
    point = np.array([1.5, -0.2, 0.7])
    for p in (1.2, 1.5, 1.8):
        ball = {"type": "ineq", "fun": lambda v, p=p: 1 - np.sum(np.abs(v) ** p)}
        found = optimize.minimize(
            lambda v: np.sum((v - point) ** 2), point / 4, constraints=[ball], options={"ftol": 1e-14, "maxiter": 500}
        )
        np.testing.assert_allclose(LpBall(1.0, p).project(point), found.x, atol=1e-5)


@each_set
def test_dictionaries_give_the_set_again(constraint: Constraint) -> None:
    import json

    assert from_dict(json.loads(json.dumps(constraint.to_dict()))) == constraint
    assert hash(from_dict(constraint.to_dict())) == hash(constraint)
    with pytest.raises(FrozenInstanceError):
        constraint.name = "other"  # type: ignore[misc]


@pytest.mark.parametrize(
    "make",
    [
        lambda: L1Ball(0.0),
        lambda: L2Ball(-1.0),
        lambda: L2Ball(math.inf),
        lambda: L2Ball("1"),  # type: ignore[arg-type]
        lambda: LpBall(1.0, 2.0),
        lambda: LpBall(1.0, 1.0),
        lambda: GroupL1(1.0, 0),
        lambda: GroupL1(1.0, ()),
        lambda: GroupL1(1.0, (1, -1)),
        lambda: Hull([]),
        lambda: Hull([[1.0], [2.0, 3.0]]),
        lambda: Hull([[math.nan]]),
        lambda: from_dict({"name": "cube"}),
        lambda: from_dict({"name": "l1", "width": 2}),
        lambda: L1Ball().project([[1.0]]),
        lambda: L1Ball().project([math.nan]),
        lambda: L1Ball().project(["a"]),
        lambda: Hull([[1.0, 2.0]]).project([1.0]),
        lambda: GroupL1(1.0, (1, 2)).gauge([1.0]),
        lambda: L1Ball().gaussian_width(0),
        lambda: Hull([[1.0, 2.0]]).gaussian_width(3),
    ],
)
def test_bad_arguments_are_named(make: Any) -> None:
    with pytest.raises(ArgumentError):
        make()


def test_the_sets_have_a_public_place() -> None:
    assert dp.streaming.constraints.L1Ball is L1Ball
