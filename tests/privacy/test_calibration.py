"""Calibration against reference values, closed forms and an independent quadrature; deterministic."""

from __future__ import annotations

import math
import time
from itertools import product

import numpy as np
import pytest
from scipy import optimize
from scipy.special import ndtr

from dpstats.errors import ArgumentError
from dpstats.families import Binomial, Family, Gaussian, HuberSVM, Poisson, SmoothSVM
from dpstats.privacy.calibration import classical_scale, joint_loss, joint_scale, objective_noise
from dpstats.privacy.gaussian import SPLITS, corner_lines, delta_bound, normal_grid, removal_profile
from dpstats.privacy.noise import Noise

ADJACENCIES = ["add_remove", "replace_one"]
LOGISTIC, HUBER, SQUARED, COUNT = Binomial(), HuberSVM(0.5), Gaussian(2.0), Poisson(10.0, 10.0)
FAMILIES = [LOGISTIC, HUBER, SQUARED, COUNT, SmoothSVM(0.5), Poisson(2.0, 9.0)]
# From an independent implementation: family, eps, m, Laplace add / replace, Gaussian at delta = 1e-5 add / replace.
REFERENCE = [
    (LOGISTIC, 1.0, 0.38537, 1.2438, 3.1016, 4.4403, 11.168),
    (LOGISTIC, 1.0, 1.0, 1.0, 2.1150, 3.7306, 7.828),
    (LOGISTIC, 1.0, 2.0, 1.0, 2.0, 3.7306, 7.478),
    (LOGISTIC, 0.1, 4.87604, 12.108, 30.831, 35.581, 89.57),
    (LOGISTIC, 0.1, 10.0, 10.0, 21.497, 30.750, 65.14),
    (HUBER, 1.0, 3.0, 1.4039, 2.8077, 5.0809, 10.313),
    (SQUARED, 1.0, 4.51666, 2.5, 5.0, 9.1455, 18.822),
    (SQUARED, 1.0, 10.0, 2.2107, 4.4214, 8.1744, 16.733),
    (COUNT, 1.0, 45.16656, 12.5, 25.0, 45.728, 94.11),
]


def gaussian_profile(eps: float, mu: float) -> float:
    return float(ndtr(mu / 2 - eps / mu) - math.exp(eps) * ndtr(-mu / 2 - eps / mu))


def largest_mu(delta: float, profile) -> float:  # type: ignore[no-untyped-def]
    return float(optimize.brentq(lambda mu: profile(mu) - delta, 1e-4, 50, xtol=1e-13))


class TestReference:
    @pytest.mark.parametrize("row", REFERENCE, ids=lambda row: f"{row[0].name}-{row[1]}-{row[2]}")
    def test_table(self, row: tuple) -> None:  # type: ignore[type-arg]
        family, eps, curvature, *expected = row
        for value, (delta, adjacency) in zip(expected, product((0.0, 1e-5), ADJACENCIES), strict=True):
            noise = objective_noise(family, eps=eps, delta=delta, curvature=curvature, adjacency=adjacency)
            assert noise.scale == pytest.approx(value, rel=1e-3)
            assert (noise.kind, noise.norm) == ("gaussian" if delta else "laplace", "l2")

    def test_delta_of_two_signed_corner_family(self) -> None:
        """(eps, mu, kappa) = (1, 0.25, 0.1): the bound is 1.413963e-5."""
        lines = corner_lines(Gaussian(1.0).curve(), 0.1)
        removal = removal_profile(lines, 0.25, normal_grid(1e-5))
        delta = delta_bound(removal, 0.25, signed=False, eps=1.0, adjacency="add_remove")
        exact = gaussian_profile(1 - math.log(1.1), 0.25)
        assert exact == pytest.approx(1.413963e-5, rel=1e-6)
        assert exact <= delta <= exact * 1.002
        scale = joint_scale(Gaussian(1.0), eps=1.0, delta=1.413963e-5, curvature_ratio=0.1, row_norm=1.0)
        assert scale == pytest.approx(4.0, rel=1e-4)

    def test_classical_scales(self) -> None:
        """Twice X L / eps; Kifer et al.: sqrt(8 log(2 / delta) + 4 eps) / eps."""
        assert classical_scale(LOGISTIC, eps=1.0, row_norm=1.0) == 2
        assert classical_scale(LOGISTIC, eps=1.0, delta=1e-5, row_norm=1.0) == pytest.approx(10.08, rel=1e-3)
        assert classical_scale(SQUARED, eps=0.5, row_norm=3.0, adjacency="replace_one") == 2 * 2 * 3 * 2 / 0.5

    @pytest.mark.parametrize("row", REFERENCE, ids=lambda row: f"{row[0].name}-{row[1]}-{row[2]}")
    def test_joint_beats_classical(self, row: tuple) -> None:  # type: ignore[type-arg]
        """Where the classical split is valid at all, it costs more."""
        family, eps, curvature, *_ = row
        assert math.log1p(family.curvature_bound / curvature) <= eps / 2 * (1 + 1e-5)
        for delta, adjacency in product((0.0, 1e-5), ADJACENCIES):
            joint = joint_scale(
                family, eps=eps, delta=delta, curvature_ratio=1 / curvature, row_norm=1.0, adjacency=adjacency
            )
            classical = classical_scale(family, eps=eps, delta=delta, row_norm=1.0, adjacency=adjacency)
            # The corner families at the split's own curvature: equal for pure add_remove.
            assert joint < classical * (1.3 if adjacency == "replace_one" and delta else 1 + 1e-5)


