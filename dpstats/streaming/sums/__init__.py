"""Private sums of a stream of vectors, released at every tick under one charge (docs/proofs/streams).

>>> from dpstats.streaming.sums import Blt
>>> plan = Blt(horizon=120).plan(size=3, eps=1.0, delta=1e-5)
>>> stream = plan.start()
>>> noisy = stream.step(plan.total(rows))  # doctest: +SKIP
"""

from collections.abc import Mapping
from typing import Any

from dpstats.privacy.guarantee import Guarantee
from dpstats.streaming.sums.lattice import NoisePath, draws_from_dict
from dpstats.streaming.sums.mechanism import Mechanism, PrefixSums, SumsPlan
from dpstats.streaming.sums.state import unpack
from dpstats.streaming.sums.toeplitz import Blt, Buffers, Toeplitz
from dpstats.streaming.sums.tree import Honaker, KNormTree, Tree
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

MECHANISMS: dict[str, type[Mechanism]] = {kind.name: kind for kind in (Blt, Toeplitz, Tree, Honaker, KNormTree)}


def mechanism_from_dict(stored: Mapping[str, Any]) -> Mechanism:
    """The mechanism whose `to_dict` gave `stored`."""
    arguments = dict(stored)
    kind = MECHANISMS[arguments.pop("mechanism")]
    if "filter" in arguments:
        parts = arguments.pop("filter")
        arguments["buffers"] = Buffers(tuple(parts["decays"]), tuple(parts["weights"]))
    return kind(**{**arguments, "participation": tuple(arguments["participation"])})


def plan_from_dict(stored: Mapping[str, Any]) -> SumsPlan:
    """The plan whose `to_dict` gave `stored`.

    Examples
    --------
    >>> from dpstats.streaming.sums import Blt
    >>> plan = Blt(horizon=120).plan(size=2, eps=1.0, delta=1e-5)
    >>> plan_from_dict(plan.to_dict()).guarantee == plan.guarantee
    True
    """
    mechanism, draws = mechanism_from_dict(stored["mechanism"]), draws_from_dict(stored["draws"])
    return SumsPlan(**{**stored, "mechanism": mechanism, "draws": draws, "guarantee": Guarantee(**stored["guarantee"])})


def stored_plan(content: bytes) -> SumsPlan:
    """The plan of the stream whose `PrefixSums.to_bytes` gave `content`; StreamError if it is damaged.

    Examples
    --------
    >>> from dpstats.streaming.sums import Blt
    >>> plan = Blt(horizon=120).plan(size=2, eps=1.0, delta=1e-5)
    >>> stored_plan(plan.start().to_bytes()).guarantee == plan.guarantee
    True
    """
    return plan_from_dict(unpack(content)["plan"])


def __dir__() -> list[str]:
    return list(__all__)
