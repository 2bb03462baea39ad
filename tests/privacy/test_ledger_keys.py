"""Charges under a key: made once, however often the work that they pay for is begun again."""

from __future__ import annotations

import multiprocessing
import random
from pathlib import Path

import postgres
import pytest

import dpstats as dp
from dpstats.domain import Domain
from dpstats.errors import ArgumentError, BudgetExceeded
from dpstats.ledger import Ledger
from dpstats.privacy.guarantee import Guarantee

HALF = Guarantee(0.5)


def test_a_repeated_charge_is_the_first_one(path: Path | str) -> None:
    ledger = Ledger(path, "d", 1.0)
    first = ledger.signed("Ada", key="a").charge(HALF, label="a fit")
    first.rows_read()
    again = Ledger.open(path).signed("Ada", key="a").charge(HALF, label="a fit")
    assert (again.number, again.state, ledger.remaining.eps) == (first.number, "read", 0.5)
    again.rows_read()
    assert ledger.signed(key="a").charges_of_key() == [first.number]
    assert ledger.charges_of_key() == []


def test_a_run_draws_on_each_entry_once(path: Path | str) -> None:
    ledger = Ledger(path, "d", 2.0)
    work = ledger.signed(key="a")
    numbers = [work.signed(label="another title").charge(HALF, label=label).number for label in "ab"]
    again = ledger.signed(key="a")
    assert [again.charge(HALF, label=label).number for label in "abc"] == [*numbers, 3]


def test_what_was_charged_needs_no_budget(path: Path | str) -> None:
    ledger = Ledger(path, "d", 1.0)
    for _ in range(2):
        work = ledger.signed("Ada", key="a")
        work.check_charges([HALF, HALF])
        work.charge(HALF, label="rows")
        work.check_charges([HALF])
        work.charge(HALF, label="the rest")
        assert ledger.remaining.eps == 0
        with pytest.raises(BudgetExceeded):
            work.check_charges([HALF])
        with pytest.raises(BudgetExceeded):
            work.charge(HALF, label="more")


def test_a_refusal_names_what_is_to_be_charged_and_not_what_was(path: Path | str) -> None:
    """With delta, which may be what is too much, and as the ledger counts it."""
    ledger = Ledger(path, "d", 2.0, delta=1e-6, adjacency="replace_one")
    ledger.signed(key="a").charge(HALF, label="rows")
    rest, said = Guarantee(0.25, 1e-5), r"^a charge of eps=0\.5, delta=2\.\d+e-05 \(replace_one\) exceeds"
    with pytest.raises(BudgetExceeded, match=said):
        ledger.signed(key="a").check_charges([HALF, rest])


@pytest.mark.parametrize("eps", [0.25, 0.6])
def test_another_price_is_charged_in_full(path: Path | str, eps: float) -> None:
    ledger = Ledger(path, "d", 2.0)
    ledger.signed(key="a").charge(HALF, label="a fit")
    ledger.signed(key="a").charge(Guarantee(eps), label="a fit that was planned otherwise")
    assert ledger.remaining.eps == pytest.approx(1.5 - eps)


def test_nobody_draws_on_what_is_not_theirs(path: Path | str) -> None:
    """Another analyst, another key, another part, or what was given back."""
    ledger = Ledger(path, "d", 5.0)
    north = ledger.partition("region", ["north", "south"])["north"]
    ledger.signed("Ada", key="a").charge(HALF, label="a")
    ledger.signed("Bob", key="a").charge(HALF, label="a")
    ledger.signed("Ada", key="b").charge(HALF, label="a")
    north.signed("Ada", key="a").charge(HALF, label="a")
    ledger.signed("Ada").charge(HALF, label="a")
    ledger.signed("Ada", key="c").charge(HALF, label="a").refund()
    ledger.signed("Ada", key="c").charge(HALF, label="a")
    assert ledger.entries()["state"].tolist() == ["charged"] * 5 + ["refunded", "charged"]
    assert north.signed("Ada", key="a").charge(HALF, label="a").number == 4


