"""What is PostgreSQL's own about a ledger there; what all ledgers do is tested on both kinds beside this file."""

from __future__ import annotations

import multiprocessing
import pickle
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import postgres
import psycopg
import pytest

import dpstats as dp
from benchmarks.audits.ledger_faults import context, kill_runs, spend_all
from dpstats.errors import ArgumentError, LedgerError
from dpstats.ledger import Ledger, as_ledger
from dpstats.ledger import postgres as store
from dpstats.privacy.guarantee import Guarantee

TENTH = Guarantee(0.1)


@pytest.fixture
def url(database: postgres.Server, request: pytest.FixtureRequest) -> str:
    return database.url(f"own{abs(hash(request.node.name))}")


@pytest.fixture
def server() -> Iterator[postgres.Server]:
    """One that a test may crash."""
    with postgres.server() as running:
        yield running


@pytest.mark.slow
def test_eight_processes_race_for_the_budget_from_the_making_of_the_ledger(url: str, tmp_path: Path) -> None:
    made, barrier = tmp_path / "made", context().Barrier(8)
    racers = [context().Process(target=spend_all, args=(url, barrier, made)) for _ in range(8)]
    for racer in racers:
        racer.start()
    for racer in racers:
        racer.join()
        assert racer.exitcode == 0
    assert sorted(map(int, made.read_text().split())) == list(range(1, 21))
    with Ledger(url, "d", 2.0) as ledger:
        assert len(ledger.entries()) == 20
        assert ledger.remaining.eps == 0.0


@pytest.mark.slow
def test_kill_at_random_points_loses_and_doubles_nothing(url: str, tmp_path: Path) -> None:
    made, recorded = kill_runs(tmp_path, runs=12, seed=1, seconds=0.04, path=url)
    assert 0 < made <= recorded <= made + 12


@pytest.mark.slow
def test_a_crash_of_the_server_forgets_no_charge(server: postgres.Server) -> None:
    """It dies while four threads charge: what was reported as made is there when it comes back, and no more than that
    and what was under way."""
    url, made, lock = server.url("survey"), list[int](), threading.Lock()
    Ledger(url, "d", 1000.0).close()

    def charge(ledger: Ledger) -> None:
        try:
            while True:
                number = ledger.charge(Guarantee(0.001), label="a").number
                with lock:
                    made.append(number)
        except LedgerError:
            return

    for _ in range(3):
        threads = [threading.Thread(target=charge, args=(Ledger.open(url),)) for _ in range(4)]
        for thread in threads:
            thread.start()
        time.sleep(0.5)
        server.stop("immediate")
        for thread in threads:
            thread.join()
        server.start()
        recorded = set(Ledger.open(url).entries().index)
        assert len(made) == len(set(made))
        assert set(made) <= recorded
        assert len(recorded) <= len(made) + 12
    assert made


@pytest.mark.slow
def test_a_server_that_may_forget_is_refused(server: postgres.Server) -> None:
    with postgres.raw(server.url("any")) as execute:
        execute("ALTER SYSTEM SET fsync = off")
        execute("SELECT pg_reload_conf()")
    time.sleep(0.5)
    with pytest.raises(LedgerError, match="fsync"):
        Ledger(server.url("survey"), "d", 1.0)


def test_commits_are_durable_whatever_the_session_says(url: str) -> None:
    database, schema = postgres.schema_of(url)
    with Ledger(f"{database}&options=-csynchronous_commit%3Doff&schema={schema}", "d", 1.0) as ledger:
        with ledger._store.transaction(write=True) as connection:
            assert connection.execute("SELECT current_setting('synchronous_commit')").fetchone()[0] == "on"
        assert ledger.charge(TENTH, label="a").number == 1


def test_no_password_is_shown_or_told(url: str) -> None:
    database, schema = postgres.schema_of(url)
    place = database.split("?")[1]
    secret = f"postgresql://keeper:s3cr3t@/postgres?{place}&schema={schema}"
    with Ledger(secret, "d", 1.0) as ledger:
        assert "s3cr3t" not in repr(ledger) + str(ledger.path) + ledger.report() + ledger.to_html()
        assert str(ledger.path).startswith("postgresql://keeper@/postgres?")
        assert pickle.loads(pickle.dumps(ledger)).remaining.eps == 1.0
    for wrong in (secret.replace("/postgres?", "/nowhere?"), secret.replace(schema, "nowhere")):
        with pytest.raises(LedgerError) as caught:
            Ledger.open(wrong)
        assert "s3cr3t" not in str(caught.value)
    for bad in (f"{database}&schema=pg_catalog", f"{database}&schema=a;b", "postgresql://[k:s3cr3t@/db"):
        with pytest.raises(ArgumentError) as refused:
            Ledger(bad, "d", 1.0)
        assert "s3cr3t" not in str(refused.value)


def test_one_database_holds_several_ledgers(url: str) -> None:
    other = url + "b"
    with Ledger(url, "one", 1.0) as one, Ledger(other, "two", 2.0) as two:
        one.charge(TENTH, label="a")
        assert (one.remaining.eps, two.remaining.eps) == (0.9, 2.0)
    assert Ledger.open(other).dataset == "two"


