"""Objective perturbation by exact densities: every family, noise, adjacency and row bound, and planted errors.

No runs are drawn: log-ratios and hockey-stick integrals are computed, so nothing here can fail by chance.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import product

import numpy as np
import pytest
from covers import pairwise
from objective_density import NoiseDensity, ObjectiveDensity

from dpstats.audit.exact import audit_exact
from dpstats.families import Binomial, Family, Gaussian, HuberSVM, NegativeBinomial, Poisson, Quantile, SmoothSVM
from dpstats.privacy.calibration import joint_scale
from dpstats.privacy.noise import Noise

FAMILIES = [
    Binomial(),
    Gaussian(0.5),
    Poisson(3.0, 3.0),
    Poisson(1.0, 4.0),
    NegativeBinomial(0.5, 4.0),
    HuberSVM(0.5),
    SmoothSVM(0.2),
    Quantile(0.5, 0.1),
    Quantile(0.9, 0.1),
]
ADJACENCIES = ["add_remove", "replace_one"]
LAWS = list(product(["laplace", "gaussian"], ADJACENCIES))
"""Each has its calibration, so that each meets every family."""

ROW_BOUNDS = [0.1, 1.0, 30.0, 1e4]
EPS = 1.0
DELTA = {"laplace": 0.0, "gaussian": 1e-3}
RESPONSES = {"continuous": [0.0], "count": [0.0, 4.0], "binary": [0.0, 1.0]}
# Noise entries beyond these many scales carry less than 1e-8 of the mass.
RADIUS = {"laplace": 25.0, "gaussian": 6.0}


@dataclass(frozen=True)
class Setting:
    """One calibration: the share of eps that the greatest curvature takes fixes M = curvature I."""

    family: Family
    kind: str
    adjacency: str
    row_bound: float
    columns: int
    share: float
    norm: str = "l2"

    @property
    def curvature(self) -> np.ndarray:
        ratio = math.expm1(self.share * EPS) / self.family.curvature_bound
        return np.full(self.columns, self.row_bound**2 / ratio)

    def scale(self, **changes: object) -> float:
        """The noise scale, or a wrong one by wrong arguments."""
        right = {
            "eps": EPS,
            "delta": DELTA[self.kind],
            "curvature_ratio": self.row_bound**2 / float(self.curvature.min()),
            "row_norm": self.row_bound,
            "adjacency": self.adjacency,
        }
        return joint_scale(self.family, **(right | changes))  # type: ignore[arg-type]

    def noise(self, **changes: object) -> Noise:
        return Noise(self.kind, self.norm, self.scale(**changes))  # type: ignore[arg-type]


@dataclass(frozen=True)
class Neighbours:
    """Two neighbouring data sets, the linear public penalty beside them, and where to look."""

    first: tuple[np.ndarray, np.ndarray]
    second: tuple[np.ndarray, np.ndarray]
    linear: np.ndarray

    def densities(
        self, family: Family, curvature: np.ndarray, noise: NoiseDensity
    ) -> tuple[ObjectiveDensity, ObjectiveDensity]:
        first, second = (
            ObjectiveDensity(family, *rows, curvature, noise, self.linear) for rows in (self.first, self.second)
        )
        return first, second


def excess(
    pair: Neighbours, family: Family, curvature: np.ndarray, noise: NoiseDensity, kind: str, scale: float
) -> float:
    """By how much the pair exceeds the guarantee: the log-ratio over eps, or the hockey-stick integral over delta."""
    first, second = pair.densities(family, curvature, noise)
    boxes = (first.box(RADIUS[kind] * scale), second.box(RADIUS[kind] * scale))
    box = [(min(a[0], b[0]), max(a[1], b[1])) for a, b in zip(*boxes, strict=True)]
    if kind == "laplace" and len(curvature) == 2:
        points = grid(box)
        ratio = first.log_density(points) - second.log_density(points)
        return float(np.abs(ratio).max()) / EPS - 1
    delta = DELTA[kind]
    result = audit_exact(
        first.log_density, second.log_density, box, eps=EPS, delta=delta, tolerance=1e-6, max_cells=3000
    )
    if kind == "laplace":
        return result.max_log_ratio / EPS - 1
    return (result.hockey_stick - result.error) / delta - 1


def grid(box: list[tuple[float, float]], points: int = 121) -> np.ndarray:
    """A tensor grid of two axes, fine in the middle of the box and coarse towards its ends."""
    steps = np.sinh(np.linspace(-6, 6, points)) / math.sinh(6)
    axes = [(low + high) / 2 + (high - low) / 2 * steps for low, high in box]
    return np.stack([axis.ravel() for axis in np.meshgrid(*axes)], axis=1)


def costliest(setting: Setting, scale: float) -> tuple[float, float, float]:
    """The eta and response at which one record costs most by the joint bound, and l' there."""
    family = setting.family
    kinks = [0.5, math.log(3), -1e-9, 1.5, -1.5, -0.5, 0.8, 1.2, -0.8, -1.2]
    eta = np.concatenate(
        (np.linspace(-30, 30, 30001), kinks, np.nextafter(kinks, -np.inf), np.nextafter(kinks, np.inf))
    )
    ratio = setting.row_bound**2 / float(setting.curvature.min())
    found = []
    for response in RESPONSES[family.response]:
        endog = family.clip_response(np.full_like(eta, response))
        _, gradient, curvature = family.derivatives(eta, endog)
        cost = np.log1p(ratio * curvature) + setting.row_bound * np.abs(gradient) / scale
        top = int(np.argmax(cost))
        found.append((cost[top], eta[top], endog[top], gradient[top]))
    return max(found)[1:]


