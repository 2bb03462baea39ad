"""A batch method run anew on all rows of a stream at ticks fixed beforehand: PrivIncERM of source 001, section 3.

For what has no sums to be kept: support vector machines, the lasso, any loss and method of `dpstats.glm`. Proof:
docs/proofs/geometry, 4.
"""

from __future__ import annotations

import hashlib
import json
import os
import secrets
import threading
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import pandas as pd

from dpstats.arguments import explain_calls
from dpstats.call import SEEDED, PlanKeywords, Request, RowKeywords, expand_signature, make_request, split_kwargs
from dpstats.data import Table, as_table
from dpstats.domain import Domain
from dpstats.errors import ArgumentError, StreamError
from dpstats.families import Family
from dpstats.frames import WideFrame
from dpstats.ledger.ledger import LedgerLike
from dpstats.models.charging import check_rows
from dpstats.models.glm import GLM
from dpstats.models.sources import FormulaSource, model_formula
from dpstats.plan import Plan
from dpstats.plan.tables import wrap_notes
from dpstats.privacy.guarantee import Guarantee, check_budget
from dpstats.quiet import fail_closed, hide_frames, strip_context
from dpstats.results.glm_results import GLMResults
from dpstats.streaming.checkpoint import BROKEN, LOST, Checkpoint
from dpstats.streaming.schedules import RATIO, Schedule, share

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
        shown = ", ".join(f"{tick:,}" for tick in times[:12]) + (", ..." if len(times) > 12 else "")
        return [
            f"{len(times)} fits on all rows so far, after the ticks {shown} of {self.schedule.horizon:,}: up to "
            f"{self.schedule.staleness:.0%} of the ticks so far are not in the latest one.",
            f"Each spends eps={spent.eps:.4g}, delta={spent.delta:.3g}; together they are {self.guarantee}.",
            "Streams of linear or logistic models have less noise at every tick from sums: dp.streaming.Regression.",
        ]

    def __str__(self) -> str:
        return "\n".join(wrap_notes(self.notes()))


class Waiting(NamedTuple):
    """A tick that is closed but could not be recorded, and what it will show."""

    facts: dict[str, Any]
    results: GLMResults | None
    history: list[dict[str, Any]]


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
        When to fit: `dpstats.streaming.schedules`; a number tau means every tau ticks. By default geometric with the
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
        beside, asked = split_kwargs(arguments, RowKeywords)
        self._arguments = {"inference": None, **asked}
        whole = model_formula(formula, family, **beside)
        self._model = (whole, family, Domain.coerce(domain))
        times = make_schedule(schedule, horizon)
        self._plan, self._budget = make_refits_plan(self._model, times, eps, delta, self._arguments, seed)
        self._seed = seed
        self.tick, self.results = 0, None
        self._history: list[dict[str, Any]] = []
        self._identity, self._begun, self._broken = secrets.token_hex(16), False, False
        self._process, self._lock = os.getpid(), threading.Lock()
        self._waiting: Waiting | None = None
        self._keeper = Checkpoint(state, ledger)
        found = self._keeper.load()
        if found is not None:
            self._resume(found)

    results: GLMResults | None

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
        return WideFrame(self._history, columns=["tick", "term", "estimate"])

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
        if not self._lock.acquire(blocking=False):
            raise StreamError("another thread is closing a tick of this stream: close one after the other")
        try:
            self._check_usable()
            # Frames hold a fit that nobody may see before it is on the disk.
            if self._waiting is not None:
                strip_context(self._record)
                return self.results
            table = self._checked(as_table(so_far))
            self._begin()
            strip_context(lambda: self._close(table))
            return self.results
        finally:
            self._lock.release()

    def _close(self, table: Table) -> None:
        """Close the tick, which is paid for."""
        tick = self.tick + 1
        due = tick in self._plan.schedule.times
        found = self._fit(table, tick) if due else self.results
        history = [*self._history, *(_records(tick, found) if due and found is not None else [])]
        self._waiting = Waiting(self._facts(tick, found, history), found, history)
        self._record()

    def _record(self) -> None:
        """Record and show the tick that waits: of a fit that could not be recorded there is never a second one."""
        assert self._waiting is not None
        self._broken = True  # until the tick is on the disk, unless it can be tried again
        facts, found, history = self._waiting
        try:
            self._keeper.commit(facts)
        except BaseException as error:
            self._broken = not self._keeper.may_retry(error)
            raise
        self.tick, self.results, self._history = self.tick + 1, found, history
        self._waiting, self._broken = None, False

    def _checked(self, table: Table) -> Table:
        """These rows, whose fit costs what was planned: by the schema alone."""
        check_rows(self._keeper.ledger, self._plan.guarantee, table)
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
        ledger = self._keeper.ledger
        paid = table if ledger is None else fail_closed(lambda: ledger.rows_of(table))
        eps, delta = self._budget
        seed = None if self._seed is None else self._seed + tick
        return self._on(paid).fit(eps, delta=delta, seed=seed, **self._arguments)

    def _begin(self) -> None:
        """Charge the ledger and write the first state, once."""
        if not self._begun:
            names = {"label": self._plan.title, "method": "refits", "formula": str(self._plan.each.formula)}
            domain = self._model[2]
            said = {**names, "domain": domain, "columns": FormulaSource(names["formula"], None, domain).columns}
            self._keeper.begin(self._facts(0, None, []), self._plan.guarantee, **said)
            self._begun = True

    def _check_usable(self) -> None:
        if self._broken:
            raise StreamError(LOST if self._keeper.path is None else BROKEN)
        if os.getpid() != self._process:
            raise StreamError("the stream belongs to another process, from which this one was forked: open it there")
        if self.tick >= self._plan.schedule.horizon:
            last = self._plan.schedule.horizon
            raise StreamError(f"the stream is past its last tick, {last:,}: declare a longer horizon for a new one")

    def _facts(self, tick: int, found: GLMResults | None, history: list[dict[str, Any]]) -> dict[str, Any]:
        """The state, for JSON: released values and public facts alone."""
        return {
            "stream": "refits",
            "plan": self._plan.digest(),
            "identity": self._identity,
            "tick": tick,
            "results": None if found is None else found.to_dict(),
            "history": history,
        }

    def _resume(self, facts: dict[str, Any]) -> None:
        """Go on from a state; StreamError if it is that of another stream."""
        if facts.get("stream") != "refits" or facts["plan"] != self._plan.digest():
            raise StreamError("state: it belongs to another stream; open it as it was begun, or give another file")
        self._identity, self._begun = facts["identity"], True
        self.tick, self._history = int(facts["tick"]), facts["history"]
        self.results = None if facts["results"] is None else GLMResults.from_dict(facts["results"])

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
    whole = replace(total, basis=BASIS)
    return RefitsPlan(schedule, source.plan(request(each_eps, each_delta)), whole), (each_eps, each_delta)


def _records(tick: int, found: GLMResults) -> list[dict[str, Any]]:
    return [{"tick": tick, "term": str(name), "estimate": float(value)} for name, value in found.params.items()]
