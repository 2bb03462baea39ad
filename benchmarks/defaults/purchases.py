"""What buying the response's centre and spread, or greatest count and mean, is worth.

``python -m benchmarks.defaults.purchases``.

Simulated formulas, and two data sets that come with known ranges (CPS1988, RAND), with the declared range of the
response as it is and ten times as wide. The prices in `dpstats.privacy.ranges` and the cap of a bought interval were
chosen here.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

import dpstats as dp
from benchmarks.prediction import cps1988, randhie

BUDGETS = (0.1, 0.3, 1.0)
REPEATS = 10
WIDER = 10.0

Random = np.random.Generator


class Sample(NamedTuple):
    """A formula with its rows and what is declared; the response is called y."""

    formula: str
    frame: pd.DataFrame
    domain: Mapping[str, Any]
    family: str


def explaining(rows: int, columns: int, random: Random) -> tuple[pd.DataFrame, dict[str, Any], np.ndarray]:
    """Numeric columns and factors with a linear predictor of mean 0 and standard deviation 1."""
    frame, domain, eta = {}, {}, np.zeros(rows)
    for name in (f"v{j}" for j in range(columns)):
        if random.random() < 0.6:
            frame[name] = np.clip(random.normal(random.uniform(0.2, 0.6), random.uniform(0.1, 0.25), rows), 0, 1)
            domain[name] = (0, 1)
            eta += 3 * random.normal() * frame[name]
        else:
            levels = int(random.integers(2, 7))
            frame[name] = random.choice(levels, rows, p=random.dirichlet(np.full(levels, 1.5)))
            domain[name] = list(range(levels))
            eta += 0.7 * random.normal(size=levels)[frame[name]]
    return pd.DataFrame(frame), domain, (eta - eta.mean()) / eta.std()


ERRORS: dict[str, Callable[[int, Random], np.ndarray]] = {
    "bell": lambda rows, random: random.normal(size=rows),
    "heavy": lambda rows, random: random.standard_t(3, rows) / np.sqrt(3),
    "skewed": lambda rows, random: random.exponential(size=rows) - 1,
    "two humps": lambda rows, random: random.choice([-1, 1], rows) + 0.2 * random.normal(size=rows),
}


def continuous(errors: str, share: float, columns: int, rows: int) -> Callable[[Random], Sample]:
    """A response of which the predictor explains a share; its declared range leaves out one row in a thousand."""

    def draw(random: Random) -> Sample:
        frame, domain, eta = explaining(rows, columns, random)
        frame["y"] = np.sqrt(share) * eta + np.sqrt(1 - share) * ERRORS[errors](rows, random)
        low, high = np.quantile(frame["y"], (0.0005, 0.9995))
        return Sample(f"y ~ {' + '.join(domain)}", frame, {**domain, "y": (low, high)}, "gaussian")

    return draw


def counts(mean: float, dispersion: float, columns: int, rows: int) -> Callable[[Random], Sample]:
    """Counts, overdispersed by a gamma factor of that variance."""

    def draw(random: Random) -> Sample:
        frame, domain, eta = explaining(rows, columns, random)
        means = mean * np.exp(0.6 * eta - 0.18)
        if dispersion > 0:
            means *= random.gamma(1 / dispersion, dispersion, rows)
        frame["y"] = random.poisson(means)
        most = float(np.ceil(np.quantile(frame["y"], 0.9995))) + 1
        return Sample(f"y ~ {' + '.join(domain)}", frame, {**domain, "y": (0, most)}, "poisson")

    return draw


def wages(rows: int) -> Callable[[Random], Sample]:
    """Log weekly wages of CPS1988, a sample of its rows."""

    def draw(random: Random) -> Sample:
        frame = cps1988.load().sample(rows, random_state=int(random.integers(2**31)))
        frame["y"] = np.log(frame["wage"])
        domain = {name: cps1988.DOMAIN[name] for name in ("education", "experience", "ethnicity", "smsa", "parttime")}
        formula = "y ~ education + experience + I(experience**2) + ethnicity + smsa + parttime"
        return Sample(formula, frame, {**domain, "y": (np.log(50), np.log(20_000))}, "gaussian")

    return draw


def rand(rows: int) -> Callable[[Random], Sample]:
    """Visits to a doctor of RAND, a sample of its rows."""

    def draw(random: Random) -> Sample:
        loaded = dp.datasets.load_randhie()
        frame = loaded.data.rename(columns={"mdvis": "y"}).sample(rows, random_state=int(random.integers(2**31)))
        domain = {name: fact for name, fact in loaded.domain.items() if name != "mdvis"}
        return Sample(randhie.FORMULA.replace("mdvis", "y"), frame, {**domain, "y": (0, 52)}, "poisson")

    return draw


SAMPLES: dict[str, Callable[[Random], Sample]] = {
    **{f"{name} errors, 5,000 rows": continuous(name, 0.5, 10, 5_000) for name in ERRORS},
    "bell errors, 20,000 rows": continuous("bell", 0.5, 20, 20_000),
    "CPS1988, 5,000 rows": wages(5_000),
    "CPS1988, 20,000 rows": wages(20_000),
    "counts of mean 0.3, 5,000 rows": counts(0.3, 1.0, 12, 5_000),
    "counts of mean 3, 5,000 rows": counts(3.0, 1.0, 10, 5_000),
    "counts of mean 20, 5,000 rows": counts(20.0, 0.5, 10, 5_000),
    "counts of mean 1, 20,000 rows": counts(1.0, 1.0, 20, 20_000),
    "RAND, 8,000 rows": rand(8_000),
}


def widened(domain: Mapping[str, Any], family: str, factor: float) -> dict[str, Any]:
    """The domain with the range of y stretched, off its middle, or upwards for counts."""
    low, high = domain["y"]
    if family == "poisson":
        return {**domain, "y": (low, high * factor)}
    more = (high - low) / 2 * (factor - 1)
    return {**domain, "y": (low - 0.7 * more, high + 1.3 * more)}


def explained(sample: Sample, response: str, factor: float, eps: float, random: Random) -> float:
    """Held-out share of the variance, or of the deviance, that one fit explains."""
    order = random.permutation(len(sample.frame))
    cut = int(0.8 * len(order))
    training, test = sample.frame.iloc[order[:cut]], sample.frame.iloc[order[cut:]]
    domain = widened(sample.domain, sample.family, factor)
    settings: dict[str, Any] = {"response": response, "inference": None}  # predictions alone
    fit = dp.glm(sample.formula, training, eps, family=sample.family, domain=domain, **settings)
    endog, mean = test["y"].to_numpy(float), fit.predict(test).to_numpy()
    if sample.family == "gaussian":
        return float(1 - np.mean((endog - mean) ** 2) / np.var(endog))
    worst = randhie.deviance(endog, float(endog.mean()))
    return 1 - randhie.deviance(endog, np.maximum(mean, 1e-9)) / worst


def line(name: str, eps: float, repeats: int = REPEATS) -> dict[str, Any]:
    """Means over samples: declared and bought, in the range as it is and in one ten times as wide."""
    found: dict[str, Any] = {"data": name, "eps": eps}
    for response in ("declared", "bought"):
        for factor in (1.0, WIDER):
            values = []
            for seed in range(repeats):
                random = np.random.default_rng([seed, 2026])
                values.append(explained(SAMPLES[name](random), response, factor, eps, random))
            found[f"{response}, x {factor:g}"] = float(np.mean(values))
    return found


def main() -> None:
    repeats = int(sys.argv[1]) if len(sys.argv) > 1 else REPEATS
    for name in sys.argv[2:] or SAMPLES:
        for eps in BUDGETS:
            cells = line(name, eps, repeats).values()
            print(*(f"{cell:.3f}" if isinstance(cell, float) else cell for cell in cells), sep=" | ", flush=True)


if __name__ == "__main__":
    main()
