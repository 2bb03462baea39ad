"""Ridge, lasso, elastic net and bridge."""

from __future__ import annotations

import math
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


@dataclass(frozen=True)
class Bridge(Penalty):
    """alpha |t|^q, 0 < q <= 2; convex from q = 1 (the lasso) to q = 2 (the ridge of strength 2 alpha).

    Examples
    --------
    >>> import dpstats as dp
    >>> dp.penalties.Bridge(2.0, q=1.5).name
    'bridge'
    """

    q: float

    name: ClassVar[str] = "bridge"

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "q", number("q", self.q, 0.0, 2.0, open_low=True))

    @property
    def convex(self) -> bool:
        return self.q >= 1 or self.alpha == 0

    @property
    def modulus(self) -> float:
        # q (q - 1) t^(q - 2) falls to 0 far out for q < 2 and is -infinite at 0 for q < 1.
        if self.q == 2:
            return 2 * self.alpha
        return 0.0 if self.convex else -math.inf

    def _height(self, size: Array) -> Array:
        return self.alpha * size**self.q

    def _slope(self, size: Array) -> Array:
        with np.errstate(divide="ignore"):
            return self.alpha * self.q * size ** (self.q - 1) if self.alpha > 0 else np.zeros_like(size)

    def _bend(self, size: Array) -> Array:
        with np.errstate(divide="ignore", over="ignore"):
            return self.alpha * self.q * (self.q - 1) * size ** (self.q - 2)

    def _ratio(self, size: Array) -> Array:
        return self.alpha * self.q * size ** (self.q - 2) if self.alpha > 0 else np.zeros_like(size)

    def _shrink(self, size: Array, metric: Array, weights: Array) -> Array:
        if self.q == 1:
            return Lasso(self.alpha)._shrink(size, metric, weights)
        if self.q == 2:
            return Ridge(2 * self.alpha)._shrink(size, metric, weights)
        return self._convex_root(size, metric, weights) if self.q > 1 else self._concave_root(size, metric, weights)

    def _convex_root(self, size: Array, metric: Array, weights: Array) -> Array:
        """Root of metric (t - size) + weight t^(q-1) = 0 for 1 < q < 2.

        In s = t^(q-1) the equation is convex and increasing, so Newton falls monotonically from an upper bound.
        """
        weight, power = weights * self.alpha * self.q, 1 / (self.q - 1)
        bound = np.divide(metric * size, weight, out=np.full(size.shape, math.inf), where=weight > 0)
        s = np.minimum(bound, size ** (self.q - 1))
        for _ in range(200):
            slope = metric * power * s ** (power - 1) + weight
            excess = metric * (s**power - size) + weight * s
            step = np.divide(excess, slope, out=np.zeros_like(s), where=slope > 0)
            previous, s = s, np.maximum(s - np.maximum(step, 0.0), 0.0)
            if np.all(previous - s <= 1e-16 * previous):
                break
        return np.where(weight > 0, s**power, size)

    def _concave_root(self, size: Array, metric: Array, weights: Array) -> Array:
        """Global minimiser for q < 1: zero or the largest stationary point, whichever is lower."""
        weight = weights * self.alpha * self.q
        # Below `least` the objective's slope falls; its greatest root, if any, lies above, where the slope is convex.
        least = (weight * (1 - self.q) / metric) ** (1 / (2 - self.q))
        t = np.maximum(size, least)
        for _ in range(200):
            with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
                excess = metric * (t - size) + np.where(weight > 0, weight * t ** (self.q - 1), 0.0)
                slope = metric - np.where(weight > 0, weight * (1 - self.q) * t ** (self.q - 2), 0.0)
                step = np.where((excess > 0) & (slope > 0), excess / slope, 0.0)
            previous, t = t, np.maximum(t - step, least)
            if np.all(previous - t <= 1e-16 * previous):
                break
        gain = 0.5 * metric * (size**2 - (t - size) ** 2) - weights * self.alpha * t**self.q
        return np.where((gain > 0) & (t <= size), t, 0.0)
