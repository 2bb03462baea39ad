"""Made-up network connections: a stand-in for KDDCup99, which could not be had.

Three categorical attributes of 3, 67 and 11 levels and 38 numbers, 119 columns when coded, each row of norm 1 as in
Chaudhuri et al. (2011), section 7.1; a fifth of the rows is positive, and a classifier without privacy errs on some
thousandths. All else is invented: floods of two kinds, other attacks, and ordinary traffic.
"""

from __future__ import annotations

import numpy as np

LEVELS = (3, 67, 11)
NUMBERS = 38
COLUMNS = sum(LEVELS) + NUMBERS
SHARES = (0.20, 0.57, 0.21, 0.02)
"""Of ordinary traffic, which is positive, two kinds of flood, and other attacks."""

STRAYS = 0.15
"""Floods whose attribute is as in other rows."""

APART = 0.3
"""How far the numbers of a kind of traffic are from those of all, as a share of what they would be by themselves."""

MISTAKEN = 0.001
"""Responses that are wrong."""

Rows = tuple[np.ndarray, np.ndarray]


def _levels(kind: np.ndarray, size: int, random: np.random.Generator) -> np.ndarray:
    """A level for each row: floods nearly always have one of their own, other rows follow a steep law."""
    steep = 1 / np.arange(1, size + 1) ** 1.5
    drawn = random.choice(size, len(kind), p=steep / steep.sum())
    own = np.where(kind == 1, size - 1, np.where(kind == 2, size - 2, drawn))
    return np.where(random.random(len(kind)) < STRAYS, drawn, own)


def connections(rows: int, random: np.random.Generator) -> Rows:
    """Columns, shape (rows, 119), each row of norm 1, and 0/1 responses."""
    kind = random.choice(len(SHARES), rows, p=SHARES)
    blocks = [np.eye(size)[_levels(kind, size, random)] for size in LEVELS]
    centre = np.random.default_rng(99).beta(0.3, 1.2, (1 + len(SHARES), NUMBERS))
    centre = centre[0] + APART * (centre[1:] - centre[0])
    numbers = np.clip(centre[kind] + 0.08 * random.standard_normal((rows, NUMBERS)), 0, 1)
    # Most counters of a connection are zero.
    numbers *= random.random((rows, NUMBERS)) < 0.25 + 0.75 * (centre[kind] > 0.3)
    exog = np.column_stack([*blocks, numbers])
    positive = (kind == 0) != (random.random(rows) < MISTAKEN)
    return exog / np.linalg.norm(exog, axis=1, keepdims=True), positive.astype(float)
