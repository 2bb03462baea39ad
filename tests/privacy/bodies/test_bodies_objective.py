"""The optimum under noise cut to the design, by exact densities: no neighbours exceed eps, and some reach it.

No runs are drawn: log-ratios are computed on fixed points, so nothing here can fail by chance.
"""

from __future__ import annotations

import numpy as np
import pytest

from dpstats.audit.density import ObjectiveDensity
from dpstats.families import Binomial, Family, Gaussian, Poisson
from dpstats.privacy.bodies import BodyNoise, box, cross, intercept, simplex, unit_images
from dpstats.privacy.calibration import joint_scale

EPS = 1.0
FAMILIES = [Binomial(), Gaussian(0.5), Poisson(3.0, 3.0)]
LAYOUTS = {
    "hull": ([intercept(), simplex(2)], ((0, 1),), (1.0,)),
    "two factors": ([intercept(), simplex(1), simplex(1)], ((0, 1, 2),), (1.0,)),
    "hull and box": ([intercept(), simplex(1), box()], ((0, 1), (2,)), (0.6, 0.4)),
    "cross and box": ([cross(2), box()], ((0, 1),), (1.0,)),
}
CURVATURE = np.array([9.0, 15.0, 12.0])


def corners(name: str) -> np.ndarray:
    """Rows of the design, shape (m, 3)."""
    return {
        "hull": np.array([[1.0, 0, 0], [1, 1, 0], [1, 0, 1], [1, 0.4, 0.3]]),
        "two factors": np.array([[1.0, 0, 0], [1, 1, 0], [1, 0, 1], [1, 1, 1]]),
        "hull and box": np.array([[1.0, 1, -1], [1, 0, 1], [1, 1, 1], [1, 0, -0.2]]),
        "cross and box": np.array([[1.0, 0, -1], [0, -1, 1], [-0.5, 0.5, 1], [0, 0.2, 0.3]]),
    }[name]


def worst_ratio(
    name: str, family: Family, adjacency: str, factor: float = 1.0, rows: np.ndarray | None = None
) -> float:
    """The greatest log-ratio of neighbours' densities as a share of eps."""
    blocks, groups, shares = LAYOUTS[name]
    rows = corners(name) if rows is None else rows
    ratio = float((corners(name) ** 2 / CURVATURE).sum(axis=1).max())
    scale = joint_scale(family, eps=EPS, curvature_ratio=ratio, row_norm=1.0, adjacency=adjacency)
    noise = BodyNoise(scale * factor, unit_images(blocks), groups, shares)
    rng = np.random.default_rng(4)
    worst = 0.0
    for _ in range(40):
        exog, endog = rows[rng.integers(0, len(rows), 4)], family.clip_response(rng.choice([0.0, 1.0, 3.0, -1.0], 4))
        kept = slice(0, 3) if adjacency == "add_remove" else [0, 1, 3]
        first = slice(0, 4) if adjacency == "add_remove" else [0, 1, 2]
        linear = rng.normal(size=3) * scale * 20
        one, other = (
            ObjectiveDensity(family, exog[part], endog[part], CURVATURE, noise, linear) for part in (first, kept)
        )
        points = rng.normal(size=(400, 3)) * 10.0 ** rng.uniform(-1, 1.5, size=(400, 1))
        points[200:] -= linear / CURVATURE
        worst = max(worst, float(np.abs(one.log_density(points) - other.log_density(points)).max()))
    return worst / EPS


@pytest.mark.parametrize("adjacency", ["add_remove", "replace_one"])
@pytest.mark.parametrize("family", FAMILIES, ids=lambda family: type(family).__name__)
@pytest.mark.parametrize("name", LAYOUTS)
def test_guarantee_holds(name: str, family: Family, adjacency: str) -> None:
    assert 0.6 < worst_ratio(name, family, adjacency) <= 1 + 1e-9


@pytest.mark.parametrize("name", LAYOUTS)
def test_planted_errors_are_caught(name: str) -> None:
    """Half the scale; and for hulls rows without the intercept, or with dummies of either sign."""
    assert worst_ratio(name, Binomial(), "add_remove", factor=0.5) > 1.1
    if name in ("hull", "two factors"):
        without = corners(name) * np.array([0.0, 1, 1])
        assert worst_ratio(name, Binomial(), "add_remove", rows=without[1:]) > 1.1
        assert worst_ratio(name, Binomial(), "add_remove", rows=corners(name)[1:3] * np.array([1.0, -1, -1])) > 1.1
