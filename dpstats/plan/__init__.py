"""The plan of a call, fixed without reading a row, and its tables."""

from dpstats.plan.methods import fit_spec, paid_apart, penalty_weights, range_eps
from dpstats.plan.plan import Plan, make_plan, replan, replan_request, settle_law, with_settled_law

__all__ = [
    "Plan",
    "fit_spec",
    "make_plan",
    "paid_apart",
    "penalty_weights",
    "range_eps",
    "replan",
    "replan_request",
    "settle_law",
    "with_settled_law",
]