class TestClosedForms:
    @pytest.mark.parametrize("eps", [0.01, 0.3, 1.0, 5.0])
    def test_logistic_spends_everything_on_noise(self, eps: float) -> None:
        for row_norm in (0.1, 1.0, 1e4):
            add = objective_noise(LOGISTIC, eps=eps, row_norm=row_norm, curvature=row_norm**2 / eps)
            assert add.scale == pytest.approx(row_norm / eps, rel=1e-4)
            assert add.scale >= row_norm / eps
            replace = objective_noise(
                LOGISTIC, eps=eps, row_norm=row_norm, curvature=2 * row_norm**2 / eps, adjacency="replace_one"
            )
            assert replace.scale == pytest.approx(2 * row_norm / eps, rel=1e-4)
            assert replace.scale >= 2 * row_norm / eps

    @pytest.mark.parametrize("family", [HUBER, SQUARED, COUNT], ids=lambda family: family.name)
    @pytest.mark.parametrize("kappa", [1e-3, 0.01, 0.05])
    def test_corner_families(self, family: Family, kappa: float) -> None:
        """Both factors are worst at once: log(1 + kappa h) is simply taken off eps."""
        left = 1.0 - math.log1p(kappa * family.curvature_bound)
        rows = {"eps": 1.0, "curvature_ratio": kappa, "row_norm": 2.0}
        reach = 2.0 * family.lipschitz
        assert joint_scale(family, **rows) == pytest.approx(reach / left, rel=1e-10)  # type: ignore[arg-type]
        pure = joint_scale(family, adjacency="replace_one", **rows)  # type: ignore[arg-type]
        assert pure == pytest.approx(2 * reach / left, rel=1e-10)
        for delta in (1e-12, 1e-5, 0.1):
            sides = 1 if family.signed else 2
            exact = max(
                reach / largest_mu(delta, lambda mu: gaussian_profile(left, mu)),
                reach / largest_mu(delta, lambda mu, sides=sides: sides * gaussian_profile(1.0, mu)),
            )
            scale = joint_scale(family, delta=delta, **rows)  # type: ignore[arg-type]
            assert exact * (1 - 1e-9) <= scale <= exact * (1 + 5e-4)


