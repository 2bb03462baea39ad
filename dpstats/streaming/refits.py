"""A batch method run anew on all rows of a stream at ticks fixed beforehand: PrivIncERM of source 001, section 3.

For what has no sums to be kept: support vector machines, the lasso, any loss and method of `dpstats.glm`. A row is in
at most as many fits as there are ticks from its own to the horizon, so the horizon must be known. Proof:
docs/proofs/geometry, 4.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import secrets
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import pairwise
from typing import Any

import numpy as np
import pandas as pd

from dpstats.arguments import explain_calls
from dpstats.call import SEEDED, PlanKeywords, Request, RowKeywords, expand_signature, make_request, split_kwargs
from dpstats.data import Table, as_table
from dpstats.domain import Domain
from dpstats.errors import ArgumentError, StreamError
from dpstats.families import Family
from dpstats.frames import WideFrame
from dpstats.ledger import Ledger, Part
from dpstats.ledger.ledger import LedgerLike
from dpstats.models.glm import GLM
from dpstats.models.release import check_rows
from dpstats.models.sources import FormulaSource, model_formula
from dpstats.penalties.base import number
from dpstats.plan import Plan
from dpstats.privacy.accounting import compose, split_budget
from dpstats.privacy.guarantee import Guarantee, check_budget
from dpstats.quiet import fail_closed, hide_frames, strip_context
from dpstats.results.glm_results import GLMResults
from dpstats.streaming.checkpoint import DurableTicks, Waiting
from dpstats.summaries import wrap_notes

MOST_TICKS = 10**6

RATIO = 1.6

DELTA_SHARE = 0.5
"""Of delta goes to the fits themselves, the rest to their composition."""


@dataclass(frozen=True)
class Schedule:
    """The ticks after which a stream is fitted anew.

    Attributes
    ----------
    times : tuple of int
        Increasing, from 1 on.
    horizon : int
        The last tick of the stream, at or after the last of `times`.

    Raises
    ------
    ArgumentError
        If they are no such integers, or none.

    Examples
    --------
    >>> import dpstats as dp
    >>> dp.streaming.Schedule.geometric(horizon=60).times
    (1, 2, 3, 5, 7, 11, 17, 27, 43)
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
        """After every `period` ticks, as printed.

        Examples
        --------
        >>> Schedule.every(5, horizon=12).times
        (5, 10)
        """
        step, last = _whole("period", period), _whole("horizon", horizon)
        if step > last:
            raise ArgumentError(f"period must be at most the horizon, {last:,}, or nothing is ever fitted")
        return cls(tuple(range(step, last + 1, step)), last)

    @classmethod
    def geometric(cls, horizon: int, ratio: float = RATIO, first: int = 1) -> Schedule:
        """At first, first ratio, first ratio^2, ..., rounded up: about log(horizon / first) / log(ratio) fits.

        The rows that the latest fit has not seen are at all times at most 1 - 1/ratio of the ticks so far, and a tick.

        Parameters
        ----------
        horizon : int
        ratio : float
            From 1.01 to 1e6.
        first : int
            The first tick that is fitted.

        Examples
        --------
        >>> Schedule.geometric(horizon=60, ratio=2.0).times
        (1, 2, 4, 8, 16, 32)
        """
        last, begin = _whole("horizon", horizon), _whole("first", first)
        factor = Fraction(number("ratio", ratio, 1.01, 1e6)).limit_denominator(10**6)
        times: list[int] = []
        exact = Fraction(begin)
        while exact <= last:
            tick = math.ceil(exact)
            if tick <= last and (not times or tick > times[-1]):
                times.append(tick)
            exact = Fraction(exact * factor).limit_denominator(10**6)
        return cls(tuple(times), last)

    def latest(self, tick: int) -> int:
        """The last time up to `tick`, 0 if there is none.

        Examples
        --------
        >>> Schedule.every(5, horizon=12).latest(9)
        5
        """
        place = int(np.searchsorted(self.times, tick, side="right"))
        return self.times[place - 1] if place else 0

    @property
    def staleness(self) -> float:
        """The greatest share of the ticks so far that a fit has not seen, from the first fit to the horizon."""
        ends = [*(time - 1 for time in self.times[1:]), self.horizon]
        return max(1 - time / end for time, end in zip(self.times, ends, strict=True))

    def to_dict(self) -> dict[str, Any]:
        """Plain public values, for JSON.

        Examples
        --------
        >>> Schedule.from_dict(Schedule.every(5, horizon=12).to_dict()).times
        (5, 10)
        """
        return {"times": list(self.times), "horizon": self.horizon}

    @classmethod
    def from_dict(cls, stored: Mapping[str, Any]) -> Schedule:
        """The schedule whose `to_dict` gave `stored`."""
        return cls(tuple(stored["times"]), stored["horizon"])


