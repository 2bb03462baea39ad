"""A batch method run anew on all rows of a stream at ticks fixed beforehand: PrivIncERM of source 001, section 3.

For what has no sums to be kept: support vector machines, the lasso, any loss and method of `dpstats.glm`. A row is in
at most as many fits as there are ticks from its own to the horizon, so the horizon must be known. Proof:
docs/proofs/geometry, 4.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import pairwise
from typing import Any

import numpy as np

from dpstats.arguments import is_whole
from dpstats.call import SEEDED, make_request
from dpstats.data import Table, as_table
from dpstats.errors import ArgumentError, StreamError
from dpstats.families import Family
from dpstats.ledger.ledger import LedgerLike
from dpstats.models.glm import GLM
from dpstats.models.release import check_rows
from dpstats.models.sources import FormulaSource
from dpstats.penalties.base import number
from dpstats.plan import Plan
from dpstats.privacy.accounting import compose, split_budget
from dpstats.privacy.guarantee import Guarantee
from dpstats.quiet import fail_closed
from dpstats.results.glm_results import GLMResults
from dpstats.streaming.checkpoint import DurableTicks, PendingTick
from dpstats.streaming.plan import facts_digest
from dpstats.summaries import wrap_notes

MOST_TICKS = 10**6
DEFAULT_RATIO = 1.6
DELTA_SHARE = 0.5  # Share of delta for the fits themselves; the rest is for their composition
LEAST_GAIN = 1.01  # Fits without a delta of their own are given one only if each may then spend 1 % more eps


@dataclass(frozen=True)
class Schedule:
    """The ticks after which a stream is fitted again.

    Attributes
    ----------
    times : tuple of int
        Increasing, from 1 on.
    horizon : int
        The last tick of the stream, at or after the last of `times`.

    Examples
    --------
    >>> import dpstats as dp
    >>> dp.streaming.Schedule.geometric(horizon=60).times
    (1, 2, 3, 5, 7, 11, 17, 27, 43)
    >>> fifth = dp.streaming.Schedule.every(5, horizon=12)
    >>> fifth.times, fifth.latest(9), Schedule.from_dict(fifth.to_dict()) == fifth
    ((5, 10), 5, True)
    """

    times: tuple[int, ...]
    horizon: int

    def __post_init__(self) -> None:
        last = _whole("horizon", self.horizon)
        if not isinstance(self.times, (tuple, list)) or not self.times:
            raise ArgumentError("times must be a tuple of ticks, at least one")
        times = tuple(_whole("times", tick) for tick in self.times)
        if any(later <= earlier for earlier, later in pairwise(times)) or times[-1] > last:
            raise ArgumentError(f"times must increase and not lie beyond the horizon, {last:,}")
        object.__setattr__(self, "times", times)
        object.__setattr__(self, "horizon", last)

    @classmethod
    def every(cls, period: int, horizon: int) -> Schedule:
        """After every `period` ticks, as printed."""
        step, last = _whole("period", period), _whole("horizon", horizon)
        if step > last:
            raise ArgumentError(f"period must be at most the horizon, {last:,}, or nothing is ever fitted")
        return cls(tuple(range(step, last + 1, step)), last)

    @classmethod
    def geometric(cls, horizon: int, ratio: float = DEFAULT_RATIO, first: int = 1) -> Schedule:
        """Fits at first, first ratio, first ratio^2, ..., rounded up: about log(horizon / first) / log(ratio) fits.

        The rows that the latest fit has not seen are at all times at most 1 - 1/ratio of the ticks so far, and a tick.
        `ratio` lies between 1.01 and 1e6.
        """
        last, exact = _whole("horizon", horizon), Fraction(_whole("first", first))
        factor = Fraction(number("ratio", ratio, 1.01, 1e6)).limit_denominator(10**6)
        times: dict[int, None] = {}
        while (tick := math.ceil(exact)) <= last:
            times[tick] = None
            exact = Fraction(exact * factor).limit_denominator(10**6)
        return cls(tuple(times), last)

    def latest(self, tick: int) -> int:
        """The last time up to `tick`, 0 if there is none."""
        return max((time for time in self.times if time <= tick), default=0)

    @property
    def staleness(self) -> float:
        """The greatest share of the ticks so far that a fit has not seen, from the first fit to the horizon."""
        ends = [*(time - 1 for time in self.times[1:]), self.horizon]
        return max(1 - time / end for time, end in zip(self.times, ends, strict=True))

    def to_dict(self) -> dict[str, Any]:
        """Plain public values, for JSON."""
        return {"times": list(self.times), "horizon": self.horizon}

    @classmethod
    def from_dict(cls, stored: Mapping[str, Any]) -> Schedule:
        """The schedule whose `to_dict` gave `stored`."""
        return cls(tuple(stored["times"]), stored["horizon"])


def share(
    eps: float, delta: float, fits: int, guarantee: Callable[[float, float], Guarantee]
) -> tuple[float, float, Guarantee]:
    """The most that each of `fits` equal fits may spend, and the guarantee of all together, at most (eps, delta).

    With delta = 0 equal shares of eps. Else the greatest eps, to a thousandth, at which privacy loss distributions of
    the fits' own guarantees compose to (eps, delta); the printed sum is never used. If the fits need no delta and this
    gains each less than 1 %, they have equal shares of eps, and delta is not spent.

    ArgumentError if the budget is too small to be divided so often.
    """
    count = _whole("fits", fits)
    if delta == 0 or count == 1:
        each_eps, each_delta = split_budget(eps, delta, [1.0] * count)[0]
        return each_eps, each_delta, compose([guarantee(each_eps, each_delta)] * count)
    each_delta = split_budget(1.0, delta * DELTA_SHARE, [1.0] * count)[0][1]
    spent: dict[float, Guarantee] = {}

    def fits_in(each_eps: float) -> bool:
        spent[each_eps] = compose([guarantee(each_eps, each_delta)] * count, delta=delta, accountant="pld")
        return spent[each_eps].eps <= eps

    low = equal = split_budget(eps, delta, [1.0] * count)[0][0]
    if not fits_in(low):  # what is added up is never above the budget
        raise AssertionError("equal shares of a budget are above it")
    high = 2 * low
    while fits_in(high):  # from below, where distributions of losses are narrow
        low, high = high, 2 * high
    while high > low * 1.001:
        middle = math.sqrt(low * high)
        low, high = (middle, high) if fits_in(middle) else (low, middle)
    # At equal shares the losses may compose to a hair less than the sum, by rounding alone, and delta would pay for it.
    if low <= LEAST_GAIN * equal and (added := compose([guarantee(equal, each_delta)] * count)).delta == 0:
        return equal, each_delta, added
    return low, each_delta, spent[low]


def _whole(name: str, value: object, most: int = MOST_TICKS) -> int:
    if not is_whole(value) or not 1 <= value <= most:
        raise ArgumentError(f"{name} must be integers from 1 to {most:,}")
    return int(value)


BASIS = "docs/proofs/geometry"


@dataclass(frozen=True, eq=False)
class RefitsPlan:
    """The schedule of a stream of refits and its cost, from public facts alone.

    Attributes
    ----------
    schedule : Schedule
    each : Plan
        Of one fit.
    guarantee : Guarantee
        Of all fits together, spent once.

    Examples
    --------
    >>> import dpstats as dp
    >>> domain = {"x": (0, 1), "y": (0, 1)}
    >>> plan = dp.streaming.Refits("y ~ x", domain, eps=1, family="huber_svm", horizon=60).plan()
    >>> plan.schedule.horizon, len(plan.digest()), plan.notes() != []
    (60, 64, True)
    """

    schedule: Schedule
    each: Plan
    guarantee: Guarantee

    @property
    def title(self) -> str:
        """A line that names the release, for the ledger."""
        return f"stream of {len(self.schedule.times)} refits: {self.each.title}"

    def digest(self) -> str:
        """A hash of the public facts that the stream is bound to."""
        return facts_digest([self.schedule.to_dict(), self.each.to_dict(), self.guarantee.to_dict()])

    def notes(self) -> list[str]:
        """What the reader must know, in plain words."""
        times, spent = self.schedule.times, self.each.guarantee
        listed = ", ".join(f"{tick:,}" for tick in times[:12]) + (", ..." if len(times) > 12 else "")
        notes = [
            f"{len(times)} fits on all rows so far, after the ticks {listed} of {self.schedule.horizon:,}: up to "
            f"{self.schedule.staleness:.0%} of the ticks so far are not in the latest one.",
            f"Each spends eps={spent.eps:.4g}, delta={spent.delta:.3g}; together they are {self.guarantee}.",
        ]
        if self.guarantee.unit is None:  # sums protect each row of a person, and all only where rows are limited
            notes.append(
                "Streams of linear or logistic models have less noise at every tick from sums: dp.streaming.Regression."
            )
        return notes

    def __str__(self) -> str:
        return "\n".join(wrap_notes(self.notes()))


def make_schedule(schedule: Schedule | int | None, horizon: int) -> Schedule:
    """The schedule asked for, or the default. ArgumentError if it is neither a schedule for `horizon` nor a period."""
    if schedule is None:
        return Schedule.geometric(horizon, DEFAULT_RATIO)
    if isinstance(schedule, Schedule):
        if schedule.horizon != horizon:
            raise ArgumentError(f"horizon must be the schedule's, {schedule.horizon:,}")
        return schedule
    return Schedule.every(schedule, horizon)


class RunningRefits(DurableTicks):
    """A stream of refits of one model, with `options` of `dpstats.glm`, while it runs; the source has no data."""

    def __init__(
        self,
        source: FormulaSource,
        family: str | Family,
        options: Mapping[str, Any],
        schedule: Schedule,
        budget: tuple[float, float],
        *,
        ledger: LedgerLike,
        state: str | os.PathLike[str] | None,
        seed: int | None,
    ) -> None:
        def each(eps: float, delta: float) -> Plan:
            return source.plan(make_request(eps=eps, delta=delta, family=family, **options))

        eps, delta, total = share(*budget, len(schedule.times), lambda *spent: each(*spent).guarantee)
        total = total if seed is None else total.uncertified(SEEDED)
        self.plan = RefitsPlan(schedule, each(eps, delta), replace(total, basis=BASIS))
        super().__init__(state, ledger, schedule.horizon)
        self._source, self._family, self._options, self._seed = source, family, options, seed
        self._budget, self._digest = (eps, delta), self.plan.digest()
        self._tick, self.results = 0, None
        self.history: list[dict[str, Any]] = []
        self._load(self._digest)

    results: GLMResults | None

    @property
    def tick(self) -> int:
        return self._tick

    def table(self, rows: object) -> Table:
        """As `DurableTicks.table`; also checks that a fit of these rows costs what was planned."""
        table = as_table(rows)
        check_rows(self._checkpoint.ledger, self.plan.guarantee, table)
        eps, delta = self._budget
        if self._glm(table).plan(eps, delta=delta, **self._options).guarantee != self.plan.each.guarantee:
            raise ArgumentError(
                "domain must declare every column that the formula reads, so that all fits cost the same"
            )
        return table

    def begin(self) -> None:
        if not self._begun:
            entry = {"label": self.plan.title, "method": "refits", "formula": str(self.plan.each.formula)}
            read = {"domain": self._source.domain, "columns": self._source.columns}
            self._checkpoint.begin(self._facts(0, None, []), self.plan.guarantee, **entry, **read)
            self._begun = True

    def _compute(self, tables: Sequence[Table], label: str | None) -> Callable[[], PendingTick]:
        tick, results, history = self.tick + 1, self.results, self.history
        if tick in self.plan.schedule.times:
            results = self._fit(tables[0], tick)
            history = [*history, *_coefficients(tick, results)]
        return lambda: PendingTick(self._facts(tick, results, history), (results, history))

    def _fit(self, table: Table, tick: int) -> GLMResults:
        """Read rows that are paid for, and fit; the caller shows nothing before it is on the disk."""
        ledger = self._checkpoint.ledger
        paid = table if ledger is None else fail_closed(lambda: ledger.rows_of(table))
        eps, delta = self._budget
        seed = None if self._seed is None else self._seed + tick
        return self._glm(paid).fit(eps, delta=delta, seed=seed, **self._options)

    def _glm(self, table: Table) -> GLM:
        return GLM.from_formula(self._source.formula, table, self._family, self._source.domain)

    def _show(self, release: tuple[GLMResults | None, list[dict[str, Any]]], label: str | None) -> None:
        (self.results, self.history), self._tick = release, self._tick + 1

    def _facts(self, tick: int, results: GLMResults | None, history: list[dict[str, Any]]) -> dict[str, Any]:
        """The state, for JSON: released values and public facts alone."""
        return {
            "stream": "refits",
            "plan": self._digest,
            "identity": self._identity,
            "tick": tick,
            "results": None if results is None else results.to_dict(),
            "history": history,
        }

    def _resume(self, facts: dict[str, Any]) -> None:
        if facts.get("stream") != "refits" or facts["plan"] != self._digest:
            raise StreamError(
                "state: it belongs to another stream; use the arguments it was started with, or another file"
            )
        self._tick = int(facts["tick"])
        # Files of before have the coefficients as released alone, as the estimates.
        self.history = [
            row if "released" in row else {**row, "estimate": None, "released": row["estimate"]}
            for row in facts["history"]
        ]
        self.results = None if facts["results"] is None else GLMResults.from_dict(facts["results"])


def _coefficients(tick: int, results: GLMResults) -> list[dict[str, Any]]:
    """The rows of the history for a fit; None for what is unknown."""
    table = results.tidy(conf_int=False)
    if not results.has_errors:
        table = table.assign(estimate=np.nan)
    numbers = table.reindex(columns=["estimate", "std_error", "released"]).astype(float)
    return [
        {"tick": tick, "term": str(term)}
        | {name: float(x) if np.isfinite(x) else None for name, x in zip(numbers.columns, row, strict=True)}
        for term, row in zip(table["term"], numbers.to_numpy(), strict=True)
    ]
