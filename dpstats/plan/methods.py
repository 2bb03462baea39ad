"""The releases of a fit by the method asked for, planned without rows."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from dpstats.errors import ArgumentError, UncertifiedError
from dpstats.families import Family, Gaussian
from dpstats.mechanisms.design import PublicDesign
from dpstats.mechanisms.drawing import lattice_points
from dpstats.mechanisms.least_squares import LeastSquaresPlan
from dpstats.mechanisms.napp import Stage, plan_method_stage
from dpstats.mechanisms.options import Options
from dpstats.mechanisms.output import OutputPlan
from dpstats.mechanisms.posterior import ACROSS, EXACT_COLUMNS, NOT_EXACT, PosteriorPlan
from dpstats.mechanisms.screened import plan_fit
from dpstats.mechanisms.screening import ScreeningPlan
from dpstats.request import Request
from dpstats.risk import Bound, OutputFacts, excess_risk, output_risk, posterior_risk
from dpstats.risk.posterior import posterior_bounds, region_bounds

if TYPE_CHECKING:
    from dpstats.plan.plan import Plan

Vector = NDArray[np.float64]

APART = ("output", "posterior", "statistics")
"""Methods that do not perturb the objective; each has one stage and a proof page of its name."""


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
    if request.method == "statistics" and isinstance(request.family, Gaussian) and request.family.residual_cap:
        raise ArgumentError("residual_cap does not go with method='statistics', plain least squares; leave it out")
    if request.method in APART:
        reason = uncertified_method(request, design)
        if reason is not None and not request.allow_uncertified:
            raise UncertifiedError(f"not certified: {reason}. Pass allow_uncertified=True to have it all the same")
        return None, plan_method_stage(
            design,
            family,
            request.penalty,
            weights,
            eps=eps,
            delta=request.delta,
            adjacency=request.adjacency,
            options=options,
            method=request.method,
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


def uncertified_method(request: Request, design: PublicDesign) -> str | None:
    """Why the method itself has no proof for this design, if it has none."""
    return NOT_EXACT if request.method == "posterior" and len(design.names) > EXACT_COLUMNS else None


def zcdp_of(stages: tuple[Stage, ...]) -> float | None:
    """rho, where the stages are one release for which it is proved."""
    first = stages[0].plan
    return first.statistics.guarantee.rho if isinstance(first, LeastSquaresPlan) else None


def risk_frame(plan: Plan, pi: float, radius: float | None, n: int | None) -> pd.DataFrame:
    """The excess-risk table of the plan's method."""
    fit = plan.objective
    if isinstance(fit, LeastSquaresPlan):
        return posterior_risk(plan, lambda pi, radius: [], pi, radius, n)
    if isinstance(fit, PosteriorPlan):
        return posterior_risk(plan, partial(_posterior_bounds, fit), pi, radius, n)
    if isinstance(fit, OutputPlan):
        facts = OutputFacts(fit.family, fit.law, fit.curvature, fit.kappa, fit.penalty, fit.penalty_weights)
        return output_risk(plan, facts, pi, radius, n)
    return excess_risk(plan, pi, radius, n)


def _posterior_bounds(plan: PosteriorPlan, pi: float, radius: float) -> list[Bound]:
    """What is proved of a draw: nothing of one from a Markov chain."""
    if not plan.exact:
        return []
    if plan.semi_axes is not None:
        return region_bounds(plan.temperature, len(lattice_points(plan.semi_axes, ACROSS[plan.size])), pi)
    return posterior_bounds(plan.temperature, plan.size, float(np.max(plan.curvature)), pi, radius)


def proof_page(request: Request, stages: tuple[Stage, ...]) -> str:
    """The proof that covers what the request releases."""
    options = request.options
    if options.unit is not None:
        return "docs/proofs/persons"
    if request.method in APART:
        return f"docs/proofs/{request.method}"
    if options.screen is not None:
        return "docs/proofs/screening"
    if any(role == "pilot" for role, _ in stages):
        return "docs/proofs/two_stage"
    if options.selection is not None or options.refit_share > 0:
        return "docs/proofs/selection"
    return "docs/proofs/objective" if request.penalty is None else "docs/proofs/napp"


def paid_apart(stages: tuple[Stage, ...], options: Options) -> tuple[tuple[Stage, ...], ...]:
    """The stages by whose rows pay for them: of parts with rows of their own the dearest counts."""
    if options.split is not None and stages[-1].role == "refit":
        return stages[:-1], stages[-1:]
    return (stages,)