def printed_period(
    case: int,
    *,
    rows: int,
    columns: int,
    eps: float,
    reach: float = 1.0,
    lipschitz: float = 1.0,
    convexity: float | None = None,
    width: float | None = None,
    curvature: float | None = None,
) -> int:
    """tau of Theorem 3.1, in rows and at most T: how often it has a stream of T rows fitted anew.

    Case 1, convex losses: (T d)^(1/3) / eps^(2/3). 2, strongly convex ones: sqrt(d L) / (nu^(1/2) eps |C|^(1/2)), nu
    the `convexity`. 3, sets of small width: sqrt(T w) C_j^(1/4) / ((L |C|)^(1/4) eps^(1/2)), C_j the `curvature`.

    ArgumentError if the case is unknown, or misses what it needs.
    """
    many, wide = _whole("rows", rows, 10**15), _whole("columns", columns)
    budget = number("eps", eps, 0.0, math.inf, open_low=True)
    size = number("reach", reach, 0.0, math.inf, open_low=True)
    slope = number("lipschitz", lipschitz, 0.0, math.inf, open_low=True)
    if case == 1:
        period = (many * wide) ** (1 / 3) / budget ** (2 / 3)
    elif case == 2:
        nu = number("convexity", _needed("convexity", convexity), 0.0, math.inf, open_low=True)
        period = math.sqrt(wide * slope) / (math.sqrt(nu) * budget * math.sqrt(size))
    elif case == 3:
        across = number("width", _needed("width", width), 0.0, math.inf, open_low=True)
        bend = number("curvature", _needed("curvature", curvature), 0.0, math.inf, open_low=True)
        period = math.sqrt(many * across) * bend**0.25 / ((slope * size) ** 0.25 * math.sqrt(budget))
    else:
        raise ArgumentError("case must be 1, 2 or 3, those of Theorem 3.1")
    return max(1, min(many, math.ceil(period * (1 - 1e-12))))


def share(
    eps: float, delta: float, fits: int, guarantee: Callable[[float, float], Guarantee]
) -> tuple[float, float, Guarantee]:
    """The most that each of `fits` equal fits may spend, and the guarantee of all together, at most (eps, delta).

    With delta = 0 equal shares of eps. Else the greatest eps, to a thousandth, at which privacy loss distributions of
    the fits' own guarantees compose to (eps, delta); the printed sum is never used.

    ArgumentError if the budget is too small to be divided so often.
    """
    count = _whole("fits", fits)
    if delta == 0 or count == 1:
        each_eps, each_delta = split_budget(eps, delta, [1.0] * count)[0]
        return each_eps, each_delta, compose([guarantee(each_eps, each_delta)] * count)
    each_delta = split_budget(1.0, delta * DELTA_SHARE, [1.0] * count)[0][1]
    spent: dict[float, Guarantee] = {}

    def fits_in(each_eps: float) -> bool:
        total = compose([guarantee(each_eps, each_delta)] * count, delta=delta, accountant="pld")
        spent[each_eps] = total
        return total.eps <= eps

    low = split_budget(eps, delta, [1.0] * count)[0][0]
    if not fits_in(low):  # what is added up is never above the budget
        raise AssertionError("equal shares of a budget are above it")
    high = 2 * low
    while fits_in(high):  # from below, where distributions of losses are narrow
        low, high = high, 2 * high
    while high > low * 1.001:
        middle = math.sqrt(low * high)
        low, high = (middle, high) if fits_in(middle) else (low, middle)
    return low, each_delta, spent[low]


