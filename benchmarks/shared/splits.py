"""Repeated random splits: what the accuracy benchmarks share."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np

DRAWS = 30
TRAINING_SHARE = 0.8

Rows = np.ndarray
"""Positions of rows, as integers."""


class Score(NamedTuple):
    """The mean of a measure over splits, and its standard error."""

    mean: float
    error: float
    draws: int

    def __str__(self) -> str:
        return f"{self.mean:.4f} ± {self.error:.4f}"


def splits(rows: int, draws: int = DRAWS) -> Iterator[tuple[Rows, Rows]]:
    """Training and test rows. Split k is drawn with seed k; the noise of a fit is not seeded."""
    cut = int(TRAINING_SHARE * rows)
    for seed in range(draws):
        order = np.random.default_rng(seed).permutation(rows)
        yield order[:cut], order[cut:]


def score(rows: int, measure: Callable[[Rows, Rows], float], draws: int = DRAWS) -> Score:
    """Evaluate `measure(training, test)` on every split."""
    values = np.array([measure(training, test) for training, test in splits(rows, draws)])
    return Score(float(values.mean()), float(values.std(ddof=1) / math.sqrt(draws)), draws)
