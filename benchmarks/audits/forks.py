"""Processes forked while threads fit: which of them hang, and which never hear a warning again.

    python -m benchmarks.audits.forks [forks]

Three threads fit; the main thread forks every few milliseconds, and each child fits and then asks for a warning.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
import warnings
from collections import Counter
from itertools import count

import numpy as np
import pandas as pd

import dpstats as dp

DOMAIN = {"y": (0, 1), "x": (0, 1), "g": ["a", "b"]}
PATIENCE = 20
"""Seconds after which a child hangs; it takes a tenth of a second."""

ENDS = {0: "fine", 1: "an error", 3: "silent for ever", -signal.SIGALRM: "hangs"}


def frame() -> pd.DataFrame:
    """Sixty rows."""
    rng = np.random.default_rng(0)
    return pd.DataFrame({"y": rng.random(60), "x": rng.random(60), "g": rng.choice(["a", "b"], 60)})


def fit(data: pd.DataFrame, eps: float) -> None:
    """Each eps is planned anew."""
    dp.glm("y ~ x + g", data, eps, domain=DOMAIN)


def child(data: pd.DataFrame, eps: float) -> int:
    """Fit, and say whether a warning is heard."""
    signal.alarm(PATIENCE)
    try:
        fit(data, eps)
        with warnings.catch_warnings(record=True) as seen:
            warnings.warn("heard", UserWarning, stacklevel=1)
    except Exception:
        return 1
    return 0 if seen else 3


def main(forks: int = 150) -> Counter[str]:
    """How the children ended."""
    data, found = frame(), Counter[str]()
    fit(data, 1.0)
    over, budgets = threading.Event(), count(1)

    def work() -> None:
        while not over.is_set():
            fit(data, 1 + next(budgets) / 1000)

    threads = [threading.Thread(target=work) for _ in range(3)]
    for thread in threads:
        thread.start()
    for number in range(forks):
        time.sleep(0.013)
        process = os.fork()
        if process == 0:
            os._exit(child(data, 1 + number / 1e6))
        found[ENDS[os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])]] += 1
    over.set()
    for thread in threads:
        thread.join()
    return found


if __name__ == "__main__":
    print(dict(main(*map(int, sys.argv[1:]))))
