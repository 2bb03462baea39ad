"""Streams of regressions: excess risk by tick, intervals, speed and memory. Figures of docs/benchmarks_streams.

``python -m benchmarks.streams.regressions`` prints all; ``... linear``, ``logistic``, ``starts``, ``coverage``,
``speed``, ``memory`` or ``state`` one of them.
"""

from __future__ import annotations

import resource
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.special import expit

import dpstats as dp
from dpstats.data import Block, MemoryRows
from dpstats.privacy.randomness import random_source
from dpstats.streaming import Regression, StreamPlan, StreamResults, burn_in
from dpstats.streaming.burn_in import choose_burn_in
from dpstats.streaming.request import make_plan

Float = NDArray[np.float64]

EPS, DELTA = 1.0, 1e-5
ROWS = 100_000


def names_of(columns: int) -> list[str]:
    return [f"x{number}" for number in range(columns)]


def plan_of(columns: int, family: str, horizon: int, **options: Any) -> StreamPlan:
    """A stream without intercept, of cells +-1: every row has length 1, and E x x' = I / columns, as on the sphere."""
    response = (-1, 1) if family == "gaussian" else [0, 1]
    domain = {**dict.fromkeys(names_of(columns), (-1, 1)), "y": response}
    formula = f"y ~ {' + '.join(names_of(columns))} - 1"
    return make_plan(formula, domain, EPS, DELTA, family=family, horizon=horizon, **options)


def signs(rows: int, columns: int, random: np.random.Generator) -> Float:
    """Rows of cells +-1 in model units."""
    return random.choice([-1.0, 1.0], (rows, columns)) / np.sqrt(columns)


def noises(plan: StreamPlan, ticks: Sequence[int], random: np.random.Generator) -> Float:
    """Noise of the sums of the first `ticks` ticks, shape (len(ticks), size), normal, with its covariance."""
    mechanism = plan.sums.mechanism
    covariance = np.array([[mechanism.sum_covariance(min(a, b), max(a, b)) for a in ticks] for b in ticks])
    root = np.linalg.cholesky(covariance + 1e-9 * np.eye(len(ticks)) * covariance.max())
    scale = float(np.sqrt(plan.sums.draws.covariance(plan.vector.size)[0, 0])) * plan.sums.step
    return np.asarray(scale * root @ random.standard_normal((len(ticks), plan.vector.size)))


def vector(plan: StreamPlan, exog: Float, endog: Float, params: Float) -> Float:
    """The sum of the rows' vectors as the mechanism makes it."""
    rows = MemoryRows([Block(exog, endog)])
    return plan.vector.steps(plan.vector.exact(rows, params), plan.sums.step).astype(np.float64) * plan.sums.step


# ------------------------------------------------------------------------------------------------- linear


def linear_excess(plan: StreamPlan, at: Sequence[int], rows: int, seeds: int) -> Float:
    """Mean excess sum of squares after some ticks, and the null model's at the last, shape (len(at) + 1,)."""
    found = []
    columns = len(plan.names)
    for seed in range(seeds):
        random = np.random.default_rng(seed)
        exog, coef = signs(rows, columns, random), random.standard_normal(columns)
        coef *= 0.75 / np.linalg.norm(coef)
        endog = np.clip(exog @ coef + 0.09 * random.standard_normal(rows), -1, 1)
        row = []
        for tick, noise in zip(at, noises(plan, at, random), strict=True):
            upto = rows * tick // at[-1]
            seen = vector(plan, exog[:upto], endog[:upto], np.zeros(columns)) + noise
            params = plan.fitting.params(seen, plan.deviation(tick))
            row.append(_squares_above(exog[:upto], endog[:upto], params))
        found.append([*row, _squares_above(exog, endog, np.zeros(columns))])
    return np.asarray(np.mean(found, axis=0))


