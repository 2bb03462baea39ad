"""Pairwise covers: where a full product of options is only breadth, every two of their values meet in some case."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations, product
from typing import Any


def pairwise(*options: Sequence[Any]) -> list[tuple[Any, ...]]:
    """Cases of one value of each option in which every two values of two options meet, the same at every call.

    Greedy: each case is the one of the product in which most pairs meet for the first time.
    """
    places = [range(len(values)) for values in options]
    pairs = {
        one: {(a, b) for a in places[one[0]] for b in places[one[1]]} for one in combinations(range(len(options)), 2)
    }
    cases = []
    while any(pairs.values()):
        case = max(product(*places), key=lambda case: sum((case[a], case[b]) in left for (a, b), left in pairs.items()))
        for (a, b), left in pairs.items():
            left.discard((case[a], case[b]))
        cases.append(tuple(values[at] for values, at in zip(options, case, strict=True)))
    return cases
