"""The exact density of an objective's minimiser, for audits of noise whose log density is known."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from dpstats.families.base import Derivatives, Family

Float = NDArray[np.float64]


class NoiseDensity(Protocol):
    """Anything with the log density of a noise vector: a `dpstats.privacy.noise.Noise`, or a wrong one to be caught."""

    def log_density(self, noise: Float) -> Float:
        """Log density at `noise`, shape (points, p), over the last axis."""


@dataclass(frozen=True)
class ObjectiveDensity:
    """Law of the minimiser of sum_i l(x_i't; y_i) + t'Mt / 2 + c't + b't over the law of b."""

    family: Family  # The loss
    exog: Float  # (n, p): the rows; n may be 0
    endog: Float  # (n,): the responses
    curvature: Float  # (p,): the diagonal of M
    noise: NoiseDensity  # The law of b
    # (p,): the gradient c of a linear public penalty. It stands for many rows with large gradients and little
    # curvature, which make the worst case for one more.
    linear: Float | None = None

    def noise_at(self, params: Float) -> Float:
        """The noise that makes each of `params`, shape (points, p), the minimiser; same shape."""
        gradient = self._derivatives(params).gradient @ self.exog + params * self.curvature
        return -(gradient if self.linear is None else gradient + self.linear)

    def log_density(self, params: Float) -> Float:
        """Log density of the minimiser at each of `params`, shape (points, p); shape (points,)."""
        weights = self._derivatives(params).curvature
        hessian = np.einsum("ki,ij,il->kjl", weights, self.exog, self.exog) + np.diag(self.curvature)
        return self.noise.log_density(self.noise_at(params)) + np.linalg.slogdet(hessian).logabsdet

    def box(self, radius: float) -> list[tuple[float, float]]:
        """Intervals that hold every minimiser whose noise has no entry above `radius` in size.

        At the minimiser m_j theta_j = -(b_j + c_j + sum_i l'_i x_ij), and |l'_i| <= L.
        """
        pull = self.family.lipschitz * np.abs(self.exog).sum(axis=0)
        centre = np.zeros_like(self.curvature) if self.linear is None else -self.linear / self.curvature
        half = (radius + pull) / self.curvature
        return [(float(c - h), float(c + h)) for c, h in zip(centre, half, strict=True)]

    def _derivatives(self, params: Float) -> Derivatives:
        """At each of `params` and each row, shapes (points, n)."""
        shape = (len(params), len(self.exog))
        flat = self.family.derivatives((params @ self.exog.T).ravel(), np.broadcast_to(self.endog, shape).ravel())
        return Derivatives(*(part.reshape(shape) for part in flat))
