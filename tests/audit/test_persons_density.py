"""Persons with several rows by exact densities: the joint bound holds, is reached, and planted errors exceed it.

No runs are drawn: log-ratios are computed, so nothing here can fail by chance.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pytest
from covers import pairwise
from objective_density import ObjectiveDensity
from scipy.linalg import hadamard

from dpstats.audit.exact import audit_exact
from dpstats.families import Binomial, Family, Gaussian, HuberSVM, Poisson, SmoothSVM
from dpstats.families.base import Derivatives
from dpstats.privacy.calibration import joint_loss, joint_scale
from dpstats.privacy.information import joint_scales
from dpstats.privacy.noise import Noise

FAMILIES = [Binomial(), Gaussian(0.5), Poisson(3.0, 3.0), Poisson(1.0, 4.0), HuberSVM(0.5), SmoothSVM(0.2)]
EPS = 1.0
SHARES = [0.1, 0.5, 0.95]
"""Of eps, taken by the greatest curvature: kappa sup l'' / eps."""


@dataclass(frozen=True)
class WeightedDensity(ObjectiveDensity):
    """The law of the minimiser where each row's loss has a weight."""

    weights: np.ndarray | None = None

    def _derivatives(self, params: np.ndarray) -> Derivatives:
        assert self.weights is not None
        value, gradient, curvature = super()._derivatives(params)
        return Derivatives(value * self.weights, gradient * self.weights, curvature * self.weights)


@dataclass(frozen=True)
class Person:
    """Rows, responses and weights of one person."""

    exog: np.ndarray
    endog: np.ndarray
    weights: np.ndarray


def label(value: object) -> str:
    return type(value).__name__ + str(value.curvature_bound) if isinstance(value, Family) else str(value)


def density(family: Family, persons: Sequence[Person], curvature: np.ndarray, noise: Noise, pull: np.ndarray):  # type: ignore[no-untyped-def]
    size = len(curvature)
    exog = np.concatenate([np.empty((0, size)), *(person.exog for person in persons)])
    endog, weights = (
        np.concatenate([np.empty(0), *(getattr(person, name) for person in persons)]) for name in ("endog", "weights")
    )
    return WeightedDensity(family, exog, endog, curvature, noise, pull, weights)


def person(family: Family, exog: np.ndarray, rng: np.random.Generator, weight: float | None = None) -> Person:
    """Rows with random responses, of weight 1 / rows each or of the weight given."""
    rows = len(exog)
    endog = family.clip_response(
        rng.normal(0.5, 1.0, rows) if family.response == "continuous" else rng.integers(0, 4, rows)
    )
    endog = (endog > 1).astype(float) if family.response == "binary" else endog.astype(float)
    return Person(exog, endog, np.full(rows, 1 / rows if weight is None else weight))


def log_ratio(first: WeightedDensity, second: WeightedDensity, radius: float) -> float:
    """The greatest log-ratio of two densities of one number, over both directions."""
    boxes = (first.box(radius), second.box(radius))
    box = [(min(a[0], b[0]), max(a[1], b[1])) for a, b in zip(*boxes, strict=True)]
    result = audit_exact(first.log_density, second.log_density, box, eps=EPS, tolerance=1e-6, max_cells=1500)
    return result.max_log_ratio


def neighbours(
    family: Family, adjacency: str, rows: int, rng: np.random.Generator, weight: float | None
) -> tuple[list[Person], list[Person]]:
    """Data sets of one column that differ by a person of so many rows, or by what a person's rows are."""
    others = [person(family, rng.uniform(-1, 1, (2, 1)), rng) for _ in range(int(rng.integers(0, 3)))]
    one = person(family, rng.choice([-1.0, 1.0, 0.4], (rows, 1)), rng, weight)
    if adjacency == "add_remove":
        return [*others, one], others
    another = person(family, rng.choice([-1.0, 1.0, -0.7], (int(rng.integers(1, rows + 1)), 1)), rng, weight)
    return [*others, one], [*others, another]


