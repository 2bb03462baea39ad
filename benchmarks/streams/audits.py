"""Black-box audits of regressions of streams: whole transcripts with and without a row, and bugs that they catch.

    python -m benchmarks.streams.audits [runs]

with a fifth of the runs for the bugs.

Rows go the way of `Regression.update`: a frame, the formula, exact sums, the prefix sums' own steps with noise of the
system's generator. What is replaced, so that 100,000 transcripts take minutes: all runs are one stream of vectors that
are laid end to end, so that one step serves all of them; and where rows are linearised at released coefficients, which
differ by run, the exact sums of that tick's copies of a row are computed for all runs at once by the package's own
`linearise` and `integer_rows` (`check_copies` compares them with the package's sums, number by number). Coefficients
are the package's, for each run.

A stream's claim is a curve, and 100,000 runs say little of delta = 1e-5: it is audited at eps = .1 of the same curve,
where the difference between the two laws is greatest, and as it is stated.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any
from unittest import mock

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.interpolate import RegularGridInterpolator

from dpstats.audit import audit
from dpstats.audit.blackbox import AuditResult
from dpstats.data import as_table
from dpstats.privacy.gaussian import analytic_mu, gaussian_delta
from dpstats.privacy.information.exact_sums import PLACES, integer_rows
from dpstats.streaming import Regression, vectors
from dpstats.streaming.constraints import L2Ball
from dpstats.streaming.plan import StreamPlan
from dpstats.streaming.sums import PrefixSums, SumsPlan

Float = NDArray[np.float64]
Integers = NDArray[np.object_]

EPS, DELTA = 8.0, 1e-5
"""At eps = 8 the laws of neighbours are some 1.6 standard deviations apart: where audits see differences best."""

POINT = 0.1
"""The eps at which the curve of a claim is audited."""

TICKS, COPIES = 3, 40


@dataclass(frozen=True)
class Case:
    """A stream, and the rows by which two neighbours differ.

    Attributes
    ----------
    formula, domain, options
        Of `Regression`.
    rows : tuple of dict
        The row that is there or not; or the two that take each other's place.
    others : tuple of dict
        Of the other rows of a tick: which of the two depends on the sign of the last release's last number.
    """

    formula: str
    domain: dict[str, Any]
    options: dict[str, Any]
    rows: tuple[dict[str, Any], ...]
    others: tuple[dict[str, Any], dict[str, Any]]

    def stream(self) -> Regression:
        return Regression(self.formula, self.domain, EPS, DELTA, **{"horizon": TICKS} | self.options)


LINE: dict[str, Any] = {"a": (-1, 1), "y": (-1, 1)}
CHOICE: dict[str, Any] = {"a": (-1, 1), "w": (0, 2), "y": [0, 1]}
WIDE: dict[str, Any] = {f"x{place}": (-1, 1) for place in range(6)} | {"y": (-1, 1)}
ONES = {f"x{place}": 1.0 for place in range(6)}
SKETCH = {"mechanism": "projected", "constraint": L2Ball(1.0), "directions": 1}
SIDES = ({"a": 1.0, "y": 1}, {"a": -1.0, "y": 1})
LOGIT = {"family": "binomial"}

CASES: dict[str, Case] = {
    "linear": Case("y ~ a - 1", LINE, {}, ({"a": 1.0, "y": 1.0},), SIDES),
    "linear, replaced": Case(
        "y ~ a - 1", LINE, {"adjacency": "replace_one"}, ({"a": 1.0, "y": 1.0}, {"a": 1.0, "y": -1.0}), SIDES
    ),
    "linear, half-life 2": Case(
        "y ~ a - 1", LINE, {"horizon": None, "halflife": 2}, ({"a": 1.0, "y": 1.0},), SIDES
    ),
    "linear, a person of two ticks": Case(
        "y ~ a - 1", LINE, {"participation": (0, 1)}, ({"a": 1.0, "y": 1.0},), SIDES
    ),
    "logistic": Case("y ~ a - 1", CHOICE, LOGIT, ({"a": 1.0, "y": 1},), SIDES),
    "logistic, replaced": Case(
        "y ~ a - 1", CHOICE, LOGIT | {"adjacency": "replace_one"}, ({"a": 1.0, "y": 1}, {"a": 1.0, "y": 0}), SIDES
    ),
    "logistic, weights": Case(
        "y ~ a - 1", CHOICE, LOGIT | {"weights": "w"}, ({"a": 1.0, "w": 2.0, "y": 1},),
        ({"a": 1.0, "w": 1.0, "y": 1}, {"a": -1.0, "w": 1.0, "y": 1}),
    ),
    "projected": Case(
        "y ~ x0 + x1 + x2 + x3 + x4 + x5 - 1", WIDE, SKETCH, (ONES | {"y": 1.0},),
        (ONES | {"y": -1.0}, ONES | {"x0": -1.0, "y": 1.0}),
    ),
    "projected, replaced": Case(
        "y ~ x0 + x1 + x2 + x3 + x4 + x5 - 1", WIDE, SKETCH | {"adjacency": "replace_one"},
        (ONES | {"y": 1.0}, ONES | {"y": -1.0}), (ONES | {"y": -1.0}, ONES | {"x0": -1.0, "y": 1.0}),
    ),
}  # fmt: skip


@dataclass(frozen=True)
class Side:
    """One of two neighbours, as the auditor runs it.

    Attributes
    ----------
    case : Case
    plan : StreamPlan
    which : int or None
        Of the case's rows that which is there, None for none.
    at : tuple of int
        The ticks in which it is.
    again : bool
        Planted: the first tick is released a second time with other noise.
    own : bool
        Planted: a tick is linearised at coefficients that its own rows have moved.
    """

    case: Case
    plan: StreamPlan
    which: int | None
    at: tuple[int, ...] = (1,)
    again: bool = False
    own: bool = False


def of_rows(side: Side, rows: list[dict[str, Any]]) -> Integers:
    """The exact sum of some rows in lattice steps, linearised at 0: the path of `Regression.update`."""
    frame = pd.DataFrame(rows or [side.case.others[0]]).iloc[: len(rows)]
    running = side.case.stream()._running
    running.plan = side.plan
    return running._vector([as_table(frame)])


def of_copies(side: Side, row: dict[str, Any], params: Float) -> Integers:
    """The same of `COPIES` copies of a row, linearised at other coefficients in each run, shape (runs, size)."""
    plan, vector = side.plan, side.plan.vector
    block = plan.design.blocks(pd.DataFrame([row]))[0]
    runs, weight = len(params), 1.0 if block.weights is None else float(block.weights[0])
    exog, endog = np.repeat(block.exog, runs, axis=0), np.repeat(block.endog, runs)
    found, slope, _ = vectors.linearise(vector, exog[:, 0] * params, endog, np.zeros(runs))
    diagonal = np.array(vector.metric.diagonal)
    inner = integer_rows(vector.metric.coordinates(exog), weight * found, diagonal, vector.weight_bound)[:, 0]
    plain = integer_rows(vector.metric.coordinates(exog), np.ones(runs), diagonal, 1.0)[:, 0]
    whole = np.trunc(weight * slope / vector.slope_bound * 2.0**PLACES)
    exact = np.column_stack([inner**2, plain * whole]).astype(np.int64).astype(object) * COPIES
    return np.array([vector.steps(one, plan.sums.step) for one in exact], dtype=object)


def check_copies(case: Case, params: Float) -> None:
    """Raise AssertionError unless `of_copies` gives the sums of the package, to the last step."""
    running, side = case.stream()._running, Side(case, case.stream().plan(), None)
    frame = as_table(pd.DataFrame([case.others[0]] * COPIES))
    for one, sums in zip(params, of_copies(side, case.others[0], params), strict=True):
        running.releases.last = running.releases.last._replace(params=np.array([one]))
        assert (running._vector([frame]) == sums).all()


def transcripts(side: Side, random: np.random.Generator | None, runs: int) -> Float:
    """`runs` transcripts, as one stream of all their numbers, shape (runs, ticks * size), in the rows' units.

    Their noise is that of the system's generator, or of seeds that `random` gives.
    """

    def started() -> PrefixSums:
        return wide.start(seed=None if random is None else int(random.integers(2**62)))

    plan, size = side.plan, side.plan.vector.size
    wide: SumsPlan = replace(plan.sums, size=size * runs)
    stream, seen, params = started(), list[Float](), np.zeros(runs)
    side_of = np.zeros(runs, dtype=bool)
    mine = [] if side.which is None else [side.case.rows[side.which]]
    for tick in range(1, TICKS + 1):
        added = of_rows(side, mine if tick in side.at else [])
        if plan.method != "renewable":
            each = [of_rows(side, [row] * COPIES) for row in side.case.others]
        else:
            at = np.where(mine != [], params + 1.0, params) if side.own and tick in side.at else params
            each = [of_copies(side, row, at) for row in side.case.others]
        vector = np.where(side_of[:, None], each[0], each[1]) + added
        if side.again and tick == 1:
            seen.append(started().step(vector.ravel()).reshape(runs, size))
        released = stream.step(vector.ravel()).reshape(runs, size)
        seen.append(released)
        side_of = released[:, -1] > 0
        if plan.method == "renewable" and tick < TICKS:
            params = coefficients(plan, released, plan.deviation(tick))
    return np.concatenate(seen, axis=1)


def coefficients(plan: StreamPlan, released: Float, deviation: float) -> Float:
    """What follows from two released sums, shape (runs,): the package's coefficients, interpolated."""
    ends = [np.linspace(column.min(), column.max(), 31) for column in released.T]
    grid = [[plan.fitting.params(np.array([one, two]), deviation)[0] for two in ends[1]] for one in ends[0]]
    return np.asarray(RegularGridInterpolator(ends, np.array(grid))(released))


