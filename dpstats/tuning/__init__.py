"""A private choice among candidates, and the tuning of a fit."""

from dpstats.tuning.plan import TuningPlan, plan_tuning
from dpstats.tuning.selection import Selection, select
from dpstats.tuning.tuned import Tuned, tune

__all__ = ["Selection", "Tuned", "TuningPlan", "plan_tuning", "select", "tune"]