@pytest.mark.parametrize(
    ("family", "adjacency", "share", "rows"),
    pairwise(FAMILIES, ["add_remove", "replace_one"], SHARES, [2, 3]),
    ids=label,
)
class TestGuaranteeHolds:
    """One column, by quadrature: no persons exceed eps."""

    def test_equal_weights(self, family: Family, adjacency: str, share: float, rows: int) -> None:
        kappa = share * EPS / family.curvature_bound
        scale = joint_scale(family, eps=EPS, curvature_ratio=kappa, row_norm=1.0, adjacency=adjacency, shared=True)  # type: ignore[arg-type]
        worst = self.worst(family, adjacency, kappa, scale, rows, None)
        assert 0.05 * EPS < worst <= EPS * (1 + 1e-9)

    @pytest.mark.slow
    def test_rows_of_weight_one(self, family: Family, adjacency: str, share: float, rows: int) -> None:
        kappa = math.expm1(share * EPS / rows) / family.curvature_bound
        scale = joint_scale(family, eps=EPS / rows, curvature_ratio=kappa, row_norm=1.0, adjacency=adjacency)  # type: ignore[arg-type]
        worst = self.worst(family, adjacency, kappa, scale, rows, 1.0)
        assert 0.05 * EPS < worst <= EPS * (1 + 1e-9)

    def worst(
        self, family: Family, adjacency: str, kappa: float, scale: float, rows: int, weight: float | None
    ) -> float:
        rng, curvature, found = np.random.default_rng(7), np.array([1 / kappa]), 0.0
        for _ in range(4):
            pull = rng.normal(0, 2 * scale, 1)
            sets = neighbours(family, adjacency, rows, rng, weight)
            first, second = (density(family, s, curvature, Noise("laplace", "l2", scale), pull) for s in sets)
            found = max(found, log_ratio(first, second, 25 * scale))
        return found


def spread_person(family: Family, size: int, eta: float, response: float) -> tuple[Person, np.ndarray]:
    """A person whose rows are those of a Hadamard matrix, and coefficients at which all of them have one predictor.

    Their mean is a row of norm one in the greatest entry, as each of them is, but the mean of x x' is the unit matrix.
    """
    exog = hadamard(size).astype(float)
    params = np.zeros((1, size))
    params[0, 0] = eta
    endog = family.clip_response(np.full(size, response))
    return Person(exog, endog, np.full(size, 1 / size)), params


def spread_loss(family: Family, size: int, kappa: float, scale: float, eta: float, response: float) -> float:
    """The log-ratio with and without that person, the noise such that its greatest entry is the first one."""
    one, params = spread_person(family, size, eta, response)
    curvature, noise = np.full(size, size / kappa), Noise("laplace", "linf", scale)
    gradient = float(family.derivatives(np.array([eta]), one.endog[:1]).gradient[0])
    pull = -curvature * params[0]
    pull[0] -= math.copysign(50 * scale, gradient) + gradient
    first, second = (density(family, s, curvature, noise, pull) for s in ([one], []))
    return float((first.log_density(params) - second.log_density(params))[0])


CORNERS = [(Gaussian(0.5), 0.5 - 1e-9, 0.0), (HuberSVM(0.5), 0.5 + 1e-9, 1.0), (Binomial(), 0.4, 0.0)]
"""A family, and an eta and response at which one of its records costs much of both."""


@pytest.mark.parametrize(("family", "eta", "response"), CORNERS, ids=label)
class TestSeveralColumns:
    def corner(self, family: Family, eta: float, response: float) -> tuple[float, float]:
        """|l'| and l'' there."""
        found = family.derivatives(np.array([eta]), np.array([response]))
        return abs(float(found.gradient[0])), float(found.curvature[0])

    @pytest.mark.parametrize("size", [2, 4, 8, 64])
    def test_the_bound_is_approached_with_the_number_of_columns(
        self, family: Family, eta: float, response: float, size: int
    ) -> None:
        gradient, curvature = self.corner(family, eta, response)
        kappa = 0.5 * EPS / family.curvature_bound
        scale = joint_scale(family, eps=EPS, curvature_ratio=kappa, row_norm=1.0, shared=True)
        loss = spread_loss(family, size, kappa, scale, eta, response)
        assert loss <= EPS * (1 + 1e-9)
        assert loss == pytest.approx(size * math.log1p(kappa * curvature / size) + gradient / scale, abs=1e-9)
        if size == 64:
            assert loss > kappa * curvature + gradient / scale - 0.003

    @pytest.mark.slow
    def test_a_logarithm_kept_for_shared_weights_is_caught(self, family: Family, eta: float, response: float) -> None:
        """The calibration of one row passes with one column; two are enough to exceed it."""
        kappa = 0.95 * EPS / family.curvature_bound
        wrong = joint_scale(family, eps=EPS, curvature_ratio=kappa, row_norm=1.0)
        etas = np.linspace(-4, 4, 801) if isinstance(family, Binomial) else [eta]
        one, two, eight = (
            max(spread_loss(family, size, kappa, wrong, at, response) for at in etas) for size in (1, 2, 8)
        )
        assert one <= EPS * (1 + 1e-9)
        assert eight > two > 1.05 * EPS