def dense_delta(family: Family, kappa: float, mu: float, eps: float, adjacency: str) -> float:
    """The bound by brute force: the curve from the loss itself, the supremum and the integral on fine grids."""
    eta = np.concatenate((np.linspace(-30, 30, 6001), [0.0, -0.5, 0.5, 1.5, math.log(2) - 1e-9]))
    points = []
    for response in (0.0, 1.0) if family.response == "binary" else np.linspace(0.0, 9.0, 91):
        derivatives = family.derivatives(eta, np.full_like(eta, response))
        points.append(np.stack((np.abs(derivatives.gradient), derivatives.curvature)))
    gradient, curvature = np.concatenate(points, axis=1)
    share, cost = gradient / family.lipschitz, np.log1p(kappa * curvature)
    # Of all points with about the same gradient only the costliest matters.
    bins = np.floor(share * 2000).astype(int)
    order = np.lexsort((-cost, bins))
    kept = order[np.unique(bins[order], return_index=True)[1]]
    v = mu * np.append(0.0, share[kept])
    c = np.append(cost.max(), cost[kept])
    u = np.linspace(-9, 9, 6001)
    g = (np.multiply.outer(v, u) + (c + v**2 / 2)[:, None]).max(axis=0)
    weight = np.exp(-(u**2) / 2) / math.sqrt(2 * math.pi) * (u[1] - u[0])
    sides = 1 if family.signed else 2

    def remove(e: float) -> float:
        return float(weight @ np.maximum(-np.expm1(e - g), 0))

    def insert(e: float) -> float:
        both = e < mu**2 / 2 and sides == 2
        return 1 - 2 * math.exp(e) * float(ndtr(-mu)) if both else sides * gaussian_profile(e, mu)

    if adjacency == "add_remove":
        return max(remove(eps), insert(eps))
    return min(remove(e) + math.exp(e) * insert(eps - e) for e in SPLITS * eps)


@pytest.mark.slow
@pytest.mark.parametrize("adjacency", ADJACENCIES)
@pytest.mark.parametrize(("eps", "delta", "share"), [(1.0, 1e-5, 0.5), (0.2, 1e-3, 0.9), (4.0, 1e-8, 0.3)])
@pytest.mark.parametrize("family", [LOGISTIC, SmoothSVM(0.5), Poisson(2.0, 9.0)], ids=lambda family: family.name)
def test_gaussian_scale_against_dense_quadrature(
    family: Family, eps: float, delta: float, share: float, adjacency: str
) -> None:
    kappa = math.expm1(share * eps) / family.curvature_bound
    scale = joint_scale(family, eps=eps, delta=delta, curvature_ratio=kappa, row_norm=1.0, adjacency=adjacency)
    mu = family.lipschitz / scale
    assert dense_delta(family, kappa, mu, eps, adjacency) <= delta
    assert dense_delta(family, kappa, mu * 1.001, eps, adjacency) > delta