def _needed(name: str, value: float | None) -> float:
    if value is None:
        raise ArgumentError(f"{name} must be given for this case of Theorem 3.1")
    return value


def _whole(name: str, value: object, most: int = MOST_TICKS) -> int:
    if isinstance(value, bool) or not isinstance(value, (int, np.integer)) or not 1 <= value <= most:
        raise ArgumentError(f"{name} must be integers from 1 to {most:,}")
    return int(value)


BASIS = "docs/proofs/geometry"


@dataclass(frozen=True, eq=False)
class RefitsPlan:
    """When a stream will be fitted anew, and what that costs: no function of rows.

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
        facts = [self.schedule.to_dict(), self.each.to_dict(), self.guarantee.to_dict()]
        return hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()

    def notes(self) -> list[str]:
        """What the reader must know, in plain words."""
        times, spent = self.schedule.times, self.each.guarantee
        listed = ", ".join(f"{tick:,}" for tick in times[:12]) + (", ..." if len(times) > 12 else "")
        return [
            f"{len(times)} fits on all rows so far, after the ticks {listed} of {self.schedule.horizon:,}: up to "
            f"{self.schedule.staleness:.0%} of the ticks so far are not in the latest one.",
            f"Each spends eps={spent.eps:.4g}, delta={spent.delta:.3g}; together they are {self.guarantee}.",
            "Streams of linear or logistic models have less noise at every tick from sums: dp.streaming.Regression.",
        ]

    def __str__(self) -> str:
        return "\n".join(wrap_notes(self.notes()))


class RefitTicks(DurableTicks):
    """The ticks of a stream of refits, from its state on if there is one; StreamError if that is another stream's."""

    def __init__(self, plan: RefitsPlan, state: str | os.PathLike[str] | None, ledger: LedgerLike) -> None:
        super().__init__(state, ledger, plan.schedule.horizon)
        self.plan, self._digest = plan, plan.digest()
        self._tick, self.results = 0, None
        self.history: list[dict[str, Any]] = []
        self._identity, self._begun = secrets.token_hex(16), False
        facts = self._keeper.load()
        if facts is not None:
            if facts.get("stream") != "refits" or facts["plan"] != self._digest:
                raise StreamError("state: it belongs to another stream; open it as it was begun, or give another file")
            self._identity, self._begun = facts["identity"], True
            self._tick, self.history = int(facts["tick"]), facts["history"]
            self.results = None if facts["results"] is None else GLMResults.from_dict(facts["results"])

    results: GLMResults | None

    @property
    def tick(self) -> int:
        return self._tick

    @property
    def ledger(self) -> Ledger | Part | None:
        """What the fits are charged to."""
        return self._keeper.ledger

    def begin(self, domain: Domain) -> None:
        """Charge the ledger and write the first state, once."""
        if not self._begun:
            names = {"label": self.plan.title, "method": "refits", "formula": str(self.plan.each.formula)}
            entry = {**names, "domain": domain, "columns": FormulaSource(names["formula"], None, domain).columns}
            self._keeper.begin(self._facts(0, None, []), self.plan.guarantee, **entry)
            self._begun = True

    def close(self, fit: Callable[[int], GLMResults]) -> None:
        """Close a tick that is paid for, with `fit` of its number if one is due."""
        tick, results, history = self.tick + 1, self.results, self.history
        if tick in self.plan.schedule.times:
            results = fit(tick)
            values = results.params.items()
            history = [
                *history,
                *({"tick": tick, "term": str(name), "estimate": float(value)} for name, value in values),
            ]
        self._compute(lambda: Waiting(self._facts(tick, results, history), (results, history)))

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


