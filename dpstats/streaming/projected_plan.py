"""A linear stream on few public random directions: PrivIncReg2 of source 001, from the formula to coefficients.

The rows are those of `Regression`, the sums are of what `projected` makes of them (docs/proofs/geometry, 3).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, NoReturn, Self

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from dpstats.cached import cached_property
from dpstats.data import Block, Rows
from dpstats.errors import NotReleasedError
from dpstats.formula.design import DesignSpec
from dpstats.frames import WideFrame
from dpstats.models.sources import scaled_family
from dpstats.privacy.guarantee import Guarantee
from dpstats.privacy.information import MatrixNoise
from dpstats.privacy.information.statistics import frobenius_sensitivity
from dpstats.streaming.constrained import explained_by_noise, smooth_matrix, without_free
from dpstats.streaming.constraints import Constraint
from dpstats.streaming.constraints import from_dict as constraint_from_dict
from dpstats.streaming.plan import StreamPlan
from dpstats.streaming.projected import Projection, plan_projection, rows_inside
from dpstats.streaming.request import StreamRequest
from dpstats.streaming.sums import Mechanism, plan_from_dict
from dpstats.streaming.sums.workloads import Window
from dpstats.streaming.vectors import Integers, RowVector

Float = NDArray[np.float64]

NO_ERRORS = "what a sketch leaves out of coefficients is not known, so there are no errors; mechanism='linear' has them"


@dataclass(frozen=True)
class ProjectedVector(RowVector):
    """What a row adds: (vech z z', z y) for z its projection, an intercept kept as it is."""

    projection: Projection  # Of the columns besides the intercept
    region: Constraint | int | None  # Rows outside it enter as zeros

    @property
    def intercept(self) -> bool:
        """Whether there is one."""
        return self.columns > self.projection.directions

    def exact(self, rows: Rows[Block], params: Float) -> Integers:
        """As `RowVector.exact`, of projected rows."""
        return super().exact(rows.each(self.image), params)

    def image(self, block: Block) -> Block:
        """Rows as they are summed, those outside the region as zeros with their response."""
        exog = block.doubles().exog
        first = int(self.intercept)
        made = self.projection.rows(exog[:, first:], self.region)
        kept = rows_inside(exog[:, first:], self.region)
        whole = np.hstack([exog[:, :first] * kept[:, None], made])
        return block._replace(exog=whole)

    def to_dict(self) -> dict[str, Any]:
        """Plain public values, for JSON."""
        region = self.region.to_dict() if isinstance(self.region, Constraint) else self.region
        return {**super().to_dict(), "projection": self.projection.to_dict(), "region": region}

    @classmethod
    def from_dict(cls, stored: Mapping[str, Any]) -> ProjectedVector:
        """What `to_dict` gave `stored` of."""
        own = {"projection", "region"}
        plain = RowVector.from_dict({name: value for name, value in stored.items() if name not in own})
        region = constraint_from_dict(stored["region"]) if isinstance(stored["region"], dict) else stored["region"]
        values = {field.name: getattr(plain, field.name) for field in fields(plain)}
        return cls(**values, projection=Projection.from_dict(stored["projection"]), region=region)


@dataclass(frozen=True)
class ProjectedFitting:
    """Coefficients from sums over projected rows: post-processing."""

    vector: ProjectedVector
    constraint: Constraint
    lift: bool

    def params(self, released: Float, deviation: float, start: Float | None = None, ticks: float = 1.0) -> Float:
        """Coefficients in model units, in the set but for the intercept, shape (p,); see `Fitting.params`."""
        whole = self.vector.matrix(released)
        gram, cross = smooth_matrix(whole[:-1, :-1]), whole[:-1, -1]
        free = np.zeros(len(gram), dtype=bool)
        free[: int(self.vector.intercept)] = True
        inner, moments, best = without_free(gram, cross, free)
        projection, first = self.vector.projection, int(self.vector.intercept)
        if explained_by_noise(projection.matrix.T @ moments, deviation / self.vector.cross, self.constraint):
            found = self.constraint.project(np.zeros(projection.columns))
        else:
            begin = None if start is None else start[first:]
            found = projection.fit(moments, inner, self.constraint, start=begin, lift=self.lift)
        return np.concatenate([best(projection.matrix @ found), found])

    def moments(self, *arguments: Any) -> NoReturn:
        raise NotReleasedError(f"not released: {NO_ERRORS}")

    estimates = moments


@dataclass(frozen=True, eq=False)
class ProjectedPlan(StreamPlan):
    """A projected stream, fixed before a row is read."""

    said: tuple[str, ...]  # What the plan says of the projection
    lift: bool

    @property
    def method(self) -> str:
        """ "projected"."""
        return "projected"

    @property
    def may_start_late(self) -> bool:
        """False: nothing is linearised."""
        return False

    @property
    def without_errors(self) -> str:
        """Why there are none."""
        return NO_ERRORS

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

    def to_dict(self) -> dict[str, Any]:
        """Plain public values, for JSON."""
        return {**super().to_dict(), "said": list(self.said), "lift": self.lift}

    @classmethod
    def from_dict(cls, stored: Mapping[str, Any]) -> Self:
        """The plan whose `to_dict` gave `stored`."""
        return cls(
            design=DesignSpec.from_dict(stored["design"]),
            vector=ProjectedVector.from_dict(stored["vector"]),
            sums=plan_from_dict(stored["sums"]),
            radius=float(stored["radius"]),
            penalty=None,
            constraint=constraint_from_dict(stored["constraint"]),
            solver=stored["solver"],
            rows_guess=float(stored["rows_guess"]),
            guarantee=Guarantee(**stored["guarantee"]),
            said=tuple(stored["said"]),
            lift=bool(stored["lift"]),
        )


def project(request: StreamRequest, rows_guess: float) -> tuple[ProjectedVector, float, tuple[str, ...]]:
    """What a row adds to a projected stream, the most that a neighbour moves the sums by, and what the plan says.

    ArgumentError if there are no such directions, or no such region.
    """
    constraint, design = request.constraint, request.design
    assert constraint is not None
    projection, said = plan_projection(
        len(design.names) - int(design.has_intercept),
        constraint,
        rows=rows_guess * _typical_ticks(request.source),
        noise_sd=_typical_noise(request),
        directions="auto" if request.directions is None else request.directions,
        region=request.region,
        seed=0 if request.projection_seed is None else request.projection_seed,
    )
    size = projection.directions + int(design.has_intercept)
    # Rows in model units have norm 1 at most, and so do their images.
    metric = MatrixNoise("normal", 1.0, (1.0,) * size)
    law = ("linear", scaled_family(request.loss, design), metric, 1.0, 1.0, 0.0, float(np.sqrt(2)))
    vector = ProjectedVector(*law, projection, request.region)  # type: ignore[arg-type]
    return vector, frobenius_sensitivity(1.0, 1e-9, request.notion), tuple(said)


def _typical_ticks(source: Mechanism) -> float:
    """Ticks that a late release is of."""
    workload = source.workload
    if isinstance(workload, Window):
        return workload.window
    return min(workload.ticks, 1 / max(1 - workload.decay, 1e-6))


def _typical_noise(request: StreamRequest) -> float:
    """That of the middle of a stream, for rows of about the sensitivity of either adjacency."""
    eps, delta = request.budget
    planned = request.source.plan(1, row_sensitivity=2.0, eps=eps, delta=delta)
    return float(planned.noise_sd(max(1, int(_typical_ticks(request.source) / 2)))[0])
