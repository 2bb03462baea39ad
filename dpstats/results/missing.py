"""Why a result has no standard errors, and what to do."""

from __future__ import annotations

from dpstats.mechanisms.inferring import obstacle
from dpstats.plan import Plan


def selects(plan: Plan) -> bool:
    """Whether the penalty sets coefficients to zero."""
    return plan.request.penalty is not None and plan.request.penalty.sparse


def missing_information(plan: Plan) -> str:
    """Why a result has no errors, and what to do."""
    if plan.request.method == "statistics" and selects(plan):
        return (
            "not released: errors are not valid after a selection by the same statistics; statistics.fit(formula) "
            "without the penalty has them at no charge"
        )
    if plan.request.method == "output":
        return (
            "not released: method='output' releases coefficients alone, and noise_at_most is the exact standard "
            "deviation of the noise in them; method='napp' releases standard errors"
        )
    if plan.request.method == "posterior":
        return "not released: method='posterior' releases one draw alone; method='napp' releases standard errors"
    if plan.request.options.inference is None and plan.guarantee.basis == "docs/proofs/tuning":
        return (
            "not released: dp.tune releases coefficients alone, since errors do not know that the rows chose the "
            "settings; dp.tune(..., inference=True) has them all the same, and a fit of its own with what was chosen "
            "has valid ones if it is of other rows (dp.holdout)"
        )
    if plan.request.options.inference is None:
        return "not released: this call asked for coefficients alone; leave inference=None out, or pass inference=True"
    reason = obstacle(plan.family, plan.request.penalty, plan.request.options)
    if reason is not None:
        return f"not released: inference {reason}"
    if plan.stages[-1].plan.information is not None:
        return "not released: the coefficients are too large for the information at them to be priced"
    return (
        "not released: the coefficients took the whole budget, and standard errors are not free for this model; "
        "pass inference=True to share the budget (dp.plan shows the price)"
    )
