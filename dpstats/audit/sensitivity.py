"""Same randomness, neighbouring data: how far apart do the results come out?"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from statsmodels.iolib.table import SimpleTable

from dpstats.errors import ArgumentError
from dpstats.families.base import Family
from dpstats.privacy.guarantee import Adjacency, check_adjacency
from dpstats.results.stored import Printed
from dpstats.summaries import Summary


@dataclass(frozen=True)
class SensitivityResult(Printed):
    """The greatest distance found, compared with the declared one."""

    # declared, largest: The declared sensitivity and the greatest distance met.
    declared: float
    largest: float
    pair: int  # Which pair of data sets gave it
    comparisons: int  # Pairs times runs
    passed: bool  # Whether `largest` stays within `declared`, up to a relative 1e-9 for rounding

    def summary(self) -> Summary:
        """The result as a table."""
        rows = [
            ["Declared:", f"{self.declared:.6g}", "Comparisons:", f"{self.comparisons:,}"],
            ["Largest met:", f"{self.largest:.6g}", "The claim is", "not refuted" if self.passed else "REFUTED"],
        ]
        style = {"data_aligns": "lrlr", "colsep": "  "}
        return Summary([SimpleTable(rows, title="Audit of a sensitivity", txt_fmt=style)])


def sensitivity(
    function: Callable[[Any, np.random.Generator], Any],
    pairs: Iterable[tuple[Any, Any]],
    *,
    declared: float,
    norm: float = 2,
    runs: int = 1,
    seed: int = 0,
) -> SensitivityResult:
    """Run a function with identical randomness on neighbouring data and record the greatest distance.

    ``function(data, rng)`` returns the numbers that noise is to cover, `declared` the sensitivity it was calibrated to;
    `pairs` are those of `worst_cases`, each tried with `runs` random streams. ArgumentError without a pair, or if the
    two results of a pair differ in shape: no sensitivity covers them.
    """
    largest, worst, count = -1.0, -1, 0
    for index, (data, neighbour) in enumerate(pairs):
        for child in np.random.SeedSequence([seed, index]).spawn(runs):
            here, there = (
                np.asarray(function(side, np.random.default_rng(child)), dtype=np.float64).ravel()
                for side in (data, neighbour)
            )
            if here.shape != there.shape:
                raise ArgumentError("function must return as many numbers on both data sets of a pair")
            distance = float(np.linalg.norm(here - there, norm))
            count += 1
            # A distance that is not a number is as bad as can be, and must not lose every comparison.
            distance = np.inf if np.isnan(distance) else distance
            if distance > largest:
                largest, worst = distance, index
    if not count:
        raise ArgumentError("pairs must hold at least one pair and runs must be positive")
    return SensitivityResult(declared, largest, worst, count, largest <= declared * (1 + 1e-9))


Rows = tuple[NDArray[np.float64], NDArray[np.float64]]


class Pair(NamedTuple):
    """Two neighbouring data sets, each (endog, exog) of shapes (rows,) and (rows, size)."""

    name: str
    data: Rows
    neighbour: Rows


def worst_cases(family: Family, row_norm: float, size: int, adjacency: Adjacency = "add_remove") -> Iterator[Pair]:
    """Extreme neighbouring pairs for mechanisms on rows with ||x||_2 <= `row_norm`.

    Each pair has a base of few rows, where one more row weighs most: none at all, one aligned with the changed row,
    one opposed to it, one orthogonal to it, or zero rows (which count but say nothing). The changed row is as long
    as the bound allows, along the first axis or the diagonal, with each extreme response of the family. For
    "replace_one" the neighbour's row has the opposite response or points the other way.
    """
    check_adjacency(adjacency)
    # Moderate and extreme responses, as the family's own clipping leaves them.
    clipped = family.clip_response(np.array([-1e6, -1.0, 0.0, 1.0, 1e6]))
    responses = [float(y) for y in np.unique(clipped)]
    rows = {"axis": row_norm * np.eye(size)[0]}
    if size > 1:
        rows["diagonal"] = np.full(size, row_norm / np.sqrt(size))
    for shape, row in rows.items():
        for base_name, base in _bases(row, responses[-1]).items():
            for response in responses:
                name = f"{base_name}, {shape} row, response {response:g}"
                present = _append(base, response, row)
                if adjacency == "add_remove":
                    yield Pair(name, base, present)
                    continue
                opposite = responses[0] if response == responses[-1] else responses[-1]
                yield Pair(f"{name} turned round", present, _append(base, response, -row))
                yield Pair(f"{name} to {opposite:g}", present, _append(base, opposite, row))


def _bases(row: NDArray[np.float64], response: float) -> dict[str, Rows]:
    size = len(row)
    bases = {
        "empty": np.empty((0, size)),
        "aligned": row[None, :],
        "opposed": -row[None, :],
        "zero rows": np.zeros((3, size)),
    }
    if size > 1:
        bases["last axis"] = np.linalg.norm(row) * np.eye(size)[-1:]
    return {name: (np.full(len(exog), response), exog) for name, exog in bases.items()}


def _append(base: Rows, response: float, row: NDArray[np.float64]) -> Rows:
    endog, exog = base
    return np.append(endog, response), np.vstack([exog, row])