def worst_pairs(setting: Setting, scale: float) -> Iterator[Neighbours]:
    """One record against none, the noise pulled to where that record costs most; with its opposite for replace_one."""
    size, bound = setting.columns, setting.row_bound
    eta, response, gradient = costliest(setting, scale)
    row = np.zeros((1, size))
    row[0, -1] = bound
    others: tuple[np.ndarray, np.ndarray] = (np.empty((0, size)), np.empty(0))
    if setting.adjacency == "replace_one":
        # Another response moves the gradient as far the other way while its curvature vanishes, where the loss is
        # linear.
        far = {"continuous": eta + np.sign(gradient) * 2 * eta + 5 * np.sign(gradient), "binary": 1 - response}
        others = (row, np.array([far.get(setting.family.response, 3.0 - min(response, 3.0))]))
    pulls = [setting.family.lipschitz * bound + 3 * scale] if setting.kind == "laplace" else [2 * scale, 3.5 * scale]
    for pull in pulls:
        linear = np.zeros(size)
        linear[-1] = -setting.curvature[-1] * eta / bound - np.sign(gradient) * pull
        yield Neighbours((row, np.array([response])), others, linear)


def random_pairs(setting: Setting, scale: float, rng: np.random.Generator, count: int) -> Iterator[Neighbours]:
    """Random rows within the bound, the last column constant (an intercept) when there are two."""
    size, bound, family = setting.columns, setting.row_bound, setting.family
    for _ in range(count):
        kept = int(rng.integers(0, 3))
        exog = rng.choice([-1.0, 1.0, 0.3], size=(kept + 2, size)) * bound
        if size == 2:
            exog = np.column_stack((exog[:, 0], np.full(kept + 2, bound))) / math.sqrt(2)
        endog = family.clip_response(rng.normal(0.5, 1.0, kept + 2))
        second = kept + (setting.adjacency == "replace_one")
        rows = np.r_[np.arange(kept), np.arange(kept + 1, second + 1)]
        yield Neighbours(
            (exog[: kept + 1], endog[: kept + 1]), (exog[rows], endog[rows]), rng.normal(0, 3 * scale, size)
        )


