"""The optimum under noise cut to the design, by exact densities: no neighbours exceed eps, and some reach it.

No runs are drawn: log-ratios are computed on fixed points, so nothing here can fail by chance.
"""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from objective_density import ObjectiveDensity

from dpstats.domain import Domain
from dpstats.errors import ArgumentError
from dpstats.families import Binomial, Family, Gaussian, Poisson
from dpstats.formula.design import DesignSpec, design_spec
from dpstats.mechanisms.calibration import NoiseBudget
from dpstats.mechanisms.design import ArrayDesign
from dpstats.mechanisms.objective import plan_objective
from dpstats.privacy.calibration import joint_scale, objective_noise
from dpstats.privacy.k_norm import KNormNoise, box, cross, intercept, simplex, unit_images

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
    noise = KNormNoise(scale * factor, unit_images(blocks), groups, shares)
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


class TestDesignNoise:
    """`objective_noise` of a formula's own design, whose noise has a closed density."""

    CURVATURE = np.array([9.0, 15.0, 12.0, 10.0])

    def design(self) -> DesignSpec:
        return design_spec("y ~ g + x", Domain({"g": ["a", "b", "c"], "x": (-1, 1), "y": [0, 1]}), family=Binomial())

    def worst(self, adjacency: str, factor: float = 1.0) -> float:
        """The greatest log-ratio of neighbours' densities as a share of eps, on rows of the design."""
        design, family = self.design(), Binomial()
        frame = pd.DataFrame({"g": ["a", "b", "c", "a"], "x": [-1.0, 1.0, -0.3, 1.0], "y": [0, 1, 1, 0]})
        rows = design.exog(frame)[0]
        noise = objective_noise(family, eps=EPS, curvature=self.CURVATURE, adjacency=adjacency, design=design)
        noise = noise.scaled(noise.scale * factor)
        rng = np.random.default_rng(5)
        worst = 0.0
        for _ in range(60):
            exog, endog = rows[rng.integers(0, 4, 3)], rng.integers(0, 2, 3).astype(float)
            kept = [0, 1] if adjacency == "add_remove" else [0, 2]
            first = slice(0, 3) if adjacency == "add_remove" else [0, 1]
            linear = rng.normal(size=4) * noise.scale * 20
            one, other = (
                ObjectiveDensity(family, exog[part], endog[part], self.CURVATURE, noise, linear)
                for part in (first, kept)
            )
            points = rng.normal(size=(400, 4)) * 10.0 ** rng.uniform(-1, 1.5, size=(400, 1))
            points[200:] -= linear / self.CURVATURE
            worst = max(worst, float(np.abs(one.log_density(points) - other.log_density(points)).max()))
        return worst / EPS

    @pytest.mark.parametrize("adjacency", ["add_remove", "replace_one"])
    def test_guarantee_holds_and_half_the_scale_does_not(self, adjacency: str) -> None:
        assert 0.6 < self.worst(adjacency) <= 1 + 1e-9
        assert self.worst(adjacency, factor=0.5) > 1.1

    def test_it_is_less_than_any_norm_and_what_a_plan_takes(self) -> None:
        design = self.design()
        cut = objective_noise("binomial", eps=EPS, curvature=20.0, design=design)
        assert isinstance(cut, KNormNoise)
        norms = {norm: design.norm_bound(norm, np.ones(4)) for norm in ("l1", "l2", "linf")}
        whole = objective_noise("binomial", eps=EPS, curvature=20.0, row_norm=norms, size=4)
        assert cut.expected_square() < 0.7 * whole.expected_square(4)
        planned = plan_objective(design, Binomial(), NoiseBudget(EPS, 0.0, 0.01, "add_remove"))
        assert objective_noise("binomial", eps=EPS, curvature=planned.curvature, design=design) == planned.noise

    def test_a_delta_permits_gaussian_noise_and_does_not_demand_it(self) -> None:
        design = self.design()
        common = {"eps": EPS, "curvature": 20.0, "design": design}
        assert objective_noise("binomial", delta=1e-6, **common) == objective_noise("binomial", **common)
        wide = design_spec(
            f"y ~ {' + '.join(f'x{j}' for j in range(60))}",
            Domain({**{f"x{j}": (-1, 1) for j in range(60)}, "y": [0, 1]}),
            family=Binomial(),
        )
        much = {"eps": EPS, "delta": 0.01, "curvature": 500.0}
        found = objective_noise("binomial", design=wide, **much)
        norm = float(np.sqrt(wide.curvature_ratio(np.ones(61))))
        assert found == objective_noise("binomial", row_norm=norm, **much)

    def test_bad_designs(self) -> None:
        with pytest.raises(ArgumentError, match="design has bounds on the norms of its rows only"):
            objective_noise("binomial", eps=1.0, curvature=9.0, design=ArrayDesign(("a",), {"l2": 1.0}))
        with pytest.raises(ArgumentError, match="one per column: 4"):
            objective_noise("binomial", eps=1.0, curvature=[9.0, 9.0], design=self.design())
        with pytest.raises(ArgumentError, match="curvature is too small"):
            objective_noise("huber_svm", eps=1.0, curvature=0.5, design=self.design())
