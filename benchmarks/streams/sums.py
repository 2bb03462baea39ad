"""Private sums of streams: noise of every mechanism, persons, horizons, time and memory, and an audit by runs.

``python -m benchmarks.streams.sums`` prints the figures of docs/benchmarks; ``... audit [runs [k]]``
audits whole transcripts of vectors of k numbers (1 by default).
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from dpstats.audit import audit
from dpstats.audit.blackbox import AuditResult
from dpstats.streaming.sums import Blt, Honaker, KNormTree, Mechanism, PrefixSums, SumsPlan, Toeplitz, Tree
from dpstats.streaming.sums.toeplitz import square_root

EPS, DELTA = 1.0, 1e-5
CPS = (0, 1, 2, 3, 12, 13, 14, 15)
SIZE = 230
"""d (d + 3) / 2 numbers for d = 20: x y and the upper triangle of x x'."""


class Figure(NamedTuple):
    """A figure, and what it is to reach."""

    name: str
    value: float
    target: float


def greatest_std(mechanism: Mechanism, ticks: int) -> float:
    """The greatest standard deviation of a release up to `ticks`, in units of Delta / mu."""
    return float(mechanism.std(np.arange(1, ticks + 1)).max())


def noise_figures() -> list[Figure]:
    """Greatest standard deviations by mechanism and workload."""
    found = []
    for ticks, targets in ((1024, (3.2776, 3.2726, 7.9895, 10.4881)), (10_000, (4.0031, 3.9980, 10.1117, 13.4907))):
        for kind, target in zip((Blt, Toeplitz, Honaker, Tree), targets, strict=True):
            found.append(Figure(f"{kind.__name__}, {ticks:,} ticks", greatest_std(kind(horizon=ticks), ticks), target))
    found += [
        Figure("Blt, half-life 12", greatest_std(Blt(halflife=12), 2000), 1.6152),
        Figure("Blt, window 12 (24 taps)", greatest_std(Blt(window=12), 2000), 2.0089),
        Figure("Toeplitz, window 12", greatest_std(Toeplitz(window=12), 5000), 1.9966),
        Figure("Toeplitz, window 60", greatest_std(Toeplitz(window=60), 20_000), 2.6488),
        Figure("Blt, window 60 (120 taps)", greatest_std(Blt(window=60), 20_000), 2.6702),
    ]
    return found


def interval_figures() -> list[Figure]:
    """A statistics office: 120 months, one charge."""
    months, decades = Toeplitz(horizon=120), Toeplitz(horizon=1200)
    return [
        Figure("Toeplitz, 120 months, all", months.std(120), 2.5895),
        Figure("Toeplitz, one month", months.std_between(119, 120), 1.8158),
        Figure("Toeplitz, last 12 months", months.std_between(108, 120), 2.7079),
        Figure("Toeplitz, 1,200 declared", decades.std(120), 2.9334),
        Figure("Blt, 120 months, all", Blt(horizon=120).std(120), 2.5895),
        Figure("Blt, one month", Blt(horizon=120).std_between(119, 120), 1.8158),
        Figure("Blt, last 12 months", Blt(horizon=120).std_between(108, 120), 2.7079),
        Figure("Toeplitz, sensitivity of a row", months.sensitivity, 1.6092),
        Figure("Toeplitz, sensitivity of a CPS panel", Toeplitz(horizon=120, participation=CPS).sensitivity, 10.0414),
        Figure("Toeplitz, eight in a row", Toeplitz(horizon=120, participation=range(8)).sensitivity, 10.6595),
        Figure("Toeplitz, ten, every 12th", Toeplitz(horizon=120, participation=range(0, 120, 12)).sensitivity, 8.7692),
        Figure("Toeplitz, CPS panel, std at 120", Toeplitz(horizon=120, participation=CPS).std(120), 16.1587),
        Figure("Blt, CPS panel, std at 120", Blt(horizon=120, participation=CPS).std(120), 16.1587),
    ]


def horizon_figures() -> list[Figure]:
    """What not to know the horizon costs: a million ticks declared, or doubling."""
    return [
        Figure("no horizon / 120 known", Blt().std(120) / Blt(horizon=120).std(120), 1.4526),
        Figure("no horizon / 1,024 known", Blt().std(1024) / Blt(horizon=1024).std(1024), 1.2921),
        Figure("doubling, 12 ticks, Delta / mu", doubling_std(12), 2.7319),
        Figure("doubling, 120 ticks", doubling_std(120), 4.67),
        Figure("doubling, 1,024 ticks", doubling_std(1024), 7.02),
    ]


def doubling_std(ticks: int) -> float:
    """Greatest standard deviation up to `ticks` of square roots restarted at ticks 1, 2, 4, 8, ..., Delta / mu.

    Every row is in one stretch of 1, 2, 4, ... ticks, each a mechanism of its own for the whole budget; what was
    released at the end of each stays in all later sums.
    """
    energy = np.cumsum(square_root(2 * ticks) ** 2)
    worst, before, length, start = 0.0, 0.0, 1, 0
    while start < ticks:
        here = min(length, ticks - start)
        worst = max(worst, before + energy[here - 1] * energy[length - 1])
        before, start, length = before + energy[length - 1] ** 2, start + length, 2 * length
    return float(np.sqrt(worst))


