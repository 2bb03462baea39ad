"""Theorem 7: the cost of privacy on new rows, with high probability.

Statements on laws are tested at a false-alarm rate of 1e-6 each, with fixed seeds.
"""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

import dpstats as dp
from dpstats.families import Binomial, Family, HuberSVM
from dpstats.penalties import Lasso
from dpstats.privacy.noise import Noise
from dpstats.risk import sample_size
from dpstats.risk.proved import (
    STEP,
    NoiseQuantiles,
    SamplingBound,
    cost_of_new_rows,
    objective_quantiles,
    output_quantiles,
)
from dpstats.solvers import newton, prox
from dpstats.solvers.objective import PerturbedObjective

FALSE_ALARM = 1e-6


@pytest.mark.parametrize("size", [1, 4])
def test_the_sampling_error_is_bounded_and_of_the_right_size(size: int) -> None:
    """Losses of slope 1, -y x'theta with y = +-1 at random: the largest excess in a ball of radius 1 is |sum y x|.

    Its 95 % quantile is below the slope a for one level, and above a fifth of it: a bound without the factor 2, or
    with n for its root, would not be found by the first alone.
    """
    rng, rows = np.random.default_rng(1), 400
    exog = rng.normal(size=(rows, size))
    exog /= np.linalg.norm(exog, axis=1)[:, None]
    sums = np.linalg.norm(rng.choice([-1.0, 1.0], (4000, rows)) @ exog, axis=1)
    bound = math.sqrt(rows) * (2 + math.sqrt(2 * math.log(1 / 0.05)))
    beyond = int(np.sum(sums > bound))
    assert stats.binomtest(beyond, 4000, 0.05, alternative="greater").pvalue > FALSE_ALARM
    slope = SamplingBound(1.0, 1.0, 1.0).slope(rows, 1.0, 0.05)
    assert bound <= slope <= 2 * bound
    assert np.quantile(sums, 0.95) > slope / 5


