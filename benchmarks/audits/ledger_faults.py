"""Kill -9 at random points, and a disk that fills up: ``python -m benchmarks.audits.ledger_faults [runs]``.

A run starts a process that opens the ledger and charges it as fast as it can, noting each attempt and each success in
a plain file, and kills it at a random moment. Then the file must open, hold every charge that was reported as made
exactly once, and hold at most one more, which was cut off between its commit and the report.
"""

from __future__ import annotations

import multiprocessing
import os
import subprocess
import sys
import tempfile
import time
from multiprocessing.context import ForkServerContext
from multiprocessing.synchronize import Barrier
from pathlib import Path

import numpy as np

from dpstats.errors import BudgetExceeded, LedgerError
from dpstats.ledger import Ledger
from dpstats.privacy.guarantee import Guarantee

SMALL = Guarantee(1e-6)


def context() -> ForkServerContext:
    """Processes that start quickly, from a server that has imported the package but opened no ledger."""
    server = multiprocessing.get_context("forkserver")
    server.set_forkserver_preload(["dpstats.ledger"])
    return server


def spend_all(path: Path | str, barrier: Barrier, made: Path) -> None:
    """Open (or make) the ledger together with others and charge until nothing is left."""
    barrier.wait(timeout=60)
    with Ledger(path, "d", 2.0) as ledger, made.open("a", buffering=1) as log:
        while True:
            try:
                number = ledger.charge(Guarantee(0.1), label=str(os.getpid())).number
            except BudgetExceeded:
                return
            log.write(f"{number}\n")


def charge_forever(path: Path | str, notes: Path, run: int) -> None:
    """The victim: note the attempt, charge, note the success."""
    with notes.open("a", buffering=1) as log, Ledger(path, "d", 1000.0) as ledger:
        for number in range(100_000):
            label = f"{run}-{number}"
            log.write(f"try {label}\n")
            charge = ledger.charge(SMALL, label=label)
            log.write(f"made {label}\n")
            if number % 3 == 0:
                charge.rows_read()


def kill_runs(directory: Path, runs: int, seed: int, seconds: float, path: Path | str | None = None) -> tuple[int, int]:
    """Kill `runs` processes on one ledger and check its books after each; (charges reported, charges recorded).

    The moments are exponential with mean `seconds`. The ledger is a file in `directory` unless `path` says otherwise.
    """
    path, notes = path or directory / "budget.db", directory / "notes.txt"
    moments = np.random.default_rng(seed).exponential(seconds, size=runs)
    notes.touch()
    for run, moment in enumerate(moments):
        victim = context().Process(target=charge_forever, args=(path, notes, run))
        started = notes.stat().st_size
        victim.start()
        # One run in four dies at any moment from its very start, creating the file included; the others under load.
        while run % 4 and notes.stat().st_size == started and victim.is_alive():
            time.sleep(0.001)
        time.sleep(moment)
        victim.kill()
        victim.join()
        if victim.exitcode != -9:
            raise RuntimeError(f"run {run} was not killed but ended with {victim.exitcode}")
        check(path, notes)
    return check(path, notes)


def check(path: Path | str, notes: Path) -> tuple[int, int]:
    """Compare the ledger with the notes; (charges reported, charges recorded)."""
    if isinstance(path, Path) and not path.exists():
        return 0, 0
    with Ledger(path, "d", 1000.0) as ledger:
        recorded = ledger.entries()["label"].tolist()
        spent = 1000.0 - ledger.remaining.eps
    lines = [line.split() for line in notes.read_text().splitlines()]
    tried = {label for word, label in lines if word == "try"}
    made = {label for word, label in lines if word == "made"}
    if len(set(recorded)) < len(recorded):
        raise RuntimeError("a charge was recorded twice")
    if made - set(recorded):
        raise RuntimeError("a charge that was reported as made is missing")
    if set(recorded) - tried:
        raise RuntimeError("an entry was never asked for")
    if not np.isclose(spent, len(recorded) * SMALL.eps, rtol=0, atol=1e-9):
        raise RuntimeError("the balance is not the sum of the entries")
    return len(made), len(recorded)


def fill_disk(directory: Path) -> tuple[int, str]:
    """Charge until a file system of 1 MB is full; (charges recorded, the error). Needs the right to mount."""
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(directory)], check=True)
    made, message = 0, "no error"
    try:
        with Ledger(directory / "budget.db", "d", 1000.0) as ledger:
            try:
                while True:
                    ledger.charge(SMALL, label="x" * 500)
                    made += 1
            except LedgerError as error:
                message = str(error)
        with Ledger(directory / "budget.db", "d", 1000.0) as ledger:
            if len(ledger.entries()) != made:
                raise RuntimeError("the full disk lost a charge or kept one that was refused")
    finally:
        subprocess.run(["umount", str(directory)], check=True)
    return made, message


def main() -> None:
    runs = int(sys.argv[1]) if len(sys.argv) > 1 else 200
    with tempfile.TemporaryDirectory() as name:
        start = time.perf_counter()
        made, recorded = kill_runs(Path(name), runs, seed=20260501, seconds=0.3)
        seconds = time.perf_counter() - start
    print(f"kill -9, {runs} runs, {seconds:.0f} s: {made} charges reported as made, all {made} on record;")
    print(f"{recorded - made} more recorded but killed before they were reported; none twice; the file always opened")
    with tempfile.TemporaryDirectory() as name:
        try:
            made, message = fill_disk(Path(name))
            print(f"full disk: {made} charges, all on record, then: {message}")
        except subprocess.CalledProcessError:
            print("full disk: skipped, this process may not mount a file system")


if __name__ == "__main__":
    main()
