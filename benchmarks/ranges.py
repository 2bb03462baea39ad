"""How wide and how lossy bought ranges are, for docs/proofs/ranges: ``python -m benchmarks.ranges``."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from dpstats.privacy import ranges

REPEATS = 40
PRICES = ((1.0, 1.0), (2.0, 2.0), (2.0, 3.0), (2.0, 4.0), (4.0, 4.0))


def columns(rows: int, random: np.random.Generator) -> dict[str, NDArray[np.float64]]:
    """Columns of the kinds met in practice, each of shape (rows,)."""
    return {
        "age": np.clip(random.gamma(4, 6, rows) + 17, 17, 90).round(),
        "year": random.integers(1990, 2021, rows).astype(float),
        "income": np.exp(random.normal(10, 0.8, rows)),
        "normal": random.normal(0, 1, rows),
        "binary": random.integers(0, 2, rows).astype(float),
        "share": random.beta(2, 50, rows),
    }


def quality(values: NDArray[np.float64], eps: float, random: np.random.Generator) -> tuple[float, float]:
    """Width of the bought range over the full range of the values, and the share of rows outside it."""
    low, high = ranges.buy_range(values, eps=eps, random=random)
    return (high - low) / np.ptp(values), float(np.mean((values < low) | (values > high)))


def main() -> None:
    """Print, for each pair of prices, the median width ratio, its 95 % point and the mean share clipped."""
    settings = [(eps, rows) for eps in (0.02, 0.1) for rows in (1_000, 5_000, 30_000)]
    for prices in PRICES:
        ranges.COARSE_PRICE, ranges.FINE_PRICE = prices
        for eps, rows in settings:
            random = np.random.default_rng(0)
            found = {
                name: np.array([quality(values, eps, random) for _ in range(REPEATS)])
                for name, values in columns(rows, random).items()
            }
            cells = (
                f"{name} {np.median(q[:, 0]):.2g}/{np.quantile(q[:, 0], 0.95):.2g}/{q[:, 1].mean():.3f}"
                for name, q in found.items()
            )
            print(f"prices {prices} eps {eps:g} rows {rows}: " + "  ".join(cells))


if __name__ == "__main__":
    main()
