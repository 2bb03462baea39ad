"""Constraint sets of coefficients: balls about the origin, the simplex and convex hulls (docs/proofs/geometry).

Source 001 (Kasiviswanathan, Nissim and Jin 2017), sections 2 and 5: a closed convex set, its projection, its Minkowski
functional and its Gaussian width. All of it is public.

>>> from dpstats.streaming.constraints import L1Ball
>>> L1Ball(1.0).project([2.0, -1.5, 0.1])
array([ 0.75, -0.25,  0.  ])
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import optimize, special, stats

from dpstats.arguments import is_whole
from dpstats.errors import ArgumentError
from dpstats.penalties.base import number

__all__ = ["Constraint", "GroupL1", "Hull", "L1Ball", "L2Ball", "LpBall", "Simplex", "from_dict"]


def __dir__() -> list[str]:
    return list(__all__)


Vector = NDArray[np.float64]

MOST_COLUMNS = 10**9


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
    >>> from dpstats.streaming.constraints import L1Ball, L2Ball, from_dict
    >>> ball = L1Ball(2.0)
    >>> ball.project([3.0, 0.0]), ball.gauge([1.0, 0.0]), ball.reach
    (array([2., 0.]), 0.5, 2.0)
    >>> ball.farthest([1.0, 3.0]), ball.support([1.0, 3.0])
    (array([0., 2.]), 6.0)
    >>> ball.gaussian_width(100) < L2Ball(2.0).gaussian_width(100)
    True
    >>> ball.check_size(7)  # raises ArgumentError where the set has no such dimension
    >>> from_dict(ball.to_dict()) == ball
    True
    """

    name: ClassVar[str]
    symmetric: ClassVar[bool] = True

    @property
    @abstractmethod
    def reach(self) -> float:
        """The greatest Euclidean norm of a point of the set."""

    def project(self, point: ArrayLike) -> Vector:
        """The nearest point of the set in the Euclidean norm, shape (d,), to a vector of finite numbers.

        ArgumentError if `point` is none, or of a length that the set does not have; so for `gauge` and `farthest`.
        """
        return self._project(self._checked(point))

    def gauge(self, point: ArrayLike) -> float:
        """Minkowski's functional: the least rho >= 0 with `point` in rho times the set; inf if there is none."""
        return self._gauge(self._checked(point))

    def farthest(self, direction: ArrayLike) -> Vector:
        """A point v of the set with the greatest <v, direction>, shape (d,)."""
        return self._farthest(self._checked(direction))

    def support(self, direction: ArrayLike) -> float:
        """The greatest <v, direction> of a point v of the set."""
        return float(self.farthest(direction) @ np.asarray(direction, dtype=np.float64))

    def gaussian_width(self, d: int) -> float:
        """E sup <v, g> over points v of the set, g standard normal in d dimensions (source 001, definition 3).

        ArgumentError if the set has no vectors of `d` coefficients.
        """
        if not is_whole(d) or not 1 <= d <= MOST_COLUMNS:
            raise ArgumentError("d must be a positive integer: the number of coefficients")
        self.check_size(int(d))
        return self._gaussian_width(int(d))

    def check_size(self, size: int) -> None:  # noqa: B027 - most sets exist in every dimension
        """ArgumentError if the set has no vectors of length `size`."""

    @abstractmethod
    def to_dict(self) -> dict[str, Any]:
        """Plain public values, for JSON."""

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


def nearest_on_simplex(point: Vector, total: float) -> Vector:
    """The nearest v >= 0 with sum `total`, shape (d,).

    Subtracts the one number that leaves positive parts of that sum; found by sorting (Held, Wolfe and Crowder 1974).
    """
    # Moving all coordinates alike does not change the answer, and keeps small differences in large numbers.
    shifted = point - point.max()
    ordered = np.sort(shifted)[::-1]
    levels = (np.cumsum(ordered) - total) / np.arange(1, len(point) + 1)
    last = int(np.nonzero(ordered > levels)[0][-1])
    return np.asarray(np.maximum(shifted - levels[last], 0.0))


def shrink_to_sum(sizes: Vector, total: float) -> Vector:
    """The nearest v >= 0 with sum at most `total` to `sizes` >= 0, shape (d,)."""
    return sizes.copy() if sizes.sum() <= total else nearest_on_simplex(sizes, total)


LARGEST_RADIUS = 1e50


