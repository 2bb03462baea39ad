"""A logistic regression of rows in a Parquet file: ``python -m benchmarks.speed.files [rows ...] [--memory BYTES]``.

For each number of rows a file of twenty standard normal columns is written, batch by batch, and read in fresh
processes: by pyarrow alone, in one pass over all columns; by a fit that may keep `memory` bytes of rows; and, where the
rows fit, by the same fit on rows in memory, which is the arithmetic alone. Times are CPU seconds on one thread (a
shared machine stretches wall time) and wall seconds; memory is the peak of the resident set of the whole process.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

COLUMNS = 20
BATCH = 500_000
NAMES = [f"x{number}" for number in range(COLUMNS)]
FORMULA = f"y ~ {' + '.join(NAMES)}"
DOMAIN: dict[str, Any] = {"y": (0, 1), **dict.fromkeys(NAMES, (-4, 4))}
ONE_THREAD = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
ROOT = Path(__file__).resolve().parents[2]
FITS_IN_MEMORY = 10_000_000
"""Rows up to which the fit on rows in memory is measured too."""


def write(path: Path, rows: int) -> None:
    """Write so many rows of 0/1 responses and columns, a batch in memory at a time."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    random = np.random.default_rng(2026)
    params = random.normal(size=COLUMNS)
    params *= 1.5 / np.linalg.norm(params)
    schema = pa.schema([("y", pa.float64()), *((name, pa.float64()) for name in NAMES)])
    with pq.ParquetWriter(path, schema, compression="none", use_dictionary=False) as writer:
        for start in range(0, rows, BATCH):
            exog = random.standard_normal((min(BATCH, rows - start), COLUMNS))
            endog = (random.random(len(exog)) < 1 / (1 + np.exp(-(exog @ params)))).astype(float)
            writer.write_table(pa.table([endog, *exog.T], schema=schema), row_group_size=BATCH // 4)


def read(path: str, memory: float) -> dict[str, Any]:
    """One pass of pyarrow over all columns."""
    import pyarrow.parquet as pq

    batches = pq.ParquetFile(path, pre_buffer=False).iter_batches(columns=["y", *NAMES])
    rows, measured = timed(lambda: sum(batch.num_rows for batch in batches))
    return {**measured, "rows": rows}


def fit(path: str, memory: float) -> dict[str, Any]:
    """The fit, and how often it went through the file or what it kept of it."""
    import dpstats as dp
    from dpstats.data import MemoryRows, ReadRows, Rows

    passes = {"pass": 0}

    def counted(kind: type[Rows[Any]]) -> None:
        total = kind.total

        def counting(self: Any, part: Callable[..., Any], add: Callable[..., Any]) -> Any:
            passes["pass"] += 1
            return total(self, part, add)

        kind.total = counting  # type: ignore[method-assign]

    data: Any = path
    if memory == 0:
        import pyarrow.parquet as pq

        data, memory = pq.read_table(path), 1e12
        counted(MemoryRows)
    else:
        counted(ReadRows)
    dp.logit("y ~ x0", {"y": [0.0, 1.0] * 99, "x0": [0.0, 1.0] * 99}, 1.0, domain={"y": (0, 1), "x0": (0, 1)})
    passes["pass"] = 1  # the one that reads the file
    found, measured = timed(lambda: dp.logit(FORMULA, data, 1.0, domain=DOMAIN, memory=memory, inference=None))
    return {**measured, "passes": passes["pass"], "norm": float(np.linalg.norm(found.scaled_params))}


def timed(work: Callable[[], Any]) -> tuple[Any, dict[str, float]]:
    """What the work returns, its CPU and wall seconds, and the peak of the process in gigabytes."""
    wall, cpu = time.perf_counter(), time.process_time()
    result = work()
    wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    return result, {"wall": wall, "cpu": cpu, "peak": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e9}


def apart(what: str, path: Path, memory: float) -> dict[str, Any]:
    """One measurement in a process of its own."""
    command = [sys.executable, "-m", "benchmarks.speed.files", "--one", what, str(path), str(memory)]
    done = subprocess.run(command, capture_output=True, text=True, check=True, cwd=ROOT, env=os.environ | ONE_THREAD)
    return json.loads(done.stdout)


def measure(rows: int, memory: float, folder: Path) -> dict[str, float]:
    """All measurements for one number of rows."""
    path = folder / f"{rows}.parquet"
    write(path, rows)
    try:
        apart("read", path, memory)  # the file may be in the system's cache or not: once is enough to put it there
        reading, fitting = apart("read", path, memory), apart("fit", path, memory)
        found = {"rows": rows, "gigabytes": path.stat().st_size / 1e9, "read": reading["cpu"]}
        found |= {f"fit {name}": fitting[name] for name in ("cpu", "wall", "peak", "passes")}
        if rows <= FITS_IN_MEMORY:
            inside = apart("fit", path, 0)
            found |= {"in memory": inside["cpu"], "peak in memory": inside["peak"]}
        return found
    finally:
        path.unlink()


def main() -> int:
    parser = argparse.ArgumentParser(description="A logistic regression of rows in a Parquet file.")
    parser.add_argument("rows", nargs="*", type=float, default=[5e5, 5e6])
    parser.add_argument("--memory", type=float, default=5e8)
    parser.add_argument("--folder", type=Path, default=None)
    parser.add_argument("--one", nargs=3, help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    if chosen.one:
        what, path, memory = chosen.one
        print(json.dumps({"read": read, "fit": fit}[what](path, float(memory))))
        return 0
    with tempfile.TemporaryDirectory(dir=chosen.folder) as folder:
        for rows in map(int, chosen.rows):
            found = measure(rows, chosen.memory, Path(folder))
            print("; ".join(f"{name} {value:.4g}" for name, value in found.items()), flush=True)
            allowed = 2 * found["fit passes"] * found["read"] + found.get("in memory", float("nan"))
            print(f"    fit / (2 passes x read + arithmetic): {found['fit cpu'] / allowed:.2f}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