def _squares_above(exog: Float, endog: Float, params: Float) -> float:
    best = np.linalg.lstsq(exog, endog, rcond=None)[0]
    apart = exog @ (params - best)
    return float(apart @ apart)


def linear(seeds: int = 10) -> None:
    """d = 20, 1e5 rows, replace_one: a release a row, and 120 ticks; the exact tree and the printed one beside it."""
    print(f"linear, d = 20, {ROWS:,} rows, replace_one, mean of {seeds}: excess sum of squares")
    print(f"{'':28}{'half way':>12}{'worst tick':>12}{'end':>12}{'null':>12}")
    worst = 2**16 - 1  # a tree's prefix of so many ticks has the most nodes
    for name, horizon, options in (
        ("blt, a release a row", ROWS, {}),
        ("exact tree, a release a row", ROWS, {"sums": "tree"}),
        ("blt, 120 ticks", 120, {}),
        ("exact tree, 120 ticks", 120, {"sums": "tree"}),
    ):
        plan = plan_of(20, "gaussian", horizon, adjacency="replace_one", **options)
        at = [horizon // 2, worst if horizon == ROWS else 63, horizon]
        print(f"{name:28}" + "".join(f"{value:12.2f}" for value in linear_excess(plan, sorted(at), ROWS, seeds)))
    printed = printed_tree(plan_of(20, "gaussian", ROWS, adjacency="replace_one", sums="tree"))
    values = linear_excess(printed, sorted([ROWS // 2, worst, ROWS]), ROWS, max(2, seeds // 3))
    print(f"{'printed PrivIncReg1':28}" + "".join(f"{value:12.2f}" for value in values))


def printed_tree(plan: StreamPlan) -> StreamPlan:
    """The noise of PrivIncReg1 as printed: two trees, eps / 2 and delta / 2 each, sensitivity 2, log2(T)^2."""
    ticks = plan.sums.mechanism.workload.ticks
    scale = np.sqrt(2 * np.log(4 / DELTA)) * np.log2(ticks) * 2 / (EPS / 2)
    return replace(plan, sums=replace(plan.sums, draws=replace(plan.sums.draws, scale=scale / plan.sums.step)))


# ------------------------------------------------------------------------------------------------- logistic


def logistic_stream(
    plan: StreamPlan, norm: float, drift: float, seed: int, at: Sequence[int], rows: int
) -> list[tuple[Float, Float, Float]]:
    """(rows, responses, coefficients) after some ticks of a stream, in model units."""
    random = np.random.default_rng(seed)
    columns, ticks = len(plan.names), at[-1]
    coef = random.standard_normal(columns)
    coef *= norm / np.linalg.norm(coef)
    noise = noises(plan, range(1, ticks + 1), random)
    totals, params = [np.zeros(plan.vector.size)], [np.zeros(columns)]
    exact, exogs, endogs, found = np.zeros(plan.vector.size), list[Float](), list[Float](), []
    for tick in range(1, ticks + 1):
        coef = coef + drift * random.standard_normal(columns) / np.sqrt(columns)
        exog = signs(rows, columns, random)
        endog = (random.random(rows) < expit(exog @ coef)).astype(np.float64)
        exogs, endogs = [*exogs, exog], [*endogs, endog]
        exact = exact + vector(plan, exog, endog, params[-1])
        _, _, latest = choose_burn_in(plan, totals, [*params, params[-1]][: tick + 1], tick, exact + noise[tick - 1])
        totals, params = [*totals, exact + noise[tick - 1]], [*params, latest]
        if tick in at:
            found.append((np.vstack(exogs), np.concatenate(endogs), latest))
    return found


def refitted(norm: float, drift: float, seed: int, at: Sequence[int], rows: int, every: int | None) -> list[float]:
    """Excess log-likelihood at some ticks of `dp.streaming.Refits` on the same rows, on its schedule or `every` few."""
    from dpstats.streaming import Refits

    columns = 10
    domain = {**dict.fromkeys(names_of(columns), (-1, 1)), "y": [0, 1]}
    formula = f"y ~ {' + '.join(names_of(columns))} - 1"
    stream = Refits(formula, domain, EPS, DELTA, horizon=at[-1], schedule=every, family="binomial", seed=seed)
    random = np.random.default_rng(seed)
    coef = random.standard_normal(columns)
    coef *= norm / np.linalg.norm(coef)
    random.standard_normal((at[-1], columns * (columns + 3) // 2))  # where the other stream drew its noise
    exogs, endogs, found = list[Float](), list[Float](), []
    for tick in range(1, at[-1] + 1):
        coef = coef + drift * random.standard_normal(columns) / np.sqrt(columns)
        exog = signs(rows, columns, random)
        endog = (random.random(rows) < expit(exog @ coef)).astype(np.float64)
        exogs, endogs = [*exogs, exog], [*endogs, endog]
        whole = np.vstack(exogs) * np.sqrt(columns)
        stream.update(pd.DataFrame(whole, columns=names_of(columns)).assign(y=np.concatenate(endogs).astype(int)))
        if tick in at:
            params = np.zeros(columns) if stream.results is None else stream.results.scaled_params
            found.append(likelihood_above(np.vstack(exogs), np.concatenate(endogs), params))
    return found


def likelihood_above(exog: Float, endog: Float, params: Float) -> float:
    """The negative log-likelihood above its least."""
    best = np.zeros(exog.shape[1])
    for _ in range(30):
        mean = expit(exog @ best)
        hessian = (exog * (mean * (1 - mean))[:, None]).T @ exog
        best = best - np.linalg.solve(hessian, exog.T @ (mean - endog))
    return _loss(exog, endog, params) - _loss(exog, endog, best)


def _loss(exog: Float, endog: Float, params: Float) -> float:
    eta = exog @ params
    return float(np.sum(np.logaddexp(0, eta) - endog * eta))


def logistic(seeds: int = 6, rows: int = 2000) -> None:
    """d = 10, 60 ticks of 2,000 rows, add_remove: mild, drifting and strong signals, beside geometric refits."""
    at = (12, 24, 60)
    plan = plan_of(10, "binomial", 60)
    print(f"logistic, d = 10, 60 ticks of {rows:,} rows, mean of {seeds}: excess negative log-likelihood at {at}")
    for name, norm, drift in (("norm 2", 2.0, 0.0), ("norm 2, drift .1", 2.0, 0.1), ("norm 8", 8.0, 0.0)):
        found, null = [], []
        for seed in range(seeds):
            stream = logistic_stream(plan, norm, drift, seed, at, rows)
            found.append([likelihood_above(*part) for part in stream])
            exog, endog, params = stream[-1]
            null.append(likelihood_above(exog, endog, 0 * params))
        print(f"{name:20}renewable       " + _figures(np.mean(found, axis=0)) + f"   null {np.mean(null):.0f}")
        again = np.mean([refitted(norm, drift, seed, at, rows, None) for seed in range(seeds)], axis=0)
        print(f"{'':20}geometric refits" + _figures(again))
    every = np.mean([refitted(2.0, 0.0, seed, at, rows, 1) for seed in range(2)], axis=0)
    print(f"{'norm 2':20}refit every tick" + _figures(every) + "   (mean of 2)")


def starts(seeds: int = 6, rows: int = 2000) -> None:
    """Norm 8 with other shares of the ticks that may be left out, which `early.SHARE` is."""
    at, usual = (12, 24, 60), burn_in.BURN_IN_SHARE
    plan = plan_of(10, "binomial", 60)
    for share in (0.0, 1 / 8, usual):
        burn_in.BURN_IN_SHARE = share
        found = [
            [likelihood_above(*part) for part in logistic_stream(plan, 8.0, 0.0, seed, at, rows)]
            for seed in range(seeds)
        ]
        print(f"norm 8, up to {share:.3f} of the ticks left out" + _figures(np.mean(found, axis=0)), flush=True)
    burn_in.BURN_IN_SHARE = usual


def _figures(values: Float) -> str:
    return "".join(f"{value:10.2f}" for value in values)


# ------------------------------------------------------------------------------------------------- intervals


def coverage(streams: int = 60, ticks: int = 12, rows: int = 1500) -> None:
    """How often 95 % intervals hold the coefficients that rows are drawn with, over streams, ticks and coefficients."""
    print(f"coverage of 95 % intervals, {streams} streams of {ticks} ticks of {rows:,} rows, all coefficients")
    for name, family, scale in (
        ("linear", "gaussian", 1.0),
        ("logistic", "binomial", 1.0),
        ("logistic x 2", "binomial", 2.0),
        ("logistic x 4", "binomial", 4.0),
        ("counts", "poisson", 1.0),
        ("counts, dispersion 3", "poisson", 3.0),
    ):
        inside, late, change, given = list[bool](), list[bool](), list[bool](), list[bool]()
        response = {"gaussian": (-4, 4), "binomial": [0, 1], "poisson": (0, 30)}[family]
        domain: dict[str, Any] = {"a": (-1, 1), "b": (-1, 1), "y": response}
        # Of counts `scale` is the dispersion; half of the coefficients keeps means below the cap.
        truth = np.array([0.3, 1.0, -0.5]) * (0.5 if family == "poisson" else scale)
        law = dp.families.Poisson(mean_cap=6.0) if family == "poisson" else family
        for seed in range(streams):
            random = np.random.default_rng(seed)
            stream = Regression("y ~ a + b", domain, EPS, DELTA, family=law, horizon=ticks, seed=seed)
            for _ in range(ticks):
                cells = random.uniform(-1, 1, (rows, 2))
                eta = truth[0] + cells @ truth[1:]
                drawn = random.random(rows) < expit(eta)
                endog = drawn.astype(int) if family == "binomial" else eta + random.standard_normal(rows) / 2
                if family == "poisson":
                    spread = 1.0 if scale == 1 else random.gamma(np.exp(eta) / (scale - 1), scale - 1) / np.exp(eta)
                    endog = random.poisson(np.exp(eta) * spread)
                result = stream.update(pd.DataFrame({"a": cells[:, 0], "b": cells[:, 1], "y": endog}))
                given.append(result.has_errors)
                inside += holds(result, truth)
            halves = [stream.between(0, ticks // 2), stream.window(ticks // 2)]
            late += holds(halves[1], truth)
            if halves[0].has_errors and halves[1].has_errors:
                table = stream.change(ticks // 2)
                change += ((table.low <= 0) & (table.high >= 0)).tolist()
        found = [f"{np.mean(part):.3f} of {len(part):,}" if part else "none" for part in (inside, late, change)]
        print(f"{name:22}ticks {found[0]}  last half {found[1]}  change {found[2]}  with errors {np.mean(given):.2f}")


def holds(result: StreamResults, truth: Float) -> list[bool]:
    """Whether each interval holds its coefficient; nothing where there are no intervals."""
    if not result.has_errors:
        return []
    ends = result.conf_int()
    low, high = (ends[side].to_numpy() for side in (0, 1))
    return ((low <= truth) & (truth <= high)).tolist()


# ------------------------------------------------------------------------------------------------- time and memory


def frames(columns: int, rows: int) -> pd.DataFrame:
    random = np.random.default_rng(0)
    cells = random.uniform(-1, 1, (rows, columns))
    return pd.DataFrame(cells, columns=names_of(columns)).assign(y=np.clip(cells.sum(axis=1) / 5, -1, 1))


def stream_of(columns: int, folder: Path | None, **options: Any) -> Regression:
    domain = {**dict.fromkeys(names_of(columns), (-1, 1)), "y": (-1, 1)}
    if folder is not None:
        ledger = dp.Ledger(folder / "ledger", dataset="d", eps=EPS, delta=DELTA)
        options = {"ledger": ledger, "state": folder / "state"} | options
    formula = f"y ~ {' + '.join(names_of(columns))} - 1"
    return Regression(formula, domain, EPS, DELTA, **{"horizon": 100_000} | options)


def reference() -> float:
    """CPU seconds of ten million turns of an empty loop in Python: how fast the machine is at this minute."""
    start = time.process_time()
    for _ in range(10_000_000):
        pass
    return time.process_time() - start


def timed(action: Callable[[], object], times: int) -> tuple[float, float]:
    """Seconds of CPU time and by the clock that an action takes, the means of so many."""
    start, cpu = time.perf_counter(), time.process_time()
    for _ in range(times):
        action()
    return (time.process_time() - cpu) / times, (time.perf_counter() - start) / times


def speed() -> None:
    """Rows a second through the formula at d = 20 and 10,000 rows a tick, and what a tick costs beside its rows."""
    rows, times = frames(20, 10_000), 20
    before = reference()
    with tempfile.TemporaryDirectory() as folder:
        stream = stream_of(20, Path(folder))
        stream.update(rows)
        full, idle = timed(lambda: stream.update(rows), times), timed(lambda: stream.update(rows[:0]), times)
    memory_only = stream_of(20, None)
    memory_only.update(rows[:0])
    plain = timed(lambda: memory_only.update(rows[:0]), times)
    draws = memory_only.plan().sums.draws
    random = random_source(None)
    drawn = timed(lambda: draws.draw(1, 230, random), times)
    print(f"ten million turns of an empty Python loop: {before:.2f} and {reference():.2f} s CPU, before and after")
    print(f"d = 20, 10,000 rows a tick: {1e4 / full[0]:,.0f} rows/s of CPU time ({1e4 / full[1]:,.0f} by the clock)")
    for name, found in (
        ("an empty tick, state and ledger durable", idle),
        ("an empty tick without either", plain),
        ("230 discrete Gaussian draws alone", drawn),
    ):
        print(f"{name}: {1000 * found[0]:.1f} ms of CPU time ({1000 * found[1]:.1f} ms by the clock)")


def memory(ticks: int = 10_000) -> None:
    """Growth of the greatest resident memory over ticks of 100 rows, d = 20, with state and ledger."""
    rows = frames(20, 100)
    with tempfile.TemporaryDirectory() as folder:
        stream = stream_of(20, Path(folder))
        for _ in range(100):
            stream.update(rows)
        before, marks = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, (ticks // 10, ticks // 2, ticks)
        for tick in range(1, ticks + 1):
            stream.update(rows)
            if tick in marks:
                after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
                grown = (after - before) / 1024
                print(f"greatest memory after {tick:,} more ticks of 100 rows: {grown:.1f} MB more", flush=True)


def state() -> None:
    """Vectors that the state holds, and its bytes, d = 20."""
    with tempfile.TemporaryDirectory() as folder:
        for options in ({}, {"horizon": None, "halflife": 12.0}):
            place = Path(folder) / str(len(options))
            place.mkdir()
            stream = stream_of(20, place, **options)
            stream.update(frames(20, 10))
            inner = stream._running._sums._state
            vectors = sum(len(inner[name]) for name in ("memory", "fresh", "sums")) + int(bool(options))
            size = (place / "state").stat().st_size
            print(f"state of {options or 'a million ticks'}: {vectors} vectors beside the last release, {size:,} bytes")


PARTS: dict[str, Callable[[], None]] = {
    "linear": linear,
    "logistic": logistic,
    "starts": starts,
    "coverage": coverage,
    "speed": speed,
    "memory": memory,
    "state": state,
}

if __name__ == "__main__":
    for part in sys.argv[1:] or PARTS:
        PARTS[part]()
