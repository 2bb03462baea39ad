"""The law that residuals of a numeric response are supposed to have: normal, or skewed near an end of its range."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import special

Vector = NDArray[np.float64]

NEAR = 3.0
"""A described response whose mean is nearer than so many of its standard deviations to an end of its range is taken
for a beta variable: its range would clip a normal one."""

TWO_POINTS = 1e-6
"""The least sum of the shapes of a beta law; a smaller one has two values."""


class ResidualLaw(NamedTuple):
    """The law of residuals over their standard deviation: of these shapes a beta law about its mean, else normal.

    Skewed residuals keep a wider cap than normal ones, so that a forecast by normal ones would promise too much.
    """

    shapes: tuple[float, float] | None = None

    @classmethod
    def of_response(cls, low: float, high: float, mean: float, deviation: float) -> ResidualLaw:
        """Of a response with this range, mean and standard deviation: its residuals are skewed as it is."""
        below, above = mean - low, high - mean
        if min(below, above) >= NEAR * deviation:
            return cls()
        total = below * above / deviation**2 - 1
        share = below / (high - low)
        return cls((share * total, (1 - share) * total)) if total > TWO_POINTS else cls()

    def drawn(self, size: int, random: np.random.Generator) -> Vector:
        """Residuals of mean 0 and variance 1, shape (size,)."""
        if self.shapes is None:
            return random.standard_normal(size)
        return np.asarray(self._standardised(random.beta(*self.shapes, size)))

    def quantile(self, q: float) -> float:
        """Below which residuals have this probability."""
        if self.shapes is None:
            return float(special.ndtri(q))
        return float(self._standardised(np.asarray(special.betaincinv(*self.shapes, q))))

    def _standardised(self, values: Vector) -> Vector:
        assert self.shapes is not None
        first, second = self.shapes
        total = first + second
        mean = first / total
        return (values - mean) / np.sqrt(mean * (1 - mean) / (total + 1))
