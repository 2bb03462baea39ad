"""A private choice among candidates, and the tuning of a fit."""

from dpstats.tuning.planning import TuningPlan, plan_tuning
from dpstats.tuning.selecting import Selection, select
from dpstats.tuning.tuned import Tuned, tune

__all__ = ["Selection", "Tuned", "TuningPlan", "plan_tuning", "select", "tune"]
