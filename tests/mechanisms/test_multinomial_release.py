"""The release of several classes: its plan, the information, and its price (docs/proofs/multinomial)."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from dpstats.data import Block
from dpstats.data.passes import MemoryRows
from dpstats.errors import ArgumentError
from dpstats.families.multinomial import Multinomial
from dpstats.formula.design import DesignSpec, design_spec
from dpstats.mechanisms.calibration import NoiseBudget
from dpstats.mechanisms.information import eta_error
from dpstats.mechanisms.multinomial import (
    PART_WEIGHT,
    ClassesLaw,
    ClassesStage,
    class_basis,
    information_sums,
    known_forms,
    plan_classes,
)
from dpstats.privacy.class_noise import class_loss, class_scale, determinant_curve
from dpstats.privacy.information.exact_sums import PLACES

DOMAIN = {"x": (0, 10), "z": (-1, 1), "g": ["a", "b", "c"], "y": ["p", "q", "r", "s"]}


@pytest.fixture(scope="module")
def design() -> DesignSpec:
    return design_spec("y ~ x + z + g", DOMAIN, family=Multinomial(4))


def budget(eps: float = 1.0, **changes: object) -> NoiseBudget:
    return replace(NoiseBudget(eps=eps, delta=0.0, final_eps=0.01 * eps, adjacency="add_remove"), **changes)  # type: ignore[arg-type]


def encoded(design: DesignSpec, rows: int, seed: int = 0) -> Block:
    rng = np.random.default_rng(seed)
    table = {
        "x": rng.uniform(0, 10, rows),
        "z": rng.uniform(-1, 1, rows),
        "g": rng.choice(["a", "b", "c"], rows),
        "y": rng.choice(["p", "q", "r", "s"], rows),
    }
    (block,) = design.blocks(table)
    return block


@pytest.mark.parametrize("adjacency", ["add_remove", "replace_one"])
@pytest.mark.parametrize("shared", [False, True])
@pytest.mark.parametrize("share", [None, 0.25])
def test_the_plan_costs_what_it_may(design: DesignSpec, adjacency: str, shared: bool, share: float | None) -> None:
    stage = plan_classes(design, 4, budget(adjacency=adjacency, shared=shared), share)
    assert stage.eps + stage.cover_eps == pytest.approx(1.0)
    assert stage.kappa >= design.curvature_ratio(stage.curvature)
    loss = class_loss(4, scale=stage.noise.scale, kappa=stage.kappa, adjacency=stage.adjacency, shared=shared)
    if share is None:
        assert loss <= stage.eps * (1 + 1e-9)
        return
    assert stage.information is not None
    assert eta_error(stage.final, stage.row_length) <= stage.eta_error
    gauge, determinant = determinant_curve(4, stage.kappa, shared=shared)
    trace = 2 * gauge - gauge**2 * 4 / 3
    whole = determinant + gauge / stage.noise.scale + (trace + stage.eta_error) / stage.information.scale
    again = 1 / stage.noise.scale + (0.75 + stage.eta_error) / stage.information.scale
    total = float(whole.max()) + (again if adjacency == "replace_one" else 0.0)
    assert 0.98 * stage.eps <= total <= stage.eps * (1 + 1e-3)  # cells are upper corners


def test_what_errors_cost() -> None:
    """At the extreme gradient a quarter of eps, where a logit's information costs nothing."""
    plain = class_scale(4, eps=1.0, kappa=0.2, adjacency="add_remove")
    paid = class_scale(4, eps=1.0, kappa=0.2, adjacency="add_remove", matrix_scale=(2 / 3) / 0.25)
    assert paid / plain == pytest.approx(1.41, abs=0.02)


def test_planted_information_that_is_free_as_a_logits_is_caught() -> None:
    """A matrix that costs nothing where the gradient is extreme: the loss there is above eps."""
    planted = class_scale(4, eps=1.0, kappa=0.1, adjacency="add_remove")
    gauge, loss = determinant_curve(4, 0.1, shared=False)
    trace = 2 * gauge - gauge**2 * 4 / 3
    assert float(np.max(loss + gauge / planted + trace / (1 / 0.9))) > 1.4