def sides(case: Case, plan: StreamPlan, **planted: Any) -> tuple[Side, Side]:
    """The two neighbours: without and with the row, or with one and the other; a person's in all declared ticks."""
    at = tuple(1 + offset for offset in plan.sums.mechanism.participation)
    first = None if len(case.rows) == 1 else 0
    facts = {"at": at} | planted
    return Side(case, plan, first, **facts), Side(case, plan, len(case.rows) - 1, **facts)


def audited(pair: tuple[Side, Side], runs: int, random: np.random.Generator | None = None) -> list[AuditResult]:
    """The claim as stated, and at `POINT` of its curve."""
    claims = [(EPS, DELTA), (POINT, gaussian_delta(POINT, analytic_mu(EPS, DELTA)))]
    made = [transcripts(side, random, runs) for side in pair]
    place = {id(side): found for side, found in zip(pair, made, strict=True)}

    def again(side: Side, rng: np.random.Generator, count: int) -> Float:
        """The transcripts that were made, part by part: both claims are audited on the same runs."""
        found, place[id(side)] = place[id(side)][:count], place[id(side)][count:]
        return found

    results = []
    for eps, delta in claims:
        place = {id(side): found for side, found in zip(pair, made, strict=True)}
        results.append(
            audit(
                again, *pair, eps=eps, delta=delta, runs=runs, seed=0, vectorized=True, progress=False,
                confidence=0.9999,
            )
        )  # fmt: skip
    return results


