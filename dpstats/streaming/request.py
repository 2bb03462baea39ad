"""The arguments of a stream of regressions, and the plan that they make."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, TypedDict, Unpack, cast

from dpstats.arguments import check_choice, check_flag, is_number, safe_repr
from dpstats.call import SEEDED, RowKeywords, split_kwargs
from dpstats.domain import Domain
from dpstats.errors import ArgumentError
from dpstats.families import Family, get_family
from dpstats.formula.advice import check_count_range
from dpstats.formula.design import DesignSpec, design_spec, requested_spec
from dpstats.formula.parse import parse
from dpstats.mechanisms.statistics import check_size
from dpstats.models.sources import model_formula
from dpstats.penalties import Penalty
from dpstats.penalties import penalty as get_penalty
from dpstats.plan.plan import scaled_family
from dpstats.privacy.guarantee import check_adjacency, check_planned
from dpstats.privacy.information import MatrixNoise
from dpstats.privacy.information.statistics import frobenius_sensitivity
from dpstats.streaming.constraints import Constraint
from dpstats.streaming.plan import StreamPlan
from dpstats.streaming.projected import ProjectedPlan, ProjectedVector, plan_projection
from dpstats.streaming.sums import MECHANISMS, Mechanism, SumsPlan, Workload
from dpstats.streaming.sums.mechanism import MechanismKeywords
from dpstats.streaming.sums.workloads import Window
from dpstats.streaming.vectors import RowVector, linear_vector, renewed_vector

RADII = {"linear": 1.0, "renewable": 4.0}  # Default guesses at the norm of the coefficients in the metric of the rows
PERSON = "person"  # Name of a person where `participation` has several ticks and `unit` is None


class StreamKeywords(TypedDict, total=False):
    """The options of a stream; see `dpstats.streaming.Regression`."""

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


# The other keywords are None by default
STREAM_DEFAULTS: StreamKeywords = {
    "family": "gaussian",
    "participation": (0,),
    "solver": "accelerated",
    "lift": False,
    "adjacency": "add_remove",
    "rows_guess": 1000.0,
}


def make_plan(
    formula: str,
    domain: Domain | Mapping[str, Any],
    eps: float,
    delta: float = 0.0,
    *,
    seeded: bool = False,
    begun: bool = False,
    **arguments: Unpack[StreamKeywords],
) -> StreamPlan:
    """The plan of a stream; no rows are read. `seeded`: the noise can be reproduced. `begun`: the stream is paid for.

    ArgumentError, FormulaError or DomainError for the first argument that is not usable.
    """
    options = cast(StreamKeywords, {**dict.fromkeys(StreamKeywords.__annotations__), **STREAM_DEFAULTS, **arguments})
    budget, adjacency = check_planned(eps, delta), check_adjacency(options["adjacency"])
    loss = get_family(options["family"])
    if not type(loss).__module__.startswith("dpstats."):
        raise ArgumentError("family must be one of dpstats for a stream: no proof covers the bounds of another")
    method, constraint = choose_method(options["mechanism"], loss.name), options["constraint"]
    penalty = get_penalty(options["penalty"], options["alpha"])
    if penalty is not None and not penalty.convex:
        raise ArgumentError(f"penalty must be convex for a stream, got {penalty.name!r}")
    check_constraint(options, penalty)
    check_projection(options, method)
    if constraint is not None and method == "projected":
        radius = constraint.reach
    else:
        radius = RADII[method] if options["radius"] is None else check_size("radius", options["radius"])
    source = make_mechanism(options, pure=budget[1] == 0)
    design = make_design(formula, domain, loss, method, options, begun)
    rows_guess = options["rows_guess"]
    if not is_number(rows_guess) or not 1 <= rows_guess <= 1e12:
        raise ArgumentError("rows_guess must be a number from 1 to 1e+12")
    rows_guess = float(rows_guess)

    def noise(size: int, sensitivity: float, step: float | None = None) -> SumsPlan:
        """For vectors of `size` numbers that a neighbour moves by `sensitivity`."""
        spent: dict[str, Any] = {"eps": budget[0], "delta": budget[1], "adjacency": adjacency}
        return source.plan(size, row_sensitivity=sensitivity, step=step, **spent)

    family, extra = scaled_family(loss, design), dict[str, Any]()
    vector: RowVector
    errors = design.has_intercept and budget[1] > 0 and design.score_ratio is not None
    if method == "linear":
        vector, sensitivity = linear_vector(design, family, radius, adjacency, square=errors)
    elif method == "renewable":
        dispersed = errors and family.response == "count"
        vector, sensitivity = renewed_vector(design, family, radius, adjacency, square=dispersed)
    else:
        assert constraint is not None
        # A late release is of so many ticks. The noise is that of the middle of a stream, for rows of about the
        # sensitivity of either adjacency.
        workload = source.workload
        forgets = 1 / max(1 - workload.decay, 1e-6)
        ticks = workload.window if isinstance(workload, Window) else min(workload.ticks, forgets)
        projection, notes = plan_projection(
            len(design.names) - int(design.has_intercept),
            constraint,
            rows=rows_guess * ticks,
            noise_sd=float(noise(1, 2.0).noise_sd(max(1, int(ticks / 2)))[0]),
            directions="auto" if options["directions"] is None else options["directions"],
            region=options["region"],
            seed=0 if options["projection_seed"] is None else options["projection_seed"],
        )
        extra = {"said": tuple(notes), "lift": options["lift"]}
        # Rows in model units have norm 1 at most, and so do their images.
        metric = MatrixNoise("normal", 1.0, (1.0,) * (projection.directions + int(design.has_intercept)))
        units = (1.0, 1.0, 0.0, math.sqrt(2))
        vector = ProjectedVector("linear", family, metric, *units, projection, options["region"])
        sensitivity = frobenius_sensitivity(1.0, 1e-9, adjacency)
    first = noise(vector.size, sensitivity)
    sums = noise(vector.size, sensitivity + 2 * vector.slack(first.step), first.step)
    guarantee = replace(sums.guarantee, unit=person(options["unit"], source))
    return (ProjectedPlan if extra else StreamPlan)(
        design=design,
        vector=vector,
        sums=sums,
        radius=radius,
        penalty=penalty,
        constraint=constraint,
        solver=options["solver"],
        rows_guess=rows_guess,
        guarantee=guarantee.uncertified(SEEDED) if seeded else guarantee,
        **extra,
    )


def choose_method(name: str | None, family: str) -> str:
    """The mechanism by that name, by default the one that suits the family."""
    if name is None:
        return "linear" if family == "gaussian" else "renewable"
    check_choice("mechanism", name, ("linear", "renewable", "projected", "refits"))
    if name != "renewable" and family != "gaussian":
        raise ArgumentError(f"mechanism={name!r} is for family='gaussian'; use 'renewable' for {family!r}")
    if name == "renewable" and family == "gaussian":
        complaint = "mechanism='renewable' is for models that are not linear"
        raise ArgumentError(f"{complaint}; use 'linear' for family='gaussian'")
    return name


def check_constraint(options: StreamKeywords, penalty: Penalty | None) -> None:
    """Raise ArgumentError unless constraint, penalty and solver go together."""
    constraint, solver = options["constraint"], options["solver"]
    if constraint is not None and not isinstance(constraint, Constraint):
        raise ArgumentError("constraint must be a set of dpstats.streaming.constraints, such as L1Ball(1.0)")
    if constraint is not None and penalty is not None:
        raise ArgumentError("constraint and penalty: pass only one of them")
    check_choice("solver", solver, ("accelerated", "paper"))
    if solver == "paper" and constraint is None:
        raise ArgumentError("solver='paper' is for a constraint: give constraint=, such as L1Ball(1.0)")


def check_projection(options: Mapping[str, object], method: str) -> None:
    """Raise ArgumentError for arguments that a projected stream lacks or does not take, or that only it takes."""
    check_flag("lift", options["lift"])
    if method != "projected":
        given = {**options, "lift": options["lift"] or None}
        for name in ("directions", "region", "projection_seed", "lift"):
            if given[name] is not None:
                raise ArgumentError(f"{name} is for mechanism='projected'; leave it out")
        return
    if options["constraint"] is None:
        raise ArgumentError("constraint must be given for mechanism='projected', such as L1Ball(1.0)")
    for name in ("radius", "penalty"):
        if options[name] is not None:
            raise ArgumentError(f"{name} is not for mechanism='projected', which uses the constraint")
    if options["solver"] != "accelerated":
        raise ArgumentError("solver: mechanism='projected' has its own solver; leave it out")


def make_mechanism(options: StreamKeywords, *, pure: bool) -> Mechanism:
    """The mechanism of the sums."""
    name = options["sums"]
    if name is None:
        name = "knorm_tree" if pure else "blt"
    if not isinstance(name, str) or name not in MECHANISMS:
        raise ArgumentError(f"sums must be one of {list(MECHANISMS)} or left out")
    return MECHANISMS[name](**split_kwargs(options, MechanismKeywords)[0])


def make_design(
    formula: str,
    domain: Domain | Mapping[str, Any],
    loss: Family,
    method: str,
    options: StreamKeywords,
    begun: bool,
) -> DesignSpec:
    """The design; in a linear model the response less the offset is scaled to [-1, 1]."""
    formula = model_formula(formula, loss, **split_kwargs(options, RowKeywords)[0])
    declared = Domain.coerce(domain)
    check_count_range(parse(formula), declared, loss)
    # A stream that was begun goes on, whatever is refused since then.
    design = (design_spec if begun else requested_spec)(formula, declared, family=loss)
    if options["constraint"] is not None:
        options["constraint"].check_size(len(design.names) - int(design.has_intercept))
    if options["solver"] == "paper" and design.has_intercept:
        raise ArgumentError("solver='paper' is for a formula without an intercept: add '- 1'")
    if method == "renewable" or design.offset is None:
        return design
    low, high = design.response.low - design.offset.high, design.response.high - design.offset.low
    return design.with_working(low + design.offset_center, high + design.offset_center)


def person(unit: str | None, source: Mechanism) -> str | None:
    """Whose rows a neighbour differs by; None if every row counts by itself."""
    if unit is not None and not (isinstance(unit, str) and unit.strip()):
        raise ArgumentError(
            f"unit must be None or the name of the column that identifies persons, got {safe_repr(unit)}; "
            "declare persons with rows in several ticks by participation="
        )
    return PERSON if unit is None and len(source.participation) > 1 else unit
