"""Charges a second, for docs/audits: ``python -m benchmarks.speed.ledger [charges] [directory]``."""

from __future__ import annotations

import multiprocessing
import os
import statistics
import sys
import tempfile
import time
from multiprocessing.queues import SimpleQueue
from multiprocessing.synchronize import Barrier
from pathlib import Path

from dpstats.ledger import Ledger
from dpstats.privacy.guarantee import Guarantee

TOTAL = 1000.0
SMALL = Guarantee(1e-3)


def spend(path: Path, charges: int, barrier: Barrier, waits: SimpleQueue[list[float]]) -> None:
    """One process: `charges` charges as fast as they go, and how long each took."""
    seconds = []
    with Ledger(path, "d", TOTAL) as ledger:
        barrier.wait(timeout=60)
        for _ in range(charges):
            start = time.perf_counter()
            ledger.charge(SMALL, label="benchmark", formula="y ~ x1 + x2", method="napp")
            seconds.append(time.perf_counter() - start)
    waits.put(seconds)


def measure(directory: Path, processes: int, charges: int) -> str:
    """A line of the table."""
    path = directory / f"{processes}.db"
    Ledger(path, "d", TOTAL).close()
    context = multiprocessing.get_context("spawn")
    barrier, waits = context.Barrier(processes + 1), context.SimpleQueue()
    workers = [context.Process(target=spend, args=(path, charges, barrier, waits)) for _ in range(processes)]
    for worker in workers:
        worker.start()
    barrier.wait(timeout=60)
    start = time.perf_counter()
    seconds = sorted(second for _ in workers for second in waits.get())
    elapsed = time.perf_counter() - start
    for worker in workers:
        worker.join()
    opening = time.perf_counter()
    with Ledger(path, "d", TOTAL) as ledger:
        opening = time.perf_counter() - opening
        if len(ledger.entries()) != processes * charges:
            raise RuntimeError("charges were lost or doubled")
    figures = (len(seconds) / elapsed, 1e3 * statistics.median(seconds), 1e3 * seconds[int(0.99 * len(seconds))])
    return f"{processes:>9}{len(seconds):>10}" + "".join(
        f"{x:>14.1f}" for x in (*figures, 1e3 * max(seconds), 1e3 * opening)
    )


def sync_time(directory: Path, repeats: int = 200) -> float:
    """Milliseconds of one write of 4 kB made durable: the floor of any durable charge on this disk."""
    with (directory / "sync").open("wb", buffering=0) as file:
        start = time.perf_counter()
        for _ in range(repeats):
            file.write(b"x" * 4096)
            os.fsync(file.fileno())
    return 1e3 * (time.perf_counter() - start) / repeats


def main() -> None:
    charges = int(sys.argv[1]) if len(sys.argv) > 1 else 1000
    where = sys.argv[2] if len(sys.argv) > 2 else None
    with tempfile.TemporaryDirectory(dir=where) as name:
        directory = Path(name)
        print(f"one durable write of 4 kB: {sync_time(directory):.2f} ms")
        print("processes   charges   charges / s   median (ms)   99 % (ms)      longest  reopening (ms)")
        for processes in (1, 2, 8):
            print(measure(directory, processes, charges), flush=True)


if __name__ == "__main__":
    main()