def priced(case: Case, of: Case) -> tuple[Side, Side]:
    """A case with the noise of another one."""
    plan, other = case.stream().plan(), of.stream().plan()
    return sides(case, replace(plan, sums=replace(plan.sums, draws=other.sums.draws, step=other.sums.step)))


def at_the_price_of_an_added_row() -> tuple[Side, Side]:
    """A row is replaced at the noise of one that is added."""
    return priced(CASES["linear, replaced"], CASES["linear"])


def projected_at_the_price_of_an_added_row() -> tuple[Side, Side]:
    """The same of projected rows."""
    return priced(CASES["projected, replaced"], CASES["projected"])


def twice_at_the_price_of_once() -> tuple[Side, Side]:
    """A person comes twice at the noise of one row."""
    return priced(CASES["linear, a person of two ticks"], replace(CASES["linear, half-life 2"], options={}))


def noise_of_one_tick() -> tuple[Side, Side]:
    """Three ticks at the noise that suffices for one."""
    case = CASES["logistic"]
    return priced(case, replace(case, options=LOGIT | {"horizon": 1}))


def a_tick_noised_twice() -> tuple[Side, Side]:
    """The first tick is released again with other noise, as by an old copy of the state."""
    case = CASES["logistic"]
    return sides(case, case.stream().plan(), again=True)


