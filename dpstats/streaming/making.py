"""The plan of a stream from what it is asked for: checked at once, before a row is read."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from dpstats.call import SEEDED
from dpstats.errors import ArgumentError
from dpstats.models.sources import scaled_family
from dpstats.privacy.guarantee import Guarantee
from dpstats.streaming.plan import StreamPlan, check_guess
from dpstats.streaming.projected_plan import ProjectedPlan, project
from dpstats.streaming.request import StreamRequest
from dpstats.streaming.sums import SumsPlan
from dpstats.streaming.vectors import RowVector, linear_vector, renewed_vector


def make_plan(request: StreamRequest) -> StreamPlan:
    """The plan of a stream; no rows are read.

    ArgumentError, FormulaError, DomainError naming the first argument that is not usable, and the fix.
    """
    request.check()
    if request.method == "refits":
        raise ArgumentError("mechanism='refits' has no sums to plan; its plan is that of dp.streaming.Refits")
    rows = check_guess("rows_guess", request.rows_guess, 1, 1e12)
    if request.method == "projected":
        image, reach, said = project(request, rows)
        facts = _facts(request, image, request.noise(image, reach), rows)
        return ProjectedPlan(**facts, said=said, lift=request.lift)
    vector, moved = _vector(request)
    return StreamPlan(**_facts(request, vector, request.noise(vector, moved), rows))


def stored_plan(stored: Mapping[str, Any]) -> StreamPlan:
    """The plan whose `to_dict` gave `stored`, of whatever mechanism."""
    return (ProjectedPlan if "projection" in stored["vector"] else StreamPlan).from_dict(stored)


def _vector(request: StreamRequest) -> tuple[RowVector, float]:
    """What a row adds, and the most that a neighbour moves the sums by."""
    design = request.design
    family = scaled_family(request.loss, design)
    if request.method == "linear":
        errors = design.has_intercept and request.budget[1] > 0 and design.score_ratio is not None
        return linear_vector(design, family, request.size, request.notion, square=errors)
    return renewed_vector(design, family, request.size, request.notion)


def _facts(request: StreamRequest, vector: RowVector, noise: SumsPlan, rows_guess: float) -> dict[str, Any]:
    """What plans of all mechanisms hold."""
    return {
        "design": request.design,
        "vector": vector,
        "sums": noise,
        "radius": request.size,
        "penalty": request.shrinkage,
        "constraint": request.constraint,
        "solver": request.solver,
        "rows_guess": rows_guess,
        "guarantee": _guarantee(request, noise.guarantee),
    }


def _guarantee(request: StreamRequest, whole: Guarantee) -> Guarantee:
    """Of the whole stream: for persons where they are declared, uncertified where the noise can be reproduced."""
    whole = replace(whole, unit=request.person)
    return whole.uncertified(SEEDED) if request.seeded else whole