def worst_excess(setting: Setting, noise: NoiseDensity, scale: float, random: int = 2) -> float:
    """The greatest excess over worst-case and random neighbours."""
    rng = np.random.default_rng(20)
    pairs = [*worst_pairs(setting, scale), *random_pairs(setting, scale, rng, random)]
    return max(excess(pair, setting.family, setting.curvature, noise, setting.kind, scale) for pair in pairs)


def label(value: object) -> str:
    return type(value).__name__ + str(value.curvature_bound) if isinstance(value, Family) else str(value)


class TestGuaranteeHolds:
    """No neighbours exceed the guarantee, whatever share of eps the Jacobian may take."""

    @pytest.mark.parametrize(
        ("family", "law", "row_bound", "share"), pairwise(FAMILIES, LAWS, ROW_BOUNDS, [0.1, 0.5, 0.95]), ids=label
    )
    def test_one_column(self, family: Family, law: tuple[str, str], row_bound: float, share: float) -> None:
        setting = Setting(family, *law, row_bound, 1, share)
        noise = setting.noise()
        assert worst_excess(setting, noise, noise.scale) <= 1e-9

    @pytest.mark.parametrize(
        ("family", "adjacency", "row_bound"), pairwise(FAMILIES, ADJACENCIES, ROW_BOUNDS), ids=label
    )
    def test_intercept(self, family: Family, adjacency: str, row_bound: float) -> None:
        setting = Setting(family, "laplace", adjacency, row_bound, 2, 0.5)
        noise = setting.noise()
        assert worst_excess(setting, noise, noise.scale) <= 1e-9


@pytest.mark.slow
@pytest.mark.parametrize(("family", "adjacency", "row_bound"), pairwise(FAMILIES, ADJACENCIES, [0.1, 30.0]), ids=label)
def test_intercept_gaussian_noise(family: Family, adjacency: str, row_bound: float) -> None:
    setting = Setting(family, "gaussian", adjacency, row_bound, 2, 0.1)
    noise = setting.noise()
    assert worst_excess(setting, noise, noise.scale, random=1) <= 1e-9


@pytest.mark.slow
@pytest.mark.parametrize("columns", [1, 2])
@pytest.mark.parametrize("kind", ["laplace", "gaussian"])
def test_density_integrates_to_one_over_its_box(kind: str, columns: int) -> None:
    setting = Setting(Binomial(), kind, "add_remove", 30.0, columns, 0.5)
    noise = setting.noise()
    (pair,) = random_pairs(setting, noise.scale, np.random.default_rng(4), 1)
    first, second = pair.densities(setting.family, setting.curvature, noise)
    result = audit_exact(
        first.log_density, second.log_density, first.box(RADIUS[kind] * noise.scale), eps=EPS, tolerance=1e-6
    )
    assert result.outside < 1e-4


@dataclass(frozen=True)
class ScaledNoise:
    """The law of b / a for b from another law: noise that is isotropic after the columns are multiplied by a."""

    noise: Noise
    factors: np.ndarray

    def log_density(self, noise: np.ndarray) -> np.ndarray:
        return self.noise.log_density(noise * self.factors) + np.log(self.factors).sum()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("family", "adjacency", "norm"), pairwise(FAMILIES, ADJACENCIES, ["l1", "l2", "linf"]), ids=label
)
def test_norms_diagonal_curvature_and_metric(family: Family, adjacency: str, norm: str) -> None:
    """Rows in a box, M any diagonal: kappa is Euclidean in M, only the noise's norm sees the metric."""
    maxima, factors, split = np.array([3.0, 0.2]), np.array([0.4, 5.0]), np.array([0.3, 0.7])
    kappa = math.expm1(0.5 * EPS) / family.curvature_bound
    curvature = maxima**2 / (kappa * split)
    order = {"l1": 1, "l2": 2, "linf": np.inf}[norm]
    bound = float(np.linalg.norm(maxima * factors, ord=order))
    scale = joint_scale(family, eps=EPS, curvature_ratio=kappa, row_norm=bound, adjacency=adjacency)
    noise = ScaledNoise(Noise("laplace", norm, scale), factors)  # type: ignore[arg-type]
    rng = np.random.default_rng(3)
    worst = -1.0
    for _ in range(12):
        exog = rng.choice([-1.0, 1.0], size=(3, 2)) * maxima
        endog = family.clip_response(rng.normal(0.5, 1.0, 3))
        linear = rng.normal(0, 3 * scale, 2) / factors
        kept = slice(0, 2) if adjacency == "add_remove" else [0, 2]
        pair = Neighbours((exog[:2], endog[:2]), (exog[kept], endog[kept]), linear)
        if adjacency == "add_remove":
            pair = replace(pair, second=(exog[:1], endog[:1]))
        worst = max(worst, excess(pair, family, curvature, noise, "laplace", scale / float(factors.min())))
    assert -0.9 < worst <= 1e-9


