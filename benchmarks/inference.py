"""Coverage, width, size and power of the intervals of `dp.glm` on real populations.

``python -m benchmarks.inference [cells] [--repetitions R]``. A data set is the population, rows are drawn from it with
replacement, and the truth is its own optimum of the capped loss, which the intervals claim to cover. Every repetition
is a whole call: plan, release, post-processing. Nothing here was used to choose a default.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cache, cached_property
from typing import Any

import numpy as np
import pandas as pd
from scipy import special

import dpstats as dp
from benchmarks import cps1988
from dpstats.domain import Domain
from dpstats.families import get_family
from dpstats.models.sources import FormulaSource
from dpstats.request import make_request
from dpstats.solvers.newton import minimize
from dpstats.solvers.objective import PerturbedObjective

REPETITIONS = 400
SEED = 20_261_122
NORMAL = 1.959963984540054


@dataclass(frozen=True)
class Population:
    """Rows to draw from, what is declared of them, and the model."""

    frame: pd.DataFrame
    domain: Domain
    formula: str
    family: str


@dataclass(frozen=True)
class Cell:
    """A population, a sample size, a budget and what is asked of it."""

    population: str
    rows: int
    eps: float
    inference: Any = True
    delta: float = 0.0
    adjacency: str = "add_remove"
    options: dict[str, Any] = field(default_factory=dict)

    @property
    def label(self) -> str:
        """The cell in a line."""
        shown = [self.population, f"n={self.rows}", f"eps={self.eps:g}", f"inference={self.inference}"]
        shown += [f"delta={self.delta:g}"] if self.delta else []
        return ", ".join(shown + ([self.adjacency] if self.adjacency == "replace_one" else []))


@cache
def population(name: str) -> Population:
    """A population by name."""
    return POPULATIONS[name]()


def _adult(formula: str) -> Population:
    adult = dp.datasets.load_adult()
    return Population(adult.data.dropna(), adult.domain, formula, "binomial")


def _wages() -> Population:
    return Population(cps1988.load(), cps1988.DOMAIN, cps1988.FORMULA, "gaussian")


def _visits() -> Population:
    rand = dp.datasets.load_randhie()
    domain = Domain({**dict(rand.domain), "mdvis": (0, 20)})
    return Population(rand.data.dropna(), domain, "mdvis ~ lncoins + idp + lpi + physlm + disea", "poisson")


ADULT = "income ~ age + education_num + hours_per_week + sex + race + relationship"
POPULATIONS: dict[str, Callable[[], Population]] = {
    "adult 4": lambda: _adult("income ~ age + hours_per_week + sex"),
    "adult 14": lambda: _adult(ADULT),
    "wages": _wages,
    "visits": _visits,
}


@dataclass(frozen=True, eq=False)
class Truth:
    """The population's optimum in the user's units, and what a sample's errors would be if all were known."""

    cell: Cell
    plan: Any

    @cached_property
    def rows(self) -> tuple[np.ndarray, np.ndarray]:
        """The population in model units."""
        whole = population(self.cell.population)
        blocks = [(exog, self.plan.family.clip_response(endog)) for exog, endog in self.plan.design.blocks(whole.frame)]
        return np.vstack([exog for exog, _ in blocks]), np.concatenate([endog for _, endog in blocks])

    @cached_property
    def params(self) -> np.ndarray:
        """In model units."""
        exog, endog = self.rows
        size = exog.shape[1]
        objective = PerturbedObjective(self.plan.family, [(exog, endog)], np.full(size, 1e-8), np.zeros(size), 1.0)
        return np.asarray(minimize(objective, 1e-7), dtype=np.float64)

    @cached_property
    def transform(self) -> tuple[np.ndarray, np.ndarray]:
        """To the user's units."""
        return self.plan.design.back_transform()

    @cached_property
    def values(self) -> np.ndarray:
        """The optimum in the user's units."""
        matrix, shift = self.transform
        return matrix @ self.params + shift

    @cached_property
    def deviations(self) -> tuple[np.ndarray, np.ndarray]:
        """Standard deviations of the non-private estimate and of the oracle's, who knows all but the noise."""
        exog, endog = self.rows
        derivatives = self.plan.family.derivatives(exog @ self.params, endog)
        share = self.cell.rows / len(exog)
        information = share * (exog * derivatives.curvature[:, None]).T @ exog
        scores = share * (exog * (derivatives.gradient**2)[:, None]).T @ exog
        if self.cell.inference != "robust":
            ratio = np.sum(derivatives.gradient**2) / np.sum(derivatives.curvature)
            scores = information * (1.0 if self.plan.family.name == "binomial" else ratio)
        inverse, matrix = np.linalg.inv(information), self.transform[0]
        noise = np.diag(self.plan.objective.noise_variances)
        plain, noisy = (inverse @ middle @ inverse for middle in (scores, scores + noise))
        return tuple(np.sqrt(np.einsum("ij,jk,ik->i", matrix, cov, matrix)) for cov in (plain, noisy))