class Refits:
    """A private regression of a stream of rows, fitted anew at ticks fixed beforehand.

    The rows stay where they are: at every tick all rows so far are passed, and read only if the tick is one of the
    schedule's. A result is on the disk before it is returned, so a process that is killed never makes a second one.

    Parameters
    ----------
    formula : str
    domain : Domain or dict
    eps, delta : float
        The budget of all fits together.
    horizon : int
        The last tick.
    schedule : Schedule or int, optional
        When to fit: `dpstats.streaming.Schedule`; a number tau means every tau ticks. By default geometric with the
        ratio 1.6: few fits, none of which is missing more than the last 3/8 of the ticks and one.
    family, method, penalty, alpha, weights, offset, exposure, subset, adjacency, seed
        As for `dpstats.glm`.
    ledger : Ledger, Part or path, optional
        Charged once, durably, before the first fit; it keeps the tick.
    state : path, optional
        Of the file from which the stream goes on after the process has ended, however it ended.
    **options
        As for `dpstats.glm`, such as ``unit``; ``inference`` is off unless it is asked for.

    Attributes
    ----------
    tick : int
        Ticks closed so far.
    results : GLMResults or None
        The latest fit.

    Raises
    ------
    ArgumentError, FormulaError, DomainError
        Naming the argument and the fix; nothing is read or charged.
    StreamError
        If `state` holds another stream, or is not the valid state of this one.

    Examples
    --------
    >>> import dpstats as dp
    >>> days = dp.streaming.Refits("y ~ x", {"x": (0, 1), "y": (0, 1)}, eps=1, family="huber_svm", horizon=60)
    >>> days.plan().schedule.times
    (1, 2, 3, 5, 7, 11, 17, 27, 43)
    >>> days.update({"x": [0.1, 0.9], "y": [0, 1]}).params.index.tolist()
    ['Intercept', 'x']
    """

    @explain_calls()
    @expand_signature(PlanKeywords, without=("delta", "seed"))
    def __init__(
        self,
        formula: str,
        domain: Domain | Mapping[str, Any],
        eps: float,
        delta: float = 0.0,
        *,
        horizon: int,
        schedule: Schedule | int | None = None,
        family: str | Family = "gaussian",
        ledger: LedgerLike = None,
        state: str | os.PathLike[str] | None = None,
        seed: int | None = None,
        **arguments: Any,
    ) -> None:
        row_terms, asked = split_kwargs(arguments, RowKeywords)
        self._arguments = {"inference": None, **asked}
        model = model_formula(formula, family, **row_terms)
        self._model = (model, family, Domain.coerce(domain))
        times = make_schedule(schedule, horizon)
        self._plan, self._budget = make_refits_plan(self._model, times, eps, delta, self._arguments, seed)
        self._seed = seed
        self._ticks = RefitTicks(self._plan, state, ledger)

    @property
    def tick(self) -> int:
        """Ticks closed so far."""
        return self._ticks.tick

    @property
    def results(self) -> GLMResults | None:
        """The latest fit; None before the first."""
        return self._ticks.results

    def plan(self) -> RefitsPlan:
        """When fits will be made and what they cost; reads nothing.

        Examples
        --------
        >>> days.plan().guarantee == days.guarantee
        True
        """
        return self._plan

    @property
    def guarantee(self) -> Guarantee:
        """Of everything that the stream ever shows."""
        return self._plan.guarantee

    @property
    def fitted(self) -> int:
        """The tick of the latest fit; 0 before the first."""
        return self._plan.schedule.latest(self.tick)

    @property
    def history(self) -> pd.DataFrame:
        """The coefficients of every fit: tick, term, estimate."""
        return WideFrame(self._ticks.history, columns=["tick", "term", "estimate"])

    @hide_frames
    def update(self, so_far: object) -> GLMResults | None:
        """Close a tick, and fit anew if it is one of the schedule's.

        A tick that cannot be recorded, on a full disk or while the ledger stays locked, waits: the next call records
        and shows it and does not look at `so_far`.

        Parameters
        ----------
        so_far : DataFrame or another table, or path
            All rows of the ticks so far, this one's too; whatever `dpstats.glm` takes. Read only if a fit is due.

        Returns
        -------
        GLMResults or None
            The latest fit, `fitted` ticks after the beginning; None before the first.

        Raises
        ------
        ArgumentError, DataError, DomainError
            By the schema of the rows alone; nothing was read, charged or released.
        StreamError
            If the stream is past its horizon, or its state is not the valid one or cannot be written: nothing was
            released.
        BudgetExceeded, LedgerError
            If the ledger does not take the charge, before the first tick, or cannot be written.
        ReleaseError
            If it fails after rows were read; the tick is still open.

        Examples
        --------
        >>> days.update({"x": [0.1, 0.9, 0.5], "y": [0, 1, 1]}).params.shape
        (2,)
        >>> days.fitted, len(days.history["tick"].unique())
        (2, 2)
        """
        ticks = self._ticks
        with ticks.alone():
            ticks.check_usable()
            if ticks.waits:
                ticks.record()
                return self.results
            table = self._checked(as_table(so_far))
            ticks.begin(self._model[2])
            # Frames hold a fit that nobody may see before it is on the disk.
            strip_context(lambda: ticks.close(lambda tick: self._fit(table, tick)))
            return self.results

    def _checked(self, table: Table) -> Table:
        """These rows, whose fit costs what was planned: by the schema alone."""
        check_rows(self._ticks.ledger, self._plan.guarantee, table)
        eps, delta = self._budget
        if self._on(table).plan(eps, delta=delta, **self._arguments).guarantee != self._plan.each.guarantee:
            raise ArgumentError(
                "domain must declare every column that the formula reads, so that all fits cost the same"
            )
        return table

    def _on(self, table: Table) -> GLM:
        """The model of these rows."""
        formula, family, domain = self._model
        return GLM.from_formula(formula, table, family, domain)

    def _fit(self, table: Table, tick: int) -> GLMResults:
        """Read the rows that are paid for and fit; what is drawn leaves the process only once it is on the disk."""
        ledger = self._ticks.ledger
        paid = table if ledger is None else fail_closed(lambda: ledger.rows_of(table))
        eps, delta = self._budget
        seed = None if self._seed is None else self._seed + tick
        return self._on(paid).fit(eps, delta=delta, seed=seed, **self._arguments)

    def __repr__(self) -> str:
        return f"<Refits: tick {self.tick}, fitted at {self.fitted}; {self._plan.guarantee}>"

    def __reduce__(self) -> Any:
        raise StreamError("a stream is not pickled or copied: give it state=, from which it goes on")


