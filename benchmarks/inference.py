"""Coverage, width, size and power of the intervals of `dp.glm`, on populations of real rows and simulated ones.

``python -m benchmarks.inference [tables] [--repetitions R]``. A data set is the population, rows are drawn from it with
replacement, and the truth is its own optimum of the capped loss, which the intervals claim to cover. Every repetition
is a whole call: plan, release, post-processing. The oracle has the same fit, its noise and its debiasing, and knows
the information at it and the spread of the score: as the model has it (phi H), and as the population has it (V).
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd

import dpstats as dp
from benchmarks.inference_populations import SEED, population
from dpstats.families import get_family
from dpstats.inference import Estimates, Inference, ModelSpread, ReleasedLaw, RobustSpread, wishart_difference
from dpstats.models.sources import FormulaSource
from dpstats.request import make_request
from dpstats.results.inferring import shrunk_towards
from dpstats.solvers.newton import minimize
from dpstats.solvers.objective import PerturbedObjective

REPETITIONS = 200
NORMAL = 1.959963984540054
NOTHING = 1e-7
"""Scale of the oracle's matrix noise."""

EMPTY = 1e-3
"""Information, in model units, of a level without rows, for the oracle."""


@dataclass(frozen=True, eq=False)
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
        shown = [self.population, f"n={self.rows}", f"eps={self.eps:g}", f"{self.inference}"]
        shown += [f"delta={self.delta:g}"] if self.delta else []
        return ", ".join(shown + ([self.adjacency] if self.adjacency == "replace_one" else []))

    @cached_property
    def plan(self) -> Any:
        """The plan of the cell's calls."""
        whole = population(self.population)
        request = make_request(
            eps=self.eps,
            delta=self.delta,
            family=get_family(whole.family),
            adjacency=self.adjacency,
            inference=self.inference,
            **self.options,
        )
        return FormulaSource(whole.formula, None, whole.domain).plan(request)


@dataclass(frozen=True, eq=False)
class Truth:
    """The population's optimum, and the oracle's errors. Vectors in the user's units unless said otherwise."""

    cell: Cell

    @property
    def plan(self) -> Any:
        """Of the cell."""
        return self.cell.plan

    def rows(self, frame: pd.DataFrame) -> tuple[np.ndarray, np.ndarray]:
        """Rows of the model and responses, in model units."""
        blocks = [(exog, self.plan.family.clip_response(endog)) for exog, endog, *_ in self.plan.design.blocks(frame)]
        return np.vstack([exog for exog, _ in blocks]), np.concatenate([endog for _, endog in blocks])

    @cached_property
    def whole(self) -> tuple[np.ndarray, np.ndarray]:
        """The population."""
        return self.rows(population(self.cell.population).frame)

    @cached_property
    def params(self) -> np.ndarray:
        """The optimum in model units."""
        exog, endog = self.whole
        size = exog.shape[1]
        objective = PerturbedObjective(self.plan.family, [(exog, endog)], np.full(size, 1e-8), np.zeros(size), 1.0)
        return np.asarray(minimize(objective, 1e-7), dtype=np.float64)

    @cached_property
    def transform(self) -> tuple[np.ndarray, np.ndarray]:
        """To the user's units."""
        return self.plan.design.back_transform()

    @cached_property
    def values(self) -> np.ndarray:
        """The optimum."""
        matrix, shift = self.transform
        return matrix @ self.params + shift

    def moments(self, exog: np.ndarray, endog: np.ndarray, params: np.ndarray) -> tuple[np.ndarray, np.ndarray, float]:
        """Information, second moment of the score, and the dispersion of some rows at some coefficients."""
        found = self.plan.family.derivatives(exog @ params, endog)
        information = (exog * found.curvature[:, None]).T @ exog
        scores = (exog * (found.gradient**2)[:, None]).T @ exog
        phi = 1.0
        if self.plan.family.name != "binomial":
            phi = float(np.sum(found.gradient**2) / np.sum(found.curvature))
        return information, scores, max(phi, 1.0) if self.plan.family.name == "poisson" else phi

    @cached_property
    def at_truth(self) -> tuple[np.ndarray, np.ndarray, float]:
        """The population's moments, for a sample of the cell's size."""
        information, scores, phi = self.moments(*self.whole, self.params)
        share = self.cell.rows / len(self.whole[0])
        return share * information, share * scores, phi

    @cached_property
    def plain(self) -> np.ndarray:
        """Standard errors of the non-private estimate: of the model, or the sandwich where robust ones are asked."""
        information, scores, phi = self.at_truth
        inverse, matrix = np.linalg.inv(information), self.transform[0]
        middle = scores if self.cell.inference == "robust" else phi * information
        return np.sqrt(np.einsum("ij,jk,ik->i", matrix, inverse @ middle @ inverse, matrix))

    @cached_property
    def law(self) -> ReleasedLaw:
        """Of the noise, one object so that its draws are made once."""
        stage = self.plan.stages[-1].plan
        return ReleasedLaw(stage.noise, stage.noise_shape)

    def oracles(self, params: np.ndarray, frame: pd.DataFrame) -> dict[str, Inference]:
        """The errors of released coefficients in model units if the information at them and the spread are known."""
        stage = self.plan.stages[-1].plan
        information, _, _ = self.moments(*self.rows(frame), params)
        # A level that no row of the sample has would leave it singular.
        information += np.diag(np.full(len(params), EMPTY))
        center, (matrix, shift) = shrunk_towards(stage), self.transform
        inverse = np.linalg.inv(information)
        # An information of the sample, and a spread of the population: V / H of the one are those of the other.
        truth, scores, phi = self.at_truth
        factor = np.trace(np.linalg.solve(truth, information)) / len(truth)
        variances = factor * np.einsum("ij,jk,ik->i", matrix, inverse @ scores @ inverse, matrix)
        spreads = {"model": ModelSpread(phi), "sandwich": RobustSpread(variances, np.zeros(len(matrix)), matrix)}
        none = wishart_difference(NOTHING, np.ones(len(params)))
        return {
            name: Inference(
                Estimates(params - center, information, np.diag(stage.curvature), self.law, none, spread),
                matrix,
                matrix @ center + shift,
            )
            for name, spread in spreads.items()
        }


