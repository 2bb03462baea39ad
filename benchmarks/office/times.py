"""How long an office takes: plans beside running fits, and from a request to its table, against the local call.

``python -m benchmarks.office.times`` writes 1e6 rows, and prints the 95 % point of plans of different formulas while
both workers fit, and the times of one release: in this process, in the office, and until it is shown.
"""

from __future__ import annotations

import argparse
import shutil
import tempfile
import time
from pathlib import Path

import numpy as np
import pandas as pd

import dpstats as dp
from dpstats.office.config import Office
from dpstats.office.request import Request
from dpstats.office.service import Service

COLUMNS = 8
FILE = """
[office]
deadline = 0.5
[data.big]
source = "rows.parquet"
domain = "codebook.csv"
ledger = "big.ledger"
eps = 1000.0
rows = {rows}
"""
FORMULA = "y ~ " + " + ".join(f"x{number}" for number in range(COLUMNS))


def make_office(folder: Path, rows: int) -> Service:
    """An office of so many rows of eight columns and a response."""
    rng = np.random.default_rng(1)
    columns = {f"x{number}": rng.uniform(0, 1, rows) for number in range(COLUMNS)}
    frame = pd.DataFrame({**columns, "y": np.clip(columns["x0"] / 2 + rng.uniform(0, 0.5, rows), 0, 1)})
    frame.to_parquet(folder / "rows.parquet")
    (folder / "codebook.csv").write_text("name,low,high,levels\n" + "".join(f"{name},0,1,\n" for name in frame))
    (folder / "office.toml").write_text(FILE.format(rows=rows))
    office = Office.load(folder / "office.toml")
    office.datasets["big"].make_ledger().close()
    return Service(office)


def main() -> None:
    """Print the figures."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--rows", type=int, default=1_000_000)
    rows = parser.parse_args().rows
    folder = Path(tempfile.mkdtemp(prefix="dpstats-office"))
    service = make_office(folder, rows)
    domain, source = service.office.datasets["big"].domain, service.office.datasets["big"].source
    service.start()
    time.sleep(10)  # workers import
    for number in range(3):
        began = time.monotonic()
        dp.glm(FORMULA, source, 1.0, domain=domain)
        local = time.monotonic() - began
        began = time.monotonic()
        job = service.submit("ada", Request("big", "glm", {"formula": FORMULA, "eps": 1.0}), f"a {number}")
        while service._store.row("SELECT 1 FROM job WHERE id = ? AND ended IS NULL", (job.id,)):
            time.sleep(0.01)
        done = time.monotonic() - began
        while service.job("ada", job.id).state == "working":
            time.sleep(0.01)
        shown = time.monotonic() - began
        print(
            f"{rows} rows: local {local:.2f} s, office {done:.2f} s ({done / local:.2f} times), shown at {shown:.2f} s"
        )
        time.sleep(5)
    for number in range(4):
        service.submit(f"other {number}", Request("big", "glm", {"formula": FORMULA, "eps": 1.0}), "b")
    times = []
    for number in range(100):
        terms = " + ".join(f"I(x{other} ** {2 + number // 8})" for other in range(number % COLUMNS + 1))
        began = time.monotonic()
        service.plan("ada", Request("big", "glm", {"formula": f"{FORMULA} + {terms}", "eps": 0.5}))
        times.append(time.monotonic() - began)
    print(f"plans beside fits: median {np.median(times):.3f} s, 95 % {np.quantile(times, 0.95):.3f} s")
    service.stop()
    shutil.rmtree(folder)


if __name__ == "__main__":
    main()
