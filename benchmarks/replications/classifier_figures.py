"""Chaudhuri et al. (2011), Table 2 and Figures 2 to 5: the algorithms as printed beside our calibrations.

``python -m benchmarks.replications.classifier_figures [table] [tradeoff] [learning]`` writes one CSV a study into
benchmarks/replications/classifier_results, from which vignettes/classifiers draws. Adult is the real one, with the
paper's coding. KDDCup99 could not be had: `benchmarks.replications.connections` makes up a stand-in of the same shape,
so that what is printed of it can be compared in kind and not digit by digit. The paper has ten folds and 50 runs, here
there are `SPLITS` and a few runs, as the column `runs` says. A row becomes another one (replace_one).
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pandas as pd
from matplotlib.axes import Axes

import dpstats as dp
from benchmarks.prediction.adult import adult_arrays
from benchmarks.replications.classifiers import LOSSES, Rows, errors, gamma_noise, minimum, printed_objective
from benchmarks.replications.connections import connections
from dpstats.families import Family
from dpstats.plots import style
from dpstats.privacy.randomness import random_source
from dpstats.privacy.selection import STEPS, PermuteAndFlip

RESULTS = Path(__file__).parent / "classifier_results"
SPLITS = 4
RUNS = 10
CONNECTIONS = 70_000
EXPONENTS = (-7.0, -5.0, -3.5, -3.0, -2.5, -2.0, -1.5)
"""log10 of Lambda. The paper's Table 2 has -9 too, where nothing differs from -7."""

PRINTED = {
    "logistic": {
        "not private": (0.0016, 0.0021, 0.0038, 0.0037, 0.0037, 0.0325, 0.0594),
        "output": (0.5245, 0.5093, 0.3518, 0.1114, 0.0359, 0.0304, 0.0678),
        "objective": (0.2084, 0.2084, 0.0196, 0.0118, 0.0113, 0.0285, 0.0591),
    },
    "Huber SVM": {
        "not private": (0.0013, 0.0013, 0.0029, 0.0051, 0.0056, 0.0061, 0.0163),
        "output": (0.5245, 0.5229, 0.4611, 0.3353, 0.0590, 0.0092, 0.0179),
        "objective": (0.0191, 0.0191, 0.1827, 0.0123, 0.0066, 0.0064, 0.0157),
    },
}
"""Table 2 of the paper, of KDDCup99 itself."""

BUDGETS = (0.05, 0.1, 0.2, 0.4)
BEST = {"adult": {"not private": -7.0, "output": -2.0, "objective": -2.5}}
"""Of Table 1, for both losses; the stand-in's are looked up in its own table."""

SIZES = (60_000, 90_000, 120_000)
SMALL = (0.05, 0.01)
CANDIDATES = (-3.5, -3.0, -2.5, -2.0, -1.5)
VALIDATION = 25_000

Line = tuple[str, str, str, float, float, int, float]
COLUMNS = ["data", "loss", "method", "eps", "exponent", "n", "error"]


def wrong(theta: np.ndarray, rows: Rows) -> float:
    """The share of mistakes."""
    return float(np.mean((rows[0] @ theta > 0) != rows[1]))


def halves(data: str, seed: int) -> tuple[Rows, Rows]:
    """Nine tenths for training and the rest for testing."""
    random = np.random.default_rng(seed)
    if data == "connections":
        exog, endog = connections(CONNECTIONS, random)
    else:
        endog, exog = adult_arrays()
    order, cut = random.permutation(len(endog)), len(endog) * 9 // 10
    return (exog[order[:cut]], endog[order[:cut]]), (exog[order[cut:]], endog[order[cut:]])


def table() -> Iterator[Line]:
    """Table 2: error against Lambda on the stand-in, eps = .1."""
    for seed in range(SPLITS):
        training, test = halves("connections", seed)
        for name, family in LOSSES.items():
            for loss, method, exponent, error in errors(name, family, training, test, seed, EXPONENTS):
                yield "connections", loss, method, 0.1, exponent, len(training[1]), error


def best(loss: str, method: str) -> float:
    """The exponent of the least error on the stand-in at eps = .1, from the stored table."""
    found = read("table")
    found = found[(found["loss"] == loss) & (found["method"] == method)]
    return float(found.loc[found["error"].idxmin(), "exponent"])