def pure_figures() -> list[Figure]:
    """Pure eps, one number: the chosen arity against the binary tree, units Delta / eps; the target is the latter."""
    return [
        Figure(f"KNormTree, {ticks:,} ticks, arity {KNormTree(horizon=ticks).arity}", *_arities(ticks))
        for ticks in (120, 1024, 10_000)
    ]


def _arities(ticks: int) -> tuple[float, float]:
    return greatest_std(KNormTree(horizon=ticks), ticks), greatest_std(KNormTree(horizon=ticks, arity=2), ticks)


class Cost(NamedTuple):
    """What a tick of `SIZE` numbers takes."""

    name: str
    tick_ms: float
    draw_ms: float
    state_bytes: int


def costs(mechanisms: list[Mechanism], ticks: int) -> list[Cost]:
    """Milliseconds of a tick, those of its draws, and bytes of the state after `ticks` ticks."""
    found = []
    for mechanism in mechanisms:
        delta = 0.0 if isinstance(mechanism, KNormTree) else DELTA
        stream = mechanism.plan(SIZE, eps=EPS, delta=delta).start()
        vector = np.arange(SIZE)
        start = time.perf_counter()
        for _ in range(ticks):
            stream.step(vector)
        each = (time.perf_counter() - start) / ticks
        drawn = time.perf_counter()
        for tick in range(1, ticks + 1):
            stream._draw(tick)
        draws = (time.perf_counter() - drawn) / ticks
        found.append(Cost(repr(mechanism), 1e3 * each, 1e3 * draws, len(stream.to_bytes())))
    return found


class Transcripts(NamedTuple):
    """One data set: when the person's row of full length comes, if it does, and what else the stream holds."""

    plan: SumsPlan
    ticks: int
    row_at: int | None


def run_transcripts(data: Transcripts, rng: np.random.Generator, runs: int) -> np.ndarray:
    """`runs` transcripts with an adaptive reader, as one stream of runs * size numbers, shape (runs, ticks * size).

    A tick's other rows depend on the sign of the last release; noise is that of the system's generator.
    """
    plan, size = replace(data.plan, size=data.plan.size * runs), data.plan.size
    stream: PrefixSums = plan.start()
    row = data.plan.total(np.full((1, size), data.plan.row_sensitivity / np.sqrt(size)))
    released, seen = np.zeros(runs * size), []
    for tick in range(1, data.ticks + 1):
        others = np.where(released > 0, 2**41, -(2**40))
        mine = np.tile(row, runs) if tick == data.row_at else 0
        released = stream.step(others.astype(object) + mine)
        seen.append(released.reshape(runs, size))
    return np.concatenate(seen, axis=1)


def audit_transcripts(mechanism: Mechanism, *, size: int, runs: int, ticks: int = 4, seed: int = 0) -> AuditResult:
    """Audit `ticks` ticks with and without a row at the first, at eps 1."""
    delta = 0.0 if isinstance(mechanism, KNormTree) else DELTA
    plan = mechanism.plan(size, eps=EPS, delta=delta)
    pair = [Transcripts(plan, ticks, row_at) for row_at in (None, 1)]
    return audit(run_transcripts, *pair, eps=EPS, delta=delta, runs=runs, seed=seed, vectorized=True, progress=False)


AUDITED: dict[str, Callable[[], Mechanism]] = {
    "Blt, 4 ticks": lambda: Blt(horizon=4),
    "Blt, half-life 3": lambda: Blt(halflife=3),
    "Blt, window 2": lambda: Blt(window=2),
    "Toeplitz": lambda: Toeplitz(horizon=4),
    "Tree": lambda: Tree(horizon=4),
    "Honaker": lambda: Honaker(horizon=4),
    "KNormTree": lambda: KNormTree(horizon=4, arity=2),
}


def print_figures(title: str, figures: list[Figure]) -> None:
    """One line a figure."""
    print(f"\n{title}\n{'':40s} {'value':>9s} {'target':>9s}")
    for figure in figures:
        print(f"{figure.name:40s} {figure.value:9.4f} {figure.target:9.4f}")


def main(arguments: list[Any]) -> None:
    """The figures, or the audit."""
    if arguments[:1] == ["audit"]:
        runs = int(arguments[1]) if len(arguments) > 1 else 100_000
        size = int(arguments[2]) if len(arguments) > 2 else 1
        for name, make in AUDITED.items():
            start = time.perf_counter()
            result = audit_transcripts(make(), size=size, runs=runs)
            taken = time.perf_counter() - start
            verdict = "kept" if result.passed else "REFUTED"
            print(f"{name:20s} k={size} eps at least {result.eps_lower:.3f} of 1, {verdict}, {taken:.0f} s", flush=True)
        return
    print_figures("Greatest standard deviation, Delta / mu", noise_figures())
    print_figures("Months and persons, Delta / mu", interval_figures())
    print_figures("Horizons", horizon_figures())
    print_figures("Pure, Delta / eps, against the binary tree", pure_figures())
    print(f"\n{'A tick of 230 numbers':45s} {'ms':>6s} {'draws':>6s} {'state':>9s}")
    measured = [Blt(), Blt(horizon=1024), Blt(halflife=12), Blt(window=12), Toeplitz(horizon=1024), Tree(horizon=1024)]
    for cost in costs([*measured, Honaker(horizon=1024), KNormTree(horizon=1024)], 500):
        print(f"{cost.name:45s} {cost.tick_ms:6.2f} {cost.draw_ms:6.2f} {cost.state_bytes:9,d}")


if __name__ == "__main__":
    main(sys.argv[1:])
