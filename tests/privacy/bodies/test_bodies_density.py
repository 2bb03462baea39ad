"""Exact densities: moving b by t times a row costs at most |t| / s, and they integrate to one.

No runs are drawn, so nothing here can fail by chance: points and rows are fixed, ratios are computed.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest
from scipy import integrate, special

from dpstats.privacy.k_norm import (
    Image,
    KNormNoise,
    ball,
    box,
    cross,
    intercept,
    k_norm_noise,
    shrink_block,
    simplex,
    unit_images,
)

SCALE = 0.7
Density = Callable[[np.ndarray], np.ndarray]


def cases() -> dict[str, KNormNoise]:
    dummies = (
        Image(intercept(), (0,), [[1.0]]),
        Image(simplex(2), (1, 2, 0), [[1.0, 0.0, -1.0], [0.0, 1.0, -1.0]]),
    )
    dense = np.array([[2.0, 0.3], [-0.4, 0.5]])
    splines = (Image(intercept(), (2,), [[1.0]]), Image(simplex(2), (0, 1), dense))
    one, line, plane = ((0, 1),), ((0,), (1,)), ((0, 1, 2),)
    return {
        "intercept and dummy": KNormNoise(SCALE, unit_images([intercept(), simplex(1)]), one, (1.0,)),
        "intercept beside dummy": KNormNoise(SCALE, unit_images([intercept(), simplex(1)]), line, (0.7, 0.3)),
        "intercept and dummies": KNormNoise(SCALE, unit_images([intercept(), simplex(2)]), one, (1.0,)),
        "all dummies": KNormNoise(SCALE, dummies, one, (1.0,)),
        "splines": KNormNoise(SCALE, splines, one, (1.0,)),
        "hull with a box": KNormNoise(SCALE, unit_images([box(), intercept(), simplex(1)]), plane, (1.0,)),
        "two factors": KNormNoise(SCALE, unit_images([simplex(1), intercept(), simplex(1)]), plane, (1.0,)),
        "hull and a group": KNormNoise(
            SCALE, unit_images([intercept(), simplex(1), box()]), ((0, 1), (2,)), (0.55, 0.45)
        ),
        "product": KNormNoise(SCALE, unit_images([cross(2), box()], [1.0, 2.0, 0.5]), one, (1.0,)),
        "ball and box": KNormNoise(SCALE, unit_images([ball(2), box()]), line, (0.4, 0.6)),
        "planned": k_norm_noise(unit_images([intercept(), box(), simplex(1)], [1.0, 3.0, 0.2]), SCALE),
    }


CASES = cases()


def rows(noise: KNormNoise, count: int, rng: np.random.Generator) -> np.ndarray:
    """Rows of the design, shape (count, p): parts shrunk to their blocks, half of them corners."""
    result = np.zeros((count, noise.size))
    for image in noise.images:
        part = rng.normal(size=(count, image.block.size)) * 10.0 ** rng.integers(-2, 2, size=(count, 1))
        corner = rng.random(count) < 0.5
        part[corner] = np.eye(image.block.size)[rng.integers(0, image.block.size, corner.sum())]
        part[corner] *= rng.choice([-1.0, 1.0], size=(corner.sum(), 1))
        shrink_block(part, image.block)
        result[:, list(image.columns)] += part @ image.matrix
    return result


def worst_excess(noise: KNormNoise, density: Density | None = None, design: KNormNoise | None = None) -> float:
    """The greatest log f(v + t x) - log f(v), as a share of |t| / s, over points, rows and both signs, less 1."""
    rng = np.random.default_rng(12)
    density = density or noise.log_density
    x = rows(design or noise, 4000, rng)
    v = rng.normal(size=x.shape) * noise.standard_deviations() * 10.0 ** rng.uniform(-3, 0.5, size=(len(x), 1))
    t = rng.choice([-1.0, 1.0], size=len(x)) * 10.0 ** rng.uniform(-2, 1, size=len(x))
    change = np.abs(density(v + t[:, None] * x) - density(v))
    return float((change / (np.abs(t) / SCALE)).max()) - 1


@pytest.mark.parametrize("name", CASES)
def test_ratio_is_bounded_and_the_bound_is_reached(name: str) -> None:
    assert -1e-3 < worst_excess(CASES[name]) <= 1e-9


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_density_integrates_to_one(name: str) -> None:
    noise = CASES[name]
    reach = 16 * noise.standard_deviations() / math.sqrt(noise.size)
    axes = [length * np.linspace(-1, 1, 401 if noise.size == 2 else 121) for length in reach]
    values = np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1)
    total = np.exp(noise.log_density(values))
    for axis in reversed(axes):
        total = integrate.simpson(total, x=axis)
    assert float(total) == pytest.approx(1, abs=1e-2)


def test_image_of_more_dummies_than_columns() -> None:
    """A sum contrast of two dummies beside the intercept: b has one dimension less than b_d; its density by lines."""
    hull = KNormNoise(SCALE, unit_images([intercept(), simplex(2)]), ((0, 1),), (1.0,))
    hidden = np.linspace(-12, 12, 24001)

    def density(points: np.ndarray) -> np.ndarray:
        return np.array([line_integral(hull, point, hidden) for point in points])

    rng = np.random.default_rng(2)
    parts = np.abs(rng.normal(size=(60, 2)))
    shrink_block(parts, simplex(2))
    x = np.column_stack([np.ones(60), parts[:, 0] - parts[:, 1]])
    v = rng.normal(size=x.shape)
    t = rng.choice([-1.0, 1.0], 60) * rng.uniform(0.1, 2, 60)
    change = np.abs(density(v + t[:, None] * x) - density(v)) * SCALE / np.abs(t)
    assert 0.8 < change.max() <= 1 + 1e-6
    # Such a law has moments and draws, but no density in closed form.
    maps = (Image(intercept(), (0,), [[1.0]]), Image(simplex(2), (1,), [[1.0], [-1.0]]))
    noise = KNormNoise(SCALE, maps, ((0, 1),), (1.0,))
    assert noise.sample(rng).shape == (2,)
    with pytest.raises(ValueError, match="invertible"):
        noise.log_density(v)


def line_integral(hull: KNormNoise, point: np.ndarray, hidden: np.ndarray) -> float:
    """Log density of (b_0, b_1 - b_2) from that of (b_0, b_1, b_2)."""
    line = np.column_stack([np.full_like(hidden, point[0]), hidden + point[1], hidden])
    return math.log(integrate.simpson(np.exp(hull.log_density(line)), x=hidden))


class TestPlantedErrorsAreCaught:
    """Each exceeds the bound by the check that the right law passes."""

    @pytest.mark.parametrize("name", CASES)
    def test_half_the_scale(self, name: str) -> None:
        noise = CASES[name]
        half = KNormNoise(SCALE / 2, noise.images, noise.groups, noise.shares)
        assert worst_excess(noise, half.log_density) > 0.9

    @pytest.mark.parametrize("name", CASES)
    def test_radius_of_shape_d(self, name: str) -> None:
        """R Gamma(d) instead of d + 1: f(b) is the integral of e^-r / r beyond the gauge, unbounded at 0."""
        noise = CASES[name]
        group = noise.bodies[0]
        matrix = np.linalg.inv(np.concatenate(noise.maps))
        scale = SCALE / noise.shares[0]

        def density(points: np.ndarray) -> np.ndarray:
            gauge = group.gauge((points @ matrix)[:, : group.size]) / scale
            return noise.log_density(points) + gauge + np.log(special.exp1(gauge))

        assert worst_excess(noise, density) > 0.5

    @pytest.mark.parametrize("name", ["intercept beside dummy", "hull and a group", "ball and box"])
    def test_share_forgotten(self, name: str) -> None:
        noise = CASES[name]
        forgotten = KNormNoise(SCALE, noise.images, noise.groups, noise.shares)
        forgotten.__dict__["_scales"] = (SCALE,) * len(noise.groups)
        assert worst_excess(noise, forgotten.log_density) > 0.3

    @pytest.mark.parametrize("name", ["intercept and dummy", "intercept and dummies", "two factors"])
    def test_homogeniser_without_an_intercept(self, name: str) -> None:
        """Rows whose first coordinate is not 1, here any number in [-1, 1]."""
        noise = CASES[name]
        blocks = [box() if image.block.kind == "intercept" else image.block for image in noise.images]
        design = k_norm_noise(unit_images(blocks))
        assert worst_excess(noise, design=design) > 0.5

    @pytest.mark.parametrize("name", ["intercept and dummy", "intercept and dummies", "hull with a box"])
    def test_simplex_for_columns_of_either_sign(self, name: str) -> None:
        noise = CASES[name]
        blocks = [cross(image.block.size) if image.block.kind == "simplex" else image.block for image in noise.images]
        design = k_norm_noise(unit_images(blocks))
        assert worst_excess(noise, design=design) > 0.5

    def test_two_subterms_in_one_simplex(self) -> None:
        """Dummies of two factors called one simplex: their sum is 2."""
        noise = KNormNoise(SCALE, unit_images([intercept(), simplex(2)]), ((0, 1),), (1.0,))
        design = k_norm_noise(unit_images([intercept(), simplex(1), simplex(1)]))
        assert worst_excess(noise, design=design) > 0.5
