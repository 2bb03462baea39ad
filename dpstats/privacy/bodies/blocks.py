"""Bodies that hold a term's part of every row, in the block's own coordinates (docs/proofs/bodies)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np
from numpy.typing import NDArray

from dpstats.arguments import shown
from dpstats.errors import ArgumentError

Kind = Literal["intercept", "box", "simplex", "cross", "ball"]
Float = NDArray[np.float64]

SLACK = 1e-12
"""Rows are kept at least this share inside their body, so that rounding never carries them out."""


def slack(columns: int) -> float:
    """The share by which a part of so many columns is kept inside its bounds: twice the roundings of a sum of them."""
    return max(SLACK, (columns + 16) * 2.0**-52)


@dataclass(frozen=True)
class Block:
    """The body of one term's part d of a row.

    Attributes
    ----------
    kind : {"intercept", "box", "simplex", "cross", "ball"}
        d is the constant 1 in every row; every |d_j| <= 1; d_j >= 0 with sum at most 1; sum |d_j| <= 1; or
        sum d_j^2 <= 1.
    size : int
        k, the number of coordinates; 1 for the intercept.

    Raises
    ------
    ArgumentError
        If a field is outside the values above.
    """

    kind: Kind
    size: int = 1

    def __post_init__(self) -> None:
        if self.kind not in get_args(Kind):
            raise ArgumentError(f"kind must be one of {list(get_args(Kind))}, got {shown(self.kind)}")
        whole = isinstance(self.size, (int, np.integer)) and not isinstance(self.size, bool)
        if not (whole and self.size >= 1) or (self.kind == "intercept" and self.size != 1):
            raise ArgumentError(f"size must be a positive integer, and 1 for the intercept, got {shown(self.size)}")

    def gauge(self, part: NDArray[np.floating]) -> Float:
        """Gauge of the symmetric hull of the body at `part`, shape (..., k), over the last axis.

        A simplex has the l1 ball for hull, the intercept the interval [-1, 1].
        """
        sizes = np.abs(part)
        if self.kind in ("simplex", "cross"):
            return np.asarray(sizes.sum(axis=-1), dtype=np.float64)
        if self.kind == "ball":
            return np.asarray(np.sqrt((sizes * sizes).sum(axis=-1)), dtype=np.float64)
        return np.asarray(sizes.max(axis=-1), dtype=np.float64)

    @property
    def variance(self) -> float:
        """Second moment of a coordinate of a uniform point of the symmetric hull; coordinates are uncorrelated."""
        if self.kind in ("simplex", "cross"):
            return 2 / ((self.size + 1) * (self.size + 2))
        return 1 / (self.size + 2) if self.kind == "ball" else 1 / 3

    @property
    def log_volume(self) -> float:
        """Logarithm of the volume of the symmetric hull."""
        if self.kind in ("simplex", "cross"):
            return self.size * math.log(2) - math.lgamma(self.size + 1)
        if self.kind == "ball":
            return self.size / 2 * math.log(math.pi) - math.lgamma(self.size / 2 + 1)
        return self.size * math.log(2)


def intercept() -> Block:
    """The constant 1 that every row has."""
    return Block("intercept")


def box(size: int = 1) -> Block:
    """`size` bounded columns, each in [-1, 1]."""
    return Block("box", size)


def simplex(size: int) -> Block:
    """`size` columns, none negative, with sum at most 1: dummies, B-splines."""
    return Block("simplex", size)


def cross(size: int) -> Block:
    """`size` columns whose absolute values add up to at most 1: dummies times one numeric column."""
    return Block("cross", size)


def ball(size: int) -> Block:
    """`size` columns whose squares add up to at most 1."""
    return Block("ball", size)


def shrink_block(part: Float, block: Block, scales: Float | None = None) -> None:
    """Move each row of `part`, shape (n, k), into the block's body, in place.

    With `scales`, shape (k,), the block's coordinates are the columns divided by them.

    The intercept becomes 1; negative entries of a simplex become 0; then a row whose gauge exceeds 1, less the slack,
    is divided by it. Nothing is raised for any value; a row with an entry that is not finite keeps one.
    Each row's result depends on that row alone, bit by bit.
    """
    if block.kind == "intercept":
        part[:] = np.where(np.isfinite(part), 1.0, np.nan)
        return
    with np.errstate(all="ignore"):
        if block.kind == "simplex":
            # An infinite entry must not become a clean zero: the row is to be left out.
            np.copyto(part, 0.0, where=(part < 0) & np.isfinite(part))
        gauge = _row_gauge(part, block, np.ones(block.size) if scales is None else scales)
        factor = np.fmin(1 / (1 + slack(block.size)) / gauge, 1.0)
        part *= factor[:, None]


def _row_gauge(part: Float, block: Block, scales: Float) -> Float:
    """The gauge of each row, summed column by column.

    A sum along rows could be rounded in another order when the number of rows changes.
    """
    total = np.zeros(len(part))
    for column, scale in zip(part.T, scales, strict=True):
        if block.kind in ("simplex", "cross"):
            total += np.abs(column / scale)
        elif block.kind == "ball":
            total = np.hypot(total, column / scale)
        else:
            total = np.maximum(total, np.abs(column / scale))
    return total
