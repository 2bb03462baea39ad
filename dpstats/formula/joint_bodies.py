"""Ellipsoids around columns that read the same numbers, in the place of a body for each (docs/proofs/bodies, 8)."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpstats.errors import DomainError
from dpstats.privacy.information import JointColumns
from dpstats.privacy.k_norm import Image, ball

Float = NDArray[np.float64]

MARGIN = 1e-3
"""Between the points of a grid rows may reach a little further than there. Those that reach more are moved."""

INSIDE = 1e-9
"""Rows stay this share inside: far more than rounding moves them, relative to the ellipsoid, at the condition below."""

LARGEST_CONDITION = 1e4
"""Of the map, its rows as long as the columns are."""

NOTHING = 1e-6
"""Centres nearer to zero, over the half width, are taken for it: the margin holds them."""

LARGEST_VOLUME = 0.8
"""Over that of the bodies which it would replace: a number that is centred and its square fill their rectangle."""


@dataclass(frozen=True)
class JointBody:
    """What some columns are in every row, in model units: centre + d @ root with sum d_j^2 <= 1."""

    columns: tuple[int, ...]
    centre: tuple[float, ...]
    root: tuple[tuple[float, ...], ...]  # upper triangular, with a positive diagonal

    def gauges(self, part: Float) -> Float:
        """How far rows of `part`, shape (n, k), lie from the centre, 1 on the boundary; shape (n,).

        Column by column, so that each row's result depends on that row alone, bit by bit.
        """
        root, away = np.array(self.root), np.empty_like(part)
        square = np.zeros(len(part))
        with np.errstate(all="ignore"):
            for at, (column, middle) in enumerate(zip(part.T, self.centre, strict=True)):
                rest = column - middle
                for earlier in range(at):
                    rest = rest - away[:, earlier] * root[earlier, at]
                away[:, at] = rest / root[at, at]
                square += away[:, at] * away[:, at]
            return np.sqrt(square)

    def stretched(self, gauge: float) -> JointBody:
        """So much larger, if that is more than 1, and the margin besides."""
        factor = max(gauge * (1 + MARGIN), 1.0)
        return replace(self, root=tuple(tuple(factor * one for one in row) for row in self.root))

    def worth_having(self, widths: Mapping[int, float]) -> bool:
        """Whether it is well conditioned, and smaller than the bodies of these half widths that it would replace."""
        size = len(self.columns)
        scaled = np.array(self.root) / np.array([widths[column] for column in self.columns])
        volume = math.exp(ball(size).log_volume - size * math.log(2)) * float(np.prod(np.diag(scaled)))
        return volume <= LARGEST_VOLUME and float(np.linalg.cond(scaled)) <= LARGEST_CONDITION

    def shorten(self, part: Float) -> None:
        """Move the rows of `part`, shape (n, k), that lie outside towards the centre, in place."""
        gauge = self.gauges(part)
        with np.errstate(all="ignore"):
            outside = np.flatnonzero(~(gauge <= 1 - INSIDE))  # those without a gauge too: no number comes of them
            if len(outside):
                centre = np.array(self.centre)
                part[outside] = centre + (part[outside] - centre) * ((1 - INSIDE) ** 2 / gauge[outside])[:, None]

    def among(self, place: Mapping[int, int]) -> JointBody | None:
        """With the columns' new places; None unless all have one."""
        if not all(column in place for column in self.columns):
            return None
        return JointBody(tuple(place[column] for column in self.columns), self.centre, self.root)

    def to_dict(self) -> dict[str, Any]:
        """Plain public values, for JSON."""
        return {"columns": list(self.columns), "centre": list(self.centre), "root": [list(row) for row in self.root]}

    @classmethod
    def from_dict(cls, stored: Mapping[str, Any]) -> JointBody:
        """The body whose `to_dict` gave `stored`."""
        return cls(tuple(stored["columns"]), tuple(stored["centre"]), tuple(map(tuple, stored["root"])))

    def check(self, widths: Mapping[int, float]) -> None:
        """Raise DomainError unless it is an ellipsoid of columns with bodies of these half widths by themselves."""
        size, columns = len(self.columns), list(self.columns)
        root, centre = np.array(self.root, dtype=np.float64), np.array(self.centre, dtype=np.float64)
        shaped = (
            root.shape == (size, size) and centre.shape == (size,) and columns == sorted(set(columns) & set(widths))
        )
        finite = shaped and bool(np.all(np.isfinite(root)) and np.all(np.isfinite(centre)))
        if not (finite and size and np.all(np.diag(root) > 0) and not np.tril(root, -1).any()):
            raise DomainError("the stored design has a body of columns that no design has")
        if np.any(np.abs(centre) > [widths[column] for column in columns]):
            raise DomainError("the stored design has a body whose centre lies outside its columns' ranges")


def number_widths(images: Sequence[Image]) -> dict[int, float]:
    """The half width, in model units, of each column that has a body for itself."""
    return {
        image.columns[0]: float(image.matrix[0, 0])
        for image in images
        if image.block.kind == "box" and image.matrix.shape == (1, 1)
    }


def joint_bodies(joined: Iterable[JointColumns], widths: Mapping[int, float]) -> tuple[JointBody, ...]:
    """Ellipsoids of the optimal designs of `joined` numbers, where smaller than bodies of these half widths."""
    bodies = []
    for one in joined:
        root = np.linalg.cholesky(np.array(one.covariance)).T * (math.sqrt(len(one.columns)) * (1 + MARGIN))
        # A centre that is rounding would have the intercept's noise in a column that has none of it.
        centre = tuple(
            mean if abs(mean) > NOTHING * widths[at] else 0.0 for at, mean in zip(one.columns, one.mean, strict=True)
        )
        body = JointBody(one.columns, centre, tuple(map(tuple, root.tolist())))
        bodies += [body] if body.worth_having(widths) else []
    return tuple(bodies)


@lru_cache(maxsize=16)
def joint_images(images: tuple[Image, ...], bodies: tuple[JointBody, ...]) -> tuple[Image, ...]:
    """The images of a design, those of the bodies' columns replaced by them; as they are without an intercept.

    The intercept's map has the centres, as every row has them. Images are the same each time: laws are kept by them.
    """
    if not any(image.block.kind == "intercept" for image in images):
        return images
    centres = {column: middle for body in bodies for column, middle in zip(body.columns, body.centre, strict=True)}
    left = [image for image in images if not centres.keys() & set(image.columns) or image.block.kind == "intercept"]
    for at, image in enumerate(left):
        if image.block.kind == "intercept":
            moved = dict(zip(image.columns, image.matrix[0].tolist(), strict=True))
            moved |= {column: middle for column, middle in centres.items() if middle}
            left[at] = Image(image.block, tuple(moved), np.array([list(moved.values())]))
    return (*left, *(Image(ball(len(body.columns)), body.columns, np.array(body.root)) for body in bodies))
