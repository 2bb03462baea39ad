"""Intervals and tests of linear combinations of the coefficients (docs/proofs/inference, 5 to 7)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dpstats.arguments import shown
from dpstats.cached import cached_property
from dpstats.errors import ArgumentError
from dpstats.inference.laws import StandardLaws

Float = NDArray[np.float64]

LEVEL = 0.05
"""Standard errors are half-widths at this level over the normal quantile."""

NORMAL = 1.959963984540054
"""The normal law's 97.5 % quantile."""


@dataclass(frozen=True, eq=False)
class Contrasts:
    """Estimates of k linear combinations, and what is known of their errors.

    Attributes
    ----------
    estimates : ndarray, shape (k,)
        Debiased; of a combination that is not identified, the released one.
    identified : ndarray of bool, shape (k,)
        Whether only identified coefficients enter.
    sampling, noise, debiasing : ndarray, shape (k,)
        Parts of the variance A; infinite where not identified.
    spread_noise : ndarray, shape (k,)
        F, the variance of A by noise in the spread, over 4 A.
    information_noise : ndarray, shape (k,)
        beta, the variance of A by noise in the information, over 4 A^2.
    laws : StandardLaws
        The laws of the standardised estimates.
    """

    estimates: Float
    identified: NDArray[np.bool_]
    sampling: Float
    noise: Float
    debiasing: Float
    spread_noise: Float
    information_noise: Float
    laws: StandardLaws

    @cached_property
    def variances(self) -> Float:
        """A, shape (k,)."""
        return self.sampling + self.noise + self.debiasing

    def inflated(self, square: Float | float) -> Float:
        """The variance that an interval of q^2 = `square` standard deviations uses, shape (k,); perhaps infinite."""
        room = 1 - (square + 1) * self.information_noise
        with np.errstate(invalid="ignore", divide="ignore"):
            values = (self.variances + (square + 1) * self.spread_noise) / room
        return np.where(self.identified & (room > 0), values, np.inf)

    def half_width(self, alpha: float = LEVEL) -> Float:
        """Half the width of the intervals of coverage 1 - alpha, shape (k,); infinite where unbounded."""
        quantiles = self.laws.quantile(check_level(alpha))
        return quantiles * np.sqrt(self.inflated(quantiles**2))

    def conf_int(self, alpha: float = LEVEL) -> Float:
        """Intervals of coverage 1 - alpha, shape (k, 2); (-inf, inf) where the budget gives no bound."""
        half = self.half_width(alpha)
        return np.column_stack((self.estimates - half, self.estimates + half))

    @cached_property
    def se(self) -> Float:
        """Standard errors, shape (k,): half-widths of 95 % intervals over 1.96."""
        return self.half_width(LEVEL) / NORMAL

    def pvalues(self, null: Float | float = 0.0) -> Float:
        """p-values of the two-sided tests of c'theta = null, shape (k,).

        At most alpha iff `null` is outside the interval of coverage 1 - alpha. 1 where not identified.
        """
        distance = np.broadcast_to(self.estimates - np.asarray(null, dtype=np.float64), self.estimates.shape) ** 2
        if not np.all(np.isfinite(distance)):
            raise ArgumentError("null must be finite, one value or one for each combination")
        usable = self.identified & np.isfinite(self.variances) & (self.information_noise < 1)
        scale = np.where(usable, self.variances, 1.0)
        distance = np.where(usable, distance, 0.0) / scale
        fixed, share = np.where(usable, self.spread_noise, 0.0) / scale, self.information_noise
        last = distance * np.where(usable, 1 - share, 0.0)
        middle = 1 + fixed + distance * np.where(usable, share, 0.0)
        # The root q^2 of F q^4 + (A + F + u^2 beta) q^2 = u^2 (1 - beta), without cancellation.
        square = 2 * last / (middle + np.sqrt(middle**2 + 4 * fixed * last))
        return np.where(usable, np.minimum(self.laws.tail(np.sqrt(square)), 1.0), 1.0)

    @cached_property
    def shares(self) -> Float:
        """Shares of se^2 that are sampling, noise and information, shape (k, 3); rows add up to 1.

        Where the interval is unbounded all of it is information.
        """
        total = self.inflated(self.laws.quantile(LEVEL) ** 2)
        bounded = np.isfinite(total)
        safe = np.where(bounded, total, 1.0)
        sampling = np.where(bounded, self.sampling, 0.0) / safe
        noise = np.where(bounded, self.noise, 0.0) / safe
        return np.column_stack((sampling, noise, 1 - sampling - noise))


def check_level(alpha: float) -> float:
    """Return `alpha` if it is strictly between 0 and 1, else raise ArgumentError."""
    if isinstance(alpha, bool) or not isinstance(alpha, (int, float, np.floating)) or not 0 < alpha < 1:
        raise ArgumentError(f"alpha must lie strictly between 0 and 1, got {shown(alpha)}")
    return float(alpha)
