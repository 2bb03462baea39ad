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
from dpstats.privacy.guarantee import Guarantee
from dpstats.streaming.constrained import explained_by_noise, smooth_matrix, without_free
from dpstats.streaming.constraints import Constraint
from dpstats.streaming.constraints import from_dict as constraint_from_dict
from dpstats.streaming.plan import StreamPlan
from dpstats.streaming.projected import Projection, rows_inside
from dpstats.streaming.sums import plan_from_dict
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

    projection_notes: tuple[str, ...]  # What the plan says of the projection
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
        return [*super().notes(), *self.projection_notes, f"Predicted {bounds}"]

    def to_dict(self) -> dict[str, Any]:
        """Plain public values, for JSON."""
        return {**super().to_dict(), "said": list(self.projection_notes), "lift": self.lift}

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
            projection_notes=tuple(stored["said"]),
            lift=bool(stored["lift"]),
        )


def stored_plan(stored: Mapping[str, Any]) -> StreamPlan:
    """The plan whose `to_dict` gave `stored`, of whatever mechanism."""
    return (ProjectedPlan if "projection" in stored["vector"] else StreamPlan).from_dict(stored)
