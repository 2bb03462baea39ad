"""Processes, forks, threads and kill -9 on one ledger: never a unit more than the budget, never an entry lost."""

from __future__ import annotations

import os
import pickle
import sqlite3
import threading
import warnings
from pathlib import Path

import pytest

from benchmarks.audits.ledger_faults import context, kill_runs, spend_all
from dpstats.errors import BudgetExceeded
from dpstats.ledger import Ledger
from dpstats.ledger.ledger import _row
from dpstats.ledger.sqlite import create
from dpstats.privacy.guarantee import Guarantee

TENTH = Guarantee(0.1)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "budget.db"


@pytest.mark.slow
def test_eight_processes_race_for_the_budget_from_the_making_of_the_file(path: Path, tmp_path: Path) -> None:
    for round_number in range(2):
        path, made = tmp_path / f"{round_number}.db", tmp_path / f"made{round_number}"
        barrier = context().Barrier(8)
        racers = [context().Process(target=spend_all, args=(path, barrier, made)) for _ in range(8)]
        for racer in racers:
            racer.start()
        for racer in racers:
            racer.join()
            assert racer.exitcode == 0
        assert sorted(map(int, made.read_text().split())) == list(range(1, 21))
        with Ledger(path, "d", 2.0) as ledger:
            assert len(ledger.entries()) == 20
            assert ledger.remaining.eps == 0.0
    assert not list(tmp_path.glob(".*draft*"))


def test_a_ledger_that_another_process_has_just_made_and_opened_is_left_alone(path: Path) -> None:
    """The loser of the race looked for the file before the winner made it, and finds the winner's log."""
    with Ledger(path, "d", 2.0) as winner:
        winner.charge(TENTH, label="a")
        assert path.with_name(path.name + "-wal").exists()
        create(path, _row(winner._facts))
        assert winner.remaining.eps == 1.9


@pytest.mark.slow
def test_kill_at_random_points_loses_and_doubles_nothing(tmp_path: Path) -> None:
    made, recorded = kill_runs(tmp_path, runs=25, seed=1, seconds=0.04)
    assert 0 < made <= recorded <= made + 25


def test_a_fork_inherits_no_connection_and_both_sides_go_on(path: Path) -> None:
    ledger = Ledger(path, "d", 100.0)
    ledger.charge(TENTH, label="before")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # Python 3.12, if the test runner has threads
        child = os.fork()
    if child == 0:
        status = 1
        try:
            if ledger._store._connection is None:
                for _ in range(20):
                    ledger.charge(TENTH, label="child").rows_read()
                status = 0
        finally:
            os._exit(status)
    for _ in range(20):
        ledger.charge(TENTH, label="parent")
        ledger.close()  # as the last one out, this would remove the log from under an unprotected child
    assert os.waitpid(child, 0)[1] == 0
    assert sorted(Ledger.open(path).entries()["label"]) == ["before", *["child"] * 20, *["parent"] * 20]


def test_threads_share_a_ledger(path: Path) -> None:
    ledger = Ledger(path, "d", 2.0)
    made: list[int] = []

    def spend() -> None:
        for _ in range(5):
            try:
                made.append(ledger.charge(TENTH, label="thread").number)
            except BudgetExceeded:
                made.append(0)

    threads = [threading.Thread(target=spend) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(made) == [0] * 20 + list(range(1, 21))
    assert ledger.remaining.eps == 0.0


def test_a_pickled_ledger_opens_the_same_books(path: Path) -> None:
    ledger = Ledger(path, "d", 1.0)
    part = pickle.loads(pickle.dumps(ledger.partition("sex", ["F", "M"])["F"]))
    pickle.loads(pickle.dumps(ledger)).charge(TENTH, label="a")
    part.charge(TENTH, label="b")
    assert ledger.remaining.eps == 0.8


def test_the_file_is_synchronised_at_every_commit(path: Path) -> None:
    ledger = Ledger(path, "d", 1.0)
    connection = ledger._store._connection
    assert connection is not None
    assert connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)
    assert connection.execute("PRAGMA synchronous").fetchone() == (2,)
    # A second reader sees the charge at once: it is in the file's log, not in this process's memory.
    ledger.charge(TENTH, label="a")
    other = sqlite3.connect(path)
    assert other.execute("SELECT COUNT(*) FROM entry").fetchone() == (1,)
    other.close()
