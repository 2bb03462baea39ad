"""Input perturbation against central objective perturbation and no privacy, and the speed of reports.

``python -m benchmarks.replications.local [runs]`` prints the table of docs/benchmarks_local; ``... speed`` its figures
of speed. Rows are made up to look like a census: fourteen public columns, skewed income.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from scipy import optimize

import dpstats as dp
from dpstats.local.collector import local_design
from dpstats.local.contributor import on_lattice, statistics
from dpstats.local.spec import Spec
from dpstats.local.transport import Total

DELTA = 0.01
FLAGS = ("sex", "married", "single", "work", "urban", "own", "vet", "disab", "born")
DOMAIN = {
    **{"age": (16, 90), "educ": (0, 18), "hours": (0, 99), "weeks": (0, 52), "kids": (0, 9)},
    **dict.fromkeys(FLAGS, (0, 1)),
    **{"log_income": (6, 13), "high": (0, 1)},
}
FORMULA = "age + sex + educ + married + single + work + hours + weeks + urban + own + kids + vet + disab + born"
TEST_ROWS = 100_000


def census(rows: int, random: np.random.Generator) -> pd.DataFrame:
    """Made-up persons: dependent columns, an income that follows from them, and whether it is a high one."""
    age = np.clip(random.gamma(9, 5, rows), 16, 90)
    sex = random.random(rows) < 0.49
    educ = np.clip(random.normal(12.5 - 0.02 * (age - 45), 2.8), 0, 18)
    married = random.random(rows) < 0.75 / (1 + np.exp(-(age - 30) / 10))
    work = random.random(rows) < np.where(age > 65, 0.2, 0.75)
    frame = {
        **{"age": age, "sex": sex, "educ": educ, "married": married, "work": work},
        "single": ~married & (random.random(rows) < 0.6),
        "hours": np.where(work, np.clip(random.normal(40 - 4 * sex, 11), 1, 99), 0),
        "weeks": np.where(work, np.clip(52 - random.exponential(6, rows), 1, 52), 0),
        "urban": random.random(rows) < 0.7,
        "own": random.random(rows) < 0.4 + 0.35 * married,
        "kids": np.minimum(random.poisson(0.9 * married + 0.2, rows), 9),
        "vet": random.random(rows) < 0.26 * ~sex,
        "disab": random.random(rows) < 0.05 + 0.002 * (age - 16),
        "born": random.random(rows) < 0.88,
    }
    data = pd.DataFrame({name: np.asarray(values, dtype=float) for name, values in frame.items()})
    effects = (
        0.09 * (data.educ - 12.5)
        + 0.022 * np.minimum(data.age - 20, 35)
        - 0.00035 * np.maximum(data.age - 40, 0) ** 2
        - 0.28 * data.sex
        + 0.15 * data.married
        + 0.018 * (data.hours - 30)
        + 0.018 * (data.weeks - 35)
        + 0.12 * (data.urban + data.own)
        - 0.25 * data.disab
        + 0.06 * data.born
        - 0.03 * data.kids
    )
    spread = 0.65 * np.where(random.random(rows) < 0.1, 1.8, 1)
    data["log_income"] = 9.4 + effects + random.normal(0, 1, rows) * spread
    data["high"] = (data.log_income > 10.6).astype(float)
    return data


def simulated_total(data: pd.DataFrame, spec: Spec, random: np.random.Generator) -> Total:
    """The sum of the reports of all rows: its law, with normal noise in place of a sum of discrete Gaussians."""
    exog, endog, *_ = local_design(spec.formula, spec.domain, spec.family).blocks(data)[0]
    values = on_lattice(statistics(exog, endog, spec), spec).sum(axis=0)
    noise = np.rint(random.normal(0, spec.lattice.scale * np.sqrt(len(data)), spec.size)).astype(np.int64)
    return Total(spec.hash, values + noise, len(data))


def simulated_reports(data: pd.DataFrame, spec: Spec, random: np.random.Generator) -> list[dp.local.Report]:
    """The reports of all rows, with rounded normal noise."""
    exog, endog, *_ = local_design(spec.formula, spec.domain, spec.family).blocks(data)[0]
    values = on_lattice(statistics(exog, endog, spec), spec)
    noise = np.rint(random.normal(0, spec.lattice.scale, values.shape)).astype(np.int64)
    return [dp.local.Report(spec.hash, row) for row in values + noise]


def non_private(data: pd.DataFrame, family: str, formula: str) -> Any:
    """Coefficients in model units, and the design."""
    design = local_design(formula, DOMAIN, family)
    exog, endog, *_ = design.blocks(data)[0]
    if family == "gaussian":
        return np.linalg.lstsq(exog, endog, rcond=None)[0], design

    def loss(theta: Any) -> Any:
        eta = exog @ theta
        value = np.logaddexp(0, eta).sum() - endog @ eta + 1e-6 * theta @ theta
        return value, exog.T @ (1 / (1 + np.exp(-eta)) - endog) + 2e-6 * theta

    return optimize.minimize(loss, np.zeros(exog.shape[1]), jac=True, method="L-BFGS-B").x, design


def by_norm(data: pd.DataFrame, eps: float, family: str, formula: str, seed: int) -> Any:
    """Objective perturbation that knows of a row no more than its norm, and squares residuals of the whole range.

    That is what the paper compares with, with the noise that its repaired proof needs.
    """
    exog, endog, *_ = local_design(formula, DOMAIN, family).blocks(data, len(data))[0]
    loss = dp.families.Gaussian(residual_cap=2.0) if family == "gaussian" else dp.families.Binomial()
    model = dp.GLM(endog, exog, family=loss, row_norm=1.0)
    return model.fit(eps, delta=DELTA, adjacency="replace_one", seed=seed, allow_uncertified=True)


def score(scaled: Any, exog: Any, endog: Any, family: str) -> float:
    """RMSE of clipped predictions in units of half the declared range, or the share of wrong classes."""
    eta = exog @ scaled
    if family == "gaussian":
        return float(np.sqrt(np.mean((np.clip(eta, -1, 1) - endog) ** 2)))
    return float(np.mean((eta > 0) != (endog > 0.5)))


def compare(rows: int, eps: float, family: Any, runs: int, seed: int = 1) -> dict[str, float]:
    """Mean score above the non-private fit's, of each method."""
    random = np.random.default_rng(seed)
    name = "log_income" if family == "gaussian" else "high"
    formula = f"{name} ~ {FORMULA}"
    given: dict[str, Any] = {"eps": eps, "delta": DELTA, "n": rows, "family": family}
    sums, pairs = Spec(DOMAIN, formula, **given), Spec(DOMAIN, formula, **given, scheme="features")
    equal = Spec(DOMAIN, formula, **{**given, "eps": None}, local_eps=sums.local_eps, scheme="features")
    test = local_design(formula, DOMAIN, family).blocks(census(TEST_ROWS, random), TEST_ROWS)[0][:2]
    found: dict[str, list[float]] = {}
    for run in range(runs):
        data = census(rows, random)
        best, _ = non_private(data, family, formula)
        base = score(best, *test, family)
        central: dict[str, Any] = {"delta": DELTA, "domain": DOMAIN, "seed": seed * 10_000 + run}
        central |= {"family": family, "adjacency": "replace_one", "allow_uncertified": True}
        uncertified: Any = {"allow_uncertified": True}
        printed = simulated_reports(data, pairs, random)
        fits = {
            "input, statistics": dp.local.fit(simulated_total(data, sums, random), sums),
            "objective, central": dp.glm(formula, data, eps, **central),
            "objective, norm 1": by_norm(data, eps, family, formula, central["seed"]),
            "input, features as printed": dp.local.fit(
                printed, pairs, features="printed", curvature=2 / eps * BOUND[family], **uncertified
            ),
            "input, features debiased": dp.local.fit(simulated_reports(data, equal, random), equal, **uncertified),
        }
        for method, fit in fits.items():
            found.setdefault(method, []).append(score(fit.scaled_params, *test, family) - base)
    return {method: float(np.mean(values)) for method, values in found.items()}


