"""Noise for several classes: exact densities, determinants, moments, planted errors (docs/proofs/multinomial)."""

from __future__ import annotations

import math
from itertools import product

import numpy as np
import pytest

from dpstats.errors import ArgumentError
from dpstats.privacy.class_noise import (
    ClassNoise,
    boundary_point,
    class_loss,
    class_noise,
    class_scale,
    determinant_curve,
    gauge,
    mean_square,
)
from dpstats.privacy.k_norm import Image, box, intercept, simplex, unit_images

BASIS = np.array([[1, -1, 0], [1, 1, -2]]) / np.sqrt([[2], [6]])
"""Orthonormal, of the plane of three numbers of sum zero."""


Rows = list[tuple[float, int, int]]
"""The column's value, the class, and how many rows are alike."""


def log_density(rows: Rows, curvature: float, scale: float, points: np.ndarray) -> np.ndarray:
    """Of the minimiser in the coordinates of `BASIS`, shape (n, 2): one column, three classes."""
    theta = points @ BASIS
    noise, (one, two, both) = -curvature * theta, (curvature, curvature, 0.0)
    for x, y, count in rows:
        parts = np.exp(x * theta - (x * theta).max(axis=1, keepdims=True))
        pi = parts / parts.sum(axis=1, keepdims=True)
        noise = noise - count * x * (pi - np.eye(3)[y])
        first, second = pi @ BASIS.T[:, 0], pi @ BASIS.T[:, 1]
        one = one + count * x**2 * (pi @ BASIS[0] ** 2 - first**2)
        two = two + count * x**2 * (pi @ BASIS[1] ** 2 - second**2)
        both = both + count * x**2 * (pi @ (BASIS[0] * BASIS[1]) - first * second)
    # The hexagon |v|_1 / 2 <= 1 has area 3 root 3 in the plane: 2! times it normalises.
    return -gauge(noise) / scale + np.log(one * two - both**2) - math.log(6 * math.sqrt(3) * scale**2)


def plane(reach: float, steps: int) -> np.ndarray:
    ends = np.linspace(-reach, reach, steps)
    return np.stack(np.meshgrid(ends, ends), axis=-1).reshape(-1, 2)


def greatest_ratio(rows: Rows, other: Rows, *, curvature: float, scale: float) -> float:
    """The greatest log-ratio of two densities, in either direction: on a grid of the plane, then on finer ones."""
    middle, reach, best = np.zeros(2), 16.0, 0.0
    for _ in range(4):
        points = middle + plane(reach, 61)
        ratio = np.abs(np.subtract(*(log_density(given, curvature, scale, points) for given in (rows, other))))
        middle, reach, best = points[np.argmax(ratio)], reach / 10, max(best, float(ratio.max()))
    return best


def pulled(*classes: int) -> Rows:
    """Rows of hardly any curvature that pull towards some classes: the noise is then far out wherever theta is."""
    return [(1e-3, place, 40_000) for place in classes]


@pytest.mark.parametrize(
    ("curvature", "reduced", "full"), [(1, 1.6820, 1.8056), (2, 1.2872, 1.2872), (5, 1.1054, 1.1054)]
)
def test_reference_scales(curvature: float, reduced: float, full: float) -> None:
    """With the same curvature for all classes, and, by brute force, for the differences from the first class."""
    assert class_scale(3, eps=1.0, kappa=1 / curvature, adjacency="add_remove") == pytest.approx(full, rel=1e-3)
    grid = np.linspace(0, 1, 401)
    pi = np.array([(a, b, 1 - a - b) for a in grid for b in grid if a + b <= 1 + 1e-12]).clip(0, 1)
    q = pi[:, :, None] * np.eye(3) - pi[:, :, None] * pi[:, None, :]
    log_det = np.log(np.linalg.det(np.eye(2) + q[:, 1:, 1:] / curvature))
    least = max(float(np.max((1 - pi[:, y]) / (1 - log_det))) for y in range(3))
    assert least == pytest.approx(reduced, rel=1e-3)


def test_loss_is_the_inverse_of_the_scale() -> None:
    for classes, kappa, adjacency, shared in product(
        (3, 4, 11), (1e-9, 0.05, 0.3), ("add_remove", "replace_one"), (0, 1)
    ):
        common = {"kappa": kappa, "adjacency": adjacency, "shared": bool(shared)}
        scale = class_scale(classes, eps=0.8, **common)
        assert 0.799 < class_loss(classes, scale=scale, **common) <= 0.8 * (1 + 1e-12)
    assert class_scale(3, eps=0.1, kappa=5.0, adjacency="add_remove") == math.inf


