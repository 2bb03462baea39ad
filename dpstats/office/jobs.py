"""Jobs that were taken: when they may be shown, and the workers that carry them out, one process for each."""

from __future__ import annotations

import contextlib
import fcntl
import math
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from dpstats.office.config import Office
from dpstats.office.request import Job
from dpstats.office.store import OPEN, Store, Unavailable, request_of

FAILED = "the release failed after it was charged; the charge stays"
"""What is told of a job that was charged and failed, whatever happened."""

UNUSABLE = "the data set cannot be used now; nothing was charged. Ask its keeper"
"""What is told of a job that could not be charged for a reason other than the budget."""

CELLS_PER_SECOND = 5e6
"""So many declared rows times columns a worker surely reads in a second; a deadline rests on it, and no guarantee."""

PAYING = 30.0
"""Seconds after which a server that was paying for a job is taken to be gone; its worker pays, under the same key."""

RETRY = 60.0  # seconds between attempts at most
ENVIRONMENT = ("PATH", "HOME", "LANG", "TMPDIR", "PYTHONPATH", "VIRTUAL_ENV", "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS")
"""What a worker needs of the environment: where Python and its packages are, where temporary files may be."""

Worker = subprocess.Popen[str]
_outliving: list[Worker] = []  # workers that go on when their pool has stopped


def first_deadline(least: float, rows: int, columns: int) -> float:
    """Seconds after which a job is shown for the first time, by public facts: `least` times a power of two."""
    return least * 2.0 ** max(0, math.ceil(math.log2(rows * columns / CELLS_PER_SECOND / least)))


def show_time(begun: float, deadline: float, after: float) -> float:
    """The first of begun + deadline, begun + 2 deadline, begun + 4 deadline ... that is not before `after`."""
    late = (after - begun) / deadline
    time_shown = begun + deadline * 2.0 ** max(0, math.ceil(math.log2(late)) if late > 0 else 0)
    return time_shown if time_shown >= after else time_shown + (time_shown - begun)


def job_of(row: Any, result: Any, now: float) -> Job:
    """A job as it may be shown at `now`; `result` makes its result, if it may be."""
    state, ready = row["state"], None
    if row["begun"] is not None:
        ready = show_time(row["begun"], row["deadline"], now if row["ended"] is None else row["ended"])
        if state in ("paying", "taken") or (state in ("released", "failed") and now < ready):
            state, ready = "working", max(ready, show_time(row["begun"], row["deadline"], now))
    shown = result() if state == "released" else None
    message = row["message"] if state in ("refused", "failed") else None
    plain = {name: row[name] for name in ("id", "analyst", "key", "taken", "label")}
    return Job(
        **plain,
        request=request_of(row),
        state=state,
        ready=ready,
        result=shown,
        message=message,
        shared=bool(row["shared"]),
    )


@contextlib.contextmanager
def lease(folder: Path, job: str) -> Iterator[bool]:
    """Whether this process alone works on a job, by a lock of the system that dies with the process."""
    place = folder / "leases"
    place.mkdir(mode=0o700, exist_ok=True)
    descriptor = os.open(place / job, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            yield False
        else:
            yield True
    finally:
        os.close(descriptor)


class Pool:
    """Threads that give jobs to worker processes, and take up again what a crash has left.

    Analysts take turns: the next job is the oldest one of the analyst who was served longest ago. One worker is left
    to others: nobody's jobs hold them all, unless there is one. Each thread has a worker that is started already and
    waits; it carries out one job.
    """

    def __init__(self, office: Office, store: Store) -> None:
        self._office, self._store = office, store
        self._changed = threading.Condition()
        self._claimed: dict[str, str] = {}  # job at work: its analyst
        self._served: dict[str, float] = {}  # analyst: when a job of theirs was last begun
        self._later: dict[str, tuple[float, float]] = {}  # job: time of its next attempt, and the wait before it
        self._threads: list[threading.Thread] = []
        self._stopping = False

    def start(self) -> None:
        self._stopping = False
        self._threads = [threading.Thread(target=self._serve, daemon=True) for _ in range(self._office.workers)]
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        """Start no more workers; those at work finish by themselves."""
        self._stopping = True
        self.wake()
        while self._threads:
            self._threads.pop().join()

    def wake(self) -> None:
        with self._changed:
            self._changed.notify_all()

    def _serve(self) -> None:
        worker = self._started()
        while (job := self._next()) is not None:
            ended = self._carry_out(job, worker)
            with self._changed:
                del self._claimed[job]
                wait = min(RETRY, 2 * self._later.pop(job, (0.0, 0.25))[1])
                self._later |= {} if ended else {job: (time.monotonic() + wait, wait)}
            if worker is None or worker.poll() is not None:
                worker = self._started()
        if worker is not None and worker.stdin is not None and not worker.stdin.closed:
            worker.kill()  # it has no job
            worker.communicate()

    def _started(self) -> Worker | None:
        """A worker that imports all and waits for its job; there is none if the system has no room for one."""
        with contextlib.suppress(OSError):
            return subprocess.Popen(
                [sys.executable, "-m", "dpstats.office.worker", str(self._office.path)],
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                env={name: os.environ[name] for name in ENVIRONMENT if name in os.environ},
                cwd=self._office.path.parent,
                start_new_session=True,
                text=True,
            )
        return None

    def _next(self) -> str | None:
        """The next job, once there is one; None once the pool is stopped."""
        with self._changed:
            while not self._stopping:
                if (job := self._claim()) is not None:
                    return job
                self._changed.wait(0.5)
            return None

    def _claim(self) -> str | None:
        """A job that nobody works on, if one may be begun now."""
        for job, analyst in sorted(self._taken().items(), key=lambda one: self._served.get(one[1], 0.0)):
            at_work = [*self._claimed.values()].count(analyst)
            if job in self._claimed or at_work >= max(1, self._office.workers - 1):
                continue
            if self._later.get(job, (0.0, 0.0))[0] <= time.monotonic():
                self._claimed[job] = analyst
                self._served[analyst] = time.monotonic()
                return job
        return None

    def _taken(self) -> dict[str, str]:
        """Jobs of the data sets of the file that are paid for, the oldest first, with their analysts."""
        paid = "state = 'taken' OR (state = 'paying' AND begun < ?)"
        with contextlib.suppress(Unavailable):
            jobs = self._store.rows(f"SELECT * FROM job WHERE {paid} ORDER BY begun", (time.time() - PAYING,))
            return {row["id"]: row["analyst"] for row in jobs if row["dataset"] in self._office.datasets}
        return {}

    def _carry_out(self, job: str, worker: Worker | None = None) -> bool:
        """Have a worker carry out a job; whether it has ended."""
        with lease(self._office.folder, job) as free:
            if not free:  # a worker of a server that is gone, or of another one
                return False
        if worker is not None and worker.stdin is not None:
            with contextlib.suppress(OSError), worker.stdin as pipe:  # it may have been killed
                pipe.write(f"{job}\n")
            while worker.poll() is None:
                if self._stopping:
                    _outliving.append(worker)
                    return False
                with contextlib.suppress(subprocess.TimeoutExpired):
                    worker.wait(0.25)
        with contextlib.suppress(Unavailable):
            row = self._store.row("SELECT state FROM job WHERE id = ?", (job,))
            return row is not None and row["state"] not in OPEN
        return False
