"""Groups and shares: against the table of the proof page, and invariants."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpstats.errors import ArgumentError
from dpstats.privacy.k_norm import (
    ConvexBody,
    Image,
    KNormNoise,
    box,
    cross,
    group_blocks,
    group_energy,
    intercept,
    k_norm_noise,
    make_grouping,
    simplex,
    unit_images,
)

BLOCKS = st.builds(ConvexBody, st.sampled_from(["box", "simplex", "cross", "ball"]), st.integers(1, 9))
DESIGNS = st.lists(BLOCKS, min_size=1, max_size=7)


@pytest.mark.parametrize(
    ("boxes", "crosses", "simplices", "square", "apart"),
    [
        (6, [], [6, 13, 5, 4], 2363.37, [range(1, 7)]),
        (7, [], [7, 15, 6, 13, 5, 4, 40], 12452.1, [range(1, 8), [14]]),
        (2, [], [4, 4, 4, 3, 3], 831.5, []),
        (1, [3], [3, 4, 12], 707.3, [[5]]),
    ],
)
def test_table(boxes: int, crosses: list[int], simplices: list[int], square: float, apart: list[list[int]]) -> None:
    blocks = [intercept(), *[box()] * boxes, *map(cross, crosses), *map(simplex, simplices)]
    grouping = group_blocks(unit_images(blocks))
    assert grouping.expected_square == pytest.approx(square, rel=1e-4)
    alone = {frozenset(group) for group in apart}
    rest = frozenset(range(len(blocks))) - frozenset().union(*alone)
    assert {frozenset(group) for group in grouping.groups} == alone | {rest}
    assert k_norm_noise(unit_images(blocks)).expected_square() == pytest.approx(square, rel=1e-4)


@settings(max_examples=60)
@given(blocks=DESIGNS, constant=st.booleans(), data=st.data())
def test_grouping_is_optimal_in_its_shares_and_no_worse_than_the_norms(
    blocks: list[ConvexBody], constant: bool, data: st.DataObject
) -> None:
    blocks = [intercept(), *blocks] if constant else blocks
    size = sum(block.size for block in blocks)
    scales = np.array(data.draw(st.lists(st.floats(0.01, 100), min_size=size, max_size=size)))
    images = unit_images(blocks, scales)
    grouping = group_blocks(images)
    found = grouping.expected_square
    assert math.fsum(grouping.shares) == pytest.approx(1, abs=1e-12)
    # The sum of energy / share^2, of the law itself, and of other shares.
    assert KNormNoise(1.0, images, grouping.groups, grouping.shares).expected_square() == pytest.approx(found, rel=1e-9)
    moved = np.array(grouping.shares) * np.exp(np.linspace(-0.1, 0.1, len(grouping.shares)))
    assert sum(grouping.energies / (moved / moved.sum()) ** 2) >= found * (1 - 1e-12)
    # Every block by itself, all in one, and independent Laplace coordinates of the best scales.
    for groups in ([[index] for index in range(len(blocks))], [range(len(blocks))]):
        assert found <= make_grouping(images, groups).expected_square * (1 + 1e-9)
    if all(block.kind in ("simplex", "cross", "intercept") or block.size == 1 for block in blocks):
        ends = np.cumsum([block.size for block in blocks])
        squares = [(scales[end - b.size : end] ** 2).sum() for b, end in zip(blocks, ends, strict=True)]
        assert found <= np.cbrt(2 * np.array(squares)).sum() ** 3 * (1 + 1e-9)


@settings(max_examples=100)
@given(blocks=DESIGNS, constant=st.booleans())
def test_never_above_one_norm_of_the_whole_row(blocks: list[ConvexBody], constant: bool) -> None:
    """At unit bounds: l1, l2 and linf noise of scale sup ||x||, and the product of the symmetric hulls."""
    blocks = [intercept(), *blocks] if constant else blocks
    size = sum(block.size for block in blocks)
    most = {"box": lambda k: k, "ball": math.sqrt}
    l1 = sum(most.get(block.kind, lambda k: 1)(block.size) for block in blocks)
    l2 = sum(block.size if block.kind == "box" else 1 for block in blocks)
    product = (size + 1) * (size + 2) * sum(block.variance * block.size for block in blocks)
    others = (2 * size * l1**2, size * (size + 1) * l2, size * (size + 1) * (size + 2) / 3, product)
    assert group_blocks(unit_images(blocks)).expected_square <= min(others) * (1 + 1e-9)


@settings(max_examples=40)
@given(blocks=DESIGNS, seed=st.integers(0, 10**6))
def test_the_order_of_blocks_decides_nothing(blocks: list[ConvexBody], seed: int) -> None:
    blocks = [intercept(), *blocks]
    shuffled = [blocks[index] for index in np.random.default_rng(seed).permutation(len(blocks))]
    one, other = (group_blocks(unit_images(order)) for order in (blocks, shuffled))
    assert one.expected_square == pytest.approx(other.expected_square, rel=1e-10)


def test_greedy_is_near_the_best_of_all_partitions() -> None:
    """Over all partitions of five blocks; the greedy search may stop short, here by at most 1 %."""
    for sizes in ((3, 9, 1), (12, 4, 2), (2, 2, 30)):
        blocks = [intercept(), *map(simplex, sizes), box(2)]
        images = unit_images(blocks)
        best = math.inf
        for labels in itertools.product(range(len(blocks)), repeat=len(blocks)):
            groups = [[i for i, label in enumerate(labels) if label == g] for g in sorted(set(labels))]
            if all(label <= max(labels[:i], default=-1) + 1 for i, label in enumerate(labels)):
                best = min(best, make_grouping(images, groups).expected_square)
        assert best <= group_blocks(images).expected_square <= 1.01 * best


@pytest.mark.slow
def test_energy_counts_the_map() -> None:
    """Contrasts d @ C of dummies that share the intercept's hull: E||C'U||^2 by the moments' matrix."""
    rng = np.random.default_rng(1)
    maps = [rng.normal(size=(1, 3)), rng.normal(size=(4, 3)), rng.normal(size=(2, 2))]
    images = tuple(
        Image(block, columns, matrix)
        for block, columns, matrix in zip(
            [intercept(), simplex(4), simplex(2)], [(0, 1, 2), (1, 2, 3), (4, 5)], maps, strict=True
        )
    )
    noise = KNormNoise(1.3, images, ((0, 1, 2),), (1.0,))
    assert noise.expected_square() == pytest.approx(1.3**2 * group_energy(images), rel=1e-12)
    group, matrix = noise.bodies[0], noise.maps[0]
    draws = np.array([group.uniform(rng) for _ in range(20_000)]) @ matrix
    squares = (draws**2).sum(axis=1)
    expected = group_energy(images) / ((group.size + 1) * (group.size + 2))
    assert abs(squares.mean() - expected) < 5 * squares.std() / math.sqrt(len(squares))  # false alarm 6e-7


