"""How wide and how lossy bought ranges are, for docs/proofs/ranges: ``python -m benchmarks.defaults.ranges``."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from dpstats.privacy import ranges

REPEATS = 40
PRICES = ((2.0, 1.0), (1.0, 2.0), (2.0, 2.0), (2.0, 3.0), (4.0, 2.0))
SETTINGS = ((5_000, 0.01), (10_000, 0.02), (10_000, 0.1), (100_000, 0.1))
LOST = 0.25


def columns(rows: int, random: np.random.Generator) -> dict[str, NDArray[np.float64]]:
    """Columns of the kinds met in practice, each of shape (rows,)."""
    return {
        "age": np.clip(random.gamma(4, 6, rows) + 17, 17, 90).round(),
        "year": random.integers(1990, 2021, rows).astype(float),
        "income": np.exp(random.normal(10, 0.8, rows)),
        "normal": random.normal(0, 1, rows),
        "binary": random.integers(0, 2, rows).astype(float),
        "share": random.beta(2, 50, rows),
        "visits, four zeros in five": np.where(random.random(rows) < 0.8, 0, 1 + random.poisson(1.5, rows)) * 1.0,
        "gains, eleven zeros in twelve": np.where(
            random.random(rows) < 11 / 12, 0, np.exp(random.normal(8.5, 0.8, rows))
        ),
        "one one in ten": (random.random(rows) < 0.1) * 1.0,
        "one two in ten": 1.0 + (random.random(rows) < 0.1),
        "months, four twelves in five": np.where(random.random(rows) < 0.8, 12, random.integers(1, 12, rows)) * 1.0,
    }


def bulk(values: NDArray[np.float64]) -> tuple[float, float]:
    """The range that matters: of values that are not rare, or nine tenths of those that are not the commonest."""
    found, times = np.unique(values, return_counts=True)
    if len(found) < 100:
        common = found[times >= 0.005 * len(values)]
        return float(common.min()), float(common.max())
    rest = values[values != found[times.argmax()]] if times.max() > 0.3 * len(values) else values
    low, high = np.quantile(rest, (0.05, 0.95))
    return float(low), float(high)


def quality(values: NDArray[np.float64], eps: float, random: np.random.Generator) -> tuple[float, float]:
    """Width of the bought range over that of the bulk, and whether less than a quarter of the bulk lies in it."""
    low, high = ranges.buy_range(values, eps=eps, random=random)
    first, last = bulk(values)
    inside = max(0.0, min(high, last) - max(low, first)) / (last - first)
    return (high - low) / (last - first), float(inside < LOST)


def main() -> None:
    """Print, for each pair of prices, the median width ratio, its 95 % point and how often the bulk was lost."""
    for prices in PRICES:
        ranges.COARSE_PRICE, ranges.FINE_PRICE = prices
        for rows, eps in SETTINGS:
            random = np.random.default_rng(0)
            found = {
                name: np.array([quality(values, eps, random) for _ in range(REPEATS)])
                for name, values in columns(rows, random).items()
            }
            cells = (
                f"{name} {np.median(q[:, 0]):.2g}/{np.quantile(q[:, 0], 0.95):.2g}/{q[:, 1].mean():.2f}"
                for name, q in found.items()
            )
            print(f"prices {prices} eps {eps:g} rows {rows}: " + "; ".join(cells), flush=True)


if __name__ == "__main__":
    main()
