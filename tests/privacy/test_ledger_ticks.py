"""A stream's place in a ledger: it moves on by one tick, from the state that is known, and never back."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest

import dpstats as dp
from dpstats.errors import LedgerError
from dpstats.privacy.guarantee import Guarantee
from dpstats.streaming.checkpoint import Position, StreamPositions


@pytest.fixture
def ledger(path: Path | str) -> dp.Ledger:
    return dp.Ledger(path, dataset="d", eps=1.0, delta=1e-5)


def test_a_stream_moves_on_from_the_known_state_alone(ledger: dp.Ledger) -> None:
    books = StreamPositions(ledger)
    assert books.charge_of("plan:stream") is None
    assert books.position(1) is None
    charge = ledger.charge(Guarantee(0.5), label="stream", plan_hash="plan:stream")
    assert books.charge_of("plan:stream") == charge.number
    assert books.position(charge.number) is None
    books.begin(charge.number, "zero")
    books.begin(charge.number, "another first state")
    assert books.position(charge.number) == Position(0, "zero")
    assert charge.state == "read"
    assert books.advance(charge.number, Position(0, "zero"), "one")
    for stale in (Position(0, "zero"), Position(1, "zero"), Position(0, "one"), Position(2, "one")):
        assert not books.advance(charge.number, stale, "two")
    assert books.position(charge.number) == Position(1, "one")
    ledger._store.verify()


def test_a_refunded_charge_is_of_no_stream(ledger: dp.Ledger) -> None:
    charge = ledger.charge(Guarantee(0.5), label="stream", plan_hash="plan:stream")
    charge.refund()
    books = StreamPositions(ledger)
    assert books.charge_of("plan:stream") is None
    with pytest.raises(LedgerError, match="refunded"):
        books.begin(charge.number, "zero")
    assert books.position(charge.number) is None


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE stream SET tick = 0",
        "UPDATE stream SET tick = tick + 2",
        "UPDATE stream SET digest = 'x'",
        "DELETE FROM stream",
    ],
)
def test_the_file_itself_refuses_to_turn_back(ledger: dp.Ledger, statement: str) -> None:
    books = StreamPositions(ledger)
    charge = ledger.charge(Guarantee(0.5), label="stream", plan_hash="plan:stream")
    books.begin(charge.number, "zero")
    assert books.advance(charge.number, Position(0, "zero"), "one")
    with (
        pytest.raises(LedgerError, match="breaks its rules"),
        ledger._store.transaction(write=True) as connection,
    ):
        connection.execute(statement)
    assert books.position(charge.number) == Position(1, "one")


def test_ledgers_without_streams_have_no_table_of_them(ledger: dp.Ledger, tmp_path: Path) -> None:
    ledger.charge(Guarantee(0.5), label="a fit")
    connection = sqlite3.connect(tmp_path / "ledger")
    found = connection.execute("SELECT COUNT(*) FROM sqlite_master WHERE name = 'stream'").fetchone()
    connection.close()
    assert found == (0,)
