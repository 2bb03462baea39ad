"""What a constraint set is to a solver: nearest points, farthest points, how large it is and how wide.

Source 001 (Kasiviswanathan, Nissim and Jin 2017), sections 2 and 5: a closed convex set of coefficients, its
projection, its Minkowski functional and its Gaussian width. All of it is public.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from itertools import pairwise
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import special, stats

from dpstats.errors import ArgumentError

Vector = NDArray[np.float64]


class Constraint(ABC):
    """A closed convex set of vectors of coefficients, on the scaled columns.

    Attributes
    ----------
    name : str
        As `to_dict` stores it.
    symmetric : bool
        Whether -v is in the set for every v that is: its gauge is then a norm.

    Examples
    --------
    >>> import dpstats as dp
    >>> ball = dp.streaming.constraints.L1Ball(2.0)
    >>> ball.reach
    2.0
    """

    name: ClassVar[str]
    symmetric: ClassVar[bool] = True

    @property
    @abstractmethod
    def reach(self) -> float:
        """The greatest Euclidean norm of a point of the set."""

    def project(self, point: ArrayLike) -> Vector:
        """The nearest point of the set in the Euclidean norm, shape (d,).

        Parameters
        ----------
        point : array_like, shape (d,)
            Finite numbers.

        Raises
        ------
        ArgumentError
            If `point` is no vector of finite numbers, or of a length that the set does not have.

        Examples
        --------
        >>> ball.project([3.0, 0.0])
        array([2., 0.])
        """
        return self._project(self._checked(point))

    def gauge(self, point: ArrayLike) -> float:
        """Minkowski's functional: the least rho >= 0 with `point` in rho times the set; inf if there is none.

        Parameters
        ----------
        point : array_like, shape (d,)

        Raises
        ------
        ArgumentError
            As for `project`.

        Examples
        --------
        >>> ball.gauge([1.0, 0.0])
        0.5
        """
        return self._gauge(self._checked(point))

    def farthest(self, direction: ArrayLike) -> Vector:
        """A point v of the set with the greatest <v, direction>, shape (d,).

        Parameters
        ----------
        direction : array_like, shape (d,)

        Raises
        ------
        ArgumentError
            As for `project`.

        Examples
        --------
        >>> ball.farthest([1.0, 3.0])
        array([0., 2.])
        """
        return self._farthest(self._checked(direction))

    def support(self, direction: ArrayLike) -> float:
        """The greatest <v, direction> of a point v of the set.

        Examples
        --------
        >>> ball.support([1.0, 3.0])
        6.0
        """
        return float(self.farthest(direction) @ np.asarray(direction, dtype=np.float64))

    def gaussian_width(self, d: int) -> float:
        """E sup <v, g> over points v of the set, g standard normal in d dimensions (source 001, definition 3).

        Parameters
        ----------
        d : int
            Number of coefficients.

        Raises
        ------
        ArgumentError
            If the set has no vectors of that length.

        Examples
        --------
        >>> ball.gaussian_width(100) < dp.streaming.constraints.L2Ball(2.0).gaussian_width(100)
        True
        """
        if isinstance(d, bool) or not isinstance(d, (int, np.integer)) or d < 1:
            raise ArgumentError("d must be a positive integer: the number of coefficients")
        self.check_size(int(d))
        return self._gaussian_width(int(d))

    def check_size(self, size: int) -> None:  # noqa: B027 - most sets exist in every dimension
        """ArgumentError if the set has no vectors of length `size`.

        Examples
        --------
        >>> ball.check_size(7)  # raises ArgumentError where the set has no such dimension
        """

    @abstractmethod
    def to_dict(self) -> dict[str, Any]:
        """Plain public values, for JSON.

        Examples
        --------
        >>> dp.streaming.constraints.from_dict(ball.to_dict()) == ball
        True
        """

    @abstractmethod
    def _project(self, point: Vector) -> Vector: ...

    @abstractmethod
    def _gauge(self, point: Vector) -> float: ...

    @abstractmethod
    def _farthest(self, direction: Vector) -> Vector: ...

    @abstractmethod
    def _gaussian_width(self, size: int) -> float: ...

    def _checked(self, point: ArrayLike) -> Vector:
        try:
            vector = np.asarray(point, dtype=np.float64)
        except (TypeError, ValueError):
            raise ArgumentError("a point must be a vector of numbers") from None
        if vector.ndim != 1 or vector.size == 0 or not np.isfinite(vector).all():
            raise ArgumentError("a point must be a vector of finite numbers, one for each coefficient")
        self.check_size(vector.size)
        return vector


_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(200)


def _integral(values: Vector, low: float, high: float) -> float:
    """Integral over [low, high] of a function given at `_grid`, by four panels of Gauss and Legendre."""
    return float((high - low) / 8 * (values.reshape(4, -1) @ _WEIGHTS).sum())


def _grid(low: float, high: float) -> Vector:
    edges = np.linspace(low, high, 5)
    return np.concatenate([(b - a) / 2 * _NODES + (a + b) / 2 for a, b in pairwise(edges)])


def normal_length(size: int) -> float:
    """E ||g|| of a standard normal vector of `size` numbers."""
    return float(np.sqrt(2) * np.exp(special.gammaln((size + 1) / 2) - special.gammaln(size / 2)))


def greatest_length(sizes: Sequence[int]) -> float:
    """E max ||g_j|| of independent standard normal vectors of `sizes` numbers: the integral of 1 - prod F_j."""
    kinds, counts = np.unique(np.asarray(sizes), return_counts=True)
    high = float(np.sqrt(kinds.max()) + np.sqrt(2 * np.log(counts.sum() + 1)) + 9)
    points = _grid(0.0, high)
    logs = sum(count * stats.chi(kind).logcdf(points) for kind, count in zip(kinds, counts, strict=True))
    return _integral(-np.expm1(logs), 0.0, high)


def greatest_normal(size: int) -> float:
    """E max g_j of `size` independent standard normal numbers."""
    if size == 1:
        return 0.0
    points = _grid(0.0, 40.0)
    above = -np.expm1(size * special.log_ndtr(points))
    below = np.exp(size * special.log_ndtr(-points))
    return _integral(above - below, 0.0, 40.0)


def normal_norm(size: int, power: float) -> float:
    """E ||g||_q, q = `power` >= 2, of a standard normal vector of `size` numbers.

    With S the sum of |g_j|^q and s = 1/q, E S^s = s / Gamma(1 - s) times the integral over u > 0 of
    (1 - (E exp(-u |g|^q))^size) u^(-s - 1): one-dimensional throughout.
    """
    if size == 1:
        return normal_length(1)
    share = 1 / power
    points = _grid(0.0, 9.0)
    density = 2 * stats.norm.pdf(points) * np.tile(_WEIGHTS, 4) * (9.0 / 8)
    # With u = exp(-q x) the integrand is exp(x) up to about the logarithm of the norm and exp(-(q - 1) x) beyond.
    scales = np.linspace(-14.0, 10.0 + 40 / (power - 1), 901)
    logs = power * (np.log(points)[None, :] - scales[:, None])
    missing = -np.expm1(-np.exp(np.minimum(logs, 700.0))) @ density
    tail = -np.expm1(size * np.log1p(-np.minimum(missing, 1 - 1e-16)))
    values = tail * np.exp(scales)
    return float(np.sum((values[1:] + values[:-1]) / 2) * (scales[1] - scales[0]) / special.gamma(1 - share))
