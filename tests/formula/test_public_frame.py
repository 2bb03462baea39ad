"""Public rows fill the declared space."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from dpstats.domain import Domain
from dpstats.formula.public_frame import MOST_LEVEL_COMBINATIONS, MOST_ROWS, Codes, end_rows, public_frame

DOMAIN = Domain(
    x=(-3, 7), z=(0, 1e9), u=(5, 6), a=list("pqr"), b=[1, 2], wide=(-8e307, 8e307),
    **{f"g{i}": [str(j) for j in range(20)] for i in range(4)},
)  # fmt: skip


def test_one_column_is_a_uniform_grid_with_its_end_points() -> None:
    x = public_frame(DOMAIN, ["x"])["x"]
    assert isinstance(x, np.ndarray)
    np.testing.assert_allclose(np.sort(x), np.linspace(-3, 7, len(x)))
    assert x.min() == -3
    assert x.max() == 7


@pytest.mark.parametrize("columns", [["x", "z"], ["x", "z", "u"], ["x", "a", "z"], ["x", "z", "a", "b"]])
def test_pairs_of_columns_fill_their_box(columns: list[str]) -> None:
    frame = public_frame(DOMAIN, columns)
    numeric = [c for c in columns if isinstance(frame[c], np.ndarray)]
    for first, second in itertools.combinations(numeric, 2):
        cells = [np.minimum(10 * _unit(frame[c]), 9).astype(int) for c in (first, second)]
        assert len(set(zip(*cells, strict=True))) == 100
    ends = np.array([_unit(frame[c]) for c in numeric])
    corners = {tuple(column) for column in ends.T if np.isin(column, (0, 1)).all()}
    assert len(corners) == 2 ** len(numeric)


def test_marginals_without_faces_are_uniform_up_to_the_corners() -> None:
    z = np.sort(_unit(public_frame(DOMAIN, ["x", "z"])["z"]))
    assert np.abs(z - np.linspace(0, 1, len(z))).max() < 1e-3


def test_faces_put_points_on_every_face() -> None:
    frame = public_frame(DOMAIN, ["x", "z"], faces=True)
    on_face = _unit(frame["x"])[_unit(frame["z"]) == 1]
    assert len(on_face) > 1000
    assert np.diff(np.sort(on_face)).max() < 0.01


def test_every_combination_of_levels_meets_the_whole_range() -> None:
    frame = public_frame(DOMAIN, ["a", "x", "b"])
    codes_a, codes_b, x = frame["a"], frame["b"], frame["x"]
    assert isinstance(codes_a, Codes)
    assert isinstance(codes_b, Codes)
    for a, b in itertools.product(range(3), range(2)):
        there = x[(codes_a.values == a) & (codes_b.values == b)]  # type: ignore[index]
        assert there.min() == -3
        assert there.max() == 7


def test_the_frame_stays_small_when_levels_multiply() -> None:
    frame = public_frame(DOMAIN, ["g0", "g1", "g2", "g3", "x"])
    assert len(frame["x"]) <= MOST_ROWS  # type: ignore[arg-type]
    combinations = {*zip(*(frame[f"g{i}"].values for i in range(4)), strict=True)}  # type: ignore[union-attr]
    assert len(combinations) == MOST_LEVEL_COMBINATIONS
    for i in range(4):
        assert set(frame[f"g{i}"].values) == set(range(20))  # type: ignore[union-attr]


def test_wide_ranges_do_not_overflow() -> None:
    wide = public_frame(DOMAIN, ["wide", "x"], faces=True)["wide"]
    assert np.isfinite(wide).all()  # type: ignore[call-overload]
    assert (np.min(wide), np.max(wide)) == (-8e307, 8e307)  # type: ignore[call-overload]


def test_end_rows_hold_both_ends() -> None:
    rows = end_rows(DOMAIN, ["x", "a"])
    np.testing.assert_array_equal(rows["x"], [-3, 7])  # type: ignore[arg-type]
    assert rows["a"].values.tolist() == [0, 0]  # type: ignore[union-attr]


def _unit(column: object) -> np.ndarray:
    assert isinstance(column, np.ndarray)
    return (column - column.min()) / (column.max() - column.min())
