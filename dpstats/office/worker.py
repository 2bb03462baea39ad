"""``python -m dpstats.office.worker office.toml``: carry out the job that is named on standard input."""

from __future__ import annotations

import contextlib
import json
import os
import sys
import time
from typing import Any

import dpstats as dp
from dpstats.errors import ArgumentError, BudgetExceeded, DPStatsError, LedgerError, MismatchError
from dpstats.ledger import Ledger
from dpstats.office.config import DataSet, Office
from dpstats.office.jobs import FAILED, UNUSABLE, lease
from dpstats.office.request import Mismatch, Request, call_arguments, to_result
from dpstats.office.source import opened
from dpstats.office.store import Store, Unavailable, request_of

ATTEMPTS = 30
"""So often a job is begun before it is given up: what ends the process, for lack of memory say, may do so each time."""

WHOLE = "The office charged the whole request when it took it, and the charge stands"
"""What a mismatch costs beyond the look that found it."""

PATIENCE = 5.0  # seconds between attempts to store a release on a disk that is full


def main(path: str, job: str) -> int:
    """Carry out a job, unless another process does or did; 0 if it has ended."""
    office = Office.load(path)
    store = Store(office.folder)
    with lease(office.folder, job) as free:
        row = store.row("SELECT * FROM job WHERE id = ?", (job,))
        if not free or row is None or row["state"] not in ("paying", "taken"):
            return 0
        if row["dataset"] not in office.datasets:  # until the file has it again
            return 1
        _count(store, job, 1)
        outcome = carry_out(store, office.datasets[row["dataset"]], row)
        if outcome is None:
            _count(store, job, -1)
            return 1
        _keep(store, job, *outcome)
    with contextlib.suppress(OSError):
        (office.folder / "leases" / job).unlink()
    return 0


def carry_out(store: Store, dataset: DataSet, row: Any) -> tuple[str, str | None, str | None] | None:
    """State, message and result of a job; None if it must be taken up again, since the ledger cannot be used now."""
    request = request_of(row)
    try:
        ledger = dataset.open_ledger().signed(row["analyst"], label=request.label, key=row["id"])
    except (LedgerError, ArgumentError):  # it cannot be opened, or is missing
        return None
    message = UNUSABLE
    if row["attempts"] < ATTEMPTS:
        try:
            released = to_result(release(store, dataset, request, ledger))
            return "released", None, json.dumps(released, allow_nan=False)
        except MismatchError as error:  # what counts that were released say, and public facts
            return "released", None, json.dumps(to_result(Mismatch(f"{error}. {WHOLE}")))
        except BudgetExceeded as error:
            message = str(error)
        except Exception as error:
            if isinstance(error, LedgerError) and not ledger.charges_of_key():
                return None
    # After a charge the words are always the same.
    return ("failed", FAILED, None) if ledger.charges_of_key() else ("refused", message, None)


def release(store: Store, dataset: DataSet, request: Request, ledger: Ledger) -> Any:

    def find(job: str) -> Any:
        row = store.row("SELECT result FROM job WHERE id = ? AND state = 'released'", (job,))
        if row is None:
            raise DPStatsError("the release is missing")
        return json.loads(row["result"])

    given = {**call_arguments(request, dataset, find), "data": opened(dataset), "ledger": ledger}
    if dataset.cluster is None or request.verb == "select":
        return getattr(dp, request.verb)(**given)
    from distributed import Client

    with Client(dataset.cluster):
        return getattr(dp, request.verb)(**given, engine="dask")


def _count(store: Store, job: str, attempts: int) -> None:
    with store.writing() as connection:
        connection.execute("UPDATE job SET attempts = attempts + ? WHERE id = ?", (attempts, job))


def _keep(store: Store, job: str, state: str, message: str | None, result: str | None) -> None:
    """Store how a job has ended; a disk that is full is waited for, since the release cannot be made again."""
    while True:
        with contextlib.suppress(Unavailable), store.writing() as connection:
            connection.execute(
                "UPDATE job SET state = ?, message = ?, result = ?, ended = ?"
                " WHERE id = ? AND state IN ('paying', 'taken')",
                (state, message, result, time.time(), job),
            )
            return
        time.sleep(PATIENCE)


if __name__ == "__main__":
    os.nice(5)  # plans come first
    # All is imported by now. A server that ends closes the pipe, and there is nothing to do.
    named = sys.stdin.readline().strip()
    sys.exit(main(sys.argv[1], named) if named else 0)
