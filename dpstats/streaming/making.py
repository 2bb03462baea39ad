"""The plan of a stream from its arguments: checked at once, before a row is read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from dpstats.arguments import check_choice
from dpstats.domain import Domain
from dpstats.errors import ArgumentError
from dpstats.families import Family, get_family
from dpstats.formula.design import design_spec
from dpstats.mechanisms.statistics import check_size
from dpstats.models.sources import scaled_family
from dpstats.penalties import Penalty
from dpstats.penalties import penalty as get_penalty
from dpstats.privacy.guarantee import check_adjacency, check_budget
from dpstats.request import SEEDED
from dpstats.streaming.constraints import Constraint
from dpstats.streaming.planning import StreamPlan, check_guess
from dpstats.streaming.sums import Blt, Honaker, KNormTree, Mechanism, SumsPlan, Toeplitz, Tree, Workload
from dpstats.streaming.vectors import RowVector
from dpstats.streaming.weighing import linear_vector, renewed_vector

SUMS: dict[str, type[Mechanism]] = {
    "blt": Blt,
    "toeplitz": Toeplitz,
    "tree": Tree,
    "honaker": Honaker,
    "knorm_tree": KNormTree,
}

RADII = {"linear": 1.0, "renewable": 4.0}
"""Default guesses at the norm of the coefficients in the metric of the rows."""


def make_plan(
    formula: str,
    domain: Domain | Mapping[str, Any],
    eps: float,
    delta: float = 0.0,
    *,
    family: str | Family = "gaussian",
    mechanism: str | None = None,
    sums: str | None = None,
    horizon: int | None = None,
    halflife: float | None = None,
    window: int | None = None,
    workload: Workload | str | None = None,
    participation: Sequence[int] = (0,),
    penalty: str | Penalty | None = None,
    alpha: float | None = None,
    constraint: Constraint | None = None,
    solver: str = "accelerated",
    radius: float | None = None,
    adjacency: str = "add_remove",
    rows_guess: float = 1000.0,
    seeded: bool = False,
) -> StreamPlan:
    """See `dpstats.streaming.Regression`.

    Raises
    ------
    ArgumentError, FormulaError, DomainError
        Naming the first argument that is not usable, and the fix.
    """
    eps, delta = check_budget(eps, delta)
    notion = check_adjacency(adjacency)
    loss = get_family(family)
    if not type(loss).__module__.startswith("dpstats."):
        raise ArgumentError("family must be one of dpstats for a stream: nobody has proved what another declares")
    method = _method(mechanism, loss)
    chosen = get_penalty(penalty, alpha)
    if chosen is not None and not chosen.convex:
        raise ArgumentError(f"penalty must be convex for a stream, got {chosen.name!r}")
    if constraint is not None and not isinstance(constraint, Constraint):
        raise ArgumentError("constraint must be a set of dpstats.streaming.constraints, such as L1Ball(1.0)")
    if constraint is not None and chosen is not None:
        raise ArgumentError("constraint and penalty: give one of them")
    check_choice("solver", solver, ("accelerated", "paper"))
    guess = RADII[method] if radius is None else check_size("radius", radius)
    ticks = {"horizon": horizon, "halflife": halflife, "window": window, "workload": workload}
    source = _sums(sums, delta)(**ticks, participation=participation)  # type: ignore[arg-type]
    design = design_spec(formula, Domain.coerce(domain), family=loss)
    if any(part is not None for part in (design.weights, design.offset, design.subset)):
        raise ArgumentError(
            "formula: weights, offsets and subsets are not offered for streams; leave them out, or use dp.glm"
        )
    if design.response.trials is not None:
        raise ArgumentError("formula: successes + failures are not offered for streams; give one row a trial")
    if constraint is not None:
        constraint.check_size(len(design.names) - int(design.has_intercept))
    if solver == "paper" and (constraint is None or design.has_intercept):
        raise ArgumentError("solver='paper' is for a constraint and a formula without an intercept: add '- 1'")
    resolved = scaled_family(loss, design)
    if method == "linear":
        square = design.has_intercept and delta > 0
        vector, moved = linear_vector(design, resolved, guess, notion, square=square)
    else:
        vector, moved = renewed_vector(design, resolved, guess, notion)
    planned = plan_sums(source, vector, moved, eps=eps, delta=delta, adjacency=notion)
    guarantee = planned.guarantee.uncertified(SEEDED) if seeded else planned.guarantee
    rows = check_guess("rows_guess", rows_guess, 1, 1e12)
    return StreamPlan(design, vector, planned, guess, chosen, constraint, solver, rows, guarantee)


def plan_sums(
    source: Mechanism, vector: RowVector, moved: float, *, eps: float, delta: float, adjacency: Any
) -> SumsPlan:
    """The noise for vectors that a neighbour moves by `moved`, and by the rounding of sums to the lattice beside it."""
    budget: dict[str, Any] = {"eps": eps, "delta": delta, "adjacency": adjacency}
    first = source.plan(vector.size, row_sensitivity=moved, **budget)
    whole = moved + 2 * vector.slack(first.step)
    return source.plan(vector.size, row_sensitivity=whole, step=first.step, **budget)


def _method(mechanism: str | None, family: Family) -> str:
    """The mechanism asked for, or the one that suits the family.

    Raises
    ------
    ArgumentError
        If it is unknown or does not suit the family.
    """
    linear = family.name == "gaussian"
    if mechanism is None:
        return "linear" if linear else "renewable"
    if mechanism not in RADII:
        raise ArgumentError(
            f"mechanism must be one of {list(RADII)} or left out; dp.streaming.Refits fits any method anew"
        )
    if mechanism == "linear" and not linear:
        raise ArgumentError(f"mechanism='linear' is for family='gaussian'; take 'renewable' for {family.name!r}")
    if mechanism == "renewable" and linear:
        raise ArgumentError("mechanism='renewable' renews what is not linear; take 'linear' for family='gaussian'")
    return mechanism


def _sums(name: str | None, delta: float) -> type[Mechanism]:
    if name is None:
        return Blt if delta > 0 else KNormTree
    if not isinstance(name, str) or name not in SUMS:
        raise ArgumentError(f"sums must be one of {list(SUMS)} or left out")
    return SUMS[name]
