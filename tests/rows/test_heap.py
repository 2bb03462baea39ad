"""Freed memory stays with the process during a task, and goes back afterwards."""

from __future__ import annotations

import subprocess
import sys

import pytest

from dpstats.data import worker
from dpstats.data.worker import keep_heap

FAULTS = """
import resource
import numpy as np
from contextlib import nullcontext
from dpstats.data.worker import keep_heap

def faults(inside):
    with inside:
        for _ in range(20):  # what grows the heap at first is not what is asked about
            np.ones(60_000)
        before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
        for _ in range(200):
            np.ones(60_000)
        return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before

print(faults(nullcontext()), faults(keep_heap()), faults(nullcontext()))
"""


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="faults are counted on Linux")
def test_memory_is_not_asked_for_again() -> None:
    """As on a worker of Dask: without the block every array costs its pages anew, before it and after it."""
    environment = {"MALLOC_TRIM_THRESHOLD_": "65536", "PYTHONPATH": ":".join(sys.path)}
    done = subprocess.run([sys.executable, "-c", FAULTS], capture_output=True, text=True, check=True, env=environment)
    before, inside, after = map(int, done.stdout.split())
    assert min(before, after) > 200 * 50
    assert inside < 200


def test_other_systems_go_without(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", "darwin")
    worker._mallopt.cache_clear()
    with keep_heap():
        assert worker._mallopt() is None
    worker._mallopt.cache_clear()


@pytest.mark.parametrize(("given", "expected"), [("65536", 65536), ("", 7), ("many", 7), ("9" * 30, 2**31 - 1)])
def test_thresholds_are_those_of_the_environment(monkeypatch: pytest.MonkeyPatch, given: str, expected: int) -> None:
    monkeypatch.setenv("MALLOC_TRIM_THRESHOLD_", given)
    assert worker._threshold("MALLOC_TRIM_THRESHOLD_", 7) == expected
