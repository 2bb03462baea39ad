"""A logistic fit through Dask on two processes, beside one process.

``python -m benchmarks.speed.clusters [rows] [python]``.

CPU seconds of all processes together, which is time per core (a shared machine stretches wall time). Rows are in the
workers' memory, or in this process', before the clock starts. With the path of a Python that has dask-ml, its logistic
regression (L-BFGS and Newton, dask-glm) fits the same rows on a cluster of its own.
"""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

ROOT = Path(__file__).resolve().parents[2]
COLUMNS, PARTS, TURNS = 20, 20, 3
NAMES = [f"x{j + 1}" for j in range(COLUMNS)]


def part(number: int, rows: int) -> pd.DataFrame:
    """Some of the rows: 0/1 responses and standard normal columns."""
    params = np.random.default_rng(2026).normal(size=COLUMNS)
    params *= 1.5 / np.linalg.norm(params)
    random = np.random.default_rng([2026, number])
    exog = random.standard_normal((rows, COLUMNS))
    response = (random.random(rows) < 1 / (1 + np.exp(-(exog @ params)))).astype(float)
    return pd.DataFrame(exog, columns=NAMES).assign(y=response)


def spent(client: Any) -> float:
    """CPU seconds of the workers and this process so far."""
    return sum(client.run(time.process_time).values()) + time.process_time()


def timed(work: Callable[[], Any], clock: Callable[[], float]) -> tuple[float, float]:
    """CPU and wall seconds of the faster of some turns."""
    found = []
    for _ in range(TURNS):
        before, started = clock(), time.perf_counter()
        work()
        found.append((clock() - before, time.perf_counter() - started))
    return min(found)


def main(rows: int, rival: str | None) -> None:
    """Print the times and ratios."""
    import dask.dataframe as dd
    from distributed import Client, wait

    import dpstats as dp
    from benchmarks.shared.local_cluster import local_cluster

    formula, domain = f"y ~ {' + '.join(NAMES)}", {"y": (0, 1), **dict.fromkeys(NAMES, (-4, 4))}
    frame = pd.concat([part(number, rows // PARTS) for number in range(PARTS)], ignore_index=True)
    one = timed(lambda: dp.logit(formula, frame, 1.0, domain=domain), time.process_time)
    with local_cluster() as (address, _), Client(address) as client:
        data = dd.from_map(part, range(PARTS), rows=rows // PARTS, meta=part(0, 1)).persist()
        wait(data)
        client.run(__import__, "dpstats")
        two = timed(lambda: dp.logit(formula, data, 1.0, domain=domain), lambda: spent(client))
    print(f"{rows:,} rows, {COLUMNS} columns; CPU and wall seconds, the least of {TURNS} turns")
    for name, (cpu, wall) in (("one process", one), ("Dask, two processes", two)):
        print(f"{name:25s} {cpu:8.2f} {wall:8.2f}   {cpu / one[0]:.2f}", flush=True)
    for solver in ("lbfgs", "newton") if rival else ():
        command = [str(rival), "-m", "benchmarks.speed.clusters", "rival", solver, str(rows)]
        done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT)
        if done.returncode:
            print(f"dask-ml, {solver}: failed, {done.stderr.strip().splitlines()[-1]}")
            continue
        cpu, wall = map(float, done.stdout.split()[-2:])
        print(f"dask-ml, {solver:17s} {cpu:8.2f} {wall:8.2f}   {cpu / one[0]:.2f}", flush=True)


def fit_rival(solver: str, rows: int) -> None:
    """The same by dask-ml, in its own Python: print CPU and wall seconds."""
    import dask.array as da
    from dask_ml.linear_model import LogisticRegression
    from distributed import Client, LocalCluster, wait

    with LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address="127.0.0.1:0") as cluster:
        client = Client(cluster)
        pieces = [client.submit(_cells, number, rows // PARTS) for number in range(PARTS)]
        blocks = [da.from_delayed(piece, (rows // PARTS, COLUMNS + 1), float) for piece in pieces]
        cells = da.concatenate(blocks).persist()
        wait(cells)
        model = LogisticRegression(solver=solver, C=1e6, fit_intercept=False)
        exog, response = cells[:, :COLUMNS].persist(), cells[:, COLUMNS].persist()
        wait([exog, response])
        print(*timed(lambda: model.fit(exog, response), lambda: spent(client)))
        client.close()


def _cells(number: int, rows: int) -> Any:
    return part(number, rows).to_numpy()


if __name__ == "__main__":
    if sys.argv[1:2] == ["rival"]:
        fit_rival(sys.argv[2], int(sys.argv[3]))
    else:
        main(int(float(sys.argv[1])) if len(sys.argv) > 1 else 10_000_000, sys.argv[2] if len(sys.argv) > 2 else None)
