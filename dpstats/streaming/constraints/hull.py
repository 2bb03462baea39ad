"""The convex hull of given points."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy import optimize

from dpstats.errors import ArgumentError
from dpstats.streaming.constraints.base import Constraint, Vector

WIDTH_DRAWS = 20_000


@dataclass(frozen=True)
class Hull(Constraint):
    """The convex hull of public points.

    Parameters
    ----------
    points : sequence of sequences of float, shape (l, d)
        At least one; kept as tuples.

    Raises
    ------
    ArgumentError
        If the points are not vectors of finite numbers, all of one length.

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
        moved = points - point
        scale = float(np.abs(moved).max())
        if scale == 0:
            return point.copy()
        columns = np.vstack([moved.T / scale, np.ones(len(points))])
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
        found = optimize.linprog(np.ones(len(points)), A_eq=points.T, b_eq=point / scale, method="highs")
        return scale * float(np.sum(np.asarray(found.x))) if found.status == 0 else np.inf

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
