"""Sums of squares and products within groups, whose names nobody declares, on exact integers (docs/proofs/absorbed)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dpstats.cached import cached_property
from dpstats.data import Block
from dpstats.data.persons import NOBODY, Ids, OwnedRows
from dpstats.privacy.information.exact_sums import PLACES, row_parts
from dpstats.privacy.randomness import RandomSource, noisy_integers

Float = NDArray[np.float64]
Integers = NDArray[np.int64]
Exact = NDArray[np.object_]

NUMBER, LEVELS = 2.0, 1.0
"""Weights in the metric, of a number and of the columns of a factor, as `dpstats.privacy.information.matrix` has."""

MOST_PAIRED = 1024
"""Levels of which every pair is compared; of more, twice the longest counts."""

MOST_MACHINE = 1024
"""Groups of so many rows or fewer take 64-bit integers: twice the squares of their sums are below 2^62."""

MOST_WEIGHED = 2**22
"""Rows of a group that is the record: sums of its squares are at most 2^62. A larger one is left out."""

PARTS, MOST_PARTS = 2**30, 2**62
"""Of the bound of a group's squared scores: sums are whole numbers of them, and held at so many."""


class BoundedRows(NamedTuple):
    """The body of the integers: half the range of each number and of the response, and the points of each factor."""

    caps: tuple[int, ...]
    tables: tuple[Float, ...]
    unit: float  # a number's lattice has 2^20 unit sqrt(NUMBER) points from the middle of its range to an end
    response: int


@dataclass(frozen=True, eq=False)
class WithinLattice:
    """Public integers w = (z, y), in units of 2^-20, that stand for the rows of a design.

    Differences of two rows, or with `whole` groups rows themselves, have |z| <= 1 and |y| <= 1 exactly.
    """

    numbers: NDArray[np.intp]  # (k,): which of a packed block's numbers are columns
    middles: Float  # (k,), of their ranges in model units
    halves: Float  # (k,), half of these
    tables: tuple[Float, ...]  # by factor the columns of its levels, (levels, columns), whitened and of mean 0
    response: tuple[float, float]  # middle and half of the response's range in model units
    whole: bool  # whether a group is the record, and is weighed as a whole

    @property
    def size(self) -> int:
        """The columns and the response: the length of w."""
        return len(self.middles) + sum(table.shape[1] for table in self.tables) + 1

    @cached_property
    def bounded(self) -> BoundedRows:
        """The integers of the design, scaled until their body is within the bounds."""
        spread = 1 if self.whole else 4  # |2 t|^2 for the difference of two t in [-1, 1]
        squares = NUMBER * spread * len(self.middles) + sum(LEVELS * _reach(one, self.whole) for one in self.tables)
        unit = 1 / np.sqrt(max(squares, NUMBER))
        while True:
            cap = int(2.0**PLACES * unit * np.sqrt(NUMBER))
            tables = tuple(np.rint(one * (2.0**PLACES * unit * np.sqrt(LEVELS))) for one in self.tables)
            longest = spread * cap**2 * len(self.middles) + sum(int(_reach(one, self.whole)) for one in tables)
            if longest <= 4**PLACES:
                return BoundedRows(
                    (cap,) * len(self.middles), tables, unit, 2**PLACES if self.whole else 2**PLACES // 2
                )
            unit *= (1 - 1e-6) * np.sqrt(4.0**PLACES / longest)

    def integers(self, block: Block) -> Float:
        """w of the rows of a packed block, whole numbers of shape (size, rows); each step is elementwise."""
        body, out = self.bounded, np.empty((self.size, len(block.endog)))
        for place, number in enumerate(self.numbers):
            cells = np.asarray(block.exog[:, number], dtype=np.float64)
            out[place] = _on_lattice(cells, self.middles[place], self.halves[place], body.caps[place])
        start = len(self.numbers)
        for at, table in enumerate(body.tables):
            assert block.levels is not None
            out[start : start + table.shape[1]] = table.T[:, block.levels[:, at]]
            start += table.shape[1]
        out[-1] = _on_lattice(np.asarray(block.endog, dtype=np.float64), *self.response, body.response)
        return out


