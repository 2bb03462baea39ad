"""A stream of regressions while it runs: each tick is charged, read, stepped, made durable and only then shown."""

from __future__ import annotations

import contextlib
import os
import secrets
import threading
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dpstats.arguments import safe_repr
from dpstats.data import Block, Table, as_table
from dpstats.errors import ArgumentError, StreamError
from dpstats.families import Family
from dpstats.ledger import Part
from dpstats.ledger.ledger import LedgerLike
from dpstats.models.charging import check_rows
from dpstats.models.sources import cap_response
from dpstats.quiet import fail_closed, quiet, strip_context
from dpstats.streaming.checkpoint import BROKEN, LOST, Checkpoint
from dpstats.streaming.fit import invert_information, remainder, squared_distances
from dpstats.streaming.plan import StreamPlan, rows_of_one
from dpstats.streaming.releases import EARLY, Release, Releases
from dpstats.streaming.sums import PrefixSums

Float = NDArray[np.float64]

SHARE = 1 / 2
"""At most this share of the ticks is left out."""

MOST = EARLY
"""Later ticks than this are never left out: coefficients have settled by then, or never will."""


class BurnIn(NamedTuple):
    """Sums of the ticks start + 1, ..., t, and the coefficients that follow."""

    start: int
    sums: Float
    params: Float


def choose_burn_in(
    plan: StreamPlan, totals: Sequence[Float], params: Sequence[Float], tick: int, total: Float
) -> BurnIn:
    """The start of the least predicted excess: of noise, of the linearisation, and of the rows that are left out.

    `totals` are the noisy sums of the first 0, 1, ..., `MOST` ticks, as far as there are, `total` that of all; `params`
    the coefficients at which the ticks 1, 2, ... were linearised, and the latest ones last.
    """
    fitting, latest = plan.fitting, params[-1]
    size = len(latest)
    starts = [0, *(2**power for power in range(7) if 2**power <= min(tick * SHARE, MOST, len(totals) - 1))]
    whole = fitting.equations(fitting.moments(total, plan.interval_deviation(0, tick)))
    apart = np.array(params[: min(tick, MOST)]) - latest
    squares = squared_distances(apart, whole.information) / tick
    found: list[tuple[float, BurnIn]] = []
    for start in starts:
        sums = total - totals[start]
        equations = whole
        if start:
            equations = fitting.equations(fitting.moments(sums, plan.interval_deviation(start, tick)))
        inverse = invert_information(equations, plan.radius)
        noise = float(np.sum(equations.coefficient_noise(latest) * inverse))
        bias = remainder(float(squares[start:].sum()), inverse) ** 2
        fewer = size * start / (tick - start) * (plan.design.score_ratio or 1.0)
        deviation = plan.interval_deviation(start, tick)
        solved = fitting.solve(equations, deviation, latest, tick - start)
        found.append((noise + bias + fewer, BurnIn(start, sums, solved)))
    return min(found, key=lambda one: one[0])[1]


class Waiting(NamedTuple):
    """A tick that is computed but not shown yet."""

    facts: dict[str, Any] | None  # The state after it; None once that is valid
    release: Release
    label: str | None


