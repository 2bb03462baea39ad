"""Intervals beside a strong column whose information is no more than its noise, which fills little of its range.

``python -m benchmarks.inference.omitted [choosing|reporting|data] [fits] [cells]``. Columns m are correlated with a
column w, and have no effect. If w is dropped, what it may add to the others is allowed for; if noise happens to raise
its information, it is kept, and its effect is estimated too near zero (docs/proofs/inference, 4 and 5). Every rule sees
the same fits; the truth is the population's optimum.
"""

from __future__ import annotations

import sys
import zlib
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import cache
from typing import Any, NamedTuple
from unittest import mock

import numpy as np
import pandas as pd

import dpstats as dp
from benchmarks.defaults import reach
from benchmarks.inference.populations import Population
from dpstats.call import make_request
from dpstats.domain import Domain
from dpstats.families import get_family
from dpstats.inference import Estimates, Inference
from dpstats.models.sources import FormulaSource
from dpstats.solvers.newton import minimize
from dpstats.solvers.objective import PerturbedObjective

FITS = 200
SEED = 20_261_128
LEAST = 30
"""Intervals of a coefficient from which on its own coverage counts for the least one."""


class Design(NamedTuple):
    """A column w within (0, `top`), its effect a standard deviation of it, columns that go with it, and the call."""

    family: str
    law: str
    top: float
    effect: float
    eps: float
    rows: int = 8_000
    correlation: float = 0.6
    beside: int = 4
    method: str | None = None

    @property
    def label(self) -> str:
        """The cell in a line."""
        way = self.family if self.method is None else self.method
        shown = f"{way}, {self.law} in (0, {self.top:g}), effect {self.effect:g}, eps {self.eps:g}"
        return shown + (f", n {self.rows}" if self.rows != 8_000 else "")


LAWS: dict[str, Callable[[np.random.Generator, int], np.ndarray]] = {
    "gamma": lambda random, count: 1.2 * random.gamma(2.0, 1.0, count),
    "lognormal": lambda random, count: random.lognormal(0.0, 0.8, count),
    "poisson": lambda random, count: random.poisson(1.5, count).astype(float),
    "rare": lambda random, count: (random.random(count) < 0.03).astype(float),
    "narrow": lambda random, count: random.uniform(2.0, 4.0, count),
}

CELLS: dict[str, list[Any]] = {
    "choosing": [
        *(
            Design(family, "gamma", top, effect, eps)
            for family in ("binomial", "gaussian", "poisson")
            for top, effect, eps in ((8, -1, 1), (12, 1, 1), (20, -1, 2), (20, -0.2, 2), (40, -0.2, 2), (40, -1, 2))
        ),
    ],
    "reporting": [
        *(
            Design(family, law, top, effect, eps, rows, correlation, beside)
            for family in ("binomial", "gaussian", "poisson")
            for law, top, effect, eps, rows, correlation, beside in (
                ("lognormal", 15, 0.5, 1, 10_000, 0.5, 3),
                ("lognormal", 25, 1, 2, 10_000, 0.5, 3),
                ("poisson", 12, -1, 1, 6_000, 0.6, 4),
                ("narrow", 10, 0.7, 1, 12_000, 0.7, 2),
                ("rare", 1, 0.3, 1, 10_000, 0.3, 4),
            )
        ),
        Design("gaussian", "lognormal", 25, 0.5, 0.5, method="statistics"),
    ],
    "data": [
        *(reach.Cell("adult 14", eps, 10_000) for eps in (0.3, 1.0, 3.0)),
        reach.Cell("adult 27", 1.0, 30_000),
        reach.Cell("HMDA", 3.0),
        *(reach.Cell("DoctorVisits", eps) for eps in (1.0, 3.0)),
        reach.Cell("visits", 1.0, 10_000),
        reach.Cell("Computers", 3.0, cap=4.0),
        reach.Cell("Computers", 1.0, statistics=True),
        reach.Cell("CPS1988", 0.5, statistics=True),
        reach.Cell("CPSSW8", 0.1, statistics=True),
    ],
}