class TestBoundIsTight:
    """Some neighbours come as near as the grid of the loss curve, so no smaller noise would do."""

    @pytest.mark.parametrize("share", [0.1, 0.5, 0.95])
    @pytest.mark.parametrize("family", FAMILIES, ids=label)
    def test_pure_add_remove(self, family: Family, share: float) -> None:
        setting = Setting(family, "laplace", "add_remove", 30.0, 1, share)
        noise = setting.noise()
        assert worst_excess(setting, noise, noise.scale, random=0) > -1e-4

    @pytest.mark.parametrize("share", [0.1, 0.5, 0.95])
    @pytest.mark.parametrize("family", FAMILIES, ids=label)
    def test_pure_replace_one(self, family: Family, share: float) -> None:
        """Two rows of nearly one direction, far apart along a long theta: each at its own worst point."""
        setting = Setting(family, "laplace", "replace_one", 1.0, 2, share)
        noise = setting.noise()
        eta, response, gradient = costliest(setting, noise.scale)
        angle, far = 0.001, 30.0
        sign = math.copysign(1.0, gradient)
        exog = np.array([[1.0, 0.0], [math.cos(angle), math.sin(angle)]])
        # The other record's eta is so large that its gradient is -sign(gradient) L; Poisson reaches -L with y alone.
        target = -sign * (far if family.response != "count" or sign < 0 else 1e3)
        endog = np.array(
            [response, {"continuous": 0.0, "binary": (1 + sign) / 2, "count": (1 + sign) * 2}[family.response]]
        )
        params = np.array([[eta, (target - eta * math.cos(angle)) / math.sin(angle)]])
        other = family.derivatives((params @ exog.T)[:, 1], family.clip_response(endog[1:]))
        pull = 1e4 * noise.scale
        linear = -setting.curvature * params[0] - sign * pull * exog[0]
        rows = [(exog[i : i + 1], family.clip_response(endog[i : i + 1])) for i in (0, 1)]
        first, second = Neighbours(rows[0], rows[1], linear).densities(family, setting.curvature, noise)
        loss = float((first.log_density(params) - second.log_density(params))[0])
        reached = abs(float(other.gradient[0])) / family.lipschitz
        assert EPS * (1 - 1e-3) - (1 - reached) * family.lipschitz / noise.scale < loss <= EPS * (1 + 1e-9)

    @pytest.mark.parametrize("family", [Binomial(), SmoothSVM(0.2)], ids=label)
    def test_gaussian_add_remove(self, family: Family) -> None:
        setting = Setting(family, "gaussian", "add_remove", 30.0, 1, 0.1)
        noise = setting.noise()
        assert worst_excess(setting, noise, noise.scale, random=0) > -0.1


