"""Logistic regression."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import ClassVar, Literal

import numpy as np
from scipy import special

from dpstats.families.base import Array, Family, LossCurve


def round_binary(endog: Array) -> Array:
    """0 below one half and 1 from there on; NaN stays NaN."""
    return np.where(np.isnan(endog), endog, (endog >= 0.5).astype(endog.dtype))


@dataclass(frozen=True)
class Binomial(Family):
    """Negative log-likelihood of a 0/1 response with the logit link: log(1 + exp(eta)) - y eta."""

    name: ClassVar[str] = "binomial"
    link: ClassVar[str] = "logit"
    signed: ClassVar[bool] = True
    typical_norm: ClassVar[float] = 18.0
    typical_size: ClassVar[float] = 5.0
    response: ClassVar[Literal["continuous", "binary", "count"]] = "binary"

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
        sign = 1 - 2 * endog
        return sign * special.expit(sign * eta)

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
