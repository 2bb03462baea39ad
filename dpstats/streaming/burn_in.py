"""How many of the first ticks a regression of a stream leaves out, as they were linearised at poor coefficients."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from dpstats.streaming.fit import MOST_REMAINDER, invert_information, remainder, squared_distances
from dpstats.streaming.sums.lattice import Float

if TYPE_CHECKING:
    from dpstats.mechanisms.statistics import Equations, Moments
    from dpstats.streaming.plan import StreamPlan

EARLY = 64  # The first releases, this many, are always in memory
COUNTS_FACTOR = 2.0  # Of counts |l'''| / l'' is 1, twice what `remainder` is for (docs/benchmarks_streams)
STARTS = (0, 1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, EARLY)  # Numbers of first ticks that may be left out
BURN_IN_SHARE = 1 / 2  # Largest share of the ticks that is left out


def choose_burn_in(
    plan: StreamPlan, totals: Sequence[Float], params: Sequence[Float], tick: int, total: Float
) -> tuple[int, Float, Float]:
    """How many of the first ticks to leave out, for the least predicted excess; the sums of the others, coefficients.

    The excess is that of noise, of the linearisation, and of the rows that are left out: of the first `EARLY` ticks at
    most, since coefficients have settled by then, or never will. Only choices that leave valid errors count, where
    there are any. `totals` are the noisy sums of the first 0, 1, ..., `EARLY` ticks, as far as there are, `total` that
    of all; `params` the coefficients at which the ticks 1, 2, ... were linearised, and the latest ones last.
    """
    fitting, latest = plan.fitting, params[-1]
    size, factor = len(latest), COUNTS_FACTOR if plan.family.response == "count" else 1.0
    starts = [start for start in STARTS if start <= min(tick * BURN_IN_SHARE, len(totals) - 1)]
    whole = fitting.moments(total, plan.interval_deviation(0, tick))
    full = fitting.equations(whole)
    distances = np.array(params[: min(tick, EARLY)]) - latest
    squares = squared_distances(distances, full.information) / tick
    candidates: list[tuple[float, tuple[int, Float, Float]]] = []
    released: dict[int, tuple[Moments, Equations]] = {}
    for start in starts:
        sums, deviation = total - totals[start], plan.interval_deviation(start, tick)
        moments = fitting.moments(sums, deviation) if start else whole
        equations = fitting.equations(moments) if start else full
        released[start] = moments, equations
        inverse = invert_information(equations, plan.radius)
        noise = float(np.sum(equations.coefficient_noise(latest) * inverse))
        bias = (factor * remainder(float(squares[start:].sum()), inverse)) ** 2
        fewer = size * start / (tick - start) * (plan.design.score_ratio or 1.0)
        solved = fitting.solve(equations, deviation, latest, tick - start)
        candidates.append((noise + bias + fewer, (start, sums, solved)))
    candidates.sort(key=lambda one: one[0])
    points = np.array(params[: min(tick, EARLY + 1)])

    def has_errors(start: int, solved: Float) -> bool:
        weights = np.ones(len(points) - start)
        weights[-1] += tick - len(points)
        return fitting.remainder_of(*released[start], solved, points[start:], weights) <= MOST_REMAINDER

    least = candidates[0][1]
    if plan.without_errors is not None:
        return least
    return next((one for _, one in candidates if has_errors(one[0], one[2])), least)
