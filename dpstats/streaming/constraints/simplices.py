"""Nearest points of simplices, on which the L1 ball, the group ball and the simplex itself rest."""

from __future__ import annotations

import numpy as np

from dpstats.streaming.constraints.base import Vector


def nearest_on_simplex(point: Vector, total: float) -> Vector:
    """The nearest v >= 0 with sum `total`, shape (d,).

    Subtracts the one number that leaves positive parts of that sum; found by sorting (Held, Wolfe and Crowder 1974).
    """
    # Moving all coordinates alike does not change the answer, and keeps small differences in large numbers.
    moved = point - point.max()
    ordered = np.sort(moved)[::-1]
    levels = (np.cumsum(ordered) - total) / np.arange(1, len(point) + 1)
    kept = int(np.nonzero(ordered > levels)[0][-1])
    return np.asarray(np.maximum(moved - levels[kept], 0.0))


def shrink_to_sum(sizes: Vector, total: float) -> Vector:
    """The nearest v >= 0 with sum at most `total` to `sizes` >= 0, shape (d,)."""
    return sizes.copy() if sizes.sum() <= total else nearest_on_simplex(sizes, total)
