"""Same randomness, neighbouring data: how far apart do the results come out?"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from statsmodels.iolib.summary import Summary
from statsmodels.iolib.table import SimpleTable

from dpstats.errors import ArgumentError


@dataclass(frozen=True)
class SensitivityResult:
    """The greatest distance met, against the declared one.

    Attributes
    ----------
    declared, largest : float
        The declared sensitivity and the greatest distance met.
    pair : int
        Which pair of data sets gave it.
    comparisons : int
        Pairs times runs.
    passed : bool
        Whether `largest` stays within `declared`, up to a relative 1e-9 for rounding.
    """

    declared: float
    largest: float
    pair: int
    comparisons: int
    passed: bool

    def summary(self) -> Summary:
        """The result as a table."""
        rows = [
            ["Declared:", f"{self.declared:.6g}", "Comparisons:", f"{self.comparisons:,}"],
            ["Largest met:", f"{self.largest:.6g}", "The claim is", "not refuted" if self.passed else "REFUTED"],
        ]
        out = Summary()
        style = {"data_aligns": "lrlr", "colsep": "  "}
        out.tables = [SimpleTable(rows, title="Audit of a sensitivity", txt_fmt=style)]
        return out

    def __str__(self) -> str:
        return self.summary().as_text()


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

    Parameters
    ----------
    function : callable
        ``function(data, rng)`` returns the numbers that noise is to cover.
    pairs : iterable of (data, neighbour)
        Neighbouring data sets, such as those of `worst_cases`.
    declared : float
        The sensitivity the noise was calibrated to.
    norm : float
        The order of the vector norm: 1, 2 or ``numpy.inf``.
    runs : int
        Random streams tried per pair.
    seed : int
        Of the random streams.

    Returns
    -------
    SensitivityResult

    Raises
    ------
    ArgumentError
        If there is no pair, or the two results of a pair differ in shape (then no sensitivity covers them).
    """
    largest, worst, count = -1.0, -1, 0
    for index, (data, neighbour) in enumerate(pairs):
        for child in np.random.SeedSequence([seed, index]).spawn(runs):
            here, there = (_vector(function(side, np.random.default_rng(child))) for side in (data, neighbour))
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


def _vector(released: Any) -> NDArray[np.float64]:
    return np.asarray(released, dtype=np.float64).ravel()
