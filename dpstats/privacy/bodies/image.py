"""Blocks with the linear maps that carry them to columns of the design."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dpstats.errors import ArgumentError
from dpstats.privacy.bodies.blocks import Block

Float = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Image:
    """A block and its public linear map: its part of a row is d @ matrix, and of the noise b_d @ matrix.

    Attributes
    ----------
    block : Block
    columns : tuple of int
        The q columns of the design that it reaches.
    matrix : ndarray, shape (k, q)
        C; a vector of shape (k,) stands for a diagonal matrix.

    Raises
    ------
    ArgumentError
        If the shapes do not fit, a column is repeated or negative, or an entry is not finite.
    """

    block: Block
    columns: tuple[int, ...]
    matrix: Float

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


def unit_images(blocks: Sequence[Block], scales: ArrayLike = 1.0) -> tuple[Image, ...]:
    """Images of blocks whose coordinates are, times `scales`, the columns one after the other.

    Parameters
    ----------
    blocks : sequence of Block
    scales : float or array, shape (p,)
        The bound of each column: a column is its coordinate times it.
    """
    ends = np.cumsum([block.size for block in blocks])
    bounds = np.broadcast_to(np.asarray(scales, dtype=np.float64), (int(ends[-1]),))
    slices = [range(end - block.size, end) for block, end in zip(blocks, ends, strict=True)]
    return tuple(
        Image(block, tuple(columns), bounds[list(columns)]) for block, columns in zip(blocks, slices, strict=True)
    )


def check_images(images: Sequence[Image]) -> int:
    """The number of columns p, once the images are known to make up a design.

    Raises
    ------
    ArgumentError
        If there is none, a map is zero, there are two intercepts, two blocks other than the intercept share a
        column, or the maps together do not reach every direction of the p columns.
    """
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
    taken = [column for image in images if image.block.kind != "intercept" for column in image.columns]
    if len(set(taken)) < len(taken):
        raise ArgumentError("only the intercept's map may share columns with another block's")
    size = 1 + max(column for image in images for column in image.columns)
    if sum(_rank(part) for part in _components(images)) < size:
        raise ArgumentError("the maps of all blocks together must have full column rank: b needs a density")
    return size


def stacked(images: Sequence[Image], size: int) -> Float:
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
    beside = [image for image in others if reached & set(image.columns)]
    apart = [[image] for image in others if not reached & set(image.columns)]
    return [constants + beside, *apart] if constants else apart


def _rank(images: Sequence[Image]) -> int:
    """The rank of the images' common map; column scales must not matter, so each column is divided by its length."""
    columns = sorted({column for image in images for column in image.columns})
    matrix = stacked(images, columns[-1] + 1)[:, columns]
    if ((matrix != 0).sum(axis=1) <= 1).all():
        return int((matrix != 0).any(axis=0).sum())
    lengths = np.sqrt((matrix * matrix).sum(axis=0))
    return int(np.linalg.matrix_rank(matrix / np.where(lengths > 0, lengths, 1.0)))