def test_records_shift_the_information_by_no_more_than_the_trace(design: DesignSpec) -> None:
    """In the coordinates of the noise, every row by itself, and all of them as the dense sum."""
    stage = plan_classes(design, 4, budget(), 0.25)
    assert stage.information is not None
    block, rng = encoded(design, 40), np.random.default_rng(1)
    params = rng.normal(0, 3, (4, len(design.names)))
    params -= params.mean(axis=0)
    basis, unit = class_basis(4), PART_WEIGHT * 4.0**-PLACES
    total = np.zeros((stage.information.size,) * 2)
    for row in range(len(block.endog)):
        found = information_sums(stage.information, params, [block.part(slice(row, row + 1))]).astype(float) * unit
        eta = params @ block.exog[row]
        pi = np.exp(eta - eta.max()) / np.exp(eta - eta.max()).sum()
        assert np.linalg.eigvalsh(found).min() > -1e-9
        assert np.trace(found) <= 1 - float(pi @ pi) + 1e-15
        q = basis.T @ (np.diag(pi) - np.outer(pi, pi)) @ basis
        root = np.sqrt(np.array(stage.information.diagonal))
        carried = stage.information.carried(found * np.outer(root, root))
        assert np.allclose(carried, np.kron(np.outer(block.exog[row], block.exog[row]), q), atol=1e-5)
        total += found
    whole = information_sums(stage.information, params, [block]).astype(float) * unit
    assert np.array_equal(whole, total)  # a row's part does not depend on the others
    forms = known_forms(design, 4)
    carried = stage.information.carried(whole * np.outer(root, root))
    assert len(forms) > 0
    assert np.abs(np.einsum("rij,ij->r", forms, carried)).max() < 1e-4


def test_a_row_that_is_too_long_is_shortened(design: DesignSpec) -> None:
    """Privacy does not rest on the metric alone."""
    stage = plan_classes(design, 4, budget(), 0.25)
    assert stage.information is not None
    long = Block(np.full((1, len(design.names)), 50.0), np.zeros(1))
    found = information_sums(stage.information, np.zeros((4, len(design.names))), [long]).astype(float)
    assert 0.74 < np.trace(found) * PART_WEIGHT * 4.0**-PLACES <= 0.75


def test_the_law_of_the_noise_in_the_basis(design: DesignSpec) -> None:
    """Within 5 standard errors of 4,000 draws (false alarms below 1e-4)."""
    law = ClassesLaw(plan_classes(design, 4, budget()).noise)
    draws = law.draws(4000, np.random.default_rng(5))
    squares = draws**2
    error = squares.std(axis=0) / math.sqrt(len(draws))
    assert np.all(np.abs(squares.mean(axis=0) - np.diag(law.covariance)) < 5 * error)


def test_coefficients_have_sum_zero_and_move_by_the_noise_alone(design: DesignSpec) -> None:
    stage = plan_classes(design, 4, budget(eps=50.0))
    rows = MemoryRows([encoded(design, 3000)])
    one, two = (stage.release(rows, np.random.default_rng(seed)).params for seed in (1, 2))
    assert np.abs(one.sum(axis=0)).max() < 1e-12
    assert 0 < np.abs(one - two).max() < 1.5
    again = stage.release(rows, np.random.default_rng(1)).params
    assert np.array_equal(one, again)


def test_too_little_curvature_is_refused(design: DesignSpec) -> None:
    with pytest.raises(ArgumentError, match="curvature is too small"):
        plan_classes(design, 4, budget(curvature=1e-3))
    stage = plan_classes(design, 4, budget(curvature=5.0))
    assert np.all(stage.curvature == 5.0)


def test_stored(design: DesignSpec) -> None:
    for share in (None, 0.3):
        stage = plan_classes(design, 4, budget(), share)
        assert ClassesStage.from_dict(stage.to_dict()).to_dict() == stage.to_dict()
