"""Ledgers that older versions of dpstats have made: brought up to date whole or not at all, and nothing is lost."""

from __future__ import annotations

import multiprocessing
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from dpstats.domain import Domain
from dpstats.errors import BudgetExceeded, LedgerError
from dpstats.ledger import Ledger
from dpstats.ledger import sqlite as store_module
from dpstats.ledger.accounts import limits
from dpstats.ledger.sqlite import UPGRADES
from dpstats.ledger.store import SCHEMA_VERSION
from dpstats.privacy.accounting import EPS_UNIT
from dpstats.privacy.guarantee import Guarantee

OLD = Path(__file__).parent / "ledgers"
TABLES = ("ledger", "account", "entry")


def made_by(version: int, path: Path) -> Path:
    """A ledger of an older version, of eps 1: 0.1 read, 0.2 refunded, 0.3 and 0.25 in two parts."""
    limit = limits("basic", 1.0, 0.0)
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("PRAGMA journal_mode = WAL")
        connection.executescript((OLD / f"version_{version}.sql").read_text())
        connection.execute(
            "INSERT INTO ledger (one, identity, dataset, eps, delta, adjacency, accountant, limit_eps, limit_delta, "
            "limit_rho, version, created) VALUES (1, 'ab', 'old data', 1, 0, 'add_remove', 'basic', ?, ?, ?, '0.0.1', "
            "'2024-01-01')",
            limit,
        )
        connection.executemany(
            "INSERT INTO account (parent, rule, part) VALUES (1, 'region', ?)", [('"north"',), ('"south"',)]
        )
        for account, eps in ((1, 0.1), (1, 0.2), (2, 0.3), (3, 0.25)):
            connection.execute(
                "INSERT INTO entry (account, cost_eps, cost_delta, cost_rho, eps, delta, label, formula, method, "
                "adjacency, basis, version, plan_hash, time, note) VALUES (?, ?, 0, 0, ?, 0, 'a fit of Zoë', 'y ~ x', "
                "'napp', 'add_remove', 'docs/proofs/objective', '0.0.1', 'cd', '2024-01-02T00:00:00+00:00', '')",
                (account, round(eps / float(EPS_UNIT)), eps),
            )
        connection.execute("UPDATE entry SET state = 'read' WHERE id = 1")
        connection.execute("UPDATE entry SET state = 'refunded' WHERE id = 2")
    return path


def contents(path: Path) -> dict[str, list[dict[str, object]]]:
    """Every row of the tables that each version has, by column."""
    with closing(sqlite3.connect(path)) as connection:
        connection.row_factory = sqlite3.Row
        return {name: [dict(row) for row in connection.execute(f"SELECT * FROM {name}")] for name in TABLES}


def version_of(path: Path) -> int:
    with closing(sqlite3.connect(path)) as connection:
        return connection.execute("PRAGMA user_version").fetchone()[0]


