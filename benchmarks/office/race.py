"""Analysts race for a budget while servers and workers are killed: ``python -m benchmarks.office.race``.

A server is a process with a thread for each analyst, who send some requests twice. It and its workers are killed with
SIGKILL at random times, and the server is started again; what was not answered is sent again under the same key.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd

from dpstats.errors import BudgetExceeded
from dpstats.ledger import Ledger
from dpstats.office.config import Office
from dpstats.office.request import Request
from dpstats.office.service import Service
from dpstats.office.store import Store, TooManyRequests, Unavailable, request_of

EPS = (0.25, 0.5)
FILE = """
[office]
deadline = 0.1
[data.survey]
source = "rows.csv"
domain = "codebook.csv"
ledger = "survey.ledger"
eps = {eps}
rows = 2000
"""


class Outcome(NamedTuple):
    """What went wrong, all of which must be 0; and how much was done."""

    overspends: int
    paid_without_release: int
    releases_without_charge: int
    double_charges: int
    answers_lost: int
    released: int
    refused: int
    kills: int

    @property
    def faults(self) -> int:
        """The sum of what must be 0."""
        return sum(self[:5])


def make_office(folder: Path, eps: float, rows: int = 2000) -> None:
    """Rows, codebook, ledger and the file of the office."""
    rng = np.random.default_rng(1)
    x = rng.uniform(0, 1, rows)
    y = np.clip(0.3 * x + rng.uniform(0, 0.5, rows), 0, 1)
    pd.DataFrame({"x": x, "y": y}).to_csv(folder / "rows.csv", index=False)
    (folder / "codebook.csv").write_text("name,low,high,levels\nx,0,1,\ny,0,1,\n")
    (folder / "office.toml").write_text(FILE.format(eps=eps))
    Office.load(folder / "office.toml").datasets["survey"].make_ledger().close()


def serve(folder: Path, analysts: int, requests: int) -> None:
    """Send what was not answered yet, until all was and no job is open."""
    service = Service(Office.load(folder / "office.toml"))
    service.start()
    answers = folder / "answers"
    answered = {tuple(line.split()[:2]) for line in answers.read_text().splitlines()} if answers.exists() else set()

    def ask(analyst: str) -> None:
        for number in range(requests):
            if (analyst, str(number)) in answered:
                continue
            # No inference: half of the requests charge twice, the others once.
            more = {"inference": None, "check_share": 0} if number % 2 else {}
            request = Request("survey", "glm", {"formula": "y ~ x", "eps": EPS[number % 3 > 0], **more})
            while True:
                try:
                    answer = service.submit(analyst, request, f"{analyst} {number}").id
                    if number % 3 == 0:
                        assert service.submit(analyst, request, f"{analyst} {number}").id == answer
                except BudgetExceeded:
                    answer = "refused"
                except (TooManyRequests, Unavailable):
                    time.sleep(0.1)
                    continue
                break
            with answers.open("ab", buffering=0) as file:
                file.write(f"{analyst} {number} {answer}\n".encode())

    threads = [threading.Thread(target=ask, args=(f"analyst{number}",)) for number in range(analysts)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    store = Store(folder / "office")
    while store.rows("SELECT 1 FROM job WHERE state IN ('paying', 'taken')"):
        time.sleep(0.2)
    service.stop()
    (folder / "done").touch()


def workers(folder: Path) -> list[int]:
    """The processes that work for the office."""
    found, mark = [], f"dpstats.office.worker\0{(folder / 'office.toml').resolve()}\0".encode()
    for place in Path("/proc").iterdir():
        with contextlib.suppress(OSError):
            if place.name.isdecimal() and mark in (place / "cmdline").read_bytes():
                found.append(int(place.name))
    return found


def race(
    folder: Path, *, analysts: int, requests: int, kills: int, eps: float, pause: float = 4.0, seed: int = 0
) -> Outcome:
    """Carry the race out in an empty folder."""
    make_office(folder, eps)
    draw, killed = random.Random(seed), 0
    command = [sys.executable, "-m", "benchmarks.office.race", "--serve", str(folder)]
    command += ["--analysts", str(analysts), "--requests", str(requests)]

    def start() -> subprocess.Popen[bytes]:
        return subprocess.Popen(command, env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)})

    server = start()
    while not (folder / "done").exists():
        time.sleep(draw.uniform(0, pause))
        victims = [server.pid] * 2 + workers(folder) if killed < kills else []
        if server.poll() is None and victims:
            victim = draw.choice(victims)
            with contextlib.suppress(OSError):
                os.kill(victim, signal.SIGKILL)
                killed += 1
            if victim == server.pid:
                server.wait()
        if server.poll() is not None and not (folder / "done").exists():
            server = start()
    server.wait()
    return count(folder, killed)


def count(folder: Path, kills: int) -> Outcome:
    """Compare ledger, jobs and answers."""
    office = Office.load(folder / "office.toml")
    ledger, store = Ledger.open(office.datasets["survey"].ledger), Store(office.folder)
    entries = ledger.entries()
    jobs = {row["id"]: row for row in store.rows("SELECT * FROM job")}
    paid = {id: entries.loc[ledger.signed(key=id).charges_of_key(), "eps"].sum() for id in jobs}
    cost = {id: request_of(row).eps for id, row in jobs.items()}
    states = Counter(row["state"] for row in jobs.values())
    released = {id for id, row in jobs.items() if row["state"] == "released" and row["result"]}
    answered = [line.split()[2] for line in (folder / "answers").read_text().splitlines()]
    return Outcome(
        overspends=int(entries["eps"].sum() > ledger.total.eps + 1e-9),
        paid_without_release=sum(paid[id] > 0 and id not in released for id in jobs),
        releases_without_charge=sum(paid[id] < cost[id] - 1e-9 for id in released),
        double_charges=sum(paid[id] > cost[id] + 1e-9 for id in jobs)
        + int(abs(sum(paid.values()) - entries["eps"].sum()) > 1e-9),
        answers_lost=sum(answer != "refused" and answer not in jobs for answer in answered),
        released=len(released),
        refused=answered.count("refused") + states["refused"],
        kills=kills,
    )


def main() -> None:
    """The race of the figures, or one server of it."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--serve", type=Path)
    for name, default in (("analysts", 10), ("requests", 200), ("kills", 50)):
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument("--eps", type=float, default=30.0)
    given = parser.parse_args()
    if given.serve is not None:
        serve(given.serve, given.analysts, given.requests)
        return
    folder = Path(tempfile.mkdtemp(prefix="dpstats-office"))
    began = time.monotonic()
    outcome = race(folder, analysts=given.analysts, requests=given.requests, kills=given.kills, eps=given.eps)
    for name, value in outcome._asdict().items():
        print(f"{name.replace('_', ' '):28}{value:6}")
    print(f"{'seconds':28}{time.monotonic() - began:6.0f}")
    shutil.rmtree(folder)


if __name__ == "__main__":
    main()
