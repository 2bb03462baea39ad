"""Exact privacy losses of whole transcripts, from the noise path itself and not from the sensitivity it states.

A transcript is the list of noisy ticks x_t + n_t. `responses` is what the path makes of unit draws; `transcript_mu` the
exact distance of the transcripts of neighbours when draws are normal; `normal_delta` the hockey-stick at a distance.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from itertools import product

import numpy as np
from scipy import special

from dpstats.streaming.sums import Mechanism, NoisePath

Reader = Callable[[int, np.ndarray], np.ndarray]
"""From tick and transcript so far to the tick's vector."""

UNIT = 2**60
"""Impulses are so large that rounding to integers is invisible."""


def responses(path: NoisePath, ticks: int) -> np.ndarray:
    """Noise of each tick, shape (ticks, draws), for each fresh number set to 1 and the others to 0."""
    counts = [path.fresh(tick) for tick in range(1, ticks + 1)]
    size = sum(counts)
    memory, rows, used = path.memory(size), [], 0
    for tick, count in enumerate(counts, start=1):
        fresh = np.full((count, size), 0, dtype=object)
        for place in range(count):
            fresh[place, used + place] = UNIT
        used += count
        noise, memory = path.step(tick, fresh, memory)
        rows.append(noise.astype(np.float64) / UNIT)
    return np.array(rows)


def transcript_mu(path: NoisePath, ticks: int, patterns: Sequence[Sequence[int]]) -> float:
    """Greatest distance of the transcripts with and without one person, in standard deviations of a draw.

    The person adds a number of size 1 to each tick of one of the patterns (1-based), of either sign. The noise of all
    ticks is normal with covariance R R', so the distance is that of a shift e: sqrt(e' (R R')^-1 e).
    """
    response = responses(path, ticks)
    precision = np.linalg.inv(response @ response.T)
    worst = 0.0
    for pattern in patterns:
        inside = [tick - 1 for tick in pattern if 1 <= tick <= ticks]
        gram = precision[np.ix_(inside, inside)]
        for signs in product((-1.0, 1.0), repeat=len(inside)):
            worst = max(worst, float(np.array(signs) @ gram @ np.array(signs)))
    return math.sqrt(worst)


def person_patterns(offsets: Sequence[int], ticks: int) -> list[list[int]]:
    """The person's ticks for every first tick, also one before the stream began."""
    starts = range(1 - max(offsets), ticks + 1)
    found = [[start + offset for offset in offsets if 1 <= start + offset <= ticks] for start in starts]
    return [pattern for pattern in found if pattern]


def mechanism_mu(mechanism: Mechanism, ticks: int) -> float:
    """`transcript_mu` of a mechanism's own path and persons."""
    return transcript_mu(mechanism.path(), ticks, person_patterns(mechanism.participation, ticks))


def normal_delta(mu: float | np.ndarray, eps: float | np.ndarray) -> np.ndarray:
    """Hockey-stick of N(mu, 1) against N(0, 1) at eps, any real number."""
    mu = np.maximum(mu, 1e-300)
    return special.ndtr(mu / 2 - eps / mu) - np.exp(eps + special.log_ndtr(-mu / 2 - eps / mu))


def delta_at(scale: float, moved: float, eps: float = 1.0) -> float:
    """Hockey-stick of normal noise of this scale."""
    return float(normal_delta(moved / scale, eps))


def noisy_ticks(path: NoisePath, fresh: list[np.ndarray], rows: Reader, size: int) -> np.ndarray:
    """The transcript, shape (ticks, size): every tick's rows and noise, the rows chosen from earlier ticks."""
    memory, seen = path.memory(size), np.full((0, size), 0, dtype=object)
    for tick, draws in enumerate(fresh, start=1):
        noise, memory = path.step(tick, draws, memory)
        seen = np.vstack([seen, [rows(tick, seen) + noise]])
    return seen


def explained(path: NoisePath, transcript: np.ndarray, rows: Reader) -> list[np.ndarray]:
    """The one fresh noise that makes `transcript` of other rows, for paths with one vector a tick."""
    size = transcript.shape[1]
    memory, found = path.memory(size), []
    for tick in range(1, len(transcript) + 1):
        nothing = np.full((1, size), 0, dtype=object)
        without, _ = path.step(tick, nothing, memory)
        fresh = (transcript[tick - 1] - rows(tick, transcript[: tick - 1]) - without)[None]
        noise, memory = path.step(tick, fresh, memory)
        assert (noise + rows(tick, transcript[: tick - 1]) == transcript[tick - 1]).all()
        found.append(fresh)
    return found


def moved_by_nodes(ticks: int, fresh: list[np.ndarray], change: np.ndarray) -> list[np.ndarray]:
    """Honaker's noisy nodes of other rows: each completed node's noise less the change of its sum."""
    found = []
    for tick in range(1, ticks + 1):
        sums = [change[tick - 2**level : tick].sum(axis=0) for level in range(len(fresh[tick - 1]))]
        found.append(fresh[tick - 1] - np.array(sums, dtype=object).reshape(fresh[tick - 1].shape))
    return found
