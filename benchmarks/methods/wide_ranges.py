"""How often ``dp.check`` says that a range is far too wide: ``python -m benchmarks.methods.wide_ranges``.

4,000 made-up persons, 150 seeded checks at eps = 0.1 for each Domain: the right one, and ones with one range too wide.
"""

from __future__ import annotations

import numpy as np
import pandas as pd

import dpstats as dp

ROWS, RUNS, EPS = 4000, 150, 0.1

RIGHT = {"cost": (0, 6000), "age": (18, 80), "bmi": (15, 45), "region": ["north", "south", "east", "west"]}

WIDE = {
    "right": {},
    "bmi, twice": {"bmi": (15, 75)},
    "bmi, 4 times": {"bmi": (15, 135)},
    "bmi, 8 times": {"bmi": (15, 255)},
    "bmi, 33 times": {"bmi": (0, 1000)},
    "cost, 100 times": {"cost": (0, 600_000)},
}
"""Ranges in the place of the right ones."""


def people(seed: int = 0) -> pd.DataFrame:
    """Age and bmi all over their ranges, cost about the middle of its own."""
    random = np.random.default_rng(seed)
    rows = pd.DataFrame({"age": random.uniform(18, 80, ROWS), "bmi": np.clip(random.normal(27, 5, ROWS), 15, 45)})
    rows["region"] = random.choice(RIGHT["region"], ROWS)
    return rows.assign(cost=np.clip(1000 + 20 * rows["age"] + random.normal(0, 500, ROWS), 0, 6000))


def found(domain: dict[str, object], rows: pd.DataFrame) -> int:
    """In how many checks a range is said to be far too wide."""
    said = (dp.check("cost ~ age + bmi + region", rows, domain, EPS, seed=seed).findings for seed in range(RUNS))
    return sum(any("far too wide" in one for one in findings) for findings in said)


def main() -> None:
    """Print a line for each Domain."""
    rows = people()
    print(f"{'range':<20}found in {RUNS} checks of {ROWS:,} rows at eps = {EPS:g}")
    for name, changed in WIDE.items():
        print(f"{name:<20}{found({**RIGHT, **changed}, rows)}")


if __name__ == "__main__":
    main()