@dataclass(frozen=True)
class Ball(Constraint):
    """A set that scales with its `radius`, the greatest Euclidean norm of its points.

    ArgumentError if `radius` is not a positive number up to 1e50.
    """

    radius: float = 1.0

    def __post_init__(self) -> None:
        radius = number("radius", self.radius, 0.0, LARGEST_RADIUS, open_low=True)
        object.__setattr__(self, "radius", radius)

    @property
    def reach(self) -> float:
        """`radius`."""
        return self.radius

    def to_dict(self) -> dict[str, Any]:
        return {"name": self.name, "radius": self.radius}


@dataclass(frozen=True)
class L2Ball(Ball):
    """Vectors of Euclidean norm at most `radius`.

    Examples
    --------
    >>> L2Ball(1.0).project([3.0, 4.0])
    array([0.6, 0.8])
    """

    name: ClassVar[str] = "l2"

    def _project(self, point: Vector) -> Vector:
        return point / max(1.0, self._gauge(point))

    def _gauge(self, point: Vector) -> float:
        return float(np.linalg.norm(point)) / self.radius

    def _farthest(self, direction: Vector) -> Vector:
        return direction * (self.radius / (float(np.linalg.norm(direction)) or 1.0))

    def _gaussian_width(self, size: int) -> float:
        return self.radius * normal_length(size)


@dataclass(frozen=True)
class L1Ball(Ball):
    """Vectors whose absolute values add up to at most `radius`.

    Examples
    --------
    >>> L1Ball(1.0).project([3.0, 0.0])
    array([1., 0.])
    """

    name: ClassVar[str] = "l1"

    def _project(self, point: Vector) -> Vector:
        return np.sign(point) * shrink_to_sum(np.abs(point), self.radius)

    def _gauge(self, point: Vector) -> float:
        return float(np.abs(point).sum()) / self.radius

    def _farthest(self, direction: Vector) -> Vector:
        corner = np.zeros_like(direction)
        place = int(np.argmax(np.abs(direction)))
        corner[place] = self.radius * np.sign(direction[place])
        return corner

    def _gaussian_width(self, size: int) -> float:
        return self.radius * greatest_length([1] * size)


@dataclass(frozen=True)
class Simplex(Ball):
    """Vectors of non-negative numbers that add up to `radius`.

    Examples
    --------
    >>> Simplex().project([0.5, 0.5])
    array([0.5, 0.5])
    """

    name: ClassVar[str] = "simplex"
    symmetric: ClassVar[bool] = False

    def _project(self, point: Vector) -> Vector:
        return nearest_on_simplex(point, self.radius)

    def _gauge(self, point: Vector) -> float:
        return float(point.sum()) / self.radius if point.min() >= 0 else np.inf

    def _farthest(self, direction: Vector) -> Vector:
        corner = np.zeros_like(direction)
        corner[int(np.argmax(direction))] = self.radius
        return corner

    def _gaussian_width(self, size: int) -> float:
        return self.radius * greatest_normal(size)


@dataclass(frozen=True)
class GroupL1(Ball):
    """Vectors whose groups have Euclidean norms that add up to at most `radius`, which is as for other balls.

    Parameters
    ----------
    groups : int or tuple of int
        The size of every group of adjacent coefficients (the last may be smaller), or the sizes one by one.

    Examples
    --------
    >>> GroupL1(groups=2).gauge([3.0, 4.0, 0.0, 0.0]), GroupL1(groups=2).sizes(4)
    (5.0, [2, 2])
    """

    groups: int | tuple[int, ...] = 1

    name: ClassVar[str] = "group_l1"

    def __post_init__(self) -> None:
        super().__post_init__()
        sizes = self.groups if isinstance(self.groups, (list, tuple)) else [self.groups]
        if not sizes or not all(isinstance(size, (int, np.integer)) and size >= 1 for size in sizes):
            raise ArgumentError("groups must be a positive integer, or positive integers: the sizes of the groups")
        groups = tuple(int(size) for size in sizes)
        object.__setattr__(self, "groups", groups if sizes is self.groups else groups[0])

    def check_size(self, size: int) -> None:
        if isinstance(self.groups, tuple) and sum(self.groups) != size:
            raise ArgumentError(f"groups must add up to the number of coefficients, {size}, not {sum(self.groups)}")

    def sizes(self, size: int) -> list[int]:
        """The sizes of the groups of `size` coefficients."""
        if isinstance(self.groups, tuple):
            return list(self.groups)
        full, left = divmod(size, self.groups)
        return [self.groups] * full + [left] * (left > 0)

    def to_dict(self) -> dict[str, Any]:
        groups = list(self.groups) if isinstance(self.groups, tuple) else self.groups
        return {**super().to_dict(), "groups": groups}

    def _lengths(self, point: Vector) -> tuple[Vector, Vector]:
        """The norm of each group, shape (g,), and of each coefficient's group, shape (d,)."""
        sizes = self.sizes(len(point))
        starts = np.concatenate([[0], np.cumsum(sizes)[:-1]])
        largest = max(float(np.abs(point).max()), 1e-300)
        lengths = largest * np.sqrt(np.add.reduceat((point / largest) ** 2, starts))
        return lengths, np.repeat(lengths, sizes)

    def _project(self, point: Vector) -> Vector:
        lengths, of_group = self._lengths(point)
        shorter = np.repeat(shrink_to_sum(lengths, self.radius), self.sizes(len(point)))
        return point * np.divide(shorter, of_group, out=np.zeros_like(of_group), where=of_group > 0)

    def _gauge(self, point: Vector) -> float:
        return float(self._lengths(point)[0].sum()) / self.radius

    def _farthest(self, direction: Vector) -> Vector:
        lengths, of_group = self._lengths(direction)
        best = np.repeat(np.arange(len(lengths)) == np.argmax(lengths), self.sizes(len(direction)))
        return np.divide(self.radius * direction, of_group, out=np.zeros_like(of_group), where=best & (of_group > 0))

    def _gaussian_width(self, size: int) -> float:
        return self.radius * greatest_length(self.sizes(size))


