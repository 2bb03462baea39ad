"""The ellipsoid around the rows of a design in which matrix noise is the same in every direction.

docs/proofs/information, 1: the bodies of the blocks give the metric D, and every row has x'D^-1 x at most 1.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dpstats.errors import ArgumentError
from dpstats.privacy.k_norm import Image
from dpstats.privacy.k_norm.blocks import check_images

Float = NDArray[np.float64]

WEIGHTS: Mapping[str, float] = {"intercept": 1.0, "simplex": 1.0, "box": 2.0, "cross": 2.0, "ball": 2.0}
"""Of a block's coordinates: v^(-2/3), with v the public guess at a coordinate's variance over the greatest possible.

Dummies are where they can be; a number is taken to be uniform in its range, v = 1/3.
"""

LARGEST_CONDITION = 1e6
"""Columns that move together more closely than this have no design of their own."""

STEPS, CLOSE = 500, 1e-2
"""Of the search for an optimal design, and how near it need come: the metric is made to hold all points after it."""

NOTHING = 1e-12
"""Entries of a correlation's factor below this are rounding."""


class DesignMetric(NamedTuple):
    """D = L diag(diagonal) L', as `MatrixNoise` takes it: L unit lower triangular, the rows of `mixing`."""

    diagonal: tuple[float, ...]
    mixing: tuple[tuple[float, ...], ...]


class JointColumns(NamedTuple):
    """Columns that move together, as a number and its square, and the optimal design on what they can be."""

    columns: tuple[int, ...]
    mean: tuple[float, ...]
    # S, public: d'S^-1 d is at most k in every row, d the distance of its columns from the mean.
    covariance: tuple[tuple[float, ...], ...]

    def among(self, place: Mapping[int, int]) -> JointColumns | None:
        """What is left for the columns that have a new place; None if there are none."""
        kept = [at for at, column in enumerate(self.columns) if column in place]
        if not kept:
            return None
        # Less distance from the mean, so a bound of k still: of fewer columns, it takes a larger covariance.
        part = np.array(self.covariance)[np.ix_(kept, kept)] * (len(self.columns) / len(kept))
        mean = tuple(self.mean[at] for at in kept)
        return JointColumns(tuple(place[self.columns[at]] for at in kept), mean, tuple(map(tuple, part.tolist())))


def design_metric(
    images: Sequence[Image], weights: Mapping[str, float] = WEIGHTS, joined: Sequence[JointColumns] = ()
) -> DesignMetric:
    """The metric of a design: sup x'D^-1 x <= 1 over the rows whose parts lie in the blocks' bodies.

    The metric of the information's t-ratio in a block's directions is in proportion to `weights`, by kind of block.
    `joined` columns, beside an intercept, stand for the bodies of theirs. ArgumentError if the images make up no
    design.
    """
    return _metric(tuple(images), tuple(sorted(weights.items())), tuple(joined))


@lru_cache(maxsize=16)
def _metric(
    images: tuple[Image, ...], ordered: tuple[tuple[str, float], ...], joined: tuple[JointColumns, ...]
) -> DesignMetric:
    """See `design_metric`: every plan of a design has the same."""
    size, weights = check_images(images), dict(ordered)
    if not all(np.isfinite(weight) and weight > 0 for weight in weights.values()):
        raise ArgumentError("weights must be finite and positive")
    parts = _parts(images, size, joined)
    total = sum(count * weights[kind] for kind, count, _ in parts)
    metric = sum((moment * (total / weights[kind]) for kind, _, moment in parts), np.zeros((size, size)))
    unit = np.sqrt(np.diag(metric))
    root = np.linalg.cholesky(metric / np.outer(unit, unit))
    diagonal = (unit * np.diag(root)) ** 2
    # What rounding left where nothing is would cost a pass over the rows each.
    below = np.tril(np.where(np.abs(root) > NOTHING, root, 0.0), -1)
    mixing = below * np.outer(unit, 1 / (unit * np.diag(root))) + np.eye(size)
    return DesignMetric(tuple(diagonal.tolist()), tuple(tuple(row) for row in mixing.tolist()))


def optimal_design(columns: tuple[int, ...], points: Float) -> JointColumns | None:
    """The D-optimal design on some points, shape (m, k), for a constant and k columns.

    None where the columns depend on each other, so that there is none.
    """
    count, size = points.shape
    middle, spread = points.mean(axis=0), points.std(axis=0)
    if count <= size or not np.all(spread > 0):
        return None
    cells = np.column_stack((np.ones(count), (points - middle) / spread))
    if np.linalg.cond(cells) > LARGEST_CONDITION:
        return None
    weights = np.full(count, 1 / count)
    for _ in range(STEPS):
        moment = (cells * weights[:, None]).T @ cells
        reach = np.sum(cells @ np.linalg.inv(moment) * cells, axis=1)
        if reach.max() <= (1 + CLOSE) * (size + 1):
            break
        # Titterington's multiplicative step: the determinant rises.
        weights *= reach / (size + 1)
    mean = weights @ points / weights.sum()
    apart = points - mean
    covariance = (apart * (weights / weights.sum())[:, None]).T @ apart
    longest = float(np.sum(apart @ np.linalg.inv(covariance) * apart, axis=1).max())
    scaled = (covariance + covariance.T) * (longest / size / 2)
    return JointColumns(columns, tuple(mean.tolist()), tuple(map(tuple, scaled.tolist())))


def _parts(images: Sequence[Image], size: int, joined: Sequence[JointColumns]) -> list[tuple[str, int, Float]]:
    """Kind, dimension and second moment in the columns of each orthogonal part of the product of the optimal designs.

    On a body of dimension k the extreme points of its optimal design have d'S^-1 d = k, S their covariance, and all
    others less. Simplices beside an intercept have their mean at the centre, which is the intercept's part.
    """
    constant = [image for image in images if image.block.kind == "intercept"]
    plain = [image for image in constant if len(image.columns) == 1]
    usable = joined if constant == plain and constant else []
    taken = {column for one in usable for column in one.columns}
    centre = np.zeros(size)
    parts = []
    for one in usable:
        moment = np.zeros((size, size))
        moment[np.ix_(one.columns, one.columns)] = one.covariance
        centre[list(one.columns)] = one.mean
        parts.append(("box", len(one.columns), moment))
    for image in images:
        count, matrix = image.block.size, _map(image, size)
        if image.block.kind == "intercept":
            centre += matrix[0]
            continue
        if taken.issuperset(image.columns):
            continue
        if image.block.kind == "simplex" and constant:
            mean = matrix.sum(axis=0) / (count + 1)
            centre += mean
            moment = matrix.T @ matrix / (count + 1) - np.outer(mean, mean)
        else:
            moment = matrix.T @ matrix / (1 if image.block.kind == "box" else count)
        parts.append((str(image.block.kind), count, moment))
    return [("intercept", 1, np.outer(centre, centre)), *parts] if constant else parts


def _map(image: Image, size: int) -> Float:
    """The block's map to all columns, shape (k, size)."""
    matrix = np.zeros((image.block.size, size))
    matrix[:, list(image.columns)] = image.matrix
    return matrix
