"""Exact densities of (coefficients, information) for two neighbouring data sets."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from objective_density import ObjectiveDensity

from dpstats.families import Family
from dpstats.privacy.information import row_weights
from dpstats.privacy.noise import Noise


@dataclass(frozen=True)
class Released:
    """The law of (theta, H + E): rows, curvature, noise of the fit, scale and law of the matrix noise; D = X^2 I."""

    family: Family
    exog: np.ndarray
    endog: np.ndarray
    curvature: np.ndarray
    noise: Noise
    matrix_scale: float
    row_norm: float
    linear: np.ndarray
    moved: float = 0.0
    weight_cap: float | None = None

    @property
    def fit(self) -> ObjectiveDensity:
        return ObjectiveDensity(self.family, self.exog, self.endog, self.curvature, self.noise, self.linear)

    def information(self, params: np.ndarray) -> np.ndarray:
        """D^-1/2 H D^-1/2 at params (points, p), taken `moved` away in eta (a planted bug); shape (points, p, p)."""
        eta = params @ self.exog.T + self.moved
        endog = np.broadcast_to(self.endog, eta.shape).ravel()
        weights = row_weights(self.family, eta.ravel(), endog, self.weight_cap)
        rows = self.exog / self.row_norm
        return np.einsum("ki,ij,il->kjl", weights.reshape(eta.shape), rows, rows)

    def log_density(self, points: np.ndarray) -> np.ndarray:
        """At (theta, information), one column each, normal matrix noise; points (k, 2)."""
        params = points[:, :1]
        standard = (points[:, 1] - self.information(params)[:, 0, 0]) / self.matrix_scale
        return self.fit.log_density(params) - standard**2 / 2 - np.log(self.matrix_scale * np.sqrt(2 * np.pi))


def worst_log_ratio(first: Released, second: Released, params: np.ndarray) -> float:
    """Greatest |log-ratio| of the joint densities over the params and every matrix, Wishart noise.

    Over matrices the supremum is |difference of the information|_* / s2 (attained for one column).
    """
    ratio = np.abs(first.fit.log_density(params) - second.fit.log_density(params))
    difference = first.information(params) - second.information(params)
    nuclear = np.abs(np.linalg.eigvalsh(difference)).sum(axis=1)
    return float((ratio + nuclear / first.matrix_scale).max())