@dataclass(frozen=True)
class LpBall(Ball):
    """Vectors with sum |v|^p at most radius^p, 1 < p < 2; `radius` is as for other balls.

    Parameters
    ----------
    p : float
        Between 1.01 and 2, where `L2Ball` begins; for 1 take `L1Ball`.

    Examples
    --------
    >>> LpBall(p=1.5).gauge([1.0, 0.0])
    1.0
    """

    p: float = 1.5

    name: ClassVar[str] = "lp"

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "p", number("p", self.p, 1.01, 1.99))

    def to_dict(self) -> dict[str, Any]:
        return {**super().to_dict(), "p": self.p}

    def _project(self, point: Vector) -> Vector:
        sizes, gauge = np.abs(point) / self.radius, self._gauge(point)
        if gauge <= 1 + 1e-12:  # so near, the way to the ball is the way to the origin
            return point / max(1.0, gauge)
        dual = self.p / (self.p - 1)
        largest = sizes.max()
        # At this slope no coordinate is more than (size / slope)^(dual - 1), and those lie in the ball.
        high = float(largest * np.sum((sizes / largest) ** dual) ** (1 / dual))
        low = high / 2
        while self._shrunk(sizes, low).max() ** self.p < 1 and np.sum(self._shrunk(sizes, low) ** self.p) < 1:
            low /= 2
        slope = optimize.brentq(
            lambda at: np.sum(self._shrunk(sizes, at) ** self.p) - 1, low, high, xtol=1e-300, rtol=1e-14
        )
        shrunk = self._shrunk(sizes, slope)
        return np.sign(point) * (self.radius * shrunk / max(1.0, float(np.sum(shrunk**self.p)) ** (1 / self.p)))

    def _shrunk(self, sizes: Vector, slope: float) -> Vector:
        """v >= 0 with v + slope v^(p - 1) = size, shape (d,).

        In u = v^(p - 1) the left side is convex and increasing: Newton's steps from above come down to the root.
        """
        power = 1 / (self.p - 1)
        root = np.minimum(sizes ** (self.p - 1), sizes / slope)
        for _ in range(200):
            value = root**power
            steps = (value + slope * root - sizes) / (
                power * np.divide(value, root, out=np.zeros_like(root), where=root > 0) + slope
            )
            root = np.maximum(root - steps, 0.0)
            if np.all(np.abs(steps) <= 1e-15 * root):
                break
        return np.asarray(root**power)

    def _gauge(self, point: Vector) -> float:
        largest = float(np.abs(point).max()) or 1.0
        return largest * float(np.sum((np.abs(point) / largest) ** self.p)) ** (1 / self.p) / self.radius

    def _farthest(self, direction: Vector) -> Vector:
        largest = float(np.abs(direction).max())
        if largest == 0:
            return direction
        dual = self.p / (self.p - 1)
        shape = (np.abs(direction) / largest) ** (dual - 1)
        return np.sign(direction) * shape * (self.radius / float(np.sum(shape**self.p)) ** (1 / self.p))

    def _gaussian_width(self, size: int) -> float:
        return self.radius * normal_norm(size, self.p / (self.p - 1))


