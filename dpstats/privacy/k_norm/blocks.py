"""Bodies that hold a term's part of every row, and the linear maps that carry them to columns (docs/proofs/bodies)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Literal, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dpstats.arguments import safe_repr
from dpstats.errors import ArgumentError

Kind = Literal["intercept", "box", "simplex", "cross", "ball"]
Float = NDArray[np.float64]

SLACK = 1e-12
"""Rows are kept at least this share inside their body, so that rounding never carries them out."""


def slack(columns: int) -> float:
    """The share by which a part of so many columns is kept inside its bounds: twice the roundings of a sum of them."""
    return max(SLACK, (columns + 16) * 2.0**-52)


@dataclass(frozen=True)
class ConvexBody:
    """The body of one term's part d of a row."""

    # d is the constant 1 in every row; every |d_j| <= 1; d_j >= 0 with sum at most 1; sum |d_j| <= 1; or sum d_j^2 <=
    # 1.
    kind: Kind
    size: int = 1  # k, the number of coordinates; 1 for the intercept

    def __post_init__(self) -> None:
        if self.kind not in get_args(Kind):
            raise ArgumentError(f"kind must be one of {list(get_args(Kind))}, got {safe_repr(self.kind)}")
        is_integer = isinstance(self.size, (int, np.integer)) and not isinstance(self.size, bool)
        if not (is_integer and self.size >= 1) or (self.kind == "intercept" and self.size != 1):
            raise ArgumentError(f"size must be a positive integer, and 1 for the intercept, got {safe_repr(self.size)}")

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


def intercept() -> ConvexBody:
    """The constant 1 that every row has."""
    return ConvexBody("intercept")


def box(size: int = 1) -> ConvexBody:
    """`size` bounded columns, each in [-1, 1]."""
    return ConvexBody("box", size)


def simplex(size: int) -> ConvexBody:
    """`size` columns, none negative, with sum at most 1: dummies, B-splines."""
    return ConvexBody("simplex", size)


def cross(size: int) -> ConvexBody:
    """`size` columns whose absolute values add up to at most 1: dummies times one numeric column."""
    return ConvexBody("cross", size)


def ball(size: int) -> ConvexBody:
    """`size` columns whose squares add up to at most 1."""
    return ConvexBody("ball", size)


def shrink_block(part: Float, block: ConvexBody, scales: Float | None = None) -> None:
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


def _row_gauge(part: Float, block: ConvexBody, scales: Float) -> Float:
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


@dataclass(frozen=True, eq=False)
class Image:
    """A block and its public linear map: its part of a row is d @ matrix, and of the noise b_d @ matrix."""

    block: ConvexBody
    columns: tuple[int, ...]  # The q columns of the design that it reaches
    matrix: Float  # (k, q): C; a vector of shape (k,) stands for a diagonal matrix
    # A public guess at a coordinate's variance over the greatest possible; by default that of its kind of block.
    spread: float | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        matrix = np.array(self.matrix, dtype=np.float64)
        matrix = np.diag(matrix) if matrix.ndim == 1 else matrix
        columns = tuple(int(column) for column in self.columns)
        if matrix.shape != (self.block.size, len(columns)):
            raise ArgumentError(f"matrix must have shape {(self.block.size, len(columns))}, got {matrix.shape}")
        if len(set(columns)) < len(columns) or min(columns) < 0:
            raise ArgumentError("columns must be distinct and not negative")
        if not np.isfinite(matrix).all():
            raise ArgumentError("matrix must be finite")
        matrix.setflags(write=False)
        object.__setattr__(self, "matrix", matrix)
        object.__setattr__(self, "columns", columns)

    @property
    def trace(self) -> float:
        """The trace of C C'."""
        return float((self.matrix * self.matrix).sum())

    @property
    def total(self) -> float:
        """The sum of the entries of C C'."""
        sums = self.matrix.sum(axis=0)
        return float(sums @ sums)

    def overlap(self, other: Image) -> float:
        """The sum of the entries of C D' for another map D to the same design."""
        mine = dict(zip(self.columns, self.matrix.sum(axis=0), strict=True))
        theirs = zip(other.columns, other.matrix.sum(axis=0), strict=True)
        return float(sum(mine.get(column, 0.0) * value for column, value in theirs))


def unit_images(blocks: Sequence[ConvexBody], scales: ArrayLike = 1.0) -> tuple[Image, ...]:
    """Images of blocks whose coordinates are, times `scales`, the columns one after the other."""
    ends = np.cumsum([block.size for block in blocks])
    bounds = np.broadcast_to(np.asarray(scales, dtype=np.float64), (int(ends[-1]),))
    slices = [range(end - block.size, end) for block, end in zip(blocks, ends, strict=True)]
    return tuple(
        Image(block, tuple(columns), bounds[list(columns)]) for block, columns in zip(blocks, slices, strict=True)
    )


def check_images(images: Sequence[Image]) -> int:
    """The number of columns p, once the images are known to make up a design; else ArgumentError."""
    return _checked(tuple(images))


@lru_cache(maxsize=32)
def _checked(images: tuple[Image, ...]) -> int:
    """See `check_images`; a law is made at many scales from the same images, which do not change."""
    if not images:
        raise ArgumentError("a design needs a block")
    if sum(image.block.kind == "intercept" for image in images) > 1:
        raise ArgumentError("a design has one intercept at most")
    if any(image.trace == 0 for image in images):
        raise ArgumentError("a block's map must not be zero: give a constant zero column a map that is not")
    columns = [column for image in images if image.block.kind != "intercept" for column in image.columns]
    if len(set(columns)) < len(columns):
        raise ArgumentError("only the intercept's map may share columns with another block's")
    size = 1 + max(column for image in images for column in image.columns)
    if sum(_rank(part) for part in _components(images)) < size:
        raise ArgumentError("the maps of all blocks together must have full column rank: b needs a density")
    return size


def stack_images(images: Sequence[Image], size: int) -> Float:
    """The map of all block coordinates, one block after the other, to the columns, shape (d, size)."""
    matrix = np.zeros((sum(image.block.size for image in images), size))
    start = 0
    for image in images:
        matrix[start : start + image.block.size, list(image.columns)] = image.matrix
        start += image.block.size
    return matrix


def _components(images: Sequence[Image]) -> list[list[Image]]:
    """The images in parts that share no column: the intercept with those it overlaps, and each other by itself."""
    constants = [image for image in images if image.block.kind == "intercept"]
    reached = {column for image in constants for column in image.columns}
    others = [image for image in images if image.block.kind != "intercept"]
    overlapping = [image for image in others if reached & set(image.columns)]
    apart = [[image] for image in others if not reached & set(image.columns)]
    return [constants + overlapping, *apart] if constants else apart


def _rank(images: Sequence[Image]) -> int:
    """The rank of the images' common map; column scales must not matter, so each column is divided by its length."""
    columns = sorted({column for image in images for column in image.columns})
    matrix = stack_images(images, columns[-1] + 1)[:, columns]
    if ((matrix != 0).sum(axis=1) <= 1).all():
        return int((matrix != 0).any(axis=0).sum())
    lengths = np.sqrt((matrix * matrix).sum(axis=0))
    return int(np.linalg.matrix_rank(matrix / np.where(lengths > 0, lengths, 1.0)))