def repetitions(cell: Cell, count: int) -> Iterator[tuple[dp.GLMResults, pd.DataFrame]]:
    """Fits of samples of the population, and the samples."""
    whole = population(cell.population)
    random = np.random.default_rng([SEED, cell.rows, round(1000 * cell.eps)])
    for _ in range(count):
        drawn = whole.frame.iloc[random.integers(0, len(whole.frame), cell.rows)].reset_index(drop=True)
        fit = dp.glm(
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
        yield fit, drawn


def judged(found: Inference, values: np.ndarray, name: str) -> dict[str, np.ndarray]:
    """Whether intervals cover and tests reject, arrays of shape (p,)."""
    size = len(values)
    low, high = found.conf_int(0.05).T
    low90, high90 = found.conf_int(0.1).T
    return {
        name + "se": found.se,
        name + "covers": (low <= values) & (values <= high),
        name + "covers 90": (low90 <= values) & (values <= high90),
        name + "null": found.t_test(np.eye(size), values).pvalues,
        name + "zero": found.pvalues,
        name + "bias": found.coef - values,
    }


def repetition(truth: Truth, fit: dp.GLMResults, drawn: pd.DataFrame) -> dict[str, np.ndarray]:
    """Ours beside the oracles and the errors that ignore the noise."""
    oracles = truth.oracles(np.asarray(fit.scaled_params), drawn)
    naive = np.abs(fit.params.to_numpy() - truth.values) <= NORMAL * truth.plain
    return {
        **judged(fit._inference, truth.values, ""),
        **judged(oracles["model"], truth.values, "oracle "),
        **judged(oracles["sandwich"], truth.values, "sandwich "),
        "naive": naive,
    }


def runs(cell: Cell, count: int) -> dict[str, np.ndarray]:
    """What `repetition` found, arrays of shape (count, p), and the non-private errors, shape (p,)."""
    truth = Truth(cell)
    every = [repetition(truth, fit, drawn) for fit, drawn in repetitions(cell, count)]
    return {key: np.array([one[key] for one in every]) for key in every[0]} | {"plain": truth.plain}


def figures(cell: Cell, found: dict[str, np.ndarray]) -> dict[str, Any]:
    """One line of the table."""
    covers, bounded = found["covers"], np.isfinite(found["se"])
    oracle = "sandwich " if cell.inference == "robust" else "oracle "
    each, own = covers.mean(axis=0), found[oracle + "covers"].mean(axis=0)
    worst = int(np.argmin(each))
    return {
        "cell": cell.label,
        "p": covers.shape[1],
        "bounded": bounded.mean(),
        "cov 95": covers.mean(),
        "s.e.": covers.mean(axis=1).std() / np.sqrt(len(covers)),
        "least": each[worst],
        "its oracle": own[worst],
        "cov 90": found["covers 90"].mean(),
        "oracle": found[oracle + "covers"].mean(),
        "sandwich": found["sandwich covers"].mean(),
        "naive": found["naive"].mean(),
        "w/oracle": np.median(found["se"] / found[oracle + "se"]),
        "w/plain": np.median(found["se"] / found["plain"]),
        "size .05": np.mean(found["null"] < 0.05),
        "size .01": np.mean(found["null"] < 0.01),
        "power": np.mean(found["zero"] < 0.05),
        "oracle's": np.mean(found[oracle + "zero"] < 0.05),
    }


def measure(cell: Cell, count: int = REPETITIONS) -> dict[str, Any]:
    """One line of the table."""
    return figures(cell, runs(cell, count))


DECLARED = {"response": "declared"}


def cells() -> dict[str, list[Cell]]:
    """The tables, by name."""
    few = ((1_000, 1.0), (1_000, 3.0), (10_000, 0.3), (10_000, 1.0), (30_000, 3.0))
    many = ((10_000, 0.3), (10_000, 1.0), (10_000, 3.0), (30_000, 1.0), (30_000, 3.0))
    wages = ((1_000, 3.0), (10_000, 0.3), (10_000, 1.0), (10_000, 3.0), (30_000, 1.0), (30_000, 3.0))
    visits = ((1_000, 3.0), (10_000, 0.3), (10_000, 1.0), (10_000, 3.0), (30_000, 3.0))
    auto = (("adult 4", 10_000, 1.0), ("adult 14", 10_000, 1.0), ("adult 14", 30_000, 3.0))
    return {
        "binomial": [
            *(Cell("adult 4", *pair) for pair in few),
            *(Cell("adult 14", *pair) for pair in many),
            *(Cell("adult 27", 30_000, eps) for eps in (1.0, 3.0)),
        ],
        "gaussian": [Cell("wages", *pair) for pair in wages],
        "poisson": [Cell("visits", *pair, options=DECLARED) for pair in visits],
        "auto": [*(Cell(*parts, "auto") for parts in auto), Cell("visits", 10_000, 1.0, "auto", options=DECLARED)],
        "robust": [
            *(Cell("wages", rows, eps, "robust") for rows, eps in ((10_000, 3.0), (30_000, 3.0))),
            Cell("adult 4", 10_000, 1.0, "robust"),
            Cell("visits", 30_000, 3.0, "robust", options=DECLARED),
        ],
        "delta": [Cell(name, 10_000, 1.0, delta=1e-6) for name in ("adult 4", "adult 14", "wages")],
        "replace": [
            Cell(name, rows, eps, adjacency="replace_one")
            for name, rows, eps in (("adult 4", 10_000, 1.0), ("adult 14", 10_000, 3.0), ("wages", 30_000, 3.0))
        ],
        "simulated": [
            *(Cell(f"narrow {family} 10", 10_000, 1.0) for family in ("binomial", "gaussian")),
            *(Cell(f"simulated {family} 30", 10_000, 3.0) for family in ("binomial", "gaussian")),
        ],
        "large": [Cell(f"simulated {family} 10", 100_000, 3.0) for family in ("binomial", "gaussian")],
    }


def main() -> None:
    """Print the tables asked for."""
    parser = argparse.ArgumentParser(description=__doc__)
    known = cells()
    parser.add_argument("tables", nargs="*", default=list(known), choices=list(known))
    parser.add_argument("--repetitions", type=int, default=REPETITIONS)
    given = parser.parse_args()
    for name in given.tables:
        for index, cell in enumerate(known[name]):
            table = pd.DataFrame([measure(cell, given.repetitions)]).round(3)
            print(table.to_csv(index=False, header=index == 0), end="")
            sys.stdout.flush()


if __name__ == "__main__":
    main()
