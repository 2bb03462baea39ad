"""Penalties on the scaled coefficients: value, majoriser weights, modulus of convexity, proximal map.

A penalty is P(theta) = sum_j w_j P(|theta_j|) with a public, column-wise weight w_j >= 0 (0: unpenalised, as the
intercept is by default). It is added to the *sum* of the losses, never to their mean. Every array method broadcasts,
so weights may be a scalar or of shape (p,).

docs/napp.md says which penalty may be used in which mechanism; docs/proofs/napp.md proves what is used here.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import asdict, dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dpstats.arguments import is_number, safe_repr
from dpstats.errors import ArgumentError

Array = NDArray[np.float64]

#: Coefficients smaller than this are released as exact zeros. The subdifferential of P at zero is taken over this
#: neighbourhood, which moves the certified distance to the optimum by as much and no more: bridge penalties with q
#: just above 1 have minimisers such as 1e-400, which no float holds.
NEGLIGIBLE = 1e-30


def number(name: str, value: float, low: float, high: float, *, open_low: bool = False) -> float:
    """`value` as a float if it is a finite number of [low, high] (or (low, high]), else ArgumentError."""
    if isinstance(value, (bool, np.bool_)) or not isinstance(value, (int, float, np.integer, np.floating)):
        raise ArgumentError(f"{name} must be a number, got {safe_repr(value)}")
    inside = (low < value if open_low else low <= value) and value <= high
    if not (is_number(value) and inside):
        interval = f"{'(' if open_low else '['}{low:g}, {high:g}{')' if math.isinf(high) else ']'}"
        raise ArgumentError(f"{name} must lie in {interval}, got {safe_repr(value)}")
    return float(value)


@dataclass(frozen=True)
class Penalty(ABC):
    """A separable penalty alpha * P(|t|), P(0) = 0, nondecreasing in |t|.

    Parameters
    ----------
    alpha : float
        Strength, >= 0, on the sum of the losses and the scaled coefficients.

    Raises
    ------
    ArgumentError
        If `alpha` is not a finite number >= 0.

    Examples
    --------
    >>> import dpstats as dp
    >>> lasso, ridge = dp.penalties.Lasso(2.0), dp.penalties.Ridge(3.0)
    >>> lasso.convex, lasso.sparse, ridge.sparse, lasso.modulus, ridge.modulus
    (True, True, False, 0.0, 3.0)
    """

    alpha: float

    name: ClassVar[str]

    def __post_init__(self) -> None:
        object.__setattr__(self, "alpha", number("alpha", self.alpha, 0.0, math.inf))

    @property
    @abstractmethod
    def convex(self) -> bool:
        """Whether P is convex, so that one perturbed optimum may be released (docs/proofs/napp)."""

    @property
    def sparse(self) -> bool:
        """Whether P has a kink at zero, so that optima have exact zeros."""
        return self.alpha > 0 and float(self._slope(np.zeros(1))[0]) > 0

    @property
    @abstractmethod
    def modulus(self) -> float:
        """The greatest c with P(t) - c t^2/2 convex: 0 for the lasso, negative if P is not convex."""

    @abstractmethod
    def _height(self, size: Array) -> Array:
        """P at size >= 0."""

    @abstractmethod
    def _slope(self, size: Array) -> Array:
        """P' at size >= 0; at 0 the right derivative."""

    @abstractmethod
    def _bend(self, size: Array) -> Array:
        """P'' at size > 0."""

    @abstractmethod
    def _shrink(self, size: Array, metric: Array, weights: Array) -> Array:
        """argmin over t >= 0 of metric (t - size)^2/2 + weights P(t), all arguments of one shape."""

    def value(self, theta: ArrayLike, weights: ArrayLike = 1.0) -> float:
        """sum_j w_j P(|theta_j|).

        Examples
        --------
        >>> lasso.value([1.0, -2.0])
        6.0
        """
        return float(np.sum(np.asarray(weights, np.float64) * self._height(np.abs(np.asarray(theta, np.float64)))))

    def curvature(self, weights: ArrayLike = 1.0) -> Array:
        """Strong convexity P has everywhere, column by column: w_j times `modulus`.

        What is positive here counts towards the curvature that privacy needs (docs/proofs/napp, dual purpose).

        Examples
        --------
        >>> ridge.curvature([1.0, 0.0])
        array([3., 0.])
        """
        scale = np.asarray(weights, np.float64)
        return np.multiply(scale, self.modulus, out=np.zeros_like(scale), where=scale > 0)

    def slope(self, theta: ArrayLike, weights: ArrayLike = 1.0) -> Array:
        """Derivative of P at theta, column by column, with 0 chosen at a kink.

        Examples
        --------
        >>> ridge.slope([1.0, 2.0])
        array([3., 6.])
        """
        point = np.asarray(theta, np.float64)
        return np.sign(point) * np.asarray(weights, np.float64) * self._slope(np.maximum(np.abs(point), NEGLIGIBLE))

    def bend(self, theta: ArrayLike, weights: ArrayLike = 1.0) -> Array:
        """Second derivative of P at nonzero theta, column by column.

        Examples
        --------
        >>> ridge.bend([1.0, 2.0])
        array([3., 3.])
        """
        return np.asarray(weights, np.float64) * self._bend(np.abs(np.asarray(theta, np.float64)))

    def majorizer(self, theta: ArrayLike, weights: ArrayLike = 1.0) -> Array:
        """Weights m_j of the quadratic m_j t^2/2 that touches P at theta_j: P'(|theta_j|) / |theta_j|.

        Shape (p,); infinite at a zero coefficient of a penalty with a kink there, 0 where the weight is 0. The paper's
        weights Lambda |t|^-g on t^2 (seed NAPP-ERM, Table 2) realise twice the lasso asked for; these do not.

        Examples
        --------
        >>> lasso.majorizer([1.0, 2.0])
        array([2., 1.])
        """
        point, scale = np.broadcast_arrays(np.abs(np.asarray(theta, np.float64)), np.asarray(weights, np.float64))
        with np.errstate(divide="ignore", over="ignore"):
            touching = self._ratio(point)
        return np.multiply(touching, scale, out=np.zeros(point.shape), where=scale > 0)

    def _ratio(self, size: Array) -> Array:
        """P'(size) / size, with its limit at 0."""
        slope = self._slope(size)
        return np.divide(slope, size, out=np.full(size.shape, math.inf if self.alpha > 0 else 0.0), where=size > 0)

    def prox(self, point: ArrayLike, metric: ArrayLike = 1.0, weights: ArrayLike = 1.0) -> Array:
        """argmin over t of sum_j metric_j (t_j - point_j)^2/2 + w_j P(|t_j|), coordinate by coordinate.

        For a penalty that is not convex it is a global minimiser, the smaller one at a tie.

        Examples
        --------
        >>> lasso.prox([5.0, 1.0])
        array([3., 0.])
        """
        centre, scale, weight = np.broadcast_arrays(
            np.asarray(point, np.float64), np.asarray(metric, np.float64), np.asarray(weights, np.float64)
        )
        size = np.abs(centre)
        shrunk = self._shrink(size, scale, weight)
        return np.copysign(np.where(shrunk < np.where(weight > 0, NEGLIGIBLE, 0.0), 0.0, shrunk), centre)

    def residual(self, gradient: NDArray[Any], theta: NDArray[Any], weights: ArrayLike = 1.0) -> NDArray[Any]:
        """The element of gradient + dP(theta) nearest to 0, shape (p,), in the wider of the two precisions.

        Examples
        --------
        >>> lasso.residual(np.array([1.0]), np.array([0.0]))
        array([0.])
        """
        point, grad, scale = np.broadcast_arrays(np.asarray(theta), np.asarray(gradient), np.asarray(weights))
        pull = scale * self._slope(np.maximum(np.abs(point), NEGLIGIBLE))
        free = np.copysign(np.maximum(np.abs(grad) - pull, 0.0), grad)
        return np.where(point == 0, free, grad + np.copysign(pull, point))

    def distance(self, gradient: ArrayLike, theta: ArrayLike, weights: ArrayLike = 1.0) -> float:
        """Euclidean distance of 0 to gradient + dP(theta): at most gamma certifies theta to gamma / min curvature.

        Raises
        ------
        ArgumentError
            If the penalty is not convex, where the distance would certify nothing.

        Examples
        --------
        >>> lasso.distance([5.0], [0.0])
        3.0
        """
        if not self.convex:
            raise ArgumentError(f"{self} is not convex: a small subgradient does not certify its minimiser")
        nearest = self.residual(np.asarray(gradient), np.asarray(theta), weights)
        return float(np.sqrt(np.sum(nearest**2)))

    def to_dict(self) -> dict[str, Any]:
        """Name and parameters, for JSON.

        Examples
        --------
        >>> dp.penalties.from_dict(lasso.to_dict()) == lasso
        True
        """
        return {"name": self.name, **asdict(self)}