class TestPlantedErrors:
    """Each exceeds the guarantee by the check that the right calculation passes."""

    KAPPA = 0.5

    def ratio(self, sets: tuple[list[Person], list[Person]], scale: float, pull: float = 0.0) -> float:
        curvature, noise = np.array([1 / self.KAPPA]), Noise("laplace", "l2", scale)
        first, second = (density(Gaussian(0.5), s, curvature, noise, np.array([pull])) for s in sets)
        return log_ratio(first, second, 25 * scale)

    def scale(self, **changes: object) -> float:
        return joint_scale(
            Gaussian(0.5),
            **({"eps": EPS, "curvature_ratio": self.KAPPA, "row_norm": 1.0, "shared": True} | changes),  # type: ignore[arg-type]
        )

    def rows(self, count: int, weight: float, response: float = 1.0) -> Person:
        return Person(np.ones((count, 1)), np.full(count, response), np.full(count, weight))

    def test_weights_normalised_over_the_data(self) -> None:
        """Weights that sum to the number of persons: a newcomer with many rows moves all the others'."""
        before, newcomer = 20, 9
        others = [1] * before
        right = (
            [self.rows(1, 1.0) for _ in others] + [self.rows(newcomer, 1 / newcomer, -1.0)],
            [self.rows(1, 1.0) for _ in others],
        )
        weight = (before + 1) / (before + newcomer)
        wrong = ([self.rows(1, weight) for _ in others] + [self.rows(newcomer, weight, -1.0)], right[1])
        assert self.ratio(right, self.scale()) <= EPS * (1 + 1e-9)
        assert self.ratio(wrong, self.scale()) > 2 * EPS

    def test_rows_of_weight_one_at_the_price_of_one(self) -> None:
        assert self.ratio(([self.rows(3, 1.0)], []), self.scale()) > 1.5 * EPS

    def test_a_row_more_than_may_be_drawn(self) -> None:
        scale = self.scale(eps=EPS / 2, shared=False)
        assert self.ratio(([self.rows(2, 1.0)], []), scale, pull=20.0) <= EPS * (1 + 1e-9)
        assert self.ratio(([self.rows(3, 1.0)], []), scale, pull=20.0) > 1.15 * EPS

    def test_replacement_forgotten(self) -> None:
        sets = ([self.rows(2, 0.5, 1.0)], [self.rows(3, 1 / 3, -1.0)])
        assert self.ratio(sets, self.scale(adjacency="replace_one")) <= EPS * (1 + 1e-9)
        assert self.ratio(sets, self.scale()) > 1.2 * EPS

    def test_rows_of_no_bound_in_the_information(self) -> None:
        """The cap on rows kept for the fit and forgotten in the pass that sums the information."""
        family, most, has = Gaussian(0.5), 2, 10
        ratio = 0.5
        scales = joint_scales(family, eps=EPS / most, curvature_ratio=self.KAPPA, row_norm=1.0, ratio=ratio)
        sets = ([self.rows(most, 1.0, 0.9)], [])
        fit = self.ratio(sets, scales.fit, pull=20.0)
        # One column: the matrix noise is a Laplace law, whose log-ratio reaches the difference over its scale.
        assert fit + most * 1.0 / scales.matrix <= EPS * (1 + 1e-9)
        assert fit + has * 1.0 / scales.matrix > 1.2 * EPS


def test_one_row_a_person_costs_what_it_did() -> None:
    """Logistic regression: the same scale, whatever is said of persons, while kappa is at most eps."""
    common = {"eps": EPS, "curvature_ratio": 0.9, "row_norm": 1.0}
    for adjacency, times in (("add_remove", 1.0), ("replace_one", 2.0)):
        kappa = {"curvature_ratio": 0.9 / times}
        alone, together = (
            joint_scale("binomial", **(common | kappa), adjacency=adjacency, shared=shared)  # type: ignore[arg-type]
            for shared in (False, True)
        )
        assert alone == pytest.approx(times / EPS, rel=1e-3)
        assert together == pytest.approx(alone, rel=1e-4)


@pytest.mark.parametrize("adjacency", ["add_remove", "replace_one"])
@pytest.mark.parametrize("family", FAMILIES, ids=label)
def test_loss_inverts_scale(family: Family, adjacency: str) -> None:
    common = {
        "curvature_ratio": 0.5 * EPS / family.curvature_bound,
        "row_norm": 2.0,
        "adjacency": adjacency,
        "shared": True,
    }
    scale = joint_scale(family, eps=EPS, **common)  # type: ignore[arg-type]
    assert joint_loss(family, scale=scale, **common) == pytest.approx(EPS, rel=1e-9)  # type: ignore[arg-type]
    too_little = {**common, "curvature_ratio": 1.01 * EPS / family.curvature_bound}
    assert math.isinf(joint_scale(family, eps=EPS, **too_little))  # type: ignore[arg-type]
