"""What an oracle needs that has the released information: ``python -m benchmarks.inference.released [repetitions]``.

Widths of `dp.glm` over the oracle's, which knows the information; and of one that knows every variance, but debiases
by the released information as `dp.glm` does: to first order its errors have g'E d besides. Medians over runs, least
squares.
"""

from __future__ import annotations

import sys

import numpy as np
import pandas as pd

from benchmarks.inference.coverage import Cell, Truth, repetitions
from dpstats.mechanisms.design import SubDesign
from dpstats.mechanisms.information import known_information

CELL = Cell("wages", 10_000, 1.0)
REPETITIONS = 60


def ratios(truth: Truth, count: int) -> tuple[np.ndarray, np.ndarray]:
    """Widths over the oracle's: ours, and those of the oracle with the released information; shapes (count, p)."""
    plan, wanted = truth.plan, truth.transform[0]
    noise, columns = plan.stages[-1].plan.information.noise, np.arange(len(wanted))
    ours, theirs = [], []
    for _, fit, drawn in repetitions(truth.cell, range(count)):
        oracle = truth.oracles(np.asarray(fit.scaled_params), drawn)["model"]
        known = known_information(np.asarray(fit.released.matrix), noise, SubDesign(plan.design, columns))
        # The law is that of T'ET: g'E d is of the directions T^-1 g and T^-1 d.
        turn = np.linalg.inv(known.basis).T
        directions = wanted @ oracle.estimates.identified.inverse @ turn
        shift = np.broadcast_to(oracle.estimates.correction @ turn, directions.shape)
        added = known.law.bilinear(directions, shift)
        ours.append(fit._inference.se / oracle.se)
        theirs.append(np.sqrt(1 + added / oracle.estimates.parts(wanted).total))
    return np.array(ours), np.array(theirs)


def main(count: int = REPETITIONS) -> None:
    """Print both, by coefficient and over all."""
    both = ratios(Truth(CELL), count)
    names = ["ours", "released information, variances known"]
    lines = [[*np.median(found, axis=0), np.median(found)] for found in both]
    print(pd.DataFrame(lines, index=names, columns=[*CELL.plan.names, "all"]).round(3).T.to_string())


if __name__ == "__main__":
    main(*(int(word) for word in sys.argv[1:]))
