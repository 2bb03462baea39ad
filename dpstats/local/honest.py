"""What honest reports can be: beyond it a report was not made by `randomize` (docs/proofs/local, 7)."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dpstats.local.spec import BOUNDS, Spec

Integers = NDArray[np.int64]

SLACK = 1 + 1e-9
"""For floating-point rounding."""


class Honest(NamedTuple):
    """What a report must be within.

    Attributes
    ----------
    lower, upper : ndarray of int64, shape (size,)
        Of each integer.
    norm : float
        Of the Euclidean norm of a report.
    """

    lower: Integers
    upper: Integers
    norm: float

    @property
    def most(self) -> int:
        """The largest absolute value of an integer."""
        return max(int(self.upper.max()), -int(self.lower.min()))

    def fits(self, values: Integers) -> NDArray[np.bool_]:
        """Which of some reports, shape (r, size), may be honest ones, shape (r,)."""
        floats = values.astype(np.float64)
        fitting = np.einsum("ij,ij->i", floats, floats) <= self.norm**2
        if (values.min(axis=0) < self.lower).any() or (values.max(axis=0) > self.upper).any():
            fitting &= ((values >= self.lower) & (values <= self.upper)).all(axis=1)
        return np.asarray(fitting)

    def fits_sum(self, values: Integers, count: int) -> bool:
        """Whether these may be the integers of a sum of so many reports that fit, shape (size,)."""
        bounds = zip(self.lower.tolist(), values.tolist(), self.upper.tolist(), strict=True)
        return all(count * low <= value <= count * high for low, value, high in bounds)


def honest(spec: Spec) -> Honest:
    """What the reports of a specification are within: what a record may say, rounding, and noise."""
    linear, square = BOUNDS[spec.family]
    p, size, scale = len(spec.names), spec.size, spec.lattice.scale
    if spec.scheme == "features":
        rest = math.sqrt(square)
        upper = np.repeat([linear, rest], p)
        lower = -upper
    else:
        rest = square
        rows, columns = np.triu_indices(p)
        # Off the diagonal sqrt(2) q_i q_j, and 2 |q_i q_j| is at most the square of the norm.
        upper = np.concatenate([np.full(p, linear), np.where(rows == columns, rest, rest / math.sqrt(2))])
        lower = np.concatenate([np.full(p, -linear), np.where(rows == columns, 0.0, -rest / math.sqrt(2))])
    gradient, unit = spec.units
    units = np.repeat([gradient, unit], [p, size - p])
    noise = spec.lattice.reach(spec.delta)
    room = 0.5 + noise * scale
    norm = math.hypot(linear / gradient, rest / unit) + math.sqrt(size) / 2 + (math.sqrt(size) + noise) * scale
    return Honest(
        np.floor((lower / units - room) * SLACK).astype(np.int64),
        np.ceil((upper / units + room) * SLACK).astype(np.int64),
        norm * SLACK,
    )
