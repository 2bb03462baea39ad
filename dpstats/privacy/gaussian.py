"""The Gaussian mechanism, exactly: mu, the sensitivity in standard deviations, from (eps, delta) and back.

Source: Balle and Wang 2018, Theorem 8; delta(eps) = P(u > s) - exp(eps) P(u > s + mu), s = eps/mu - mu/2, u standard
normal. Bounds are on the safe side of rounding.
"""

from __future__ import annotations

import math

import numpy as np
from scipy import optimize

from dpstats.errors import ArgumentError
from dpstats.privacy.calibration_gaussian import ROUNDING, check_delta, insertion

LEAST_EPS = 1e-9
"""What no eps is reported to be below."""


def gaussian_delta(eps: float, mu: float) -> float:
    """The least delta, rounded up, at which noise of 1/mu of the sensitivity is (eps, delta)-DP."""
    return float(insertion(np.array([eps]), mu, signed=True)[0]) * (1 + ROUNDING)


def greatest_mu(eps: float, delta: float) -> float:
    """The greatest mu, up to 1e-6 relative, at which a Gaussian mechanism is (eps, delta)-DP.

    Raises
    ------
    ArgumentError
        If `delta` is zero or too small for the arithmetic.
    """
    check_delta(delta)

    def excess(log_mu: float) -> float:
        found = gaussian_delta(eps, math.exp(log_mu))
        return math.log(found / delta) if found > 0 else -1e3

    # mu grows like eps while eps is small and like sqrt(2 eps) when it is large.
    low, high = math.log(min(eps, math.sqrt(2 * eps))) - 10, math.log(math.sqrt(2 * eps) + 40)
    if excess(high) <= 0:
        raise ArgumentError(f"delta must be below what needs no noise, got {delta!r}")
    root = float(optimize.brentq(excess, low, high, xtol=1e-9))
    while excess(root) > 0:
        root -= 1e-8
    return math.exp(root)


def least_eps(mu: float, delta: float) -> float:
    """The least eps, up to 1e-9 relative and at least LEAST_EPS, at which a mechanism of this mu is (eps, delta)-DP.

    Raises
    ------
    ArgumentError
        If `delta` is zero or too small for the arithmetic.
    """
    check_delta(delta)
    if gaussian_delta(LEAST_EPS, mu) <= delta:
        return LEAST_EPS
    low, high = LEAST_EPS, 1.0
    while gaussian_delta(high, mu) > delta:
        low, high = high, 2 * high
    while high > low * (1 + 1e-9):
        middle = math.sqrt(low * high)
        low, high = (low, middle) if gaussian_delta(middle, mu) <= delta else (middle, high)
    return high