def make_schedule(schedule: Schedule | int | None, horizon: int) -> Schedule:
    """The schedule asked for, or the default. ArgumentError if it is neither a schedule for `horizon` nor a period."""
    if schedule is None:
        return Schedule.geometric(horizon, RATIO)
    if isinstance(schedule, Schedule):
        if schedule.horizon != horizon:
            raise ArgumentError(f"horizon must be the schedule's, {schedule.horizon:,}")
        return schedule
    return Schedule.every(schedule, horizon)


def make_refits_plan(
    model: tuple[str, str | Family, Domain],
    schedule: Schedule,
    eps: float,
    delta: float,
    arguments: Mapping[str, Any],
    seed: int | None,
) -> tuple[RefitsPlan, tuple[float, float]]:
    """The plan, and what eps and delta each fit is given."""
    eps, delta = check_budget(eps, delta)
    formula, family, domain = model
    source = FormulaSource(formula, None, domain)

    def request(each_eps: float, each_delta: float) -> Request:
        return make_request(eps=each_eps, delta=each_delta, family=family, **arguments)

    def guarantee(each_eps: float, each_delta: float) -> Guarantee:
        return source.plan(request(each_eps, each_delta)).guarantee

    each_eps, each_delta, total = share(eps, delta, len(schedule.times), guarantee)
    if seed is not None:
        total = total.uncertified(SEEDED)
    guarantee_of_all = replace(total, basis=BASIS)
    return RefitsPlan(schedule, source.plan(request(each_eps, each_delta)), guarantee_of_all), (each_eps, each_delta)
