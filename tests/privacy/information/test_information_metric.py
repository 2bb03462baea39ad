"""The metric of a design: rows within it, exact log-ratios, releases in its coordinates, planted errors.

Seeds are fixed; what is compared with draws has limits of five standard errors or more.
"""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from wishart_law import log_ratio

from dpstats.errors import ArgumentError
from dpstats.privacy.information import (
    MatrixNoise,
    design_metric,
    matrix_noise,
    noisy_information,
    noisy_spread,
    spread_bound,
)
from dpstats.privacy.information.exact_sums import PLACES, integer_rows
from dpstats.privacy.k_norm import ConvexBody, Image, ball, box, cross, intercept, simplex, unit_images
from dpstats.privacy.randomness import SystemRandom

SUM = np.array([[1.0, 0.0], [0.0, 1.0], [-1.0, -1.0]])


def contrasts() -> tuple[Image, ...]:
    """Three levels coded by their deviations from the last, beside an intercept, and a number."""
    return (
        Image(intercept(), (0, 1, 2), np.array([[1.0, *SUM[0]]])),
        Image(simplex(2), (1, 2), SUM[1:] - SUM[0]),
        Image(box(), (3,), np.array([0.5])),
    )


DESIGNS = {
    "factor": unit_images([intercept(), simplex(3)]),
    "mixed": unit_images([intercept(), box(2), simplex(3), simplex(1), cross(2), ball(2)], np.linspace(0.2, 3, 11)),
    "contrasts": contrasts(),
    "no intercept": unit_images([box(2), simplex(3), ball(2)]),
}


def corners(block: ConvexBody) -> np.ndarray:
    """Extreme points of a block's body; of a ball some."""
    if block.kind == "intercept":
        return np.ones((1, 1))
    if block.kind == "box":
        return np.array(list(itertools.product([-1.0, 1.0], repeat=block.size)))
    if block.kind == "ball":
        angles = np.random.default_rng(0).normal(size=(4, block.size))
        return angles / np.linalg.norm(angles, axis=1, keepdims=True)
    unit = np.eye(block.size)
    return np.vstack((unit, -unit)) if block.kind == "cross" else np.vstack((unit, np.zeros((1, block.size))))


def extreme_rows(images: tuple[Image, ...]) -> np.ndarray:
    size = 1 + max(column for image in images for column in image.columns)
    rows = np.zeros((1, size))
    for image in images:
        part = np.zeros((len(corners(image.block)), size))
        part[:, list(image.columns)] = corners(image.block) @ image.matrix
        rows = (rows[:, None] + part).reshape(-1, size)
    return rows


def lengths(noise: MatrixNoise, rows: np.ndarray) -> np.ndarray:
    """x'D^-1 x from the coordinates, shape (rows,)."""
    return (noise.coordinates(rows) ** 2 / np.array(noise.diagonal)).sum(axis=1)


@pytest.mark.parametrize("name", sorted(DESIGNS))
def test_rows_reach_and_keep_the_metric(name: str) -> None:
    rows = extreme_rows(DESIGNS[name])
    noise = MatrixNoise("wishart", 1.0, *design_metric(DESIGNS[name]))
    found = lengths(noise, rows)
    assert found.max() == pytest.approx(1, abs=1e-12)
    assert found == pytest.approx(np.einsum("ni,ij,nj->n", rows, np.linalg.inv(noise.metric), rows), rel=1e-9)
    inside = np.random.default_rng(1).dirichlet(np.ones(len(rows)), 200) @ rows
    assert lengths(noise, inside).max() <= 1
    if name != "no intercept":
        assert found.min() == pytest.approx(1, abs=1e-12)  # the optimal design's measure lives on all corners


