"""How far from a typical mean rows are kept, for docs/proofs/trimming: ``python -m benchmarks.defaults.typical``."""

from __future__ import annotations

import numpy as np

import dpstats as dp
from benchmarks.prediction.spread import TASKS, frame_of, measured
from benchmarks.shared.splits import splits
from dpstats.domain import declarations
from dpstats.formula import design

REACHES = (2.5, 3.0, 4.0, 5.0)
BUDGETS = (0.3, 1.0)
SPLITS = 8


def main() -> None:
    """Print deviance explained and the share of intervals, with means and deviations of all rows declared."""
    for name in ("Computers", "DoctorVisits"):
        task = TASKS[name]()
        frame, domain = frame_of(task), dp.Domain(task.domain)
        typical = {
            column: dp.Range(one.low, one.high, typical=(float(frame[column].mean()), float(frame[column].std())))
            for column, one in list(domain.items())[1:]
            if isinstance(one, dp.Range) and not one.is_binary
        }
        for declarations.TYPICAL_REACH in REACHES:
            design._built.cache_clear()
            known = {"domain": domain.with_(typical)}
            for eps in BUDGETS:
                figures = np.mean(
                    [measured(task, frame.iloc[a], frame.iloc[b], eps, known) for a, b in splits(len(frame), SPLITS)],
                    axis=0,
                )
                cells = (f"{figures[0]:.3f} explained", f"{figures[3]:.2f} with intervals")
                print(name, f"{declarations.TYPICAL_REACH:g} s.d.", eps, *cells, sep=" | ", flush=True)


if __name__ == "__main__":
    main()
