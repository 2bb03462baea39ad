"""A linear stream on few public random directions: PrivIncReg2 of source 001, from the formula to coefficients.

The rows are those of `Regression`, the sums are of what `projected` makes of them (docs/proofs/geometry, 3).
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from functools import cached_property
from typing import Any, NoReturn, Self

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from dpstats.arguments import check_choice
from dpstats.domain import Domain
from dpstats.errors import ArgumentError, NotReleasedError
from dpstats.families import get_family
from dpstats.formula.design import DesignSpec, design_spec
from dpstats.models.sources import scaled_family
from dpstats.privacy.guarantee import Adjacency, Guarantee, check_adjacency, check_budget
from dpstats.privacy.information import MatrixNoise
from dpstats.privacy.information.statistics import frobenius_sensitivity
from dpstats.privacy.ledger.opening import LedgerLike
from dpstats.request import SEEDED
from dpstats.rows import Block, Rows
from dpstats.streaming.constraints import Constraint
from dpstats.streaming.constraints import from_dict as constraint_from_dict
from dpstats.streaming.making import SUMS, plan_sums
from dpstats.streaming.planning import StreamPlan, check_guess
from dpstats.streaming.projected import Projection, inside, plan_projection
from dpstats.streaming.regression import RECALL, Regression
from dpstats.streaming.results import StreamResults
from dpstats.streaming.running import Running
from dpstats.streaming.solving import noise_alone, smoothed, without_free
from dpstats.streaming.sums import Mechanism, SumsPlan, Workload, plan_from_dict
from dpstats.streaming.sums.workloads import Window
from dpstats.streaming.vectors import Integers, RowVector

Float = NDArray[np.float64]

NO_ERRORS = "what a sketch leaves out of coefficients is not known, so there are no errors; take Regression for them"


@dataclass(frozen=True)
class ProjectedVector(RowVector):
    """What a row adds: (vech z z', z y) for z its projection, an intercept kept as it is.

    Attributes
    ----------
    projection : Projection
        Of the columns besides the intercept.
    region : Constraint, int or None
        Rows outside it enter as zeros.
    """

    projection: Projection
    region: Constraint | int | None

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
        kept = inside(exog[:, first:], self.region)
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
    """Coefficients from sums over projected rows: post-processing.

    Attributes
    ----------
    vector : ProjectedVector
    constraint : Constraint
    lift : bool
    """

    vector: ProjectedVector
    constraint: Constraint
    lift: bool

    def params(self, released: Float, deviation: float, start: Float | None = None, ticks: float = 1.0) -> Float:
        """Coefficients in model units, in the set but for the intercept, shape (p,); see `Fitting.params`."""
        whole = self.vector.matrix(released)
        gram, cross = smoothed(whole[:-1, :-1]), whole[:-1, -1]
        free = np.zeros(len(gram), dtype=bool)
        free[: int(self.vector.intercept)] = True
        inner, moments, best = without_free(gram, cross, free)
        projection, first = self.vector.projection, int(self.vector.intercept)
        if noise_alone(projection.matrix.T @ moments, deviation / self.vector.cross, self.constraint):
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
    """A projected stream, fixed before a row is read.

    Attributes
    ----------
    said : tuple of str
        What the plan says of the projection.
    lift : bool
    """

    said: tuple[str, ...]
    lift: bool

    @property
    def method(self) -> str:
        """ "projected"."""
        return "projected"

    @property
    def may_start_late(self) -> bool:
        """False: nothing is linearised."""
        return False

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
        return table

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


@dataclass(frozen=True, eq=False)
class ProjectedResults(StreamResults):
    """The regression of some ticks of a projected stream: coefficients without errors."""

    def _obstacle(self) -> str | None:
        return NO_ERRORS


class Projected(Regression):
    """A linear regression of a stream of wide rows, summed along few public random directions.

    It buys memory and time: m (m + 3) / 2 sums in place of d (d + 3) / 2. With room for all of these `Regression` with
    the same constraint is more accurate.

    Parameters
    ----------
    formula, domain, eps, delta
        As for `Regression`; the family is "gaussian".
    constraint : Constraint
        Of the coefficients in model units, the intercept aside: a set of `dpstats.streaming.constraints`.
    directions : int or "auto"
        m; "auto" balances sketch and noise within a quarter of a million sums.
    region : Constraint or int, optional
        Rows outside it enter as zeros: a set of rows in model units, or the most entries that are not 0.
    projection_seed : int
        Of the public matrix.
    lift : bool
        Whether to release the coefficients of least gauge among those that the sketch cannot tell apart, which takes
        seconds a tick, or the ones found first.
    horizon, halflife, window, workload, participation, sums, adjacency, ledger, state, recall, rows_guess, seed
        As for `Regression`.

    Raises
    ------
    ArgumentError, FormulaError, DomainError, StreamError
        As for `Regression`.

    Examples
    --------
    >>> import dpstats as dp
    >>> ball = dp.streaming.constraints.L1Ball(1.0)
    >>> domain = {"word": [f"w{i}" for i in range(100)], "y": (-1, 1)}
    >>> stream = dp.streaming.Projected("y ~ word - 1", domain, 1, 1e-6, constraint=ball, directions=20, horizon=100)
    >>> stream.plan().vector.size
    230
    """

    def __init__(
        self,
        formula: str,
        domain: Domain | Mapping[str, Any],
        eps: float,
        delta: float = 0.0,
        *,
        constraint: Constraint,
        directions: int | str = "auto",
        region: Constraint | int | None = None,
        projection_seed: int = 0,
        lift: bool = False,
        horizon: int | None = None,
        halflife: float | None = None,
        window: int | None = None,
        workload: Workload | str | None = None,
        participation: Sequence[int] = (0,),
        sums: str | None = None,
        adjacency: str = "add_remove",
        ledger: LedgerLike = None,
        state: str | os.PathLike[str] | None = None,
        recall: int = RECALL,
        rows_guess: float = 1000.0,
        seed: int | None = None,
    ) -> None:
        eps, delta = check_budget(eps, delta)
        ticks = {"horizon": horizon, "halflife": halflife, "window": window, "workload": workload}
        source = _sums(sums, delta)(**ticks, participation=participation)  # type: ignore[arg-type]
        guess = check_guess("rows_guess", rows_guess, 1, 1e12)
        design = _design(formula, domain, constraint)
        wide = {"directions": directions, "region": region, "seed": projection_seed}
        planned = _projection(design, constraint, source, guess, eps, delta, wide)
        vector, moved = _vector(design, planned[0], region, check_adjacency(adjacency))
        noise = plan_sums(source, vector, moved, eps=eps, delta=delta, adjacency=adjacency)
        self._plan = _plan(design, vector, noise, constraint, guess, planned[1], lift, seed is not None)
        self._domain = Domain.coerce(domain)
        self._running = Running(self._plan, ledger=ledger, state=state, recall=recall, seed=seed)

    def at(self, tick: int) -> StreamResults:
        """The regression as it was released at a past tick; see `Regression.at`."""
        return _projected(super().at(tick))

    def between(self, a: int, b: int) -> StreamResults:
        """The regression of the ticks a + 1, ..., b; see `Regression.between`."""
        return _projected(super().between(a, b))


def _sums(name: str | None, delta: float) -> type[Mechanism]:
    """The noise of the sums, by its name."""
    chosen = ("blt" if delta > 0 else "knorm_tree") if name is None else name
    check_choice("sums", chosen, tuple(SUMS))
    return SUMS[chosen]


def _design(formula: str, domain: Domain | Mapping[str, Any], constraint: object) -> DesignSpec:
    """The design, if a projected stream can be of it."""
    if not isinstance(constraint, Constraint):
        raise ArgumentError("constraint must be a set of dpstats.streaming.constraints, such as L1Ball(1.0)")
    design = design_spec(formula, Domain.coerce(domain), family=get_family("gaussian"))
    if design.weights is not None or design.offset is not None:
        raise ArgumentError("formula: weights and offsets are not offered for streams; leave them out, or use dp.glm")
    constraint.check_size(len(design.names) - int(design.has_intercept))
    return design


def _projection(
    design: DesignSpec,
    constraint: Constraint,
    source: Mechanism,
    rows_guess: float,
    eps: float,
    delta: float,
    wide: dict[str, Any],
) -> tuple[Projection, list[str]]:
    """The projection of the columns besides the intercept, and what the plan says of it."""
    workload = source.workload
    ticks = workload.window if isinstance(workload, Window) else min(workload.ticks, 1 / max(1 - workload.decay, 1e-6))
    # The noise of the middle of a stream, for rows of about the sensitivity of either adjacency.
    least = source.plan(1, row_sensitivity=2.0, eps=eps, delta=delta).noise_sd(max(1, int(ticks / 2)))[0]
    columns = len(design.names) - int(design.has_intercept)
    return plan_projection(columns, constraint, rows=rows_guess * ticks, noise_sd=float(least), **wide)


def _vector(
    design: DesignSpec, projection: Projection, region: Constraint | int | None, adjacency: Adjacency
) -> tuple[ProjectedVector, float]:
    """What a row adds, and the most that a neighbour moves the sums by: rows in model units have norm 1 at most."""
    family = scaled_family(get_family("gaussian"), design)
    size = projection.directions + int(design.has_intercept)
    metric = MatrixNoise("normal", 1.0, (1.0,) * size)
    vector = ProjectedVector("linear", family, metric, 1.0, 1.0, 0.0, float(np.sqrt(2)), projection, region)
    return vector, frobenius_sensitivity(1.0, 1e-9, adjacency)


def _plan(
    design: DesignSpec,
    vector: ProjectedVector,
    noise: SumsPlan,
    constraint: Constraint,
    rows_guess: float,
    said: list[str],
    lift: bool,
    seeded: bool,
) -> ProjectedPlan:
    guarantee = noise.guarantee.uncertified(SEEDED) if seeded else noise.guarantee
    facts = (design, vector, noise, constraint.reach, None, constraint, "accelerated", rows_guess, guarantee)
    return ProjectedPlan(*facts, said=tuple(said), lift=bool(lift))


def _projected(found: StreamResults) -> ProjectedResults:
    """The same numbers, with what a projected stream knows of their errors."""
    return ProjectedResults(**{field.name: getattr(found, field.name) for field in fields(found)})
