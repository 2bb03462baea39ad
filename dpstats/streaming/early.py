"""Which of the first ticks of a renewed fit to leave out: those linearised at coefficients that were still far off.

Public: a choice among released sums by released coefficients (docs/proofs/streams, 10).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dpstats.streaming.fitting import inverted, remainder, squared_distances
from dpstats.streaming.planning import StreamPlan
from dpstats.streaming.releases import EARLY

Float = NDArray[np.float64]

SHARE = 1 / 2
"""At most this share of the ticks is left out."""

MOST = EARLY
"""Later ticks than this are never left out: coefficients have settled by then, or never will."""


class Chosen(NamedTuple):
    """Sums of the ticks start + 1, ..., t, and the coefficients that follow."""

    start: int
    sums: Float
    params: Float


def choose_start(plan: StreamPlan, totals: Sequence[Float], params: Sequence[Float], tick: int, total: Float) -> Chosen:
    """The start of the least predicted excess: of noise, of the linearisation, and of the rows that are left out.

    Parameters
    ----------
    plan : StreamPlan
    totals : sequence of ndarray, shape (size,)
        Noisy sums of the first 0, 1, ..., `MOST` ticks, as far as there have been so many.
    params : sequence of ndarray, shape (p,)
        Coefficients at which the ticks 1, 2, ... were linearised, and the latest ones last.
    tick : int
    total : ndarray, shape (size,)
        The noisy sum of all ticks.
    """
    fitting, latest = plan.fitting, params[-1]
    size = len(latest)
    starts = [0, *(2**power for power in range(7) if 2**power <= min(tick * SHARE, MOST, len(totals) - 1))]
    whole = fitting.equations(fitting.moments(total, plan.interval_deviation(0, tick)))
    apart = np.array(params[: min(tick, MOST)]) - latest
    squares = squared_distances(apart, whole.information) / tick
    found: list[tuple[float, Chosen]] = []
    for start in starts:
        sums = total - totals[start]
        equations = whole
        if start:
            equations = fitting.equations(fitting.moments(sums, plan.interval_deviation(start, tick)))
        inverse = inverted(equations, plan.radius)
        noise = float(np.sum(equations.coefficient_noise(latest) * inverse))
        bias = remainder(float(squares[start:].sum()), inverse) ** 2
        fewer = size * start / (tick - start) * (plan.design.score_ratio or 1.0)
        deviation = plan.interval_deviation(start, tick)
        solved = fitting.solve(equations, deviation, latest, tick - start)
        found.append((noise + bias + fewer, Chosen(start, sums, solved)))
    return min(found, key=lambda one: one[0])[1]
