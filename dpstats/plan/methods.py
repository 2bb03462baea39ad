"""The releases of a fit by the method asked for, planned without rows."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from dpstats.errors import ArgumentError
from dpstats.families import Family
from dpstats.mechanisms.design import PublicDesign
from dpstats.mechanisms.napp import Stage, plan_output_stage
from dpstats.mechanisms.options import Options
from dpstats.mechanisms.output import OutputPlan
from dpstats.mechanisms.screened import plan_fit
from dpstats.mechanisms.screening import ScreeningPlan
from dpstats.request import Request
from dpstats.risk import OutputFacts

Vector = NDArray[np.float64]


def penalty_weights(design: PublicDesign, options: Options) -> Vector:
    """The penalty's weight on each column, shape (p,): 0 on the intercept, else as the options say, else 1.

    Raises
    ------
    ArgumentError
        If a key of the option `penalty_weights` is neither a term nor a column.
    """
    weights = np.ones(len(design.names))
    if design.has_intercept:
        weights[design.names.index("Intercept")] = 0.0
    terms = {getattr(term, "name", ""): term.columns for term in design.terms}
    for key, weight in (options.penalty_weights or {}).items():
        if key in terms:
            weights[terms[key]] = weight
        elif key in design.names:
            weights[design.names.index(key)] = weight
        else:
            raise ArgumentError(f"penalty_weights: {key!r} is neither a term nor a column; terms: {', '.join(terms)}")
    return weights


def planned_fit(
    request: Request, design: PublicDesign, family: Family, eps: float
) -> tuple[ScreeningPlan | None, tuple[Stage, ...]]:
    """The releases of the fit by the method asked for, for `eps` of the budget."""
    options, weights = request.options, penalty_weights(design, request.options)
    if request.method == "output":
        return None, plan_output_stage(
            design,
            family,
            request.penalty,
            weights,
            eps=eps,
            delta=request.delta,
            adjacency=request.adjacency,
            options=options,
        )
    return plan_fit(
        design,
        family,
        request.penalty,
        weights,
        eps=eps,
        delta=request.delta,
        adjacency=request.adjacency,
        options=options,
    )


def output_facts(plan: OutputPlan) -> OutputFacts:
    """What the excess risk of output perturbation depends on."""
    return OutputFacts(plan.family, plan.law, plan.curvature, plan.kappa, plan.penalty, plan.penalty_weights)


def proof_page(request: Request, stages: tuple[Stage, ...]) -> str:
    """The proof that covers what the request releases."""
    options = request.options
    if request.method == "output":
        return "docs/proofs/output"
    if options.screen is not None:
        return "docs/proofs/screening"
    if any(role == "pilot" for role, _ in stages):
        return "docs/proofs/two_stage"
    if options.selection is not None or options.refit_share > 0:
        return "docs/proofs/selection"
    return "docs/proofs/objective" if request.penalty is None else "docs/proofs/napp"
