"""Hostile cells in neighbouring data, through every public call.

``python -m benchmarks.audits.edges [cases] [--seed SEED]``.

A case is a pair of data sets that differ in one row, one of them with a hostile cell there, and one call on both with
the same seed, in one environment (floating-point errors or warnings that raise, and so on). Errors with their notes,
causes and contexts, warnings, printed text and the ledger's entries must be the same; where the cell counts as
missing, so must the released bits be, in both data sets and without the row. Every difference is a finding. They are
printed by call, container and cell, and the exit status is 1 if there is any.

A line of the table names a setting. To see both sides of it in full:

    python -m benchmarks.audits.edges --show "glm, gaussian | dict | tuple | x | middle | plain" \\
        --cell "object, ValueError"

The oldest versions that setup.cfg allows, in a virtual environment of their own: ``make edges-oldest``.
"""

from __future__ import annotations

import argparse
import multiprocessing
import platform
import sys
import time
from collections import defaultdict
from collections.abc import Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool

import numpy as np
import pandas as pd

from benchmarks.audits.edge_cases.arrow_columns import pa, pl
from benchmarks.audits.edge_cases.cells import BY_NAME, Cell
from benchmarks.audits.edge_cases.groups import COLUMN_BY_NAME, KINDS, Finding, Setting, run, sweep

SHARE = 1000
"""Cases for one task of a worker process."""


def table(found: Iterable[Finding]) -> str:
    """The findings by what differs, call and kind of column, with a setting to look at and the cells."""
    groups: dict[tuple[str, ...], list[Finding]] = defaultdict(list)
    for one in found:
        groups[one.what, one.setting.entry, one.setting.table, one.setting.column].append(one)
    lines = []
    for (what, *_), those in sorted(groups.items()):
        cells = sorted({one.cell for one in those})
        more = f" and {len(cells) - 4} more" if len(cells) > 4 else ""
        lines.append(f"{what:<13} {those[0].setting}\n{'':13} cells: {'; '.join(cells[:4])}{more}")
        lines += [
            f"{'':13} {side}: {_short(text)}" for side, text in (("was", those[0].expected), ("is ", those[0].got))
        ]
    return "\n".join(lines)


def summary(found: Sequence[Finding]) -> str:
    """How many findings of which kind, by call."""
    if not found:
        return "nothing differs"
    counts = pd.DataFrame({"call": [one.setting.entry for one in found], "what": [one.what for one in found]})
    return pd.crosstab(counts["call"], counts["what"], margins=True, margins_name="all").to_string()


def _short(text: str) -> str:
    line = " / ".join(text.splitlines()) or "nothing"
    return line if len(line) <= 200 else line[:197] + "..."


def show(setting: str, cell: str) -> list[Finding]:
    """Run one setting with one cell, or with all that its column is tried with."""
    where = Setting(*setting.split(" | "))
    own = {one.name: one for one in COLUMN_BY_NAME[where.column].own}
    cells: list[Cell] = [{**BY_NAME, **own}[cell]] if cell else [*own.values(), *BY_NAME.values()]
    found, count = run(where, cells)
    for one in found:
        print(f"{one.what} | {one.cell}\n  was: {one.expected or 'nothing'}\n  is:  {one.got or 'nothing'}")
    print(f"{count} cases, {len(found)} findings")
    return found


def search(cases: int, seed: int, workers: int) -> tuple[list[Finding], int, list[int]]:
    """Sweep in worker processes, which may die; what was found, how many cases, and the seeds of the dead."""
    found: list[Finding] = []
    done, dead = 0, []
    seeds = [seed * 100_000 + task for task in range(-(-cases // SHARE))]
    while seeds:
        with ProcessPoolExecutor(workers, multiprocessing.get_context("spawn")) as pool:
            tasks = {task: pool.submit(sweep, SHARE, task) for task in seeds}
            for task, future in tasks.items():
                try:
                    findings, count = future.result()
                except BrokenProcessPool:
                    break
                found, done = found + findings, done + count
                seeds.remove(task)
                if sys.stderr.isatty():
                    print(f"\r{done} cases, {len(found)} findings", end="", file=sys.stderr)
        if seeds:
            # Whichever task killed the pool, this one alone shows whether it was the one.
            task = seeds.pop(0)
            with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as pool:
                try:
                    findings, count = pool.submit(sweep, SHARE, task).result()
                except BrokenProcessPool:
                    dead.append(task)
                else:
                    found, done = found + findings, done + count
    return found, done, dead


def main() -> int:
    parser = argparse.ArgumentParser(description="Hostile cells in neighbouring data, through every public call.")
    parser.add_argument("cases", nargs="?", type=int, default=50_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--show", metavar="SETTING", help="both sides of one setting, in full")
    parser.add_argument("--cell", default="", help="with --show: one cell only")
    chosen = parser.parse_args()
    if chosen.show:
        return int(bool(show(chosen.show, chosen.cell)))
    start = time.perf_counter()
    found, done, dead = search(chosen.cases, chosen.seed, chosen.workers)
    print(table(found))
    versions = [platform.python_version(), np.__version__, pd.__version__]
    versions += [library.__version__ if library is not None else "none" for library in (pa, pl)]
    print("\nPython {}, numpy {}, pandas {}, pyarrow {}, polars {}".format(*versions))
    print(f"{done} cases, {len(KINDS)} kinds of column in a container, {time.perf_counter() - start:.0f} s")
    print(summary(found))
    for task in dead:
        print(f"the process died: sweep({SHARE}, {task})")
    return int(bool(found or dead))


if __name__ == "__main__":
    sys.exit(main())
