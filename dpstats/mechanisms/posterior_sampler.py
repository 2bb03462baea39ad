"""Draws from a density exp(-c J): on a public lattice, by rejection, or by a Markov chain (docs/proofs/posterior)."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import lru_cache, partial

import numpy as np
from numpy.typing import NDArray
from scipy import special

from dpstats.data import Block, Rows
from dpstats.families import Family
from dpstats.privacy.randomness import RandomSource, folded_uniforms
from dpstats.solvers.linear_algebra import chunks

Vector = NDArray[np.float64]
Matrix = NDArray[np.float64]

UNIT = 2.0**-20
"""Losses on a lattice of points are counted in this unit."""

MOST_SUM = 2**62
"""Sums of all rows' parts of a score are to stay below it in size, and the public part below half of it: together they
fit 64 bits. A sum that does not turns round, and one row more decides the draw."""

STEPS = 2**15
"""Steps of a table of losses on either side of zero."""

CELLS = 2**17
"""Losses worked out at once: points times rows."""

LONGEST_PIECE = 8192
"""Rows whose losses are added before their sum is."""

CHAIN = 3000
"""Steps of the Markov chain."""


def lattice_points(semi_axes: Vector, across: int) -> Matrix:
    """Points of a lattice within the ellipsoid sum_j (theta_j / a_j)^2 <= 1, an odd number `across` each axis, (points,
    p).
    """
    line = np.linspace(-1.0, 1.0, across)
    grid = np.stack(np.meshgrid(*([line] * len(semi_axes)), indexing="ij"), axis=-1).reshape(-1, len(semi_axes))
    return np.asarray(grid[np.sum(grid**2, axis=1) <= 1.0] * semi_axes)


@dataclass(frozen=True, eq=False)
class LossTable:
    """A family's loss less its value at zero, in integers, at linear predictors rounded to a grid."""

    # In units of `UNIT`; a line for each response 0 and 1, or one, of residuals, shape (k, 2 t + 1).
    values: NDArray[np.int64]
    step: float  # of the grid
    span: int  # the most that one row's part of the score varies

    @property
    def rows(self) -> float:
        """How many rows' parts add up to no more than `MOST_SUM`, whatever they are."""
        return MOST_SUM / max(1, int(self.values.max()) - int(self.values.min()))

    @classmethod
    @lru_cache(maxsize=4)
    def of(cls, family: Family, reach: float) -> LossTable:
        """The table for |eta| <= reach, and |y| <= 1 where the response is continuous."""
        widest = reach if family.signed else reach + 1.0
        grid = np.linspace(-widest, widest, 2 * STEPS + 1)
        lines = []
        for response in (0.0, 1.0) if family.signed else (0.0,):
            losses = family.derivatives(grid, np.full(len(grid), response)).value
            lines.append(np.rint((losses - losses[STEPS]) / UNIT).astype(np.int64))
        values = np.stack(lines)
        values.setflags(write=False)
        if family.signed:
            span = int(np.max(values.max(axis=1) - values.min(axis=1)))
        else:
            span = 2 * math.ceil(family.lipschitz * reach / UNIT)
        return cls(values, widest / STEPS, span)

    def scores(self, points: Matrix, exog: Matrix, endog: Vector) -> NDArray[np.int64]:
        """What each row adds to the score of each point, shape (points, rows)."""
        if len(self.values) == 2:
            flat = self.values.ravel()
            line = (endog >= 0.5).astype(np.int64) * self.values.shape[1]
            return np.take(flat, self._places(points, exog, np.zeros(len(endog))) + line)
        response = np.clip(endog, -1.0, 1.0)
        at_zero = np.take(self.values[0], self._places(points[:1], np.zeros_like(exog), response))
        rise = np.take(self.values[0], self._places(points, exog, response)) - at_zero
        return np.clip(rise, -self.span // 2, self.span // 2)

    def _places(self, points: Matrix, exog: Matrix, response: Vector) -> NDArray[np.int64]:
        """Where x'theta - y is in the table, shape (points, rows): by elementwise operations alone."""
        eta = np.broadcast_to(STEPS - response / self.step, (len(points), len(response))).copy()
        for column, at in enumerate((points / self.step).T):
            eta += at[:, None] * exog[None, :, column]
        np.rint(eta, out=eta)
        np.clip(eta, 0, 2 * STEPS, out=eta)
        return eta.astype(np.int64)


def lattice_scores(table: LossTable, rows: Rows[Block], points: Matrix) -> NDArray[np.int64]:
    """The sum of all rows' parts at each point, shape (points,): integers, exactly added."""
    return rows.total(partial(_lattice_scores, table, points), operator.add)


def _lattice_scores(table: LossTable, points: Matrix, blocks: Iterable[Block]) -> NDArray[np.int64]:
    total = np.zeros(len(points), dtype=np.int64)
    for block in _pieces(blocks, len(points)):
        scores = table.scores(points, block.exog, block.endog)
        if block.weights is not None:
            scores = np.rint(scores * np.clip(block.weights, 0.0, 1.0)).astype(np.int64)
        total += np.sum(scores, axis=1)
    return total


def loss_sums(family: Family, rows: Rows[Block], points: Matrix) -> NDArray[np.floating]:
    """The sum of losses at each point, shape (points,), added in extended precision where the machine has it."""
    high, low = rows.total(partial(_loss_sums, family, points), _compensated)
    return np.asarray(high + low)


def _compensated(one: NDArray[np.floating], two: NDArray[np.floating]) -> NDArray[np.floating]:
    """The sum of two sums and their errors, each of shape (2, points), as such a pair."""
    high = one[0] + two[0]
    moved = high - one[0]
    error = (one[0] - (high - moved)) + (two[0] - moved)
    return np.stack([high, one[1] + two[1] + error])


def _loss_sums(family: Family, points: Matrix, blocks: Iterable[Block]) -> NDArray[np.floating]:
    total = np.zeros((2, len(points)), dtype=np.longdouble)
    for block in _pieces(blocks, len(points)):
        eta = points @ block.exog.T
        endog = np.broadcast_to(_bounded(family, block.endog), eta.shape)
        losses = family.derivatives(eta.ravel(), endog.ravel()).value.reshape(eta.shape)
        if block.weights is not None:
            losses = losses * block.weights
        part = np.sum(losses, axis=1, dtype=np.longdouble)
        total = _compensated(total, np.stack([part, np.zeros_like(part)]))
    return total


def bounded_responses(family: Family, rows: Rows[Block]) -> Rows[Block]:
    """The rows with continuous responses clipped to [-1, 1], as formulas scale them."""
    return rows.map(partial(_with_bounded, family))


def _with_bounded(family: Family, block: Block) -> Block:
    return block._replace(endog=_bounded(family, block.endog))


def _bounded(family: Family, endog: NDArray[np.floating]) -> NDArray[np.floating]:
    return endog if family.signed else np.clip(endog, -1.0, 1.0)


def _pieces(blocks: Iterable[Block], points: int) -> Iterable[Block]:
    """The blocks in double precision, in pieces of so many rows that losses at all points fit the cache."""
    for block in chunks(blocks, LONGEST_PIECE):
        most = max(1, CELLS // points)
        for start in range(0, len(block.endog), most):
            yield block.part(slice(start, start + most)).doubles()


def by_rejection(
    height: Callable[[Matrix], Vector], propose: Callable[[], Vector], random: RandomSource, batch: int = 32
) -> Vector:
    """The first proposal that is accepted with probability exp(-height), shape (p,); `batch` of them are looked at
    together.

    `height` gives, for points of shape (k, p), how much lower the log-density is than the proposals', at least 0 up to
    rounding, shape (k,).
    """
    while True:
        points = np.stack([propose() for _ in range(batch)])
        tail, upper = folded_uniforms(random, batch)
        exponential = -np.where(upper, np.log1p(-tail), np.log(tail))
        accepted = np.flatnonzero(exponential >= height(points))
        if len(accepted):
            return np.asarray(points[accepted[0]], dtype=np.float64)


def by_chain(
    potential: Callable[[Vector], float], start: Vector, covariance: Matrix, random: RandomSource, steps: int = CHAIN
) -> Vector:
    """The last state of a random walk that leaves exp(-potential) unchanged, shape (p,); how near it is, is unknown.

    `potential` is infinite where the density vanishes; `covariance` (p, p) is about that of the density.
    """
    root = np.linalg.cholesky(covariance) * (2.38 / math.sqrt(len(start)))
    at, height = start, potential(start)
    for _ in range(steps):
        tail, upper = folded_uniforms(random, len(start))
        proposal = at + root @ (np.where(upper, -1.0, 1.0) * special.ndtri(tail))
        new_height = potential(proposal)
        if math.log(max(float(random.random(1)[0]), 1e-300)) <= height - new_height:
            at, height = proposal, new_height
    return at