def population(size: int, seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Twelve kinds of rows, their responses and their probabilities: expectations are sums."""
    rng = np.random.default_rng(seed)
    exog = rng.normal(size=(12, size))
    exog /= np.maximum(1, np.linalg.norm(exog, axis=1))[:, None]
    return exog, (exog[:, 0] > 0).astype(float), rng.dirichlet(np.ones(12))


def whole_loss(family: Family, theta: np.ndarray, exog: np.ndarray, endog: np.ndarray, weights: np.ndarray) -> float:
    return float(weights @ family.derivatives(exog @ theta, endog).value)


@pytest.mark.parametrize("method", ["objective", "output"])
@pytest.mark.parametrize("family", [Binomial(), HuberSVM()], ids=lambda family: family.name)
def test_the_steps_of_the_proof_hold_for_every_draw(family: Family, method: str) -> None:
    """With the noise and the sampling error that were drawn in place of their quantiles, the bound holds each time."""
    rng = np.random.default_rng(5)
    penalty = Lasso(0.7)
    for seed in range(60):
        exog, endog, chances = population(3, seed)
        rows = int(rng.integers(5, 60))
        counts = rng.multinomial(rows, chances)
        m, theta = np.exp(rng.normal(size=3)), rng.normal(size=3) * rng.choice([0.3, 3.0])
        noise = rng.normal(size=3) * rng.choice([0.3, 3.0])
        linear = noise if method == "objective" else np.zeros(3)
        data = (np.repeat(exog, counts, axis=0), np.repeat(endog, counts))
        fitted = np.asarray(prox.minimize(PerturbedObjective(family, [data], m, linear), penalty, 1e-10), dtype=float)
        released = fitted if method == "objective" else fitted + noise / np.sqrt(m)
        start, distance = math.sqrt(theta @ (m * theta)), math.sqrt((released - theta) @ (m * (released - theta)))

        def excess(weights: np.ndarray, released=released, theta=theta, exog=exog, endog=endog) -> float:
            return whole_loss(family, released, exog, endog, weights) - whole_loss(family, theta, exog, endog, weights)

        paid = float(np.sum(penalty.value(released)) - np.sum(penalty.value(theta)))
        h = excess(rows * chances) - excess(counts.astype(float))
        slope = max(h / distance, 0.0)
        if method == "objective":
            shifted = noise + m * theta
            bound = (math.sqrt(shifted @ (shifted / m)) + slope) ** 2 / 4
        else:
            along = float(np.linalg.norm(noise))
            kappa = float(np.max(exog**2 @ (1 / m)))
            rise = family.curvature_bound * rows * kappa * along**2 / 2 + 2 * 0.7 * float(
                np.sum(np.abs(noise) / m**0.5)
            )
            bound = (start + along + slope) ** 2 / 4 + start * min(along, slope) + slope * along + rise
        assert excess(rows * chances) + paid <= bound + 1e-7


def test_it_is_a_row_of_the_tables() -> None:
    domain = {"x": (-1, 1), "y": (0, 1)}
    for method in ("napp", "output"):
        plan = dp.plan("y ~ x", domain, 1.0, family="binomial", method=method)
        table = plan.excess_risk(n=10_000).set_index("bound")["value"]
        assert table["population, with probability 0.95"] > table["population, in the mean"] > 0
        surer = plan.excess_risk(pi=0.001, n=10_000).set_index("bound")["value"]
        assert surer["population, with probability 0.999"] > table["population, with probability 0.95"]


@pytest.mark.slow
@pytest.mark.parametrize("method", ["objective", "output"])
def test_the_number_of_rows_is_the_least(method: str) -> None:
    found = sample_size("binomial", 3, eps=0.5, target=0.05, radius=2.0, method=method)  # type: ignore[arg-type]
    line = found.table[found.table["source"].str.endswith("theorem 7")].iloc[0]
    level, n = float(line["note"].split()[-1]), int(line["n"])
    fixed = sample_size("binomial", 3, eps=0.5, target=0.05, radius=2.0, method=method, curvature=level)  # type: ignore[arg-type]
    if method == "objective":
        drawn = objective_quantiles(fixed.noise, np.ones(3), level * np.ones(3), 2.0, 0.05)
    else:
        drawn = output_quantiles(fixed.noise, 3, 0.05, math.sqrt(level) * 2)
    sampling = SamplingBound(1.0, 1 / level, math.sqrt(level) * 2)
    rise = 0.25 * drawn.square / level / 2
    costs = [cost_of_new_rows(sampling, drawn, rows, 0.05) / rows + rise for rows in (0.99 * n, 1.01 * n)]
    # The note gives the curvature to four digits.
    assert costs[1] < 0.05 < costs[0]


def test_more_rows_cost_less_each_and_more_noise_more() -> None:
    sampling = SamplingBound(1.0, 0.01, 5.0)
    few, many = (cost_of_new_rows(sampling, NoiseQuantiles(6.0, 6.0), rows, 0.05) / rows for rows in (1e3, 1e5))
    assert many < few
    assert cost_of_new_rows(sampling, NoiseQuantiles(9.0, 9.0), 1e3, 0.05) / 1e3 > few
    assert STEP > 1


def test_noise_in_the_objective_is_no_less_than_the_shrinkage() -> None:
    """The farthest level of the proof needs B >= s."""
    for scale in (1e-6, 1.0):
        for m in (np.ones(3), np.array([0.1, 1.0, 10.0])):
            drawn = objective_quantiles(Noise("gaussian", "l2", scale), np.ones(3), m, 4.0, 0.05)
            assert drawn.norm >= 4.0 * math.sqrt(m.max()) * (1 - 1e-9)


@pytest.mark.parametrize(("tilt", "sampled"), [(0.4, 0.0), (0.4, 0.9), (1.7, 2.5)])
def test_the_constants_of_the_steps_are_the_best(tilt: float, sampled: float) -> None:
    """A saturated row of slope -1 on these rows and -1 - c on new ones: (B + c)^2 / 4 is the cost itself.

    Noise b and comparator t with b + t = 2 + c. A quarter that were a fifth, or a c that were left out, would be less
    than what it bounds.
    """
    family, noise, theta = HuberSVM(0.5), tilt, 2 + sampled - tilt
    # Shrunk to a point far below the margin, where the loss is 1 - eta exactly; all are counted from there.
    away = -20.0
    objective = PerturbedObjective(family, [(np.ones((1, 1)), np.ones(1))], np.ones(1), np.array([noise - away]))
    fitted = float(newton.minimize(objective, 1e-12)[0]) - away
    assert fitted == pytest.approx(1 - noise, abs=1e-9)
    cost = (1 + sampled) * (theta - fitted)
    bound = ((noise + theta) + sampled) ** 2 / 4
    assert cost == pytest.approx(bound, rel=1e-9)
    assert cost > (noise + theta) ** 2 / 4 - 1e-9
    assert cost > bound * 4 / 5


@pytest.mark.slow
def test_the_sample_is_no_free_lunch() -> None:
    """500 samples of 60 rows of pure chance, fitted with little noise: theorem 7 holds, and without the rows' part
    it would fail nearly always.

    The bound fails with probability .05 at most; more than 60 failures of 500 have a probability below 1e-7 then.
    """
    rng, family, size, rows, level = np.random.default_rng(11), Binomial(), 4, 60, 0.5
    m, pi, radius = np.full(size, level), 0.05, 1e-3
    noise = Noise("gaussian", "l2", 0.05)
    start = math.sqrt(level) * radius
    drawn = objective_quantiles(noise, np.ones(size), m, radius, pi)
    bound = cost_of_new_rows(SamplingBound(family.lipschitz, 1 / level, start), drawn, rows, pi)
    beyond, bare = 0, 0
    for _ in range(500):
        exog = rng.normal(size=(rows, size))
        exog /= np.linalg.norm(exog, axis=1)[:, None]
        endog = rng.integers(0, 2, rows).astype(float)
        linear = rng.normal(size=size) * 0.05
        fitted = np.asarray(newton.minimize(PerturbedObjective(family, [(exog, endog)], m, linear), 1e-9), dtype=float)
        # Of new rows the response is a fair coin: log 2 at the comparator 0, more at any other coefficients.
        new = rng.normal(size=(2000, size))
        eta = new @ fitted / np.linalg.norm(new, axis=1)
        cost = rows * float(np.mean(np.logaddexp(eta / 2, -eta / 2)) - math.log(2))
        beyond += cost > bound
        bare += cost > drawn.shrunk**2 / 4
    assert beyond <= 60
    assert bare > 450
