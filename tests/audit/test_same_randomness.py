"""Same randomness, neighbouring data: what the noise covers never moves further than declared."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import pytest
from covers import pairwise

from dpstats.audit import Pair, sensitivity, worst_cases
from dpstats.data import Block, Rows, as_endog, as_exog
from dpstats.families import Binomial, Family, Gaussian, HuberSVM, NegativeBinomial, Poisson, Quantile, SmoothSVM
from dpstats.models.sources import array_blocks
from dpstats.privacy.guarantee import Adjacency
from dpstats.solvers import newton
from dpstats.solvers.objective import PerturbedObjective

FAMILIES: list[Family] = [
    Gaussian(1.0),
    Binomial(),
    Poisson(4.0, 8.0),
    NegativeBinomial(0.5, 8.0),
    HuberSVM(),
    SmoothSVM(),
    Quantile(0.8, 0.1),
]


def block_pairs(pairs: Iterable[Pair], family: Family, row_norm: float) -> list[tuple[Rows[Block], Rows[Block]]]:
    """Neighbours as a fit reads them: once, for all randomness."""

    def blocks(data: tuple[np.ndarray, np.ndarray]) -> Rows[Block]:
        return array_blocks(as_endog(data[0]), as_exog(data[1]), family, {"l2": row_norm})

    return [(blocks(pair.data), blocks(pair.neighbour)) for pair in pairs]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("family", "row_norm", "adjacency"),
    pairwise(FAMILIES, [0.1, 1.0, 30.0, 1e4], ["add_remove", "replace_one"]),
    ids=lambda value: value.name if isinstance(value, Family) else str(value),
)
def test_the_gradient_moves_by_at_most_the_row_bound_times_lipschitz(
    family: Family, row_norm: float, adjacency: Adjacency
) -> None:
    """The declared sensitivity of b(theta; D), in every norm the noise may have, on rows of any length."""
    declared = row_norm * family.lipschitz * (2 if adjacency == "replace_one" else 1)
    # Rows three times too long must be shortened by the fit.
    pairs = block_pairs(worst_cases(family, 3 * row_norm, 2, adjacency), family, row_norm)

    def gradient(blocks: Rows[Block], rng: np.random.Generator) -> np.ndarray:
        objective = PerturbedObjective(family, blocks, np.ones(2), np.zeros(2))
        return objective.accumulate(rng.normal(size=2) * 10 / row_norm).gradient

    result = sensitivity(gradient, pairs, declared=declared, runs=20, seed=1)
    assert result.passed
    assert result.largest > 0.4 * declared


@pytest.mark.slow
@pytest.mark.parametrize("family", FAMILIES, ids=lambda family: family.name)
def test_the_optimum_moves_by_at_most_output_sensitivity(family: Family) -> None:
    """With the same b the exact optimum moves by at most L X / m (privacy.md section 5)."""
    curvature = 2.0

    def optimum(blocks: Rows[Block], rng: np.random.Generator) -> np.ndarray:
        objective = PerturbedObjective(family, blocks, np.full(2, curvature), 3 * rng.normal(size=2))
        return newton.minimize(objective, 1e-12).astype(float)

    pairs = block_pairs(worst_cases(family, 1.5, 2), family, 1.5)
    result = sensitivity(optimum, pairs, declared=1.5 * family.lipschitz / curvature, runs=10, seed=2)
    assert result.passed


def test_a_forgotten_clip_is_caught() -> None:
    """The same recorder on rows that nobody shortened."""
    family = Binomial()
    pairs = [(pair.data, pair.neighbour) for pair in worst_cases(family, 3.0, 2)]

    def gradient(data: tuple[np.ndarray, np.ndarray], rng: np.random.Generator) -> np.ndarray:
        endog, exog = data
        objective = PerturbedObjective(family, [(exog, endog)], np.ones(2), np.zeros(2))
        return objective.accumulate(rng.normal(size=2)).gradient

    assert not sensitivity(gradient, pairs, declared=1.0, runs=20, seed=1).passed
