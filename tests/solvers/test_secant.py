"""Steps on gradients under a sample's Hessian: deterministic."""

from __future__ import annotations

import numpy as np
import pytest

from dpstats.data import Block
from dpstats.families import Binomial, HuberSVM, Poisson
from dpstats.solvers import newton
from dpstats.solvers import newton as secant
from dpstats.solvers.objective import PerturbedObjective

ROWS, SIZE = 6000, 5


def problem(family, *, ordered=False, rows=ROWS):
    random = np.random.default_rng(7)
    exog = random.uniform(-1, 1, (rows, SIZE)) / np.sqrt(SIZE)
    endog = family.clip_response((random.random(rows) < 1 / (1 + np.exp(-4 * exog[:, 0]))).astype(float))
    if ordered:
        order = np.lexsort((exog[:, 0], endog))
        exog, endog = exog[order], endog[order]
    return PerturbedObjective(family, [(exog, endog)], np.full(SIZE, 0.5), random.normal(size=SIZE))


def test_the_updated_matrix_maps_the_step_to_the_change():
    random = np.random.default_rng(1)
    half = random.normal(size=(4, 4))
    hessian, step = half @ half.T + np.eye(4), random.normal(size=4)
    change = (half @ half.T) @ step + 2 * step
    found = secant.bfgs_update(hessian, step, change)
    np.testing.assert_allclose(found @ step, change, rtol=1e-12)
    assert np.linalg.eigvalsh(found)[0] > 0


def test_a_step_without_bend_changes_nothing():
    hessian = np.eye(3)
    assert secant.bfgs_update(hessian, np.ones(3), np.zeros(3)) is hessian
    assert secant.bfgs_update(hessian, np.ones(3), np.full(3, np.nan)) is hessian


def test_the_steps_reach_the_optimum_from_a_rough_hessian():
    objective = problem(Binomial())
    optimum = newton.minimize(objective, 1e-9).astype(float)
    rough = objective.accumulate(optimum).hessian * np.linspace(0.8, 1.2, SIZE)[:, None]
    rough = (rough + rough.T) / 2
    found = secant.descend(objective, optimum + 0.05, rough, 1e-9)
    assert found.reliable
    np.testing.assert_allclose(found.theta, optimum, atol=1e-11)


@pytest.mark.parametrize("factor", [0.01, 100.0])
def test_a_hessian_of_another_size_is_given_up(factor):
    objective = problem(Binomial())
    hessian = objective.accumulate(np.zeros(SIZE)).hessian * factor
    start = np.full(SIZE, 0.5)
    found = secant.descend(objective, start, hessian, 1e-9)
    assert not found.reliable
    assert objective.accumulate(found.theta).value <= objective.accumulate(start).value


@pytest.mark.parametrize("family", [Binomial(), Poisson(2.0, 3.0), HuberSVM(0.1)], ids=lambda family: family.name)
@pytest.mark.parametrize("ordered", [False, True])
def test_samples_lead_to_the_certified_optimum(family, ordered, monkeypatch):
    monkeypatch.setattr("dpstats.solvers.newton.SMALL_SAMPLES", (200,))
    monkeypatch.setattr("dpstats.solvers.newton.WARM_START_ROWS", 800)
    monkeypatch.setattr("dpstats.solvers.newton.ROWS_A_COLUMN", 100)
    monkeypatch.setattr("dpstats.solvers.objective.SAMPLE_CHUNK", 20)
    objective = problem(family, ordered=ordered)
    theta, hessian = newton.sample_optimum(objective, np.zeros(SIZE))
    assert hessian is not None
    # The rows of the sample are few: the Hessian is that of all rows but for a part.
    whole = objective.accumulate(theta).hessian
    assert np.linalg.norm(hessian - whole) < 0.5 * np.linalg.norm(whole)
    found = newton.minimize(objective, 1e-9)
    assert np.linalg.norm(objective.accumulate(found.astype(float)).gradient) < 1e-8


@pytest.mark.parametrize("family", [Binomial(), Poisson(2.0, 3.0), HuberSVM(0.1)], ids=lambda family: family.name)
def test_the_gradient_alone_is_that_beside_the_value(family):
    random = np.random.default_rng(5)
    plain = problem(family)
    exog, endog = plain.rows.collect()[0][:2]
    block = Block(exog, endog, random.random(ROWS), random.normal(size=ROWS))
    for rows in ([(exog, endog)], [tuple(block)]):
        objective = PerturbedObjective(family, rows, plain.curvature, plain.noise, offset_bound=10.0)
        theta = random.normal(size=SIZE)
        np.testing.assert_allclose(
            objective.gradient(theta), objective.accumulate(theta).gradient, rtol=1e-11, atol=1e-9
        )


def test_few_rows_have_no_sample():
    objective = problem(Binomial())
    theta, hessian = newton.sample_optimum(objective, np.zeros(SIZE))
    assert hessian is None
    assert not theta.any()


def test_all_rows_own_hessian_is_fetched_once_where_many_steps_are_ahead(monkeypatch):
    """A rough Hessian gains a third a step: with the rows' own the optimum is there after a few passes."""
    objective = problem(Binomial())
    optimum = newton.minimize(objective, 1e-9).astype(float)
    rough = 1.5 * objective.accumulate(optimum).hessian
    passes = count_passes(monkeypatch)
    found = secant.descend(objective, optimum + 0.01, rough, 1e-9)
    assert found.reliable
    assert passes.count("accumulate") == 1
    assert len(passes) <= 6
    np.testing.assert_allclose(found.theta, optimum, atol=1e-11)


def test_where_few_steps_are_ahead_gradients_do(monkeypatch):
    objective = problem(Binomial())
    optimum = newton.minimize(objective, 1e-9).astype(float)
    passes = count_passes(monkeypatch)
    assert secant.descend(objective, optimum + 1e-6, objective.accumulate(optimum).hessian, 1e-6).reliable
    assert "accumulate" not in passes[1:]


def test_passes_ahead_of_steps_that_gain_and_of_those_that_do_not():
    assert secant.passes_ahead(1.0, 0.1, 1e-6) == pytest.approx(6)
    assert secant.passes_ahead(1e-7, 0.1, 1e-6) == 0
    assert secant.passes_ahead(1.0, 1.5, 1e-6) == 0
    assert secant.passes_ahead(np.nan, np.nan, 1e-6) == 0


def count_passes(monkeypatch) -> list[str]:
    """The names of the passes over rows from now on, in order."""
    passes = []
    for name in ("gradient", "accumulate"):
        made = getattr(PerturbedObjective, name)
        monkeypatch.setattr(
            PerturbedObjective,
            name,
            lambda objective, theta, name=name, made=made: passes.append(name) or made(objective, theta),
        )
    return passes
