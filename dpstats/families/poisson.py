"""Poisson regression with a log link up to a cap on the mean."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, ClassVar, Literal, NamedTuple

import numpy as np

from dpstats.arguments import safe_repr
from dpstats.errors import ArgumentError
from dpstats.families.base import Array, Family, LossCurve, check_cap, closed_cap, declared_range, one_cell

CAP_SHARE = 2 / 3
"""The default cap on the mean as a share of y_max (docs/defaults)."""


class _Curve(NamedTuple):
    """The mean at some predictors, in pieces, each of shape (rows,) or one number."""

    near: Array  # the predictor up to the first knot
    low: Array  # exp of it, at most the cap
    line: Array  # how far the mean is on the line beyond the first knot
    beyond: Array  # how far the predictor is beyond the second
    fallen: Array  # what is left of the last piece, less 1
    cap: Any
    most: Any
    rest: Any  # what the line leaves of y_max, approached exponentially; nothing if the cap is not below y_max

    @property
    def mean(self) -> Array:
        if self.rest == 0:
            return self.low
        return np.asarray(np.minimum(self.low + self.cap * self.line - self.rest * self.fallen, self.most))

    @property
    def weight(self) -> Array:
        """l''."""
        if self.rest == 0:
            return self.low * (self.low < self.cap)
        return np.where(self.low < self.cap, self.low, self.cap * (1 + self.fallen))


@dataclass(frozen=True)
class Poisson(Family):
    """Negative log-likelihood exp(eta) - y eta of a count while exp(eta) <= mean_cap; beyond, the mean nears y_max.

    The constant log(y!) is left out (docs/proofs/families).

    Parameters
    ----------
    mean_cap : float, optional
        The greatest mean with a log link. Beyond it the mean rises as a line and then more and more slowly towards
        y_max, so l'' vanishes where |l'| is extreme; this halves the noise at best. By default two thirds of y_max
        (docs/defaults). At y_max or more, the mean stays at y_max and the loss is linear beyond it.
    y_max : float, optional
        Responses are clipped to [0, y_max]. By default the upper end of the response's range; a fit of a formula
        without caps buys a lower one within the range (docs/proofs/purchases).

    Raises
    ------
    ArgumentError
        If a cap is not a finite positive number.

    Examples
    --------
    >>> import dpstats as dp
    >>> domain = {"x": (0, 1), "visits": (0, 50)}
    >>> dp.plan("visits ~ x", domain, 1.0, family=dp.families.Poisson(y_max=20)).family.lipschitz
    20.0
    """

    mean_cap: float | None = None
    y_max: float | None = None

    name: ClassVar[str] = "poisson"
    link: ClassVar[str] = "log"
    signed: ClassVar[bool] = False
    response: ClassVar[Literal["continuous", "binary", "count"]] = "count"

    def __post_init__(self) -> None:
        for name in ("mean_cap", "y_max"):
            if getattr(self, name) is not None:
                check_cap(name, getattr(self, name))

    @property
    def _caps(self) -> tuple[float, float]:
        return closed_cap("mean_cap", self.mean_cap), closed_cap("y_max", self.y_max)

    @property
    def lipschitz(self) -> float:
        """max(mean_cap, y_max): the gradient is the fitted mean minus the response."""
        return max(self._caps)

    @property
    def curvature_bound(self) -> float:
        """mean_cap: l'' is the fitted mean, or less."""
        return self._caps[0]

    def curve(self, size: int = 1000) -> LossCurve:
        """One cell when mean_cap >= y_max; otherwise l'' falls to 0 where gradients get extreme."""
        cap, y_max = self._caps
        if cap >= y_max:
            return one_cell(cap, cap)
        # y - mean = a leaves mean <= y_max - a, and mean - y = a leaves mean >= a: l'' is small in both.
        return _curve(cap, y_max, self.steepness, size)

    @property
    def steepness(self) -> float:
        """l'' is at most this times what the mean leaves of y_max, where mean_cap < mean < y_max."""
        cap, y_max = self._caps
        return max(1.0, cap / (y_max - cap))

    def knots(self) -> tuple[float, float]:
        """Where the mean leaves exp(eta), and how far it then rises as a line: the loss is defined by these floats.

        The former is the logarithm of the cap, rounded up: in between the mean is the cap. The latter is rounded down.

        Examples
        --------
        >>> low, high = Poisson(4.0, 20.0).knots()
        >>> low < high
        True
        """
        cap, y_max = self._caps
        log_cap = math.log(cap)
        return log_cap + 1e-15 * (1 + abs(log_cap)), min(max(y_max / cap * (1 - 1e-15) - 2, 0.0), 1e300)

    def _curve_at(self, eta: Array) -> _Curve:
        dtype = eta.dtype.type
        cap, most = dtype(self.curvature_bound), dtype(self.lipschitz)
        start, width = (dtype(knot) for knot in self.knots())
        rest = np.maximum(most - cap - cap * width, 0)
        near = np.minimum(eta, start)
        # The cap is taken on the mean, so that rounding of its logarithm does not enter l'.
        low = np.minimum(np.exp(near), cap)
        line = np.minimum(np.maximum(eta - start, 0), width)
        beyond = np.maximum(eta - start - width, 0)
        fallen = np.expm1(-cap / rest * beyond) if rest > 0 and beyond.any() else np.zeros_like(eta)
        return _Curve(near, low, line, beyond, fallen, cap, most, rest)

    def _block(self, eta: Array, endog: Array) -> tuple[Array, Array, Array]:
        curve = self._curve_at(eta)
        near, low, line, beyond, fallen, cap, most, rest = curve
        # y eta is split at the knots, so that two infinities never meet.
        value = low - endog * near + line * (cap + cap * line / 2 - endog) + (most - endog) * beyond
        return value + rest / cap * rest * fallen, curve.mean - endog, curve.weight

    def slope(self, eta: Array, endog: Array) -> Array:
        """l' alone, without the loss."""
        with np.errstate(over="ignore"):
            return self._curve_at(eta).mean - endog

    def weight(self, eta: Array, endog: Array) -> Array:
        """l'' alone, without the loss."""
        with np.errstate(over="ignore"):
            return self._curve_at(eta).weight

    def mean(self, eta: Array) -> Array:
        """exp(eta) up to mean_cap; then rising on, ever more slowly, to y_max."""
        finite = np.clip(eta, -1e300, 1e300)
        return self.slope(finite, np.zeros_like(finite))

    def predictor(self, mean: float) -> float:
        """The eta of a mean below max(mean_cap, y_max): the inverse of `mean`.

        Examples
        --------
        >>> round(Poisson(4.0, 20.0).predictor(2.0), 3)
        0.693
        """
        cap, most = self.curvature_bound, self.lipschitz
        start, width = self.knots()
        if mean <= cap:
            return math.log(mean)
        if mean <= cap * (1 + width):
            return start + mean / cap - 1
        rest = most - cap - cap * width
        return start + width - rest / cap * math.log((most - mean) / rest)

    def clip_response(self, endog: Array) -> Array:
        """Clip to [0, y_max]."""
        return np.clip(endog, 0, self._caps[1])

    def resolve(self, response_range: tuple[float, float] | None) -> Poisson:
        """Set open caps from the upper end of the response's range."""
        y_max = self.y_max
        if y_max is None:
            y_max = declared_range(response_range, "y_max")[1]
            if y_max <= 0:
                raise ArgumentError(f"response_range must reach above 0 for a count, got {safe_repr(response_range)}")
        return replace(self, y_max=y_max, mean_cap=CAP_SHARE * y_max if self.mean_cap is None else self.mean_cap)


@lru_cache(maxsize=16)
def _curve(cap: float, y_max: float, steepness: float, size: int) -> LossCurve:
    """See `Poisson.curve`: a plan needs it a few dozen times."""
    edges = np.linspace(max(cap, y_max - cap), y_max, size)
    bound = np.minimum(cap, steepness * (y_max - edges[:-1]))
    return LossCurve(edges, np.concatenate(([cap], bound)))
