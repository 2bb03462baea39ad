"""A stream of regressions while it runs: each tick is charged, read, stepped, made durable and only then shown.

What it has released is public and kept, so that any interval can be looked at again: in a file beside the state as
records of one length, or the latest ones in memory. A record is a checksum of 8 bytes and the numbers. Records of older
versions begin with the number of their tick instead, and are read without a check.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from dpstats.arguments import is_whole
from dpstats.data import Table, as_table
from dpstats.errors import ArgumentError, StreamError
from dpstats.ledger import Part
from dpstats.ledger.ledger import LedgerLike
from dpstats.models.release import check_rows
from dpstats.models.sources import cap_response
from dpstats.quiet import fail_closed, quiet, strip_context
from dpstats.streaming.burn_in import EARLY, choose_burn_in
from dpstats.streaming.checkpoint import DurableTicks, PendingTick, on_disk, write_durably
from dpstats.streaming.labels import ClosedLabels
from dpstats.streaming.plan import StreamPlan, neighbouring_rows
from dpstats.streaming.sums import PrefixSums, stored_plan
from dpstats.streaming.sums.lattice import Float, Integers, zeros


class Release(NamedTuple):
    """The release of one tick."""

    total: Float  # shape (size,). The noisy sum of all ticks
    released: Float  # shape (size,). What the workload makes of the ticks, those up to `start` left out
    params: Float  # shape (p,). Coefficients in model units
    start: Float  # shape (1,). A whole number of ticks

    def numbers(self) -> Float:
        """All numbers, shape (2 size + p + 1,)."""
        return np.concatenate(self)

    @classmethod
    def of(cls, numbers: Float, size: int) -> Release:
        """From an array as `numbers` makes it, for sums of this size."""
        return cls(*np.split(numbers, [size, 2 * size, len(numbers) - 1]))


class Releases:
    """The releases of a stream by tick."""

    def __init__(self, size: int, columns: int, path: Path | None, recall: int) -> None:
        self._size, self._length, self._path = size, 8 * (2 + 2 * size + columns), path
        self._latest: deque[Release] = deque(maxlen=recall + 1)
        self._before = Release.of(np.zeros(1 + 2 * size + columns), size)
        self.tick, self.last = 0, self._before
        self.early: list[Release] = []
        """The first releases, from that before the first tick on, as long as none is missing."""

    def restore(self, tick: int, latest: Release) -> None:
        """Continue after `tick`, whose release a killed process may not have written."""
        self.tick, self.last = tick, latest
        if self._path is None or tick == 0:
            return
        try:
            intact = self._read(tick).numbers().tobytes() == latest.numbers().tobytes()
        except StreamError:
            intact = False
        if not intact:
            self._write(tick, latest)
        with contextlib.suppress(StreamError):
            for early in range(min(tick, EARLY) + 1):
                self.early.append(self.at(early))

    def append(self, release: Release) -> None:
        """Store the release of the next tick. If it cannot be written, nothing changes and it may be tried again."""
        if self._path is not None:
            self._write(self.tick + 1, release)
        if self.tick == 0:
            self.early = [self._before]
        self.tick, self.last = self.tick + 1, release
        if len(self.early) == self.tick <= EARLY:
            self.early.append(release)
        if self._path is None:
            self._latest.append(release)

    def at(self, tick: int) -> Release:
        """The release of `tick`; before the first one all sums are 0."""
        if not 0 <= tick <= self.tick:
            raise ArgumentError(f"ticks must lie between 0 and {self.tick}, the ticks so far")
        if tick == self.tick:
            return self.last
        if tick == 0:
            return self._before
        if self._path is not None:
            return self._read(tick)
        place = tick - self.tick + len(self._latest) - 1
        if place < 0:
            raise ArgumentError(
                f"tick {tick} is no longer kept: start the stream with a larger recall=, or with state="
            )
        return self._latest[place]

    @property
    def first(self) -> int:
        """The first tick that is remembered."""
        return 1 if self._path is not None else self.tick - len(self._latest) + 1

    def _write(self, tick: int, release: Release) -> None:
        assert self._path is not None
        numbers = release.numbers().astype("<f8").tobytes()
        record = checksum(tick, numbers) + numbers
        with on_disk(self._path):
            write_durably(self._path, record, (tick - 1) * len(record))

    def _read(self, tick: int) -> Release:
        assert self._path is not None
        content = b""
        with on_disk(self._path), contextlib.suppress(FileNotFoundError), open(self._path, "rb") as file:
            file.seek((tick - 1) * self._length)
            content = file.read(self._length)
        # Where an earlier record is missing the file has a hole, which reads as zeros.
        marks = (checksum(tick, content[8:]), np.array([tick], dtype="<f8").tobytes())
        if len(content) != self._length or content[:8] not in marks:
            raise StreamError(
                f"the releases up to tick {tick} are missing from {self._path.name!r} or damaged; restore that file"
            )
        return Release.of(np.frombuffer(content[8:], dtype="<f8"), self._size)


def checksum(tick: int, numbers: bytes) -> bytes:
    """The checksum of a record and its tick: a truncated or misplaced release does not match."""
    return hashlib.sha256(b"%d:" % tick + numbers).digest()[:8]


class RunningStream(DurableTicks):
    """A stream of sums while it runs."""

    def __init__(
        self,
        plan: StreamPlan,
        *,
        ledger: LedgerLike,
        state: str | os.PathLike[str] | None,
        recall: int,
        seed: int | None,
    ) -> None:
        if not is_whole(recall) or not 1 <= recall < 2**31:
            raise ArgumentError("recall must be a positive integer: the number of releases to keep")
        super().__init__(state, ledger, plan.sums.mechanism.workload.ticks)
        path = self._checkpoint.path
        releases_path = None if path is None else path.with_name(f"{path.name}.releases")
        self.plan = plan
        self.releases = Releases(plan.vector.size, len(plan.names), releases_path, int(recall))
        self._counted = False
        self._load(plan.digest())
        if not self._begun:
            self._sums = plan.sums.start(seed=seed)

    _sums: PrefixSums

    @property
    def tick(self) -> int:
        return self.releases.tick

    @property
    def columns(self) -> list[str]:
        """The columns that are read of every table."""
        ledger = self._checkpoint.ledger
        return [*self.plan.design.columns, *(ledger.columns if isinstance(ledger, Part) else ())]

    def table(self, rows: object) -> Table:
        table = as_table(rows)
        self.plan.design.check_schema(table)
        check_rows(self._checkpoint.ledger, self.plan.guarantee, table)
        return table

    def begin(self, counted: int | None = None) -> None:
        """As `DurableTicks.begin`; StreamError if rows are counted in a stream that was charged for without."""
        if not self._begun and self._checkpoint.entry is None:
            self._counted = counted is not None
        elif counted is not None and not self._counted and self.plan.guarantee.adjacency == "add_remove":
            raise StreamError(
                "tick: this stream was started with ticks whose number of rows is private, and ticks of a public "
                "number of rows would reveal it; close them with update or by a column, or start a new stream"
            )
        if self._begun:
            return
        plan = self.plan
        label = plan.title if counted is None else f"{plan.title}; ticks of {counted:,} rows, whose number is public"
        if plan.guarantee.unit is not None:
            often = neighbouring_rows(plan.guarantee, plan.sums.mechanism.participation)
            label = f"{label}; one {plan.guarantee.unit} {often}, which is not checked"
        names = {"label": label, "method": f"stream, {plan.method}", "formula": plan.formula}
        entry = {**names, "domain": plan.design.domain, "columns": plan.design.columns}
        # The first state holds noise.
        strip_context(lambda: self._checkpoint.begin(self._facts(0, self.releases.last, None), plan.guarantee, **entry))
        self._begun = True

    def _compute(self, tables: Sequence[Table], label: str | None) -> Callable[[], PendingTick]:
        vector = fail_closed(lambda: self._vector(tables))

        def step() -> PendingTick:
            release = self._step(vector)
            return PendingTick(self._facts(self.tick + 1, release, label), release, label)

        return step

    def _show(self, release: Release, label: str | None) -> None:
        self.releases.append(release)
        self.label, self._labels = label, self._labels.followed_by(label)

    def linearised(self, a: int, b: int) -> tuple[Float, Float]:
        """Coefficients at which the ticks a + 1, ..., b were linearised, and their weights, shapes (k, p) and (k,).

        Of the first few alone, the last of which stands for all that follow; nothing for linear sums.
        """
        if self.plan.method == "linear":
            return np.zeros((0, len(self.plan.names))), np.zeros(0)
        ticks = range(a, min(b, a + EARLY))
        early = self.releases.early
        releases = [early[tick] if tick < len(early) else self.releases.at(tick) for tick in ticks]
        decay = self.plan.sums.mechanism.workload.decay
        weights: Float = np.power(decay, b - 1.0 - np.arange(a, b))
        weights[len(ticks) - 1] += weights[len(ticks) :].sum()
        return np.array([one.params for one in releases]), weights[: len(ticks)]

    def _vector(self, pieces: Sequence[Table]) -> Integers:
        """The exact sum of the rows' vectors. Reads rows."""
        plan, total = self.plan, zeros(1, self.plan.vector.size)[0]
        for piece in pieces:
            paid = piece.only(self.columns)
            if self._checkpoint.ledger is not None:
                paid = self._checkpoint.ledger.rows_of(paid)
            try:
                rows = plan.design.rows(paid).map(partial(cap_response, plan.family))
                total = total + plan.vector.exact(rows, self.releases.last.params)
            finally:
                paid.forget()
        return plan.vector.steps(total, plan.sums.step)

    def _step(self, vector: Integers) -> Release:
        """The next release."""
        plan, tick, latest = self.plan, self.tick + 1, self.releases.last.params
        released, start = self._sums.step(vector), 0
        total = self._sums.total
        with quiet():
            if plan.may_start_late:
                early = self.releases.early or [self.releases.at(0)]
                points = [*(one.params for one in early[:tick]), latest]
                start, released, params = choose_burn_in(plan, [one.total for one in early], points, tick, total)
            else:
                params = plan.fitting.params(released, plan.deviation(tick), latest, plan.weighed(tick))
        return Release(total, released, params, np.array([float(start)]))

    def _facts(self, tick: int, release: Release, label: str | None) -> dict[str, Any]:
        """The state, for JSON."""
        return {
            "stream": "regression",
            "plan": self.plan.digests(),
            "identity": self._identity,
            "tick": tick,
            "label": label,
            "labels": self._labels.followed_by(label).to_list(),
            "beyond": self._labels.beyond,
            "counted": self._counted,
            "release": [value.hex() for value in release.numbers().tolist()],
            "sums": self._sums.to_bytes().decode(),
        }

    def _resume(self, facts: dict[str, Any]) -> None:
        """Continue from a state. StreamError if it is that of another stream."""
        if facts.get("stream") != "regression":
            raise StreamError("state: this is not the state of a regression")
        self.plan = self.plan.on_noise_of(stored_plan(facts["sums"].encode()))
        digests = self.plan.digests()
        if changed := [name for name, digest in digests.items() if facts["plan"].get(name) != digest]:
            # The columns and the model follow the formula.
            changed = ["formula"] if "formula" in changed else changed
            raise StreamError(
                f"state: it belongs to a stream with another {'; another '.join(changed)}. Open it with the "
                "arguments it was started with, or start a new stream with another state"
            )
        self.label, self._counted = facts["label"], facts["counted"]
        # States of before have the last label alone.
        beyond = facts.get("beyond") if "labels" in facts else self.label
        self._labels = ClosedLabels(facts.get("labels", ()), beyond).followed_by(self.label)
        self._sums = PrefixSums.from_bytes(facts["sums"].encode(), self.plan.sums)
        numbers = np.array([float.fromhex(value) for value in facts["release"]])
        self.releases.restore(int(facts["tick"]), Release.of(numbers, self.plan.vector.size))
