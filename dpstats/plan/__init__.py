"""The plan of a call, fixed without reading a row, and its tables."""

from dpstats.plan.budget import range_eps
from dpstats.plan.making import make_plan
from dpstats.plan.methods import paid_apart, penalty_weights
from dpstats.plan.plan import Plan
from dpstats.plan.replan import replanned

__all__ = ["Plan", "make_plan", "paid_apart", "penalty_weights", "range_eps", "replanned"]
