"""Workers killed in the middle of fits: what becomes of the release, the charge, and the cells in everybody's logs.

    python -m benchmarks.audits.kills [kills]

Fits to a Dask frame on a cluster of two processes; every few moments one of them is killed (SIGKILL), at times both.
Every second fit is seeded and compared with that on one machine; the others are certified and charged to a ledger.
"""

from __future__ import annotations

import os
import random
import re
import signal
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import dask.dataframe as dd
import numpy as np
import pandas as pd
from distributed import Client

import dpstats as dp
from benchmarks.shared.local_cluster import local_cluster
from dpstats.data.dask import DaskRows

ROWS = 120_000
TEXT, NUMBER = "canary-cell", 7316549.0
CANARY = re.compile(rf"{NUMBER:.0f}|7\.316549|{TEXT}".encode())
DOMAIN = {"y": (0, 1), "a": (-4, 4), "b": (-4, 4), "c": (-4, 4), "g": ["u", "v", "w"]}
EPS = 0.5
PAUSE = 4.0
"""Mean seconds between two kills. A worker takes seconds to start, and nearer kills hit the same tasks again."""


def frame() -> pd.DataFrame:
    """Rows of which some hold canaries."""
    rng = np.random.default_rng(1)
    data = pd.DataFrame(rng.normal(size=(ROWS, 3)), columns=["a", "b", "c"])
    data["g"] = rng.choice(["u", "v", "w"], ROWS).astype(object)
    data["y"] = (data.a - data.b + rng.logistic(size=ROWS) > 0).astype(float)
    data.loc[5::1000, "a"], data.loc[7::1000, "g"] = NUMBER, TEXT
    return data


class Killer(threading.Thread):
    """Kills workers at random moments while a fit runs, at most `most` of them."""

    def __init__(self, client: Client, rng: random.Random, most: int) -> None:
        super().__init__(daemon=True)
        self.client, self.rng, self.most = client, rng, most
        self.over, self.kills = threading.Event(), 0

    def run(self) -> None:
        """Kill until the fit is over."""
        while self.kills < self.most and not self.over.wait(self.rng.expovariate(1 / PAUSE)):
            # The processes' own: asking the workers for them would wait for those that are dead.
            found = workers_of(self.client)
            for pid in found if self.rng.random() < 0.2 else found[:1]:
                try:
                    os.kill(pid, signal.SIGKILL)
                except ProcessLookupError:
                    continue
                self.kills += 1
            self.rng.shuffle(found)


def reasons() -> Counter[str]:
    """Counts, from now on, what ended passes: types of errors, and our own constant texts."""
    found, total = Counter[str](), DaskRows.total

    def watched(rows: DaskRows[Any], *arguments: Any) -> Any:
        try:
            return total(rows, *arguments)
        except Exception as error:
            found[f"{type(error).__name__} {error if type(error) is RuntimeError else ''}".strip()] += 1
            raise

    DaskRows.total = watched  # type: ignore[method-assign]
    return found


def workers_of(client: Client) -> list[int]:
    """The processes of workers that live, as their nannies know them."""
    found = client.run(_process, nanny=True, on_error="ignore")
    return [pid for pid in found.values() if pid]


def _process(dask_worker: Any) -> int | None:
    # A nanny whose worker dies while it starts gives up, and this cluster has nobody to replace it.
    ready = dask_worker.process is not None and dask_worker.process.status.name == "running"
    return dask_worker.pid if ready else None


def one_fit(client: Client, fit: Callable[[], Any], rng: random.Random) -> tuple[Any, int]:
    """What a fit gives, or the name of its error, and how many workers were killed meanwhile."""
    client.wait_for_workers(2, timeout=120)
    killer = Killer(client, rng, most=4)
    killer.start()
    found: Any
    try:
        found = fit()
    except dp.errors.DPStatsError as error:
        found = type(error).__name__
    killer.over.set()
    killer.join()
    return found, killer.kills


def run(wanted: int) -> None:
    """Kill so many workers, and print what came of it."""
    rng, data, outcomes, kills, spent = random.Random(0), frame(), Counter[str](), 0, 0
    expected = dp.logit("y ~ a + b + c + g", data, EPS, domain=DOMAIN, seed=1).params
    why = reasons()
    with local_cluster() as (address, said), Client(address) as client, tempfile.TemporaryDirectory() as folder:
        parts = dd.from_pandas(data, npartitions=8)
        started = time.perf_counter()
        with dp.Ledger(Path(folder, "ledger.db"), dataset="rows", eps=1000.0) as ledger:
            turn = 0
            while kills < wanted:
                seeded, turn = turn % 2 == 0, turn + 1
                how: dict[str, Any] = {"seed": 1} if seeded else {"ledger": ledger}
                found, more = one_fit(
                    client,
                    lambda how=how: dp.logit("y ~ a + b + c + g", parts, EPS, domain=DOMAIN, **how),
                    rng,
                )
                spent += not seeded
                exact = len(ledger.entries()) == spent and abs(1000 - EPS * spent - ledger.remaining.eps) < 1e-9
                outcomes[_outcome(found, expected if seeded else None)] += 1
                outcomes["charges exact" if exact else "CHARGES WRONG"] += not seeded
                kills += more
        logs = (str(client.get_worker_logs()) + str(client.get_scheduler_logs())).encode() + said.read_bytes()
        time.sleep(5)
        names = client.run_on_scheduler(lambda dask_scheduler: len(dask_scheduler.tasks))
    print(f"{kills} kills in {turn} fits of {ROWS:,} rows, {time.perf_counter() - started:.0f} s")
    for outcome, count in sorted(outcomes.items()):
        print(f"{count:5d}  {outcome}")
    for reason, count in sorted(why.items()):
        print(f"{count:5d}  passes ended by {reason}")
    print(f"{len(CANARY.findall(logs)):5d}  canaries in {len(logs):,} bytes of logs")
    print(f"{names:5d}  tasks left on the scheduler")


def _outcome(found: Any, expected: pd.Series | None) -> str:
    if isinstance(found, str):
        return f"error: {found}"
    if expected is None:
        return "released"
    return "the same release" if np.allclose(found.params, expected, rtol=1e-7, atol=1e-7) else "ANOTHER RELEASE"


if __name__ == "__main__":
    run(int(sys.argv[1]) if len(sys.argv) > 1 else 60)