class TestShape:
    @pytest.mark.parametrize("delta", [0.0, 1e-5])
    @pytest.mark.parametrize("family", FAMILIES, ids=lambda family: f"{family.name}{family.curvature_bound}")
    def test_more_budget_less_reach_more_curvature_mean_less_noise(self, family: Family, delta: float) -> None:
        kappas = np.array([0.3, 0.03, 0.003]) / family.curvature_bound
        for adjacency in ADJACENCIES:
            scales = [
                joint_scale(
                    family, eps=eps, delta=delta, curvature_ratio=float(kappa), row_norm=1.0, adjacency=adjacency
                )
                for eps, kappa in [*((0.5, k) for k in kappas), *((e, kappas[2]) for e in (1.0, 2.0))]
            ]
            assert scales == sorted(scales, reverse=True)
            wide = joint_scale(
                family, eps=0.5, delta=delta, curvature_ratio=kappas[0], row_norm=7.0, adjacency=adjacency
            )
            assert wide == pytest.approx(7 * scales[0], rel=1e-9)

    @pytest.mark.parametrize("delta", [0.0, 1e-12, 1e-5, 0.3])
    @pytest.mark.parametrize("family", FAMILIES, ids=lambda family: f"{family.name}{family.curvature_bound}")
    def test_loss_inverts_scale(self, family: Family, delta: float) -> None:
        for eps, share, adjacency in product((0.01, 1.0, 20.0), (0.01, 0.6, 0.999), ADJACENCIES):
            common = {
                "delta": delta,
                "curvature_ratio": math.expm1(share * eps) / family.curvature_bound,
                "row_norm": 3.0,
                "adjacency": adjacency,
            }
            scale = joint_scale(family, eps=eps, **common)  # type: ignore[arg-type]
            kind = "gaussian" if delta else "laplace"
            loss = joint_loss(family, scale=scale, kind=kind, **common)  # type: ignore[arg-type]
            assert loss == pytest.approx(eps, rel=1e-4)
            larger = joint_loss(family, scale=0.9 * scale, kind=kind, **common)  # type: ignore[arg-type]
            assert larger > eps

    def test_no_noise_is_enough_for_too_little_curvature(self) -> None:
        kappa = math.expm1(1.0) * 4
        for adjacency in ADJACENCIES:
            common = {"row_norm": 1.0, "adjacency": adjacency, "eps": 1.0}
            assert joint_scale(LOGISTIC, curvature_ratio=kappa * 1.001, **common) == math.inf  # type: ignore[arg-type]
            assert joint_scale(LOGISTIC, curvature_ratio=kappa * 0.999, **common) < math.inf  # type: ignore[arg-type]
            # With delta the Jacobian may exceed eps by what delta forgives: 1 - exp(eps) / (1 + kappa h).
            for forgiven, finite in ((0.0999, True), (0.1001, False)):
                ratio = (math.exp(1.0) / (1 - forgiven) - 1) * 4
                scale = joint_scale(LOGISTIC, curvature_ratio=ratio, delta=0.1, **common)  # type: ignore[arg-type]
                assert math.isfinite(scale) == finite

    def test_vanishing_noise_has_no_finite_loss(self) -> None:
        for scale, expected in ((1e-9, math.inf), (1e9, math.log1p(0.25))):
            loss = joint_loss(LOGISTIC, scale=scale, delta=1e-5, curvature_ratio=1.0, row_norm=1.0, kind="gaussian")
            assert loss == pytest.approx(expected, rel=1e-3)


@pytest.mark.slow
def test_extreme_arguments_stay_sound_and_fast() -> None:
    """A random sweep over many orders of magnitude: positive or infinite, inverted by the loss; median under 50 ms."""
    rng = np.random.default_rng(7)
    times = []
    for _ in range(300):
        family = FAMILIES[rng.integers(len(FAMILIES))]
        eps, row_norm = 10 ** rng.uniform(-4, 2), 10 ** rng.uniform(-6, 6)
        delta = float(10 ** rng.uniform(-15, math.log10(0.5))) if rng.random() < 0.8 else 0.0
        kappa = float(10 ** rng.uniform(-12, 12)) if rng.random() < 0.3 else math.expm1(min(eps, 25) * rng.random())
        common = {"delta": delta, "curvature_ratio": kappa, "row_norm": row_norm, "adjacency": rng.choice(ADJACENCIES)}
        start = time.perf_counter()
        scale = joint_scale(family, eps=eps, **common)  # type: ignore[arg-type]
        times.append(time.perf_counter() - start)
        assert scale > 0
        if math.isfinite(scale):
            kind = "gaussian" if delta else "laplace"
            loss = joint_loss(family, scale=scale, kind=kind, **common)  # type: ignore[arg-type]
            assert eps * (1 - 2e-3) <= loss <= eps * (1 + 1e-6)
    assert np.median(times) < 0.05