@pytest.mark.parametrize("shared", [False, True])
def test_no_probabilities_have_a_greater_determinant_than_the_curve(shared: bool) -> None:
    rng = np.random.default_rng(0)
    for classes in (3, 4, 7):
        kappa = 1.7
        ends, most = determinant_curve(classes, kappa, shared=shared)
        pi = rng.dirichlet(np.full(classes, 0.4), 400)
        even = np.linspace(0, 1, 101)
        pi = np.vstack([pi, np.column_stack([1 - even, *([even / (classes - 1)] * (classes - 1))])])
        q = pi[:, :, None] * np.eye(classes) - pi[:, :, None] * pi[:, None, :]
        found = kappa * np.trace(q, axis1=1, axis2=2) if shared else np.log(np.linalg.det(np.eye(classes) + kappa * q))
        bound = most[np.clip(np.searchsorted(ends, 1 - pi[:, 0]), 0, len(ends) - 1)]
        assert np.all(found <= bound + 1e-12)
        assert np.max(found[400:] / np.maximum(bound[400:], 1e-3)) > 0.999


def test_a_record_of_a_design_raises_the_determinant_by_no_more() -> None:
    rng = np.random.default_rng(1)
    for _ in range(50):
        classes, size = int(rng.integers(3, 6)), 2
        curvature, x = rng.uniform(0.3, 3, size), rng.normal(size=size)
        pi = rng.dirichlet(np.full(classes, 0.5))
        record = np.kron(np.outer(x, x), np.diag(pi) - np.outer(pi, pi))
        others = [
            np.kron(np.outer(z, z), np.diag(r) - np.outer(r, r))
            for z, r in zip(rng.normal(size=(3, 2)), rng.dirichlet(np.ones(classes), 3), strict=True)
        ]
        hessian = np.kron(np.diag(curvature), np.eye(classes)) + sum(others)
        ratio = np.linalg.slogdet(hessian + record)[1] - np.linalg.slogdet(hessian)[1]
        ends, most = determinant_curve(classes, float(np.sum(x**2 / curvature)), shared=False)
        assert 0 <= ratio <= most[np.searchsorted(ends, 1 - pi[0])] + 1e-12


def test_the_density_is_one_in_all() -> None:
    points = plane(24.0, 241)
    mass = np.exp(log_density([(1.0, 0, 1), (-0.4, 2, 3)], 1.0, 1.3, points)).sum() * 0.2**2
    assert mass == pytest.approx(1.0, abs=2e-3)


@pytest.mark.parametrize("curvature", [1.0, 2.0, 5.0])
def test_exact_density_of_three_classes(curvature: float) -> None:
    """The claim is kept by every pair of neighbours, and met: the scale could not be less."""
    scale = class_scale(3, eps=1.0, kappa=1 / curvature, adjacency="add_remove")
    bases = [[], pulled(0), pulled(1), pulled(1, 2), [(1.0, 0, 1), (-0.4, 2, 1), *pulled(0, 2)]]
    records = [(1.0, 0, 1), (-1.0, 1, 1), (0.5, 2, 1)]
    found = [
        greatest_ratio(base, [*base, record], curvature=curvature, scale=scale)
        for base, record in product(bases, records)
    ]
    assert max(found) <= 1 + 1e-9
    assert max(found) > 0.99


@pytest.mark.slow
@pytest.mark.parametrize("curvature", [1.0, 5.0])
def test_exact_density_of_a_replaced_record(curvature: float) -> None:
    scale = class_scale(3, eps=1.0, kappa=1 / curvature, adjacency="replace_one")
    records = [(1.0, 0, 1), (1.0, 1, 1), (-1.0, 0, 1), (-1.0, 2, 1)]
    found = [
        greatest_ratio([*base, one], [*base, other], curvature=curvature, scale=scale)
        for base in ([], pulled(1, 2), pulled(0), pulled(2))
        for one, other in product(records, records)
    ]
    assert max(found) <= 1 + 1e-9
    assert max(found) > 0.7  # one column leaves the two records one direction to share


