"""Linear models from released moments: plan, projection, ridge, errors."""

from __future__ import annotations

import json
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pandas as pd
import pytest

from dpstats.families import Gaussian
from dpstats.formula.design import DesignSpec, design_spec
from dpstats.mechanisms.statistics import (
    Moments,
    StatisticsPlan,
    inference_of,
    noisy_count,
    plan_statistics,
    worthwhile,
)
from dpstats.privacy.gaussian import analytic_mu
from dpstats.privacy.information import MatrixNoise, design_metric
from dpstats.privacy.information.statistics import frobenius_sensitivity

DOMAIN = {"y": (0, 10), "a": (0, 5), "b": (-1, 1), "g": ["u", "v", "w"]}


def design(formula: str = "y ~ a + b + g") -> DesignSpec:
    return design_spec(formula, DOMAIN, family=Gaussian())


def frame(rows: int, seed: int = 0) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    columns = {"y": rng.uniform(0, 10, rows), "a": rng.uniform(0, 5, rows), "b": rng.uniform(-1, 1, rows)}
    return pd.DataFrame({**columns, "g": rng.choice(["u", "v", "w"], rows)})


@cache
def read(design: DesignSpec, rows: int) -> tuple[Any, np.ndarray]:
    """Rows as blocks, and their matrix."""
    blocks = design.blocks(frame(rows))
    [(exog, endog, *_)] = blocks
    stacked = np.column_stack([exog, endog])
    return blocks, stacked.T @ stacked


