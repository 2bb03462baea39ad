"""Coverage, width, size and power of the intervals of `dp.glm`, on populations of real rows and simulated ones.

``python -m benchmarks.inference.coverage [tables] [--repetitions R]``. A data set is the population, rows are drawn
from it with replacement, and the truth is its own optimum of the capped loss, which the intervals claim to cover. Every
repetition is a whole call: plan, release, post-processing. The oracle has the same fit, its noise and its debiasing,
and knows the information at it and the spread of the score: as the model has it (phi H), and as the population has it
(V).
"""

from __future__ import annotations

import argparse
import json
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

import dpstats as dp
from benchmarks.inference.entry_noise import wishart_difference
from benchmarks.inference.populations import SEED, population
from dpstats.call import make_request
from dpstats.families import get_family
from dpstats.inference import Estimates, Identified, Inference, ModelSpread, ReleasedLaw, RobustSpread
from dpstats.inference.debiasing_path import path_average, perturb_information
from dpstats.models.sources import FormulaSource
from dpstats.results.standard_errors import CURVED, response_of
from dpstats.solvers.newton import minimize
from dpstats.solvers.objective import PerturbedObjective

REPETITIONS = 400
ROUND = 40
"""Repetitions of a cell before the next one is turned to, where runs are stored."""

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
        if self.plan.family.name not in ("binomial", "negative_binomial"):
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
        """The errors of released coefficients in model units if rows are known, and the spread of the score."""
        stage, center = self.plan.stages[-1].plan, self.plan.stages[-1].plan.shrunk_towards
        exog, endog = self.rows(frame)
        curvature, (matrix, shift) = np.diag(stage.curvature), self.transform
        # A level that no row of the sample has would leave it singular.
        information = self.moments(exog, endog, params)[0] + np.diag(np.full(len(params), EMPTY))
        none = wishart_difference(NOTHING, np.ones(len(params)))
        found = Identified(
            np.ones(len(params), dtype=bool),
            np.linalg.inv(information),
            np.full(len(params), 1e9),
            np.ones(len(params)),
            none,
        )
        if self.plan.family.link in CURVED:
            mass = self.plan.family.weight(exog @ params, endog)
            score = stage.curvature * (params - center)
            found = perturb_information(
                found, information, path_average(exog, mass, information, params, score, response_of(self.plan))
            )
        _, scores, phi = self.at_truth
        variances = np.einsum("ij,jk,ik->i", matrix, found.inverse @ scores @ found.inverse, matrix)
        spreads = {"model": ModelSpread(phi), "sandwich": RobustSpread(variances, np.zeros(len(matrix)), matrix)}
        return {
            name: Inference(
                Estimates(params - center, information, curvature, self.law, none, spread, found=found),
                matrix,
                matrix @ center + shift,
            )
            for name, spread in spreads.items()
        }


def repetitions(cell: Cell, numbers: Iterable[int]) -> Iterator[tuple[int, dp.GLMResults, pd.DataFrame]]:
    """Numbers, fits of samples of the population, and the samples; each a function of cell and number."""
    whole = population(cell.population)
    for number in numbers:
        random = np.random.default_rng([SEED, cell.rows, round(1000 * cell.eps), number])
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
        yield number, fit, drawn


