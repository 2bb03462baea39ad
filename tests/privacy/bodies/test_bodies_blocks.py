"""Blocks: gauges, and rows shrunk to them."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from dpstats.errors import ArgumentError
from dpstats.privacy.k_norm import ConvexBody, Group, ball, box, cross, intercept, shrink_block, simplex

BLOCKS = [box(3), simplex(3), cross(3), ball(3)]
VALUES = st.floats(-5, 5)
GROUPS = [
    Group((box(2), cross(3), ball(2), simplex(2))),
    Group((intercept(), simplex(3), simplex(2), box(2))),
    Group((simplex(4), ball(3), intercept(), cross(1))),
]


def in_body(part: np.ndarray, block: ConvexBody) -> bool:
    """By the definition of the body, apart from the gauge's code."""
    return {
        "box": np.abs(part).max() <= 1,
        "simplex": part.min() >= 0 and part.sum() <= 1,
        "cross": np.abs(part).sum() <= 1,
        "ball": (part * part).sum() <= 1,
    }[block.kind]


@pytest.mark.parametrize("block", BLOCKS, ids=str)
@given(part=arrays(np.float64, 3, elements=VALUES))
def test_shrunk_rows_lie_in_the_body(block: ConvexBody, part: np.ndarray) -> None:
    rows = np.stack([part, part / 10])
    shrink_block(rows, block)
    for row in rows:
        assert in_body(row, block)
    if in_body(part, block) and block.gauge(part) < 0.999:
        np.testing.assert_array_equal(rows[0], part)


@pytest.mark.parametrize("kind", [cross, ball])
def test_wide_parts_lie_in_the_body_exactly(kind: Callable[[int], ConvexBody]) -> None:
    """Every addend is rounded down by almost half a unit of the sum's last place, 40,000 times."""
    size, power = 40_000, {cross: 1, ball: 2}[kind]
    units = np.ceil((1 - 1e-13) * 2.0**53 / size)
    rows = np.full((1, size), ((units + 0.49) * 2.0**-53) ** (1 / power))
    shrink_block(rows, kind(size))
    assert Fraction(float(rows[0, 0])) ** power * size <= 1


@pytest.mark.parametrize("block", [*BLOCKS, intercept()], ids=str)
@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf, 1e308, -1e308, 5e-324, -0.0])
def test_no_cell_raises_or_warns(block: ConvexBody, value: float) -> None:
    rows = np.full((2, block.size), value)
    rows[1, :-1] = 0.5
    usable = np.isfinite(rows).all(axis=1)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        shrink_block(rows, block)
    np.testing.assert_array_equal(np.isfinite(rows).all(axis=1), usable)


@pytest.mark.parametrize("block", [ConvexBody(block.kind, 7) for block in BLOCKS], ids=str)
def test_a_row_does_not_depend_on_the_others(block: ConvexBody) -> None:
    rows = np.random.default_rng(0).normal(size=(1001, 7))
    together = rows.copy()
    shrink_block(together, block)
    for start, stop in ((0, 1), (1, 4), (500, 1001)):
        part = rows[start:stop].copy()
        shrink_block(part, block)
        np.testing.assert_array_equal(part, together[start:stop])


def test_rows_of_rounded_shares_stay_inside() -> None:
    """Sums of floats just above 1, as B-splines have them."""
    rows = np.random.default_rng(1).dirichlet(np.ones(40), 2000) * (1 + 1e-15)
    shrink_block(rows, simplex(40))
    assert rows.astype(np.longdouble).sum(axis=1).max() <= 1


@pytest.mark.slow
@pytest.mark.parametrize("group", GROUPS, ids=range(3))
@given(data=st.data())
def test_gauge_is_a_norm(group: Group, data: st.DataObject) -> None:
    one, other = (data.draw(arrays(np.float64, group.size, elements=VALUES)) for _ in range(2))
    factor = data.draw(VALUES)
    assert group.gauge(factor * one) == pytest.approx(abs(factor) * group.gauge(one), abs=1e-12)
    assert group.gauge(one + other) <= group.gauge(one) + group.gauge(other) + 1e-12
    assert group.gauge(one) >= np.abs(one).max() / 2 - 1e-150  # squares below underflow


@pytest.mark.parametrize("group", GROUPS, ids=range(3))
def test_every_row_has_gauge_one_at_most(group: Group) -> None:
    rng = np.random.default_rng(3)
    rows = rng.normal(size=(4000, group.size)) * rng.choice([0.1, 1.0, 10.0], size=(4000, 1))
    for block, where in zip(group.blocks, group.slices, strict=True):
        shrink_block(rows[:, where], block)
    assert group.gauge(rows).max() <= 1
    assert group.gauge(rows).max() > 1 - 1e-9


@pytest.mark.parametrize("fields", [("prism", 1), ("box", 0), ("box", 1.5), ("box", True), ("intercept", 2)])
def test_invalid_blocks(fields: tuple[str, int]) -> None:
    with pytest.raises(ArgumentError):
        ConvexBody(*fields)  # type: ignore[arg-type]
