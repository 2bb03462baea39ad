"""Columns of terms that read the same numbers, and what they can be together (docs/proofs/information, 1).

A number and its square fill a curve, not a square. Privacy does not rest on the points: rows are shortened to the
metric that is made of them.
"""

from __future__ import annotations

import itertools
import math
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from dpstats.domain import Levels
from dpstats.formula.expression import columns_of
from dpstats.privacy.information import Joined, optimal_design
from dpstats.quiet import quiet

if TYPE_CHECKING:
    from dpstats.formula.design import DesignSpec

GRID = {1: 65, 2: 13, 3: 7, 4: 5}
"""Grid points of each range, by how many ranges there are: the ends, the middle, and some between."""

MOST_WORK = 400_000
"""Points times squared columns: beyond it the search for an optimal design would take too long."""


def joined_columns(spec: DesignSpec) -> tuple[Joined, ...]:
    """The columns of terms that share variables, with the optimal design on a grid; none without an intercept.

    Parameters
    ----------
    spec : DesignSpec
    """
    if not spec.has_intercept:
        return ()
    found = []
    for columns, variables in _groups(spec):
        points = _points(spec, variables)
        if points is not None and len(points) * (len(columns) + 1) ** 2 <= MOST_WORK:
            found.append(optimal_design(columns, points[:, columns]))
    return tuple(one for one in found if one is not None)


def _groups(spec: DesignSpec) -> list[tuple[tuple[int, ...], tuple[str, ...]]]:
    """Columns and variables of terms that share a variable, where a body for each subterm would be too large."""
    info = spec.coding
    groups: list[tuple[set[int], set[str], int]] = []
    for term in info.term_codings:
        where = info.term_slices[term]
        inside = set(range(where.start, where.stop))
        reads = {name for factor in term.factors for name in columns_of(factor.node)}
        if not reads or not inside:
            continue
        shared = [group for group in groups if group[1] & reads]
        groups = [group for group in groups if not group[1] & reads]
        columns, names = inside.union(*(one for one, _, _ in shared)), reads.union(*(two for _, two, _ in shared))
        groups.append((columns, names, 1 + sum(count for _, _, count in shared)))
    coded = {column for factor in spec.dummies for column in factor.columns}
    return [
        (tuple(sorted(columns)), tuple(sorted(names)))
        for columns, names, terms in groups
        if terms > 1 or (len(columns) > 1 and not columns <= coded)
    ]


def _points(spec: DesignSpec, variables: tuple[str, ...]) -> NDArray[np.float64] | None:
    """Rows of the design in model units for a grid of some variables; None where it would be too fine."""
    ranges = [name for name in variables if not isinstance(spec.domain[name], Levels)]
    if len(ranges) > max(GRID):
        return None
    choices: dict[str, list[object]] = {}
    for name in variables:
        declared = spec.domain[name]
        if isinstance(declared, Levels):
            choices[name] = list(declared.values)
        else:
            choices[name] = np.linspace(declared.low, declared.high, GRID[len(ranges)]).tolist()
    if math.prod(len(values) for values in choices.values()) > MOST_WORK / 4:
        return None
    rows = list(itertools.product(*choices.values()))
    table: dict[str, list[object]] = {name: [row[at] for row in rows] for at, name in enumerate(choices)}
    for name in spec.exog_columns:
        if name not in table:
            declared = spec.domain[name]
            table[name] = [declared.values[0] if isinstance(declared, Levels) else declared.high] * len(rows)
    with quiet():
        exog, complete = spec.exog(table)
    return np.asarray(exog[complete], dtype=np.float64)
