"""Piecewise exponential survival: the loss of a person's time at risk, piece by piece, until hazards have added up."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from typing import ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from dpstats.arguments import is_number, safe_repr
from dpstats.errors import ArgumentError
from dpstats.families.base import Array, Family, LossCurve, check_cap

MOST_STEPS = 256
"""Cells of a curve up to the ramp, and on it: with these scales are within a part in a hundred of the least."""


@dataclass(frozen=True)
class PiecewiseExponential(Family):
    """The loss of a person's time at risk in an interval, and of the event that ends it, until the hazard has added up.

    A row is weighted by the interval's length, and eta has the logarithm of the part of it that the person was at risk.
    An event, of response 1 and weight 1, counts 1 up to the start of the ramp, and on it less, down to nothing a unit
    of eta later: its slope is minus that. A piece, of response 0, has the integral of what an event would have counted
    over the hazard up to there as its slope: exp(eta) up to the ramp, `most` beyond it. The bounds are those of a
    person, of all pieces together (docs/proofs/survival, 3).

    Parameters
    ----------
    ends : tuple of float
        Ends of the intervals as shares of the time observed at most, increasing, the last 1. A person has no more
        weight in an interval than its length.
    most : float
        The cap on the slope of a piece: of the events that count of a person in an interval, over its length. Events
        count less once the hazard has added up to most / (e - 1) times the length, and not from e times that on.

    Raises
    ------
    ArgumentError
        If a cap is not a positive number, or the ends are not increasing up to 1.
    """

    ends: tuple[float, ...] = (1.0,)
    most: float = 2.0

    name: ClassVar[str] = "hazard"
    link: ClassVar[str] = "log"
    signed: ClassVar[bool] = False
    response: ClassVar[Literal["continuous", "binary", "count"]] = "count"

    def __post_init__(self) -> None:
        check_cap("most", self.most)
        ends = tuple(self.ends)
        if not all(map(is_number, ends)) or not ends or ends[-1] != 1 or not np.all(np.diff((0.0, *ends)) > 0):
            raise ArgumentError(f"ends must be increasing shares of the time, the last 1, got {safe_repr(self.ends)}")
        object.__setattr__(self, "ends", tuple(map(float, ends)))

    @property
    def target(self) -> str:
        """What is modelled."""
        return "the hazard"

    @property
    def pieced(self) -> bool:
        """Whether a person may have pieces in several directions: more than one interval."""
        return len(self.ends) > 1

    @property
    def lipschitz(self) -> float:
        """Time at risk throughout at the cap; or an event right after that, at the start of the last interval."""
        return max(self.most, self.most * (0.0, *self.ends)[-2] + 1)

    @property
    def curvature_bound(self) -> float:
        """Time at risk throughout where the ramp starts, and an event there."""
        return self.start + 1

    @property
    def start(self) -> float:
        """The hazard, summed up over the whole time, from which on an event counts less: until e times as much."""
        return self.most / math.expm1(1)

    def curve(self, size: int = 1000) -> LossCurve:
        """The greatest l'' of a person by |l'|: the cells of `corners`."""
        return _curve(self, size)

    def corners(self, size: int = 512) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
        """Cells that hold a person's |l'| and l'', and how much an event there counts, shapes (cells,).

        Without an event they are on the curve of a piece, of which sums of pieces are no more than means (its l'' is
        concave in l'). After x before the interval of the event and y in it, |l'| is x + |y - c| for an event that
        counts c; y rises as c falls. l'' is the sum of those of x and y, and 1 more on the ramp.
        """
        return _corners(self, size)

    def event_counts(self, eta: Array, endog: Array) -> Array:
        """How much an event counts: 1, and from 1 to 0 on the ramp; 0 for a piece. Shape (rows,)."""
        return np.where(endog == 1, 1 - np.clip(eta - eta.dtype.type(self.ramp_start), 0, 1), 0)

    def _block(self, eta: Array, endog: Array) -> tuple[Array, Array, Array]:
        dtype = eta.dtype.type
        most, event, start = dtype(self.most), endog == 1, dtype(self.ramp_start)
        past = np.clip(eta - start, 0, 1)
        low, grown, below = np.exp(np.minimum(eta, start)), np.exp(past), np.minimum(eta, start)
        # At the start of the ramp all factors are exactly 1, and so they are below it.
        value = low * ((3 - past) * grown - 2 - past) + most * np.maximum(eta - start - 1, 0)
        slope = np.minimum(low * ((2 - past) * grown - 1), most)
        bend = np.where(event, (past > 0) & (past < 1), low * ((1 - past) * grown))
        return np.where(event, past * past / 2 - past - below, value), np.where(event, past - 1, slope), bend

    @property
    def ramp_start(self) -> float:
        """From where on an event counts less, and nothing a unit of eta later: log(start), rounded down."""
        log_cap = float(np.log(self.most))
        return log_cap - math.log(math.expm1(1)) - 1e-15 * (1 + abs(log_cap))

    def mean(self, eta: Array) -> Array:
        """Events that are expected over the whole time, and count."""
        return self.slope(eta, np.zeros_like(eta))

    def clip_response(self, endog: Array) -> Array:
        """0 for a piece, 1 for an event; nothing else is made of rows."""
        return np.where(np.isnan(endog), endog, np.asarray(endog == 1, dtype=np.asarray(endog).dtype))


