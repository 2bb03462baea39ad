"""The arguments of a stream of regressions, frozen as given and checked as needed, and the plan that they make."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, replace
from typing import Any, TypedDict

from dpstats.arguments import check_choice, check_flag, safe_repr
from dpstats.cached import cached_property
from dpstats.call import SEEDED
from dpstats.domain import Domain
from dpstats.errors import ArgumentError
from dpstats.families import Family, get_family
from dpstats.formula.design import DesignSpec, design_spec
from dpstats.mechanisms.statistics import check_size
from dpstats.models.sources import model_formula
from dpstats.penalties import Penalty
from dpstats.penalties import penalty as get_penalty
from dpstats.plan.plan import scaled_family
from dpstats.privacy.guarantee import Adjacency, check_adjacency, check_planned
from dpstats.privacy.information import MatrixNoise
from dpstats.privacy.information.statistics import frobenius_sensitivity
from dpstats.streaming.constraints import Constraint
from dpstats.streaming.plan import StreamPlan, check_guess
from dpstats.streaming.projected import ProjectedPlan, ProjectedVector, plan_projection
from dpstats.streaming.sums import MECHANISMS, Mechanism, SumsPlan, Workload
from dpstats.streaming.sums.mechanism import MechanismKeywords
from dpstats.streaming.sums.workloads import Window
from dpstats.streaming.vectors import RowVector, linear_vector, renewed_vector

RADII = {"linear": 1.0, "renewable": 4.0}
"""Default guesses at the norm of the coefficients in the metric of the rows."""

PERSON = "person"
"""What persons are called where a pattern of their ticks is declared and no `unit`."""


class StreamKeywords(TypedDict, total=False):
    """The fields of `StreamRequest` as keywords of a call, for type checkers; a test holds the two together."""

    family: str | Family
    mechanism: str | None
    weights: str | None
    offset: str | None
    exposure: str | None
    subset: str | None
    horizon: int | None
    halflife: float | None
    window: int | None
    workload: Workload | str | None
    participation: Sequence[int]
    unit: str | None
    sums: str | None
    penalty: str | Penalty | None
    alpha: float | None
    constraint: Constraint | None
    solver: str
    radius: float | None
    directions: int | str | None
    region: Constraint | int | None
    projection_seed: int | None
    lift: bool
    adjacency: str
    rows_guess: float


@dataclass(frozen=True, eq=False)
class StreamRequest:
    """What a stream is asked for; see `dpstats.streaming.Regression` for the attributes."""

    formula: str
    domain: Domain | Mapping[str, Any]
    eps: float
    delta: float = 0.0
    _: KW_ONLY
    family: str | Family = "gaussian"
    mechanism: str | None = None
    weights: str | None = None
    offset: str | None = None
    exposure: str | None = None
    subset: str | None = None
    horizon: int | None = None
    halflife: float | None = None
    window: int | None = None
    workload: Workload | str | None = None
    participation: Sequence[int] = (0,)
    unit: str | None = None
    sums: str | None = None
    penalty: str | Penalty | None = None
    alpha: float | None = None
    constraint: Constraint | None = None
    solver: str = "accelerated"
    radius: float | None = None
    directions: int | str | None = None
    region: Constraint | int | None = None
    projection_seed: int | None = None
    lift: bool = False
    adjacency: str = "add_remove"
    rows_guess: float = 1000.0
    seeded: bool = False  # Whether the noise can be reproduced

    def check(self) -> None:
        """Raise ArgumentError, FormulaError or DomainError for the first argument that is not usable."""
        _ = self.budget, self.notion, self.loss, self.method, self.shrinkage
        self._check_constraint()
        self._check_projection()
        _ = self.size, self.source, self.design

    @cached_property
    def budget(self) -> tuple[float, float]:
        """Eps and delta."""
        return check_planned(self.eps, self.delta)

    @cached_property
    def notion(self) -> Adjacency:
        """The adjacency."""
        return check_adjacency(self.adjacency)

    @cached_property
    def loss(self) -> Family:
        """The family, its caps perhaps open."""
        loss = get_family(self.family)
        if not type(loss).__module__.startswith("dpstats."):
            raise ArgumentError("family must be one of dpstats for a stream: no proof covers the bounds of another")
        return loss

    @cached_property
    def method(self) -> str:
        """The mechanism asked for, or the one that suits the family."""
        name, family = self.mechanism, self.loss.name
        if name is None:
            return "linear" if family == "gaussian" else "renewable"
        check_choice("mechanism", name, ("linear", "renewable", "projected", "refits"))
        if name != "renewable" and family != "gaussian":
            raise ArgumentError(f"mechanism={name!r} is for family='gaussian'; use 'renewable' for {family!r}")
        if name == "renewable" and family == "gaussian":
            complaint = "mechanism='renewable' is for models that are not linear"
            raise ArgumentError(f"{complaint}; use 'linear' for family='gaussian'")
        return name

    @cached_property
    def shrinkage(self) -> Penalty | None:
        """The penalty."""
        penalty = get_penalty(self.penalty, self.alpha)
        if penalty is not None and not penalty.convex:
            raise ArgumentError(f"penalty must be convex for a stream, got {penalty.name!r}")
        return penalty

    @cached_property
    def size(self) -> float:
        """The guess at the norm of the coefficients: for a projected stream the reach of their set."""
        if self.method == "projected" and self.constraint is not None:
            return self.constraint.reach
        return RADII[self.method] if self.radius is None else check_size("radius", self.radius)

    @cached_property
    def source(self) -> Mechanism:
        """The mechanism of the sums."""
        name = self.sums
        if name is None:
            name = "blt" if self.budget[1] > 0 else "knorm_tree"
        if not isinstance(name, str) or name not in MECHANISMS:
            raise ArgumentError(f"sums must be one of {list(MECHANISMS)} or left out")
        return MECHANISMS[name](**{name: getattr(self, name) for name in MechanismKeywords.__annotations__})

    @cached_property
    def design(self) -> DesignSpec:
        """The design; in a linear model what an offset leaves of the response is what is scaled to [-1, 1]."""
        row_terms = {"weights": self.weights, "offset": self.offset, "exposure": self.exposure, "subset": self.subset}
        formula = model_formula(self.formula, self.loss, **row_terms)
        design = design_spec(formula, Domain.coerce(self.domain), family=self.loss)
        if self.constraint is not None:
            self.constraint.check_size(len(design.names) - int(design.has_intercept))
        if self.solver == "paper" and design.has_intercept:
            raise ArgumentError("solver='paper' is for a formula without an intercept: add '- 1'")
        if self.method == "renewable" or design.offset is None:
            return design
        low, high = design.response.low - design.offset.high, design.response.high - design.offset.low
        return design.with_working(low + design.offset_center, high + design.offset_center)

    def noise(self, size: int, sensitivity: float, step: float | None = None) -> SumsPlan:
        """The noise for vectors of `size` numbers that a neighbour moves by `sensitivity`."""
        eps, delta = self.budget
        budget: dict[str, Any] = {"eps": eps, "delta": delta, "adjacency": self.notion}
        return self.source.plan(size, row_sensitivity=sensitivity, step=step, **budget)

    @cached_property
    def person(self) -> str | None:
        """Whose rows a neighbour differs by; None if every row counts by itself."""
        if self.unit is not None and not (isinstance(self.unit, str) and self.unit.strip()):
            raise ArgumentError(
                f"unit must be None or the name of the column that identifies persons, got {safe_repr(self.unit)}; "
                "declare persons with rows in several ticks by participation="
            )
        return PERSON if self.unit is None and len(self.source.participation) > 1 else self.unit

    def _check_constraint(self) -> None:
        if self.constraint is not None and not isinstance(self.constraint, Constraint):
            raise ArgumentError("constraint must be a set of dpstats.streaming.constraints, such as L1Ball(1.0)")
        if self.constraint is not None and self.shrinkage is not None:
            raise ArgumentError("constraint and penalty: pass only one of them")
        check_choice("solver", self.solver, ("accelerated", "paper"))
        if self.solver == "paper" and self.constraint is None:
            raise ArgumentError("solver='paper' is for a constraint: give constraint=, such as L1Ball(1.0)")

    def _check_projection(self) -> None:
        check_flag("lift", self.lift)
        if self.method != "projected":
            sketch = {"directions": self.directions, "region": self.region, "projection_seed": self.projection_seed}
            for name, value in {**sketch, "lift": self.lift or None}.items():
                if value is not None:
                    raise ArgumentError(f"{name} is for mechanism='projected'; leave it out")
            return
        if self.constraint is None:
            raise ArgumentError("constraint must be given for mechanism='projected', such as L1Ball(1.0)")
        for name in ("radius", "penalty"):
            if getattr(self, name) is not None:
                raise ArgumentError(f"{name} is not for mechanism='projected', which uses the constraint")
        if self.solver != "accelerated":
            raise ArgumentError("solver: mechanism='projected' has its own solver; leave it out")


def make_plan(request: StreamRequest) -> StreamPlan:
    """The plan of a stream; no rows are read. ArgumentError, FormulaError or DomainError for what is not usable."""
    request.check()
    if request.method == "refits":
        raise ArgumentError("mechanism='refits' has no sums to plan; its plan is that of dp.streaming.Refits")
    rows, extra = check_guess("rows_guess", request.rows_guess, 1, 1e12), dict[str, Any]()
    if request.method == "projected":
        vector, sensitivity, notes = _projected_vector(request, rows)
        extra = {"said": notes, "lift": request.lift}
    else:
        vector, sensitivity = _vector(request)
    first = request.noise(vector.size, sensitivity)
    noise = request.noise(vector.size, sensitivity + 2 * vector.slack(first.step), first.step)
    guarantee = replace(noise.guarantee, unit=request.person)
    return (ProjectedPlan if extra else StreamPlan)(
        design=request.design,
        vector=vector,
        sums=noise,
        radius=request.size,
        penalty=request.shrinkage,
        constraint=request.constraint,
        solver=request.solver,
        rows_guess=rows,
        guarantee=guarantee.uncertified(SEEDED) if request.seeded else guarantee,
        **extra,
    )


def _vector(request: StreamRequest) -> tuple[RowVector, float]:
    """What a row adds, and the most that a neighbour moves the sums by."""
    design = request.design
    family = scaled_family(request.loss, design)
    if request.method == "linear":
        errors = design.has_intercept and request.budget[1] > 0 and design.score_ratio is not None
        return linear_vector(design, family, request.size, request.notion, square=errors)
    return renewed_vector(design, family, request.size, request.notion)


def _projected_vector(request: StreamRequest, rows_guess: float) -> tuple[RowVector, float, tuple[str, ...]]:
    """`_vector` for a projected stream, and what the plan says of the projection.

    ArgumentError if there are no such directions, or no such region.
    """
    constraint, design = request.constraint, request.design
    assert constraint is not None
    # A late release is of so many ticks. The noise is that of the middle of a stream, for rows of about the sensitivity
    # of either adjacency.
    workload = request.source.workload
    ticks = workload.window if isinstance(workload, Window) else min(workload.ticks, 1 / max(1 - workload.decay, 1e-6))
    trial = request.noise(1, 2.0)
    projection, notes = plan_projection(
        len(design.names) - int(design.has_intercept),
        constraint,
        rows=rows_guess * ticks,
        noise_sd=float(trial.noise_sd(max(1, int(ticks / 2)))[0]),
        directions="auto" if request.directions is None else request.directions,
        region=request.region,
        seed=0 if request.projection_seed is None else request.projection_seed,
    )
    size = projection.directions + int(design.has_intercept)
    # Rows in model units have norm 1 at most, and so do their images.
    family, metric = scaled_family(request.loss, design), MatrixNoise("normal", 1.0, (1.0,) * size)
    vector = ProjectedVector("linear", family, metric, 1.0, 1.0, 0.0, math.sqrt(2), projection, request.region)
    return vector, frobenius_sensitivity(1.0, 1e-9, request.notion), tuple(notes)
