"""Private sums of a stream of vectors, released at every tick under one charge (docs/proofs/streams).

>>> from dpstats.streaming.sums import Blt
>>> plan = Blt(horizon=120).plan(size=3, eps=1.0, delta=1e-5)
>>> stream = plan.start()
>>> noisy = stream.step(plan.total(rows))  # doctest: +SKIP
"""

from dpstats.streaming.sums.base import Mechanism, NoisePath
from dpstats.streaming.sums.buffers import Buffers
from dpstats.streaming.sums.plan import SumsPlan
from dpstats.streaming.sums.pure import KNormTree
from dpstats.streaming.sums.running import PrefixSums
from dpstats.streaming.sums.stored import plan_from_dict, stored_plan
from dpstats.streaming.sums.toeplitz import Blt, Toeplitz
from dpstats.streaming.sums.tree import Honaker, Tree
from dpstats.streaming.sums.workloads import Cumulative, Halflife, Window, Workload

__all__ = [
    "Blt",
    "Buffers",
    "Cumulative",
    "Halflife",
    "Honaker",
    "KNormTree",
    "Mechanism",
    "NoisePath",
    "PrefixSums",
    "SumsPlan",
    "Toeplitz",
    "Tree",
    "Window",
    "Workload",
    "plan_from_dict",
    "stored_plan",
]


def __dir__() -> list[str]:
    return list(__all__)