@pytest.mark.slow
@pytest.mark.parametrize("name", ["factor", "contrasts"])
@pytest.mark.parametrize("adjacency", ["add_remove", "replace_one"])
def test_exact_log_ratio(name: str, adjacency: str) -> None:
    """In the coordinates over D^1/2, where the noise is the law of the quadrature, p = 3: within 1 a record."""
    images = unit_images([intercept(), simplex(2)]) if name == "factor" else contrasts()[:2]
    noise = MatrixNoise("wishart", 1.0, *design_metric(images))
    rows = extreme_rows(images)
    cells = noise.coordinates(rows) / np.sqrt(np.array(noise.diagonal))
    rng, worst, records = np.random.default_rng(2), 0.0, 1 if adjacency == "add_remove" else 2
    for first, second in itertools.product(range(3), repeat=2):
        added = np.outer(cells[first], cells[first])
        other = np.outer(cells[second], cells[second]) if records == 2 else 0 * added
        directions = np.eye(3), 3 * added + 0.1 * np.eye(3), rng.normal(size=(3, 3))
        for centre in directions:
            centre = (centre + centre.T) / 2
            # From the data with `other` to the data with `added`, through the data with neither.
            ratio = log_ratio(centre, added) - (log_ratio(centre, other) if records == 2 else 0)
            worst = max(worst, abs(ratio))
    assert worst <= records + 1e-4
    assert worst > (0.999 if records == 1 else 1.0)


def test_release_in_the_coordinates() -> None:
    images = DESIGNS["mixed"]
    rng = np.random.default_rng(3)
    corner = extreme_rows(images)
    exog = rng.dirichlet(np.ones(4), 3000)[:, :, None] * corner[rng.integers(0, len(corner), (3000, 4))]
    exog, weights = exog.sum(axis=1), rng.uniform(0, 0.25, 3000)
    noise = MatrixNoise("wishart", 1e-8, *design_metric(images))
    found = noisy_information([(exog, weights)], noise, weight_bound=0.25, cover_eps=1.0, random=SystemRandom())
    right = (exog * weights[:, None]).T @ exog
    unit = np.sqrt(np.diag(noise.metric))
    assert np.array_equal(found, found.T)
    assert np.abs((found - right) / np.outer(unit, unit)).max() < 1e-2


def test_a_row_moves_the_integers_by_at_most_its_weight() -> None:
    noise = MatrixNoise("wishart", 1.0, *design_metric(DESIGNS["mixed"]))
    rows = np.random.default_rng(4).normal(size=(300, noise.size)) * 10.0 ** np.arange(-3, 3).repeat(50)[:, None]
    found = integer_rows(noise.coordinates(rows), np.full(300, 0.2), np.array(noise.diagonal), 0.25)
    assert all(sum(int(cell) ** 2 for cell in row) <= 0.8 * 4**PLACES for row in found)


def test_coordinates_of_a_row_do_not_depend_on_the_others() -> None:
    noise = MatrixNoise("wishart", 1.0, *design_metric(DESIGNS["mixed"]))
    rows = np.random.default_rng(5).normal(size=(1001, noise.size))
    whole = noise.coordinates(rows)
    assert whole @ np.array(noise.mixing).T == pytest.approx(rows)
    for start, stop in ((0, 1), (13, 14), (500, 1001)):
        assert np.array_equal(noise.coordinates(np.asfortranarray(rows[start:stop])), whole[start:stop])
    before = rows.copy()
    noise.coordinates(rows)
    assert np.array_equal(rows, before)


@pytest.mark.slow
@pytest.mark.parametrize("law", ["wishart", "normal"])
def test_moments(law: str) -> None:
    noise = MatrixNoise(law, 0.7, *design_metric(contrasts()))  # type: ignore[arg-type]
    random = np.random.default_rng(6)
    draws = np.array([noise.sample(random) for _ in range(20000)])
    assert np.array_equal(draws, draws.transpose(0, 2, 1))
    variances = noise.variances()
    assert (draws**2).mean(axis=0) / variances == pytest.approx(np.ones_like(variances), abs=0.1)
    middle = np.diag([1.0, 2, 0.5, 3]) + 0.3
    found, exact = np.einsum("kij,jl,klm->im", draws, middle, draws) / len(draws), noise.sandwich(middle)
    assert np.abs(found - exact).max() < 0.05 * np.abs(exact).max()


