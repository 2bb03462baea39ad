"""The candidates of a grid: which arguments of a fit each of them sets."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from typing import Any

from dpstats.arguments import MOST_LETTERS, shown
from dpstats.errors import ArgumentError
from dpstats.families import get_family

FIXED = (
    *("adjacency", "allow_uncertified", "data", "delta", "domain", "eps", "formula", "ledger", "memory", "seed"),
    "unit",
)
"""What all candidates share."""

PERSONS = ("max_rows", "unit_weight")
"""What tuning does not take: only rows that share a weight are known to add one row's loss at most."""

TERMS = ("exposure", "offset", "weights")
"""What are terms of the formula instead."""

MOST = 1000
"""Candidates of a grid, at most."""

Grid = Mapping[str, Sequence[Any]] | Sequence[Mapping[str, Any]]


def candidates_of(grid: Grid, common: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """The arguments of each candidate's fit, by a name that says what it sets.

    Parameters
    ----------
    grid : dict or list of dict
        Lists of values by argument, of which every combination is a candidate; or the candidates one by one.
    common : dict
        Arguments that all candidates share unless they set them.

    Raises
    ------
    ArgumentError
        If the grid is of another form, has fewer than two different candidates or more than `MOST`, or sets what all
        candidates must share; or if their families have responses of different kinds.
    """
    chosen = _combinations(grid)
    for name in itertools.chain(common, *chosen):
        if name in PERSONS:
            raise ArgumentError(f"{name} is not taken by tune(): rows of a person share a weight; give unit= alone")
        if name in TERMS:
            raise ArgumentError(f"{name} is not taken here: weights() and offset() are terms of the formula")
    for one in chosen:
        for name in one:
            if not isinstance(name, str) or name in FIXED:
                raise ArgumentError(f"grid cannot set {shown(name)}: it is the same for all candidates")
    named = {", ".join(f"{name}={_said(value)}" for name, value in one.items()): {**common, **one} for one in chosen}
    if len(named) < max(2, len(chosen)):
        raise ArgumentError("grid must hold at least two candidates, all of them different")
    kinds = {get_family(arguments.get("family", "gaussian")).response for arguments in named.values()}
    if len(kinds) > 1:
        raise ArgumentError("grid must hold families of one kind of response: their errors cannot be compared")
    return named


def _combinations(grid: Grid) -> list[dict[str, Any]]:
    if isinstance(grid, Mapping) and all(isinstance(values, (list, tuple)) for values in grid.values()):
        if not 0 < _product(grid.values()) <= MOST:
            raise ArgumentError(f"grid must hold between 2 and {MOST} combinations")
        return [dict(zip(grid, values, strict=True)) for values in itertools.product(*grid.values())]
    if isinstance(grid, (list, tuple)) and len(grid) <= MOST and all(isinstance(one, Mapping) for one in grid):
        return [dict(one) for one in grid]
    raise ArgumentError("grid must be a dict of lists, such as {'curvature': [1, 10]}, or a list of dicts of arguments")


def _product(values: Any) -> int:
    size = 1
    for each in values:
        size *= len(each)
    return size


def _said(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:g}"
    return value if isinstance(value, str) and len(value) <= MOST_LETTERS else shown(value)
