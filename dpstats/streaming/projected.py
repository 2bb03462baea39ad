"""Regression on few public random directions: PrivIncReg2 of source 001, section 5 (docs/proofs/geometry, 3).

Rows are turned into m numbers by a public matrix before anything is summed, so the stream keeps m (m + 3) / 2 sums in
place of d (d + 3) / 2; coefficients are lifted back. It buys memory and time by (d / m)^2, not accuracy: the
constrained solver on all columns has the same dependence on the width of the set without a sketch.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NoReturn, Self

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from dpstats.arguments import is_whole
from dpstats.cached import cached_property
from dpstats.data import Block, Rows
from dpstats.errors import ArgumentError, NotReleasedError
from dpstats.frames import WideFrame
from dpstats.streaming.constrained import (
    Sandwich,
    ScaledConstraint,
    descend,
    explained_by_noise,
    positive_part,
    without_free,
)
from dpstats.streaming.constraints import Constraint
from dpstats.streaming.constraints import from_dict as constraint_from_dict
from dpstats.streaming.plan import StreamPlan
from dpstats.streaming.vectors import Integers, RowVector

Vector = NDArray[np.float64]
Matrix = NDArray[np.float64]

MOST_NUMBERS = 250_000  # Most sums that directions="auto" may make


def region_width(columns: int, region: Constraint | int | None) -> float:
    """w(G), an upper bound, for rows of Euclidean norm at most 1.

    k entries that are not 0: sup |g restricted to k| is at most sqrt(k) + sqrt(2 k log(e d / k)) on average.
    """
    if isinstance(region, Constraint):
        return region.gaussian_width(columns)
    if region is None or region >= columns:
        return math.sqrt(columns)
    sparse = math.sqrt(region) + math.sqrt(2 * region * math.log(math.e * columns / region))
    return min(sparse, math.sqrt(columns))


def printed_directions(rows: int, width: float) -> int:
    """m of Algorithm 3 as printed, with 1 for its constants: max(W^2, log(T / 0.05)) / gamma^2.

    gamma = (W / T)^(1/3), W = w(X) + w(C) the `width`, so m is of order T^(2/3) W^(4/3): at sizes that are met in
    practice it exceeds d, so that nothing is gained. Offered to be compared with.
    """
    gamma = (width / rows) ** (1 / 3)
    return math.ceil(max(width**2, math.log(rows / 0.05)) / gamma**2)


def choose_directions(
    columns: int, constraint: Constraint, *, rows: float, noise_sd: float, most_numbers: int = MOST_NUMBERS
) -> int:
    """m by balancing what the sketch and the noise are likely to add, from public facts: "auto".

    A row's <x, theta> is off by about |x| |theta| / sqrt(m), which adds up to T R^2 / m, R the reach of the set.
    The noise adds 2 noise_sd (1 + R) w, w the width of the set's image: that of the set itself, or R sqrt(m) if that
    is less. For sets of small width it does not grow with m, and as many directions are taken as memory allows:
    m (m + 3) / 2 is at most `most_numbers`.
    """
    reach = constraint.reach
    most = min(columns, int((math.sqrt(9 + 8 * most_numbers) - 3) / 2))
    sizes = np.unique(np.round(np.geomspace(1, most, 200)))
    wide = np.minimum(constraint.gaussian_width(columns), reach * np.sqrt(sizes))
    return int(sizes[np.argmin(rows * reach**2 / sizes + 2 * noise_sd * (1 + reach) * wide)])


MOST_ENTRIES = 2 * 10**8
PART_CELLS = 2**17  # Cells of rows per block
LIFT_TOLERANCE = 1e-6  # Error of a lifted point's image, relative to the image's norm


@dataclass(frozen=True)
class Projection:
    """A public m by d matrix Phi of normal numbers of variance 1 / m, made from a seed.

    ArgumentError if a number is out of range, or the matrix would have more than 2e8 entries.
    """

    columns: int  # d
    directions: int  # m
    seed: int = 0  # Public: the matrix is no secret, and no noise comes of it

    def __post_init__(self) -> None:
        for name, least in (("directions", 1), ("seed", 0)):
            value = getattr(self, name)
            if not is_whole(value) or value < least:
                raise ArgumentError(f"{name} must be an integer from {least}")
            object.__setattr__(self, name, int(value))
        if self.columns * self.directions > MOST_ENTRIES:
            raise ArgumentError(f"directions must be at most {MOST_ENTRIES // self.columns:,} with so many columns")

    @cached_property
    def matrix(self) -> Matrix:
        """Phi, shape (m, d)."""
        random = np.random.Generator(np.random.PCG64(self.seed))
        matrix = random.standard_normal((self.directions, self.columns)) / math.sqrt(self.directions)
        matrix.flags.writeable = False
        return matrix

    @cached_property
    def _integers(self) -> Matrix:
        """Phi over its scale as whole numbers of at most 17 bits, shape (m, d): what rows are multiplied by."""
        return np.asarray(np.clip(np.rint(self.matrix * (math.sqrt(self.directions) * 2.0**14)), -(2**17), 2**17))

    def rows(self, exog: Matrix, region: Constraint | int | None = None) -> Matrix:
        """|x| / |Phi x| Phi x for each row x, shape (n, m): as long as the row itself.

        x and Phi are rounded so that all products add up exactly: what a row becomes does not depend, to the last bit,
        on the rows beside it, as one that is added or removed must not move the others. Rows outside the `region` G of
        section 5.2, with Phi x = 0 or with an entry that is not finite become 0; which those are is not released.
        """
        images = np.empty((len(exog), self.directions))
        step = max(1, PART_CELLS // self.columns)
        with np.errstate(all="ignore"):
            inside = rows_inside(exog, region)
            for start in range(0, len(exog), step):
                part = slice(start, start + step)
                images[part] = self._images(np.where(inside[part, None], exog[part], 0.0))
        return np.where(np.isfinite(images), images, 0.0)

    def _images(self, rows: Matrix) -> Matrix:
        """The images of finite rows."""
        largest, cells = _whole_numbers(rows, self.columns)
        far, image = _whole_numbers(cells @ self._integers.T, self.directions)
        # Both sums are of whole numbers below 2^53: exact, in whatever order they are added.
        length = largest * np.sqrt(np.sum(cells**2, axis=1)) / 2.0 ** _places(self.columns)
        scale = np.divide(length, np.sqrt(np.sum(image**2, axis=1)), out=np.zeros_like(far), where=far > 0)
        return np.asarray(image * scale[:, None])

    def fit(
        self,
        cross: Vector,
        gram: Matrix,
        constraint: Constraint,
        *,
        start: Vector | None = None,
        tolerance: float = 1e-7,
        lift: bool = True,
    ) -> Vector:
        """The coefficients in the set whose image has the least noisy sum of squares, shape (d,).

        `cross` and `gram` are sums of z y and z z' over projected rows z. With `lift` the coefficients are those of
        least gauge among those with the same image, as step 9 asks for; else the ones found first.
        """
        begin = constraint.project(np.zeros(self.columns) if start is None else start)
        sandwich = Sandwich(self.matrix, positive_part(gram))
        solution = descend(self.matrix.T @ cross, sandwich, constraint, begin, tolerance)
        return self.lift(self.matrix @ solution, constraint, start=solution) if lift else solution

    def lift(self, image: Vector, constraint: Constraint, *, start: Vector | None = None, steps: int = 14) -> Vector:
        """The point of least gauge among those that Phi maps to `image`, which must be that of a point of the set.

        By bisection: a multiple rho of the set has such a point if the least |Phi theta - image| over it is 0, and has
        none if a lower bound on it (a certified gap) is above 0. The image is within a millionth of `image`, rho within
        2**-steps; `start` is a point of the set with that image, the answer if no smaller one is found.
        """
        low, high, origin = 0.0, 1.0, np.zeros(self.columns)
        best = self._nearest(image, constraint, 1.0, constraint.project(origin))[0] if start is None else start
        for _ in range(steps):
            middle = (low + high) / 2
            point, feasible = self._nearest(image, constraint, middle, best * middle / high)
            if feasible:
                best, high = point, middle
            else:
                low = middle
        return best

    def _nearest(self, image: Vector, constraint: Constraint, rho: float, start: Vector) -> tuple[Vector, bool]:
        """The point of rho times the set whose image is nearest to `image`, and whether it is there."""
        close = (LIFT_TOLERANCE * float(np.linalg.norm(image))) ** 2

        def apart(point: Vector) -> float:
            return float(np.sum((self.matrix @ point - image) ** 2))

        def decided(point: Vector, gap: float) -> bool:
            square = apart(point)
            return square <= close or square - gap > close

        region, gram = ScaledConstraint(constraint, rho), Sandwich(self.matrix, np.eye(self.directions))
        point = descend(self.matrix.T @ image, gram, region, region.project(start), 0.0, 5_000, decided)
        return point, apart(point) <= close

    def to_dict(self) -> dict[str, Any]:
        return {"columns": self.columns, "directions": self.directions, "seed": self.seed}


def _places(size: int) -> int:
    """Binary places of whole numbers of which `size` squares, or products with 17 bits, add up below 2^53."""
    bits = math.ceil(math.log2(size)) if size > 1 else 0
    return max(1, min(20, (52 - bits) // 2, 35 - bits))


def _whole_numbers(rows: Matrix, size: int) -> tuple[Vector, Matrix]:
    """The largest entry of each row, shape (n,), and rows over it as whole numbers, truncated towards 0, (n, size)."""
    largest = np.abs(rows).max(axis=1)
    places = 2.0 ** _places(size)
    return largest, np.trunc(
        np.divide(rows, largest[:, None], out=np.zeros_like(rows), where=largest[:, None] > 0) * places
    )


def rows_inside(exog: Matrix, region: Constraint | int | None) -> NDArray[np.bool_]:
    """Which rows lie in G, shape (n,): each by itself, from public facts."""
    finite: NDArray[np.bool_] = np.asarray(np.isfinite(exog).all(axis=1))
    if region is None:
        return finite
    if isinstance(region, Constraint):
        gauges = np.array([region.gauge(row) for row in np.where(finite[:, None], exog, 0.0)])
        return finite & (gauges <= 1 + 1e-9)
    return np.asarray(finite & (np.count_nonzero(exog, axis=1) <= region))


def plan_projection(
    columns: int,
    constraint: Constraint,
    *,
    rows: float,
    noise_sd: float,
    directions: int | str = "auto",
    region: Constraint | int | None = None,
    seed: int = 0,
) -> tuple[Projection, list[str]]:
    """A projection from public facts, and the notes on it; "printed" is refused where it exceeds d.

    ArgumentError for a `region` or `directions` of another kind, or directions that are no fewer than d.
    """
    if not (region is None or isinstance(region, Constraint) or (is_whole(region) and region >= 1)):
        raise ArgumentError("region must be a constraint, or the greatest number of entries of a row that are not 0")
    width = region_width(columns, region) + constraint.gaussian_width(columns)
    printed = printed_directions(round(rows), width)
    if not (is_whole(directions) or directions in ("auto", "printed")):
        raise ArgumentError("directions must be an integer, 'auto' or 'printed'")
    chosen = printed if directions == "printed" else directions
    chosen = choose_directions(columns, constraint, rows=rows, noise_sd=noise_sd) if chosen == "auto" else int(chosen)
    if chosen >= columns and directions != "auto":
        fix = f"pass fewer, or use all {columns:,} columns, which is more accurate"
        raise ArgumentError(f"directions: {chosen:,} are no fewer than the {columns:,} columns; {fix}")
    how = "which exceeds d" if printed >= columns else "for comparison"
    notes = [
        f"Rows are summed along m = {chosen:,} public random directions (seed {seed}) instead of d = {columns:,} "
        f"columns: {chosen * (chosen + 3) // 2:,} sums instead of {columns * (columns + 3) // 2:,}.",
        f"m as printed in the source, T^(2/3) W^(4/3), is {printed:,}, {how}.",
        "Fewer directions save memory and time but lose accuracy: with memory for all columns use mechanism 'linear'.",
    ]
    return Projection(columns, chosen, seed), notes


NO_ERRORS = (
    "the part of the coefficients that a sketch leaves out is unknown, so there are no errors; mechanism='linear' "
    "has them"
)


@dataclass(frozen=True)
class ProjectedVector(RowVector):
    """What a row adds: (vech z z', z y) for z its projection, an intercept kept as it is."""

    projection: Projection  # Of the columns besides the intercept
    region: Constraint | int | None  # Rows outside it enter as zeros

    @property
    def intercept(self) -> bool:
        """Whether there is one."""
        return self.columns > self.projection.directions

    def exact(self, rows: Rows[Block], params: Vector) -> Integers:
        """As `RowVector.exact`, of projected rows."""
        return super().exact(rows.map(self.image), params)

    def image(self, block: Block) -> Block:
        """Rows as they are summed, those outside the region as zeros with their response."""
        exog = block.doubles().exog
        first = int(self.intercept)
        images = self.projection.rows(exog[:, first:], self.region)
        inside = rows_inside(exog[:, first:], self.region)
        return block._replace(exog=np.hstack([exog[:, :first] * inside[:, None], images]))

    def to_dict(self) -> dict[str, Any]:
        region = self.region.to_dict() if isinstance(self.region, Constraint) else self.region
        return {**super().to_dict(), "projection": self.projection.to_dict(), "region": region}

    @classmethod
    def from_dict(cls, stored: Mapping[str, Any]) -> Self:
        region = constraint_from_dict(stored["region"]) if isinstance(stored["region"], dict) else stored["region"]
        return super().from_dict({**stored, "projection": Projection(**stored["projection"]), "region": region})


@dataclass(frozen=True)
class ProjectedFitting:
    """Coefficients from sums over projected rows: post-processing."""

    vector: ProjectedVector
    constraint: Constraint
    lift: bool

    def params(self, released: Vector, deviation: float, start: Vector | None = None, ticks: float = 1.0) -> Vector:
        """Coefficients in model units, in the set but for the intercept, shape (p,); see `TickFitting.params`."""
        matrix, projection, first = self.vector.matrix(released), self.vector.projection, int(self.vector.intercept)
        free = np.arange(len(matrix) - 1) < first
        inner, moments, best = without_free(positive_part(matrix[:-1, :-1]), matrix[:-1, -1], free)
        if explained_by_noise(projection.matrix.T @ moments, deviation / self.vector.cross, self.constraint):
            coefficients = self.constraint.project(np.zeros(projection.columns))
        else:
            begin = None if start is None else start[first:]
            coefficients = projection.fit(moments, inner, self.constraint, start=begin, lift=self.lift)
        return np.concatenate([best(projection.matrix @ coefficients), coefficients])

    def moments(self, *arguments: Any) -> NoReturn:
        raise NotReleasedError(f"not released: {NO_ERRORS}")


@dataclass(frozen=True, eq=False)
class ProjectedPlan(StreamPlan):
    """A projected stream, fixed before a row is read."""

    said: tuple[str, ...]  # Notes on the projection; the name is in the printed and in the stored form
    lift: bool

    method = "projected"
    may_start_late = False
    without_errors = NO_ERRORS

    @cached_property
    def fitting(self) -> Any:
        """How coefficients follow from released sums."""
        return ProjectedFitting(self.vector, self.constraint, self.lift)  # type: ignore[arg-type]

    def ticks(self, ticks: Sequence[int] | None = None) -> pd.DataFrame:
        """As `StreamPlan.ticks`; excess is what Theorem 1 of docs/proofs/geometry and the sketch's error add up to."""
        assert isinstance(self.vector, ProjectedVector)
        assert self.constraint is not None
        table = super().ticks(ticks)
        projection, reach = self.vector.projection, self.constraint.reach
        width = min(self.constraint.gaussian_width(projection.columns), reach * float(np.sqrt(projection.directions)))
        noise = 2 * table["noise_sd"] * (1 + reach) * width
        table["excess"] = noise + table["rows"] * reach**2 / projection.directions
        table["per_row"] = table["excess"] / table["rows"]
        table["null"] = table["rows"] * reach**2
        return WideFrame(table)

    def notes(self) -> list[str]:
        """What the reader must know, in plain words."""
        bounds = "excess and null model are bounds here, for the worst rows and coefficients on the border of the set."
        return [*super().notes(), *self.said, f"Predicted {bounds}"]

    _FACTS = StreamPlan._FACTS | {"vector": ProjectedVector.from_dict, "said": tuple}


def stored_plan(stored: Mapping[str, Any]) -> StreamPlan:
    """The plan whose `to_dict` gave `stored`, of whatever mechanism."""
    return (ProjectedPlan if "projection" in stored["vector"] else StreamPlan).from_dict(stored)
