"""A stream that is killed at random instants, raced for and turned back to old states: what is released, and charged.

    python -m benchmarks.streams.kills [kills]

Processes close ticks of one stream, charged to one ledger, until each is killed (SIGKILL); then a race of eight, and
old states put back. Counted are ticks of which two different releases were ever seen, charges, and refusals.
"""

from __future__ import annotations

import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pandas as pd

import dpstats as dp
from dpstats.errors import StreamError
from dpstats.streaming import Regression

DOMAIN = {"x": (-1, 1), "y": (-2, 2)}
LAST = 100_000


def opened(folder: Path, name: str = "state") -> Regression:
    """The stream as its state has it."""
    ledger = dp.Ledger.open(folder / "ledger")
    return Regression("y ~ x", DOMAIN, 1.0, 1e-6, horizon=LAST, ledger=ledger, state=folder / name)


def rows() -> pd.DataFrame:
    """Other rows at every call: what a process that is killed has read is not read again."""
    cells = np.random.default_rng().uniform(-1, 1, (50, 2))
    return pd.DataFrame({"x": cells[:, 0], "y": cells.sum(axis=1)})


def work(folder: Path, ticks: int) -> None:
    """Close ticks until there are so many, printing each release."""
    stream = opened(folder)
    print("open", flush=True)
    while stream.tick < ticks:
        try:
            result = stream.update(rows())
            print(stream.tick, result.scaled_params.tobytes().hex(), flush=True)
        except StreamError:
            print("refused", flush=True)
            stream = opened(folder)


def started(folder: Path, ticks: int) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "benchmarks.streams.kills", "work", str(folder), str(ticks)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


class Seen:
    """Releases by tick, as processes printed them and as the stream shows them."""

    def __init__(self) -> None:
        self.by_tick: dict[int, set[str]] = {}
        self.refused = 0

    def read(self, process: subprocess.Popen[str]) -> None:
        for line in process.communicate()[0].splitlines():
            tick, _, content = line.partition(" ")
            self.refused += line == "refused"
            if content and len(content) == 32:  # whole lines alone: a kill may cut one
                self.by_tick.setdefault(int(tick), set()).add(content)

    def look(self, stream: Regression) -> None:
        for tick in range(1, stream.tick + 1):
            self.by_tick.setdefault(tick, set()).add(stream.at(tick).scaled_params.tobytes().hex())

    @property
    def doubled(self) -> int:
        return sum(len(found) > 1 for found in self.by_tick.values())


def kills(folder: Path, count: int, seen: Seen) -> None:
    """Kill processes at random instants after they were started: while they import, open, charge, close ticks."""
    instants, ready = random.Random(0), 1.5
    for _ in range(count):
        start = time.monotonic()
        process = started(folder, LAST)
        if instants.random() < 0.75:
            assert process.stdout is not None
            process.stdout.readline()
            ready = time.monotonic() - start
            time.sleep(instants.uniform(0.0, 0.25))
        else:
            time.sleep(instants.uniform(0.8, 1.1) * ready)
        process.send_signal(signal.SIGKILL)
        seen.read(process)


def race(folder: Path, racers: int, ticks: int, seen: Seen) -> None:
    """Several processes close the same ticks."""
    goal = opened(folder).tick + ticks
    for process in [started(folder, goal) for _ in range(racers)]:
        seen.read(process)


def restored(folder: Path, times: int) -> int:
    """How often an old state was refused, of so many that were put back."""
    refused = 0
    for _ in range(times):
        shutil.copy(folder / "state", folder / "old")
        opened(folder).update(rows())
        shutil.copy(folder / "state", folder / "valid")
        shutil.copy(folder / "old", folder / "state")
        try:
            opened(folder).update(rows())
        except StreamError:
            refused += 1
        shutil.copy(folder / "valid", folder / "state")
    return refused


def main(arguments: Sequence[str]) -> None:
    if arguments[:1] == ["work"]:
        work(Path(arguments[1]), int(arguments[2]))
        return
    count = int(arguments[0]) if arguments else 200
    with tempfile.TemporaryDirectory() as made:
        folder, seen = Path(made), Seen()
        ledger = dp.Ledger(folder / "ledger", dataset="d", eps=10.0, delta=1e-4)
        kills(folder, count, seen)
        seen.look(opened(folder))
        print(
            f"{count} kills: {opened(folder).tick} ticks closed, {seen.doubled} with two releases, "
            f"{len(ledger.entries())} charge"
        )
        before = opened(folder).tick
        race(folder, 8, 40, seen)
        seen.look(opened(folder))
        print(
            f"race of 8: {opened(folder).tick - before} ticks, {seen.refused} refusals, {seen.doubled} with two "
            f"releases, {len(ledger.entries())} charge"
        )
        print(f"old states put back: {restored(folder, 20)} of 20 refused")


if __name__ == "__main__":
    main(sys.argv[1:])
