"""What an inner interval loses and gains, for docs/proofs/trimming: ``python -m benchmarks.defaults.trimming``."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from dpstats.privacy import trimming

ROWS_NEEDED = (0.0, 30.0, 60.0, 100.0)
"""Rows that are needed to narrow a range, in units of the noise scale."""

FEW = (1, 5, 30, 60, 100, 300)
MANY = (100, 500, 2_500)


def column(kind: str, rows: int, random: np.random.Generator) -> NDArray[np.float64]:
    """Values of standard deviation one, shape (rows,)."""
    if kind == "normal":
        return random.normal(size=rows)
    if kind == "uniform":
        return random.uniform(-(3**0.5), 3**0.5, size=rows)
    if kind == "lognormal":
        return np.exp(random.normal(size=rows)) / ((np.e - 1) * np.e) ** 0.5
    if kind == "exponential":
        return random.exponential(size=rows)
    zeros = float(kind.split()[0]) / 100
    spread = (2 * (1 - zeros) - (1 - zeros) ** 2) ** 0.5
    return np.where(random.random(rows) < zeros, 0.0, random.exponential(size=rows)) / spread


def trimmed(kind: str, ratio: float, rows: int, random: np.random.Generator) -> tuple[float, float]:
    """The share of rows lost and the width over the declared one, for a range of `ratio` standard deviations; eps 1."""
    low, high = (-ratio / 2, ratio / 2) if kind in ("normal", "uniform") else (0.0, ratio)
    values = column(kind, rows, random)
    values = values[(values >= low) & (values <= high)]
    first, last = trimming.buy_inner_interval(values, low, high, eps=1.0, adjacency="add_remove", random=random)
    lost = float(np.mean((values < first) | (values > last))) if len(values) else 0.0
    return lost, (last - first) / (high - low)


def main() -> None:
    """Print the chance of a loss of more than a row in twenty, then what many rows lose and gain."""
    settled = trimming.ROWS_NEEDED
    for trimming.ROWS_NEEDED in ROWS_NEEDED:
        for kind in ("normal", "uniform", "lognormal", "95 % zeros"):
            random = np.random.default_rng(6)
            chances = [np.mean([trimmed(kind, 20.0, rows, random)[0] > 0.05 for _ in range(400)]) for rows in FEW]
            cells = ", ".join(f"{rows}: {chance:.3f}" for rows, chance in zip(FEW, chances, strict=True))
            print(f"rows needed {trimming.ROWS_NEEDED:g}, {kind}, rows times eps and chance: {cells}", flush=True)
    trimming.ROWS_NEEDED = settled
    for ratio in (4.0, 20.0, 100.0):
        for kind in ("normal", "lognormal", "exponential", "80 % zeros", "95 % zeros"):
            random = np.random.default_rng(7)
            cells = []
            for rows in MANY:
                found = np.array([trimmed(kind, ratio, rows, random) for _ in range(100)])
                cells.append(f"{100 * found[:, 0].mean():.2g} % / {np.median(found[:, 1]):.2g}")
            print(f"range {ratio:g} s.d., {kind}: " + ", ".join(cells), flush=True)


if __name__ == "__main__":
    main()