def tradeoff() -> Iterator[Line]:
    """Figures 2 and 3: error against eps, at the curvature that is best at .1, and at our default."""
    for data in ("adult", "connections"):
        for seed in range(SPLITS):
            training, test = halves(data, seed)
            for name, family in LOSSES.items():
                chosen = BEST.get(data) or {method: best(name, method) for method in PRINTED[name]}
                for method, eps, exponent, error in by_budget(family, training, test, chosen, seed):
                    yield data, name, method, eps, exponent, len(training[1]), error


def by_budget(
    family: Family, training: Rows, test: Rows, chosen: dict[str, float], seed: int
) -> Iterator[tuple[str, float, float, float]]:
    """Method, eps, exponent (NaN for our own choice) and error, run by run; eps is 0 without privacy."""
    exog, endog = training
    size, rows, random = exog.shape[1], len(endog), np.random.default_rng(seed)
    curvature = {method: rows * 10.0**exponent for method, exponent in chosen.items()}
    plain = minimum(family, training, curvature["not private"], np.zeros(size))
    yield "not private", 0.0, chosen["not private"], wrong(plain, test)
    optimum = minimum(family, training, curvature["output"], np.zeros(size))
    model = dp.GLM(endog, exog, family=family, row_norm=1.0)
    for eps in BUDGETS:
        ours = model.plan(eps, method="output", adjacency="replace_one", curvature=curvature["output"]).objective
        for _ in range(RUNS):
            noise = gamma_noise(size, 2 / (curvature["output"] * eps), random)
            yield "output", eps, chosen["output"], wrong(optimum + noise, test)
            yield "output, ours", eps, chosen["output"], wrong(optimum + ours.sample(random), test)
        shared = {"method": "objective", "adjacency": "replace_one", "inference": None}
        for _ in range(2):
            printed = printed_objective(family, training, curvature["objective"], random, eps)
            yield "objective", eps, chosen["objective"], wrong(printed, test)
            fit = model.fit(eps, **shared, curvature=curvature["objective"])
            yield "objective, ours", eps, chosen["objective"], wrong(fit.scaled_params, test)
            yield "objective, default", eps, np.nan, wrong(model.fit(eps, **shared).scaled_params, test)


def learning() -> Iterator[Line]:
    """Figures 4 and 5: error against the number of rows a candidate has, tuned by Algorithm 4, on the stand-in."""
    for seed in range(SPLITS):
        random = np.random.default_rng([11, seed])
        validation, test = connections(VALIDATION, random), connections(VALIDATION, random)
        for rows in SIZES:
            parts = [connections(rows, random) for _ in CANDIDATES]
            for name, family in LOSSES.items():
                for method, eps, error in tuned(family, parts, validation, test, random):
                    yield "connections", name, method, eps, np.nan, rows, error


def tuned(
    family: Family, parts: list[Rows], validation: Rows, test: Rows, random: np.random.Generator
) -> Iterator[tuple[str, float, float]]:
    """Method, eps and error, run by run."""
    size = parts[0][0].shape[1]
    curvatures = [len(parts[0][1]) * 10.0**exponent for exponent in CANDIDATES]
    optima = [minimum(family, part, m, np.zeros(size)) for part, m in zip(parts, curvatures, strict=True)]
    yield "not private", 0.0, wrong(min(optima, key=lambda theta: wrong(theta, validation)), test)
    for eps in SMALL:
        noisy: dict[str, Callable[[], list[np.ndarray]]] = {
            "output": lambda eps=eps: [
                theta + gamma_noise(size, 2 / (m * eps), random) for theta, m in zip(optima, curvatures, strict=True)
            ],
            "objective": lambda eps=eps: [
                printed_objective(family, part, m, random, eps) for part, m in zip(parts, curvatures, strict=True)
            ],
            "objective, ours": lambda eps=eps: [
                _ours(family, part, m, eps) for part, m in zip(parts, curvatures, strict=True)
            ],
        }
        for method, fits in noisy.items():
            for _ in range(RUNS if method == "output" else 1):
                found = fits()
                mistakes = np.array([round(wrong(theta, validation) * VALIDATION) for theta in found])
                # The choice is random too, and costs nothing to draw again.
                for _ in range(RUNS):
                    place = _chosen(mistakes, eps, random, printed=not method.endswith("ours"))
                    yield method, eps, wrong(found[place], test)


