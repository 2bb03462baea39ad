"""Volumes, gauges and moments of bodies, against exact integrals over triangulated polytopes and simulation.

Simulated moments are compared at 5 standard errors: with fresh seeds a sound package would fail one of the 40
comparisons with probability below 1e-4.
"""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from scipy.spatial import ConvexHull, Delaunay

from dpstats.privacy.k_norm import ConvexBody, Group, Image, ball, box, cross, intercept, simplex, unit_images
from dpstats.privacy.k_norm.groups import log_normaliser, second_moments, tail_sums
from dpstats.privacy.k_norm.quantiles import length_moments

POLYTOPES = [
    (intercept(), simplex(1)),
    (intercept(), simplex(2)),
    (intercept(), simplex(2), simplex(1)),
    (simplex(2), intercept(), simplex(2)),
    (box(1), intercept(), simplex(2)),
    (intercept(), cross(2), simplex(1)),
    (simplex(2), box(2)),
    (cross(2), simplex(2)),
]


def vertices(group: Group) -> np.ndarray:
    """Those of the product of bodies, with their opposites: the body is their convex hull."""
    parts = []
    for block in group.blocks:
        unit = np.eye(block.size)
        if block.kind == "intercept":
            parts.append(np.ones((1, 1)))
        elif block.kind == "box":
            parts.append(np.array(list(itertools.product((-1.0, 1.0), repeat=block.size))))
        elif block.kind == "simplex" and group.homogenised:
            parts.append(np.vstack([np.zeros(block.size), unit]))
        else:
            parts.append(np.vstack([unit, -unit]))
    product = np.array([np.concatenate(choice) for choice in itertools.product(*parts)])
    return np.vstack([product, -product])


@pytest.mark.parametrize("blocks", POLYTOPES, ids=str)
def test_volume_moments_and_gauge_of_the_polytope(blocks: tuple[ConvexBody, ...]) -> None:
    """Exact: a second moment over a simplex of corners v is (sum v v' + (sum v)(sum v)') / ((n + 1)(n + 2))."""
    group = Group(blocks)
    corners = vertices(group)
    volume, moment = 0.0, np.zeros((group.size, group.size))
    for cell in Delaunay(corners).simplices:
        part = corners[cell]
        size = abs(np.linalg.det(part[1:] - part[0])) / math.factorial(group.size)
        volume += size
        total = part.sum(axis=0)
        moment += size * (part.T @ part + np.outer(total, total)) / ((group.size + 1) * (group.size + 2))
    assert math.exp(group.log_volume) == pytest.approx(volume, rel=1e-12)
    np.testing.assert_allclose(group.second_moments, moment / volume, atol=1e-12)
    facets = ConvexHull(corners).equations
    points = np.random.default_rng(0).normal(size=(500, group.size))
    expected = (points @ facets[:, :-1].T / -facets[:, -1]).max(axis=1)
    np.testing.assert_allclose(group.gauge(points), expected, rtol=1e-12)


@pytest.mark.parametrize("size", [2, 5, 30, 200])
def test_one_simplex_beside_the_intercept_is_a_cross_polytope(size: int) -> None:
    """(1, k dummies) is a linear image of the k + 1 dummies, whose symmetric hull is the l1 ball."""
    matrix = np.eye(size + 1)
    matrix[1:, 0] = -1
    moments = matrix.T @ second_moments([size]) @ matrix
    np.testing.assert_allclose(moments, 2 / ((size + 2) * (size + 3)) * np.eye(size + 1), atol=1e-13)
    hull = (Image(intercept(), (0,), [[1.0]]), Image(simplex(size), tuple(range(1, size + 1)), np.eye(size)))
    assert Group((hull[0].block, hull[1].block)).log_volume == pytest.approx(cross(size + 1).log_volume, rel=1e-12)
    # From the k + 1 dummies back to (1, k dummies): fourth moments see every pattern of equal indices.
    back = Image(cross(size + 1), tuple(range(size + 1)), np.linalg.inv(matrix))
    np.testing.assert_allclose(
        length_moments(unit_images([intercept(), simplex(size)])), length_moments([back]), rtol=1e-10
    )


@pytest.mark.parametrize(
    ("sizes", "constant", "sums"),
    [
        ([3], 0.266667, [0.2]),
        ([2, 4], 0.215517, [0.183190, 0.187739]),
        ([6, 13, 5, 4], 0.066298, [0.155488, 0.106311, 0.163290, 0.168942]),
    ],
)
def test_published_moments(sizes: list[int], constant: float, sums: list[float]) -> None:
    moments = second_moments(sizes)
    ends = np.cumsum([1, *sizes])
    assert moments[0, 0] == pytest.approx(constant, abs=1e-6)
    for size, end, expected in zip(sizes, ends[1:], sums, strict=True):
        assert np.trace(moments[end - size : end, end - size : end]) == pytest.approx(expected, abs=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize(
    "blocks",
    [
        (intercept(), simplex(3), simplex(5)),
        (box(2), intercept(), simplex(4), ball(3)),
        (cross(3), ball(2), simplex(2)),
    ],
    ids=str,
)
def test_moments_of_draws(blocks: tuple[ConvexBody, ...]) -> None:
    group, rng, count = Group(blocks), np.random.default_rng(7), 20_000
    mixing = rng.normal(size=(group.size, group.size))
    draws = np.array([group.uniform(rng) for _ in range(count)])
    assert group.gauge(draws).max() <= 1 + 1e-12
    products = (draws[:, :, None] * draws[:, None, :]).reshape(count, -1)
    z = (products.mean(axis=0) - group.second_moments.ravel()) / (products.std(axis=0) / math.sqrt(count))
    assert np.abs(z).max() < 5
    # Maps in disjoint columns, dense within a block.
    images = [
        Image(block, tuple(range(where.start, where.stop)), mixing[where, where])
        for block, where in zip(blocks, group.slices, strict=True)
    ]
    lengths = sum(((draws[:, w] @ mixing[w, w]) ** 2).sum(axis=1) for w in group.slices)
    for power, expected in zip((1, 2), length_moments(images), strict=True):
        values = lengths**power
        assert abs(values.mean() - expected) < 5 * values.std() / math.sqrt(count)


@pytest.mark.parametrize("sizes", [(1,), (3, 2), (20, 15, 4), (200, 300, 17)])
def test_intercept_against_fractions(sizes: tuple[int, ...]) -> None:
    """E (2a - 1)^2 from the exact integer weights of J and the moments of Beta(J + 1, K - J + 1)."""
    dimension, sums = sum(sizes), tail_sums(sizes)[0]
    weights = [weight * math.factorial(total) * math.factorial(dimension - total) for total, weight in enumerate(sums)]
    square = Fraction(0)
    for total, weight in enumerate(weights):
        mean = Fraction(total + 1, dimension + 2)
        second = mean * Fraction(total + 2, dimension + 3)
        square += weight * (4 * second - 4 * mean + 1)
    moments = second_moments(sizes)
    assert moments[0, 0] == pytest.approx(float(square / sum(weights)), rel=1e-10)
    assert np.linalg.eigvalsh(moments).min() > 0
    assert math.isfinite(log_normaliser(Group((intercept(), *map(simplex, sizes))), 1.0))