WIDTH_DRAWS = 20_000


@dataclass(frozen=True)
class Hull(Constraint):
    """The convex hull of public points.

    Parameters
    ----------
    points : sequence of sequences of float, shape (l, d)
        At least one; finite numbers, kept as tuples.

    Examples
    --------
    >>> Hull([[0.0, 0.0], [1.0, 0.0], [0.0, 2.0]]).reach
    2.0
    """

    points: Sequence[Sequence[float]]

    name: ClassVar[str] = "hull"
    symmetric: ClassVar[bool] = False

    def __post_init__(self) -> None:
        try:
            array = np.asarray(self.points, dtype=np.float64)
        except (TypeError, ValueError):
            raise ArgumentError("points must be numbers, in rows of one length") from None
        if array.ndim != 2 or array.size == 0 or not np.isfinite(array).all():
            raise ArgumentError("points must be finite numbers, in rows of one length: shape (l, d)")
        object.__setattr__(self, "points", tuple(tuple(row) for row in array.tolist()))

    @property
    def reach(self) -> float:
        """The greatest Euclidean norm of a point."""
        return float(np.linalg.norm(self._array, axis=1).max())

    def check_size(self, size: int) -> None:
        if size != len(self.points[0]):
            raise ArgumentError(f"points have {len(self.points[0])} numbers, one for each coefficient, not {size}")

    def to_dict(self) -> dict[str, Any]:
        return {"name": self.name, "points": [list(row) for row in self.points]}

    @property
    def _array(self) -> NDArray[np.float64]:
        return np.asarray(self.points, dtype=np.float64)

    def _project(self, point: Vector) -> Vector:
        """The weights minimise ||sum w_i (a_i - point)|| on the simplex.

        Up to their sum they are those of least squares of (0, ..., 0, 1) on the columns (a_i - point, 1) with
        non-negative coefficients: at any sum s the square is s^2 ||.||^2 + (1 - s)^2.
        """
        points = self._array
        shifted = points - point
        scale = float(np.abs(shifted).max())
        if scale == 0:
            return point.copy()
        columns = np.vstack([shifted.T / scale, np.ones(len(points))])
        goal = np.zeros(len(columns))
        goal[-1] = 1.0
        weights = optimize.nnls(columns, goal, maxiter=30 * sum(columns.shape))[0]
        return np.asarray(weights @ points / weights.sum())

    def _gauge(self, point: Vector) -> float:
        """The least sum of weights >= 0 with which the points make `point`."""
        scale = float(np.abs(point).max())
        if scale == 0:
            return 0.0
        points = self._array
        least = optimize.linprog(np.ones(len(points)), A_eq=points.T, b_eq=point / scale, method="highs")
        return scale * float(np.sum(np.asarray(least.x))) if least.status == 0 else np.inf

    def _farthest(self, direction: Vector) -> Vector:
        points = self._array
        return np.asarray(points[int(np.argmax(points @ direction))])

    def _gaussian_width(self, size: int) -> float:
        """By 20,000 draws that are always the same: no quadrature reaches so many dimensions."""
        points = self._array
        centred = points - points.mean(axis=0)  # a set that is moved is as wide
        random = np.random.default_rng(20170521)
        total = 0.0
        for _ in range(20):
            draws = random.standard_normal((WIDTH_DRAWS // 20, size)) @ centred.T
            total += float(draws.max(axis=1).sum() - draws.min(axis=1).sum()) / 2
        return total / WIDTH_DRAWS


_KINDS: dict[str, type[Constraint]] = {kind.name: kind for kind in (L2Ball, L1Ball, Simplex, GroupL1, LpBall, Hull)}


def from_dict(stored: Mapping[str, Any]) -> Constraint:
    """The constraint whose `to_dict` gave `stored`; ArgumentError if that does not describe one.

    Examples
    --------
    >>> from_dict({"name": "l1", "radius": 2.0})
    L1Ball(radius=2.0)
    """
    arguments = dict(stored) if isinstance(stored, Mapping) else {}
    kind = _KINDS.get(str(arguments.pop("name", None)))
    if kind is None:
        raise ArgumentError(f"a stored constraint must have a 'name' among {list(_KINDS)}")
    try:
        return kind(**arguments)
    except TypeError:
        raise ArgumentError(f"a stored constraint {kind.name!r} has other parameters than this version") from None
