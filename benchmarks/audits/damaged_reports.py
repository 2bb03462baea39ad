"""Files of reports with damage: ``python -m benchmarks.audits.damaged_reports [files]``.

A Parquet file of fifty reports is cut off somewhere, or some of its bytes are changed, in as many seeded ways. Every
file is summed and read: an answer is the whole sum and all reports, a refusal is a DataError, and whatever else happens
is named.
"""

from __future__ import annotations

import sys
import tempfile
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import dpstats as dp
from dpstats.local.contributor import noisy_report

FILES = 3000
MOST_BYTES = 8


def damaged(whole: bytes, seed: int) -> bytes:
    """Two thirds have bytes changed, one or several, and a third is cut off."""
    random = np.random.default_rng(seed)
    kind = random.integers(3)
    if kind == 0:
        return whole[: random.integers(len(whole))]
    changed = bytearray(whole)
    for _ in range(int(random.integers(1, MOST_BYTES + 1)) if kind == 1 else 1):
        changed[random.integers(len(whole))] ^= int(random.integers(1, 256))
    return bytes(changed)


def reports(count: int = 50) -> tuple[dp.local.Spec, list[dp.local.Report]]:
    """A small collection."""
    spec = dp.local.Spec({"y": (0, 1), "x": (0, 1)}, "y ~ x", eps=1.0, delta=1e-5, n=count)
    random = np.random.default_rng(0)
    records = [{"y": random.random(), "x": random.random()} for _ in range(count)]
    return spec, [noisy_report(record, spec, random) for record in records]


def outcome(work: Callable[[], Any], right: Callable[[Any], bool]) -> str:
    """What became of reading one file."""
    try:
        found = work()
    except dp.errors.DataError:
        return "DataError"
    except Exception as error:
        return type(error).__name__
    return "whole" if right(found) else "other reports"


def main(files: int = FILES) -> Counter[tuple[str, str]]:
    """How often what happened."""
    spec, sent = reports()
    found: Counter[tuple[str, str]] = Counter()
    values = np.array([report.values for report in sent])
    total = values.sum(axis=0).tolist()

    def same(back: list[dp.local.Report]) -> bool:
        return np.array_equal([report.values for report in back], values) and {one.spec for one in back} == {spec.hash}

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "reports.parquet"
        dp.local.write(sent, path)
        whole = path.read_bytes()
        for seed in range(files):
            path.write_bytes(damaged(whole, seed))
            found["total", outcome(lambda: dp.local.total(path, spec).values.tolist(), total.__eq__)] += 1
            found["read", outcome(lambda: list(dp.local.read(path)), same)] += 1
    return found


if __name__ == "__main__":
    for (call, ended), number in sorted(main(*map(int, sys.argv[1:])).items()):
        print(f"{call}: {ended} {number}")
