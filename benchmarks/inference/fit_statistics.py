"""Coverage of fit statistics and of average marginal effects, where the truth is known.

`python -m benchmarks.inference.fit_statistics [RUNS]`: a line a cell, then a line a cell of averages by groups. Rows
are drawn anew in every run; the truth is that of the population they come from. `ratio` is the median of an effect's
relative error over its coefficient's.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from scipy import special

import dpstats as dp

LARGE = 4_000_000
DOMAIN = {"x": (-1, 1), "z": (-1, 1), "g": ["a", "b", "c"]}


class Population(NamedTuple):
    """A model of rows whose covariates are drawn by `covariates`."""

    family: Any
    response: tuple[float, float]
    draw: Callable[[np.random.Generator, np.ndarray], np.ndarray]
    mean: Callable[[np.ndarray], np.ndarray]
    slope: Callable[[np.ndarray], np.ndarray]
    effects: tuple[float, float, float, float, float]  # intercept, b, c, x, z
    inference: Any = True


def covariates(rows: int, random: np.random.Generator) -> pd.DataFrame:
    x = random.uniform(-1, 1, rows)
    z = np.clip(0.3 * random.standard_normal(rows) + 0.2 * x, -1, 1)
    return pd.DataFrame({"x": x, "z": z, "g": random.choice(list("abc"), rows, p=[0.5, 0.35, 0.15])})


def predictor(frame: pd.DataFrame, effects: tuple[float, ...], level: str | None = None) -> np.ndarray:
    base, b, c, x, z = effects
    own = frame["g"].to_numpy() if level is None else np.full(len(frame), level)
    return base + b * (own == "b") + c * (own == "c") + x * frame["x"].to_numpy() + z * frame["z"].to_numpy()


def bernoulli(random: np.random.Generator, eta: np.ndarray) -> np.ndarray:
    return (random.random(len(eta)) < special.expit(eta)).astype(int)


def counts(random: np.random.Generator, eta: np.ndarray) -> np.ndarray:
    return random.poisson(np.exp(eta))


def heavy(random: np.random.Generator, eta: np.ndarray) -> np.ndarray:
    return eta + random.standard_t(8, len(eta)) * np.sqrt(0.75)


POPULATIONS = {
    "logit": Population(
        "binomial",
        (0, 1),
        bernoulli,
        special.expit,
        lambda e: special.expit(e) * special.expit(-e),
        (-0.5, 0.7, -0.4, 1.2, -1.0),
    ),
    "logit, free": Population(
        "binomial",
        (0, 1),
        bernoulli,
        special.expit,
        lambda e: special.expit(e) * special.expit(-e),
        (-0.5, 0.7, -0.4, 1.2, -1.0),
        "auto",
    ),
    "rare": Population(
        "binomial",
        (0, 1),
        bernoulli,
        special.expit,
        lambda e: special.expit(e) * special.expit(-e),
        (-2.8, 1.0, -0.4, 1.2, 1.0),
    ),
    "normal": Population(
        "gaussian",
        (-6, 6),
        lambda r, e: e + r.standard_normal(len(e)),
        lambda e: e,
        np.ones_like,
        (-0.5, 0.7, -0.4, 1.2, -1.0),
    ),
    "heavy": Population("gaussian", (-8, 8), heavy, lambda e: e, np.ones_like, (0.5, 0.3, -0.4, 0.6, 0.3)),
    "counts": Population("poisson", (0, 20), counts, np.exp, np.exp, (-0.5, 0.7, -0.4, 1.2, -1.0)),
}
CELLS = [
    *(("logit", n, eps) for n, eps in ((5_000, 1.0), (10_000, 1.0), (50_000, 0.5))),
    *(("logit, free", n, eps) for n, eps in ((10_000, 1.0), (50_000, 1.0))),
    ("rare", 30_000, 1.0),
    *(("normal", n, eps) for n, eps in ((5_000, 1.0), (20_000, 1.0), (50_000, 2.0))),
    ("heavy", 20_000, 1.0),
    *(("counts", n, eps) for n, eps in ((10_000, 1.0), (30_000, 1.0), (30_000, 3.0))),
]


class Truth(NamedTuple):
    explained: float
    effects: pd.Series
    changes: pd.Series
    ratios: pd.Series


def deviance(family: str, y: np.ndarray, mean: np.ndarray | float) -> float:
    if family == "gaussian":
        return float(np.mean((y - mean) ** 2))
    if family == "binomial":
        return float(-2 * np.mean(special.xlogy(y, mean) + special.xlog1py(1 - y, -np.asarray(mean))))
    return float(2 * np.mean(special.xlogy(y, y) - special.xlogy(y, mean) - (y - mean)))


def truth(population: Population) -> Truth:
    random = np.random.default_rng(99)
    frame = covariates(LARGE, random)
    eta = predictor(frame, population.effects)
    y = np.clip(population.draw(random, eta), *population.response)
    explained = 1 - deviance(population.family, y, population.mean(eta)) / deviance(population.family, y, np.mean(y))
    slope = float(np.mean(population.slope(eta)))
    _, b, c, x, z = population.effects
    means = {level: float(np.mean(population.mean(predictor(frame, population.effects, level)))) for level in "abc"}
    return Truth(
        explained,
        slope * pd.Series({"g[T.b]": b, "g[T.c]": c, "x": x, "z": z}),
        pd.Series({f"g[T.{level}]": means[level] - means["a"] for level in "bc"}),
        pd.Series({f"g[T.{level}]": means[level] / means["a"] for level in "bc"}),
    )


def covers(low: Any, high: Any, value: Any) -> Any:
    return (np.asarray(low) <= np.asarray(value)) & (np.asarray(value) <= np.asarray(high))


def cell(name: str, n: int, eps: float, runs: int) -> pd.Series:
    population = POPULATIONS[name]
    known = truth(population)
    found: list[dict[str, Any]] = []
    for run in range(runs):
        random = np.random.default_rng([run, n, int(1000 * eps)])
        frame = covariates(n, random)
        frame["y"] = population.draw(random, predictor(frame, population.effects))
        fit = dp.glm(
            "y ~ x + z + g", frame, eps, family=population.family, domain={**DOMAIN, "y": population.response},
            inference=population.inference, fitstats="auto", method="napp", seed=int(random.integers(2**40)),
        )  # fmt: skip
        if not fit.has_errors or fit.fit_sums is None:
            continue
        figures = fit.fitstats
        whole = figures.loc["r_squared" if population.family == "gaussian" else "deviance_explained"]
        effects = fit.get_margeff().summary_frame().loc[known.effects.index]
        dummies = fit.get_margeff(dummy=True)
        changes, coefs = dummies.summary_frame().loc[known.changes.index], fit.uncertainty().loc[known.effects.index]
        if population.family == "gaussian":
            ratios = np.nan
        else:
            own = dummies.ratios.loc[known.ratios.index]
            ratios = covers(own["low"], own["high"], known.ratios).mean()
        bounded = np.isfinite(effects["Std. Err."])
        relative = (effects["Std. Err."] / effects["dy/dx"].abs()) / (coefs["std_error"] / coefs["coef"].abs())
        found.append({
            "rows": covers(figures.loc["nobs", "low"], figures.loc["nobs", "high"], n),
            "fit": covers(whole["low"], whole["high"], known.explained),
            "fit error": (whole["value"] - known.explained) / whole["std_error"],
            "fit sd": whole["std_error"] if np.isfinite(whole["std_error"]) else np.nan,
            "margeff": covers(effects["Conf. Int. Low"], effects["Conf. Int. Hi."], known.effects)[bounded].mean(),
            "bounded": bounded.mean(),
            "changes": covers(changes["Conf. Int. Low"], changes["Conf. Int. Hi."], known.changes).mean(),
            "ratios": ratios,
            "ratio": relative[bounded].median(),
            "most": relative[bounded].max(),
        })  # fmt: skip
    table = pd.DataFrame(found).astype(float)
    return pd.concat([pd.Series({"runs": len(table), "truth": known.explained}), table.mean()])


STEP = 0.5
BY_GROUPS = [
    ("logit", 10_000, 1.0),
    ("logit", 50_000, 0.5),
    ("rare", 30_000, 1.0),
    ("normal", 20_000, 1.0),
    ("counts", 30_000, 1.0),
]


class Averages(NamedTuple):
    overall: np.ndarray  # changes to b and c and by a step of x
    changes: np.ndarray  # the same in each group, shape (9,)
    ratios: np.ndarray
    means: np.ndarray  # predictions in each group
    adjusted: np.ndarray  # were all rows of each level


def true_averages(population: Population) -> Averages:
    frame = covariates(LARGE, np.random.default_rng(99))
    effects, mean = population.effects, population.mean
    base, raised = mean(predictor(frame, effects)), mean(predictor(frame.assign(x=frame["x"] + STEP), effects))
    at = {level: mean(predictor(frame, effects, level)) for level in "abc"}
    pairs = [(at["b"], at["a"]), (at["c"], at["a"]), (raised, base)]
    inside = [(frame["g"] == level).to_numpy() for level in "abc"]
    return Averages(
        np.array([np.mean(after - before) for after, before in pairs]),
        np.array([np.mean((after - before)[rows]) for after, before in pairs for rows in inside]),
        np.array([np.mean(after) / np.mean(before) for after, before in pairs]),
        np.array([base[rows].mean() for rows in inside]),
        np.array([at[level].mean() for level in "abc"]),
    )


def groups_cell(name: str, n: int, eps: float, runs: int) -> pd.Series:
    """Coverage of averages by groups, and of changes of named variables."""
    population, known = POPULATIONS[name], true_averages(POPULATIONS[name])
    linear = population.family == "gaussian"
    found: list[dict[str, float]] = []
    for run in range(runs):
        random = np.random.default_rng([run, n, int(1000 * eps), 1])
        frame = covariates(n, random)
        frame["y"] = population.draw(random, predictor(frame, population.effects))
        fit = dp.glm(
            "y ~ x + z + g", frame, eps, family=population.family, domain={**DOMAIN, "y": population.response},
            inference=True, fitstats_variables={"g": None, "x": STEP}, fitstats_by="g",
            seed=int(random.integers(2**40)),
        )  # fmt: skip
        tables = {
            "overall": fit.comparisons(),
            "changes": fit.comparisons(by="g"),
            "means": fit.predictions(by="g"),
        }
        if not linear:
            tables |= {"ratios": fit.comparisons(comparison="ratio"), "adjusted": fit.predictions("g")}
        line: dict[str, float] = {}
        for key, table in tables.items():
            shown = np.isfinite(table["std_error"].to_numpy())
            inside = covers(table["conf_low"], table["conf_high"], getattr(known, key))[shown]
            line |= {key: inside.mean() if shown.any() else np.nan, f"{key} shown": shown.mean()}
        line["s.e."] = tables["means"]["std_error"].replace(np.inf, np.nan).mean()
        found.append(line)
    return pd.concat([pd.Series({"runs": runs}), pd.DataFrame(found).mean()])


def main(runs: int = 400) -> None:
    """Print the table."""
    pd.set_option("display.width", 220)
    for name, n, eps in CELLS:
        line = cell(name, n, eps, runs)
        print(f"{name} n={n} eps={eps}: " + ", ".join(f"{key} {value:.4g}" for key, value in line.items()), flush=True)
    for name, n, eps in BY_GROUPS:
        line = groups_cell(name, n, eps, runs)
        print(f"by groups, {name} n={n} eps={eps}: " + ", ".join(f"{key} {one:.4g}" for key, one in line.items()))


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