BOUND = {"gaussian": 1.0, "binomial": 0.25}
"""lambda of the paper's ridge 2 lambda / eps."""


def table(runs: int) -> pd.DataFrame:
    """The comparison at 2^13 reports."""
    rows = {}
    for family in ("gaussian", "binomial"):
        for eps in (0.1, 1.0):
            rows[family, eps] = compare(2**13, eps, family, runs)
    return pd.DataFrame(rows).T


def speed(reports: int = 100_000) -> dict[str, float]:
    """Reports a second from files, milliseconds a record to randomize, and the peak of a process that only reads."""
    spec = _speed_spec()
    random = np.random.default_rng(1)
    record = census(1, random).iloc[0].to_dict()
    dp.local.randomize(record, spec)
    start = time.process_time()
    for _ in range(100):
        dp.local.randomize(record, spec)
    found = {"randomize, ms a record": (time.process_time() - start) * 10}
    noise = np.rint(random.normal(0, spec.lattice.scale, (reports, spec.size))).astype(np.int64)
    with tempfile.TemporaryDirectory() as folder:
        for suffix in ("parquet", "jsonl"):
            path = Path(folder, f"reports.{suffix}")
            dp.local.write((dp.local.Report(spec.hash, row) for row in noise), path)
            start = time.process_time()
            dp.local.total(path, spec)
            found[f"{suffix}, reports a second"] = reports / (time.process_time() - start)
            command = [sys.executable, "-m", "benchmarks.replications.local", "read", str(path)]
            done = subprocess.run(command, capture_output=True, text=True, check=True)
            found[f"{suffix}, peak MB"] = float(done.stdout)
    return found


def _speed_spec() -> Spec:
    return Spec(DOMAIN, f"log_income ~ {FORMULA}", eps=1.0, delta=1e-5, n=1000)


def read(path: str) -> float:
    """Megabytes at the peak of this process, which adds up the reports of a file (Linux)."""
    dp.local.total(path, _speed_spec())
    # Not by getrusage, which counts the process that started this one.
    line = next(line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmHWM"))
    return float(line.split()[1]) / 1024


if __name__ == "__main__":
    if sys.argv[1:2] == ["read"]:
        print(read(sys.argv[2]))
    elif sys.argv[1:2] == ["speed"]:
        for name, value in speed(int(float(sys.argv[2])) if len(sys.argv) > 2 else 100_000).items():
            print(f"{name:30}{value:14.1f}")
    else:
        print(table(int(sys.argv[1]) if len(sys.argv) > 1 else 20).round(4).to_string())