def test_what_belongs_to_others_is_left_alone(url: str) -> None:
    _, schema = postgres.schema_of(url)
    for table in ("ledger", "entry"):
        with postgres.raw(url) as execute:
            execute(f"CREATE SCHEMA {schema}")
            execute(f"CREATE TABLE {schema}.{table} (id BIGINT)")
        with pytest.raises(LedgerError, match="tables of another program"):
            Ledger(url, "d", 1.0)
        with postgres.raw(url) as execute:
            execute(f"DROP SCHEMA {schema} CASCADE")


def test_a_connection_that_was_cut_while_idle_is_opened_anew(url: str) -> None:
    with Ledger(url, "d", 1.0) as ledger:
        ledger.charge(TENTH, label="a")
        pid = ledger._store._connection._connection.info.backend_pid
        with postgres.raw(url) as execute:
            execute(f"SELECT pg_terminate_backend({pid})")
        time.sleep(0.1)
        assert ledger.charge(TENTH, label="b").number == 2


def test_a_writer_that_falls_silent_holds_nobody_up(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store, "HELD_AT_MOST", 200)
    silent, other = Ledger(url, "d", 1.0), Ledger(url, "d", 1.0)
    silent._store._begin(write=True)
    assert other.charge(TENTH, label="a").number == 1
    assert silent.charge(TENTH, label="b").number == 2


def test_a_lock_that_stays_is_told(url: str) -> None:
    with Ledger(url, "d", 1.0) as ledger, psycopg.connect(postgres.schema_of(url)[0]) as session:
        session.execute(f"LOCK TABLE {postgres.schema_of(url)[1]}.ledger IN EXCLUSIVE MODE")
        assert ledger.remaining.eps == 1.0  # readers go on
        with pytest.raises(LedgerError, match=r"stayed locked by another process for 0\.2 s"):
            Ledger.open(url, timeout=0.2)


def test_a_text_that_it_cannot_hold_is_refused(url: str) -> None:
    with Ledger(url, "d", 1.0) as ledger:
        with pytest.raises(LedgerError, match="U\\+0000"):
            ledger.charge(TENTH, label="a\0b")
        assert ledger.remaining.eps == 1.0


GRANTS = (
    "GRANT USAGE ON SCHEMA {0} TO {1}",
    "GRANT SELECT ON ALL TABLES IN SCHEMA {0} TO {1}",
    "GRANT INSERT ON {0}.account, {0}.entry, {0}.stream TO {1}",
    "GRANT UPDATE (state) ON {0}.entry TO {1}",
    "GRANT UPDATE ON {0}.stream TO {1}",
    "GRANT UPDATE ON {0}.ledger TO {1}",
)


def test_those_who_spend_need_the_rights_of_the_page_and_cannot_move_balances(url: str) -> None:
    schema, ada = postgres.schema_of(url)[1], f"ada_{postgres.schema_of(url)[1]}"
    page = (Path(__file__).parents[2] / "docs" / "ledger.md").read_text()
    with Ledger(url, "d", 1.0), postgres.raw(url) as execute:
        execute(f"CREATE ROLE {ada} LOGIN")
        for grant in GRANTS:
            assert grant.format("adult", "ada") + ";" in page
            execute(grant.format(schema, ada))
    theirs = url.replace("keeper@", f"{ada}@")
    with Ledger.open(theirs) as ledger:
        part = ledger.signed("Ada").partition("g", ["a", "b"])["a"]
        with part.charge(TENTH, label="a") as charge:
            charge.rows_read()
        ledger.charge(TENTH, label="b").refund()
        assert ledger.remaining.eps == 0.9
        with pytest.raises(LedgerError, match="this user"):
            ledger.set_quota("Ada", 5.0)
        with pytest.raises(LedgerError, match="this user"):
            ledger.set_domain({"a": (0, 1)})
        assert len(ledger.entries()) == 2
    for statement in ("UPDATE account SET spent_eps = 0", "UPDATE entry SET cost_eps = 0", "DROP TABLE entry CASCADE"):
        with postgres.raw(theirs) as execute, pytest.raises(psycopg.errors.InsufficientPrivilege):
            execute(statement)


def test_a_fork_inherits_no_connection(url: str) -> None:
    with Ledger(url, "d", 1.0) as ledger:
        ledger.charge(TENTH, label="before")
        child = multiprocessing.get_context("fork").Process(target=ledger.charge, args=(TENTH,), kwargs={"label": "in"})
        child.start()
        child.join()
        assert child.exitcode == 0
        ledger.charge(TENTH, label="after")
        assert ledger.entries()["label"].tolist() == ["before", "in", "after"]


def test_a_fit_and_a_stream_are_charged_there(url: str, tmp_path: Path) -> None:
    wages = dp.datasets.load_wages()
    with Ledger(url, "wages", 2.0, domain=wages.domain) as ledger:
        dp.ols("wage ~ female", wages.data, 1.0, domain=wages.domain, ledger=url, analyst="Ada")
        assert ledger.remaining.eps == pytest.approx(1.0)
        assert set(ledger.entries()["state"]) == {"read"}
    with pytest.raises(LedgerError, match="missing"):
        as_ledger(url + "x")


def test_a_password_with_a_stray_percent_sign_is_refused_without_it() -> None:
    with pytest.raises(ArgumentError, match="%25") as caught:
        Ledger("postgresql://k:se%zzcret@h/db", "d", 1.0)
    assert caught.value.__cause__ is None
    assert "cret" not in str(caught.value)