class TestObjectiveNoise:
    def test_norm_with_the_least_square(self) -> None:
        sparse = {"l2": 1.0, "l1": 3.75}
        assert objective_noise(LOGISTIC, eps=1.0, row_norm=sparse, curvature=5.0, size=105).norm == "l1"
        assert objective_noise(LOGISTIC, eps=1.0, row_norm=sparse, curvature=5.0, size=3).norm == "l2"
        dense = {"l2": math.sqrt(20), "linf": 1.0, "l1": 20.0}
        assert objective_noise(LOGISTIC, eps=1.0, row_norm=dense, curvature=np.full(20, 50.0)).norm == "linf"

    def test_norm_for_an_unknown_number_of_columns(self) -> None:
        for bounds, norm in (({"l2": 1, "l1": 3.75, "linf": 1}, "l1"), ({"linf": 1, "l2": 2}, "l2")):
            assert objective_noise(LOGISTIC, eps=1.0, row_norm=bounds, curvature=5.0).norm == norm

    def test_only_the_noise_sees_its_norm(self) -> None:
        """The scale is X_K times that of a unit bound with the same Euclidean kappa."""
        noise = objective_noise(SQUARED, eps=1.0, row_norm={"l2": 1.0, "l1": 3.0}, curvature=5.0, size=50)
        assert noise == Noise("laplace", "l1", 3 * joint_scale(SQUARED, eps=1.0, curvature_ratio=0.2, row_norm=1.0))

    def test_least_curvature_decides(self) -> None:
        many = objective_noise(LOGISTIC, eps=1.0, curvature=np.array([9.0, 0.5, 4.0]))
        assert many == objective_noise(LOGISTIC, eps=1.0, curvature=0.5)

    def test_gaussian_noise_uses_the_least_implied_euclidean_bound(self) -> None:
        for bounds, euclidean in (
            ({"l1": 2}, 2),
            ({"l1": 4, "linf": 1}, 2),
            ({"linf": 0.5}, 2),
            ({"l2": 2, "l1": 9}, 2),
        ):
            noise = objective_noise(LOGISTIC, eps=1.0, delta=1e-5, row_norm=bounds, curvature=9.0, size=16)
            assert (
                noise.scale == objective_noise(LOGISTIC, eps=1.0, delta=1e-5, row_norm=euclidean, curvature=9.0).scale
            )

    def test_too_little_curvature_names_what_would_do(self) -> None:
        with pytest.raises(ArgumentError, match="curvature is too small"):
            objective_noise(HUBER, eps=1.0, curvature=0.58)
        assert objective_noise(HUBER, eps=1.0, curvature=0.59).scale > 0  # 1 / (e - 1) = 0.582


INVALID = [
    *({"eps": eps} for eps in (0, -1.0, math.nan, math.inf, "1", True)),
    *({"delta": delta} for delta in (-1e-9, 1.0, math.nan, "0")),
    *({"row_norm": norm} for norm in (0, -1.0, math.nan, math.inf, "1", {}, {"l3": 1.0}, {"l2": 0.0}, {"l1": "x"})),
    *({"curvature": m} for m in (0, -1.0, math.nan, math.inf, "a", [], [[1.0]], [1.0, 0.0], None)),
    *({"adjacency": adjacency} for adjacency in ("swap", None, 1)),
    *({"size": size} for size in (0, -3, 2.5, "p", True)),
    {"curvature": [1.0, 2.0], "size": 3},
    {"row_norm": {"linf": 1.0}},
    {"family": "probit"},
    {"family": Gaussian()},
    {"family": Poisson()},
]


@pytest.mark.parametrize("change", INVALID, ids=str)
def test_invalid_arguments_are_named(change: dict) -> None:  # type: ignore[type-arg]
    arguments = {"family": LOGISTIC, "eps": 1.0, "curvature": 1.0} | change
    names = r"residual_cap|mean_cap|family" if "family" in change else "|".join(change)
    with pytest.raises(ArgumentError, match=names):
        objective_noise(arguments.pop("family"), **arguments)


def test_joint_functions_check_their_arguments() -> None:
    common = {"curvature_ratio": 1.0, "row_norm": 1.0}
    for name in common:
        for value in (0.0, -1.0, math.nan, math.inf, "1", None):
            with pytest.raises(ArgumentError, match=name):
                joint_scale(LOGISTIC, eps=2.0, **(common | {name: value}))  # type: ignore[arg-type]
    for kind, delta in (("laplace", 0.1), ("gaussian", 0.0), ("cauchy", 0.0)):
        with pytest.raises(ArgumentError, match="kind"):
            joint_loss(LOGISTIC, scale=1.0, delta=delta, kind=kind, **common)  # type: ignore[arg-type]
    with pytest.raises(ArgumentError, match="scale"):
        joint_loss(LOGISTIC, scale=0.0, **common)  # type: ignore[arg-type]
    with pytest.raises(ArgumentError, match="row_norm"):
        classical_scale(LOGISTIC, eps=1.0, row_norm=-1.0)
