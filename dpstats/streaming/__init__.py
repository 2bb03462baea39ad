"""Statistics of streams, released again at every tick under one charge."""

from dpstats.streaming import constraints, sums
from dpstats.streaming.planning import StreamPlan
from dpstats.streaming.regression import Regression
from dpstats.streaming.results import StreamResults

__all__ = ["Regression", "StreamPlan", "StreamResults", "constraints", "sums"]
