"""A release is charged for, then reads its rows; whatever becomes of it, the charge stays."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import dpstats as dp
from dpstats.data import Table, as_table
from dpstats.errors import ArgumentError, BudgetExceeded, ReleaseError
from dpstats.models.release import Release

TABLE = as_table({"x": [0.2, 0.4], "who": ["a", "b"]})


def release(work: Any, **more: Any) -> Release[Table, Any]:
    return Release(dp.Guarantee(0.25), TABLE, work, label="a test", method="test", columns=["x"], **more)


@pytest.fixture
def ledger(tmp_path: Path) -> dp.Ledger:
    return dp.Ledger(tmp_path / "ledger", "data", 0.4)


def test_rows_are_read_once_they_are_paid_for(ledger: dp.Ledger) -> None:
    left = release(lambda rows: ledger.remaining.eps, digest=lambda: "f" * 64).run(ledger, analyst="Ada", label="mine")
    assert left == pytest.approx(0.15)
    [entry] = ledger.entries().to_dict("records")
    assert (entry["label"], entry["analyst"], entry["plan_hash"]) == ("mine", "Ada", "f" * 64)


def test_what_is_refused_reads_no_row(ledger: dp.Ledger) -> None:
    dear = replace(release(lambda rows: pytest.fail("rows were read")), guarantee=dp.Guarantee(0.5))
    with pytest.raises(BudgetExceeded):
        dear.run(ledger)
    with pytest.raises(ArgumentError, match="label and analyst are for the entry of a ledger"):
        dear.run(None, analyst="Ada")
    assert ledger.remaining.eps == 0.4


def test_a_failure_tells_nothing_and_keeps_the_charge(ledger: dp.Ledger) -> None:
    def fails(rows: Table) -> None:
        raise ValueError("cell 0.2")

    with pytest.raises(ReleaseError) as caught:
        release(fails).run(ledger)
    assert "0.2" not in str(caught.value)
    assert caught.value.__context__ is None
    assert "was kept" in caught.value.__notes__[0]
    assert ledger.remaining.eps == pytest.approx(0.15)


def test_without_a_ledger_no_digest_is_made() -> None:
    assert release(lambda rows: "done", digest=lambda: pytest.fail("the digest was made")).run(None) == "done"


def test_the_unit_is_read_and_is_no_column_of_the_entry(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    read: list[set[str]] = []

    def only(self: Table, names: Any) -> Table:
        read.append(set(names))
        return self

    monkeypatch.setattr(Table, "only", only)
    persons = dp.Ledger(tmp_path / "persons", "data", 0.4, unit="who", domain={"x": (0, 1)})
    declared = dp.Domain(x=(0, 1))
    bought = replace(release(lambda rows: rows.rows, domain=declared), guarantee=dp.Guarantee(0.25, unit="who"))
    assert bought.run(persons) == 2  # the ledger's Domain does not declare who is who
    assert read == [{"x", "who"}]