def judged(found: Inference, values: np.ndarray, name: str) -> dict[str, np.ndarray]:
    """Whether intervals cover and tests reject, arrays of shape (p,)."""
    low, high = found.conf_int(0.05).T
    low90, high90 = found.conf_int(0.1).T
    return {
        name + "se": found.se,
        name + "covers": (low <= values) & (values <= high),
        name + "covers 90": (low90 <= values) & (values <= high90),
        name + "null": found.contrasts.pvalues(values - found.offset),
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


def runs(cell: Cell, numbers: Iterable[int]) -> list[dict[str, Any]]:
    """What `repetition` found, and what was released, as plain values for a line of JSON each."""
    truth, lines = Truth(cell), []
    for number, fit, drawn in repetitions(cell, numbers):
        found = {
            key: np.asarray(value, dtype=np.float64).tolist() for key, value in repetition(truth, fit, drawn).items()
        }
        lines.append({"run": number, **found, "params": list(fit.scaled_params), "released": fit.released.to_dict()})
    return lines


def together(cell: Cell, lines: Sequence[dict[str, Any]]) -> dict[str, np.ndarray]:
    """Runs as arrays of shape (count, p), and the non-private errors, shape (p,)."""
    keys = [key for key in lines[0] if key not in ("run", "params", "released")]
    found = {key: np.array([line[key] for line in lines]) for key in keys}
    truth = {"covers", "covers 90", "naive"}
    plain = {"plain": Truth(cell).plain}
    return plain | {
        key: values > 0.5 if truth & {key, key.split(" ", 1)[-1]} else values for key, values in found.items()
    }


def figures(cell: Cell, found: dict[str, np.ndarray]) -> dict[str, Any]:
    """One line of the table."""
    covers, bounded = found["covers"], np.isfinite(found["se"])
    oracle = "sandwich " if cell.inference == "robust" else "oracle "
    each, own = covers.mean(axis=0), found[oracle + "covers"].mean(axis=0)
    worst = int(np.argmin(each))
    return {
        "cell": cell.label,
        "runs": len(covers),
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
    return figures(cell, together(cell, runs(cell, range(count))))


def stored(cell: Cell, folder: Path) -> tuple[Path, list[dict[str, Any]]]:
    """The file of a cell's runs, one line of JSON each, and what it has."""
    path = folder / (re.sub(r"[^a-z0-9.]+", "_", cell.label.lower()) + ".jsonl")
    return path, [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def fill(chosen: Sequence[Cell], count: int, folder: Path) -> None:
    """Run what is missing of `count` repetitions of each cell, a few of every cell in turn; it may be stopped."""
    folder.mkdir(parents=True, exist_ok=True)
    for end in [*range(ROUND, count, ROUND), count]:
        for cell in chosen:
            path, lines = stored(cell, folder)
            missing = sorted(set(range(end)) - {line["run"] for line in lines})
            with path.open("a") as file:
                file.writelines(json.dumps(line) + "\n" for line in runs(cell, missing))


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
            *(Cell(f"simulated {family} 30", 30_000, 1.0) for family in ("binomial", "gaussian")),
            *(Cell(f"simulated {family} 4", 1_000, 0.5) for family in ("binomial", "gaussian")),
        ],
        "negative binomial": [
            *(Cell("visits nb", rows, eps) for rows, eps in ((10_000, 1.0), (10_000, 3.0), (30_000, 3.0))),
            Cell("visits nb", 10_000, 3.0, "auto"),
            Cell("visits nb", 30_000, 3.0, "robust"),
            *(Cell("simulated negative_binomial 10", rows, eps) for rows, eps in ((10_000, 1.0), (30_000, 3.0))),
            Cell("simulated negative_binomial 10", 30_000, 3.0, delta=1e-6),
            Cell("simulated negative_binomial 10", 30_000, 3.0, adjacency="replace_one"),
        ],
        "large": [
            *(
                Cell(f"simulated {family} 10", 100_000, eps)
                for family in ("binomial", "gaussian")
                for eps in (0.1, 3.0)
            ),
            *(Cell(f"simulated {family} 30", 100_000, 0.5) for family in ("binomial", "gaussian")),
        ],
    }


def main() -> None:
    """Print the tables asked for; with a folder, of the runs that are stored there, after those that are missing."""
    parser = argparse.ArgumentParser(description=__doc__)
    known = cells()
    parser.add_argument("tables", nargs="*", default=tuple(known), metavar="table", help=f"of {', '.join(known)}")
    parser.add_argument("--repetitions", type=int, default=REPETITIONS)
    parser.add_argument("--store", type=Path)
    given = parser.parse_args()
    if unknown := set(given.tables) - set(known):
        parser.error(f"no tables: {', '.join(sorted(unknown))}")
    chosen = [cell for name in given.tables for cell in known[name]]
    if given.store:
        fill(chosen, given.repetitions, given.store)
    header = True
    for cell in chosen:
        lines = stored(cell, given.store)[1] if given.store else runs(cell, range(given.repetitions))
        if lines:
            table = pd.DataFrame([figures(cell, together(cell, lines))]).round(3)
            print(table.to_csv(index=False, header=header), end="", flush=True)
            header = False


if __name__ == "__main__":
    main()
