"""The Gaussian mechanism, exactly: mu, the sensitivity in standard deviations, from (eps, delta) and back.

Source: Balle and Wang 2018, Theorem 8; delta(eps) = P(u > s) - exp(eps) P(u > s + mu), s = eps/mu - mu/2, u standard
normal. Bounds are on the safe side of rounding.
"""

from __future__ import annotations

import math

import numpy as np

from dpstats.privacy.calibration_gaussian import ROUNDING, check_delta, insertion

LEAST_EPS = 1e-9
"""What no eps is reported to be below."""


def gaussian_delta(eps: float, mu: float) -> float:
    """The least delta, rounded up, at which noise of 1/mu of the sensitivity is (eps, delta)-DP."""
    return float(insertion(np.array([eps]), mu, signed=True)[0]) * (1 + ROUNDING)


def analytic_mu(eps: float, delta: float) -> float:
    """The greatest mu = sensitivity / sigma, up to 1e-12, at which a Gaussian mechanism is (eps, delta)-DP.

    Raises
    ------
    ArgumentError
        If `delta` is too small for the arithmetic.
    """
    check_delta(delta)
    low, high = 0.0, 1.0
    while gaussian_delta(eps, high) <= delta:
        low, high = high, 2 * high
    while low == 0:
        half = high / 2
        low, high = (half, high) if gaussian_delta(eps, half) <= delta else (0.0, half)
    while high > low * (1 + 1e-12):
        middle = (low + high) / 2
        low, high = (middle, high) if gaussian_delta(eps, middle) <= delta else (low, middle)
    return low


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
