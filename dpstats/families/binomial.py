"""Logistic regression."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache
from typing import ClassVar, Literal

import numpy as np
from scipy import special

from dpstats.families.base import Array, Family, LossCurve, check_cap, declared_range


def round_binary(endog: Array) -> Array:
    """0 below one half and 1 from there on; NaN stays NaN."""
    rounded = (endog >= 0.5).astype(endog.dtype)
    np.copyto(rounded, endog, where=np.isnan(endog))
    return rounded


@dataclass(frozen=True)
class Binomial(Family):
    """Negative log-likelihood of a 0/1 response with the logit link: log(1 + exp(eta)) - y eta.

    Examples
    --------
    >>> import dpstats as dp
    >>> dp.plan("y ~ x", {"x": (0, 1), "y": ["no", "yes"]}, 1.0, family=dp.families.Binomial()).family.name
    'binomial'
    """

    name: ClassVar[str] = "binomial"
    link: ClassVar[str] = "logit"
    signed: ClassVar[bool] = True
    relative_slope: ClassVar[float | None] = 0.224
    typical_norm: ClassVar[float] = 18.0
    typical_size: ClassVar[float] = 5.0
    response: ClassVar[Literal["continuous", "binary", "count", "class"]] = "binary"

    @property
    def lipschitz(self) -> float:
        """1: |l'| is the probability given to the other class."""
        return 1.0

    @property
    def curvature_bound(self) -> float:
        """1/4: l'' = p (1 - p)."""
        return 0.25

    def curve(self, size: int = 1000) -> LossCurve:
        """Cells between p_i = (1 + sin(phi_i)) / 2, phi uniform on [0, pi/2], where l'' = cos(phi)^2 / 4.

        Smaller p have no more of either derivative than p = 1/2 and lie in the first cell.
        """
        return _curve(size)

    def _block(self, eta: Array, endog: Array) -> tuple[Array, Array, Array]:
        # With t = -eta for a response of 1 and eta for 0, the loss is log(1 + exp(t)) and l' = +-1 / (1 + exp(-t)),
        # both free of cancellation in the tails.
        sign = 1 - 2 * endog
        signed = eta * sign
        small = np.exp(-np.abs(signed))
        inverse = 1 / (1 + small)
        value = np.log1p(small)
        value += np.maximum(signed, 0)
        gradient = np.exp(np.minimum(signed, 0))
        gradient *= inverse
        gradient *= sign
        small *= inverse
        small *= inverse
        return value, gradient, small

    def slope(self, eta: Array, endog: Array) -> Array:
        """l' = +-expit(+-eta), free of cancellation in both tails."""
        # One array after the other is overwritten: they stay in the cache.
        sign = 2 * endog - 1
        slope = np.multiply(sign, eta)
        with np.errstate(over="ignore"):
            np.exp(slope, out=slope)
        slope += 1
        np.divide(sign, slope, out=slope)
        return np.negative(slope, out=slope)

    def weight(self, eta: Array, endog: Array) -> Array:
        """p (1 - p), whatever the response is."""
        small = np.exp(-np.abs(eta))
        inverse = 1 / (1 + small)
        small *= inverse
        small *= inverse
        return small

    def slope_and_weight(self, eta: Array, endog: Array) -> tuple[Array, Array]:
        """l' and l'', without the loss and its logarithm."""
        return self.slope(eta, endog), self.weight(eta, endog)

    def mean(self, eta: Array) -> Array:
        """The probability of 1."""
        return np.exp(np.minimum(eta, 0)) / (1 + np.exp(-np.abs(eta)))

    def clip_response(self, endog: Array) -> Array:
        """Round to 0 or 1 at one half."""
        return round_binary(endog)


@lru_cache(maxsize=4)
def _curve(size: int) -> LossCurve:
    """See `Binomial.curve`: a plan needs it a few dozen times."""
    phi = np.linspace(0.0, np.pi / 2, size)
    gradient = (1 + np.sin(phi)) / 2
    gradient[-1] = 1.0
    return LossCurve(gradient, np.cos(np.concatenate(([0.0], phi[:-1]))) ** 2 / 4)


@dataclass(frozen=True)
class BinomialCounts(Binomial):
    """Binomial, for rows that hold several trials each: ``successes + failures ~ x``.

    The loss of a row is divided by `trials`, so one row has at most the influence of one 0/1 response, for any number
    of its trials (docs/proofs/objective, Weights). It is the binomial loss at the share of successes, times the row's
    trials over `trials`.

    Parameters
    ----------
    trials : float, optional
        The greatest number of trials in a row; a row with more counts as this many in the same proportion. By default
        the sum of the upper ends of the ranges of the two columns.

    Raises
    ------
    ArgumentError
        If `trials` is not a finite positive number.

    Examples
    --------
    >>> import dpstats as dp
    >>> domain = {"x": (0, 1), "won": (0, 10), "lost": (0, 10)}
    >>> dp.plan("won + lost ~ x", domain, 1.0, family=dp.families.BinomialCounts(10)).design.response.trials
    10
    """

    trials: float | None = None

    name: ClassVar[str] = "binomial_counts"
    signed: ClassVar[bool] = False
    relative_slope: ClassVar[float | None] = None

    def __post_init__(self) -> None:
        if self.trials is not None:
            check_cap("trials", self.trials)

    def resolve(self, response_range: tuple[float, float] | None) -> BinomialCounts:
        """Set `trials` from (0, the greatest number of trials); plain arrays have it as the bound of their weights."""
        if self.trials is not None or response_range is None:
            return self
        return replace(self, trials=declared_range(response_range, "trials")[1])

    def _block(self, eta: Array, endog: Array) -> tuple[Array, Array, Array]:
        small = np.exp(-np.abs(eta))
        inverse = 1 / (1 + small)
        larger, smaller = inverse, small * inverse
        chance, rest = np.where(eta >= 0, larger, smaller), np.where(eta >= 0, smaller, larger)
        # One loss for the successes and one for the failures: neither is a difference.
        near = np.log1p(small)
        value = endog * (near + np.maximum(-eta, 0)) + (1 - endog) * (near + np.maximum(eta, 0))
        return value, (1 - endog) * chance - endog * rest, chance * rest

    def slope(self, eta: Array, endog: Array) -> Array:
        """(1 - y) p - y (1 - p): within rounding of p - y, in both tails."""
        return (1 - endog) * special.expit(eta) - endog * special.expit(-eta)

    def clip_response(self, endog: Array) -> Array:
        """Clip shares to [0, 1]."""
        return np.clip(endog, 0, 1)