@cache
def simulated(design: Design, count: int = 100_000) -> Population:
    """The population of a design: w, what goes with it, three numbers and a factor."""
    random = np.random.default_rng([SEED, zlib.crc32(design.label.encode())])
    cells: dict[str, Any] = {"w": np.clip(LAWS[design.law](random, count), 0, design.top)}
    declared: dict[str, object] = {"w": (0, design.top)}
    score = (cells["w"] - cells["w"].mean()) / cells["w"].std()
    for number in range(design.beside):
        own = np.sqrt(1 - design.correlation**2) * random.standard_normal(count)
        cells[f"m{number}"] = np.clip(0.3 * (design.correlation * score + own), -1, 1)
    cells |= {f"z{number}": random.uniform(-1, 1, count) for number in range(3)}
    declared |= dict.fromkeys(list(cells)[1:], (-1, 1))
    level = random.choice(4, count, p=[0.4, 0.3, 0.2, 0.1])
    cells["f"], declared["f"] = np.array(list("abcd"))[level], list("abcd")
    eta = design.effect * score + 0.5 * cells["z0"] - 0.4 * cells["z1"] + 0.3 * cells["z2"]
    eta += np.array([0, 0.4, -0.4, 0.3])[level]
    if design.family == "binomial":
        cells["y"], declared["y"] = (random.random(count) < 1 / (1 + np.exp(0.3 - eta))).astype(float), [0, 1]
    elif design.family == "poisson":
        cells["y"], declared["y"] = random.poisson(np.exp(0.6 * eta + 0.3)).clip(0, 20).astype(float), (0, 20)
    else:
        cells["y"] = 0.3 * (eta - eta.mean()) / eta.std() + 0.25 * random.standard_normal(count)
        declared["y"] = (-1.6, 1.6)
    formula = f"y ~ {' + '.join(name for name in cells if name != 'y')}"
    return Population(pd.DataFrame(cells), Domain(declared), formula, design.family)


def settings(design: Design) -> dict[str, Any]:
    """What the calls of a design have beside formula, rows, eps and Domain."""
    chosen: dict[str, Any] = {"inference": True} if design.method is None else {"method": design.method}
    return {"family": get_family(design.family), **chosen}


def optimum(design: Design) -> np.ndarray:
    """The population's own coefficients in the user's units."""
    whole = simulated(design)
    request = make_request(eps=design.eps, **settings(design))
    plan: Any = FormulaSource(whole.formula, None, whole.domain).plan(request)
    blocks = [(exog, plan.family.clip_response(endog)) for exog, endog, *_ in plan.design.blocks(whole.frame)]
    size = len(plan.design.names)
    objective = PerturbedObjective(plan.family, blocks, np.full(size, 1e-8), np.zeros(size), 1.0)
    matrix, shift = plan.design.back_transform()
    return np.asarray(matrix @ minimize(objective, 1e-7) + shift, dtype=np.float64)


def inferences(design: Design, fits: int) -> Iterator[Inference]:
    """The errors of seeded fits of drawn rows."""
    whole = simulated(design)
    for number in range(fits):
        random = np.random.default_rng([SEED, zlib.crc32(design.label.encode()), number])
        drawn = whole.frame.iloc[random.integers(0, len(whole.frame), design.rows)].reset_index(drop=True)
        seed: dict[str, Any] = {"seed": int(random.integers(2**60)), "allow_uncertified": True}
        fit: Any = dp.glm(whole.formula, drawn, design.eps, domain=whole.domain, **seed, **settings(design))
        yield fit._inference


RULES = {"without": 0.0, "half": 0.5, "as shipped": 1.0}
"""Multiples of the deviations that are allowed for."""


def scaled(found: Inference, multiple: float) -> np.ndarray:
    """Intervals of the coefficients but the first with a multiple of what weak ones are allowed, shape (p - 1, 2)."""
    scores = multiple**2 * found.estimates.weak_scores
    with mock.patch.object(Estimates, "weak_scores", scores):
        return replace(found, estimates=replace(found.estimates)).conf_int()[1:]


def line(cell: Design | reach.Cell, fits: int) -> dict[str, Any]:
    """Shares that are shown, coverage of those without and with what is allowed, and how much wider the latter are."""
    if isinstance(cell, Design):
        truth, runs = optimum(cell)[1:], inferences(cell, fits)
    else:
        truth, runs = reach.optimum(cell)[1:], reach.inferences(cell, fits)
    found: dict[str, list[np.ndarray]] = {name: [] for name in RULES}
    for one in runs:
        for name, multiple in RULES.items():
            found[name].append(scaled(one, multiple))
    shown: dict[str, Any] = {"cell": cell.label}
    for name, intervals in found.items():
        low, high = np.moveaxis(np.array(intervals), -1, 0)
        bounded, covered = np.isfinite(high), (low <= truth) & (truth <= high)
        often = np.flatnonzero(bounded.sum(axis=0) >= LEAST)
        least = min((covered[bounded[:, at], at].mean() for at in often), default=np.nan)
        each = f"{covered[bounded].mean():.3f}, {least:.2f}" if bounded.any() else "-"
        shown[name] = f"{bounded.mean():.3f}: {each}"
    widths = [np.diff(np.array(found[name]), axis=-1) for name in ("without", "as shipped")]
    both = np.isfinite(widths[0]) & np.isfinite(widths[1])
    shown["wider"] = f"{np.median(widths[1][both] / widths[0][both]):.2f}" if both.any() else "-"
    return shown


def main(arguments: list[str]) -> None:
    """Print the table of a group of cells."""
    group = arguments[0] if arguments else "choosing"
    fits, names = int(arguments[1]) if len(arguments) > 1 else FITS, arguments[2:]
    cells = [cell for cell in CELLS[group] if not names or cell.label in names]
    for number, cell in enumerate(cells):
        found = line(cell, fits)
        print(*(["|".join(found)] if number == 0 else []), "|".join(found.values()), sep="\n", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
