"""The auditor, which knows nothing of histograms, on an evaluation's release."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import dpstats as dp
from dpstats.evaluation.histograms import Histogram, probability_grid
from dpstats.evaluation.integer_noise import choose_noise
from dpstats.privacy.guarantee import Adjacency

EPS = 1.0
BLOCK = Histogram(probability_grid(2, -3.0, 3.0), groups=2, place=0.5)
ROWS = np.array([[-2.0, 0], [1.0, 1]])
REPLACED = np.array([[-2.0, 0], [-3.0, 0]])


def release(noise_for: Adjacency) -> Any:
    noise = choose_noise(BLOCK.largest, BLOCK.square, EPS, 0.0, noise_for)

    def mechanism(data: Any, rng: np.random.Generator) -> Any:
        return noise.add(BLOCK.count(data[:, 1].astype(np.intp), data[:, 0]), rng)

    return mechanism


@pytest.mark.slow
@pytest.mark.parametrize("adjacency", ["add_remove", "replace_one"])
def test_the_auditor_finds_no_fault(adjacency: Adjacency) -> None:
    neighbour = ROWS[:1] if adjacency == "add_remove" else REPLACED
    result = dp.audit(release(adjacency), ROWS, neighbour, eps=EPS, runs=20_000, seed=1)
    assert result.passed
    assert result.eps_lower > 0.3  # and it has seen something


@pytest.mark.slow
def test_the_auditor_finds_a_forgotten_cell() -> None:
    """Planted: noise for one changed cell, though a replaced row changes two."""
    assert not dp.audit(release("add_remove"), ROWS, REPLACED, eps=EPS, runs=20_000, seed=1).passed
