"""Crashes at every step: a paid job is finished under its charge, never charged again, never released twice."""

from __future__ import annotations

import json
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from offices import CODEBOOK, FIT, finished

from benchmarks.office.race import race
from dpstats.domain import Domain
from dpstats.errors import LedgerError
from dpstats.ledger import Ledger
from dpstats.office import jobs, worker
from dpstats.office.request import Request
from dpstats.office.service import Service
from dpstats.office.store import Store, Unavailable

Opened = Callable[..., Service]
GLM = Request("survey", "glm", FIT)


class Crash(BaseException):
    """The process ends here."""


def charged(service: Service) -> float:
    return float(Ledger.open(service.office.datasets["survey"].ledger).entries()["eps"].sum())


def crash(*_: object, **__: object) -> None:
    raise Crash


@pytest.mark.parametrize("place", ["call_arguments", "opened", "to_result", "_keep"])
def test_a_worker_that_ends_anywhere_is_followed_by_one_that_finishes(
    opened: Opened, place: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    service = opened()
    job = service.submit("ada", GLM, "k")
    with monkeypatch.context() as patched:
        patched.setattr(worker, place, crash)
        for _ in range(2):
            with pytest.raises(Crash):
                worker.main(str(service.office.path), job.id)
    assert service.job("ada", job.id).state == "working"
    assert finished(service, "ada", job.id).state == "released"
    assert charged(service) == pytest.approx(0.5)
    stored = service.job("ada", job.id)
    worker.main(str(service.office.path), job.id)
    assert service.job("ada", job.id) == stored


@pytest.mark.parametrize("charges", [0, 1, 2])
def test_a_server_that_ends_while_it_pays_leaves_the_rest_to_a_worker(
    opened: Opened, charges: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    service = opened()
    whole = Ledger.charge

    def cut(ledger: Ledger, *given: Any, **more: Any) -> Any:
        if charges == 0 or charged(service) > 0:
            raise Crash
        return whole(ledger, *given, **more)

    with monkeypatch.context() as patched:
        if charges < 2:
            patched.setattr(Ledger, "charge", cut)
        else:
            patched.setattr(Service, "_advance", crash)
        with pytest.raises(Crash):
            service.submit("ada", GLM, "k")
    (job,) = service.jobs("ada")
    assert job.state == "working"
    assert service.submit("ada", GLM, "k").id == job.id
    monkeypatch.setattr(jobs, "PAYING", 0.0)
    assert service._pool._taken() == {job.id: "ada"}
    assert finished(service, "ada", job.id).state == "released"
    assert charged(service) == pytest.approx(0.5)


def test_a_request_that_was_paid_for_is_carried_out_under_the_corrected_codebook(
    opened: Opened, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An office whose file is corrected starts once its ledger is, and charges nothing again."""
    service = opened()
    job = service.submit("ada", GLM, "k")
    with monkeypatch.context() as patched:
        patched.setattr(worker, "opened", crash)
        with pytest.raises(Crash):
            worker.main(str(service.office.path), job.id)
    (tmp_path / "codebook.csv").write_text(CODEBOOK.replace("x,0,2", "x,0,1"))
    with pytest.raises(LedgerError, match=r"different Domain .*keeper correct the Domain"):
        opened()
    assert worker.main(str(service.office.path), job.id) == 1  # it is left for later
    Ledger.open(service.office.datasets["survey"].ledger).set_domain(Domain.from_csv(tmp_path / "codebook.csv"))
    again = opened()
    shown = finished(again, "ada", job.id)
    assert shown.state == "released"
    assert shown.result is not None
    assert shown.result["plan"]["design"]["domain"]["x"] == {"range": [0, 1]}
    assert charged(again) == pytest.approx(0.5)


def test_what_a_worker_cannot_pay_for_after_a_crash_is_refused(opened: Opened) -> None:
    """Another program has spent the budget between the crash of the server and the worker."""
    service = opened()
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(Service, "_pay", crash)
        with pytest.raises(Crash):
            service.submit("ada", GLM, "k")
    from dpstats.privacy.guarantee import Guarantee

    Ledger.open(service.office.datasets["survey"].ledger).charge(Guarantee(9.8), label="another program")
    (job,) = service.jobs("ada")
    refused = finished(service, "ada", job.id)
    assert refused.state == "refused"
    assert "exceeds what remains of 'survey'" in str(refused.message)


def test_a_disk_that_is_full_loses_nothing(opened: Opened, monkeypatch: pytest.MonkeyPatch) -> None:
    """The release waits in its worker until there is space; a job is not taken meanwhile."""
    service, full = opened(), [3]
    job = service.submit("ada", GLM, "k")
    before = Store.writing

    def refusing(store: Store) -> Any:
        if sys._getframe(1).f_code.co_name == "_keep" and full[0]:
            full[0] -= 1
            raise Unavailable
        return before(store)

    monkeypatch.setattr(worker, "PATIENCE", 0.01)
    monkeypatch.setattr(Store, "writing", refusing)
    assert finished(service, "ada", job.id).state == "released"
    assert full == [0]

    pages = service._store._connection.execute("PRAGMA page_count").fetchone()[0]
    service._store._connection.execute(f"PRAGMA max_page_count = {pages}")
    long = Request("survey", "glm", {**FIT, "formula": "y ~ x" + " " * 10_000})

    def fill() -> None:
        for number in range(50):
            service.submit("ada", long, f"long {number}")

    with pytest.raises(Unavailable, match="nothing was lost, try again later"):
        fill()
    service._store._connection.execute("PRAGMA max_page_count = 1000000")
    assert charged(service) == pytest.approx(0.5 * len(service.jobs("ada")))
    assert service.submit("ada", GLM, "later").state == "working"


def test_a_ledger_that_cannot_be_used_for_now_is_waited_for(opened: Opened, tmp_path: Path) -> None:
    service = opened()
    job = service.submit("ada", GLM, "k")
    ledger = tmp_path / "survey.ledger"
    ledger.rename(tmp_path / "aside")
    for _ in range(3):
        assert worker.main(str(service.office.path), job.id) == 1
    (tmp_path / "aside").rename(ledger)
    assert finished(service, "ada", job.id).state == "released"


def test_a_job_that_ends_its_process_each_time_is_given_up(opened: Opened, monkeypatch: pytest.MonkeyPatch) -> None:
    service = opened()
    job = service.submit("ada", GLM, "k")
    with monkeypatch.context() as patched:
        patched.setattr(worker, "release", crash)
        for _ in range(worker.ATTEMPTS):
            with pytest.raises(Crash):
                worker.main(str(service.office.path), job.id)
    failed = finished(service, "ada", job.id)
    assert (failed.state, failed.message) == ("failed", jobs.FAILED)


def test_one_worker_has_a_job(opened: Opened) -> None:
    service = opened()
    job = service.submit("ada", GLM, "k")
    with jobs.lease(service.office.folder, job.id) as first:
        assert first
        with jobs.lease(service.office.folder, job.id) as second:
            assert not second
        assert worker.main(str(service.office.path), job.id) == 0
        assert service._pool._carry_out(job.id) is False
    assert service.job("ada", job.id).state == "working"
    assert finished(service, "ada", job.id).state == "released"


def test_what_was_stored_is_never_rewritten(opened: Opened) -> None:
    service = opened()
    job = finished(service, "ada", service.submit("ada", GLM, "k").id)
    for change in (
        f"UPDATE job SET state = 'taken' WHERE id = '{job.id}'",
        "UPDATE job SET result = '{}'",
        "UPDATE job SET arguments = '{}'",
        "DELETE FROM job",
        "UPDATE audit SET actor = 'nobody'",
        "DELETE FROM audit",
    ):
        with pytest.raises(sqlite3.IntegrityError), service._store.writing() as connection:
            connection.execute(change)
    assert json.loads(json.dumps(service.job("ada", job.id).result)) == job.result


@pytest.mark.slow
def test_two_servers_on_one_folder_release_each_job_once(opened: Opened) -> None:
    path = opened().office.path
    path.write_text(path.read_text().replace("workers = 2", "workers = 1"))
    services = [opened(start=True), opened(start=True)]
    taken = [services[number % 2].submit("ada", GLM, str(number)) for number in range(2)]
    while services[0]._store.row("SELECT 1 FROM job WHERE ended IS NULL"):
        time.sleep(0.1)
    states = services[1]._store.rows("SELECT state FROM job")
    assert [row["state"] for row in states] == ["released"] * len(taken)
    assert charged(services[0]) == pytest.approx(1.0)


@pytest.mark.slow
def test_a_worker_ends_with_the_server_that_it_waits_for(opened: Opened) -> None:
    """It is given no job then; and it says nothing anywhere."""
    service = opened()
    command = [sys.executable, "-m", "dpstats.office.worker", str(service.office.path)]
    ended = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, check=True)
    assert (ended.stdout, ended.stderr) == (b"", b"")


@pytest.mark.slow
def test_kills_at_random_times_lose_and_double_nothing(tmp_path: Path) -> None:
    """A small ``python -m benchmarks.office.race``."""
    outcome = race(tmp_path, analysts=4, requests=6, kills=4, eps=2.0, pause=3.0, seed=7)
    assert outcome.faults == 0, outcome
    assert outcome.kills == 4
    assert outcome.released >= 4
    assert outcome.refused > 0
