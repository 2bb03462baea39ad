"""Statistics of streams, released again at every tick under one charge."""

from dpstats.streaming import constraints, sums
from dpstats.streaming.plan import StreamPlan
from dpstats.streaming.refits import RefitsPlan, Schedule
from dpstats.streaming.regression import Refits, Regression
from dpstats.streaming.results import StreamResults

__all__ = [
    "Refits",
    "RefitsPlan",
    "Regression",
    "Schedule",
    "StreamPlan",
    "StreamResults",
    "constraints",
    "sums",
]


def __dir__() -> list[str]:
    return list(__all__)
