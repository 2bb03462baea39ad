"""Piecewise exponential survival: the loss of a person's time at risk, piece by piece, up to a cap on the hazard."""

from __future__ import annotations

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
    """The loss of pieces of a person's time at risk, whose weights are their lengths, and of the event that ends it.

    A piece, of response 0, has the loss w exp(eta) up to the cap, and from there on a line; an event, of response 1 and
    weight 1, has -eta. The bounds are those of a person, of all pieces together (docs/proofs/survival, 3).

    Parameters
    ----------
    ends : tuple of float
        Ends of the intervals as shares of the time observed at most, increasing, the last 1. A person has no more
        weight in an interval than its length.
    most : float
        The cap on exp(eta): the greatest hazard times the time observed at most.

    Raises
    ------
    ArgumentError
        If a cap is not a positive number, or the ends are not increasing up to 1.
    """

    ends: tuple[float, ...] = (1.0,)
    most: float = 3.0

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
        """Time at risk throughout at the cap."""
        return self.most

    def curve(self, size: int = 1000) -> LossCurve:
        """A person without event has l' = l'' up to `most`; an event takes one from l' or adds to it."""
        return _curve(self.ends, self.most, size)

    def corners(self, size: int = 512) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
        """Cells that hold a person's |l'| and l'', and 1 where there is an event, shapes (cells,).

        Without one |l'| = l'' is at most `most`. After x before the interval of the event and y in it, |l'| is
        x + |1 - y| and l'' is x + y: both are greatest at the greatest x.
        """
        found = [(np.array([self.most]), np.array([self.most]), np.zeros(1))]
        for start, end in pairwise((0.0, *self.ends)):
            before, within = self.most * start, self.most * (end - start)
            ends = np.linspace(0.0, within, size + 1)
            gradient = before + np.maximum(1 - ends[:-1], ends[1:] - 1)
            found.append((gradient * (1 + 1e-12), (before + ends[1:]) * (1 + 1e-12), np.ones(size)))
        gradient, curvature, event = (np.concatenate(parts) for parts in zip(*found, strict=True))
        return gradient, curvature, event

    def _block(self, eta: Array, endog: Array) -> tuple[Array, Array, Array]:
        dtype = eta.dtype.type
        most, event = dtype(self.most), endog == 1
        start = dtype(self.knot)
        # The cap is taken on the hazard, so that rounding of its logarithm does not enter l'.
        low = np.minimum(np.exp(np.minimum(eta, start)), most)
        value = low + most * np.maximum(eta - start, 0)
        slope, bend = np.where(event, dtype(-1), low), np.where(event | (low >= most), dtype(0), low)
        return np.where(event, -eta, value), slope, bend

    @property
    def knot(self) -> float:
        """Where exp(eta) has reached the cap: its logarithm, rounded up."""
        log_cap = float(np.log(self.most))
        return log_cap + 1e-15 * (1 + abs(log_cap))

    def mean(self, eta: Array) -> Array:
        """exp(eta) up to the cap: events expected over the whole time."""
        return np.minimum(np.exp(np.minimum(eta, self.knot)), eta.dtype.type(self.most))

    def clip_response(self, endog: Array) -> Array:
        """0 for a piece, 1 for an event; nothing else is made of rows."""
        return np.where(np.isnan(endog), endog, np.asarray(endog == 1, dtype=np.asarray(endog).dtype))


@lru_cache(maxsize=16)
def _curve(ends: tuple[float, ...], most: float, size: int) -> LossCurve:
    """See `PiecewiseExponential.curve`: pairs of a person's |l'| and l'', by the interval of the event."""
    lipschitz = max(most, most * (0.0, *ends)[-2] + 1)
    if lipschitz <= most:
        return LossCurve(np.array([most]), np.array([most]))
    # Beyond `most` an event in an interval, after x and a further y <= 1: l' = x + 1 - y, l'' <= x + y.
    edges = np.linspace(most, lipschitz, max(size, 2))
    found = np.zeros(len(edges) - 1)
    for start, end in pairwise((0.0, *ends)):
        before, within = most * start, min(1.0, most * (end - start))
        reached = edges[:-1] <= before + 1
        found = np.maximum(found, np.where(reached, np.minimum(before + within, 2 * before + 1 - edges[:-1]), 0.0))
    return LossCurve(edges, np.concatenate(([most], np.minimum(found * (1 + 1e-12), most))))
