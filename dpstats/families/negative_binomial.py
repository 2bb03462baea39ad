"""Negative binomial regression of counts, with a dispersion that is known or bought."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import ClassVar, Literal

import numpy as np
from scipy import special

from dpstats.arguments import safe_repr
from dpstats.errors import ArgumentError
from dpstats.families.base import Array, Family, LossCurve, check_cap, closed_cap, declared_range

ALPHAS = (1e-6, 1e6)
"""Dispersions lie between these."""


@dataclass(frozen=True)
class NegativeBinomial(Family):
    """Negative log-likelihood of a count of mean mu = exp(eta) and variance mu + alpha mu^2.

    With c = 1 / alpha and t = eta + log(alpha) it is c log(1 + exp(t)) + y log(1 + exp(-t)), a logistic loss of y
    successes and c failures; what depends on y alone is left out (docs/proofs/families).

    Parameters
    ----------
    alpha : float, optional
        The dispersion, as in statsmodels. Public: it must not be estimated from the rows. Below 1 / y_max the noise
        grows with 1 / alpha; ``family="poisson"`` is better there. By default a fit by formula buys it, with
        `y_max` and the mean (docs/proofs/purchases); where nothing is bought it is 1.
    y_max : float, optional
        Responses are clipped to [0, y_max]. By default the upper end of the response's range, or a bought count
        within it.

    Raises
    ------
    ArgumentError
        If `alpha` or `y_max` is not a finite positive number.

    Examples
    --------
    >>> import dpstats as dp
    >>> domain = {"x": (0, 1), "visits": (0, 20)}
    >>> dp.plan("visits ~ x", domain, 1.0, family=dp.families.NegativeBinomial(alpha=0.5)).family.lipschitz
    20.0
    """

    alpha: float | None = None
    y_max: float | None = None

    name: ClassVar[str] = "negative_binomial"
    link: ClassVar[str] = "log"
    signed: ClassVar[bool] = False
    response: ClassVar[Literal["continuous", "binary", "count"]] = "count"

    def __post_init__(self) -> None:
        if self.alpha is not None:
            check_cap("alpha", self.alpha)
        if self.alpha is not None and not ALPHAS[0] <= self.alpha <= ALPHAS[1]:
            raise ArgumentError(f"alpha must be from 1e-6 to 1e6, got {safe_repr(self.alpha)}")
        if self.y_max is not None:
            check_cap("y_max", self.y_max)

    @property
    def title(self) -> str:
        """The family and its alpha."""
        return "negative binomial" + ("" if self.alpha is None else f", alpha = {self.alpha:.4g}")

    @property
    def failures(self) -> float:
        """c = 1 / alpha: the loss is defined by this float."""
        return 1.0 / closed_cap("alpha", self.alpha)

    @property
    def shift(self) -> float:
        """log(alpha), which is added to eta: the loss is defined by this float."""
        return math.log(closed_cap("alpha", self.alpha))

    @property
    def lipschitz(self) -> float:
        """max(y_max, 1 / alpha): l' lies between -y and 1 / alpha."""
        return max(closed_cap("y_max", self.y_max), self.failures)

    @property
    def curvature_bound(self) -> float:
        """(y_max + 1 / alpha) / 4: l'' = (y + 1 / alpha) p (1 - p)."""
        return (closed_cap("y_max", self.y_max) + self.failures) / 4

    def curve(self, size: int = 1000) -> LossCurve:
        """Cells between s_i = |y_max - c| / 2 + (y_max + c) sin(phi_i) / 2, where l'' <= (y_max + c) cos(phi)^2 / 4.

        Smaller gradients lie in the first cell.
        """
        return _curve(closed_cap("y_max", self.y_max), self.failures, size)

    def _block(self, eta: Array, endog: Array) -> tuple[Array, Array, Array]:
        dtype = eta.dtype.type
        count, moved = dtype(self.failures), eta + dtype(self.shift)
        small = np.exp(-np.abs(moved))
        inverse = 1 / (1 + small)
        chance = np.where(moved >= 0, inverse, small * inverse)
        rest = np.where(moved >= 0, small * inverse, inverse)
        near = np.log1p(small)
        value = count * (near + np.maximum(moved, 0)) + endog * (near + np.maximum(-moved, 0))
        return value, count * chance - endog * rest, (count + endog) * (chance * rest)

    def slope(self, eta: Array, endog: Array) -> Array:
        """c p - y (1 - p), free of cancellation in both tails."""
        dtype = eta.dtype.type
        moved = eta + dtype(self.shift)
        return dtype(self.failures) * special.expit(moved) - endog * special.expit(-moved)

    def mean(self, eta: Array) -> Array:
        """exp(eta), at most the largest number."""
        return np.exp(np.minimum(eta, 700.0))

    def predictor(self, mean: float) -> float:
        """The eta of a positive mean: the inverse of `mean`.

        Examples
        --------
        >>> dp.families.NegativeBinomial(0.5, 20.0).predictor(1.0)
        0.0
        """
        return math.log(mean)

    def clip_response(self, endog: Array) -> Array:
        """Clip to [0, y_max]."""
        return np.clip(endog, 0, closed_cap("y_max", self.y_max))

    def resolve(self, response_range: tuple[float, float] | None) -> NegativeBinomial:
        """Set `y_max` from the upper end of the response's range, and an open alpha to 1."""
        if self.alpha is None:
            return replace(self, alpha=1.0).resolve(response_range)
        if self.y_max is not None:
            return self
        high = declared_range(response_range, "y_max")[1]
        if high <= 0:
            raise ArgumentError(f"response_range must reach above 0 for a count, got {safe_repr(response_range)}")
        return replace(self, y_max=high)


def least_alpha(y_max: float, alpha: float | None = None) -> float:
    """A dispersion, or the least one, whose loss has no more than the slope y_max (docs/proofs/purchases)."""
    return min(max(1 / y_max, ALPHAS[0], 0.0 if alpha is None else alpha), ALPHAS[1])


@lru_cache(maxsize=16)
def _curve(y_max: float, failures: float, size: int) -> LossCurve:
    """See `NegativeBinomial.curve`: a plan needs it a few dozen times."""
    phi = np.linspace(0.0, np.pi / 2, size)
    total = y_max + failures
    gradient = abs(y_max - failures) / 2 + total / 2 * np.sin(phi)
    gradient[-1] = max(y_max, failures)
    return LossCurve(gradient, total / 4 * np.cos(np.concatenate(([0.0], phi[:-1]))) ** 2)