class ShapeOne(Noise):
    """Spherical noise whose radius is Gamma of shape 1 instead of p (a published error)."""

    def log_density(self, noise: np.ndarray) -> np.ndarray:  # type: ignore[override]
        radius = np.linalg.norm(noise, axis=-1)
        return -radius / self.scale - np.log(self.scale) - np.log(radius) - math.log(2 * math.pi)


class TestPlantedErrorsAreCaught:
    """Each wrong calibration exceeds the guarantee by the check that the right one passes."""

    @pytest.mark.parametrize("kind", ["laplace", "gaussian"])
    @pytest.mark.parametrize("family", FAMILIES, ids=label)
    def test_row_bound_for_its_square(self, family: Family, kind: str) -> None:
        setting = Setting(family, kind, "add_remove", 30.0, 1, 0.95 if kind == "laplace" else 2.0)
        ratio = setting.row_bound / float(setting.curvature.min())
        wrong = setting.noise(curvature_ratio=ratio)
        assert worst_excess(setting, wrong, wrong.scale, random=0) > 0.01

    @pytest.mark.parametrize("kind", ["laplace", "gaussian"])
    @pytest.mark.parametrize("family", FAMILIES, ids=label)
    def test_unpenalised_intercept(self, family: Family, kind: str) -> None:
        """The intercept keeps a thousandth of the curvature that the calibration counts on."""
        setting = Setting(family, kind, "add_remove", 1.0, 1, 0.5)
        noise = setting.noise()
        bare = replace(setting, share=math.log1p(1000 * math.expm1(0.5)))
        assert worst_excess(bare, noise, noise.scale, random=2) > 0.01

    @pytest.mark.parametrize("kind", ["laplace", "gaussian"])
    @pytest.mark.parametrize("family", FAMILIES, ids=label)
    def test_intercept_not_counted_in_the_row_bound(self, family: Family, kind: str) -> None:
        """Rows (x, 1) with |x| <= 0.5 have norm 1.12; M is chosen for 0.5."""
        setting = Setting(family, kind, "add_remove", 0.5, 1, 0.5)
        noise = setting.noise()
        longer = replace(setting, row_bound=math.hypot(0.5, 1))
        longer = replace(longer, share=math.log1p(math.expm1(0.5) * (longer.row_bound / 0.5) ** 2))
        assert longer.curvature == pytest.approx(setting.curvature)
        assert worst_excess(longer, noise, noise.scale, random=0) > 0.01

    @pytest.mark.parametrize("family", FAMILIES, ids=label)
    def test_gamma_shape_one(self, family: Family) -> None:
        setting = Setting(family, "laplace", "add_remove", 1.0, 2, 0.5)
        wrong = ShapeOne("laplace", "l2", setting.scale())
        assert worst_excess(setting, wrong, wrong.scale) > 0.01

    @pytest.mark.parametrize("kind", ["laplace", "gaussian"])
    @pytest.mark.parametrize("family", [Gaussian(0.5), HuberSVM(0.5), SmoothSVM(0.2)], ids=label)
    def test_adjacency_factor_forgotten(self, family: Family, kind: str) -> None:
        setting = Setting(family, kind, "replace_one", 1.0, 1, 0.1)
        wrong = setting.noise(adjacency="add_remove")
        assert worst_excess(setting, wrong, wrong.scale, random=0) > 0.01

    @pytest.mark.parametrize("kind", ["laplace", "gaussian"])
    @pytest.mark.parametrize("family", FAMILIES, ids=label)
    def test_noise_halved(self, family: Family, kind: str) -> None:
        """Half the papers' noise for pure privacy (their even split), half of ours for Gaussian noise."""
        setting = Setting(family, kind, "add_remove", 1.0, 1, 0.5 if kind == "laplace" else 0.1)
        right = 2 * family.lipschitz / EPS if kind == "laplace" else setting.scale()
        wrong = Noise(kind, "l2", right / 2)  # type: ignore[arg-type]
        assert worst_excess(setting, wrong, wrong.scale, random=0) > 0.01