def test_keys_are_checked_and_never_rewritten(path: Path | str) -> None:
    ledger = Ledger(path, "d", 1.0)
    for key in (3, "", "\ud800"):
        with pytest.raises(ArgumentError, match=r"^key must"):
            ledger.signed(key=key)  # type: ignore[arg-type]
    ledger.signed(key="a").charge(HALF, label="a")
    with postgres.raw(path) as execute, pytest.raises(postgres.BROKEN_RULES):
        execute("UPDATE entry SET key = 'b'")


def test_no_run_is_charged_too_little(path: Path | str) -> None:
    """Runs that are cut off anywhere and then go another way: the entries of the key cover each of them."""
    ledger, draw = Ledger(path, "d", 1e3), random.Random(3)
    for key in map(str, range(4)):
        for _ in range(6):
            work, run = ledger.signed(key=key), []
            for _ in range(draw.randrange(4)):
                run.append(draw.choice([0.125, 0.25, 0.5]))
                work.charge(Guarantee(run[-1]), label="a stage")
            numbers = work.charges_of_key()
            paid = ledger.entries().loc[numbers, "eps"].tolist()
            for eps in run:
                paid.remove(eps)


def test_a_fit_that_charges_twice_is_paid_once(path: Path | str) -> None:
    rows = {"x": [0.1, 0.5, 0.9] * 100, "y": [0.2, 0.4, 0.8] * 100}
    domain = {"x": (0, 1), "y": (0, 1)}
    plan = dp.plan("y ~ x", domain, 1.0)
    ledger = Ledger(path, "d", 1.0)
    paid = ledger.signed("Ada", key="a")
    for guarantee in plan.charges:
        paid.charge(guarantee, label="in advance")
    for _ in range(2):
        dp.glm("y ~ x", rows, 1.0, domain=domain, ledger=Ledger.open(path).signed("Ada", key="a"))
    assert len(plan.charges) == 2
    assert ledger.entries()["label"].tolist() == ["in advance"] * 2
    assert ledger.remaining.eps == 0


def _charge(path: Path | str, barrier: object) -> None:
    ledger = Ledger.open(path)
    barrier.wait()  # type: ignore[attr-defined]
    for number in range(20):
        ledger.signed("Ada", key=str(number)).charge(HALF, label="a")


@pytest.mark.slow
def test_processes_that_race_charge_a_key_once(path: Path | str) -> None:
    ledger, context = Ledger(path, "d", 1e3), multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["dpstats.ledger"])
    barrier = context.Barrier(4)
    racers = [context.Process(target=_charge, args=(path, barrier)) for _ in range(4)]
    for racer in racers:
        racer.start()
    for racer in racers:
        racer.join()
        assert racer.exitcode == 0
    assert len(ledger.entries()) == 20


ONE_DOMAIN = (
    "ALTER TABLE codebook ALTER id DROP IDENTITY; ALTER TABLE codebook RENAME id TO one;"
    "ALTER TABLE codebook ADD CHECK (one = 1);"
)
NO_KEYS = (
    "DROP TRIGGER entry_is_fixed ON entry; DROP INDEX entry_key; ALTER TABLE entry DROP COLUMN key;"
    "CREATE TRIGGER entry_is_fixed BEFORE UPDATE OF label ON entry FOR EACH ROW EXECUTE FUNCTION refuse('no');"
)


@pytest.mark.parametrize(("version", "back"), [(3, NO_KEYS + ONE_DOMAIN), (4, ONE_DOMAIN)])
def test_an_older_ledger_on_a_server_is_brought_up_to_date(database: postgres.Server, version: int, back: str) -> None:
    url = database.url(f"older{version}")
    Ledger(url, "d", 1.0, domain={"a": (0, 1)}).charge(HALF, label="before")
    with postgres.raw(url) as execute:
        execute(f"{back} COMMENT ON TABLE ledger IS 'dpstats ledger, schema version {version}'")
    ledger = Ledger(url, "d", 1.0)
    for _ in range(2):
        ledger.signed(key="a").charge(HALF, label="after")
    assert ledger.domain == Domain(a=(0, 1))
    ledger.set_domain({"a": (0, 2)})
    assert ledger.domain == Domain(a=(0, 2))
    assert ledger.entries()["label"].tolist() == ["before", "after", "Domain corrected"]
    for change in ("key = 'b'", "eps = 0"):
        with postgres.raw(url) as execute, pytest.raises(postgres.BROKEN_RULES):
            execute(f"UPDATE entry SET {change}")
