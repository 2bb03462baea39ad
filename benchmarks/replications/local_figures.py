"""Figures 1 and 2 of Fukuchi, Tran and Sakuma (2017): error against the number of reports.

``python -m benchmarks.replications.local_figures [runs]`` writes benchmarks/replications/local_results/figures.csv, one
line a run, from which vignettes/local draws. Numbers of persons from 2^7 to 2^21, four to each test person's one, made
up by benchmarks.replications.local; eps .1 and 1, delta .01, a record becomes another one. The figures in the paper are
of IPUMS' census of 2000 and tune each method at the largest size; here nothing is tuned, and every method is as its
plan has it:

- "none": least squares, or logistic regression, without privacy;
- "input": `dp.local`. The sum of reports is drawn from its law, the exact sums on the lattice and one normal draw; what
  rounding a record's own values to the lattice adds, 1e-4 of the noise's variance or less, is left out;
- "objective": `dp.GLM` that knows of a row its norm alone, Gaussian noise: what the paper compares with, repaired;
- "output": the same with noise in the optimum, spherical Laplace;
- "objective, formula": `dp.glm` on the formula, whose noise is cut to the design (not in the paper).

``... local_figures input`` draws the lines of "input" anew from the same persons and the same noise, with fewer runs
from 2^15 on; what they lose is beside no privacy on their own runs, and `error` adds that to the mean of all runs.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pandas as pd
from matplotlib.axes import Axes

import dpstats as dp
from benchmarks.replications.local import DELTA, DOMAIN, FORMULA, by_norm, census, non_private, score
from dpstats.local.collector import local_design
from dpstats.local.contributor import statistics
from dpstats.local.spec import Spec
from dpstats.local.transport import Total
from dpstats.plots import style

RESULTS = Path(__file__).parent / "local_results" / "figures.csv"
SIZES = tuple(2**power for power in range(7, 22, 2))
BUDGETS = (0.1, 1.0)
RESPONSES = {"gaussian": "log_income", "binomial": "high"}
FEWER = {2**17: 0.4, 2**19: 0.12, 2**21: 0.04}
"""The share of the runs at the largest sizes."""

AGAIN = {2**15: 0.3, 2**17: 0.12, 2**19: 0.04, 2**21: 0.02}
"""The same where reports alone are drawn anew."""

CHUNK = 2**16
SEED = 2017

Rows = tuple[np.ndarray, np.ndarray]


def total_of(rows: Rows, spec: Spec, random: np.random.Generator) -> Total:
    """A draw of the sum of the reports of all rows."""
    gradient, unit = spec.units
    exact = np.zeros(spec.size)
    for start in range(0, len(rows[0]), CHUNK):
        part = slice(start, start + CHUNK)
        exact += statistics(rows[0][part], rows[1][part], spec).sum(axis=0)
    exact /= np.where(np.arange(spec.size) < len(spec.names), gradient, unit)
    noise = random.normal(0, spec.lattice.scale * np.sqrt(len(rows[0])), spec.size)
    return Total(spec.hash, np.rint(exact + noise).astype(np.int64), len(rows[0]))


def fits(
    data: pd.DataFrame, rows: Rows, eps: float, family: str, seed: int, random: np.random.Generator, alone: bool
) -> Iterator[tuple[str, np.ndarray]]:
    """Method and coefficients in model units; `alone`: of reports."""
    formula = f"{RESPONSES[family]} ~ {FORMULA}"
    spec = Spec(DOMAIN, formula, eps=eps, delta=DELTA, n=len(data), family=family)  # type: ignore[arg-type]
    yield "input", dp.local.fit(total_of(rows, spec, random), spec).scaled_params
    if alone:
        return
    yield "objective", by_norm(data, eps, family, formula, seed).scaled_params
    loss = dp.families.Gaussian(residual_cap=2.0) if family == "gaussian" else dp.families.Binomial()
    common = {"adjacency": "replace_one", "seed": seed}
    model = dp.GLM(rows[1], rows[0], family=loss, row_norm=1.0)
    yield "output", model.fit(eps, method="output", rows_guess=len(data), **common).scaled_params
    whole = {**common, "delta": DELTA, "domain": DOMAIN, "family": family, "inference": None}
    yield "objective, formula", dp.glm(formula, data, eps, **whole).scaled_params


def one_run(size: int, run: int, alone: bool = False) -> Iterator[tuple[str, int, float, str, int, float]]:
    """Family, persons, eps, method, run and error on the test persons; eps is 0 without privacy."""
    random = np.random.default_rng([SEED, size, run])
    everyone = census(size + size // 4, random)
    data = everyone.iloc[:size]
    for family, name in RESPONSES.items():
        formula = f"{name} ~ {FORMULA}"
        exog, endog, *_ = local_design(formula, DOMAIN, family).blocks(everyone, len(everyone))[0]
        rows, test = (exog[:size], endog[:size]), (exog[size:], endog[size:])
        best, _ = non_private(data, family, formula)
        yield family, size, 0.0, "none", run, score(best, *test, family)
        for eps in BUDGETS:
            for method, params in fits(data, rows, eps, family, run, random, alone):
                yield family, size, eps, method, run, score(params, *test, family)


def results(runs: int, sizes: tuple[int, ...] = SIZES, alone: bool = False) -> pd.DataFrame:
    """All runs, one line each."""
    lines = []
    for size in sizes:
        for run in range(max(1, round(runs * (AGAIN if alone else FEWER).get(size, 1.0)))):
            lines += list(one_run(size, run, alone))
    return pd.DataFrame(lines, columns=["family", "n", "eps", "method", "run", "error"])


def read() -> pd.DataFrame:
    """What a run of this script wrote: mean error, excess over no privacy with its standard error, number of runs."""
    return pd.read_csv(RESULTS)


def summarised(found: pd.DataFrame) -> pd.DataFrame:
    """Means over the runs; `above` is the mean excess over the fit without privacy to the same rows."""
    none = found[found["method"] == "none"].set_index(["family", "n", "run"])["error"]
    found = found.join(none.rename("none"), on=["family", "n", "run"])
    found["above"] = found["error"] - found["none"]
    grouped = found.groupby(["family", "n", "eps", "method"])
    table = grouped[["error", "above"]].mean()
    table["above_se"] = grouped["above"].sem()
    table["runs"] = grouped.size()
    return table.reset_index()


def renewed(stored: pd.DataFrame, found: pd.DataFrame) -> pd.DataFrame:
    """The stored table with the lines of reports from another one."""
    key = ["family", "n", "eps", "method"]
    base = stored[stored["method"] == "none"].set_index(["family", "n"])["error"]
    lines = found[found["method"] == "input"].join(base.rename("base"), on=["family", "n"])
    lines = lines.assign(error=lines["base"] + lines["above"]).drop(columns="base")
    return stored[key].merge(pd.concat([stored[stored["method"] != "input"], lines]), on=key, how="left")


LABELS = {
    "none": "no privacy",
    "input": "input (dp.local)",
    "objective": "objective, by norm",
    "output": "output, by norm",
    "objective, formula": "objective, dp.glm",
}
MEASURES = {"gaussian": "RMSE, halves of the range", "binomial": "share classified right"}


def draw(family: str, eps: float, ax: Axes) -> None:
    """One panel of Figure 1 (gaussian) or 2 (binomial): the mean over the runs against the number of reports."""
    found = read()
    found = found[(found["family"] == family) & found["eps"].isin([0.0, eps])]
    for number, (method, label) in enumerate(LABELS.items()):
        line = found[found["method"] == method].sort_values("n")
        value = line["error"] if family == "gaussian" else 1 - line["error"]
        color, marker = style.SERIES[number], style.MARKERS[number]
        ax.plot(line["n"], value, label=label, color=color, marker=marker, markersize=4, linewidth=1.6)
    ax.set_xscale("log", base=2)
    style.name_axes(ax, "persons", MEASURES[family])
    ax.set_title(f"eps = {eps:g}")


def main() -> None:
    if sys.argv[1:2] == ["input"]:
        table = renewed(read(), summarised(results(100, alone=True)))
    else:
        table = summarised(results(int(sys.argv[1]) if len(sys.argv) > 1 else 100))
    RESULTS.parent.mkdir(exist_ok=True)
    table.to_csv(RESULTS, index=False, float_format="%.5g")
    print(table.to_string(index=False))


if __name__ == "__main__":
    main()
