"""Ridge, lasso and elastic net."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from dpstats.penalties.base import Array, Penalty, number


@dataclass(frozen=True)
class Ridge(Penalty):
    """alpha/2 t^2.

    Examples
    --------
    >>> import dpstats as dp
    >>> dp.plan("y ~ x", {"x": (0, 1), "y": (0, 1)}, 1.0, penalty=dp.penalties.Ridge(2.0)).request.penalty.name
    'ridge'
    """

    name: ClassVar[str] = "ridge"
    convex: ClassVar[bool] = True

    @property
    def modulus(self) -> float:
        return self.alpha

    def _height(self, size: Array) -> Array:
        return 0.5 * self.alpha * size**2

    def _slope(self, size: Array) -> Array:
        return self.alpha * size

    def _bend(self, size: Array) -> Array:
        return np.full_like(size, self.alpha)

    def _ratio(self, size: Array) -> Array:
        return np.full_like(size, self.alpha)

    def _shrink(self, size: Array, metric: Array, weights: Array) -> Array:
        return metric * size / (metric + weights * self.alpha)


@dataclass(frozen=True)
class Lasso(Penalty):
    """alpha |t|.

    Examples
    --------
    >>> import dpstats as dp
    >>> dp.plan("y ~ x", {"x": (0, 1), "y": (0, 1)}, 1.0, penalty=dp.penalties.Lasso(2.0)).request.penalty.name
    'lasso'
    """

    name: ClassVar[str] = "lasso"
    convex: ClassVar[bool] = True
    modulus: ClassVar[float] = 0.0

    def _height(self, size: Array) -> Array:
        return self.alpha * size

    def _slope(self, size: Array) -> Array:
        return np.full_like(size, self.alpha)

    def _bend(self, size: Array) -> Array:
        return np.zeros_like(size)

    def _shrink(self, size: Array, metric: Array, weights: Array) -> Array:
        return np.maximum(size - weights * self.alpha / metric, 0.0)


@dataclass(frozen=True)
class ElasticNet(Penalty):
    """alpha (l1_ratio |t| + (1 - l1_ratio)/2 t^2), 0 <= l1_ratio <= 1.

    Examples
    --------
    >>> import dpstats as dp
    >>> penalty = dp.penalties.ElasticNet(2.0, l1_ratio=0.5)
    >>> dp.plan("y ~ x", {"x": (0, 1), "y": (0, 1)}, 1.0, penalty=penalty).request.penalty.name
    'elastic_net'
    """

    l1_ratio: float = 0.5

    name: ClassVar[str] = "elastic_net"
    convex: ClassVar[bool] = True

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "l1_ratio", number("l1_ratio", self.l1_ratio, 0.0, 1.0))

    @property
    def modulus(self) -> float:
        return self.alpha * (1 - self.l1_ratio)

    def _height(self, size: Array) -> Array:
        return self.alpha * self.l1_ratio * size + 0.5 * self.modulus * size**2

    def _slope(self, size: Array) -> Array:
        return self.alpha * self.l1_ratio + self.modulus * size

    def _bend(self, size: Array) -> Array:
        return np.full_like(size, self.modulus)

    def _ratio(self, size: Array) -> Array:
        return self.modulus + (Lasso(self.alpha * self.l1_ratio)._ratio(size))

    def _shrink(self, size: Array, metric: Array, weights: Array) -> Array:
        left = np.maximum(metric * size - weights * self.alpha * self.l1_ratio, 0.0)
        return left / (metric + weights * self.modulus)