class RunningStream:
    """What changes while a stream runs."""

    def __init__(
        self,
        plan: StreamPlan,
        *,
        ledger: LedgerLike,
        state: str | os.PathLike[str] | None,
        recall: int,
        seed: int | None,
    ) -> None:
        if isinstance(recall, bool) or not isinstance(recall, (int, np.integer)) or not 1 <= recall < 2**31:
            raise ArgumentError("recall must be a positive integer: the releases to remember")
        self.plan = plan
        self._keeper = Checkpoint(state, ledger)
        path = self._keeper.path
        kept = None if path is None else path.with_name(f"{path.name}.releases")
        self.releases = Releases(plan.vector.size, len(plan.names), kept, int(recall))
        self.label: str | None = None
        self._counted = False
        self._process, self._broken, self._lock = os.getpid(), False, threading.Lock()
        self._waiting: Waiting | None = None
        found = self._keeper.load()
        self._begun = found is not None
        if found is None:
            self._identity = f"{plan.digest()}:{secrets.token_hex(16)}"
            self._sums = plan.sums.start(seed=seed)
        else:
            self._resume(found)

    @property
    def tick(self) -> int:
        """Ticks closed so far."""
        return self.releases.tick

    @property
    def columns(self) -> list[str]:
        """Those that are read of every table."""
        ledger = self._keeper.ledger
        return [*self.plan.design.columns, *(ledger.columns if isinstance(ledger, Part) else ())]

    def table(self, rows: object) -> Table:
        """`rows` as a table that the formula can read and the ledger pays for, judged by its schema alone.

        ArgumentError, DataError, DomainError if it is not.
        """
        table = as_table(rows)
        self.plan.design.check_schema(table)
        check_rows(self._keeper.ledger, self.plan.guarantee, table)
        return table

    def check_usable(self) -> None:
        """StreamError unless this object may close another tick, or the one that waits."""
        if self._broken:
            raise StreamError(LOST if self._keeper.path is None else BROKEN)
        if os.getpid() != self._process:
            raise StreamError("the stream belongs to another process, from which this one was forked: open it there")
        last = self.plan.sums.mechanism.workload.ticks
        if self.tick >= last:
            raise StreamError(f"the stream is past its last tick, {last:,}: declare a longer horizon for a new one")

    def check_label(self, label: str | None) -> None:
        """Raise unless `label` may follow the last one, or is that of the tick that waits."""
        if label is not None and not isinstance(label, str):
            raise ArgumentError("label must be text: the public name of a tick")
        if self._waiting is not None:
            if label != self._waiting.label:
                named = "no label" if self._waiting.label is None else f"label={safe_repr(self._waiting.label)}"
                raise StreamError(f"label: the tick that waits to be recorded has {named}; call update with that first")
            return
        if self.tick and (label is None) != (self.label is None):
            raise ArgumentError("label must be given for every tick, or for none")
        if label is not None and self.label is not None and label <= self.label:
            raise StreamError("label: this tick is out of order; the tick closed last is this one or a later one")

    def begin(self, counted: int | None = None) -> None:
        """Charge the ledger and write the first state, once.

        StreamError if rows are counted in a stream that was charged for without.
        """
        if self._begun or self._keeper.entry is not None:
            self._check_counted(counted)
        else:
            self._counted = counted is not None
        if self._begun:
            return
        plan = self.plan
        label = plan.title if counted is None else f"{plan.title}; ticks of {counted:,} rows, whose number is public"
        if plan.guarantee.unit is not None:
            often = rows_of_one(plan.guarantee, plan.sums.mechanism.participation)
            label = f"{label}; one {plan.guarantee.unit} {often}, which is not checked"
        names = {"label": label, "method": f"stream, {plan.method}", "formula": plan.formula}
        said = {**names, "domain": plan.design.domain, "columns": plan.design.columns}
        strip_context(lambda: self._keeper.begin(self._facts(0, self.releases.last, None), plan.guarantee, **said))
        self._begun = True

    def _check_counted(self, counted: int | None) -> None:
        if counted is not None and not self._counted and self.plan.guarantee.adjacency == "add_remove":
            raise StreamError(
                "tick: this stream was begun with ticks whose number of rows is private, and ticks of so many rows "
                "would tell it; close them with update or by a column, or begin a new stream"
            )

    def close(self, pieces: Sequence[Table], label: str | None) -> None:
        """Close a tick, whose rows are charged for; see `begin`."""
        # Frames hold the exact sums, and a release that nobody may see before it is on the disk.
        strip_context(lambda: self._close(pieces, label))

    @contextlib.contextmanager
    def alone(self) -> Iterator[None]:
        """One tick at a time: two that are closed at once would be given the same noise.

        StreamError if another thread is closing one.
        """
        if not self._lock.acquire(blocking=False):
            raise StreamError("another thread is closing a tick of this stream: close one after the other")
        try:
            yield
        finally:
            self._lock.release()

    def _close(self, pieces: Sequence[Table], label: str | None) -> None:
        vector = fail_closed(lambda: self._vector(pieces))
        self._broken = True  # until the step is whole: half of one can neither be gone on from nor taken back
        release = self._step(vector)
        self._waiting = Waiting(self._facts(self.tick + 1, release, label), release, label)
        self._record()

    @property
    def waits(self) -> bool:
        """Whether a tick is computed that could not be recorded: it is the next one, whatever rows come."""
        return self._waiting is not None

    def record(self) -> None:
        """Record and show the tick that waits. Reads no rows: others would be released with the same noise."""
        strip_context(self._record)

    def _record(self) -> None:
        assert self._waiting is not None
        self._broken = True  # until the tick is on the disk, unless it can be tried again
        try:
            if self._waiting.facts is not None:
                self._keeper.commit(self._waiting.facts)
                self._waiting = self._waiting._replace(facts=None)
            self.releases.append(self._waiting.release)
        except BaseException as error:
            self._broken = not self._keeper.may_retry(error)
            raise
        self.label, self._waiting, self._broken = self._waiting.label, None, False

    def linearised(self, a: int, b: int) -> tuple[Float, Float]:
        """Where the ticks a + 1, ..., b were linearised, and what each stands for, shapes (k, p) and (k,).

        Of the first few alone, the last of which stands for all that follow; nothing for linear sums.
        """
        if self.plan.method == "linear":
            return np.zeros((0, len(self.plan.names))), np.zeros(0)
        ticks = np.arange(a, min(b, a + EARLY))
        early = self.releases.early
        found = [early[tick] if tick < len(early) else self.releases.at(tick) for tick in ticks.tolist()]
        decay = self.plan.sums.mechanism.workload.decay
        weights: Float = np.power(decay, b - 1.0 - np.arange(a, b))
        weights[len(ticks) - 1] += weights[len(ticks) :].sum()
        return np.array([one.params for one in found]), weights[: len(ticks)]

    def _vector(self, pieces: Sequence[Table]) -> NDArray[np.object_]:
        """The exact sum of the rows' vectors. Reads rows."""
        plan, total = self.plan, np.full(self.plan.vector.size, 0, dtype=object)
        for piece in pieces:
            paid = piece.only(self.columns)
            if self._keeper.ledger is not None:
                paid = self._keeper.ledger.rows_of(paid)
            try:
                rows = plan.design.rows(paid).each(_Capped(plan.family))
                total = total + plan.vector.exact(rows, self.releases.last.params)
            finally:
                paid.forget()
        return plan.vector.steps(total, plan.sums.step)

    def _step(self, vector: NDArray[np.object_]) -> Release:
        """The next release."""
        plan, tick = self.plan, self.tick + 1
        released = self._sums.step(vector)
        total = self._sums.total
        with quiet():
            if plan.may_start_late:
                early = self.releases.early or [self.releases.at(0)]
                params = [one.params for one in early][:tick]
                latest = self.releases.last.params
                chosen = choose_burn_in(plan, [one.total for one in early], [*params, latest], tick, total)
                return Release(total, chosen.sums, chosen.params, np.array([float(chosen.start)]))
            ticks = plan.weighed(tick)
            found = plan.fitting.params(released, plan.deviation(tick), self.releases.last.params, ticks)
        return Release(total, released, found, np.zeros(1))

    def _facts(self, tick: int, release: Release, label: str | None) -> dict[str, Any]:
        """The state, for JSON."""
        return {
            "stream": "regression",
            "plan": self.plan.digests(),
            "identity": self._identity,
            "tick": tick,
            "label": label,
            "counted": self._counted,
            "release": [value.hex() for value in release.numbers().tolist()],
            "sums": self._sums.to_bytes().decode(),
        }

    def _resume(self, facts: dict[str, Any]) -> None:
        """Go on from a state. StreamError if it is that of another stream."""
        if facts.get("stream") != "regression":
            raise StreamError("state: this is no state of a regression")
        ours = self.plan.digests()
        if changed := [name for name, digest in ours.items() if facts["plan"].get(name) != digest]:
            raise StreamError(
                f"state: it belongs to a stream with another {'; another '.join(changed)}. Open it as it was begun, or "
                "begin a new stream with a state of its own"
            )
        self._identity, self.label, self._counted = facts["identity"], facts["label"], facts["counted"]
        self._sums = PrefixSums.from_bytes(facts["sums"].encode(), self.plan.sums)
        numbers = np.array([float.fromhex(value) for value in facts["release"]])
        self.releases.restore(int(facts["tick"]), Release.of(numbers, self.plan.vector.size))


class _Capped:
    """`cap_response` with a family, picklable."""

    def __init__(self, family: Family) -> None:
        self.family = family

    def __call__(self, block: Block) -> Block:
        return cap_response(self.family, block)