def _ours(family: Family, part: Rows, curvature: float, eps: float) -> np.ndarray:
    """Our fit with that curvature, or with as much more as a guarantee needs."""
    model = dp.GLM(part[1], part[0], family=family, row_norm=1.0)
    # As Algorithm 2 does where its budget would be used up.
    enough = max(curvature, family.curvature_bound / np.expm1(eps / 4))
    fit = model.fit(eps, method="objective", adjacency="replace_one", curvature=enough, inference=None)
    return np.asarray(fit.scaled_params)


def _chosen(mistakes: np.ndarray, eps: float, random: np.random.Generator, *, printed: bool) -> int:
    """By the exponential mechanism as printed, or by `dpstats.privacy.selection`."""
    if not printed:
        steps = (mistakes * STEPS).astype(np.int64)
        return PermuteAndFlip(len(mistakes), eps, "replace_one").choose(steps, random_source(None))
    weights = np.exp(-eps * (mistakes - mistakes.min()) / 2)
    return int(random.choice(len(mistakes), p=weights / weights.sum()))


def read(study: str) -> pd.DataFrame:
    """What a run of this script wrote: mean error, its standard error over splits and runs, and their number."""
    return pd.read_csv(RESULTS / f"{study}.csv")


def beside_printed() -> pd.DataFrame:
    """Table 2: what is printed of KDDCup99, and the algorithms on the stand-in, Lambda across."""
    found = read("table").fillna({"exponent": 0.0})
    run = found.pivot_table(index=["loss", "method"], columns="exponent", values="error")
    printed = {
        (loss, f"{method}, printed"): dict(zip(EXPONENTS, values, strict=True))
        for loss, lines in PRINTED.items()
        for method, values in lines.items()
    }
    return pd.concat([run, pd.DataFrame(printed).T]).sort_index().rename(columns={0.0: "default"})


METHODS = ("not private", "objective", "objective, ours", "objective, default", "output", "output, ours")


def draw(study: str, across: str, ax: Axes, **chosen: float | str) -> None:
    """Error of each method against the column `across` of a study, for the chosen values of other columns."""
    found = read(study)
    for column, value in chosen.items():
        # What is not private has no eps, and is the same at each.
        found = found[(found[column] == value) | ((column == "eps") & (found["method"] == "not private"))]
    for number, method in enumerate(METHODS):
        line = found[found["method"] == method].sort_values(across)
        color, marker = style.SERIES[number], style.MARKERS[number]
        if method == "not private" and across == "eps":
            ax.axhline(float(line["error"].iloc[0]), color=color, linewidth=1.6, label=method)
        elif len(line):
            ax.plot(line[across], line["error"], label=method, color=color, marker=marker, markersize=4, linewidth=1.6)
    style.name_axes(ax, {"eps": "eps", "n": "rows of a candidate"}[across], "share of mistakes")
    ax.set_title(", ".join(f"eps = {value:g}" if name == "eps" else str(value) for name, value in chosen.items()))


def write(study: str, lines: Iterator[Line]) -> pd.DataFrame:
    """Means over the runs, stored."""
    found = pd.DataFrame(lines, columns=COLUMNS)
    grouped = found.groupby(COLUMNS[:-1], dropna=False)["error"]
    means = pd.DataFrame({"error": grouped.mean(), "se": grouped.sem(), "runs": grouped.size()}).reset_index()
    RESULTS.mkdir(exist_ok=True)
    means.to_csv(RESULTS / f"{study}.csv", index=False, float_format="%.5g")
    return means


STUDIES: dict[str, Callable[[], Iterator[Line]]] = {"table": table, "tradeoff": tradeoff, "learning": learning}


def main() -> None:
    for study in sys.argv[1:] or STUDIES:
        print(write(study, STUDIES[study]()).to_string(index=False))


if __name__ == "__main__":
    main()
