"""Where rows without a fault lie: in which part of a range, at which level (docs/proofs/evaluation, 5)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dpstats.domain import Levels, Range
from dpstats.tables import Table

PARTS = 8
"""A range is looked at in so many parts of one width."""

MOST_LEVELS = 24
"""Levels are counted of columns that have no more."""

SHARE = 2
"""A row without a fault gives one part in so many of its weight to its places."""


class Place(NamedTuple):
    """A column whose rows are counted by where they lie.

    Attributes
    ----------
    column : str
    names : tuple of str
        Of its levels, or of the parts of its range.
    ends : tuple of float
        Where the parts of a range meet; empty for levels.
    """

    column: str
    names: tuple[str, ...]
    ends: tuple[float, ...]


def places_of(facts: Mapping[str, Range | Levels | None]) -> tuple[Place, ...]:
    """What is counted, from public facts: columns of few levels, and ranges that are more than a few codes."""
    found = []
    for name, fact in facts.items():
        if isinstance(fact, Levels) and 2 <= len(fact.values) <= MOST_LEVELS:
            found.append(Place(name, tuple(map(str, fact.values)), ()))
        elif isinstance(fact, Range) and not _few_codes(fact):
            ends = np.linspace(fact.low, fact.high, PARTS + 1)
            names = tuple(f"{low:.4g} to {high:.4g}" for low, high in pairwise(ends))
            found.append(Place(name, names, tuple(ends[1:-1].tolist())))
    return tuple(found)


def _few_codes(fact: Range) -> bool:
    """Whether a range is that of a few whole numbers, such as bool."""
    ends = (fact.low, fact.high)
    return all(float(end).is_integer() for end in ends) and fact.high - fact.low < PARTS


def part_of(places: Sequence[Place], steps: int) -> int:
    """What a row without a fault gives each of its places, in steps."""
    return steps // (SHARE * len(places)) if places else 0


def count_places(
    table: Table, clean: NDArray[np.bool_], places: Sequence[Place], facts: Mapping[str, Range | Levels | None]
) -> NDArray[np.int64]:
    """How many of the rows marked `clean`, shape (r,), lie at each place, shape (places,)."""
    found = []
    for place in places:
        cells, fact = table.column(place.column), facts[place.column]
        if isinstance(fact, Levels):
            codes = np.asarray(cells.codes(fact.code_of()))
        else:
            codes = np.searchsorted(np.array(place.ends), cells.numbers(), side="right")
        found.append(np.bincount(codes[clean], minlength=len(place.names)))
    return np.concatenate(found).astype(np.int64) if found else np.zeros(0, dtype=np.int64)
