"""Which method? Plans of several, and what each is likely to cost, without rows."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Unpack

import numpy as np
import pandas as pd

from dpstats.arguments import answered, shown
from dpstats.errors import ArgumentError, UncertifiedError
from dpstats.families import Family
from dpstats.formula.design import DesignSpec
from dpstats.formula.made_up import made_up_exog
from dpstats.frames import Printed
from dpstats.inference import ReleasedLaw
from dpstats.keywords import DomainLike, RequestKeywords, written_out
from dpstats.mechanisms.curvature import typical_sizes
from dpstats.mechanisms.least_squares import LeastSquaresPlan
from dpstats.mechanisms.options import ROWS_GUESS
from dpstats.mechanisms.output import OutputPlan
from dpstats.mechanisms.posterior import PosteriorPlan
from dpstats.mechanisms.statistics import StatisticsPlan
from dpstats.models.sources import FormulaSource
from dpstats.plan import Plan, make_plan
from dpstats.quiet import sealed
from dpstats.request import METHODS, Request, make_request
from dpstats.results.comparison import Comparison
from dpstats.risk.predicted import (
    MadeUp,
    Prediction,
    made_up_populations,
    predict_moments,
    predict_objective,
    predict_output,
    predict_posterior,
)

COMPARED = ("objective", "output", "statistics", "posterior")
"""What is compared unless a choice is made."""

FACTORS = 4.0 ** np.arange(-3, 4)
"""The numbers of rows of a picture, in units of the guess."""


@dataclass(frozen=True, eq=False)
class _Model:
    """What all methods share.

    Attributes
    ----------
    request : Request
        Of the first method.
    plan : Plan
        Its plan.
    made_up : MadeUp
        Populations to predict on.
    """

    request: Request
    plan: Plan
    made_up: MadeUp

    def planned(self, method: str, n: int) -> Plan:
        """The plan of another method, or for another guess at the number of rows."""
        options = replace(self.request.options, rows_guess=float(n))
        request = replace(self.request, method=method, options=options)
        plan = self.plan
        return make_plan(
            request, plan.design, plan.family, formula=plan.formula, bought=plan.bought, response=plan.response
        )


@sealed
@answered(method="give methods=[...], or none for all that suit the model")
@written_out(RequestKeywords, without=("method", "allow_uncertified", "seed"))
def compare(
    formula: str,
    domain: DomainLike,
    eps: float,
    *,
    n: int = ROWS_GUESS,
    methods: Sequence[str] | None = None,
    family: str | Family = "gaussian",
    **arguments: Unpack[RequestKeywords],
) -> Comparison:
    """What each method would cost for this model and budget; reads no data and spends nothing.

    Parameters
    ----------
    formula : str
    domain : Domain or dict
        Public ranges and levels, as for `plan`.
    eps, delta : float
        The budget of one fit.
    n : int
        A guess at the number of rows; with a unit whose rows share a weight, of persons.
    methods : sequence of str, optional
        Among "objective" (and "napp", the same noise), "output", "statistics" and "posterior"; by default all that suit
        the model.
    family : str or Family
    penalty, alpha : str or Penalty, float
        As for `plan`; predictions count a penalty's curvature only.
    adjacency : {"add_remove", "replace_one"}
    **options
        As for `plan`.

    Returns
    -------
    Comparison
        ``table``, ``best``, ``plot()`` against the number of rows, ``summary()``.

    Raises
    ------
    ArgumentError, FormulaError, DomainError
        As for `plan`; ArgumentError also for a method that is unknown, or named and not suited to the model.

    See Also
    --------
    plan : the plan of one method, with all its tables.

    Examples
    --------
    >>> import dpstats as dp
    >>> found = dp.compare("y ~ x", {"x": (0, 1), "y": (0, 1)}, 1.0, n=5000)
    >>> "napp" in found.table.index or "objective" in found.table.index
    True
    """
    count = _checked_rows(n)
    chosen = _checked_methods(methods)
    request = make_request(eps=eps, family=family, **arguments)
    model = _model(FormulaSource(formula, None, domain).plan(request), request)
    curves, left_out = _curves(model, chosen, count, named=methods is not None)
    table = curves[curves["n"] == count].drop_duplicates("method").set_index("method").sort_values("excess")
    record = request.options.record
    return Comparison(
        formula=formula,
        n=count,
        table=Printed(table[["law", "noise", "excess", "at_most", "eps", "delta", "certified"]]),
        curves=Printed(curves[["method", "n", "noise", "excess", "at_most"]]),
        left_out=left_out,
        counted=f"persons ({record.column})" if record.column is not None and record.shared else "rows",
        description=_description(model),
    )


def _model(plan: Plan, request: Request) -> _Model:
    """The plan of the first method and populations to predict on; ArgumentError if no row can be drawn."""
    assert isinstance(plan.design, DesignSpec)
    exog = made_up_exog(plan.design)
    sizes = typical_sizes(plan.family, plan.design, request.options.radius)
    center = -plan.objective.linear / plan.objective.curvature
    if len(exog) == 0:
        raise ArgumentError("formula has no value at any row drawn from the domain")
    return _Model(request, plan, made_up_populations(plan.family, exog, sizes, center))


def _curves(model: _Model, methods: Sequence[str], n: int, *, named: bool) -> tuple[pd.DataFrame, dict[str, str]]:
    """Each method at several numbers of rows, and why methods are left out; one that was named raises instead."""
    rows: list[dict[str, Any]] = []
    left_out: dict[str, str] = {}
    for method in methods:
        try:
            if method in ("posterior", "statistics") and model.request.options.unit is not None:
                raise ArgumentError(f"method={method!r} is proved for rows and takes no unit")
            rows += [_line(model, method, max(1, round(n * factor))) for factor in FACTORS]
        except (ArgumentError, UncertifiedError) as error:
            if named:
                raise
            left_out[method] = str(error)
    return pd.DataFrame(rows), left_out


def _description(model: _Model) -> str:
    """Family, budget and notion of neighbours, in words."""
    request = model.request
    one = "a row" if request.options.unit is None else f"one {request.options.unit} with all its rows"
    neighbours = f"{one} {'added or removed' if request.adjacency == 'add_remove' else 'replaced'}"
    spent = f"eps = {request.eps:g}" + (f", delta = {request.delta:g}" if request.delta else "")
    return f"{model.plan.family.name}, {spent}, neighbours by {neighbours}"


def _checked_rows(n: Any) -> int:
    """`n` as an int; ArgumentError unless it is a positive whole number."""
    if isinstance(n, bool) or not isinstance(n, (int, np.integer)) or not 1 <= n <= 10**12:
        raise ArgumentError(f"n must be a positive whole number, a guess at the number of rows, got {shown(n)}")
    return int(n)


def _checked_methods(methods: Sequence[str] | None) -> tuple[str, ...]:
    """The methods to compare; ArgumentError for a name that is none."""
    if methods is None:
        return COMPARED
    known = tuple(dict.fromkeys((*METHODS, *COMPARED)))
    if isinstance(methods, str) or not isinstance(methods, Sequence) or not methods:
        raise ArgumentError(f"methods must be a list of names among {list(known)}")
    unknown = [method for method in methods if not isinstance(method, str) or method not in known]
    if unknown:
        raise ArgumentError(f"methods must be among {list(known)}, got {shown(unknown)}")
    return tuple(dict.fromkeys(methods))


def _line(model: _Model, method: str, n: int) -> dict[str, Any]:
    """One method at one number of rows."""
    plan = model.planned(method, n)
    stage = plan.stages[-1].plan
    if isinstance(stage, LeastSquaresPlan):
        found = _predicted(stage.statistics, model, n)
    elif isinstance(stage, PosteriorPlan):
        found = predict_posterior(model.made_up, n, stage.curvature, stage.temperature)
    elif isinstance(stage, OutputPlan):
        found = predict_output(model.made_up, n, stage.curvature, stage.noise_variances)
    else:
        covariance = ReleasedLaw(stage.noise, stage.noise_shape).covariance
        found = predict_objective(model.made_up, n, stage.curvature, covariance)
    bounds = plan.excess_risk(n=n).set_index("bound")["per_row"]
    bound = float(bounds.get("unregularised, in the mean", math.nan))
    law = stage.law_name
    guarantee = plan.guarantee
    return _facts(method, n, found, law, bound) | {
        "eps": guarantee.eps,
        "delta": guarantee.delta,
        "certified": guarantee.certified,
    }


def _predicted(found: StatisticsPlan, model: _Model, n: int) -> Prediction:
    """Of a linear model from released statistics, all columns in it."""
    size = found.noise.size
    ridge = math.sqrt(found.noise.gradient_variance(found.radius)) / found.radius
    axes = found.axes[:size, :size]
    return predict_moments(model.made_up, n, axes, lambda norm: found.noise.gradient_variance(norm) / size, ridge)


def _facts(method: str, n: int, found: Prediction, law: str, bound: float) -> dict[str, Any]:
    return {"method": method, "n": n, "law": law, "noise": found.noise, "excess": found.excess, "at_most": bound}