def theta_of_the_same_tick() -> tuple[Side, Side]:
    """The rows of a tick are linearised at coefficients that its own rows have moved."""
    case = CASES["logistic"]
    return sides(case, case.stream().plan(), own=True)


def a_heavy_hessian() -> tuple[Side, Side]:
    """The Hessian at four times the weight that is free, its rows not cut."""
    case = CASES["logistic"]
    plan = case.stream().plan()
    return sides(case, replace(plan, vector=replace(plan.vector, inner=4 * plan.vector.inner)))


def uncut(vector: Any, linear: Float, endog: Float, offset: Float) -> tuple[Float, Float, Float]:
    """`vectors.linearise` without its cut."""
    found = vector.family.derivatives(linear + offset, endog)
    return found.curvature, found.curvature * linear - found.gradient, np.zeros_like(linear)


PLANTED: dict[str, tuple[Callable[[], tuple[Side, Side]], Any]] = {
    "replaced at the price of added": (at_the_price_of_an_added_row, None),
    "projected rows replaced at the price of added": (projected_at_the_price_of_an_added_row, None),
    "a person of two ticks at the price of one": (twice_at_the_price_of_once, None),
    "three ticks at the noise of one": (noise_of_one_tick, None),
    "a tick noised twice": (a_tick_noised_twice, None),
    "coefficients of the same tick": (theta_of_the_same_tick, None),
    "a Hessian at four times its weight, uncut": (a_heavy_hessian, (vectors, "linearise", uncut)),
}


def audit_planted(name: str, runs: int, random: np.random.Generator | None = None) -> list[AuditResult]:
    """Audit one of `PLANTED`."""
    make, patch = PLANTED[name]
    if patch is None:
        return audited(make(), runs, random)
    with mock.patch.object(*patch):
        return audited(make(), runs, random)


def line(name: str, results: list[AuditResult], taken: float) -> str:
    """What was found, in a line."""
    stated, point = results
    verdict = "kept" if all(result.passed for result in results) else "REFUTED"
    stick = point.hockey_stick
    return (
        f"{name:54s} {point.delta:7.4f} {stick.estimate:9.4f} {stick.lower:9.4f} {stated.eps_lower:9.2f}  {verdict:8s} "
        f"{taken:4.0f} s"
    )


def main(arguments: list[str]) -> None:
    """Audit all cases and all planted bugs."""
    runs = int(arguments[0]) if arguments else 100_000
    print(
        f"{runs:,} transcripts of {TICKS} ticks: claim at eps = {POINT:g}, estimate, at least; eps at least, of {EPS:g}"
    )
    for name in ("logistic", "logistic, weights"):
        check_copies(CASES[name], np.linspace(-3, 3, 7))
    for name, case in CASES.items():
        start, pair = time.process_time(), sides(case, case.stream().plan())
        print(line(name, audited(pair, runs), time.process_time() - start), flush=True)
    print(f"planted, {runs // 5:,} transcripts")
    for name in PLANTED:
        start = time.process_time()
        print(line(name, audit_planted(name, runs // 5), time.process_time() - start), flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
