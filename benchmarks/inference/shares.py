"""How much of the budget the information should take: bounded intervals and widths by `information_share`.

``python -m benchmarks.inference.shares [repetitions] [simulated|real]``. The default shares were chosen on the
simulated designs; the real ones are a check. The share r h / L / (1 + r h / L) is that of the matrix if it were bought
alone, r = 1 / s2 in units of the row norm over the fit's scale; pure, add_remove.
"""

from __future__ import annotations

import sys

import numpy as np
import pandas as pd

import dpstats as dp
from benchmarks.inference.coverage import Cell, Truth
from benchmarks.inference.populations import SEED, population

REPETITIONS = 24
SHARES = (0.2, 0.25, 0.33, 0.42, 0.5, 0.6, 0.7)

SIMULATED: tuple[tuple[str, int, float], ...] = tuple(
    (f"{shape} {family} {columns}", rows, eps)
    for shape in ("narrow", "simulated")
    for family in ("binomial", "gaussian")
    for columns, rows, eps in (
        (4, 1_000, 1.0),
        (10, 10_000, 0.5),
        (10, 10_000, 1.0),
        (30, 10_000, 3.0),
        (30, 30_000, 1.0),
    )
)
REAL: tuple[tuple[str, int, float], ...] = (
    ("adult 4", 10_000, 0.3),
    ("adult 14", 10_000, 1.0),
    ("adult 14", 30_000, 1.0),
    ("adult 27", 30_000, 3.0),
    ("wages", 10_000, 1.0),
    ("wages", 30_000, 1.0),
)


def figures(name: str, rows: int, eps: float, share: float, repetitions: int) -> dict[str, object]:
    """A line of the table: precision is the mean over coefficients of (non-private s.e. / s.e.), 0 if unbounded."""
    whole = population(name)
    ratios = []
    for seed in range(repetitions):
        random = np.random.default_rng([SEED, seed])
        drawn = whole.frame.iloc[random.integers(0, len(whole.frame), rows)].reset_index(drop=True)
        fit = dp.glm(
            whole.formula,
            drawn,
            eps,
            family=whole.family,
            domain=whole.domain,
            inference=True,
            information_share=share,
            seed=int(random.integers(2**62)),
        )
        ratios.append(fit.bse.to_numpy(dtype=np.float64))
    errors = np.array(ratios)
    plain = Truth(Cell(name, rows, eps)).plain
    bounded = np.isfinite(errors)
    return {
        "population": name,
        "n": rows,
        "eps": eps,
        "share": share,
        "bounded": bounded.mean(),
        "s.e.": bounded.mean(axis=1).std() / np.sqrt(repetitions),
        "width/plain": np.median(np.where(bounded, errors, np.inf) / plain),
        "precision": np.mean(plain / errors),
    }


def main(repetitions: int = REPETITIONS, which: str = "simulated") -> None:
    """Print the table, a line as soon as it is there."""
    header = True
    for name, rows, eps in REAL if which == "real" else SIMULATED:
        for share in SHARES:
            line = pd.DataFrame([figures(name, rows, eps, share, repetitions)]).round(3)
            print(line.to_string(index=False, header=header), flush=True)
            header = False


if __name__ == "__main__":
    main(*(int(word) if word.isdigit() else word for word in sys.argv[1:]))
