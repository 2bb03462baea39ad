"""Where the rows without a fault lie, column by column: levels, eighths of ranges, and codes for missing."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from dpstats.data import Table
from dpstats.domain import Levels, Range

PARTS = 8  # equal parts into which a range is divided
MOST_LEVELS = 24  # columns with more levels are not counted by level
PLACE_SHARE = 0.75  # of the weight of a row without a fault goes to its places

EMPTY = 0.1
"""A part of a range is a gap only if it has at most this share of the rows of fuller parts on both sides, and half a
standard deviation of noise more."""

CERTAINLY_FEWER = 0.5
"""It is a gap only if it certainly has fewer than this share: a valley between two groups is not empty."""

MOST_APART = 0.25
"""Rows beyond gaps that have a larger share are no codes: a scale of few values has gaps between all of them."""


class ColumnHistogram(NamedTuple):
    """A column whose rows are counted by where they lie."""

    column: str
    names: tuple[str, ...]  # Of its levels, or of the parts of its range and then the codes
    ends: tuple[float, ...]  # Of the parts of a range, one more than these; empty for levels
    codes: tuple[float, ...] = ()  # Values counted apart from the part that they lie in

    @classmethod
    def from_stored(cls, column: str, names: Sequence[str], ends: Sequence[float], codes: Sequence[float] = ()) -> Self:
        """Read what a check saved; older files lack the outer ends of a range, which follow from its names."""
        if ends and len(ends) < len(names) - len(codes):
            ends = [float(names[0].split(" to ")[0]), *ends, float(names[-1].split(" to ")[1])]
        return cls(column, tuple(names), tuple(ends), tuple(codes))


def column_histograms(facts: Mapping[str, Range | Levels | None]) -> tuple[ColumnHistogram, ...]:
    """The columns to count, from public facts: those of few levels, and ranges of more than a few codes."""
    histograms = []
    for name, fact in facts.items():
        if isinstance(fact, Levels) and 2 <= len(fact.values) <= MOST_LEVELS:
            histograms.append(ColumnHistogram(name, tuple(map(str, fact.values)), ()))
        elif isinstance(fact, Range) and not _few_codes(fact):
            ends = np.linspace(*fact.interval, PARTS + 1)
            parts = [f"{low:.4g} to {high:.4g}" for low, high in pairwise(ends)]
            codes = [f"exactly {code:g}" for code in fact.missing_codes]
            histograms.append(ColumnHistogram(name, (*parts, *codes), tuple(ends.tolist()), fact.missing_codes))
    return tuple(histograms)


def _few_codes(fact: Range) -> bool:
    """Whether a range is that of a few whole numbers, such as bool."""
    low, high = fact.interval
    return all(float(end).is_integer() for end in (low, high)) and high - low < PARTS


def steps_per_place(places: Sequence[ColumnHistogram], steps: int) -> int:
    """The steps that a row without a fault, and without a code, adds to each of its places."""
    return int(PLACE_SHARE * steps) // len(places) if places else 0


def code_flags(table: Table, places: Sequence[ColumnHistogram]) -> NDArray[np.bool_]:
    """Which rows have which code, shape (r, codes of all places)."""
    coded = [table.column(place.column).numbers() == code for place in places for code in place.codes]
    return np.column_stack(coded) if coded else np.zeros((table.rows, 0), dtype=np.bool_)


def count_places(
    table: Table,
    counted: NDArray[np.bool_],
    places: Sequence[ColumnHistogram],
    facts: Mapping[str, Range | Levels | None],
) -> NDArray[np.int64]:
    """How many of the rows marked `counted`, shape (r,), which have no code, lie at each place, shape (places,)."""
    counts = []
    for place in places:
        cells, fact = table.column(place.column), facts[place.column]
        if isinstance(fact, Levels):
            codes = np.asarray(cells.codes(fact.code_of()))
        else:
            codes = np.searchsorted(np.array(place.ends[1:-1]), cells.numbers(), side="right")
        counts.append(np.bincount(codes[counted], minlength=len(place.names)))
    return np.concatenate(counts).astype(np.int64) if counts else np.zeros(0, dtype=np.int64)


def is_code(places: Sequence[ColumnHistogram]) -> NDArray[np.bool_]:
    """Which of all places are codes, shape (places,)."""
    return np.array(
        [at >= len(one.names) - len(one.codes) for one in places for at in range(len(one.names))], dtype=bool
    )


def parts_near(place: ColumnHistogram, code: float) -> slice:
    """The part of a range that a code lies in and those next to it: at an end there are two, elsewhere three."""
    part = part_of(place, code)
    return slice(max(part - 1, 0), min(part + 2, PARTS))


def part_of(place: ColumnHistogram, code: float) -> int:
    """The part of a range that a code lies in."""
    return int(np.searchsorted(place.ends[1:-1], code, side="right"))


def _error(count: float, least: float, std_err: float, share: float) -> float:
    """Standard deviation of the difference of a share of a count and of a smaller one, by noise and by chance."""
    return math.sqrt(share**2 * (std_err**2 + max(count, 0.0)) + std_err**2 + max(least, 0.0))


def heap_beyond(counts: NDArray[np.float64], near: range, std_err: float, certain: float) -> int | None:
    """The part of a range that has far more rows than some part between it and those `near`."""
    for step, first, end in ((1, near.stop, PARTS), (-1, near.start - 1, -1)):
        least = max(float(counts[first - step]), 0.0)
        for part in range(first, end, step):
            count = float(counts[part])
            shown = count - least > certain * _error(count, least, std_err, 1.0)
            if shown and least <= CERTAINLY_FEWER * count:  # in a long tail counts differ a little
                return part
            least = min(least, max(count, 0.0))
    return None


def heaps_by_noise(deviations: float, columns: int) -> float:
    """At most the probability that Laplace noise gives one of the ranges of so many columns a heap by itself.

    A heap is a part that has so many standard deviations of the noise in a count more than a part before it. Of two
    parts with equally many rows the counts differ by two terms of noise, which more often do so than one.
    """
    scaled = math.sqrt(2) * deviations
    pairs = (PARTS - 1) * (PARTS - 2) // 2
    return columns * pairs * (1 + scaled / 2) * math.exp(-scaled) / 2


def parts_apart(counts: NDArray[np.float64], std_err: float, certain: float) -> list[range]:
    """The parts of a range that have rows beyond a gap, together a small share, from noisy counts by part.

    A gap is a part that hardly any row lies in, and fuller ones lie on both sides; `certain` is the number of standard
    deviations from which on that counts as shown, of which that of the noise is `std_err`.
    """

    def is_gap(own: float, beside: float) -> bool:
        shown = certain * _error(beside, own, std_err, CERTAINLY_FEWER)
        return own <= EMPTY * beside + std_err / 2 and CERTAINLY_FEWER * beside - own >= shown

    sides = [min(counts[:part].max(), counts[part + 1 :].max()) for part in range(1, PARTS - 1)]
    gaps = [part for part, beside in enumerate(sides, start=1) if is_gap(float(counts[part]), float(beside))]
    groups = [range(first + 1, last) for first, last in pairwise([-1, *gaps, PARTS]) if last > first + 1]
    most = max(groups, key=lambda group: float(counts[group].sum()))
    if counts[most].sum() < (1 - MOST_APART) * counts.sum():
        return []
    others = [group for group in groups if group is not most and is_gap(0.0, float(counts[group].max()))]
    full = [[part for part in group if counts[part] >= certain * std_err] for group in others]
    return [range(parts[0], parts[-1] + 1) for parts in full]
