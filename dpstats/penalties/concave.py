"""SCAD and l0: penalties that stop growing, for the second of two stages only."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from dpstats.penalties.base import Array, Penalty, number


@dataclass(frozen=True)
class SCAD(Penalty):
    """Fan and Li's (2001) penalty: slope alpha up to `knot`, falling to 0 at a * knot. Two stages only.

    Parameters
    ----------
    alpha : float
        Slope at zero.
    a : float
        Greater than 2; where the penalty is flat, in units of `knot`.
    knot : float, optional
        Size of a coefficient from which the slope falls. None is Fan and Li's choice, alpha, which suits a mean of
        losses; for the sum of losses pass the size of a coefficient.

    Examples
    --------
    >>> import dpstats as dp
    >>> dp.penalties.penalty("scad", 2.0).name
    'scad'
    """

    a: float = 3.7
    knot: float | None = None

    name: ClassVar[str] = "scad"

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "a", number("a", self.a, 2.0, math.inf, open_low=True))
        if self.knot is not None:
            object.__setattr__(self, "knot", number("knot", self.knot, 0.0, math.inf, open_low=True))

    @property
    def _knot(self) -> float:
        return self.alpha if self.knot is None else self.knot

    @property
    def convex(self) -> bool:
        return self.alpha == 0

    @property
    def modulus(self) -> float:
        return -self.alpha / ((self.a - 1) * self._knot) if self.alpha > 0 else 0.0

    def _height(self, size: Array) -> Array:
        near, far = np.minimum(size, self._knot), np.clip(size, self._knot, self.a * self._knot) - self._knot
        return self.alpha * (near + far) + 0.5 * self.modulus * far**2

    def _slope(self, size: Array) -> Array:
        return np.maximum(self.alpha + self.modulus * np.maximum(size - self._knot, 0.0), 0.0)

    def _bend(self, size: Array) -> Array:
        return np.where((size > self._knot) & (size < self.a * self._knot), self.modulus, 0.0)

    def _shrink(self, size: Array, metric: Array, weights: Array) -> Array:
        # One candidate a piece, each the minimiser of its quadratic (or an end where that is concave).
        lift = weights * self.alpha
        bent = metric + weights * self.modulus
        middle = metric * size - lift + weights * self.modulus * self._knot
        middle = np.divide(middle, bent, out=np.full(size.shape, self._knot), where=bent > 0)
        end = self.a * self._knot
        candidates = np.stack(
            [np.clip(size - lift / metric, 0.0, self._knot), np.clip(middle, self._knot, end), np.maximum(size, end)]
        )
        cost = 0.5 * metric * (candidates - size) ** 2 + weights * self._height(candidates)
        best: Array = np.take_along_axis(candidates, np.argmin(cost, axis=0)[None], axis=0)[0]
        return best


@dataclass(frozen=True)
class L0(Penalty):
    """alpha for every nonzero coefficient. Two stages only.

    Its majoriser is that of the surrogate alpha log t^2 (adaptive ridge, Frommlet and Nuel 2016): 2 alpha / t^2, the
    limit of the bridge's as q falls to 0 with alpha q held at 2 alpha.

    Examples
    --------
    >>> import dpstats as dp
    >>> dp.penalties.penalty("l0", 2.0).name
    'l0'
    """

    name: ClassVar[str] = "l0"

    @property
    def convex(self) -> bool:
        return self.alpha == 0

    @property
    def sparse(self) -> bool:
        return self.alpha > 0

    @property
    def modulus(self) -> float:
        return 0.0 if self.alpha == 0 else -math.inf

    def _height(self, size: Array) -> Array:
        return np.where(size > 0, self.alpha, 0.0)

    def _slope(self, size: Array) -> Array:
        return np.zeros_like(size)

    def _bend(self, size: Array) -> Array:
        return np.zeros_like(size)

    def _ratio(self, size: Array) -> Array:
        return 2 * self.alpha / size**2 if self.alpha > 0 else np.zeros_like(size)

    def _shrink(self, size: Array, metric: Array, weights: Array) -> Array:
        return np.where(0.5 * metric * size**2 > weights * self.alpha, size, 0.0)