def _on_lattice(cells: Float, middle: float, half: float, cap: int) -> Float:
    """Whole numbers from -cap to cap, whatever the cells are."""
    return np.trunc(np.fmax(np.fmin((cells - middle) / half, 1.0), -1.0) * cap)


def _reach(points: Float, whole: bool) -> float:
    """The greatest squared length of points of mean 0, or of their differences; exact for integers below 2^26."""
    lengths = np.sum(points * points, axis=1)
    if whole or len(points) > MOST_PAIRED:
        return float(lengths.max()) * (1.0 if whole else 4.0)
    return float(np.max(lengths[:, None] + lengths[None, :] - 2 * points @ points.T))


class WithinSums(NamedTuple):
    """Sums over groups: private."""

    total: Exact  # (m, m), in units of 2^-40
    spare: int  # rows less groups
    groups: int  # those of two rows or more
    # With whole groups each one's own matrix, its upper triangle, (groups, m (m + 1) / 2); else no group's.
    matrices: Integers

    def plus(self, other: WithinSums) -> WithinSums:
        """Of the groups of both, which have none in common."""
        matrices = np.concatenate([self.matrices, other.matrices])
        return WithinSums(self.total + other.total, self.spare + other.spare, self.groups + other.groups, matrices)


class _Groups(NamedTuple):
    ids: Ids  # (groups, 2)
    sums: Integers  # (groups, c): rows, then the sums of w, then with whole groups those of the products


def within_sums(lattice: WithinLattice, parts: Iterable[OwnedRows[Block]]) -> WithinSums:
    """The scatter within groups, added up, of rows that hold their groups whole.

    sum w w' - s s' / n of a group of n rows, and with whole groups 1 / n of that: a rational number, rounded once a
    group to a whole one. All else is exact, in any order of the rows.
    """
    upper, size = np.triu_indices(lattice.size), lattice.size
    groups, products = _tally(lattice, parts)
    rows, sums = groups.sums[:, 0], groups.sums[:, 1 : 1 + size]
    if lattice.whole:
        weighed = rows <= MOST_WEIGHED
        groups, rows, sums = _Groups(groups.ids[weighed], groups.sums[weighed]), rows[weighed], sums[weighed]
    small = rows <= MOST_MACHINE
    matrices = np.zeros((len(rows) if lattice.whole else 0, len(upper[0])), dtype=np.int64)
    entries: list[int] = []
    for place, (i, j) in enumerate(zip(*upper, strict=True)):
        entry = 0
        for some, kind in ((small, np.int64), (~small, object)):
            n, one, other = (part[some].astype(kind) for part in (rows, sums[:, i], sums[:, j]))
            if lattice.whole:
                own = groups.sums[some, 1 + size + place].astype(kind)
                quotients = _nearest(n * own - one * other, n * n)
                matrices[some, place] = quotients
                entry += _exact_sum(quotients)
            else:
                entry -= _exact_sum(_nearest(one * other, n))
        entries.append(entry if lattice.whole else int(products[i, j]) + entry)
    total = np.zeros((size, size), dtype=object)
    total[upper] = entries
    total[upper[::-1]] = entries
    return WithinSums(total, _exact_sum(rows) - len(rows), int(np.sum(rows > 1)), matrices)


def _nearest(numerator: NDArray[np.generic], denominator: NDArray[np.generic]) -> NDArray[np.generic]:
    """The nearest whole number to each ratio, exactly, for positive denominators."""
    return (2 * numerator + denominator) // (2 * denominator)  # type: ignore[operator]


def _exact_sum(values: NDArray[np.generic]) -> int:
    """The sum as a Python integer, which no number of entries overflows."""
    if values.dtype == object:
        return int(sum(values.tolist()))
    whole = values.astype(np.int64)
    return (int((whole >> 20).sum()) << 20) + int((whole & (2**20 - 1)).sum())


