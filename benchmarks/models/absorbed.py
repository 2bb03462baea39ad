"""One absorbed factor beside least squares within groups on the rows themselves.

``python -m benchmarks.models.absorbed [draws]``: widths and coverage of 95 % intervals, 10,000 groups of ten rows and
others, pure eps. ``python -m benchmarks.models.absorbed wages`` is a table of wages that was published (linearmodels).
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
        fit = dp.ols("y ~ x1 + x2 + x3 | firm", frame, eps, domain=domain, unit=unit)
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


def wages(draws: int) -> pd.DataFrame:
    """Log wages of 545 men in eight years (Vella and Verbeek 1998): union, marriage, experience squared, by man."""
    from linearmodels.datasets import wage_panel

    frame = wage_panel.load()
    domain = {"lwage": (-1, 4), "expersq": (0, 325), "married": (0, 1), "union": (0, 1), "year": list(range(1980, 1988))}
    formula = "lwage ~ expersq + union + married + C(year) | nr"
    found = {"without noise": dp.ols(formula, frame, 1e5, domain=domain, seed=1).uncertainty()}
    for eps in (1.0, 3.0, 10.0):
        fits = [dp.ols(formula, frame, eps, domain=domain, seed=seed).uncertainty() for seed in range(draws)]
        found[f"eps {eps:g}, median"] = pd.concat(fits).groupby(level=0, sort=False).median()
    parts = {name: part.loc[["expersq", "union", "married"], ["coef", "std_error"]] for name, part in found.items()}
    return pd.concat(parts, axis=1).round(4)


def main(arguments: list[str]) -> None:
    """Print the tables."""
    pd.set_option("display.width", 160, "display.max_columns", 20)
    if arguments[:1] == ["wages"]:
        print(wages(20).T.to_string())
        return
    draws = int(arguments[0]) if arguments else 100
    for one in CELLS:
        print(cell(*one, draws), flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
