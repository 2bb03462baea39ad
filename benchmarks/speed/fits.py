"""Time and memory of a logistic regression beside other libraries, on one thread: ``python -m benchmarks.speed.fits``.

Times are CPU seconds (a shared machine stretches wall time), the libraries in turn in one process: medians, and
medians of the ratio within a turn.
Memory is the peak of the resident set during one fit over what was resident before it, in a fresh process for each
library, after a fit of a few rows has loaded what the library loads late (Linux only).
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
import warnings
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

COLUMNS = {"arrays": 20, "wide": 150, "default": 20}
ROWS = (10_000, 100_000, 1_000_000)
WIDE_ROWS = 300_000
ROW_NORMS = {20: 7.5, 150: 16.0}
"""Twenty-six rows of twenty standard normal cells in a million are longer, and hardly any of 150."""
EPS = 1.0
SEED = 2026
ONE_THREAD = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "OMP_THREAD_LIMIT"), "1")
ROOT = Path(__file__).resolve().parents[2]

Task = Callable[[], Any]


def arrays(rows: int, columns: int = 20) -> tuple[np.ndarray, np.ndarray]:
    """0/1 responses and standard normal columns; the linear predictor has standard deviation 1.5."""
    random = np.random.default_rng(SEED)
    params = random.normal(size=columns)
    params *= 1.5 / np.linalg.norm(params)
    exog = random.standard_normal((rows, columns))
    return (random.random(rows) < 1 / (1 + np.exp(-(exog @ params)))).astype(float), exog


def _dpstats(endog: np.ndarray, exog: np.ndarray, **options: None) -> Task:
    import dpstats as dp

    row_norm = ROW_NORMS[exog.shape[1]]
    return lambda: dp.GLM(endog, exog, family="binomial", row_norm=row_norm).fit(EPS, **options)


def _scikit_learn(endog: np.ndarray, exog: np.ndarray, **options: float) -> Task:
    from sklearn.linear_model import LogisticRegression

    return lambda: LogisticRegression(fit_intercept=False, **options).fit(exog, endog)


def _glum(endog: np.ndarray, exog: np.ndarray) -> Task:
    from glum import GeneralizedLinearRegressor

    ridge = GeneralizedLinearRegressor(family="binomial", alpha=1 / len(endog), l1_ratio=0, fit_intercept=False)
    return lambda: ridge.fit(exog, endog)


def _diffprivlib(endog: np.ndarray, exog: np.ndarray) -> Task:
    from diffprivlib.models import LogisticRegression

    return lambda: LogisticRegression(epsilon=EPS, data_norm=ROW_NORMS[exog.shape[1]], fit_intercept=False).fit(
        exog, endog
    )


def _statsmodels(endog: np.ndarray, exog: np.ndarray) -> Task:
    import statsmodels.api as sm

    return lambda: sm.GLM(endog, exog, family=sm.families.Binomial()).fit()


LIBRARIES: dict[str, Callable[[np.ndarray, np.ndarray], Task]] = {
    "dpstats": _dpstats,
    "dpstats, coefficients alone": partial(_dpstats, inference=None),
    "scikit-learn lbfgs": _scikit_learn,
    "scikit-learn lbfgs, tol=1e-10": partial(_scikit_learn, tol=1e-10),
    "glum ridge": _glum,
    "diffprivlib": _diffprivlib,
    "statsmodels GLM": _statsmodels,
}
"""One fit of each, with a ridge of strength 1 on the sum of the losses where there is a choice."""


FORMULA = "y ~ " + " + ".join(f"x{j}" for j in range(8)) + " + group + C(grade)"
GROUPS, GRADES = list("abcdef"), [1, 2, 3]


def frame(rows: int) -> pd.DataFrame:
    """Eight numeric columns, six groups of text, three numbered grades."""
    random = np.random.default_rng(SEED)
    exog = random.uniform(-1, 1, (rows, 8))
    data = pd.DataFrame(exog, columns=[f"x{j}" for j in range(8)])
    data["group"], data["grade"] = random.choice(GROUPS, rows), random.choice(GRADES, rows)
    eta = exog @ random.normal(size=8) + (data["group"] == "b") - 0.5 * (data["grade"] == 3)
    data["y"] = (random.random(rows) < 1 / (1 + np.exp(-eta))).astype(int)
    return data


def formula_tasks(data: pd.DataFrame) -> dict[str, Task]:
    """From formula to the text of a summary."""
    import statsmodels.api as sm
    import statsmodels.formula.api as smf

    import dpstats as dp

    domain = dp.Domain({f"x{j}": (-1, 1) for j in range(8)} | {"group": GROUPS, "grade": GRADES, "y": bool})
    return {
        "dpstats": lambda: dp.logit(FORMULA, data, EPS, domain=domain).summary().as_text(),
        "statsmodels": lambda: smf.glm(FORMULA, data, family=sm.families.Binomial()).fit().summary().as_text(),
    }


def default_tasks(rows: int) -> dict[str, Task]:
    """Least squares by a formula on twenty numeric columns: by default, and without what it releases beside the fit."""
    import dpstats as dp

    response, exog = arrays(rows)
    names = [f"x{j}" for j in range(exog.shape[1])]
    data = pd.DataFrame(exog, columns=names).assign(y=response + exog[:, 0])
    domain = dp.Domain(dict.fromkeys(names, (-6, 6)) | {"y": (-6, 7)})

    def fit(**options: Any) -> Task:
        return lambda: dp.ols("y ~ " + " + ".join(names), data, EPS, domain=domain, **options)

    return {
        "dpstats": fit(),
        "dpstats, rows not counted, errors paid for": fit(check_share=0, inference=True),
        "dpstats, the same without fit statistics": fit(check_share=0, inference=True, fitstats=None),
        "dpstats, coefficients alone": fit(check_share=0, inference=None),
    }


def tasks(kind: str, rows: int, names: Sequence[str] = ()) -> dict[str, Task]:
    """Tasks of one kind, "arrays", "wide", "formula" or "default", on data of `rows` rows: those named, or all."""
    if kind == "formula":
        return formula_tasks(frame(rows))
    if kind == "default":
        found = default_tasks(rows)
        return {name: found[name] for name in names or found}
    data = arrays(rows, COLUMNS[kind])
    return {name: LIBRARIES[name](*data) for name in names or LIBRARIES}


def cpu_seconds(kind: str, rows: int, repeats: int, names: Sequence[str] = ()) -> dict[str, list[float]]:
    """CPU seconds of every task, `repeats` times in turn; slow ones are run twice only."""
    for task in tasks(kind, 1000, names).values():
        task()  # loads what a library loads late
    chosen = tasks(kind, rows, names)
    seconds: dict[str, list[float]] = {name: [] for name in chosen}
    for turn in range(repeats):
        for name, task in chosen.items():
            if turn >= 2 and seconds[name][-1] > 20 * seconds["dpstats"][0]:
                continue
            start = time.process_time()
            task()
            seconds[name].append(time.process_time() - start)
    return seconds


def peak_memory(kind: str, rows: int, name: str) -> dict[str, int]:
    """Bytes that one task adds to the resident set at its peak, and bytes of the data."""
    tasks(kind, 1000, [name])[name]()
    task = tasks(kind, rows, [name])[name]
    Path("/proc/self/clear_refs").write_text("5")  # the peak so far is forgotten
    before = _status("VmRSS")
    task()
    extra = _status("VmHWM") - before  # before the frame is made again
    data = frame(rows).memory_usage(deep=True).sum() if kind == "formula" else 8 * rows * (COLUMNS[kind] + 1)
    return {"extra": extra, "data": int(data)}


def _status(field: str) -> int:
    """A line of /proc/self/status, in bytes."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return 1024 * next(int(line.split()[1]) for line in lines if line.startswith(field))