def test_planted_curve_of_a_logit_is_caught() -> None:
    """Its determinant vanishes where the gradient is extreme; that of three classes does not."""
    planted = 1.0  # X / eps, as soon as the curvature is 1 / eps
    base = pulled(1, 2)
    assert greatest_ratio(base, [*base, (1.0, 0, 1)], curvature=1.5, scale=planted) > 1.2


def test_planted_curvature_that_differs_by_class_is_caught() -> None:
    """kappa of the mean curvature is too small for the class that has less."""
    least, mean = 0.5, 2.0
    scale = class_scale(3, eps=1.0, kappa=1 / mean, adjacency="add_remove")
    pi = np.array([0.02, 0.49, 0.49])
    q = np.diag(pi) - np.outer(pi, pi)
    unequal = np.diag([3.5, least, least])
    loss = np.linalg.slogdet(unequal + q)[1] - np.linalg.slogdet(unequal)[1] + 0.98 / scale
    assert loss > 1.2


@pytest.fixture(scope="module")
def law() -> ClassNoise:
    return class_noise(unit_images([intercept(), box(2), simplex(3)]), 6, 4)


def test_a_row_has_norm_one_at_most(law: ClassNoise) -> None:
    rng = np.random.default_rng(2)
    assert len(law.maps) == 4  # the intercept, each number, and the dummies together
    worst = 0.0
    for _ in range(200):
        dummies = np.eye(4)[rng.integers(4)][1:]
        d = [np.ones(1), *rng.choice([-1.0, 1.0], (2, 1)), dummies]
        pi, y = rng.dirichlet(np.full(4, 0.1)), rng.integers(4)
        worst = max(worst, law.norm([np.outer(one, pi - np.eye(4)[y]) for one in d]) / (1 - pi[y]))
    assert worst == pytest.approx(1.0)


def test_planted_norm_that_counts_dummies_apart_is_caught(law: ClassNoise) -> None:
    """The greatest over levels instead of their sum would let a row of a spline through with less than its gauge."""
    spline = np.array([0.4, 0.3, 0.3])
    root = np.array([1.0, -1.0, 0.0, 0.0])
    parts = np.outer(spline, root)
    assert gauge(parts).sum() == pytest.approx(1.0)
    assert gauge(parts).max() < 0.5


@pytest.mark.parametrize(("classes", "reduced"), [(3, 6.6667), (10, 55.9636)])
def test_mean_squares(classes: int, reduced: float) -> None:
    assert mean_square(classes) * (classes - 1) / classes == pytest.approx(reduced, rel=1e-4)


def test_two_numbers() -> None:
    law = class_noise(unit_images([box(), box()]), 2, 3)
    assert law.variances.sum() == pytest.approx(50)


def test_boundary_points_have_gauge_one() -> None:
    rng = np.random.default_rng(3)
    points = np.stack([boundary_point(5, rng) for _ in range(300)])
    assert np.allclose(points.sum(axis=1), 0)
    assert np.allclose(gauge(points), 1)


@pytest.mark.slow
def test_draws_have_the_law(law: ClassNoise) -> None:
    """Moments of 3,000 draws within 5 standard errors (false alarms below 1e-4), and the radius's law."""
    rng = np.random.default_rng(4)
    draws = np.stack([law.sample(rng) for _ in range(3_000)])
    assert np.abs(draws.sum(axis=2)).max() < 1e-10
    squares = (draws**2).sum(axis=2)
    error = squares.std(axis=0) / math.sqrt(len(draws))
    assert np.all(np.abs(squares.mean(axis=0) - law.variances) < 5 * error)
    # Given its groups, the norm of u is Gamma of the whole dimension; C is the identity here.
    norms = [law.norm([one[:1], one[1:2], one[2:3], one[3:]]) for one in draws]
    size = 6 * 3
    assert np.mean(norms) == pytest.approx(size, abs=5 * math.sqrt(size / 3000))
    assert np.var(norms) == pytest.approx(size, rel=0.15)


def test_a_column_without_noise_is_refused() -> None:
    with pytest.raises(ArgumentError, match="every column"):
        class_noise(unit_images([box()]), 2, 3)
    with pytest.raises(ArgumentError, match="rank"):
        class_noise([Image(box(), (1,), np.eye(1))], 2, 3)


def test_stored(law: ClassNoise) -> None:
    assert ClassNoise.from_dict(law.to_dict()).to_dict() == law.to_dict()