def released(plan: StatisticsPlan, rows: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """The released matrix and its noise."""
    blocks, exact = read(plan.design, rows)
    matrix = plan.release(blocks, np.random.default_rng(seed))
    return matrix, matrix - exact


@pytest.mark.parametrize("delta", [0.0, 1e-2])
def test_plan_goes_to_json_and_back(delta: float) -> None:
    plan = plan_statistics(design(), eps=1.0, delta=delta, radius=2.0)
    again = StatisticsPlan.from_dict(json.loads(json.dumps(plan.to_dict())))
    assert again.digest() == plan.digest()
    assert again.noise == plan.noise
    assert np.array_equal(again.law.metric, plan.law.metric)
    assert plan_statistics(design(), eps=1.1, delta=delta, radius=2.0).digest() != plan.digest()


@pytest.mark.parametrize("adjacency", ["add_remove", "replace_one"])
def test_the_budget_is_spent_and_no_more(adjacency: str) -> None:
    plan = plan_statistics(design(), eps=1.0, delta=1e-2, adjacency=adjacency)  # type: ignore[arg-type]
    noise = plan.noise
    assert noise.law == "normal"
    mu = frobenius_sensitivity(noise.response, noise.square, adjacency) / noise.scale  # type: ignore[arg-type]
    assert mu <= analytic_mu(1.0 - plan.cover_eps, 1e-2)
    assert (plan.guarantee.eps, plan.guarantee.delta) == (1.0, 1e-2)
    assert plan.guarantee.rho == pytest.approx((mu**2 + plan.cover_eps**2) / 2)
    pure = plan_statistics(design(), eps=1.0, delta=1e-12, adjacency=adjacency)  # type: ignore[arg-type]
    assert pure.noise.law == "wishart"
    assert pure.guarantee.delta == 0.0


@pytest.mark.slow
@pytest.mark.parametrize("delta", [0.0, 1e-2])
def test_the_law_is_that_of_the_release(delta: float) -> None:
    """1500 releases: variances of all entries, y'y apart, within .25 (5 standard errors and more)."""
    plan = plan_statistics(design(), eps=1.0, delta=delta)
    draws = np.array([released(plan, 20, seed)[1] for seed in range(1500)])
    law, size = plan.law, plan.noise.size
    own = np.diag(law.metric)
    right = law.variance * (np.outer(own, own) + law.metric**2)
    right[-1, -1] += plan.square_excess
    assert (draws**2).mean(axis=0) / right == pytest.approx(np.ones((size + 1, size + 1)), abs=0.25)


@pytest.mark.slow
def test_projection_takes_noise_off_and_nothing_else() -> None:
    plan = plan_statistics(design(), eps=1.0)
    size, gain = plan.noise.size, []
    for seed in range(200):
        matrix, noise = released(plan, 300, seed)
        moments = Moments.of(plan, matrix)
        left = moments.matrix - (matrix - noise)
        gain.append([np.sum(left[:size, :size] ** 2), np.sum(noise[:size, :size] ** 2)])
        assert np.array_equal(moments.matrix[-1], matrix[-1])
        assert moments.matrix[1, 2] == pytest.approx(0, abs=1e-6)  # two dummies of one factor
    after, before = np.mean(gain, axis=0)
    assert after < 0.9 * before


@pytest.mark.parametrize("rows", [0, 50, 5000])
def test_stabilised_solves_its_equation(rows: int) -> None:
    """S = H+ + m^2 S^-1 in the metric, never below the rule's m."""
    plan = plan_statistics(design(), eps=0.5)
    moments = Moments.of(plan, released(plan, rows, 1)[0])
    axes = np.eye(plan.noise.size + 1)
    equations = moments.equations(axes[:, :-1], axes[:, -1])
    ridge, metric = equations.ridge(1.0), equations.metric
    found = equations.stabilised(ridge)
    inverse = np.linalg.inv(np.linalg.cholesky(metric))
    inner, noisy = inverse @ found @ inverse.T, inverse @ equations.information @ inverse.T
    values, vectors = np.linalg.eigh(noisy)
    positive = vectors * np.maximum(values, 0) @ vectors.T
    assert inner == pytest.approx(positive + ridge**2 * np.linalg.inv(inner), rel=1e-9, abs=1e-9 * np.abs(inner).max())
    assert np.linalg.eigvalsh(inner)[0] >= ridge * (1 - 1e-9)


@pytest.mark.slow
def test_ridge_is_the_noise_over_the_radius() -> None:
    """E |b|^2 by 1500 releases, directions of theta at random; within .1 (5 standard errors and more)."""
    plan = plan_statistics(design("y ~ a + b"), eps=1.0, radius=2.0)
    size, rng, found = plan.noise.size, np.random.default_rng(3), []
    inverse = np.linalg.inv(np.linalg.cholesky(plan.law.metric[:size, :size]))
    for seed in range(1500):
        noise = released(plan, 5, seed)[1]
        theta = rng.normal(size=size)
        theta *= 2.0 / np.linalg.norm(theta)
        found.append(np.sum((inverse @ (noise[:size, -1] - noise[:size, :size] @ inverse.T @ theta)) ** 2))
    matrix = released(plan, 5, 0)[0]
    axes = np.eye(size + 1)
    ridge = Moments(matrix, plan.law).equations(axes[:, :-1], axes[:, -1]).ridge(2.0)
    assert np.mean(found) == pytest.approx((2.0 * ridge) ** 2, rel=0.1)
    assert plan.noise.gradient_variance(2.0) == pytest.approx((2.0 * ridge) ** 2, rel=1e-6)


@pytest.mark.slow
def test_number_of_rows() -> None:
    plan = plan_statistics(design(), eps=1.0)
    counts = [noisy_count(plan, Moments.of(plan, released(plan, 400, seed)[0]), None) for seed in range(100)]
    assert np.mean([rows.count for rows in counts]) == pytest.approx(400, abs=5 * counts[0].deviation / 10)
    # The projection knows more of the rows than the deviation, of the intercept's entry alone, says.
    assert np.std([rows.count for rows in counts]) <= 1.3 * counts[0].deviation
    bounded = [noisy_count(plan, Moments.of(plan, released(plan, 400, seed)[0]), 400).count for seed in range(20)]
    assert max(bounded) == 400


def test_incomplete_rows_do_not_make_the_residual_variance_smaller() -> None:
    """Under replace_one the public number counts them too: caught if it stood for the complete ones."""
    spec, whole = design(), frame(4000)
    whole.loc[:1999, "a"] = np.nan
    plan = plan_statistics(spec, eps=100.0, adjacency="replace_one")
    mapped = (np.eye(plan.noise.size + 1)[:, :-1], np.eye(plan.noise.size + 1)[:, -1])
    errors = []
    for data in (whole, whole.iloc[2000:]):
        moments = Moments.of(plan, plan.release(spec.blocks(data), np.random.default_rng(1)))
        errors.append(inference_of(plan, moments, spec, mapped, len(data), 1.0)[0].se)
    assert errors[0] == pytest.approx(errors[1], rel=1e-3)


def unshrunk_noise(spec: DesignSpec, rows: np.ndarray, joined: bool) -> np.ndarray:
    """Standard deviations of the noise in least squares of many rows, by the metric of columns together or apart."""
    plan = plan_statistics(spec, eps=1.0)
    metric = design_metric(spec.images, joined=spec.joined if joined else ())
    plan = replace(plan, metric=MatrixNoise("normal", 1.0, *metric))
    size = rows.shape[1]
    inverse = np.linalg.inv(rows.T @ rows)
    return np.sqrt(np.diag(inverse @ plan.law.metric[:size, :size] @ inverse))


@pytest.mark.parametrize(
    ("terms", "taken"), [("a * b", 1), ("bs(a, df=5) + b", 1), ("poly(a, 2) + b", 0), ("a + b", 0)]
)
def test_columns_that_move_together_have_the_metric_of_less_noise(terms: str, taken: int) -> None:
    spec = design_spec(f"y ~ {terms}", {"y": (0, 10), "a": (0, 5), "b": (-1, 1)}, family=Gaussian())
    assert len(worthwhile(spec)) == taken
    plan = plan_statistics(spec, eps=1.0)
    apart = MatrixNoise("normal", 1.0, *design_metric(spec.images))
    assert (plan.metric == apart) == (not taken)
    rng = np.random.default_rng(2)
    frame = pd.DataFrame({"y": 5.0, "a": rng.uniform(0, 5, 4000), "b": rng.uniform(-1, 1, 4000)})
    [(rows, *_)] = spec.blocks(frame, 4000)
    # Rows are as long as the proof has it in the metric that was taken; hardly any is shortened.
    lengths = np.linalg.norm(np.linalg.solve(plan.axes[:-1, :-1], rows.T), axis=0)
    assert lengths.max() <= 1.001
    if taken:
        ratios = unshrunk_noise(spec, rows, joined=True) / unshrunk_noise(spec, rows, joined=False)
        assert np.median(ratios) < 0.75


@pytest.mark.parametrize("adjacency", ["add_remove", "replace_one"])
def test_y_as_a_regressor_has_the_noise_that_it_has(adjacency: str) -> None:
    """Normal noise of y'y is several times what the metric says: a model of another column by y knows."""
    plan = plan_statistics(design(), eps=1.0, delta=1e-2, adjacency=adjacency)  # type: ignore[arg-type]
    matrix, axes = released(plan, 50, 1)[0], np.eye(plan.noise.size + 1)
    moments = Moments.of(plan, matrix)
    last = axes[-1:]
    by_y, of_y = moments.equations(axes[:, [0, -1]], axes[1]), moments.equations(axes[:, :2], axes[-1])
    assert by_y.law.bilinear(last, last)[0] == pytest.approx(plan.noise.square_variance)
    assert by_y.law.square(last.T @ last)[-1, -1] == pytest.approx(plan.noise.square_variance)
    assert by_y.law.images(last[0])[-1, -1, -1] == pytest.approx(plan.noise.square_variance)
    assert of_y.law.bilinear(last, last)[0] != pytest.approx(plan.noise.square_variance, rel=0.1)
    assert of_y.law.bilinear(axes[:1], axes[:1]) == pytest.approx(by_y.law.bilinear(axes[:1], axes[:1]))