def test_dummies_that_sum_to_one_are_independent_laplace() -> None:
    """`0 + a` as homogeniser with k - 1 dummies: its hull is the l1 ball of the k dummies."""
    matrix = np.hstack([-np.ones((3, 1)), np.eye(3)])
    images = (Image(intercept(), (0,), [[1.0]]), Image(simplex(3), (0, 1, 2, 3), matrix))
    noise = k_norm_noise(images, 0.5)
    np.testing.assert_allclose(noise.covariance(), 2 * 0.25 * np.eye(4), atol=1e-13)
    points = np.random.default_rng(0).normal(size=(50, 4))
    np.testing.assert_allclose(noise.log_density(points), -np.abs(points).sum(axis=1) / 0.5, atol=1e-12)


def test_a_wide_design_is_planned_without_delay() -> None:
    """One shape of 60 blocks, 201 columns: the second run, with moments at hand, must stay far below a second."""
    rng = np.random.default_rng(0)
    sizes = np.bincount(rng.integers(0, 40, 140), minlength=40) + 1
    noise = k_norm_noise(unit_images([intercept(), *[box()] * 20, *(simplex(int(size)) for size in sizes)]))
    assert noise.size == 201
    assert len(noise.groups) < 5


def images_of(*pairs: tuple[ConvexBody, tuple[int, ...]]) -> tuple[Image, ...]:
    return tuple(Image(block, columns, np.ones((block.size, len(columns)))) for block, columns in pairs)


@pytest.mark.parametrize(
    "images",
    [
        (),
        images_of((intercept(), (0,)), (intercept(), (1,))),
        images_of((box(), (0,)), (box(), (0,))),
        images_of((box(), (0, 1))),
        images_of((box(2), (0, 1)), (intercept(), (2,))),
        images_of((box(), (1,))),
        (*unit_images([intercept()]), Image(box(), (1,), [[0.0]])),
    ],
    ids=["none", "two intercepts", "shared", "too few", "rank", "column left out", "zero map"],
)
def test_invalid_designs(images: tuple[Image, ...]) -> None:
    with pytest.raises(ArgumentError):
        k_norm_noise(images)


def test_invalid_fields() -> None:
    images = unit_images([intercept(), box()])
    for matrix, columns in (([[1.0, 2.0]], (0,)), ([[math.nan]], (0,)), ([[1.0]], (-1,)), ([[1.0, 1.0]], (2, 2))):
        with pytest.raises(ArgumentError):
            Image(box(), columns, matrix)
    for groups, shares in ((((0,),), (1.0,)), (((0, 1), (1,)), (0.5, 0.5)), (((0, 1),), (0.5, 0.5))):
        with pytest.raises(ArgumentError):
            KNormNoise(1.0, images, groups, shares)
    for scale, shares in ((0.0, (1.0,)), (math.nan, (1.0,)), (1.0, (0.9,)), (1.0, (math.nan,))):
        with pytest.raises(ArgumentError):
            KNormNoise(scale, images, ((0, 1),), shares)
