"""Support vector machines with a rounded hinge."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import ClassVar, Literal

import numpy as np

from dpstats.families.base import Array, Family, LossCurve, check_cap, one_cell
from dpstats.families.binomial import round_binary


@dataclass(frozen=True)
class _RoundedHinge(Family):
    """A hinge max(0, 1 - z), z = (2 y - 1) eta, rounded where |1 - z| <= h; responses are 0/1."""

    h: float = 0.5

    link: ClassVar[str] = "identity"
    signed: ClassVar[bool] = True
    models_mean: ClassVar[bool] = False
    response: ClassVar[Literal["continuous", "binary", "count"]] = "binary"

    def __post_init__(self) -> None:
        check_cap("h", self.h)

    @property
    def lipschitz(self) -> float:
        """1: the slope of the hinge."""
        return 1.0

    def mean(self, eta: Array) -> Array:
        """The decision: 1 where eta > 0, else 0."""
        return (eta > 0).astype(eta.dtype)

    def clip_response(self, endog: Array) -> Array:
        """Round to 0 or 1 at one half."""
        return round_binary(endog)


@dataclass(frozen=True)
class HuberSVM(_RoundedHinge):
    """Hinge with a quadratic corner (1 + h - z)^2 / (4 h) (Chaudhuri et al. 2011, eq. 35; docs/proofs/families).

    Parameters
    ----------
    h : float
        Half-width of the corner.

    Raises
    ------
    ArgumentError
        If `h` is not a finite positive number.

    Examples
    --------
    >>> import dpstats as dp
    >>> dp.plan("y ~ x", {"x": (0, 1), "y": ["ham", "spam"]}, 1.0, family=dp.families.HuberSVM(h=0.5)).family.name
    'huber_svm'
    """

    name: ClassVar[str] = "huber_svm"

    @property
    def curvature_bound(self) -> float:
        """1 / (2 h)."""
        return 0.5 / self.h

    def curve(self, size: int = 1000) -> LossCurve:
        """One cell: the curve reaches its corner (1, 1 / (2 h))."""
        return one_cell(1.0, self.curvature_bound)

    def _block(self, eta: Array, endog: Array) -> tuple[Array, Array, Array]:
        h = eta.dtype.type(self.h)
        sign = 2 * endog - 1
        shortfall = 1 - sign * eta
        slope = np.clip((shortfall + h) / (2 * h), 0, 1)
        value = np.where(shortfall > h, shortfall, h * slope * slope)
        return value, -sign * slope, (np.abs(shortfall) <= h) / (2 * h)


@dataclass(frozen=True)
class SmoothSVM(_RoundedHinge):
    """Hinge with a quartic, twice differentiable corner (Chaudhuri et al. 2011, eq. 23; docs/proofs/families).

    Parameters
    ----------
    h : float
        Half-width of the corner.

    Raises
    ------
    ArgumentError
        If `h` is not a finite positive number.

    Examples
    --------
    >>> import dpstats as dp
    >>> dp.plan("y ~ x", {"x": (0, 1), "y": ["ham", "spam"]}, 1.0, family=dp.families.SmoothSVM(h=0.5)).family.name
    'smooth_svm'
    """

    name: ClassVar[str] = "smooth_svm"

    @property
    def curvature_bound(self) -> float:
        """3 / (4 h)."""
        return 0.75 / self.h

    def curve(self, size: int = 1000) -> LossCurve:
        """Cells between v in [0, 1], where |l'| = 1/2 + (3 v - v^3) / 4 and l'' = 3 (1 - v^2) / (4 h).

        Negative v have no more of either derivative than v = 0 and lie in the first cell.
        """
        return _smooth_curve(self.curvature_bound, size)

    def _block(self, eta: Array, endog: Array) -> tuple[Array, Array, Array]:
        h = eta.dtype.type(self.h)
        sign = 2 * endog - 1
        shortfall = 1 - sign * eta
        v = np.clip(shortfall / h, -1, 1)
        square = v * v
        slope = (2 + v * (3 - square)) / 4
        # (1 + v)^3 (3 - v) / 16 is the quartic of eq. 23 over h, without its cancellation near v = -1.
        rise = 1 + v
        value = np.where(shortfall > h, shortfall, rise * rise * rise * (3 - v) * (h / 16))
        return value, -sign * slope, (1 - square) * (3 / (4 * h))


@lru_cache(maxsize=16)
def _smooth_curve(curvature_bound: float, size: int) -> LossCurve:
    """See `SmoothSVM.curve`: a plan needs it a few dozen times."""
    v = np.linspace(0.0, 1.0, size)
    curvature = curvature_bound * (1 - np.concatenate(([0.0], v[:-1])) ** 2)
    return LossCurve(0.5 + (3 * v - v**3) / 4, curvature)
