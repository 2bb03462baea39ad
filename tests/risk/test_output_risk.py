"""The bounds for output perturbation: theorems 3 to 5 on random data, lemma 4, and sample sizes.

Statements on laws are tested at a false-alarm rate of 1e-6 each, with fixed seeds.
"""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np
import pytest
from scipy import stats

import dpstats as dp
from dpstats.errors import ArgumentError
from dpstats.families import Binomial, Family, Gaussian, HuberSVM, Poisson
from dpstats.mechanisms.output import output_noise
from dpstats.penalties import Bridge, Lasso, Penalty
from dpstats.privacy.noise import Noise
from dpstats.risk import OutputFacts, objective_risk, sample_size
from dpstats.risk.proved import output_bounds, shortfall
from dpstats.solvers import prox
from dpstats.solvers.objective import PerturbedObjective

FAMILIES: list[Family] = [Gaussian(residual_cap=0.5), Binomial(), Poisson(mean_cap=5.0, y_max=5.0), HuberSVM()]
LAWS = [Noise("gaussian", "l2", 1.7), Noise("laplace", "l2", 0.6)]
PENALTIES: list[Penalty | None] = [None, Lasso(2.0), Bridge(1.5, 1.4)]
FALSE_ALARM = 1e-6


def rows(seed: int, count: int, columns: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    exog = rng.normal(size=(count, columns))
    exog /= np.maximum(1, np.linalg.norm(exog, axis=1))[:, None]
    return exog, (exog[:, 0] + rng.normal(scale=0.3, size=count) > 0).astype(float)


def optimum(family: Family, penalty: Penalty | None, data: tuple[np.ndarray, np.ndarray], m: np.ndarray) -> np.ndarray:
    objective = PerturbedObjective(family, [data], m, 0 * m)
    return np.asarray(prox.minimize(objective, penalty or Lasso(0.0), 1e-10), dtype=float)


def unregularised(
    family: Family, penalty: Penalty | None, data: tuple[np.ndarray, np.ndarray], theta: np.ndarray
) -> float:
    """F: losses and penalty."""
    exog, endog = data
    paid = 0.0 if penalty is None else float(np.sum(penalty.value(theta)))
    return float(np.sum(family.derivatives(exog @ theta, endog).value)) + paid


@pytest.mark.parametrize("penalty", PENALTIES, ids=str)
@pytest.mark.parametrize("family", FAMILIES, ids=lambda family: family.name)
def test_theorems_3_and_4_hold_for_every_draw(family: Family, penalty: Penalty | None) -> None:
    rng = np.random.default_rng(6)
    for seed in range(15):
        count = int(rng.integers(1, 40))
        data, m = rows(seed, count, 3), np.exp(rng.normal(size=3))
        facts = OutputFacts(family, LAWS[0], m, float(1 / m.min()), penalty, np.ones(3))
        centre = optimum(family, penalty, data, m)
        for _ in range(10):
            g = rng.normal(size=3) * rng.choice([0.1, 1.0, 10.0])
            released, theta = centre + g / np.sqrt(m), 2 * rng.normal(size=3)
            rise = facts.rise(float(g @ g), count)
            gap = unregularised(family, penalty, data, released) - unregularised(family, penalty, data, centre)
            quadratic = (released @ (m * released) - centre @ (m * centre)) / 2
            assert gap + quadratic <= g @ g / 2 + rise + 1e-8
            whole = unregularised(family, penalty, data, released) - unregularised(family, penalty, data, theta)
            cross = float(centre @ (m * theta) - centre @ (np.sqrt(m) * g) - centre @ (m * centre))
            assert whole <= cross + rise + 1e-8


@pytest.mark.parametrize("penalty", PENALTIES[1:], ids=str)
def test_the_rise_of_a_penalty_is_bounded_and_nearly_attained(penalty: Penalty) -> None:
    """P(t + e) - P(t) - P'(t) e over a grid: for the lasso a step across zero rises by twice its length."""
    facts = OutputFacts(Binomial(), LAWS[0], np.ones(1), 1.0, penalty, np.ones(1))
    starts = np.concatenate([[1e-9], np.linspace(0.01, 3, 300)])
    worst = 0.0
    for step in (-2.0, -0.7, 0.7, 2.0):
        ends = [[penalty.value(at) for at in points] for points in (starts + step, starts)]
        rises = np.array(ends[0]) - np.array(ends[1]) - penalty.slope(starts) * step
        bound = facts.rise(step**2, 0.0)
        assert rises.max() <= bound * (1 + 1e-9)
        worst = max(worst, float(rises.max()) / bound)
    assert worst > (0.99 if isinstance(penalty, Lasso) else 0.6)


@lru_cache
def coordinates(size: int) -> np.ndarray:
    """2,000,000 draws, the greatest first: a radius Gamma(p) times a coordinate of the sphere, whose square is Beta."""
    rng = np.random.default_rng(1)
    side = np.sqrt(stats.beta(0.5, (size - 1) / 2).rvs(2_000_000, rng))
    return np.sort(stats.gamma(size).rvs(2_000_000, rng) * side * rng.choice([-1, 1], 2_000_000))[::-1]


@pytest.mark.slow
@pytest.mark.parametrize("law", LAWS, ids=lambda law: law.kind)
@pytest.mark.parametrize("size", [1, 4, 30])
@pytest.mark.parametrize("pi", [0.3, 0.05, 0.002])
def test_shortfall_is_the_mean_of_the_worst_share(law: Noise, size: int, pi: float) -> None:
    """Against a numerical integral over quantiles of a coordinate, found from its law by another route."""
    upper = np.linspace(0, 1, 200_001)[1:] - 0.5 / 200_000
    if law.kind == "gaussian":
        draw = stats.norm.isf
    elif size == 1:
        draw = stats.laplace.isf
    else:
        worst = coordinates(size)[: int(pi * 2_000_000)]
        error = 5.0 * float(np.std(worst)) / math.sqrt(len(worst)) + 0.02 * float(worst.mean())
        assert shortfall(law, size, pi) == pytest.approx(law.scale * float(worst.mean()), abs=law.scale * error)
        return
    worst = draw(pi * upper)
    assert shortfall(law, size, pi) == pytest.approx(law.scale * worst.mean(), rel=2e-4)
    both = draw(pi / 2 * upper)
    assert shortfall(law, size, pi, 2) == pytest.approx(law.scale**2 * np.mean(both**2), rel=2e-3)


@pytest.mark.parametrize("law", LAWS, ids=lambda law: law.kind)
def test_lemma_4_bounds_every_average(law: Noise) -> None:
    rng, pi, size, runs = np.random.default_rng(7), 0.05, 5, 40_000
    draws = stats.norm.rvs(size=(runs, size), random_state=rng)
    if law.kind == "laplace":
        draws *= (rng.gamma(size, size=runs) / np.linalg.norm(draws, axis=1))[:, None]
    squares = (law.scale * draws) ** 2
    allowed = stats.binom(runs, pi).isf(FALSE_ALARM)
    for weights in ([1, 0, 0, 0, 0], [0.2] * 5, [0.5, 0.3, 0.2, 0, 0]):
        assert np.sum(squares @ np.array(weights) > shortfall(law, size, pi, 2)) <= allowed
    # The plain quantile of one direction is no bound on their average where that is what is wanted.
    assert np.quantile(squares[:, 0], 1 - pi) < shortfall(law, size, pi, 2)


@pytest.mark.parametrize("law", LAWS, ids=lambda law: law.kind)
@pytest.mark.parametrize("columns", [1, 6])
def test_levels_and_means(law: Noise, columns: int) -> None:
    """200 rows, 4,000 draws: each level is passed at most as often as it says, each mean is not."""
    family, pi, radius, runs = Binomial(), 0.05, 3.0, 4000
    data, m = rows(3, 200, columns), np.full(columns, 4.0)
    facts = OutputFacts(family, law, m, 0.25)
    bounds = {(b.gap, b.statement): b.value for b in output_bounds(facts, pi, radius, 200)}
    centre, rng = optimum(family, None, data, m), np.random.default_rng(9)
    theta = optimum(family, None, data, m / 50)
    theta *= radius / np.linalg.norm(theta)
    g = rng.normal(size=(runs, columns)) * law.scale
    if law.kind == "laplace":
        g *= (rng.gamma(columns, size=runs) / np.linalg.norm(g / law.scale, axis=1))[:, None]
    released = centre + g / 2
    losses = np.array([unregularised(family, None, data, one) for one in released])
    regularised = losses + 2 * np.sum(released**2, axis=1)
    gaps = {
        "regularised": regularised - unregularised(family, None, data, centre) - 2 * centre @ centre,
        "unregularised": losses - unregularised(family, None, data, theta),
    }
    allowed = stats.binom(runs, pi).isf(FALSE_ALARM)
    for name, values in gaps.items():
        assert np.sum(values > bounds[name, "quantile"]) <= allowed
        error = 5 * values.std() / math.sqrt(runs)
        assert values.mean() <= bounds[name, "mean"] + error
        assert values.mean() > bounds[name, "mean"] / 60 or name == "unregularised"


@pytest.mark.parametrize("law", LAWS, ids=lambda law: law.kind)
def test_theorem_3_is_attained_without_rows(law: Noise) -> None:
    facts = OutputFacts(Binomial(), law, np.array([1.0, 5.0, 9.0]), 1.0)
    bound = {(b.gap, b.statement): b.value for b in output_bounds(facts, 0.05, 1.0, 0)}
    assert bound["regularised", "quantile"] == pytest.approx(law.norm_quantile(3, 0.95) ** 2 / 2)
    assert bound["regularised", "mean"] == pytest.approx(law.expected_square(3) / 2)


@pytest.mark.slow
def test_theorem_5_covers_new_rows() -> None:
    """Tiny samples, where sampling is what costs: mean excess of a new row over 400 samples, and its bound."""
    family, count, columns, m = Binomial(), 8, 3, np.full(3, 0.5)
    law = output_noise(family, eps=4.0, curvature_ratio=2.0)
    facts = OutputFacts(family, law, m, 2.0)
    bound = next(b.value for b in output_bounds(facts, 0.05, 2.0, count) if b.gap == "population")
    theta, fresh, rng = np.array([2.0, 0.0, 0.0]), rows(10_000, 4000, columns), np.random.default_rng(2)
    excess = []
    for seed in range(400):
        centre = optimum(family, None, rows(seed, count, columns), m)
        g = rng.normal(size=3)
        g *= law.scale * rng.gamma(3) / np.linalg.norm(g)
        gap = unregularised(family, None, fresh, centre + g / np.sqrt(m)) - unregularised(family, None, fresh, theta)
        excess.append(gap * count / 4000)
    assert np.mean(excess) + 5 * np.std(excess) / 20 <= bound
    sampling = 2 * count * 2.0
    assert bound > sampling


def test_the_table_of_a_plan() -> None:
    domain = {"x": (0, 1), "y": ["no", "yes"]}
    plan = dp.plan("y ~ x", domain, 1.0, family="binomial", method="output", penalty="lasso", alpha=1.0)
    table = plan.excess_risk(n=5000, printed=True)
    assert list(table["holds"][:6]) == ["proved"] * 6
    assert table["value"].notna().all()
    output = table[table["note"].str.contains("output perturbation")]
    assert set(output["holds"]) == {"implied", "order only"}
    others = table[6:][~table["note"][6:].str.contains("output perturbation")]
    assert set(others["holds"]) == {"other mechanism"}
    assert plan.excess_risk()["value"].isna().all()
    other = dp.plan("y ~ x", domain, 1.0, family="binomial", method="objective", inference=None)
    population = other.excess_risk(n=5000).set_index("bound")["value"]["population, in the mean"]
    assert population > objective_risk(other).frame()["value"][3]


@pytest.mark.slow
@pytest.mark.parametrize("delta", [0.0, 1e-6])
def test_sample_size_is_the_least_at_its_curvature(delta: float) -> None:
    found = sample_size("binomial", 6, eps=1.0, delta=delta, target=0.02, radius=4.0, method="output")
    facts = OutputFacts(Binomial(), found.noise, np.full(6, found.curvature), 1 / found.curvature)

    def bound(n: int, which: int) -> float:
        return output_bounds(facts, 0.05, 4.0, n)[which].value / n

    assert bound(found.n, 2) <= 0.02 * (1 + 1e-9) < bound(found.n - 2, 2)
    assert found.n > sample_size("binomial", 6, eps=1.0, delta=delta, target=0.02, radius=4.0).n
    assert found.table["source"][0] == "docs/proofs/risk, theorem 4"


def test_sample_size_refuses_other_methods_and_too_little_curvature() -> None:
    with pytest.raises(ArgumentError, match="method"):
        sample_size("binomial", 3, eps=1.0, target=0.1, radius=1.0, method="both")  # type: ignore[arg-type]
    with pytest.raises(ArgumentError, match="curvature"):
        sample_size("binomial", 3, eps=1.0, target=0.01, radius=1.0, method="output", curvature=0.1)