def test_spread_in_the_metric() -> None:
    """The bound of the robust variances: reached by a corner, and below that of a diagonal metric."""
    images = unit_images([intercept(), simplex(4)])
    metric, rows = design_metric(images), extreme_rows(images)
    inverse, kept = np.linalg.inv(rows.T @ rows), np.arange(1, 5)
    bound = spread_bound(inverse, np.array(metric.diagonal), np.eye(len(inverse))[kept], metric.mixing)
    scores = (rows @ inverse[:, kept]) ** 2 / np.diag(inverse)[kept]
    assert scores.sum(axis=1).max() <= bound * (1 + 1e-9)
    diagonal = np.array([2.0, 2, 2, 2, 2])
    assert bound < 0.6 * spread_bound(inverse, diagonal, np.eye(len(inverse))[kept])
    found = noisy_spread(
        [(np.repeat(rows, 500, axis=0), np.ones(2500))],
        inverse=inverse,
        diagonal=np.array(metric.diagonal),
        contrasts=np.eye(len(inverse))[kept],
        lipschitz=1.0,
        eps=1e4,
        random=SystemRandom(),
        mixing=metric.mixing,
    )
    assert found == pytest.approx(500 * ((rows @ inverse[:, kept]) ** 2).sum(axis=0), rel=1e-2)


@pytest.mark.parametrize(("levels", "factors"), [(4, 2), (9, 3)])
def test_contrasts_of_levels_have_much_less_noise(levels: int, factors: int) -> None:
    """Var(g'Eg) over G_jj^2 at even levels, noise of the whole matrix before any projection."""
    images = unit_images([intercept(), *([simplex(levels - 1)] * factors)])
    rows = extreme_rows(images)
    inverse = np.linalg.inv(rows.T @ rows / len(rows))
    size = len(inverse)
    own, other = np.full(factors, np.sqrt(levels - 1)), (1 + factors * np.sqrt(levels - 1))
    diagonal = np.concatenate(([1.0], np.repeat(1 / own, levels - 1))) * other
    found = []
    for noise in (MatrixNoise("wishart", 1.0, *design_metric(images)), MatrixNoise("wishart", 1.0, tuple(diagonal))):
        assert lengths(noise, rows).max() <= 1 + 1e-9
        middle = noise.sandwich(np.outer(inverse[1], inverse[1]))
        found.append(inverse[1] @ middle @ inverse[1] / inverse[1, 1] ** 2)
    assert found[0] < found[1] / 10
    assert found[0] == pytest.approx((size + 1) * size**2)


class TestPlanted:
    def test_bodies_one_by_one(self) -> None:
        """Metrics of the blocks without their shares: rows are twice as long, and so is the log-ratio."""
        images = unit_images([intercept(), simplex(1)])
        diagonal, mixing = design_metric(images)
        wrong = MatrixNoise("wishart", 1.0, tuple(entry / 2 for entry in diagonal), mixing)
        cells = wrong.coordinates(extreme_rows(images)) / np.sqrt(np.array(wrong.diagonal))
        added = np.outer(cells[0], cells[0])
        assert abs(log_ratio(added, added)) == pytest.approx(2)

    def test_mixing_for_its_inverse(self) -> None:
        images = DESIGNS["factor"]
        noise = MatrixNoise("wishart", 1.0, *design_metric(images))
        wrong = extreme_rows(images) @ np.array(noise.mixing).T
        assert (wrong**2 / np.array(noise.diagonal)).sum(axis=1).max() > 1.1

    def test_intercept_left_out(self) -> None:
        """The centre of the simplices is the intercept's: with dummies about 0 instead, rows leave the metric."""
        images = DESIGNS["factor"]
        wrong = np.diag([4.0, *np.full(3, 4 * (1 / 4 - 1 / 16))])
        assert np.einsum("ni,ij,nj->n", extreme_rows(images), np.linalg.inv(wrong), extreme_rows(images)).max() > 1.1


def test_round_trip_and_errors() -> None:
    diagonal, mixing = design_metric(contrasts())
    noise = matrix_noise(diagonal, eps=1.0, weight_bound=0.25, mixing=mixing)
    assert MatrixNoise.from_dict(noise.to_dict()) == noise
    assert hash(noise) == hash(noise.scaled(noise.scale))
    assert MatrixNoise.from_dict({"law": "wishart", "scale": 1.0, "diagonal": [1.0]}).mixing == ()
    for wrong in (((1.0,),), ((1.0, 0.5), (0.0, 1.0)), ((1.0, 0.0), (np.nan, 1.0)), ((2.0, 0.0), (0.0, 1.0))):
        with pytest.raises(ArgumentError):
            MatrixNoise("wishart", 1.0, (1.0, 1.0), wrong)
    with pytest.raises(ArgumentError):
        design_metric(contrasts(), {"intercept": 1.0, "simplex": 0.0, "box": 1.0})
