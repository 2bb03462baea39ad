"""What a loss must declare so that privacy can be planned and the optimum found."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.floating]


class Derivatives(NamedTuple):
    """A loss and its first two derivatives in eta, each of shape (rows,), in the dtype of eta."""

    value: Array
    gradient: Array
    curvature: Array


@dataclass(frozen=True)
class LossCurve:
    """Upper corners of cells that cover the loss curve {(|l'|, l'')} (docs/proofs/families).

    Every point (g, h) of the curve is dominated by some pair: g <= gradient[i] and h <= curvature[i], so that a
    supremum over the pairs of anything increasing in both is an upper bound of the supremum over the curve.
    """

    gradient: NDArray[np.float64]
    curvature: NDArray[np.float64]


class Family(ABC):
    """A convex GLM loss l(eta; y), eta = x'theta, with bounded l' and l''.

    Subclasses are frozen dataclasses whose fields are the caps. ``signed`` says that l' keeps one sign for any given
    record whatever eta is (docs/proofs/objective uses it in the Gaussian calibration).
    """

    name: ClassVar[str]
    link: ClassVar[str]
    signed: ClassVar[bool]
    response: ClassVar[Literal["continuous", "binary", "count"]]

    @property
    @abstractmethod
    def lipschitz(self) -> float:
        """L = sup |l'| over all eta and all responses in the family's domain."""

    @property
    @abstractmethod
    def curvature_bound(self) -> float:
        """sup l''."""

    @abstractmethod
    def curve(self, size: int = 1000) -> LossCurve:
        """Cover the loss curve with at most about `size` cells."""

    @abstractmethod
    def derivatives(self, eta: Array, endog: Array) -> Derivatives:
        """Loss, l' and l'' at eta, shape (rows,), keeping eta's dtype (float64 or longdouble)."""

    @abstractmethod
    def mean(self, eta: Array) -> Array:
        """The response-scale prediction for a linear predictor (inverse link; for SVMs the 0/1 decision)."""

    @abstractmethod
    def clip_response(self, endog: Array) -> Array:
        """Map each response to the family's domain, row by row; NaN stays NaN (a missing row)."""

    def resolve(self, response_range: tuple[float, float] | None) -> Family:
        """Fill in caps left open from the public range of the response (after scaling); the default has none."""
        return self