@pytest.fixture(params=sorted(UPGRADES))
def old(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    return made_by(request.param, tmp_path / "old.db")


def test_every_older_version_is_kept_as_it_was() -> None:
    assert sorted(UPGRADES) == list(range(1, SCHEMA_VERSION))
    assert sorted(path.name for path in OLD.iterdir()) == [f"version_{version}.sql" for version in sorted(UPGRADES)]


def test_an_upgrade_loses_nothing(old: Path) -> None:
    before = contents(old)
    with Ledger(old, "old data", 1.0) as ledger:
        assert ledger.remaining.eps == 0.6  # 0.1 and the worse part
        assert ledger.entries()["state"].tolist() == ["read", "refunded", "charged", "charged"]
        assert ledger.entries()["analyst"].isna().all()
        assert ledger.unit is None
        assert ledger.domain is None
        assert "old data" in ledger.report()
    assert version_of(old) == SCHEMA_VERSION
    after = contents(old)
    for name in TABLES:
        kept = [{column: row[column] for column in first} for row, first in zip(after[name], before[name], strict=True)]
        assert kept == before[name]


def test_an_upgraded_file_is_like_a_new_one(old: Path, tmp_path: Path) -> None:
    """The same tables, columns, triggers and rules; only the order of columns may differ."""
    Ledger.open(old).close()
    Ledger(tmp_path / "new.db", "d", 1.0).close()

    def shape(path: Path) -> dict[str, object]:
        with closing(sqlite3.connect(path)) as connection:
            names = connection.execute("SELECT type, name FROM sqlite_master WHERE name NOT LIKE 'sqlite%'").fetchall()
            columns = {
                name: sorted(row[1:] for row in connection.execute(f"SELECT * FROM pragma_table_info('{name}')"))
                for kind, name in names
                if kind == "table"
            }
            triggers = connection.execute("SELECT name, sql FROM sqlite_master WHERE type = 'trigger'").fetchall()
        columns = {name: [row[1:] for row in sorted((r[0], *r) for r in rows)] for name, rows in columns.items()}
        return {"names": sorted(names), "columns": columns, "triggers": sorted(triggers)}

    assert shape(old) == shape(tmp_path / "new.db")


@pytest.mark.parametrize("version", [3, 4])
def test_an_upgrade_keeps_the_domain_which_can_then_be_corrected(version: int, tmp_path: Path) -> None:
    path = made_by(version, tmp_path / "old.db")
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("INSERT INTO codebook VALUES (1, ?, 'ab', '2024-01-01')", (Domain(y=(0, 1)).to_json(),))
    with Ledger.open(path) as ledger:
        assert ledger.domain == Domain(y=(0, 1))
        ledger.set_domain({"y": (0, 2)})
        assert ledger.domain == Domain(y=(0, 2))
        assert ledger.remaining.eps == 0.6
    with closing(sqlite3.connect(path)) as connection:
        assert [row[0] for row in connection.execute("SELECT id FROM codebook")] == [1, 2]
        for change in ("UPDATE codebook SET domain = '{}'", "DELETE FROM codebook"):
            with pytest.raises(sqlite3.IntegrityError, match="never"):
                connection.execute(change)


def test_an_upgraded_ledger_is_for_rows(old: Path) -> None:
    with Ledger.open(old) as ledger, pytest.raises(LedgerError, match="for rows"):
        ledger.charge(Guarantee(1e-3, unit="person_id"), label="refused")


def test_an_upgraded_ledger_goes_on(old: Path) -> None:
    with Ledger.open(old) as ledger:
        parts = ledger.partition("region", ["north", "south"])
        parts["south"].signed("Ada").charge(Guarantee(0.05), label="free beside the north").rows_read()
        assert ledger.remaining.eps == 0.6
        ledger.set_quota("Ada", 0.1)
        with pytest.raises(BudgetExceeded, match="quota of analyst 'Ada'"):
            ledger.signed("Ada").charge(Guarantee(0.2), label="a")
        ledger.charge(Guarantee(0.6), label="the rest")
        with pytest.raises(BudgetExceeded):
            ledger.charge(Guarantee(0.01), label="one too many")
    with closing(sqlite3.connect(old)) as connection, pytest.raises(sqlite3.IntegrityError, match="never rewritten"):
        connection.execute("UPDATE entry SET analyst = 'someone else'")


@pytest.mark.parametrize("step", range(6))
def test_an_upgrade_that_breaks_off_changes_nothing(old: Path, step: int, monkeypatch: pytest.MonkeyPatch) -> None:
    before, version = contents(old), version_of(old)
    statements = store_module._statements

    def failing(script: str) -> list[str]:
        whole = list(statements(script))
        return [*whole[:step], "SELECT nothing FROM nowhere", *whole[step:]]

    monkeypatch.setattr(store_module, "_statements", failing)
    with pytest.raises(LedgerError):
        Ledger.open(old)
    assert version_of(old) == version
    assert contents(old) == before
    monkeypatch.undo()
    with Ledger.open(old) as ledger:
        assert ledger.remaining.eps == 0.6


def test_a_ledger_that_was_tampered_with_is_not_upgraded(old: Path) -> None:
    version = version_of(old)
    with closing(sqlite3.connect(old)) as connection, connection:
        connection.execute("UPDATE account SET spent_eps = 0 WHERE id = 1")
    with pytest.raises(LedgerError, match="do not match"):
        Ledger.open(old)
    assert version_of(old) == version


def charge_once(path: Path) -> None:
    with Ledger.open(path) as ledger:
        ledger.charge(Guarantee(0.1), label="a")


@pytest.mark.slow
def test_processes_may_upgrade_at_once(old: Path) -> None:
    """Four processes open the old file at the same time; one upgrades it, and each makes its charge."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["dpstats.ledger"])
    workers = [context.Process(target=charge_once, args=(old,)) for _ in range(4)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert [worker.exitcode for worker in workers] == [0] * 4
    with Ledger.open(old) as ledger:
        assert ledger.remaining.eps == pytest.approx(0.2)
        assert len(ledger.entries()) == 8