@lru_cache(maxsize=16)
def _corners(
    family: PiecewiseExponential, size: int
) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
    """See `PiecewiseExponential.corners`."""
    # From cell to cell slopes of pieces rise; their l'' rises up to the ramp, and falls on it.
    start, ends, steps = family.start, (0.0, *family.ends), min(size // 4, MOST_STEPS)
    below = start * (1 - (1 - np.arange(steps) / steps) ** 2)
    slopes, bends, past = _ramp(start, steps)
    within, counts = np.concatenate([below, slopes]), np.concatenate([np.ones(steps), 1 - past])
    own = np.concatenate([below[1:], [start], bends[:-1]])
    # At its start the ramp has l'' of both sides.
    own_ramp = np.arange(2 * steps) >= steps - 1
    # Sums before the event: those below the ramp are exceeded by its start in both.
    slopes_before, bends_before, _ = _ramp(start, max(4, min(steps // 4, 4 * steps // len(family.ends))))
    corners = [(slopes[1:], bends[:-1], np.zeros(steps))]
    for begin, end in pairwise(ends):
        length = end - begin
        gradient = np.maximum(counts[:-1] - length * within[:-1], length * within[1:] - counts[1:])
        parts = _outer(np.stack([gradient, length * own + own_ramp, counts[:-1]]))
        first = np.stack([slopes_before[1:], bends_before[:-1]]) * begin if begin > 0 else np.zeros((2, 1))
        sums = [np.add.outer(of, part).ravel() for of, part in zip(first, parts, strict=False)]
        corners.append((*sums, np.tile(parts[2], first.shape[1])))
    gradient, curvature, event = (np.concatenate(parts) for parts in zip(*corners, strict=True))
    rounded = 1 + 1e-12
    cells = (
        np.minimum(gradient * rounded, family.lipschitz),
        np.minimum(curvature * rounded, family.curvature_bound),
        event,
    )
    for part in cells:
        part.flags.writeable = False
    return cells


def _ramp(start: float, steps: int) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
    """l' and l'' of a piece of the whole time on the ramp, and how far on it they are, shapes (steps + 1,)."""
    past = np.linspace(0.0, 1.0, steps + 1)
    return start * ((2 - past) * np.exp(past) - 1), start * (1 - past) * np.exp(past), past


def _outer(cells: NDArray[np.float64]) -> NDArray[np.float64]:
    """Of cells, shape (3, cells), those that no other exceeds in all; of equal ones the first."""
    exceeds = np.all(cells[:, :, None] >= cells[:, None, :], axis=0)
    equal, order = exceeds & exceeds.T, np.arange(cells.shape[1])
    beaten = exceeds & (~equal | (order[:, None] < order[None, :]))
    return cells[:, ~beaten.any(axis=0)]


@lru_cache(maxsize=16)
def _curve(family: PiecewiseExponential, size: int) -> LossCurve:
    """See `PiecewiseExponential.curve`: of the corners those that no other exceeds in both."""
    gradient, curvature, _ = family.corners(size)
    order = np.lexsort((curvature, gradient))[::-1]
    highest = np.maximum.accumulate(curvature[order])
    outer = np.concatenate(([True], highest[1:] > highest[:-1]))
    return LossCurve(gradient[order][outer][::-1].copy(), highest[outer][::-1].copy())
