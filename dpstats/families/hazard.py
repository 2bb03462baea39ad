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


@dataclass(frozen=True)
class PiecewiseExponential(Family):
    """The loss of a person's time at risk in an interval, and of the event that ends it, until the hazard has added up.

    A row is weighted by the interval's length, and eta has the logarithm of the part of it that the person was at risk.
    A piece, of response 0, has the loss exp(eta) up to the cap, and from there on a line; an event, of response 1 and
    weight 1, has -eta up to the cap, and is flat from there on: it came after the observation had been stopped. The
    bounds are those of a person, of all pieces together (docs/proofs/survival, 3).

    Parameters
    ----------
    ends : tuple of float
        Ends of the intervals as shares of the time observed at most, increasing, the last 1. A person has no more
        weight in an interval than its length.
    most : float
        The cap on exp(eta). A person is followed in an interval until its hazard adds up to `most` times the length.

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
        """Time at risk throughout at the cap, and an event on the ramp."""
        return self.most + 1

    def curve(self, size: int = 1000) -> LossCurve:
        """The greatest l'' of a person by |l'|: the cells of `corners`."""
        return _curve(self, size)

    def corners(self, size: int = 512) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
        """Cells that hold a person's |l'| and l'', and how much an event there counts, shapes (cells,).

        Without an event |l'| = l'' is at most `most`. After x before the interval of the event and y in it, |l'| is
        x + |y - c| for an event that counts c. l'' is at most x + y up to the cap and x beyond it, and 1 more on the
        ramp. All are greatest at the greatest x, and c falls as y rises.
        """
        found = [(np.array([self.most]), np.array([self.most]), np.zeros(1))]
        # Shares of the cap, up to the ramp and on it. A cell beside a bend of a loss has l'' of both of its sides.
        steps = size // 2
        ramp = np.linspace(-0.5, 0.5, steps + 1)
        share = np.concatenate([math.exp(-0.5) * np.arange(steps) / steps, np.exp(ramp)])
        counts = np.concatenate([np.ones(steps), 0.5 - ramp])
        on_ramp, bends = np.arange(2 * steps) >= steps - 1, share[:-1] <= math.exp(1 / steps)
        share = np.minimum(share, 1.0)
        for start, end in pairwise((0.0, *self.ends)):
            before, within = self.most * start, self.most * (end - start) * share
            gradient = before + np.maximum(counts[:-1] - within[:-1], within[1:] - counts[1:])
            curvature = before + np.where(bends, within[1:], 0.0) + on_ramp
            found.append((gradient * (1 + 1e-12), curvature * (1 + 1e-12), counts[:-1]))
        gradient, curvature, event = (np.concatenate(parts) for parts in zip(*found, strict=True))
        return np.minimum(gradient, self.lipschitz), np.minimum(curvature, self.curvature_bound), event

    def event_counts(self, eta: Array, endog: Array) -> Array:
        """How much an event counts: 1, and from 1 to 0 on the ramp; 0 for a piece. Shape (rows,)."""
        return np.where(endog == 1, 1 - np.clip(eta - eta.dtype.type(self.ramp_start), 0, 1), 0)

    def _block(self, eta: Array, endog: Array) -> tuple[Array, Array, Array]:
        dtype = eta.dtype.type
        most, event = dtype(self.most), endog == 1
        knot, start = dtype(self.knot), dtype(self.ramp_start)
        # The cap is taken on the hazard, so that rounding of its logarithm does not enter l'.
        low = np.minimum(np.exp(np.minimum(eta, knot)), most)
        value = low + most * np.maximum(eta - knot, 0)
        past = np.clip(eta - start, 0, 1)
        bend = np.where(event, (past > 0) & (past < 1), np.where(low >= most, dtype(0), low))
        event_value = past * past / 2 - past - np.minimum(eta, start)
        return np.where(event, event_value, value), np.where(event, past - 1, low), bend

    @property
    def knot(self) -> float:
        """Where exp(eta) has reached the cap: its logarithm, rounded up."""
        log_cap = float(np.log(self.most))
        return log_cap + 1e-15 * (1 + abs(log_cap))

    @property
    def ramp_start(self) -> float:
        """From where on an event counts less: half a unit of eta before the cap, and nothing half a unit beyond it."""
        return float(np.log(self.most)) - 0.5

    def mean(self, eta: Array) -> Array:
        """exp(eta) up to the cap: events expected over the whole time."""
        return np.minimum(np.exp(np.minimum(eta, self.knot)), eta.dtype.type(self.most))

    def clip_response(self, endog: Array) -> Array:
        """0 for a piece, 1 for an event; nothing else is made of rows."""
        return np.where(np.isnan(endog), endog, np.asarray(endog == 1, dtype=np.asarray(endog).dtype))


@lru_cache(maxsize=16)
def _curve(family: PiecewiseExponential, size: int) -> LossCurve:
    """See `PiecewiseExponential.curve`: of the corners those that no other exceeds in both."""
    gradient, curvature, _ = family.corners(size)
    order = np.lexsort((curvature, gradient))[::-1]
    highest = np.maximum.accumulate(curvature[order])
    outer = np.concatenate(([True], highest[1:] > highest[:-1]))
    return LossCurve(gradient[order][outer][::-1].copy(), highest[outer][::-1].copy())
