"""Streams that are killed at random instants, raced for and turned back to old states: what is released, and charged.

    python -m benchmarks.streams.kills [kills]

Processes begin streams and close their ticks, all charged to one ledger, until each is killed (SIGKILL) at an instant
that is random after a random number of its steps: while it starts, begins the stream, pays for it, opens its state or
closes ticks. Then there is a race of eight, and old states are put back. Every release that was seen is kept as a hash
of all its bytes. Counted are ticks of which two different releases were ever seen, charges, and refusals.

Processes are forked from one that has imported the package, but for a tenth of them and the racers, which start anew.
"""

from __future__ import annotations

import contextlib
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from hashlib import sha256
from pathlib import Path

import numpy as np
import pandas as pd

import dpstats as dp
from dpstats.errors import StreamError
from dpstats.streaming import Regression, StreamResults

DOMAIN = {"x": (-1, 1), "y": (-2, 2)}
LAST = 100_000
STREAMS = 40
"""Streams among which the kills are divided."""


def opened(folder: Path, name: str) -> Regression:
    """The stream as its state has it."""
    ledger = dp.Ledger.open(folder / "ledger")
    return Regression("y ~ x", DOMAIN, 0.1, 1e-7, horizon=LAST, ledger=ledger, state=folder / name)


def rows() -> pd.DataFrame:
    """Other rows at every call: what a process that is killed has read is not read again."""
    cells = np.random.default_rng().uniform(-1, 1, (50, 2))
    return pd.DataFrame({"x": cells[:, 0], "y": cells.sum(axis=1)})


def released(result: StreamResults) -> str:
    """All numbers of a release, as a hash of their bytes."""
    numbers = np.concatenate([result.sums, result.scaled_params, [result.deviation, result.first, result.last]])
    return sha256(numbers.tobytes()).hexdigest()


def work(folder: Path, name: str, ticks: int) -> None:
    """Close ticks until there are so many, saying each release."""
    print("imported", flush=True)
    stream = opened(folder, name)
    print("open", flush=True)
    while stream.tick < ticks:
        try:
            result = stream.update(rows())
            print(stream.tick, released(result), flush=True)
        except StreamError:
            print("refused", flush=True)
            stream = opened(folder, name)


class Worker:
    """A process that closes ticks, and what it says.

    Parameters
    ----------
    folder, name, ticks
        As for `work`.
    anew : bool
        Whether it is started as a program, or forked from this one.
    """

    def __init__(self, folder: Path, name: str, ticks: int, anew: bool = True) -> None:
        reading, writing = os.pipe()
        if anew:
            command = [sys.executable, "-m", "benchmarks.streams.kills", "work", str(folder), name, str(ticks)]
            self._process = subprocess.Popen(command, stdout=writing)
            self.pid = self._process.pid
        elif not (pid := os.fork()):
            os.dup2(writing, 1)
            sys.stdout = os.fdopen(1, "w")
            work(folder, name, ticks)
            os._exit(0)
        else:
            self.pid = pid
        os.close(writing)
        self.said = os.fdopen(reading)

    def killed(self) -> None:
        """The process is no more."""
        os.kill(self.pid, signal.SIGKILL)

    def ended(self) -> None:
        """Wait for the end."""
        with contextlib.suppress(ChildProcessError):
            os.waitpid(self.pid, 0)
        self.said.close()