def _tally(lattice: WithinLattice, parts: Iterable[OwnedRows[Block]]) -> tuple[_Groups, Exact]:
    """Sums by group, merged whenever as many wait as are merged already, and the products of all rows."""
    size, width = lattice.size, 1 + lattice.size
    width += size * (size + 1) // 2 if lattice.whole else 0
    done, products = _Groups(np.zeros((0, 2), np.uint64), np.zeros((0, width), np.int64)), np.zeros((size,) * 2, object)
    waiting, count = list[_Groups](), 0
    for part in parts:
        for rows in row_parts(len(part.ids), width):
            ids = part.ids[rows]
            known = ids[:, 0] != NOBODY
            cells = lattice.integers(part.cells.part(rows))[:, known]
            if not lattice.whole:  # at most 4096 rows: the doubles are exact
                products += np.dot(cells, cells.T).astype(np.int64)
            waiting.append(_grouped(ids[known], _columns(cells.astype(np.int64), lattice.whole)))
            count += len(waiting[-1].ids)
            if count >= len(done.ids):
                done, waiting, count = _merged([done, *waiting]), [], 0
    return _merged([done, *waiting]), products


def _columns(cells: Integers, whole: bool) -> Integers:
    """What is added up by group: 1, w and with whole groups the products, (c, rows)."""
    pairs = [cells[i] * cells[j] for i, j in zip(*np.triu_indices(len(cells)), strict=True)] if whole else []
    return np.vstack([np.ones((1, cells.shape[1]), np.int64), cells, *(pair[None] for pair in pairs)])


def _merged(parts: list[_Groups]) -> _Groups:
    ids, sums = np.concatenate([one.ids for one in parts]), np.concatenate([one.sums for one in parts])
    return _grouped(ids, sums.T)


def _grouped(ids: Ids, columns: Integers) -> _Groups:
    """Columns (c, rows) added up by identity."""
    order = np.lexsort((ids[:, 0], ids[:, 1]))
    ids = ids[order]
    starts = np.flatnonzero(np.concatenate([np.ones(min(1, len(ids)), bool), (ids[1:] != ids[:-1]).any(axis=1)]))
    if not len(starts):
        return _Groups(ids, np.zeros((0, len(columns)), np.int64))
    return _Groups(ids[starts], np.add.reduceat(columns[:, order], starts, axis=1).T)


def noisy_scores(
    matrices: Integers,
    contrasts: Float,
    residual: Float,
    bound: float,
    *,
    eps: float,
    records: int,
    random: RandomSource,
) -> Float:
    """sum over groups of (c'R u)^2 for the rows c of `contrasts` (k, m - 1), eps-private together, shape (k,).

    R is a group's matrix, u the public `residual` (m,). A group adds at most `bound` to the sum of all k; what is more
    is scaled down to it. Each step is elementwise, so that a group's share does not depend on the others.
    """
    size = len(residual)
    place = np.zeros((size, size), dtype=np.intp)
    place[np.triu_indices(size)] = place.T[np.triu_indices(size)] = np.arange(size * (size + 1) // 2)
    scores = [
        sum((matrices[:, place[i, j]] * (residual[j] * 4.0**-PLACES) for j in range(size)), np.zeros(len(matrices)))
        for i in range(size - 1)
    ]
    squares = np.zeros((len(contrasts), len(matrices)))
    for row, square in zip(contrasts, squares, strict=True):
        for weight, score in zip(row, scores, strict=True):
            square += weight * score
        square *= square
    whole = np.zeros(len(matrices))
    for square in squares:
        whole += square
    with np.errstate(all="ignore"):
        shares = np.floor(squares * (PARTS * (1 - 1e-9) / np.maximum(whole, bound)))
    shares = np.where(np.isfinite(shares), shares, 0.0).astype(np.int64)
    shares[:, shares.sum(axis=0) > PARTS] = 0  # rounding never gets there
    sums = np.array([min(_exact_sum(one), MOST_PARTS) for one in shares], dtype=np.int64)
    return np.asarray(noisy_integers(sums, records * PARTS, eps, random) * (bound / PARTS), dtype=np.float64)
