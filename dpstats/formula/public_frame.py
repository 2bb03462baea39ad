"""Rows made up from the Domain alone, on which transforms learn and bounds are measured."""

from __future__ import annotations

import ast
import itertools
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpstats.domain import Domain, Levels, Range, Scalar

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Codes:
    """An encoded categorical column: positions among its levels (-1 is missing), and the contrast asked for."""

    values: NDArray[np.intp]
    levels: tuple[Scalar, ...]
    contrast: Any = None


Encoded = Array | Codes


POINTS = (8191, 1009, 251, 61, 17)
"""Lattice sizes, all prime; the finest that keeps the frame below MOST_ROWS is taken, from 1009 on for one column."""

MOST_ROWS = 2**17
MOST_LEVEL_COMBINATIONS = 2**12
MOST_CORNER_COLUMNS = 10

SEED = 20_261_130
"""Of drawn rows, public: they are a function of formula and Domain."""


def public_frame(domain: Domain, columns: Sequence[str], *, faces: bool = False) -> dict[str, Encoded]:
    """Encoded columns, by name and all of one length, that fill the declared space.

    Numeric columns follow a rank-1 lattice: each is a permutation of the same uniform grid over its range, end points
    included, and together they fill the box, whose corners are added. Every combination of levels meets every numeric
    point (beyond `MOST_LEVEL_COMBINATIONS`, an even selection of combinations). `faces` adds lattice points on the
    faces and edges of the box, where products and interactions have their extremes: for bounds, not for learning means
    and quantiles.
    """
    ranges = {name: column for name in columns if isinstance(column := domain[name], Range)}
    levels = {name: column for name in columns if isinstance(column := domain[name], Levels)}
    combinations = _level_combinations([len(column.values) for column in levels.values()])
    unit = _unit_points(len(ranges), len(combinations), faces)
    numeric_rows = np.tile(np.arange(len(unit)), len(combinations))
    level_rows = np.repeat(np.arange(len(combinations)), len(unit))
    frame: dict[str, Encoded] = {}
    for position, (name, column) in enumerate(ranges.items()):
        # Written as a mean of the ends so that both are met exactly.
        at = unit[numeric_rows, position]
        frame[name] = np.clip(column.low * (1 - at) + column.high * at, column.low, column.high)
    for position, (name, factor) in enumerate(levels.items()):
        frame[name] = Codes(combinations[level_rows, position], factor.values)
    return frame


def end_rows(domain: Domain, columns: Sequence[str]) -> dict[str, Encoded]:
    """Two encoded rows: every range at its low and then its high end, every factor at its first level."""
    return {
        name: np.array([declared.low, declared.high], dtype=float)
        if isinstance(declared := domain[name], Range)
        else Codes(np.zeros(2, dtype=np.intp), declared.values)
        for name in columns
    }


def _level_combinations(sizes: Sequence[int]) -> NDArray[np.intp]:
    """Codes of the level combinations, shape (combinations, factors); one empty combination without factors."""
    total = int(np.prod(sizes, dtype=object))
    count = min(total, MOST_LEVEL_COMBINATIONS)
    picked = [round(i * (total - 1) / max(count - 1, 1)) for i in range(count)]
    codes = np.empty((count, len(sizes)), dtype=np.intp)
    for column in reversed(range(len(sizes))):
        codes[:, column] = [index % sizes[column] for index in picked]
        picked = [index // sizes[column] for index in picked]
    return codes


def _unit_points(columns: int, combinations: int, faces: bool) -> NDArray[np.float64]:
    """Points that fill the unit cube, shape (points, columns); a single empty point without columns."""
    if columns == 0:
        return np.empty((1, 0))
    sizes = POINTS[1:] if columns == 1 else POINTS
    size = next((size for size in sizes if size * combinations <= MOST_ROWS), sizes[-1])
    lattice = (np.arange(size)[:, None] * _steps(columns, size) % size) / (size - 1)
    if columns == 1:
        return lattice
    corner_values = (
        itertools.product((0.0, 1.0), repeat=columns)
        if columns <= MOST_CORNER_COLUMNS
        else [(end,) * columns for end in (0.0, 1.0)]
    )
    parts = [lattice, np.array(list(corner_values))]
    if faces:
        # Stretching the lattice and clipping it puts a quarter of the points of each column on either end.
        parts.append(np.clip(2 * lattice - 0.5, 0, 1))
    return np.concatenate(parts)


def _steps(columns: int, size: int) -> NDArray[np.intp]:
    """Multipliers of a rank-1 lattice, shape (columns,): 1, then powers of the generalised golden ratio.

    The golden ratio g, the root of g**columns = g + 1, spreads points most evenly (Roberts' sequence); a prime `size`
    makes every multiplier a permutation of the grid.
    """
    golden = 1.5
    for _ in range(60):
        golden = (1 + golden) ** (1 / max(columns, 2))
    return np.array([1, *(max(1, round(size * golden**-power)) for power in range(1, columns))], dtype=np.intp)


def drawn_rows(
    codes: Iterable[tuple[Sequence[str], str]], domain: Domain, count: int, random: np.random.Generator
) -> dict[str, Encoded]:
    """Independent values of the columns that parts of a formula read: even ones, whole ones, and those that it names.

    Also between any two that it names: where a curve has pieces, or a comparison turns. `codes` are the columns that
    each part reads, and its code.
    """
    drawn: dict[str, Encoded] = {}
    written = [(reads, set(_numbers_of(code))) for reads, code in codes]
    for name in dict.fromkeys(name for reads, _ in written for name in reads):
        declared = domain[name]
        if isinstance(declared, Levels):
            places = np.resize(np.arange(len(declared.values)), count)
            drawn[name] = Codes(random.permutation(places), declared.values)
            continue
        low, high = declared.low, declared.high
        share = random.random(count)
        values = low * (1 - share) + high * share
        named = {low, high}.union(*(numbers for reads, numbers in written if name in reads))
        marks = np.array(sorted(value for value in named if low <= value <= high))
        marks = np.concatenate([marks, (marks[1:] + marks[:-1]) / 2])
        values[: count // 4] = random.choice(marks, count // 4)
        if np.floor(high) >= np.ceil(low):
            some = slice(count // 4, count // 2)
            values[some] = np.clip(np.round(values[some]), np.ceil(low), np.floor(high))
        drawn[name] = random.permutation(values)
    return drawn


def _numbers_of(code: str) -> Iterator[float]:
    for node in ast.walk(ast.parse(code, mode="eval")):
        if isinstance(node, ast.Constant) and isinstance(node.value, (int, float)):
            yield from (float(node.value), -float(node.value))
