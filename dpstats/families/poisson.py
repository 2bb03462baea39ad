"""Poisson regression up to a cap on the mean."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar, Literal

import numpy as np

from dpstats.errors import ArgumentError
from dpstats.families.base import Array, Family, LossCurve, check_cap, closed_cap, declared_range


@dataclass(frozen=True)
class Poisson(Family):
    """Negative log-likelihood exp(eta) - y eta of a count while exp(eta) <= mean_cap; linear beyond.

    The constant log(y!) is left out (docs/proofs/families).

    Parameters
    ----------
    mean_cap : float, optional
        The greatest mean that is modelled exactly. Left open, it becomes y_max. Half of that costs up to half the
        noise, because l'' then vanishes where |l'| is extreme; but where counts above the cap are common nothing holds
        the fitted mean down, so only choose it if typical counts are far below y_max.
    y_max : float, optional
        Responses are clipped to [0, y_max]. Left open, it becomes the upper end of the response's range; a fit by
        formula that has neither cap buys a lower one within it (docs/proofs/purchases).

    Raises
    ------
    ArgumentError
        If a cap is not a finite positive number.
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
        """mean_cap: l'' is the fitted mean."""
        return self._caps[0]

    def curve(self, size: int = 1000) -> LossCurve:
        """One cell when mean_cap >= y_max; otherwise gradients above every mean's reach need y - mean large."""
        cap, y_max = self._caps
        if cap >= y_max:
            return LossCurve(np.array([cap]), np.array([cap]))
        # A gradient of size a > max(cap, y_max - cap) is y - mean, so that mean <= y_max - a.
        edges = np.linspace(max(cap, y_max - cap), y_max, size)
        return LossCurve(edges, np.minimum(cap, np.concatenate(([cap], y_max - edges[:-1]))))

    def _block(self, eta: Array, endog: Array) -> tuple[Array, Array, Array]:
        cap = eta.dtype.type(self._caps[0])
        log_cap = np.log(cap)
        # The cap is taken on the mean, so that rounding of its logarithm does not enter l'.
        mean = np.minimum(np.exp(np.minimum(eta, log_cap + 1)), cap)
        # y eta is split at log_cap, so that two infinities never meet.
        value = mean - endog * np.minimum(eta, log_cap) + (cap - endog) * np.maximum(eta - log_cap, 0)
        return value, mean - endog, mean * (mean < cap)

    def mean(self, eta: Array) -> Array:
        """exp(eta), held at the largest finite number."""
        return np.exp(np.minimum(eta, np.log(np.finfo(eta.dtype).max)))

    def clip_response(self, endog: Array) -> Array:
        """Clip to [0, y_max]."""
        return np.clip(endog, 0, self._caps[1])

    def resolve(self, response_range: tuple[float, float] | None) -> Poisson:
        """Set open caps from the upper end of the response's range."""
        y_max = self.y_max
        if y_max is None:
            y_max = declared_range(response_range, "y_max")[1]
            if y_max <= 0:
                raise ArgumentError(f"response_range must reach above 0 for a count, got {response_range!r}")
        return replace(self, y_max=y_max, mean_cap=y_max if self.mean_cap is None else self.mean_cap)