def in_subprocess(*arguments: object) -> Any:
    """Run one measurement on one thread and return what it prints as JSON."""
    command = [sys.executable, "-m", "benchmarks.speed.fits", *map(str, arguments)]
    done = subprocess.run(command, cwd=ROOT, env=os.environ | ONE_THREAD, check=True, capture_output=True, text=True)
    return json.loads(done.stdout.splitlines()[-1])


def table(kind: str, rows: int, repeats: int = 7) -> pd.DataFrame:
    """Seconds, their ratio to dpstats' and memory, one library a line."""
    seconds = in_subprocess("time", kind, rows, repeats)
    ours = np.array(seconds["dpstats"])
    lines = []
    for name, taken in seconds.items():
        memory = in_subprocess("memory", kind, rows, name)
        slower = np.median(ours[: len(taken)] / taken)
        space = f"{memory['extra'] / memory['data']:.2f}"
        lines.append((f"{rows:,}", name, f"{np.median(taken):.3f}", f"{slower:.2f}", space))
    titles = ["rows", kind, "CPU seconds", "dpstats / it", "extra peak memory / data"]
    return pd.DataFrame(lines, columns=titles)


def main() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        match sys.argv[1:]:
            case ["time", kind, rows, repeats, *names]:
                print(json.dumps(cpu_seconds(kind, int(rows), int(repeats), names)))
                return
            case ["memory", kind, rows, name]:
                print(json.dumps(peak_memory(kind, int(rows), name)))
                return
    for kind, sizes in (("arrays", ROWS), ("wide", (WIDE_ROWS,))):
        print(f"\n## Logistic regression on arrays, {COLUMNS[kind]} columns\n", flush=True)
        for rows in sizes:
            print(table(kind, rows).to_string(index=False), flush=True)
    print("\n## Least squares by a formula, 20 columns: what is released by default\n", flush=True)
    for rows in ROWS:
        print(table("default", rows).to_string(index=False), flush=True)
    print(f"\n## Formula to summary\n\n{FORMULA}\n\n{table('formula', ROWS[-1]).to_string(index=False)}", flush=True)


if __name__ == "__main__":
    main()
