"""Populations that the benchmarks of inference draw from: real data sets, and simulated designs with rare levels."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

import numpy as np
import pandas as pd
from scipy import special

import dpstats as dp
from benchmarks.prediction import cps1988
from dpstats.domain import Domain
from dpstats.families import Family, NegativeBinomial

SEED = 20_261_122
SIMULATED_ROWS = 200_000
LEVELS: dict[int, tuple[tuple[float, ...], ...]] = {
    4: ((0.3,),),
    10: ((0.3, 0.2, 0.04), (0.4, 0.1, 0.02)),
    30: ((0.2,) * 4, (0.1,) * 8, (0.05,) * 8),
}
"""By number of columns, the probabilities of the factors' levels after the first."""

SPREAD = {"binomial": 1.0, "gaussian": 0.2, "negative_binomial": 0.5}
"""Standard deviation of the linear predictor."""

COUNTS = NegativeBinomial(0.5)
"""Of the simulated counts, of mean two at the middle of their columns, declared to be at most 30."""

VISITS = NegativeBinomial(1.3)
"""Of visits to a doctor; a fit of the whole population by maximum likelihood has that dispersion."""

RESIDUAL = 0.25
"""Of the Gaussian response, declared to lie within [-1.5, 1.5]: more than four deviations."""


@dataclass(frozen=True, eq=False)
class Population:
    """Rows to draw from, what is declared of them, and the model."""

    frame: pd.DataFrame
    domain: Domain
    formula: str
    family: str | Family


@cache
def population(name: str) -> Population:
    """A population by name."""
    if name in POPULATIONS:
        return POPULATIONS[name]()
    shape, family, columns = name.split()
    return simulated(family, int(columns), narrow=shape == "narrow")


def simulated(family: str, columns: int, *, narrow: bool = False) -> Population:
    """Numbers in [-1, 1] and factors with rare levels; coefficients of alternating sign.

    The numbers are uniform and independent, or narrow: of standard deviation 0.3 and correlation 0.4, within [-1, 1].
    """
    random = np.random.default_rng([SEED, columns])
    factors = LEVELS[columns]
    numeric = columns - 1 - sum(len(chances) for chances in factors)
    numbers = random.uniform(-1, 1, (numeric, SIMULATED_ROWS))
    if narrow:
        common = random.standard_normal(SIMULATED_ROWS)
        own = random.standard_normal((numeric, SIMULATED_ROWS))
        numbers = np.clip(0.3 * (np.sqrt(0.4) * common + np.sqrt(0.6) * own), -1, 1)
    cells: dict[str, np.ndarray] = {f"x{at}": values for at, values in enumerate(numbers)}
    parts = [values - values.mean() for values in cells.values()]
    declared: dict[str, object] = dict.fromkeys(cells, (-1, 1))
    for at, chances in enumerate(factors):
        level = np.searchsorted(np.cumsum(chances), random.random(SIMULATED_ROWS), side="right")
        # The base is the level that is left over, and comes first.
        order = (level + 1) % (len(chances) + 1)
        declared[f"f{at}"] = names = [f"l{number}" for number in range(len(chances) + 1)]
        cells[f"f{at}"] = np.array(names)[order]
        parts += [(order == number) - chance for number, chance in enumerate(chances, start=1)]
    signs = np.where(np.arange(len(parts)) % 2, 1.0, -1.0) * np.linspace(1, 0.5, len(parts))
    eta = np.column_stack(parts) @ signs
    eta *= SPREAD[family] / eta.std()
    if family == "binomial":
        cells["y"] = (random.random(SIMULATED_ROWS) < special.expit(eta - 0.5)).astype(float)
        declared["y"] = [0, 1]
    elif family == "negative_binomial":
        means = 2 * np.exp(eta) * random.gamma(1 / COUNTS.alpha, COUNTS.alpha, SIMULATED_ROWS)
        cells["y"] = random.poisson(means).astype(float)
        declared["y"] = (0, 30)
    else:
        cells["y"] = eta + RESIDUAL * random.standard_normal(SIMULATED_ROWS)
        declared["y"] = (-1.5, 1.5)
    formula = "y ~ " + " + ".join(name for name in cells if name != "y")
    return Population(
        pd.DataFrame(cells), Domain(declared), formula, COUNTS if family == "negative_binomial" else family
    )


def _adult(formula: str) -> Population:
    adult = dp.datasets.load_adult()
    return Population(adult.data.dropna(), adult.domain, formula, "binomial")


def _wages() -> Population:
    return Population(cps1988.load(), cps1988.DOMAIN, cps1988.FORMULA, "gaussian")


def _visits(family: str | Family = "poisson") -> Population:
    rand = dp.datasets.load_randhie()
    domain = Domain({**dict(rand.domain), "mdvis": (0, 20)})
    return Population(rand.data.dropna(), domain, "mdvis ~ lncoins + idp + lpi + physlm + disea", family)


ADULT = "income ~ age + education_num + hours_per_week + sex + race + relationship"
POPULATIONS: dict[str, Callable[[], Population]] = {
    "adult 4": lambda: _adult("income ~ age + hours_per_week + sex"),
    "adult 14": lambda: _adult(ADULT),
    "adult 27": lambda: _adult(ADULT + " + occupation"),
    "wages": _wages,
    "visits": _visits,
    "visits nb": lambda: _visits(VISITS),
}