class Seen:
    """Releases by stream and tick, as processes said them and as the stream shows them."""

    def __init__(self) -> None:
        self.releases: dict[tuple[str, int], set[str]] = {}
        self.said: Counter[tuple[str, int]] = Counter()
        self.refused = 0
        self.last_words: Counter[str] = Counter()

    def read(self, worker: Worker, name: str, word: str = "nothing") -> None:
        """All that a worker has said, after `word`, and how it ended."""
        for line in worker.said.read().splitlines():
            self.heard(line, name)
            word = line
        worker.ended()
        self.last_words["a tick" if " " in word else word] += 1

    def heard(self, line: str, name: str) -> None:
        """One line."""
        tick, _, content = line.partition(" ")
        self.refused += line == "refused"
        if len(content) == 64:  # whole lines alone: a kill may cut one
            self.said[name, int(tick)] += 1
            self.releases.setdefault((name, int(tick)), set()).add(content)

    def look(self, stream: Regression, name: str) -> None:
        for tick in range(1, stream.tick + 1):
            self.releases.setdefault((name, tick), set()).add(released(stream.at(tick)))

    @property
    def doubled(self) -> int:
        return sum(len(found) > 1 for found in self.releases.values())


def kills(folder: Path, name: str, count: int, seen: Seen, instants: random.Random) -> None:
    """Kill processes one after the other, each at a random instant after it has said a few things."""
    for _ in range(count):
        worker, word = Worker(folder, name, LAST, anew=instants.random() < 0.1), "nothing"
        for _ in range(instants.choice([0, 1, 1, 2, 3])):
            word = worker.said.readline().strip()
            seen.heard(word, name)
        time.sleep(instants.expovariate(10))
        worker.killed()
        seen.read(worker, name, word)


def race(folder: Path, name: str, racers: int, ticks: int, seen: Seen) -> None:
    """Several processes close the same ticks."""
    goal = opened(folder, name).tick + ticks
    for worker in [Worker(folder, name, goal) for _ in range(racers)]:
        seen.read(worker, name)


def restored(folder: Path, name: str, times: int) -> int:
    """How often an old state was refused, of so many that were put back."""
    refused, state = 0, folder / name
    for _ in range(times):
        shutil.copy(state, folder / "old")
        opened(folder, name).update(rows())
        shutil.copy(state, folder / "valid")
        shutil.copy(folder / "old", state)
        try:
            opened(folder, name).update(rows())
        except StreamError:
            refused += 1
        shutil.copy(folder / "valid", state)
    return refused


def report(folder: Path, count: int) -> None:
    """Kill, race and restore, and print what was seen."""
    seen, instants = Seen(), random.Random(0)
    names = [f"state{number}" for number in range(STREAMS)]
    ledger = dp.Ledger(folder / "ledger", dataset="d", eps=100.0, delta=1e-4)
    for place, name in enumerate(names):
        kills(folder, name, count * (place + 1) // STREAMS - count * place // STREAMS, seen, instants)
    begun = [name for name in names if (folder / name).exists()]
    charges = len(ledger.entries())
    for name in names:  # a stream that was charged for and killed before its state was in its place is found
        stream = opened(folder, name)
        stream.update(rows())
        seen.look(stream, name)
    print(
        f"{count} kills of {STREAMS} streams ({len(begun)} were begun, {charges} charged then; all after a tick more: "
        f"{len(ledger.entries())} charges): {len(seen.releases)} ticks, {seen.doubled} with two releases"
    )
    words = ", ".join(f"{word} {number}" for word, number in seen.last_words.most_common())
    print(f"last words before the kill: {words}; {sum(seen.said.values())} releases said")
    before, name = opened(folder, names[0]).tick, names[0]
    race(folder, name, 8, 40, seen)
    stream = opened(folder, name)
    seen.look(stream, name)
    print(
        f"race of 8: {stream.tick - before} ticks, {seen.refused} refusals, {seen.doubled} with two releases, "
        f"{len(ledger.entries())} charges"
    )
    print(f"old states put back: {restored(folder, name, 20)} of 20 refused, {len(ledger.entries())} charges")


def main(arguments: Sequence[str]) -> None:
    if arguments[:1] == ["work"]:
        work(Path(arguments[1]), arguments[2], int(arguments[3]))
        return
    with tempfile.TemporaryDirectory() as made:
        report(Path(made), int(arguments[0]) if arguments else 200)


if __name__ == "__main__":
    main(sys.argv[1:])
