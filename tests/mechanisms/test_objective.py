"""The plan of one release: reference noise, the choice of curvature and norm, and where retrieved budget goes."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest

from dpstats.domain import Domain
from dpstats.errors import ArgumentError
from dpstats.families import Binomial, Family, Gaussian, HuberSVM, Poisson
from dpstats.formula.design import design_spec
from dpstats.mechanisms.calibration import NoiseBudget, least_curvature, noise_shape, risk_curvature
from dpstats.mechanisms.design import ArrayDesign, Bounds, SubDesign, array_norms
from dpstats.mechanisms.objective import ObjectivePlan, plan_objective
from dpstats.penalties import Bridge, ElasticNet, Lasso, Ridge
from dpstats.privacy.calibration import joint_loss, joint_scale
from dpstats.privacy.k_norm import KNormNoise

FAMILIES: list[Family] = [Gaussian(2.0), Binomial(), Poisson(5.0, 10.0), HuberSVM()]

PURCHASE = NoiseBudget(eps=1.0, delta=0.0, final_eps=0.01, adjacency="add_remove")


def arrays(size: int = 4, **norms: float) -> ArrayDesign:
    return ArrayDesign(tuple(f"x{j}" for j in range(size)), array_norms(norms or 1.0, size))


def factors() -> Bounds:
    domain = Domain(y=(0, 1), x=(0, 5), g=[f"g{j}" for j in range(20)], h=["a", "b"])
    return design_spec("y ~ x + g + h", domain, family=Binomial())


@pytest.mark.parametrize("delta", [0.0, 1e-6])
@pytest.mark.parametrize("adjacency", ["add_remove", "replace_one"])
@pytest.mark.parametrize("family", FAMILIES, ids=lambda family: family.name)
@pytest.mark.parametrize("design", [arrays(), arrays(30, l2=2.0, l1=3.0), factors()], ids=["l2", "l1", "factors"])
def test_the_noise_is_what_the_joint_bound_asks_for(
    family: Family, adjacency: str, delta: float, design: Bounds
) -> None:
    """Scale, kappa and row bound of every plan agree with the calibration, whatever was chosen."""
    purchase = replace(PURCHASE, delta=delta, adjacency=adjacency)  # type: ignore[arg-type]
    for penalty in (None, Ridge(5.0), Lasso(3.0), ElasticNet(40.0, 0.5), Bridge(2.0, 1.5)):
        plan = plan_objective(design, family, purchase, penalty)
        assert plan.kappa == design.curvature_ratio(plan.curvature)
        if isinstance(plan.noise, KNormNoise):
            assert plan.row_norm == 1 + 1e-12
        else:
            assert plan.row_norm == design.norm_bound(plan.noise.norm, plan.noise_shape)
        assert plan.delta == (delta if plan.noise.kind == "gaussian" else 0.0)
        needed = joint_scale(
            family,
            eps=1.0,
            delta=plan.delta,
            curvature_ratio=plan.kappa,
            row_norm=plan.row_norm,
            adjacency=plan.adjacency,
        )
        assert plan.noise.scale == needed
        assert plan.final.distance >= plan.tolerance / plan.curvature.min()


def test_curvature_of_the_penalty_counts_once() -> None:
    """Dual purpose: a ridge takes the place of the default curvature; an explicit curvature comes on top."""
    default = plan_objective(arrays(), Binomial(), PURCHASE).curvature
    assert plan_objective(arrays(), Binomial(), PURCHASE, Ridge(0.01)).curvature == pytest.approx(default)
    assert plan_objective(arrays(), Binomial(), PURCHASE, Ridge(500.0)).curvature == pytest.approx(500)
    explicit = replace(PURCHASE, curvature=3.0)
    elastic = plan_objective(arrays(), Binomial(), explicit, ElasticNet(8.0, 0.25))
    assert elastic.curvature == pytest.approx(9)
    assert elastic.penalty == Lasso(2.0)
    weights = np.array([0.0, 1.0, 2.0, 1.0])
    uneven = plan_objective(arrays(), Binomial(), explicit, Ridge(4.0), weights)
    assert uneven.curvature.tolist() == [3.0, 7.0, 11.0, 7.0]
    assert uneven.kappa == pytest.approx(1 / 3)


def test_row_bounds_rescale_everything() -> None:
    """Rows k times longer: coefficients k times smaller, noise k times larger, curvature k**2 times larger."""
    one = plan_objective(arrays(l2=1.0), HuberSVM(), PURCHASE)
    for k in (1e-3, 50.0):
        other = plan_objective(arrays(l2=k), HuberSVM(), PURCHASE)
        assert other.radius == pytest.approx(one.radius / k)
        assert other.noise.scale == pytest.approx(one.noise.scale * k, rel=1e-6)
        assert other.curvature == pytest.approx(one.curvature * k**2, rel=1e-6)


def test_default_curvature_minimises_the_risk_bound() -> None:
    def mean_square(m: float) -> float:
        return 7.0 * (1 + 3.0 / m) ** 2

    found, risk = risk_curvature(2.0, mean_square, least=0.0)
    grid = np.geomspace(0.05, 500, 20_000)
    risks = np.array([mean_square(m) / (2 * m) + 2 * m for m in grid])
    assert risk == pytest.approx(risks.min(), rel=1e-4)
    assert found == pytest.approx(grid[risks.argmin()], rel=0.02)


def test_the_norm_follows_the_design() -> None:
    assert plan_objective(arrays(), Binomial(), PURCHASE).noise.norm == "l2"
    assert plan_objective(arrays(105, l2=1.0, l1=3.75), Binomial(), PURCHASE).noise.norm == "l1"
    assert plan_objective(arrays(10, l2=1.0, linf=10**-0.5), Binomial(), PURCHASE).noise.norm == "linf"
    assert plan_objective(factors(), Binomial(), PURCHASE).noise.norm == "design"
    assert plan_objective(factors(), Binomial(), replace(PURCHASE, delta=1e-5, kind="gaussian")).noise.norm == "l2"


@pytest.mark.slow
@pytest.mark.parametrize("delta", [1e-12, 1e-6, 1e-2, 0.5])
@pytest.mark.parametrize("family", FAMILIES, ids=lambda family: family.name)
@pytest.mark.parametrize("design", [arrays(), arrays(60), factors()], ids=["l2", "wide", "factors"])
def test_a_delta_never_costs_anything(design: Bounds, family: Family, delta: float) -> None:
    """It permits Gaussian noise; the plan takes the law of the lesser risk, and spends no delta on the other."""

    def risk(plan: ObjectivePlan) -> float:
        return float(np.sum(plan.noise_variances / plan.curvature)) + plan.radius**2 * float(np.mean(plan.curvature))

    pure, both = (plan_objective(design, family, replace(PURCHASE, delta=value)) for value in (0.0, delta))
    only = plan_objective(design, family, replace(PURCHASE, delta=delta, kind="gaussian"))
    assert risk(both) <= min(risk(pure), risk(only)) * (1 + 1e-3)
    assert both.delta == (0.0 if both.noise.kind == "laplace" else delta)


@pytest.mark.parametrize("norm", ["l1", "l2"])
def test_noise_shape_beats_its_neighbours(norm: str) -> None:
    """E||b / a||^2 under the same guarantee: the public weights are a minimum over weights constant on terms."""
    design = factors()

    def cost(shape: np.ndarray) -> float:
        return float(np.mean(shape**-2.0)) * design.norm_bound(norm, shape) ** 2  # type: ignore[arg-type]

    shape = noise_shape(design, norm)  # type: ignore[arg-type]
    assert cost(shape) < 0.9 * cost(np.ones_like(shape))
    for term in design.terms:
        for factor in (0.97, 1.03):
            other = shape.copy()
            other[term.columns] *= factor
            assert cost(other) >= cost(shape) * (1 - 1e-12)


@pytest.mark.parametrize("delta", [0.0, 1e-6])
def test_retrieval(delta: float) -> None:
    """Recycled: less noise for the same eps. Returned: the classical noise for less eps, which it really costs."""
    design, family = arrays(), Binomial()
    purchase = replace(PURCHASE, delta=delta, kind="gaussian" if delta else None)
    recycled = plan_objective(design, family, purchase)
    returned = plan_objective(design, family, replace(purchase, retrieval="return"))
    kept = plan_objective(design, family, replace(purchase, retrieval=None))
    assert recycled.noise.scale < 0.7 * recycled.classical_scale
    assert recycled.eps == kept.eps == 1.0
    assert returned.noise.scale == kept.noise.scale == recycled.classical_scale
    cost = joint_loss(
        family,
        scale=returned.noise.scale,
        delta=delta,
        curvature_ratio=returned.kappa,
        row_norm=1.0,
        kind=returned.noise.kind,
    )
    assert returned.eps == returned.joint_need == cost < 0.75


def test_too_little_curvature_for_the_classical_split_retrieves_nothing() -> None:
    """The classical scale would not be private there: it must not be used, whatever becomes of the budget."""
    least = least_curvature(HuberSVM(), 1.0, 1.0)
    for retrieval in ("recycle", "return", None):
        plan = plan_objective(arrays(), HuberSVM(), replace(PURCHASE, curvature=1.05 * least, retrieval=retrieval))  # type: ignore[arg-type]
        assert plan.joint_need > 1
        assert plan.eps == 1.0
        assert plan.noise.scale > plan.classical_scale


def test_some_columns_of_a_design() -> None:
    design = factors()
    kept = np.array([0, 3, 4, len(design.names) - 1])
    part = SubDesign(design, kept)
    assert part.names == tuple(design.names[j] for j in kept)
    assert sum(term.columns.stop - term.columns.start for term in part.terms) == 4
    curvature = np.array([1.0, 2.0, 3.0, 4.0])
    spread = np.full(len(design.names), 1e12)
    spread[kept] = curvature
    assert part.curvature_ratio(curvature) == pytest.approx(design.curvature_ratio(spread), rel=1e-6)
    plan = plan_objective(part, Binomial(), PURCHASE)
    assert plan.size == 4
    assert plan.kappa <= design.curvature_ratio(np.full(len(design.names), plan.curvature[0])) * (1 + 1e-12)


def test_stored_plans_come_back() -> None:
    plan = plan_objective(factors(), Poisson(5.0, 10.0), PURCHASE, Lasso(2.0))
    again = ObjectivePlan.from_dict(json.loads(json.dumps(plan.to_dict())))
    assert again.to_dict() == plan.to_dict()


@pytest.mark.parametrize("family", [Binomial(), Gaussian(0.25), Poisson(5.0, 10.0), HuberSVM()], ids=str)
@pytest.mark.parametrize("eps", [1e-12, 1e-100, 1e-300])
def test_a_hopeless_eps_is_named_with_the_fix(family: Family, eps: float) -> None:
    refused = pytest.raises(ArgumentError, match=rf"eps = {eps:.3g}.*too small.*eps between 0.01 and 10")
    with refused, np.errstate(all="ignore"):
        plan_objective(factors(), family, replace(PURCHASE, eps=eps))
