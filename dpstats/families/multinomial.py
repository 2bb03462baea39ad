"""Several classes: the loss of a multinomial logit, a linear predictor each (docs/proofs/multinomial)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np

from dpstats.families.base import Array, Derivatives, Family, LossCurve

MOST_CLASSES = 64
"""The rounding of a slope is proved for so many."""


@dataclass(frozen=True)
class Multinomial(Family):
    """log sum_k exp(eta_k) - eta_y, of K linear predictors a row: eta has shape (rows, K), responses are 0 to K - 1.

    For `dpstats.mechanisms.multinomial` alone: no calibration of one linear predictor suits it.
    """

    classes: int
    name: ClassVar[str] = "multinomial"
    link: ClassVar[str] = "mlogit"
    signed: ClassVar[bool] = False
    response: ClassVar[Literal["continuous", "binary", "count", "class"]] = "class"

    @property
    def lipschitz(self) -> float:
        """A bound on |pi - e_y| (at most the root of 2), with room for the rounding of K classes."""
        return math.sqrt(2) * (1 + self.classes / 8)

    @property
    def curvature_bound(self) -> float:
        """sup of the eigenvalues of diag pi - pi pi'."""
        return 0.5

    def curve(self, size: int = 1000) -> LossCurve:
        """Cells of (gauge of pi - e_y, trace of the Hessian in eta)."""
        ends = np.linspace(0, 1, size + 1)
        others = self.classes - 1
        peak = np.clip(others / self.classes, ends[:-1], ends[1:])
        trace = 2 * peak - peak**2 * self.classes / others
        return LossCurve(ends[1:], np.maximum.accumulate(trace[::-1])[::-1].copy())

    def mean(self, eta: Array) -> Array:
        """The probabilities, shape (rows, K)."""
        parts = np.exp(eta - eta.max(axis=1, keepdims=True))
        return np.asarray(parts / parts.sum(axis=1, keepdims=True))

    def clip_response(self, endog: Array) -> Array:
        """Codes of classes as they are; all else is missing."""
        with np.errstate(invalid="ignore"):
            return np.where(np.isin(endog, np.arange(self.classes)), endog, np.nan)

    def derivatives(self, eta: Array, endog: Array) -> Derivatives:
        """The loss, shape (rows,), its gradient pi - e_y and the diagonal of its Hessian, shapes (rows, K)."""
        return Derivatives(*self._block(eta, endog))

    def _block(self, eta: Array, endog: Array) -> tuple[Array, Array, Array]:
        rows, codes = np.arange(len(eta)), endog.astype(np.intp)
        top = eta.max(axis=1, keepdims=True)
        parts = np.exp(eta - top)
        total = parts.sum(axis=1, keepdims=True)
        probabilities = parts / total
        value = (np.log(total) + top)[:, 0] - eta[rows, codes]
        slope = probabilities.copy()
        slope[rows, codes] -= 1
        return value, slope, probabilities * (1 - probabilities)