def repetitions(cell: Cell, count: int) -> Iterator[dp.GLMResults]:
    """Fits of samples of the population."""
    whole = population(cell.population)
    random = np.random.default_rng([SEED, cell.rows, round(1000 * cell.eps)])
    for _ in range(count):
        drawn = whole.frame.iloc[random.integers(0, len(whole.frame), cell.rows)].reset_index(drop=True)
        yield dp.glm(
            whole.formula,
            drawn,
            cell.eps,
            delta=cell.delta,
            family=whole.family,
            domain=whole.domain,
            adjacency=cell.adjacency,
            inference=cell.inference,
            seed=int(random.integers(2**62)),
            **cell.options,
        )


def planned(cell: Cell) -> Any:
    """The plan of the cell's calls."""
    whole = population(cell.population)
    request = make_request(
        eps=cell.eps,
        delta=cell.delta,
        family=get_family(whole.family),
        adjacency=cell.adjacency,
        inference=cell.inference,
        **cell.options,
    )
    return FormulaSource(whole.formula, None, whole.domain).plan(request)


def measure(cell: Cell, count: int = REPETITIONS) -> dict[str, Any]:
    """One line of the table."""
    truth = Truth(cell, planned(cell))
    plain, oracle = truth.deviations
    found = {name: [] for name in ("estimates", "se", "low", "high", "p_true", "p_zero", "low90", "high90", "naive")}
    for fit in repetitions(cell, count):
        table = fit.uncertainty()
        ninety = fit.conf_int(0.1)
        against = fit.t_test((np.eye(len(truth.values)), truth.values))
        for name, values in (
            ("estimates", table["coef"]),
            ("se", table["std_error"]),
            ("low", table["low"]),
            ("high", table["high"]),
            ("p_zero", table["p_value"]),
            ("p_true", against.pvalue),
            ("low90", ninety[0]),
            ("high90", ninety[1]),
            ("naive", fit.params),
        ):
            found[name].append(np.asarray(values, dtype=np.float64))
    arrays = {name: np.array(values) for name, values in found.items()}
    covered = (arrays["low"] <= truth.values) & (truth.values <= arrays["high"])
    covered90 = (arrays["low90"] <= truth.values) & (truth.values <= arrays["high90"])
    bounded = np.isfinite(arrays["se"])
    width = np.where(bounded, arrays["se"], np.inf)
    clear = np.abs(truth.values) > 2.8 * oracle
    ratio = np.abs(truth.values) / oracle
    power = special.ndtr(ratio - NORMAL) + special.ndtr(-ratio - NORMAL)
    naive = np.abs(arrays["naive"] - truth.values) <= NORMAL * plain
    pooled = covered.mean(axis=1)
    return {
        "cell": cell.label,
        "p": len(truth.values),
        "bounded": bounded.mean(),
        "cov 95": covered.mean(),
        "s.e.": pooled.std() / np.sqrt(count),
        "least": covered.mean(axis=0).min(),
        "cov 90": covered90.mean(),
        "naive 95": naive.mean(),
        "w/oracle": np.median(width / oracle),
        "w/plain": np.median(width / plain),
        "size .05": np.mean(arrays["p_true"] < 0.05),
        "size .01": np.mean(arrays["p_true"] < 0.01),
        "power": np.mean(arrays["p_zero"] < 0.05),
        "oracle power": power.mean(),
        "clear": clear.mean(),
    }


def cells() -> dict[str, list[Cell]]:
    """The tables, by name."""
    both = ("auto", True)
    return {
        "adult": [
            Cell(name, rows, eps, inference)
            for name in ("adult 4", "adult 14")
            for rows, eps in ((1_000, 1.0), (10_000, 0.3), (10_000, 1.0), (30_000, 3.0))
            for inference in both
        ],
        "wages": [
            Cell("wages", rows, eps, True) for rows, eps in ((1_000, 1.0), (10_000, 0.3), (10_000, 1.0), (30_000, 3.0))
        ],
        "visits": [
            Cell("visits", rows, eps, "auto", options={"response": "declared"})
            for rows, eps in ((10_000, 1.0), (30_000, 3.0))
        ],
        "robust": [Cell("wages", 10_000, eps, "robust") for eps in (1.0, 3.0)],
        "delta": [Cell(name, 10_000, 1.0, True, delta=1e-6) for name in ("adult 4", "adult 14", "wages")],
        "replace": [Cell(name, 10_000, 1.0, True, adjacency="replace_one") for name in ("adult 14", "wages")],
    }


def main() -> None:
    """Print the tables asked for."""
    parser = argparse.ArgumentParser(description=__doc__)
    known = cells()
    parser.add_argument("tables", nargs="*", default=list(known), choices=list(known))
    parser.add_argument("--repetitions", type=int, default=REPETITIONS)
    given = parser.parse_args()
    for name in given.tables:
        lines = []
        for cell in known[name]:
            lines.append(measure(cell, given.repetitions))
            print(pd.DataFrame(lines[-1:]).to_string(index=False, float_format="%.3f", header=len(lines) == 1))
            sys.stdout.flush()


if __name__ == "__main__":
    main()
